package costmodel

import "fmt"

// Setup is what a cost curve belongs to: a model on one or several GPUs, and
// how well the engine uses them.
type Setup struct {
	Model Model
	GPU   GPU
	// TensorParallel is the number of GPUs that share every layer; 0 means
	// 1. Heads, feed-forward columns and vocabulary are divided; KV heads
	// are replicated when there are fewer of them than GPUs.
	TensorParallel int
	Efficiency     Efficiency
}

// NewSetup looks model and GPU up in the catalogue and takes the GPU's
// [FittedEfficiency].
func NewSetup(model, gpu string) (Setup, error) {
	m, err := LookupModel(model)
	if err != nil {
		return Setup{}, err
	}
	g, err := LookupGPU(gpu)
	if err != nil {
		return Setup{}, err
	}
	e, err := FittedEfficiency(g.Name)
	if err != nil {
		return Setup{}, err
	}
	return Setup{Model: m, GPU: g, Efficiency: e}, nil
}

// Validate names the first field that is out of range.
func (s Setup) Validate() error {
	if err := s.Model.Validate(); err != nil {
		return err
	}
	if err := s.GPU.Validate(); err != nil {
		return err
	}
	if err := s.Efficiency.Validate(); err != nil {
		return err
	}
	tp, m := s.degree(), s.Model
	switch {
	case tp < 1:
		return badField("Setup.TensorParallel", tp)
	case m.Heads%tp != 0:
		return fmt.Errorf("costmodel: Setup.TensorParallel %d does not divide Model.Heads %d", tp, m.Heads)
	case m.Intermediate%tp != 0:
		return fmt.Errorf("costmodel: Setup.TensorParallel %d does not divide Model.Intermediate %d", tp, m.Intermediate)
	case m.KVHeads%tp != 0 && tp%m.KVHeads != 0:
		return fmt.Errorf("costmodel: Setup.TensorParallel %d and Model.KVHeads %d: neither divides the other", tp, m.KVHeads)
	case tp > 1 && s.GPU.Link == 0:
		return fmt.Errorf("costmodel: Setup.TensorParallel is %d, GPU.Link is 0", tp)
	}
	return nil
}

func (s Setup) degree() int {
	if s.TensorParallel == 0 {
		return 1
	}
	return s.TensorParallel
}

// shard is one GPU's part of a layer and of the vocabulary.
type shard struct {
	heads, kvHeads, intermediate, vocab int
}

func (s Setup) shard() shard {
	tp := s.degree()
	return shard{
		heads:        s.Model.Heads / tp,
		kvHeads:      ceilDiv(s.Model.KVHeads, tp),
		intermediate: s.Model.Intermediate / tp,
		vocab:        ceilDiv(s.Model.Vocab, tp),
	}
}

// WeightBytes returns the bytes of the weights on one GPU.
func (s Setup) WeightBytes() float64 {
	m, part := s.Model, s.shard()
	matrices := m.Layers * m.Hidden * (m.HeadDim*(2*part.heads+2*part.kvHeads) + 3*part.intermediate)
	tables := 2
	if m.TiedEmbeddings {
		tables = 1
	}
	others := tables*part.vocab*m.Hidden + (2*m.Layers+1)*m.Hidden
	return float64(float64(matrices)*m.Weights.BytesPerValue()) + float64(bf16*others)
}

// KVBytesPerToken returns the bytes of one token in the KV cache of one GPU.
func (s Setup) KVBytesPerToken() float64 {
	m := s.Model
	return float64(2*m.Layers*s.shard().kvHeads*m.HeadDim) * m.KV.BytesPerValue()
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
