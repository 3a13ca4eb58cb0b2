package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/metrics"
)

// longPrompt is what each scheduler makes of the scenario.
type longPrompt struct {
	Scenario scenario `json:"scenario"`
	Results  []result `json:"results"`
}

// result is the outcome of one scheduler. TTFT counts from the arrival of the
// burst; percentiles are linear.
type result struct {
	Scheduler  string `json:"scheduler"`
	StepTokens int    `json:"step_tokens"` // prompt and decode positions of one step at most

	TTFTShort metrics.Summary `json:"ttft_short_ms"`
	TTFTLong  metrics.Summary `json:"ttft_long_ms"`
	E2ELong   metrics.Summary `json:"e2e_long_ms"`
	ITL       metrics.Summary `json:"itl_ms"` // gaps between tokens, of all requests
	// GapPrompt counts the prompt tokens that were computed between the two
	// tokens with the largest gap.
	GapPrompt int `json:"largest_gap_prompt_tokens"`

	Completed   int64                `json:"completed"`
	Rejected    int64                `json:"rejected"`
	Rejections  []metrics.Rejections `json:"rejections,omitempty"`
	Preemptions int64                `json:"preemptions"`
	Positions   int64                `json:"positions_computed"` // of prompts and answers
	EndS        float64              `json:"end_s"`              // of the last request
}

// compare runs the scenario under every scheduler.
func compare(ctx context.Context, s scenario) (longPrompt, error) {
	cost, err := s.complete()
	if err != nil {
		return longPrompt{}, err
	}
	out := longPrompt{Scenario: s}
	for _, p := range []struct {
		name      string
		scheduler sim.Scheduler
	}{
		{"request-batch", &scheduler.RequestBatch{}},
		{"continuous", scheduler.Continuous{}},
	} {
		r := result{Scheduler: p.name, StepTokens: s.longest()}
		if err := r.observe(ctx, s, p.scheduler, cost); err != nil {
			return longPrompt{}, err
		}
		out.Results = append(out.Results, r)
	}
	for _, budget := range s.Budgets {
		r := result{Scheduler: "chunked", StepTokens: budget}
		if err := r.observe(ctx, s, scheduler.ChunkedPrefill{}, cost); err != nil {
			return longPrompt{}, err
		}
		out.Results = append(out.Results, r)
	}
	return out, nil
}

// observe simulates one scheduler on one replica.
func (r *result) observe(ctx context.Context, s scenario, policy sim.Scheduler, cost sim.CostModel) error {
	replica := sim.Replica{
		Scheduler: policy, CostModel: cost, KVBlocks: s.KVBlocks, MaxSeqs: maxSeqs,
		MaxModelLen: s.longest(), MaxBatchTokens: r.StepTokens,
	}
	if s.Order == "shortest-prompt" {
		replica.Order = sim.OrderFunc(scheduler.ByPrompt)
	}
	cfg := sim.Config{Replicas: []sim.Replica{replica}, Classes: s.classes()}
	collector, err := metrics.New(cfg, metrics.Options{})
	if err != nil {
		return err
	}
	var gap largestGap
	cfg.Observers = []sim.Observer{collector, &gap}
	counts, err := sim.Run(ctx, cfg, s.requests())
	if err != nil {
		return fmt.Errorf("%s: %w", r.Scheduler, err)
	}
	m := collector.Report()
	r.TTFTShort, r.TTFTLong, r.E2ELong = m.Classes[short].TTFT, m.Classes[long].TTFT, m.Classes[long].E2E
	r.ITL, r.GapPrompt = m.ITL, gap.prompt
	r.Completed, r.Rejected, r.Rejections, r.Preemptions = m.Completed, m.Rejected, m.Rejections, m.Preemptions
	r.Positions, r.EndS = counts.PrefillTokens+counts.DecodePositions, counts.End.Seconds()
	return nil
}

// largestGap is an observer that finds the largest gap between two tokens of a
// request and what one replica computed meanwhile.
type largestGap struct {
	took   time.Duration
	prompt int // prompt tokens computed in it

	ends     []sim.Time // of the steps so far
	computed []int      // prompt tokens up to each of them, summed
	sum      int
}

// Observe implements sim.Observer.
func (g *largestGap) Observe(e sim.Event) {
	if e.Kind != sim.StepEnd {
		return
	}
	g.sum += e.Batch.PrefillTokens()
	for _, group := range e.Gaps {
		if d := e.Time.Sub(group.Prev); d > g.took {
			// Tokens come at step ends only.
			i, _ := slices.BinarySearch(g.ends, group.Prev)
			g.took, g.prompt = d, g.sum-g.computed[i]
		}
	}
	g.ends, g.computed = append(g.ends, e.Time), append(g.computed, g.sum)
}
