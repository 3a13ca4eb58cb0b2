package costmodel

import (
	"fmt"

	"servesim/sim"
)

// GPU is what a datasheet says of one device. Rates are dense, without 2:4
// sparsity: vendors often print the double.
type GPU struct {
	Name      string
	Rate      float64 // BF16 FLOP per second; > 0
	FP8       float64 // FP8 FLOP per second; 0 means that it has none
	INT8      float64 // INT8 operations per second; 0 means that it has none
	FP4       float64 // FP4 FLOP per second; 0 means that it has none
	Bandwidth float64 // of the memory, in bytes per second; > 0
	Memory    float64 // bytes; > 0
	Link      float64 // to the other GPUs of the node, bytes per second one way; 0 means none
	Node      int     // GPUs that Link connects; 0 means any number
	Network   float64 // to the GPUs of other nodes, bytes per second one way; 0 means none
	Watts     float64 // of the board; 0 means not known
	Price     Price

	Processors int // streaming multiprocessors, over which kernels spread their tiles; 0 means not known
}

// Price is what an hour of one GPU costs in dollars, and the power of its part
// of a data centre. 0 means not known.
type Price struct {
	Hyperscaler, Neocloud, Rental float64 // owned by either, rented for three years
	AllInWatts                    float64 // with its share of server, network and cooling
}

// Peak returns the rate in a number format, 0 if the GPU has none.
func (g GPU) Peak(n Number) float64 {
	switch n {
	case BF16:
		return g.Rate
	case FP8:
		return g.FP8
	case INT8:
		return g.INT8
	case FP4:
		return g.FP4
	}
	return 0
}

// FP8Rate returns the reference rate for FP8-equivalent operations: the FP8
// rate, or twice the BF16 rate of a GPU without.
func (g GPU) FP8Rate() sim.FP8Rate {
	if g.FP8 > 0 {
		return sim.FP8Rate(g.FP8)
	}
	return sim.FP8Rate(2 * g.Rate)
}

// oneNode reports whether n GPUs are all on one Link.
func (g GPU) oneNode(n int) bool { return g.Node == 0 || n <= g.Node }

// link returns the speed one way between n GPUs.
func (g GPU) link(n int) float64 {
	if !g.oneNode(n) {
		return min(g.Link, g.Network)
	}
	return g.Link
}

// Validate names the first field that is out of range.
func (g GPU) Validate() error {
	for _, f := range []struct {
		name     string
		value    float64
		positive bool
	}{
		{"Rate", g.Rate, true}, {"FP8", g.FP8, false}, {"INT8", g.INT8, false}, {"FP4", g.FP4, false},
		{"Bandwidth", g.Bandwidth, true}, {"Memory", g.Memory, true}, {"Link", g.Link, false}, {"Network", g.Network, false},
		{"Watts", g.Watts, false}, {"Price.Hyperscaler", g.Price.Hyperscaler, false}, {"Price.Neocloud", g.Price.Neocloud, false},
		{"Price.Rental", g.Price.Rental, false}, {"Price.AllInWatts", g.Price.AllInWatts, false},
	} {
		if !finite(f.value) || f.positive && f.value == 0 {
			return badField("GPU."+f.name, f.value)
		}
	}
	if g.Node < 0 {
		return badField("GPU.Node", g.Node)
	}
	if g.Processors < 0 {
		return badField("GPU.Processors", g.Processors)
	}
	return nil
}

// validateLink checks that n GPUs are connected.
func (g GPU) validateLink(n int) error {
	switch {
	case n < 2:
		return nil
	case g.Link == 0:
		return fmt.Errorf("costmodel: Setup has %d GPUs, GPU.Link is 0", n)
	case g.link(n) == 0:
		return fmt.Errorf("costmodel: Setup has %d GPUs, GPU.Node is %d and GPU.Network 0", n, g.Node)
	}
	return nil
}
