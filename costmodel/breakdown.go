package costmodel

import "fmt"

// Op is a class of operators in a step.
type Op uint8

// The classes, in the order of a Breakdown.
const (
	Embedding        Op = iota // lookup
	QKV                        // query, key and value projections; with latent attention those to and from the latents
	PrefillAttention           // scores and values of prompt chunks, KV written and read
	DecodeAttention            // the same for decoding sequences
	Output                     // output projection
	GateUp                     // first two matrices of the feed-forward network and of shared experts
	Down                       // their third
	Router                     // scores of the experts
	Routed                     // routed experts
	LMHead                     // logits, for sampled rows only
	Sampling                   // of a token from the logits
	Elementwise                // norms, residuals, rotary embedding, activation
	AllReduce                  // between the GPUs of a tensor-parallel group
	Gather                     // of the logits of a tensor-parallel group
	Dispatch                   // positions to the experts of other data-parallel groups and back
	Send                       // positions from one pipeline stage to the next
	Host                       // what of Efficiency.Host the GPU waits for
	NumOps           = int(iota)
)

var opNames = [NumOps]string{"embedding", "qkv", "prefill attention", "decode attention", "output", "gate+up", "down",
	"router", "experts", "lm head", "sampling", "elementwise", "all-reduce", "gather", "dispatch", "send", "host"}

// positionOps depend on the number of positions only.
var positionOps = [...]Op{Embedding, QKV, Output, GateUp, Down, Router, Routed, Elementwise, AllReduce, Dispatch, Send}

// String returns the name in lower case.
func (o Op) String() string {
	if int(o) < NumOps {
		return opNames[o]
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// OpCost is the cost of one class of operators on one GPU, all layers
// together; of several pipeline stages, those of all of them.
type OpCost struct {
	FLOPs   float64
	Bytes   float64 // read and written in memory; sent over the link if Bound is LinkBound
	Seconds float64 // launches included
	Bound   Bound
}

// Breakdown is the cost of a step by operator, indexed by Op.
type Breakdown [NumOps]OpCost

// Seconds returns the time of the step. Its order of additions is that of
// StepTime, so that the two agree to the last bit.
func (b *Breakdown) Seconds() float64 {
	return b.device() + b[Host].Seconds
}

// device returns the time of the step without the host's.
func (b *Breakdown) device() float64 {
	return b.positions() + b.attention() + b.samples()
}

func (b *Breakdown) positions() float64 {
	sum := 0.0
	for _, op := range positionOps {
		sum += b[op].Seconds
	}
	return sum
}

func (b *Breakdown) attention() float64 {
	return b[PrefillAttention].Seconds + b[DecodeAttention].Seconds
}

func (b *Breakdown) samples() float64 {
	return b[LMHead].Seconds + b[Sampling].Seconds + b[Gather].Seconds
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
		if b[i].Bound != LinkBound {
			sum += b[i].Bytes
		}
	}
	return sum
}
