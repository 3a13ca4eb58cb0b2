package trace

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"servesim/sim"
)

// Record is the timeline of one completed request. Instants share one clock
// with a free origin and may be negative.
type Record struct {
	RequestID    string // unique in a file
	PromptTokens int    // at least 1
	OutputTokens int    // at least 1

	ClientSend       sim.Time
	GatewayArrival   sim.Time
	QueueEnter       sim.Time
	PrefillStart     sim.Time
	PrefillEnd       sim.Time
	FirstTokenServer sim.Time
	FirstTokenClient sim.Time
	LastTokenClient  sim.Time
}

// Unknown marks an instant that a record lacks. Such a record has a
// decomposition with a residual but is valid only as a partial one.
const Unknown sim.Time = math.MinInt64

// limit bounds instants to 146 years on either side, so that no difference of
// two overflows.
const limit sim.Time = 1 << 62

func inRange(t sim.Time) bool { return -limit < t && t < limit }

// fieldNames are the names in a file, in the order of Record.
var fieldNames = [...]string{"request_id", "prompt_tokens", "output_tokens", "client_send_ms", "gateway_arrival_ms",
	"queue_enter_ms", "prefill_start_ms", "prefill_end_ms", "first_token_server_ms", "first_token_client_ms",
	"last_token_client_ms"}

const (
	fields   = len(fieldNames)
	instants = 8
	firstOf  = fields - instants // index of the first instant in fieldNames
)

func (r *Record) instants() [instants]*sim.Time {
	return [...]*sim.Time{&r.ClientSend, &r.GatewayArrival, &r.QueueEnter, &r.PrefillStart, &r.PrefillEnd,
		&r.FirstTokenServer, &r.FirstTokenClient, &r.LastTokenClient}
}

// Validate reports the first fault of the record: instants that are unknown,
// token counts below 1, instants out of range, instants that decrease. Equal
// instants are fine. The error names fields and values, not the request.
func (r *Record) Validate() error { return r.validate(false) }

// ValidatePartial is Validate for a record that may lack instants: those that
// it has must not decrease.
func (r *Record) ValidatePartial() error { return r.validate(true) }

func (r *Record) validate(partial bool) error {
	if !utf8.ValidString(r.RequestID) {
		return fmt.Errorf("request_id is %q, not UTF-8", r.RequestID)
	}
	times := r.instants()
	var missing []string
	for i, t := range times {
		if *t == Unknown {
			missing = append(missing, fieldNames[firstOf+i])
		}
	}
	if missing != nil && !partial {
		return missingError(missing)
	}
	if r.PromptTokens < 1 {
		return fmt.Errorf("prompt_tokens is %d, want at least 1", r.PromptTokens)
	}
	if r.OutputTokens < 1 {
		return fmt.Errorf("output_tokens is %d, want at least 1", r.OutputTokens)
	}
	before := -1 // index of the last known instant
	for i, t := range times {
		if *t == Unknown {
			continue
		}
		name := fieldNames[firstOf+i]
		if !inRange(*t) {
			return fmt.Errorf("%s is %s, beyond 146 years", name, appendMillis(nil, *t))
		}
		if before >= 0 && *t < *times[before] {
			return fmt.Errorf("%s %s is before %s %s: timestamps must not decrease; align clocks of different processes first",
				name, appendMillis(nil, *t), fieldNames[firstOf+before], appendMillis(nil, *times[before]))
		}
		before = i
	}
	return nil
}

func missingError(names []string) error {
	return fmt.Errorf("missing fields: %s", strings.Join(names, ", "))
}

// TTFT is the time from client_send to the first token at the client, or
// Unmeasured.
func (r *Record) TTFT() time.Duration { return span(r.ClientSend, r.FirstTokenClient) }

// E2E is the time from client_send to the last token at the client, or
// Unmeasured.
func (r *Record) E2E() time.Duration { return span(r.ClientSend, r.LastTokenClient) }

// ITL is the mean gap between the request's tokens in milliseconds: the stream
// phase over OutputTokens - 1. It is NaN for one token, which has no gap, and
// where the stream is not measured.
func (r *Record) ITL() (ms float64) {
	stream := span(r.FirstTokenClient, r.LastTokenClient)
	if r.OutputTokens < 2 || stream == Unmeasured {
		return math.NaN()
	}
	return float64(stream) / 1e6 / float64(r.OutputTokens-1)
}
