package simtest

import (
	"time"

	"servesim/sim"
)

// timeLedger checks that the ledger of a request that ends adds up to its time
// on the engine's clock, and that no part but interference is negative.
func (l *Laws) timeLedger(e *sim.Event, t sim.Ledger) {
	first := e.Timeline.FirstToken
	if first == sim.NoTime {
		first = e.Time
	}
	if got, want := t.ToFirst(), first.Sub(e.Timeline.Arrival); got != want {
		l.violate(e, "the ledger has %d ns to the first token, the timeline %d", int64(got), int64(want))
	}
	if got, want := t.ToLast(), e.Time.Sub(first); got != want {
		l.violate(e, "the ledger has %d ns behind the first token, the timeline %d", int64(got), int64(want))
	}
	for name, part := range map[string]time.Duration{
		"Queue":   min(t.Queue.Door, t.Queue.Step, t.Queue.Slots, t.Queue.Tokens, t.Queue.Memory, t.Queue.Order, t.Queue.Policy),
		"Prefill": min(t.Prefill.Compute, t.Prefill.Paused), "Transfer": min(t.Transfer.Room, t.Transfer.Wire, t.Transfer.Contention),
		"FirstDecode": min(t.FirstDecode.Queue, t.FirstDecode.Compute, t.FirstDecode.Stalled),
		"Stream":      min(t.Stream.Decode, t.Stream.Stalled, t.Stream.Preempted),
	} {
		if part < 0 {
			l.violate(e, "a part of %s is %d ns in the ledger %+v", name, int64(part), t)
		}
	}
}
