package costmodel

import (
	"fmt"
	"time"
)

// Efficiency is what separates a real engine from the datasheet. The zero
// value is the datasheet itself: no overhead, every peak reached, so that the
// model is a lower bound. [FittedEfficiency] has measured values.
type Efficiency struct {
	Matrix           Kernel // one launch per matrix product: QKV, output, gate and up, down, LM head
	PrefillAttention Kernel // one launch per layer
	DecodeAttention  Kernel // one launch per layer
	Elementwise      Kernel // one launch per layer; norms, residuals, rotary embedding, activation
	AllReduce        Kernel // one launch per collective; Memory is the share of GPU.Link

	// Step and Sequence are the time of the host that the GPU waits for:
	// a fixed part per step and a part per sequence in it. Engines that
	// schedule asynchronously hide much of both.
	Step     time.Duration
	Sequence time.Duration
}

// Kernel is the efficiency of one class of operators:
//
//	t = Launch + max(FLOPs/(Compute·rate), bytes/(Memory·bandwidth))
type Kernel struct {
	Launch  time.Duration // ≥ 0
	Compute float64       // share of the rate, at most 1; 0 means 1
	Memory  float64       // share of the bandwidth, at most 1; 0 means 1
}

// Claim returns LowerBound for the zero Efficiency only.
func (e Efficiency) Claim() Claim {
	if e == (Efficiency{}) {
		return LowerBound
	}
	return Prediction
}

// Validate names the first field that is out of range.
func (e Efficiency) Validate() error {
	for _, k := range []struct {
		name   string
		kernel Kernel
	}{
		{"Matrix", e.Matrix}, {"PrefillAttention", e.PrefillAttention}, {"DecodeAttention", e.DecodeAttention},
		{"Elementwise", e.Elementwise}, {"AllReduce", e.AllReduce},
	} {
		if err := k.kernel.validate("Efficiency." + k.name); err != nil {
			return err
		}
	}
	if e.Step < 0 {
		return badField("Efficiency.Step", e.Step)
	}
	if e.Sequence < 0 {
		return badField("Efficiency.Sequence", e.Sequence)
	}
	return nil
}

func (k Kernel) validate(name string) error {
	switch {
	case k.Launch < 0:
		return badField(name+".Launch", k.Launch)
	case !(k.Compute >= 0 && k.Compute <= 1):
		return fmt.Errorf("costmodel: %s.Compute is %v, not in [0, 1]", name, k.Compute)
	case !(k.Memory >= 0 && k.Memory <= 1):
		return fmt.Errorf("costmodel: %s.Memory is %v, not in [0, 1]", name, k.Memory)
	}
	return nil
}

// share reads a factor of a Kernel.
func share(x float64) float64 {
	if x == 0 {
		return 1
	}
	return x
}
