package sim

import "fmt"

// enter takes s through admission and routing into a queue.
func (e *engine) enter(s *Sequence) {
	q := s.req.query()
	if e.cfg.Admission != nil {
		d := e.cfg.Admission.Admit(e.now, q, e.loads)
		switch {
		case d.Reject != "":
			e.end(s, Reject, d.Reject)
			return
		case d.Until != 0:
			e.postpone(s, d.Until)
			return
		}
	}
	to := e.onlyPrefill
	if e.cfg.Router != nil {
		to = e.cfg.Router.Route(e.now, q, e.loads)
	}
	if to < 0 || to >= len(e.replicas) || e.loads[to].Closed {
		e.end(s, Reject, RejectNoRoute)
		return
	}
	st := &e.replicas[to]
	if reason := st.take(s); reason != "" {
		e.end(s, Reject, reason)
		return
	}
	st.submit(s)
	e.look(st)
}

// postpone asks the admission policy about s again at that instant.
func (e *engine) postpone(s *Sequence, until Time) {
	if until <= e.now {
		e.fail(fmt.Errorf("sim: Admission defers request %d until %v at %v", s.req.ID, until, e.now))
		return
	}
	e.push(entry{at: until, kind: arrival, replica: -1, who: s, serial: s.serial})
}

// followUp schedules what a client sends in reaction to the end of a request.
func (e *engine) followUp(c Completion) {
	for _, r := range e.cfg.FollowUp(c) {
		if r.Arrival < e.now {
			e.fail(fmt.Errorf("sim: FollowUp of request %d at %v: request %d: Arrival is %d ns, before now", c.Request.ID, e.now, r.ID, int64(r.Arrival)))
			return
		}
		if r.Arrival == Never {
			e.fail(fmt.Errorf("sim: FollowUp of request %d at %v: request %d: Arrival is the end of time", c.Request.ID, e.now, r.ID))
			return
		}
		e.push(entry{at: r.Arrival, kind: arrival, replica: -1, who: e.fresh(r)})
	}
}

// followedUp lets a follow-up or a deferred request in.
func (e *engine) followedUp(x entry) {
	if x.serial != 0 {
		e.enter(x.who)
		return
	}
	r := x.who.req
	e.idle = append(e.idle, x.who)
	if s, _ := e.arrive(r); s != nil {
		e.expect(s)
		e.enter(s)
	}
}

// expect schedules the instants at which the client of s gives up.
func (e *engine) expect(s *Sequence) {
	// A client that would wait past the end of time waits for ever.
	if d := s.req.Patience.First; d > 0 && d < Never.Sub(s.req.Arrival) {
		e.push(entry{at: s.req.Arrival.Add(d), kind: abortFirst, replica: -1, who: s, serial: s.serial})
	}
	if d := s.req.Patience.Total; d > 0 && d < Never.Sub(s.req.Arrival) {
		e.push(entry{at: s.req.Arrival.Add(d), kind: abortTotal, replica: -1, who: s, serial: s.serial})
	}
}

// giveUp aborts a request whose client has lost patience.
func (e *engine) giveUp(x entry) {
	s := x.who
	if s.home == nil {
		e.end(s, Abort, "")
		return
	}
	st := s.home
	st.leave(s, Abort, "")
	e.look(st)
}
