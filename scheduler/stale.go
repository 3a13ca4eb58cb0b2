package scheduler

import (
	"fmt"
	"slices"
	"time"

	"servesim/sim"
)

// Stale gives another router loads of the past, as a router has them that asks
// its replicas now and then. The first request that finds them Age old or older
// forgets them all; until then every request sees the same. A router that picks
// the best replica sends all of those to one (Mitzenmacher, How Useful Is Old
// Information?, IEEE TPDS 2000); one that draws, as [TwoChoices] does, spreads
// them.
//
// Roles, and whether a replica is closed, are always those of the moment: they
// are announced, not measured. A replica seen for the first time shows its load
// of that moment.
type Stale struct {
	// Router decides by the old loads.
	Router sim.Router
	// Age is how old loads can become. 0 means that they are always fresh.
	Age time.Duration

	seen  []sim.Load // by replica
	shown []sim.Load
	taken sim.Time
}

// Route implements sim.Router.
func (s *Stale) Route(now sim.Time, q sim.Query, loads []sim.Load) int {
	if s.Age < 0 {
		panic(fmt.Sprintf("scheduler: Stale.Age is %v", s.Age))
	}
	if len(s.seen) == 0 || now.Sub(s.taken) >= s.Age {
		s.seen, s.taken = s.seen[:0], now
	}
	s.shown = s.shown[:0]
	k := 0
	for _, l := range loads { // in order of replicas, as s.seen is
		for k < len(s.seen) && s.seen[k].Replica < l.Replica {
			k++
		}
		if k == len(s.seen) || s.seen[k].Replica != l.Replica {
			s.seen = slices.Insert(s.seen, k, l)
		}
		old := s.seen[k]
		old.Role, old.Closed = l.Role, l.Closed
		s.shown = append(s.shown, old)
		k++
	}
	return s.Router.Route(now, q, s.shown)
}
