package sim

import (
	"fmt"
	"time"
)

// step is the step in flight.
type step struct {
	active  bool
	decodes bool // the cohort is part of it
	end     Time
	took    time.Duration
	batch   Batch
	chunks  []assignment  // of sequences outside the cohort
	rows    []assignment  // decodes with drafts
	prefill []Chunk       // backing of batch.Prefills
	beside  time.Duration // of took, what chunks add to the decodes
	free    int
	waiting int32
	running int32
}

// needsPlan reports whether a pass could do anything.
func (st *Stepper) needsPlan() bool {
	return st.wanted() || st.running.n > 0 || !st.retained.empty()
}

// begin starts the next step of an idle replica, if there is one.
func (st *Stepper) begin() {
	if w := st.windows.at(st.hub.now); w != nil && w.Pause {
		st.holding = false
		if st.wakeAt = Never; st.needsPlan() {
			st.wakeAt = w.To
		}
		return
	}
	if st.hub.now < st.hostFree && len(st.ring) > 1 {
		st.wakeAt = st.hostFree
		return
	}
	st.slot()
	if st.holding && st.hub.now < st.wakeAt && st.repeat() {
		return
	}
	st.holding = false
	// A pass that only takes away may make room for others.
	flying := st.flying
	for again := true; again && st.flying == flying && st.needsPlan(); {
		again = st.pass()
	}
	if !st.needsPlan() {
		st.wakeAt = Never
	}
}

// repeat starts the same decode step again, unless memory forbids it or
// somebody who waits may find more of its prompt in the prefix cache.
func (st *Stepper) repeat() bool {
	c := &st.cohort
	need := c.crossing[c.phase]
	if c.n == 0 || st.wanted() && st.cacheMoves(need) {
		return false
	}
	if need > st.memory.Free() || st.cfg.Growth != ExactGrowth && !st.canTouch(need, st.youngestNeed()) {
		return false
	}
	st.memory.Take(need - st.growDecodes(nil))
	f := st.step
	f.prefill, f.chunks, f.batch = f.prefill[:0], f.chunks[:0], Batch{}
	st.launch(true, 0)
	return true
}

// youngestNeed returns the blocks that the youngest member of the cohort takes
// in the next step.
func (st *Stepper) youngestNeed() int {
	for s := st.running.last; s != nil; s = s.links[slotPlace].prev {
		if s.member.in {
			if st.cohort.crossesNow(s) {
				return 1
			}
			break
		}
	}
	return 0
}

// cacheMoves reports whether the prefix cache has changed since the scheduler
// last began to look at it, or may with the next decode step: a block fills up,
// or one is taken that held something.
func (st *Stepper) cacheMoves(need int) bool {
	return st.memory.cache != nil && (need > 0 || st.seen != st.memory.version() || st.cohort.fills())
}

// pass asks the scheduler and starts the step it plans. It reports whether it
// changed anything for the requests.
func (st *Stepper) pass() (changed bool) {
	p := &st.plan
	p.reset()
	st.slot()
	st.seen = st.memory.version()
	if st.hub.ledgers {
		st.beginPass()
	}
	st.cfg.Scheduler.Schedule(View{
		Now: st.hub.now, Limits: st.limits,
		Waiting: List{&st.waiting.list}, Running: List{&st.running}, Prefilling: List{&st.prefilling},
		Swapped: List{&st.swapped}, Remote: List{&st.remote.list}, Pulling: List{&st.pulling.list}, Coming: List{&st.coming},
	}, p)
	p.open = false
	st.wakeAt, st.waking = p.wakeAt, Never
	if st.hub.ledgers {
		st.endPass()
	}
	changed = st.announce()
	decodes := st.commit()
	if decodes || len(st.step.prefill) > 0 || len(st.step.rows) > 0 || p.swapIn+p.swapOut > 0 {
		st.step.batch.SwapIn, st.step.batch.SwapOut = p.swapIn, p.swapOut
		st.holding = p.hold && !p.gaveBack() && p.swapIn+p.swapOut == 0 && len(st.step.prefill) == 0 && !st.byRow() && !st.hub.check
		st.launch(decodes, p.padPrompt)
	}
	st.publishLoad()
	st.announcePrompts()
	return changed
}

// announce emits what the pass did to requests, in the order of the calls, and
// reports whether that is anything.
func (st *Stepper) announce() (changed bool) {
	p := &st.plan
	changed = p.released
	st.startPulls()
	for _, s := range p.reserved {
		if s.state != Running && s.state != Swapped {
			st.unreserve(s)
		}
	}
	for _, c := range p.changes {
		if c.s == nil {
			continue
		}
		changed = true
		switch {
		case c.kind == Reject:
			st.hub.end(c.s, Reject, c.reason)
		default:
			st.announceChange(c)
		}
	}
	return changed
}

// announceChange emits an admission or a preemption.
func (st *Stepper) announceChange(c change) {
	s, e := c.s, Event{Reason: c.reason, Cached: int32(c.cached)}
	if s.clerk != nil {
		if c.kind == Admit {
			st.accountAdmission(s)
		} else {
			st.accountPreemption(s)
		}
	}
	if c.kind == Admit {
		if s.timeline.Admitted == NoTime {
			s.timeline.Admitted = st.hub.now
			if !c.pulled {
				st.hub.result.PrefixHits += int64(c.cached)
			}
		}
		if s.state != Ended {
			st.settleIn(s)
		}
	}
	if len(st.hub.observers) > 0 {
		st.hub.describe(&e, c.kind, s)
		e.Preemptions = c.preempted
		st.hub.emit(&e)
	}
}

// unreserve takes back what a pass reserved for a sequence that still waits.
func (st *Stepper) unreserve(s *Sequence) {
	before := s.uncomputed()
	st.memory.Give(st.memory.forget(&s.blockSet))
	s.computed = 0
	if s.state != Ended {
		st.load.PendingPrompt += s.uncomputed() - before
	}
}

// commit moves the plan's sequences into the step and reports whether the
// cohort is part of it.
func (st *Stepper) commit() (decodes bool) {
	p, c := &st.plan, &st.cohort
	f := st.step
	f.prefill, f.chunks, f.rows, f.batch = f.prefill[:0], f.chunks[:0], f.rows[:0], Batch{}
	decodes = p.decodes > 0 && !st.byRow()
	if decodes && !p.all && p.members < c.n {
		st.parkTheRest()
	}
	for _, a := range p.adds {
		if s := a.s; s != nil && !s.member.in {
			st.commitOne(s, a.tokens)
		}
	}
	if p.all {
		for s := range st.parked.all {
			if s.pass.added == p.number && s.pass.index < 0 {
				st.commitOne(s, s.pass.tokens)
			}
		}
	}
	return decodes
}

// commitOne moves one sequence outside the cohort into the step.
func (st *Stepper) commitOne(s *Sequence, tokens int) {
	pending := s.Pending()
	if s.hashed {
		s.blocks = s.table.Len()
	} else {
		s.blocks += s.pass.blocks
	}
	if pending == 1 {
		if st.byRow() {
			st.commitRow(s, tokens)
			return
		}
		if st.parked.contains(s) {
			st.parked.remove(s)
		}
		st.cohort.join(s)
		return
	}
	st.step.prefill = append(st.step.prefill, Chunk{Tokens: tokens, Context: s.computed, Last: tokens == pending})
	st.step.chunks = append(st.step.chunks, assignment{s: s, serial: s.serial, tokens: tokens})
	if st.prefilling.contains(s) {
		st.load.PendingPrompt -= tokens
	} else {
		st.prefilling.pushBack(s)
		st.load.PendingPrompt += pending - tokens
	}
	s.computed += tokens
	if len(st.ring) > 1 {
		// Its next chunk, or its next token, may be planned before this ends.
		if tokens >= pending-1 {
			st.stopPrefill(s)
			st.parked.pushBack(s)
		}
		st.depart(&st.step.chunks[len(st.step.chunks)-1])
	}
}

// parkTheRest takes the members that the plan left out from the cohort, since
// the others move on without them.
func (st *Stepper) parkTheRest() {
	for s := range st.running.all {
		if s.member.in && s.pass.added != st.plan.number {
			st.cohort.leave(s)
			st.parked.pushBack(s)
		}
	}
}

// launch puts the step in flight.
func (st *Stepper) launch(decodes bool, padPrompt int) {
	c, f := &st.cohort, st.step
	f.batch.Prefills, f.batch.Padding = f.prefill, Padding{PromptTokens: padPrompt}
	if decodes {
		f.batch.Decodes, f.batch.Positions, f.batch.Context = c.n, c.n, c.context
		c.plan()
	}
	f.batch.Padding.Rows = max(0, st.plan.padRows-f.batch.Decodes)
	f.decodes, f.free = decodes, st.memory.Free()
	f.waiting, f.running = int32(st.inLine()), int32(st.running.n)
	st.fly(f)
	st.load.FreeBlocks = f.free
}

// fly puts the step behind those in flight. With one batch in flight that takes
// the time of the host and of the device; with more, the step starts when the
// host is ready and the first stage is free, and leaves the last stage behind
// the others.
func (st *Stepper) fly(f *step) {
	now := st.hub.now
	if st.group != nil { // which knows the time when all have planned
		f.active, f.took = true, 0
		st.flying++
		return
	}
	host, stage, total := st.times(f.batch)
	if host < 0 || stage < 0 || total < 0 || now >= Never-Time(host)-Time(total) {
		st.hub.fail(fmt.Errorf("sim: replica %d: the cost model gives a step of %d ns (host %d, stage %d) for %d decodes with context %d and %d prompt tokens",
			st.index, int64(total), int64(host), int64(stage), f.batch.Decodes, f.batch.Context, f.batch.PrefillTokens()))
		host, stage, total = 0, 1, 1
	}
	start := now.Add(host)
	if len(st.ring) == 1 {
		start, total = now, host+total
	}
	start = max(start, st.stageFree)
	f.end = max(start.Add(max(total, 1)), st.lastEnd.Add(stage))
	f.took = f.end.Sub(start)
	st.hostFree, st.stageFree, st.lastEnd = now.Add(host), start.Add(stage), f.end
	f.beside = st.besideDecodes(f)
	f.active = true
	st.flying++
}
