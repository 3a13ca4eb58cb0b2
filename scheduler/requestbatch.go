package scheduler

import "servesim/sim"

// RequestBatch runs one batch of requests to its end before it takes new work,
// as FasterTransformer and plain generate loops do. A batch forms when nothing
// runs, from as many waiting requests as slots, token budget and memory allow,
// with memory reserved for the longest output of each. Requests that end early
// get their answer at once, but their place stays empty.
//
// The zero value computes no padding and frees the memory of each request as
// it ends.
type RequestBatch struct {
	// Size limits the batch; 0 means up to the replica's MaxSeqs.
	Size int
	// Padded computes every prompt at the length of the longest one, and a
	// row for every sequence of the batch until the last has ended.
	Padded bool
	// FreeAtEnd frees memory only when the whole batch has ended.
	FreeAtEnd bool
	// ModelLen reserves MaxModelLen positions for every request, whatever its
	// own limit.
	ModelLen bool

	rows int
}

// Schedule implements sim.Scheduler.
func (b *RequestBatch) Schedule(v sim.View, p *sim.Plan) {
	if v.Running.Len() == 0 {
		p.Release()
		b.form(v, p)
		return
	}
	if decode(v, p) {
		p.Hold()
	}
	if b.Padded {
		p.Pad(b.rows, 0)
	}
}

// form starts the prompts of the next batch.
func (b *RequestBatch) form(v sim.View, p *sim.Plan) {
	longest, sum := 0, 0
	b.rows = 0
	for s := range v.Waiting.All() {
		if b.Size > 0 && b.rows == b.Size || !admitReserved(v, p, s, b.ModelLen) {
			break
		}
		if s.State() != sim.Running {
			continue
		}
		b.rows++
		longest, sum = max(longest, s.Pending()), sum+s.Pending()
		if b.FreeAtEnd {
			p.Retain(s, false, true)
		}
	}
	if b.Padded {
		p.Pad(0, b.rows*longest-sum)
	}
}
