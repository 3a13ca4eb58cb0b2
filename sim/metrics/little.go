package metrics

import (
	"fmt"
	"math"
)

// Little compares the two sides of Little's law, L = λW, which are measured
// apart: L from the instants of arrivals and departures, λ and W from the
// departures alone.
type Little struct {
	L        Number `json:"l"`            // mean number in the system
	Lambda   Number `json:"lambda_per_s"` // departures per second
	W        Number `json:"w_s"`          // mean time in the system of those who left
	Residual Number `json:"residual"`     // L - λW
	// Finding says that the two sides differ; empty if they agree.
	Finding string `json:"finding,omitempty"`
}

const (
	// A run in which everybody who came left obeys the law exactly; only
	// rounding is left.
	closedTolerance = 1e-9
	// Requests that straddle the ends of a window enter one side only.
	openTolerance = 0.05
)

// CheckLittle compares l with lambda·w and states a finding if they differ by
// more than tolerance, as a fraction of the larger. Where nobody left, w is
// NaN and λW is zero. NaN elsewhere makes the residual NaN, without a finding.
func CheckLittle(l, lambda, w, tolerance float64) Little {
	through := 0.0
	if lambda != 0 {
		through = lambda * w
	}
	c := Little{L: Number(l), Lambda: Number(lambda), W: Number(w), Residual: Number(l - through)}
	if math.Abs(l-through) > tolerance*max(math.Abs(l), math.Abs(through)) {
		c.Finding = fmt.Sprintf("Little's law: %v in the system observed, %v expected from %v/s × %v s: "+
			"observations are lost, the boundaries differ or the interval is not steady",
			c.L, Number(through), c.Lambda, c.W)
	}
	return c
}
