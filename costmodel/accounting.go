package costmodel

import (
	"fmt"

	"servesim/sim"
)

// fp8 turns FLOPs in a number format into FP8-equivalent operations. INT8
// counts as FP8: the convention does not name it, devices run both alike.
func (n Number) fp8(flops float64) sim.FP8Ops { return sim.FP8Ops(flops * n.perMultiplyAdd() / 2) }

// perMultiplyAdd is what a multiply-add counts.
func (n Number) perMultiplyAdd() float64 {
	switch n {
	case FP4:
		return 1
	case FP8, INT8:
		return 2
	case BF16:
		return 4
	}
	return 8
}

// Selection is what a step computes for one request.
type Selection struct {
	Cached   int // tokens computed by steps that have ended
	InFlight int // positions of steps that have not
	New      int // q: positions of this step; ≥ 1

	Prompt bool // the positions are of the prompt: logits are computed for its last one only
	Length int  // of the prompt; not looked at unless Prompt
	// FirstValid is the first position that window layers still need; 0
	// unless Prompt.
	FirstValid int
}

// Keys returns k, the tokens that the last position sees.
func (s Selection) Keys() int { return s.Cached + s.InFlight + s.New }

// Counts are the operations that a model's arithmetic needs, by convention:
// draft layers, padding, copies on several GPUs, norms and activations are not
// counted, and rejected drafts are not taken off.
type Counts struct {
	Attention sim.FP8Ops
	Other     sim.FP8Ops // products of the layers, the experts that positions pick
	Logits    sim.FP8Ops
}

// Total returns all operations, attention included.
func (c Counts) Total() sim.FP8Ops { return c.Attention + c.Other + c.Logits }

// Counts returns the operations of a step over all GPUs. Full-attention layers
// attend with all selected positions, window layers with those from FirstValid.
func (m Model) Counts(step []Selection) Counts {
	var c Counts
	setup := Setup{Model: m}
	var groups []attending
	for _, g := range m.attentionGroups() {
		groups = append(groups, setup.attend(g))
	}
	position := m.countedPerPosition()
	for _, s := range step {
		s.check()
		for i := range groups {
			c.Attention += BF16.fp8(groups[i].flops(s))
		}
		c.Other += sim.FP8Ops(float64(s.New) * float64(position))
		rows := s.New
		if s.Prompt {
			rows = 0
			if s.Keys() >= s.Length {
				rows = 1
			}
		}
		c.Logits += BF16.fp8(2 * float64(rows) * float64(m.Vocab) * float64(m.Hidden))
	}
	return c
}

// countedPerPosition is what the layers count for a position, attention apart.
func (m Model) countedPerPosition() sim.FP8Ops {
	var sum sim.FP8Ops
	for _, l := range (Setup{Model: m}).launches() {
		sum += l.Precision.Compute.fp8(float64(l.count) * l.Work(1).FLOPs)
	}
	return sum + m.countedExperts()
}

// countedExperts is what the experts that a position picks count.
func (m Model) countedExperts() sim.FP8Ops {
	picked := float64(m.MoE.Layers) * float64(m.MoE.PerPosition) * float64(m.expert())
	return m.MoE.Precision.Compute.fp8(2 * picked)
}

// flops returns the operations of the pairs of a selection.
func (a *attending) flops(s Selection) float64 {
	c, p := a.decode, s.Keys()-s.New
	if s.Prompt {
		c = a.prompt
	}
	first, n := 0, s.New
	if c.window > 0 {
		first = s.FirstValid
		n = min(n, max(s.Keys()-first, 0))
		p = max(p, first)
	}
	cached, causal := pairs(float64(n), float64(p-first), c.window)
	return c.perPair * (cached + causal)
}

func (s Selection) check() {
	if s.Cached < 0 || s.InFlight < 0 || s.New < 1 || s.FirstValid < 0 || s.FirstValid > 0 && !s.Prompt {
		panic(fmt.Sprintf("costmodel: Selection is %+v", s))
	}
}
