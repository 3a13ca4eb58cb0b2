package kv_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/sim/kv"
)

// admit looks up and allocates, as an engine does for a waiting sequence whose
// prompt it computes at once, and returns the blocks found.
func admit(t testing.TB, c *kv.Cache, table *kv.Table, chain []kv.Hash, tokens int) int {
	t.Helper()
	hit := c.Lookup(table, chain, tokens)
	if !c.Allocate(table, chain, tokens, 0) {
		t.Fatalf("%d tokens refused with %d blocks free", tokens, c.Free())
	}
	return hit
}

func check(t testing.TB, c *kv.Cache, live ...*kv.Table) {
	t.Helper()
	if err := c.Check(slices.Values(live)); err != nil {
		t.Error(err)
	}
}

// chain returns n hashes of a sequence of its own.
func chain(name string, n int) []kv.Hash { return kv.HashIDs(nil, make([]uint64, n), name) }

// A prompt that is wholly in the cache still computes its last block and holds
// all of its blocks.
func TestFullHitHoldsItsBlocks(t *testing.T) {
	c := kv.NewCache(11, 1, 16)
	var a, b kv.Table
	prompt := chain("a", 4)
	if hit := admit(t, c, &a, prompt, 64); hit != 0 || c.Free() != 6 {
		t.Errorf("first: hit %d, free %d, want 0 and 6", hit, c.Free())
	}
	if hit := admit(t, c, &b, prompt, 64); hit != 3 || b.Len() != 4 || c.Free() != 5 {
		t.Errorf("repeat: hit %d, %d blocks, free %d, want 3, 4 and 5", hit, b.Len(), c.Free())
	}
	if got := c.State(a.Blocks()[0]); got != kv.Shared {
		t.Errorf("first block is %v, want shared", got)
	}
	if got := c.State(a.Blocks()[3]); got != kv.Owned {
		t.Errorf("last block is %v, want owned", got)
	}
	// The victim's shared blocks stay: free grows by one only.
	c.FreeTable(&b)
	if c.Free() != 6 {
		t.Errorf("freeing the repeat: free %d, want 6", c.Free())
	}
	check(t, c, &a, &b)
}

// A sequence that comes back after an eviction finds its own blocks, as many
// as nobody took.
func TestRecomputeFindsOwnBlocks(t *testing.T) {
	c := kv.NewCache(6, 0, 16)
	var victim, other kv.Table
	admit(t, c, &victim, chain("v", 5), 80)
	c.FreeTable(&victim)
	if !c.Allocate(&other, nil, 48, 0) { // the one never used, then the victim's last two
		t.Fatal("48 tokens refused")
	}
	if hit := c.Lookup(&victim, chain("v", 5), 81); hit != 3 {
		t.Errorf("found %d blocks, want 3", hit)
	}
	if need := c.Need(&victim, 81, 0); need != 6 { // 3 fresh, 3 free hits
		t.Errorf("needs %d free blocks, want 6", need)
	}
	if c.Allocate(&victim, chain("v", 5), 81, 0) {
		t.Error("6 blocks given with 3 free")
	}
	check(t, c, &victim, &other)
}

// Blocks that a transfer is filling are found by nobody until they are
// registered.
func TestRegisterAfterTransfer(t *testing.T) {
	c := kv.NewCache(20, 0, 16)
	var pulled, local kv.Table
	prompt := chain("p", 3)
	if !c.Allocate(&pulled, nil, 48, 0) {
		t.Fatal("refused")
	}
	c.Hold(&pulled)
	if hit := c.Lookup(&local, prompt, 49); hit != 0 {
		t.Errorf("found %d blocks of a transfer in flight", hit)
	}
	c.Release(&pulled)
	c.Register(&pulled, prompt, 48)
	if hit := c.Lookup(&local, prompt, 49); hit != 3 {
		t.Errorf("found %d blocks after the transfer, want 3", hit)
	}
	check(t, c, &pulled, &local)
}

func TestHold(t *testing.T) {
	for name, end := range map[string]func(*kv.Cache, *kv.Table){
		"sequence ends first": func(c *kv.Cache, x *kv.Table) { c.FreeTable(x); c.Release(x) },
		"transfer ends first": func(c *kv.Cache, x *kv.Table) { c.Release(x); c.FreeTable(x) },
		"two readers":         func(c *kv.Cache, x *kv.Table) { c.Hold(x); c.FreeTable(x); c.Release(x); c.Release(x) },
	} {
		c := kv.NewCache(4, 0, 16)
		var x kv.Table
		admit(t, c, &x, chain("x", 3), 48)
		c.Hold(&x)
		if c.Held() != 3 || c.State(x.Blocks()[0]) != kv.Held || c.Free() != 1 {
			t.Errorf("%s: held %d, state %v, free %d", name, c.Held(), c.State(x.Blocks()[0]), c.Free())
		}
		end(c, &x)
		if c.Free() != 4 || c.Held() != 0 || x.Len() != 0 {
			t.Errorf("%s: at the end free %d, held %d, table %d", name, c.Free(), c.Held(), x.Len())
		}
		check(t, c, &x)
	}

	// In between, nothing is reused, whoever ended.
	c := kv.NewCache(4, 0, 16)
	var x kv.Table
	admit(t, c, &x, chain("x", 3), 48)
	c.Hold(&x)
	c.FreeTable(&x)
	if c.Take(2) || !c.Take(1) {
		t.Error("blocks of a transfer in flight were reused")
	}
	moved := x
	x = kv.Table{}
	c.Release(&moved)
	if c.Free() != 3 {
		t.Errorf("free %d after the release, want 3", c.Free())
	}
}

// Sequences with and without hashes share one memory: what is owned by count
// evicts the oldest content and comes back behind the rest.
func TestByCount(t *testing.T) {
	c := kv.NewCache(10, 0, 16)
	var a, b kv.Table
	admit(t, c, &a, chain("a", 4), 64)
	c.FreeTable(&a)
	if !c.Take(7) || c.Free() != 3 || c.Cached() != 3 || c.Anonymous() != 7 {
		t.Errorf("after Take(7): free %d, cached %d, by count %d, want 3, 3, 7", c.Free(), c.Cached(), c.Anonymous())
	}
	if c.Take(4) {
		t.Error("Take(4) of 3")
	}
	c.Give(7)
	if hit := admit(t, c, &b, chain("a", 4), 65); hit != 3 || c.Free() != 5 {
		t.Errorf("hit %d, free %d, want 3 and 5", hit, c.Free())
	}
	c.FreeTable(&b)
	if !c.Take(10) || c.Cached() != 0 {
		t.Errorf("taking everything leaves %d cached", c.Cached())
	}
	c.Give(4)
	c.Give(6)
	check(t, c, &a, &b)
}

func TestVersion(t *testing.T) {
	c := kv.NewCache(4, 0, 16)
	var a kv.Table
	v := c.Version()
	changed := func(what string, want bool) {
		t.Helper()
		if got := c.Version() != v; got != want {
			t.Errorf("%s: version changed %t, want %t", what, got, want)
		}
		v = c.Version()
	}
	admit(t, c, &a, chain("a", 2), 32)
	changed("registration", true)
	c.FreeTable(&a)
	changed("free", false)
	c.Take(2)
	changed("taking blocks without content", false)
	c.Take(1)
	changed("eviction", true)
	c.Give(3)
	changed("give", false)
	c.Reset()
	changed("reset", true)
	c.Reset()
	changed("reset of an empty cache", false)
}

// A waiting sequence follows what is added and what is lost.
func TestLookupFollowsTheCache(t *testing.T) {
	c := kv.NewCache(8, 0, 1)
	var first, waiting kv.Table
	prompt := chain("p", 4)
	look := func(want int) {
		t.Helper()
		if got := c.Lookup(&waiting, prompt, 5); got != want {
			t.Errorf("found %d, want %d", got, want)
		}
	}
	look(0)
	for i := range 4 { // computed in chunks of one block
		c.Allocate(&first, prompt, i+1, 0)
		look(i + 1)
	}
	c.FreeTable(&first)
	look(4)
	c.Take(6) // four without content, then the last two of the prompt
	look(2)
	c.Give(6)
	look(2)
	if !c.Allocate(&waiting, prompt, 5, 0) {
		t.Fatal("refused")
	}
	check(t, c, &first, &waiting)
}

func TestEvents(t *testing.T) {
	c := kv.NewCache(3, 0, 1)
	var got []kv.Event
	c.OnEvent = func(e kv.Event) { got = append(got, kv.Event{Kind: e.Kind, Hashes: slices.Clone(e.Hashes)}) }
	var a kv.Table
	admit(t, c, &a, []kv.Hash{5, 6}, 2)
	c.Allocate(&a, []kv.Hash{5, 6, 7}, 3, 0)
	c.FreeTable(&a)
	c.Take(1)
	c.Give(1)
	c.Reset()
	want := []kv.Event{{Kind: kv.Stored, Hashes: []kv.Hash{5, 6}}, {Kind: kv.Stored, Hashes: []kv.Hash{7}}, {Kind: kv.Removed, Hashes: []kv.Hash{7}}, {Kind: kv.Cleared}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

func TestCacheProgrammerErrorsPanic(t *testing.T) {
	c := kv.NewCache(4, 0, 16)
	var owner, ended, outdated kv.Table
	admit(t, c, &owner, chain("o", 1), 16)
	admit(t, c, &ended, chain("e", 2), 32)
	c.FreeTable(&ended)
	c.Lookup(&outdated, chain("e", 2), 40)
	c.Take(2)
	c.Give(2)
	var held kv.Table
	admit(t, c, &held, nil, 16)
	c.Hold(&held)
	var freed kv.Table
	admit(t, c, &freed, nil, 16)
	c.Hold(&freed)
	c.FreeTable(&freed)
	for name, f := range map[string]func(){
		"too many blocks":        func() { kv.NewCache(math.MaxInt32+1, 0, 16) },
		"reserved":               func() { kv.NewCache(4, 4, 16) },
		"lookup of an owner":     func() { c.Lookup(&owner, nil, 16) },
		"outdated lookup":        func() { c.Allocate(&outdated, nil, 40, 0) },
		"need after reuse":       func() { c.Need(&outdated, 40, 0) },
		"negative lookahead":     func() { c.Allocate(&owner, nil, 16, -1) },
		"growth while held":      func() { c.Allocate(&held, nil, 17, 0) },
		"hold of nothing":        func() { var x kv.Table; c.Hold(&x) },
		"hold of an ended one":   func() { c.Hold(&freed) },
		"second free":            func() { c.FreeTable(&freed) },
		"release without a hold": func() { c.Release(&owner) },
		"give too many":          func() { c.Give(1) },
		"take":                   func() { c.Take(-1) },
		"push twice":             func() { var l kv.FreeList; l.Push(3); l.Push(3) },
		"push negative":          func() { var l kv.FreeList; l.Push(-1) },
		"remove":                 func() { var l kv.FreeList; l.Remove(0) },
		"hash":                   func() { kv.HashTokens(nil, nil, 0, "") },
		"transfer":               func() { kv.Layout{BlockTokens: 16}.Transfer(16, 17) },
		"swap":                   func() { a, b := kv.NewPool(4, 0, 16), kv.NewPool(4, 0, 16); a.Swap(&b, 1) },
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

// Once a cache is full, no operation allocates.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	c := kv.NewCache(200, 0, 16)
	tables := make([]kv.Table, 6)
	chains := make([][]kv.Hash, 12)
	for i := range chains {
		chains[i] = append(chain("common", 12), chain(fmt.Sprint(i), 12)...)
	}
	i := 0
	cycle := func() {
		x := &tables[i%len(tables)]
		c.FreeTable(x)
		if c.Lookup(x, chains[i%len(chains)], 384); !c.Allocate(x, chains[i%len(chains)], 384, 0) {
			t.Fatal("refused")
		}
		c.Hold(x)
		c.Release(x)
		c.Take(30)
		c.Give(30)
		i++
	}
	for range 200 {
		cycle()
	}
	if n := testing.AllocsPerRun(1_000, cycle); n != 0 {
		t.Errorf("%v allocations per cycle", n)
	}
}

// Two requests share a system prompt of two blocks. The second finds it while
// the first runs, the third after both have ended.
func ExampleCache() {
	const block = 16
	c := kv.NewCache(9, 1, block)
	system := make([]int, 2*block)
	var tables [3]kv.Table
	for i := range tables {
		prompt := append(slices.Clone(system), 100+i, 200+i, 300+i)
		chain := kv.HashTokens(nil, prompt, block, "")
		hit := c.Lookup(&tables[i], chain, len(prompt))
		ok := c.Allocate(&tables[i], chain, len(prompt), 0)
		fmt.Printf("request %d: found %d tokens, owns blocks %v, %t, %d of %d free\n", i, hit*block, tables[i].Blocks(), ok, c.Free(), c.Usable())
		if i == 1 {
			c.FreeTable(&tables[0])
			c.FreeTable(&tables[1])
		}
	}
	// Output:
	// request 0: found 0 tokens, owns blocks [1 2 3], true, 5 of 8 free
	// request 1: found 32 tokens, owns blocks [1 2 4], true, 4 of 8 free
	// request 2: found 32 tokens, owns blocks [1 2 5], true, 5 of 8 free
}
