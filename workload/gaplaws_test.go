package workload_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"servesim/workload"
)

// Gaps against their laws, with the mean that the rate asks for: the largest
// distance between the distribution functions, at the 0.1 % level.
func TestGapLaws(t *testing.T) {
	const n = 20_000
	weibull := func(k, mean float64) func(float64) float64 {
		return distuv.Weibull{K: k, Lambda: mean / math.Gamma(1+1/k)}.CDF
	}
	logNormal := func(sigma, mean float64) func(float64) float64 {
		return distuv.LogNormal{Mu: math.Log(mean) - sigma*sigma/2, Sigma: sigma}.CDF
	}
	for _, c := range []struct {
		name     string
		arrivals workload.Arrivals
		cdf      func(float64) float64
	}{
		{"weibull, burstier", workload.Weibull{Rate: 0.5, Shape: 0.419}, weibull(0.419, 2)},
		{"weibull, shape 1 is poisson", workload.Weibull{Rate: 4, Shape: 1}, distuv.Exponential{Rate: 4}.CDF},
		{"weibull, more even", workload.Weibull{Rate: 4, Shape: 3}, weibull(3, 0.25)},
		{"weibull, CV 1", workload.Weibull{Rate: 4, CV: 1}, distuv.Exponential{Rate: 4}.CDF},
		{"weibull, CV √5 is shape ½", workload.Weibull{Rate: 4, CV: math.Sqrt(5)}, weibull(0.5, 0.25)},
		{"log-normal", workload.LogNormalGaps{Rate: 2, Sigma: 1.324}, logNormal(1.324, 0.5)},
		{"log-normal, CV 2", workload.LogNormalGaps{Rate: 2, CV: 2}, logNormal(math.Sqrt(math.Log(5)), 0.5)},
	} {
		times := first(t, n, 1, c.arrivals)
		gaps := make([]float64, n)
		for i := range gaps {
			gaps[i] = times[i].Seconds()
			if i > 0 {
				gaps[i] = times[i].Sub(times[i-1]).Seconds()
			}
		}
		slices.Sort(gaps)
		distance := 0.0
		for i, g := range gaps {
			p := c.cdf(g)
			distance = max(distance, math.Abs(p-float64(i)/n), math.Abs(p-float64(i+1)/n))
		}
		if limit := 1.95 / math.Sqrt(n); distance > limit {
			t.Errorf("%s: distance %.4f from the law, limit %.4f", c.name, distance, limit)
		}
	}
}

func TestInvalidGapLaws(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		arrivals workload.Arrivals
		want     string
	}{
		{workload.Weibull{Shape: 1}, "Weibull.Rate is 0,"},
		{workload.Weibull{Rate: 1}, "Weibull.Shape is 0 and Weibull.CV is 0,"},
		{workload.Weibull{Rate: 1, Shape: 1, CV: 1}, "Weibull.Shape is 1 and Weibull.CV is 1,"},
		{workload.Weibull{Rate: 1, Shape: 0.01}, "Weibull.Shape is 0.01,"},
		{workload.Weibull{Rate: 1, Shape: nan}, "Weibull.Shape is NaN,"},
		{workload.Weibull{Rate: 1, CV: 500}, "Weibull.CV is 500, want 0.0127 to 430"},
		{workload.Weibull{Rate: 1, CV: 0.001}, "Weibull.CV is 0.001,"},
		{workload.LogNormalGaps{Sigma: 1}, "LogNormalGaps.Rate is 0,"},
		{workload.LogNormalGaps{Rate: 1}, "LogNormalGaps.Sigma is 0 and LogNormalGaps.CV is 0,"},
		{workload.LogNormalGaps{Rate: 1, Sigma: 4}, "LogNormalGaps.Sigma is 4,"},
		{workload.LogNormalGaps{Rate: 1, Sigma: nan}, "LogNormalGaps.Sigma is NaN,"},
		{workload.LogNormalGaps{Rate: 1, CV: 2000}, "LogNormalGaps.CV is 2000,"},
		{workload.LogNormalGaps{Rate: 1, CV: inf}, "LogNormalGaps.CV is +Inf,"},
	} {
		if n, err := failure(c.arrivals); n != 0 || !strings.Contains(errText(err), c.want) {
			t.Errorf("%+v: %d arrivals, then %v, want error with %q", c.arrivals, n, err, c.want)
		}
	}
}

// What Describe measures of a long run is what the process states: rate, CV of
// the gaps and, where it is known, the index of dispersion of 10 s.
func TestProcessesAsDescribed(t *testing.T) {
	hour := workload.Steps{Repeat: true, Steps: []workload.Step{{Rate: 2, For: 5 * time.Second}, {Rate: 6, For: 5 * time.Second}}}
	onOff := workload.OnOff{On: 10, Off: 1, MeanOn: time.Second, MeanOff: 2 * time.Second}
	nan := math.NaN()
	for _, c := range []struct {
		name          string
		arrivals      workload.Arrivals
		rate, cv, idc float64
	}{
		{"weibull of shape ½", workload.Weibull{Rate: 4, Shape: 0.5}, 4, math.Sqrt(5), nan},
		{"weibull of CV 0.3", workload.Weibull{Rate: 4, CV: 0.3}, 4, 0.3, 0.09},
		{"log-normal", workload.LogNormalGaps{Rate: 4, CV: 1.5}, 4, 1.5, nan},
		// The rates of a window are always the same: no dispersion but Poisson's.
		{"steps in windows of their period", workload.Varying{Rate: hour}, 4, nan, 1},
		{"on and off", onOff, 4, nan, onOff.IDC(10 * time.Second)},
		{"two of them", workload.Superpose{onOff, onOff}, 8, nan, onOff.IDC(10 * time.Second)},
	} {
		d := described(t, 1, workload.Limit{Arrivals: c.arrivals, Count: 150_000})
		near(t, c.name+": rate", float64(d.Rate), c.rate, 0.02)
		if !math.IsNaN(c.cv) {
			near(t, c.name+": gap CV", float64(d.GapCV), c.cv, 0.05)
		}
		if !math.IsNaN(c.idc) {
			near(t, c.name+": IDC(10 s)", float64(d.IDC10), c.idc, 0.1)
		}
	}
}
