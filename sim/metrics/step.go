package metrics

import "servesim/sim"

// steps sums what the steps of all replicas did in the window.
type steps struct {
	n, tokens int64
	busy      int64 // ns, summed over the replicas
	sequences int64 // in the batches, summed over the steps
	largest   int64 // batch, in sequences
	batch     area  // sequences × ns
	kv        area  // KV blocks in use × ns
}

// replica is what the KV occupancy of one replica needs.
type replica struct {
	usable int64 // KV blocks; 0 if memory never runs out
	peak   int64 // most blocks in use during a step
}

// stepEnd runs once per step: no map, no allocation, nothing per sequence.
func (c *Collector) stepEnd(e *sim.Event) {
	s := &c.steps
	batch := int64(e.Batch.Decodes + len(e.Batch.Prefills))
	if took := c.window.overlap(e.Time-sim.Time(e.Took), e.Time); took > 0 {
		s.busy += took
		s.batch.add(batch, took)
		if r := &c.replicas[e.Replica]; r.usable > 0 {
			used := r.usable - int64(e.FreeBlocks)
			s.kv.add(used, took)
			r.peak = max(r.peak, used)
		}
	}
	if !c.window.holds(e.Time) {
		return
	}
	s.n++
	s.tokens += int64(e.Tokens)
	s.sequences += batch
	s.largest = max(s.largest, batch)
	for i := range e.Gaps {
		g := &e.Gaps[i]
		c.cells[g.Class].gaps.add(float64(e.Time-g.Prev), int64(g.Count))
	}
}
