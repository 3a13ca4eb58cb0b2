package sim

import "servesim/sim/kv"

func (st *Stepper) init(h *hub, index int, r Replica, load *Load) {
	if r.BlockTokens == 0 {
		r.BlockTokens = DefaultBlockTokens
	}
	st.hub, st.index, st.cfg, st.load = h, int32(index), r, load
	st.memory.init(&r)
	st.host = kv.NewPool(max(1, r.HostBlocks), 0, r.BlockTokens)
	st.limits = Limits{
		MaxSeqs:        orMax(r.MaxSeqs),
		MaxBatchTokens: orMax(r.MaxBatchTokens),
		MaxModelLen:    orMax(r.MaxModelLen),
		Blocks:         orMax(max(0, r.KVBlocks-r.ReservedBlocks)),
		BlockTokens:    r.BlockTokens,
	}
	st.pipeline, _ = r.CostModel.(Pipeliner)
	st.ring = make([]step, max(1, r.InFlight))
	st.slot()
	st.waiting.order, st.remote.order, st.pulling.order = r.Order, r.Order, r.Order
	st.prefilling.slot, st.parked.slot, st.coming.slot = slotActivity, slotActivity, slotComing
	st.cohort.init(r.BlockTokens, len(h.classes), h.tokenTimes, r.PrefixCache)
	st.plan.st = st
	st.wakeAt, st.waking = Never, Never
	*load = Load{FreeBlocks: st.memory.Free(), Blocks: st.limits.Blocks, Replica: index, Role: r.Role, cache: st.memory.cache}
}

// refuses returns why a request can never run here, or "".
func (st *Stepper) refuses(r *Request) string {
	switch {
	case r.Prompt > st.limits.MaxModelLen:
		return RejectModelLen
	case st.memory.Blocks(r.Prompt) > st.memory.Usable() && !st.cfg.Strict:
		return RejectKVCapacity
	case st.memory.cache != nil && r.PrefixBlock > 0 && !kv.Convertible(r.PrefixBlock, st.limits.BlockTokens):
		return RejectPrefixBlock
	}
	return ""
}

// take readies s for this replica: its length, its hashes.
func (st *Stepper) take(s *Sequence) (rejected string) {
	if reason := st.refuses(&s.req); reason != "" {
		return reason
	}
	s.output, _ = s.req.length(st.limits.MaxModelLen)
	return st.readChain(&s.blockSet, &s.req)
}

// submit puts s, which is not in a replica, into the queue.
func (st *Stepper) submit(s *Sequence) {
	s.home = st
	s.state = Waiting
	s.timeline.Queued = st.hub.now
	if s.clerk != nil {
		st.turnTo(s, phaseQueue)
	}
	st.enqueue(s, false)
	st.holding = false
	st.hub.tell(Queue, s)
}

// enqueue puts s in line: behind the others, or in front of them.
func (st *Stepper) enqueue(s *Sequence, front bool) {
	st.giveTurn(s, front)
	st.place(s)
	st.load.PendingPrompt += s.uncomputed()
}

func (st *Stepper) giveTurn(s *Sequence, front bool) {
	if front {
		st.firstTurn--
		s.turn = st.firstTurn
	} else {
		st.lastTurn++
		s.turn = st.lastTurn
	}
}

func (st *Stepper) dequeue(s *Sequence) {
	st.displace(s)
	st.load.PendingPrompt -= s.uncomputed()
}

// place puts s into the list of its state, at its turn.
func (st *Stepper) place(s *Sequence) {
	switch s.state {
	case Remote:
		st.remote.push(s)
	case Pulling:
		st.pulling.push(s)
	case Swapped:
		st.swapped.pushBack(s)
	default:
		st.waiting.push(s)
	}
	st.load.Waiting = st.inLine()
}

func (st *Stepper) displace(s *Sequence) {
	switch s.state {
	case Remote:
		st.remote.remove(s)
	case Pulling:
		st.pulling.remove(s)
	case Swapped:
		st.swapped.remove(s)
	default:
		st.waiting.remove(s)
	}
	st.load.Waiting = st.inLine()
}

// inLine returns how many sequences wait for admission.
func (st *Stepper) inLine() int { return st.waiting.n + st.remote.n + st.pulling.n + st.swapped.n }

// wanted reports whether somebody waits for what a running sequence has.
func (st *Stepper) wanted() bool {
	return st.waiting.n > 0 || st.swapped.n > 0 || st.remote.n > 0 || st.coming.n > 0
}

// hopeless reports whether s, which was evicted, could not go on even alone with
// so many tokens more than it has.
func (st *Stepper) hopeless(s *Sequence, more int) bool {
	spare := 0
	if st.cfg.Growth == TouchedGrowth && st.memory.Owned() == s.Blocks() {
		spare = 1 // it was alone, and no decode is possible with every block taken
	}
	return st.outgrown(s, more, spare)
}

// outgrown reports whether prompt and tokens of s and so many more, beside spare
// blocks, need more than there are.
func (st *Stepper) outgrown(s *Sequence, more, spare int) bool {
	return st.memory.Blocks(s.req.Prompt+s.generated+more)+spare > st.memory.Usable() && !st.cfg.Strict
}

// canTouch reports whether growth by need blocks may happen when the youngest
// sequence takes last of them: with TouchedGrowth a block must be free for each
// sequence in its turn.
func (st *Stepper) canTouch(need, last int) bool {
	return st.cfg.Growth == ExactGrowth || st.memory.Free()-(need-last) >= 1
}

// publishLoad shows routers what the sequences occupy.
func (st *Stepper) publishLoad() {
	st.load.Running, st.load.FreeBlocks = st.running.n, st.memory.Free()
}

// run appends s to the running sequences.
func (st *Stepper) run(s *Sequence) {
	st.ranks++
	s.rank = st.ranks
	st.running.pushBack(s)
}

// release takes a running sequence out of its lists and frees its blocks.
func (st *Stepper) release(s *Sequence) {
	st.detach(s)
	st.memory.Give(st.memory.forget(&s.blockSet))
	s.keepSlot, s.keepBlocks = false, false
}

// detach takes a running sequence out of its lists.
func (st *Stepper) detach(s *Sequence) {
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
}

func (st *Stepper) stopPrefill(s *Sequence) {
	st.prefilling.remove(s)
	st.load.PendingPrompt -= s.Pending()
}

// retain keeps what an ended sequence was told to keep, and frees the rest.
func (st *Stepper) retain(s *Sequence) {
	r := &st.retained
	if s.keepSlot {
		r.slots++
	}
	switch {
	case !s.keepBlocks:
		st.memory.Give(st.memory.forget(&s.blockSet))
	case s.hashed:
		r.tables = append(r.tables, s.table)
		s.table, s.blocks = kv.Table{}, 0
	default:
		r.blocks += s.blocks
		s.blocks = 0
	}
}

// leave ends a sequence that is waiting or running.
func (st *Stepper) leave(s *Sequence, kind Kind, reason string) {
	switch {
	case s.state != Running:
		st.dequeue(s)
	case s.keepSlot || s.keepBlocks:
		st.detach(s)
		if s.flow != nil {
			st.hub.engine.net.orphan(s) // holds the blocks until they have been read
		}
		st.retain(s)
	default:
		st.detach(s)
	}
	st.letGo(s, kind)
	st.publishLoad()
	if st.wanted() {
		st.holding = false
	}
	st.hub.end(s, kind, reason)
}
