package scheduler

import "servesim/sim"

// Alternating lets prompt chunks and decodes take turns and never mixes them,
// as the simple chunking scheduler of the Sarathi-Serve repository does: after
// every chunk, everybody who decodes gets one token. A turn without work goes
// to the other side.
//
// A prompt turn computes prompts in progress, or else prompts from the head of
// the queue. Admission and preemption are those of [Sarathi], and so is the
// growth the replica should have, [sim.TouchedGrowth].
type Alternating struct {
	// Chunk limits the positions of a prompt turn. 0 means the replica's
	// MaxBatchTokens, which limits decodes too.
	Chunk int
	// Watermark is the fraction of blocks that an admission leaves free. 0
	// means 0.01; below 0 means none.
	Watermark float64

	decodes bool // it is their turn
	order   arrivalOrder
}

// Schedule implements sim.Scheduler.
func (a *Alternating) Schedule(v sim.View, p *sim.Plan) {
	a.order.restore(v, p)
	idle := v.Waiting.Len() == 0 && v.Prefilling.Len() == 0
	if !a.decodes {
		if a.decodes = a.prefill(v, p); a.decodes {
			return
		}
		idle = true // and stays so
	}
	a.decodes = false
	room := p.Room()
	switch calm := decode(v, p); {
	case calm && p.Room() == room:
		a.decodes = !idle && a.prefill(v, p)
	case calm && idle:
		p.Hold()
	}
}

// prefill plans a prompt turn and reports whether there is work for it.
func (a *Alternating) prefill(v sim.View, p *sim.Plan) bool {
	chunk := p.Room()
	if a.Chunk > 0 {
		chunk = min(chunk, a.Chunk)
	}
	rest := p.Room() - chunk // of the budget, not for this turn
	for s := range v.Prefilling.All() {
		if n := min(s.Pending(), p.Room()-rest); n == 0 || !p.Add(s, n) {
			break
		}
	}
	if p.Room()-rest < chunk {
		return true
	}
	watermark := watermarkBlocks(a.Watermark, v.Limits)
	for s := range v.Waiting.All() {
		if !admitChunk(v, p, s, p.Room()-rest, watermark, &a.order) {
			break
		}
	}
	return p.Room()-rest < chunk
}
