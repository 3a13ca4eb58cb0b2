package scheduler

import "servesim/sim"

// Continuous schedules at the level of iterations (Orca, Yu et al., OSDI
// 2022): sequences join and leave between any two steps. Prompts go first and
// whole: a step computes either prompts or decodes, so decodes stall while
// prompts are computed (the default of vLLM V0).
//
// Memory is taken as it is needed, and the youngest sequence is preempted when
// it runs out. A prompt longer than the token budget is rejected; so is a
// preempted sequence whose prompt and tokens have grown longer than it.
type Continuous struct {
	// ReserveMax reserves blocks for prompt and longest output at admission,
	// as Orca does. Nothing is preempted with exact growth, and fewer
	// sequences run.
	ReserveMax bool
}

// Schedule implements sim.Scheduler.
func (c Continuous) Schedule(v sim.View, p *sim.Plan) {
	before := p.Room()
	for s := range v.Waiting.All() {
		if !admitWhole(v, p, s, c.ReserveMax) {
			break
		}
	}
	if p.Room() < before {
		return
	}
	if decode(v, p) {
		p.Hold()
	}
}
