package simtest

import (
	"math/rand/v2"

	"servesim/sim"
)

// Chaos is a scheduler that does whatever a plan allows, in any order: chunks
// of any size, some decodes without the others, with some of their drafts,
// evictions without need,
// admissions out of order, reservations, retained memory, rejections (reason
// "chaos"), padding, idle passes that only ask for a wake-up, and holds. It is
// for tests of engines, observers and workloads; use one per replica.
//
// It always makes progress: a sequence that it has evicted a few times makes
// it serve first come, first served until that one is done. What a pass does
// depends on Seed, on the passes before it, and on what a plan shows, and its
// holds keep their promise, so it passes [TestScheduler].
type Chaos struct {
	Seed uint64

	v     sim.View
	p     *sim.Plan
	pass  uint64 // passes that decided anything
	pcg   rand.PCG
	rng   *rand.Rand
	added map[int64]bool // serials that this pass has given work
	rows  int            // padding of this pass
	idle  bool           // this pass only asks for a wake-up
	hold  hold
}

// worn is how often a sequence is evicted before Chaos calms down.
const worn = 6

// Schedule implements sim.Scheduler.
func (c *Chaos) Schedule(v sim.View, p *sim.Plan) {
	if c.rng == nil {
		c.rng = rand.New(&c.pcg)
		c.added, c.hold.serials = make(map[int64]bool), make(map[int64]bool)
	}
	c.v, c.p = v, p
	clear(c.added)
	if c.hold.on && c.keepsHolding() {
		return
	}
	c.hold.on = false
	c.pass++
	c.pcg.Seed(c.Seed, c.pass)
	c.rows, c.idle = 0, false
	if c.someoneIsWorn() {
		c.calm()
		return
	}
	for range 2 + c.rng.IntN(6) {
		c.act()
	}
	if c.idle {
		return
	}
	c.progress()
	if c.one(2) {
		c.promise()
	}
}

// one is true once in n times.
func (c *Chaos) one(n int) bool { return c.rng.IntN(n) == 0 }

// act does one thing.
func (c *Chaos) act() {
	switch c.rng.IntN(20) {
	case 0:
		c.p.Release()
	case 1:
		c.rows = c.rng.IntN(6)
		c.p.Pad(c.rows, c.rng.IntN(20))
	case 2:
		if c.one(3) && c.v.Running.Len() > 0 {
			c.evict()
		}
	case 3:
		if c.one(4) && len(c.added) == 0 {
			c.idle = true
			c.p.WakeAt(c.v.Now + 1<<c.rng.IntN(16))
		}
	case 4, 5, 6:
		c.decodeSome()
	case 7, 8, 9, 10:
		c.decodeAll()
	case 11, 12, 13, 14:
		c.chunks()
	default:
		c.admissions()
	}
}

// add gives s work, by Plan.Add.
func (c *Chaos) add(s *sim.Sequence, tokens int) bool {
	if !c.p.Add(s, tokens) {
		return false
	}
	c.added[s.Serial()] = true
	c.idle = false
	return true
}

// evict takes a victim, mostly the youngest.
func (c *Chaos) evict() {
	victim := c.v.Running.Last()
	if c.one(3) {
		n := c.rng.IntN(c.v.Running.Len())
		for s := range c.v.Running.Backward() {
			if victim = s; n == 0 {
				break
			}
			n--
		}
	}
	c.preempt(victim)
}

func (c *Chaos) preempt(s *sim.Sequence) {
	delete(c.added, s.Serial())
	c.p.Preempt(s)
}

// decodeSome adds decodes one by one.
func (c *Chaos) decodeSome() {
	for s := range c.v.Running.All() {
		if s.Pending() == 1 && !c.added[s.Serial()] && !c.one(6) {
			n := 1
			if s.Drafts() > 0 {
				n += c.rng.IntN(1 + s.Drafts())
			}
			c.add(s, n)
		}
	}
}

// decodeAll adds all decodes, mostly at the expense of others.
func (c *Chaos) decodeAll() {
	for !c.p.AddDecodes() {
		if c.p.Refusal() != sim.RefusedMemory || c.one(4) {
			return
		}
		c.evict()
	}
	for s := range c.v.Running.All() {
		if s.Pending() == 1 {
			c.added[s.Serial()] = true
			c.idle = false
		}
	}
}

// chunks goes on with prompts.
func (c *Chaos) chunks() {
	for s := range c.v.Running.All() {
		n := min(s.Pending(), c.p.Room())
		if s.Pending() == 1 || c.added[s.Serial()] || n == 0 || c.one(6) {
			continue
		}
		if c.one(10) {
			c.p.Reserve(s, c.rng.IntN(60))
		}
		if c.one(2) {
			n = 1 + c.rng.IntN(n)
		}
		c.add(s, n)
	}
}

// admissions takes requests from the queue, now and then past the first.
func (c *Chaos) admissions() {
	for s := range c.v.Waiting.All() {
		n := min(s.Pending(), c.p.Room())
		switch {
		case c.one(100):
			c.p.Reject(s, "chaos")
			continue
		case c.one(8):
			continue
		case n == 0 || c.one(8):
			return
		case c.one(3):
			c.p.Reserve(s, s.Pending()+c.rng.IntN(40))
		}
		if c.one(2) {
			n = 1 + c.rng.IntN(n)
		}
		if c.add(s, n) && c.one(10) {
			c.p.Retain(s, c.one(2), c.one(2))
		}
	}
}

// progress makes sure that something is planned if anything can be.
func (c *Chaos) progress() {
	if len(c.added) > 0 {
		return
	}
	c.p.Release()
	for s := range c.v.Running.All() {
		if c.add(s, 1) {
			return
		}
	}
	for c.v.Running.Len() > 0 {
		c.preempt(c.v.Running.Last())
	}
	c.admitInTurn()
	// Reservations of this pass may have left the head of the queue no block;
	// those who made them can begin with one token.
	for s := range c.v.Waiting.All() {
		if len(c.added) > 0 {
			return
		}
		c.add(s, 1)
	}
}

func (c *Chaos) someoneIsWorn() bool {
	if s := c.v.Waiting.First(); s != nil && s.Preemptions() >= worn {
		return true
	}
	for s := range c.v.Running.All() {
		if s.Preemptions() >= worn {
			return true
		}
	}
	return false
}

// calm serves the running sequences in order, and admits when none is left.
func (c *Chaos) calm() {
	c.p.Release()
	for s := range c.v.Running.All() {
		for s.State() == sim.Running && !c.added[s.Serial()] {
			n := min(s.Pending(), c.p.Room())
			if n == 0 {
				return
			}
			if !c.add(s, n) {
				c.preempt(c.v.Running.Last())
			}
		}
	}
	if len(c.added) == 0 {
		c.admitInTurn()
	}
}

// admitInTurn admits from the head of the queue, as long as prompts fit.
func (c *Chaos) admitInTurn() {
	for s := range c.v.Waiting.All() {
		n := min(s.Pending(), c.p.Room())
		if n == 0 || !c.p.Fits(s, s.Pending()) || !c.add(s, n) {
			return
		}
	}
}
