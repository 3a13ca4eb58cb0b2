package simtest

import "servesim/sim"

// What is known of the steps of a replica that may have several in flight, or of
// a group. With one in flight a step is planned when it begins. With more it may
// be planned before: as soon as the one that many before it has ended.

// span is the time of a step.
type span struct{ start, end sim.Time }

// begins checks when a step began.
func (l *Laws) begins(e *sim.Event, s *site, start sim.Time) {
	if since := s.ends[0]; start < since {
		l.violate(e, "the step began at %d ns, %d before it one ended at %d ns", int64(start), s.inFlight, int64(since))
	}
	if s.inFlight > 1 {
		l.beginsInFlight(e, s, start)
		return
	}
	if s.admits > 0 && s.admitAt != start {
		l.violate(e, "admissions at %d ns for a step that began at %d ns", int64(s.admitAt), int64(start))
	}
	if s.evictedAt > start {
		l.violate(e, "a preemption at %d ns, in the middle of the step", int64(s.evictedAt))
	}
	if s.group == 0 {
		return
	}
	if g := l.groups[s.group]; start < g.end && g != (span{start, e.Time}) {
		l.violate(e, "the step began at %d ns, one of its group lasted from %d to %d ns", int64(start), int64(g.start), int64(g.end))
	}
	if l.groups == nil {
		l.groups = make(map[int]span)
	}
	l.groups[s.group] = span{start, e.Time}
}

func (l *Laws) beginsInFlight(e *sim.Event, s *site, start sim.Time) {
	if start < s.lastStart {
		l.violate(e, "the step began at %d ns, before the one before it, at %d ns", int64(start), int64(s.lastStart))
	}
	if len(s.planned) == 0 {
		return
	}
	first := &s.planned[0]
	if first.at <= start {
		s.planned = s.planned[:copy(s.planned, s.planned[1:])]
		return
	}
	if first.steps--; first.steps == 0 {
		l.violate(e, "admissions at %d ns, and none of %d steps began since", int64(first.at), s.inFlight)
	}
}

// listsInFlight finds the moment at which a step was planned, by what waited and
// ran, and returns it with the blocks of transfers at that moment, or the fewest
// of several.
func (l *Laws) listsInFlight(e *sim.Event, s *site, start sim.Time) moment {
	from, to := s.at(s.ends[0]-1), s.at(start)
	var found *moment
	for i := from; i <= to; i++ {
		m := &s.history[i]
		if m.running == int(e.Running) && m.waiting == int(e.Waiting) && (found == nil || m.apart < found.apart) {
			found = m
		}
	}
	if found == nil {
		l.violate(e, "%d sequences run and %d wait, which was never so from %d to %d ns", e.Running, e.Waiting, int64(s.ends[0]), int64(start))
		return moment{}
	}
	return *found
}

// flights reports whether replicas may have several steps in flight.
func (l *Laws) flights() bool {
	for i := range l.Config.Replicas {
		if l.Config.Replicas[i].InFlight > 1 {
			return true
		}
	}
	return false
}

// inFlight returns how many steps may be in flight where a request is.
func (l *Laws) inFlight(x *life) int {
	if x.replica < 0 {
		return 1
	}
	return l.site(x.replica).inFlight
}

// late returns how many tokens of a request that waits may have been in flight
// when it was preempted.
func (l *Laws) late(x *life) int {
	if x.preemptions == 0 || x.place != waiting {
		return 0
	}
	return l.inFlight(x) - 1
}
