package scheduler_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/simtest"
)

// atDoor runs rs and returns when each request was queued, or refused and why,
// or given up. The laws of simtest hold in the run, and its counts add up.
func atDoor(t *testing.T, cfg sim.Config, rs ...sim.Request) map[int]string {
	t.Helper()
	got := map[int]string{}
	laws := &simtest.Laws{Config: cfg}
	cfg.Check = true
	cfg.Observers = []sim.Observer{laws, sim.ObserverFunc(func(e sim.Event) {
		switch e.Kind {
		case sim.Queue:
			got[e.ID] = fmt.Sprint("queued ", e.Time)
		case sim.Reject:
			got[e.ID] = fmt.Sprint(e.Reason, " ", e.Time)
		case sim.Abort:
			got[e.ID] = fmt.Sprint("aborted ", e.Time)
		}
	})}
	res, err := sim.Run(context.Background(), cfg, requests(rs...))
	if err != nil {
		t.Fatal(err)
	}
	if err := laws.Check(res); err != nil {
		t.Error(err)
	}
	if res.Arrived != int64(len(rs)) && cfg.FollowUp == nil || res.Completed+res.Rejected+res.Aborted != res.Arrived {
		t.Errorf("the counts do not add up: %d requests, %+v", len(rs), res)
	}
	return got
}

// serial is n replicas that take one request at a time.
func serial(n int, c sim.CostModel) (rs []sim.Replica) {
	for range n {
		rs = append(rs, sim.Replica{Scheduler: scheduler.ChunkedPrefill{}, CostModel: c, MaxSeqs: 1})
	}
	return rs
}

// Every request takes a replica for 4 ms.
func TestQueueLimit(t *testing.T) {
	for _, c := range []struct {
		name              string
		waiting, replicas int
		arrivals          []float64
		want              map[int]string
	}{
		// At an instant nobody is admitted before all have arrived.
		{"a burst", 2, 1, []float64{0, 0, 0, 0}, map[int]string{1: "queued 0s", 2: "queued 0s", 3: "queue_full 0s", 4: "queue_full 0s"}},
		// Request 2 waits from 0.5 to 4 ms, request 4 from 4.5 ms on.
		{"room again", 1, 1, []float64{0, 0.5, 0.75, 4.5, 7}, map[int]string{1: "queued 0s", 2: "queued 500µs", 3: "queue_full 750µs", 4: "queued 4.5ms", 5: "queue_full 7ms"}},
		// Two run; one waits at each replica.
		{"all replicas together", 2, 2, []float64{0, 0, 1, 1, 2}, map[int]string{1: "queued 0s", 2: "queued 0s", 3: "queued 1ms", 4: "queued 1ms", 5: "queue_full 2ms"}},
		{"no limit", 0, 1, []float64{0, 0, 0}, map[int]string{1: "queued 0s", 2: "queued 0s", 3: "queued 0s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var rs []sim.Request
			for i, a := range c.arrivals {
				rs = append(rs, sim.Request{ID: i + 1, Arrival: at(a), Prompt: 3, Output: 4})
			}
			got := atDoor(t, sim.Config{Replicas: serial(c.replicas, flat), Router: &scheduler.RoundRobin{}, Admission: scheduler.QueueLimit{Waiting: c.waiting}}, rs...)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("front door (-want +got):\n%s", d)
			}
		})
	}
}

// At 10,000 prompt tokens per second, 400 pending and 100 of its own take
// 50 ms.
func TestDeadline(t *testing.T) {
	loads := []sim.Load{{PendingPrompt: 900}, {PendingPrompt: 400, Waiting: 9}}
	for _, c := range []struct {
		name     string
		rate     float64
		now      float64
		deadline sim.Time
		refused  bool
	}{
		{"just met", 10_000, 0, at(50), false},
		{"missed by 1 ns", 10_000, 0, at(50) - 1, true},
		{"later", 10_000, 10, at(60), false},
		{"later, missed by 1 ns", 10_000, 10, at(60) - 1, true},
		{"no deadline", 10_000, 1e6, 0, false},
		{"no rate", 0, 10, at(10), false},
		{"no rate, passed", 0, 10, at(10) - 1, true},
		{"too slow for the range of time", 1e-12, 0, sim.Never, true},
	} {
		got := scheduler.Deadline{PromptRate: c.rate}.Admit(at(c.now), sim.Query{Prompt: 100, Deadline: c.deadline}, loads)
		if want := map[bool]string{true: "deadline"}[c.refused]; got != (sim.Decision{Reject: want}) {
			t.Errorf("%s: %+v, want Reject %q", c.name, got, want)
		}
	}
}

// A step takes 0.1 ms a prompt token and a replica takes one request at a
// time, so the estimate is exact: requests of 100 tokens that come together
// have their tokens after 10, 20, … ms.
func TestDeadlineInARun(t *testing.T) {
	perToken := sim.CostFunc(func(b sim.Batch) time.Duration { return time.Duration(b.PrefillTokens()) * ms / 10 })
	var rs []sim.Request
	for id, deadline := range []float64{25, 20, 25, 29, 30, 0, 40} {
		rs = append(rs, sim.Request{ID: id, Prompt: 100, Output: 1, Deadline: at(deadline)})
	}
	want := map[int]string{0: "queued 0s", 1: "queued 0s", 2: "deadline 0s", 3: "deadline 0s", 4: "queued 0s", 5: "queued 0s", 6: "deadline 0s"}
	cfg := sim.Config{Replicas: serial(1, perToken), Admission: scheduler.Deadline{PromptRate: 10_000}}
	if d := cmp.Diff(want, atDoor(t, cfg, rs...)); d != "" {
		t.Errorf("front door (-want +got):\n%s", d)
	}
	first := run(t, cfg.Replicas[0], rs[0], rs[1], rs[4])
	if d := cmp.Diff(outcome{0: {10}, 1: {20}, 4: {30}}, first); d != "" {
		t.Errorf("tokens of those let in (-want +got):\n%s", d)
	}
}

// answer is an admission policy that says always the same.
type answer struct {
	sim.Decision
	asked *int
}

func (a answer) Admit(sim.Time, sim.Query, []sim.Load) sim.Decision {
	*a.asked++
	return a.Decision
}

func TestAll(t *testing.T) {
	accept, full, late := sim.Decision{}, sim.Decision{Reject: "full"}, sim.Decision{Reject: "late"}
	two, five := sim.Decision{Until: at(2)}, sim.Decision{Until: at(5)}
	for _, c := range []struct {
		name    string
		answers []sim.Decision
		want    sim.Decision
		asked   int
	}{
		{"nobody", nil, accept, 0},
		{"all accept", []sim.Decision{accept, accept}, accept, 2},
		{"first refusal", []sim.Decision{accept, full, late}, full, 2},
		{"refusal after deferral", []sim.Decision{two, late, accept}, late, 2},
		{"latest deferral", []sim.Decision{two, five, two, accept}, five, 4},
	} {
		asked := 0
		var all scheduler.All
		for _, d := range c.answers {
			all = append(all, answer{d, &asked})
		}
		if got := all.Admit(0, sim.Query{}, nil); got != c.want || asked != c.asked {
			t.Errorf("%s: %+v after %d asked, want %+v after %d", c.name, got, asked, c.want, c.asked)
		}
	}
}

// A deferred request finds the queue full when its turn comes. 100 tokens come
// per ms; a replica takes one request for 4 ms.
func TestAllInARun(t *testing.T) {
	cfg := sim.Config{Replicas: serial(1, flat), Admission: scheduler.All{
		scheduler.QueueLimit{Waiting: 1},
		&scheduler.TokenBucket{Rate: 100_000, Burst: 100, MaxWait: 2 * ms},
	}}
	request := func(id int, arrival float64) sim.Request {
		return sim.Request{ID: id, Arrival: at(arrival), Prompt: 100, Output: 4}
	}
	want := map[int]string{
		1: "queued 0s",          // runs until 4 ms
		2: "queued 1ms",         // deferred until its 100 tokens are there; runs from 4 to 8 ms
		3: "queue_full 2ms",     // its turn is at 2 ms, but request 2 waits
		4: "rate_limited 300µs", // its turn would be at 3 ms
		5: "queue_full 1.5ms",   // takes no tokens
		6: "queued 4.5ms",       // the bucket, full from 3 ms on, is full at 5.5 ms again
		7: "queue_full 4.6ms",
		8: "queued 8.1ms",
	}
	got := atDoor(t, cfg, request(1, 0), request(2, 0.1), request(3, 0.2), request(4, 0.3),
		request(5, 1.5), request(6, 4.5), request(7, 4.6), request(8, 8.1))
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("front door (-want +got):\n%s", d)
	}
}

// panics returns what f panics with.
func panics(f func()) (message string) {
	defer func() { message = fmt.Sprint(recover()) }()
	f()
	return ""
}

func TestFaultyFrontDoors(t *testing.T) {
	q, loads := sim.Query{ID: 7, Prompt: 5, Deadline: 1}, waiting(1, 2)
	admit := func(a sim.Admission) func() { return func() { a.Admit(0, q, loads) } }
	route := func(r sim.Router) func() { return func() { r.Route(0, q, loads) } }
	for _, c := range []struct {
		f    func()
		want string
	}{
		{admit(scheduler.QueueLimit{Waiting: -1}), "QueueLimit.Waiting is -1"},
		{admit(scheduler.Deadline{PromptRate: -2}), "Deadline.PromptRate is -2"},
		{admit(scheduler.Deadline{PromptRate: math.NaN()}), "Deadline.PromptRate is NaN"},
		{admit(&scheduler.TokenBucket{Rate: -3}), "TokenBucket.Rate is -3"},
		{admit(&scheduler.TokenBucket{Rate: 1, Burst: -4}), "Burst -4"},
		{admit(&scheduler.TokenBucket{Rate: 1, Burst: 1 << 35}), "TokenBucket.Burst is 34359738368"},
		{admit(&scheduler.TokenBucket{Rate: 1, Burst: 1 << 40}), "TokenBucket.Burst is 1099511627776"},
		{admit(&scheduler.TokenBucket{Rate: 1, Burst: math.MaxInt64}), "TokenBucket.Burst is 9223372036854775807"},
		{admit(&scheduler.TokenBucket{Rate: 1, Cost: func(sim.Query) int { return -5 }}), "TokenBucket.Cost of request 7 is -5"},
		{route(&scheduler.Stale{Router: scheduler.LeastLoaded{}, Age: -6}), "Stale.Age is -6ns"},
		{route(&scheduler.Conditional{Limit: -1}), "Conditional.Limit is -1"},
		{route(scheduler.PrefixAffinity{Ahead: -1}), "PrefixAffinity.Ahead is -1"},
		{route(scheduler.PrefixHash{Ahead: -2}), "PrefixHash.Ahead is -2"},
		{route(scheduler.PrefixHash{Blocks: -3}), "PrefixHash.Blocks is -3"},
		{route(scheduler.Subset{First: -1, Count: 1}), "Subset of 1 replicas from -1 on"},
		{route(scheduler.Subset{}), "Subset of 0 replicas"},
		{route(scheduler.Subset{Count: 2}), "with router <nil>"},
	} {
		if got := panics(c.f); !strings.HasPrefix(got, "scheduler: ") || !strings.Contains(got, c.want) {
			t.Errorf("panic %q, want %q in it", got, c.want)
		}
	}
}

func TestFrontDoorsDoNotAllocate(t *testing.T) {
	loads := waiting(make([]int, 8)...)
	door := scheduler.All{
		scheduler.QueueLimit{Waiting: 9},
		scheduler.Deadline{PromptRate: 1e4},
		&scheduler.TokenBucket{Rate: 3, Burst: 100},
	}
	routers := scheduler.ByClass{
		&scheduler.Stale{Router: scheduler.LeastPending{}, Age: 2 * ms},
		scheduler.Subset{First: 2, Count: 4, Router: scheduler.LeastLoaded{}},
		&scheduler.PrefillPool{}, &scheduler.DecodePool{}, &scheduler.Conditional{Limit: 9},
		scheduler.PrefixAffinity{Ahead: 3}, scheduler.PrefixHash{Ahead: 3},
	}
	now := sim.Time(0)
	if n := testing.AllocsPerRun(100, func() {
		q := sim.Query{Arrival: now, Prompt: 5, Deadline: sim.Never}
		door.Admit(now, q, loads)
		for q.Class = range routers {
			routers.Route(now, q, loads)
		}
		now = now.Add(ms)
	}); n > 0 {
		t.Errorf("%v allocations a request", n)
	}
}

// frontDoor prints when requests are queued or refused. A replica takes one
// request at a time, for 1 ms a token.
func frontDoor(a sim.Admission, rs ...sim.Request) {
	_, err := sim.Run(context.Background(), sim.Config{
		Replicas: serial(1, flat), Admission: a,
		Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			switch e.Kind {
			case sim.Queue:
				fmt.Println(e.ID, "queued at", e.Time)
			case sim.Reject:
				fmt.Println(e.ID, "refused at", e.Time, e.Reason)
			}
		})},
	}, requests(rs...))
	if err != nil {
		fmt.Println(err)
	}
}

// One runs, one waits, one more would be too many.
func ExampleQueueLimit() {
	frontDoor(scheduler.QueueLimit{Waiting: 1},
		sim.Request{ID: 1, Prompt: 50, Output: 9},
		sim.Request{ID: 2, Arrival: at(1), Prompt: 50, Output: 9},
		sim.Request{ID: 3, Arrival: at(2), Prompt: 50, Output: 9})
	// Output:
	// 1 queued at 0s
	// 2 queued at 1ms
	// 3 refused at 2ms queue_full
}

// At 10,000 tokens per second request 2 has its first token after 60 ms at the
// earliest, 10 ms too late.
func ExampleDeadline() {
	frontDoor(scheduler.Deadline{PromptRate: 10_000},
		sim.Request{ID: 1, Prompt: 400, Output: 1, Deadline: at(50)},
		sim.Request{ID: 2, Prompt: 200, Output: 1, Deadline: at(50)},
		sim.Request{ID: 3, Prompt: 200, Output: 1, Deadline: at(60)})
	// Output:
	// 1 queued at 0s
	// 2 refused at 0s deadline
	// 3 queued at 0s
}

// The bucket is asked last, so that it takes no tokens for request 2.
func ExampleAll() {
	frontDoor(scheduler.All{
		scheduler.Deadline{PromptRate: 10_000},
		&scheduler.TokenBucket{Rate: 1000, Burst: 500},
	},
		sim.Request{ID: 1, Prompt: 400, Output: 1},
		sim.Request{ID: 2, Prompt: 200, Output: 1, Deadline: at(10)},
		sim.Request{ID: 3, Prompt: 200, Output: 1})
	// Output:
	// 1 queued at 0s
	// 2 refused at 0s deadline
	// 3 queued at 100ms
}
