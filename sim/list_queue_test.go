package sim_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"servesim/scheduler"
	"servesim/sim"
)

// watcher is a scheduler that a test can change between passes.
type watcher struct{ pass func(v sim.View, p *sim.Plan) }

func (w *watcher) Schedule(v sim.View, p *sim.Plan) { w.pass(v, p) }

// admitAll admits everybody with a whole prompt.
func admitAll(v sim.View, p *sim.Plan) {
	for s := range v.Waiting.All() {
		p.Add(s, s.Pending())
	}
}

// fiveRunning has sequences 1 to 5 running and 6 and 7 waiting.
func fiveRunning(t *testing.T) (*sim.Stepper, *watcher) {
	t.Helper()
	w := &watcher{admitAll}
	st, _ := byHand(t, w, func(r *sim.Replica) { r.MaxSeqs = 5 })
	for id := 1; id <= 7; id++ {
		st.Submit(0, sim.Request{ID: id, Prompt: 4})
	}
	plan(t, st, 0)
	complete(t, st, 1, nil)
	same(t, "running", []int{1, 2, 3, 4, 5}, ids(st.Running()))
	same(t, "waiting", []int{6, 7}, ids(st.Waiting()))
	return st, w
}

// A loop over a list goes on while its sequences leave, in front of it, behind
// it and under it.
func TestLoopWhileSequencesLeave(t *testing.T) {
	for _, c := range []struct {
		name    string
		evict   map[int][]int // at this sequence, these
		visited []int
	}{
		{"nobody", nil, []int{1, 2, 3, 4, 5}},
		{"the next", map[int][]int{1: {2}}, []int{1, 3, 4, 5}},
		{"the next two", map[int][]int{1: {2, 3}}, []int{1, 4, 5}},
		{"a later one", map[int][]int{1: {4}}, []int{1, 2, 3, 5}},
		{"all that follow", map[int][]int{2: {5, 4, 3}}, []int{1, 2}},
		{"itself", map[int][]int{2: {2}, 5: {5}}, []int{1, 2, 3, 4, 5}},
		{"earlier ones", map[int][]int{3: {1, 2}}, []int{1, 2, 3, 4, 5}},
		{"everybody", map[int][]int{3: {1, 2, 3, 4, 5}}, []int{1, 2, 3}},
		{"the youngest, until none is left", map[int][]int{1: {5}, 2: {4}, 3: {3}}, []int{1, 2, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			st, w := fiveRunning(t)
			var visited []int
			w.pass = func(v sim.View, p *sim.Plan) {
				for s := range v.Running.All() {
					visited = append(visited, s.ID())
					for _, id := range c.evict[s.ID()] {
						p.Preempt(st.Lookup(id))
					}
				}
			}
			if _, _, err := st.Plan(1); err != nil {
				t.Fatal(err)
			}
			same(t, "visited", c.visited, visited)
		})
	}
}

// Loops may stand inside each other and end early.
func TestNestedLoops(t *testing.T) {
	st, w := fiveRunning(t)
	var visited []string
	w.pass = func(v sim.View, p *sim.Plan) {
		for a := range v.Running.All() {
			for b := range v.Running.All() {
				if b.ID() > a.ID() {
					break
				}
				if a.ID() == 3 && b.ID() == 2 {
					p.Preempt(st.Lookup(4)) // the next of the outer loop
					p.Preempt(st.Lookup(3)) // where it stands, the next of the inner
				}
				visited = append(visited, fmt.Sprint(a.ID(), b.ID()))
			}
		}
	}
	if _, _, err := st.Plan(1); err != nil {
		t.Fatal(err)
	}
	same(t, "visited", "1 1|2 1|2 2|3 1|3 2|5 1|5 2|5 5", strings.Join(visited, "|"))
}

// A sequence that joins behind the next one to visit is visited; one that joins
// while the loop is at the last is not.
func TestLoopWhileSequencesJoin(t *testing.T) {
	for at, want := range map[int][]int{
		1: {1, 3, 4, 5, 6}, // 2 has left before its turn
		4: {1, 2, 3, 4, 5, 6},
		5: {1, 2, 3, 4, 5},
	} {
		st, w := fiveRunning(t)
		var visited []int
		w.pass = func(v sim.View, p *sim.Plan) {
			for s := range v.Running.All() {
				visited = append(visited, s.ID())
				if s.ID() == at {
					p.Preempt(st.Lookup(2))
					p.Add(st.Lookup(6), 4)
				}
			}
		}
		plan(t, st, 1)
		same(t, fmt.Sprintf("visited when 6 joins at %d", at), want, visited)
		same(t, "running", []int{1, 3, 4, 5, 6}, ids(st.Running()))
	}
}

// A loop over the queue that admits is the idiom of every scheduler; those who
// are preempted meanwhile wait in front and are not visited.
func TestLoopOverTheQueue(t *testing.T) {
	st, w := fiveRunning(t)
	var visited []int
	w.pass = func(v sim.View, p *sim.Plan) {
		for s := range v.Waiting.All() {
			visited = append(visited, s.ID())
			p.Preempt(v.Running.First())
			p.Add(s, s.Pending())
		}
	}
	plan(t, st, 1)
	same(t, "visited", []int{6, 7}, visited)
	same(t, "running", []int{3, 4, 5, 6, 7}, ids(st.Running()))
	same(t, "waiting, the latest victim first", []int{2, 1}, ids(st.Waiting()))
}

func TestBackward(t *testing.T) {
	st, w := fiveRunning(t)
	var visited []int
	w.pass = func(v sim.View, p *sim.Plan) {
		for s := range v.Running.Backward() {
			visited = append(visited, s.ID())
			if s.ID() == 2 {
				break
			}
			if s.ID() != 4 {
				p.Preempt(s)
			}
		}
	}
	if _, _, err := st.Plan(1); err != nil {
		t.Fatal(err)
	}
	same(t, "visited", []int{5, 4, 3, 2}, visited)
	same(t, "running", []int{1, 2, 4}, ids(st.Running()))
	// Preempted from the end, they wait in order of admission again.
	same(t, "waiting", []int{3, 5, 6, 7}, ids(st.Waiting()))
	l := st.Waiting()
	same(t, "ends", []int{3, 7, 4}, []int{l.First().ID(), l.Last().ID(), l.Len()})
}

func TestEmptyList(t *testing.T) {
	st, _ := byHand(t, &watcher{admitAll}, nil)
	l := st.Waiting()
	if l.Len() != 0 || l.First() != nil || l.Last() != nil || ids(l) != nil {
		t.Error("an empty list is not empty")
	}
	for range l.Backward() {
		t.Error("an empty list has an end")
	}
}

// counting is an order by prompt that counts its comparisons.
type counting struct{ n int }

func (c *counting) Before(a, b *sim.Sequence) bool {
	c.n++
	return scheduler.ByPrompt(a, b)
}

// queueOf returns a Stepper whose queue holds n requests with few different
// prompts and arrivals, so that most of them tie.
func queueOf(t *testing.T, o sim.Order, n int) (*sim.Stepper, []sim.Request) {
	t.Helper()
	st, _ := byHand(t, &watcher{admitAll}, func(r *sim.Replica) { r.Order, r.KVBlocks, r.ReservedBlocks = o, 0, 0 })
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	var rs []sim.Request
	for id := range n {
		r := sim.Request{ID: id, Arrival: sim.Time(rng.IntN(50)), Prompt: 1 + rng.IntN(40)}
		rs = append(rs, r)
		if reason := st.Submit(100, r); reason != "" {
			t.Fatal(reason)
		}
	}
	return st, rs
}

// sorted is the order that a queue by prompt must have: prompt, arrival, order
// of submission.
func sorted(rs []sim.Request) (out []int) {
	rs = slices.Clone(rs)
	slices.SortStableFunc(rs, func(a, b sim.Request) int {
		return cmp.Or(cmp.Compare(a.Prompt, b.Prompt), cmp.Compare(a.Arrival, b.Arrival))
	})
	for _, r := range rs {
		out = append(out, r.ID)
	}
	return out
}

// Ten thousand waiting requests stand in order, also after half of them left.
func TestQueueOrder(t *testing.T) {
	st, rs := queueOf(t, &counting{}, 10_000)
	if !slices.Equal(sorted(rs), ids(st.Waiting())) {
		t.Error("the queue is out of order")
	}
	rng := rand.New(rand.NewPCG(3, 4))
	rs = slices.DeleteFunc(rs, func(r sim.Request) bool { return rng.IntN(2) == 0 && st.Abort(100, r.ID) })
	if n := len(rs); n < 4000 || n > 6000 {
		t.Fatalf("%d left", n)
	}
	if !slices.Equal(sorted(rs), ids(st.Waiting())) {
		t.Error("the queue is out of order after aborts")
	}
	var backward []int
	for s := range st.Waiting().Backward() {
		backward = append(backward, s.ID())
	}
	slices.Reverse(backward)
	if !slices.Equal(ids(st.Waiting()), backward) {
		t.Error("backward is another order")
	}
}

// A preempted sequence goes to its place, in ties too.
func TestPreemptedToItsPlace(t *testing.T) {
	w := &watcher{admitAll}
	st, _ := byHand(t, w, func(r *sim.Replica) { r.Order, r.MaxSeqs = sim.OrderFunc(scheduler.ByPrompt), 2 })
	for _, r := range []sim.Request{{ID: 1, Prompt: 9}, {ID: 2, Prompt: 9}, {ID: 3, Prompt: 9}, {ID: 4, Prompt: 20}} {
		st.Submit(0, r)
	}
	plan(t, st, 0)
	complete(t, st, 1, nil)
	st.Submit(1, sim.Request{ID: 5, Prompt: 5})
	st.Submit(1, sim.Request{ID: 6, Prompt: 9, Arrival: 1})
	w.pass = func(v sim.View, p *sim.Plan) { p.Preempt(v.Running.Last()); p.AddDecodes() }
	plan(t, st, 1)
	same(t, "waiting", []int{5, 2, 3, 6, 4}, ids(st.Waiting()))
	same(t, "running", []int{1}, ids(st.Running()))
}

// A place is found in O(log n): sixteen times the queue costs little more per
// request, coming or going, and far less than one comparison per waiting one.
func TestQueueCost(t *testing.T) {
	per := map[int]float64{}
	for _, n := range []int{1_000, 16_000} {
		c := &counting{}
		st, rs := queueOf(t, c, n)
		joined := float64(c.n) / float64(n)
		c.n = 0
		for _, r := range rs {
			st.Abort(100, r.ID)
		}
		left := float64(c.n) / float64(n)
		t.Logf("%d waiting: %.1f comparisons to join, %.1f to leave", n, joined, left)
		per[n] = joined + left
	}
	if per[16_000] > 250 || per[16_000] > 2*per[1_000] {
		t.Errorf("comparisons per request: %v", per)
	}
}

// An order that depends on what changes is a programmer's error that shows.
func TestOrderMustNotChange(t *testing.T) {
	reversed := false
	st, rs := queueOf(t, sim.OrderFunc(func(a, b *sim.Sequence) bool {
		return scheduler.ByPrompt(a, b) != reversed && a.Prompt() != b.Prompt()
	}), 100)
	reversed = true
	got := ""
	for _, r := range rs {
		if got = panics(func() { st.Abort(100, r.ID) }); got != "" {
			break
		}
	}
	same(t, "panic", "sim: Order.Before changed its mind about a waiting sequence", got)
}
