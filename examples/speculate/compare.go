package main

import (
	"context"
	"fmt"
	"math"

	"servesim/costmodel"
	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/metrics"
	"servesim/workload"
)

const (
	// stepTokens is the token budget of a step: no limit for the drafts of
	// 128 requests, chunks for the prompts.
	stepTokens = 8192
	// enough is how many requests are measured at each concurrency at least,
	// in rounds, so that chance does not decide.
	enough = 64
)

// comparison is fixed against variable drafts, at one concurrency a row.
type comparison struct {
	Scenario scenario `json:"scenario"`
	Rows     []row    `json:"rows"`
}

// row is one concurrency.
type row struct {
	Requests int            `json:"requests"`
	Fixed    side           `json:"fixed"`
	Variable side           `json:"variable"`
	Ratio    metrics.Number `json:"variable_by_fixed"` // of tokens per second
	// DraftUs is what one more draft for every request would cost beside
	// those that the variable policy checks, and StepUs the step with these.
	DraftUs float64 `json:"one_more_draft_us"`
	StepUs  float64 `json:"step_us"`
	// Next is the probability that this draft is right behind the others.
	Next metrics.Number `json:"one_more_draft_right"`
}

// side is what one policy makes of it: the steps in which all requests decode,
// until the first of them ends.
type side struct {
	Steps    int64          `json:"steps"`
	TokensS  metrics.Number `json:"tokens_per_s"`
	StepMs   metrics.Number `json:"step_mean_ms"`
	Drafts   metrics.Number `json:"drafts_mean"`   // checked per request and step
	Accepted metrics.Number `json:"accepted_mean"` // of them
	// DraftShare is the drafter's part of the time, Compute, Memory and Other
	// are the parts of the model's time by what it waits for.
	DraftShare metrics.Number `json:"drafter_share"`
	Compute    metrics.Number `json:"compute_bound_share"`
	Memory     metrics.Number `json:"memory_bound_share"`
	Other      metrics.Number `json:"other_share"`
	Bound      string         `json:"bound,omitempty"` // the largest of these: memory, compute or other
	// FullPerS is the rate if every draft were right, null if steps check
	// different numbers of them.
	FullPerS metrics.Number `json:"full_acceptance_tokens_per_s"`
}

// compare runs every concurrency under both policies.
func compare(ctx context.Context, s scenario) (comparison, error) {
	cost, odds, err := s.complete()
	if err != nil {
		return comparison{}, err
	}
	out := comparison{Scenario: s}
	for _, n := range s.Concurrency {
		r := row{Requests: n}
		r.Fixed, err = observe(ctx, s, cost, odds, n, false, func() sim.Scheduler { return scheduler.VLLM1{} })
		if err != nil {
			return comparison{}, err
		}
		r.Variable, err = observe(ctx, s, cost, odds, n, true, func() sim.Scheduler {
			return &scheduler.VariableDrafts{CostModel: cost, Accepted: odds.PerPosition(s.Most)}
		})
		if err != nil {
			return comparison{}, err
		}
		r.Ratio = r.Variable.TokensS / r.Fixed.TokensS
		r.margin(s, cost)
		out.Rows = append(out.Rows, r)
	}
	return out, nil
}

// margin prices one more draft, half way through the answers.
func (r *row) margin(s scenario, cost drafting) {
	k := 0
	if r.Variable.Drafts.Defined() {
		k = int(math.Round(float64(r.Variable.Drafts)))
	}
	b := sim.Batch{Decodes: r.Requests, Positions: r.Requests * (1 + k), Context: r.Requests * (s.Prompt + s.Output/2)}
	step := cost.StepTime(b)
	b.Positions += r.Requests
	r.StepUs = float64(step) / 1e3
	r.DraftUs = float64(cost.StepTime(b)-step) / 1e3
	r.Next = metrics.Number(math.NaN())
	if k < len(s.Acceptance.PerPosition) {
		r.Next = metrics.Number(s.Acceptance.PerPosition[k])
	}
}

// window adds up the steps in which all requests decode and nothing else
// happens, until one of them ends.
type window struct {
	cost     drafting
	requests int
	variable bool // by policy, whatever the steps look like
	open     bool

	steps, positions       int64
	least, most            int // positions of a step
	rate                   costmodel.Tally
	drafter                float64 // seconds
	compute, memory, other float64 // seconds of the model
}

// Observe implements sim.Observer.
func (w *window) Observe(e sim.Event) {
	b := e.Batch
	switch {
	case e.Kind == sim.Finish:
		w.open = false
	case e.Kind != sim.StepEnd || !w.open || b.Decodes != w.requests || len(b.Prefills) > 0:
	default:
		if w.steps == 0 {
			w.least, w.most = b.Positions, b.Positions
		}
		w.steps++
		w.positions += int64(b.Positions)
		w.least, w.most = min(w.least, b.Positions), max(w.most, b.Positions)
		w.rate.Add(float64(e.Tokens), e.Took.Seconds())
		w.drafter += w.cost.draftTime(*b).Seconds()
		compute, memory, other := w.cost.bounds(*b)
		w.compute += compute
		w.memory += memory
		w.other += other
	}
}

// observe simulates rounds of n requests under one policy.
func observe(ctx context.Context, s scenario, cost drafting, odds workload.Acceptance, n int, variable bool, fresh func() sim.Scheduler) (side, error) {
	w := window{cost: cost, requests: n, variable: variable}
	drafts := s.Fixed
	if variable {
		drafts = s.Most
	}
	for first := 0; first < max(enough, n); first += n {
		w.open = true
		_, err := sim.Run(ctx, sim.Config{
			Replicas: []sim.Replica{{
				Scheduler: fresh(), CostModel: cost, KVBlocks: s.KVBlocks, MaxBatchTokens: stepTokens,
				Drafts: drafts, Drafter: odds,
			}},
			Observers: []sim.Observer{&w},
		}, requests(n, s.Prompt, s.Output, first))
		if err != nil {
			return side{}, fmt.Errorf("%d requests: %w", n, err)
		}
	}
	return w.side(), nil
}

// side returns the means of the window, NaN if it has no step.
func (w *window) side() side {
	rows := float64(w.steps) * float64(w.requests)
	model := w.compute + w.memory + w.other
	number := func(sum, by float64) metrics.Number { return metrics.Number(sum / by) }
	out := side{
		Steps:      w.steps,
		TokensS:    metrics.Number(w.rate.TokenRate()),
		StepMs:     number(w.rate.Seconds*1e3, float64(w.steps)),
		Drafts:     number(float64(w.positions), rows) - 1,
		Accepted:   number(w.rate.Tokens, rows) - 1,
		DraftShare: number(w.drafter, w.rate.Seconds),
		Compute:    number(w.compute, model), Memory: number(w.memory, model), Other: number(w.other, model),
	}
	switch {
	case w.steps == 0:
	case w.other > max(w.compute, w.memory):
		out.Bound = "other"
	case w.compute > w.memory:
		out.Bound = "compute"
	default:
		out.Bound = "memory"
	}
	full, _ := w.stepRate().fullAcceptance() // NaN if refused
	out.FullPerS = metrics.Number(full)
	return out
}

// stepRate is the window as a rate of steps.
func (w *window) stepRate() stepRate {
	return stepRate{
		StepsPerS: float64(w.steps) / w.rate.Seconds, Requests: w.requests,
		Drafts: w.most/w.requests - 1, Variable: w.variable || w.least != w.most,
	}
}
