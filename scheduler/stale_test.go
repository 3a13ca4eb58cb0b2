package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/simtest"
)

func TestStale(t *testing.T) {
	r := &scheduler.Stale{Router: scheduler.LeastLoaded{}, Age: 10 * ms}
	fresh := &scheduler.Stale{Router: scheduler.LeastLoaded{}}
	var got, live []int
	loads := waiting(3, 2, 1)
	for _, s := range []struct {
		now   sim.Time
		loads []int
	}{
		{at(5), []int{3, 2, 1}},
		{at(5), []int{0, 2, 2}},
		{at(15) - 1, []int{0, 2, 2}},
		{at(15), []int{3, 2, 3}},
		{at(24), []int{0, 2, 2}},
		{at(40), []int{0, 2, 2}},
		{at(41), []int{9, 0, 2}},
	} {
		copy(loads, waiting(s.loads...)) // as in a run, the same slice
		got = append(got, r.Route(s.now, sim.Query{}, loads))
		live = append(live, fresh.Route(s.now, sim.Query{}, loads))
	}
	if d := cmp.Diff([]int{2, 2, 2, 1, 1, 0, 0}, got); d != "" {
		t.Errorf("routes by loads of up to 10 ms ago (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]int{2, 0, 0, 1, 0, 0, 1}, live); d != "" {
		t.Errorf("routes by loads of age 0 (-want +got):\n%s", d)
	}
}

// The loads of a replica are as old whatever others are seen beside it; its
// role and whether it is closed are of the moment.
func TestStaleWithChangingReplicas(t *testing.T) {
	var shown []sim.Load
	r := &scheduler.Stale{Age: 10 * ms, Router: routerFunc(func(loads []sim.Load) int {
		shown = slices.Clone(loads)
		return 0
	})}
	load := func(replica, waiting int, role sim.Role, closed bool) sim.Load {
		return sim.Load{Replica: replica, Waiting: waiting, Role: role, Closed: closed}
	}
	const both, decode = sim.RoleBoth, sim.RoleDecode
	for _, c := range []struct {
		now         sim.Time
		given, want []sim.Load
	}{
		{at(5), []sim.Load{load(1, 10, both, false), load(4, 40, both, false)}, []sim.Load{load(1, 10, both, false), load(4, 40, both, false)}},
		// Replica 2 comes, 1 is not among those asked about, 4 has changed.
		{at(6), []sim.Load{load(2, 20, both, false), load(4, 44, decode, true)}, []sim.Load{load(2, 20, both, false), load(4, 40, decode, true)}},
		{at(7), []sim.Load{load(1, 11, both, false), load(2, 22, both, false), load(5, 50, both, false)}, []sim.Load{load(1, 10, both, false), load(2, 20, both, false), load(5, 50, both, false)}},
		{at(15), []sim.Load{load(4, 45, both, false)}, []sim.Load{load(4, 45, both, false)}},
		{at(16), []sim.Load{load(1, 12, both, false), load(4, 46, both, false)}, []sim.Load{load(1, 12, both, false), load(4, 45, both, false)}},
	} {
		r.Route(c.now, sim.Query{}, c.given)
		if d := cmp.Diff(c.want, shown, cmpopts.IgnoreUnexported(sim.Load{})); d != "" {
			t.Errorf("at %v (-want +got):\n%s", c.now, d)
		}
	}
}

// routerFunc is a router that looks at loads alone.
type routerFunc func(loads []sim.Load) int

func (f routerFunc) Route(_ sim.Time, _ sim.Query, loads []sim.Load) int { return f(loads) }

// burstsOn routes 40 bursts of 48 requests, one every 10 ms, over 8 replicas
// that serve one request per ms. It returns the longest queue that a request
// joined, itself included, and the longest time to first token.
func burstsOn(r sim.Router) (longest int, worst time.Duration, err error) {
	cfg := sim.Config{Replicas: serial(8, flat), Router: r}
	laws := &simtest.Laws{Config: cfg}
	var waiting [8]int
	cfg.Observers = []sim.Observer{laws, sim.ObserverFunc(func(e sim.Event) {
		switch e.Kind {
		case sim.Queue:
			waiting[e.Replica]++
			longest = max(longest, waiting[e.Replica])
		case sim.Admit:
			waiting[e.Replica]--
		case sim.FirstToken:
			worst = max(worst, e.Time.Sub(e.Timeline.Arrival))
		}
	})}
	var rs []sim.Request
	for i := range 40 * 48 {
		rs = append(rs, sim.Request{ID: i, Arrival: at(float64(i / 48 * 10)), Prompt: 1, Output: 1})
	}
	res, err := sim.Run(context.Background(), cfg, requests(rs...))
	if err == nil {
		err = laws.Check(res)
	}
	if err == nil && res.Completed != res.Arrived {
		err = fmt.Errorf("%d of %d completed", res.Completed, res.Arrived)
	}
	return longest, worst, err
}

// By live loads a burst is 6 a replica. By loads from its start all 48 go to
// one, which has 10 ms until the next burst goes to another.
func TestOldLoadsHerd(t *testing.T) {
	for _, c := range []struct {
		name    string
		router  sim.Router
		longest [2]int // at least, at most
		worst   time.Duration
	}{
		{"least loaded, live", scheduler.LeastLoaded{}, [2]int{6, 6}, 6 * ms},
		{"least loaded, old", &scheduler.Stale{Router: scheduler.LeastLoaded{}, Age: 5 * ms}, [2]int{48, 48}, 48 * ms},
		{"least pending, old", &scheduler.Stale{Router: scheduler.LeastPending{}, Age: 5 * ms}, [2]int{48, 48}, 48 * ms},
		{"two choices, live", &scheduler.TwoChoices{Seed: 1}, [2]int{6, 8}, 8 * ms},
		// A burst that falls at random has 6 ± 2.3 a replica: hardly ever 18.
		{"two choices, old", &scheduler.Stale{Router: &scheduler.TwoChoices{Seed: 1}, Age: 5 * ms}, [2]int{9, 18}, 18 * ms},
	} {
		longest, worst, err := burstsOn(c.router)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if longest < c.longest[0] || longest > c.longest[1] || worst > c.worst || c.longest[0] == c.longest[1] && worst != c.worst {
			t.Errorf("%s: a queue of %d and a TTFT of %v, want %v and %v", c.name, longest, worst, c.longest, c.worst)
		}
	}
}

// Bursts of 48 requests on 8 replicas. The least loaded replica of a moment ago
// gets a whole burst; two choices by the same old loads spread it.
func ExampleStale() {
	const age = 5 * time.Millisecond
	for _, c := range []struct {
		name   string
		router sim.Router
	}{
		{"least loaded, live", scheduler.LeastLoaded{}},
		{"least loaded, old ", &scheduler.Stale{Router: scheduler.LeastLoaded{}, Age: age}},
		{"two choices, old  ", &scheduler.Stale{Router: &scheduler.TwoChoices{Seed: 1}, Age: age}},
	} {
		longest, worst, err := burstsOn(c.router)
		if err != nil {
			fmt.Println(err)
		}
		fmt.Printf("%s: longest queue %2d, worst TTFT %v\n", c.name, longest, worst)
	}
	// Output:
	// least loaded, live: longest queue  6, worst TTFT 6ms
	// least loaded, old : longest queue 48, worst TTFT 48ms
	// two choices, old  : longest queue 14, worst TTFT 14ms
}
