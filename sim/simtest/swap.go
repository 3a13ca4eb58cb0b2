package simtest

import "servesim/sim"

// host is the account of a replica's host memory.
type host struct {
	limit   int  // blocks
	blocks  int  // in use, as steps say
	unknown bool // somebody ended there, with an unknown number of them
	there   copied

	// What the events since the latest step say of it.
	out, in copied
}

// copied counts sequences, and blocks that they have at least.
type copied struct{ count, blocks int }

func (c *copied) add(count, blocks int) {
	c.count += count
	c.blocks += blocks
}

// swapOut notes that a sequence with that many positions, or more, went to host
// memory.
func (s *site) swapOut(positions int64) {
	n := s.swappedBlocks(positions)
	s.host.out.add(1, n)
	s.host.there.add(1, n)
}

// swapIn notes that one came back with so many.
func (s *site) swapIn(least, positions int64) {
	s.host.in.add(1, s.swappedBlocks(positions))
	s.host.there.add(-1, -s.swappedBlocks(least))
}

// endSwapped notes that one ended there.
func (s *site) endSwapped(least int64) {
	s.host.unknown = true
	s.host.there.add(-1, -s.swappedBlocks(least))
}

// swappedBlocks returns the fewest blocks of a sequence with so many positions.
func (s *site) swappedBlocks(positions int64) int { return max(1, s.blocksFor(int(positions))) }

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
	switch {
	case h.blocks < 0:
		l.violate(e, "%d blocks more are swapped in than out", -h.blocks)
	case h.unknown:
	case h.blocks > h.limit && s.known || h.blocks < h.there.blocks || h.there.count == 0 && h.blocks > 0:
		l.violate(e, "%d blocks in host memory of %d for %d sequences, which have %d at least", h.blocks, h.limit, h.there.count, h.there.blocks)
	}
	if h.there.count == 0 {
		h.blocks, h.unknown = 0, false
	}
}
