package sim

import "servesim/sim/kv"

func (st *Stepper) init(h *hub, index int, r Replica, load *Load) {
	if r.BlockTokens == 0 {
		r.BlockTokens = DefaultBlockTokens
	}
	st.hub, st.index, st.cfg, st.load = h, int32(index), r, load
	st.pool = kv.Unlimited(r.BlockTokens)
	if r.KVBlocks > 0 {
		st.pool = kv.NewPool(r.KVBlocks, r.ReservedBlocks, r.BlockTokens)
	}
	st.limits = Limits{
		MaxSeqs:        orMax(r.MaxSeqs),
		MaxBatchTokens: orMax(r.MaxBatchTokens),
		MaxModelLen:    orMax(r.MaxModelLen),
		Blocks:         st.pool.Usable(),
		BlockTokens:    r.BlockTokens,
	}
	st.waiting.order = r.Order
	st.prefilling.slot, st.parked.slot = slotActivity, slotActivity
	st.cohort.init(r.BlockTokens, len(h.classes), h.tokenTimes)
	st.plan.st = st
	st.wakeAt = Never
	*load = Load{FreeBlocks: st.pool.Free(), Blocks: st.pool.Usable()}
}

// refuses returns why a request can never run here, or "".
func (st *Stepper) refuses(r *Request) string {
	switch {
	case r.Prompt > st.limits.MaxModelLen:
		return RejectModelLen
	case st.pool.Blocks(r.Prompt) > st.pool.Usable():
		return RejectKVCapacity
	}
	return ""
}

// submit puts s, which is not in a replica, into the queue.
func (st *Stepper) submit(s *Sequence) {
	s.home = st
	s.state = Waiting
	s.output, _ = s.req.length(st.limits.MaxModelLen)
	s.timeline.Queued = st.hub.now
	st.enqueue(s, false)
	st.holding = false
	st.hub.emit(st.event(Queue, s))
}

func (st *Stepper) enqueue(s *Sequence, front bool) {
	st.waiting.push(s, front)
	st.load.PendingPrompt += s.Pending()
	st.load.Waiting = st.waiting.n
}

func (st *Stepper) dequeue(s *Sequence) {
	st.waiting.remove(s)
	st.load.PendingPrompt -= s.Pending()
	st.load.Waiting = st.waiting.n
}

// hopeless reports whether s, just evicted, could not go on even alone.
func (st *Stepper) hopeless(s *Sequence) bool {
	need := st.pool.Blocks(s.req.Prompt + s.generated)
	if st.cfg.Growth == TouchedGrowth && st.pool.Owned() == 0 {
		need++ // it was alone, and no decode is possible with every block taken
	}
	return need > st.pool.Usable()
}

// canTouch reports whether growth by need blocks may happen when the youngest
// sequence takes last of them: with TouchedGrowth a block must be free for each
// sequence in its turn.
func (st *Stepper) canTouch(need, last int) bool {
	return st.cfg.Growth == ExactGrowth || st.pool.Free()-(need-last) >= 1
}

// publishLoad shows routers what the sequences occupy.
func (st *Stepper) publishLoad() {
	st.load.Running, st.load.FreeBlocks = st.running.n, st.pool.Free()
}

// run appends s to the running sequences.
func (st *Stepper) run(s *Sequence) {
	st.ranks++
	s.rank = st.ranks
	st.running.pushBack(s)
}

// release takes a running sequence out of its lists and frees its blocks.
func (st *Stepper) release(s *Sequence) {
	st.pool.Give(st.detach(s))
	s.keepSlot, s.keepBlocks = false, false
}

// detach takes a running sequence out of its lists and returns its blocks.
func (st *Stepper) detach(s *Sequence) (blocks int) {
	if s.member.in {
		st.cohort.leave(s)
	}
	st.running.remove(s)
	switch s.links[slotActivity].in {
	case &st.prefilling:
		st.stopPrefill(s)
	case &st.parked:
		st.parked.remove(s)
	}
	blocks, s.blocks = s.blocks, 0
	return blocks
}

func (st *Stepper) stopPrefill(s *Sequence) {
	st.prefilling.remove(s)
	st.load.PendingPrompt -= s.Pending()
}

// leave ends a sequence that is waiting or running.
func (st *Stepper) leave(s *Sequence, kind Kind, reason string) {
	switch {
	case s.state != Running:
		st.dequeue(s)
	case s.keepSlot || s.keepBlocks:
		blocks := st.detach(s)
		if s.keepSlot {
			st.retained.slots++
		}
		if s.keepBlocks {
			st.retained.blocks += blocks
		} else {
			st.pool.Give(blocks)
		}
	default:
		st.release(s)
	}
	st.publishLoad()
	if st.waiting.n > 0 {
		st.holding = false
	}
	st.hub.end(s, kind, reason)
}
