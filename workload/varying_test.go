package workload_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"servesim/sim"
	"servesim/workload"
)

// On a clock that runs with the rate the process is Poisson of rate 1: the
// expected number of arrivals up to each instant has exponential gaps.
func TestVaryingIsPoissonOnItsOwnClock(t *testing.T) {
	const n = 20_000
	hour := float64(time.Hour / time.Second)
	profile := workload.Steps{Repeat: true, Steps: []workload.Step{{Rate: 1, For: 4 * time.Second}, {Rate: 0, For: time.Second}, {Rate: 10, For: 2 * time.Second}}}
	for _, c := range []struct {
		name     string
		rate     workload.RateFunction
		peak     float64
		expected func(s float64) float64 // arrivals up to s seconds
	}{
		{"diurnal", workload.Diurnal{Mean: 3, Swing: 0.8, Period: time.Hour, Highest: 15 * time.Minute}, 0, func(s float64) float64 {
			// ∫ 3 + 2.4·cos(2π(s/h - ¼)) = ∫ 3 + 2.4·sin(2πs/h)
			return 3*s + 2.4*hour/(2*math.Pi)*(1-math.Cos(2*math.Pi*s/hour))
		}},
		{"a day, down to 0, its peak given", workload.Diurnal{Mean: 0.2, Swing: 1}, 1, func(s float64) float64 {
			return 0.2*s + 0.2*24*hour/(2*math.Pi)*math.Sin(2*math.Pi*s/(24*hour))
		}},
		{"ramp, then flat", workload.Ramp{From: 1, To: 9, Over: 1000 * time.Second}, 0, func(s float64) float64 {
			if s <= 1000 {
				return s + 0.004*s*s
			}
			return 5000 + 9*(s-1000)
		}},
		{"steps that repeat", profile, 0, func(s float64) float64 {
			whole := math.Floor(s / 7)
			into := s - 7*whole
			return 24*whole + min(into, 4) + 10*max(0, into-5)
		}},
		{"a function", workload.RateFunc(func(t sim.Time) float64 { return min(5, t.Seconds()/100) }), 5, func(s float64) float64 {
			return min(s, 500)*min(s, 500)/200 + 5*max(0, s-500)
		}},
	} {
		times := first(t, n, 1, workload.Varying{Rate: c.rate, Peak: c.peak})
		gaps := make([]float64, n)
		last := 0.0
		for i, at := range times {
			e := c.expected(at.Seconds())
			gaps[i], last = e-last, e
		}
		within(t, c.name+": arrivals for one expected", n/last, 1, 1/math.Sqrt(n), 4)
		lag := 0.0
		for i := 1; i < n; i++ {
			lag += (gaps[i] - 1) * (gaps[i-1] - 1) / n
		}
		within(t, c.name+": covariance of neighbours", lag, 0, 1/math.Sqrt(n), 4)
		slices.Sort(gaps)
		distance := 0.0
		for i, g := range gaps {
			p := -math.Expm1(-g)
			distance = max(distance, math.Abs(p-float64(i)/n), math.Abs(p-float64(i+1)/n))
		}
		if limit := 1.95 / math.Sqrt(n); distance > limit {
			t.Errorf("%s: distance %.4f from exponential, limit %.4f", c.name, distance, limit)
		}
	}
}

// Processes whose rate ends at 0 end too.
func TestVaryingEnds(t *testing.T) {
	for _, c := range []struct {
		name     string
		rate     workload.RateFunction
		expected float64
		end      sim.Time
	}{
		{"steps", workload.Steps{Steps: []workload.Step{{Rate: 100, For: 10 * time.Second}, {Rate: 20, For: 50 * time.Second}}}, 2000, 60e9},
		{"a long silence", workload.Steps{Steps: []workload.Step{{Rate: 100, For: 10 * time.Second}, {For: 1e9 * time.Second}, {Rate: 100, For: 10 * time.Second}}}, 2000, 1e18 + 20e9},
		{"ramp down", workload.Ramp{From: 200, Over: 30 * time.Second}, 3000, 30e9},
	} {
		n, last := 0.0, sim.Time(0)
		for at, err := range (workload.Varying{Rate: c.rate}).Times(random(1)) {
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			n, last = n+1, at
		}
		within(t, c.name+": arrivals", n, c.expected, math.Sqrt(c.expected), 4)
		if last >= c.end || last < c.end*9/10 {
			t.Errorf("%s: the last arrival is at %v, want shortly before %v", c.name, last, c.end)
		}
	}
}

func TestDiurnalValues(t *testing.T) {
	d := workload.Diurnal{Mean: 10, Swing: 0.5, Highest: 11 * time.Hour}
	for at, want := range map[time.Duration]float64{11 * time.Hour: 15, 23 * time.Hour: 5, 5 * time.Hour: 10, 35 * time.Hour: 15, 0: 10 + 5*math.Cos(2*math.Pi*11/24)} {
		if got := d.Rate(sim.Time(at)); math.Abs(got-want) > 1e-9 {
			t.Errorf("rate at %v is %v, want %v", at, got, want)
		}
	}
}

func TestInvalidVarying(t *testing.T) {
	nan := math.NaN()
	step := func(rate float64, d time.Duration) workload.Steps {
		return workload.Steps{Steps: []workload.Step{{Rate: 1, For: 1}, {Rate: rate, For: d}}}
	}
	late := workload.RateFunc(func(t sim.Time) float64 {
		if t > sim.Time(time.Minute) {
			return 2.1
		}
		return 0
	})
	for _, c := range []struct {
		rate workload.RateFunction
		peak float64
		want string
	}{
		{nil, 1, "Varying.Rate is nil"},
		{workload.RateFunc(nil), 1, "Varying.Rate is a nil RateFunc"},
		{late, 0, "Varying.Peak is 0 and workload.RateFunc does not know its peak"},
		{late, -1, "Varying.Peak is -1,"},
		{late, 2, "Varying.Rate is 2.1 at 1m0"},
		{workload.RateFunc(func(sim.Time) float64 { return -1 }), 2, "Varying.Rate is -1 at"},
		{workload.RateFunc(func(sim.Time) float64 { return nan }), 2, "Varying.Rate is NaN at"},
		{workload.Diurnal{Mean: 1, Swing: 0.5}, 1.4, "want 0 to the peak of 1.4"},
		{workload.Diurnal{}, 0, "Varying.Rate: Diurnal.Mean is 0,"},
		{workload.Diurnal{Mean: 1, Swing: 1.1}, 0, "Diurnal.Swing is 1.1,"},
		{workload.Diurnal{Mean: 1, Period: -1}, 0, "Diurnal.Period is -1ns,"},
		{workload.Ramp{From: -1, To: 1, Over: 1}, 0, "Ramp.From is -1,"},
		{workload.Ramp{To: nan, Over: 1}, 0, "Ramp.To is NaN,"},
		{workload.Ramp{Over: 1}, 0, "Ramp.From and Ramp.To are 0"},
		{workload.Ramp{To: 1}, 0, "Ramp.Over is 0s,"},
		{workload.Ramp{To: 1e10, Over: 1}, 0, "Varying.Peak is 1e+10,"},
		{workload.Steps{}, 0, "no Steps in Steps"},
		{step(-1, 1), 0, "Steps.Steps[1].Rate is -1,"},
		{step(1, 0), 0, "Steps.Steps[1].For is 0s,"},
		{step(1, math.MaxInt64), 0, "292 years in all"},
		{workload.Steps{Steps: []workload.Step{{For: 1}}}, 0, "Steps.Steps have no Rate above 0"},
	} {
		if n, err := failure(workload.Varying{Rate: c.rate, Peak: c.peak}); n != 0 || !strings.Contains(errText(err), c.want) {
			t.Errorf("%+v, peak %v: %d arrivals, then %v, want error with %q", c.rate, c.peak, n, err, c.want)
		}
	}
}

// A function that stays at 0 without saying so does not hang the process.
func TestVaryingGivesUp(t *testing.T) {
	v := workload.Varying{Rate: workload.RateFunc(func(sim.Time) float64 { return 0 }), Peak: 1000}
	if n, err := failure(v); n != 0 || !strings.Contains(errText(err), "none of 20000000 candidates up to") {
		t.Errorf("%d arrivals, then %v", n, err)
	}
}
