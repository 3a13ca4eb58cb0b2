package sim

// settleIn is what an admission means to other replicas.
func (st *Stepper) settleIn(s *Sequence) {
	s.pulled, s.remote = false, 0
	if s.away != nil && s.dest == nil { // computed here after all
		s.away.free()
		s.away = nil
	}
}

// announcePrompts tells the replicas that are going to decode what the pass has
// admitted.
func (st *Stepper) announcePrompts() {
	e := st.hub.engine
	if e == nil || st.cfg.Role != RolePrefill || e.net.link.Layers < 2 {
		return
	}
	for _, c := range st.plan.changes {
		if c.kind == Admit && c.s != nil && c.s.home == st && c.s.dest == nil {
			e.announce(c.s)
		}
	}
}

// announce tells the replica that is going to decode s that its prompt is being
// computed.
func (e *engine) announce(s *Sequence) {
	to := e.decoder(s)
	if to == nil {
		return // it ends without a route when its prompt is complete
	}
	s.dest = to
	to.coming.pushBack(s)
	to.load.Coming = to.coming.n
	to.holding = false
	e.look(to)
}

// decoder asks which replica decodes s, or gives nil.
func (e *engine) decoder(s *Sequence) *Stepper {
	to := e.onlyDecoder
	if e.cfg.Handoff != nil {
		to = e.cfg.Handoff.Route(e.now, s.req.query(), e.loads)
	}
	if to < 0 || to >= len(e.replicas) || e.loads[to].Closed || e.loads[to].Role == RolePrefill {
		return nil
	}
	return &e.replicas[to]
}

// only returns the one replica that does not have that role, or -1.
func (c *Config) only(not Role) int {
	found := -1
	for i, r := range c.Replicas {
		if r.Role != not {
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	return found
}

// endPrompt ends the prompt of s on a replica of RolePrefill.
func (st *Stepper) endPrompt(s *Sequence) (tokens int) {
	if s.flow != nil {
		st.hub.engine.net.computed(s)
	}
	if st.cfg.FirstToken == FirstFromPrefill {
		tokens = 1
		st.sampleAlone(s)
		if s.generated >= s.output {
			st.finished(s)
			return tokens
		}
	} else {
		s.timeline.PrefillEnd = st.hub.now
		s.touch |= touchPrompt
		st.ended = append(st.ended, s)
	}
	s.touch |= touchHandoff
	return tokens
}

// handOver moves s, whose prompt is complete, to the queue of the replica that
// decodes it. Its blocks stay where they are until they have been pulled.
func (e *engine) handOver(s *Sequence) {
	from, to := s.home, s.dest
	if to == nil {
		to = e.decoder(s)
	}
	reason := RejectNoRoute
	if to != nil {
		reason = to.refuses(&s.req)
	}
	if reason == "" && to.memory.Blocks(s.req.Prompt+s.generated) > to.memory.Usable() && !to.cfg.Strict {
		reason = RejectOutOfKV
	}
	if reason != "" {
		from.leave(s, Reject, reason)
		return
	}
	output, why := s.req.length(to.limits.MaxModelLen)
	if s.generated >= output { // fewer than where its prompt was computed
		from.leave(s, Finish, why)
		return
	}
	from.detach(s)
	s.keepSlot, s.keepBlocks = false, false
	source := from.openAccount(s.blockSet)
	s.blockSet = blockSet{}
	early := s.away
	s.away = source
	if s.dest != nil {
		to.forgetComing(s)
	}
	s.pass, s.state = passMarks{}, Remote
	s.remote, s.computed = s.computed, 0
	s.home = to
	s.output = output
	if c := s.clerk; c != nil {
		c.LateTransfer = s.timeline.FirstToken != NoTime
		next := phaseRoom
		if early != nil {
			next = phaseWire
		}
		from.turnTo(s, next)
	}
	if early != nil {
		s.blockSet = early.close()
		s.state = Pulling
	} else {
		to.readChain(&s.blockSet, &s.req)
	}
	to.enqueue(s, false)
	to.holding = false
	e.tell(Handoff, s)
	from.freed()
	if early != nil {
		e.net.handedOver(s)
	}
	e.look(to)
}
