package costmodel_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"servesim/costmodel"
	"servesim/sim"
	"servesim/sim/simtest"
)

// supported returns the setup of a catalogue model without overheads, in BF16
// where the GPU does not compute in the model's numbers.
func supported(m costmodel.Model, g costmodel.GPU) costmodel.Setup {
	for _, p := range []*costmodel.Precision{&m.Precision, &m.MoE.Precision} {
		if g.Peak(p.Compute) == 0 {
			p.Compute = costmodel.BF16
		}
	}
	return costmodel.Setup{Model: m, GPU: g}
}

// No step is faster than reading the weights it uses and the KV cache, or than
// its operations at the peak rate: 15.0 GB over 3.35 TB/s are 4.48 ms for
// Llama-3.1-8B on H100. A model with two feed-forward matrices or without LM
// head stays below.
func TestFloor(t *testing.T) {
	s := setup(t, "Llama-3.1-8B", "H100")
	s.Efficiency = costmodel.Efficiency{}
	got := build(t, s).StepTime(sim.Batch{Decodes: 1, Positions: 1}).Seconds() * 1e3
	if fmt.Sprintf("%.2f", got) != "4.48" {
		t.Errorf("one decode without context takes %.3f ms, want 4.48", got)
	}

	for _, model := range costmodel.Models() {
		for _, gpu := range costmodel.GPUs() {
			s := supported(model, gpu)
			model := s.Model
			ideal := build(t, s)
			for _, n := range []int{1, 8, 64, 256, 1024, 2000} {
				for _, context := range []int{0, 1, 1000, 100_000} {
					batch := sim.Batch{Decodes: n, Positions: n, Context: n * context}
					bytes := floorBytes(model, n) + float64(n)*model.KVBytes(context+1)
					flops := 2 * float64(n) * float64(model.ActiveParams()-tables(model)*model.Vocab*model.Hidden-(2*model.Layers+1)*model.Hidden)
					rate := max(gpu.Rate, gpu.FP8, gpu.FP4)
					floor := max(bytes/gpu.Bandwidth, flops/rate)
					if step := ideal.StepTime(batch); step.Seconds() < floor-1e-9 {
						t.Errorf("%s on %s, %d×%d: %v, floor %v s", model.Name, gpu.Name, n, context, step, floor)
					}
				}
			}
			fitted, err := costmodel.FittedEfficiency(gpu.Name)
			if err != nil {
				continue
			}
			s.Efficiency = fitted
			real := build(t, s)
			for _, n := range []int{1, 64, 1024} {
				batch := sim.Batch{Decodes: n, Positions: n, Context: n * 1000}
				if real.StepTime(batch) <= ideal.StepTime(batch) {
					t.Errorf("%s on %s, %d: fitted %v, ideal %v", model.Name, gpu.Name, n, real.StepTime(batch), ideal.StepTime(batch))
				}
			}
		}
	}
}

// floorBytes are the weights that n positions cannot do without: of the
// experts, as many as one position picks.
func floorBytes(m costmodel.Model, n int) float64 {
	experts := m.MoE.Layers * m.MoE.PerPosition * 3 * m.Hidden * m.MoE.Inner
	others := m.ActiveParams() - experts - tables(m)*m.Vocab*m.Hidden - (2*m.Layers+1)*m.Hidden
	shared := m.MoE.Layers * 3 * m.Hidden * m.MoE.Shared
	return float64(others-shared)*m.Precision.Weights.BytesPerValue() + float64(experts+shared)*m.MoE.Precision.Weights.BytesPerValue() +
		2*float64(m.Vocab*m.Hidden)
}

func tables(m costmodel.Model) int {
	if m.TiedEmbeddings {
		return 1
	}
	return 2
}

// FLOPs do not depend on how a prompt is cut, on any model.
func TestFLOPsAreAdditive(t *testing.T) {
	gpu, err := costmodel.LookupGPU("B200")
	if err != nil {
		t.Fatal(err)
	}
	const prompt = 3000
	for _, model := range costmodel.Models() {
		m := build(t, supported(model, gpu))
		whole := m.Breakdown(sim.Batch{Prefills: []sim.Chunk{{Tokens: prompt, Last: true}}})
		for _, size := range []int{1, 7, 512, 1999, 2999} {
			sum := 0.0
			for at := 0; at < prompt; at += size {
				tokens := min(size, prompt-at)
				b := m.Breakdown(sim.Batch{Prefills: []sim.Chunk{{Tokens: tokens, Context: at, Last: at+tokens == prompt}}})
				sum += b.FLOPs()
			}
			if !near(sum, whole.FLOPs()) {
				t.Errorf("%s, chunks of %d: %v FLOPs, whole %v", model.Name, size, sum, whole.FLOPs())
			}
		}
		// Two chunks of one step count as much as the same chunks apart.
		a, b := sim.Chunk{Tokens: 30, Context: 200}, sim.Chunk{Tokens: 500}
		apart := m.Breakdown(sim.Batch{Prefills: []sim.Chunk{a}})
		other := m.Breakdown(sim.Batch{Prefills: []sim.Chunk{b}})
		both := m.Breakdown(sim.Batch{Prefills: []sim.Chunk{a, b}})
		if !near(both.FLOPs(), apart.FLOPs()+other.FLOPs()) {
			t.Errorf("%s: together %v FLOPs, apart %v", model.Name, both.FLOPs(), apart.FLOPs()+other.FLOPs())
		}
	}
	// 4·4096 FLOPs a pair in 32 layers, 3000·3001/2 pairs.
	whole := transformer(t, "Llama-3.1-8B", "H100").Breakdown(sim.Batch{Prefills: []sim.Chunk{{Tokens: prompt, Last: true}}})
	if want := 4.0 * 4096 * 32 * 4_501_500; whole[costmodel.PrefillAttention].FLOPs != want {
		t.Errorf("attention of %d tokens: %v FLOPs, want %v", prompt, whole[costmodel.PrefillAttention].FLOPs, want)
	}
}

// kinds are setups with every kind of layer, layout and norm.
func kinds(t testing.TB) map[string]costmodel.Setup {
	out := map[string]costmodel.Setup{}
	add := func(name, model, gpu string, edit func(*costmodel.Setup)) {
		s := setup(t, model, gpu)
		edit(&s)
		out[name] = s
	}
	smooth := func(p float64) func(*costmodel.Setup) {
		return func(s *costmodel.Setup) {
			e := &s.Efficiency
			e.Measured = nil
			for _, k := range []*costmodel.Kernel{&e.Matrix, &e.Experts, &e.PrefillAttention, &e.DecodeAttention, &e.Elementwise} {
				k.Smooth = p
			}
			e.Narrow = e.Matrix
			e.DecodeAttention.Sequence = time.Microsecond
			e.PrefillAttention.Causal = 0.3
		}
	}
	add("dense", "Qwen3-32B", "H100", func(*costmodel.Setup) {})
	add("four GPUs", "Qwen3-32B", "H100", func(s *costmodel.Setup) { s.TensorParallel = 4 })
	add("p 2", "Llama-3.1-70B", "A100-80", smooth(2))
	add("p 2.17", "Llama-3.1-8B", "B200", smooth(2.17))
	add("window", "gpt-oss-20b", "H100", smooth(2))
	add("window on 4 GPUs", "Gemma-3-27B", "H100", func(s *costmodel.Setup) { s.TensorParallel = 4 })
	add("latent", "DeepSeek-V3", "H200", func(s *costmodel.Setup) {
		smooth(2)(s)
		s.TensorParallel, s.DataParallel, s.ExpertParallel = 1, 8, 8
	})
	add("all to all", "DeepSeek-V3", "H200", func(s *costmodel.Setup) {
		s.TensorParallel, s.DataParallel, s.ExpertParallel, s.Exchange = 2, 4, 8, costmodel.AllToAll
	})
	add("skewed", "Qwen3-30B-A3B", "H100", func(s *costmodel.Setup) {
		s.TensorParallel, s.ExpertParallel = 2, 2
		q, err := costmodel.PowerLaw(128, 8, 1.2, 100)
		if err != nil {
			t.Fatal(err)
		}
		s.Popularity = q
	})
	add("stages", "Llama-3.1-405B", "H100", func(s *costmodel.Setup) { s.TensorParallel, s.PipelineParallel = 8, 2 })
	add("overlapped", "Llama-3.1-8B", "H100", func(s *costmodel.Setup) { s.Efficiency.Host.Overlapped = true })
	add("FP8 cache", "Llama-3.1-8B", "H100", func(s *costmodel.Setup) { s.Model.KV = costmodel.Format{ValueBytes: 1} })
	return out
}

// randomBatch has decodes, chunks and padding of any size.
func randomBatch(rng *rand.Rand) sim.Batch {
	n := 1 + rng.IntN(300)
	return sim.Batch{Decodes: n, Positions: n + rng.IntN(2)*rng.IntN(3*n), Context: rng.IntN(1 << 20),
		Prefills: []sim.Chunk{{Tokens: 1 + rng.IntN(4000), Context: rng.IntN(20000)}},
		Padding:  sim.Padding{Rows: rng.IntN(50), PromptTokens: rng.IntN(500)}}
}

// More work never takes less time.
func TestMonotone(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, s := range kinds(t) {
		m := build(t, s)
		for range 100 {
			b := randomBatch(rng)
			base := m.StepTime(b)
			by := 1 + rng.IntN(1000)
			for _, g := range []struct {
				name string
				grow func(*sim.Batch)
			}{
				{"sequence", func(b *sim.Batch) { // like the others
					b.Context += (b.Context + b.Decodes - 1) / b.Decodes
					b.Positions += (b.Positions + b.Decodes - 1) / b.Decodes
					b.Decodes++
				}},
				{"positions", func(b *sim.Batch) { b.Positions += by }},
				{"context", func(b *sim.Batch) { b.Context += by }},
				{"chunk tokens", func(b *sim.Batch) { b.Prefills[0].Tokens += by }},
				{"chunk context", func(b *sim.Batch) { b.Prefills[0].Context += by }},
				{"last", func(b *sim.Batch) { b.Prefills[0].Last = true }},
				{"chunk", func(b *sim.Batch) { b.Prefills = append(b.Prefills, sim.Chunk{Tokens: by}) }},
				{"padding rows", func(b *sim.Batch) { b.Padding.Rows += by }},
				{"padding prompt", func(b *sim.Batch) { b.Padding.PromptTokens += by }},
			} {
				more := b
				more.Prefills = append([]sim.Chunk(nil), b.Prefills...)
				g.grow(&more)
				if got := m.StepTime(more); got < base {
					t.Fatalf("%s: more %s: %v, before %v; batch %+v", name, g.name, got, base, b)
				}
			}
		}
	}
}

func TestConformance(t *testing.T) {
	for name, s := range kinds(t) {
		t.Run(name, func(t *testing.T) { simtest.TestCostModel(t, build(t, s)) })
	}
}

// Explain and Breakdown add up to the step, to the nanosecond, at every size
// around the end of the look-up tables.
func TestExplainAddsUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var explainer sim.Explainer
	for name, s := range kinds(t) {
		m := build(t, s)
		explainer = m
		batches := []sim.Batch{{}, {Padding: sim.Padding{Rows: 1}}, {Padding: sim.Padding{PromptTokens: 1}}}
		for _, n := range []int{1, 2, 511, 512, 513, 5000} {
			batches = append(batches, sim.Batch{Decodes: n, Positions: n, Context: 1000 * n},
				sim.Batch{Prefills: []sim.Chunk{{Tokens: n, Last: true}}})
		}
		for range 100 {
			batches = append(batches, randomBatch(rng))
		}
		for _, b := range batches {
			cost, step, sum := m.Breakdown(b), m.StepTime(b), 0.0
			if got := sim.Round(cost.Seconds()); got != step {
				t.Errorf("%s: the parts add up to %v, the step takes %v; batch %+v", name, got, step, b)
			}
			for _, o := range explainer.Explain(b, nil) {
				sum += o.Seconds
			}
			if got := sim.Round(sum); got-step > 1 || step-got > 1 {
				t.Errorf("%s: explained %v, the step takes %v; batch %+v", name, got, step, b)
			}
		}
	}
}

// Tensor parallelism never beats its communication, nor an even division of
// the work.
func TestTensorParallelLimits(t *testing.T) {
	for _, model := range []string{"Llama-3.1-70B", "Qwen3-30B-A3B", "gpt-oss-120b", "DeepSeek-V3"} {
		s := setup(t, model, "H200")
		s.Efficiency = costmodel.Efficiency{}
		alone := build(t, s)
		for _, degree := range []int{2, 4, 8, 16} {
			s.TensorParallel = degree
			m := build(t, s)
			for _, b := range []sim.Batch{{Decodes: 1, Positions: 1}, {Decodes: 256, Positions: 256, Context: 1e6},
				{Prefills: []sim.Chunk{{Tokens: 8192, Last: true}}}} {
				link := 450e9
				if degree > 8 {
					link = 50e9
				}
				positions := float64(b.Positions + b.PrefillTokens())
				sent := 2 * float64(2*s.Model.Layers+1) * positions * float64(2*s.Model.Hidden) * float64(degree-1) / float64(degree)
				step := m.StepTime(b).Seconds()
				if step < sent/link {
					t.Errorf("%s on %d GPUs: %v s, its all-reduces alone take %v; %+v", model, degree, step, sent/link, b)
				}
				if even := alone.StepTime(b).Seconds() / float64(degree); step < even {
					t.Errorf("%s on %d GPUs: %v s, an even division takes %v; %+v", model, degree, step, even, b)
				}
			}
		}
	}
}

// A host that is overlapped hides behind the device, or the device behind it.
func TestOverlappedHost(t *testing.T) {
	s := tinySetup()
	b := sim.Batch{Decodes: 2, Positions: 2}
	device := build(t, s).StepTime(b)
	s.Efficiency.Host = costmodel.HostTime{Step: time.Second, Sequence: time.Millisecond}
	if got, want := build(t, s).StepTime(b), device+time.Second+2*time.Millisecond; got != want {
		t.Errorf("one after the other: %v, want %v", got, want)
	}
	s.Efficiency.Host.Overlapped = true
	if got := build(t, s).StepTime(b); got != device {
		t.Errorf("a short host: %v, want %v", got, device)
	}
	s.Efficiency.Host.Step = time.Hour
	if got, want := build(t, s).StepTime(b), time.Hour+2*time.Millisecond; got != want {
		t.Errorf("a long host: %v, want %v", got, want)
	}
}
