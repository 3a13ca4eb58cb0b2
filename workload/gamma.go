package workload

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

	"servesim/sim"
)

// Gamma is a process of independent gamma-distributed gaps with mean 1/Rate,
// the "burstiness" of load generators: exactly one of Shape and CV says how
// irregular, with CV = 1/√Shape. Shape 1 is Poisson, a smaller one burstier, a
// larger one more even. The first arrival comes one gap after 0.
//
// At small shapes nearly all gaps are shorter than a nanosecond and their
// arrivals simultaneous: 9 in 10 at shape 0.005, rate 1. The long gaps carry
// the mean.
type Gamma struct {
	Rate  float64 `doc:"rate_per_s"` // requests per second, above 0
	Shape float64 `doc:"shape,opt"`  // at least 1e-6; 0 means that CV is given
	CV    float64 `doc:"cv,opt"`     // above 0, at most 1000; 0 means that Shape is given
}

// Validate reports an invalid field.
func (g Gamma) Validate() error {
	if err := checkRate("Gamma.Rate", g.Rate); err != nil {
		return err
	}
	if (g.Shape == 0) == (g.CV == 0) {
		return fmt.Errorf("Gamma.Shape is %v and Gamma.CV is %v, want exactly one of them", g.Shape, g.CV)
	}
	if g.CV != 0 && !(g.CV > 0 && g.CV <= maxCV) {
		return fmt.Errorf("Gamma.CV is %v, want above 0, at most %v", g.CV, maxCV)
	}
	if k := g.shape(); !(k >= minShape) || math.IsInf(k, 0) {
		return fmt.Errorf("Gamma.Shape is %v, want a finite value, at least %v", k, minShape)
	}
	return nil
}

// At minShape one gap in a million carries the mean.
const (
	minShape = 1e-6
	maxCV    = 1000
)

func (g Gamma) shape() float64 {
	if g.CV != 0 {
		return 1 / (g.CV * g.CV)
	}
	return g.Shape
}

// Times implements [Arrivals].
func (g Gamma) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	draw := newLogGamma(g.shape())
	logScale := -math.Log(g.Rate * g.shape())
	return renewal(g, func() float64 { return math.Exp(logScale + draw.draw(r)) })
}

// logGamma draws natural logarithms of gamma variates of scale 1. It works in
// logarithms because variates of shape 0.005 fall below the smallest float64
// once in 40 draws.
//
// Shapes of 1 and more: Marsaglia and Tsang, "A simple method for generating
// gamma variables", ACM TOMS 26 (2000). Below 1, ibid. §6: with G of shape k+1
// and U uniform, G·U^(1/k) has shape k, and -ln U is exponential.
type logGamma struct {
	inverse float64 // 1/shape below shape 1, else 0
	d, c    float64 // of the paper
	logD    float64
}

func newLogGamma(shape float64) logGamma {
	var g logGamma
	if shape < 1 {
		g.inverse = 1 / shape
		shape++
	}
	g.d = shape - 1.0/3
	g.c = 1 / math.Sqrt(9*g.d)
	g.logD = math.Log(g.d)
	return g
}

func (g *logGamma) draw(r *rand.Rand) float64 {
	logV := g.logV(r)
	if g.inverse == 0 {
		return g.logD + logV
	}
	return g.logD + logV - float64(r.ExpFloat64()*g.inverse)
}

// logV draws ln v, where d·v has the shape that d and c are made for.
func (g *logGamma) logV(r *rand.Rand) float64 {
	for {
		x := r.NormFloat64()
		t := 1 + float64(g.c*x)
		if t <= 0 {
			continue
		}
		u := r.Float64()
		logV := 3 * math.Log(t)
		x2 := float64(x * x)
		if u < 1-float64(0.0331*x2*x2) || // accepts nearly all, without a second logarithm
			math.Log(u) < float64(0.5*x2)+float64(g.d*(1-float64(t*t*t)+logV)) {
			return logV
		}
	}
}
