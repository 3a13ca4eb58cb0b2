package workload

import (
	"fmt"
	"iter"
	"slices"

	"servesim/sim"
	"servesim/sim/kv"
)

// Continuations are the turns that prompts of a recording without sessions seem
// to be: a request continues an earlier one if it begins with all blocks of that
// but the last, at least two. The answer to that request fills the block that
// was left, so its hash is not known.
//
// Each request is continued once, by the first that can: others that begin in
// the same way are branches, and count for what they find before, if anything. A
// request that begins with several earlier ones continues the longest, and the
// latest of those.
type Continuations struct {
	Requests int    `json:"requests"`
	Share    Figure `json:"share"`
	// GapP10, GapP50 and GapP90 are of the times, in seconds, between the arrivals
	// of a request and of the one that continues it, percentiles as in [Summary].
	GapP10 Figure `json:"gap_p10_s"`
	GapP50 Figure `json:"gap_p50_s"`
	GapP90 Figure `json:"gap_p90_s"`
	// Longest is the largest number of continuations in a row.
	Longest int `json:"longest"`
}

// DescribeContinuations reads a sequence to its end. It holds every request that
// is not continued, and a float64 for every one that is.
func DescribeContinuations(requests iter.Seq2[sim.Request, error]) (Continuations, error) {
	type said struct {
		at    sim.Time
		depth int
	}
	open := map[kv.Hash]said{} // by the last block that must be found
	var c Continuations
	var gaps []float64
	n, block := 0, 0
	for q, err := range requests {
		switch {
		case err != nil:
			return Continuations{}, err
		case len(q.Prefix) == 0:
			n++
			continue
		case q.Prompt < 1 || q.PrefixBlock < 1 || block > 0 && q.PrefixBlock != block:
			return Continuations{}, fmt.Errorf("workload: request %d has prompt %d, prefix in blocks of %d, others of %d", q.ID, q.Prompt, q.PrefixBlock, block)
		}
		n++
		block = q.PrefixBlock
		chain := q.Prefix[:min(len(q.Prefix), blocks(q.Prompt, block))]
		depth := 0
		for _, h := range slices.Backward(chain[min(1, len(chain)):]) {
			if before, ok := open[h]; ok {
				delete(open, h)
				depth = before.depth + 1
				gaps = append(gaps, q.Arrival.Sub(before.at).Seconds())
				break
			}
		}
		c.Longest = max(c.Longest, depth)
		if len(chain) > 2 {
			open[chain[len(chain)-2]] = said{q.Arrival, depth}
		}
	}
	slices.Sort(gaps)
	c.Requests, c.Share = len(gaps), orNaN(float64(len(gaps))/float64(n), n > 0)
	c.GapP10, c.GapP50, c.GapP90 = quantile(gaps, .1), quantile(gaps, .5), quantile(gaps, .9)
	return c, nil
}
