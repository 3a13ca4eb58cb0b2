package workload

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"

	"servesim/sim"
)

// RateFunction is a rate that changes with time: requests per second at t, at
// least 0. [Diurnal], [Ramp] and [Steps] are some; [RateFunc] makes one of a
// function.
//
// Two methods more are used where a type has them. Peak() float64 is a rate
// that is never exceeded; without it [Varying.Peak] must be given.
// Resume(t sim.Time) sim.Time is the first instant from t on, t itself
// included, at which the rate is above 0; sim.Never ends the process. Without
// it a silence must be short.
type RateFunction interface {
	Rate(t sim.Time) float64
}

// RateFunc adapts a function to RateFunction.
type RateFunc func(t sim.Time) float64

// Rate calls f.
func (f RateFunc) Rate(t sim.Time) float64 { return f(t) }

// Varying is a Poisson process whose rate changes with time. Candidates come
// at the constant rate Peak, and one at t is kept with probability Rate(t)/Peak
// (thinning: Lewis and Shedler, Naval Research Logistics Quarterly 26, 1979).
// That is exact for every rate below the peak; a rate above it, or below 0, is
// an error.
type Varying struct {
	Rate RateFunction `doc:"rate"`
	// Peak is at least the highest rate, and the closer the faster the
	// process. 0 asks Rate for it.
	Peak float64 `doc:"peak_per_s,opt"`
}

// Validate reports an invalid field.
func (v Varying) Validate() error {
	if f, ok := v.Rate.(RateFunc); ok && f == nil {
		return errors.New("Varying.Rate is a nil RateFunc")
	}
	if err := validate("Varying.Rate", v.Rate); err != nil {
		return err
	}
	if _, ok := v.Rate.(peaked); !ok && v.Peak == 0 {
		return fmt.Errorf("Varying.Peak is 0 and %T does not know its peak", v.Rate)
	}
	return checkRate("Varying.Peak", v.peak())
}

type peaked interface{ Peak() float64 }

func (v Varying) peak() float64 {
	if p, ok := v.Rate.(peaked); ok && v.Peak == 0 {
		return p.Peak()
	}
	return v.Peak
}

// resume is the first instant from t on at which requests may arrive.
func (v Varying) resume(t sim.Time) sim.Time {
	if r, ok := v.Rate.(interface{ Resume(sim.Time) sim.Time }); ok {
		return r.Resume(t)
	}
	return t
}

// maxThinned candidates may be dropped in a row.
const maxThinned = 20_000_000

// Times implements [Arrivals].
func (v Varying) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		if err := v.Validate(); err != nil {
			fail(yield, err)
			return
		}
		peak := v.peak()
		mean := 1 / peak
		var c clock
		dropped := 0
		for {
			if err := c.advance(mean * r.ExpFloat64()); err != nil {
				fail(yield, err)
				return
			}
			rate := v.Rate.Rate(c.now)
			if !(rate >= 0 && rate <= peak*(1+1e-12)) {
				fail(yield, fmt.Errorf("Varying.Rate is %v at %v, want 0 to the peak of %v", rate, c.now, peak))
				return
			}
			if rate == 0 { // the wait for candidates has no memory and starts again there
				at := v.resume(c.now)
				if at == sim.Never {
					return
				}
				if at < c.now {
					fail(yield, fmt.Errorf("Varying.Rate resumes at %v, before %v", at, c.now))
					return
				}
				c.now = at
			}
			if float64(r.Float64()*peak) < rate {
				dropped = 0
				if !yield(c.now, nil) {
					return
				}
			} else if dropped++; dropped == maxThinned {
				fail(yield, fmt.Errorf("Varying.Rate: none of %d candidates up to %v is kept: a lower Peak or a Resume method helps", dropped, c.now))
				return
			}
		}
	}
}
