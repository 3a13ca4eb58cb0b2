package main

import (
	"time"

	"servesim/costmodel"
	"servesim/sim"
)

// drafting adds to the price of a step what it takes to make the drafts that
// the step checks: one pass of the drafter over all decodes for the first draft
// of each, one for the second, and so on.
type drafting struct {
	model, drafter *costmodel.Transformer
}

// newDrafting takes one layer and the head of the model as the drafter, as
// EAGLE and MTP drafters are. It runs inside the model's step: no host time of
// its own.
func newDrafting(setup costmodel.Setup) (d drafting, err error) {
	if d.model, err = costmodel.NewTransformer(setup); err != nil {
		return drafting{}, err
	}
	setup.Model.Layers, setup.Model.Window = 1, costmodel.WindowLayers{}
	setup.Model.MoE.Layers = min(setup.Model.MoE.Layers, 1)
	setup.Efficiency.Host = costmodel.HostTime{}
	d.drafter, err = costmodel.NewTransformer(setup)
	return d, err
}

// StepTime implements sim.CostModel.
func (d drafting) StepTime(b sim.Batch) time.Duration {
	return d.model.StepTime(b) + d.draftTime(b)
}

// draftTime returns the time of the passes.
func (d drafting) draftTime(b sim.Batch) (sum time.Duration) {
	if b.Decodes == 0 {
		return 0
	}
	for left := b.Positions - b.Decodes; left > 0; left -= b.Decodes {
		// The last pass is for those that have one draft more.
		n := min(left, b.Decodes)
		sum += d.drafter.StepTime(sim.Batch{Decodes: n, Positions: n, Context: b.Context / b.Decodes * n})
	}
	return sum
}

// bounds returns the parts of the model's step that wait for arithmetic, for
// memory and for anything else.
func (d drafting) bounds(b sim.Batch) (compute, memory, other float64) {
	for _, cost := range d.model.Breakdown(b) {
		switch cost.Bound {
		case costmodel.ComputeBound:
			compute += cost.Seconds
		case costmodel.MemoryBound:
			memory += cost.Seconds
		default:
			other += cost.Seconds
		}
	}
	return compute, memory, other
}
