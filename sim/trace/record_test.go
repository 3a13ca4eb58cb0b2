package trace_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/sim/trace"
)

func ms(n float64) sim.Time { return sim.Time(n * 1e6) }

// sample is a record whose seven phases all differ.
func sample() trace.Record {
	return trace.Record{RequestID: "r", PromptTokens: 100, OutputTokens: 5,
		ClientSend: ms(0), GatewayArrival: ms(10), QueueEnter: ms(15), PrefillStart: ms(35), PrefillEnd: ms(85),
		FirstTokenServer: ms(90), FirstTokenClient: ms(100), LastTokenClient: ms(180)}
}

func TestPhases(t *testing.T) {
	r := sample()
	const unit = time.Millisecond
	want := trace.Decomposition{Phases: [7]time.Duration{10 * unit, 5 * unit, 20 * unit, 50 * unit, 5 * unit, 10 * unit, 80 * unit}}
	if d := cmp.Diff(want, r.Decompose()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if r.TTFT() != 100*unit || r.E2E() != 180*unit || r.ITL() != 20 {
		t.Errorf("TTFT %v, E2E %v, ITL %v ms, want 100ms, 180ms, 20 ms", r.TTFT(), r.E2E(), r.ITL())
	}
	var names []string
	for p := range r.Decompose().Phases {
		names = append(names, trace.Phase(p).String())
	}
	if got := strings.Join(names, " "); got != "network_in gateway queue prefill first_decode network_to_first stream" {
		t.Errorf("phases %s", got)
	}
}

func TestMeanGap(t *testing.T) {
	r := sample()
	r.OutputTokens, r.LastTokenClient = 65, r.FirstTokenClient+ms(1408)
	if got := r.ITL(); got != 22 {
		t.Errorf("1408 ms over 65 tokens: %v ms, want 22", got)
	}
	r.OutputTokens, r.LastTokenClient = 1, r.FirstTokenClient
	if got := r.ITL(); !math.IsNaN(got) {
		t.Errorf("one token has a mean gap of %v ms", got)
	}
}

// The time around an unknown instant is nobody's.
func TestResidual(t *testing.T) {
	r := sample()
	r.PrefillStart, r.PrefillEnd = trace.Unknown, ms(22) // 7 ms behind queue_enter
	got := r.Decompose()
	const unit, none = time.Millisecond, trace.Unmeasured
	want := trace.Decomposition{Phases: [7]time.Duration{10 * unit, 5 * unit, none, none, 68 * unit, 10 * unit, 80 * unit}, Residual: 7 * unit}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if err := r.Validate(); err == nil || err.Error() != "missing fields: prefill_start_ms" {
		t.Errorf("error %v", err)
	}

	r = sample()
	r.LastTokenClient = trace.Unknown
	if got := r.Decompose(); got.Residual != none || got.Phases[trace.Stream] != none || got.Phases[trace.Queue] != 20*unit {
		t.Errorf("without an end: %+v", got)
	}
	if r.E2E() != none || !math.IsNaN(r.ITL()) {
		t.Errorf("without an end: E2E %v, ITL %v", r.E2E(), r.ITL())
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*trace.Record)
		want string // part of the error; empty for none
	}{
		{"as it is", func(*trace.Record) {}, ""},
		{"negative instants", func(r *trace.Record) { r.ClientSend = ms(-50) }, ""},
		{"all at once", func(r *trace.Record) {
			*r = trace.Record{RequestID: "r", PromptTokens: 1, OutputTokens: 1}
		}, ""},
		{"client_send", func(r *trace.Record) { r.ClientSend = ms(10.5) }, "gateway_arrival_ms 10 is before client_send_ms 10.5:"},
		{"gateway_arrival", func(r *trace.Record) { r.GatewayArrival = ms(16) }, "queue_enter_ms 15 is before gateway_arrival_ms 16:"},
		{"queue_enter", func(r *trace.Record) { r.QueueEnter = ms(36) }, "prefill_start_ms 35 is before queue_enter_ms 36:"},
		{"prefill_start", func(r *trace.Record) { r.PrefillStart = ms(90) }, "prefill_end_ms 85 is before prefill_start_ms 90:"},
		{"prefill_end", func(r *trace.Record) { r.PrefillEnd = ms(91) }, "first_token_server_ms 90 is before prefill_end_ms 91:"},
		{"first_token_server", func(r *trace.Record) { r.FirstTokenServer = ms(101) }, "first_token_client_ms 100 is before first_token_server_ms 101:"},
		{"first_token_client", func(r *trace.Record) { r.FirstTokenClient += 80_000_001 }, "last_token_client_ms 180 is before first_token_client_ms 180.000001:"},
		{"no prompt", func(r *trace.Record) { r.PromptTokens = 0 }, "prompt_tokens is 0, want at least 1"},
		{"no output", func(r *trace.Record) { r.OutputTokens = -1 }, "output_tokens is -1, want at least 1"},
		{"counts before order", func(r *trace.Record) { r.PromptTokens, r.ClientSend = 0, ms(500) }, "prompt_tokens is 0"},
		{"far away", func(r *trace.Record) { r.LastTokenClient = 1 << 62 }, "last_token_client_ms is 4611686018427.387904, beyond 146 years"},
		{"id", func(r *trace.Record) { r.RequestID = "\xff" }, `request_id is "\xff", not UTF-8`},
		{"unknown instants", func(r *trace.Record) { r.QueueEnter, r.ClientSend = trace.Unknown, trace.Unknown },
			"missing fields: client_send_ms, queue_enter_ms"},
	} {
		r := sample()
		c.edit(&r)
		switch err := r.Validate(); {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
	}
}

// Equality is accepted at each of the seven borders.
func TestEqualInstants(t *testing.T) {
	r := sample()
	times := []*sim.Time{&r.ClientSend, &r.GatewayArrival, &r.QueueEnter, &r.PrefillStart, &r.PrefillEnd,
		&r.FirstTokenServer, &r.FirstTokenClient, &r.LastTokenClient}
	for i := range times[1:] {
		saved := *times[i]
		*times[i] = *times[i+1]
		if err := r.Validate(); err != nil {
			t.Errorf("border %d: %v", i, err)
		}
		*times[i] = saved
	}
}
