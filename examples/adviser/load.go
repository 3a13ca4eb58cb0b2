package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"servesim/sim"
	"servesim/sim/profile"
	"servesim/workload"
)

// load is many assistants, and documents between them. Both come as Poisson
// processes, the same in every run.
type load struct {
	Rate      float64 `json:"workflows_per_s"`
	Documents float64 `json:"documents_per_s"`
	Workflows int     `json:"workflows"`
	Seed      uint64  `json:"seed"`
}

func defaultLoad() load { return load{Rate: 0.1, Documents: 0.1, Workflows: 400, Seed: 1} }

// check reports the first flag that cannot be run.
func (l *load) check() error {
	switch {
	case !(l.Rate >= 0.001 && l.Rate <= 100):
		return fmt.Errorf("-rate is %v, want 0.001 to 100 workflows per second", l.Rate)
	case !(l.Documents >= 0 && l.Documents <= 100):
		return fmt.Errorf("-documents is %v, want 0 to 100 per second", l.Documents)
	case l.Workflows < 1 || l.Workflows > 100_000:
		return fmt.Errorf("-workflows is %d, want 1 to 100000", l.Workflows)
	case l.Documents/l.Rate*float64(l.Workflows) > 1e6:
		return fmt.Errorf("-documents is %v and -rate %v: %.2g documents to %d workflows, want at most a million",
			l.Documents, l.Rate, l.Documents/l.Rate*float64(l.Workflows), l.Workflows)
	}
	return nil
}

// traffic draws the workflows, scale times as many a second, and the documents
// of the time that those come in, on average.
func (l *load) traffic(s *setting, scale float64) (traffic, error) {
	rate := l.Rate * scale
	t := traffic{seed: l.Seed, starts: workload.Limit{Arrivals: workload.Poisson{Rate: rate}, Count: l.Workflows}}
	if l.Documents == 0 || s.document == 0 {
		return t, nil
	}
	documents := workload.Limit{
		Arrivals: workload.Poisson{Rate: l.Documents},
		Duration: time.Duration(float64(l.Workflows) / rate * float64(time.Second)),
	}
	for at, err := range documents.Times(rand.New(workload.Stream(l.Seed, "documents", 0))) {
		if err != nil {
			return t, err
		}
		t.documents = append(t.documents, sim.Request{ID: len(t.documents), Arrival: at, Prompt: s.document, Output: 1})
	}
	return t, nil
}

// simulation is the assistant as runs of the engine.
type simulation struct {
	Alone     profile.Path `json:"alone"`
	Load      load         `json:"load"`
	DeadlineS float64      `json:"deadline_s"`
	UnderLoad []loaded     `json:"under_load"`
}

// loaded is what a change comes to under load. Figures are of the workflows
// that did not fail, those in time of all.
type loaded struct {
	Case            string              `json:"case"`
	Failed          int                 `json:"failed"`
	FirstTokenP50Ms profile.Number      `json:"first_token_p50_ms"`
	FirstTokenP95Ms profile.Number      `json:"first_token_p95_ms"`
	TotalP50Ms      profile.Number      `json:"total_p50_ms"`
	TotalP95Ms      profile.Number      `json:"total_p95_ms"`
	InTime          float64             `json:"in_time"`     // fraction that kept the deadline
	Phases          []profile.PhaseTime `json:"phases_mean"` // of the critical paths
}

// loadCase is a change that is run under load.
type loadCase struct {
	name   string
	scale  float64 // of the rate of workflows
	change func(*setting)
}

func loadCases() []loadCase {
	return []loadCase{
		{"as it is", 1, func(*setting) {}},
		{"half as many assistants", 0.5, func(*setting) {}},
		{"twice as many", 2, func(*setting) {}},
		{"no documents", 1, func(s *setting) { s.document = 0 }},
		{"retrievals in series", 1, func(s *setting) { s.serial = true }},
		{"tool fails 1 in 5, 2 retries", 1, func(s *setting) { s.fail, s.retries = 0.2, 2 }},
		{"chunks of 1024 tokens", 1, func(s *setting) { s.chunk = 1024 }},
		{"chunks, deadline first", 1, func(s *setting) { s.chunk, s.urgent = 1024, true }},
		{"a second GPU", 1, func(s *setting) { s.replicas = 2 }},
		{"a GPU twice as fast", 1, func(s *setting) { s.speed = 2 }},
	}
}

func newSimulation(ctx context.Context, l load) (*simulation, error) {
	s := defaults()
	base, err := s.alone(ctx)
	if err != nil {
		return nil, err
	}
	r := &simulation{Load: l, DeadlineS: s.deadline.Seconds()}
	if r.Alone, err = base.observed.Path(); err != nil {
		return nil, err
	}
	for _, c := range loadCases() {
		s := defaults()
		c.change(&s)
		t, err := l.traffic(&s, c.scale)
		if err != nil {
			return nil, err
		}
		out, err := s.run(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		x, err := summarise(&s, out)
		if err != nil {
			return nil, err
		}
		x.Case = c.name
		r.UnderLoad = append(r.UnderLoad, x)
	}
	return r, nil
}

func summarise(s *setting, out []outcome) (loaded, error) {
	var x loaded
	var firsts, totals []float64
	sums := map[string]float64{}
	inTime := 0
	for i := range out {
		o := &out[i]
		if o.Failed {
			x.Failed++
			continue
		}
		path, err := o.observed.Path()
		if err != nil {
			return x, err
		}
		firsts = append(firsts, float64(path.FirstTokenMs))
		totals = append(totals, float64(path.TotalMs))
		for _, p := range path.Phases {
			if _, ok := sums[p.Phase]; !ok {
				x.Phases = append(x.Phases, profile.PhaseTime{Phase: p.Phase})
			}
			sums[p.Phase] += float64(p.Ms)
		}
		if o.End.Sub(o.Start) <= s.deadline {
			inTime++
		}
	}
	for i := range x.Phases {
		p := &x.Phases[i]
		p.Ms = profile.Number(math.Round(1000*sums[p.Phase]/float64(len(totals))) / 1000)
	}
	x.InTime = float64(inTime) / float64(len(out))
	for q, to := range map[float64][2]*profile.Number{0.5: {&x.FirstTokenP50Ms, &x.TotalP50Ms}, 0.95: {&x.FirstTokenP95Ms, &x.TotalP95Ms}} {
		*to[0] = profile.Number(profile.Percentile(firsts, q, profile.Linear))
		*to[1] = profile.Number(profile.Percentile(totals, q, profile.Linear))
	}
	return x, nil
}
