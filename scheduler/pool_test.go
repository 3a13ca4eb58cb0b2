package scheduler_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/kv"
)

// fleet is one replica of each kind: open prefill, closed prefill, both, open
// decode, closed decode, decode.
func fleet() []sim.Load {
	return []sim.Load{
		{Replica: 0, Role: sim.RolePrefill, Waiting: 3, PendingPrompt: 900},
		{Replica: 1, Role: sim.RolePrefill, Closed: true},
		{Replica: 2, Role: sim.RoleBoth, Waiting: 4, PendingPrompt: 500},
		{Replica: 3, Role: sim.RoleDecode, Waiting: 2},
		{Replica: 4, Role: sim.RoleDecode, Closed: true},
		{Replica: 5, Role: sim.RoleDecode, Running: 1},
	}
}

func TestPools(t *testing.T) {
	last := routerFunc(func(loads []sim.Load) int { return len(loads) - 1 })
	for _, c := range []struct {
		name   string
		router sim.Router
		want   int
	}{
		{"prefill, by positions", &scheduler.PrefillPool{}, 2},
		{"prefill, by requests", &scheduler.PrefillPool{Router: scheduler.LeastLoaded{}}, 0},
		{"prefill, the last", &scheduler.PrefillPool{Router: last}, 2},
		{"decode, by requests", &scheduler.DecodePool{}, 5},
		{"decode, the first", &scheduler.DecodePool{Router: fixed(0)}, 2},
		{"decode, the last", &scheduler.DecodePool{Router: last}, 5},
		{"no route in the pool", &scheduler.DecodePool{Router: fixed(-1)}, -1},
		{"no such replica in the pool", &scheduler.DecodePool{Router: fixed(3)}, -1},
	} {
		if got := c.router.Route(0, sim.Query{}, fleet()); got != c.want {
			t.Errorf("%s: to %d, want %d", c.name, got, c.want)
		}
	}
	for _, r := range []sim.Router{&scheduler.PrefillPool{}, &scheduler.DecodePool{}, &scheduler.Conditional{Limit: 5}} {
		if got := r.Route(0, sim.Query{}, []sim.Load{{Closed: true}}); got != -1 {
			t.Errorf("%T: to %d with every replica closed", r, got)
		}
	}
}

func TestConditional(t *testing.T) {
	c := &scheduler.Conditional{Limit: 100}
	for prompt, want := range map[int]int{1: 5, 99: 5, 100: 2, 5000: 2} {
		if got := c.Route(0, sim.Query{Prompt: prompt}, fleet()); got != want {
			t.Errorf("prompt of %d: to %d, want %d", prompt, got, want)
		}
	}
	if got := (&scheduler.Conditional{}).Route(0, sim.Query{Prompt: 1}, fleet()); got != 2 {
		t.Errorf("without a limit: to %d, want 2", got)
	}
	own := &scheduler.Conditional{Limit: 100, Prefill: fixed(0), Decode: fixed(1)}
	for prompt, want := range map[int]int{99: 3, 100: 0} {
		if got := own.Route(0, sim.Query{Prompt: prompt}, fleet()); got != want {
			t.Errorf("own routers, prompt of %d: to %d, want %d", prompt, got, want)
		}
	}
}

// chain is the hashes of n blocks of a text.
func chain(text, n int) (h []kv.Hash) {
	for i := range n {
		h = append(h, kv.Hash(1000*text+i))
	}
	return h
}

// visits runs rs on a deployment and returns the replicas that each visits, in
// order of its queues.
func visits(t *testing.T, cfg sim.Config, rs ...sim.Request) map[int][]int32 {
	t.Helper()
	out := map[int][]int32{}
	cfg.Check = true
	cfg.Observers = append(cfg.Observers, sim.ObserverFunc(func(e sim.Event) {
		if e.Kind == sim.Queue || e.Kind == sim.Handoff {
			out[e.ID] = append(out[e.ID], e.Replica)
		}
	}))
	res, err := sim.Run(context.Background(), cfg, requests(rs...))
	if err != nil {
		t.Fatal(err)
	}
	if res.Completed != int64(len(rs)) {
		t.Errorf("%+v", res)
	}
	return out
}

// twoAndTwo is a deployment of two replicas of each role, with prefix caches.
// Prompts of any length take a step of 1 ms, transfers 1 µs a token.
func twoAndTwo() sim.Config {
	cfg := sim.Config{Link: &sim.Link{TokenBytes: 1000, Bandwidth: 1e9}, Handoff: &scheduler.DecodePool{}}
	for i := range 4 {
		r := sim.Replica{Scheduler: scheduler.ChunkedPrefill{}, CostModel: flat, Role: sim.RolePrefill, PrefixCache: true, KVBlocks: 1000}
		if i >= 2 {
			r.Scheduler, r.Role = scheduler.Pull{Scheduler: scheduler.ChunkedPrefill{}}, sim.RoleDecode
		}
		cfg.Replicas = append(cfg.Replicas, r)
	}
	return cfg
}

// Of a prompt that the decode side has, only the rest counts, and on the
// replica that has it.
func TestConditionalKnowsTheCaches(t *testing.T) {
	cfg := twoAndTwo()
	cfg.Router = &scheduler.Conditional{Limit: 100}
	next := func(id int, ms float64, prompt int, prefix []kv.Hash) sim.Request {
		return sim.Request{ID: id, Arrival: at(ms), Prompt: prompt, Output: 60, Prefix: prefix, PrefixBlock: 16}
	}
	got := visits(t, cfg,
		next(1, 0, 600, chain(1, 37)),   // handed over, to 2
		next(2, 1, 400, chain(2, 25)),   // to 3, which is free
		next(3, 10, 99, nil),            // short: stays, 2 is the first of equals
		next(4, 12, 470, chain(2, 29)),  // 400 of it on 3
		next(5, 100, 600, chain(3, 37)), // unknown
		next(6, 101, 692, chain(1, 43)), // 592 on 2: 100 to compute are not few
		next(7, 102, 691, chain(1, 43)), // 99 are
	)
	want := map[int][]int32{1: {0, 2}, 2: {0, 3}, 3: {2}, 4: {3}, 5: {0, 2}, 6: {0, 3}, 7: {2}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("replicas (-want +got):\n%s", d)
	}
}

// Prompts go to the prefill pool, and their requests to the decode pool.
func ExamplePrefillPool() {
	prefill, decode := &scheduler.PrefillPool{}, &scheduler.DecodePool{}
	loads := []sim.Load{
		{Replica: 0, Role: sim.RolePrefill, Waiting: 1, PendingPrompt: 8000},
		{Replica: 1, Role: sim.RolePrefill, Waiting: 3, PendingPrompt: 900},
		{Replica: 2, Role: sim.RoleDecode, Running: 40},
		{Replica: 3, Role: sim.RoleDecode, Running: 20, Closed: true},
	}
	fmt.Println(prefill.Route(0, sim.Query{}, loads), decode.Route(0, sim.Query{}, loads))
	// Output:
	// 1 2
}

// A short prompt is computed where it is decoded.
func ExampleConditional() {
	r := &scheduler.Conditional{Limit: 256}
	loads := []sim.Load{{Replica: 0, Role: sim.RolePrefill}, {Replica: 1, Role: sim.RoleDecode, Running: 40}}
	fmt.Println(r.Route(0, sim.Query{Prompt: 200}, loads), r.Route(0, sim.Query{Prompt: 4000}, loads))
	// Output:
	// 1 0
}
