package costmodel

import "fmt"

// Op is a class of operators in a step.
type Op uint8

// The classes, in the order of a Breakdown.
const (
	QKV              Op = iota // query, key and value projections
	PrefillAttention           // scores and values of prompt chunks, KV written and read
	DecodeAttention            // the same for decoding sequences
	Output                     // output projection
	GateUp                     // first two matrices of the feed-forward network
	Down                       // its third
	LMHead                     // logits, for sampled rows only
	Elementwise                // embedding lookup, norms, residuals, rotary embedding, activation
	AllReduce                  // between the GPUs of a tensor-parallel group
	Host                       // Efficiency.Step and Efficiency.Sequence
	NumOps           = int(iota)
)

var opNames = [NumOps]string{"qkv", "prefill attention", "decode attention", "output", "gate+up", "down",
	"lm head", "elementwise", "all-reduce", "host"}

// String returns the name in lower case.
func (o Op) String() string {
	if int(o) < NumOps {
		return opNames[o]
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// OpCost is the cost of one class of operators on one GPU, all layers
// together.
type OpCost struct {
	FLOPs   float64
	Bytes   float64 // read and written in memory; sent over the link by AllReduce
	Seconds float64 // launches included
	Bound   Bound
}

// Breakdown is the cost of a step by operator, indexed by Op.
type Breakdown [NumOps]OpCost

// Seconds returns the time of the step.
func (b *Breakdown) Seconds() float64 {
	sum := 0.0
	for i := range b {
		sum += b[i].Seconds
	}
	return sum
}

// FLOPs returns the operations of the step on one GPU.
func (b *Breakdown) FLOPs() float64 {
	sum := 0.0
	for i := range b {
		sum += b[i].FLOPs
	}
	return sum
}

// Bytes returns the memory traffic of the step on one GPU, without what goes
// over the link.
func (b *Breakdown) Bytes() float64 {
	sum := 0.0
	for i := range b {
		if Op(i) != AllReduce {
			sum += b[i].Bytes
		}
	}
	return sum
}
