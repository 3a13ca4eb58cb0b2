package main

import (
	"servesim/costmodel"
	"servesim/sim"
)

// attention is the measured time of one layer's attention for one kind of
// batch: a grid, and a fit of its form that says how the time goes on where the
// grid has no point.
type attention struct {
	grid *costmodel.Grid
	axes []int // of the grid
	fit  *costmodel.Calibration
}

// The coordinates of a measured batch: one chunk behind cached tokens, and
// decodes of equal context.
const (
	axisChunk = iota
	axisCached
	axisDecodes
	axisContext
	allAxes
)

// attentionLimit bounds the contexts that the form is fitted to: those of
// chunked prompts and chats. Beyond, the device's cache no longer holds what
// the heads of a group share, and the time is another function.
const attentionLimit = 4096

func newAttention(samples []costmodel.Sample, axes []int, from costmodel.Provenance) (attention, error) {
	a := attention{axes: axes}
	var few, points []costmodel.Sample
	for _, s := range samples {
		p := s
		p.Inputs = nil
		for _, axis := range axes {
			p.Inputs = append(p.Inputs, s.Inputs[axis])
		}
		points = append(points, p)
		if s.Inputs[axisChunk]+s.Inputs[axisCached] <= attentionLimit && s.Inputs[axisContext] <= attentionLimit {
			s.Inputs = worked(s.Inputs).inputs()
			few = append(few, s)
		}
	}
	var err error
	if a.grid, err = costmodel.NewGrid(from, points); err != nil {
		return a, err
	}
	a.fit, err = costmodel.Fit(costmodel.MixedForm(), thin(few, fitSamples), from)
	return a, err
}

// work is what attention does for a batch.
type work struct {
	positions, cached, causal, decodes, context, longest float64
}

func (w work) inputs() []float64 {
	return []float64{w.positions, w.cached, w.causal, w.decodes, w.context, w.longest}
}

// worked is the work of a point of the grid.
func worked(x []float64) work {
	return work{x[axisChunk], x[axisChunk] * x[axisCached], x[axisChunk] * x[axisChunk] / 2,
		x[axisDecodes], x[axisDecodes] * x[axisContext], max(x[axisChunk]+x[axisCached], x[axisContext])}
}

// workOf is the work of a batch. It does not say which decode is longest: they
// are taken to be equal.
func workOf(b sim.Batch) work {
	w := work{decodes: float64(b.Decodes), context: float64(b.Context + b.Positions)}
	if w.decodes > 0 {
		w.longest = w.context / w.decodes
	}
	for _, c := range b.Prefills {
		t := float64(c.Tokens)
		w.positions += t
		w.cached += t * float64(c.Context)
		w.causal += t * t / 2
		w.longest = max(w.longest, t+float64(c.Context))
	}
	return w
}

// seconds looks the nearest batch with one chunk and equal decodes up, and
// goes from there to w as the form does.
func (a *attention) seconds(w work) float64 {
	var x [allAxes]float64
	x[axisChunk], x[axisDecodes] = w.positions, w.decodes
	if w.positions > 0 {
		x[axisCached] = w.cached / w.positions
	}
	if w.decodes > 0 {
		x[axisContext] = w.context / w.decodes
	}
	var p [allAxes]float64
	point := p[:len(a.axes)]
	for i, axis := range a.axes {
		point[i] = x[axis]
	}
	a.grid.Nearest(point)
	for i, axis := range a.axes {
		x[axis] = point[i]
	}
	t, err := a.grid.Lookup(point...)
	if err != nil {
		panic(err) // Nearest is inside
	}
	there := a.fit.Seconds(worked(x[:]).inputs()...)
	return t * a.fit.Seconds(w.inputs()...) / there
}
