package kv_test

import (
	"testing"

	"servesim/sim/kv"
)

// Two sequences of 8 tokens in blocks of 4 that begin alike, and a third that
// comes later.
func TestEagerSharing(t *testing.T) {
	c := kv.NewCache(10, 0, 4)
	c.Eager = true
	chain := []kv.Hash{1, 2}
	var first, second, third kv.Table
	allocate := func(table *kv.Table, tokens, ahead, wantFound, wantKnown, wantFree int) {
		t.Helper()
		found := c.Lookup(table, chain, 8)
		if known := c.Known(table); found != wantFound || known != wantKnown {
			t.Errorf("found %d blocks, %d known, want %d, %d", found, known, wantFound, wantKnown)
		}
		if !c.Allocate(table, chain, tokens, ahead) || c.Free() != wantFree {
			t.Errorf("%d blocks free, want %d", c.Free(), wantFree)
		}
		if err := c.Check(nil); err != nil {
			t.Error(err)
		}
	}
	// All blocks of a prompt can be found when its first chunk is planned.
	allocate(&first, 4, 4, 0, 0, 8)
	allocate(&second, 4, 4, 2, 0, 8)
	// The first chunk of one is computed, and with it a block of both.
	version := c.Version()
	c.Computed(&second, 7)
	if c.Version() == version {
		t.Error("lookups have another outcome in the same version")
	}
	allocate(&third, 4, 4, 2, 1, 8)
	// Content that nobody will compute is not found again, the other is.
	for _, table := range []*kv.Table{&first, &second, &third} {
		c.FreeTable(table)
	}
	if n := c.Lookup(&third, chain, 8); n != 1 || c.Known(&third) != 1 || c.Cached() != 1 {
		t.Errorf("%d blocks found, %d known, %d cached, want 1", n, c.Known(&third), c.Cached())
	}
	// The last block of a prompt can be found too.
	if !c.Allocate(&third, chain, 8, 0) {
		t.Fatal("refused")
	}
	c.Computed(&third, 8)
	c.FreeTable(&third)
	if n := c.Lookup(&first, chain, 8); n != 2 || c.Known(&first) != 2 {
		t.Errorf("%d blocks found, %d known, want 2", n, c.Known(&first))
	}
}

// Without Eager everything found is known, and nobody has to be told.
func TestKnownWithoutEager(t *testing.T) {
	c := kv.NewCache(10, 0, 4)
	var first, second kv.Table
	if !c.Allocate(&first, []kv.Hash{1, 2}, 8, 0) {
		t.Fatal("refused")
	}
	version := c.Version()
	c.Computed(&first, 8)
	if n := c.Lookup(&second, []kv.Hash{1, 2}, 9); n != 2 || c.Known(&second) != 2 || c.Version() != version {
		t.Errorf("%d blocks found, %d known, want 2", n, c.Known(&second))
	}
}
