package scheduler

import (
	"fmt"
	"time"

	"servesim/sim"
)

// Stale gives another router loads of the past, as a router has them that asks
// its replicas now and then. The first request that finds them Age old or older
// refreshes them; until then every request sees the same. A router that picks
// the best replica sends all of those to one (Mitzenmacher, How Useful Is Old
// Information?, IEEE TPDS 2000); one that draws, as [TwoChoices] does, spreads
// them.
type Stale struct {
	// Router decides by the old loads.
	Router sim.Router
	// Age is how old loads can become. 0 means that they are always fresh.
	Age time.Duration

	seen  []sim.Load
	taken sim.Time
}

// Route implements sim.Router.
func (s *Stale) Route(now sim.Time, q sim.Query, loads []sim.Load) int {
	if s.Age < 0 {
		panic(fmt.Sprintf("scheduler: Stale.Age is %v", s.Age))
	}
	if len(s.seen) != len(loads) || now.Sub(s.taken) >= s.Age {
		s.seen = append(s.seen[:0], loads...)
		s.taken = now
	}
	return s.Router.Route(now, q, s.seen)
}
