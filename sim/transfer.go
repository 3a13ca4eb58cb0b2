package sim

import (
	"fmt"

	"servesim/sim/kv"
)

// transferred is what a sequence has to do with other replicas.
type transferred struct {
	remote int      // leading positions whose KV is elsewhere and can be pulled
	away   *account // its blocks in another replica: the source, or what was taken early at the destination
	dest   *Stepper // replica that is going to decode it, while its prompt is computed
	flow   *flow    // the transfer under way
	pulled bool     // its KV came by a transfer, and it has not run since
	keep   bool     // its blocks outlive it, until Stepper.Sent
	asked  Time     // instant of the Pull
	hit    int      // positions that the prefix cache had then
}

// account is KV blocks of a replica that belong to no sequence in its lists: a
// transfer may still read or write them.
type account struct {
	blockSet
	st    *Stepper
	index int // in st.accounts
}

// openAccount makes an account of the replica for those blocks.
func (st *Stepper) openAccount(h blockSet) *account {
	a := &account{blockSet: h, st: st, index: len(st.accounts)}
	st.accounts = append(st.accounts, a)
	st.load.Held += a.blocks
	return a
}

// close forgets an account and returns its blocks, for a sequence.
func (a *account) close() blockSet {
	l := a.st.accounts
	last := l[len(l)-1]
	l[a.index], last.index = last, a.index
	l[len(l)-1] = nil
	a.st.accounts = l[:len(l)-1]
	a.st.load.Held -= a.blocks
	return a.blockSet
}

// free frees the blocks of an account. Others may have waited for them.
func (a *account) free() {
	h, st := a.close(), a.st
	st.memory.Give(st.memory.forget(&h))
	st.freed()
}

// freed makes the replica notice that blocks came free outside of its own doing.
func (st *Stepper) freed() {
	if !st.plan.open {
		st.publishLoad()
	}
	if st.wanted() {
		st.holding = false
	}
	if e := st.hub.engine; e != nil {
		e.look(st)
	}
}

// Pull takes the blocks for the prompt of s, of View.Remote or View.Coming,
// beyond those that the prefix cache has, and starts the transfer. When it ends
// s waits at its turn, with at least one position pending. A sequence of
// View.Coming stays there until its prompt is complete, and one that has been
// pulled cannot be again ([Sequence.Pulled]). It returns false if the blocks
// are not free. The transfers of a pass start, and their events come, before
// those of its other calls.
func (p *Plan) Pull(s *Sequence) bool {
	p.check()
	st := p.st
	early := s.dest == st && s.away == nil
	if !early && (s.home != st || s.state != Remote) {
		panic(fmt.Sprintf("sim: Plan.Pull of sequence %d, which is %v", s.serial, s.state))
	}
	h := &s.blockSet
	if early {
		h = &blockSet{}
		st.readChain(h, &s.req)
	}
	hit, ok := st.memory.pull(h, s)
	if !ok {
		return p.refuse(RefusedMemory)
	}
	if early {
		s.away = st.openAccount(*h)
	} else {
		st.displace(s)
		s.state = Pulling
		st.place(s)
	}
	s.hit = hit
	p.pulls = append(p.pulls, s)
	return true
}

// Pulled reports whether the transfer of s, a sequence of View.Coming, has been
// started.
func (s *Sequence) Pulled() bool { return s.away != nil && s.dest != nil }

// pull takes the blocks for the remote positions of s and returns how many of
// the positions the prefix cache has. The blocks cannot be found before their
// content is there.
func (m *memory) pull(h *blockSet, s *Sequence) (hit int, ok bool) {
	positions := s.coming()
	if h.hashed {
		if !s.req.NoPrefixRead {
			m.cache.Lookup(&h.table, h.chain, positions)
			hit = m.cache.Known(&h.table) * m.cache.BlockTokens()
		}
		ok = m.cache.Allocate(&h.table, nil, positions, 0)
		h.blocks = h.table.Len()
		return hit, ok
	}
	need := m.Blocks(positions) - h.blocks
	if ok = m.Take(need); ok {
		h.blocks += need
	}
	return 0, ok
}

// coming returns the positions that a transfer of s brings: those of the prompt
// that are elsewhere now or will be.
func (s *Sequence) coming() int {
	if s.dest != nil {
		return s.req.Prompt
	}
	return s.remote
}

// startPulls tells of the transfers that a pass began and lets them run.
func (st *Stepper) startPulls() {
	for _, s := range st.plan.pulls {
		s.asked = st.hub.now
		if s.clerk != nil && s.clerk.phase == phaseRoom {
			st.turnTo(s, phaseWire)
		}
		if len(st.hub.observers) > 0 {
			e := Event{Cached: int32(s.hit), Tokens: int32(s.coming() - s.hit)}
			st.hub.describe(&e, Pull, s)
			e.Replica = st.index
			st.hub.emit(&e)
		}
		if e := st.hub.engine; e != nil {
			e.net.start(s, st)
		}
	}
}

// received ends the transfer of s: its KV is here. The last position is left
// to compute, so that the next token can be sampled.
func (st *Stepper) received(s *Sequence) {
	h := st.hub
	n := s.req.Prompt + s.generated
	moved := s.remote - s.hit
	h.result.Transfers++
	h.result.Transferred += int64(moved)
	st.dequeue(s)
	s.computed, s.remote = min(s.remote, n-1), 0
	if s.hashed {
		st.memory.cache.Register(&s.table, s.chain, s.computed)
		st.memory.cache.Computed(&s.table, s.computed)
	}
	s.state, s.pulled = Waiting, true
	if s.clerk != nil && s.clerk.phase == phaseWire {
		st.turnTo(s, phaseFirstQueue)
	}
	st.place(s)
	st.load.PendingPrompt += s.uncomputed()
	st.holding = false
	if len(h.observers) > 0 {
		e := Event{Tokens: int32(moved), Took: h.now.Sub(s.asked)}
		h.describe(&e, Pulled, s)
		h.emit(&e)
	}
}

// letGo frees the blocks of a sequence that has left the lists of its replica,
// here and elsewhere. Those that a transfer reads or writes are held until it
// ends.
func (st *Stepper) letGo(s *Sequence, kind Kind) {
	switch {
	case s.keep && kind == Finish:
		st.hub.kept[s.req.ID] = st.openAccount(s.blockSet)
		s.blockSet = blockSet{}
	case s.flow != nil:
		st.hub.engine.net.orphan(s)
	case s.state == Pulling && st.hub.byHand && !st.cfg.FreeAborted:
		st.hub.written[s.req.ID] = st.openAccount(s.blockSet)
		s.blockSet = blockSet{}
	}
	st.host.Give(s.hostBlocks)
	s.hostBlocks = 0
	if s.away != nil {
		s.away.free()
	}
	if to := s.dest; to != nil {
		to.forgetComing(s)
		to.freed()
	}
	st.memory.Give(st.memory.forget(&s.blockSet))
	s.transferred = transferred{}
}

// forgetComing takes a sequence off the list of those that are computed for
// this replica, which may be all that it waits for before it changes its role.
func (st *Stepper) forgetComing(s *Sequence) {
	st.coming.remove(s)
	st.load.Coming = st.coming.n
	s.dest = nil
	st.hub.engine.look(st)
}

// readChain readies the hashes of r for this replica. A chain that cannot be
// converted is left out; reason then says so.
func (st *Stepper) readChain(h *blockSet, r *Request) (reason string) {
	h.hashed, h.chain = false, h.chain[:0]
	if st.memory.cache == nil || r.PrefixBlock == 0 {
		return ""
	}
	var err error
	h.chain, err = kv.Convert(h.chain, r.Prefix, r.PrefixBlock, st.limits.BlockTokens, r.Prompt+r.Output)
	if err != nil {
		return RejectPrefixBlock
	}
	h.hashed = true
	return ""
}
