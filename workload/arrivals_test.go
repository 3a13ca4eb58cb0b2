package workload_test

import (
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/workload"
)

const ms = sim.Time(time.Millisecond)

func TestDeterministicProcesses(t *testing.T) {
	for _, c := range []struct {
		name     string
		arrivals workload.Arrivals
		want     []sim.Time
	}{
		{"one request every 100 ms", workload.Constant{Rate: 10}, []sim.Time{0, 100 * ms, 200 * ms, 300 * ms}},
		{"thirds of a second do not drift", workload.Constant{Rate: 3}, []sim.Time{0, 333333333, 666666667, 1000 * ms}},
		{"bursts", workload.Bursts{Size: 3, Every: time.Second}, []sim.Time{0, 0, 0, 1000 * ms, 1000 * ms, 1000 * ms, 2000 * ms}},
		{"by count", workload.Limit{Arrivals: workload.Constant{Rate: 10}, Count: 2}, []sim.Time{0, 100 * ms}},
		{"by duration, end excluded", workload.Limit{Arrivals: workload.Constant{Rate: 10}, Duration: 300 * time.Millisecond},
			[]sim.Time{0, 100 * ms, 200 * ms}},
		{"the earlier limit counts", workload.Limit{Arrivals: workload.Constant{Rate: 10}, Count: 3, Duration: 200 * time.Millisecond},
			[]sim.Time{0, 100 * ms}},
		{"twice as fast", workload.Scale{Arrivals: workload.Constant{Rate: 10}, Factor: 2}, []sim.Time{0, 50 * ms, 100 * ms}},
		{"delayed", workload.Shift{Arrivals: workload.Constant{Rate: 10}, By: time.Second}, []sim.Time{1000 * ms, 1100 * ms}},
		{"nested", workload.Limit{Arrivals: workload.Scale{
			Arrivals: workload.Shift{Arrivals: workload.Bursts{Size: 2, Every: time.Second}, By: time.Second}, Factor: 4}, Count: 3},
			[]sim.Time{250 * ms, 250 * ms, 500 * ms}},
		{"tiny gaps add up", workload.Gaps(func(*rand.Rand) float64 { return 0.25e-9 }), []sim.Time{0, 0, 0, 1, 1, 1, 1, 2}},
	} {
		if diff := cmp.Diff(c.want, first(t, len(c.want), 1, c.arrivals)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestLimitEnds(t *testing.T) {
	for _, l := range []workload.Limit{
		{Arrivals: workload.Bursts{Size: 5, Every: time.Second}, Count: 12},
		{Arrivals: workload.Bursts{Size: 4, Every: time.Second}, Duration: 3 * time.Second},
	} {
		if n, err := failure(l); n != 12 || err != nil {
			t.Errorf("%+v: %d arrivals, error %v, want 12, nil", l, n, err)
		}
	}
}

// Rate and gap CV of the renewal processes against their closed forms: the
// relative standard error of the mean gap is CV/√n, that of the CV of gamma
// gaps of shape k is √((1+1/k)/2n).
func TestRenewalMoments(t *testing.T) {
	const n = 200_000
	for _, c := range []struct {
		name     string
		arrivals workload.Arrivals
		rate     float64
		cv       float64
	}{
		{"poisson", workload.Poisson{Rate: 4}, 4, 1},
		{"poisson, fast", workload.Poisson{Rate: 2e8}, 2e8, 1},
		{"gamma shape 4", workload.Gamma{Rate: 10, Shape: 4}, 10, 0.5},
		{"gamma shape 1", workload.Gamma{Rate: 10, Shape: 1}, 10, 1},
		{"gamma shape 0.25", workload.Gamma{Rate: 10, Shape: 0.25}, 10, 2},
		{"gamma cv 5", workload.Gamma{Rate: 0.5, CV: 5}, 0.5, 5},
		{"scaled", workload.Scale{Arrivals: workload.Gamma{Rate: 1, CV: 2}, Factor: 3}, 3, 2},
		{"own", workload.Gaps(func(r *rand.Rand) float64 { return r.ExpFloat64() / 7 }), 7, 1},
	} {
		mean, cv := gapMoments(first(t, n, 3, c.arrivals))
		within(t, c.name+": rate × mean gap", mean*c.rate, 1, c.cv/math.Sqrt(n), 4)
		within(t, c.name+": CV", cv, c.cv, c.cv*math.Sqrt((1+c.cv*c.cv)/(2*n)), 4)
	}
}

// The same seed at another rate is the same process on another clock, so that
// a sweep over rates compares like with like.
func TestRateOnlyStretches(t *testing.T) {
	slow, fast := first(t, 1000, 5, workload.Gamma{Rate: 1, CV: 3}), first(t, 1000, 5, workload.Gamma{Rate: 8, CV: 3})
	for i := range slow {
		if d := slow[i]/8 - fast[i]; d < -2 || d > 2 {
			t.Fatalf("arrival %d: %v at rate 1, %v at rate 8", i, slow[i], fast[i])
		}
	}
}

func TestInvalidProcesses(t *testing.T) {
	ok := workload.Poisson{Rate: 1}
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		arrivals workload.Arrivals
		want     string
	}{
		{workload.Constant{}, "Constant.Rate is 0,"},
		{workload.Constant{Rate: -1}, "Constant.Rate is -1,"},
		{workload.Poisson{Rate: nan}, "Poisson.Rate is NaN,"},
		{workload.Poisson{Rate: inf}, "Poisson.Rate is +Inf,"},
		{workload.Poisson{Rate: 1e10}, "Poisson.Rate is 1e+10,"},
		{workload.Gamma{Rate: 0, Shape: 1}, "Gamma.Rate is 0,"},
		{workload.Gamma{Rate: 1}, "Gamma.Shape is 0 and Gamma.CV is 0,"},
		{workload.Gamma{Rate: 1, Shape: 1, CV: 1}, "Gamma.Shape is 1 and Gamma.CV is 1,"},
		{workload.Gamma{Rate: 1, Shape: inf}, "Gamma.Shape is +Inf,"},
		{workload.Gamma{Rate: 1, Shape: nan}, "Gamma.Shape is NaN,"},
		{workload.Gamma{Rate: 1, Shape: -2}, "Gamma.Shape is -2,"},
		{workload.Gamma{Rate: 1, CV: -2}, "Gamma.CV is -2,"},
		{workload.Gamma{Rate: 1, CV: nan}, "Gamma.CV is NaN,"},
		{workload.Gamma{Rate: 1, CV: inf}, "Gamma.CV is +Inf,"},
		{workload.Gamma{Rate: 1, CV: 1e-200}, "Gamma.Shape is +Inf,"},
		{workload.Bursts{Every: time.Second}, "Bursts.Size is 0,"},
		{workload.Bursts{Size: 2}, "Bursts.Every is 0s,"},
		{workload.Limit{Arrivals: ok}, "Limit.Count and Limit.Duration are 0,"},
		{workload.Limit{Arrivals: ok, Count: -1}, "Limit.Count is -1,"},
		{workload.Limit{Arrivals: ok, Duration: -time.Second}, "Limit.Duration is -1s,"},
		{workload.Limit{Count: 1}, "Limit.Arrivals is nil"},
		{workload.Limit{Count: 1, Arrivals: workload.Poisson{}}, "Limit.Arrivals: Poisson.Rate is 0,"},
		{workload.Scale{Arrivals: ok, Factor: 0}, "Scale.Factor is 0,"},
		{workload.Scale{Arrivals: ok, Factor: inf}, "Scale.Factor is +Inf,"},
		{workload.Scale{Factor: 1}, "Scale.Arrivals is nil"},
		{workload.Shift{Arrivals: ok, By: -1}, "Shift.By is -1ns,"},
		{workload.Shift{}, "Shift.Arrivals is nil"},
		{workload.Gaps(nil), "Gaps is nil"},
		{workload.Gaps(func(*rand.Rand) float64 { return nan }), "the gap after 0s is NaN s"},
		{workload.Gaps(func(*rand.Rand) float64 { return -1 }), "the gap after 0s is -1 s"},
		{workload.Gaps(func(*rand.Rand) float64 { return inf }), "292 years"},
		{workload.Poisson{Rate: 1e-300}, "292 years"},
	} {
		n, err := failure(c.arrivals)
		if n != 0 || err == nil || !strings.HasPrefix(err.Error(), "workload: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %d arrivals, then %v, want error with %q", c.arrivals, n, err, c.want)
		}
	}
}

// Processes end with an error where instants end, and never step back.
func TestEndOfTime(t *testing.T) {
	century := 100 * 365 * 24 * time.Hour
	for _, c := range []struct {
		name     string
		arrivals workload.Arrivals
		n        int
	}{
		{"constant", workload.Constant{Rate: 1 / century.Seconds()}, 3},
		{"gaps", workload.Gaps(func(*rand.Rand) float64 { return century.Seconds() }), 2},
		{"bursts", workload.Bursts{Size: 2, Every: century}, 6},
		{"scale", workload.Scale{Arrivals: workload.Bursts{Size: 1, Every: century}, Factor: 0.4}, 2},
		{"shift", workload.Shift{Arrivals: workload.Bursts{Size: 1, Every: century}, By: century}, 2},
		{"on and off", workload.OnOff{On: 2e-6 / century.Seconds(), MeanOn: century, MeanOff: century}, 0},
		{"varying", workload.Varying{Rate: workload.Ramp{From: 1e-300, To: 1e-300, Over: 1}}, 0},
		{"steps", workload.Varying{Rate: workload.Steps{Repeat: true, Steps: []workload.Step{{For: 2 * century}, {Rate: 1e-300, For: 1}}}, Peak: 1e-300}, 0},
		{"superpose", workload.Superpose{workload.Bursts{Size: 2, Every: century}}, 6},
		{"mlperf", workload.MLPerfServer{TargetQPS: 1e-300}, 1},
		{"sglang", workload.SGLangBench{Rate: 1e-300}, 1},
		{"mmpp", workload.MMPP{Rates: []float64{1e-300}, Transition: [][]float64{{1}}, Slot: century}, 0},
	} {
		if n, err := failure(c.arrivals); n != c.n || err == nil || !strings.Contains(err.Error(), "292 years") {
			t.Errorf("%s: %d arrivals, then %v, want %d, then the end of time", c.name, n, err, c.n)
		}
	}
}

// failing yields two arrivals and then an error.
type failing struct{ err error }

func (f failing) Times(*rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		_ = yield(1, nil) && yield(2, nil) && yield(0, f.err)
	}
}

func TestErrorsPassCombinators(t *testing.T) {
	broken := errors.New("broken")
	for _, a := range []workload.Arrivals{
		workload.Limit{Arrivals: failing{broken}, Count: 10},
		workload.Limit{Arrivals: failing{broken}, Duration: time.Second},
		workload.Scale{Arrivals: failing{broken}, Factor: 2},
		workload.Shift{Arrivals: failing{broken}, By: 1},
	} {
		if n, err := failure(a); n != 2 || !errors.Is(err, broken) {
			t.Errorf("%T: %d arrivals, then %v, want 2, then %v", a, n, err, broken)
		}
	}
}
