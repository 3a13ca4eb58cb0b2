package main

import (
	"context"
	"time"

	"servesim/sim"
	"servesim/sim/profile"
	"servesim/sim/trace"
)

const ms = time.Millisecond

// firstToken names the span at whose end the user sees it.
const firstToken = "first decode and return"

// assistant is one question to an assistant: two retrievals side by side, a
// model call that proposes a tool in 18 tokens, the tool, and a second call
// that answers in 110 tokens.
func assistant() profile.Workflow {
	return profile.Workflow{ID: "assistant", FirstToken: firstToken, Spans: []profile.Span{
		{Name: "inbound", Phase: "network_in", Duration: 70 * ms},
		{Name: "gateway and policy", Phase: "gateway", After: []string{"inbound"}, Duration: 45 * ms},
		{Name: "retrieval", Phase: "gateway", After: []string{"gateway and policy"}, Duration: 430 * ms},
		{Name: "second retrieval", Phase: "gateway", After: []string{"gateway and policy"}, Duration: 280 * ms},
		{Name: "prompt assembly", Phase: "gateway", After: []string{"retrieval", "second retrieval"}, Duration: 25 * ms},
		{Name: "model queue", Phase: "queue", After: []string{"prompt assembly"}, Duration: 610 * ms},
		{Name: "prefill", Phase: "prefill", After: []string{"model queue"}, Duration: 285 * ms},
		{Name: firstToken, Phase: firstToken, After: []string{"prefill"}, Duration: 85 * ms},
		{Name: "tool proposal", Phase: "stream", After: []string{firstToken}, Duration: 396 * ms},
		{Name: "tool", Phase: "tool", After: []string{"tool proposal"}, Duration: 760 * ms},
		{Name: "second call, first token", Phase: "second call", After: []string{"tool"}, Duration: 640 * ms},
		{Name: "answer", Phase: "stream", After: []string{"second call, first token"}, Duration: 2640 * ms},
	}}
}

// serial is the assistant whose second retrieval needs the first.
func serial() *profile.Workflow {
	w := assistant()
	w.Spans[3].After = []string{"retrieval"}
	return &w
}

// firstRecord is the assistant's first model call as a record. Where the first
// decode ends and the way back begins was not measured.
func firstRecord() trace.Record {
	return trace.Record{RequestID: "first call", PromptTokens: 1, OutputTokens: 18,
		ClientSend:       0,
		GatewayArrival:   sim.Time(70 * ms),
		QueueEnter:       sim.Time(570 * ms),
		PrefillStart:     sim.Time(1180 * ms),
		PrefillEnd:       sim.Time(1465 * ms),
		FirstTokenServer: trace.Unknown,
		FirstTokenClient: sim.Time(1550 * ms),
		LastTokenClient:  sim.Time(1946 * ms),
	}
}

// assistantReport works through the assistant, on paper and in runs.
func assistantReport(ctx context.Context, savings []profile.Saving, l load) (report, error) {
	w := assistant()
	a, err := newAdvice(ctx, &w, append(cases(), asked(savings)...))
	if err != nil {
		return report{}, err
	}
	call, err := profile.Analyse([]trace.Record{firstRecord()}, profile.Options{Partial: true, Arrivals: "one request"})
	if err != nil {
		return report{}, err
	}
	r := report{Workflows: []advice{a}, FirstCall: &call}
	r.Simulation, err = newSimulation(ctx, l)
	return r, err
}
