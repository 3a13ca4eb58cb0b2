package workload

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"

	"servesim/sim"
)

// InferencePerfConstant is a stage of inference-perf's load type "constant".
// It is not constant: ⌊Rate·Duration⌋ exponential gaps, scaled so that the last
// request comes at Duration exactly. Their CV is near 1, and the number of
// requests never varies. All gaps are held, 8 bytes per request.
type InferencePerfConstant struct {
	Rate     float64       `doc:"rate_per_s"` // requests per second, above 0
	Duration time.Duration `doc:"duration_s"`
}

// Validate reports an invalid field.
func (p InferencePerfConstant) Validate() error {
	if err := checkRate("InferencePerfConstant.Rate", p.Rate); err != nil {
		return err
	}
	if p.Duration <= 0 || p.requests() < 1 {
		return fmt.Errorf("InferencePerfConstant.Duration is %v: no request at %v per second", p.Duration, p.Rate)
	}
	return nil
}

func (p InferencePerfConstant) requests() int { return int(p.Rate * p.Duration.Seconds()) }

// Times implements [Arrivals].
func (p InferencePerfConstant) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		if err := p.Validate(); err != nil {
			fail(yield, err)
			return
		}
		yieldSeconds(0, stretched(p.requests(), p.Duration.Seconds(), r.ExpFloat64), yield)
	}
}

// stretched returns the sums of n gaps, scaled so that the last is end.
func stretched(n int, end float64, gap func() float64) []float64 {
	instants := make([]float64, n)
	for i := range instants {
		instants[i] = gap()
	}
	floats.CumSum(instants, instants)
	floats.Scale(end/instants[n-1], instants)
	return instants
}

// InferencePerfPoisson is inference-perf's load type "poisson". For each
// second it draws a Poisson number of requests and places them like
// [InferencePerfConstant] does, so that the last of every second that has any
// falls on the whole second: (1-exp(-Rate))/Rate of all requests, 43 % at 2
// requests per second. It does not end; a stage takes ⌊Rate·duration⌋ of them.
type InferencePerfPoisson struct {
	Rate float64 `doc:"rate_per_s"` // requests per second, above 0
}

// Validate reports an invalid field.
func (p InferencePerfPoisson) Validate() error { return checkRate("InferencePerfPoisson.Rate", p.Rate) }

// Times implements [Arrivals].
func (p InferencePerfPoisson) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		if err := p.Validate(); err != nil {
			fail(yield, err)
			return
		}
		for start := sim.Time(0); ; start = start.Add(time.Second) {
			// The numbers are those of a Poisson process: its next arrival
			// makes a second busy, the rest of that second has its own.
			wait := r.ExpFloat64() / p.Rate
			idle := math.Floor(wait)
			if idle >= sim.Never.Sub(start).Seconds()-2 {
				fail(yield, errNoTime)
				return
			}
			start += sim.Time(idle) * sim.Time(time.Second)
			others := distuv.Poisson{Lambda: p.Rate * (1 - (wait - idle)), Src: r}.Rand()
			if !yieldSeconds(start, stretched(1+int(others), 1, r.ExpFloat64), yield) {
				return
			}
		}
	}
}
