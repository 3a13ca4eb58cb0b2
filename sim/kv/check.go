package kv

import (
	"fmt"
	"iter"
)

// Check recounts everything and returns the first contradiction: every block
// is free or owned, the free list, the hashes and the counters agree. Given
// all tables in use it also recounts references and holds; nil skips that. It
// is meant for tests: its cost is all blocks ever used.
func (c *Cache) Check(live iter.Seq[*Table]) error {
	free, err := c.checkFree()
	if err != nil {
		return err
	}
	owned, held, cached := 0, 0, 0
	for i := range c.blocks {
		x := &c.blocks[i]
		switch {
		case x.refs < 0 || x.holds < 0 || x.holds > x.refs:
			return fmt.Errorf("kv: block %d has %d references and %d holds", i, x.refs, x.holds)
		case x.refs > 0 && (c.free.Contains(Block(i)) || x.extra != 0):
			return fmt.Errorf("kv: block %d is owned and free", i)
		case x.hashed && x.refs == 0 && !c.free.Contains(Block(i)):
			return fmt.Errorf("kv: block %d has content but is neither owned nor free", i)
		}
		owned += one(x.refs > 0)
		held += one(x.holds > 0)
		cached += one(x.hashed)
	}
	if free != c.Free() || owned+c.anonymous != c.Owned() || free+owned+c.anonymous != c.Usable() {
		return fmt.Errorf("kv: %d free + %d owned + %d owned by count of %d usable, counters say %d free, %d owned",
			free, owned, c.anonymous, c.Usable(), c.Free(), c.Owned())
	}
	if held != c.held || cached != c.cached {
		return fmt.Errorf("kv: %d held and %d cached blocks, counters say %d and %d", held, cached, c.held, c.cached)
	}
	for b := range c.awaited {
		if !c.blocks[b].hashed || c.blocks[b].refs == 0 {
			return fmt.Errorf("kv: block %d waits for its content and has %d references, hash %t", b, c.blocks[b].refs, c.blocks[b].hashed)
		}
	}
	if err := c.checkHashes(); err != nil {
		return err
	}
	if live == nil {
		return nil
	}
	return c.checkTables(live)
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// checkFree counts the free blocks and compares the numbers in limbo.
func (c *Cache) checkFree() (int, error) {
	free, extra := int(c.end-c.next), 0
	for b := range c.free.All() {
		x := c.blocks[b]
		if x.extra < 0 || x.extra > 0 && x.hashed {
			return 0, fmt.Errorf("kv: block %d has %d blocks behind it, with content %t", b, x.extra, x.hashed)
		}
		free += 1 + int(x.extra)
		extra += int(x.extra)
	}
	if len(c.limbo) != c.anonymous+extra {
		return 0, fmt.Errorf("kv: %d numbers in limbo for %d blocks owned by count and %d free ones", len(c.limbo), c.anonymous, extra)
	}
	seen := make(map[Block]bool, len(c.limbo))
	for _, b := range c.limbo {
		if seen[b] || c.free.Contains(b) || c.blocks[b] != (block{hash: c.blocks[b].hash, prev: c.blocks[b].prev, next: c.blocks[b].next}) {
			return 0, fmt.Errorf("kv: number %d is in limbo and in use", b)
		}
		seen[b] = true
	}
	return free, nil
}

// checkHashes walks the ring of every hash in the index.
func (c *Cache) checkHashes() error {
	entries, reached := 0, 0
	for _, s := range c.index.slots {
		if s.first == absent {
			continue
		}
		entries++
		if b, ok := c.index.get(s.hash); !ok || b != s.first {
			return fmt.Errorf("kv: hash %x is in the index and not found", s.hash)
		}
		for b := s.first; ; {
			x := c.blocks[b]
			if !x.hashed || x.hash != s.hash || c.blocks[x.next].prev != b || reached > len(c.blocks) {
				return fmt.Errorf("kv: block %d is listed under hash %x and has %x, %t", b, s.hash, x.hash, x.hashed)
			}
			reached++
			if b = x.next; b == s.first {
				break
			}
		}
	}
	if entries != c.index.n || reached != c.cached {
		return fmt.Errorf("kv: %d hashes with %d blocks in the index, counters say %d with %d", entries, reached, c.index.n, c.cached)
	}
	return nil
}

// checkTables recounts references and holds.
func (c *Cache) checkTables(live iter.Seq[*Table]) error {
	refs := make([]int32, len(c.blocks))
	holds := make([]int32, len(c.blocks))
	for t := range live {
		if t.hashed > t.owned || t.found > 0 && t.owned > 0 || t.ended && t.holds == 0 {
			return fmt.Errorf("kv: table %+v contradicts itself", *t)
		}
		for i, b := range t.Blocks() {
			refs[b]++
			holds[b] += int32(one(t.Held()))
			if hashed := i < int(t.hashed); hashed && !c.blocks[b].hashed {
				return fmt.Errorf("kv: block %d at position %d lost its content while owned", b, i)
			}
		}
	}
	for i, x := range c.blocks {
		if refs[i] != x.refs || holds[i] != x.holds {
			return fmt.Errorf("kv: block %d is in %d tables, held in %d, counters say %d and %d", i, refs[i], holds[i], x.refs, x.holds)
		}
	}
	return nil
}
