package sim_test

import "servesim/sim"

// control asks the controller for changes of role, while requests are alive or
// to come.
func (e *refEngine) control() {
	more := len(e.live)+len(e.reqs) > 0
	for _, p := range e.pending {
		more = more || p.kind == refArrival
	}
	if !more {
		return
	}
	changes, next := e.cfg.Roles.Control(e.now, e.loads())
	for _, c := range changes {
		r := e.replicas[c.Replica]
		if !r.closed && r.cfg.Role != c.Role {
			r.closed, r.closedAt = true, e.now
			e.record(sim.Event{Kind: sim.Drain, Replica: int32(r.index), Reason: c.Role.String()})
			e.touch(r)
		}
		r.next = c.Role
	}
	if next < sim.Never {
		e.push(refPending{at: next, kind: refControl, replica: -1})
	}
}

// drain lets a closed replica that has nothing left to do change its role.
func (e *refEngine) drain(r *refReplica) {
	idle := len(r.flying) == 0 && !r.wants() && len(r.line) == 0 && len(r.held) == 0
	if r.closed && !r.switching && idle {
		r.switching = true
		e.push(refPending{at: e.now.Add(e.cfg.SwitchCost), kind: refOpen, replica: r.index})
	}
}

// open opens a replica in its next role.
func (e *refEngine) open(r *refReplica) {
	r.cfg.Role, r.closed, r.switching = r.next, false, false
	e.res.Switches++
	e.record(sim.Event{Kind: sim.Open, Replica: int32(r.index), Reason: r.next.String(), Took: e.now.Sub(r.closedAt)})
	e.touch(r)
}
