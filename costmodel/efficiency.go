package costmodel

import (
	"fmt"
	"math"
	"time"
)

// Efficiency is what separates a real engine from the datasheet. The zero
// value is the datasheet itself: no overhead, every peak reached, so that the
// model is a lower bound. [FittedEfficiency] has measured values.
type Efficiency struct {
	Matrix  Kernel // one launch per matrix product: QKV, output, gate and up, down, router, LM head
	Narrow  Kernel // the same for products that do not compute in BF16; zero means Matrix
	Experts Kernel // one launch per layer with experts

	PrefillAttention Kernel // one launch per layer
	WindowAttention  Kernel // PrefillAttention in window layers; zero means the same
	DecodeAttention  Kernel // one launch per layer
	MixedAttention   Kernel // DecodeAttention in steps that also have prompts; zero means the same

	Elementwise Kernel // one launch per layer, one for the embedding and one for sampling; norms, residuals, rotary embedding, activation

	AllReduce Collective // also gathers the logits
	Exchange  Collective // between data-parallel groups, to the experts and back
	Send      Collective // from one pipeline stage to the next

	// Measured has fits to kernels and collectives of this GPU, or of one alike,
	// which take the place of what is above; nil means that it counts.
	Measured *MeasuredKernels

	Host HostTime
}

// HostTime is the time of the host beside that of the GPU.
type HostTime struct {
	Step     time.Duration // per step; ≥ 0
	Sequence time.Duration // per sequence in it; ≥ 0
	// Overlapped means that the host prepares a step while the GPU computes
	// the one before: a step takes the longer of the two.
	Overlapped bool
}

// Kernel is the efficiency of one class of operators. For work w,
//
//	C = ((F − F_causal)/Compute + F_causal/Causal) / rate
//	M = Q / (Memory·bandwidth)
//	t = Launch + Sequence·w.Sequences + (C^Smooth + M^Smooth)^(1/Smooth)
//
// where Smooth 0 stands for max(C, M).
type Kernel struct {
	Launch   time.Duration // ≥ 0
	Sequence time.Duration // per sequence of attention; ≥ 0
	Compute  float64       // share of the rate, at most 1; 0 means 1
	Causal   float64       // the same for the causal square of prompts; 0 means Compute
	Memory   float64       // share of the bandwidth, at most 1; 0 means 1
	Smooth   float64       // p of the norm, ≥ 1; 0 means the maximum. 2 is cheapest
}

// Seconds returns the time of one launch on a GPU with this rate in FLOP per
// second and this bandwidth in bytes per second.
func (k Kernel) Seconds(w Work, rate, bandwidth float64) float64 {
	compute := ((w.FLOPs-w.Causal)/share(k.Compute) + w.Causal/k.causal()) / rate
	return k.Launch.Seconds() + float64(k.Sequence.Seconds()*w.Sequences) + norm(compute, w.Bytes/(share(k.Memory)*bandwidth), k.Smooth)
}

func (k Kernel) causal() float64 {
	if k.Causal == 0 {
		return share(k.Compute)
	}
	return k.Causal
}

// maxSmooth keeps powers of Smooth away from underflow; the norm is the maximum
// to 0.7 % by then.
const maxSmooth = 100

// norm joins two times: their maximum for p = 0, (a^p + b^p)^(1/p) otherwise.
func norm(a, b, p float64) float64 {
	switch {
	case p == 0 || a == 0 || b == 0:
		return max(a, b)
	case p == 2:
		return math.Sqrt(float64(a*a) + float64(b*b))
	case p == 1:
		return a + b
	}
	low, high := min(a, b), max(a, b)
	return high * math.Exp(math.Log1p(math.Exp(p*math.Log(low/high)))/p)
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
		{"Matrix", e.Matrix}, {"Narrow", e.Narrow}, {"Experts", e.Experts},
		{"PrefillAttention", e.PrefillAttention}, {"WindowAttention", e.WindowAttention},
		{"DecodeAttention", e.DecodeAttention}, {"MixedAttention", e.MixedAttention}, {"Elementwise", e.Elementwise},
	} {
		if err := k.kernel.validate("Efficiency." + k.name); err != nil {
			return err
		}
	}
	for _, c := range []struct {
		name       string
		collective Collective
	}{
		{"AllReduce", e.AllReduce}, {"Exchange", e.Exchange}, {"Send", e.Send},
	} {
		if err := c.collective.validate("Efficiency." + c.name); err != nil {
			return err
		}
	}
	if err := e.Measured.validate("Efficiency.Measured"); err != nil {
		return err
	}
	if e.Host.Step < 0 {
		return badField("Efficiency.Host.Step", e.Host.Step)
	}
	if e.Host.Sequence < 0 {
		return badField("Efficiency.Host.Sequence", e.Host.Sequence)
	}
	return nil
}

// or returns the kernel, or another one in place of the zero value.
func (k Kernel) or(other Kernel) Kernel {
	if k == (Kernel{}) {
		return other
	}
	return k
}

func (k Kernel) validate(name string) error {
	switch {
	case k.Launch < 0:
		return badField(name+".Launch", k.Launch)
	case k.Sequence < 0:
		return badField(name+".Sequence", k.Sequence)
	case !(k.Compute >= 0 && k.Compute <= 1):
		return fmt.Errorf("costmodel: %s.Compute is %v, not in [0, 1]", name, k.Compute)
	case !(k.Causal >= 0 && k.Causal <= 1):
		return fmt.Errorf("costmodel: %s.Causal is %v, not in [0, 1]", name, k.Causal)
	case !(k.Memory >= 0 && k.Memory <= 1):
		return fmt.Errorf("costmodel: %s.Memory is %v, not in [0, 1]", name, k.Memory)
	case k.Smooth != 0 && !(k.Smooth >= 1 && k.Smooth <= maxSmooth):
		return fmt.Errorf("costmodel: %s.Smooth is %v, not 0 or in [1, %d]", name, k.Smooth, maxSmooth)
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
