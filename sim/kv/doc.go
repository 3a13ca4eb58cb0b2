// Package kv accounts for the memory of a KV cache: how many blocks there
// are, who holds how many, and what a request needs.
//
//	tokens ──Blocks──► blocks ──Take──► owned ──Give──► free
//	                                     free + owned = usable = total − reserved
//
// Two allocators stand side by side. [Pool] is the paged one that the engine
// uses: memory is a number of equal blocks, so a request fits exactly if
// enough blocks are free, and accounting is by counts alone. [Contiguous] is
// what paging replaces: it reserves one run of adjacent blocks for the worst
// case of each request, and can refuse a request while enough blocks are free
// in holes.
//
// Read pool.go first, then contiguous.go.
//
// Words: a block is a fixed number of tokens of all layers; usable blocks are
// those that can ever be given out; a hole is a run of free adjacent blocks.
package kv
