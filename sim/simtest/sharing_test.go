package simtest_test

import (
	"strings"
	"testing"

	"servesim/sim"
	"servesim/sim/simtest"
)

// sharingConfig is tinyConfig with a prefix cache and two drafts a token.
func sharingConfig() sim.Config {
	cfg := tinyConfig
	r := cfg.Replicas[0]
	r.PrefixCache, r.Drafts = true, 2
	cfg.Replicas = []sim.Replica{r}
	return cfg
}

// sharing returns the events of a run worked out by hand. Request 1 of class 0,
// 5 prompt tokens, gets its first token at 10, two at 30 ns, one draft of two
// right, and its fourth and last at 40. Request 2 of class 1 has the same
// prompt: a block of 4 tokens is found, and the last one computed beside the
// drafts of request 1. It gets its first token at 40 and three at 50, both
// drafts right; then it is preempted, finds its 8 positions again and ends with
// its fifth token at 60. Request 3 of class 0 is aborted while two drafts of it
// are checked.
func sharing() []sim.Event {
	const no = sim.NoTime
	r1 := sim.Event{Serial: 1, ID: 7, Class: 0, Prompt: 5}
	r2 := sim.Event{Serial: 2, ID: 8, Class: 1, Prompt: 5}
	r3 := sim.Event{Serial: 3, ID: 9, Class: 0, Prompt: 2}
	at := func(t sim.Time, k sim.Kind, r sim.Event, output int, queued, admitted, first sim.Time) sim.Event {
		r.Time, r.Kind, r.Output = t, k, output
		r.Timeline = sim.Timeline{Arrival: [...]sim.Time{0, 30, 61}[r.Serial-1], Queued: queued, Admitted: admitted, PrefillEnd: first, FirstToken: first}
		switch k {
		case sim.Arrive:
			r.Replica = -1
		case sim.Finish:
			r.Reason = sim.FinishStop
		}
		return r
	}
	found := func(n int32, e sim.Event) sim.Event {
		e.Cached = n
		return e
	}
	step := func(n int64, from, to sim.Time, b sim.Batch, tokens, free, running int, gaps ...sim.GapGroup) sim.Event {
		return sim.Event{Time: to, Kind: sim.StepEnd, Step: n, Took: to.Sub(from), Batch: &b, Gaps: gaps, Tokens: int32(tokens),
			FreeBlocks: free, Running: int32(running)}
	}
	gap := func(prev sim.Time, class, count int) sim.GapGroup {
		return sim.GapGroup{Prev: prev, Class: class, Count: count}
	}
	preempted, finish1 := r2, at(40, sim.Finish, r1, 4, 0, 0, 10)
	preempted.Preemptions, finish1.GapsOver = 1, 1
	return []sim.Event{
		at(0, sim.Arrive, r1, 0, no, no, no),
		at(0, sim.Queue, r1, 0, 0, no, no),
		at(0, sim.Admit, r1, 0, 0, 0, no),
		at(10, sim.PrefillEnd, r1, 1, 0, 0, 10),
		at(10, sim.FirstToken, r1, 1, 0, 0, 10),
		step(1, 0, 10, sim.Batch{Prefills: []sim.Chunk{{Tokens: 5, Last: true}}}, 1, 2, 1),
		step(2, 10, 30, sim.Batch{Decodes: 1, Positions: 3, Context: 5}, 2, 2, 1, gap(10, 0, 1), gap(30, 0, 1)),
		at(30, sim.Arrive, r2, 0, no, no, no),
		at(30, sim.Queue, r2, 0, 30, no, no),
		found(4, at(30, sim.Admit, r2, 0, 30, 30, no)),
		finish1,
		at(40, sim.PrefillEnd, r2, 1, 30, 30, 40),
		at(40, sim.FirstToken, r2, 1, 30, 30, 40),
		step(3, 30, 40, sim.Batch{Decodes: 2, Positions: 4, Context: 11}, 2, 0, 2, gap(30, 0, 1)),
		step(4, 40, 50, sim.Batch{Decodes: 1, Positions: 3, Context: 5}, 3, 2, 1, gap(40, 1, 1), gap(50, 1, 2)),
		at(50, sim.Preempt, preempted, 4, 30, 30, 40),
		found(8, at(50, sim.Admit, preempted, 4, 30, 30, 40)),
		at(60, sim.Finish, preempted, 5, 30, 30, 40),
		step(5, 50, 60, sim.Batch{Decodes: 1, Positions: 1, Context: 8}, 1, 1, 1, gap(50, 1, 1)),
		at(61, sim.Arrive, r3, 0, no, no, no),
		at(61, sim.Queue, r3, 0, 61, no, no),
		at(61, sim.Admit, r3, 0, 61, 61, no),
		at(71, sim.PrefillEnd, r3, 1, 61, 61, 71),
		at(71, sim.FirstToken, r3, 1, 61, 61, 71),
		step(6, 61, 71, sim.Batch{Prefills: []sim.Chunk{{Tokens: 2, Last: true}}}, 1, 3, 1),
		at(75, sim.Abort, r3, 1, 61, 61, 71),
		step(7, 71, 81, sim.Batch{Decodes: 1, Positions: 3, Context: 2}, 0, 2, 1),
		{Time: 90, Kind: sim.End, Replica: -1},
	}
}

var sharingResult = sim.Result{
	Arrived: 3, Completed: 2, Aborted: 1, Preemptions: 1, Steps: 7, Tokens: 10,
	PrefillTokens: 7, DecodePositions: 14, Recompute: 8, End: 90,
	PrefixHits: 4, Drafted: 6, Accepted: 3,
}

func TestLegalSharingBreaksNoLaw(t *testing.T) {
	for _, cfg := range []sim.Config{sharingConfig(), {}} {
		s, laws := script(sharing()), &simtest.Laws{Config: cfg}
		s.observe(laws)
		if err := laws.Check(sharingResult); err != nil {
			t.Error(err)
		}
	}
}

// Every law about prefix caches and drafts, and a run that breaks it.
func TestEachLawOfSharingCanBeBroken(t *testing.T) {
	for _, c := range []struct {
		alter func(*script)
		want  string
	}{
		// Hits.
		{func(s *script) { s.on("30 r0 admit #2").Cached = 3 }, "a hit of 3 positions in blocks of 4"},
		{func(s *script) { s.on("30 r0 admit #2").Cached = 8 }, "a hit of 8 positions, of 4 at most"},
		{func(s *script) { s.on("30 r0 admit #2").Cached = -4 }, "a hit of -4 positions, of 4 at most"},
		{func(s *script) { s.on("40 r0 finish #1").Cached = 4 }, "a hit of 4 positions without an admission"},
		{func(s *script) { s.on("30 r0 admit #2").Cached = 0 }, "Result.PrefixHits is 4, the events give 0"},
		{func(s *script) { s.on("0 r0 admit #1").Cached = 4 }, "the batch reads 0 tokens of context, of 4 to 4 stored"},
		{func(s *script) { s.on("50 r0 admit #2").Cached = 4 }, "the batch reads 8 tokens of context, of 4 to 4 stored"},
		{func(s *script) { s.on("50 r0 admit #2").Cached = 4 }, "steps computed 16 positions, Result.Recompute included; with it requests needed 19 to 20"},
		{func(s *script) { s.on("30 r0 admit #2").Cached = 0 }, "replica 0: steps computed 64 to 79 pairs of positions, its requests needed 84 to 87"},

		// Drafts.
		{func(s *script) { s.on("30 r0 step 2").Batch.Positions = 4 }, "4 positions for 1 decodes"},
		{func(s *script) { s.on("30 r0 step 2").Batch.Positions = 1 }, "1 gaps of zero from 0 drafts"},
		{func(s *script) { s.on("30 r0 step 2").Gaps[1].Count = 3 }, "3 gaps of zero for class 0, whose 1 gaps allow 2"},
		{func(s *script) { s.on("30 r0 step 2").Gaps[1].Class = 1 }, "1 gaps of zero for class 1, whose 0 gaps allow 0"},
		{func(s *script) { s.on("30 r0 step 2").Gaps[0].Prev = 30 }, "0 tokens from 1 samples, 0 of which may be lost"},
		{func(s *script) { s.on("30 r0 step 2").Gaps[1].Prev = 10 }, "1 gaps of class 0 begin at 10 ns, where 0 requests had their latest token"},
		{func(s *script) {
			e := s.on("50 r0 step 4")
			e.Gaps[1].Count, e.Tokens = 1, 2
		}, "the batch reads 8 tokens of context, of 7 to 7 stored"},
		{func(s *script) {
			e := s.on("30 r0 step 2")
			e.Gaps[1].Count, e.Tokens = 2, 3
		}, "replica 0: steps gave 6 tokens to class 0, its requests got 5"},
		{func(s *script) { s.on("40 r0 finish #1").Output = 92 }, "91 gaps within 30 ns"},

		// Blocks that may be shared.
		{func(s *script) { s.on("10 r0 step 1").FreeBlocks = 3 }, "1 KV blocks in use, the batch needs 2"},
		{func(s *script) { s.on("40 r0 step 3").FreeBlocks = 3 }, "1 KV blocks in use, the batch needs 2"},
		{func(s *script) { s.on("60 r0 step 5").FreeBlocks = 2 }, "2 KV blocks in use, the batch needs 3"},
	} {
		t.Run(c.want, func(t *testing.T) {
			s, laws := script(sharing()), &simtest.Laws{Config: sharingConfig()}
			c.alter(&s)
			s.observe(laws)
			if err := laws.Check(sharingResult); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got\n%v\nwant %q", err, c.want)
			}
		})
	}
}

// A replica without prefix cache has no hits, one without drafts no gaps of
// zero, and memory holds all of every sequence.
func TestSharingNeedsItsReplica(t *testing.T) {
	s, laws := script(sharing()), &simtest.Laws{Config: tinyConfig, Keep: 100}
	s.observe(laws)
	err := laws.Check(sharingResult)
	for _, want := range []string{"a hit of 4 positions, of 0 at most", "gap group {Prev:30ns Class:0 Count:1}", "3 positions for 1 decodes"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got\n%v\nwant %q", err, want)
		}
	}
	e := s.on("40 r0 step 3")
	e.FreeBlocks, e.Gaps = 1, nil
	laws = &simtest.Laws{Config: tinyConfig, Keep: 100}
	s.observe(laws)
	if err := laws.Err(); err == nil || !strings.Contains(err.Error(), "3 KV blocks in use, the batch needs 4") {
		t.Errorf("got %v", err)
	}
}

func TestCheckComparesSharing(t *testing.T) {
	for _, c := range []struct {
		change func(*sim.Result)
		want   string
	}{
		{func(r *sim.Result) { r.PrefixHits++ }, "Result.PrefixHits is 5, the events give 4"},
		{func(r *sim.Result) { r.Accepted-- }, "Result.Accepted is 2, the events give 3"},
		{func(r *sim.Result) { r.Drafted = 5 }, "Result.Drafted is 5, the events give 6 to 8"},
		{func(r *sim.Result) { r.Drafted = 9 }, "Result.Drafted is 9, the events give 6 to 8"},
	} {
		s, laws, r := script(sharing()), &simtest.Laws{Config: sharingConfig()}, sharingResult
		s.observe(laws)
		c.change(&r)
		if err := laws.Check(r); err == nil || err.Error() != "simtest: "+c.want {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// Tokens of one step come at one instant, but nothing comes with the first.
func TestTokenTimesOfDrafts(t *testing.T) {
	e := sim.Event{Kind: sim.Finish, Time: 30, Output: 5, Timeline: sim.Timeline{FirstToken: 10}}
	if err := simtest.TokenTimes(sharingConfig(), e, 10, 20, 30, 30, 30); err != nil {
		t.Error(err)
	}
	for _, times := range [][]sim.Time{{10, 10, 20, 30, 30}, {10, 30, 30, 30, 30}, {10, 20, 20, 15, 30}} {
		if err := simtest.TokenTimes(sharingConfig(), e, times...); err == nil || !strings.Contains(err.Error(), "are not in order") {
			t.Errorf("%v: %v", times, err)
		}
	}
}
