package metrics

import (
	"fmt"
	"time"

	"servesim/sim"
)

// GapRule says how the gaps of one request are judged against the gap target
// of its class. A request with one token has no gap and passes.
type GapRule uint8

const (
	// GapP95 asks the 95th percentile of the gaps, nearest rank, to meet the
	// target: at most n - ⌈0.95 n⌉ of n gaps are longer.
	GapP95 GapRule = iota
	// GapMean asks the mean gap, TPOT, to meet it.
	GapMean
	// GapMax asks every gap to meet it.
	GapMax
)

// String returns the name that reports use.
func (r GapRule) String() string {
	switch r {
	case GapP95:
		return "p95 per request, nearest-rank"
	case GapMean:
		return "mean per request"
	case GapMax:
		return "max per request"
	}
	return fmt.Sprintf("rule(%d)", uint8(r))
}

// Boundary is where targets are judged.
type Boundary uint8

const (
	// AtEngine judges from the arrival at the front door to tokens as they are
	// sampled.
	AtEngine Boundary = iota
	// AtClient judges from the send to tokens as they reach the client.
	AtClient
)

// String returns the name that reports use.
func (b Boundary) String() string {
	switch b {
	case AtEngine:
		return "engine"
	case AtClient:
		return "client"
	}
	return fmt.Sprintf("boundary(%d)", uint8(b))
}

// answer is what targets are judged by: a finished request as it is seen at one
// boundary.
type answer struct {
	start, first, last sim.Time // first is NoTime where it is not known
	output             int
	gapsOver           int64 // gaps over the target, -1 where that is not known
}

// meets reports whether an answer met every stated target of its class, and
// whether enough is known to say so.
func (r GapRule) meets(k sim.Class, a answer) (met, known bool) {
	switch {
	case k.TTFT == 0:
	case a.first == sim.NoTime:
		return false, false
	case a.first.Sub(a.start) > k.TTFT:
		return false, true
	}
	n := int64(a.output) - 1
	if k.Gap == 0 || n < 1 {
		return true, true
	}
	if r == GapMean {
		if a.first == sim.NoTime {
			return false, false
		}
		// Rounded up, so that a mean a fraction of a nanosecond over misses.
		return (a.last.Sub(a.first)+time.Duration(n-1))/time.Duration(n) <= k.Gap, true
	}
	allowed := int64(0)
	if r == GapP95 {
		allowed = n - (95*n+99)/100
	}
	return a.gapsOver <= allowed, a.gapsOver >= 0
}

// stated reports whether the class has a target.
func stated(k sim.Class) bool { return k.TTFT > 0 || k.Gap > 0 }
