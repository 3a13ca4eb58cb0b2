package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"servesim/sim"
)

// Retry is a client that sends a request again when it was rejected, or when
// it gave up waiting (sim.Request.Patience is its timeout). Its method FollowUp
// is one for sim.Config.
//
// A retry is the same request, ID included, with its Attempt and First filled
// in, so that reports count it to its first attempt. It is sent the backoff
// after its client gave up, or has the refusal, and takes the same Path; without
// one it arrives the backoff after the attempt before it ended. It has the same
// patience again, and the same Deadline, after which none is sent. An ID is taken
// as long as its client may send it again.
//
// The backoff before retry n is Backoff·Factor^(n-1), at most Max, less a random
// part of up to Jitter of it. The random number is a pure function of Seed, the
// ID and n: compared runs see the same backoffs, whatever else they do. With
//
//	Retry{Attempts: 3, Backoff: 500 * time.Millisecond, Max: 8 * time.Second, Jitter: 0.25}
//
// clients behave as the Python library of OpenAI does unless the server says
// when to come back (openai-python v1, _base_client.py).
//
// It keeps no state and may be shared by runs.
type Retry struct {
	Seed uint64 `doc:"-"`
	// Attempts is how often a request is sent at most, the first time
	// included: below 2 never again.
	Attempts int `doc:"attempts"`
	// Backoff is the time before the first retry. 0 means at once.
	Backoff time.Duration `doc:"backoff_ms,opt"`
	// Factor multiplies the backoff from one retry to the next, at least 1. 0
	// means 2.
	Factor float64 `doc:"factor,opt"`
	// Max is the longest backoff. 0 means no limit.
	Max time.Duration `doc:"max_ms,opt"`
	// Jitter is the largest part of a backoff that chance takes off, from 0 to
	// 1: none of it, to all.
	Jitter float64 `doc:"jitter,opt"`
	// Within is how long after the arrival of the first attempt a retry arrives
	// at the latest. 0 means no limit.
	Within time.Duration `doc:"within_ms,opt"`
	// On says after which rejections and aborts the client tries again, such
	// as [Refused] or [TimedOut]. nil means after both.
	On func(sim.Completion) bool `doc:"-"`
}

// Refused reports a rejection for a reason that may pass: any but those of the
// engine that lie in the request itself, such as a prompt that is too long.
func Refused(c sim.Completion) bool {
	if c.Kind != sim.Reject {
		return false
	}
	switch c.Reason {
	case sim.RejectEmptyPrompt, sim.RejectZeroOutput, sim.RejectDuplicateID, sim.RejectUnknownClass, sim.RejectPrefixBlock,
		sim.RejectBadField, sim.RejectModelLen, sim.RejectKVCapacity, sim.RejectOutOfKV:
		return false
	}
	return true
}

// TimedOut reports a request that its client gave up.
func TimedOut(c sim.Completion) bool { return c.Kind == sim.Abort }

// Validate names the first field that is out of range.
func (r Retry) Validate() error {
	switch {
	case r.Attempts < 0:
		return fmt.Errorf("Retry.Attempts is %d, want at least 0", r.Attempts)
	case r.Factor != 0 && !(r.Factor >= 1 && r.Factor <= math.MaxFloat64):
		return fmt.Errorf("Retry.Factor is %v, want 0 or a finite value, at least 1", r.Factor)
	case !(r.Jitter >= 0 && r.Jitter <= 1):
		return fmt.Errorf("Retry.Jitter is %v, want a part from 0 to 1", r.Jitter)
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"Retry.Backoff", r.Backoff}, {"Retry.Max", r.Max}, {"Retry.Within", r.Within}} {
		if f.value < 0 {
			return fmt.Errorf("%s is %v, want at least 0", f.name, f.value)
		}
	}
	return nil
}

// FollowUp returns the retry that the end of an attempt leads to, or nothing.
// It is a function for sim.Config.FollowUp. It panics if a field is out of
// range.
func (r Retry) FollowUp(c sim.Completion) []sim.Request {
	if err := r.Validate(); err != nil {
		panic("workload: " + err.Error())
	}
	q := c.Request
	if q.Attempt+1 >= r.Attempts || !r.on(c) {
		return nil
	}
	if q.Attempt == 0 {
		q.First = q.Arrival
	}
	q.Attempt++
	known := c.End
	if c.Kind == sim.Reject {
		known = max(known, c.Client.Done) // the refusal has a way back
	}
	known = known.Add(q.Path.Before())
	wait := math.Round(r.backoff(q.ID, q.Attempt))
	if !(wait < float64(sim.Never-known)) {
		return nil // after the end of time
	}
	q.Arrival = known.Add(time.Duration(wait))
	if r.Within > 0 && q.Arrival.Sub(q.First) > r.Within || q.Deadline > 0 && q.Arrival > q.Deadline {
		return nil
	}
	return []sim.Request{q}
}

func (r Retry) on(c sim.Completion) bool {
	switch {
	case c.Kind != sim.Reject && c.Kind != sim.Abort:
		return false
	case r.On != nil:
		return r.On(c)
	}
	return Refused(c) || TimedOut(c)
}

// backoff returns the nanoseconds before retry n of a request, n from 1. They
// may be infinite.
func (r Retry) backoff(id, n int) float64 {
	d, factor, limit := float64(r.Backoff), r.Factor, math.Inf(1)
	if factor == 0 {
		factor = 2
	}
	if r.Max > 0 {
		limit = float64(r.Max)
	}
	// Products, not math.Pow, are the same everywhere.
	for i := 1; i < n && d < limit && d > 0 && factor > 1; i++ {
		d *= factor
	}
	d = min(d, limit)
	if r.Jitter > 0 {
		u := rand.New(Stream(r.Seed, "retry", mix(uint64(id))^uint64(n))).Float64()
		d *= 1 - float64(r.Jitter*u)
	}
	return d
}
