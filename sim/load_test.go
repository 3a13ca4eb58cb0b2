package sim_test

import (
	"iter"
	"math/rand/v2"
	"time"

	"servesim/sim"
)

// uniform yields n requests, gap apart.
func uniform(n int, gap time.Duration, prompt, output int) iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		for i := range n {
			if !yield(sim.Request{ID: i, Arrival: sim.Time(i) * sim.Time(gap), Prompt: prompt, Output: output}, nil) {
				return
			}
		}
	}
}

// poisson yields n requests at a mean rate per second.
func poisson(n int, rate float64, prompt, output int) iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		rng := rand.New(rand.NewPCG(1, 2))
		at := 0.0
		for i := range n {
			at += rng.ExpFloat64() / rate
			if !yield(sim.Request{ID: i, Arrival: sim.Time(at * 1e9), Prompt: prompt, Output: output}, nil) {
				return
			}
		}
	}
}
