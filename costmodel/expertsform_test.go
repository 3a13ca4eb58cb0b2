package costmodel_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"servesim/costmodel"
)

// With the cache left out the experts' time falls with no size, whatever the
// coefficients, and is no shorter than the fitted shares of the datasheet allow.
func TestExpertsFollowTheLaws(t *testing.T) {
	g, err := costmodel.LookupGPU("H100")
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, format := range []string{"bfloat16", "fp8", "int4_wo"} {
		p, err := costmodel.LookupPrecision(format)
		if err != nil {
			t.Fatal(err)
		}
		rate, weight := g.Peak(p.Compute), p.Weights.BytesPerValue()
		form := costmodel.ExpertsForm(g, p)
		at := map[string]int{}
		for i, q := range form.Parameters {
			at[q.Name] = i
		}
		ones, x := slices.Repeat([]float64{1}, len(form.Parameters)), slices.Repeat([]float64{1}, len(form.Inputs))
		if n := testing.AllocsPerRun(100, func() { form.Seconds(ones, x) }); n > 0 {
			t.Errorf("%s: an evaluation allocates %v times", format, n)
		}
		for range 3000 {
			c := make([]float64, len(form.Parameters))
			for i, q := range form.Parameters {
				c[i] = q.Low + random.Float64()*(q.High-q.Low)
			}
			c[at["cache"]] = 0 // as in Cold
			size := func(most float64) float64 { return math.Floor(math.Exp(random.Float64() * math.Log(most+1))) }
			distinct := size(256)
			rows := distinct * size(4096)
			x := []float64{rows, distinct, rows * size(8), 2 + float64(random.IntN(2)), size(8192), size(16384), math.Exp2(float64(3 + random.IntN(5))), float64(random.IntN(2))}
			seconds := form.Seconds(c, x)
			if !(seconds > 0) || math.IsInf(seconds, 0) {
				t.Fatalf("%v with %v takes %v s", x, c, seconds)
			}
			share := c[at["compute"]]
			if x[7] > 0 {
				share *= c[at["tuned"]]
			}
			values := x[3] * x[4] * x[5]
			if least := max(2*values*rows/(share*rate), weight*values*distinct/(c[at["memory"]]*g.Bandwidth)); seconds < least {
				t.Fatalf("%v with %v takes %v s, no less than %v s is possible", x, c, seconds, least)
			}
			for i, name := range form.Inputs[:6] { // the tile is a choice of the engine, not a size
				more := slices.Clone(x)
				more[i] += size(more[i])
				if name == "rows" { // all of them pass through the kernels around
					more[2] = max(more[2], more[0])
				}
				if got := form.Seconds(c, more); got < seconds*(1-1e-12) {
					t.Fatalf("with %v: %v takes %v s, with more %s %v s", c, x, seconds, name, got)
				}
			}
		}
	}
}

// The rule of vLLM for BF16, and those of the libraries that it calls.
func TestExpertsTile(t *testing.T) {
	for format, tiles := range map[string]map[float64]float64{
		"bfloat16":    {1: 16, 32: 16, 33: 32, 96: 32, 97: 64, 512: 64, 513: 128, 1e5: 128},
		"fp8":         {32: 16, 513: 128},
		"fp8_block":   {64: 16, 65: 64},
		"nvfp4":       {1: 8, 300: 32, 9999: 64},
		"w4a16_mxfp4": {1: 8, 115: 8, 116: 16, 9999: 64},
		"int4_wo":     {3: 4, 96: 16, 97: 64},
	} {
		e := costmodel.RoutedExperts{Count: 128, PerPosition: 8, Ranks: 1, Precision: precision(format)}
		for positions, want := range tiles {
			if got := e.Tile(positions); got != want {
				t.Errorf("%s, %v positions: tiles of %v rows, want %v", format, positions, got, want)
			}
		}
	}
	// INT4 with groups of 32 is not MXFP4.
	int4 := costmodel.Precision{Weights: costmodel.Format{ValueBytes: 0.5, ScaleBytes: 2, Group: 32}}
	if got := (costmodel.RoutedExperts{Count: 128, PerPosition: 8, Ranks: 1, Precision: int4}).Tile(97); got != 64 {
		t.Errorf("INT4: tiles of %v rows, want 64", got)
	}
}
