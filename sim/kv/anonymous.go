package kv

import "fmt"

// Sequences without hashes own blocks by count. A block owned by count has no
// number; numbers without a block wait in limbo. n blocks that come back at
// once are one entry of the free list, a number with n−1 extra blocks behind
// it, and are taken out again by count, so that both directions cost O(1):
//
//	free list:  [7: hash]  [3: +40]  [9: hash]      limbo: 40 + owned by count

// Take takes n blocks by count, or none and returns false if fewer are free.
// Its cost is the number of entries it uses up: cached or single blocks one
// each, which is paid for when they were freed, runs of anonymous blocks
// nothing more. It panics if n is negative.
func (c *Cache) Take(n int) bool {
	if !c.count.Take(n) {
		return false
	}
	c.anonymous += n
	for n > 0 && c.next < c.end {
		c.limbo = append(c.limbo, c.pop())
		n--
	}
	for n > 0 {
		b, _ := c.free.First()
		x := &c.blocks[b]
		if behind := int(x.extra); n <= behind {
			x.extra -= int32(n)
			return true
		}
		n -= int(x.extra) + 1
		x.extra = 0
		c.free.Remove(b)
		c.evict(b)
		c.limbo = append(c.limbo, b)
	}
	return true
}

// Give returns n blocks that were taken by count: they are reused after those
// that are free. It costs O(1). It panics if n is negative or more than are
// owned by count.
func (c *Cache) Give(n int) {
	if n < 0 || n > c.anonymous {
		panic(fmt.Sprintf("kv: Cache.Give(%d) with %d owned by count", n, c.anonymous))
	}
	if n == 0 {
		return
	}
	c.count.Give(n)
	c.anonymous -= n
	if b, ok := c.free.Last(); ok && !c.blocks[b].hashed {
		c.blocks[b].extra += int32(n)
		return
	}
	b := c.leaveLimbo()
	c.blocks[b].extra = int32(n - 1)
	c.free.Push(b)
}

// Anonymous returns the number of blocks owned by count.
func (c *Cache) Anonymous() int { return c.anonymous }

func (c *Cache) leaveLimbo() Block {
	b := c.limbo[len(c.limbo)-1]
	c.limbo = c.limbo[:len(c.limbo)-1]
	return b
}
