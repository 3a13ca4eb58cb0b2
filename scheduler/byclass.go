package scheduler

import (
	"fmt"

	"servesim/sim"
)

// ByClass routes each class of requests by a router of its own, the one at the
// index of the class. A request whose class has no entry or a nil one has no
// route. With [Subset], classes have replicas of their own:
//
//	scheduler.ByClass{
//		scheduler.Subset{First: 0, Count: 6, Router: &scheduler.TwoChoices{}}, // chat
//		scheduler.Subset{First: 6, Count: 2, Router: &scheduler.RoundRobin{}}, // batch
//	}
type ByClass []sim.Router

// Route implements sim.Router.
func (c ByClass) Route(now sim.Time, q sim.Query, loads []sim.Load) int {
	if q.Class >= len(c) || c[q.Class] == nil {
		return -1
	}
	return c[q.Class].Route(now, q, loads)
}

// Subset routes to the Count replicas from First on, which are all that its
// router sees.
type Subset struct {
	First, Count int
	// Router may be nil if Count is 1.
	Router sim.Router
}

// Route implements sim.Router.
func (s Subset) Route(now sim.Time, q sim.Query, loads []sim.Load) int {
	if s.First < 0 || s.Count < 1 || s.First > len(loads)-s.Count || s.Router == nil && s.Count > 1 {
		panic(fmt.Sprintf("scheduler: Subset of %d replicas from %d on, of %d, with router %T", s.Count, s.First, len(loads), s.Router))
	}
	if s.Router == nil {
		return s.First
	}
	to := s.Router.Route(now, q, loads[s.First:s.First+s.Count])
	if to < 0 || to >= s.Count {
		return -1
	}
	return s.First + to
}
