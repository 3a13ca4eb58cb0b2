package scheduler

import (
	"math"

	"servesim/sim"
)

// fit is the answer of an admission test for memory.
type fit uint8

const (
	fits  fit = iota
	later     // when others have given blocks back
	never     // not even alone
)

// fitsPrompt tests whether s can be admitted with blocks for its whole prompt
// (prompt and generated tokens after a preemption) so that the watermark, a
// number of blocks, stays free. It does not count on the prefix cache.
func fitsPrompt(v sim.View, p *sim.Plan, s *sim.Sequence, watermark int) fit {
	need := (s.Prompt()+s.Generated()-1)/v.Limits.BlockTokens + 1
	switch {
	case v.Limits.Blocks-need < watermark:
		return never
	case p.Free()-need < watermark:
		return later
	}
	return fits
}

// watermarkBlocks turns a fraction of the blocks into a number: 0 stands for
// 0.01, a negative fraction for none.
func watermarkBlocks(fraction float64, l sim.Limits) int {
	if fraction < 0 || l.Blocks == math.MaxInt {
		return 0
	}
	if fraction == 0 {
		fraction = 0.01
	}
	return int(fraction * float64(l.Blocks))
}

// rejectForMemory ends a sequence that will never fit.
func rejectForMemory(p *sim.Plan, s *sim.Sequence) {
	reason := sim.RejectKVCapacity
	if s.Generated() > 0 {
		reason = sim.RejectOutOfKV
	}
	p.Reject(s, reason)
}
