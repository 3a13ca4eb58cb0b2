package scheduler

import "servesim/sim"

// Pull lets any scheduler decode what other replicas have prefilled: it starts
// the transfers, first come first served, while the blocks of whole prompts are
// free, and leaves the rest of the pass to the other. A prompt without room
// blocks those behind it, and its blocks at the source stay taken: memory that
// is short on the decode side stops the prefill side, and nothing is dropped.
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
}

func (e Pull) pull(v sim.View, p *sim.Plan) {
	for s := range v.Remote.All() {
		if !e.room(s, v, p) || !p.Pull(s) {
			return
		}
	}
	for s := range v.Coming.All() {
		if !s.Pulled() && !(e.room(s, v, p) && p.Pull(s)) {
			return
		}
	}
}

func (e Pull) room(s *sim.Sequence, v sim.View, p *sim.Plan) bool {
	if e.Headroom == 0 || v.Running.Len() == 0 {
		return true
	}
	need := (s.Prompt() + v.Limits.BlockTokens - 1) / v.Limits.BlockTokens
	return p.Free()-need >= int(e.Headroom*float64(v.Limits.Blocks))
}
