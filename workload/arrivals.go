package workload

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

	"servesim/sim"
)

// Arrivals is an arrival process.
//
// Times yields the instants of the arrivals, in order, starting at 0 or later;
// equal instants are simultaneous arrivals. All chance comes from r, which the
// process must not keep. Most processes never end: [Limit] ends them. An error
// ends the sequence. A type that also has Validate() error is asked before a
// [Workload] yields its first request.
type Arrivals interface {
	Times(r *rand.Rand) iter.Seq2[sim.Time, error]
}

// Constant is arrivals at equal distances, the first at 0. Arrival i is the
// nearest nanosecond to i/Rate: no rounding adds up.
type Constant struct {
	Rate float64 `doc:"rate_per_s"` // requests per second, above 0
}

// Validate reports an invalid field.
func (c Constant) Validate() error { return checkRate("Constant.Rate", c.Rate) }

// Times implements [Arrivals].
func (c Constant) Times(*rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		if err := c.Validate(); err != nil {
			fail(yield, err)
			return
		}
		for i := 0.0; ; i++ {
			ns := math.Round(i * 1e9 / c.Rate)
			if ns >= math.MaxInt64 {
				fail(yield, errNoTime)
				return
			}
			if !yield(sim.Time(ns), nil) {
				return
			}
		}
	}
}

// Poisson is a Poisson process: independent exponential gaps, the first
// arrival one gap after 0.
type Poisson struct {
	Rate float64 `doc:"rate_per_s"` // requests per second, above 0
}

// Validate reports an invalid field.
func (p Poisson) Validate() error { return checkRate("Poisson.Rate", p.Rate) }

// Times implements [Arrivals].
func (p Poisson) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	mean := 1 / p.Rate
	return renewal(p, func() float64 { return mean * r.ExpFloat64() })
}

// Gaps is a process of independent gaps: each call draws one, in seconds. The
// first arrival comes one gap after 0.
type Gaps func(r *rand.Rand) float64

// Validate reports a nil function.
func (g Gaps) Validate() error {
	if g == nil {
		return errors.New("Gaps is nil")
	}
	return nil
}

// Times implements [Arrivals]. A gap that is negative, NaN or infinite is an
// error.
func (g Gaps) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	return renewal(g, func() float64 { return g(r) })
}

// renewal yields the instants of a process of independent gaps in seconds.
func renewal(v validator, gap func() float64) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		if err := v.Validate(); err != nil {
			fail(yield, err)
			return
		}
		var c clock
		for {
			if err := c.advance(gap()); err != nil {
				fail(yield, err)
				return
			}
			if !yield(c.now, nil) {
				return
			}
		}
	}
}

// clock sums gaps in seconds to an instant in nanoseconds. It carries the
// fraction of a nanosecond over, so that processes with many tiny gaps keep
// their rate.
type clock struct {
	now  sim.Time
	rest float64 // ns, in [0, 1)
}

func (c *clock) advance(gap float64) error {
	if !(gap >= 0) {
		return fmt.Errorf("the gap after %v is %v s", c.now, gap)
	}
	ns := float64(gap*1e9) + c.rest
	if ns >= float64(math.MaxInt64-c.now) {
		return errNoTime
	}
	whole := sim.Time(ns)
	c.rest = ns - float64(whole)
	c.now += whole
	return nil
}

// fail ends a sequence with an error.
func fail[T any](yield func(T, error) bool, err error) {
	var zero T
	yield(zero, fmt.Errorf("workload: %w", err))
}
