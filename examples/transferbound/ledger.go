package main

import (
	"fmt"
	"time"

	"servesim/sim"
)

// part is a stretch of the way to the first token. The parts of a request add up
// to its TTFT, to the nanosecond.
type part int

const (
	queue       part = iota // for a prefill replica
	prefill                 // the steps that compute the prompt
	room                    // for blocks, and the end of a step, on the decode side
	wire                    // the transfer, as if it had the link for itself
	contention              // with other transfers
	decodeQueue             // for the next step of the decode side
	decode                  // the step that samples the first token

	parts = int(decode) + 1
)

var partNames = [parts]string{"queue", "prefill", "room", "wire", "contention", "decode_queue", "first_decode"}

func (p part) String() string { return partNames[p] }

// way is where the time of one request up to its first token went.
type way struct {
	ttft  time.Duration
	parts [parts]time.Duration
}

// ledger is an observer that follows every request to its first token. What a
// preemption before that costs counts as decode queue.
type ledger struct {
	link       sim.Link
	block      int // tokens
	alive      map[int64]*instants
	ways       []way
	unexpected error
}

// instants are those that an event's Timeline does not have.
type instants struct {
	pulled, arrived, admitted sim.Time
	wire                      time.Duration
}

// Observe implements sim.Observer.
func (l *ledger) Observe(e sim.Event) {
	x := l.alive[e.Serial]
	switch e.Kind {
	case sim.Handoff:
		l.alive[e.Serial] = &instants{}
	case sim.Pull:
		x.pulled = e.Time
		x.wire = l.alone(int(e.Tokens))
	case sim.Pulled:
		x.arrived = e.Time
	case sim.Admit:
		if x != nil {
			x.admitted = e.Time
		}
	case sim.FirstToken:
		if x == nil {
			l.unexpected = fmt.Errorf("request %d had its first token from the prefill side", e.ID)
			return
		}
		delete(l.alive, e.Serial)
		l.ways = append(l.ways, x.way(e))
	}
}

// alone returns how long the KV of so many tokens takes by itself; blocks move
// whole.
func (l *ledger) alone(tokens int) time.Duration {
	blocks := (tokens + l.block - 1) / l.block
	bytes := float64(blocks*l.block) * float64(l.link.TokenBytes)
	return l.link.Latency + sim.Round(bytes/l.link.Bandwidth)
}

// way adds up the parts of a request at its first token.
func (x *instants) way(e sim.Event) way {
	t := e.Timeline
	w := way{ttft: e.Time.Sub(t.Arrival)}
	w.parts[queue] = t.Admitted.Sub(t.Arrival)
	w.parts[prefill] = t.PrefillEnd.Sub(t.Admitted)
	w.parts[room] = x.pulled.Sub(t.PrefillEnd)
	w.parts[wire] = x.wire
	w.parts[contention] = x.arrived.Sub(x.pulled) - x.wire
	w.parts[decodeQueue] = x.admitted.Sub(x.arrived)
	w.parts[decode] = e.Time.Sub(x.admitted)
	return w
}
