package workload

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

	"servesim/sim"
)

// LogNormalGaps is a process of independent log-normal gaps with mean 1/Rate:
// of the families with one shape the one whose long gaps are longest. Exactly one of
// Sigma and CV says how irregular: CV² = exp(Sigma²) - 1. The first arrival
// comes one gap after 0.
type LogNormalGaps struct {
	Rate  float64 `doc:"rate_per_s"` // requests per second, above 0
	Sigma float64 `doc:"sigma,opt"`  // of the natural logarithm, above 0, at most 3.72; 0 means that CV is given
	CV    float64 `doc:"cv,opt"`     // above 0, at most 1000; 0 means that Sigma is given
}

// Validate reports an invalid field.
func (l LogNormalGaps) Validate() error {
	if err := checkRate("LogNormalGaps.Rate", l.Rate); err != nil {
		return err
	}
	if (l.Sigma == 0) == (l.CV == 0) {
		return fmt.Errorf("LogNormalGaps.Sigma is %v and LogNormalGaps.CV is %v, want exactly one of them", l.Sigma, l.CV)
	}
	if l.CV != 0 && !(l.CV > 0 && l.CV <= maxCV) {
		return fmt.Errorf("LogNormalGaps.CV is %v, want above 0, at most %v", l.CV, maxCV)
	}
	if most := sigmaOfCV(maxCV); l.Sigma != 0 && !(l.Sigma > 0 && l.Sigma <= most) {
		return fmt.Errorf("LogNormalGaps.Sigma is %v, want above 0, at most %.3g", l.Sigma, most)
	}
	return nil
}

// sigmaOfCV is the sigma of a log-normal law with that CV.
func sigmaOfCV(cv float64) float64 { return math.Sqrt(math.Log1p(cv * cv)) }

// Times implements [Arrivals].
func (l LogNormalGaps) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	sigma := l.Sigma
	if sigma == 0 {
		sigma = sigmaOfCV(l.CV)
	}
	mu := -math.Log(l.Rate) - sigma*sigma/2
	return renewal(l, func() float64 { return math.Exp(mu + float64(sigma*r.NormFloat64())) })
}
