package sim_test

import (
	"fmt"
	"slices"
	"time"

	"servesim/sim"
	"servesim/sim/kv"
)

// refPass is the plan of the reference engine.
type refPass struct {
	e                   *refEngine
	r                   *refReplica
	left                int
	why                 sim.Refusal
	order               []*refSeq
	changes             []refChange
	copiedIn, copiedOut int
	padRows             int
	padTo               int
	reserved            []*refSeq
	pulls               []*refSeq
	released            bool
	wake                sim.Time // 0 for never
}

// refChange is what a pass does to a request, told when it is over.
type refChange struct {
	kind    sim.Kind
	s       *refSeq
	reason  string
	cached  int  // at that moment
	evicted int  // at that moment
	pulled  bool // at that moment
	undone  bool
}

// plan lets a replica plan until it starts a step or has nothing to change. With
// several in flight, the next is planned when the host is free again.
func (e *refEngine) plan(r *refReplica) {
	if len(r.mates) > 0 {
		e.planGroup(r.mates)
		return
	}
	defer e.drain(r)
	if w := e.window(r); w.Pause {
		e.push(refPending{at: w.To, kind: refWakeUp, replica: r.index, pass: r.passes})
		return
	}
	flying, wake := len(r.flying), sim.Time(0)
	if r.cfg.InFlight < 2 || r.hostFree <= e.now {
		wake = e.passes(r)
	}
	switch {
	case r.full():
	case r.hostFree > e.now:
		e.push(refPending{at: r.hostFree, kind: refWakeUp, replica: r.index, pass: r.passes})
	case len(r.flying) > flying:
		e.touch(r)
	case wake > 0:
		e.push(refPending{at: wake, kind: refWakeUp, replica: r.index, pass: r.passes})
	}
}

// passes asks the policy until it starts a step or has nothing to change, and
// returns when it wants to be asked again, or 0.
func (e *refEngine) passes(r *refReplica) (wake sim.Time) {
	flying := len(r.flying)
	for again := true; again && len(r.flying) == flying && r.wants(); {
		r.passes++
		pass := &refPass{e: e, r: r, left: refMax(r.cfg.MaxBatchTokens)}
		r.policy(pass, r.passes)
		again = pass.commit()
		wake = pass.wake
	}
	return wake
}

// window returns the window that the replica is in; without one, time goes as
// usual.
func (e *refEngine) window(r *refReplica) sim.Window {
	for _, w := range e.cfg.Windows {
		if !w.Link && w.Replica == r.index && w.From <= e.now && e.now < w.To {
			return w
		}
	}
	return sim.Window{Factor: 1}
}

func (p *refPass) find(id int64) *refSeq {
	for _, s := range p.e.live {
		if s.serial == id {
			return s
		}
	}
	panic(fmt.Sprintf("no sequence %d", id))
}

func serials(list []*refSeq) (out []int64) {
	for _, s := range list {
		out = append(out, s.serial)
	}
	return out
}

func (p *refPass) waiting() []int64       { return serials(p.r.waiting(sim.Waiting, sim.Preempted)) }
func (p *refPass) running() []int64       { return serials(p.r.running) }
func (p *refPass) swapped() []int64       { return serials(p.r.swapped) }
func (p *refPass) remote() []int64        { return serials(p.r.waiting(sim.Remote)) }
func (p *refPass) coming() []int64        { return serials(p.r.coming) }
func (p *refPass) pulling() []int64       { return serials(p.r.waiting(sim.Pulling)) }
func (p *refPass) free() int              { return p.r.free() }
func (p *refPass) pulled(id int64) bool   { return p.find(id).early != nil }
func (p *refPass) pending(id int64) int   { return p.find(id).pending() }
func (p *refPass) generated(id int64) int { return p.find(id).generated }
func (p *refPass) drafts(id int64) int    { return p.find(id).drafts }
func (p *refPass) room() int              { return p.left }
func (p *refPass) refusal() sim.Refusal   { return p.why }
func (p *refPass) isRunning(id int64) bool {
	return p.find(id).state == sim.Running
}
func (p *refPass) maxOutput(id int64) (int, int) {
	s := p.find(id)
	return s.req.Prompt, s.req.MaxOutput
}
func (p *refPass) limits() (int, int, int, int) {
	c := p.r.cfg
	return c.MaxBatchTokens, c.MaxModelLen, c.KVBlocks - c.ReservedBlocks, c.BlockTokens
}

func (p *refPass) refuse(why sim.Refusal) bool {
	p.why = why
	return false
}

// full reports whether no further sequence may run.
func (p *refPass) full() bool {
	return len(p.r.running)+p.r.slots >= refMax(p.r.cfg.MaxSeqs)
}

// touched reports whether the growth rule wants a free block for s, whatever it
// needs.
func (p *refPass) touched(s *refSeq) bool {
	return p.r.cfg.Growth == sim.TouchedGrowth && s.state == sim.Running && !s.admitted && s.pending() == 1
}

func (p *refPass) add(id int64, tokens int) bool {
	s, r := p.find(id), p.r
	if s.state != sim.Running && p.full() {
		return p.refuse(sim.RefusedSlots)
	}
	if tokens > p.left {
		return p.refuse(sim.RefusedTokens)
	}
	have, n := s.have(), r.need(s, tokens)
	if more := r.aloft(s); s.state == sim.Preempted && more > 0 && r.hopeless(s, more) {
		return p.refuse(sim.RefusedMemory)
	}
	if n > r.free() || p.touched(s) && r.free() < 1 {
		return p.refuse(sim.RefusedMemory)
	}
	r.grow(s, tokens, n)
	if s.state != sim.Running {
		s.computed, s.cached = have, have
		p.admit(s)
	}
	s.taken, s.tokens = n, tokens
	p.left -= tokens
	p.order = append(p.order, s)
	return true
}

// admit moves s from the line to those that run.
func (p *refPass) admit(s *refSeq) {
	p.r.remove(s)
	s.from, s.state, s.admitted = s.state, sim.Running, true
	p.r.ranks++
	s.rank = p.r.ranks
	p.r.running = append(p.r.running, s)
	p.changes = append(p.changes, refChange{kind: sim.Admit, s: s, cached: s.cached, evicted: s.preempted, pulled: s.pulled})
}

func (p *refPass) addDecodes() bool {
	rows := 0
	var decodes []*refSeq
	for _, s := range p.r.running {
		if s.pending() == 1 && s.tokens == 0 {
			rows += 1 + s.drafts
			decodes = append(decodes, s)
		}
	}
	if rows > p.left {
		return p.refuse(sim.RefusedTokens)
	}
	free := p.r.free()
	for _, s := range decodes {
		n := p.r.need(s, 1+s.drafts)
		if n > free || p.touched(s) && free < 1 {
			return p.refuse(sim.RefusedMemory)
		}
		free -= n
	}
	for _, s := range decodes {
		p.add(s.serial, 1+s.drafts)
	}
	return true
}

// takeBack undoes what this pass gave to s.
func (p *refPass) takeBack(s *refSeq) {
	p.left += s.tokens
	s.tokens, s.taken = 0, 0
	p.order = slices.DeleteFunc(p.order, func(o *refSeq) bool { return o == s })
}

func (p *refPass) preempt(id int64) {
	s, r := p.find(id), p.r
	if s.tokens > 0 && s.cache != nil {
		s.cache.Unregister(s.table, s.computed)
	}
	p.takeBack(s)
	s.drafts, s.expected = 0, 0
	s.keep, s.keepSlot = false, false
	r.remove(s)
	r.freeBlocks(s)
	lost := s.computed
	s.computed, s.cached = 0, 0
	if s.admitted && s.from != sim.Swapped && !s.pulled { // else what it had is lost
		for i := range slices.Backward(p.changes) { // the latest: one before it came from the host
			if p.changes[i].s == s && p.changes[i].kind == sim.Admit {
				p.changes[i].undone = true
				break
			}
		}
		s.state = s.from
	} else {
		s.state = sim.Preempted
		p.evicted(s, lost)
		p.changes = append(p.changes, refChange{kind: sim.Preempt, s: s, evicted: s.preempted})
	}
	s.admitted, s.pulled = false, false
	if r.hopeless(s, 0) {
		p.e.drop(s)
		p.changes = append(p.changes, refChange{kind: sim.Reject, s: s, reason: sim.RejectOutOfKV})
		return
	}
	r.enqueue(s, true)
}

// swap moves the blocks that s had before this pass to the host.
func (p *refPass) swap(id int64) bool {
	s, r := p.find(id), p.r
	n := s.blocks - s.taken
	if n > r.host || r.cfg.HostBlocks == 0 || s.computed == 0 {
		return p.refuse(sim.RefusedHost)
	}
	p.takeBack(s)
	s.drafts = 0
	s.keep, s.keepSlot, s.pulled = false, false, false
	r.remove(s)
	r.freeBlocks(s)
	r.host -= n
	s.host = n
	p.copiedOut += n
	s.state, s.admitted = sim.Swapped, false
	p.evicted(s, 0)
	r.swapped = append(r.swapped, s)
	p.changes = append(p.changes, refChange{kind: sim.Preempt, s: s, reason: sim.PreemptSwap, evicted: s.preempted})
	return true
}

// swapIn brings them back.
func (p *refPass) swapIn(id int64) bool {
	s, r := p.find(id), p.r
	if p.full() {
		return p.refuse(sim.RefusedSlots)
	}
	if s.host > r.free() {
		return p.refuse(sim.RefusedMemory)
	}
	r.take(s.host)
	r.host += s.host
	p.copiedIn += s.host
	s.blocks, s.host = s.host, 0
	s.cached = s.computed
	p.admit(s)
	return true
}

// pull takes the blocks for the KV that another replica has of s, or will have.
func (p *refPass) pull(id int64) bool {
	s, r := p.find(id), p.r
	early := s.dest == r
	h := &refHeld{r: r, table: new(kv.Table)}
	cache, chain := r.hashes(s)
	h.cache = cache
	n := s.coming()
	hit := 0
	if h.cache != nil {
		if !s.req.NoPrefixRead {
			h.cache.Lookup(h.table, chain, n)
			hit = h.cache.Known(h.table) * r.cfg.BlockTokens
		}
		if !h.cache.Allocate(h.table, nil, n, 0) {
			return p.refuse(sim.RefusedMemory)
		}
		h.blocks = h.table.Len()
	} else if h.blocks = refBlocks(n, r.cfg.BlockTokens); h.blocks > r.free() {
		return p.refuse(sim.RefusedMemory)
	} else {
		r.take(h.blocks)
	}
	if early {
		s.early = h
		r.held = append(r.held, h)
	} else {
		s.blocks, s.table, s.state = h.blocks, h.table, sim.Pulling
	}
	s.hit = hit
	p.pulls = append(p.pulls, s)
	return true
}

// evicted counts an eviction.
func (p *refPass) evicted(s *refSeq, lost int) {
	s.preempted++
	p.e.res.Preemptions++
	p.e.res.Recompute += int64(lost)
	if s.evictions++; s.evictions > 1000 {
		p.e.gaveUp = true
	}
}

func (p *refPass) reserve(id int64, tokens int) bool {
	s, r := p.find(id), p.r
	if s.state != sim.Running && p.full() {
		return p.refuse(sim.RefusedSlots)
	}
	n := r.need(s, tokens)
	if n > r.free() {
		return p.refuse(sim.RefusedMemory)
	}
	if s.cache != nil {
		have := s.have()
		s.cache.Allocate(s.table, s.known(), have, tokens)
		s.computed, s.blocks = have, s.table.Len()
	} else {
		r.take(n)
		s.blocks += n
	}
	if !s.pulled {
		p.reserved = append(p.reserved, s)
	}
	return true
}

func (p *refPass) retain(id int64, slot, blocks bool) {
	s := p.find(id)
	s.keepSlot, s.keep = slot, blocks
}

func (p *refPass) release() {
	r := p.r
	p.released = p.released || r.slots+r.blocks+len(r.tables) > 0
	r.take(-r.blocks)
	r.slots, r.blocks = 0, 0
	for _, t := range r.tables {
		r.cache.FreeTable(t)
	}
	r.tables = nil
}

func (p *refPass) pad(rows, promptTokens int) { p.padRows, p.padTo = rows, promptTokens }

func (p *refPass) reject(id int64, reason string) {
	s := p.find(id)
	p.e.drop(s)
	p.changes = append(p.changes, refChange{kind: sim.Reject, s: s, reason: reason})
}

// arrange admits the running sequences anew, in that order.
func (p *refPass) arrange(running []int64) {
	p.r.running = nil
	for _, id := range running {
		s := p.find(id)
		p.r.ranks++
		s.rank = p.r.ranks
		p.r.running = append(p.r.running, s)
	}
}

// requeue puts those in front of the line, in that order.
func (p *refPass) requeue(line ...int64) {
	for _, id := range slices.Backward(line) {
		s := p.find(id)
		p.r.remove(s)
		p.r.enqueue(s, true)
	}
}

func (p *refPass) wakeAfter(d time.Duration) { p.wake = p.e.now.Add(d) }

// commit tells what happened and puts the step in flight. It reports whether
// the pass changed anything, so that another one may find more.
func (p *refPass) commit() (changed bool) {
	e, r := p.e, p.r
	for _, s := range p.pulls {
		e.startFlow(s, r)
	}
	for _, s := range p.reserved {
		if s.state != sim.Running {
			r.freeBlocks(s)
			s.computed = 0
		}
	}
	changed = p.released
	var admitted []*refSeq
	for _, c := range p.changes {
		if c.undone {
			continue
		}
		changed = true
		switch c.kind {
		case sim.Reject:
			e.finish(c.s, sim.Reject, c.reason)
		case sim.Admit:
			if c.s.timeline.Admitted < 0 {
				c.s.timeline.Admitted = e.now
				if !c.pulled {
					e.res.PrefixHits += int64(c.cached)
				}
			}
			c.s.pulled, c.s.remote = false, 0
			if c.s.away != nil { // computed here after all
				e.free(c.s.away)
				c.s.away = nil
			}
			admitted = append(admitted, c.s)
			e.tell(c.s, sim.Event{Kind: sim.Admit, Cached: int32(c.cached), Preemptions: int32(c.evicted)})
		default:
			e.tell(c.s, sim.Event{Kind: c.kind, Reason: c.reason, Preemptions: int32(c.evicted)})
		}
	}
	e.startStep(p)
	for _, s := range admitted {
		if s.state != sim.Ended {
			e.announce(s)
		}
	}
	return changed
}
