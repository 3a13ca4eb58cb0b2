package workload

import (
	"errors"
	"fmt"
	"math"
)

// validator is what every type of this package with parameters implements.
// Types of users may: a Workload asks them before its first request.
type validator interface {
	Validate() error
}

func validate(field string, v any) error {
	if v == nil {
		return fmt.Errorf("%s is nil", field)
	}
	if v, ok := v.(validator); ok {
		if err := v.Validate(); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

// maxRate is one arrival per nanosecond. Faster processes would stand still.
const maxRate = 1e9

func checkRate(field string, rate float64) error {
	if !(rate > 0 && rate <= maxRate) {
		return fmt.Errorf("%s is %v, want requests per second above 0, at most 1e9", field, rate)
	}
	return nil
}

func checkPositive(field string, v float64) error {
	if !(v > 0) || math.IsInf(v, 0) {
		return fmt.Errorf("%s is %v, want a finite value above 0", field, v)
	}
	return nil
}

func checkNotNegative(field string, v float64) error {
	if !(v >= 0) || math.IsInf(v, 0) {
		return fmt.Errorf("%s is %v, want a finite value, at least 0", field, v)
	}
	return nil
}

// checkWeights accepts weights that need not sum to 1.
func checkWeights(field string, weights []float64) error {
	sum := 0.0
	for i, w := range weights {
		if err := checkNotNegative(fmt.Sprintf("%s[%d]", field, i), w); err != nil {
			return err
		}
		sum += w
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		return fmt.Errorf("%s sum to %v, want a finite sum above 0", field, sum)
	}
	return nil
}

// checkClip accepts the bounds of a clipped length; 0 leaves a bound out.
func checkClip(kind string, low, high int) error {
	switch {
	case low < 0:
		return fmt.Errorf("%s.Min is %d, want at least 0", kind, low)
	case high < 0:
		return fmt.Errorf("%s.Max is %d, want at least 0", kind, high)
	case high > maxTokens:
		return fmt.Errorf("%s.Max is %d, want at most %d", kind, high, maxTokens)
	case low > maxTokens:
		return fmt.Errorf("%s.Min is %d, want at most %d", kind, low, maxTokens)
	case high > 0 && low > high:
		return fmt.Errorf("%s.Min is %d, above Max %d", kind, low, high)
	}
	return nil
}

var errNoTime = errors.New("the next arrival is more than 292 years after the start of the run")
