package scheduler

import (
	"math"

	"servesim/sim"
)

// Pull lets any scheduler decode what other replicas have prefilled: it starts
// the transfers, first come first served, while the blocks of whole prompts are
// free, and leaves the rest of the pass to the other. A prompt without room
// blocks those behind it, and its blocks at the source stay taken: memory that
// is short on the decode side stops the prefill side, and nothing is dropped.
//
// Requests that have been pulled own blocks while they wait. One before them in
// line that needs its blocks for a computation, such as a preempted one, stops
// further transfers until it fits; and where nothing runs because of it, those
// that have their KV overtake it, so that the memory comes free. One block at
// least stays free of prompts: it takes no more for somebody to go on.
type Pull struct {
	// Scheduler plans what is here.
	Scheduler sim.Scheduler
	// Headroom is the fraction of blocks that a transfer leaves free while
	// anything runs, for the growth of what decodes.
	Headroom float64
}

// Schedule implements sim.Scheduler.
func (e Pull) Schedule(v sim.View, p *sim.Plan) {
	e.pull(v, p)
	e.Scheduler.Schedule(v, p)
	if v.Running.Len() == 0 {
		overtake(v, p)
	}
}

func (e Pull) pull(v sim.View, p *sim.Plan) {
	until := e.blockedFrom(v, p)
	for s := range v.Remote.All() {
		if s.Turn() > until || !e.room(s, v, p) || !p.Pull(s) {
			return
		}
	}
	if until < math.MaxInt64 {
		return
	}
	for s := range v.Coming.All() {
		if !s.Pulled() && !(e.room(s, v, p) && p.Pull(s)) {
			return
		}
	}
}

// blockedFrom returns the place in line of the first sequence that has to be
// computed here and does not fit.
func (e Pull) blockedFrom(v sim.View, p *sim.Plan) int64 {
	for s := range v.Waiting.All() {
		if s.Blocks() > 0 { // it was pulled
			continue
		}
		if p.Fits(s, s.Pending()) {
			break
		}
		return s.Turn()
	}
	return math.MaxInt64
}

func (e Pull) room(s *sim.Sequence, v sim.View, p *sim.Plan) bool {
	spare := 1
	if v.Running.Len() > 0 {
		spare = max(spare, int(e.Headroom*float64(v.Limits.Blocks)))
	}
	return leaves(s, spare, v, p)
}

// leaves reports whether a transfer of the prompt of s leaves so many blocks
// free, or s has the memory for itself.
func leaves(s *sim.Sequence, spare int, v sim.View, p *sim.Plan) bool {
	if p.Free() == v.Limits.Blocks || v.Limits.Blocks == math.MaxInt {
		return true
	}
	need := (s.Prompt() + v.Limits.BlockTokens - 1) / v.Limits.BlockTokens
	return p.Free()-need >= spare
}

// overtake admits those that have been pulled, whoever stands before them. One
// that has all the memory and cannot go on ends.
func overtake(v sim.View, p *sim.Plan) {
	for s := range v.Waiting.All() {
		switch n := min(s.Pending(), p.Room()); {
		case s.Blocks() == 0:
			continue
		case n == 0:
			return
		case p.Add(s, n):
			continue
		}
		if p.Refusal() == sim.RefusedMemory && p.Free()+s.Blocks() == v.Limits.Blocks {
			p.Reject(s, sim.RejectOutOfKV)
		}
		return
	}
}
