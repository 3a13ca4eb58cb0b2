package simtest_test

import (
	"strings"
	"testing"

	"servesim/sim"
	"servesim/sim/simtest"
)

// flightConfig is a replica with two steps in flight.
func flightConfig() sim.Config {
	return sim.Config{Replicas: []sim.Replica{{KVBlocks: 4, BlockTokens: 4, InFlight: 2, Async: sim.AsyncSurplus}}}
}

// flying returns the events of a run worked out by hand: a request of 4 prompt
// tokens that gets three at 10, 20 and 30 ns. Two steps are planned at 0; when
// one ends the next is, and the last is for nothing.
func flying() script {
	const no = sim.NoTime
	at := func(t sim.Time, k sim.Kind, output int, queued, admitted, first sim.Time) sim.Event {
		return sim.Event{Time: t, Kind: k, Serial: 1, ID: 7, Prompt: 4, Output: output,
			Timeline: sim.Timeline{Queued: queued, Admitted: admitted, PrefillEnd: first, FirstToken: first}}
	}
	decode := func(n int64, to sim.Time, context, tokens, free int, gaps ...sim.GapGroup) sim.Event {
		return sim.Event{Time: to, Kind: sim.StepEnd, Step: n, Took: 10, Batch: &sim.Batch{Decodes: 1, Positions: 1, Context: context},
			Tokens: int32(tokens), FreeBlocks: free, Running: 1, Gaps: gaps}
	}
	arrive, finish, first := at(0, sim.Arrive, 0, no, no, no), at(30, sim.Finish, 3, 0, 0, 10), decode(1, 10, 0, 1, 3)
	arrive.Replica, finish.Reason = -1, sim.FinishStop
	first.Batch = &sim.Batch{Prefills: []sim.Chunk{{Tokens: 4, Last: true}}}
	return script{
		arrive,
		at(0, sim.Queue, 0, 0, no, no),
		at(0, sim.Admit, 0, 0, 0, no),
		at(10, sim.PrefillEnd, 1, 0, 0, 10),
		at(10, sim.FirstToken, 1, 0, 0, 10),
		first,
		decode(2, 20, 4, 1, 2, sim.GapGroup{Prev: 10, Count: 1}),
		finish,
		decode(3, 30, 5, 1, 2, sim.GapGroup{Prev: 20, Count: 1}),
		decode(4, 40, 6, 0, 2),
		{Time: 50, Kind: sim.End, Replica: -1},
	}
}

// Every law about several steps in flight, and a run that breaks it.
func TestEachLawOfStepsInFlightCanBeBroken(t *testing.T) {
	for _, c := range []struct {
		alter func(s *script, r *sim.Result)
		want  string
	}{
		{func(*script, *sim.Result) {}, ""},
		{func(s *script, _ *sim.Result) { s.on("30 r0 step 3").Took = 21 }, "the step began at 9 ns, 2 before it one ended at 10 ns"},
		{func(s *script, _ *sim.Result) { s.on("30 r0 step 3").Took = 21 }, "the step began at 9 ns, before the one before it, at 10 ns"},
		{func(s *script, _ *sim.Result) { s.move("0 r0 admit #1", 15); s.on("30 r0 step 3").Took = 20 }, "admissions at 15 ns, and none of 2 steps began since"},
		{func(s *script, _ *sim.Result) { s.on("20 r0 step 2").Running = 2 }, "2 sequences run and 0 wait, which was never so from 0 to 10 ns"},
		{func(s *script, _ *sim.Result) { s.on("40 r0 step 4").Waiting = 1 }, "1 sequences run and 1 wait, which was never so from 20 to 30 ns"},
		{func(s *script, _ *sim.Result) {
			e := s.on("20 r0 step 2")
			e.Tokens, e.Gaps = 0, nil
		}, "0 tokens from 1 samples, 0 of which may be lost"},
		{func(s *script, _ *sim.Result) { s.on("40 r0 step 4").Tokens = 1 }, "1 tokens, but 0 first tokens and gaps"},
		{func(s *script, _ *sim.Result) { s.on("40 r0 step 4").FreeBlocks = 4 }, "0 KV blocks in use, the batch needs 2"},
		{func(s *script, _ *sim.Result) {
			s.on("40 r0 step 4").Batch.Prefills = []sim.Chunk{{Tokens: 3}}
		}, "replica 0: steps computed 10 positions, its requests needed 6 to 6, and 1 may be surplus"},
		{func(_ *script, r *sim.Result) { r.Surplus = 2 }, "Result.Surplus is 2, the events give 0 to 1"},
		{func(_ *script, r *sim.Result) { r.Surplus = 0 }, "steps computed 7 positions, Result.Recompute included; with it requests needed 6 to 6"},
	} {
		t.Run(c.want, func(t *testing.T) {
			s, laws := flying(), &simtest.Laws{Config: flightConfig(), Keep: 100}
			r := sim.Result{Arrived: 1, Completed: 1, Steps: 4, Tokens: 3, PrefillTokens: 4, DecodePositions: 3, Surplus: 1, End: 50}
			c.alter(&s, &r)
			s.observe(laws)
			err := laws.Check(r)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got\n%v\nwant %q", err, c.want)
			}
		})
	}
}

// A request that is preempted with a token in flight gets it while it waits,
// where that can be.
func TestTokensOfThoseWhoWait(t *testing.T) {
	for _, inFlight := range []int{1, 2} {
		s, laws := flying(), &simtest.Laws{Config: flightConfig(), Keep: 100}
		laws.Config.Replicas[0].InFlight = inFlight
		preempt := *s.on("30 r0 finish #1")
		preempt.Time, preempt.Kind, preempt.Reason, preempt.Output, preempt.Preemptions = 20, sim.Preempt, "", 2, 1
		s.on("30 r0 finish #1").Preemptions = 1
		i := s.index("20 r0 step 2") + 1
		s = append(s[:i:i], append(script{preempt}, s[i:]...)...)
		s.drop("40 r0 step 4")
		s.observe(laws)
		err := laws.Check(sim.Result{Arrived: 1, Completed: 1, Preemptions: 1, Recompute: 6, Steps: 3, Tokens: 3, PrefillTokens: 4, DecodePositions: 2, End: 50})
		if inFlight == 2 && err != nil || inFlight == 1 && (err == nil || !strings.Contains(err.Error(), "finish of a request that is waiting")) {
			t.Errorf("%d in flight: %v", inFlight, err)
		}
	}
}

// The steps of a group begin and end together.
func TestStepsOfAGroup(t *testing.T) {
	step := func(replica int32, n int64, from, to sim.Time) sim.Event {
		return sim.Event{Time: to, Kind: sim.StepEnd, Replica: replica, Step: n, Took: to.Sub(from),
			Batch: &sim.Batch{SwapOut: 1}}
	}
	const law = "the step began at 5 ns, one of its group lasted from 0 to 10 ns"
	for _, tt := range []struct {
		group int
		from  sim.Time
		want  bool
	}{{1, 0, false}, {1, 5, true}, {2, 5, false}} {
		laws := &simtest.Laws{Config: sim.Config{Replicas: []sim.Replica{{Group: 1}, {Group: tt.group}}}}
		for _, e := range []sim.Event{step(0, 1, 0, 10), step(1, 1, tt.from, 10), step(0, 2, 10, 20)} {
			laws.Observe(e)
		}
		if err := laws.Err(); strings.Contains(err.Error(), law) != tt.want {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}
