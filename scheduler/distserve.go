package scheduler

import (
	"slices"

	"servesim/sim"
)

// DistServe decodes as the decode side of DistServe does (OSDI 2024;
// distserve/decoding_stage_scheduler.py). Its prefill side is [Continuous] on a
// replica of RolePrefill: whole prompts, first come first served, while batch
// size, token budget and blocks allow, those that are still to be pulled
// counted.
//
// After a step it pulls requests, first come first served, while the blocks of
// those that were pulled and do not run yet are fewer than a fraction of the
// memory; decoding waits for the transfers. Then swapped and waiting requests
// join the batch while its size and memory allow. When the batch would outgrow
// the memory that waiting requests leave, the youngest of it is swapped out, or
// recomputed if host memory has no room. If nothing runs the first in line may
// take what is free, whatever the others hold. A request that was preempted is
// computed again as a whole.
type DistServe struct {
	// Threshold is that fraction (waiting_block_prop_threshold). 0 means 0.05.
	Threshold float64
	// Strict counts the blocks of a waiting request a second time when it is to
	// join the batch, as the original does: one that needs more than about half
	// of the memory never runs.
	Strict bool
}

// Schedule implements sim.Scheduler.
func (e DistServe) Schedule(v sim.View, p *sim.Plan) {
	e.Migrate(v, p)
	if v.Pulling.Len() == 0 {
		e.Decode(v, p)
	}
}

// Migrate starts the transfers, which is the first half of a pass.
func (e DistServe) Migrate(v sim.View, p *sim.Plan) {
	threshold := e.Threshold
	if threshold == 0 {
		threshold = 0.05
	}
	waiting := e.blocks(v.Waiting) + e.blocks(v.Pulling)
	for s := range v.Remote.All() {
		if float64(waiting) >= threshold*float64(v.Limits.Blocks) || !p.Pull(s) {
			return
		}
		waiting += s.Blocks()
	}
}

// Decode plans the step, which is the second half.
func (e DistServe) Decode(v sim.View, p *sim.Plan) {
	waiting := e.blocks(v.Waiting) + e.blocks(v.Pulling)
	running := 0
	for s := range v.Running.All() {
		running += s.Blocks() + p.Need(s, min(1, s.Pending()))
	}
	evicted := false
	for running+waiting > v.Limits.Blocks && v.Running.Len() > 0 {
		last := v.Running.Last()
		running -= last.Blocks() + p.Need(last, min(1, last.Pending()))
		if !p.Swap(last) {
			p.Preempt(last)
		}
		evicted = true
	}
	for s := range v.Prefilling.All() {
		if s.State() == sim.Running && p.Room() > 0 && !p.Add(s, min(s.Pending(), p.Room())) {
			break
		}
	}
	if v.Running.Len() > 0 && !p.AddDecodes() {
		for s := range v.Running.All() {
			if s.Pending() == 1 && !p.Add(s, 1) {
				break
			}
		}
	}
	if evicted {
		return
	}
	for _, s := range slices.Collect(v.Swapped.All()) {
		need := (s.Context() + v.Limits.BlockTokens) / v.Limits.BlockTokens
		if running+waiting+need > v.Limits.Blocks || p.Room() < 1 || !p.SwapIn(s) || !p.Add(s, 1) {
			return
		}
		running += need
	}
	for s := range v.Waiting.All() {
		tokens := min(s.Pending(), p.Room())
		need := s.Blocks() + p.Need(s, s.Pending())
		if !e.Strict {
			waiting -= s.Blocks()
		}
		full := running+waiting+need > v.Limits.Blocks && (e.Strict || running > 0)
		if full || tokens < 1 || !p.Add(s, tokens) {
			return
		}
		if e.Strict {
			waiting -= s.Blocks()
		}
		running += need
	}
	if v.Waiting.Len()+v.Swapped.Len()+v.Prefilling.Len() == 0 {
		p.Hold()
	}
}

func (e DistServe) blocks(l sim.List) (n int) {
	for s := range l.All() {
		n += s.Blocks()
	}
	return n
}
