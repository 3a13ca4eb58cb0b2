package scheduler

import "servesim/sim"

// Sarathi schedules as the Sarathi-Serve repository does
// (sarathi_scheduler.py; Agrawal et al., OSDI 2024): decodes never pause. A
// pass goes over the running sequences in order of arrival, first those that
// decode, then prompts in progress, then the queue, while the chunk, the
// replica's MaxBatchTokens, has positions left. Decodes are part of it.
//
// A prompt takes blocks for all of it when it is admitted, and must leave the
// watermark free; the head of the queue blocks those behind it. When a decode
// lacks memory the running sequence that arrived last is preempted, perhaps
// the one that asks. It may be admitted again in the same pass. Give the
// replica [sim.TouchedGrowth]: the engine wants a free block for every decode.
//
// A sequence that does not leave the watermark free even alone is rejected,
// where the original waits for ever. Tokens are counted over the life of a
// request: the original counts from zero again after a preemption and
// generates too many. The schedule of shrinking chunks is left out.
//
// The zero value has the watermark of the original. [ChunkedPrefill] is the
// same idea without these details.
type Sarathi struct {
	// Watermark is the fraction of blocks that an admission leaves free. 0
	// means 0.01; below 0 means none.
	Watermark float64

	order arrivalOrder
}

// Schedule implements sim.Scheduler.
func (e *Sarathi) Schedule(v sim.View, p *sim.Plan) {
	e.order.restore(v, p)
	calm := decode(v, p)
	for s := range v.Prefilling.All() {
		if n := min(s.Pending(), p.Room()); n == 0 || !p.Add(s, n) {
			break
		}
	}
	watermark := watermarkBlocks(e.Watermark, v.Limits)
	for s := range v.Waiting.All() {
		if !admitChunk(v, p, s, p.Room(), watermark, &e.order) {
			break
		}
	}
	// The next pass would sort what an admission has left out of order.
	if calm && v.Prefilling.Len() == 0 && !e.order.broken {
		p.Hold()
	}
}

// admitChunk admits s with blocks for its whole prompt and the first chunk of
// it, or rejects what can never be admitted. It returns false if nobody else
// should be admitted in this pass.
func admitChunk(v sim.View, p *sim.Plan, s *sim.Sequence, chunk, watermark int, order *arrivalOrder) bool {
	switch fitsPrompt(v, p, s, watermark) {
	case never:
		rejectForMemory(p, s)
		return true
	case later:
		return false
	}
	n := min(s.Pending(), chunk)
	if n == 0 || p.Slots() < 1 {
		return false
	}
	order.admit(v, s)
	return p.Reserve(s, s.Pending()) && p.Add(s, n)
}

// arrivalOrder keeps the running sequences in order of arrival, at no cost
// while they are.
type arrivalOrder struct {
	broken bool
	buffer []*sim.Sequence
}

// restore sorts the running sequences if that is necessary.
func (o *arrivalOrder) restore(v sim.View, p *sim.Plan) {
	if o.broken {
		arrange(v, p, &o.buffer, byArrival)
		o.broken = false
	}
}

// admit notes that s is about to join the running sequences.
func (o *arrivalOrder) admit(v sim.View, s *sim.Sequence) {
	if last := v.Running.Last(); last != nil && s.Arrival() < last.Arrival() {
		o.broken = true
	}
}
