package scheduler

import (
	"math/rand/v2"

	"servesim/sim"
)

// RoundRobin routes to the replicas in turn, whatever their load.
type RoundRobin struct{ next int }

// Route implements sim.Router.
func (r *RoundRobin) Route(_ sim.Time, _ sim.Query, loads []sim.Load) int {
	to := r.next % len(loads)
	r.next = to + 1
	return to
}

// LeastLoaded routes to the replica with the fewest requests, waiting, running
// and coming; among equals to the one with the fewest prompt positions to
// compute, then to the first. It looks at every replica.
type LeastLoaded struct{}

// Route implements sim.Router.
func (LeastLoaded) Route(_ sim.Time, _ sim.Query, loads []sim.Load) int {
	best := 0
	for i := 1; i < len(loads); i++ {
		if lighter(&loads[i], &loads[best]) {
			best = i
		}
	}
	return best
}

// lighter reports whether a has less to do than b.
func lighter(a, b *sim.Load) bool {
	if x, y := requestsOf(a), requestsOf(b); x != y {
		return x < y
	}
	return a.PendingPrompt < b.PendingPrompt
}

// requestsOf counts the requests that a replica has or is going to get.
func requestsOf(l *sim.Load) int { return l.Waiting + l.Running + l.Coming }

// TwoChoices draws two replicas and routes to the lighter one (Mitzenmacher,
// IEEE TPDS 2001), in O(1).
type TwoChoices struct {
	// Seed starts the draws.
	Seed uint64

	rng *rand.Rand
}

// Route implements sim.Router.
func (t *TwoChoices) Route(_ sim.Time, _ sim.Query, loads []sim.Load) int {
	if len(loads) == 1 {
		return 0
	}
	if t.rng == nil {
		t.rng = rand.New(rand.NewPCG(t.Seed, uint64(len(loads))))
	}
	a := t.rng.IntN(len(loads))
	b := t.rng.IntN(len(loads) - 1)
	if b >= a {
		b++
	}
	if lighter(&loads[b], &loads[a]) {
		return b
	}
	return a
}
