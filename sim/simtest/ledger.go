package simtest

import (
	"time"

	"servesim/sim"
)

// ledger has two sides for everything that is conserved in a replica: what
// steps did, and what requests say they got.
type ledger struct {
	books []*book // by class
	alive int     // requests that the end of the run finds here

	// context bounds the positions in the KV cache of the running sequences,
	// shared ones counted for each.
	context bounds
	// Pairs of a position that is kept and one that it sees, itself included:
	// by steps, and by residencies that ended.
	computed, pairs bounds
	// Positions: by steps but for rejected drafts, and by residencies that ended.
	done  int64
	needs bounds
	// Samples that gave no token.
	unsampled int64
}

// bounds are the least and the most that something can be.
type bounds struct{ lo, hi int64 }

func (b *bounds) add(n bounds) {
	b.lo += n.lo
	b.hi += n.hi
}

// departure is a residency that ended with so many positions computed.
type departure struct {
	at        sim.Time
	kind      sim.Kind
	positions bounds
}

// book is the account of the tokens of one class.
type book struct {
	tokens, outputs int64 // sampled by steps; received by requests
	late, gapsOver  int64 // gaps over the target, of steps; of requests

	// gaps counts the requests that step number step gave a token after their
	// first.
	gaps int
	step int64

	// last counts the requests by the instant of their latest token, so that
	// every gap is known to begin where a token was. Requests that ended at an
	// unknown instant of theirs stay in it.
	last map[sim.Time]int
}

func (l *ledger) book(class int) *book {
	for class >= len(l.books) {
		l.books = append(l.books, &book{last: make(map[sim.Time]int)})
	}
	return l.books[class]
}

// drop takes n requests whose latest token came at t out of the book.
func (b *book) drop(t sim.Time, n int) bool {
	have := b.last[t]
	if n > have {
		return false
	}
	if n == have {
		delete(b.last, t)
	} else {
		b.last[t] = have - n
	}
	return true
}

// gap moves the requests of a gap group from one token to the next.
func (l *Laws) gap(e *sim.Event, s *site, g sim.GapGroup) {
	if g.Count < 1 || g.Class < 0 || g.Prev < 0 || g.Prev > e.Time || g.Prev == e.Time && s.perStep == 1 {
		l.violate(e, "gap group %+v", g)
		return
	}
	b := s.book(g.Class)
	if b.step != s.steps {
		b.step, b.gaps = s.steps, 0
	}
	if g.Prev == e.Time {
		l.accept(e, s, b, g)
		return
	}
	b.gaps += g.Count
	if !b.drop(g.Prev, g.Count) {
		l.violate(e, "%d gaps of class %d begin at %d ns, where %d requests had their latest token", g.Count, g.Class, int64(g.Prev), b.last[g.Prev])
	}
	b.last[e.Time] += g.Count
	b.tokens += int64(g.Count)
	if target := l.gapTarget(g.Class); target > 0 && e.Time.Sub(g.Prev) > target {
		b.late += int64(g.Count)
	}
}

// accept books the tokens that requests got beside the one that ended a gap.
func (l *Laws) accept(e *sim.Event, s *site, b *book, g sim.GapGroup) {
	if most := b.gaps * (s.perStep - 1); g.Count > most {
		l.violate(e, "%d gaps of zero for class %d, whose %d gaps allow %d", g.Count, g.Class, b.gaps, most)
	}
	b.tokens += int64(g.Count)
	s.accepted += g.Count
	l.counts.Accepted += int64(g.Count)
}

// gapTarget returns the gap target of a class, 0 if there is none.
func (l *Laws) gapTarget(class int) time.Duration {
	if class < 0 || class >= len(l.Config.Classes) {
		return 0
	}
	return l.Config.Classes[class].Gap
}

// positions follows the context that is stored through a step. What left the
// replica before it is gone, what left on the way was part of it. If all that
// run are in the batch, its context is all there is. With several steps in
// flight only the sums over the run are known.
func (l *Laws) positions(e *sim.Event, s *site, start sim.Time) {
	b := e.Batch
	prompt, context := int64(b.PrefillTokens()), int64(b.Context)
	l.counts.PrefillTokens += prompt
	l.counts.DecodePositions += int64(b.Positions)
	l.checked += int64(b.Positions - b.Decodes)
	grown := prompt + int64(b.Decodes+s.accepted)
	s.done += grown
	if s.inFlight > 1 {
		return
	}
	s.compute(b)
	for _, c := range b.Prefills {
		context += int64(c.Context)
	}

	for _, d := range s.left {
		if d.at <= start {
			s.depart(d)
		}
	}
	s.context.add(bounds{s.found, s.found})
	others := int64(e.Running) - int64(b.Decodes+len(b.Prefills))
	if context > s.context.hi-others || others == 0 && context < s.context.lo {
		l.violate(e, "the batch reads %d tokens of context, of %d to %d stored, with %d sequences left out", context, s.context.lo, s.context.hi, others)
	}
	if others == 0 {
		s.context = bounds{context, context}
	}
	s.context.add(bounds{grown, grown})
	for _, d := range s.left {
		if d.at > start {
			s.depart(d)
		}
	}
	if s.current().running > 0 {
		return
	}
	if s.context.lo > 0 || s.context.hi < 0 {
		l.violate(e, "nothing runs, but %d to %d positions more were computed than needed", s.context.lo, s.context.hi)
	}
	s.context = bounds{}
}

// compute counts the pairs of a step that are kept. Whose drafts are accepted
// is unknown: each sees its own position, that of the token before it and at
// least one of a prompt, and at most the context and positions of all decodes.
func (s *site) compute(b *sim.Batch) {
	n := int64(b.Context) + int64(b.Decodes)
	for _, c := range b.Prefills {
		n += pairs(int64(c.Context+c.Tokens)) - pairs(int64(c.Context))
	}
	accepted := int64(s.accepted)
	s.computed.add(bounds{n + 3*accepted, n + accepted*int64(b.Context+b.Positions)})
}

// pairs counts what n positions see: position i itself and the i before it.
// However they are cut into chunks, that is the same.
func pairs(n int64) int64 { return n * (n + 1) / 2 }

// depart takes a residency out of what is stored.
func (s *site) depart(d departure) {
	s.context.lo -= d.positions.hi
	s.context.hi -= d.positions.lo
}

// residency notes what an event of a running request, which moves it to that
// place, says of the positions that were computed for it. A request with g
// tokens that decodes has stored all of its prompt and tokens but the newest. One
// that has had no token since its admission may have anything from its hits up
// to there.
func (l *Laws) residency(e *sim.Event, x *life, to place) {
	if x.replica < 0 {
		return
	}
	s := l.site(x.replica)
	switch e.Kind {
	case sim.Admit:
		l.begin(e, x, s)
	case sim.PrefillEnd, sim.FirstToken, sim.Handoff, sim.Finish:
		l.token(e, s)
	case sim.Reject:
		if x.place == running { // instead of a handoff
			l.token(e, s)
		}
	}
	if x.place != running || to == 0 {
		return
	}
	n := s.stored(e, x)
	s.left = append(s.left, departure{e.Time, e.Kind, n})
	s.pairs.add(bounds{pairs(n.lo) - pairs(x.found), pairs(n.hi) - pairs(x.found)})
	s.needs.add(bounds{n.lo - x.found, n.hi - x.found})
	if to == waiting {
		l.evicted.add(n)
		l.evictedFound += x.found
		return
	}
	l.kept.add(bounds{n.lo - x.found, n.hi - x.found})
	if to == swapped {
		x.swapped = n
		s.swapOut(n.lo)
	}
}

// begin notes an admission. It tells what was in host memory.
func (l *Laws) begin(e *sim.Event, x *life, s *site) {
	x.admittedWith, x.found = e.Output, int64(e.Cached)
	s.found += x.found
	if x.place != swapped {
		return
	}
	s.swapIn(x.swapped.lo, x.found)
	l.kept.add(bounds{x.found - x.swapped.lo, x.found - x.swapped.hi})
	s.needs.add(bounds{x.found - x.swapped.lo, x.found - x.swapped.hi})
	s.pairs.add(bounds{pairs(x.found) - pairs(x.swapped.lo), pairs(x.found) - pairs(x.swapped.hi)})
}

// stored returns the positions that a request has when an event ends its
// residency.
func (s *site) stored(e *sim.Event, x *life) bounds {
	if e.Kind == sim.Handoff {
		return bounds{int64(x.prompt), int64(x.prompt)}
	}
	stored := int64(x.prompt + e.Output - 1)
	n := bounds{stored, stored}
	if e.Output == x.admittedWith {
		n.lo = x.found
	}
	switch e.Kind {
	case sim.Abort, sim.Reject: // steps in flight may be computing one more each
		n.hi += int64(s.inFlight)
	case sim.Preempt:
		n.hi += int64(s.inFlight - 1)
	}
	return n
}

// settle books the tokens of a request that has ended. last is the instant of
// its latest token, or NoTime.
func (l *Laws) settle(e *sim.Event, x *life, last sim.Time) {
	if x.class < 0 {
		return
	}
	s := l.site(x.replica)
	b := s.book(x.class)
	b.outputs += int64(e.Output - x.had)
	b.gapsOver += int64(e.GapsOver)
	switch {
	case e.Kind == sim.Finish || e.Output == 0 || last == sim.NoTime || b.drop(last, 1):
	case last == e.Time && s.inFlight > 1: // a token that was in flight leaves it no memory
		l.token(e, s)
	default:
		l.violate(e, "no request of class %d had its latest token at %d ns", x.class, int64(last))
	}
}

// remain notes a request that is alive at the end of the run.
func (s *site) remain(x *life) {
	s.alive++
	if x.class >= 0 {
		s.book(x.class).outputs += int64(x.output - x.had)
	}
}

// balance compares the two sides of the ledger. While requests are alive, only
// what has ended is known, and the steps may have done more.
func (l *Laws) balance(e *sim.Event, replica int, s *site) {
	drained := s.alive == 0
	for class, b := range s.books {
		if b.tokens < b.outputs || drained && b.tokens != b.outputs {
			l.violate(e, "replica %d: steps gave %d tokens to class %d, its requests got %d", replica, b.tokens, class, b.outputs)
		}
		known := len(l.Config.Replicas) > 0
		if known && (b.late < b.gapsOver || drained && b.late != b.gapsOver) {
			l.violate(e, "replica %d: steps gave %d gaps over the target to class %d, its requests had %d", replica, b.late, class, b.gapsOver)
		}
	}
	if s.done < s.needs.lo || drained && s.done > s.needs.hi+s.unsampled {
		l.violate(e, "replica %d: steps computed %d positions, its requests needed %d to %d, and %d may be surplus",
			replica, s.done, s.needs.lo, s.needs.hi, s.unsampled)
	}
	if s.inFlight > 1 {
		return
	}
	if s.computed.hi < s.pairs.lo || drained && s.computed.lo > s.pairs.hi {
		l.violate(e, "replica %d: steps computed %d to %d pairs of positions, its requests needed %d to %d",
			replica, s.computed.lo, s.computed.hi, s.pairs.lo, s.pairs.hi)
	}
}
