package sim

import "fmt"

// Swap evicts a running sequence to host memory: its KV blocks are free at
// once, its positions stay computed, and it stands in View.Swapped until
// SwapIn. What the plan gave it comes back, but for an admission: one that has
// just been admitted goes too. All blocks that it had before are copied, also
// those reserved; its drafts are dropped. The copies go with the step
// (Batch.SwapOut). It returns false, and changes nothing, if the host has too
// few blocks, or the sequence no position, having been admitted in this pass.
func (p *Plan) Swap(s *Sequence) bool {
	p.check()
	st := p.st
	if s.home != st || s.state != Running {
		panic(fmt.Sprintf("sim: Plan.Swap of sequence %d, which is %v", s.serial, s.state))
	}
	// What this pass has taken for it comes back, but not the blocks of what a
	// store had of it.
	blocks := max(s.Blocks(), st.memory.Blocks(s.Context()))
	if st.cfg.HostBlocks == 0 || s.Context() == 0 || !st.host.Take(blocks) {
		return p.refuse(RefusedHost)
	}
	p.takeBack(s)
	st.release(s)
	s.hostBlocks, s.drafts, s.pulled, s.remote = blocks, 0, false, 0
	s.state = Swapped
	s.preempted++
	s.evictions++
	p.swapOut += blocks
	st.hub.preempted(st, s, 0)
	p.changes = append(p.changes, change{kind: Preempt, s: s, reason: PreemptSwap, preempted: s.preempted})
	st.enqueue(s, false)
	return true
}

// SwapIn brings a swapped sequence back: it runs again, with as many blocks as
// it had, and can be added. The copies go with the step (Batch.SwapIn), also if
// it is evicted again in the same pass. It returns false, and changes nothing,
// if slots or KV blocks are short.
func (p *Plan) SwapIn(s *Sequence) bool {
	p.check()
	st := p.st
	if s.home != st || s.state != Swapped {
		panic(fmt.Sprintf("sim: Plan.SwapIn of sequence %d, which is %v", s.serial, s.state))
	}
	switch {
	case p.Slots() < 1:
		return p.refuse(RefusedSlots)
	case !st.memory.Take(s.hostBlocks):
		return p.refuse(RefusedMemory)
	}
	p.admit(s, s.computed)
	st.host.Give(s.hostBlocks)
	p.swapIn += s.hostBlocks
	s.blocks, s.hostBlocks = s.hostBlocks, 0
	if s.Pending() > 1 {
		st.prefilling.pushBack(s)
		st.load.PendingPrompt += s.Pending()
	} else {
		st.parked.pushBack(s)
	}
	return true
}

// HostFree returns the host blocks that are free.
func (p *Plan) HostFree() int { return p.st.HostFree() }

// HostBlocks returns the host blocks that s occupies while it is Swapped.
func (s *Sequence) HostBlocks() int { return s.hostBlocks }

// Fail ends the run with an error: the scheduler has met what it cannot go on
// from.
func (p *Plan) Fail(err error) {
	p.check()
	p.st.hub.fail(fmt.Errorf("sim: replica %d at %v: %w", p.st.index, p.st.hub.now, err))
}
