package scheduler

import "servesim/sim"

// LeastPending routes to the replica with the fewest prompt positions to
// compute; among equals to the one with the fewest requests, waiting, running
// and coming, then to the first. It looks at every replica. Where prompts differ
// much in length it tells better than [LeastLoaded] how long the next prompt
// waits, and it is blind to decodes.
type LeastPending struct{}

// Route implements sim.Router.
func (LeastPending) Route(_ sim.Time, _ sim.Query, loads []sim.Load) int {
	best := 0
	for i := 1; i < len(loads); i++ {
		a, b := &loads[i], &loads[best]
		if a.PendingPrompt < b.PendingPrompt ||
			a.PendingPrompt == b.PendingPrompt && requestsOf(a) < requestsOf(b) {
			best = i
		}
	}
	return best
}
