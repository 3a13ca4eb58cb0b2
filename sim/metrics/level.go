package metrics

import (
	"math"
	"math/bits"

	"servesim/sim"
)

// window is the part of a run that is measured: [from, to).
type window struct{ from, to sim.Time }

func (w window) holds(t sim.Time) bool { return w.from <= t && t < w.to }

// overlap returns the nanoseconds that [from, to) shares with the window.
func (w window) overlap(from, to sim.Time) int64 {
	return max(0, int64(min(to, w.to)-max(from, w.from)))
}

// level is a number that changes at instants, such as the length of a queue,
// with its exact integral over the window.
type level struct {
	n     int64
	since sim.Time // n holds from here on
	area  area
	peak  int64 // largest n that lasted longer than an instant
}

// move adds by to the level at t. Events come in order of time.
func (l *level) move(t sim.Time, by int64, w window) {
	l.extend(t, w)
	l.n += by
}

// extend carries the level on to t.
func (l *level) extend(t sim.Time, w window) {
	if d := w.overlap(l.since, t); d > 0 {
		l.area.add(l.n, d)
		l.peak = max(l.peak, l.n)
	}
	l.since = t
}

// area is a sum of products of a number and a time in nanoseconds, exact in
// 128 bits: a queue of a million over three hours overflows 64.
type area struct{ hi, lo uint64 }

// add adds n·d; d is not negative.
func (a *area) add(n, d int64) {
	hi, lo := bits.Mul64(uint64(n), uint64(d))
	hi -= uint64(n>>63) & uint64(d) // uint64(n) is 2⁶⁴ too large for n < 0
	var carry uint64
	a.lo, carry = bits.Add64(a.lo, lo, 0)
	a.hi, _ = bits.Add64(a.hi, hi, carry)
}

// join adds the sum b.
func (a *area) join(b area) {
	var carry uint64
	a.lo, carry = bits.Add64(a.lo, b.lo, 0)
	a.hi, _ = bits.Add64(a.hi, b.hi, carry)
}

// float returns the sum, rounded.
func (a area) float() float64 {
	if int64(a.hi) < 0 {
		lo, borrow := bits.Sub64(0, a.lo, 0)
		hi, _ := bits.Sub64(0, a.hi, borrow)
		return -area{hi, lo}.float()
	}
	return math.Ldexp(float64(a.hi), 64) + float64(a.lo)
}
