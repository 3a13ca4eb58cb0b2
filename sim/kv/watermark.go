package kv

// Room says whether blocks can be had.
type Room uint8

// The answers of an admission test.
const (
	Now   Room = iota // they are free
	Later             // not while others own so many
	Never             // the pool is too small
)

// String returns "ok", "later" or "never".
func (r Room) String() string { return [...]string{"ok", "later", "never"}[r] }

// WatermarkBlocks returns how many blocks a watermark keeps free: ⌊fraction·total⌋.
func WatermarkBlocks(fraction float64, total int) int {
	return int(fraction * float64(total))
}

// CanTake says whether n blocks can be had so that watermark blocks stay free:
// the admission test of vLLM V0 (BlockSpaceManager.can_allocate).
func (p *Pool) CanTake(n, watermark int) Room { return canTake(p, n, watermark) }

// CanTake is [Pool.CanTake].
func (c *Cache) CanTake(n, watermark int) Room { return canTake(&c.count, n, watermark) }

func canTake(p *Pool, n, watermark int) Room {
	switch {
	case p.Usable()-n < watermark:
		return Never
	case p.Free()-n < watermark:
		return Later
	}
	return Now
}

// GrowthBlocks returns how many blocks a sequence of so many tokens takes to
// hold more: none while its last block has room. This is exact growth, V1's.
func GrowthBlocks(tokens, more, blockTokens int) int {
	p := Pool{blockTokens: blockTokens}
	return p.Blocks(tokens+more) - p.Blocks(tokens)
}

// TouchedBlocks returns how many blocks the next slots of a sequence lie in, a
// last block with room included: ⌈(tokens mod blockTokens + more) / blockTokens⌉.
// vLLM V0 and Sarathi-Serve ask for so many free blocks before a sequence may
// grow, and so evict up to blockTokens−1 tokens early.
func TouchedBlocks(tokens, more, blockTokens int) int {
	p := Pool{blockTokens: blockTokens}
	return p.Blocks(tokens%blockTokens + more)
}

// CanAppend says whether vLLM V0 lets a sequence of so many tokens grow by
// more: as many blocks must be free as the new slots touch.
func (p *Pool) CanAppend(tokens, more int) bool {
	return p.Free() >= TouchedBlocks(tokens, more, p.blockTokens)
}

// CanAppend is [Pool.CanAppend].
func (c *Cache) CanAppend(tokens, more int) bool { return c.count.CanAppend(tokens, more) }
