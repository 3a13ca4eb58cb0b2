package sim

// skipOutdated drops pending events that would change nothing, so that time
// does not run on to them.
func (e *engine) skipOutdated() {
	for len(e.pending) > 0 && e.outdated(&e.pending[0]) {
		e.drop(e.pending.pop())
	}
}

// drop forgets an event that is not going to happen. A wake-up may be asked for
// again.
func (e *engine) drop(x entry) {
	if x.kind == wakeUp {
		if st := &e.replicas[x.replica]; st.waking == x.at {
			st.waking = Never
		}
	}
}

// sweep drops the outdated events anywhere in the heap once requests that have
// ended may own half of it.
func (e *engine) sweep() {
	if e.impatient < sweepFrom || 2*e.impatient < len(e.pending) {
		return
	}
	e.impatient = 0
	kept := e.pending[:0]
	for i := range e.pending {
		if x := e.pending[i]; e.outdated(&x) {
			e.drop(x)
		} else {
			kept = append(kept, x)
		}
	}
	clear(e.pending[len(kept):])
	e.pending = kept
	for i := len(kept)/2 - 1; i >= 0; i-- {
		e.pending.sinkFrom(i, e.pending[i])
	}
}

// sweepFrom is the number of outdated events that are worth a sweep.
const sweepFrom = 1024

func (e *engine) outdated(x *entry) bool {
	switch x.kind {
	case abortFirst:
		return x.who.serial != x.serial || x.who.timeline.FirstToken != NoTime
	case abortTotal:
		return x.who.serial != x.serial
	case arrival:
		return x.serial != 0 && x.who.serial != x.serial
	case roleControl:
		return e.over()
	case linkEvent:
		return e.net.event != x.serial
	case wakeUp:
		st := &e.replicas[x.replica]
		return st.full() || st.plan.number != x.serial || !st.needsPlan()
	}
	return false
}
