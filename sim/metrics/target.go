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

// meets reports whether a finished request that started at start met every
// stated target of its class.
func (r GapRule) meets(k sim.Class, e *sim.Event, start sim.Time) bool {
	first := e.Timeline.FirstToken
	if k.TTFT > 0 && first.Sub(start) > k.TTFT {
		return false
	}
	n := int64(e.Output) - 1
	if k.Gap == 0 || n < 1 {
		return true
	}
	switch over := int64(e.GapsOver); r {
	case GapMean:
		// Rounded up, so that a mean a fraction of a nanosecond over misses.
		return (e.Time.Sub(first)+time.Duration(n-1))/time.Duration(n) <= k.Gap
	case GapMax:
		return over == 0
	default:
		return over <= n-(95*n+99)/100
	}
}

// stated reports whether the class has a target.
func stated(k sim.Class) bool { return k.TTFT > 0 || k.Gap > 0 }
