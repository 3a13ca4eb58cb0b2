package kv

import "fmt"

// Swapping moves the blocks of a victim to a second Pool in host memory and
// back. The two pools only count; the link's time is the engine's business.

// CanSwap says whether p, device or host, has room for a swapped sequence of
// so many tokens and the slots of more: its full blocks and those the slots
// touch, with watermark blocks left. The pool is too small only if they exceed
// it; the watermark does not count there (vLLM V0, BlockSpaceManager._can_swap).
func (p *Pool) CanSwap(tokens, more, watermark int) Room {
	need := tokens/p.blockTokens + TouchedBlocks(tokens, more, p.blockTokens)
	switch {
	case need > p.usable:
		return Never
	case need > p.free-watermark:
		return Later
	}
	return Now
}

// Swap moves n owned blocks of from to p, or none and returns false if p has
// fewer free. It panics if from owns fewer.
func (p *Pool) Swap(from *Pool, n int) bool {
	if n > from.Owned() {
		panic(fmt.Sprintf("kv: Swap of %d blocks, %d owned", n, from.Owned()))
	}
	if !p.Take(n) {
		return false
	}
	from.Give(n)
	return true
}
