package kv

import "iter"

// block is what the cache knows of a block. A number that stands for a block
// owned by count is not in use and has the zero block.
type block struct {
	hash       Hash
	refs       int32 // tables that list it
	holds      int32 // those of them that are held
	prev, next Block // blocks of equal hash, a ring in order of registration
	extra      int32 // if free: anonymous blocks that follow it in the free list
	hashed     bool
}

// pop takes the block that is reused next from the free list; its content is
// lost. The caller has counted it.
func (c *Cache) pop() Block {
	if c.next < c.end {
		b := c.next
		c.next++
		c.blocks = append(c.blocks, block{})
		return b
	}
	b, _ := c.free.First()
	if x := &c.blocks[b]; x.extra > 0 {
		x.extra--
		return c.leaveLimbo()
	}
	c.free.Remove(b)
	c.evict(b)
	return b
}

// store makes b findable under h, after others of that hash.
func (c *Cache) store(b Block, h Hash) {
	x := &c.blocks[b]
	x.hash, x.hashed = h, true
	if first, ok := c.index.get(h); ok {
		last := c.blocks[first].prev
		x.prev, x.next = last, first
		c.blocks[last].next = b
		c.blocks[first].prev = b
	} else {
		x.prev, x.next = b, b
		c.index.set(h, b)
	}
	c.cached++
	c.stored++
}

// evict makes b lose its content, if it has any. Others of equal hash stay.
func (c *Cache) evict(b Block) {
	x := &c.blocks[b]
	if !x.hashed {
		return
	}
	if x.next == b {
		c.index.remove(x.hash)
	} else {
		c.blocks[x.prev].next = x.next
		c.blocks[x.next].prev = x.prev
		if first, _ := c.index.get(x.hash); first == b {
			c.index.set(x.hash, x.next)
		}
	}
	x.hashed = false
	delete(c.awaited, b)
	c.cached--
	c.removed++
	if c.OnEvent != nil {
		c.gone[0] = x.hash
		c.OnEvent(Event{Removed, c.gone[:]})
	}
}

// Refs returns how many sequences own b.
func (c *Cache) Refs(b Block) int {
	if int(b) >= len(c.blocks) {
		return 0
	}
	return int(c.blocks[b].refs)
}

// FreeOrder yields the free blocks in the order of their reuse. A run of
// blocks that were freed by count appears as its first.
func (c *Cache) FreeOrder() iter.Seq[Block] {
	return func(yield func(Block) bool) {
		for b := c.next; b < c.end; b++ {
			if !yield(b) {
				return
			}
		}
		for b := range c.free.All() {
			if !yield(b) {
				return
			}
		}
	}
}

// Reset forgets all content, as after a change of weights, if no block is in
// use; otherwise it returns false and changes nothing. It costs all blocks
// ever used.
func (c *Cache) Reset() bool {
	if c.Owned() > 0 {
		return false
	}
	for i := range c.blocks {
		c.blocks[i].hashed = false
	}
	c.index.clear()
	c.removed += uint64(c.cached)
	c.cached = 0
	if c.OnEvent != nil {
		c.OnEvent(Event{Kind: Cleared})
	}
	return true
}
