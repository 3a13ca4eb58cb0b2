package scheduler

import "servesim/sim"

// ChunkedPrefill schedules without stalls (Sarathi-Serve, Agrawal et al., OSDI
// 2024): every decode first, then prompt chunks with the token budget that is
// left, prompts in progress before new ones. The budget of a step is the
// replica's MaxBatchTokens; without one, prompts are computed whole beside the
// decodes.
//
// A prompt is admitted when blocks for all of it are free, and takes them at
// once, so that admitted prompts never fight for memory. The youngest sequence
// is preempted when decodes run out of it, and nobody is admitted in that pass.
type ChunkedPrefill struct{}

// Schedule implements sim.Scheduler.
func (ChunkedPrefill) Schedule(v sim.View, p *sim.Plan) {
	undisturbed := decode(v, p)
	for s := range v.Prefilling.All() {
		if n := min(s.Pending(), p.Room()); n == 0 || !p.Add(s, n) {
			break
		}
	}
	if !undisturbed {
		return
	}
	for s := range v.Waiting.All() {
		n := min(s.Pending(), p.Room())
		if n == 0 || !p.Reserve(s, s.Pending()) || !p.Add(s, n) {
			break
		}
	}
	if v.Prefilling.Len() == 0 {
		p.Hold()
	}
}
