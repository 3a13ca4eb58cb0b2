package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"servesim/costmodel"
	"servesim/scheduler"
	"servesim/sim"
)

// The roofline of the first part, and how often at least 1, 2 and 3 drafts are
// right there.
var (
	byHandCost = costmodel.Roofline{
		SharedBytes: 4e6, ContextBytesPerRequest: 1e5, OpsPerPosition: 2e6,
		Bandwidth: 1e11, Rate: 1e12, Overhead: 20 * time.Microsecond,
	}
	byHandAccepted = []float64{0.5, 0.125, 0.125}
)

const byHandRequests = 16

// byHand is the choice of one step, small enough to check by hand.
type byHand struct {
	Requests int      `json:"requests"`
	Options  []option `json:"options"`
	Chosen   int      `json:"chosen_positions"` // by scheduler.VariableDrafts
}

// option is a step with some number of drafts for each request.
type option struct {
	Drafts    int     `json:"drafts"`
	Positions int     `json:"positions"`
	Useful    float64 `json:"useful_tokens"` // expected
	StepUs    float64 `json:"step_us"`
	Bound     string  `json:"bound"`
	PerS      float64 `json:"useful_tokens_per_s"`
}

func newByHand(ctx context.Context) (byHand, error) {
	h := byHand{Requests: byHandRequests}
	useful := float64(byHandRequests)
	for k := range len(byHandAccepted) + 1 {
		if k > 0 {
			useful += float64(byHandRequests * byHandAccepted[k-1])
		}
		n := byHandRequests * (1 + k)
		terms := byHandCost.Terms(byHandRequests, n)
		h.Options = append(h.Options, option{k, n, useful, terms.Step * 1e6, terms.Bound.String(), terms.TokenRate(useful)})
	}
	var err error
	h.Chosen, err = chosenPositions(ctx)
	return h, err
}

// chosenPositions lets the policy plan a step of all requests.
func chosenPositions(ctx context.Context) (positions int, err error) {
	cfg := sim.Config{Replicas: []sim.Replica{{
		Scheduler: &scheduler.VariableDrafts{CostModel: byHandCost, Accepted: byHandAccepted},
		CostModel: byHandCost,
		Drafts:    len(byHandAccepted),
		Drafter:   sim.DrafterFunc(func(sim.Query, int, int) int { return 0 }),
	}}}
	cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
		if e.Kind == sim.StepEnd && e.Batch.Decodes == byHandRequests {
			positions = e.Batch.Positions
		}
	})}
	_, err = sim.Run(ctx, cfg, requests(byHandRequests, 1, 2, 0))
	if err == nil && positions == 0 {
		err = errors.New("no step decodes all requests")
	}
	return positions, err
}

// fastest returns the option with the highest rate.
func (h byHand) fastest() option {
	return slices.MaxFunc(h.Options, func(a, b option) int {
		if a.PerS < b.PerS {
			return -1
		}
		return 1
	})
}
