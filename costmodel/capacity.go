package costmodel

import (
	"fmt"
	"math"

	"servesim/sim"
)

// KVBudget says what else lives in the memory of a GPU. The zero value
// describes a vLLM-like engine with its defaults on a small node.
type KVBudget struct {
	Utilisation float64 // share of the memory the engine may use; 0 means 0.9, vLLM's default
	BlockTokens int     // tokens per KV block; 0 means sim.DefaultBlockTokens
	// Length are the tokens of a typical sequence, for models with window
	// layers: these hold no more than a window of it, so that a token costs
	// less on average. 0 means that they hold all tokens, as engines do that
	// treat all layers alike.
	Length      int
	BatchTokens int // positions of the largest step; 0 means 2048
	Sequences   int // rows of the largest sampling step; 0 means 256
	// Activations are the bytes of the intermediate tensors of the largest
	// step. 0 means an estimate from BatchTokens and Sequences: the tensors
	// of one layer, 2·hidden + 3·intermediate values a position in BF16 (of
	// experts, those that a position picks), and
	// those of the sampler, 26 bytes a logit (BF16 logits, FP32 copy, FP32
	// sorted, INT64 order, FP32 probabilities and their sums). The form was
	// chosen to meet the one allocation at hand, 2588 blocks of vLLM 0.19
	// with 2048 positions and 256 sequences; elsewhere it is a guess.
	Activations float64
	// Runtime are the bytes of the device's context, communication buffers
	// and other allocations outside the tensors. 0 means 0.15 GiB on one GPU
	// and 0.6 GiB in a tensor-parallel group (inference-sim, kv_capacity.go).
	Runtime float64
}

// KVCapacity is the memory of one GPU, every term in bytes:
//
//	Blocks = ⌊(Memory·Utilisation − Weights − Activations − Runtime) / BlockBytes⌋
type KVCapacity struct {
	Memory, Utilisation           float64
	Weights, Activations, Runtime float64
	Available                     float64 // for KV blocks
	BytesPerToken                 float64 // on average over a sequence of KVBudget.Length tokens
	BlockTokens                   int
	BlockBytes                    float64
	Blocks                        int
	Tokens                        int // Blocks · BlockTokens
}

// KVCapacity returns how many KV blocks fit beside the weights. The error
// carries the terms if there is no room for one.
func (s Setup) KVCapacity(b KVBudget) (KVCapacity, error) {
	if err := s.Validate(); err != nil {
		return KVCapacity{}, err
	}
	if err := b.validate(); err != nil {
		return KVCapacity{}, err
	}
	b = b.withDefaults(s)
	c := KVCapacity{
		Memory: s.GPU.Memory, Utilisation: b.Utilisation,
		Weights: s.WeightBytes(), Activations: b.Activations, Runtime: b.Runtime,
		BytesPerToken: s.KVBytesPerToken(), BlockTokens: b.BlockTokens,
	}
	if b.Length > 0 {
		c.BytesPerToken = s.KVBytes(b.Length) / float64(b.Length)
	}
	c.Available = float64(c.Memory*c.Utilisation) - c.Weights - c.Activations - c.Runtime
	c.BlockBytes = c.BytesPerToken * float64(c.BlockTokens)
	if c.Available < c.BlockBytes {
		return c, fmt.Errorf("costmodel: no KV block fits %s on %s: %.2f GB of memory · %.2f − weights %.2f GB − activations %.2f GB − runtime %.2f GB leaves %.2f GB, a block takes %.4f GB",
			s.Model.Name, s.GPU.Name, c.Memory/1e9, c.Utilisation, c.Weights/1e9, c.Activations/1e9, c.Runtime/1e9,
			c.Available/1e9, c.BlockBytes/1e9)
	}
	c.Blocks = int(math.Floor(c.Available / c.BlockBytes))
	c.Tokens = c.Blocks * c.BlockTokens
	return c, nil
}

func (b KVBudget) withDefaults(s Setup) KVBudget {
	if b.Utilisation == 0 {
		b.Utilisation = 0.9
	}
	if b.BlockTokens == 0 {
		b.BlockTokens = sim.DefaultBlockTokens
	}
	if b.BatchTokens == 0 {
		b.BatchTokens = 2048
	}
	if b.Sequences == 0 {
		b.Sequences = 256
	}
	if b.Activations == 0 {
		layer := 2*s.Model.Hidden + 3*s.widest()
		b.Activations = float64(bf16*b.BatchTokens*layer) + float64(26*b.Sequences*s.Model.Vocab)
	}
	if b.Runtime == 0 {
		b.Runtime = 0.15 * gib
		if s.tp() > 1 {
			b.Runtime = 0.6 * gib
		}
	}
	return b
}

func (b KVBudget) validate() error {
	switch {
	case !(b.Utilisation >= 0 && b.Utilisation <= 1):
		return fmt.Errorf("costmodel: KVBudget.Utilisation is %v, not in [0, 1]", b.Utilisation)
	case b.BlockTokens < 0:
		return badField("KVBudget.BlockTokens", b.BlockTokens)
	case b.Length < 0:
		return badField("KVBudget.Length", b.Length)
	case b.BatchTokens < 0:
		return badField("KVBudget.BatchTokens", b.BatchTokens)
	case b.Sequences < 0:
		return badField("KVBudget.Sequences", b.Sequences)
	case !finite(b.Activations):
		return badField("KVBudget.Activations", b.Activations)
	case !finite(b.Runtime):
		return badField("KVBudget.Runtime", b.Runtime)
	}
	return nil
}
