package costmodel

import "fmt"

// Bound says what a step or an operator waits for.
type Bound uint8

// The bounds. Equal times of memory and compute count as MemoryBound: more
// operations would be felt, but none has been yet.
const (
	MemoryBound Bound = iota
	ComputeBound
	LinkBound // between GPUs
	HostBound
)

var boundNames = [...]string{"memory", "compute", "link", "host"}

// String returns the name in lower case.
func (b Bound) String() string {
	if int(b) < len(boundNames) {
		return boundNames[b]
	}
	return fmt.Sprintf("bound(%d)", uint8(b))
}

// Claim says what a model's times are.
type Claim uint8

// The claims.
const (
	LowerBound Claim = iota // no device with these rates is faster
	Prediction              // overheads are included
)

// String returns "lower bound" or "prediction".
func (c Claim) String() string {
	if c == Prediction {
		return "prediction"
	}
	return "lower bound"
}
