package costmodel_test

import (
	"fmt"
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
		costmodel.Embedding:        {Bytes: 5 * 32, Seconds: 0.16, Bound: memory},
		costmodel.QKV:              {FLOPs: 5120, Bytes: 1024 + 800, Seconds: 5.12, Bound: compute},
		costmodel.PrefillAttention: {FLOPs: 2688, Bytes: 512 + 192 + 384, Seconds: 2.688, Bound: compute},
		costmodel.DecodeAttention:  {FLOPs: 1536, Bytes: 768 + 128 + 256, Seconds: 1.536, Bound: compute},
		costmodel.Output:           {FLOPs: 2560, Bytes: 512 + 480, Seconds: 2.56, Bound: compute},
		costmodel.GateUp:           {FLOPs: 5120, Bytes: 1024 + 800, Seconds: 5.12, Bound: compute},
		costmodel.Down:             {FLOPs: 2560, Bytes: 512 + 480, Seconds: 2.56, Bound: compute},
		costmodel.LMHead:           {FLOPs: 480, Bytes: 160 + 108, Seconds: 0.48, Bound: compute},
		costmodel.Sampling:         {Bytes: 3 * 10 * 6, Seconds: 0.18, Bound: memory},
		costmodel.Elementwise:      {Bytes: 5 * 2 * 288, Seconds: 2.88, Bound: memory},
		costmodel.Host:             {Bound: costmodel.HostBound},
	}
	m := build(t, tinySetup())
	got := m.Breakdown(mixed)
	if diff := cmp.Diff(want, got, cmp.Comparer(near)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.FLOPs() != 20064 || got.Bytes() != 11360 || !near(got.Seconds(), 23.284) {
		t.Errorf("totals %v FLOPs, %v bytes, %v s; want 20064, 11360, 23.284", got.FLOPs(), got.Bytes(), got.Seconds())
	}
	if step := m.StepTime(mixed); step != 23284*time.Millisecond {
		t.Errorf("step %v, want 23.284s", step)
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
	if step := m.StepTime(mixed); step != 113600*time.Millisecond {
		t.Errorf("step %v, want 113.6s", step)
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
		Host:             costmodel.HostTime{Step: 100 * time.Second, Sequence: 10 * time.Second},
	}
	m := build(t, s)
	seconds := map[string]float64{}
	for op, c := range m.Breakdown(mixed) {
		if c.Seconds > 0 {
			seconds[fmt.Sprint(costmodel.Op(op))] = c.Seconds
		}
	}
	want := map[string]float64{
		"qkv": 2 + 10.24, "output": 2 + 5.12, "gate+up": 2 + 10.24, "down": 2 + 5.12, "lm head": 1 + 0.96,
		"prefill attention": 4 + 10.752, "decode attention": 6 + 2.304, "elementwise": 8 + 3.6, "embedding": 4 + 0.2, "sampling": 4 + 0.225,
		"host": 100 + 3*10,
	}
	if diff := cmp.Diff(want, seconds, cmp.Comparer(near)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if m.Claim() != costmodel.Prediction {
		t.Errorf("claims a %v", m.Claim())
	}
}

// Two GPUs: half the products, half the heads, all-reduces of 5·8·2 bytes
// after 2·2 products and the embedding, of which a ring of two sends 1 of 1, and
// one gathering of 3·10·2 bytes of logits, of which it sends half.
func TestTensorParallelByHand(t *testing.T) {
	s := tinySetup()
	s.TensorParallel = 2
	s.Efficiency.AllReduce = costmodel.Collective{Launch: time.Second, Share: 0.5}
	got := build(t, s).Breakdown(mixed)
	for op, flops := range map[costmodel.Op]float64{
		costmodel.QKV: 2560, costmodel.Output: 1280, costmodel.GateUp: 2560, costmodel.Down: 1280,
		costmodel.LMHead: 240, costmodel.PrefillAttention: 1344, costmodel.DecodeAttention: 768,
	} {
		if got[op].FLOPs != flops {
			t.Errorf("%v: %v FLOPs, want %v", op, got[op].FLOPs, flops)
		}
	}
	for op, want := range map[costmodel.Op]costmodel.OpCost{
		costmodel.AllReduce: {Bytes: 5 * 80, Seconds: 5 + 400.0/250, Bound: costmodel.LinkBound},
		costmodel.Gather:    {Bytes: 30, Seconds: 1 + 30.0/250, Bound: costmodel.LinkBound},
	} {
		if diff := cmp.Diff(want, got[op], cmp.Comparer(near)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", op, diff)
		}
	}
	alone := got
	alone[costmodel.AllReduce], alone[costmodel.Gather] = costmodel.OpCost{}, costmodel.OpCost{}
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

// Weight-only formats narrow what is read of the layers, not the arithmetic.
func TestWeightFormat(t *testing.T) {
	s := tinySetup()
	s.Model.Precision.Weights = costmodel.Format{ValueBytes: 0.5, ScaleBytes: 1, Group: 16}
	got := build(t, s).Breakdown(mixed)
	if got[costmodel.QKV].Bytes != 512*0.5625+800 || got[costmodel.QKV].FLOPs != 5120 {
		t.Errorf("qkv %+v, want 1088 bytes and 5120 FLOPs", got[costmodel.QKV])
	}
	if got[costmodel.LMHead].Bytes != 268 {
		t.Errorf("lm head reads %v bytes, want 268 as in BF16", got[costmodel.LMHead].Bytes)
	}
}

// FP8 throughout: products read activations of one byte with a scale of four
// for each 128, and multiply at the FP8 rate with the efficiency of Narrow. The
// LM head stays BF16. An FP8 cache halves the bytes of keys and values.
func TestFP8(t *testing.T) {
	s := tinySetup()
	s.GPU.FP8 = 2000
	s.Model.Precision, s.Model.KV = fp8Block, costmodel.Format{ValueBytes: 1}
	s.Efficiency.Matrix.Compute, s.Efficiency.Narrow.Compute = 0.5, 0.25
	got := build(t, s).Breakdown(mixed)
	// QKV of two layers: 512 weights; 5 rows of 8 in and 32 out each.
	bytes := 512*(1+4.0/16384) + 2*5*(8*(1+4.0/128)+2*32)
	want := costmodel.OpCost{FLOPs: 5120, Bytes: bytes, Seconds: 5120 / (0.25 * 2000), Bound: costmodel.ComputeBound}
	if diff := cmp.Diff(want, got[costmodel.QKV], cmp.Comparer(near)); diff != "" {
		t.Errorf("qkv (-want +got):\n%s", diff)
	}
	if head := got[costmodel.LMHead]; head.Bytes != 268 || head.Seconds != 480/(0.5*1000) {
		t.Errorf("lm head %+v, want 268 bytes and 0.96 s", head)
	}
	if kv := got[costmodel.DecodeAttention].Bytes; kv != 32*(10+2)+32*2+256 {
		t.Errorf("decode attention moves %v bytes, want 704", kv)
	}
}

// Of two layers one sees 4 tokens. The decodes hold 5 each and see 4; the
// chunk's positions behind 5 tokens see 4 each, of which those in the chunk 1, 2
// and 3. A layer has 32 bytes of KV a token and 64 of queries and outputs.
func TestWindowByHand(t *testing.T) {
	s := tinySetup()
	s.Model.Window = costmodel.WindowLayers{Layers: 1, Tokens: 4}
	s.Efficiency.WindowAttention = costmodel.Kernel{Launch: time.Second, Compute: 0.5}
	got := build(t, s).Breakdown(mixed)
	want := map[costmodel.Op]costmodel.OpCost{
		costmodel.DecodeAttention: {FLOPs: 64 * (12 + 8), Bytes: 32*(12+2) + 32*(8+2) + 2*2*64, Seconds: 1.28, Bound: costmodel.ComputeBound},
		costmodel.PrefillAttention: {FLOPs: 64 * (21 + 12), Bytes: 32*(8+3) + 32*(6+3) + 2*3*64,
			Seconds: 1.344 + 1 + 0.768/0.5, Bound: costmodel.ComputeBound},
	}
	for op, w := range want {
		if diff := cmp.Diff(w, got[op], cmp.Comparer(near)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", op, diff)
		}
	}
}

// Decodes beside a prompt have an efficiency of their own.
func TestMixedAttention(t *testing.T) {
	s := tinySetup()
	s.Efficiency.DecodeAttention.Compute = 0.5
	s.Efficiency.MixedAttention.Compute = 0.25
	m := build(t, s)
	beside := m.Breakdown(mixed)[costmodel.DecodeAttention].Seconds
	alone := m.Breakdown(sim.Batch{Decodes: 2, Positions: 2, Context: 10})[costmodel.DecodeAttention].Seconds
	if alone != 1.536/0.5 || beside != 1.536/0.25 {
		t.Errorf("%v s alone and %v s beside a prompt, want 3.072 and 6.144", alone, beside)
	}
}

// The square in which a chunk sees itself, 6 of 21 pairs, runs at a quarter of
// the rate, the rest at half.
func TestCausalSquare(t *testing.T) {
	s := tinySetup()
	s.Efficiency.PrefillAttention = costmodel.Kernel{Compute: 0.5, Causal: 0.25}
	got := build(t, s).Breakdown(mixed)[costmodel.PrefillAttention]
	if want := 15*0.128/0.5 + 6*0.128/0.25; !near(got.Seconds, want) || got.FLOPs != 2688 {
		t.Errorf("%+v, want %v s and 2688 FLOPs", got, want)
	}
}

// Latent attention with 4 heads, latents of 6 and rotated keys of 2. The
// products of a layer: 8·5 + 5·4·(3+2) to and from latents of queries, 8·8 and
// 6·4·(3+4) for keys and values, 4·4·8 out: 500 elements. Prompts see keys and
// values of 4·(3+2+4) = 36, decodes latents of 4·(2·6+2) = 56.
func TestLatentByHand(t *testing.T) {
	s := tinySetup()
	s.Model.MLA = costmodel.MLA{KVRank: 6, QueryRank: 5, NopeDim: 3, RopeDim: 2, ValueDim: 4}
	s.TensorParallel = 1
	got := build(t, s).Breakdown(mixed)
	if q, o := got[costmodel.QKV].FLOPs, got[costmodel.Output].FLOPs; q != 2*5*2*372 || o != 2*5*2*128 {
		t.Errorf("%v FLOPs before and %v after attention, want 7440 and 2560", q, o)
	}
	if bytes, want := got[costmodel.QKV].Bytes, 2*2.0*(372+5*((8+5)+(5+20)+(8+8)+(6+28))); bytes != want {
		t.Errorf("products before attention move %v bytes, want %v", bytes, want)
	}
	for op, want := range map[costmodel.Op]costmodel.OpCost{
		costmodel.PrefillAttention: {FLOPs: 2 * 2 * 36 * 21, Bytes: 2 * (36*(2*8+2*3) + 16*3), Seconds: 3.024, Bound: costmodel.ComputeBound},
		costmodel.DecodeAttention:  {FLOPs: 2 * 2 * 56 * 12, Bytes: 2 * (16*(12+2) + 2*4*(4*6+2)*2), Seconds: 2.688, Bound: costmodel.ComputeBound},
	} {
		if diff := cmp.Diff(want, got[op], cmp.Comparer(near)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", op, diff)
		}
	}
	if m := s.Model; m.Params() != 2*(500+3*8*16)+2*80+5*8 || m.KVBytesPerToken() != 2*2*8 {
		t.Errorf("%d parameters and %v KV bytes, want 1968 and 32", m.Params(), m.KVBytesPerToken())
	}
	// On two GPUs the heads are divided, the latents are not.
	s.TensorParallel = 2
	if s.KVBytesPerToken() != 32 {
		t.Errorf("%v KV bytes on each of two GPUs, want 32", s.KVBytesPerToken())
	}
	if half := build(t, s).Breakdown(mixed)[costmodel.DecodeAttention].FLOPs; half != 1344 {
		t.Errorf("%v FLOPs of decode attention on each of two GPUs, want 1344", half)
	}
}

// What element-wise operators move per position and layer, in values: two norms
// with residual, 48; queries and keys in place, 48; the activation, three or, of
// an ungated network, two times 16. Of experts the shared columns only, three
// times 4; with latent attention the rotated parts only, 2·(4 + 1)·2.
func TestElementwise(t *testing.T) {
	for _, c := range []struct {
		name   string
		edit   func(*costmodel.Model)
		values float64
	}{
		{"gated", func(*costmodel.Model) {}, 2 * (48 + 48 + 48)},
		{"ungated", func(m *costmodel.Model) { m.Ungated = true }, 2 * (48 + 48 + 32)},
		{"experts", func(m *costmodel.Model) { *m = expertSetup().Model }, 3 * (48 + 48 + 12)},
		{"latent", func(m *costmodel.Model) {
			m.MLA = costmodel.MLA{KVRank: 6, QueryRank: 5, NopeDim: 3, RopeDim: 2, ValueDim: 4}
		}, 2 * (48 + 20 + 48)},
	} {
		s := tinySetup()
		c.edit(&s.Model)
		if got := build(t, s).Breakdown(mixed)[costmodel.Elementwise].Bytes; got != 5*2*c.values {
			t.Errorf("%s: %v bytes, want %v", c.name, got, 5*2*c.values)
		}
	}
}

// Two matrices in place of three: 2·8·16 elements fewer.
func TestUngated(t *testing.T) {
	m := tiny
	m.Ungated = true
	if got := m.Params(); got != 1736-256 {
		t.Errorf("%d parameters, want 1480", got)
	}
}

// On 16 GPUs each keeps 4 of 64 heads and a copy of one of 8 KV heads.
func TestReplicatedKVHeads(t *testing.T) {
	s := setup(t, "Llama-3.1-70B", "H100")
	s.TensorParallel = 16
	m := build(t, s)
	b := sim.Batch{Decodes: 1, Positions: 1}
	if got, want := m.Breakdown(b)[costmodel.QKV].FLOPs, 2.0*80*8192*(4+2)*128; got != want {
		t.Errorf("%v FLOPs on each of 16 GPUs, want %v", got, want)
	}
	// The copies are not counted: (64 + 2·8) heads over 16 GPUs.
	for _, o := range m.Explain(b, nil) {
		if want := sim.FP8Ops(4 * 80 * 8192 * 80 * 128 / 16); o.Name == "qkv" && o.Counted != want {
			t.Errorf("%v counted on each of 16 GPUs, want %v", o.Counted, want)
		}
	}
}

// Each padding row is a sequence of its own to attention.
func TestPaddingRowsAreSequences(t *testing.T) {
	s := tinySetup()
	s.Efficiency.DecodeAttention.Sequence = time.Second
	m := build(t, s)
	b := sim.Batch{Decodes: 2, Positions: 2}
	plain := m.Breakdown(b)[costmodel.DecodeAttention].Seconds
	b.Padding.Rows = 3
	// Three times 256 bytes more, and three seconds in each of two layers.
	if got, want := m.Breakdown(b)[costmodel.DecodeAttention].Seconds, plain+3*0.256+3*2; !near(got, want) {
		t.Errorf("%v s with three rows of padding, want %v", got, want)
	}
}
