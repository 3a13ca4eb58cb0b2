package costmodel

import "math"

// exchanges are the operations of a step between GPUs.
type exchanges struct {
	setup           Setup
	row             float64 // bytes of a position
	logits          float64 // bytes of a sampled row
	reduces         float64 // all-reduces a step: two a layer and one for the embedding
	toExperts, back float64 // bytes of a position per layer with experts
	within, across  float64 // link speed of a tensor-parallel group and of the experts' ranks
	between         float64 // of stages
	reducing        Collective
	exchanging      Collective
}

func newExchanges(s Setup) exchanges {
	m := s.Model
	l := exchanges{
		setup: s, row: float64(bf16 * m.Hidden), logits: float64(bf16 * m.Vocab), reduces: float64(2*m.Layers + 1),
		within: s.GPU.link(s.tp()), across: s.GPU.link(s.tp() * s.dp()), between: s.GPU.link(s.GPUs()),
	}
	e := s.Efficiency
	l.reducing, l.exchanging = e.AllReduce, e.Exchange
	if s.GPU.oneNode(s.tp()) {
		l.reducing = e.Measured.reduce(e.AllReduce, s.tp())
	}
	if s.Exchange == GatherScatter && s.GPU.oneNode(s.tp()*s.dp()) {
		l.exchanging = e.Measured.exchange(e.Exchange, s.dp())
	}
	l.toExperts, l.back = l.row, l.row
	if s.Exchange == AllToAll {
		// Each position goes to the ranks that have one of its experts.
		ep := float64(s.ep())
		ranks := ep * (1 - math.Pow(1-1/ep, float64(m.MoE.PerPosition)))
		l.toExperts = ranks * float64(m.Hidden) * m.MoE.Precision.Activations.BytesPerValue()
		l.back = ranks * l.row
	}
	return l
}

func (l *exchanges) reduce(rows float64) OpCost {
	tp := l.setup.tp()
	if tp == 1 {
		return OpCost{}
	}
	return OpCost{
		Bytes:   l.reduces * 2 * sent(rows*l.row, tp),
		Seconds: l.reduces * l.reducing.AllReduce(rows*l.row, tp, l.within),
		Bound:   LinkBound,
	}
}

func (l *exchanges) gather(rows float64) OpCost {
	tp := l.setup.tp()
	if tp == 1 {
		return OpCost{}
	}
	return OpCost{
		Bytes:   sent(rows*l.logits, tp),
		Seconds: l.reducing.Gather(rows*l.logits, tp, l.within),
		Bound:   LinkBound,
	}
}

// dispatch is there and back: of all positions for GatherScatter, of those of
// this group for AllToAll.
func (l *exchanges) dispatch(rows, all float64) OpCost {
	n := l.setup.dp()
	if n == 1 {
		return OpCost{}
	}
	if l.setup.Exchange == AllToAll {
		n, all = l.setup.ep(), rows
	}
	layers, c := float64(l.setup.Model.MoE.Layers), l.exchanging
	return OpCost{
		Bytes:   layers * (sent(all*l.toExperts, n) + sent(all*l.back, n)),
		Seconds: layers * (c.Gather(all*l.toExperts, n, l.across) + c.Gather(all*l.back, n, l.across)),
		Bound:   LinkBound,
	}
}

func (l *exchanges) send(rows float64) OpCost {
	boundaries := float64(l.setup.pp() - 1)
	if boundaries == 0 {
		return OpCost{}
	}
	return OpCost{
		Bytes:   boundaries * rows * l.row,
		Seconds: boundaries * l.setup.Efficiency.Send.Send(rows*l.row, l.between),
		Bound:   LinkBound,
	}
}
