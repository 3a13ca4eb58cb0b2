package workload

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"servesim/sim"
)

// Limit ends a process after Count arrivals or at Duration, whichever comes
// first. At least one of them must be given.
type Limit struct {
	Arrivals Arrivals      `doc:"arrivals"`
	Count    int           `doc:"count,opt"`      // arrivals kept; 0 means no such limit
	Duration time.Duration `doc:"duration_s,opt"` // arrivals at t < Duration are kept; 0 means no such limit
}

// Validate reports an invalid field.
func (l Limit) Validate() error {
	switch {
	case l.Count < 0:
		return fmt.Errorf("Limit.Count is %d, want at least 0", l.Count)
	case l.Duration < 0:
		return fmt.Errorf("Limit.Duration is %v, want at least 0", l.Duration)
	case l.Count == 0 && l.Duration == 0:
		return errors.New("Limit.Count and Limit.Duration are 0, want at least one of them")
	}
	return validate("Limit.Arrivals", l.Arrivals)
}

// Times implements [Arrivals].
func (l Limit) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		if err := l.Validate(); err != nil {
			fail(yield, err)
			return
		}
		n := 0
		for t, err := range l.Arrivals.Times(r) {
			if err == nil && l.Duration > 0 && t >= sim.Time(l.Duration) {
				return
			}
			if !yield(t, err) || err != nil {
				return
			}
			if n++; n == l.Count {
				return
			}
		}
	}
}

// Scale runs a process Factor times as fast: an arrival at t comes at
// t/Factor, rounded to the nearest nanosecond. The rate is multiplied by
// Factor; the gap CV stays, and the index of dispersion at w becomes that of
// Factor·w, since the bursts are compressed too.
type Scale struct {
	Arrivals Arrivals `doc:"arrivals"`
	Factor   float64  `doc:"factor"` // above 0
}

// Validate reports an invalid field.
func (s Scale) Validate() error {
	if err := checkPositive("Scale.Factor", s.Factor); err != nil {
		return err
	}
	return validate("Scale.Arrivals", s.Arrivals)
}

// Times implements [Arrivals].
func (s Scale) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		if err := s.Validate(); err != nil {
			fail(yield, err)
			return
		}
		for t, err := range s.Arrivals.Times(r) {
			if err == nil {
				t, err = scaleTime(t, s.Factor)
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

func scaleTime(t sim.Time, factor float64) (sim.Time, error) {
	if factor == 1 { // instants beyond 2^53 ns stay exact
		return t, nil
	}
	ns := math.Round(float64(t) / factor)
	if !(math.Abs(ns) < math.MaxInt64) {
		return 0, fmt.Errorf("workload: arrival at %v divided by %v is beyond 292 years", t, factor)
	}
	return sim.Time(ns), nil
}

// Shift delays a process by By.
type Shift struct {
	Arrivals Arrivals      `doc:"arrivals"`
	By       time.Duration `doc:"by_s"` // at least 0
}

// Validate reports an invalid field.
func (s Shift) Validate() error {
	if s.By < 0 {
		return fmt.Errorf("Shift.By is %v, want at least 0", s.By)
	}
	return validate("Shift.Arrivals", s.Arrivals)
}

// Times implements [Arrivals].
func (s Shift) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		if err := s.Validate(); err != nil {
			fail(yield, err)
			return
		}
		for t, err := range s.Arrivals.Times(r) {
			if err == nil && t > math.MaxInt64-sim.Time(s.By) {
				err = fmt.Errorf("workload: arrival at %v delayed by %v is beyond 292 years", t, s.By)
			}
			if !yield(t.Add(s.By), err) || err != nil {
				return
			}
		}
	}
}
