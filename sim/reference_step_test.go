package sim_test

import (
	"cmp"
	"slices"

	"servesim/sim"
)

// refPart is what a step computes for one sequence.
type refPart struct {
	s      *refSeq
	tokens int
	row    bool // it decodes
}

// startStep puts what a pass has planned in flight.
func (e *refEngine) startStep(p *refPass) {
	r := p.r
	r.batch = sim.Batch{SwapIn: p.copiedIn, SwapOut: p.copiedOut}
	r.inStep = nil
	for _, s := range p.order {
		row := s.pending() == 1
		if row {
			r.batch.Decodes++
			r.batch.Positions += s.tokens
			r.batch.Context += s.computed
		} else {
			r.batch.Prefills = append(r.batch.Prefills, sim.Chunk{Tokens: s.tokens, Context: s.computed, Last: s.tokens == s.pending()})
		}
		s.chunk = !row
		r.inStep = append(r.inStep, refPart{s, s.tokens, row})
		s.computed += s.tokens
	}
	for _, s := range e.live {
		if s.replica == r.index {
			s.tokens, s.taken, s.admitted = 0, 0, false
		}
	}
	if r.batch.Empty() {
		return
	}
	r.batch.Padding = sim.Padding{Rows: max(0, p.padRows-r.batch.Decodes), PromptTokens: p.padTo}
	r.took = max(1, refRound(r.cfg.CostModel.StepTime(r.batch), e.window(r).Factor))
	r.end = e.now.Add(r.took)
	r.busy = true
	r.nFree, r.nWait, r.nRun = r.free(), r.inLine(), len(r.running)
	e.push(refPending{at: r.end, kind: refStepEnd, replica: r.index})
}

// refNews is what a step end does to a sequence.
type refNews struct {
	s           *refSeq
	first, done bool
}

// refGaps counts gaps by their beginning and class.
type refGaps map[[2]int64]int

// endStep gives tokens to everyone whose pending positions are computed.
func (e *refEngine) endStep(r *refReplica) {
	r.busy = false
	r.steps++
	e.res.Steps++
	gaps := refGaps{}
	tokens := 0
	var news []refNews
	for _, part := range r.inStep {
		if s := part.s; s.cache != nil && s.state == sim.Running {
			s.cache.Computed(s.table, s.computed)
		}
	}
	for _, part := range r.inStep {
		s := part.s
		s.chunk = false
		if part.row {
			e.res.DecodePositions += int64(part.tokens)
		} else {
			e.res.PrefillTokens += int64(part.tokens)
		}
		if s.state != sim.Running || s.pending() > 0 {
			continue
		}
		more := 0
		if part.row && part.tokens > 1 {
			more = min(r.cfg.Drafter.Accept(s.query(), s.generated, part.tokens-1), s.output-s.generated-1)
			s.computed -= part.tokens - 1 - more
			e.res.Drafted += int64(part.tokens - 1)
			e.res.Accepted += int64(more)
		}
		tokens += 1 + more
		news = append(news, e.sample(s, gaps, 1+more))
		s.drafts = r.cfg.Drafts
		if l := r.cfg.MaxModelLen; l > 0 {
			s.drafts = max(0, min(s.drafts, l-s.req.Prompt-s.generated-1))
		}
	}
	e.res.Tokens += int64(tokens)
	slices.SortFunc(news, func(a, b refNews) int { return cmp.Compare(a.s.rank, b.s.rank) })
	for _, n := range news {
		if n.first {
			e.emit(n.s, sim.PrefillEnd)
			e.emit(n.s, sim.FirstToken)
		}
		if n.done {
			r.drop(n.s)
			e.finish(n.s, sim.Finish, n.s.reason)
		}
	}
	e.record(sim.Event{Kind: sim.StepEnd, Replica: int32(r.index), Step: r.steps, Took: r.took, Batch: &r.batch,
		Gaps: gaps.groups(), Tokens: int32(tokens), FreeBlocks: r.nFree, Waiting: int32(r.nWait), Running: int32(r.nRun)})
}

// sample gives s that many tokens, all now.
func (e *refEngine) sample(s *refSeq, gaps refGaps, n int) refNews {
	class := int64(s.req.Class)
	first := s.timeline.FirstToken < 0
	if first {
		s.timeline.PrefillEnd, s.timeline.FirstToken = e.now, e.now
	} else {
		gaps[[2]int64{int64(s.last), class}]++
		if target := e.classes[class].Gap; target > 0 && e.now.Sub(s.last) > target {
			s.over++
		}
	}
	if n > 1 {
		gaps[[2]int64{int64(e.now), class}] += n - 1
	}
	for range n {
		s.generated++
		s.times = append(s.times, e.now)
	}
	s.last = e.now
	s.evictions = 0
	return refNews{s, first, s.generated >= s.output}
}

// groups returns the gaps in the order of their beginning and class.
func (g refGaps) groups() (out []sim.GapGroup) {
	for k, n := range g {
		out = append(out, sim.GapGroup{Prev: sim.Time(k[0]), Class: int(k[1]), Count: n})
	}
	slices.SortFunc(out, func(a, b sim.GapGroup) int {
		return cmp.Or(cmp.Compare(a.Prev, b.Prev), cmp.Compare(a.Class, b.Class))
	})
	return out
}
