package workload

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"servesim/sim"
	"servesim/sim/trace"
)

// FromTrace yields the requests that a run, or a measurement, was sent: its
// records in order of ClientSend, the first at 0. A trace is in the order of
// completions, so all records are held. The ID of a request is the number of
// its record, from 0. Requests that did not complete are not in a trace. What the
// client's side took is left out; a [ClientSide] puts clients at a distance
// again.
func FromTrace(records iter.Seq2[trace.Record, error]) iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		var requests []sim.Request
		for r, err := range records {
			if err == nil {
				err = r.Validate()
			}
			if err != nil {
				fail(yield, fmt.Errorf("record %d: %w", len(requests), err))
				return
			}
			requests = append(requests, sim.Request{ID: len(requests), Arrival: r.ClientSend, Prompt: r.PromptTokens, Output: r.OutputTokens})
		}
		slices.SortStableFunc(requests, func(a, b sim.Request) int { return cmp.Compare(a.Arrival, b.Arrival) })
		for i := range requests {
			q := requests[i]
			q.Arrival -= requests[0].Arrival
			if !yield(q, nil) {
				return
			}
		}
	}
}
