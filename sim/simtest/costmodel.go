package simtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"servesim/sim"
)

// TestCostModel tests a cost model on batches from nothing to sixteen thousand
// decodes and prompts of a million tokens, and reports the first batch for which one of these is not so:
//
//   - A step takes some time, more than 0 ns, if there is work in it, and not
//     less than 0 if there is none.
//   - The same batch takes the same time, whatever was asked before.
//   - More work takes at least as long: another decode with as much context as
//     the others, context, a longer chunk, one behind more context, another
//     chunk, a last chunk, padding. A batch tells the sum of its contexts only,
//     so that a model may take them to be alike. A table of measured times
//     that is not monotone fails, as it should: smooth it.
//   - The chunks of the batch are not changed, and not looked at after the
//     call.
//   - A batch of decodes costs no allocation.
//
// Batches have one position per decode. Allocations are counted for the whole
// program: do not call it in a parallel test.
func TestCostModel(t testing.TB, m sim.CostModel) {
	t.Helper()
	batches := costBatches()
	times := make([]time.Duration, len(batches))
	for i, b := range batches {
		times[i] = stepTime(t, m, b)
		if times[i] < 0 || times[i] == 0 && !b.Empty() {
			t.Errorf("a step of %d ns for %s", int64(times[i]), describe(b))
			return
		}
	}
	for i, b := range slices.Backward(batches) {
		if again := stepTime(t, m, b); again != times[i] {
			t.Errorf("%v, then %v for %s", times[i], again, describe(b))
			return
		}
	}
	for _, g := range growths {
		for i, b := range batches {
			more, ok := g.grow(b)
			if !ok {
				continue
			}
			if took := stepTime(t, m, more); took < times[i] {
				t.Errorf("%s: %v for %s, %v for %s", g.name, times[i], describe(b), took, describe(more))
				break
			}
		}
	}
	forgets(t, m)
	for _, n := range []int{1, 64, 4096} {
		b := decodes(n, 1000*n)
		if allocs := testing.AllocsPerRun(20, func() { m.StepTime(b) }); allocs > 0 {
			t.Errorf("%v allocations for %s", allocs, describe(b))
		}
	}
}

// stepTime asks the model, and checks that it leaves the chunks alone.
func stepTime(t testing.TB, m sim.CostModel, b sim.Batch) time.Duration {
	t.Helper()
	before := slices.Clone(b.Prefills)
	took := m.StepTime(b)
	if !slices.Equal(before, b.Prefills) {
		t.Errorf("the model changes the chunks of %s to %v", describe(b), b.Prefills)
		copy(b.Prefills, before)
	}
	return took
}

// forgets checks that the model does not answer from chunks of an earlier
// call, whose memory holds something else by then.
func forgets(t testing.TB, m sim.CostModel) {
	t.Helper()
	small, large := sim.Chunk{Tokens: 8, Last: true}, sim.Chunk{Tokens: 8192, Context: 8192}
	want := m.StepTime(sim.Batch{Prefills: []sim.Chunk{large}})
	lent := []sim.Chunk{small}
	m.StepTime(sim.Batch{Prefills: lent})
	lent[0] = large
	if got := m.StepTime(sim.Batch{Prefills: lent}); got != want {
		t.Errorf("the model keeps the chunks of a call: %v for %+v, %v in memory that it has seen before", want, large, got)
	}
}

func decodes(n, context int) sim.Batch {
	return sim.Batch{Decodes: n, Positions: n, Context: context}
}

// costBatches are the batches that TestCostModel asks about.
func costBatches() []sim.Batch {
	out := []sim.Batch{{}}
	for _, n := range []int{1, 2, 7, 8, 9, 32, 64, 65, 256, 1024, 16_384} {
		for _, context := range []int{1, 100, 4096, 131_072} {
			out = append(out, decodes(n, n*context))
		}
	}
	for _, tokens := range []int{1, 2, 16, 100, 512, 513, 8192, 1 << 20} {
		for _, context := range []int{0, 1000, 131_072} {
			chunk := sim.Chunk{Tokens: tokens, Context: context, Last: true}
			alone := sim.Batch{Prefills: []sim.Chunk{chunk}}
			mixed := decodes(32, 32_000)
			mixed.Prefills = []sim.Chunk{{Tokens: 64}, chunk}
			padded := decodes(3, 3000)
			padded.Prefills = []sim.Chunk{chunk, {Tokens: 5, Last: true}}
			padded.Padding = sim.Padding{Rows: 5, PromptTokens: tokens}
			out = append(out, alone, mixed, padded)
		}
	}
	return out
}

// growths add work to a batch, if they apply to it.
var growths = []struct {
	name string
	grow func(b sim.Batch) (sim.Batch, bool)
}{
	{"another decode is cheaper", func(b sim.Batch) (sim.Batch, bool) {
		if b.Decodes > 0 {
			b.Context += (b.Context + b.Decodes - 1) / b.Decodes
		}
		b.Decodes++
		b.Positions++
		return b, true
	}},
	{"twice the decodes are cheaper", func(b sim.Batch) (sim.Batch, bool) {
		b.Decodes, b.Positions, b.Context = 2*b.Decodes, 2*b.Positions, 2*b.Context
		return b, b.Decodes > 0
	}},
	{"more context is cheaper", func(b sim.Batch) (sim.Batch, bool) {
		b.Context += 1 + b.Context/8
		return b, b.Decodes > 0
	}},
	{"a longer chunk is cheaper", growChunk(func(c *sim.Chunk) { c.Tokens++ })},
	{"twice the chunk is cheaper", growChunk(func(c *sim.Chunk) { c.Tokens *= 2 })},
	{"a chunk behind more context is cheaper", growChunk(func(c *sim.Chunk) { c.Context += 1 + c.Context/8 })},
	{"the last chunk of a prompt is cheaper", func(b sim.Batch) (sim.Batch, bool) {
		i := slices.IndexFunc(b.Prefills, func(c sim.Chunk) bool { return !c.Last })
		if i < 0 {
			return b, false
		}
		b.Prefills = slices.Clone(b.Prefills)
		b.Prefills[i].Last = true
		return b, true
	}},
	{"another chunk is cheaper", func(b sim.Batch) (sim.Batch, bool) {
		b.Prefills = append(slices.Clone(b.Prefills), sim.Chunk{Tokens: 16, Last: true})
		return b, true
	}},
	{"more padding is cheaper", func(b sim.Batch) (sim.Batch, bool) {
		b.Padding.Rows++
		b.Padding.PromptTokens += 3
		return b, !b.Empty()
	}},
}

func growChunk(grow func(c *sim.Chunk)) func(b sim.Batch) (sim.Batch, bool) {
	return func(b sim.Batch) (sim.Batch, bool) {
		if len(b.Prefills) == 0 {
			return b, false
		}
		b.Prefills = slices.Clone(b.Prefills)
		grow(&b.Prefills[len(b.Prefills)-1])
		return b, true
	}
}

func describe(b sim.Batch) string {
	s := fmt.Sprintf("%d decodes with context %d", b.Decodes, b.Context)
	if len(b.Prefills) > 0 {
		s += fmt.Sprintf(" and chunks %+v", b.Prefills)
	}
	if b.Padding != (sim.Padding{}) {
		s += fmt.Sprintf(" and padding %+v", b.Padding)
	}
	return s
}
