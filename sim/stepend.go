package sim

import (
	"cmp"
	"slices"
)

// touch marks what a step end did to a sequence.
type touch uint8

const (
	touchFirst touch = 1 << iota
	touchFinish
	touchStop    // ended by an outcome before its length
	touchPrompt  // its prompt is complete, and another replica samples its first token
	touchHandoff // another replica decodes it
)

// finishStep ends the step in flight: tokens, gaps, ends of requests.
func (st *Stepper) finishStep() {
	st.land()
	st.settle()
	f, h := st.step, st.hub
	st.steps++
	st.ended, st.gaps = st.ended[:0], st.gaps[:0]
	st.speculation.reset(st.cfg.Drafts)
	tokens := 0
	if f.decodes {
		h.result.DecodePositions += int64(f.batch.Decodes)
		tokens += st.endDecodes()
	}
	tokens += st.endRows()
	for i := range f.chunks {
		a := &f.chunks[i]
		h.result.PrefillTokens += int64(a.tokens)
		if len(st.ring) > 1 {
			tokens += st.arrive(a)
		} else if a.s.serial == a.serial && a.s.state == Running {
			tokens += st.endChunk(a.s)
		}
	}
	if len(st.ended) > 1 {
		slices.SortFunc(st.ended, func(a, b *Sequence) int { return cmp.Compare(a.rank, b.rank) })
	}
	for _, s := range st.ended {
		st.announceTokens(s)
	}
	h.result.Tokens += int64(tokens)
	st.publishLoad()
	h.stepped(st, tokens)
}

// endDecodes gives every member of the cohort its token.
func (st *Stepper) endDecodes() (tokens int) {
	c, classes := &st.cohort, st.hub.classes
	c.ended++
	if c.log != nil {
		c.log.add(st.hub.now, st.oldestMember)
	}
	gap := st.hub.now.Sub(c.prev)
	for class, n := range c.settled {
		if n > 0 {
			tokens += n
			st.gaps = append(st.gaps, GapGroup{c.prev, class, n})
			if target := classes[class].Gap; target > 0 && gap > target {
				c.overs[class]++
			}
		}
	}
	for _, s := range c.joiners {
		if s != nil {
			tokens++
			st.sample(s)
			c.settle(s)
		}
	}
	c.joiners = c.joiners[:0]
	c.prev = st.hub.now
	known := len(st.ended)
	st.ended = c.appendDue(st.ended)
	// A sequence whose first token is its last is there twice.
	keep := st.ended[:known]
	for _, s := range st.ended[known:] {
		if s.touch == 0 {
			keep = append(keep, s)
		}
		s.touch |= touchFinish
	}
	st.ended = keep
	return tokens
}

// endChunk ends a prompt chunk. The one that completes the prompt samples a
// token, and the sequence decodes from there on.
func (st *Stepper) endChunk(s *Sequence) (tokens int) {
	pending := s.Pending()
	if pending > 0 && s.flow != nil {
		st.hub.engine.net.computed(s)
	}
	if pending > 1 {
		return 0
	}
	st.stopPrefill(s)
	if pending == 1 {
		st.parked.pushBack(s)
		return 0
	}
	if st.cfg.Role == RolePrefill {
		return st.endPrompt(s)
	}
	st.sampleAlone(s)
	switch {
	case s.generated >= s.output:
		st.finished(s)
	case st.byRow():
		st.parked.pushBack(s)
		st.propose(s, st.cfg.Drafts)
	default:
		st.cohort.join(s)
	}
	return 1
}

// sampleAlone gives a token to s, which is not in the cohort.
func (st *Stepper) sampleAlone(s *Sequence) {
	s.generated++
	s.evictions = 0
	if st.cohort.log != nil {
		s.times = append(s.times, st.hub.now)
	}
	st.sample(s)
}

// sample notes the token that s, not settled in the cohort, gets now: its
// first one, or one with a gap of its own.
func (st *Stepper) sample(s *Sequence) {
	if s.timeline.FirstToken == NoTime {
		s.timeline.FirstToken = st.hub.now
		s.touch |= touchFirst
		if s.timeline.PrefillEnd == NoTime {
			s.timeline.PrefillEnd = st.hub.now
			s.touch |= touchPrompt
		}
		st.ended = append(st.ended, s)
	} else {
		st.addGap(s.lastToken, s.req.Class)
		if target := st.hub.classes[s.req.Class].Gap; target > 0 && st.hub.now.Sub(s.lastToken) > target {
			s.gapsOver++
		}
	}
	s.lastToken = st.hub.now
}

// addGap counts one gap. Groups stay sorted by Prev, then class; most arrive
// in that order.
func (st *Stepper) addGap(prev Time, class int) {
	i := len(st.gaps)
	for i > 0 {
		g := &st.gaps[i-1]
		if g.Prev == prev && g.Class == class {
			g.Count++
			return
		}
		if g.Prev < prev || g.Prev == prev && g.Class < class {
			break
		}
		i--
	}
	st.gaps = slices.Insert(st.gaps, i, GapGroup{prev, class, 1})
}

// announceTokens emits the first token and the end of s, as the step end
// brought them.
func (st *Stepper) announceTokens(s *Sequence) {
	done := s.touch
	s.touch = 0
	if done&touchPrompt != 0 {
		st.hub.tell(PrefillEnd, s)
	}
	if done&touchFirst != 0 {
		st.hub.tell(FirstToken, s)
	}
	if done&touchHandoff != 0 {
		st.hub.engine.handOver(s)
	}
	if done&touchFinish == 0 {
		return
	}
	_, reason := s.req.length(st.limits.MaxModelLen)
	if done&touchStop != 0 {
		reason = FinishStop
	}
	st.leave(s, Finish, reason)
}

// oldestMember returns the first step that a member's token times may need.
func (st *Stepper) oldestMember() int64 {
	oldest := st.cohort.ended
	for s := range st.running.all {
		if s.member.in {
			oldest = min(oldest, s.member.from)
		}
	}
	return oldest
}
