// Package kv accounts for the memory of a KV cache: how many blocks there
// are, who holds how many, what they contain, and what a request needs.
//
//	tokens ──Blocks──► blocks ──Take──► owned ──Give──► free
//	                                     free + owned = usable = total − reserved
//
//	                    ┌────────────── hit: shared again ───────────────┐
//	                    ▼                                                │
//	free ─Allocate─► owned ◄──► shared ─FreeTable─► free, content kept ──┤
//	  ▲                 │ ▲                              │               │
//	  │            Hold │ │ Release                      │ head of list: │
//	  │                 ▼ │                              │ content lost  │
//	  └── by event ──── held                             └──► reused ────┘
//
// Three allocators stand side by side. [Pool] is paged and counts: a request
// fits exactly if enough blocks are free. [Cache] is paged and knows its
// blocks: equal prefixes are shared, content of freed blocks is found again
// until they are reused, a transfer can hold them. It offers the methods of
// Pool too, so that sequences without hashes live beside hashed ones, and a
// hashed sequence may own its hashed part through a [Table] and the rest by
// count (which it gives back first: the last blocks are reused first).
// [Contiguous] is what paging replaces: it reserves one run of adjacent blocks
// for the worst case of each request, and can refuse a request while enough
// blocks are free in holes.
//
// The life of a hashed sequence: [Cache.Lookup] while it waits, once more just
// before [Cache.Allocate] admits it, Allocate again for every chunk and token
// (full blocks register themselves), [Cache.FreeTable] when it ends or is
// preempted. Blocks that a transfer fills are allocated with a nil chain, held
// ([Cache.Hold], [Cache.Release]) and registered when it has ended
// ([Cache.Register]). Statistics are the caller's: [HitRate.Add] once per
// sequence, at its first admission.
//
// Beside the allocators are the formulas of real engines: [Pool.CanTake],
// [Pool.CanAppend] and [Pool.CanSwap] (watermark, touched growth and swapping
// of vLLM V0), [Layout], [Memory] and [Groups] (blocks from bytes), [Transfer]
// and [LayerwiseEnd] (what a hand-off moves and when it ends), [WindowHit] and
// [WindowReleased] (sliding windows).
//
// Read pool.go first, then cache.go with table.go, block.go and freelist.go,
// then hash.go and convert.go; anonymous.go and hold.go stand alone, as do the
// formulas in watermark.go, swap.go, layout.go, transfer.go and window.go, and
// contiguous.go.
//
// Words: a block is a fixed number of tokens of all layers; usable blocks are
// those that can ever be given out; content is the hash of a full block, a
// chain those of a sequence by position; a hit is the part of a chain found in
// the cache; a block owned by count has no number; a held block may still be
// read or written by a transfer; a hole is a run of free adjacent blocks.
package kv
