package sim

import (
	"math"
	"time"
)

// Time is an instant of virtual time: nanoseconds since the start of the run.
// Intervals are time.Duration, so Time(0).Add(3*time.Millisecond) reads well.
type Time int64

// NoTime marks an instant that has not happened, such as the first token of a
// request that is still waiting.
const NoTime Time = -1

// Never is later than every instant of a run.
const Never Time = math.MaxInt64

// Add returns t+d.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// Sub returns the interval from u to t.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Seconds returns t in seconds since the start of the run.
func (t Time) Seconds() float64 { return float64(t) / 1e9 }

// Milliseconds returns t in milliseconds since the start of the run.
func (t Time) Milliseconds() float64 { return float64(t) / 1e6 }

// String formats t as a duration since the start of the run.
func (t Time) String() string {
	switch t {
	case NoTime:
		return "-"
	case Never:
		return "never"
	}
	return time.Duration(t).String()
}

// InvalidDuration is what [Round] returns for a value that is not a duration.
// The engine refuses it as a step time.
const InvalidDuration time.Duration = math.MinInt64

// Round converts seconds to a duration, half a nanosecond away from zero. It
// is the one place where a cost model leaves floating point. NaN, infinities
// and values beyond 292 years give InvalidDuration.
func Round(seconds float64) time.Duration {
	ns := math.Round(seconds * 1e9)
	if !(math.Abs(ns) < math.MaxInt64) {
		return InvalidDuration
	}
	return time.Duration(ns)
}
