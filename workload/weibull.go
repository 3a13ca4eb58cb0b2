package workload

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"

	"servesim/sim"
)

// Weibull is a process of independent Weibull-distributed gaps with mean
// 1/Rate. Exactly one of Shape and CV says how irregular: CV² =
// Γ(1+2/Shape)/Γ(1+1/Shape)² - 1. Shape 1 is Poisson, a smaller one burstier
// with a heavier tail than [Gamma] of the same CV, a larger one more even. The
// first arrival comes one gap after 0.
type Weibull struct {
	Rate  float64 `doc:"rate_per_s"` // requests per second, above 0
	Shape float64 `doc:"shape,opt"`  // 0.1 to 100; 0 means that CV is given
	CV    float64 `doc:"cv,opt"`     // 0.0127 to 430, those of the shapes; 0 means that Shape is given
}

const (
	minWeibullShape = 0.1
	maxWeibullShape = 100
)

// Validate reports an invalid field.
func (w Weibull) Validate() error {
	if err := checkRate("Weibull.Rate", w.Rate); err != nil {
		return err
	}
	if (w.Shape == 0) == (w.CV == 0) {
		return fmt.Errorf("Weibull.Shape is %v and Weibull.CV is %v, want exactly one of them", w.Shape, w.CV)
	}
	if least, most := weibullCV(maxWeibullShape), weibullCV(minWeibullShape); w.CV != 0 && !(w.CV >= least && w.CV <= most) {
		return fmt.Errorf("Weibull.CV is %v, want %.3g to %.3g", w.CV, least, most)
	}
	if w.Shape != 0 && !(w.Shape >= minWeibullShape && w.Shape <= maxWeibullShape) {
		return fmt.Errorf("Weibull.Shape is %v, want %v to %v", w.Shape, minWeibullShape, maxWeibullShape)
	}
	return nil
}

// Times implements [Arrivals].
func (w Weibull) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	k := w.Shape
	if k == 0 {
		k = weibullShape(w.CV)
	}
	law := distuv.Weibull{K: k, Lambda: 1 / (w.Rate * math.Gamma(1+1/k)), Src: r}
	return renewal(w, law.Rand)
}

// weibullCV is the coefficient of variation of a shape.
func weibullCV(k float64) float64 {
	one, _ := math.Lgamma(1 + 1/k)
	two, _ := math.Lgamma(1 + 2/k)
	return math.Sqrt(math.Expm1(two - 2*one))
}

// weibullShape inverts weibullCV, which falls with the shape, by bisection of
// the logarithm.
func weibullShape(cv float64) float64 {
	low, high := math.Log(minWeibullShape), math.Log(maxWeibullShape)
	for range 60 {
		if mid := (low + high) / 2; weibullCV(math.Exp(mid)) > cv {
			low = mid
		} else {
			high = mid
		}
	}
	return math.Exp((low + high) / 2)
}
