package main

import (
	"context"
	"time"

	"servesim/sim"
	"servesim/sim/profile"
	"servesim/workload"
)

// alone runs one assistant, with the document in front of its first call.
func (s *setting) alone(ctx context.Context) (outcome, error) {
	const start = time.Second // so that the document can be earlier
	t := traffic{starts: workload.Shift{Arrivals: workload.Limit{Arrivals: workload.Constant{Rate: 1}, Count: 1}, By: start}}
	t.documents = []sim.Request{{Arrival: sim.Time(start + s.documentAt), Prompt: s.document, Output: 1}}
	out, err := s.run(ctx, t)
	if err != nil {
		return outcome{}, err
	}
	return out[0], nil
}

// simulated is what a run comes to.
type simulated struct {
	TotalMs      profile.Number `json:"total_ms"`
	FirstTokenMs profile.Number `json:"first_token_ms"`
}

// simulate runs the assistant after a change.
func simulate(ctx context.Context, change func(*setting)) (*simulated, error) {
	s := defaults()
	change(&s)
	o, err := s.alone(ctx)
	if err != nil {
		return nil, err
	}
	path, err := o.observed.Path()
	return &simulated{path.TotalMs, path.FirstTokenMs}, err
}

// cases are the changes that are worked through: what they save on paper, where
// the spans can say it, and in a run. A change before the queue moves the
// document with it, so that the queue stays as long as the spans say; where the
// document does not move, the queue takes what was saved.
func cases() []whatIf {
	quarter := profile.Saving{Span: "prefill", By: 285 * ms / 4}
	half := profile.Saving{Span: "model queue", By: 305 * ms}
	third := profile.Saving{Span: "tool", By: 760 * ms / 3}
	tokens := profile.Saving{Span: "answer", By: 30 * 24 * ms}
	shorter := func(s *setting) { s.prompt -= 950 }
	earlier := func(s *setting) { s.documentAt -= 305 * ms }
	quicker := func(s *setting) { s.tool -= 760 * ms / 3 }
	brief := func(s *setting) { s.answer -= 30 }
	return []whatIf{
		{name: "a quarter of the prefill", savings: []profile.Saving{quarter}, run: shorter},
		{name: "half the model queue", savings: []profile.Saving{half}, run: earlier},
		{name: "a third of the tool", savings: []profile.Saving{third}, run: quicker},
		{name: "30 tokens of 24 ms less", savings: []profile.Saving{tokens}, run: brief},
		{name: "all four", savings: []profile.Saving{quarter, half, third, tokens},
			run: func(s *setting) { shorter(s); earlier(s); quicker(s); brief(s) }},
		{name: "half the retrieval", savings: []profile.Saving{{Span: "retrieval", By: 215 * ms}},
			run: func(s *setting) { s.retrieval -= 215 * ms; s.documentAt -= 150 * ms }},
		{name: "… same document in front", run: func(s *setting) { s.retrieval -= 215 * ms }},
		{name: "no second retrieval", savings: []profile.Saving{{Span: "second retrieval", By: 280 * ms}},
			run: func(s *setting) { s.withoutSecond = true }},
		{name: "retrievals in series", instead: serial(), run: func(s *setting) { s.serial = true; s.documentAt += 280 * ms }},
		{name: "… same document in front", run: func(s *setting) { s.serial = true }},
		{name: "a second GPU", savings: []profile.Saving{{Span: "model queue", By: 610 * ms}},
			run: func(s *setting) { s.replicas = 2 }},
		{name: "a GPU twice as fast", savings: twiceAsFast(), run: func(s *setting) { s.speed = 2 }},
		{name: "chunks of 1024 tokens", run: func(s *setting) { s.chunk = 1024 }},
	}
}

// twiceAsFast halves what the model computes, and leaves the queue and the way
// to the client as they are.
func twiceAsFast() []profile.Saving {
	return []profile.Saving{
		{Span: "prefill", By: 285 * ms / 2}, {Span: "tool proposal", By: 396 * ms / 2},
		{Span: "second call, first token", By: (640*ms - way) / 2}, {Span: "answer", By: 2640 * ms / 2},
	}
}
