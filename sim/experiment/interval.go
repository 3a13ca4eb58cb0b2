package experiment

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Interval is a mean and the range in which the true mean lies with
// probability Level, by Student's t.
type Interval struct {
	Mean     float64
	Low      float64
	High     float64
	StdError float64 // of the mean; for a ratio, of its logarithm
	Level    float64
	N        int // independent values behind it: pairs or batches
}

// Excludes reports whether x lies outside the interval.
func (i Interval) Excludes(x float64) bool { return x < i.Low || x > i.High }

// String formats the interval as 1.5 [1.2, 1.8] (95 %, n = 10).
func (i Interval) String() string {
	return fmt.Sprintf("%.4g [%.4g, %.4g] (%.4g %%, n = %d)", i.Mean, i.Low, i.High, 100*i.Level, i.N)
}

// student returns the two-sided interval for the mean of independent values,
// two at least.
func student(values []float64, level float64) Interval {
	n := len(values)
	mean, sd := stat.MeanStdDev(values, nil)
	e := stat.StdErr(sd, float64(n))
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Quantile(0.5+level/2) * e
	return Interval{Mean: mean, Low: mean - half, High: mean + half, StdError: e, Level: level, N: n}
}

func checkLevel(level float64) error {
	if !(0 < level && level < 1) {
		return fmt.Errorf("experiment: level is %v, want more than 0 and less than 1", level)
	}
	return nil
}

// checkFinite names the first value that is no number, or infinite.
func checkFinite(name string, values []float64) error {
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("experiment: %s[%d] is %v", name, i, v)
		}
	}
	return nil
}
