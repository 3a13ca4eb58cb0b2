package workload

import (
	"iter"
	"math/rand/v2"

	"servesim/sim"
)

// VidurPoisson is the arrivals of Vidur's "poisson" generator: exponential
// gaps, those longer than 3/QPS cut to it. Their mean is (1-exp(-3))/QPS, so
// it delivers 5.2 % more requests than asked for, and their CV is 0.88.
type VidurPoisson struct {
	QPS float64 `doc:"rate_per_s"` // above 0
}

// Validate reports an invalid field.
func (v VidurPoisson) Validate() error { return checkRate("VidurPoisson.QPS", v.QPS) }

// Times implements [Arrivals].
func (v VidurPoisson) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	return renewal(v, func() float64 { return min(r.ExpFloat64(), 3) / v.QPS })
}
