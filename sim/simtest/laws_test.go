package simtest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/simtest"
)

// tinyConfig is the deployment of legal: four blocks of four tokens.
var tinyConfig = sim.Config{
	Replicas: []sim.Replica{{KVBlocks: 5, ReservedBlocks: 1, BlockTokens: 4, MaxSeqs: 2, MaxBatchTokens: 8, MaxModelLen: 12}},
	Classes:  []sim.Class{{Gap: 15}, {}},
}

// legal returns the events of a run worked out by hand. Request 1 of class 0,
// 5 prompt tokens, gets 4 tokens at 10, 30, 40 and 50 ns, the second one late.
// Request 2 of class 1, 3 prompt tokens, gets one at 40, is preempted for the
// step to 50, computed again until 60, and gets its third token at 70. Request
// 3 is of an unknown class. Request 4 is aborted in its only step.
func legal() []sim.Event {
	const no = sim.NoTime
	r1 := sim.Event{Serial: 1, ID: 7, Class: 0, Prompt: 5}
	r2 := sim.Event{Serial: 2, ID: 8, Class: 1, Prompt: 3}
	r3 := sim.Event{Serial: 3, ID: 9, Class: -1, Prompt: 2, Replica: -1}
	r4 := sim.Event{Serial: 4, ID: 9, Class: 0, Prompt: 2}
	at := func(t sim.Time, k sim.Kind, r sim.Event, output int, queued, admitted, prefilled, first sim.Time) sim.Event {
		r.Time, r.Kind, r.Output = t, k, output
		r.Timeline = sim.Timeline{Arrival: map[int64]sim.Time{1: 0, 2: 12, 3: 71, 4: 71}[r.Serial], Queued: queued, Admitted: admitted, PrefillEnd: prefilled, FirstToken: first}
		if k == sim.Arrive {
			r.Replica = -1
		}
		return r
	}
	step := func(n int64, from, to sim.Time, b sim.Batch, tokens, free, waiting, running int, gaps ...sim.GapGroup) sim.Event {
		b.Positions = b.Decodes
		return sim.Event{Time: to, Kind: sim.StepEnd, Step: n, Took: to.Sub(from), Batch: &b, Gaps: gaps, Tokens: int32(tokens),
			FreeBlocks: free, Waiting: int32(waiting), Running: int32(running)}
	}
	gap := func(prev sim.Time, class int) sim.GapGroup { return sim.GapGroup{Prev: prev, Class: class, Count: 1} }
	prompt := func(tokens int) []sim.Chunk { return []sim.Chunk{{Tokens: tokens, Last: true}} }

	finish1 := at(50, sim.Finish, r1, 4, 0, 0, 10, 10)
	finish1.Reason, finish1.GapsOver = sim.FinishStop, 1
	preempted := r2
	preempted.Preemptions = 1
	finish2 := at(70, sim.Finish, preempted, 3, 12, 30, 40, 40)
	finish2.Reason = sim.FinishLength
	reject3 := at(71, sim.Reject, r3, 0, no, no, no, no)
	reject3.Reason = sim.RejectUnknownClass
	return []sim.Event{
		at(0, sim.Arrive, r1, 0, no, no, no, no),
		at(0, sim.Queue, r1, 0, 0, no, no, no),
		at(0, sim.Admit, r1, 0, 0, 0, no, no),
		at(10, sim.PrefillEnd, r1, 1, 0, 0, 10, 10),
		at(10, sim.FirstToken, r1, 1, 0, 0, 10, 10),
		step(1, 0, 10, sim.Batch{Prefills: prompt(5)}, 1, 2, 0, 1),
		at(12, sim.Arrive, r2, 0, no, no, no, no),
		at(12, sim.Queue, r2, 0, 12, no, no, no),
		step(2, 10, 30, sim.Batch{Decodes: 1, Context: 5}, 1, 2, 0, 1, gap(10, 0)),
		at(30, sim.Admit, r2, 0, 12, 30, no, no),
		at(40, sim.PrefillEnd, r2, 1, 12, 30, 40, 40),
		at(40, sim.FirstToken, r2, 1, 12, 30, 40, 40),
		step(3, 30, 40, sim.Batch{Decodes: 1, Context: 6, Prefills: prompt(3)}, 2, 1, 0, 2, gap(30, 0)),
		at(40, sim.Preempt, preempted, 1, 12, 30, 40, 40),
		finish1,
		step(4, 40, 50, sim.Batch{Decodes: 1, Context: 7}, 1, 2, 1, 1, gap(40, 0)),
		at(50, sim.Admit, preempted, 1, 12, 30, 40, 40),
		step(5, 50, 60, sim.Batch{Prefills: prompt(4)}, 1, 3, 0, 1, gap(40, 1)),
		finish2,
		step(6, 60, 70, sim.Batch{Decodes: 1, Context: 4}, 1, 2, 0, 1, gap(60, 1)),
		at(71, sim.Arrive, r3, 0, no, no, no, no),
		reject3,
		at(71, sim.Arrive, r4, 0, no, no, no, no),
		at(71, sim.Queue, r4, 0, 71, no, no, no),
		at(71, sim.Admit, r4, 0, 71, 71, no, no),
		at(75, sim.Abort, r4, 0, 71, 71, no, no),
		step(7, 71, 81, sim.Batch{Prefills: prompt(2)}, 0, 3, 0, 1),
		{Time: 90, Kind: sim.End, Replica: -1},
	}
}

var legalResult = sim.Result{
	Arrived: 4, Completed: 2, Rejected: 1, Aborted: 1, Preemptions: 1, Steps: 7, Tokens: 7,
	PrefillTokens: 14, DecodePositions: 4, Recompute: 3, End: 90,
}

// script is a run to be altered.
type script []sim.Event

// on returns the event whose line begins so.
func (s *script) on(line string) *sim.Event { return &(*s)[s.index(line)] }

func (s *script) index(line string) int {
	i := slices.IndexFunc(*s, func(e sim.Event) bool { return strings.HasPrefix(e.String()+" ", line+" ") })
	if i < 0 {
		panic("no event " + line)
	}
	return i
}

func (s *script) drop(line string) {
	i := s.index(line)
	*s = slices.Delete(*s, i, i+1)
}

func (s *script) double(line string) {
	i := s.index(line)
	*s = slices.Insert(*s, i, (*s)[i])
}

func (s *script) observe(laws *simtest.Laws) {
	for _, e := range *s {
		laws.Observe(e)
	}
}

func TestLegalEventsBreakNoLaw(t *testing.T) {
	for _, cfg := range []sim.Config{tinyConfig, {}} {
		s, laws := script(legal()), &simtest.Laws{Config: cfg}
		s.observe(laws)
		if err := laws.Check(legalResult); err != nil {
			t.Error(err)
		}
	}
}

// Each law, broken once.
func TestEachLawCanBeBroken(t *testing.T) {
	for _, c := range []struct {
		alter func(s *script)
		want  string
	}{
		// Time and the run.
		{func(s *script) { s.on("10 r0 first-token #1").Time = 9 }, "time goes back from 10 ns"},
		{func(s *script) { s.double("90 end") }, "an event after the end of the run"},
		{func(s *script) { s.drop("90 end") }, "the run has no end event"},
		{func(s *script) { s.on("0 r0 queue #1").Kind = 77 }, "an unknown kind of event"},

		// The life of a request.
		{func(s *script) { s.on("12 r-1 arrive #2").Serial = 5 }, "arrival 2 of the run has serial 5"},
		{func(s *script) { s.double("0 r-1 arrive #1") }, "serial 1 is alive already"},
		{func(s *script) { s.drop("0 r-1 arrive #1") }, "request #1 is not alive"},
		{func(s *script) { s.double("50 r0 finish #1") }, "request #1 is not alive"},
		{func(s *script) { s.double("0 r0 queue #1") }, "queue of a request that is waiting"},
		{func(s *script) { s.double("30 r0 admit #2") }, "admit of a request that is running"},
		{func(s *script) { s.drop("30 r0 admit #2") }, "prefill-end of a request that is waiting"},
		{func(s *script) { s.double("40 r0 preempt #2") }, "preempt of a request that is waiting"},
		{func(s *script) { s.drop("50 r0 admit #2") }, "finish of a request that is waiting"},
		{func(s *script) { s.drop("0 r0 queue #1") }, "admit of a request that is at the front door"},
		{func(s *script) { s.double("10 r0 prefill-end #1") }, "the prompt was complete at 10 ns already"},
		{func(s *script) { s.double("10 r0 first-token #1") }, "the first token came at 10 ns already"},
		{func(s *script) { s.drop("10 r0 prefill-end #1") }, "a token before the end of the prompt"},
		{func(s *script) { s.drop("10 r0 first-token #1") }, "finished without a token"},
		{func(s *script) { s.on("0 r0 queue #1").Replica = 1 }, "queue of replica 1 of 1"},
		{func(s *script) { s.on("71 r-1 reject #3").Reason = "" }, "a rejection without a reason"},
		{func(s *script) { s.on("50 r0 finish #1").Reason = "done" }, `finished for the reason "done"`},
		{func(s *script) { s.on("12 r-1 arrive #2").Class = 2 }, "a request of class 2 is queued"},
		{func(s *script) {
			for i := range *s {
				if (*s)[i].Serial == 2 {
					(*s)[i].Class = -1
				}
			}
		}, "a request of class -1 is queued"},
		{func(s *script) { s.drop("71 r-1 reject #3") }, "1 requests never end"},
		{func(s *script) { s.on("12 r-1 arrive #2").Prompt = 0 }, "a request with 0 prompt tokens is queued"},
		{func(s *script) { s.on("12 r-1 arrive #2").ID = 7 }, "request #1 with the same id is in flight"},

		// What an event says of its request.
		{func(s *script) { s.on("30 r0 admit #2").ID = 9 }, "id 9, class 1, prompt 3 of a request with id 8, class 1, prompt 3"},
		{func(s *script) { s.on("30 r0 admit #2").Class = 0 }, "id 8, class 0, prompt 3 of"},
		{func(s *script) { s.on("30 r0 admit #2").Prompt = 4 }, "id 8, class 1, prompt 4 of"},
		{func(s *script) { s.on("75 r0 abort #4").Replica = -1 }, "replica -1 of a request in replica 0"},
		{func(s *script) { s.on("50 r0 admit #2").Preemptions = 0 }, "Preemptions is 0 after 1 of them"},
		{func(s *script) { s.on("0 r-1 arrive #1").Timeline.Arrival = 1 }, "timeline {1ns - - - -}, the events give {0s - - - -}"},
		{func(s *script) { s.on("40 r0 preempt #2").Timeline.Admitted = 12 }, "timeline {12ns 12ns 12ns 40ns 40ns}, the events give {12ns 12ns 30ns 40ns 40ns}"},
		{func(s *script) { s.on("40 r0 first-token #2").Output = 2 }, "the first token is token 2"},
		{func(s *script) { s.on("30 r0 admit #2").Output = 1 }, "1 tokens before the first"},
		{func(s *script) { s.on("50 r0 admit #2").Output = 2 }, "2 tokens of a request that had 1 and is waiting"},
		{func(s *script) { s.on("70 r0 finish #2").Output = 0 }, "0 tokens of a request that had 1 and is running"},
		{func(s *script) { s.on("50 r0 finish #1").Output = 60 }, "59 gaps within 40 ns"},
		{func(s *script) { s.on("50 r0 finish #1").Output = 1 }, "the only token came at 10 ns"},
		{func(s *script) { s.on("50 r0 finish #1").Output = 8 }, "5 prompt and 8 output tokens, over MaxModelLen 12"},
		{func(s *script) { s.on("50 r0 finish #1").GapsOver = 4 }, "4 of 3 gaps over the target"},
		{func(s *script) { s.on("50 r0 finish #1").GapsOver = -1 }, "-1 of 3 gaps over the target"},

		// Steps.
		{func(s *script) { s.on("30 r0 step 2").Step = 3 }, "step 2 of the replica has number 3"},
		{func(s *script) { s.on("30 r0 step 2").Took = 0 }, "the step took 0 ns"},
		{func(s *script) { s.on("30 r0 step 2").Took = 21 }, "the step began at 9 ns, 1 before it one ended at 10 ns"},
		{func(s *script) { s.on("30 r0 step 2").Replica = 1 }, "a step of replica 1 of 1"},
		{func(s *script) { s.on("30 r0 step 2").Replica = -1 }, "a step of replica -1 of 1"},
		{func(s *script) { s.on("40 r0 step 3").Took = 9 }, "admissions at 30 ns for a step that began at 31 ns"},
		{func(s *script) { s.on("40 r0 preempt #2").Time = 41 }, "a preemption at 41 ns, in the middle of the step"},
		{func(s *script) { s.drop("81 r0 step 7"); s.double("90 end") }, "an event after the end"},
		{func(s *script) { s.drop("70 r0 step 6"); s.drop("81 r0 step 7") }, "tokens at 70 ns, but no step ends then"},
		{func(s *script) { s.on("70 r0 step 6").Time = 71 }, "tokens at 70 ns, but the step ends now"},
		{func(s *script) { s.drop("10 r0 step 1") }, "step 1 of the replica has number 2"},
		{func(s *script) { s.drop("40 r0 step 3") }, "tokens at 40 ns, but no step ends then"},
		{func(s *script) { s.drop("60 r0 step 5") }, "admissions at 50 ns for a step that began at 60 ns"},
		{func(s *script) {
			s.drop("60 r0 step 5")
			s.drop("70 r0 finish #2")
			s.drop("70 r0 step 6")
		}, "admissions at 50 ns and now, and no step between"},

		// Batches.
		{func(s *script) { s.on("30 r0 step 2").Batch = &sim.Batch{} }, "a step without work"},
		{func(s *script) { s.on("30 r0 step 2").Batch.Context = -1 }, "a negative count in the batch"},
		{func(s *script) { s.on("30 r0 step 2").Batch.Padding.Rows = -1 }, "a negative count in the batch"},
		{func(s *script) { s.on("30 r0 step 2").Batch.Positions = 0 }, "0 positions for 1 decodes"},
		{func(s *script) { s.on("10 r0 step 1").Batch.Prefills[0].Tokens = 0 }, "a chunk of 0 tokens behind 0"},
		{func(s *script) { s.on("10 r0 step 1").Batch.Prefills[0].Context = -1 }, "a chunk of 5 tokens behind -1"},
		{func(s *script) { s.on("10 r0 step 1").Batch.Prefills[0].Context = 8 }, "a sequence of 13 tokens, over MaxModelLen 12"},
		{func(s *script) { s.on("10 r0 step 1").Batch.Prefills[0].Tokens = 9 }, "9 positions, over MaxBatchTokens 8"},
		{func(s *script) { s.on("40 r0 step 3").Running = 3 }, "3 sequences run, over MaxSeqs 2"},
		{func(s *script) { s.on("40 r0 step 3").Running = 1 }, "2 sequences in the batch of 1 that run"},
		{func(s *script) { s.on("30 r0 step 2").Running = 2 }, "2 sequences run, the events give 1"},
		{func(s *script) { s.on("30 r0 step 2").Waiting = 1 }, "1 sequences wait, the events give 0"},
		{func(s *script) { s.on("30 r0 step 2").FreeBlocks = -1 }, "-1 of 4 KV blocks are free"},
		{func(s *script) { s.on("30 r0 step 2").FreeBlocks = 5 }, "5 of 4 KV blocks are free"},
		{func(s *script) { s.on("40 r0 step 3").FreeBlocks = 2 }, "2 KV blocks in use, the batch needs 3"},

		// Tokens.
		{func(s *script) { s.on("40 r0 step 3").Tokens = 3 }, "3 tokens from 2 samples"},
		{func(s *script) { s.on("40 r0 step 3").Tokens = 1 }, "1 tokens from 2 samples, 0 of which may be lost"},
		{func(s *script) { s.on("40 r0 step 3").Gaps = nil }, "2 tokens, but 1 first tokens and gaps"},
		{func(s *script) { s.on("40 r0 step 3").Gaps[0].Count = 0 }, "gap group {Prev:30ns Class:0 Count:0}"},
		{func(s *script) { s.on("40 r0 step 3").Gaps[0].Prev = 40 }, "gap group {Prev:40ns Class:0 Count:1}"},
		{func(s *script) { s.on("40 r0 step 3").Gaps[0].Prev = 29 }, "1 gaps of class 0 begin at 29 ns, where 0 requests had their latest token"},
		{func(s *script) { s.on("40 r0 step 3").Gaps[0].Class = 1 }, "1 gaps of class 1 begin at 30 ns, where 0 requests"},
		{func(s *script) { s.on("50 r0 step 4").Gaps[0].Class = 1 }, "a request of class 0 finished without a token of this step"},
		{func(s *script) { s.on("50 r0 finish #1").Output = 3 }, "replica 0: steps gave 4 tokens to class 0, its requests got 3"},
		{func(s *script) { s.on("50 r0 finish #1").GapsOver = 0 }, "replica 0: steps gave 1 gaps over the target to class 0, its requests had 0"},
		{func(s *script) { s.on("75 r0 abort #4").Kind = sim.Finish }, "finished without a token"},
		{func(s *script) {
			e := s.on("70 r0 finish #2")
			e.Kind, e.Output = sim.Abort, 1
		}, "no request of class 1 had its latest token at 40 ns"},

		// Positions.
		{func(s *script) { s.on("30 r0 step 2").Batch.Context = 6 }, "the batch reads 6 tokens of context, of 5 to 5 stored, with 0 sequences left out"},
		{func(s *script) { s.on("40 r0 step 3").Batch.Context = 5 }, "the batch reads 5 tokens of context, of 6 to 6 stored"},
		{func(s *script) { s.on("50 r0 step 4").Batch.Context = 8 }, "of 7 to 7 stored"},
		{func(s *script) { s.on("10 r0 step 1").Batch.Prefills[0].Tokens = 6 }, "of 6 to 6 stored"},
		{func(s *script) { s.on("60 r0 step 5").Batch.Prefills[0].Tokens = 5 }, "of 5 to 5 stored"},
		{func(s *script) { s.on("70 r0 finish #2").Output = 4 }, "nothing runs, but -1 to -1 positions more were computed than needed"},
		{func(s *script) { s.on("81 r0 step 7").Batch.Prefills[0].Tokens = 3 }, "nothing runs, but 1 to 3 positions more"},
		{func(s *script) { s.on("81 r0 step 7").Batch.Prefills[0].Tokens = 3 }, "steps computed 19 positions, Result.Recompute included; with it requests needed 16 to 18"},
		// The first request is left out of step 3, and the chunk beside it is
		// said to stand behind one token too many: 3 pairs more.
		{func(s *script) {
			e := s.on("40 r0 step 3")
			e.Batch, e.Gaps, e.Tokens = &sim.Batch{Prefills: []sim.Chunk{{Tokens: 3, Context: 1, Last: true}}}, nil, 1
			e = s.on("50 r0 step 4")
			e.Batch.Context, e.Gaps[0].Prev = 6, 30
			s.on("50 r0 finish #1").Output = 3
		}, "replica 0: steps computed 55 to 55 pairs of positions, its requests needed 49 to 52"},
	} {
		t.Run(c.want, func(t *testing.T) {
			s, laws := script(legal()), &simtest.Laws{Config: tinyConfig}
			c.alter(&s)
			s.observe(laws)
			err := laws.Check(legalResult)
			if err == nil {
				t.Fatal("no law is broken")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got\n%v\nwant %q", err, c.want)
			}
		})
	}
}

// A result that counts otherwise than the events.
func TestCheckComparesTheResult(t *testing.T) {
	for _, c := range []struct {
		change func(*sim.Result)
		want   string
	}{
		{func(r *sim.Result) { r.Arrived++ }, "Result.Arrived is 5, the events give 4"},
		{func(r *sim.Result) { r.Completed++ }, "Result.Completed is 3, the events give 2"},
		{func(r *sim.Result) { r.Rejected++ }, "Result.Rejected is 2, the events give 1"},
		{func(r *sim.Result) { r.Aborted++ }, "Result.Aborted is 2, the events give 1"},
		{func(r *sim.Result) { r.Unfinished++ }, "Result.Unfinished is 1, the events give 0"},
		{func(r *sim.Result) { r.Preemptions++ }, "Result.Preemptions is 2, the events give 1"},
		{func(r *sim.Result) { r.Steps++ }, "Result.Steps is 8, the events give 7"},
		{func(r *sim.Result) { r.Tokens++ }, "Result.Tokens is 8, the events give 7"},
		{func(r *sim.Result) { r.PrefillTokens++ }, "Result.PrefillTokens is 15, the events give 14"},
		{func(r *sim.Result) { r.DecodePositions++ }, "Result.DecodePositions is 5, the events give 4"},
		{func(r *sim.Result) { r.Recompute++ }, "Result.Recompute is 4, the events give 3 to 3"},
		{func(r *sim.Result) { r.End++ }, "Result.End is 91, the events give 90"},
	} {
		s, laws, r := script(legal()), &simtest.Laws{}, legalResult
		s.observe(laws)
		c.change(&r)
		if err := laws.Check(r); err == nil || err.Error() != "simtest: "+c.want {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// Token times come from the engine only: a run whose ends are altered.
func TestTokenTimesAreChecked(t *testing.T) {
	for _, c := range []struct {
		kind   sim.Kind
		change func(e *sim.Event)
		want   string
	}{
		{sim.Finish, func(*sim.Event) {}, ""},
		{sim.FirstToken, func(e *sim.Event) { e.Time = 11 }, "the first token time is 10 ns"},
		{sim.Finish, func(e *sim.Event) { e.Output++ }, "3 token times for 4 tokens"},
		{sim.Finish, func(e *sim.Event) { e.Time++ }, "the last token time is 30 ns"},
		{sim.Finish, func(e *sim.Event) { e.GapsOver = 1 }, "1 gaps over the target, the token times give 2"},
	} {
		cfg := sim.Config{
			TokenTimes: true, Classes: []sim.Class{{Gap: 9}},
			Replicas: []sim.Replica{{Scheduler: scheduler.Continuous{}, CostModel: sim.CostFunc(func(sim.Batch) time.Duration { return 10 })}},
		}
		laws := &simtest.Laws{Config: cfg}
		cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == c.kind {
				c.change(&e)
			}
			laws.Observe(e)
		})}
		_, err := sim.Run(context.Background(), cfg, func(yield func(sim.Request, error) bool) {
			yield(sim.Request{Prompt: 4, Output: 3}, nil)
		})
		if err != nil {
			t.Fatal(err)
		}
		switch err := laws.Err(); {
		case c.want == "" && err != nil:
			t.Error(err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func TestTokenTimesAreInOrder(t *testing.T) {
	e := sim.Event{Kind: sim.Finish, Time: 30, Output: 3, Timeline: sim.Timeline{FirstToken: 10}}
	if err := simtest.TokenTimes(tinyConfig, e, 10, 20, 30); err != nil {
		t.Error(err)
	}
	for _, times := range [][]sim.Time{{10, 10, 30}, {10, 31, 30}} {
		if err := simtest.TokenTimes(tinyConfig, e, times...); err == nil || !strings.Contains(err.Error(), "are not in order") {
			t.Errorf("%v: %v", times, err)
		}
	}
}

func TestLawsKeepTheFirstViolations(t *testing.T) {
	laws := &simtest.Laws{Keep: 2}
	for i := range 5 {
		laws.Observe(sim.Event{Kind: sim.Queue, Serial: int64(i)})
	}
	const want = "simtest: request #0 is not alive\n\tevent 1: 0 r0 queue #0 id 0\n" +
		"simtest: request #1 is not alive\n\tevent 2: 0 r0 queue #1 id 0\n" +
		"simtest: and 3 more violations"
	if err := laws.Err(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}

// Memory and time of Laws do not grow with the steps of a run.
func TestLawsAllocateNothingPerStep(t *testing.T) {
	laws := &simtest.Laws{Config: tinyConfig}
	for _, e := range legal()[:6] {
		laws.Observe(e)
	}
	e := sim.Event{Time: 10, Kind: sim.StepEnd, Step: 1, Took: 10, Batch: &sim.Batch{Decodes: 1, Positions: 1, Context: 4},
		Gaps: []sim.GapGroup{{Count: 1}}, Tokens: 1, Running: 1}
	n := testing.AllocsPerRun(1000, func() {
		e.Gaps[0].Prev = e.Time
		e.Time += 10
		e.Step++
		e.Batch.Context++
		laws.Observe(e)
	})
	if n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

// A request that arrives at 5 ns, has its first token at 30 ns and ends at 70 ns.
func TestTimeLedgersAreChecked(t *testing.T) {
	for _, c := range []struct {
		change func(e *sim.Event, t *sim.Ledger)
		want   string
	}{
		{func(*sim.Event, *sim.Ledger) {}, ""},
		{func(_ *sim.Event, t *sim.Ledger) { t.Queue.Memory-- }, "the ledger has 24 ns to the first token, the timeline 25"},
		{func(_ *sim.Event, t *sim.Ledger) { t.Stream.Interference = -1 }, "the ledger has 39 ns behind the first token, the timeline 40"},
		{func(_ *sim.Event, t *sim.Ledger) { t.LateTransfer = true }, "the ledger has 20 ns to the first token"},
		{func(e *sim.Event, _ *sim.Ledger) { e.Timeline.FirstToken = sim.NoTime }, "the ledger has 25 ns to the first token, the timeline 65"},
		{func(e *sim.Event, t *sim.Ledger) { t.Queue.Memory, t.Queue.Order = -2, 11 }, "a part of Queue is -2 ns"},
		{func(e *sim.Event, t *sim.Ledger) { t.Prefill.Compute, t.Prefill.Paused = 12, -1 }, "a part of Prefill is -1 ns"},
		{func(e *sim.Event, t *sim.Ledger) { t.Transfer.Room, t.Transfer.Wire = -1, 4 }, "a part of Transfer is -1 ns"},
		{func(e *sim.Event, t *sim.Ledger) { t.FirstDecode.Stalled, t.FirstDecode.Compute = -1, 3 }, "a part of FirstDecode is -1 ns"},
		{func(e *sim.Event, t *sim.Ledger) { t.Stream.Preempted, t.Stream.Decode = -1, 41 }, "a part of Stream is -1 ns"},
	} {
		e := sim.Event{Kind: sim.Finish, Time: 70, Timeline: sim.Timeline{Arrival: 5, FirstToken: 30}}
		l := sim.Ledger{
			Queue: sim.QueueTime{Memory: 9}, Prefill: sim.PrefillTime{Compute: 11}, Transfer: sim.TransferTime{Wire: 3},
			FirstDecode: sim.FirstDecodeTime{Compute: 2}, Stream: sim.StreamTime{Decode: 40},
		}
		c.change(&e, &l)
		switch err := simtest.TimeLedger(e, l); {
		case c.want == "" && err != nil:
			t.Error(err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
