package kv

// With Cache.Eager a block is shared from its allocation on, before its content
// is computed, as in vLLM V0 (core/block/prefix_caching_block.py). Sequences
// that share it compute it too, until one of them has: a lookup then finds the
// block and knows its content. The whole of a prompt can be found; its last
// token is computed again in the block that is there.

// Known returns how many of the leading blocks that the last lookup of t found
// have their content. Without Eager that is all of them.
func (c *Cache) Known(t *Table) int {
	if len(c.awaited) == 0 {
		return int(t.found)
	}
	for i, b := range t.Found() {
		if c.awaited[b] {
			return i
		}
	}
	return int(t.found)
}

// Computed says that the blocks of t have the content of its first tokens. It
// does nothing without Eager.
func (c *Cache) Computed(t *Table, tokens int) {
	for to := min(int32(tokens/c.BlockTokens()), t.hashed); c.Eager && t.computed < to; t.computed++ {
		if b := t.blocks[t.computed]; c.awaited[b] {
			delete(c.awaited, b)
			c.computed++
		}
	}
}

// await notes that b was registered before its content is computed.
func (c *Cache) await(b Block) {
	if c.awaited == nil {
		c.awaited = make(map[Block]bool)
	}
	c.awaited[b] = true
}

// abandon makes a block that nobody owns any more, and nobody computed,
// unfindable.
func (c *Cache) abandon(b Block) {
	if c.awaited[b] {
		c.evict(b)
	}
}
