package trace_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"servesim/sim"
	"servesim/sim/simtest"
)

// everything returns a run in which anything may happen: the odd seeds have
// roles, transfers, swaps and several steps in flight too. Some clients are far
// away.
func everything(seed uint64) (sim.Config, iter.Seq2[sim.Request, error]) {
	s := simtest.Scenario{Seed: seed, Deployments: seed%2 == 1}
	n := uint64(0)
	cfg := s.Config(func() sim.Scheduler {
		n++
		return &simtest.Chaos{Seed: seed<<8 + n}
	})
	cfg.Ledgers = true
	path := &sim.Path{NetworkIn: 3 * time.Microsecond, Gateway: 1001, Proxy: sim.Proxy{Tokens: 3}, NetworkOut: 2 * time.Microsecond}
	return cfg, func(yield func(sim.Request, error) bool) {
		for r, err := range s.Requests() {
			if r.Arrival > 5000 && r.ID%3 == 0 {
				r.Path = path
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// observe runs everything(seed) past an observer made for it.
func observe(t testing.TB, seed uint64, make func(sim.Config) sim.Observer) sim.Result {
	t.Helper()
	cfg, requests := everything(seed)
	cfg.Observers = append(cfg.Observers, make(cfg))
	res, err := sim.Run(context.Background(), cfg, requests)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	return res
}
