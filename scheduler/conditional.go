package scheduler

import (
	"fmt"

	"servesim/sim"
)

// Conditional routes the arrivals of a disaggregated deployment: a prompt that
// is little work on a replica that decodes is computed there, and needs no
// transfer; the others go to the prefill pool (conditional disaggregation, as
// in NVIDIA Dynamo). What the prefix cache of a replica has is no work there,
// so that a long prompt of which most is cached stays on the decode side.
//
// The schedulers of the decode side must compute prompts.
type Conditional struct {
	// Limit is the number of positions from which on a prompt is handed over:
	// fewer to compute on a replica that decodes stay there. 0 hands all over.
	Limit int
	// Prefill picks a replica of the prefill pool; nil means [LeastPending].
	// Decode picks one of the replicas that decode and have less than Limit to
	// compute; nil means [LeastLoaded].
	Prefill, Decode sim.Router

	part part
}

// Route implements sim.Router.
func (c *Conditional) Route(now sim.Time, q sim.Query, loads []sim.Load) int {
	if c.Limit < 0 {
		panic(fmt.Sprintf("scheduler: Conditional.Limit is %d", c.Limit))
	}
	little := func(l *sim.Load) bool { // a short prompt spares the look into the cache
		return decodes(l) && (q.Prompt < c.Limit || q.Prompt-l.Cached(q) < c.Limit)
	}
	if to := c.part.route(now, q, loads, orElse(c.Decode, LeastLoaded{}), little); to >= 0 {
		return to
	}
	return c.part.route(now, q, loads, orElse(c.Prefill, LeastPending{}), prefills)
}
