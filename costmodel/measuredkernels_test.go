package costmodel_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"servesim/costmodel"
	"servesim/sim"
)

// started is a fit whose coefficients are where the search begins, but for
// some.
func started(t testing.TB, form costmodel.Form, but map[string]float64) *costmodel.Calibration {
	t.Helper()
	var values []float64
	for _, p := range form.Parameters {
		x, ok := but[p.Name]
		if !ok {
			x = p.Start
		}
		values = append(values, x)
	}
	c, err := costmodel.NewCalibration(form, values, given)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// measuredSetup is the tiny model with a fit for everything, on a GPU fast
// enough for them to count.
func measuredSetup(t testing.TB) (costmodel.Setup, *costmodel.MeasuredKernels) {
	s := tinySetup()
	s.GPU = costmodel.GPU{Name: "fast", Rate: 1e9, FP8: 2e9, Bandwidth: 1e8, Memory: 1e6, Link: 1e8, Processors: 4}
	m := &costmodel.MeasuredKernels{
		Products: map[costmodel.Precision]*costmodel.Calibration{
			{}:               started(t, costmodel.MatrixForm(s.GPU, costmodel.Precision{}), nil),
			precision("fp8"): started(t, costmodel.MatrixForm(s.GPU, precision("fp8")), map[string]float64{"floor": 9e-6}),
		},
		Attention: costmodel.AttentionKernels{
			Prefill: started(t, costmodel.PrefillForm(s.GPU, 2), nil),
			Decode:  started(t, costmodel.DecodeForm(s.GPU, 2), nil),
		},
		Elementwise: 3 * time.Microsecond,
	}
	s.Efficiency.Measured = m
	return s, m
}

// Every operator takes what its fit says of the shape that it has on one GPU,
// without the cache of the device.
func TestMeasuredBreakdown(t *testing.T) {
	s, m := measuredSetup(t)
	product := func(c *costmodel.Calibration, rows, columns, inner float64) float64 {
		return c.Cold().Seconds(rows, columns, inner)
	}
	prompt := func(positions float64) float64 { return m.Attention.Prefill.Cold().Seconds(1, 4, 2, 4, positions, 0) }
	decode := func(sequences, heads, context float64) float64 {
		return m.Attention.Decode.Cold().Seconds(sequences, heads, 2, 4, context, 0)
	}
	bf16 := m.Products[costmodel.Precision{}]
	start := m.Attention.Prefill.Coefficients[0].Value
	share := func(name string) float64 {
		for _, k := range m.Attention.Prefill.Coefficients {
			if k.Name == name {
				return k.Value
			}
		}
		t.Fatalf("no %s", name)
		return 0
	}
	// Behind 5 tokens: 3·5 pairs of 64 FLOPs in each layer, in tiles of 128
	// positions for 4 heads, one on each of 4 processors.
	pairs := 15 * 64 / (share("compute") * 1e9)
	cached := 1.4 * pairs * 128 / 3
	vectors := func(launches, bytes float64) float64 { return math.Hypot(launches*3e-6, bytes/1e8) }
	for _, c := range []struct {
		name  string
		batch sim.Batch
		want  map[costmodel.Op]float64
	}{
		{"mixed", mixed, map[costmodel.Op]float64{
			costmodel.QKV: 2 * product(bf16, 5, 32, 8), costmodel.Output: 2 * product(bf16, 5, 8, 16),
			costmodel.GateUp: 2 * product(bf16, 5, 32, 8), costmodel.Down: 2 * product(bf16, 5, 8, 16), costmodel.LMHead: product(bf16, 3, 10, 8),
			costmodel.PrefillAttention: 2 * (prompt(3) + cached), costmodel.DecodeAttention: 2 * decode(2, 4, 6),
			costmodel.Embedding: vectors(1, 160), costmodel.Elementwise: vectors(8, 2880), costmodel.Sampling: vectors(5, 180),
		}},
		{"two chunks have one floor and the longer chain", sim.Batch{Prefills: []sim.Chunk{{Tokens: 3}, {Tokens: 4}}}, map[costmodel.Op]float64{
			costmodel.PrefillAttention: 2 * (prompt(3) + prompt(4) - start - share("chain")*3*4/128),
		}},
		{"verified drafts are more heads", sim.Batch{Decodes: 2, Positions: 6, Context: 10}, map[costmodel.Op]float64{
			costmodel.DecodeAttention: 2 * decode(2, 12, 8),
		}},
		{"padding sees itself", sim.Batch{Decodes: 2, Positions: 2, Context: 10, Padding: sim.Padding{Rows: 3}}, map[costmodel.Op]float64{
			costmodel.DecodeAttention: 2 * (decode(2, 4, 6) + decode(5, 4, 1) - decode(2, 4, 1)),
		}},
	} {
		got := build(t, s).Breakdown(c.batch)
		for op, want := range c.want {
			if !near(got[op].Seconds, want) {
				t.Errorf("%s: %v takes %v s, want %v", c.name, op, got[op].Seconds, want)
			}
		}
	}
	for _, c := range []struct {
		name       string
		processors int
		chunks     []sim.Chunk
		want       float64
	}{
		{"two blocks share the keys of a tile where others would idle", 100, []sim.Chunk{{Tokens: 3, Context: 5}}, 0.58 * pairs * 128 / 3 * 100 / 4},
		{"blocks that only fill processors", 100, []sim.Chunk{{Tokens: 3, Context: 5}, {Tokens: 128 * 20}}, pairs * 128 / 3 * 100 / 4},
		{"all pairs where nobody knows the processors", 0, []sim.Chunk{{Tokens: 3, Context: 5}}, max(pairs, 5*32/(share("memory")*1e8))},
		{"one position reads its keys", 100, []sim.Chunk{{Tokens: 1, Context: 6000}}, 6000 * 32 / (share("memory") * 1e8)},
	} {
		s.GPU.Processors = c.processors
		fresh := slices.Clone(c.chunks)
		fresh[0].Context = 0
		m := build(t, s)
		with, without := m.Breakdown(sim.Batch{Prefills: c.chunks}), m.Breakdown(sim.Batch{Prefills: fresh})
		if got := with[costmodel.PrefillAttention].Seconds - without[costmodel.PrefillAttention].Seconds; math.Abs(got/(2*c.want)-1) > 1e-6 {
			t.Errorf("%s: %v s, want %v", c.name, got, 2*c.want)
		}
	}
	s.GPU.Processors = 4

	// Beside prompts each of 4 heads reads its keys of 2·4 values by itself, at a
	// thousandth of the bandwidth: 2 sequences with 6 tokens in 2 layers.
	m.Mixed = 1e-3
	mixedStep, alone := build(t, s).Breakdown(mixed), build(t, s).Breakdown(sim.Batch{Decodes: 2, Positions: 2, Context: 10})
	if got, want := mixedStep[costmodel.DecodeAttention].Seconds, 2*2*6*4*2*4*2/(1e-3*1e8); !near(got, want) {
		t.Errorf("decodes beside prompts take %v s, want %v", got, want)
	}
	if got, want := alone[costmodel.DecodeAttention].Seconds, 2*decode(2, 4, 6); !near(got, want) {
		t.Errorf("decodes alone take %v s, want %v", got, want)
	}
	m.Mixed = 0
	s.Model.Precision = precision("fp8")
	got := build(t, s).Breakdown(mixed)
	if want := 2 * product(m.Products[precision("fp8")], 5, 32, 8); !near(got[costmodel.QKV].Seconds, want) {
		t.Errorf("FP8: %v s, want %v", got[costmodel.QKV].Seconds, want)
	}
	if want := product(bf16, 3, 10, 8); !near(got[costmodel.LMHead].Seconds, want) {
		t.Errorf("the LM head is BF16: %v s, want %v", got[costmodel.LMHead].Seconds, want)
	}
	if want := vectors(2, 2880); !near(got[costmodel.Elementwise].Seconds, want) {
		t.Errorf("FP8 products convert activations: element-wise kernels take %v s, want %v", got[costmodel.Elementwise].Seconds, want)
	}
}

// A class without a fit keeps its Kernel, and of several fits the closest
// counts.
func TestMeasuredKernelsAreOptional(t *testing.T) {
	s, m := measuredSetup(t)
	slow := costmodel.Kernel{Launch: time.Second}
	s.Efficiency.Matrix, s.Efficiency.DecodeAttention, s.Efficiency.PrefillAttention = slow, slow, slow
	m.Attention.Decode, m.Products[costmodel.Precision{}] = nil, nil
	got := build(t, s).Breakdown(mixed)
	for op, want := range map[costmodel.Op]bool{costmodel.QKV: true, costmodel.LMHead: true, costmodel.DecodeAttention: true, costmodel.PrefillAttention: false} {
		if slow := got[op].Seconds > 0.9; slow != want {
			t.Errorf("%v takes %v s", op, got[op].Seconds)
		}
	}
	wide := started(t, costmodel.DecodeForm(s.GPU, 2), map[string]float64{"floor": 2e-5})
	narrow := started(t, costmodel.DecodeForm(s.GPU, 1), map[string]float64{"floor": 3e-5})
	window := started(t, costmodel.DecodeForm(s.GPU, 2), map[string]float64{"floor": 4e-5})
	both := started(t, costmodel.DecodeForm(s.GPU, 1), map[string]float64{"floor": 5e-5})
	for _, c := range []struct {
		name         string
		wide, narrow costmodel.AttentionKernels
		cache        float64
		windowed     bool
		want         float64 // floor
	}{
		{"BF16", costmodel.AttentionKernels{Decode: wide, WindowDecode: window}, costmodel.AttentionKernels{Decode: narrow}, 2, false, 2e-5},
		{"FP8", costmodel.AttentionKernels{Decode: wide}, costmodel.AttentionKernels{Decode: narrow, WindowDecode: both}, 1, false, 3e-5},
		{"window", costmodel.AttentionKernels{Decode: wide, WindowDecode: window}, costmodel.AttentionKernels{Decode: narrow, WindowDecode: both}, 2, true, 4e-5},
		{"window, FP8", costmodel.AttentionKernels{Decode: wide, WindowDecode: window}, costmodel.AttentionKernels{Decode: narrow, WindowDecode: both}, 1, true, 5e-5},
		{"no narrow one", costmodel.AttentionKernels{Decode: wide}, costmodel.AttentionKernels{}, 1, false, 2e-5},
		{"no windowed one", costmodel.AttentionKernels{Decode: wide}, costmodel.AttentionKernels{}, 2, true, 2e-5},
		{"a window counts for more", costmodel.AttentionKernels{Decode: wide, WindowDecode: window}, costmodel.AttentionKernels{Decode: narrow}, 1, true, 4e-5},
	} {
		s, m := measuredSetup(t)
		m.Attention, m.NarrowAttention = c.wide, c.narrow
		s.Model.KV = costmodel.Format{ValueBytes: c.cache}
		if c.windowed {
			s.Model.Window.Layers, s.Model.Window.Tokens = 2, 4096
		}
		got := build(t, s).Breakdown(sim.Batch{Decodes: 1, Positions: 1})[costmodel.DecodeAttention].Seconds / 2
		if got < c.want || got > c.want+9e-6 {
			t.Errorf("%s: %v s, want a floor of %v", c.name, got, c.want)
		}
	}
}

// Shares above those of the datasheet come from a cache that an engine does not
// have.
func TestMeasuredSharesEndAtOne(t *testing.T) {
	s, m := measuredSetup(t)
	step := func(share float64) time.Duration {
		m.Products[costmodel.Precision{}] = started(t, costmodel.MatrixForm(s.GPU, costmodel.Precision{}), map[string]float64{"memory": share})
		return build(t, s).StepTime(mixed)
	}
	if a, b := step(1), step(1.15); a != b {
		t.Errorf("%v with all of the bandwidth, %v with more", a, b)
	}
	if a, b := step(1), step(0.5); a >= b {
		t.Errorf("%v with all of the bandwidth, %v with half", a, b)
	}
}

func TestMeasuredKernelsRefuse(t *testing.T) {
	s, _ := measuredSetup(t)
	matrix := started(t, costmodel.MatrixForm(s.GPU, costmodel.Precision{}), nil)
	decode := started(t, costmodel.DecodeForm(s.GPU, 2), nil)
	for _, c := range []struct {
		edit func(*costmodel.MeasuredKernels)
		want string
	}{
		{func(m *costmodel.MeasuredKernels) { m.Products[precision("fp8")] = decode },
			`costmodel: Efficiency.Measured.Products[fp8] is a fit of "decode attention", want "matrix product"`},
		{func(m *costmodel.MeasuredKernels) {
			m.Experts = map[costmodel.Precision]*costmodel.Calibration{{}: matrix}
		},
			`costmodel: Efficiency.Measured.Experts[bfloat16] is a fit of "matrix product", want "experts"`},
		{func(m *costmodel.MeasuredKernels) { m.NarrowAttention.WindowPrefill = decode },
			`costmodel: Efficiency.Measured.NarrowAttention.WindowPrefill is a fit of "decode attention", want "prefill attention"`},
		{func(m *costmodel.MeasuredKernels) { m.Elementwise = -1 }, "costmodel: Efficiency.Measured.Elementwise is -1ns"},
		{func(m *costmodel.MeasuredKernels) { m.Mixed = math.Inf(1) }, "costmodel: Efficiency.Measured.Mixed is +Inf"},
		{func(m *costmodel.MeasuredKernels) {
			m.Products[precision("fp8")] = m.Products[costmodel.Precision{}]
		}, "costmodel: Efficiency.Measured.Products[fp8] has 11 coefficients, want 13"}, // those of another precision
		{func(m *costmodel.MeasuredKernels) {
			unknown := *m.Attention.Prefill
			unknown.From.Kernels = ""
			m.Attention.Prefill = &unknown
		}, "costmodel: Provenance.Kernels is missing: a measurement belongs to a set-up: Efficiency.Measured.Attention.Prefill"},
	} {
		s, m := measuredSetup(t)
		c.edit(m)
		if _, err := costmodel.NewTransformer(s); fmt.Sprint(err) != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

func TestNewCalibrationRefuses(t *testing.T) {
	form := costmodel.KernelForm(costmodel.GPU{Rate: 1, Bandwidth: 1})
	for _, c := range []struct {
		values []float64
		from   costmodel.Provenance
		want   string
	}{
		{[]float64{1e-5, 0.5, 0.5, 2}, costmodel.Provenance{}, "costmodel: Provenance.Platform is missing: a measurement belongs to a set-up"},
		{[]float64{1e-5, 0.5, 0.5}, given, "costmodel: 3 coefficients for the 4 parameters of kernel"},
		{[]float64{1e-5, 7, 0.5, 2}, given, "costmodel: compute of kernel is 7, not in [0.05, 1]"},
		{[]float64{1e-5, 0.5, math.NaN(), 2}, given, "costmodel: memory of kernel is NaN, not in [0.05, 1.2]"},
	} {
		if _, err := costmodel.NewCalibration(form, c.values, c.from); fmt.Sprint(err) != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

// The collectives of the catalogue never get faster with size, and belong to
// the links that they were measured on.
func TestMeasuredCollectives(t *testing.T) {
	for _, name := range []string{"A100-80", "B200", "H100", "L40S", "RTX-PRO-6000"} {
		e, err := costmodel.FittedEfficiency(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, curves := range []map[int]costmodel.Curve{e.Measured.AllReduce, e.Measured.Gather} {
			for _, gpus := range []int{2, 4, 8} {
				last := 0.0
				for bytes := 256.0; bytes < 1e10; bytes *= 1.1 {
					now := curves[gpus].Seconds(bytes)
					if !(now >= last) || now < 1e-6 {
						t.Fatalf("%s, %d GPUs: %v s for %v bytes, %v before", name, gpus, now, bytes, last)
					}
					last = now
				}
			}
		}
	}
	for name, want := range map[string]bool{"GB200": true, "H200": true, "H800": false, "A100-80-PCIe": false} {
		e, err := costmodel.FittedEfficiency(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Measured.AllReduce[2] != nil; got != want {
			t.Errorf("%s has measured collectives: %t", name, got)
		}
	}
	s := setup(t, "Llama-3.1-70B", "H100")
	s.TensorParallel = 4
	cost := build(t, s).Breakdown(sim.Batch{Decodes: 64, Positions: 64})
	if want := 161 * s.Efficiency.Measured.AllReduce[4].Seconds(64*2*8192); !near(cost[costmodel.AllReduce].Seconds, want) {
		t.Errorf("all-reduces take %v s, want %v", cost[costmodel.AllReduce].Seconds, want)
	}
	s = setup(t, "Qwen3-30B-A3B", "H100")
	s.DataParallel = 2
	cost = build(t, s).Breakdown(sim.Batch{Decodes: 64, Positions: 64})
	if want := 48 * 2 * s.Efficiency.Measured.Gather[2].Seconds(128*2*2048); !near(cost[costmodel.Dispatch].Seconds, want) {
		t.Errorf("gathering and scattering take %v s, want %v", cost[costmodel.Dispatch].Seconds, want)
	}
}

// The routed experts of the busiest rank, with what passes through the kernels
// around the products: picks of all ranks, unless they are sorted out before.
func TestMeasuredExperts(t *testing.T) {
	s, m := measuredSetup(t)
	fit := started(t, costmodel.ExpertsForm(s.GPU, costmodel.Precision{}), map[string]float64{"skipped": 0.5})
	m.Experts = map[costmodel.Precision]*costmodel.Calibration{{}: fit}
	s.Model.MoE = costmodel.MoE{Layers: 2, Experts: 8, PerPosition: 2, Inner: 12}
	s.TensorParallel, s.DataParallel, s.ExpertParallel = 2, 2, 2
	e := costmodel.RoutedExperts{Count: 8, PerPosition: 2, Hidden: 8, Inner: 12, Ranks: 2, Shards: 2}
	for exchange, picks := range map[costmodel.Exchange]float64{costmodel.GatherScatter: 20, costmodel.AllToAll: e.Picks(10)} {
		s.Exchange = exchange
		got := build(t, s).Breakdown(mixed)[costmodel.Routed].Seconds
		if want := 2 * fit.Cold().Seconds(e.Picks(10), e.Distinct(10), picks, 3, 8, 6, e.Tile(10), 0); !near(got, want) {
			t.Errorf("exchange %d: %v s, want %v", exchange, got, want)
		}
	}
}

// Windows bound what prompts and decodes see, and a precision without a fit
// takes one that computes alike, with its own bytes.
func TestMeasuredWindowsAndFormats(t *testing.T) {
	s, m := measuredSetup(t)
	s.Model.Window.Layers, s.Model.Window.Tokens = 2, 2
	got := build(t, s).Breakdown(sim.Batch{Decodes: 2, Positions: 2, Context: 10, Prefills: []sim.Chunk{{Tokens: 3}}})
	if want := 2 * m.Attention.Prefill.Cold().Seconds(1, 4, 2, 4, 3, 2); !near(got[costmodel.PrefillAttention].Seconds, want) {
		t.Errorf("prompts in a window: %v s, want %v", got[costmodel.PrefillAttention].Seconds, want)
	}
	if want := 2 * m.Attention.Decode.Cold().Seconds(2, 4, 2, 4, 6, 2); !near(got[costmodel.DecodeAttention].Seconds, want) {
		t.Errorf("decodes in a window: %v s, want %v", got[costmodel.DecodeAttention].Seconds, want)
	}
	for format, of := range map[string]string{"fp8_block": "fp8", "int4_wo": "bfloat16"} {
		s, m := measuredSetup(t)
		s.Model.Precision = precision(format)
		form := costmodel.MatrixForm(s.GPU, precision(format))
		want, err := costmodel.NewCalibration(form, m.Products[precision(of)].Values(), given)
		if err != nil {
			t.Fatal(err)
		}
		got := build(t, s).Breakdown(mixed)[costmodel.QKV].Seconds
		if want := 2 * want.Cold().Seconds(5, 32, 8); !near(got, want) {
			t.Errorf("%s: %v s, want %v", format, got, want)
		}
	}
}

// A prompt in chunks does not attend faster than in one piece, whatever the
// head dimension.
func TestMeasuredChunksAreNotFaster(t *testing.T) {
	for model, gpu := range map[string]string{"gpt-oss-120b": "B200", "Gemma-3-27B": "H100", "Qwen3-32B": "H100"} {
		m := build(t, setup(t, model, gpu))
		whole := m.Breakdown(sim.Batch{Prefills: []sim.Chunk{{Tokens: 32768}}})[costmodel.PrefillAttention].Seconds
		chunks := 0.0
		for at := 0; at < 32768; at += 4096 {
			chunks += m.Breakdown(sim.Batch{Prefills: []sim.Chunk{{Tokens: 4096, Context: at}}})[costmodel.PrefillAttention].Seconds
		}
		if chunks < whole {
			t.Errorf("%s: %v s in chunks, %v in one piece", model, chunks, whole)
		}
	}
}

// Curves of one node say nothing of others.
func TestMeasuredCollectivesEndAtTheNode(t *testing.T) {
	s := setup(t, "Qwen3-235B-A22B", "H100")
	s.TensorParallel, s.DataParallel, s.ExpertParallel = 4, 4, 16
	cost := build(t, s).Breakdown(sim.Batch{Decodes: 256, Positions: 256})
	if least := cost[costmodel.Dispatch].Bytes / s.GPU.Network * (1 - 1e-9); cost[costmodel.Dispatch].Seconds < least {
		t.Errorf("gathering between nodes takes %v s, the network %v", cost[costmodel.Dispatch].Seconds, least)
	}
	e := s.Efficiency.Measured
	if got, want := e.Gather[8].Seconds(1<<26), 3.2e-5+7./8*(1<<26)/3.4e11; math.Abs(got/want-1) > 0.05 {
		t.Errorf("gathering 64 MiB on 8 H100 takes %v s, want about %v", got, want)
	}
}

// Verified drafts multiply: with enough rows a decode waits for its operations,
// which its form does not count.
func TestMeasuredDecodesWaitForOperations(t *testing.T) {
	s, _ := measuredSetup(t)
	cost := build(t, s).Breakdown(sim.Batch{Decodes: 1, Positions: 4000, Context: 1e6})[costmodel.DecodeAttention]
	if least := cost.FLOPs / s.GPU.Rate * (1 - 1e-9); cost.Seconds < least {
		t.Errorf("%v s for %v FLOPs, which take %v", cost.Seconds, cost.FLOPs, least)
	}
}
