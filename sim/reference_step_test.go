package sim_test

import (
	"cmp"
	"slices"
	"time"

	"servesim/sim"
)

// refStep is a step in flight.
type refStep struct {
	began                  sim.Time
	took                   time.Duration
	batch                  sim.Batch
	parts                  []refPart
	free, waiting, running int
}

// refPart is what a step computes for one sequence.
type refPart struct {
	s       *refSeq
	tokens  int
	row     bool // it decodes
	samples bool // a token comes of it,
	token   int  // which is this one of its answer, from 0
	life    int  // evictions before
}

// startStep puts what a pass has planned in flight.
func (e *refEngine) startStep(p *refPass) {
	r := p.r
	f := &refStep{batch: sim.Batch{SwapIn: p.copiedIn, SwapOut: p.copiedOut}}
	b := &f.batch
	for _, s := range p.order {
		part := refPart{s: s, tokens: s.tokens, row: s.pending() == 1, samples: s.tokens >= s.pending(), token: s.generated + s.expected, life: s.preempted}
		if part.row {
			b.Decodes++
			b.Positions += s.tokens
			b.Context += s.computed
		} else {
			b.Prefills = append(b.Prefills, sim.Chunk{Tokens: s.tokens, Context: s.computed, Last: part.samples})
		}
		s.chunk = !part.row
		f.parts = append(f.parts, part)
		s.computed += s.tokens
		if part.samples && r.cfg.Async != sim.NotAsync {
			s.expected++
		}
	}
	for _, s := range e.live {
		if s.home == r {
			s.tokens, s.taken, s.admitted = 0, 0, false
		}
	}
	if b.Empty() {
		return
	}
	b.Padding = sim.Padding{Rows: max(0, p.padRows-b.Decodes), PromptTokens: p.padTo}
	f.free, f.waiting, f.running = r.free(), r.inLine(), len(r.running)
	if len(r.mates) > 0 { // it gets its time when all of them have planned
		r.flying = []*refStep{f}
		return
	}
	e.push(refPending{at: e.fly(r, f), kind: refStepEnd, replica: r.index})
	e.layersOf(f)
}

// layersOf lets the layers of the prompts that a step computes follow each other
// onto the link.
func (e *refEngine) layersOf(f *refStep) {
	for _, part := range f.parts {
		if part.s.flow != nil {
			e.advance()
			e.layers(part.s.flow, part.tokens)
			e.rerate()
		}
	}
}

// fly puts a step in flight and returns when it ends. The host prepares it, then
// the first stage of the pipeline has to be free; it leaves the last one behind
// the step before it. One step at a time takes host and pipeline.
func (e *refEngine) fly(r *refReplica, f *refStep) (end sim.Time) {
	total := r.cfg.CostModel.StepTime(f.batch)
	host, stage := time.Duration(0), total
	if m, ok := r.cfg.CostModel.(sim.Pipeliner); ok {
		host, stage, total = m.PipelineTime(f.batch)
	}
	slow := e.window(r).Factor
	host, stage, total = refRound(host, slow), refRound(stage, slow), max(1, refRound(total, slow))
	if r.cfg.InFlight < 2 {
		f.began, f.took = e.now, host+total
		r.flying = []*refStep{f}
		return e.now.Add(f.took)
	}
	r.hostFree = e.now.Add(host)
	start := max(r.hostFree, r.stageFree)
	end = max(start.Add(total), r.lastEnd.Add(stage))
	f.took = end.Sub(start)
	r.stageFree, r.lastEnd = start.Add(stage), end
	r.flying = append(r.flying, f)
	return end
}

// refNews is what a step end does to a sequence.
type refNews struct {
	s                                       *refSeq
	prompt, first, done, hopeless, handOver bool
}

// refGaps counts gaps by their beginning and class.
type refGaps map[[2]int64]int

// endStep ends the oldest step in flight: everyone whose pending positions it
// computed gets tokens.
func (e *refEngine) endStep(r *refReplica) {
	f := r.flying[0]
	r.flying = r.flying[1:]
	r.steps++
	e.res.Steps++
	gaps := refGaps{}
	tokens := 0
	var news []refNews
	for _, part := range f.parts {
		if s := part.s; s.cache != nil && s.state == sim.Running {
			s.cache.Computed(s.table, s.computed)
		}
	}
	for _, part := range f.parts {
		s := part.s
		s.chunk = false
		if part.row {
			e.res.DecodePositions += int64(part.tokens)
		} else {
			e.res.PrefillTokens += int64(part.tokens)
		}
		if s.flow != nil && s.state == sim.Running {
			e.advance()
			e.ready(s.flow, e.now, e.bytesOf(s.flow, s.computed))
			e.rerate()
		}
		if !part.samples || !e.gets(part) {
			continue
		}
		if r.cfg.Role == sim.RolePrefill && r.cfg.FirstToken == sim.FirstFromDecode {
			s.timeline.PrefillEnd = e.now
			news = append(news, refNews{s: s, prompt: true, handOver: true})
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
		if s.drafts = r.cfg.Drafts; r.cfg.Role == sim.RolePrefill {
			s.drafts = 0
		}
		if l := r.cfg.MaxModelLen; l > 0 {
			s.drafts = max(0, min(s.drafts, l-s.req.Prompt-s.generated-1))
		}
	}
	e.res.Tokens += int64(tokens)
	slices.SortFunc(news, func(a, b refNews) int { return cmp.Compare(a.s.rank, b.s.rank) })
	for _, n := range news {
		if n.prompt {
			e.emit(n.s, sim.PrefillEnd)
		}
		if n.first {
			e.emit(n.s, sim.FirstToken)
		}
		switch {
		case n.done:
			e.drop(n.s)
			e.finish(n.s, sim.Finish, n.s.reason)
		case n.handOver:
			e.handOver(n.s)
		case n.hopeless:
			e.drop(n.s)
			e.finish(n.s, sim.Reject, sim.RejectOutOfKV)
		}
	}
	e.record(sim.Event{Kind: sim.StepEnd, Replica: int32(r.index), Step: r.steps, Took: f.took, Batch: &f.batch,
		Gaps: gaps.groups(), Tokens: int32(tokens), FreeBlocks: f.free, Waiting: int32(f.waiting), Running: int32(f.running)})
}

// gets reports whether the sequence gets the token of its part in a step that
// ends. One that was evicted since gets it while it waits, if it is its next;
// if it runs again it computes that token anew.
func (e *refEngine) gets(part refPart) bool {
	s := part.s
	switch {
	case s.state == sim.Ended:
		if s.home.cfg.InFlight > 1 {
			e.res.Surplus++
		}
		return false
	case s.preempted != part.life:
		return s.state != sim.Running && s.generated == part.token
	}
	if s.expected > 0 {
		s.expected--
	}
	return true
}

// sample gives s that many tokens, all now.
func (e *refEngine) sample(s *refSeq, gaps refGaps, n int) refNews {
	class := int64(s.req.Class)
	x := refNews{s: s, prompt: s.timeline.PrefillEnd < 0, first: s.timeline.FirstToken < 0, handOver: s.home.cfg.Role == sim.RolePrefill}
	if x.prompt {
		s.timeline.PrefillEnd = e.now
	}
	if x.first {
		s.timeline.FirstToken = e.now
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
	x.done = s.generated >= s.output
	x.hopeless = s.state != sim.Running && s.home.hopeless(s, 0)
	return x
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
