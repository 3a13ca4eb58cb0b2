package workload

import (
	"fmt"
	"iter"
	"math/rand/v2"

	"servesim/sim"
)

// GuideLLMPoisson is the arrivals of GuideLLM's "poisson" strategy with
// several worker processes: each draws the gaps from a generator of its own
// with one and the same seed and adds them to a shared clock, so that every gap
// comes Workers times in a row. The CV of the gaps is 1 as for Poisson, the
// index of dispersion goes to Workers.
type GuideLLMPoisson struct {
	Rate    float64 `doc:"rate_per_s"` // requests per second, above 0
	Workers int     `doc:"workers"`    // at least 1
}

// Validate reports an invalid field.
func (g GuideLLMPoisson) Validate() error {
	if g.Workers < 1 {
		return fmt.Errorf("GuideLLMPoisson.Workers is %d, want at least 1", g.Workers)
	}
	return checkRate("GuideLLMPoisson.Rate", g.Rate)
}

// Times implements [Arrivals].
func (g GuideLLMPoisson) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		left, gap := 0, 0.0
		renewal(g, func() float64 {
			if left == 0 {
				left, gap = g.Workers, r.ExpFloat64()/g.Rate
			}
			left--
			return gap
		})(yield)
	}
}
