package kv_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"servesim/sim/kv"
)

func TestPoolBlocks(t *testing.T) {
	p := kv.NewPool(11, 1, 16)
	for _, c := range []struct{ tokens, want int }{{-1, 0}, {0, 0}, {1, 1}, {16, 1}, {17, 2}, {160, 10}, {161, 11}, {math.MaxInt, math.MaxInt/16 + 1}} {
		if got := p.Blocks(c.tokens); got != c.want {
			t.Errorf("Blocks(%d) = %d, want %d", c.tokens, got, c.want)
		}
	}
	if p.Usable() != 10 || p.Free() != 10 || p.Owned() != 0 || p.BlockTokens() != 16 {
		t.Errorf("new pool: usable %d free %d owned %d block %d", p.Usable(), p.Free(), p.Owned(), p.BlockTokens())
	}
}

func TestPoolRefusesWithoutChange(t *testing.T) {
	p := kv.NewPool(10, 0, 16)
	if !p.Take(7) || p.Take(4) {
		t.Fatal("Take(7) of 10 then Take(4): want true, false")
	}
	if p.Free() != 3 || p.Owned() != 7 {
		t.Errorf("after a refusal free %d owned %d, want 3 and 7", p.Free(), p.Owned())
	}
	if !p.Take(3) || p.Free() != 0 {
		t.Errorf("Take(3) of 3: free %d", p.Free())
	}
}

func TestProgrammerErrorsPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"reserved":        func() { kv.NewPool(4, 4, 16) },
		"block":           func() { kv.NewPool(4, 0, 0) },
		"take":            func() { p := kv.NewPool(4, 0, 16); p.Take(-1) },
		"give":            func() { p := kv.NewPool(4, 0, 16); p.Give(1) },
		"contiguous":      func() { kv.NewContiguous(0, 16) },
		"contiguous take": func() { kv.NewContiguous(4, 16).Take(0) },
		"contiguous give": func() { kv.NewContiguous(4, 16).Give(0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// Both allocators keep free + owned constant, and the contiguous one never
// hands out a block twice.
func TestConservation(t *testing.T) {
	const total = 64
	rng := rand.New(rand.NewPCG(1, 2))
	c := kv.NewContiguous(total, 16)
	p := kv.NewPool(total, 0, 16)
	type held struct{ start, n int }
	var live []held
	for range 20_000 {
		if len(live) > 0 && rng.IntN(2) == 0 {
			i := rng.IntN(len(live))
			c.Give(live[i].start)
			p.Give(live[i].n)
			live = append(live[:i], live[i+1:]...)
		} else {
			n := 1 + rng.IntN(12)
			hole := c.LargestHole()
			start, ok := c.Take(n)
			if ok != (hole >= n) {
				t.Fatalf("Take(%d) = %v with a hole of %d", n, ok, hole)
			}
			if ok {
				if !p.Take(n) {
					t.Fatal("the paged pool refuses what the contiguous one gives")
				}
				live = append(live, held{start, n})
			}
		}
		used := make([]bool, total)
		owned := 0
		for _, h := range live {
			for b := h.start; b < h.start+h.n; b++ {
				if used[b] {
					t.Fatalf("block %d has two owners", b)
				}
				used[b] = true
			}
			owned += h.n
		}
		if c.Owned() != owned || c.Free() != total-owned || p.Owned() != owned || p.Free() != total-owned {
			t.Fatalf("owned %d: contiguous %d/%d, paged %d/%d", owned, c.Owned(), c.Free(), p.Owned(), p.Free())
		}
	}
}

// Ten blocks are free in two holes of five: paging admits a request of eight,
// contiguous reservation refuses it.
func Example() {
	const total, block = 20, 16
	c := kv.NewContiguous(total, block)
	p := kv.NewPool(total, 0, block)
	var starts []int
	for range 4 {
		s, _ := c.Take(5)
		starts = append(starts, s)
		p.Take(5)
	}
	c.Give(starts[0])
	c.Give(starts[2])
	p.Give(10)

	_, ok := c.Take(8)
	fmt.Printf("contiguous: %d free, largest hole %d, takes 8: %v\n", c.Free(), c.LargestHole(), ok)
	ok = p.Take(8)
	fmt.Printf("paged:      takes 8: %v, occupancy %d of %d\n", ok, p.Owned(), p.Usable())
	// Output:
	// contiguous: 10 free, largest hole 5, takes 8: false
	// paged:      takes 8: true, occupancy 18 of 20
}
