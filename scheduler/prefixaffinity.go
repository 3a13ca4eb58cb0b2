package scheduler

import (
	"fmt"
	"math"

	"servesim/sim"
)

// PrefixAffinity routes to the replica whose prefix cache has the most of the
// prompt at this moment, among those that have at most Ahead requests more than
// the one with the fewest; among equals to the lightest, as [LeastLoaded] does.
// A prompt of which none of these has anything goes where Router says. It costs
// the blocks found on every replica.
type PrefixAffinity struct {
	// Ahead is how many requests, waiting, running and coming, a replica may
	// have beyond the one with the fewest. Without it a popular prefix draws
	// everything to one replica. 0 means no limit.
	Ahead int
	// Router routes prompts that no cache knows. nil means [LeastLoaded].
	Router sim.Router
}

// Route implements sim.Router.
func (a PrefixAffinity) Route(now sim.Time, q sim.Query, loads []sim.Load) int {
	limit := mostRequests("PrefixAffinity", loads, a.Ahead)
	best, longest := -1, 0
	for i := range loads {
		if requestsOf(&loads[i]) > limit {
			continue
		}
		n := loads[i].Cached(q)
		if n > longest || n == longest && best >= 0 && lighter(&loads[i], &loads[best]) {
			best, longest = i, n
		}
	}
	if best >= 0 {
		return best
	}
	return orElse(a.Router, LeastLoaded{}).Route(now, q, loads)
}

// mostRequests returns how many requests a replica may have to be routed to.
func mostRequests(name string, loads []sim.Load, ahead int) int {
	if ahead < 0 {
		panic(fmt.Sprintf("scheduler: %s.Ahead is %d", name, ahead))
	}
	if ahead == 0 {
		return math.MaxInt
	}
	fewest := requestsOf(&loads[0])
	for i := range loads[1:] {
		fewest = min(fewest, requestsOf(&loads[1+i]))
	}
	return fewest + ahead
}
