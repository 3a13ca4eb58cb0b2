package simtest

import "servesim/sim"

// hold is a promise to plan the same decodes again.
type hold struct {
	on               bool
	all              bool // every decode, by AddDecodes
	serials          map[int64]bool
	rows             int
	waiting, running int
	until            sim.Time
}

// promise holds, if this pass is one that can be repeated.
func (c *Chaos) promise() {
	decodes := 0
	for s := range c.v.Running.All() {
		switch planned := c.added[s.Serial()]; {
		case planned && s.Pending() > 1:
			// The engine ignores a hold beside chunks.
			c.p.Hold()
			return
		case s.Pending() == 1:
			decodes++
		}
	}
	if len(c.added) == 0 {
		return
	}
	h := &c.hold
	h.on, h.rows = true, c.rows
	h.waiting, h.running = c.wanting(), c.v.Running.Len()
	h.all = len(c.added) == decodes && c.p.AddDecodes()
	clear(h.serials)
	for serial := range c.added {
		h.serials[serial] = true
	}
	h.until = sim.Never
	if c.one(3) {
		h.until = c.v.Now + 1<<c.rng.IntN(20)
		c.p.WakeAt(h.until)
	}
	c.p.Hold()
}

// keepsHolding plans what it has promised, unless something ended the hold.
func (c *Chaos) keepsHolding() bool {
	h := &c.hold
	waiting := c.wanting()
	same := waiting == 0 || waiting == h.waiting && c.v.Running.Len() == h.running
	if !same || c.v.Now >= h.until {
		return false
	}
	if h.all && !c.addDecodes() {
		return false
	}
	n := 0
	for s := range c.v.Running.All() {
		if !h.serials[s.Serial()] {
			continue
		}
		if !h.all && (s.Pending() != 1 || !c.p.Add(s, 1)) {
			return false
		}
		c.added[s.Serial()] = true
		n++
	}
	if n == 0 {
		return false
	}
	c.p.Pad(h.rows, 0)
	if h.until != sim.Never {
		c.p.WakeAt(h.until)
	}
	c.p.Hold()
	return true
}

// wanting returns how many wait for what those who run have.
func (c *Chaos) wanting() int {
	return c.v.Waiting.Len() + c.v.Swapped.Len() + c.v.Remote.Len() + c.v.Coming.Len()
}
