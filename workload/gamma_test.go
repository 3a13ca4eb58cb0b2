package workload_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"servesim/workload"
)

// gammaCDF is the distribution function of a gamma variate of scale 1 at
// exp(l). Far below 1, where exp(l) leaves float64, it is the first term of
// the series: x^k/Γ(k+1).
func gammaCDF(shape, l float64) float64 {
	if l < -40 {
		g, _ := math.Lgamma(shape + 1)
		return math.Exp(shape*l - g)
	}
	return distuv.Gamma{Alpha: shape, Beta: 1}.CDF(math.Exp(l))
}

// Kolmogorov-Smirnov over the whole range, also where the variates themselves
// are below the smallest float64.
func TestGammaLaw(t *testing.T) {
	const n = 20_000
	for _, shape := range []float64{0.005, 0.0058, 0.231, 0.871, 1, 1.5, 4, 400} {
		draw := workload.LogGamma(shape)
		r := rand.New(workload.Stream(1, "test", 0))
		logs := make([]float64, n)
		for i := range logs {
			if logs[i] = draw(r); math.IsNaN(logs[i]) || math.IsInf(logs[i], 0) {
				t.Fatalf("shape %v: draw %d is exp(%v)", shape, i, logs[i])
			}
		}
		slices.Sort(logs)
		distance := 0.0
		for i, l := range logs {
			p := gammaCDF(shape, l)
			distance = max(distance, math.Abs(p-float64(i)/n), math.Abs(p-float64(i+1)/n))
		}
		if limit := 1.95 / math.Sqrt(n); distance > limit { // 0.1 %
			t.Errorf("shape %v: distance %.4f from the law, limit %.4f", shape, distance, limit)
		}
		if smallest := logs[0]; shape == 0.005 && smallest > -745 {
			t.Errorf("smallest draw is exp(%v): the test does not reach below float64", smallest)
		}
	}
}

// At shape 0.005 the long gaps carry the rate; the others are below the
// nanosecond, and simultaneous but for the carry.
func TestGammaTinyShape(t *testing.T) {
	const n, shape = 400_000, 0.005
	times := first(t, n, 2, workload.Gamma{Rate: 1, Shape: shape})
	mean, cv := gapMoments(times)
	want := 1 / math.Sqrt(shape) // 14.1
	within(t, "mean gap", mean, 1, want/math.Sqrt(n), 4)
	within(t, "CV", cv, want, want*math.Sqrt((1+1/shape)/(2*n)), 4)
	equal := 0
	for i := 1; i < n; i++ {
		if times[i] == times[i-1] {
			equal++
		}
	}
	p := gammaCDF(shape, math.Log(1e-9*shape)) // gap below 1 ns; scale is 1/shape
	within(t, "share of equal instants", float64(equal)/n, p, math.Sqrt(p*(1-p)/n)+0.004, 4)
}
