package kv_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/sim/kv"
)

func TestHashChain(t *testing.T) {
	tokens := make([]int, 40)
	for i := range tokens {
		tokens[i] = i % 3
	}
	base := kv.HashTokens(nil, tokens, 4, "")
	if len(base) != 10 || len(kv.HashTokens(nil, tokens[:39], 4, "")) != 9 {
		t.Fatalf("%d hashes for 40 tokens in blocks of 4", len(base))
	}
	// A change of one token changes its block and all later ones, no earlier one.
	tokens[22]++
	changed := kv.HashTokens(nil, tokens, 4, "")
	salted := kv.HashTokens(nil, tokens, 4, "tenant")
	for i := range base {
		if (base[i] == changed[i]) != (i < 5) {
			t.Errorf("token 22 changed: block %d equal %t", i, base[i] == changed[i])
		}
		if salted[i] == changed[i] {
			t.Errorf("block %d of another salt is equal", i)
		}
	}
	// Equal blocks at different positions differ: tokens repeat every 12.
	seen := map[kv.Hash]bool{}
	for _, h := range append(append(base, changed...), salted...) {
		seen[h] = true
	}
	if len(seen) != 10+5+10 {
		t.Errorf("%d distinct hashes, want 25", len(seen))
	}
	if block := kv.HashBlock(base[1], 8, []int{2, 0, 1, 2}, "ignored here"); block != base[2] {
		t.Errorf("block 2 alone hashes to %x, in the chain to %x", block, base[2])
	}
	ids := kv.HashIDs(nil, []uint64{7, 7, 7}, "")
	if ids[0] == ids[1] || ids[1] == ids[2] || ids[0] == kv.HashIDs(nil, []uint64{7}, "x")[0] {
		t.Errorf("ids are not chained or not salted: %x", ids)
	}
}

func TestConvert(t *testing.T) {
	recorded := []kv.Hash{1, 2, 3} // of 64 tokens
	fine, err := kv.Convert(nil, recorded, 64, 16, 150)
	if err != nil || len(fine) != 9 || fine[3] != 1 || fine[7] != 2 {
		t.Fatalf("150 tokens in blocks of 16: %x, %v; want 9 hashes, the whole's at 3 and 7", fine, err)
	}
	// Another sequence with the same first block shares its four parts and no more.
	other, _ := kv.Convert(nil, []kv.Hash{1, 9}, 64, 16, 128)
	for i, h := range other {
		if (h == fine[i]) != (i < 4) {
			t.Errorf("part %d shared: %t", i, h == fine[i])
		}
	}
	back, err := kv.Convert(nil, fine, 16, 64, 150)
	if d := cmp.Diff([]kv.Hash{1, 2}, back); d != "" || err != nil {
		t.Errorf("back to 64 (-want +got):\n%s%v", d, err)
	}
	for _, c := range []struct {
		from, to, tokens, want int
	}{{64, 64, 150, 2}, {64, 64, 1000, 3}, {64, 128, 1000, 1}, {64, 192, 192, 1}, {64, 192, 191, 0}, {64, 1, 3, 3}, {64, 16, 0, 0}} {
		got, err := kv.Convert(nil, recorded, c.from, c.to, c.tokens)
		if err != nil || len(got) != c.want {
			t.Errorf("%d to %d, %d tokens: %d hashes, %v, want %d", c.from, c.to, c.tokens, len(got), err, c.want)
		}
	}
	// Parts of a block never meet the blocks that follow it in a chain of small ids.
	ids := make([]uint64, 64)
	for i := range ids {
		ids[i] = uint64(i)
	}
	chain := kv.HashIDs(nil, ids, "")
	parts, _ := kv.Convert(nil, chain, 64, 1, 64*64)
	seen := map[kv.Hash]bool{}
	for _, h := range parts {
		if seen[h] {
			t.Fatalf("hash %x occurs twice", h)
		}
		seen[h] = true
	}
}

func TestConvertRefuses(t *testing.T) {
	for _, c := range []struct {
		from, to, tokens int
		want             string
	}{
		{512, 24, 512, "512-token blocks do not convert to 24-token blocks"},
		{16, 24, 512, "neither is a multiple"},
		{0, 16, 1, "at least 1 token"},
		{16, 0, 1, "at least 1 token"},
		{16, 16, -1, "-1 tokens"},
	} {
		dst := []kv.Hash{4}
		got, err := kv.Convert(dst, []kv.Hash{1, 2}, c.from, c.to, c.tokens)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(got) != 1 {
			t.Errorf("Convert %d to %d: %v, %v, want an error with %q", c.from, c.to, got, err, c.want)
		}
	}
}
