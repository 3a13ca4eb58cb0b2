package costmodel_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"servesim/costmodel"
	"servesim/sim"

	"github.com/google/go-cmp/cmp"
)

// 128 tokens cached, 2 positions in flight, 3 selected.
func TestSelection(t *testing.T) {
	s := costmodel.Selection{Cached: 128, InFlight: 2, New: 3}
	if s.New != 3 || s.Keys() != 133 {
		t.Errorf("q %d, k %d; want 3 and 133", s.New, s.Keys())
	}
	for _, bad := range []costmodel.Selection{{}, {New: 1, Cached: -1}, {New: 1, InFlight: -1}, {New: 1, FirstValid: 2}} {
		func() {
			defer func() {
				if r, _ := recover().(string); !strings.HasPrefix(r, "costmodel: Selection is {") {
					t.Errorf("%+v: panic %q", bad, r)
				}
			}()
			tiny.Counts([]costmodel.Selection{bad})
		}()
	}
}

// The total includes attention once.
func TestCountsTotal(t *testing.T) {
	c := costmodel.Counts{Attention: 100, Other: 50, Logits: 10}
	if c.Attention != 100 || c.Total() != 160 {
		t.Errorf("(%v, %v), want (100, 160)", c.Attention, c.Total())
	}
}

// One multiply-add counts 1 in FP4, 2 in FP8, 4 in BF16, 8 in TF32 and FP32: of
// the layers' 2·768 elements. Attention and logits stay BF16.
func TestCountsByNumber(t *testing.T) {
	for number, want := range map[costmodel.Number]sim.FP8Ops{
		costmodel.FP4: 1, costmodel.FP8: 2, costmodel.BF16: 4, costmodel.TF32: 8, costmodel.FP32: 8,
	} {
		m := tiny
		m.Precision.Compute = number
		got := m.Counts([]costmodel.Selection{{Cached: 9, New: 1}})
		if got.Other != want*1536 || got.Logits != 4*80 {
			t.Errorf("%v: %+v, want %v and 320", number, got, want*1536)
		}
	}
}

// Two layers with queries of 16, a pair costs 2·16 multiply-adds in each. A
// decode of q 3 behind 130 tokens has 3·130 + 6 pairs and three rows of logits;
// a chunk of a prompt has logits for its last position, and only if it ends
// the prompt.
func TestCountsOfSelections(t *testing.T) {
	for _, c := range []struct {
		name   string
		s      costmodel.Selection
		pairs  sim.FP8Ops
		q, row sim.FP8Ops
	}{
		{"verification", costmodel.Selection{Cached: 128, InFlight: 2, New: 3}, 396, 3, 3},
		{"first chunk", costmodel.Selection{New: 100, Prompt: true, Length: 150}, 5050, 100, 0},
		{"last chunk", costmodel.Selection{Cached: 100, New: 50, Prompt: true, Length: 150}, 5000 + 1275, 50, 1},
	} {
		want := costmodel.Counts{Attention: c.pairs * 4 * 2 * 2 * 16, Other: c.q * 4 * 1536, Logits: c.row * 4 * 80}
		if diff := cmp.Diff(want, tiny.Counts([]costmodel.Selection{c.s})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	// A step is the sum of its requests.
	a, b := costmodel.Selection{Cached: 5, New: 1}, costmodel.Selection{New: 7, Prompt: true, Length: 7}
	one, other, both := tiny.Counts([]costmodel.Selection{a}), tiny.Counts([]costmodel.Selection{b}), tiny.Counts([]costmodel.Selection{a, b})
	if both.Total() != one.Total()+other.Total() {
		t.Errorf("together %v, apart %v and %v", both.Total(), one.Total(), other.Total())
	}
}

// Of the layers one has a window of 4. It attends with the positions from the
// first valid one, to no key before it.
func TestCountsOfWindows(t *testing.T) {
	m := tiny
	m.Window = costmodel.WindowLayers{Layers: 1, Tokens: 4}
	const pair = 4 * 2 * 16
	for _, c := range []struct {
		name         string
		s            costmodel.Selection
		full, window sim.FP8Ops
	}{
		{"decode", costmodel.Selection{Cached: 9, New: 1}, 10, 4},
		{"short", costmodel.Selection{Cached: 1, New: 1}, 2, 2},
		{"prompt", costmodel.Selection{New: 10, Prompt: true, Length: 10}, 55, 1 + 2 + 3 + 7*4},
		{"prompt, the window from 7", costmodel.Selection{New: 10, Prompt: true, Length: 10, FirstValid: 7}, 55, 1 + 2 + 3},
		{"chunk behind 5, the window from 3", costmodel.Selection{Cached: 5, New: 3, Prompt: true, Length: 10, FirstValid: 3}, 15 + 6, 3 + 4 + 4},
		{"chunk behind all of it", costmodel.Selection{New: 3, Prompt: true, Length: 10, FirstValid: 7}, 6, 0},
	} {
		if got, want := m.Counts([]costmodel.Selection{c.s}).Attention, pair*(c.full+c.window); got != want {
			t.Errorf("%s: %v, want %v", c.name, got, want)
		}
	}
}

// Experts count for what positions pick; latent attention in the space of the
// latents for decodes.
func TestCountsOfExpertsAndLatents(t *testing.T) {
	m := expertSetup().Model
	m.MoE.Precision.Compute = costmodel.FP8
	got := m.Counts([]costmodel.Selection{{New: 1}})
	if want := sim.FP8Ops(3 * (4*(8*32+16*8+64) + 2*(8*3*4+2*384))); got.Other != want {
		t.Errorf("experts: %v, want %v", got.Other, want)
	}
	m = tiny
	m.MLA = costmodel.MLA{KVRank: 6, QueryRank: 5, NopeDim: 3, RopeDim: 2, ValueDim: 4}
	decode, prompt := m.Counts([]costmodel.Selection{{Cached: 9, New: 1}}), m.Counts([]costmodel.Selection{{New: 4, Prompt: true, Length: 4}})
	if decode.Attention != 4*10*2*56 || prompt.Attention != 4*10*2*36 {
		t.Errorf("latents: %v decoding and %v of a prompt, want 4480 and 2880", decode.Attention, prompt.Attention)
	}
}

// Explain counts a step as Counts does its requests, divided by the GPUs,
// whatever is padded or copied.
func TestExplainCounts(t *testing.T) {
	for _, degree := range []int{1, 4} {
		for _, model := range []costmodel.Model{tiny, expertSetup().Model} {
			s := tinySetup()
			s.Model, s.TensorParallel = model, degree
			b := mixed
			b.Padding = sim.Padding{Rows: 3, PromptTokens: 4}
			var total sim.FP8Ops
			for _, o := range build(t, s).Explain(b, nil) {
				total += o.Counted
			}
			want := s.Model.Counts([]costmodel.Selection{{Cached: 4, New: 1}, {Cached: 6, New: 1}, {Cached: 5, New: 3, Prompt: true, Length: 8}}).Total()
			if !near(float64(total)*float64(degree), float64(want)) {
				t.Errorf("%s on %d GPUs: %v a GPU, want %v in all", model.Name, degree, total, want)
			}
		}
	}
}

func TestExplain(t *testing.T) {
	s := tinySetup()
	s.TensorParallel = 2
	s.Efficiency.Host.Step = time.Second
	got := build(t, s).Explain(sim.Batch{Decodes: 1, Positions: 1, Context: 9}, []sim.Operator{{Name: "first"}})
	want := []sim.Operator{
		{Name: "first"},
		{Name: "embedding", Bytes: 32, Seconds: 0.032, Bound: "memory"},
		{Name: "qkv", FLOPs: 512, Counted: 1024, Bytes: 512 + 96, Seconds: 0.608, Bound: "memory"},
		{Name: "decode attention", FLOPs: 640, Counted: 1280, Bytes: 32*(10+1) + 64, Seconds: 0.64, Bound: "compute"},
		{Name: "output", FLOPs: 256, Counted: 512, Bytes: 256 + 64, Seconds: 0.32, Bound: "memory"},
		{Name: "gate+up", FLOPs: 512, Counted: 1024, Bytes: 512 + 96, Seconds: 0.608, Bound: "memory"},
		{Name: "down", FLOPs: 256, Counted: 512, Bytes: 256 + 64, Seconds: 0.32, Bound: "memory"},
		{Name: "lm head", FLOPs: 80, Counted: 160, Bytes: 80 + 26, Seconds: 0.106, Bound: "memory"},
		{Name: "sampling", Bytes: 60, Seconds: 0.06, Bound: "memory"},
		{Name: "elementwise", Bytes: 4 * (48 + 24 + 24), Seconds: 0.384, Bound: "memory"},
		{Name: "all-reduce", Sent: 5 * 16, Seconds: 0.16, Bound: "link"},
		{Name: "gather", Sent: 10, Seconds: 0.02, Bound: "link"},
		{Name: "host", Seconds: 1, Bound: "host"},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(near), cmp.Comparer(func(a, b sim.FP8Ops) bool { return near(float64(a), float64(b)) })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Half a tera-operation in 5 ms at 2000 tera-operations per second.
func TestUtilisation(t *testing.T) {
	if got := sim.FP8Ops(0.5e12).Utilisation(5*time.Millisecond, 2000e12); !near(got, 0.05) {
		t.Errorf("%v, want 0.05", got)
	}
	if got := sim.FP8Ops(0.5e12).Tera(); got != 0.5 {
		t.Errorf("%v tera-operations, want 0.5", got)
	}
	for gpu, want := range map[string]sim.FP8Rate{"H100": 1978e12, "A100-80": 624e12} {
		g, err := costmodel.LookupGPU(gpu)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.FP8Rate(); got != want {
			t.Errorf("%s: reference rate %v, want %v", gpu, got, want)
		}
	}
}

// A rate of another convention does not compile: the language does not assign
// it to the reference.
func TestRatesHaveAConvention(t *testing.T) {
	reference := reflect.ValueOf(sim.FP8Ops.Utilisation).Type().In(2)
	if rate := reflect.ValueOf(costmodel.GPU.FP8Rate).Type().Out(0); !rate.AssignableTo(reference) {
		t.Errorf("a rate of type %v is refused", rate)
	}
	var g costmodel.GPU
	for _, rate := range []any{g.Rate, g.Peak(costmodel.BF16), sim.FP8Ops(1), 1} {
		if reflect.TypeOf(rate).AssignableTo(reference) {
			t.Errorf("a rate of type %T is accepted", rate)
		}
	}
}
