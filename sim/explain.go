package sim

import "time"

// Explainer is a second interface of a [CostModel], found by type assertion:
// it says what a step is made of. The engine never asks; observers do.
type Explainer interface {
	// Explain appends the operators of a step to dst. Their seconds add up
	// to StepTime, up to its rounding.
	Explain(b Batch, dst []Operator) []Operator
}

// Operator is the part that one class of operators has in a step, on one GPU.
type Operator struct {
	Name    string
	FLOPs   float64 // performed, padding included; a multiply-add counts two
	Counted FP8Ops  // of the model's work, without padding and copies
	Bytes   float64 // read and written in memory
	Sent    float64 // bytes sent to other GPUs
	Seconds float64
	Bound   string // what it waits for: memory, compute, link or host
}

// FP8Ops is an amount of FP8-equivalent operations: a multiply-add counts one
// in FP4, two in FP8, four in BF16, eight in TF32 and FP32. An amount of this
// type cannot be divided by a rate of another convention.
type FP8Ops float64

// FP8Rate is FP8-equivalent operations per second.
type FP8Rate float64

// Utilisation returns the amount as a share of what the reference rate would
// do in the time. It is NaN or infinite for no time.
func (o FP8Ops) Utilisation(elapsed time.Duration, reference FP8Rate) float64 {
	return float64(o) / elapsed.Seconds() / float64(reference)
}

// Tera returns the amount in units of 1e12.
func (o FP8Ops) Tera() float64 { return float64(o) / 1e12 }
