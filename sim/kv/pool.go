package kv

import (
	"fmt"
	"math"
)

// Pool is a paged allocator that counts blocks. The zero Pool has no blocks;
// see [NewPool] and [Unlimited].
type Pool struct {
	usable      int
	free        int
	blockTokens int
}

// NewPool returns a pool of total blocks of blockTokens tokens each, reserved
// of which are never given out. It panics unless 0 ≤ reserved < total and
// blockTokens ≥ 1.
func NewPool(total, reserved, blockTokens int) Pool {
	if reserved < 0 || reserved >= total || blockTokens < 1 {
		panic(fmt.Sprintf("kv: NewPool(total %d, reserved %d, blockTokens %d)", total, reserved, blockTokens))
	}
	return Pool{usable: total - reserved, free: total - reserved, blockTokens: blockTokens}
}

// Unlimited returns a pool that never runs out.
func Unlimited(blockTokens int) Pool {
	return NewPool(math.MaxInt, 0, blockTokens)
}

// Usable returns the number of blocks that can be given out.
func (p *Pool) Usable() int { return p.usable }

// Free returns the number of blocks that nobody owns.
func (p *Pool) Free() int { return p.free }

// Owned returns the number of blocks given out.
func (p *Pool) Owned() int { return p.usable - p.free }

// BlockTokens returns the number of tokens of one block.
func (p *Pool) BlockTokens() int { return p.blockTokens }

// Blocks returns how many blocks hold that many tokens.
func (p *Pool) Blocks(tokens int) int {
	if tokens <= 0 {
		return 0
	}
	return (tokens-1)/p.blockTokens + 1
}

// Take takes n blocks, or none and returns false if fewer are free. It panics
// if n is negative.
func (p *Pool) Take(n int) bool {
	if n < 0 {
		panic(fmt.Sprintf("kv: Pool.Take(%d)", n))
	}
	if n > p.free {
		return false
	}
	p.free -= n
	return true
}

// Give returns n blocks. It panics if n is negative or more than are owned.
func (p *Pool) Give(n int) {
	if n < 0 || n > p.usable-p.free {
		panic(fmt.Sprintf("kv: Pool.Give(%d) with %d owned", n, p.usable-p.free))
	}
	p.free += n
}
