package sim_test

import (
	"math"
	"slices"
	"time"

	"servesim/sim"
	"servesim/sim/kv"
)

// refHeld is KV blocks of a replica that no sequence in its lists owns, because a
// transfer may still read or write them.
type refHeld struct {
	r      *refReplica
	blocks int
	cache  *kv.Cache // if they have hashes
	table  *kv.Table
}

// refFlow is a transfer.
type refFlow struct {
	s        *refSeq  // nil once the request has ended
	src, dst *refHeld // freed at the end
	from, to *refReplica
	opens    sim.Time // no byte moves before
	hit      int      // positions that the destination has
	bytes    float64  // in all
	ready    []refReady
	released float64 // may have moved by now
	left     float64 // of those
	rate     float64
	drained  sim.Time // when left will be 0
}

// refReady says from when on so many bytes may move.
type refReady struct {
	at    sim.Time
	bytes float64
}

// hold makes the blocks of s held.
func (s *refSeq) hold() *refHeld {
	h := &refHeld{r: s.home, blocks: s.blocks, cache: s.cache, table: s.table}
	s.home.held = append(s.home.held, h)
	s.blocks, s.table = 0, new(kv.Table)
	return h
}

// unhold takes h off the list of its replica.
func (h *refHeld) unhold() {
	h.r.held = slices.DeleteFunc(h.r.held, func(o *refHeld) bool { return o == h })
}

// free frees what is held; others may have waited for it.
func (e *refEngine) free(h *refHeld) {
	h.unhold()
	if h.cache != nil {
		h.cache.FreeTable(h.table)
	} else {
		h.r.take(-h.blocks)
	}
	e.touch(h.r)
}

// decoder asks which replica decodes s.
func (e *refEngine) decoder(s *refSeq) *refReplica {
	loads := e.loads()
	to := slices.IndexFunc(loads, func(l sim.Load) bool { return l.Role != sim.RolePrefill })
	if e.cfg.Handoff != nil {
		to = e.cfg.Handoff.Route(e.now, s.query(), loads)
	}
	if to < 0 || to >= len(loads) || loads[to].Closed || loads[to].Role == sim.RolePrefill {
		return nil
	}
	return e.replicas[to]
}

// announce tells a replica that it is going to decode s, whose prompt is being
// computed.
func (e *refEngine) announce(s *refSeq) {
	if e.cfg.Link == nil || e.cfg.Link.Layers < 2 || s.home.cfg.Role != sim.RolePrefill || s.dest != nil {
		return
	}
	if to := e.decoder(s); to != nil {
		s.dest = to
		to.coming = append(to.coming, s)
		e.touch(to)
	}
}

// forget takes s off the list of those that come.
func (e *refEngine) forget(s *refSeq) {
	if s.dest != nil {
		s.dest.coming = slices.DeleteFunc(s.dest.coming, func(o *refSeq) bool { return o == s })
		e.touch(s.dest)
		s.dest = nil
	}
}

// handOver moves s, whose prompt is complete, to the replica that decodes it.
func (e *refEngine) handOver(s *refSeq) {
	from, to := s.home, s.dest
	if to == nil {
		to = e.decoder(s)
	}
	reason := sim.RejectNoRoute
	if to != nil {
		reason = to.refuses(s)
	}
	if reason == "" && refBlocks(s.req.Prompt+s.generated, to.cfg.BlockTokens) > to.usable && !to.cfg.Strict {
		reason = sim.RejectOutOfKV
	}
	if reason != "" {
		e.drop(s)
		e.finish(s, sim.Reject, reason)
		return
	}
	if to.length(s); s.generated >= s.output { // less there than here
		e.drop(s)
		e.finish(s, sim.Finish, s.reason)
		return
	}
	from.remove(s)
	s.keep, s.keepSlot = false, false
	s.away = s.hold()
	e.forget(s)
	s.remote, s.computed = s.computed, 0
	s.state = sim.Remote
	to.own(s)
	if early := s.early; early != nil {
		early.unhold()
		s.blocks, s.table, s.early = early.blocks, early.table, nil
		s.state = sim.Pulling
		e.advance()
		s.flow.src = s.away
		e.rerate()
	}
	to.enqueue(s, false)
	e.emit(s, sim.Handoff)
	e.touch(from)
	e.touch(to)
}

// startFlow begins the transfer of s.
func (e *refEngine) startFlow(s *refSeq, to *refReplica) {
	s.asked = e.now
	e.tell(s, sim.Event{Kind: sim.Pull, Cached: int32(s.hit), Tokens: int32(s.coming() - s.hit), Preemptions: int32(s.preempted), Replica: int32(to.index)})
	e.advance()
	block := to.cfg.BlockTokens
	f := &refFlow{s: s, to: to, opens: e.now.Add(e.cfg.Link.Latency), hit: s.hit}
	f.bytes = float64(refBlocks(s.coming(), block)-s.hit/block) * float64(block) * float64(e.cfg.Link.TokenBytes)
	s.flow = f
	e.flows = append(e.flows, f)
	if s.state == sim.Pulling {
		f.from, f.src = s.away.r, s.away
		e.ready(f, e.now, f.bytes)
	} else { // what is computed, and what a step computes
		f.from = s.home
		chunk, timed := 0, false
		for _, step := range s.home.flying {
			timed = step.took > 0
			for _, part := range step.parts {
				if part.s == s {
					chunk = part.tokens
				}
			}
		}
		e.ready(f, e.now, e.bytesOf(f, s.computed-chunk))
		if chunk > 0 && timed {
			e.layers(f, chunk)
		}
	}
	e.rerate()
}

// coming returns the positions that a transfer of s is about.
func (s *refSeq) coming() int {
	if s.dest != nil {
		return s.req.Prompt
	}
	return s.remote
}

// bytesOf returns what f moves of the first positions of a prompt. The last
// block moves whole.
func (e *refEngine) bytesOf(f *refFlow, positions int) float64 {
	if positions >= f.s.req.Prompt {
		return f.bytes
	}
	return min(f.bytes, float64(max(0, positions-f.hit)*int(e.cfg.Link.TokenBytes)))
}

// layers makes all layers but the last of the chunk in flight ready when the
// first of them is computed.
func (e *refEngine) layers(f *refFlow, chunk int) {
	step, layers := f.s.home.flying[0], float64(e.cfg.Link.Layers)
	before, after := e.bytesOf(f, f.s.computed-chunk), e.bytesOf(f, f.s.computed)
	at := step.began.Add(time.Duration(math.Round(float64(step.took) / layers)))
	e.ready(f, at, before+(after-before)*(layers-1)/layers)
}

// ready lets so many bytes of f move from an instant on.
func (e *refEngine) ready(f *refFlow, at sim.Time, bytes float64) {
	f.ready = append(f.ready, refReady{max(at, f.opens), bytes})
	f.release(e.now)
}

// release lets go what is ready.
func (f *refFlow) release(now sim.Time) {
	for _, x := range f.ready {
		if x.at <= now && x.bytes > f.released {
			f.left += x.bytes - f.released
			f.released = x.bytes
		}
	}
	f.ready = slices.DeleteFunc(f.ready, func(x refReady) bool { return x.at <= now || x.bytes <= f.released && x.bytes < f.bytes })
}

// advance moves bytes up to now.
func (e *refEngine) advance() {
	for _, f := range e.flows {
		switch {
		case f.left == 0:
		case f.drained <= e.now:
			f.left = 0
		default:
			f.left -= f.rate * e.now.Sub(e.rated).Seconds()
		}
		f.release(e.now)
	}
	e.rated = e.now
}

// rerate gives every flow its max-min fair rate: the tightest port is shared
// evenly among its flows, then the next with what is left.
func (e *refEngine) rerate() {
	var open []*refFlow
	for _, f := range e.flows {
		f.rate = 0
		if f.left > 0 {
			open = append(open, f)
		}
	}
	// Ports: out and in of every replica, then the fabric.
	fabric := 2 * len(e.replicas)
	through := func(f *refFlow, port int) bool {
		return port == fabric || port == 2*f.from.index || port == 2*f.to.index+1
	}
	var free []float64
	for port := range fabric + 1 {
		free = append(free, e.capacity(port, fabric))
	}
	for len(open) > 0 {
		tight, least := -1, math.Inf(1)
		for port := range free {
			n := 0
			for _, f := range open {
				if through(f, port) {
					n++
				}
			}
			if n > 0 && free[port]/float64(n) < least {
				tight, least = port, free[port]/float64(n)
			}
		}
		var rest []*refFlow
		for _, f := range open {
			if !through(f, tight) {
				rest = append(rest, f)
				continue
			}
			f.rate = least
			for port := range free {
				if through(f, port) {
					free[port] = max(0, free[port]-least)
				}
			}
		}
		open = rest
	}
	for _, f := range e.flows {
		f.drained = sim.Never
		if f.left > 0 && f.rate > 0 {
			if d := math.Round(f.left / f.rate * 1e9); d < float64(sim.Never-e.now) {
				f.drained = e.now + sim.Time(d)
			}
		}
	}
	e.rated = e.now
}

// capacity returns what a port carries now.
func (e *refEngine) capacity(port, fabric int) float64 {
	c := e.cfg.Link.Bandwidth
	if port == fabric {
		if c = e.cfg.Link.Fabric; c == 0 {
			return math.Inf(1)
		}
	}
	for _, w := range e.cfg.Windows {
		if !w.Link || w.From > e.now || w.To <= e.now || w.Replica >= 0 && (port == fabric || w.Replica != port/2) {
			continue
		}
		if w.Pause {
			return 0
		}
		c /= w.Factor
	}
	return c
}

// moved reports whether all of f has.
func (f *refFlow) moved() bool {
	return f.left == 0 && len(f.ready) == 0 && f.released >= f.bytes && (f.s == nil || f.s.dest == nil)
}

// linkDue returns when something happens on the link next.
func (e *refEngine) linkDue() sim.Time {
	due := sim.Never
	for _, f := range e.flows {
		due = min(due, f.drained)
		for _, x := range f.ready {
			due = min(due, x.at)
		}
		if f.moved() {
			due = e.now
		}
	}
	for _, w := range e.cfg.Windows {
		for _, edge := range []sim.Time{w.From, w.To} {
			if w.Link && len(e.flows) > 0 && edge > e.rated {
				due = min(due, edge)
			}
		}
	}
	return due
}

// linkHappens ends the transfers whose bytes have moved, in the order in which
// they began.
func (e *refEngine) linkHappens() {
	e.advance()
	for _, f := range slices.Clone(e.flows) {
		if !f.moved() {
			continue
		}
		e.flows = slices.DeleteFunc(e.flows, func(o *refFlow) bool { return o == f })
		if f.s != nil {
			e.received(f.s)
		}
		for _, h := range []*refHeld{f.src, f.dst} {
			if h != nil {
				e.free(h)
			}
		}
	}
	e.rerate()
}

// received lets s wait for its turn: its KV is here, but for the last position.
func (e *refEngine) received(s *refSeq) {
	moved := s.remote - s.hit
	e.res.Transfers++
	e.res.Transferred += int64(moved)
	s.computed = min(s.remote, s.req.Prompt+s.generated-1)
	s.remote, s.flow, s.away = 0, nil, nil
	if s.cache != nil {
		s.cache.Register(s.table, s.known(), s.computed)
		s.cache.Computed(s.table, s.computed)
	}
	s.state, s.pulled = sim.Waiting, true
	e.tell(s, sim.Event{Kind: sim.Pulled, Tokens: int32(moved), Took: e.now.Sub(s.asked), Preemptions: int32(s.preempted)})
	e.touch(s.home)
}

// orphan keeps the blocks of s, which ends, until what is ready of its transfer
// has moved.
func (e *refEngine) orphan(s *refSeq) {
	f := s.flow
	e.advance()
	if own := s.hold(); s.dest == nil {
		f.dst = own
	} else {
		f.src, f.dst = own, s.early
	}
	s.away, s.early, s.flow = nil, nil, nil
	f.s, f.ready, f.bytes = nil, nil, f.released
	if f.to.cfg.FreeAborted {
		e.free(f.dst)
		f.dst = nil
	}
	e.rerate()
}
