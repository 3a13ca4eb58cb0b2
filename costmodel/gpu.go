package costmodel

// GPU is what a datasheet says of one device.
type GPU struct {
	Name      string
	Rate      float64 // dense BF16 FLOP per second, without 2:4 sparsity; > 0
	Bandwidth float64 // of the memory, in bytes per second; > 0
	Memory    float64 // bytes; > 0
	Link      float64 // to the other GPUs of the node, bytes per second one way; 0 means none
}

// Validate names the first field that is out of range.
func (g GPU) Validate() error {
	switch {
	case !finite(g.Rate) || g.Rate == 0:
		return badField("GPU.Rate", g.Rate)
	case !finite(g.Bandwidth) || g.Bandwidth == 0:
		return badField("GPU.Bandwidth", g.Bandwidth)
	case !finite(g.Memory) || g.Memory == 0:
		return badField("GPU.Memory", g.Memory)
	case !finite(g.Link):
		return badField("GPU.Link", g.Link)
	}
	return nil
}
