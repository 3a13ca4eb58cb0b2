package sim

// settleIn is what an admission means to other replicas.
func (st *Stepper) settleIn(s *Sequence) {
	s.pulled, s.remote = false, 0
	if s.away != nil && s.dest == nil { // computed here after all
		s.away.free()
		s.away = nil
	}
	if e := st.hub.engine; e != nil && st.cfg.Role == RolePrefill && e.net.link.Layers > 1 && s.dest == nil {
		e.announce(s)
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
	from, to, early := s.home, s.dest, s.away
	from.detach(s)
	if to == nil {
		to = e.decoder(s)
	}
	var blocks blockSet // at its destination
	if kind, reason := to.takeOver(s, &blocks); reason != "" {
		from.letGo(s, kind)
		from.publishLoad()
		e.end(s, kind, reason)
		return
	}
	s.keepSlot, s.keepBlocks = false, false // of a replica that it leaves
	s.away = from.openAccount(s.blockSet)
	if s.dest != nil {
		to.forgetComing(s)
	}
	s.pass, s.state = passMarks{}, Remote
	s.remote, s.computed = s.computed, 0
	s.home, s.blockSet = to, blocks
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

// takeOver readies s, whose prompt another replica has computed, for this one,
// nil if there is none: its length, and its hashes in blocks, unless it has been
// pulled. It returns how the request ends where it is, or no reason.
func (st *Stepper) takeOver(s *Sequence, blocks *blockSet) (kind Kind, reason string) {
	if st == nil {
		return Reject, RejectNoRoute
	}
	if reason = st.refuses(&s.req); reason != "" {
		return Reject, reason
	}
	if st.outgrown(s, 0, 0) {
		return Reject, RejectOutOfKV
	}
	output, length := s.req.length(st.limits.MaxModelLen)
	if s.generated >= output { // no room for a second token
		return Finish, length
	}
	s.output = output
	if s.away == nil {
		reason = st.readChain(blocks, &s.req)
	}
	return Reject, reason
}
