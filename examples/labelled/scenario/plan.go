package scenario

import (
	"iter"
	"time"

	"servesim/costmodel"
	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/trace"
	"servesim/workload"
)

// plan is a run before it starts. Scenarios change one thing in it.
//
// Unless they do, Llama-3.1-8B on one H100 serves 240 requests, 4 a second, with
// 1,500 prompt and 80 output tokens at the median. Clients are 9 ms away, the
// gateway takes 3 ms. At that load nobody waits for long: a prompt takes longer
// than the ways, and an answer longer than its prompt.
type plan struct {
	seed   uint64
	setup  costmodel.Setup
	config sim.Config
	parts  []workload.Part
	side   workload.ClientPath
	alter  func(q *sim.Request) // changes requests as they are sent; nil for none
	// affected says whether what was done was done to the request of a Finish
	// event.
	affected func(e sim.Event) bool
}

const (
	requests = 240
	perS     = 4.0
	maxSeqs  = 64
)

func newPlan(seed uint64) (*plan, error) {
	setup, err := costmodel.NewSetup("Llama-3.1-8B", "H100")
	if err != nil {
		return nil, err
	}
	p := &plan{
		seed: seed, setup: setup,
		parts:    []workload.Part{part("chat", workload.Poisson{Rate: perS}, requests, lengths(1500, 80))},
		side:     workload.ClientPath{NetworkIn: workload.After(9 * ms), Gateway: workload.After(3 * ms), NetworkOut: workload.After(9 * ms)},
		affected: func(sim.Event) bool { return true },
	}
	unit, err := p.replica(setup)
	if err != nil {
		return nil, err
	}
	p.config = sim.Config{Replicas: []sim.Replica{unit}, TokenTimes: true, Ledgers: true}
	return p, nil
}

const ms = time.Millisecond

// replica is one engine on a GPU of the set-up.
func (p *plan) replica(s costmodel.Setup) (sim.Replica, error) {
	model, err := costmodel.NewTransformer(s)
	if err != nil {
		return sim.Replica{}, err
	}
	kv, err := s.KVCapacity(costmodel.KVBudget{Sequences: maxSeqs})
	if err != nil {
		return sim.Replica{}, err
	}
	return sim.Replica{
		Scheduler: scheduler.VLLM1{}, CostModel: model, KVBlocks: kv.Blocks,
		MaxSeqs: maxSeqs, MaxBatchTokens: 2048, MaxModelLen: 65536,
	}, nil
}

// replicas gives the deployment n replicas in place of one.
func (p *plan) replicas(n int, router sim.Router) {
	for range n - 1 {
		p.config.Replicas = append(p.config.Replicas, p.config.Replicas[0])
	}
	p.config.Router = router
}

// part is n requests of one class. Their lengths are log-normal about medians.
func part(name string, arrivals workload.Arrivals, n int, l workload.Lengths) workload.Part {
	return workload.Part{
		Name: name, Arrivals: workload.Limit{Arrivals: arrivals, Count: n},
		Mix: []workload.Share{{Class: sim.Class{Name: name}, Lengths: l}},
	}
}

// lengths are log-normal about medians of prompt and output, from a quarter of
// them to four times.
func lengths(prompt, output int) workload.Lengths {
	about := func(median int) workload.Length {
		return workload.LogNormal{Median: float64(median), Sigma: 0.3, Min: max(1, median/4), Max: 4 * median}
	}
	return workload.Independent{Prompt: about(prompt), Output: about(output)}
}

// requests completes the configuration and yields the requests.
func (p *plan) requests() iter.Seq2[sim.Request, error] {
	return p.sides().Requests(func(yield func(sim.Request, error) bool) {
		for q, err := range p.merged().Requests() {
			if p.alter != nil {
				p.alter(&q)
			}
			if !yield(q, err) {
				return
			}
		}
	})
}

func (p *plan) merged() workload.Merged { return workload.Merged{Seed: p.seed, Parts: p.parts} }

func (p *plan) sides() workload.ClientSide {
	return workload.ClientSide{Seed: p.seed, Classes: []workload.Regions{{{Name: "clients", Path: p.side}}}}
}

// sequence yields entries without an error.
func sequence(entries []trace.Entry) iter.Seq2[trace.Entry, error] {
	return func(yield func(trace.Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}
