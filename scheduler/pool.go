package scheduler

import "servesim/sim"

// PrefillPool routes arrivals to the replicas that are open and take prompts:
// those of RolePrefill and RoleBoth. Its router sees no others, and finds each
// by [sim.Load.Replica] when roles change.
type PrefillPool struct {
	// Router picks a replica of the pool. nil means [LeastPending].
	Router sim.Router

	part part
}

// Route implements sim.Router.
func (p *PrefillPool) Route(now sim.Time, q sim.Query, loads []sim.Load) int {
	return p.part.route(now, q, loads, orElse(p.Router, LeastPending{}), prefills)
}

// DecodePool routes to the replicas that are open and decode: those of
// RoleDecode and RoleBoth. It is for sim.Config.Handoff.
type DecodePool struct {
	// Router picks a replica of the pool. nil means [LeastLoaded].
	Router sim.Router

	part part
}

// Route implements sim.Router.
func (p *DecodePool) Route(now sim.Time, q sim.Query, loads []sim.Load) int {
	return p.part.route(now, q, loads, orElse(p.Router, LeastLoaded{}), decodes)
}

func prefills(l *sim.Load) bool { return l.Role != sim.RoleDecode && !l.Closed }
func decodes(l *sim.Load) bool  { return l.Role != sim.RolePrefill && !l.Closed }

// orElse returns r, or the default if it is nil.
func orElse(r, otherwise sim.Router) sim.Router {
	if r == nil {
		return otherwise
	}
	return r
}

// part is the loads that a router sees of all.
type part struct {
	loads []sim.Load
	at    []int // place of each among all
}

// route lets r choose among the loads that in selects. Where there are none, or
// r has no route, it returns -1.
func (p *part) route(now sim.Time, q sim.Query, loads []sim.Load, r sim.Router, in func(*sim.Load) bool) int {
	p.loads, p.at = p.loads[:0], p.at[:0]
	for i := range loads {
		if in(&loads[i]) {
			p.loads, p.at = append(p.loads, loads[i]), append(p.at, i)
		}
	}
	if len(p.loads) == 0 {
		return -1
	}
	to := r.Route(now, q, p.loads)
	if to < 0 || to >= len(p.at) {
		return -1
	}
	return p.at[to]
}
