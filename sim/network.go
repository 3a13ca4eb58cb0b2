package sim

import (
	"math"
	"time"
)

// network carries the transfers of a run over its link.
type network struct {
	e     *engine
	link  *Link
	flows []*flow // in order of their start
	last  Time    // instant up to which flow.left counts
	next  Time    // instant of the pending event
	event int64   // its number; others are out of date
	ports []port  // of each replica: out, in; then the fabric
}

// port is a resource that flows share.
type port struct {
	windows []Window // when it is slow
	free    float64  // bytes per second not given out yet
	flows   int      // without a rate yet
}

// flow is one transfer. Bytes wait in left until they have gone; those that are
// still being computed, or wait for the latency, are in due.
type flow struct {
	s        *Sequence // nil once the request has ended
	src, dst *account  // blocks to free at the end; dst only if the request has ended
	from, to int32     // replicas
	opens    Time      // no byte moves before
	bytes    float64   // in all
	hit      int       // positions that the destination had
	released float64   // bytes that may have moved by now
	due      []stage
	left     float64
	rate     float64 // bytes per second
	drained  Time    // when left will be 0, at this rate
}

// stage lets a transfer get further at an instant: to so many bytes.
type stage struct {
	at    Time
	bytes float64
}

func (n *network) init(e *engine) {
	n.e, n.link, n.next = e, e.cfg.Link, Never
	if n.link == nil {
		return
	}
	n.ports = make([]port, 2*len(e.cfg.Replicas)+1)
	for _, w := range e.cfg.Windows {
		if !w.Link {
			continue
		}
		for i := range n.ports {
			if w.Replica < 0 || i/2 == w.Replica && i < len(n.ports)-1 {
				n.ports[i].windows = append(n.ports[i].windows, w)
			}
		}
	}
}

// start begins the transfer of s to a replica that has taken the blocks for it.
func (n *network) start(s *Sequence, to *Stepper) {
	now := n.e.now
	f := &flow{s: s, to: to.index, opens: now.Add(n.link.Latency), hit: s.hit}
	block := to.limits.BlockTokens
	f.bytes = float64(to.memory.Blocks(s.coming())-s.hit/block) * float64(block) * float64(n.link.TokenBytes)
	n.advance()
	n.flows = append(n.flows, f)
	s.flow = f
	if s.dest == nil {
		f.from, f.src = s.away.st.index, s.away
		if s.clerk != nil {
			s.clerk.alone = n.alone(f)
		}
		n.release(f, f.opens, f.bytes)
	} else {
		f.from = s.home.index
		n.catchUp(f)
	}
	n.reschedule()
}

// alone returns what a transfer takes that nobody disturbs.
func (n *network) alone(f *flow) time.Duration {
	rate := n.link.Bandwidth
	if n.link.Fabric > 0 {
		rate = min(rate, n.link.Fabric)
	}
	return n.link.Latency + time.Duration(math.Round(f.bytes/rate*1e9))
}

// catchUp lets what has been computed of the prompt of f go, and in its time
// what the step in flight computes. A step of a group that is still planning has
// no time; computes follows when it has.
func (n *network) catchUp(f *flow) {
	s := f.s
	st := s.home
	done, chunk := s.computed, 0
	if st.step.active {
		for _, a := range st.step.chunks {
			if a.s == s {
				chunk = a.tokens
			}
		}
		for _, a := range st.step.rows {
			if a.s == s {
				chunk = a.tokens
			}
		}
	}
	n.release(f, n.e.now, n.bytesOf(f, done-chunk))
	if chunk > 0 && st.step.took > 0 {
		n.ahead(f, st, chunk)
	}
}

// computes lets the layers that the step in flight computes follow each other
// onto the link. It leaves the link alone if none of them is being sent.
func (n *network) computes(st *Stepper) {
	for _, l := range [][]assignment{st.step.chunks, st.step.rows} {
		for _, a := range l {
			if a.s.flow != nil {
				n.advance()
				n.ahead(a.s.flow, st, a.tokens)
				n.reschedule()
			}
		}
	}
}

// ahead lets all layers but the last of a chunk go from the instant at which
// the step has computed one: from there on they come as fast as they are sent,
// or faster.
func (n *network) ahead(f *flow, st *Stepper, chunk int) {
	before, after := n.bytesOf(f, f.s.computed-chunk), n.bytesOf(f, f.s.computed)
	layers := float64(n.link.Layers)
	began := st.step.end.Add(-st.step.took)
	n.release(f, began.Add(time.Duration(math.Round(float64(st.step.took)/layers))), before+(after-before)*(layers-1)/layers)
}

// computed lets the KV of what s has computed go, at the end of a step.
func (n *network) computed(s *Sequence) {
	n.advance()
	n.release(s.flow, n.e.now, n.bytesOf(s.flow, s.computed))
	n.reschedule()
}

// bytesOf returns what f moves of the first positions of its prompt.
func (n *network) bytesOf(f *flow, positions int) float64 {
	if positions >= f.s.req.Prompt {
		return f.bytes
	}
	return min(f.bytes, float64(max(0, positions-f.hit))*float64(n.link.TokenBytes))
}

// release lets f get to so many bytes at an instant.
func (n *network) release(f *flow, at Time, bytes float64) {
	if bytes <= f.released && bytes < f.bytes {
		return
	}
	if at = max(at, f.opens); at > n.e.now {
		f.due = append(f.due, stage{at, bytes})
		return
	}
	f.get(bytes)
}

func (f *flow) get(bytes float64) {
	if bytes > f.released {
		f.left += bytes - f.released
		f.released = bytes
	}
}

// done reports whether all of f has moved.
func (f *flow) done() bool {
	computing := f.s != nil && f.s.dest != nil
	return f.left == 0 && len(f.due) == 0 && f.released >= f.bytes && !computing
}

// happen lets everything that is due now happen on the link.
func (n *network) happen() {
	n.next = Never
	n.advance()
	ended := false
	for _, f := range n.flows {
		if f.done() {
			ended = true
			n.end(f)
		}
	}
	if ended {
		kept := n.flows[:0]
		for _, f := range n.flows {
			if !f.done() {
				kept = append(kept, f)
			}
		}
		clear(n.flows[len(kept):])
		n.flows = kept
	}
	n.reschedule()
}

// advance moves bytes up to now, and lets those go that are due.
func (n *network) advance() {
	now := n.e.now
	for _, f := range n.flows {
		switch {
		case f.left > 0 && f.drained <= now:
			f.left = 0
		case f.left > 0:
			f.left -= float64(f.rate * now.Sub(n.last).Seconds())
		}
		kept := f.due[:0]
		for _, x := range f.due {
			if x.at <= now {
				f.get(x.bytes)
			} else {
				kept = append(kept, x)
			}
		}
		f.due = kept
	}
	n.last = now
}

// end ends a transfer: the source is free, and the request goes on.
func (n *network) end(f *flow) {
	if f.s != nil {
		s := f.s
		s.flow, s.away = nil, nil
		st := s.home
		st.received(s)
		n.e.look(st)
	}
	for _, a := range []*account{f.src, f.dst} {
		if a != nil {
			a.free()
		}
	}
}

// handedOver tells the transfer of s, which has begun early, that its blocks at
// the source are in an account now.
func (n *network) handedOver(s *Sequence) {
	s.flow.src = s.away
	n.reschedule()
}

// orphan keeps the blocks of a request that has ended until what is on the link
// of its transfer has moved; nothing more is sent.
func (n *network) orphan(s *Sequence) {
	f := s.flow
	n.advance()
	own := s.home.openAccount(s.blockSet)
	s.blockSet = blockSet{}
	if s.dest == nil {
		f.dst = own // f.src is s.away
	} else {
		f.src, f.dst = own, s.away
	}
	s.away, s.flow, f.s = nil, nil, nil
	f.due, f.bytes = nil, f.released
	if n.e.cfg.Replicas[f.to].FreeAborted {
		f.dst.free()
		f.dst = nil
	}
	n.reschedule()
}

// reschedule shares the link and says when something will happen on it next.
func (n *network) reschedule() {
	n.share()
	next := Never
	for _, f := range n.flows {
		f.drained = Never
		if f.left > 0 && f.rate > 0 {
			if d := math.Round(f.left / f.rate * 1e9); d < float64(Never-n.e.now) {
				f.drained = n.e.now + Time(d)
			}
		}
		next = min(next, f.drained)
		for _, x := range f.due {
			next = min(next, x.at)
		}
		if f.done() {
			next = n.e.now
		}
	}
	if len(n.flows) > 0 {
		next = min(next, n.edge())
	}
	if next == n.next {
		return
	}
	n.next = next
	n.event++
	if next < Never {
		n.e.push(entry{at: next, kind: linkEvent, replica: -1, serial: n.event})
	}
}

// edge returns the next instant at which a window of the link opens or closes.
func (n *network) edge() Time {
	next := Never
	for i := range n.ports {
		for _, w := range n.ports[i].windows {
			for _, t := range [...]Time{w.From, w.To} {
				if t > n.e.now {
					next = min(next, t)
				}
			}
		}
	}
	return next
}

// share gives every flow that has bytes to send its max-min fair rate: the port
// on which the flows get least is divided among them, and again for the rest.
func (n *network) share() {
	for i := range n.ports {
		n.ports[i].flows = 0
	}
	open := 0
	for _, f := range n.flows {
		if f.rate = 0; f.left > 0 {
			f.rate = -1 // none yet
			open++
			for _, p := range n.path(f) {
				n.ports[p].flows++
			}
		}
	}
	if open == 0 {
		return
	}
	for i := range n.ports {
		if p := &n.ports[i]; p.flows > 0 {
			p.free = n.capacity(i)
		}
	}
	for open > 0 {
		tight, least := 0, math.Inf(1)
		for i := range n.ports {
			if p := &n.ports[i]; p.flows > 0 && p.free/float64(p.flows) < least {
				tight, least = i, p.free/float64(p.flows)
			}
		}
		for _, f := range n.flows {
			path := n.path(f)
			if f.rate >= 0 || path[0] != tight && path[1] != tight && path[2] != tight {
				continue
			}
			f.rate = least
			open--
			for _, p := range path {
				n.ports[p].flows--
				n.ports[p].free = max(0, n.ports[p].free-least)
			}
		}
	}
}

// path returns the ports that f uses: out of its source, into its destination,
// the fabric.
func (n *network) path(f *flow) [3]int {
	return [3]int{2 * int(f.from), 2*int(f.to) + 1, len(n.ports) - 1}
}

// capacity returns what a port carries now.
func (n *network) capacity(i int) float64 {
	c := n.link.Bandwidth
	if i == len(n.ports)-1 {
		if c = n.link.Fabric; c == 0 {
			return math.Inf(1)
		}
	}
	for _, w := range n.ports[i].windows {
		if w.From <= n.e.now && n.e.now < w.To {
			if w.Pause {
				return 0
			}
			c /= w.Factor
		}
	}
	return c
}
