package experiment

import (
	"fmt"

	"gonum.org/v1/gonum/stat"
)

// MeanInterval returns the mean of one run's successive observations with an
// interval by batch means: the run is cut into as many batches of equal
// length, give or take one, and their means are taken as independent. Batches
// must be long against the memory of the system, such as the busy periods of a
// queue; 20 to 30 are usual. Observations of a warm-up are the caller's to
// leave out. It is an error if there are fewer than two batches or fewer
// observations than batches, a value is not finite, or the level is not
// between 0 and 1.
func MeanInterval(values []float64, batches int, level float64) (Interval, error) {
	if batches < 2 {
		return Interval{}, fmt.Errorf("experiment: %d batches, want at least 2", batches)
	}
	if len(values) < batches {
		return Interval{}, fmt.Errorf("experiment: %d values for %d batches", len(values), batches)
	}
	if err := checkLevel(level); err != nil {
		return Interval{}, err
	}
	if err := checkFinite("values", values); err != nil {
		return Interval{}, err
	}
	means := make([]float64, batches)
	for i := range means {
		means[i] = stat.Mean(values[i*len(values)/batches:(i+1)*len(values)/batches], nil)
	}
	return student(means, level), nil
}
