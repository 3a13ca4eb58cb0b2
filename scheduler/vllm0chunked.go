package scheduler

import (
	"slices"

	"servesim/sim"
)

// VLLM0Chunked schedules as vLLM's V0 engine does with chunked prefill
// (core/scheduler.py, _schedule_chunked_prefill). The running sequences go
// first, decodes and prompts in progress as they stand in the list, then
// prompts from the queue. A prompt takes blocks for all of it with its first
// chunk, and must leave the watermark free.
//
// When a running sequence may not grow, the last of the list is preempted,
// perhaps the one that asks; the queue is served in such a pass too, but not
// those just preempted. A prompt whose last block is not full wants a free
// block for every chunk, as a decode does; give the replica
// [sim.TouchedGrowth], and EagerSharing with a prefix cache. A pass leaves the
// list as: those that the budget did not reach, decodes, prompts that it
// completes, other prompts, admitted ones.
//
// With PartialPrefills above 1 the budget is divided among the prompts in
// progress, and short prompts overtake long ones that wait for others of their
// kind. Prompts that do not leave the watermark free even alone are rejected.
// Swapping is left out: sequences are always recomputed. So is one livelock of
// the original: a prompt that is alone never evicts itself.
//
// The zero value has the engine's default options.
type VLLM0Chunked struct {
	// Watermark is the fraction of blocks that an admission leaves free. 0
	// means 0.01; below 0 means none.
	Watermark float64
	// PartialPrefills is how many prompts share the budget in equal slots
	// (max_num_partial_prefills). Each gets a slot at most, though fewer
	// prompts get larger ones. 0 means 1.
	PartialPrefills int
	// LongPrefills is how many long prompts may be in progress
	// (max_long_partial_prefills). 0 means 1. It has no effect unless
	// PartialPrefills is above 1.
	LongPrefills int
	// Threshold is the number of pending positions above which a prompt is
	// long (long_prefill_token_threshold). 0 means 0.04 of MaxModelLen.
	Threshold int
	// WholeBlocks rounds a chunk that does not complete its prompt down to
	// whole blocks, as the engine does with prefix caching. It does so only
	// if a slot holds a block. A budget that is down to less than a block
	// then ends the pass, for decodes behind prompts too.
	WholeBlocks bool

	// Of the pass under way.
	slot, long int
	victims    []*sim.Sequence
	list       runningList
}

// runningList is the order in which a pass leaves the running sequences.
type runningList struct {
	unreached, decodes, completed, prompts, all []*sim.Sequence
}

// Schedule implements sim.Scheduler.
func (e *VLLM0Chunked) Schedule(v sim.View, p *sim.Plan) {
	e.divide(v)
	e.victims = e.victims[:0]
	steady := v.Prefilling.Len() == 0
	if !e.advance(v, p) {
		steady = false
	}
	e.admit(v, p)
	if steady {
		p.Hold()
	}
}

// divide finds the budget of a prompt and the number of long prompts in
// progress.
func (e *VLLM0Chunked) divide(v sim.View) {
	e.slot, e.long = v.Limits.MaxBatchTokens, 0
	if e.PartialPrefills <= 1 {
		return
	}
	for s := range v.Prefilling.All() {
		if e.isLong(v, s) {
			e.long++
		}
	}
	prompts, long := v.Prefilling.Len(), e.long
	for s := range v.Waiting.All() {
		if prompts >= e.PartialPrefills {
			break
		}
		if e.isLong(v, s) {
			if long >= max(e.LongPrefills, 1) {
				continue
			}
			long++
		}
		prompts++
	}
	// A slot has a position at least, or nothing would be scheduled.
	e.slot = max(e.slot/max(1, min(prompts, e.PartialPrefills)), 1)
}

func (e *VLLM0Chunked) isLong(v sim.View, s *sim.Sequence) bool {
	threshold := e.Threshold
	if threshold == 0 {
		threshold = int(float64(v.Limits.MaxModelLen) * 0.04)
	}
	return s.Pending() > threshold
}

// chunk returns the positions that s would get.
func (e *VLLM0Chunked) chunk(v sim.View, p *sim.Plan, s *sim.Sequence) int {
	room := min(p.Room(), e.slot)
	if e.WholeBlocks && e.slot >= v.Limits.BlockTokens {
		room -= room % v.Limits.BlockTokens
	}
	return min(s.Pending(), room)
}

// advance serves the running sequences. It reports whether it did so with one
// call for all that decode.
func (e *VLLM0Chunked) advance(v sim.View, p *sim.Plan) (calm bool) {
	l := &e.list
	l.unreached, l.decodes, l.completed, l.prompts = l.unreached[:0], l.decodes[:0], l.completed[:0], l.prompts[:0]
	prompts := v.Prefilling.Len()
	l.all = promptsAtTail(v, l.all)
	if calm = len(l.all) == prompts && p.AddDecodes(); calm {
		for _, s := range l.all {
			e.serve(v, p, s)
		}
		if !l.disordered() {
			return true
		}
		for s := range v.Running.All() {
			if s.Pending() <= 1 {
				l.decodes = append(l.decodes, s)
			}
		}
	} else {
		for s := range v.Running.All() {
			e.serve(v, p, s)
		}
	}
	l.arrange(v, p)
	return calm
}

// serve gives a running sequence its chunk, or keeps it for the next pass if
// the budget does not reach it.
func (e *VLLM0Chunked) serve(v sim.View, p *sim.Plan, s *sim.Sequence) {
	l := &e.list
	if s.State() != sim.Running {
		return
	}
	n, pending := e.chunk(v, p, s), s.Pending()
	if pending == 0 {
		l.decodes = append(l.decodes, s) // its token is still to come
		return
	}
	if n == 0 || len(l.unreached) > 0 {
		l.unreached = append(l.unreached, s)
		return
	}
	for !mayTouch(v, p, s) || !p.Add(s, n) {
		victim := v.Running.Last()
		e.victims = append(e.victims, victim)
		p.Preempt(victim)
		if victim == s {
			return
		}
	}
	switch {
	case pending == 1:
		l.decodes = append(l.decodes, s)
	case n == pending:
		l.completed = append(l.completed, s)
	default:
		l.prompts = append(l.prompts, s)
	}
}

// promptsAtTail appends to buffer[:0] the prompts in progress that no decode
// stands behind, in the order of the running sequences.
func promptsAtTail(v sim.View, buffer []*sim.Sequence) []*sim.Sequence {
	buffer = buffer[:0]
	if v.Prefilling.Len() == 0 {
		return buffer
	}
	for s := range v.Running.Backward() {
		if s.Pending() <= 1 {
			break
		}
		buffer = append(buffer, s)
	}
	slices.Reverse(buffer)
	return buffer
}

// mayTouch reports whether a prompt in progress may go on: its blocks are all
// there, but the last one, if it is not full, has to be had again. The engine
// tests decodes.
func mayTouch(v sim.View, p *sim.Plan, s *sim.Sequence) bool {
	return s.Pending() == 1 || p.Free() > 0 || v.Running.Len() == 1 ||
		(s.Prompt()+s.Generated())%v.Limits.BlockTokens == 0
}

// disordered reports whether prompts at the tail of the list have to change
// places.
func (l *runningList) disordered() bool {
	if len(l.unreached) > 0 {
		return true
	}
	return len(l.prompts) > 0 && len(l.completed) > 0
}

// arrange puts the running sequences into the order of the parts.
func (l *runningList) arrange(v sim.View, p *sim.Plan) {
	l.all = l.all[:0]
	for _, part := range [...][]*sim.Sequence{l.unreached, l.decodes, l.completed, l.prompts} {
		l.all = append(l.all, part...)
	}
	i := 0
	for s := range v.Running.All() {
		if s != l.all[i] {
			p.Arrange(l.all)
			return
		}
		i++
	}
}

// admit starts prompts from the queue.
func (e *VLLM0Chunked) admit(v sim.View, p *sim.Plan) {
	watermark := watermarkBlocks(e.Watermark, v.Limits)
	divided := e.PartialPrefills > 1
	if p.Room() == 0 {
		return
	}
	for s := range v.Waiting.All() {
		long := divided && e.isLong(v, s)
		if slices.Contains(e.victims, s) || long && e.long >= max(e.LongPrefills, 1) {
			continue
		}
		switch fitsPrompt(v, p, s, watermark) {
		case never:
			rejectForMemory(p, s)
			continue
		case later:
			return
		}
		n := e.chunk(v, p, s)
		if n == 0 || p.Slots() < 1 || !p.Reserve(s, s.Pending()) || !p.Add(s, n) {
			return
		}
		if long {
			e.long++
		}
	}
}
