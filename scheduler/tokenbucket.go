package scheduler

import (
	"fmt"
	"math/bits"
	"time"

	"servesim/sim"
)

// TokenBucket limits the rate at which tokens enter. The bucket holds Burst
// tokens, is full at the start and fills at Rate; a request takes its cost. One
// that finds too few tokens is deferred to the nanosecond at which they are
// there, first come, first served: its tokens are set aside at once, so that
// nobody who comes later, however small, delays it. It is refused with
// [RejectRateLimited] if it would wait longer than MaxWait, or costs more than
// Burst.
//
// It is the generic cell rate algorithm (ITU-T I.371, virtual scheduling) with
// a queue, in integers: nothing drifts. A request whose client gives up while
// it is deferred has spent its tokens.
//
// A request is charged when it is asked about at its arrival, and passes when
// it is asked about later.
type TokenBucket struct {
	// Rate is in tokens per second. 0 means no limit.
	Rate int
	// Burst is in tokens. 0 means Rate, what one second brings.
	Burst int
	// MaxWait is the longest deferral. 0 means no limit; less means that
	// nobody is deferred.
	MaxWait time.Duration
	// Cost returns the tokens that a request takes, at least 0. nil means the
	// prompt and MaxOutput, the most that the request may come to. A function
	// that returns 1 limits requests per second.
	Cost func(sim.Query) int

	full moment // when the bucket will be full if nobody comes
}

// moment is ns + part/Rate nanoseconds, 0 ≤ part < Rate.
type moment struct{ ns, part int64 }

// Admit implements sim.Admission.
func (b *TokenBucket) Admit(now sim.Time, q sim.Query, _ []sim.Load) sim.Decision {
	if b.Rate < 0 || b.Burst < 0 {
		panic(fmt.Sprintf("scheduler: TokenBucket.Rate is %d, Burst %d", b.Rate, b.Burst))
	}
	if b.Rate == 0 || now > q.Arrival {
		return sim.Decision{}
	}
	burst, cost := b.Burst, b.cost(q)
	if burst == 0 {
		burst = b.Rate
	}
	if cost > burst {
		return sim.Decision{Reject: RejectRateLimited}
	}
	full := b.full
	if full.ns < int64(now) {
		full = moment{ns: int64(now)}
	}
	take, fill := b.fill(cost), b.fill(burst)
	if take.ns >= int64(sim.Never)-full.ns {
		return sim.Decision{Reject: RejectRateLimited} // its turn comes after the end of time
	}
	full.ns += take.ns
	if full.part += take.part; full.part >= int64(b.Rate) {
		full.part -= int64(b.Rate)
		full.ns++
	}
	// The tokens are there when a full bucket is no farther off than the time
	// to fill an empty one.
	turn := sim.Time(full.ns - fill.ns)
	if full.part > fill.part {
		turn++
	}
	wait := turn.Sub(now)
	if wait > 0 && b.MaxWait != 0 && wait > b.MaxWait {
		return sim.Decision{Reject: RejectRateLimited}
	}
	b.full = full
	if wait <= 0 {
		return sim.Decision{}
	}
	return sim.Decision{Until: turn}
}

func (b *TokenBucket) cost(q sim.Query) int {
	if b.Cost == nil {
		return q.Prompt + q.MaxOutput
	}
	n := b.Cost(q)
	if n < 0 {
		panic(fmt.Sprintf("scheduler: TokenBucket.Cost of request %d is %d", q.ID, n))
	}
	return n
}

// fill returns the time in which that many tokens come.
func (b *TokenBucket) fill(tokens int) moment {
	hi, lo := bits.Mul64(uint64(tokens), uint64(time.Second))
	rate := uint64(b.Rate)
	if hi < rate {
		if ns, part := bits.Div64(hi, lo, rate); ns < uint64(sim.Never) {
			return moment{int64(ns), int64(part)}
		}
	}
	panic(fmt.Sprintf("scheduler: TokenBucket.Burst is %d, more than 292 years at Rate %d", b.Burst, b.Rate))
}
