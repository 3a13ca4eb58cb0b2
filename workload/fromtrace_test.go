package workload_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/sim/trace"
	"servesim/workload"
)

// A trace is in the order of completions; requests come in that of sending.
func TestFromTrace(t *testing.T) {
	const file = `{"request_id":"b","prompt_tokens":2,"output_tokens":3,"client_send_ms":-4,"gateway_arrival_ms":-4,"queue_enter_ms":0,"prefill_start_ms":1,"prefill_end_ms":2,"first_token_server_ms":3,"first_token_client_ms":4,"last_token_client_ms":5}
{"request_id":"a","prompt_tokens":7,"output_tokens":9,"client_send_ms":-5.5,"gateway_arrival_ms":0,"queue_enter_ms":0,"prefill_start_ms":1,"prefill_end_ms":2,"first_token_server_ms":3,"first_token_client_ms":4,"last_token_client_ms":50}
`
	want := []sim.Request{{ID: 1, Prompt: 7, Output: 9}, {ID: 0, Arrival: sim.Time(1500 * time.Microsecond), Prompt: 2, Output: 3}}
	if diff := cmp.Diff(want, collect(t, workload.FromTrace(trace.Read(strings.NewReader(file), "run.jsonl")))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got, err := workload.Collect(workload.FromTrace(trace.Read(strings.NewReader(file+"{}"), "run.jsonl")))
	if len(got) != 0 || !strings.HasPrefix(errText(err), "workload: record 2: run.jsonl:3: ") {
		t.Errorf("%d requests, then %v", len(got), err)
	}
	if _, err := workload.Collect(workload.FromTrace(trace.Read(strings.NewReader(""), "run.jsonl"))); !errors.Is(err, trace.ErrEmpty) {
		t.Errorf("an empty trace: %v", err)
	}
	unknown := func(yield func(trace.Record, error) bool) {
		yield(trace.Record{RequestID: "x", PromptTokens: 1, OutputTokens: 1, ClientSend: trace.Unknown}, nil)
	}
	if _, err := workload.Collect(workload.FromTrace(unknown)); !strings.Contains(errText(err), "workload: record 0: ") {
		t.Errorf("an unknown instant: %v", err)
	}
}
