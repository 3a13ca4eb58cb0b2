package workload_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/workload"
)

// whole returns all instants of a process that ends.
func whole(t testing.TB, seed uint64, a workload.Arrivals) []sim.Time {
	t.Helper()
	var times []sim.Time
	for at, err := range a.Times(random(seed)) {
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, at)
	}
	return times
}

// meanOf runs a figure over seeds.
func meanOf(seeds int, figure func(seed uint64) float64) (mean, se float64) {
	x := make([]float64, seeds)
	for i := range x {
		x[i] = figure(uint64(i))
	}
	return batchMean(x)
}

// The stretched gaps of a run of N requests are Dirichlet: the mean of their
// squared CV is (N-1)/(Nk+1), whatever the rate. Without stretching it would
// go to 1/k: CV 10 in place of 7.0 at k = 0.01.
func TestVLLMBenchGapsAreDirichlet(t *testing.T) {
	for _, c := range []struct {
		n  int
		k  float64
		cv float64 // 0: not checked
	}{{100, 0.01, 7.04}, {100, 1, 0.990}, {30, 0.25, 0}, {1000, 4, 0}} {
		v := workload.VLLMBench{Requests: c.n, Rate: 3, Burstiness: c.k}
		mean, se := meanOf(min(1500, 200_000/c.n), func(seed uint64) float64 {
			_, cv := gapMoments(whole(t, seed, v))
			return cv * cv
		})
		n := float64(c.n)
		within(t, fmt.Sprintf("CV² of %+v", v), mean, (n-1)/(n*c.k+1), se, 4)
		if c.cv != 0 {
			near(t, "CV", math.Sqrt(mean), c.cv, 0.03)
		}
	}
}

// The last request comes at N/Rate to the nanosecond, so that the load of runs
// does not vary; half-way the count is binomial and varies half as much as
// Poisson arrivals would. Describe sees the rate, short of the gap before the
// first request.
func TestVLLMBenchTotalIsFixed(t *testing.T) {
	v := workload.VLLMBench{Requests: 1000, Rate: 20}
	counts := make([]float64, 2000)
	for seed := range counts {
		times := whole(t, uint64(seed), v)
		if last := times[len(times)-1]; len(times) != 1000 || last != sim.Time(50*time.Second) {
			t.Fatalf("seed %d: %d requests up to %v, want 1000 up to 50 s", seed, len(times), last)
		}
		for _, at := range times {
			if at < sim.Time(25*time.Second) {
				counts[seed]++
			}
		}
	}
	mean, se := batchMean(counts)
	variance := se * se * float64(len(counts))
	within(t, "variance/mean of the count in the first half", variance*float64(len(counts)-1)/float64(len(counts))/mean, 0.5, 0.5*math.Sqrt(2.0/2000), 4)
	d := described(t, 1, v)
	near(t, "rate", float64(d.Rate), 20, 0.01)
	within(t, "gap CV", float64(d.GapCV), 1, 1/math.Sqrt(1000), 4)
}

func TestVLLMBenchExactSchedules(t *testing.T) {
	inf := math.Inf(1)
	sec := sim.Time(time.Second)
	for _, c := range []struct {
		name string
		v    workload.VLLMBench
		want []sim.Time
	}{
		{"no limit of rate", workload.VLLMBench{Requests: 3, Rate: inf}, []sim.Time{0, 0, 0}},
		{"even gaps, the first before the first request", workload.VLLMBench{Requests: 4, Rate: 2, Burstiness: inf}, []sim.Time{sec / 2, sec, 3 * sec / 2, 2 * sec}},
		// Rates 1, 2, 3, 4, 5 by number of the request.
		{"linear ramp", workload.VLLMBench{Requests: 5, Burstiness: inf, RampUp: workload.LinearRampUp, From: 1, To: 5},
			[]sim.Time{sec, 1.5e9, 1833333333, 2083333333, 2283333333}},
		{"exponential ramp", workload.VLLMBench{Requests: 3, Burstiness: inf, RampUp: workload.ExponentialRampUp, From: 1, To: 16}, []sim.Time{sec, 1.25e9, 1.3125e9}},
		{"a single request", workload.VLLMBench{Requests: 1, Rate: 4}, []sim.Time{sec / 4}},
	} {
		if diff := cmp.Diff(c.want, whole(t, 1, c.v)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	// A ramp-up is not stretched: its length varies.
	ramp := workload.VLLMBench{Requests: 50, RampUp: workload.LinearRampUp, From: 10, To: 20}
	ends := map[sim.Time]bool{}
	expected := 0.0
	for i := range 50 {
		expected += 1 / (10 + 10*float64(i)/49)
	}
	mean, se := meanOf(400, func(seed uint64) float64 {
		times := whole(t, seed, ramp)
		ends[times[49]] = true
		return times[49].Seconds()
	})
	within(t, "end of the ramp", mean, expected, se, 4)
	if len(ends) < 300 {
		t.Errorf("%d different ends in 400 runs", len(ends))
	}
}

// The load type named constant has exponential gaps and a fixed total.
func TestInferencePerfConstantIsNot(t *testing.T) {
	p := workload.InferencePerfConstant{Rate: 2.5, Duration: 401 * time.Second}
	mean, se := meanOf(500, func(seed uint64) float64 {
		times := whole(t, seed, p)
		if len(times) != 1002 || times[1001] != sim.Time(p.Duration) {
			t.Fatalf("seed %d: %d requests up to %v, want 1002 up to %v", seed, len(times), times[len(times)-1], p.Duration)
		}
		_, cv := gapMoments(times)
		return cv * cv
	})
	within(t, "CV²", mean, 1001.0/1003, se, 4)
	d := described(t, 1, p)
	within(t, "gap CV", float64(d.GapCV), 1, 1/math.Sqrt(1000), 4)
}

// The load type named poisson puts the last request of every busy second on
// the whole second: (1-e^-λ)/λ of all.
func TestInferencePerfPoissonPinsSeconds(t *testing.T) {
	for _, c := range []struct {
		rate, share float64
	}{{2, 0.4323}, {10, 0.1000}, {50, 0.0200}} {
		const n = 50_000
		times := first(t, n, 1, workload.InferencePerfPoisson{Rate: c.rate})
		pinned, busy := 0.0, map[int64]bool{}
		for _, at := range times {
			if int64(at)%1e9 == 0 {
				pinned++
			}
			busy[(int64(at)-1)/1e9] = true
		}
		within(t, fmt.Sprintf("share on whole seconds at %v per second", c.rate), pinned/n, c.share, math.Sqrt(c.share*(1-c.share)/n)+5e-5, 4)
		if d := math.Abs(float64(len(busy)) - pinned); d > 1 {
			t.Errorf("%d busy seconds, %v requests on whole seconds", len(busy), pinned)
		}
		// The counts of seconds are Poisson.
		d := described(t, 1, workload.Limit{Arrivals: workload.InferencePerfPoisson{Rate: c.rate}, Count: n})
		within(t, "rate", float64(d.Rate), c.rate, c.rate/math.Sqrt(n), 4)
		within(t, "IDC(10 s)", float64(d.IDC10), 1, math.Sqrt(2/(n/c.rate/10)), 4)
	}
	// A stage of 600 s at 2 per second, as one measures it: 43.6 % is an
	// ordinary outcome.
	mean, _ := meanOf(300, func(seed uint64) float64 {
		pinned := 0.0
		for _, at := range first(t, 1200, seed, workload.InferencePerfPoisson{Rate: 2}) {
			if int64(at)%1e9 == 0 {
				pinned++
			}
		}
		if math.Abs(pinned/1200-0.436) < 0.001 {
			return 1
		}
		return 0
	})
	if mean < 0.02 {
		t.Errorf("43.6 %% on whole seconds in %.3f of the runs", mean)
	}
}

// Exponential gaps that are not made up for: 0.45 ms per request cost 16.5 of
// 200 requests per second. The first request comes at 0.
func TestSGLangBench(t *testing.T) {
	const n = 100_000
	for sending, rate := range map[time.Duration]float64{0: 200, 450 * time.Microsecond: 183.5} {
		s := workload.SGLangBench{Rate: 200, Sending: sending}
		times := first(t, n, 1, s)
		if times[0] != 0 {
			t.Errorf("the first request comes at %v", times[0])
		}
		within(t, "rate", (n-1)/times[n-1].Seconds(), rate, rate/math.Sqrt(n)+0.02, 4)
	}
	d := described(t, 1, workload.Limit{Arrivals: workload.SGLangBench{Rate: 5}, Count: n})
	within(t, "gap CV", float64(d.GapCV), 1, 1/math.Sqrt(n), 4)
	within(t, "IDC(10 s)", float64(d.IDC10), 1, math.Sqrt(2/(n/50.0)), 4)
}

// From 0 on, and one query past the end.
func TestMLPerfServer(t *testing.T) {
	for _, m := range []workload.MLPerfServer{
		{TargetQPS: 5},
		{TargetQPS: 5, MinDuration: 20 * time.Second},
		{TargetQPS: 5, MinDuration: 20 * time.Second, MinQueries: 500},
	} {
		end := m.MinDuration
		if end == 0 {
			end = 600 * time.Second
		}
		mean, se := meanOf(400, func(seed uint64) float64 {
			times := whole(t, seed, m)
			n := len(times)
			if times[0] != 0 || times[n-1] < sim.Time(end) || n < m.MinQueries {
				t.Fatalf("%+v: %d queries from %v to %v", m, n, times[0], times[n-1])
			}
			if n > m.MinQueries && times[n-2] >= sim.Time(end) {
				t.Fatalf("%+v: two queries past the end, %d in all", m, n)
			}
			return float64(n)
		})
		// The first, those that come until the end, and the one behind it.
		within(t, fmt.Sprintf("queries of %+v", m), mean, max(2+5*end.Seconds(), float64(m.MinQueries)), se+1e-9, 4)
	}
	d := described(t, 1, workload.MLPerfServer{TargetQPS: 5, MinDuration: 20_000 * time.Second})
	within(t, "rate", float64(d.Rate), 5, 5/math.Sqrt(100_000), 4)
	within(t, "gap CV", float64(d.GapCV), 1, 1/math.Sqrt(100_000), 4)
}

// Gaps cut at 3/QPS: mean (1-e⁻³)/QPS, rate +5.2 %, CV 0.88.
func TestVidurPoisson(t *testing.T) {
	const n = 200_000
	d := described(t, 1, workload.Limit{Arrivals: workload.VidurPoisson{QPS: 4}, Count: n})
	within(t, "rate", float64(d.Rate), 4*1.0524, 4*0.93/math.Sqrt(n), 4)
	within(t, "gap CV", float64(d.GapCV), 0.880, 0.6/math.Sqrt(n)+0.0005, 4)
	times := first(t, n, 1, workload.VidurPoisson{QPS: 4})
	longest, cut := time.Duration(0), 0.0
	for i := 1; i < n; i++ {
		gap := times[i].Sub(times[i-1])
		if longest = max(longest, gap); gap >= 750*time.Millisecond-1 {
			cut++
		}
	}
	if longest > 750*time.Millisecond+1 {
		t.Errorf("a gap of %v, want at most 750 ms", longest)
	}
	within(t, "share of gaps that are cut", cut/n, math.Exp(-3), math.Sqrt(math.Exp(-3)/n), 4)
}

// Workers that share a seed repeat every gap.
func TestGuideLLMPoisson(t *testing.T) {
	for workers, idc := range map[int]float64{1: 1, 4: 3.8, 10: 9.6, 16: 15.0} {
		g := workload.GuideLLMPoisson{Rate: 10, Workers: workers}
		d := described(t, 1, workload.Limit{Arrivals: g, Duration: 40_000 * time.Second})
		near(t, fmt.Sprintf("IDC(10 s) of %d workers", workers), float64(d.IDC10), idc, 0.08)
		near(t, "gap CV", float64(d.GapCV), 1, 0.03)
		times := append([]sim.Time{0}, first(t, 20*workers, 1, g)...)
		for i := 0; i < 20*workers; i++ {
			begin := i / workers * workers // of the repetitions
			if d := times[i+1].Sub(times[i]) - times[begin+1].Sub(times[begin]); d < -1 || d > 1 {
				t.Fatalf("%d workers: gap %d is not the one before", workers, i)
			}
		}
	}
}

// A fixed number of gaps fills a window, so that the last request falls on its
// end and is dropped unless rounding saves it: 38 % of draws with 50 requests,
// 0.9 % with one.
func TestServeGenWindows(t *testing.T) {
	window := func(n float64, law workload.ServeGenGapLaw, shape float64) workload.ServeGenWindows {
		return workload.ServeGenWindows{Windows: []workload.ServeGenWindow{{Rate: n / 600, Pattern: law, Shape: shape}}}
	}
	for _, c := range []struct {
		requests   float64
		share, tol float64 // of windows that keep the last one
	}{{50, 0.37, 0.03}, {1, 0.009, 0.004}} {
		mean, _ := meanOf(5000, func(seed uint64) float64 {
			n := float64(len(whole(t, seed, window(c.requests-0.2, workload.ServeGenGamma, 1))))
			if n != c.requests && n != c.requests-1 {
				t.Fatalf("%v requests, want %v or one less", n, c.requests)
			}
			return n - c.requests + 1
		})
		within(t, fmt.Sprintf("windows that keep the last of %v", c.requests), mean, c.share, c.tol, 1)
	}
	// The law of the gaps shows in their CV: Dirichlet again.
	for _, c := range []struct {
		law    workload.ServeGenGapLaw
		shape  float64
		cv2    float64
		errors float64
	}{{workload.ServeGenGamma, 0.25, 999.0 / 251, 0.05}, {workload.ServeGenWeibull, 0.5, 5, 0.05}} {
		mean, _ := meanOf(300, func(seed uint64) float64 {
			_, cv := gapMoments(whole(t, seed, window(1000, c.law, c.shape)))
			return cv * cv
		})
		near(t, string(c.law)+" CV²", mean, c.cv2, c.errors)
	}
	// Windows follow one another; idle ones are silent.
	s := workload.ServeGenWindows{Width: 10 * time.Second, Windows: []workload.ServeGenWindow{
		{Rate: 5, Pattern: workload.ServeGenGamma, Shape: 2},
		{Start: 10 * time.Second},
		{Start: 30 * time.Second, Rate: 2, Pattern: workload.ServeGenWeibull, Shape: 2},
	}}
	counts := map[int]int{}
	for _, at := range whole(t, 1, s) {
		counts[int(max(0, at-1)/1e10)]++
	}
	if n := counts[0] + counts[3]; len(counts) != 2 || n < 68 || n > 70 || counts[3] < 19 || counts[3] > 20 {
		t.Errorf("requests by window: %v, want 49 or 50 in the first and 19 or 20 in the fourth", counts)
	}
}

// Twenty clients add up to gaps that look nearly exponential.
func TestServeGenClientsSuperposed(t *testing.T) {
	var clients workload.Superpose
	for _, share := range workload.Shares(20, 1.5) {
		s := workload.ServeGenWindows{}
		for w := range 10 {
			s.Windows = append(s.Windows, workload.ServeGenWindow{Start: time.Duration(w) * 600 * time.Second, Rate: 20 * share, Pattern: workload.ServeGenGamma, Shape: 0.2})
		}
		clients = append(clients, s)
	}
	d := described(t, 1, clients)
	near(t, "rate", float64(d.Rate), 20, 0.005)
	if d.GapCV > 1.8 || d.IDC10 < 3 {
		t.Errorf("gap CV %v, IDC(10 s) %v: clients of gap CV 2.2 hide in the first and show in the second", d.GapCV, d.IDC10)
	}
}

func TestInvalidGenerators(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	window := func(w workload.ServeGenWindow) workload.ServeGenWindows {
		return workload.ServeGenWindows{Windows: []workload.ServeGenWindow{w}}
	}
	ok := workload.ServeGenWindow{Rate: 1, Pattern: workload.ServeGenGamma, Shape: 1}
	for _, c := range []struct {
		arrivals workload.Arrivals
		want     string
	}{
		{workload.VLLMBench{Rate: 1}, "VLLMBench.Requests is 0,"},
		{workload.VLLMBench{Requests: 1}, "VLLMBench.Rate is 0,"},
		{workload.VLLMBench{Requests: 1, Rate: nan}, "VLLMBench.Rate is NaN,"},
		{workload.VLLMBench{Requests: 1, Rate: 1, Burstiness: -1}, "VLLMBench.Burstiness is -1,"},
		{workload.VLLMBench{Requests: 1, Rate: 1, Burstiness: nan}, "VLLMBench.Burstiness is NaN,"},
		{workload.VLLMBench{Requests: 1, Rate: 1, From: 2}, "VLLMBench.From is 2 and To is 0 without a RampUp"},
		{workload.VLLMBench{Requests: 1, RampUp: workload.LinearRampUp, To: 2}, "VLLMBench.From is 0,"},
		{workload.VLLMBench{Requests: 1, RampUp: workload.ExponentialRampUp, From: 1, To: inf}, "VLLMBench.To is +Inf,"},
		{workload.VLLMBench{Requests: 1, RampUp: 7}, "VLLMBench.RampUp is 7"},
		{workload.VLLMBench{Requests: 1, Rate: 1e-10}, "292 years"},
		{workload.InferencePerfConstant{Duration: time.Second}, "InferencePerfConstant.Rate is 0,"},
		{workload.InferencePerfConstant{Rate: 1, Duration: time.Millisecond}, "no request at 1 per second"},
		{workload.InferencePerfPoisson{}, "InferencePerfPoisson.Rate is 0,"},
		{workload.InferencePerfPoisson{Rate: 1e-300}, "292 years"},
		{workload.SGLangBench{}, "SGLangBench.Rate is 0,"},
		{workload.SGLangBench{Rate: inf}, "SGLangBench.Rate is +Inf,"},
		{workload.SGLangBench{Rate: 1, Sending: -1}, "SGLangBench.Sending is -1ns,"},
		{workload.MLPerfServer{}, "MLPerfServer.TargetQPS is 0,"},
		{workload.MLPerfServer{TargetQPS: 1, MinDuration: -1}, "MLPerfServer.MinDuration is -1ns,"},
		{workload.MLPerfServer{TargetQPS: 1, MinQueries: -1}, "MLPerfServer.MinQueries is -1,"},
		{workload.VidurPoisson{}, "VidurPoisson.QPS is 0,"},
		{workload.GuideLLMPoisson{Workers: 1}, "GuideLLMPoisson.Rate is 0,"},
		{workload.GuideLLMPoisson{Rate: 1}, "GuideLLMPoisson.Workers is 0,"},
		{workload.ServeGenWindows{}, "no Windows in ServeGenWindows"},
		{workload.ServeGenWindows{Width: -1, Windows: []workload.ServeGenWindow{ok}}, "ServeGenWindows.Width is -1ns,"},
		{workload.ServeGenWindows{Windows: []workload.ServeGenWindow{ok, ok}}, "ServeGenWindows.Windows[1].Start is 0s, want at least 10m0s"},
		{window(workload.ServeGenWindow{Start: -1}), "ServeGenWindows.Windows[0].Start is -1ns,"},
		{window(workload.ServeGenWindow{Rate: 1, Shape: 1, Pattern: "Pareto"}), `Windows[0].Pattern is "Pareto",`},
		{window(workload.ServeGenWindow{Rate: nan, Shape: 1, Pattern: workload.ServeGenGamma}), "Windows[0].Rate is NaN,"},
		{window(workload.ServeGenWindow{Rate: 1e6, Shape: 1, Pattern: workload.ServeGenGamma}), "600000000 requests in a window"},
		{window(workload.ServeGenWindow{Rate: 1, Pattern: workload.ServeGenWeibull}), "Windows[0].Shape is 0,"},
	} {
		if n, err := failure(c.arrivals); n > 1 || !strings.Contains(errText(err), c.want) {
			t.Errorf("%+v: %d arrivals, then %v, want error with %q", c.arrivals, n, err, c.want)
		}
	}
}

// One uniform number for prompt and output puts them in the same order, which
// the same tables drawn apart do not.
func TestServeGenLengthsAreCoupled(t *testing.T) {
	table := func(first, step, n int) (e workload.Empirical) {
		for i := range n {
			e.Values, e.Weights = append(e.Values, first+i*step), append(e.Weights, 1/float64(1+i))
		}
		return e
	}
	prompt, output := table(200, 7, 400), table(1, 3, 300)
	spearman := func(l workload.Lengths) float64 {
		pairs, err := workload.DrawLengths(l, 4000, 1)
		if err != nil {
			t.Fatal(err)
		}
		c, err := workload.CompareLengths(pairs, pairs)
		if err != nil {
			t.Fatal(err)
		}
		return float64(c.Recorded.Spearman)
	}
	if s := spearman(workload.ServeGenLengths{Prompt: prompt, Output: output}); s < 0.995 {
		t.Errorf("rank correlation %.4f, want above 0.995", s)
	}
	within(t, "rank correlation when drawn apart", spearman(workload.Independent{Prompt: prompt, Output: output}), 0, 1/math.Sqrt(4000), 4)
}

// Every generator yields the same arrivals for the same seed, in order.
func TestGeneratorsRepeat(t *testing.T) {
	for _, a := range []workload.Arrivals{
		workload.VLLMBench{Requests: 300, Rate: 5, Burstiness: 0.3},
		workload.InferencePerfConstant{Rate: 5, Duration: time.Minute},
		workload.Limit{Arrivals: workload.InferencePerfPoisson{Rate: 5}, Count: 300},
		workload.Limit{Arrivals: workload.SGLangBench{Rate: 5}, Count: 300},
		workload.MLPerfServer{TargetQPS: 5, MinDuration: time.Minute},
		workload.Limit{Arrivals: workload.VidurPoisson{QPS: 5}, Count: 300},
		workload.Limit{Arrivals: workload.GuideLLMPoisson{Rate: 5, Workers: 3}, Count: 300},
		workload.ServeGenWindows{Windows: []workload.ServeGenWindow{{Rate: 0.5, Pattern: workload.ServeGenWeibull, Shape: 0.7}}},
		workload.Limit{Arrivals: workload.OnOff{On: 5, MeanOn: time.Second, MeanOff: time.Second}, Count: 300},
		workload.Limit{Arrivals: workload.Varying{Rate: workload.Diurnal{Mean: 5, Swing: 0.5}}, Count: 300},
		workload.Limit{Arrivals: workload.Superpose{workload.Weibull{Rate: 1, CV: 2}, workload.LogNormalGaps{Rate: 2, CV: 3}}, Count: 300},
	} {
		times := whole(t, 4, a)
		if !slices.Equal(times, whole(t, 4, a)) || slices.Equal(times, whole(t, 5, a)) {
			t.Errorf("%T: not the same arrivals for the same seed alone", a)
		}
		if !slices.IsSorted(times) || len(times) < 200 {
			t.Errorf("%T: %d arrivals, sorted %v", a, len(times), slices.IsSorted(times))
		}
	}
}
