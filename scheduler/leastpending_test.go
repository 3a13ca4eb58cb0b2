package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

func TestLeastPending(t *testing.T) {
	for _, c := range []struct {
		name  string
		loads []sim.Load
		want  int
	}{
		{"one", []sim.Load{{PendingPrompt: 4}}, 0},
		{"fewest positions", []sim.Load{{PendingPrompt: 3}, {PendingPrompt: 1, Waiting: 9}, {PendingPrompt: 2}}, 1},
		{"a tie goes by requests, waiting and running", []sim.Load{{PendingPrompt: 5, Waiting: 1, Running: 4}, {PendingPrompt: 5, Waiting: 2, Running: 1}, {PendingPrompt: 6}}, 1},
		{"a full tie goes to the first", []sim.Load{{PendingPrompt: 8}, {PendingPrompt: 7, Running: 2}, {PendingPrompt: 7, Waiting: 2}}, 1},
		{"or going to come", []sim.Load{{PendingPrompt: 5, Coming: 3}, {PendingPrompt: 5, Running: 2}}, 1},
		{"memory does not count", []sim.Load{{Running: 2, FreeBlocks: 1, Blocks: 9}, {Running: 2, FreeBlocks: 9, Blocks: 9}}, 0},
	} {
		if got := (scheduler.LeastPending{}).Route(0, sim.Query{}, c.loads); got != c.want {
			t.Errorf("%s: to %d, want %d", c.name, got, c.want)
		}
	}
}

// A long prompt and four short ones on two replicas, 0.1 ms a token, one request
// at a time. By requests, the third short one makes two on either side, behind the
// long one; by positions none stands there.
func TestLeastPendingInARun(t *testing.T) {
	perToken := sim.CostFunc(func(b sim.Batch) time.Duration { return time.Duration(b.PrefillTokens()) * ms / 10 })
	for _, c := range []struct {
		name   string
		router sim.Router
		want   map[int]sim.Time // first token
	}{
		{"least loaded", scheduler.LeastLoaded{}, map[int]sim.Time{0: at(1000), 1: at(10), 2: at(20), 3: at(1010), 4: at(30)}},
		{"least pending", scheduler.LeastPending{}, map[int]sim.Time{0: at(1000), 1: at(10), 2: at(20), 3: at(30), 4: at(40)}},
	} {
		got := map[int]sim.Time{}
		rs := []sim.Request{{ID: 0, Prompt: 10_000, Output: 1}}
		for id := 1; id < 5; id++ {
			rs = append(rs, sim.Request{ID: id, Prompt: 100, Output: 1})
		}
		_, err := sim.Run(context.Background(), sim.Config{Replicas: serial(2, perToken), Router: c.router, Check: true,
			Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
				if e.Kind == sim.FirstToken {
					got[e.ID] = e.Time
				}
			})}}, requests(rs...))
		if d := cmp.Diff(c.want, got); err != nil || d != "" {
			t.Errorf("%s: error %v, first tokens (-want +got):\n%s", c.name, err, d)
		}
	}
}

// Many short prompts are less to do than one long one.
func ExampleLeastPending() {
	loads := []sim.Load{{Running: 1, PendingPrompt: 30_000}, {Waiting: 6, Running: 2, PendingPrompt: 900}}
	fmt.Println(scheduler.LeastPending{}.Route(0, sim.Query{}, loads))
	// Output:
	// 1
}
