package scheduler_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

const ms = time.Millisecond

// promptCost is 10 ms a step and 0.1 ms a prompt token.
var promptCost = sim.CostFunc(func(b sim.Batch) time.Duration {
	return 10*ms + time.Duration(b.PrefillTokens())*ms/10
})

// requests yields rs as an open-loop workload.
func requests(rs ...sim.Request) iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		for _, r := range rs {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// outcome is when the tokens of each request came, in ms.
type outcome map[int][]float64

// run simulates rs on one replica and returns the token times by request id.
func run(t *testing.T, r sim.Replica, rs ...sim.Request) outcome {
	t.Helper()
	got := outcome{}
	res, err := sim.Run(context.Background(), sim.Config{
		Replicas: []sim.Replica{r}, TokenTimes: true, Check: true,
		Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == sim.Finish {
				for _, at := range e.TokenTimes(nil) {
					got[e.ID] = append(got[e.ID], at.Milliseconds())
				}
			}
		})},
	}, requests(rs...))
	if err != nil {
		t.Fatal(err)
	}
	if res.Completed != int64(len(rs)) {
		t.Fatalf("completed %d of %d: %+v", res.Completed, len(rs), res)
	}
	return got
}

// Two sequences at most; A and B at 0 with 2 and 5 tokens, C at 1 ms with 2.
func TestBatchingPolicies(t *testing.T) {
	for _, c := range []struct {
		name string
		s    sim.Scheduler
		want outcome
	}{
		{"request batch", &scheduler.RequestBatch{}, outcome{1: {30, 40}, 2: {30, 40, 50, 60, 70}, 3: {90, 100}}},
		{"mixed steps", scheduler.ChunkedPrefill{}, outcome{1: {30, 40}, 2: {30, 40, 60, 70, 80}, 3: {60, 70}}},
		{"prompt steps", scheduler.Continuous{}, outcome{1: {30, 40}, 2: {30, 40, 70, 80, 90}, 3: {60, 70}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := run(t, sim.Replica{Scheduler: c.s, CostModel: promptCost, MaxSeqs: 2},
				sim.Request{ID: 1, Prompt: 100, Output: 2},
				sim.Request{ID: 2, Prompt: 100, Output: 5},
				sim.Request{ID: 3, Arrival: sim.Time(ms), Prompt: 100, Output: 2})
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("token times (-want +got):\n%s", d)
			}
		})
	}
}

// A prompt of 32,000 tokens beside one decode.
func TestChunkingBoundsTheGap(t *testing.T) {
	for _, c := range []struct {
		budget          int
		gap, first, sum float64
	}{
		{0, 3210, 3210, 1},
		{513, 61.2, 3830, 63},
		{512, 61.1, 3830, 63},
	} {
		t.Run(fmt.Sprint(c.budget), func(t *testing.T) {
			const start = 1000
			got := run(t, sim.Replica{Scheduler: scheduler.ChunkedPrefill{}, CostModel: promptCost, MaxBatchTokens: c.budget},
				sim.Request{ID: 1, Prompt: 10, Output: 500},
				// Arrives as a decode step of the first request ends.
				sim.Request{ID: 2, Arrival: sim.Time(start*ms + 1*ms), Prompt: 32_000, Output: 1})
			gap := 0.0
			for i := 1; i < len(got[1]); i++ {
				gap = max(gap, got[1][i]-got[1][i-1])
			}
			if diff := gap - c.gap; diff > 1e-6 || diff < -1e-6 {
				t.Errorf("largest gap %v ms, want %v", gap, c.gap)
			}
			if first := got[2][0] - (start + 1); first != c.first {
				t.Errorf("first token of the long prompt after %v ms, want %v", first, c.first)
			}
		})
	}
}
