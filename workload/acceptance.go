package workload

import (
	"fmt"

	"servesim/sim"
)

// Acceptance says which draft tokens the model confirms: a [sim.Drafter].
//
// The answer is a pure function of Seed, the request's ID and the index of the
// token that the drafts follow. Compared runs therefore see the same answers
// wherever they draft, whatever the number of drafts: with more of them the
// same first ones are right. So do curves: where one confirms n drafts, a
// curve that is nowhere lower confirms n at least. Requests that come with the
// same ID, one after the other, see the same answers.
//
// It keeps no state, allocates nothing and may be shared by replicas.
type Acceptance struct {
	Seed uint64
	// Conditional[i] is the probability, from 0 to 1, that draft i+1 is right
	// if those before it are. The last one holds for all further drafts, so
	// that one value is a constant probability. Without any, no draft is right.
	Conditional []float64
}

// Validate names the first probability that is out of range.
func (a Acceptance) Validate() error {
	for i, p := range a.Conditional {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("Acceptance.Conditional[%d] is %v, want a probability from 0 to 1", i, p)
		}
	}
	return nil
}

// Accept implements sim.Drafter. It panics if a probability is out of range.
func (a Acceptance) Accept(q sim.Query, index, drafts int) int {
	u := float64(acceptanceHash(a.Seed, uint64(q.ID), uint64(index))>>11) / (1 << 53)
	// One number in [0, 1) decides about all drafts: n are right while it is
	// below the probability that n are.
	reach := 1.0
	for n := range drafts {
		if reach *= a.conditional(n); u >= reach {
			return n
		}
	}
	return drafts
}

// PerPosition returns the probability that at least 1, 2, …, drafts drafts are
// right: the rate at which engines see each position accepted. It is what
// scheduler.VariableDrafts plans with. Its sum is the mean number of accepted
// drafts, one less than the mean accepted length.
func (a Acceptance) PerPosition(drafts int) []float64 {
	reach, out := 1.0, make([]float64, drafts)
	for n := range out {
		reach *= a.conditional(n)
		out[n] = reach
	}
	return out
}

// MeanLength returns the mean tokens of a verification step with that many
// drafts: those confirmed and the model's own.
func (a Acceptance) MeanLength(drafts int) float64 {
	mean := 1.0
	for _, reach := range a.PerPosition(drafts) {
		mean += reach
	}
	return mean
}

func (a Acceptance) conditional(n int) float64 {
	if len(a.Conditional) == 0 {
		return 0
	}
	p := a.Conditional[min(n, len(a.Conditional)-1)]
	if !(p >= 0 && p <= 1) {
		panic("workload: " + a.Validate().Error())
	}
	return p
}

// acceptanceHash is uniform over 64 bits. It stands for a [Stream] per token,
// of which only one number is wanted.
func acceptanceHash(seed, id, index uint64) uint64 {
	const purpose = 0x616363657074616e // "acceptan"
	return mix(mix(mix(seed^purpose)^id) ^ index)
}
