package simtest

import "servesim/sim"

// duty is what a replica does.
type duty struct {
	known      bool // from Laws.Config
	role       sim.Role
	fromDecode bool // first tokens come from the decode side
	closed     bool
	closedAt   sim.Time
	active     sim.Time // when something of it ended or left
	coming     int      // prompts that are being fetched before they are complete
	holds      int      // requests whose blocks are kept until they have left
}

// roles are the roles by name.
var roles = map[string]sim.Role{
	sim.RoleBoth.String():    sim.RoleBoth,
	sim.RolePrefill.String(): sim.RolePrefill,
	sim.RoleDecode.String():  sim.RoleDecode,
}

// role checks that a replica is closed or opened.
func (l *Laws) role(e *sim.Event) {
	if n := len(l.Config.Replicas); e.Replica < 0 || n > 0 && int(e.Replica) >= n {
		l.violate(e, "%v of replica %d of %d", e.Kind, e.Replica, n)
		return
	}
	if e.Serial|int64(e.ID|e.Class|e.Prompt|e.Output)|int64(e.Preemptions|e.GapsOver|e.Tokens|e.Cached) != 0 || e.Timeline != (sim.Timeline{}) {
		l.violate(e, "a change of role is about request #%d", e.Serial)
	}
	s := l.site(e.Replica)
	role, ok := roles[e.Reason]
	if !ok || s.known && l.Config.Roles == nil {
		l.violate(e, "nobody asks for the role %q", e.Reason)
	}
	if s.closed == (e.Kind == sim.Drain) {
		l.violate(e, "%v of a replica that was closed: %t", e.Kind, s.closed)
	}
	if e.Kind == sim.Drain {
		s.closed, s.closedAt, s.active = true, e.Time, e.Time
		l.stillOpen(e)
		if e.Took != 0 {
			l.violate(e, "a replica is closed after %d ns", int64(e.Took))
		}
		return
	}
	l.counts.Switches++
	m := s.current()
	if m.waiting+m.running+s.coming+s.holds > 0 {
		l.violate(e, "a replica opens with %d sequences in line, %d running, %d coming and blocks of %d", m.waiting, m.running, s.coming, s.holds)
	}
	if e.Time.Sub(s.closedAt) != e.Took {
		l.violate(e, "a replica that was closed at %d ns opens %d ns later", int64(s.closedAt), int64(e.Took))
	}
	if cost := e.Time.Sub(s.active); cost < l.Config.SwitchCost {
		l.violate(e, "a replica opens %d ns after it had drained, of %d", int64(cost), int64(l.Config.SwitchCost))
	}
	s.closed, s.role = false, role
}

// stillOpen checks that some replicas take prompts and some decode.
func (l *Laws) stillOpen(e *sim.Event) {
	prompts, decodes := 0, 0
	for i := range l.Config.Replicas {
		if s := l.site(int32(i)); !s.closed {
			if s.role != sim.RoleDecode {
				prompts++
			}
			if s.role != sim.RolePrefill {
				decodes++
			}
		}
	}
	if len(l.Config.Replicas) > 0 && (prompts == 0 || decodes == 0) {
		l.violate(e, "of the replicas left open %d take prompts and %d decode", prompts, decodes)
	}
}

// hasRole reports whether a replica may have that role.
func (l *Laws) hasRole(replica int32, role sim.Role) bool {
	if replica < 0 {
		return false
	}
	s := l.site(replica)
	return !s.known || s.role == role
}

// prefilled checks what a step of a replica of RolePrefill gave, and returns how
// many prompts it completed.
func (l *Laws) prefilled(e *sim.Event, s *site) int {
	if len(e.Gaps) > 0 || s.fromDecode && e.Tokens > 0 {
		l.violate(e, "%d tokens and %d gap groups of a replica that hands over", e.Tokens, len(e.Gaps))
	}
	return s.prompts
}
