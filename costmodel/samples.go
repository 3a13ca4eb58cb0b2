package costmodel

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Sample is one measurement of an operator or of a whole step.
type Sample struct {
	Name string // for messages: the file and line, or the shape
	// Group names what the sample shares with others, such as the matrix of a
	// product. Cross-validation never has samples of one group on both sides.
	Group   string
	Inputs  []float64 // what was asked for, as Form.Inputs says
	Seconds float64   // > 0
}

func checkSample(s *Sample, inputs []string) error {
	if len(s.Inputs) != len(inputs) {
		return fmt.Errorf("costmodel: sample %s has %d inputs, want %d: %q", s.Name, len(s.Inputs), len(inputs), inputs)
	}
	for i, x := range s.Inputs {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("costmodel: sample %s: %s is %v", s.Name, inputs[i], x)
		}
	}
	if !(s.Seconds > 0) || math.IsInf(s.Seconds, 0) {
		return fmt.Errorf("costmodel: sample %s took %v s", s.Name, s.Seconds)
	}
	return nil
}

// Accuracy describes the relative errors, predicted/measured - 1, of a set of
// predictions. The fields of an empty set are NaN, N apart, and null in JSON.
type Accuracy struct {
	N      int     `json:"n"`
	MAPE   float64 `json:"mape"`   // mean of the absolute errors
	Median float64 `json:"median"` // of the absolute errors
	P90    float64 `json:"p90"`    // of the absolute errors
	Bias   float64 `json:"bias"`   // mean of the errors
}

// AccuracyOf describes errors.
func AccuracyOf(errors []float64) Accuracy {
	nan := math.NaN()
	if len(errors) == 0 {
		return Accuracy{MAPE: nan, Median: nan, P90: nan, Bias: nan}
	}
	sizes := make([]float64, len(errors))
	for i, e := range errors {
		sizes[i] = math.Abs(e)
	}
	slices.Sort(sizes)
	return Accuracy{
		N:      len(errors),
		MAPE:   stat.Mean(sizes, nil),
		Median: quantile(sizes, 0.5),
		P90:    quantile(sizes, 0.9),
		Bias:   stat.Mean(errors, nil),
	}
}

// quantile interpolates linearly at (n-1)q of sorted values.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// MarshalJSON writes what is not a number as null.
func (a Accuracy) MarshalJSON() ([]byte, error) {
	if a.N == 0 {
		return []byte(`{"n":0,"mape":null,"median":null,"p90":null,"bias":null}`), nil
	}
	type plain Accuracy
	return json.Marshal(plain(a))
}

// String returns the figures in per cent.
func (a Accuracy) String() string {
	if a.N == 0 {
		return "n 0"
	}
	return fmt.Sprintf("n %d, MAPE %.1f %%, median %.1f %%, p90 %.1f %%, bias %+.1f %%", a.N, 100*a.MAPE, 100*a.Median, 100*a.P90, 100*a.Bias)
}
