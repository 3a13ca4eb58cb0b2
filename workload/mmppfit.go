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

// FitOptions are the choices of the fits by expectation-maximisation.
type FitOptions struct {
	// Starts is the number of runs from different beginnings, of which the one of
	// the highest likelihood counts. 0 means 4.
	Starts int
	// Iterations bounds each run. 0 means 1000.
	Iterations int
	// Tolerance ends a run when an iteration raises the log-likelihood per
	// observation by less. 0 means 1e-7.
	Tolerance float64
	// Seed determines the beginnings.
	Seed uint64
}

func (o FitOptions) withDefaults() (FitOptions, error) {
	switch {
	case o.Starts < 0:
		return o, fmt.Errorf("FitOptions.Starts is %d, want at least 0", o.Starts)
	case o.Iterations < 0:
		return o, fmt.Errorf("FitOptions.Iterations is %d, want at least 0", o.Iterations)
	case !(o.Tolerance >= 0):
		return o, fmt.Errorf("FitOptions.Tolerance is %v, want at least 0", o.Tolerance)
	}
	if o.Starts == 0 {
		o.Starts = 4
	}
	if o.Iterations == 0 {
		o.Iterations = 1000
	}
	if o.Tolerance == 0 {
		o.Tolerance = 1e-7
	}
	return o, nil
}

// FitQuality says how a fit went.
type FitQuality struct {
	// LogLikelihood is the natural logarithm of the likelihood of the data.
	LogLikelihood float64
	// BIC is the Bayesian information criterion, -2·LogLikelihood +
	// parameters·ln(observations): the model with the lowest is preferred.
	BIC float64
	// Iterations is the number that the best run took, Converged whether it
	// ended by tolerance.
	Iterations int
	Converged  bool
}

// CountArrivals counts the requests of a sequence in slots of that width, the
// first of which starts with the first arrival; the last, partial slot is dropped.
// Arrivals that go back are an error.
func CountArrivals(requests iter.Seq2[sim.Request, error], slot time.Duration) ([]int, error) {
	if slot <= 0 {
		return nil, fmt.Errorf("workload: slot of %v, want more than 0", slot)
	}
	var counts []int
	var first, last sim.Time
	current, n := 0, 0
	for q, err := range requests {
		if err != nil {
			return nil, err
		}
		if n == 0 {
			first, last = q.Arrival, q.Arrival
		}
		if q.Arrival < last {
			return nil, fmt.Errorf("workload: request %d arrives at %v, before %v", q.ID, q.Arrival, last)
		}
		last = q.Arrival
		n++
		index := int64(last.Sub(first) / slot)
		if index-int64(len(counts)) > maxSlots {
			return nil, fmt.Errorf("workload: request %d comes %d slots of %v after the one before it", q.ID, index-int64(len(counts)), slot)
		}
		for int64(len(counts)) < index {
			counts = append(counts, current)
			current = 0
		}
		current++
	}
	return counts, nil
}

// maxSlots is the longest silence that is counted, in slots.
const maxSlots = 1 << 28

// FitMMPP fits an [MMPP] of a number of states to the counts of successive
// slots, by Baum-Welch (Rabiner, Proceedings of the IEEE 77, 1989) on a Poisson
// hidden Markov model. The first slot is taken to follow the last: every state
// is left as often as it is entered, the stationary law is the share of slots
// in each, and the rate of the model is that of the counts. States come in
// order of their rates.
//
// The maximum may be a local one: compare starts and seeds. A stay is known as
// well as it was seen often: with stays of minutes an hour leaves them
// uncertain by a third, and what lasts longer than the data cannot show. The
// counts must be of a clock finer than a slot. At least 10 slots per parameter,
// of which there are states², are asked for.
func FitMMPP(counts []int, slot time.Duration, states int, o FitOptions) (MMPP, FitQuality, error) {
	o, err := o.withDefaults()
	if err != nil {
		return MMPP{}, FitQuality{}, fmt.Errorf("workload: FitMMPP: %w", err)
	}
	if states < 1 {
		return MMPP{}, FitQuality{}, fmt.Errorf("workload: FitMMPP: %d states, want at least 1", states)
	}
	if len(counts)/10 < states*states {
		return MMPP{}, FitQuality{}, fmt.Errorf("workload: FitMMPP: %d slots for %d states, want at least %d", len(counts), states, 10*states*states)
	}
	if err := checkCounts(counts, slot); err != nil {
		return MMPP{}, FitQuality{}, fmt.Errorf("workload: FitMMPP: %w", err)
	}
	var best *hmm
	var quality FitQuality
	for start := range o.Starts {
		h := newHMM(counts, states, rand.New(Stream(o.Seed, "mmpp fit", uint64(start))))
		q := h.run(o)
		if best == nil || q.LogLikelihood > quality.LogLikelihood {
			best, quality = h, q
		}
	}
	n := float64(states)
	quality.BIC = -2*quality.LogLikelihood + n*n*math.Log(float64(len(counts)))
	return best.mmpp(slot), quality, nil
}

func checkCounts(counts []int, slot time.Duration) error {
	if slot <= 0 {
		return fmt.Errorf("slot of %v, want more than 0", slot)
	}
	sum := 0
	for i, c := range counts {
		if c < 0 {
			return fmt.Errorf("count %d is %d, want at least 0", i, c)
		}
		sum += c
	}
	if sum == 0 {
		return errors.New("no arrivals in any slot")
	}
	return nil
}

// LogLikelihood returns the natural logarithm of the probability of the counts
// in successive slots, the first state being drawn from the stationary law.
func (m MMPP) LogLikelihood(counts []int) (float64, error) {
	c, err := m.chain()
	if err != nil {
		return 0, fmt.Errorf("workload: %w", err)
	}
	if err := checkCounts(counts, m.slot()); err != nil {
		return 0, fmt.Errorf("workload: MMPP.LogLikelihood: %w", err)
	}
	h := hmm{counts: counts, initial: c.stationary, transition: c.transition, rates: make([]float64, len(m.Rates))}
	for i, rate := range m.Rates {
		h.rates[i] = rate * m.slot().Seconds()
	}
	h.allocate()
	return h.forward(), nil
}
