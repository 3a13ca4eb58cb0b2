package kv

import (
	"fmt"
	"math"
)

// Cache is a paged allocator that knows its blocks: those with equal content
// are shared, and content of freed blocks is found again until they are
// reused. A sequence is a [Table] and the hash chain of its full blocks. One
// without hashes needs neither: [Cache.Take] and [Cache.Give] count blocks as
// [Pool] does, from the same memory.
//
// Semantics are those of vLLM V1 (v1/core/kv_cache_manager.py and
// block_pool.py). Every operation costs the blocks it touches. Unused blocks
// are given out before used ones, so memory grows until every block has been
// used once; from there on nothing allocates.
type Cache struct {
	DropLastHit bool        // leave the last block of a hit unused, for draft heads that need its hidden states
	MaxTokens   int         // no sequence holds slots past this many tokens; 0 = no bound
	Eager       bool        // share blocks from their allocation on, see [Cache.Known]
	OnEvent     func(Event) // called when the cached content changes; nil = off

	count     Pool
	next, end Block // blocks from next to end have never been used and come first
	blocks    []block
	free      FreeList
	index     index
	cached    int     // blocks with a hash
	held      int     // blocks that a transfer may still read or write
	anonymous int     // blocks owned by count
	limbo     []Block // numbers that stand for blocks owned by count or free behind another (block.extra)
	stored    uint64  // blocks registered so far
	removed   uint64  // blocks that lost their hash so far
	gone      [1]Hash // argument of a removal event

	awaited  map[Block]bool // registered and not computed yet, with Eager
	computed uint64         // blocks that were, and are no more
}

// NewCache returns a cache of total blocks of blockTokens tokens each, reserved
// of which are never given out. math.MaxInt32 blocks are as good as unlimited
// memory. It panics unless 0 ≤ reserved < total ≤ math.MaxInt32 and
// blockTokens ≥ 1.
func NewCache(total, reserved, blockTokens int) *Cache {
	if total > math.MaxInt32 {
		panic(fmt.Sprintf("kv: NewCache(total %d) exceeds %d", total, math.MaxInt32))
	}
	return &Cache{
		count: NewPool(total, reserved, blockTokens),
		next:  Block(reserved), end: Block(total),
		blocks: make([]block, reserved),
	}
}

// Usable returns the number of blocks that can be given out.
func (c *Cache) Usable() int { return c.count.Usable() }

// Free returns the number of blocks that nobody owns, with content or without.
func (c *Cache) Free() int { return c.count.Free() }

// Owned returns the number of blocks given out; a shared one counts once.
func (c *Cache) Owned() int { return c.count.Owned() }

// BlockTokens returns the number of tokens of one block.
func (c *Cache) BlockTokens() int { return c.count.BlockTokens() }

// Blocks returns how many blocks hold that many tokens.
func (c *Cache) Blocks(tokens int) int { return c.count.Blocks(tokens) }

// Cached returns the number of blocks whose content can be found, owned or
// free; duplicates count each.
func (c *Cache) Cached() int { return c.cached }

// Version returns a number that grows whenever the outcome of a lookup may
// have changed.
func (c *Cache) Version() uint64 { return c.stored + c.removed + c.computed }

// Match returns how many leading blocks of chain are in the cache, for a
// sequence of so many tokens. The last token is never covered: it has to be
// computed to sample the next.
func (c *Cache) Match(chain []Hash, tokens int) int {
	return c.usableHit(c.match(nil, chain, tokens, 0))
}

// Lookup finds the leading blocks of chain in the cache, as [Cache.Match]
// does, and notes them in t for the next Allocate, which must follow before
// any block is reused: look up again after allocating for another sequence. It
// returns their number. Repeating it costs nothing while the cache is the
// same, and one probe while content was only added. It panics if t owns blocks.
func (c *Cache) Lookup(t *Table, chain []Hash, tokens int) int {
	if t.owned > 0 {
		panic(fmt.Sprintf("kv: Lookup for a sequence that owns %d blocks", t.owned))
	}
	if t.removed != c.removed+1 {
		t.forget()
		t.blocks = t.blocks[:0]
	}
	limit := c.covered(chain, tokens)
	if t.stored != c.stored || t.removed == 0 || limit > int(t.limit) {
		t.matched = int32(c.match(&t.blocks, chain, tokens, int(t.matched)))
		t.stored, t.removed, t.limit = c.stored, c.removed+1, int32(limit)
	}
	t.found = int32(c.usableHit(min(int(t.matched), limit)))
	return int(t.found)
}

// match extends a hit of so many blocks and appends what it finds to blocks.
func (c *Cache) match(blocks *[]Block, chain []Hash, tokens, hit int) int {
	for limit := c.covered(chain, tokens); hit < limit; hit++ {
		b, ok := c.index.get(chain[hit])
		if !ok {
			break
		}
		if blocks != nil {
			*blocks = append(*blocks, b)
		}
	}
	return hit
}

// covered returns how many blocks a lookup may cover.
func (c *Cache) covered(chain []Hash, tokens int) int {
	if !c.Eager {
		tokens--
	}
	return min(len(chain), max(0, tokens)/c.BlockTokens())
}

func (c *Cache) usableHit(matched int) int {
	if c.DropLastHit && matched > 0 {
		return matched - 1
	}
	return matched
}

// Need returns how many free blocks t takes to hold tokens and, without
// content, ahead more: fresh ones, and those of its hit that nobody owns,
// which leave the free list too.
func (c *Cache) Need(t *Table, tokens, ahead int) int {
	c.checkFound(t)
	need := c.fresh(t, tokens, ahead)
	for _, b := range t.Found() {
		if c.blocks[b].refs == 0 {
			need++
		}
	}
	return need
}

func (c *Cache) fresh(t *Table, tokens, ahead int) int {
	slots := tokens + ahead
	if c.MaxTokens > 0 {
		slots = min(slots, c.MaxTokens)
	}
	return max(0, c.Blocks(slots)-int(t.owned)-int(t.found))
}

// Allocate makes t hold tokens, those of its hit included, and ahead more
// slots for draft tokens. It shares the blocks that the lookup found, takes
// fresh ones from the head of the free list and registers the full blocks of
// tokens whose hashes chain gives: others find them at once. A nil chain
// registers nothing, for blocks that a transfer is going to fill; see
// [Cache.Register]. If too few blocks are free it returns false and changes
// nothing. It panics if t is held, if tokens end inside the hit, or if blocks
// of the hit may have been reused since the lookup.
func (c *Cache) Allocate(t *Table, chain []Hash, tokens, ahead int) bool {
	if t.Held() || ahead < 0 || tokens < int(t.found)*c.BlockTokens() && !c.Eager {
		panic(fmt.Sprintf("kv: Allocate(%d tokens, %d ahead) after a hit of %d blocks, held %t", tokens, ahead, t.found, t.Held()))
	}
	c.checkFound(t)
	fresh := c.fresh(t, tokens, ahead)
	if fresh > c.Free() { // spares the walk over the hit
		return false
	}
	need := c.Need(t, tokens, ahead)
	if !c.count.Take(need) {
		return false
	}
	if t.owned == 0 {
		c.share(t)
	}
	for range fresh {
		b := c.pop()
		c.blocks[b].refs = 1
		t.blocks = append(t.blocks, b)
	}
	t.owned = int32(len(t.blocks))
	if c.Eager {
		tokens += ahead
	}
	c.Register(t, chain, tokens)
	return true
}

// checkFound panics if a block of the hit may have been reused.
func (c *Cache) checkFound(t *Table) {
	if t.found > 0 && t.removed != c.removed+1 {
		panic("kv: the lookup is out of date: blocks were reused since")
	}
}

// share turns the hit into owned blocks.
func (c *Cache) share(t *Table) {
	t.blocks = t.blocks[:t.found]
	t.hashed = t.found
	for _, b := range t.blocks {
		x := &c.blocks[b]
		if x.refs == 0 {
			c.free.Remove(b)
		}
		x.refs++
	}
	t.forget()
}

// Register makes the full blocks of the first tokens of t findable under the
// hashes of chain, for blocks whose content came after they were allocated. It
// does nothing for those that are registered already.
func (c *Cache) Register(t *Table, chain []Hash, tokens int) {
	from := int(t.hashed)
	to := min(tokens/c.BlockTokens(), len(chain), int(t.owned))
	if to <= from {
		return
	}
	for i := from; i < to; i++ {
		c.store(t.blocks[i], chain[i])
		if c.Eager {
			c.await(t.blocks[i])
		}
	}
	t.hashed = int32(to)
	if c.OnEvent != nil {
		c.OnEvent(Event{Stored, chain[from:to]})
	}
}

// Unregister makes the blocks of t behind its first tokens unfindable: what was
// going to fill them is not computed after all. Blocks that others share
// already stay. FreeTable must follow.
func (c *Cache) Unregister(t *Table, tokens int) {
	for i := int(t.hashed) - 1; i >= tokens/c.BlockTokens(); i-- {
		if b := t.blocks[i]; c.blocks[b].refs == 1 {
			c.evict(b)
		}
	}
}

// FreeTable gives up the blocks of t, the last first, so that beginnings live
// longer than ends, and forgets its lookup. Content stays findable until a
// block is reused. If t is held, the blocks stay out of the free list until
// the last [Cache.Release], and t with them. It does nothing to an empty table.
func (c *Cache) FreeTable(t *Table) {
	if t.Held() {
		if t.ended {
			panic("kv: FreeTable of a sequence that has been freed and waits for its transfer")
		}
		t.ended = true
		return
	}
	for i := int(t.owned) - 1; i >= 0; i-- {
		b := t.blocks[i]
		x := &c.blocks[b]
		x.refs--
		if x.refs == 0 {
			c.abandon(b)
			c.free.Push(b)
			c.count.Give(1)
		}
	}
	t.reset()
}
