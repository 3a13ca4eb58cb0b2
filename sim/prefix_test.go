package sim_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/kv"
)

// text returns the hash chain of the first tokens of a text, in blocks of 16.
func text(name, tokens int) (chain []kv.Hash) {
	for i := range tokens / 16 {
		chain = append(chain, kv.Hash(name*1000+i))
	}
	return chain
}

// cached is one replica with a prefix cache: 10 ms a step.
func cached(blocks int) sim.Replica {
	return sim.Replica{
		Scheduler: scheduler.ChunkedPrefill{}, CostModel: sim.CostFunc(func(sim.Batch) time.Duration { return 10 * time.Millisecond }),
		KVBlocks: blocks, BlockTokens: 16, PrefixCache: true,
	}
}

// stepsOf runs rs and returns the chunks, decodes and free blocks of every step.
func stepsOf(t *testing.T, r sim.Replica, rs ...sim.Request) (out []stepSeen, res sim.Result) {
	t.Helper()
	for i := range rs {
		rs[i].PrefixBlock = 16
	}
	res, err := sim.Run(context.Background(), sim.Config{
		Replicas: []sim.Replica{r}, Check: true,
		Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == sim.StepEnd {
				out = append(out, stepSeen{append([]sim.Chunk(nil), e.Batch.Prefills...), e.Batch.Decodes, e.FreeBlocks})
			}
		})},
	}, slice(rs))
	if err != nil {
		t.Fatal(err)
	}
	return out, res
}

type stepSeen struct {
	Chunks  []sim.Chunk
	Decodes int
	Free    int
}

func TestPrefixCache(t *testing.T) {
	const second = sim.Time(time.Second)
	chunk := func(tokens, context int) []sim.Chunk {
		return []sim.Chunk{{Tokens: tokens, Context: context, Last: true}}
	}
	for _, c := range []struct {
		name     string
		blocks   int
		requests []sim.Request
		want     []stepSeen
		hits     int64
		eager    bool
	}{
		{
			// The last token of a prompt is always computed, and with it its
			// block: 16 of 32 tokens hit. Both blocks are held all the same.
			"whole prompt again", 10,
			[]sim.Request{{ID: 1, Prompt: 32, Output: 1, Prefix: text(1, 32)}, {ID: 2, Arrival: second, Prompt: 32, Output: 1, Prefix: text(1, 32)}},
			[]stepSeen{{chunk(32, 0), 0, 8}, {chunk(16, 16), 0, 8}}, 16, false,
		},
		{
			// Blocks can be found as soon as their step is planned: one block
			// is shared inside the step, one is computed twice.
			"twins in one step", 10,
			[]sim.Request{{ID: 1, Prompt: 32, Output: 1, Prefix: text(1, 32)}, {ID: 2, Prompt: 32, Output: 1, Prefix: text(1, 32)}},
			[]stepSeen{{[]sim.Chunk{{Tokens: 32, Last: true}, {Tokens: 16, Context: 16, Last: true}}, 0, 7}}, 16, false,
		},
		{
			// The chain of the first request covers its answer, so that the
			// next turn finds 48 of 60 tokens.
			"next turn", 10,
			[]sim.Request{{ID: 1, Prompt: 30, Output: 20, Prefix: text(1, 50)}, {ID: 2, Arrival: second, Prompt: 60, Output: 1, Prefix: text(1, 60)}},
			append(append([]stepSeen{{chunk(30, 0), 0, 8}}, decodesOf(30, 19, 10)...), stepSeen{chunk(12, 48), 0, 6}), 48, false,
		},
		{
			"another text", 10,
			[]sim.Request{{ID: 1, Prompt: 32, Output: 1, Prefix: text(1, 32)}, {ID: 2, Arrival: second, Prompt: 33, Output: 1, Prefix: text(2, 32)}},
			[]stepSeen{{chunk(32, 0), 0, 8}, {chunk(33, 0), 0, 7}}, 0, false,
		},
		{
			"stores but does not read", 10,
			[]sim.Request{
				{ID: 1, Prompt: 33, Output: 1, Prefix: text(1, 32), NoPrefixRead: true},
				{ID: 2, Arrival: second, Prompt: 33, Output: 1, Prefix: text(1, 32), NoPrefixRead: true},
				{ID: 3, Arrival: 2 * second, Prompt: 33, Output: 1, Prefix: text(1, 32)},
			},
			[]stepSeen{{chunk(33, 0), 0, 7}, {chunk(33, 0), 0, 7}, {chunk(1, 32)[:0:0], 1, 7}}, 32, false,
		},
		{
			// A request without hashes overwrites what it needs: the tail of
			// the freed prompt goes first.
			"overwritten", 4,
			[]sim.Request{
				{ID: 1, Prompt: 64, Output: 1, Prefix: text(1, 64)},
				{ID: 2, Arrival: second, Prompt: 30, Output: 1},
				{ID: 3, Arrival: 2 * second, Prompt: 64, Output: 1, Prefix: text(1, 64)},
			},
			[]stepSeen{{chunk(64, 0), 0, 0}, {chunk(30, 0), 0, 2}, {chunk(32, 32), 0, 0}}, 32, false,
		},
		{
			// Both compute all of it into the same blocks. Later the last token
			// alone is computed again, in the block that is there.
			"twins in one step, eager", 10,
			[]sim.Request{
				{ID: 1, Prompt: 32, Output: 1, Prefix: text(1, 32)}, {ID: 2, Prompt: 32, Output: 1, Prefix: text(1, 32)},
				{ID: 3, Arrival: second, Prompt: 32, Output: 1, Prefix: text(1, 32)},
			},
			[]stepSeen{{[]sim.Chunk{{Tokens: 32, Last: true}, {Tokens: 32, Last: true}}, 0, 8}, {nil, 1, 8}}, 31, true,
		},
		{
			// A block that decodes fill can be found from the next step on.
			"next turn, eager", 10,
			[]sim.Request{{ID: 1, Prompt: 30, Output: 20, Prefix: text(1, 50)}, {ID: 2, Arrival: second, Prompt: 60, Output: 1, Prefix: text(1, 60)}},
			append(append([]stepSeen{{chunk(30, 0), 0, 8}}, decodesOf(30, 19, 10)...), stepSeen{chunk(12, 48), 0, 6}), 48, true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := cached(c.blocks)
			r.EagerSharing = c.eager
			got, res := stepsOf(t, r, c.requests...)
			if d := cmp.Diff(c.want, got, cmp.Transformer("empty", func(c []sim.Chunk) []sim.Chunk { return append([]sim.Chunk{}, c...) })); d != "" {
				t.Errorf("steps (-want +got):\n%s", d)
			}
			if res.PrefixHits != c.hits || res.Completed != int64(len(c.requests)) {
				t.Errorf("%d positions hit, want %d; %+v", res.PrefixHits, c.hits, res)
			}
		})
	}
}

// decodesOf lists n decode steps of one sequence that has that context.
func decodesOf(context, n, blocks int) (out []stepSeen) {
	for i := range n {
		out = append(out, stepSeen{nil, 1, blocks - (context+i)/16 - 1})
	}
	return out
}

// A preempted sequence finds its own blocks again while nobody overwrites
// them, and its hits count once, at its first admission.
func TestPreemptedFindsItsOwnBlocks(t *testing.T) {
	passes := 0
	r := cached(10)
	r.Scheduler = sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
		if passes++; passes == 4 {
			p.Preempt(v.Running.First())
		}
		scheduler.ChunkedPrefill{}.Schedule(v, p)
	})
	got, res := stepsOf(t, r, sim.Request{ID: 1, Prompt: 40, Output: 5, Prefix: text(1, 32)})
	want := []stepSeen{
		{[]sim.Chunk{{Tokens: 40, Last: true}}, 0, 7}, {nil, 1, 7}, {nil, 1, 7},
		// 43 positions to compute, 32 of them found.
		{[]sim.Chunk{{Tokens: 11, Context: 32, Last: true}}, 0, 7}, {nil, 1, 7},
	}
	if d := cmp.Diff(want, got, cmp.Transformer("empty", func(c []sim.Chunk) []sim.Chunk { return append([]sim.Chunk{}, c...) })); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
	if res.Preemptions != 1 || res.Recompute != 42 || res.PrefixHits != 0 {
		t.Errorf("%d preemptions, %d positions lost, %d hit; want 1, 42, 0", res.Preemptions, res.Recompute, res.PrefixHits)
	}
}

// Hashes of blocks that are no multiple or fraction of the replica's cannot be
// compared: the request is rejected and others run on.
func TestPrefixBlocksDoNotMix(t *testing.T) {
	rs := []sim.Request{
		{ID: 1, Prompt: 40, Output: 1, Prefix: []kv.Hash{1}, PrefixBlock: 24},
		{ID: 2, Prompt: 40, Output: 1, Prefix: []kv.Hash{1}},
		{ID: 3, Prompt: 40, Output: 1, Prefix: []kv.Hash{1}, PrefixBlock: 32},
	}
	events := &keeper{}
	res, err := sim.Run(context.Background(), sim.Config{Replicas: []sim.Replica{cached(10)}, Observers: []sim.Observer{events}, Check: true}, slice(rs))
	if err != nil || res.Completed != 1 || res.Rejected != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	var reasons []string
	for _, e := range events.of(sim.Reject) {
		reasons = append(reasons, e.Reason)
	}
	if d := cmp.Diff([]string{sim.RejectPrefixBlock, sim.RejectBadField}, reasons); d != "" {
		t.Errorf("reasons (-want +got):\n%s", d)
	}
}
