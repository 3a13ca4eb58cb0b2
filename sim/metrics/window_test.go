package metrics_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"servesim/sim"
	"servesim/sim/metrics"
)

// The window is [100, 200) ms. One request comes before it and ends in it, two
// come in it and one of them drains after it, one comes as it closes.
func TestWindow(t *testing.T) {
	es := events(400,
		request{serial: 1, arrival: 50, admitted: 50, tokens: []int{60, 120}},
		request{serial: 2, arrival: 100, admitted: 100, tokens: []int{150, 199, 200}},
		request{serial: 3, arrival: 199, admitted: 199, tokens: []int{250, 300}},
		request{serial: 4, arrival: 200, admitted: 200, tokens: []int{210}},
	)
	r := report(t, oneReplica, metrics.Options{WarmUp: ms(100), Until: ms(200)}, es)
	type figures struct {
		Arrived, Completed, Unfinished, Steps int64
		TTFT, E2E, ITL                        metrics.Summary
		Requests, InSystem                    metrics.Number
		From, To, Simulated                   metrics.Number
	}
	few := []string{"p90", "p95", "p99"}
	want := figures{
		Arrived: 2, Completed: 2,
		Steps: 2, // those that end at 120 and 199, not the ones at 200 and 300
		TTFT:  metrics.Summary{N: 2, Mean: 50.5, P50: 50.5, P90: 50.9, P95: 50.95, P99: 50.99, Max: 51, Few: few},
		E2E:   metrics.Summary{N: 2, Mean: 100.5, P50: 100.5, P90: 100.9, P95: 100.95, P99: 100.99, Max: 101, Few: few},
		ITL:   metrics.Summary{N: 2, Mean: 54.5, P50: 54.5, P90: 58.9, P95: 59.45, P99: 59.89, Max: 60, Few: few},
		// Two completions between 100 and 300 ms.
		Requests: 10,
		// In the window 20 + 100 + 1 request-milliseconds.
		InSystem: 1.21, From: 0.1, To: 0.2, Simulated: 0.4,
	}
	got := figures{r.Arrived, r.Completed, r.Unfinished, r.Steps, r.TTFT, r.E2E, r.ITL, r.RequestThroughput, r.InSystemMean,
		r.WindowFromS, r.WindowToS, r.SimulatedS}
	if d := cmp.Diff(want, got, near); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// One departure of 70 ms in 0.1 s.
	little := metrics.Little{L: 1.21, Lambda: 10, W: 0.07, Residual: 0.51}
	if d := cmp.Diff(little, r.Little, near, cmpopts.IgnoreFields(metrics.Little{}, "Finding")); d != "" {
		t.Errorf("Little (-want +got):\n%s", d)
	}
	if len(r.Findings) != 1 {
		t.Errorf("findings %q, want that the window is not steady", r.Findings)
	}
}

// Steps that straddle an end of the window count for the part inside.
func TestWindowCutsSteps(t *testing.T) {
	r := report(t, oneReplica, metrics.Options{WarmUp: ms(100), Until: ms(200)}, []sim.Event{
		stepOf(0, 80, 120, 2, 900), stepOf(0, 120, 140, 5, 800), stepOf(0, 190, 290, 4, 0), {Kind: sim.End, Time: ms(300)}})
	want := metrics.Load{
		BatchMean: (2*20 + 5*20 + 4*10) / 50.0, BatchPerStep: 3.5, BatchPeak: 5,
		KVMean: (100*20 + 200*20 + 1000*10) / (1000 * 100.0), KVPeak: 1, Busy: 0.5,
	}
	if d := cmp.Diff(want, r.Load, near); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestOptionErrors(t *testing.T) {
	for _, c := range []struct {
		o    metrics.Options
		want string
	}{
		{metrics.Options{Percentiles: 7}, "metrics: Options.Percentiles is method(7)"},
		{metrics.Options{Gap: 9}, "metrics: Options.Gap is rule(9)"},
		{metrics.Options{WarmUp: -1}, "metrics: Options.WarmUp is -1"},
		{metrics.Options{WarmUp: ms(5), Until: ms(5)}, "metrics: Options.Until is 5ms, not after WarmUp 5ms"},
		{metrics.Options{MinBeyond: -2}, "metrics: Options.MinBeyond is -2"},
	} {
		if _, err := metrics.New(oneReplica, c.o); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}
