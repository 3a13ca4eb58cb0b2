package workload_test

import (
	"errors"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/sim/kv"
	"servesim/workload"
)

// Prompts of blocks a b c (the last not full), a b, a x y and z (not full), and
// one without a prefix, in blocks of 4 tokens. Of 9 blocks 3 are found: a and b
// by the second, which is found whole, and a by the third.
func TestSharing(t *testing.T) {
	const a, b, c, x, y, z = kv.Hash(1), kv.Hash(2), kv.Hash(3), kv.Hash(4), kv.Hash(5), kv.Hash(6)
	requests := []sim.Request{
		{Prompt: 10, Prefix: []kv.Hash{a, b, c}, PrefixBlock: 4},
		{Prompt: 8, Prefix: []kv.Hash{a, b, 99}, PrefixBlock: 4}, // what is behind the prompt does not count
		{Prompt: 12, Prefix: []kv.Hash{a, x, y}, PrefixBlock: 4},
		{Prompt: 3, Prefix: []kv.Hash{z}, PrefixBlock: 4},
		{Prompt: 5},
	}
	// A cache of two blocks does not hold the prompts of three, and so finds a
	// of the second in the third; one of one block holds the last prompt only.
	want := workload.Sharing{
		BlockTokens: 4, Blocks: 9, Distinct: 6, BlockHits: 3. / 9, TokenHits: 12. / 38, AnyHit: 2. / 5, WholeHit: 1. / 5,
		HitMean: (1 + 1./3) / 5, HitP50: 0, HitP90: 1./3 + .6*2/3, Once: 4. / 6, Top1: 0, Roots: 2,
		Limited: []workload.LimitedHits{{3, 3. / 9}, {2, 1. / 9}, {1, 0}},
	}
	got, err := workload.DescribeSharing(workload.FromSlice(requests), 3, 2, 1)
	if diff := cmp.Diff(want, got, closeTo); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	if got, err = workload.DescribeSharing(workload.FromSlice(requests)); err != nil || got.Limited != nil {
		t.Errorf("without limits: %v, %+v", err, got)
	}
	plain := workload.Sharing{BlockHits: none, TokenHits: 0, HitMean: 0, Once: none, Top1: none}
	if got, err = workload.DescribeSharing(workload.FromSlice(requests[4:]), 3); !cmp.Equal(plain, got, closeTo) || err != nil {
		t.Errorf("without prefixes: %v, %+v", err, got)
	}
}

// 200 distinct blocks, one of them in every prompt: the top 1 % are two.
func TestSharingTop(t *testing.T) {
	var requests []sim.Request
	for i := range 199 {
		requests = append(requests, sim.Request{Prompt: 2, Prefix: []kv.Hash{1000, kv.Hash(i)}, PrefixBlock: 1})
	}
	got, err := workload.DescribeSharing(workload.FromSlice(requests))
	if err != nil || !cmp.Equal(got.Top1, workload.Figure(200./398), closeTo) || !cmp.Equal(got.Once, workload.Figure(199./200), closeTo) {
		t.Errorf("error %v, top %v, once %v", err, float64(got.Top1), float64(got.Once))
	}
}

func TestSharingErrors(t *testing.T) {
	broken := errors.New("broken")
	one := sim.Request{ID: 3, Prompt: 16, Prefix: []kv.Hash{1}, PrefixBlock: 16}
	other := one
	other.PrefixBlock = 8
	for want, requests := range map[string]iter.Seq2[sim.Request, error]{
		"broken": func(yield func(sim.Request, error) bool) { yield(one, broken) },
		"workload: request 0 has prompt 0, prefix in blocks of 0": workload.FromSlice([]sim.Request{{}}),
		"workload: request 0 has prompt 1, prefix in blocks of 0": workload.FromSlice([]sim.Request{{Prompt: 1, Prefix: []kv.Hash{1}}}),
	} {
		if _, err := workload.DescribeSharing(requests, 5); errText(err) != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if _, err := workload.DescribeSharing(workload.FromSlice([]sim.Request{one}), 5, 0); errText(err) != "workload: DescribeSharing with a cache of 0 blocks" {
		t.Errorf("a cache of no blocks: %v", err)
	}
	if _, err := workload.DescribeSharing(workload.FromSlice([]sim.Request{one, other})); errText(err) != "workload: request 3 has a prefix in blocks of 8 tokens, others have 16" {
		t.Errorf("blocks of two sizes: %v", err)
	}
}
