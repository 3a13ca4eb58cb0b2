package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// LogNormal is a length whose logarithm is normal: Median·exp(Sigma·z),
// rounded, and clipped to [Min, Max]. Clipping moves what lies outside to the
// bound and so makes an atom there, as a length limit of a service does; it
// does not draw again.
type LogNormal struct {
	Median float64 `doc:"median_tokens"`  // tokens, above 0
	Sigma  float64 `doc:"sigma"`          // standard deviation of the natural logarithm, at least 0
	Min    int     `doc:"min_tokens,opt"` // 0 means 1
	Max    int     `doc:"max_tokens,opt"` // 0 means 2^31-1
}

// Validate reports an invalid field.
func (l LogNormal) Validate() error {
	if err := checkPositive("LogNormal.Median", l.Median); err != nil {
		return err
	}
	if err := checkNotNegative("LogNormal.Sigma", l.Sigma); err != nil {
		return err
	}
	return checkClip("LogNormal", l.Min, l.Max)
}

// Draw implements [Length].
func (l LogNormal) Draw(r *rand.Rand) int {
	return clip(l.Median*math.Exp(l.Sigma*r.NormFloat64()), l.Min, l.Max)
}

// LogNormalMixture is a length that is log-normal with the median and sigma of
// a component drawn by weight, rounded and clipped as [LogNormal]. The three
// slices have one entry a component.
type LogNormalMixture struct {
	Weights []float64 `doc:"weights"`        // at least 0; divided by their sum
	Medians []float64 `doc:"medians_tokens"` // tokens, above 0
	Sigmas  []float64 `doc:"sigmas"`         // of the natural logarithm, at least 0
	Min     int       `doc:"min_tokens,opt"` // 0 means 1
	Max     int       `doc:"max_tokens,opt"` // 0 means 2^31-1
}

// Validate reports an invalid field.
func (l LogNormalMixture) Validate() error {
	if len(l.Medians) != len(l.Weights) || len(l.Sigmas) != len(l.Weights) {
		return fmt.Errorf("LogNormalMixture has %d Weights, %d Medians and %d Sigmas, want equal numbers",
			len(l.Weights), len(l.Medians), len(l.Sigmas))
	}
	if err := checkWeights("LogNormalMixture.Weights", l.Weights); err != nil {
		return err
	}
	for i := range l.Weights {
		if err := checkPositive(fmt.Sprintf("LogNormalMixture.Medians[%d]", i), l.Medians[i]); err != nil {
			return err
		}
		if err := checkNotNegative(fmt.Sprintf("LogNormalMixture.Sigmas[%d]", i), l.Sigmas[i]); err != nil {
			return err
		}
	}
	return checkClip("LogNormalMixture", l.Min, l.Max)
}

// Draw implements [Length].
func (l LogNormalMixture) Draw(r *rand.Rand) int {
	i := pick(r, l.Weights, itself)
	return clip(l.Medians[i]*math.Exp(l.Sigmas[i]*r.NormFloat64()), l.Min, l.Max)
}
