package trace

import (
	"fmt"
	"math"
	"time"

	"servesim/sim"
)

// Phase is one of the seven spans that tile a request's life.
type Phase uint8

// The phases, in the order in which they happen.
const (
	NetworkIn      Phase = iota // client_send → gateway_arrival
	Gateway                     // gateway_arrival → queue_enter
	Queue                       // queue_enter → prefill_start
	Prefill                     // prefill_start → prefill_end; a span, waits between chunks included
	FirstDecode                 // prefill_end → first_token_server
	NetworkToFirst              // first_token_server → first_token_client
	Stream                      // first_token_client → last_token_client

	NumPhases = int(Stream) + 1
)

var phaseNames = [NumPhases]string{"network_in", "gateway", "queue", "prefill", "first_decode", "network_to_first", "stream"}

// String returns the phase's name in reports, such as network_in.
func (p Phase) String() string {
	if int(p) < NumPhases {
		return phaseNames[p]
	}
	return fmt.Sprintf("phase(%d)", uint8(p))
}

// Unmeasured is the length of a span that lacks an end. It is no duration.
const Unmeasured time.Duration = math.MinInt64

// Decomposition says where the time of one request went: E2E is the sum of the
// measured phases and the residual.
type Decomposition struct {
	Phases [NumPhases]time.Duration // Unmeasured where an end is unknown
	// Residual is the time in no measured phase. It is never given to a phase
	// by guessing. 0 in a complete record, Unmeasured where E2E is.
	Residual time.Duration
}

// Decompose splits the record's E2E into phases.
func (r *Record) Decompose() Decomposition {
	d := Decomposition{Residual: r.E2E()}
	times := r.instants()
	for i := range d.Phases {
		d.Phases[i] = span(*times[i], *times[i+1])
		if d.Phases[i] != Unmeasured && d.Residual != Unmeasured {
			d.Residual -= d.Phases[i]
		}
	}
	return d
}

// Dominant returns the phases with the most time up to the first token and up to
// the last one, of those that are measured. Ties go to the first in order.
func (r *Record) Dominant() (ttft, e2e Phase) {
	d := r.Decompose()
	for p := range Stream {
		if d.Phases[p] > d.Phases[ttft] {
			ttft = p
		}
	}
	if e2e = ttft; d.Phases[Stream] > d.Phases[e2e] {
		e2e = Stream
	}
	return ttft, e2e
}

func span(from, to sim.Time) time.Duration {
	if from == Unknown || to == Unknown {
		return Unmeasured
	}
	return to.Sub(from)
}
