package experiment

import (
	"fmt"
	"math"
)

// Comparison says by how much a differs from b.
type Comparison struct {
	// Difference is the mean of a - b over the pairs.
	Difference Interval
	// Ratio is the geometric mean of a/b, from the mean logarithm: 1.1 says
	// that a is 10 % larger. Its fields are NaN where a value is not positive.
	Ratio Interval
}

// Paired compares two systems that were run under the same seeds: a[i] and
// b[i] belong to seed i. The intervals hold for pairs that are independent of
// each other and differences, or logarithms of ratios, that are about normal.
// It is an error if the lengths differ, there are fewer than two pairs, a
// value is not finite, or the level is not between 0 and 1.
func Paired(a, b []float64, level float64) (Comparison, error) {
	if len(a) != len(b) {
		return Comparison{}, fmt.Errorf("experiment: %d values in a, %d in b", len(a), len(b))
	}
	if len(a) < 2 {
		return Comparison{}, fmt.Errorf("experiment: %d pairs, want at least 2", len(a))
	}
	if err := checkLevel(level); err != nil {
		return Comparison{}, err
	}
	if err := checkFinite("a", a); err != nil {
		return Comparison{}, err
	}
	if err := checkFinite("b", b); err != nil {
		return Comparison{}, err
	}
	differences := make([]float64, len(a))
	logs := make([]float64, len(a))
	for i := range a {
		differences[i] = a[i] - b[i]
		logs[i] = logRatio(a[i], b[i])
	}
	ratio := student(logs, level)
	ratio.Mean, ratio.Low, ratio.High = math.Exp(ratio.Mean), math.Exp(ratio.Low), math.Exp(ratio.High)
	return Comparison{Difference: student(differences, level), Ratio: ratio}, nil
}

// logRatio is NaN unless both are positive.
func logRatio(a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return math.NaN()
	}
	return math.Log(a / b)
}
