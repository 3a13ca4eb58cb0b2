package workload_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/sim/kv"
	"servesim/workload"
)

// drawnTexts are prompts of a few texts, cut in pieces, from any position.
func drawnTexts(r *rand.Rand, n int) [][]workload.Text {
	prompts := make([][]workload.Text, n)
	for i := range prompts {
		for range 1 + r.IntN(6) {
			x := workload.Text{ID: r.Uint64N(3), From: 16 * r.IntN(3), Tokens: r.IntN(700)}
			if cut := r.IntN(x.Tokens + 1); r.IntN(2) == 0 { // the same in two pieces
				prompts[i] = append(prompts[i], workload.Text{ID: x.ID, From: x.From, Tokens: cut})
				x.From, x.Tokens = x.From+cut, x.Tokens-cut
			}
			prompts[i] = append(prompts[i], x)
		}
		if i > 0 && r.IntN(2) == 0 { // begin as another does
			other := prompts[r.IntN(i)]
			prompts[i] = append(other[:r.IntN(len(other)+1):len(other)], prompts[i]...)
		}
	}
	return prompts
}

// asTokens spells texts out: a token is its text and its position there.
func asTokens(texts []workload.Text) (tokens []int) {
	for _, x := range texts {
		for i := range x.Tokens {
			tokens = append(tokens, int(x.ID)<<32|(x.From+i))
		}
	}
	return tokens
}

// sharedBlocks describes chains by which of their blocks are equal.
func sharedBlocks(chains [][]kv.Hash) [][]int {
	names := map[kv.Hash]int{}
	out := make([][]int, len(chains))
	for i, c := range chains {
		out[i] = []int{}
		for _, h := range c {
			if _, ok := names[h]; !ok {
				names[h] = len(names)
			}
			out[i] = append(out[i], names[h])
		}
	}
	return out
}

// Chains of texts are equal where those of their tokens are, in blocks of any
// size; those of small blocks, coarsened, are equal where those of large blocks
// are; and split ones share no more than is equal.
func TestTextsShareInBlocksOfAnySize(t *testing.T) {
	prompts := drawnTexts(rand.New(workload.Stream(1, "texts", 0)), 200)
	chains := func(block int, hash func([]workload.Text) []kv.Hash) (out [][]kv.Hash) {
		for _, p := range prompts {
			out = append(out, hash(p))
		}
		return out
	}
	for _, block := range []int{1, 7, 16, 64, 512} {
		byTexts := chains(block, func(p []workload.Text) []kv.Hash { return workload.HashTexts(nil, p, block, "a") })
		byTokens := chains(block, func(p []workload.Text) []kv.Hash { return kv.HashTokens(nil, asTokens(p), block, "a") })
		if diff := cmp.Diff(sharedBlocks(byTokens), sharedBlocks(byTexts)); diff != "" {
			t.Errorf("blocks of %d (-tokens +texts):\n%s", block, diff)
		}
	}
	convert := func(from, to int) [][]kv.Hash {
		return chains(to, func(p []workload.Text) []kv.Hash {
			fine := workload.HashTexts(nil, p, from, "a")
			out, err := kv.Convert(nil, fine, from, to, len(fine)*from)
			if err != nil {
				t.Fatal(err)
			}
			return out
		})
	}
	large := chains(512, func(p []workload.Text) []kv.Hash { return workload.HashTexts(nil, p, 512, "a") })
	if diff := cmp.Diff(sharedBlocks(large), sharedBlocks(convert(16, 512))); diff != "" {
		t.Errorf("16 to 512 (-want +got):\n%s", diff)
	}
	hits := func(block int, chains [][]kv.Hash) float64 {
		var requests []sim.Request
		for _, c := range chains {
			if len(c) > 0 {
				requests = append(requests, sim.Request{Prompt: len(c) * block, Output: 1, Prefix: c, PrefixBlock: block})
			}
		}
		s, err := workload.DescribeSharing(workload.FromSlice(requests))
		if err != nil {
			t.Fatal(err)
		}
		return float64(s.BlockHits) * float64(s.Blocks*block)
	}
	coarse, split, fine := hits(512, large), hits(16, convert(512, 16)), hits(16, chains(16, func(p []workload.Text) []kv.Hash {
		return workload.HashTexts(nil, p, 16, "a")
	}))
	if split != coarse || !(coarse < fine) {
		t.Errorf("tokens found: %v in blocks of 512, %v split to 16, %v in blocks of 16", coarse, split, fine)
	}
}

func TestHashTexts(t *testing.T) {
	texts := []workload.Text{{ID: 1, Tokens: 40}, {ID: 2, Tokens: 9}}
	dst := []kv.Hash{5}
	got := workload.HashTexts(dst, texts, 16, "a")
	if len(got) != 4 || got[0] != 5 || cmp.Equal(got, workload.HashTexts(dst, texts, 16, "b")) {
		t.Errorf("chain %v", got)
	}
	defer func() {
		if r := recover(); r != "workload: HashTexts with blocks of no tokens" {
			t.Errorf("panic %v", r)
		}
	}()
	workload.HashTexts(nil, texts, 0, "a")
}
