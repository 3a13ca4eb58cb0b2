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

// cached is a deployment of n co-located replicas with prefix caches of blocks
// of 16 tokens.
func cached(n int, r sim.Router) sim.Config {
	cfg := sim.Config{Router: r}
	for range n {
		cfg.Replicas = append(cfg.Replicas, sim.Replica{Scheduler: scheduler.ChunkedPrefill{}, CostModel: flat, PrefixCache: true, KVBlocks: 1000})
	}
	return cfg
}

func TestPrefixAffinity(t *testing.T) {
	text := func(id int, ms float64, output int, prefix []kv.Hash) sim.Request {
		return sim.Request{ID: id, Arrival: at(ms), Prompt: 16*len(prefix) + 1, Output: output, Prefix: prefix, PrefixBlock: 16}
	}
	rs := []sim.Request{
		text(1, 0, 50, chain(1, 10)), // nobody knows it: the first of equals
		text(2, 0, 50, chain(2, 10)), // the lighter
		text(3, 5, 50, chain(1, 20)), // 10 blocks on 0
		text(4, 6, 50, chain(1, 30)), // 20 blocks on 0
		text(5, 7, 50, chain(2, 10)), // 10 blocks on 1
		text(6, 8, 50, chain(1, 30)), // 30 blocks on 0, which has 3 requests; 1 has 2, 2 none
		text(7, 9, 50, chain(9, 10)), // nobody knows it
		// Of equals that know it the lightest: 0 and 2 if 6 went there.
		text(8, 10, 50, chain(1, 30)),
	}
	for _, c := range []struct {
		router sim.Router
		want   []int32
	}{
		{scheduler.PrefixAffinity{}, []int32{0, 1, 0, 0, 1, 0, 2, 0}},
		{scheduler.PrefixAffinity{Ahead: 2}, []int32{0, 1, 0, 0, 1, 2, 2, 2}},
		{scheduler.PrefixAffinity{Router: fixed(2)}, []int32{2, 2, 2, 2, 2, 2, 2, 2}},
		{scheduler.PrefixAffinity{Router: fixed(2), Ahead: 1}, []int32{2, 2, 2, 2, 2, 2, 2, 2}},
	} {
		var got []int32
		to := visits(t, cached(3, c.router), rs...)
		for _, r := range rs {
			got = append(got, to[r.ID][0])
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%+v: replicas (-want +got):\n%s", c.router, d)
		}
	}
}

// sessions asks where the requests of n sessions go.
func sessions(r sim.Router, n int, loads []sim.Load) (to []int) {
	for i := range n {
		at := r.Route(0, sim.Query{ID: 7, Prefix: []kv.Hash{kv.Hash(i), kv.Hash(1e6 + i)}}, loads)
		to = append(to, loads[at].Replica)
	}
	return to
}

// Sessions spread over the replicas, and a change of those moves as few as can
// be: the ones that were on a replica that leaves, and the share of one that
// comes.
func TestPrefixHashMovesFew(t *testing.T) {
	const n, replicas = 8000, 8
	all := waiting(make([]int, replicas+1)...)
	before := sessions(scheduler.PrefixHash{}, n, all[:replicas])
	count := make([]int, replicas)
	for _, to := range before {
		count[to]++
	}
	for i, c := range count {
		if c < 850 || c > 1150 { // 1000 ± 5 standard deviations
			t.Errorf("replica %d has %d of %d sessions", i, c, n)
		}
	}
	without3 := append(append([]sim.Load{}, all[:3]...), all[4:replicas]...)
	for i, to := range sessions(scheduler.PrefixHash{}, n, without3) {
		if was := before[i]; was != 3 && to != was || to == 3 {
			t.Fatalf("without replica 3, session %d moves from %d to %d", i, was, to)
		}
	}
	joined := 0
	for i, to := range sessions(scheduler.PrefixHash{}, n, all) {
		if to == replicas {
			joined++
		} else if to != before[i] {
			t.Fatalf("with one more replica, session %d moves from %d to %d", i, before[i], to)
		}
	}
	if joined < 750 || joined > 1030 { // 889 ± 5 standard deviations
		t.Errorf("the replica that joins takes %d of %d sessions", joined, n)
	}
}

func TestPrefixHashKeys(t *testing.T) {
	loads := waiting(make([]int, 64)...)
	route := func(r sim.Router, id int, prefix ...kv.Hash) int {
		return r.Route(0, sim.Query{ID: id, Prefix: prefix}, loads)
	}
	one, two := scheduler.PrefixHash{}, scheduler.PrefixHash{Blocks: 2}
	for _, c := range []struct {
		name string
		a, b int
		same bool
	}{
		{"the first block decides", route(one, 1, 5, 6, 7), route(one, 2, 5, 8), true},
		{"another first block", route(one, 1, 5, 6, 7), route(one, 1, 4, 6, 7), false},
		{"the second block decides", route(two, 1, 5, 6, 7), route(two, 2, 5, 6, 9), true},
		{"another second block", route(two, 1, 5, 6, 7), route(two, 1, 5, 8, 7), false},
		{"a prompt of one block", route(two, 1, 5), route(one, 2, 5), true},
		{"no block", route(one, 1), route(one, 1), true},
		{"no block, another request", route(one, 1), route(one, 2), false},
		{"ids and hashes that differ by as much", route(one, 1, 5), route(one, 1, 6), false},
	} {
		if (c.a == c.b) != c.same {
			t.Errorf("%s: to %d and %d", c.name, c.a, c.b)
		}
	}
}

// A session whose replica has too much to do goes to its next choice, always
// the same, and the others stay.
func TestPrefixHashWithBounds(t *testing.T) {
	loads := waiting(2, 2, 2, 2)
	before := sessions(scheduler.PrefixHash{}, 400, loads)
	loads[1].Running = 9
	after := sessions(scheduler.PrefixHash{Ahead: 8}, 400, loads)
	next := sessions(scheduler.PrefixHash{}, 400, append(append([]sim.Load{}, loads[0]), loads[2:]...))
	for i := range before {
		want := before[i]
		if want == 1 {
			want = next[i]
		}
		if after[i] != want {
			t.Fatalf("session %d goes to %d, want %d", i, after[i], want)
		}
	}
	loads[1].Running = 8
	if d := cmp.Diff(before, sessions(scheduler.PrefixHash{Ahead: 8}, 400, loads)); d != "" {
		t.Errorf("with 8 requests ahead:\n%s", d)
	}
}

// The second of three replicas has computed a document. A request for it goes
// there, although the third has nothing to do.
func ExamplePrefixAffinity() {
	var routed []int
	cfg := cached(3, spy{scheduler.PrefixAffinity{Ahead: 8}, func(to int) { routed = append(routed, to) }})
	document := []kv.Hash{11, 12, 13}
	_, err := sim.Run(context.Background(), cfg, requests(
		sim.Request{ID: 1, Prompt: 20, Output: 40},
		sim.Request{ID: 2, Arrival: at(1), Prompt: 50, Output: 40, Prefix: document, PrefixBlock: 16},
		sim.Request{ID: 3, Arrival: at(3), Prompt: 60, Output: 40, Prefix: document, PrefixBlock: 16},
	))
	fmt.Println(routed, err)
	// Output:
	// [0 1 1] <nil>
}

// Requests that begin alike go to the same replica. When replica 3 leaves, only
// its own go elsewhere.
func ExamplePrefixHash() {
	loads := make([]sim.Load, 4)
	for i := range loads {
		loads[i].Replica = i
	}
	for _, first := range []kv.Hash{11, 12, 300} {
		turn := sim.Query{Prefix: []kv.Hash{first, 7}}
		next := sim.Query{Prefix: []kv.Hash{first, 7, 8, 9}}
		fmt.Println(scheduler.PrefixHash{}.Route(0, turn, loads), scheduler.PrefixHash{}.Route(0, next, loads[:3]))
	}
	// Output:
	// 1 1
	// 0 0
	// 3 1
}
