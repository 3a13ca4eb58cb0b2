package scheduler

import (
	"cmp"
	"fmt"
	"slices"

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

// Subset routes to replicas First to First+Count-1, as [sim.Load.Replica] numbers
// them, which are all that its router sees. Those of them that it does not see
// itself, inside a pool, are left out; without any a request has no route.
type Subset struct {
	First, Count int
	// Router may be nil if Count is 1.
	Router sim.Router
}

// Route implements sim.Router.
func (s Subset) Route(now sim.Time, q sim.Query, loads []sim.Load) int {
	if s.First < 0 || s.Count < 1 || s.Router == nil && s.Count > 1 {
		panic(fmt.Sprintf("scheduler: Subset of %d replicas from %d on with router %T", s.Count, s.First, s.Router))
	}
	from, to := placeOf(loads, s.First), placeOf(loads, s.First+s.Count)
	if from == to {
		return -1
	}
	if s.Router == nil {
		return from
	}
	i := s.Router.Route(now, q, loads[from:to])
	if i < 0 || i >= to-from {
		return -1
	}
	return from + i
}

// placeOf returns where a replica is, or would be, among loads.
func placeOf(loads []sim.Load, replica int) int {
	i, _ := slices.BinarySearchFunc(loads, replica, func(l sim.Load, n int) int { return cmp.Compare(l.Replica, n) })
	return i
}
