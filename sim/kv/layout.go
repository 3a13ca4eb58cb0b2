package kv

import "slices"

// Layout is the shape of the KV state of one rank. Block sizes in bytes follow
// from it; what the formula leaves out (allocator metadata, alignment,
// workspaces) is not in the result.
type Layout struct {
	BlockTokens int  // tokens of one block
	Layers      int  // layers that share the block count
	KVHeads     int  // key-value heads of this rank
	HeadDim     int  // elements of one head; of the latent vector if Latent
	DTypeBytes  int  // bytes of one element
	Latent      bool // one latent vector a token instead of a key and a value (MLA)
}

// TokenBytes returns the bytes of one token in all layers.
func (l Layout) TokenBytes() int64 { return l.layerBytes() * int64(l.Layers) }

// layerBytes returns the bytes of one token in one layer.
func (l Layout) layerBytes() int64 {
	vectors := int64(2)
	if l.Latent {
		vectors = 1
	}
	return vectors * int64(l.KVHeads) * int64(l.HeadDim) * int64(l.DTypeBytes)
}

// PageBytes returns the bytes of one block in one layer.
func (l Layout) PageBytes() int64 { return l.layerBytes() * int64(l.BlockTokens) }

// BlockBytes returns the bytes of one block in all layers.
func (l Layout) BlockBytes() int64 { return l.TokenBytes() * int64(l.BlockTokens) }

// Blocks returns how many blocks fit into so many bytes, none if that is
// negative: ⌊⌊bytes / page⌋ / layers⌋ (vLLM V1, v1/core/kv_cache_utils.py).
func (l Layout) Blocks(bytes int64) int {
	return int(max(0, bytes) / l.PageBytes() / int64(l.Layers))
}

// LongestContext returns how many of the requested tokens one sequence can
// have in so many bytes.
func (l Layout) LongestContext(bytes int64, requested int) int {
	return min(requested, l.Blocks(bytes)*l.BlockTokens)
}

// NumBlocks returns the block count that all ranks use: the smallest of
// theirs, or override if that is positive.
func NumBlocks(override int, perRank ...int) int {
	if override > 0 {
		return override
	}
	return slices.Min(perRank)
}

// Memory is the device memory of one rank, in bytes.
type Memory struct {
	Total       int64
	Utilization float64 // share of Total that may be used, in (0, 1]
	Weights     int64
	Activations int64 // peak of a profiling run
	Runtime     int64 // held outside the framework: communication buffers, contexts
}

// KVBytes returns what is left for the KV cache, rounded towards zero; negative
// if the rest does not fit.
func (m Memory) KVBytes() int64 {
	return int64(float64(float64(m.Total)*m.Utilization) - float64(m.Weights+m.Activations+m.Runtime))
}

// Groups are the layer groups of a model whose layers do not all hold the same
// tokens. Groups share the blocks.
type Groups []Group

// Group is a set of layers with the same window.
type Group struct {
	Window int // tokens a position attends to, itself included; 0 = all
}

// MaxBlocks returns how many blocks a sequence of maxTokens owns at most, if a
// step computes at most stepTokens: a window group needs window−1 tokens
// before those of the step, and one block more because they may begin inside a
// block.
func (g Groups) MaxBlocks(maxTokens, stepTokens, blockTokens int) int {
	p := Pool{blockTokens: blockTokens}
	n := 0
	for _, x := range g {
		if x.Window == 0 {
			n += p.Blocks(maxTokens)
		} else {
			n += p.Blocks(min(x.Window-1+stepTokens, maxTokens)) + 1
		}
	}
	return n
}

// Concurrency returns how many sequences of maxTokens fit into so many blocks,
// a fraction.
func (g Groups) Concurrency(blocks, maxTokens, stepTokens, blockTokens int) float64 {
	return float64(blocks) / float64(g.MaxBlocks(maxTokens, stepTokens, blockTokens))
}
