package costmodel_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"servesim/costmodel"
	"servesim/sim"

	"github.com/google/go-cmp/cmp"
)

// tiny is small enough to count by hand. Its queries are 16 wide, keys and
// values 8 each; Hidden/Heads would give half of that.
var tiny = costmodel.Model{Name: "tiny", Layers: 2, Hidden: 8, Intermediate: 16, Heads: 4, KVHeads: 2, HeadDim: 4, Vocab: 10}

// mixed decodes two sequences that hold 10 tokens and finishes a prompt with
// 3 positions behind 5: 5 positions, 3 samples.
var mixed = sim.Batch{Decodes: 2, Positions: 2, Context: 10, Prefills: []sim.Chunk{{Tokens: 3, Context: 5, Last: true}}}

func tinySetup() costmodel.Setup {
	return costmodel.Setup{Model: tiny, GPU: costmodel.GPU{Name: "slow", Rate: 1000, Bandwidth: 1000, Memory: 1e6, Link: 500}}
}

// The elements of both layers: QKV 2·8·32 = 512, output 2·16·8 = 256, gate
// and up 2·8·32 = 512, down 2·16·8 = 256; LM head 80. Pairs: decode 10 + 2,
// prefill 3·5 + 6. One token is 2·2·2·4 values = 64 bytes of KV.
func TestBreakdownByHand(t *testing.T) {
	const memory, compute = costmodel.MemoryBound, costmodel.ComputeBound
	want := costmodel.Breakdown{
		costmodel.QKV:              {FLOPs: 5120, Bytes: 1024 + 800, Seconds: 5.12, Bound: compute},
		costmodel.PrefillAttention: {FLOPs: 2688, Bytes: 512 + 192 + 384, Seconds: 2.688, Bound: compute},
		costmodel.DecodeAttention:  {FLOPs: 1536, Bytes: 768 + 128 + 256, Seconds: 1.536, Bound: compute},
		costmodel.Output:           {FLOPs: 2560, Bytes: 512 + 480, Seconds: 2.56, Bound: compute},
		costmodel.GateUp:           {FLOPs: 5120, Bytes: 1024 + 800, Seconds: 5.12, Bound: compute},
		costmodel.Down:             {FLOPs: 2560, Bytes: 512 + 480, Seconds: 2.56, Bound: compute},
		costmodel.LMHead:           {FLOPs: 480, Bytes: 160 + 108, Seconds: 0.48, Bound: compute},
		costmodel.Elementwise:      {Bytes: 5 * (2*288 + 32), Seconds: 3.04, Bound: memory},
		costmodel.Host:             {Bound: costmodel.HostBound},
	}
	m := build(t, tinySetup())
	got := m.Breakdown(mixed)
	if diff := cmp.Diff(want, got, cmp.Comparer(near)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.FLOPs() != 20064 || got.Bytes() != 11180 || !near(got.Seconds(), 23.104) {
		t.Errorf("totals %v FLOPs, %v bytes, %v s; want 20064, 11180, 23.104", got.FLOPs(), got.Bytes(), got.Seconds())
	}
	if step := m.StepTime(mixed); step != 23104*time.Millisecond {
		t.Errorf("step %v, want 23.104s", step)
	}
	if m.Claim() != costmodel.LowerBound {
		t.Errorf("the datasheet claims a %v", m.Claim())
	}
}

// A tenth of the bandwidth turns every bound; the times are the bytes.
func TestBoundIsAnOutput(t *testing.T) {
	s := tinySetup()
	s.GPU.Bandwidth = 100
	m := build(t, s)
	if step := m.StepTime(mixed); step != 111800*time.Millisecond {
		t.Errorf("step %v, want 111.8s", step)
	}
	for op, c := range m.Breakdown(mixed) {
		if c.Seconds > 0 && c.Bound != costmodel.MemoryBound {
			t.Errorf("%v is %v-bound", costmodel.Op(op), c.Bound)
		}
	}
}

func TestEfficiencyByHand(t *testing.T) {
	s := tinySetup()
	s.Efficiency = costmodel.Efficiency{
		Matrix:           costmodel.Kernel{Launch: time.Second, Compute: 0.5},
		PrefillAttention: costmodel.Kernel{Launch: 2 * time.Second, Compute: 0.25},
		DecodeAttention:  costmodel.Kernel{Launch: 3 * time.Second, Memory: 0.5},
		Elementwise:      costmodel.Kernel{Launch: 4 * time.Second, Memory: 0.8},
		Step:             100 * time.Second,
		Sequence:         10 * time.Second,
	}
	m := build(t, s)
	seconds := map[string]float64{}
	for op, c := range m.Breakdown(mixed) {
		seconds[fmt.Sprint(costmodel.Op(op))] = c.Seconds
	}
	want := map[string]float64{
		"qkv": 2 + 10.24, "output": 2 + 5.12, "gate+up": 2 + 10.24, "down": 2 + 5.12, "lm head": 1 + 0.96,
		"prefill attention": 4 + 10.752, "decode attention": 6 + 2.304, "elementwise": 8 + 3.8,
		"all-reduce": 0, "host": 100 + 3*10,
	}
	if diff := cmp.Diff(want, seconds, cmp.Comparer(near)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if m.Claim() != costmodel.Prediction {
		t.Errorf("claims a %v", m.Claim())
	}
}

// Two GPUs: half the products, half the heads, all-reduces of 5·8·2 bytes
// after 2·2 products and the embedding, of which a ring of two sends 1 of 1,
// and half of 3·10·2 bytes of logits.
func TestTensorParallelByHand(t *testing.T) {
	s := tinySetup()
	s.TensorParallel = 2
	s.Efficiency.AllReduce = costmodel.Kernel{Launch: time.Second, Memory: 0.5}
	got := build(t, s).Breakdown(mixed)
	for op, flops := range map[costmodel.Op]float64{
		costmodel.QKV: 2560, costmodel.Output: 1280, costmodel.GateUp: 2560, costmodel.Down: 1280,
		costmodel.LMHead: 240, costmodel.PrefillAttention: 1344, costmodel.DecodeAttention: 768,
	} {
		if got[op].FLOPs != flops {
			t.Errorf("%v: %v FLOPs, want %v", op, got[op].FLOPs, flops)
		}
	}
	want := costmodel.OpCost{Bytes: 5*80 + 30, Seconds: 5 + 430.0/250, Bound: costmodel.LinkBound}
	if diff := cmp.Diff(want, got[costmodel.AllReduce], cmp.Comparer(near)); diff != "" {
		t.Errorf("all-reduce (-want +got):\n%s", diff)
	}
	alone := got
	alone[costmodel.AllReduce] = costmodel.OpCost{}
	if got.Bytes() != alone.Bytes() {
		t.Errorf("memory traffic %v bytes, without all-reduce %v", got.Bytes(), alone.Bytes())
	}

	// Four GPUs share two KV heads: each keeps one, 2·2·1·4 values.
	s.TensorParallel = 4
	four := build(t, s).Breakdown(sim.Batch{Decodes: 1, Positions: 1, Context: 9})
	if want := 32.0*(9+2) + 2*2*4*2; four[costmodel.DecodeAttention].Bytes != want {
		t.Errorf("decode attention moves %v bytes on each of four, want %v", four[costmodel.DecodeAttention].Bytes, want)
	}
}

// A chunk that does not end its prompt samples nothing: no LM head.
func TestLMHeadForSampledRows(t *testing.T) {
	m := build(t, tinySetup())
	for _, c := range []struct {
		name  string
		batch sim.Batch
		flops float64
	}{
		{"first chunk", sim.Batch{Prefills: []sim.Chunk{{Tokens: 3}}}, 0},
		{"last chunk", sim.Batch{Prefills: []sim.Chunk{{Tokens: 3, Last: true}}}, 160},
		{"both beside a decode", sim.Batch{Decodes: 1, Positions: 1, Prefills: []sim.Chunk{{Tokens: 3}, {Tokens: 4, Last: true}}}, 320},
		{"verification", sim.Batch{Decodes: 1, Positions: 4}, 640},
		{"padding row", sim.Batch{Decodes: 1, Positions: 1, Padding: sim.Padding{Rows: 1}}, 320},
	} {
		got := m.Breakdown(c.batch)[costmodel.LMHead]
		if got.FLOPs != c.flops || (c.flops == 0) != (got.Bytes == 0) {
			t.Errorf("%s: LM head %+v, want %v FLOPs", c.name, got, c.flops)
		}
	}
}

// Two sequences that hold 10 tokens verify 3 positions each: 3·10 + 2·6 pairs
// of 4·16 FLOPs in two layers; the context is read once.
func TestVerification(t *testing.T) {
	got := build(t, tinySetup()).Breakdown(sim.Batch{Decodes: 2, Positions: 6, Context: 10})[costmodel.DecodeAttention]
	if got.FLOPs != 42*128 || got.Bytes != 64*(10+6)+64*6+128*6 {
		t.Errorf("%v FLOPs and %v bytes, want 5376 and 2176", got.FLOPs, got.Bytes)
	}
}

func TestPaddingIsWork(t *testing.T) {
	m := build(t, tinySetup())
	plain := sim.Batch{Decodes: 1, Positions: 1, Context: 1, Prefills: []sim.Chunk{{Tokens: 4, Last: true}}}
	padded := plain
	padded.Padding = sim.Padding{Rows: 3, PromptTokens: 5}
	a, b := m.Breakdown(plain), m.Breakdown(padded)
	for op, factor := range map[costmodel.Op]float64{ // 13 positions instead of 5, 5 samples instead of 2
		costmodel.QKV: 13. / 5, costmodel.Output: 13. / 5, costmodel.GateUp: 13. / 5, costmodel.Down: 13. / 5,
		costmodel.LMHead: 5. / 2, costmodel.DecodeAttention: 5. / 2, costmodel.PrefillAttention: 15. / 10,
	} {
		if !near(b[op].FLOPs, factor*a[op].FLOPs) {
			t.Errorf("%v: %v FLOPs padded, %v plain, want a factor %v", op, b[op].FLOPs, a[op].FLOPs, factor)
		}
	}
	only := m.Breakdown(sim.Batch{Padding: sim.Padding{Rows: 1}})
	if only[costmodel.QKV].FLOPs != 1024 {
		t.Errorf("a lone padding row: %v FLOPs in QKV, want 1024", only[costmodel.QKV].FLOPs)
	}
}

// No decode step is faster than reading the weights and the KV cache: 15.0 GB
// over 3.35 TB/s are 4.48 ms for Llama-3.1-8B on H100. A model with two
// feed-forward matrices or without LM head stays below.
func TestBandwidthFloor(t *testing.T) {
	s := setup(t, "Llama-3.1-8B", "H100")
	s.Efficiency = costmodel.Efficiency{}
	got := build(t, s).StepTime(sim.Batch{Decodes: 1, Positions: 1}).Seconds() * 1e3
	if fmt.Sprintf("%.2f", got) != "4.48" {
		t.Errorf("one decode without context takes %.3f ms, want 4.48", got)
	}

	for _, model := range costmodel.Models() {
		for _, gpu := range costmodel.GPUs() {
			weights := 2 * float64(model.Params()-model.Vocab*model.Hidden-(2*model.Layers+1)*model.Hidden)
			ideal := build(t, costmodel.Setup{Model: model, GPU: gpu})
			fitted := transformer(t, model.Name, gpu.Name)
			for _, n := range []int{1, 8, 64, 256, 1024} {
				for _, context := range []int{0, 1, 1000, 100_000} {
					batch := sim.Batch{Decodes: n, Positions: n, Context: n * context}
					floor := (weights + model.KVBytes(n*(context+1))) / gpu.Bandwidth
					step := ideal.StepTime(batch)
					if step.Seconds() < floor-1e-9 {
						t.Errorf("%s on %s, %d×%d: %v, floor %v s", model.Name, gpu.Name, n, context, step, floor)
					}
					if fitted.StepTime(batch) <= step {
						t.Errorf("%s on %s, %d×%d: fitted %v, ideal %v", model.Name, gpu.Name, n, context, fitted.StepTime(batch), step)
					}
				}
			}
		}
	}
}

// FLOPs do not depend on how a prompt is cut.
func TestFLOPsAreAdditive(t *testing.T) {
	m := transformer(t, "Llama-3.1-8B", "H100")
	const prompt = 4000
	whole := m.Breakdown(sim.Batch{Prefills: []sim.Chunk{{Tokens: prompt, Last: true}}})
	// 4·4096 FLOPs a pair in 32 layers, 4000·4001/2 pairs.
	if want := 4.0 * 4096 * 32 * 8_002_000; whole[costmodel.PrefillAttention].FLOPs != want {
		t.Errorf("attention of %d tokens: %v FLOPs, want %v", prompt, whole[costmodel.PrefillAttention].FLOPs, want)
	}
	for _, size := range []int{1, 7, 512, 1999, 3999} {
		sum := 0.0
		for at := 0; at < prompt; at += size {
			tokens := min(size, prompt-at)
			b := m.Breakdown(sim.Batch{Prefills: []sim.Chunk{{Tokens: tokens, Context: at, Last: at+tokens == prompt}}})
			sum += b.FLOPs()
		}
		if sum != whole.FLOPs() {
			t.Errorf("chunks of %d: %v FLOPs, whole %v", size, sum, whole.FLOPs())
		}
	}
	// Two chunks of one step count as much as the same chunks apart.
	a, b := sim.Chunk{Tokens: 30, Context: 200}, sim.Chunk{Tokens: 500}
	apart := m.Breakdown(sim.Batch{Prefills: []sim.Chunk{a}})
	other := m.Breakdown(sim.Batch{Prefills: []sim.Chunk{b}})
	both := m.Breakdown(sim.Batch{Prefills: []sim.Chunk{a, b}})
	if both.FLOPs() != apart.FLOPs()+other.FLOPs() {
		t.Errorf("together %v FLOPs, apart %v", both.FLOPs(), apart.FLOPs()+other.FLOPs())
	}
}

// More work never takes less time.
func TestMonotone(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, degree := range []int{1, 4} {
		s := setup(t, "Qwen3-32B", "H100")
		s.TensorParallel = degree
		m := build(t, s)
		for range 300 {
			n := 1 + rng.IntN(300)
			b := sim.Batch{Decodes: n, Positions: n + rng.IntN(2)*rng.IntN(3*n), Context: rng.IntN(1 << 20),
				Prefills: []sim.Chunk{{Tokens: 1 + rng.IntN(4000), Context: rng.IntN(20000)}},
				Padding:  sim.Padding{Rows: rng.IntN(50), PromptTokens: rng.IntN(500)}}
			base := m.StepTime(b)
			by := 1 + rng.IntN(1000)
			for _, g := range []struct {
				name string
				grow func(*sim.Batch)
			}{
				{"sequence", func(b *sim.Batch) { b.Decodes += 1; b.Positions += (b.Positions + b.Decodes - 2) / (b.Decodes - 1) }},
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
					t.Fatalf("more %s: %v, before %v; batch %+v", g.name, got, base, b)
				}
			}
		}
	}
}

// Weight-only formats narrow what is read of the layers, not the arithmetic.
func TestWeightFormat(t *testing.T) {
	s := tinySetup()
	s.Model.Weights = costmodel.Format{ValueBytes: 0.5, ScaleBytes: 1, Group: 16}
	got := build(t, s).Breakdown(mixed)
	if got[costmodel.QKV].Bytes != 512*0.5625+800 || got[costmodel.QKV].FLOPs != 5120 {
		t.Errorf("qkv %+v, want 1088 bytes and 5120 FLOPs", got[costmodel.QKV])
	}
	if got[costmodel.LMHead].Bytes != 268 {
		t.Errorf("lm head reads %v bytes, want 268 as in BF16", got[costmodel.LMHead].Bytes)
	}
}
