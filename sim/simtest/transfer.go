package simtest

import "servesim/sim"

// transfer is what is known of a request between two replicas.
type transfer struct {
	early  bool  // being fetched although its prompt is not complete
	kept   bool  // its blocks are kept until they have left
	source int32 // by this replica
	held   int   // so many
	to     int32 // replica that took blocks for it
	taken  int   // so many of its own
	wire   wire
}

// handoff moves a request to the replica that decodes it.
func (l *Laws) handoff(e *sim.Event, x *life) {
	from := x.replica
	if n := len(l.Config.Replicas); e.Replica < 0 || n > 0 && int(e.Replica) >= n || e.Replica == from || from < 0 {
		l.violate(e, "handed over to replica %d of %d, from replica %d", e.Replica, n, from)
		return
	}
	src, dst := l.site(from), l.site(e.Replica)
	if src.known && (src.role != sim.RolePrefill || dst.role == sim.RolePrefill) {
		l.violate(e, "handed over by a replica for %v to one for %v", src.role, dst.role)
	}
	if x.timeline.PrefillEnd != e.Time {
		l.violate(e, "handed over with a prompt that was complete at %d ns", int64(x.timeline.PrefillEnd))
	}
	if e.Output != one(!src.fromDecode) && src.known || e.Output > 1 || e.GapsOver != 0 {
		l.violate(e, "handed over with %d tokens", e.Output)
	}
	if dst.closed && !(l.layers() && x.timeline.Admitted <= dst.closedAt) {
		l.violate(e, "handed over to a replica that was closed at %d ns", int64(dst.closedAt))
	}
	if x.early && x.to != e.Replica {
		l.violate(e, "handed over to replica %d, replica %d fetches it", e.Replica, x.to)
	}
	if x.early {
		x.early = false
		dst.coming--
	}
	l.hold(e, x, from)
	if x.class >= 0 {
		src.book(x.class).outputs += int64(e.Output)
		if e.Output > 0 {
			dst.book(x.class).last[e.Time]++
		}
	}
	x.replica, x.had = e.Replica, e.Output
}

// hold notes the blocks that the source keeps until they have left. What a
// prefix cache shares is not counted.
func (l *Laws) hold(e *sim.Event, x *life, from int32) {
	s := l.site(from)
	x.kept, x.source = true, from
	s.holds++
	if s.blockTokens > 0 && !s.shares {
		x.held = s.blocksFor(x.prompt)
		s.note(e.Time, func(m *moment) { m.apart += x.held })
	}
}

// early reports whether a request may be fetched before its prompt is complete.
func (l *Laws) early(x *life) bool {
	return l.layers() && l.hasRole(x.replica, sim.RolePrefill) && !x.early
}

// layers reports whether the link sends prompts while they are computed.
func (l *Laws) layers() bool { return l.Config.Link == nil || l.Config.Link.Layers > 1 }

// pull begins a transfer, for which the destination has taken the blocks.
func (l *Laws) pull(e *sim.Event, x *life) {
	if n := len(l.Config.Replicas); e.Replica < 0 || n > 0 && (int(e.Replica) >= n || l.Config.Link == nil) {
		l.violate(e, "a transfer to replica %d of %d", e.Replica, n)
		return
	}
	s := l.site(e.Replica)
	if x.wire.open {
		l.violate(e, "a second transfer")
		return
	}
	if x.place != remote && x.place != pulling {
		x.early = true
		s.coming++
		if e.Replica == x.replica || s.known && s.role == sim.RolePrefill {
			l.violate(e, "a transfer to replica %d from replica %d", e.Replica, x.replica)
		}
	}
	if int(e.Tokens+e.Cached) != x.prompt || e.Tokens < 0 || e.Tokens == 0 && !s.eager {
		l.violate(e, "%d positions are fetched and %d there, of %d", e.Tokens, e.Cached, x.prompt)
	}
	if e.Cached < 0 || e.Cached > 0 && !s.shares || s.blockTokens > 0 && int(e.Cached)%s.blockTokens != 0 {
		l.violate(e, "a hit of %d positions in blocks of %d", e.Cached, s.blockTokens)
	}
	x.to = e.Replica
	if s.blockTokens > 0 {
		x.taken = s.blocksFor(x.prompt) - int(e.Cached)/s.blockTokens
		s.note(e.Time, func(m *moment) { m.apart += x.taken })
	}
	l.wires.begin(l, e, x, s)
}

// pulled ends a transfer: the source is free.
func (l *Laws) pulled(e *sim.Event, x *life) {
	w := &x.wire
	if !w.open || e.Tokens != w.positions || e.Took != e.Time.Sub(w.at) {
		l.violate(e, "%d positions in %d ns of a transfer of %d that began at %d ns", e.Tokens, int64(e.Took), w.positions, int64(w.at))
	}
	l.counts.Transfers++
	l.counts.Transferred += int64(e.Tokens)
	l.wires.end(l, e, x)
	l.sent(e, x)
	// A prefix cache shares the blocks from here on.
	if l.site(x.to).shares {
		l.giveBack(e, x)
	}
}

// sent frees the blocks at the source.
func (l *Laws) sent(e *sim.Event, x *life) {
	if x.kept {
		s := l.site(x.source)
		s.note(e.Time, func(m *moment) { m.apart -= x.held })
		s.holds--
		x.kept, x.held = false, 0
	}
}

// release ends what there is of a transfer when a request is admitted where it
// is decoded. One that is still computed elsewhere may be on the way.
func (l *Laws) release(e *sim.Event, x *life) {
	if x.place == remote || x.place == pulled {
		l.sent(e, x)
		l.giveBack(e, x)
	}
}

// letGo ends what there is of a transfer when a request ends. What is on the
// link of it moves on, and blocks are kept for that, which no event tells.
func (l *Laws) letGo(e *sim.Event, x *life) {
	if x.early {
		l.site(x.to).coming--
	}
	if x.wire.open {
		l.wires.close(&x.wire)
		l.wires.lost = true
	}
	l.sent(e, x)
	l.giveBack(e, x)
}

// giveBack ends the account of the blocks that the destination took.
func (l *Laws) giveBack(e *sim.Event, x *life) {
	if x.taken > 0 {
		l.site(x.to).note(e.Time, func(m *moment) { m.apart -= x.taken })
		x.taken = 0
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
