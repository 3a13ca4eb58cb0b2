package workload

import (
	"fmt"
	"math"
)

// Limits says what a recording shows of a length, for the fits. The zero value
// shows all.
type Limits struct {
	// Censored lengths, recorded as Censored or more, are known only to be at
	// least that: a service cut them at its limit. 0 means none.
	Censored int
	// The recording has only lengths within Range (truncation): rows with
	// others were left out.
	Range
}

func (l Limits) validate(field string, values func(yield func(int) bool)) error {
	if err := checkClip(field, l.Min, l.Max); err != nil {
		return err
	}
	if l.Censored < 0 || l.Censored > maxTokens {
		return fmt.Errorf("%s.Censored is %d, want 0 to %d", field, l.Censored, maxTokens)
	}
	if l.Censored > 0 && (l.Censored <= l.Min || l.Max > 0) {
		return fmt.Errorf("%s.Censored is %d with Min %d and Max %d: want it above Min, and no Max", field, l.Censored, l.Min, l.Max)
	}
	for v := range values {
		if v < max(1, l.Min) || l.Max > 0 && v > l.Max || v > maxTokens {
			return fmt.Errorf("%s: a length is %d, outside [%d, %d]", field, v, max(1, l.Min), l.Max)
		}
	}
	return nil
}

// interval returns the logarithms between which an observed length lies: it
// was rounded, and raised to 1, or it is censored.
func (l Limits) interval(v int) (low, high float64) {
	if l.Censored > 0 && v >= l.Censored {
		return math.Log(float64(l.Censored) - 0.5), math.Inf(1)
	}
	low, high = math.Log(float64(v)-0.5), math.Log(float64(v)+0.5)
	if v == 1 {
		low = math.Inf(-1)
	}
	return low, high
}

// visible returns the logarithms between which lengths are recorded at all.
func (l Limits) visible() (low, high float64) {
	low, high = math.Inf(-1), math.Inf(1)
	if l.Min > 1 {
		low = math.Log(float64(l.Min) - 0.5)
	}
	if l.Max > 0 {
		high = math.Log(float64(l.Max) + 0.5)
	}
	return low, high
}

func (l Limits) truncates() bool { return l.Min > 1 || l.Max > 0 }

// normalBetween returns the logarithm of the probability that a standard
// normal variate lies between a and b, a < b, and its mean and mean square
// given that it does.
func normalBetween(a, b float64) (logMass, m1, m2 float64) {
	if math.IsInf(a, -1) && math.IsInf(b, 1) {
		return 0, 0, 1
	}
	if a+b > 0 { // the left tail has all digits
		logMass, m1, m2 = normalBetween(-b, -a)
		return logMass, -m1, m2
	}
	h, mid := b-a, (a+b)/2
	if h*max(1, -mid) < 0.01 { // the density is a straight line, relative error below 1e-5
		m1 = mid - float64(mid*h*h/12)
		return math.Log(h) - float64(mid*mid/2) - logRoot2Pi, m1, m1*m1 + h*h/12
	}
	mass := (math.Erfc(-b/math.Sqrt2) - math.Erfc(-a/math.Sqrt2)) / 2
	if mass < 1e-290 { // far out all mass is at the inner end
		return -b*b/2 - math.Log(-b) - logRoot2Pi, b, b * b
	}
	da, db := density(a), density(b)
	m1, m2 = (da-db)/mass, 1-float64(b*db)/mass
	if !math.IsInf(a, -1) {
		m2 += a * da / mass
	}
	return math.Log(mass), m1, m2
}

const logRoot2Pi = 0.91893853320467274178 // ln √(2π)

func density(z float64) float64 { return math.Exp(-z*z/2 - logRoot2Pi) }
