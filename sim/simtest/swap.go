package simtest

import "servesim/sim"

// host is the account of a replica's host memory.
type host struct {
	limit   int  // blocks
	blocks  int  // in use, as steps say
	unknown bool // somebody ended there, with an unknown number of them

	// What the events since the latest step say of it.
	out, in copied
}

// copied counts sequences, and blocks that they have at least.
type copied struct{ count, blocks int }

// swaps compares the copies of a step with the sequences that were swapped out
// and in when it began.
func (l *Laws) swaps(e *sim.Event, s *site) {
	h, b := &s.host, e.Batch
	for _, c := range []struct {
		what   string
		blocks int
		events copied
	}{{"out", b.SwapOut, h.out}, {"in", b.SwapIn, h.in}} {
		if c.blocks < c.events.blocks || c.events.count == 0 && c.blocks != 0 {
			l.violate(e, "%d blocks are swapped %s with %d sequences, which have %d at least", c.blocks, c.what, c.events.count, c.events.blocks)
		}
	}
	h.out, h.in = copied{}, copied{}
	h.blocks += b.SwapOut - b.SwapIn
	if h.blocks < 0 || !h.unknown && h.blocks > h.limit && s.known {
		l.violate(e, "%d blocks in host memory of %d", h.blocks, h.limit)
	}
}
