package scenario

import (
	"time"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/trace"
	"servesim/workload"
)

// loadScenarios are healthy runs, and loads that the deployment does not carry.
func loadScenarios() []Scenario {
	return []Scenario{
		{
			Name: "healthy", About: "Nothing is done.",
			Valid: true, TTFT: trace.Prefill, E2E: trace.Stream,
		},
		{
			Name: "warm_cache", About: "Nothing is done to requests that share four system prompts of 3,072 tokens, which the prefix cache has.",
			Valid: true, TTFT: trace.Prefill, E2E: trace.Stream,
			change: func(p *plan) error {
				p.systemPrompts(func(id int) int { return id % 4 })
				return nil
			},
		},
		{
			Name: "burst", About: "300 more requests arrive within a second, 20 s after the start.",
			Causes: []string{"burst"}, Valid: true, TTFT: trace.Queue, E2E: trace.Queue,
			change: func(p *plan) error {
				p.parts = append(p.parts, part("burst", workload.Shift{Arrivals: workload.Constant{Rate: 300}, By: 20 * time.Second}, 300, lengths(1500, 80)))
				// Those of the burst, and who comes while they wait.
				p.affected = func(e sim.Event) bool { return waited(e) > 150*ms }
				return nil
			},
		},
		{
			Name: "overload", About: "Twelve times as many requests arrive as in the healthy run, more than the engine serves.",
			Causes: []string{"overload"}, Valid: true, TTFT: trace.Queue, E2E: trace.Queue,
			change: func(p *plan) error {
				p.parts = []workload.Part{part("chat", workload.Poisson{Rate: 12 * perS}, 2*requests, lengths(1500, 80))}
				return nil
			},
		},
		{
			Name: "long_prompts", About: "Every 6 s a prompt of 60,000 tokens stands before others, in an engine that computes prompts whole.",
			Causes: []string{"long_prompt"}, Valid: true, TTFT: trace.Queue, E2E: trace.Stream,
			change: func(p *plan) error {
				p.config.Replicas[0].Scheduler = scheduler.VLLM1{WholePrompts: true}
				p.config.Replicas[0].MaxBatchTokens = 65536
				p.parts = append(p.parts, part("book", workload.Constant{Rate: 1. / 6}, 10, workload.Tokens{Prompt: 60_000, Output: 20}))
				// A book, and who waits longer than any other step takes.
				p.affected = func(e sim.Event) bool { return e.Prompt >= 60_000 || waited(e) > 300*ms }
				return nil
			},
		},
	}
}

// waited is the time of a request in the queue before its first admission.
func waited(e sim.Event) time.Duration { return e.Timeline.Admitted.Sub(e.Timeline.Queued) }

const (
	systemTokens = 3072
	block        = sim.DefaultBlockTokens
)

// systemPrompts puts a system prompt before every prompt, the number of which
// depends on the request, and turns the prefix cache on.
func (p *plan) systemPrompts(number func(id int) int) {
	p.config.Replicas[0].PrefixCache = true
	p.alter = func(q *sim.Request) {
		q.Prompt += systemTokens
		q.PrefixBlock = block
		for b := range systemTokens / block {
			q.Prefix = append(q.Prefix, chain(number(q.ID), b))
		}
	}
}
