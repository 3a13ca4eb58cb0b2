package simtest

import "servesim/sim"

// What Chaos does with sequences whose KV is elsewhere: in another replica, on
// the way, or in host memory.

// fetch starts transfers, or has prompts computed here after all.
func (c *Chaos) fetch() {
	for s := range c.v.Remote.All() {
		switch n := min(s.Pending(), c.p.Room()); {
		case c.one(100):
			c.p.Reject(s, "chaos")
		case c.one(10) && n > 0:
			c.add(s, 1+c.rng.IntN(n))
		case !c.one(4) && c.pull(s):
		case c.one(2):
			return
		}
	}
	for s := range c.v.Coming.All() {
		if !s.Pulled() && c.one(2) && !c.pull(s) {
			return
		}
	}
}

// pull starts a transfer. It leaves a block for everyone who has been pulled and
// waits: the next position may need one.
func (c *Chaos) pull(s *sim.Sequence) bool {
	spare := 1 + c.v.Pulling.Len()
	for w := range c.v.Waiting.All() {
		if w.Blocks() > 0 {
			spare++
		}
	}
	for w := range c.v.Coming.All() {
		if w.Pulled() {
			spare++
		}
	}
	blocks := (s.Prompt() + c.v.Limits.BlockTokens - 1) / c.v.Limits.BlockTokens
	all := c.p.Free() == c.v.Limits.Blocks // one that needs everything may have it
	if !all && blocks+spare > c.p.Free() || !c.p.Pull(s) {
		return false
	}
	c.idle = false
	return true
}

// fetchInTurn starts the transfers that nothing stands in the way of. If memory
// is full of what is still computed elsewhere, for want of the memory that those
// hold who wait here, one of these has to go.
func (c *Chaos) fetchInTurn() {
	for s := range c.v.Remote.All() {
		if !c.pull(s) {
			if c.v.Pulling.Len() == 0 && c.v.Coming.Len() > 0 {
				c.p.Reject(s, "chaos")
			}
			break
		}
	}
	for s := range c.v.Coming.All() {
		if !s.Pulled() && !c.pull(s) {
			return
		}
	}
}

// swap moves a sequence to host memory if there is room.
func (c *Chaos) swap(s *sim.Sequence) bool {
	if !c.p.Swap(s) {
		return false
	}
	delete(c.added, s.Serial())
	return true
}

// swapIns brings sequences back from host memory, some with work.
func (c *Chaos) swapIns() {
	for s := range c.v.Swapped.All() {
		if c.one(100) {
			c.p.Reject(s, "chaos")
			continue
		}
		if c.one(3) || !c.p.SwapIn(s) {
			return
		}
		c.idle = false
		if n := min(s.Pending(), c.p.Room()); n > 0 && !c.one(4) {
			c.add(s, 1+c.rng.IntN(n))
		}
	}
}

// shuffle changes the order of those who run, and of those in line.
func (c *Chaos) shuffle() {
	var running, inLine []*sim.Sequence
	for s := range c.v.Running.All() {
		running = append(running, s)
	}
	c.rng.Shuffle(len(running), func(i, j int) { running[i], running[j] = running[j], running[i] })
	c.p.Arrange(running)
	for _, l := range []sim.List{c.v.Waiting, c.v.Remote, c.v.Pulling} {
		for s := range l.All() {
			if c.one(3) {
				inLine = append(inLine, s)
			}
		}
	}
	c.p.Requeue(inLine...)
}
