package main

import (
	"time"

	"servesim/costmodel"
	"servesim/sim"
)

// utilisation is what a run makes of its GPUs over its makespan: of the
// FP8-equivalent rate by the operations that the model's arithmetic needs (MFU),
// of the memory's bandwidth by the bytes that its steps move (MBU).
type utilisation struct {
	MFU float64 `json:"mfu"`
	MBU float64 `json:"mbu"`
}

// utilisation explains the steps of a run on so many ranks. Of ranks that share
// experts each reads those for its own positions times their number: the batch
// of one does not say what the others have.
func (h *history) utilisation(by *costmodel.Transformer, ranks int) utilisation {
	var counted sim.FP8Ops // of one GPU of each rank
	var bytes float64
	var operators []sim.Operator
	for _, steps := range h.steps {
		for _, s := range steps {
			for _, b := range s.batches {
				operators = by.Explain(b, operators[:0])
				for _, o := range operators {
					counted += o.Counted
					bytes += o.Bytes
				}
			}
		}
	}
	g := by.Setup().GPU
	makespan := time.Duration(h.makespan * float64(time.Second))
	return utilisation{
		MFU: (counted / sim.FP8Ops(ranks)).Utilisation(makespan, g.FP8Rate()),
		MBU: bytes / float64(ranks) / makespan.Seconds() / g.Bandwidth,
	}
}
