package scheduler

import "servesim/sim"

// Orca schedules at the level of iterations with memory reserved for the
// longest output (Yu et al., OSDI 2022): every step computes all decodes and
// beside them whole prompts from the head of the queue, as many as slots and
// memory allow. Who has ended leaves at once, and his place is taken in the
// next step. Nothing is ever preempted, and decodes want no free block: leave the
// replica's Growth at [sim.ExactGrowth].
//
// There is no token limit unless the replica has one, by which a longer prompt
// is rejected. Rejected are also requests whose reservation is larger than
// memory, or has no bound. Continuous with ReserveMax keeps prompts and decodes
// apart.
type Orca struct {
	// ModelLen reserves MaxModelLen positions for every sequence, as
	// Sarathi-Serve's version does. By default a sequence gets its prompt and
	// its own MaxOutput, as in the paper.
	ModelLen bool
}

// Schedule implements sim.Scheduler.
func (o Orca) Schedule(v sim.View, p *sim.Plan) {
	calm := decode(v, p)
	for s := range v.Waiting.All() {
		if !admitReserved(v, p, s, o.ModelLen) {
			break
		}
	}
	if calm {
		p.Hold()
	}
}
