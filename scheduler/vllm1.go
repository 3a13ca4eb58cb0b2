package scheduler

import (
	"math"
	"slices"

	"servesim/sim"
)

// VLLM1 schedules as vLLM's V1 engine does (v1/core/sched/scheduler.py). There
// is no prefill and no decode phase: running sequences get what they miss, in
// order of admission, and what is left of the token budget goes to waiting
// ones. A prompt is computed in chunks of what the budget leaves.
//
// When memory runs out the youngest running sequence is preempted, perhaps the
// one that asks, and nobody is admitted in that pass. The head of the queue
// blocks those behind it.
//
// The zero value has the semantics of April 2026 with default options. Three
// hangs of the original do not happen here: a request that cannot grow even
// alone is rejected; a prompt as long as MaxModelLen is computed to its end; and
// where nothing runs because the head of the queue lacks the blocks of those
// whose KV has come, they overtake it, for which transfers leave one block free.
type VLLM1 struct {
	// FirstChunk admits a prompt when its first chunk fits, as the engine did
	// until 2025. By default the whole prompt has to fit, though only the
	// chunk takes blocks.
	FirstChunk bool
	// Threshold limits the chunk of one prompt in a step
	// (long_prefill_token_threshold), also of a whole prompt. 0 means the
	// budget is the limit. A step costs O(running sequences) with it.
	Threshold int
	// Priority preempts the running sequence of the worst class, the latest
	// arrival among equals, in place of the youngest. The replica's Order
	// should be ByPriority. A waiting sequence never preempts a running one.
	Priority bool
	// WholePrompts turns chunked prefill off: a prompt that exceeds what the
	// budget leaves waits for a later step, and one that exceeds the whole
	// budget is rejected.
	WholePrompts bool
	// Overtake lets shorter prompts pass one that WholePrompts makes wait, as
	// the engine did until 2025. By default it blocks them.
	Overtake bool
	// Reverse puts the sequences whose KV is on its way back to the front of the
	// queue in reversed order in every pass, as the engine did until 2025. By
	// default they keep their order.
	Reverse bool
	// Strict lets the original's hangs happen: it computes no position behind
	// MaxModelLen - 1 of a running sequence, so that a prompt of MaxModelLen that
	// takes several chunks never ends, and who has KV of a transfer overtakes
	// nobody. It goes with a Strict replica.
	Strict bool
	// Lookahead is the number of slots that running sequences hold beyond the
	// positions of a step, for drafters with a KV cache of their own. It needs
	// a replica with Drafts.
	Lookahead int
	// Watermark is the fraction of blocks that an admission leaves free while
	// anything runs.
	Watermark float64
}

// Schedule implements sim.Scheduler.
func (e VLLM1) Schedule(v sim.View, p *sim.Plan) {
	calm := e.advance(v, p)
	if calm {
		e.admit(v, p)
	}
	if v.Running.Len() == 0 && !e.Strict {
		overtake(v, p)
	}
	if !calm {
		return
	}
	if e.Reverse && p.Room() > 0 && p.Slots() > 0 {
		aside := slices.Collect(v.Pulling.All())
		slices.Reverse(aside)
		p.Requeue(aside...)
	}
	if v.Prefilling.Len() == 0 {
		p.Hold()
	}
}

// advance gives running sequences what they miss. It reports whether nobody
// was preempted.
func (e VLLM1) advance(v sim.View, p *sim.Plan) (calm bool) {
	if e.Threshold == 0 && e.Lookahead == 0 && !e.Strict && p.AddDecodes() {
		// Without a threshold at most the youngest prompt is incomplete, so
		// that decodes come first in the order of admission too.
		return e.advanceEach(v.Prefilling, v, p)
	}
	return e.advanceEach(v.Running, v, p)
}

func (e VLLM1) advanceEach(l sim.List, v sim.View, p *sim.Plan) (calm bool) {
	calm = true
	for s := range l.All() {
		n := e.chunk(s, p)
		if e.Strict {
			n = min(n, v.Limits.MaxModelLen-1-s.Context())
		}
		if n <= 0 {
			continue
		}
		for s.State() == sim.Running && !(e.ahead(s, n, p) && p.Add(s, n)) {
			calm = false
			p.Preempt(e.victim(v))
		}
		if s.State() != sim.Running {
			return false
		}
	}
	return calm
}

// ahead takes the blocks of the slots that s has to hold for the drafter.
func (e VLLM1) ahead(s *sim.Sequence, n int, p *sim.Plan) bool {
	return e.Lookahead == 0 || p.Reserve(s, n+e.Lookahead)
}

// chunk returns the positions that s would get in this step.
func (e VLLM1) chunk(s *sim.Sequence, p *sim.Plan) int {
	return min(e.want(s), p.Room())
}

// want returns the positions that s would get in a step of its own.
func (e VLLM1) want(s *sim.Sequence) int {
	n := s.Pending() + s.Drafts()
	if e.Threshold > 0 {
		n = min(n, e.Threshold)
	}
	return n
}

// victim returns the running sequence to preempt.
func (e VLLM1) victim(v sim.View) *sim.Sequence {
	worst := v.Running.Last()
	if !e.Priority {
		return worst
	}
	for s := range v.Running.All() {
		if s.Priority() > worst.Priority() || s.Priority() == worst.Priority() && s.Arrival() > worst.Arrival() {
			worst = s
		}
	}
	return worst
}

// admit starts waiting sequences until something forbids the next. Those whose
// KV another replica has are pulled in their turn and take no tokens yet.
func (e VLLM1) admit(v sim.View, p *sim.Plan) {
	for s := range v.Waiting.All() {
		if !e.pull(v, p, s) {
			return
		}
		n := e.chunk(s, p)
		if want := e.want(s); e.WholePrompts && n < want {
			if want > v.Limits.MaxBatchTokens {
				p.Reject(s, RejectBatchTokens)
			} else if !e.Overtake {
				return
			}
			continue
		}
		if n == 0 || !e.fits(s, n, v, p) || !p.Add(s, n) {
			return
		}
	}
	e.pull(v, p, nil)
}

// pull starts the transfers to the sequences that stand before s in line, or to
// all if s is nil. It reports whether that went well: one without room blocks
// those behind it, and none starts when nothing could be admitted.
func (e VLLM1) pull(v sim.View, p *sim.Plan, s *sim.Sequence) bool {
	for r := range v.Remote.All() {
		if s != nil && !e.before(r, s) {
			return true
		}
		if p.Room() == 0 || p.Slots() == 0 || !e.room(r, v, p) || !p.Pull(r) {
			return false
		}
	}
	for r := range v.Coming.All() {
		if s == nil && !r.Pulled() && !(e.room(r, v, p) && p.Pull(r)) {
			return false
		}
	}
	return true
}

// room reports whether a transfer to s leaves a block for somebody to go on:
// what runs, or else a free one.
func (e VLLM1) room(s *sim.Sequence, v sim.View, p *sim.Plan) bool {
	return e.Strict || v.Running.Len() > 0 || leaves(s, 1, v, p)
}

// before reports whether a stands before b in line.
func (e VLLM1) before(a, b *sim.Sequence) bool {
	if e.Priority && a.Priority() != b.Priority() {
		return a.Priority() < b.Priority()
	}
	return a.Turn() < b.Turn()
}

// fits is the admission test for memory.
func (e VLLM1) fits(s *sim.Sequence, n int, v sim.View, p *sim.Plan) bool {
	if !e.FirstChunk {
		n = s.Pending()
	}
	if !p.Fits(s, n) {
		return false
	}
	if e.Watermark == 0 || v.Running.Len() == 0 || v.Limits.Blocks == math.MaxInt {
		return true
	}
	return p.Free()-p.Need(s, n) >= int(e.Watermark*float64(v.Limits.Blocks))
}
