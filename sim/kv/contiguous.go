package kv

import (
	"fmt"
	"slices"
)

// Contiguous reserves one run of adjacent blocks per request, first fit. It
// shows what paging avoids: the run covers the worst case of the request, and
// holes between runs are too small for others. Allocation is O(runs).
type Contiguous struct {
	total, free int
	blockTokens int
	runs        []run // sorted by start
}

type run struct{ start, n int }

// NewContiguous returns an allocator of total blocks of blockTokens tokens
// each. It panics unless both are at least 1.
func NewContiguous(total, blockTokens int) *Contiguous {
	if total < 1 || blockTokens < 1 {
		panic(fmt.Sprintf("kv: NewContiguous(total %d, blockTokens %d)", total, blockTokens))
	}
	return &Contiguous{total: total, free: total, blockTokens: blockTokens}
}

// Free returns the number of blocks that nobody owns, in all holes together.
func (c *Contiguous) Free() int { return c.free }

// Owned returns the number of blocks given out.
func (c *Contiguous) Owned() int { return c.total - c.free }

// Blocks returns how many blocks hold that many tokens.
func (c *Contiguous) Blocks(tokens int) int {
	if tokens <= 0 {
		return 0
	}
	return (tokens-1)/c.blockTokens + 1
}

// LargestHole returns the length of the longest run of free blocks.
func (c *Contiguous) LargestHole() int {
	largest, end := 0, 0
	for _, r := range c.runs {
		largest = max(largest, r.start-end)
		end = r.start + r.n
	}
	return max(largest, c.total-end)
}

// Take reserves n adjacent blocks in the first hole that is long enough and
// returns the first of them. It returns false, and reserves nothing, if no
// hole is. It panics if n is less than 1.
func (c *Contiguous) Take(n int) (start int, ok bool) {
	if n < 1 {
		panic(fmt.Sprintf("kv: Contiguous.Take(%d)", n))
	}
	end := 0
	for i, r := range c.runs {
		if r.start-end >= n {
			return c.insert(i, run{end, n}), true
		}
		end = r.start + r.n
	}
	if c.total-end >= n {
		return c.insert(len(c.runs), run{end, n}), true
	}
	return 0, false
}

func (c *Contiguous) insert(i int, r run) int {
	c.runs = slices.Insert(c.runs, i, r)
	c.free -= r.n
	return r.start
}

// Give returns the run that starts at start. It panics if there is none.
func (c *Contiguous) Give(start int) {
	i, ok := slices.BinarySearchFunc(c.runs, start, func(r run, s int) int { return r.start - s })
	if !ok {
		panic(fmt.Sprintf("kv: Contiguous.Give(%d) of a run that is not reserved", start))
	}
	c.free += c.runs[i].n
	c.runs = slices.Delete(c.runs, i, i+1)
}
