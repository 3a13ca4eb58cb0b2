package sim_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"servesim/sim"
)

// naiveContinuous restates scheduler.Continuous.
func naiveContinuous(reserve bool) policy {
	return func(p planner, _ int) {
		admitted := false
		for _, id := range p.waiting() {
			ok := naiveAdmit(p, id, reserve)
			if !ok {
				break
			}
			admitted = admitted || p.isRunning(id)
		}
		if !admitted {
			naiveDecode(p)
		}
	}
}

// naiveChunked restates scheduler.ChunkedPrefill.
func naiveChunked(p planner, _ int) {
	decoding := map[int64]bool{}
	for _, id := range p.running() {
		decoding[id] = p.pending(id) == 1
	}
	calm := naiveDecode(p)
	for _, id := range p.running() {
		if decoding[id] || p.pending(id) == 0 {
			continue
		}
		if n := min(p.pending(id), p.room()); n == 0 || !p.add(id, n) {
			break
		}
	}
	if !calm {
		return
	}
	for _, id := range p.waiting() {
		n := min(p.pending(id), p.room())
		if n == 0 || !p.reserve(id, p.pending(id)) || !p.add(id, n) {
			break
		}
	}
}

// naiveRequestBatch restates scheduler.RequestBatch.
func naiveRequestBatch(size int, padded, freeAtEnd bool) policy {
	rows := 0
	return func(p planner, _ int) {
		if len(p.running()) > 0 {
			naiveDecode(p)
			if padded {
				p.pad(rows, 0)
			}
			return
		}
		p.release()
		rows = 0
		longest, sum := 0, 0
		for _, id := range p.waiting() {
			if size > 0 && rows == size || !naiveAdmit(p, id, true) {
				break
			}
			if !p.isRunning(id) {
				continue
			}
			rows++
			longest, sum = max(longest, p.pending(id)), sum+p.pending(id)
			if freeAtEnd {
				p.retain(id, false, true)
			}
		}
		if padded {
			p.pad(0, rows*longest-sum)
		}
	}
}

func naiveAdmit(p planner, id int64, reserve bool) bool {
	budget, modelLen, blocks, size := p.limits()
	gone := func(reason string) bool {
		p.reject(id, reason)
		return true
	}
	if budget > 0 && p.pending(id) > budget {
		return gone("exceeds_batch_tokens")
	}
	if !reserve || blocks == 0 {
		return p.add(id, p.pending(id))
	}
	prompt, longest := p.maxOutput(id)
	if longest == 0 && modelLen == 0 {
		return gone("unbounded_output")
	}
	if room := max(modelLen-prompt, 1); modelLen > 0 && (longest == 0 || longest > room) {
		longest = room
	}
	if refBlocks(prompt+longest-1, size) > blocks {
		return gone(sim.RejectKVCapacity)
	}
	if p.pending(id) > p.room() {
		return p.add(id, p.pending(id))
	}
	have := prompt + p.generated(id) - p.pending(id)
	return p.reserve(id, prompt+longest-1-have) && p.add(id, p.pending(id))
}

// naiveDecode gives one position to every decode, oldest first, and evicts
// the youngest sequence whenever memory is short for all of them together.
func naiveDecode(p planner) bool {
	calm := true
	for !p.addDecodes() {
		calm = false
		if p.refusal() == sim.RefusedTokens {
			for _, id := range p.running() {
				for p.isRunning(id) && p.pending(id) == 1 && !p.add(id, 1) {
					if p.refusal() == sim.RefusedTokens {
						return false
					}
					p.preempt(p.running()[len(p.running())-1])
				}
			}
			return false
		}
		p.preempt(p.running()[len(p.running())-1])
	}
	return calm
}

// plainPull pulls, first come first served, what leaves the headroom free, and
// leaves the rest of the pass to another scheduler.
type plainPull struct {
	next     sim.Scheduler
	headroom float64
}

func (e plainPull) Schedule(v sim.View, p *sim.Plan) {
	e.pull(v, p)
	e.next.Schedule(v, p)
}

func (e plainPull) pull(v sim.View, p *sim.Plan) {
	l := v.Limits
	room := func(s *sim.Sequence) bool {
		return e.headroom == 0 || v.Running.Len() == 0 || l.Blocks == math.MaxInt ||
			p.Free()-refBlocks(s.Prompt(), l.BlockTokens) >= int(e.headroom*float64(l.Blocks))
	}
	for s := range v.Remote.All() {
		if !room(s) || !p.Pull(s) {
			return
		}
	}
	for s := range v.Coming.All() {
		if !s.Pulled() && !(room(s) && p.Pull(s)) {
			return
		}
	}
}

// naivePull restates it.
func naivePull(headroom float64, inner policy) policy {
	return func(p planner, pass int) {
		_, _, blocks, size := p.limits()
		room := func(id int64) bool {
			prompt, _ := p.maxOutput(id)
			return headroom == 0 || len(p.running()) == 0 || blocks == 0 || p.free()-refBlocks(prompt, size) >= int(headroom*float64(blocks))
		}
		pull := func() {
			for _, id := range p.remote() {
				if !room(id) || !p.pull(id) {
					return
				}
			}
			for _, id := range p.coming() {
				if !p.pulled(id) && !(room(id) && p.pull(id)) {
					return
				}
			}
		}
		pull()
		inner(p, pass)
	}
}

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
