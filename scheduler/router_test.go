package scheduler_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

// routes asks r n times with the same loads.
func routes(r sim.Router, n int, loads []sim.Load) (to []int) {
	for range n {
		to = append(to, r.Route(0, sim.Query{}, loads))
	}
	return to
}

// waiting makes the loads of replicas with that many requests in their queues.
func waiting(n ...int) (loads []sim.Load) {
	for i, w := range n {
		loads = append(loads, sim.Load{Waiting: w, Replica: i})
	}
	return loads
}

func TestRoundRobin(t *testing.T) {
	got := routes(&scheduler.RoundRobin{}, 7, waiting(9, 0, 5))
	if d := cmp.Diff([]int{0, 1, 2, 0, 1, 2, 0}, got); d != "" {
		t.Errorf("routes (-want +got):\n%s", d)
	}
	if got := routes(&scheduler.RoundRobin{}, 3, waiting(4)); !slices.Equal(got, []int{0, 0, 0}) {
		t.Errorf("routes with one replica: %v", got)
	}
}

func TestLeastLoaded(t *testing.T) {
	for _, c := range []struct {
		name  string
		loads []sim.Load
		want  int
	}{
		{"one", []sim.Load{{Waiting: 4}}, 0},
		{"fewest waiting", []sim.Load{{Waiting: 3}, {Waiting: 1}, {Waiting: 2}}, 1},
		{"waiting and running together", []sim.Load{{Waiting: 3, Running: 1}, {Waiting: 0, Running: 5}, {Waiting: 2, Running: 1}}, 2},
		{"a tie goes by prompt positions", []sim.Load{{Running: 2, PendingPrompt: 900}, {Waiting: 2, PendingPrompt: 100}, {Running: 3}}, 1},
		{"a full tie goes to the first", []sim.Load{{Running: 3}, {Running: 2, PendingPrompt: 7}, {Waiting: 2, PendingPrompt: 7}}, 1},
		{"memory does not count", []sim.Load{{Running: 2, FreeBlocks: 1, Blocks: 9}, {Running: 2, FreeBlocks: 9, Blocks: 9}}, 0},
		{"what is going to come counts", []sim.Load{{Coming: 3}, {Waiting: 1, Running: 1}}, 1},
	} {
		if got := (scheduler.LeastLoaded{}).Route(0, sim.Query{}, c.loads); got != c.want {
			t.Errorf("%s: to %d, want %d", c.name, got, c.want)
		}
	}
}

func TestTwoChoicesIsDeterministic(t *testing.T) {
	loads := waiting(5, 5, 5, 5, 5, 5, 5, 5)
	a, b := routes(&scheduler.TwoChoices{Seed: 7}, 200, loads), routes(&scheduler.TwoChoices{Seed: 7}, 200, loads)
	if d := cmp.Diff(a, b); d != "" {
		t.Errorf("the same seed routes differently:\n%s", d)
	}
	if slices.Equal(a, routes(&scheduler.TwoChoices{Seed: 8}, 200, loads)) {
		t.Error("another seed routes alike")
	}
	if got := routes(&scheduler.TwoChoices{}, 3, waiting(1)); !slices.Equal(got, []int{0, 0, 0}) {
		t.Errorf("routes with one replica: %v", got)
	}
}

// Among equals every replica gets its share. Among n that differ, replica k in
// order of load is the lighter of two distinct draws with probability
// 2(n-1-k) / n(n-1); the heaviest never is.
func TestTwoChoicesShares(t *testing.T) {
	const n, draws = 10, 90_000
	for _, c := range []struct {
		name  string
		loads []sim.Load
		want  func(k int) float64
	}{
		{"equal", waiting(make([]int, n)...), func(int) float64 { return 1.0 / n }},
		{"rising", waiting(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), func(k int) float64 { return 2 * float64(n-1-k) / (n * (n - 1)) }},
	} {
		count := make([]float64, n)
		for _, to := range routes(&scheduler.TwoChoices{Seed: 3}, draws, c.loads) {
			count[to]++
		}
		for k := range count {
			// Five standard deviations of a share are at most 0.007.
			if got, want := count[k]/draws, c.want(k); math.Abs(got-want) > 0.007 || want == 0 && got > 0 {
				t.Errorf("%s: replica %d gets %.4f, want %.4f", c.name, k, got, want)
			}
		}
	}
}

// In a run the loads are live: a burst spreads evenly at once, and short work
// draws more work.
func TestRoutersInARun(t *testing.T) {
	for _, c := range []struct {
		name   string
		router sim.Router
		want   []int32 // replica of each request
	}{
		{"round robin", &scheduler.RoundRobin{}, []int32{0, 1, 2, 0, 1, 2, 0}},
		// At 4.5 ms replicas 1 and 2 have served their two, replica 0 has one
		// left of its two.
		{"least loaded", scheduler.LeastLoaded{}, []int32{0, 1, 2, 0, 1, 2, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []int32
			cfg := sim.Config{Router: c.router, Check: true, Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
				if e.Kind == sim.Queue {
					got = append(got, e.Replica)
				}
			})}}
			for range 3 {
				cfg.Replicas = append(cfg.Replicas, sim.Replica{Scheduler: scheduler.ChunkedPrefill{}, CostModel: flat})
			}
			var rs []sim.Request
			for id, output := range []int{9, 2, 2, 2, 3, 2} {
				rs = append(rs, sim.Request{ID: id, Prompt: 5, Output: output})
			}
			rs = append(rs, sim.Request{ID: 6, Arrival: at(4.5), Prompt: 5, Output: 1})
			if _, err := sim.Run(context.Background(), cfg, requests(rs...)); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("replicas (-want +got):\n%s", d)
			}
		})
	}
}
