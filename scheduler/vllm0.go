package scheduler

import (
	"errors"
	"slices"

	"servesim/sim"
	"servesim/sim/kv"
)

// VLLM0 schedules as vLLM's V0 engine does by default (core/scheduler.py,
// _schedule_default), and as the vLLM scheduler of the Sarathi-Serve
// repository: a step holds whole prompts or decodes, never both, and prompts
// go first.
//
// Prompts are taken from the head of the queue while slots, token budget and
// memory allow; the first that does not fit blocks those behind it. Memory for
// a prompt must leave the watermark free. When no prompt can be taken,
// everybody decodes; when memory runs out the youngest running sequence is
// preempted for recomputation, perhaps the one that asks. Give the replica
// [sim.TouchedGrowth]: the engine wants a free block for every decode. Its
// prefix cache is one with EagerSharing.
//
// Rejected are prompts, after a preemption with the tokens generated, longer
// than the token budget, and those that do not leave the watermark free even
// alone. With Swap a victim goes to host memory, and while anything is there no
// prompt is taken.
//
// The zero value has the engine's default options. It keeps the instant of the
// latest prompt step.
type VLLM0 struct {
	// Watermark is the fraction of blocks that an admission leaves free. 0
	// means 0.01; below 0 means none.
	Watermark float64
	// DelayFactor lets prompts gather (delay_factor): while anything runs,
	// the longest wait must exceed DelayFactor times the duration of the
	// latest prompt step before a prompt is taken. 0 means no delay.
	DelayFactor float64
	// Priority lets the head of a queue in the order ByPriority preempt
	// running sequences of a worse class, or of its own class with a later
	// arrival, until it would fit. It is admitted in the next pass. The victim
	// for lack of memory is the worst in that order too.
	Priority bool
	// Swap moves victims to host memory (preemption_mode swap) in place of
	// recomputing them. They come back, the first first, after a pass without a
	// victim and without prompts, when their blocks and those of the next
	// position leave the watermark free. If the host is full a victim is
	// recomputed, or with Strict the run ends with ErrHostMemory, as the
	// engine does.
	Swap, Strict bool

	prompts bool            // the latest pass planned prompts
	passed  sim.Time        // when that was
	took    sim.Time        // duration of the latest prompt step
	order   []*sim.Sequence // scratch
}

// Schedule implements sim.Scheduler.
func (e *VLLM0) Schedule(v sim.View, p *sim.Plan) {
	if e.prompts {
		e.took = v.Now - e.passed
	}
	e.passed = v.Now
	room := p.Room()
	if v.Swapped.Len() == 0 {
		e.admit(v, p)
	}
	if e.prompts = p.Room() < room; e.prompts {
		return
	}
	calm := !e.Priority || !e.yield(v, p)
	calm = decodeOr(v, p, e.evict) && calm
	if calm && v.Swapped.Len() > 0 {
		e.swapIn(v, p)
		calm = false
	}
	if calm && (e.DelayFactor == 0 || v.Waiting.Len() == 0) {
		p.Hold()
	}
}

// evict takes a victim's memory.
func (e *VLLM0) evict(p *sim.Plan, s *sim.Sequence) {
	switch {
	case !e.Swap || s.Context() == 0:
		p.Preempt(s)
	case p.Swap(s):
	case e.Strict:
		p.Fail(ErrHostMemory)
		p.Preempt(s)
	default:
		p.Preempt(s)
	}
}

// ErrHostMemory ends a run in which a victim has no room in host memory.
var ErrHostMemory = errors.New("scheduler: host memory is exhausted")

// swapIn brings swapped sequences back and lets them decode.
func (e *VLLM0) swapIn(v sim.View, p *sim.Plan) {
	watermark := watermarkBlocks(e.Watermark, v.Limits)
	for s := range v.Swapped.All() {
		block := v.Limits.BlockTokens
		switch need := s.Context()/block + kv.TouchedBlocks(s.Context(), 1, block); {
		case need > v.Limits.Blocks:
			rejectForMemory(p, s)
			continue
		case p.Free()-need < watermark || p.Room() < 1 || !p.SwapIn(s):
			return
		}
		if !p.Add(s, 1) {
			return
		}
	}
}

// admit takes whole prompts.
func (e *VLLM0) admit(v sim.View, p *sim.Plan) {
	watermark := watermarkBlocks(e.Watermark, v.Limits)
	delay := e.DelayFactor > 0 && v.Running.Len() > 0
	for s := range v.Waiting.All() {
		if delay && !e.waitedEnough(v) {
			return
		}
		if s.Prompt()+s.Generated() > v.Limits.MaxBatchTokens {
			p.Reject(s, RejectBatchTokens)
			continue
		}
		switch fitsPrompt(v, p, s, watermark) {
		case never:
			rejectForMemory(p, s)
		case later:
			return
		case fits:
			if !p.Add(s, s.Pending()) {
				return
			}
		}
	}
}

// waitedEnough reports whether anybody in the queue has waited long enough for
// the next prompt to be taken.
func (e *VLLM0) waitedEnough(v sim.View) bool {
	limit := e.DelayFactor * float64(e.took)
	for s := range v.Waiting.All() {
		if float64(v.Now-s.Arrival()) > limit {
			return true
		}
	}
	return false
}

// yield puts the running sequences into the order of their priority and
// preempts the worst of them as long as the head of the queue is better and
// does not fit. It reports whether it preempted anybody.
func (e *VLLM0) yield(v sim.View, p *sim.Plan) (preempted bool) {
	arrange(v, p, &e.order, byPriorityThenArrival)
	head := v.Waiting.First()
	if head == nil {
		return false
	}
	watermark := watermarkBlocks(e.Watermark, v.Limits)
	for worst := v.Running.Last(); worst != nil && byPriorityThenArrival(worst, head) > 0; worst = v.Running.Last() {
		if fitsPrompt(v, p, head, watermark) == fits && p.Slots() > 0 && head.Pending() <= p.Room() {
			break
		}
		p.Preempt(worst)
		preempted = true
	}
	return preempted
}

func byPriorityThenArrival(a, b *sim.Sequence) int {
	if a.Priority() != b.Priority() {
		return a.Priority() - b.Priority()
	}
	return byArrival(a, b)
}

func byArrival(a, b *sim.Sequence) int {
	switch {
	case a.Arrival() < b.Arrival():
		return -1
	case a.Arrival() > b.Arrival():
		return 1
	}
	return 0
}

// arrange sorts the running sequences; equal ones keep their order. buffer is
// scratch.
func arrange(v sim.View, p *sim.Plan, buffer *[]*sim.Sequence, compare func(a, b *sim.Sequence) int) {
	order := (*buffer)[:0]
	for s := range v.Running.All() {
		order = append(order, s)
	}
	if !slices.IsSortedFunc(order, compare) {
		slices.SortStableFunc(order, compare)
		p.Arrange(order)
	}
	*buffer = order
}
