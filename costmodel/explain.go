package costmodel

import "servesim/sim"

// Explain appends the operators of a step to dst, in the order of a Breakdown
// and without those that take no time and do no work. With pipeline stages
// FLOPs and bytes are those of the average stage, the seconds of all.
func (t *Transformer) Explain(b sim.Batch, dst []sim.Operator) []sim.Operator {
	cost := t.Breakdown(b)
	counted := t.counted(b)
	stages := float64(t.setup.pp())
	for op, c := range cost {
		if c == (OpCost{Bound: c.Bound}) {
			continue
		}
		o := sim.Operator{
			Name: Op(op).String(), FLOPs: c.FLOPs / stages, Counted: counted[op] / sim.FP8Ops(stages),
			Seconds: c.Seconds, Bound: c.Bound.String(),
		}
		if c.Bound == LinkBound {
			o.Sent = c.Bytes / stages
		} else {
			o.Bytes = c.Bytes / stages
		}
		dst = append(dst, o)
	}
	return dst
}

// counted returns one GPU's share of the operations of b by convention.
func (t *Transformer) counted(b sim.Batch) (counted [NumOps]sim.FP8Ops) {
	b.Padding = sim.Padding{}
	n, sampled := promptPositions(&b)
	n, sampled = n+b.Positions, sampled+b.Positions
	for i := range t.products {
		p := &t.products[i]
		counted[p.op] += sim.FP8Ops(float64(p.countedPerRow) * float64(n))
	}
	counted[Routed] = t.setup.Model.countedExperts() * sim.FP8Ops(n) / sim.FP8Ops(t.setup.tp())
	counted[LMHead] = t.head.countedPerRow * sim.FP8Ops(sampled)
	for i := range t.attention {
		a := &t.attention[i]
		counted[PrefillAttention] += BF16.fp8(a.prompts(&b).FLOPs)
		counted[DecodeAttention] += BF16.fp8(a.decodes(&b).FLOPs)
	}
	return counted
}
