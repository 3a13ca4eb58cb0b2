package costmodel_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"servesim/costmodel"
	"servesim/sim"
)

// The inputs of both forms of attention.
const (
	sequences = iota
	queryHeads
	kvHeads
	headDim
	length // context or positions
	window
)

// attentionForms are both, for both caches.
func attentionForms(g costmodel.GPU) []costmodel.Form {
	return []costmodel.Form{costmodel.DecodeForm(g, 2), costmodel.PrefillForm(g, 2), costmodel.DecodeForm(g, 1), costmodel.PrefillForm(g, 1)}
}

// anyCoefficients are within the bounds of the form, without the effect of the
// device's cache.
func anyCoefficients(form costmodel.Form, r *rand.Rand) *costmodel.Calibration {
	c := &costmodel.Calibration{Form: form}
	for _, p := range form.Parameters {
		low, value := max(p.Low, 1e-3*p.High), p.Low
		if r.IntN(4) > 0 { // or at its lower bound
			value = low * math.Pow(p.High/low, r.Float64())
		}
		c.Coefficients = append(c.Coefficients, costmodel.Coefficient{Name: p.Name, Value: value})
	}
	return c.Cold()
}

// anyAttention is a legal shape: 1 is frequent, and so are windows.
func anyAttention(r *rand.Rand) []float64 {
	some := func(most float64) float64 { return math.Floor(math.Pow(most, max(0, 1.3*r.Float64()-0.3))) }
	x := []float64{some(2048), 0, some(16), []float64{64, 80, 128, 192, 256, 512}[r.IntN(6)], some(1 << 17), 0}
	x[queryHeads] = x[kvHeads] * some(16)
	if r.IntN(2) == 0 {
		x[window] = some(8192)
	}
	return x
}

// Whatever the coefficients, a kernel's time is positive and finite and does
// not fall when a size grows. The exceptions are real: heads that come to share
// KV heads have a kernel that splits contexts, and widths have kernels of
// their own.
func TestAttentionLaws(t *testing.T) {
	g, err := costmodel.LookupGPU("H100")
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, form := range attentionForms(g) {
		for range 5000 {
			c, x := anyCoefficients(form, r), anyAttention(r)
			base := c.Seconds(x...)
			if !(base > 0) || math.IsInf(base, 0) {
				t.Fatalf("%s of %v takes %v s", form.Name, x, base)
			}
			for i, input := range form.Inputs {
				for _, more := range []float64{x[i] + 1, 2 * x[i]} {
					y := slices.Clone(x)
					y[i] = more
					switch {
					case i == headDim, i == window && x[window] == 0:
						continue
					case i == queryHeads && x[queryHeads] == x[kvHeads], i == kvHeads && y[kvHeads] >= y[queryHeads]:
						continue
					}
					if grown := c.Seconds(y...); grown < base*(1-1e-12) {
						t.Fatalf("%s: %v %s instead of %v take %v s, not %v: %v", form.Name, more, input, x[i], grown, base, x)
					}
				}
			}
		}
	}
}

// A window that nothing reaches is none.
func TestWindowThatHoldsAll(t *testing.T) {
	g, err := costmodel.LookupGPU("B200")
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for _, form := range attentionForms(g) {
		for range 500 {
			c, x := anyCoefficients(form, r), anyAttention(r)
			x[window] = 0
			all := c.Seconds(x...)
			if x[window] = x[length]; c.Seconds(x...) != all {
				t.Fatalf("%s of %v: %v s, without a window %v s", form.Name, x, c.Seconds(x...), all)
			}
		}
	}
}

// A form whose other terms vanish takes what [costmodel.Attention] counts, over
// the shares: FLOPs of prompts with the ramp of a window, bytes of decodes.
func TestAttentionFormsCountTheWork(t *testing.T) {
	g, err := costmodel.LookupGPU("H100")
	if err != nil {
		t.Fatal(err)
	}
	bare := func(form costmodel.Form, share string) *costmodel.Calibration {
		c := &costmodel.Calibration{Form: form}
		for _, p := range form.Parameters {
			value := 0.0
			switch p.Name {
			case share:
				value = 0.5
			case "compute", "memory", "write", "cache speed-up":
				value = 1e12
			case "head dim 64":
				value = 3
			}
			c.Coefficients = append(c.Coefficients, costmodel.Coefficient{Name: p.Name, Value: value})
		}
		return c
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		x := anyAttention(r)
		x[headDim] = []float64{64, 128}[r.IntN(2)]
		width := 1.0
		if x[headDim] == 64 {
			width = 3
		}
		a := costmodel.Attention{Heads: int(x[queryHeads]), KVHeads: int(x[kvHeads]), HeadDim: int(x[headDim]), Window: int(x[window])}
		got := bare(costmodel.PrefillForm(g, 2), "compute").Seconds(x...)
		want := x[sequences] * a.Prompt(sim.Chunk{Tokens: int(x[length])}).FLOPs * width / (0.5 * g.Rate)
		if math.Abs(got/want-1) > 1e-6 {
			t.Fatalf("prompts %v take %v s, want %v", x, got, want)
		}
		// Of a decode's own position only the query and the result count.
		n := x[sequences]
		w := a.Decode(n, n, n*(x[length]-1))
		got = bare(costmodel.DecodeForm(g, 2), "memory").Seconds(x...)
		want = (w.Bytes - n*4*x[kvHeads]*x[headDim]) * width / (0.5 * g.Bandwidth)
		if math.Abs(got/want-1) > 1e-6 {
			t.Fatalf("decodes %v take %v s, want %v", x, got, want)
		}
	}
}
