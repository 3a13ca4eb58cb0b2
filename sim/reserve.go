package sim

import "fmt"

// Reserve takes the KV blocks that s lacks for that many more positions, so
// that it can grow to there without asking. It returns false if they are not
// free, or if s waits and no slot is. A waiting sequence keeps them only if it
// is admitted in the same pass, or if its KV came by a transfer: a reservation
// that comes to nothing still overwrites what the prefix cache had in those
// blocks.
func (p *Plan) Reserve(s *Sequence, tokens int) bool {
	p.check()
	if s.home != p.st || s.state == Ended || s.state >= Remote || s.member.in || p.planned(s) {
		panic(fmt.Sprintf("sim: Plan.Reserve for sequence %d, which decodes, is elsewhere or in the plan", s.serial))
	}
	if s.state != Running && p.Slots() < 1 {
		return p.refuseTo(s, RefusedSlots)
	}
	if s.hashed {
		have, before := s.have(), s.uncomputed()
		known := s.chain[:min(len(s.chain), (s.req.Prompt+s.generated)/p.st.limits.BlockTokens)]
		if p.Need(s, tokens) > p.Free() || !p.st.memory.cache.Allocate(&s.table, known, have, tokens) {
			return p.refuseTo(s, RefusedMemory)
		}
		s.blocks, s.computed = s.table.Len(), have
		p.st.load.PendingPrompt += s.uncomputed() - before
	} else {
		need := p.Need(s, tokens)
		if !p.st.memory.Take(need) {
			return p.refuseTo(s, RefusedMemory)
		}
		s.blocks += need
	}
	if s.state != Running && !s.pulled {
		p.reserved = append(p.reserved, s)
	}
	return true
}

// Retain keeps the slot or the blocks of a running sequence past its end,
// until Release: a static batch gives its memory back as a whole. A request
// that another replica decodes, or one that is evicted, has not ended: nothing is
// kept of it. Nor are blocks that a transfer reads.
func (p *Plan) Retain(s *Sequence, slot, blocks bool) {
	p.check()
	if s.home != p.st || s.state != Running {
		panic(fmt.Sprintf("sim: Plan.Retain of sequence %d, which is %v", s.serial, s.state))
	}
	s.keepSlot, s.keepBlocks = slot, blocks
}

// Release gives back the slots and blocks that ended sequences retained.
func (p *Plan) Release() {
	p.check()
	r := &p.st.retained
	p.st.memory.Give(r.blocks)
	for i := range r.tables {
		p.st.memory.cache.FreeTable(&r.tables[i])
	}
	p.released = p.released || !r.empty()
	*r = retained{tables: r.tables[:0]}
}
