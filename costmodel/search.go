package costmodel

import (
	"math"
	"sort"
	"time"

	"servesim/sim"
)

// LargestBatch returns the largest R = N whose step takes at most limit: 0 if
// one request already takes longer, math.MaxInt if no batch does.
func (r Roofline) LargestBatch(limit time.Duration) int {
	return largest(func(n int) bool { return sim.Round(r.Terms(n, n).Step) <= limit })
}

// FreePositions returns the largest N that R requests can evaluate without a
// longer step: compute then takes no longer than the transfer. It is
// math.MaxInt if operations cost nothing. A result below R means that the
// step is compute-bound already.
func (r Roofline) FreePositions(requests int) int {
	return largest(func(n int) bool {
		t := r.Terms(requests, n)
		return t.Compute <= t.Transfer
	})
}

// Crossover returns the largest R = N that is not compute-bound, math.MaxInt
// if every batch is memory-bound.
func (r Roofline) Crossover() int {
	return largest(func(n int) bool { return r.Terms(n, n).Bound == MemoryBound })
}

// RateLimit returns the tokens per second that plain decode approaches as
// R = N grows. It is +Inf if requests cost nothing.
func (r Roofline) RateLimit() float64 {
	if err := r.Validate(); err != nil {
		panic(err.Error())
	}
	return 1 / max(r.ContextBytesPerRequest/r.Bandwidth, r.OpsPerPosition/r.Rate)
}

// unlimited is a size at which largest gives up looking for an end.
const unlimited = 1 << 40

// largest returns the largest n ≥ 0 with fits(n), which must hold up to some n
// and not beyond. It is 0 if fits(1) is false and math.MaxInt if no end is in
// sight.
func largest(fits func(n int) bool) int {
	end := 1
	for fits(end) {
		if end >= unlimited {
			return math.MaxInt
		}
		end *= 2
	}
	return sort.Search(end-1, func(n int) bool { return !fits(n + 1) })
}
