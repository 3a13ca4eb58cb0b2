package simtest

import (
	"math"
	"time"

	"servesim/sim"
)

// wires is the account of the link: what it carried, and how fast.
type wires struct {
	open int   // transfers under way
	only *wire // that one, if no other has been since it began
	lost bool  // some were given up, and what they had sent is unknown
	busy map[int]*busy
}

// wire is a transfer under way.
type wire struct {
	open      bool
	at        sim.Time
	positions int32
	bytes     float64
	ports     [3]int // out of its source, into its destination, the fabric
}

// busy is a time in which a port had transfers without a pause.
type busy struct {
	open, ended int
	since       sim.Time
	bytes       float64 // of those that have ended
}

// fabric is the port that all transfers share; replica i has 2i out and 2i+1 in.
const fabric = -1

// begin notes a transfer to a replica.
func (w *wires) begin(l *Laws, e *sim.Event, x *life, s *site) {
	from := x.source
	if x.early {
		from = x.replica
	}
	x.wire = wire{open: true, at: e.Time, positions: e.Tokens, ports: [3]int{2 * int(from), 2*int(e.Replica) + 1, fabric}}
	if l.Config.Link != nil {
		x.wire.bytes = float64(x.taken*s.blockTokens) * float64(l.Config.Link.TokenBytes)
	}
	if w.busy == nil {
		w.busy = make(map[int]*busy)
	}
	w.only = nil
	if w.open == 0 {
		w.only = &x.wire
	}
	w.open++
	for _, p := range x.wire.ports {
		b := w.busy[p]
		if b == nil {
			b = &busy{}
			w.busy[p] = b
		}
		if b.open == 0 {
			*b = busy{since: e.Time}
		}
		b.open++
	}
}

// end checks the time of a transfer, and what its ports have carried.
func (w *wires) end(l *Laws, e *sim.Event, x *life) {
	if !x.wire.open {
		return
	}
	if l.Config.Link != nil {
		w.check(l, e, &x.wire)
	}
	w.close(&x.wire)
}

func (w *wires) check(l *Laws, e *sim.Event, t *wire) {
	link, slowest := l.Config.Link, math.Inf(1)
	for _, p := range t.ports {
		rate, b := l.fastest(p), w.busy[p]
		slowest = min(slowest, rate)
		b.bytes += t.bytes
		b.ended++
		// The end of each is rounded to a nanosecond.
		took := e.Time.Sub(b.since) + time.Duration(b.ended)
		if b.bytes > rate*took.Seconds()*(1+1e-9) {
			l.violate(e, "a port of %g B/s has carried %g bytes in %d ns", rate, b.bytes, int64(e.Time.Sub(b.since)))
		}
	}
	least := link.Latency + time.Duration(math.Round(t.bytes/slowest*1e9))
	alone := w.only == t && !w.lost && link.Layers <= 1 && !l.linkWindows()
	if e.Took < least-1 || alone && e.Took > least+1 {
		l.violate(e, "%g bytes in %d ns, which take %d at least", t.bytes, int64(e.Took), int64(least))
	}
}

// close forgets a transfer.
func (w *wires) close(t *wire) {
	t.open = false
	w.open--
	if w.only == t {
		w.only = nil
	}
	for _, p := range t.ports {
		w.busy[p].open--
	}
}

// fastest returns the bytes per second of a port at the best of times.
func (l *Laws) fastest(port int) float64 {
	link := l.Config.Link
	rate := link.Bandwidth
	if port == fabric {
		if rate = link.Fabric; rate == 0 {
			return math.Inf(1)
		}
	}
	all, own := 1.0, 1.0
	for _, w := range l.Config.Windows {
		switch {
		case !w.Link || w.Pause:
		case w.Replica < 0:
			all = min(all, w.Factor)
		case port != fabric && w.Replica == port/2:
			own = min(own, w.Factor)
		}
	}
	return rate / (all * own)
}

// linkWindows reports whether the link is slow or stopped at times.
func (l *Laws) linkWindows() bool {
	for _, w := range l.Config.Windows {
		if w.Link {
			return true
		}
	}
	return false
}
