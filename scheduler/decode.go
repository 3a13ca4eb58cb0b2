package scheduler

import (
	"math"

	"servesim/sim"
)

// Reasons for which the schedulers of this package reject a request. They
// stand beside those of package sim.
const (
	// RejectBatchTokens: a scheduler that computes prompts whole meets one
	// that is longer than the token budget of a step.
	RejectBatchTokens = "exceeds_batch_tokens"
	// RejectUnboundedOutput: a scheduler that reserves memory for the longest
	// output meets a request without MaxOutput on a replica without
	// MaxModelLen.
	RejectUnboundedOutput = "unbounded_output"
)

// decode adds every decode to the plan, first come first served: while memory
// is short the youngest running sequence is preempted. It reports whether the
// whole batch decodes with nobody preempted.
func decode(v sim.View, p *sim.Plan) (undisturbed bool) {
	return decodeOr(v, p, (*sim.Plan).Preempt)
}

// decodeOr is decode with another way to take the memory of a victim.
func decodeOr(v sim.View, p *sim.Plan, evict func(*sim.Plan, *sim.Sequence)) (undisturbed bool) {
	undisturbed = true
	for !p.AddDecodes() {
		undisturbed = false
		if p.Refusal() == sim.RefusedTokens {
			decodeOldest(v, p, evict)
			return false
		}
		evict(p, v.Running.Last())
	}
	return undisturbed
}

// decodeOldest spends a token budget that is smaller than the batch.
func decodeOldest(v sim.View, p *sim.Plan, evict func(*sim.Plan, *sim.Sequence)) {
	for s := range v.Running.All() {
		for s.State() == sim.Running && s.Pending() == 1 && !p.Add(s, 1) {
			if p.Refusal() == sim.RefusedTokens {
				return
			}
			evict(p, v.Running.Last())
		}
	}
}

// admitWhole admits s with its whole prompt. With reserve it first reserves
// memory for the longest output the request may have. It returns false if
// nobody else should be admitted in this pass.
func admitWhole(v sim.View, p *sim.Plan, s *sim.Sequence, reserve bool) bool {
	if reserve {
		return admitReserved(v, p, s, false)
	}
	if s.Pending() > v.Limits.MaxBatchTokens {
		p.Reject(s, RejectBatchTokens)
		return true
	}
	return p.Add(s, s.Pending())
}

// admitReserved admits s with its whole prompt and memory for the longest
// output it may have, or for as many positions as the model has. It returns
// false if nobody else should be admitted in this pass.
func admitReserved(v sim.View, p *sim.Plan, s *sim.Sequence, modelLen bool) bool {
	if s.Pending() > v.Limits.MaxBatchTokens {
		p.Reject(s, RejectBatchTokens)
		return true
	}
	if v.Limits.Blocks == math.MaxInt {
		return p.Add(s, s.Pending())
	}
	longest := s.MaxOutput()
	if room := max(v.Limits.MaxModelLen-s.Prompt(), 1); modelLen || longest == 0 || longest > room {
		longest = room
	}
	// The KV of the last token is never stored.
	tokens := s.Prompt() + longest - 1
	if modelLen {
		tokens = v.Limits.MaxModelLen
	}
	switch {
	case (modelLen || s.MaxOutput() == 0) && v.Limits.MaxModelLen == math.MaxInt:
		p.Reject(s, RejectUnboundedOutput)
		return true
	case (tokens-1)/v.Limits.BlockTokens+1 > v.Limits.Blocks:
		p.Reject(s, sim.RejectKVCapacity)
		return true
	}
	if s.Pending() > p.Room() {
		return p.Add(s, s.Pending()) // which says no
	}
	// What the prefix cache has of s is not pending, and needs no growth.
	have := s.Prompt() + s.Generated() - s.Pending()
	return p.Reserve(s, tokens-have) && p.Add(s, s.Pending())
}
