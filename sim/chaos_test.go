package sim_test

import (
	"math/rand/v2"
	"slices"
	"time"

	"servesim/sim"
)

// calmAfter is the pass from which on chaos evicts nobody at random, so that
// every run ends.
const calmAfter = 300

// chaos does what no sensible scheduler does, in every order the plan allows.
func chaos(seed uint64) policy {
	return func(p planner, pass int) {
		c := &chaosPass{planner: p, rng: rand.New(rand.NewPCG(seed, uint64(pass))), added: map[int64]bool{}}
		if c.one(3) {
			p.release()
		}
		c.reorder()
		if pass < calmAfter && c.one(12) {
			p.wakeAfter(time.Duration(1 + c.rng.IntN(20_000)))
			c.late = true
		}
		c.pulls()
		c.comeBack()
		c.decodes()
		c.chunks()
		for pass < calmAfter && c.one(12) && len(p.running()) > 0 {
			c.evict()
		}
		c.admissions()
		if c.one(8) {
			c.comeBack()
			c.chunks()
			c.decodes()
		}
		if c.one(4) {
			c.pulls()
		}
		if c.one(5) {
			p.pad(c.rng.IntN(6), c.rng.IntN(20))
		}
		c.progress()
	}
}

type chaosPass struct {
	planner
	rng    *rand.Rand
	added  map[int64]bool
	copied bool // blocks from or to the host
	late   bool // it wakes up later
	began  bool // a transfer began
}

func (c *chaosPass) one(in int) bool { return c.rng.IntN(in) == 0 }

// decodes adds all of them, most of them, or none.
func (c *chaosPass) decodes() {
	switch c.rng.IntN(8) {
	case 0:
	case 1, 2, 3:
		for _, id := range c.running() {
			if !c.added[id] && c.pending(id) == 1 && !c.one(6) {
				c.added[id] = c.add(id, 1+c.rng.IntN(1+c.drafts(id)))
			}
		}
	default:
		for !c.addDecodes() && c.refusal() == sim.RefusedMemory && !c.one(4) {
			c.evict()
		}
		if c.addDecodes() {
			for _, id := range c.running() {
				c.added[id] = c.added[id] || c.pending(id) == 1
			}
		}
	}
}

// evict takes a victim, mostly the youngest, and recomputes or swaps it.
func (c *chaosPass) evict() {
	r := c.running()
	id := r[len(r)-1]
	if c.one(3) {
		id = r[c.rng.IntN(len(r))]
	}
	delete(c.added, id)
	if c.one(2) && c.swap(id) {
		c.copied = true
	} else {
		c.preempt(id)
	}
}

// reorder shuffles who runs or waits.
func (c *chaosPass) reorder() {
	if ids := c.running(); c.one(8) {
		c.rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		c.arrange(ids)
	}
	if ids := slices.Concat(c.waiting(), c.remote(), c.pulling()); c.one(8) {
		c.rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		c.requeue(ids[:c.rng.IntN(len(ids)+1)]...)
	}
}

// pulls begins some transfers.
func (c *chaosPass) pulls() {
	for _, id := range append(c.remote(), c.coming()...) {
		if !c.planner.pulled(id) && !c.one(3) && !c.added[id] && c.pull(id) {
			c.began = true
		}
	}
}

// comeBack brings some of those on the host back.
func (c *chaosPass) comeBack() {
	for _, id := range c.swapped() {
		switch {
		case c.one(100):
			c.reject(id, "chaos")
		case c.one(3):
		case !c.swapIn(id):
			return
		default:
			c.copied = true
		}
	}
}

func (c *chaosPass) chunks() {
	for _, id := range c.running() {
		if n := min(c.pending(id), c.room()); !c.added[id] && c.pending(id) > 1 && n > 0 && !c.one(6) {
			if c.one(2) {
				n = 1 + c.rng.IntN(n)
			}
			c.added[id] = c.add(id, n)
		}
	}
}

func (c *chaosPass) admissions() {
	line := c.waiting()
	if c.one(5) {
		line = append(line, c.remote()...)
	}
	for _, id := range line {
		switch n := min(c.pending(id), c.room()); {
		case c.one(100):
			c.reject(id, "chaos")
		case n == 0 || c.one(6):
			return
		default:
			if c.one(3) && !slices.Contains(c.remote(), id) {
				c.reserve(id, c.pending(id)+c.rng.IntN(40))
			}
			if c.one(2) {
				n = 1 + c.rng.IntN(n)
			}
			if c.added[id] = c.add(id, n); c.added[id] && c.one(10) {
				c.retain(id, c.one(3), !c.one(4))
			}
		}
	}
}

// progress makes sure that something is planned if anything can be.
func (c *chaosPass) progress() {
	for _, ok := range c.added {
		if ok {
			return
		}
	}
	if c.late || c.copied || c.began || len(c.pulling()) > 0 {
		return
	}
	for _, id := range c.running() {
		if c.pending(id) == 0 {
			return // its token is in flight
		}
	}
	c.release()
	for len(c.running()) > 0 {
		r := c.running()
		c.preempt(r[len(r)-1])
	}
	for _, id := range c.waiting() {
		if c.add(id, min(c.pending(id), c.room())) {
			return
		}
	}
	if slices.ContainsFunc(c.swapped(), c.swapIn) {
		return
	}
	if slices.ContainsFunc(c.remote(), c.pull) {
		return
	}
	for _, id := range append(append(c.waiting(), c.remote()...), c.swapped()...) {
		c.reject(id, "chaos")
		return
	}
}
