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

// nobody asks for changes of role.
type nobody struct{}

func (nobody) Control(sim.Time, []sim.Load) ([]sim.RoleChange, sim.Time) { return nil, sim.Never }

// apartConfig is the deployment of apart: replica 0 computes prompts, replica 1
// decodes, replica 2 does both. A byte a token takes a nanosecond, after two.
func apartConfig() sim.Config {
	r := sim.Replica{KVBlocks: 5, BlockTokens: 4, MaxSeqs: 2}
	cfg := sim.Config{
		Replicas: []sim.Replica{r, r, r}, Classes: []sim.Class{{Gap: 15}, {}},
		Link: &sim.Link{TokenBytes: 1, Bandwidth: 1e9, Latency: 2}, Roles: nobody{}, SwitchCost: 7,
	}
	cfg.Replicas[0].Role = sim.RolePrefill
	cfg.Replicas[1].Role, cfg.Replicas[1].HostBlocks = sim.RoleDecode, 4
	return cfg
}

// apart returns the events of a run worked out by hand. Request 1 of class 0, 5
// prompt tokens, gets its first token from replica 0 at 10 ns; its two blocks
// move until 20. It gets its second token from replica 1 at 30, is swapped out
// for the step to 40, and ends with its third at 50. Request 2 of class 1, 3
// prompt tokens, gets a token at 22, waits for the end of the step of replica 1,
// moves from 30 to 36, and ends with its third token at 60. Replica 0, which has
// nothing to do then, changes its role from 45 to 52 ns.
func apart() []sim.Event {
	const no = sim.NoTime
	r1 := sim.Event{Serial: 1, ID: 7, Class: 0, Prompt: 5}
	r2 := sim.Event{Serial: 2, ID: 8, Class: 1, Prompt: 3}
	at := func(t sim.Time, k sim.Kind, replica int32, r sim.Event, output int, queued, admitted, first sim.Time) sim.Event {
		r.Time, r.Kind, r.Replica, r.Output = t, k, replica, output
		r.Timeline = sim.Timeline{Arrival: [...]sim.Time{0, 12}[r.Serial-1], Queued: queued, Admitted: admitted, PrefillEnd: first, FirstToken: first}
		return r
	}
	with := func(e sim.Event, change func(e *sim.Event)) sim.Event {
		change(&e)
		return e
	}
	cached := func(n int32) func(*sim.Event) { return func(e *sim.Event) { e.Cached = n } }
	moved := func(n int32, took time.Duration) func(*sim.Event) {
		return func(e *sim.Event) { e.Tokens, e.Took = n, took }
	}
	step := func(replica int32, n int64, from, to sim.Time, b sim.Batch, tokens, free, waiting, running int, gaps ...sim.GapGroup) sim.Event {
		b.Positions = b.Decodes
		return sim.Event{Time: to, Kind: sim.StepEnd, Replica: replica, Step: n, Took: to.Sub(from), Batch: &b, Gaps: gaps, Tokens: int32(tokens),
			FreeBlocks: free, Waiting: int32(waiting), Running: int32(running)}
	}
	gap := func(prev sim.Time, class int) sim.GapGroup { return sim.GapGroup{Prev: prev, Class: class, Count: 1} }
	prompt := func(tokens int) sim.Batch { return sim.Batch{Prefills: []sim.Chunk{{Tokens: tokens, Last: true}}} }
	swapped := r1
	swapped.Preemptions = 1
	return []sim.Event{
		at(0, sim.Arrive, -1, r1, 0, no, no, no),
		at(0, sim.Queue, 0, r1, 0, 0, no, no),
		at(0, sim.Admit, 0, r1, 0, 0, 0, no),
		at(10, sim.PrefillEnd, 0, r1, 1, 0, 0, 10),
		at(10, sim.FirstToken, 0, r1, 1, 0, 0, 10),
		at(10, sim.Handoff, 1, r1, 1, 0, 0, 10),
		step(0, 1, 0, 10, prompt(5), 1, 3, 0, 1),
		with(at(10, sim.Pull, 1, r1, 1, 0, 0, 10), moved(5, 0)),
		at(12, sim.Arrive, -1, r2, 0, no, no, no),
		at(12, sim.Queue, 0, r2, 0, 12, no, no),
		at(12, sim.Admit, 0, r2, 0, 12, 12, no),
		with(at(20, sim.Pulled, 1, r1, 1, 0, 0, 10), moved(5, 10)),
		with(at(20, sim.Admit, 1, r1, 1, 0, 0, 10), cached(5)),
		at(22, sim.PrefillEnd, 0, r2, 1, 12, 12, 22),
		at(22, sim.FirstToken, 0, r2, 1, 12, 12, 22),
		at(22, sim.Handoff, 1, r2, 1, 12, 12, 22),
		step(0, 2, 12, 22, prompt(3), 1, 2, 0, 1),
		step(1, 1, 20, 30, sim.Batch{Decodes: 1, Context: 5}, 1, 3, 0, 1, gap(10, 0)),
		with(at(30, sim.Pull, 1, r2, 1, 12, 12, 22), moved(3, 0)),
		with(at(30, sim.Preempt, 1, swapped, 2, 0, 0, 10), func(e *sim.Event) { e.Reason = sim.PreemptSwap }),
		with(at(36, sim.Pulled, 1, r2, 1, 12, 12, 22), moved(3, 6)),
		step(1, 2, 30, 40, sim.Batch{SwapOut: 2}, 0, 4, 2, 0),
		with(at(40, sim.Admit, 1, swapped, 2, 0, 0, 10), cached(6)),
		with(at(40, sim.Admit, 1, r2, 1, 12, 12, 22), cached(3)),
		{Time: 45, Kind: sim.Drain, Replica: 0, Reason: "both"},
		with(at(50, sim.Finish, 1, swapped, 3, 0, 0, 10), func(e *sim.Event) { e.Reason, e.GapsOver = sim.FinishStop, 2 }),
		step(1, 3, 40, 50, sim.Batch{Decodes: 2, Context: 9, SwapIn: 2}, 2, 2, 0, 2, gap(22, 1), gap(30, 0)),
		{Time: 52, Kind: sim.Open, Replica: 0, Reason: "both", Took: 7},
		with(at(60, sim.Finish, 1, r2, 3, 12, 12, 22), func(e *sim.Event) { e.Reason = sim.FinishLength }),
		step(1, 4, 50, 60, sim.Batch{Decodes: 1, Context: 4}, 1, 3, 0, 1, gap(50, 1)),
		{Time: 70, Kind: sim.End, Replica: -1},
	}
}

var apartResult = sim.Result{
	Arrived: 2, Completed: 2, Preemptions: 1, Steps: 6, Tokens: 6,
	PrefillTokens: 8, DecodePositions: 4, Transfers: 2, Transferred: 8, Switches: 1, End: 70,
}

func TestLegalTransfersBreakNoLaw(t *testing.T) {
	for _, cfg := range []sim.Config{apartConfig(), {}} {
		s, laws := script(apart()), &simtest.Laws{Config: cfg}
		s.observe(laws)
		if err := laws.Check(apartResult); err != nil {
			t.Error(err)
		}
	}
}

// move gives an event another time, and its place in the run.
func (s *script) move(line string, to sim.Time) *sim.Event {
	i := s.index(line)
	e := (*s)[i]
	*s = slices.Delete(*s, i, i+1)
	e.Time = to
	at := slices.IndexFunc(*s, func(x sim.Event) bool { return x.Time > to })
	*s = slices.Insert(*s, at, e)
	return &(*s)[at]
}

// Every law about transfers, roles and host memory, and a run that breaks it.
func TestEachLawOfDeploymentsCanBeBroken(t *testing.T) {
	for _, c := range []struct {
		alter func(s *script, cfg *sim.Config)
		want  string
	}{
		// The life of a request between replicas.
		{func(s *script, _ *sim.Config) { s.drop("10 r1 handoff #1") }, "pull of a request that is running"},
		{func(s *script, _ *sim.Config) { s.double("22 r1 handoff #2") }, "handoff of a request that is elsewhere"},
		{func(s *script, _ *sim.Config) { s.drop("10 r1 pull #1") }, "pulled of a request that is elsewhere"},
		{func(s *script, _ *sim.Config) { s.double("10 r1 pull #1") }, "pull of a request that is on the way"},
		{func(s *script, _ *sim.Config) { s.drop("20 r1 pulled #1") }, "admit of a request that is on the way"},
		{func(s *script, _ *sim.Config) { s.double("20 r1 pulled #1") }, "pulled of a request that is waiting with its KV"},
		{func(s *script, _ *sim.Config) { s.double("30 r1 preempt #1") }, "preempt of a request that is swapped out"},
		{func(s *script, _ *sim.Config) {
			e := s.on("36 r1 pulled #2")
			e.Kind, e.Reason, e.Tokens, e.Took = sim.Reject, "chaos", 0, 0
		}, "reject of a request that is on the way"},
		{func(s *script, _ *sim.Config) {
			e := s.on("60 r1 finish #2")
			e.Kind, e.Reason = sim.Reject, "chaos"
		}, "reject of a request that is running"},
		{func(s *script, _ *sim.Config) { s.on("10 r1 handoff #1").Replica = 0 }, "handed over to replica 0 of 3, from replica 0"},
		{func(_ *script, cfg *sim.Config) { cfg.Replicas[1].Role = sim.RolePrefill }, "handed over by a replica for prefill to one for prefill"},
		{func(_ *script, cfg *sim.Config) { cfg.Replicas[0].Role = sim.RoleDecode }, "handed over by a replica for decode to one for decode"},
		{func(s *script, _ *sim.Config) { s.drop("10 r0 prefill-end #1") }, "handed over with a prompt that was complete at -1 ns"},
		{func(_ *script, cfg *sim.Config) { cfg.Replicas[0].FirstToken = sim.FirstFromDecode }, "handed over with 1 tokens"},
		{func(s *script, _ *sim.Config) { s.on("10 r1 handoff #1").GapsOver = 1 }, "handed over with 1 tokens"},
		{func(s *script, _ *sim.Config) { s.on("30 r1 preempt #1").Reason = "age" }, `preempted for the reason "age"`},
		{func(s *script, _ *sim.Config) { s.on("12 r0 admit #2").Took = 3 }, "0 positions in 3 ns without a transfer"},

		// Who is turned away.
		{func(s *script, _ *sim.Config) {
			e := s.on("12 r0 queue #2")
			e.Kind, e.Reason, e.Replica = sim.Reject, sim.RejectKVCapacity, -1
		}, "rejected for exceeds_kv_capacity although it is at the front door and fits"},
		{func(s *script, _ *sim.Config) {
			e := s.on("12 r0 queue #2")
			e.Kind, e.Reason, e.Replica = sim.Reject, sim.RejectModelLen, -1
		}, "rejected for exceeds_max_model_len although"},
		{func(s *script, _ *sim.Config) {
			e := s.on("12 r0 queue #2")
			e.Kind, e.Reason, e.Replica = sim.Reject, sim.RejectOutOfKV, -1
		}, "rejected for out_of_kv although"},
		{func(s *script, _ *sim.Config) {
			e := s.on("30 r1 pull #2")
			e.Kind, e.Reason, e.Tokens = sim.Reject, sim.RejectNoRoute, 0
		}, "rejected for no_route although it is elsewhere and fits"},
		{func(s *script, _ *sim.Config) {
			e := s.on("30 r1 pull #2")
			e.Kind, e.Reason, e.Tokens = sim.Reject, sim.RejectDuplicateID, 0
		}, "rejected for duplicate_id although it is elsewhere and fits"},

		// Transfers.
		{func(s *script, _ *sim.Config) { s.on("10 r1 pull #1").Replica = 3 }, "a transfer to replica 3 of 3"},
		{func(_ *script, cfg *sim.Config) { cfg.Link = nil }, "a transfer to replica 1 of 3"},
		{func(s *script, _ *sim.Config) { s.on("10 r1 pull #1").Tokens = 6 }, "6 positions are fetched and 0 there, of 5"},
		{func(s *script, _ *sim.Config) {
			e := s.on("10 r1 pull #1")
			e.Tokens, e.Cached = 1, 4
		}, "a hit of 4 positions in blocks of 4"},
		{func(s *script, _ *sim.Config) { s.on("20 r1 pulled #1").Tokens = 4 }, "4 positions in 10 ns of a transfer of 5 that began at 10 ns"},
		{func(s *script, _ *sim.Config) { s.on("20 r1 pulled #1").Took = 9 }, "5 positions in 9 ns of a transfer of 5 that began at 10 ns"},
		{func(s *script, _ *sim.Config) { s.move("20 r1 pulled #1", 18).Took = 8 }, "8 bytes in 8 ns, which take 10 at least"},
		{func(s *script, _ *sim.Config) { s.move("36 r1 pulled #2", 38).Took = 8 }, "4 bytes in 8 ns, which take 6 at least"},
		{func(s *script, _ *sim.Config) { s.on("20 r1 admit #1").Cached = 4 }, "admitted with 4 positions, 5 were transferred"},
		{func(s *script, _ *sim.Config) { s.on("22 r0 step 2").FreeBlocks = 3 }, "2 KV blocks in use, the batch needs 1, and transfers 2"},
		{func(s *script, _ *sim.Config) { s.on("40 r1 step 2").FreeBlocks = 5 }, "0 KV blocks in use, the batch needs 0, and transfers 1"},

		// Tokens of two replicas.
		{func(s *script, _ *sim.Config) {
			s.on("10 r0 step 1").Gaps = []sim.GapGroup{{Prev: 5, Class: 0, Count: 1}}
		}, "1 tokens and 1 gap groups of a replica that hands over"},
		{func(_ *script, cfg *sim.Config) { cfg.Replicas[0].FirstToken = sim.FirstFromDecode }, "1 tokens and 0 gap groups of a replica that hands over"},
		{func(s *script, _ *sim.Config) {
			s.drop("10 r0 first-token #1")
			s.on("10 r0 step 1").Tokens = 0
		}, "a request of class 0 was handed over without a token of this step"},
		{func(s *script, _ *sim.Config) { s.on("30 r1 step 1").Gaps[0].Prev = 11 }, "1 gaps of class 0 begin at 11 ns, where 0 requests"},
		{func(s *script, _ *sim.Config) { s.on("10 r0 step 1").Batch.Prefills[0].Last = false }, "1 tokens from 0 samples"},

		// Host memory.
		{func(s *script, _ *sim.Config) { s.on("30 r1 preempt #1").Reason = "" }, "a hit of 6 positions, of 0 at most"},
		{func(s *script, _ *sim.Config) { s.on("40 r1 admit #1").Cached = 5 }, "admitted with 5 positions, 6 to 6 were swapped out"},
		{func(s *script, _ *sim.Config) { s.on("40 r1 step 2").Batch.SwapOut = 1 }, "1 blocks are swapped out with 1 sequences, which have 2 at least"},
		{func(s *script, _ *sim.Config) { s.on("40 r1 step 2").Batch.SwapOut = 3 }, "1 blocks in host memory of 4 for 0 sequences, which have 0 at least"},
		{func(s *script, _ *sim.Config) { s.on("50 r1 step 3").Batch.SwapIn = 1 }, "1 blocks are swapped in with 1 sequences, which have 2 at least"},
		{func(s *script, _ *sim.Config) { s.on("50 r1 step 3").Batch.SwapIn = 3 }, "1 blocks more are swapped in than out"},
		{func(s *script, _ *sim.Config) { s.on("60 r1 step 4").Batch.SwapOut = 1 }, "1 blocks are swapped out with 0 sequences"},
		{func(_ *script, cfg *sim.Config) { cfg.Replicas[1].HostBlocks = 1 }, "2 blocks in host memory of 1 for 1 sequences"},
		{func(s *script, _ *sim.Config) { s.drop("40 r1 step 2"); s.drop("50 r1 step 3"); s.drop("60 r1 step 4") }, "replica 1: no step copies 2 sequences to or from host memory"},

		// Changes of role.
		{func(s *script, _ *sim.Config) { s.on("45 r0 drain").Replica = 3 }, "drain of replica 3 of 3"},
		{func(s *script, _ *sim.Config) { s.on("45 r0 drain").ID = 3 }, "a change of role is about request #0"},
		{func(s *script, _ *sim.Config) { s.on("45 r0 drain").Reason = "cook" }, `nobody asks for the role "cook"`},
		{func(_ *script, cfg *sim.Config) { cfg.Roles = nil }, `nobody asks for the role "both"`},
		{func(s *script, _ *sim.Config) { s.on("45 r0 drain").Took = 1 }, "a replica is closed after 1 ns"},
		{func(s *script, _ *sim.Config) { s.double("45 r0 drain") }, "drain of a replica that was closed: true"},
		{func(s *script, _ *sim.Config) { s.drop("45 r0 drain") }, "open of a replica that was closed: false"},
		{func(s *script, _ *sim.Config) { s.on("52 r0 open").Took = 6 }, "a replica that was closed at 45 ns opens 6 ns later"},
		{func(s *script, _ *sim.Config) { s.move("52 r0 open", 50).Took = 5 }, "a replica opens 5 ns after it had drained, of 7"},
		{func(s *script, _ *sim.Config) { s.move("45 r0 drain", 23); s.move("52 r0 open", 30).Took = 7 }, "a replica opens with 0 sequences in line, 0 running, 0 coming and blocks of 1"},
		{func(s *script, _ *sim.Config) { s.move("45 r0 drain", 13); s.move("52 r0 open", 20).Took = 7 }, "a replica opens with 0 sequences in line, 1 running"},
		{func(s *script, _ *sim.Config) { s.move("45 r0 drain", 11) }, "queue of a replica that was closed at 11 ns"},
		{func(s *script, _ *sim.Config) { s.move("45 r0 drain", 5).Replica = 1 }, "handed over to a replica that was closed at 5 ns"},
		{func(_ *script, cfg *sim.Config) { cfg.Replicas[2].Role = sim.RoleDecode }, "of the replicas left open 0 take prompts and 2 decode"},
	} {
		t.Run(c.want, func(t *testing.T) {
			cfg := apartConfig()
			s, laws := script(apart()), &simtest.Laws{Config: cfg, Keep: 100}
			c.alter(&s, &laws.Config)
			s.observe(laws)
			if err := laws.Check(apartResult); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got\n%v\nwant %q", err, c.want)
			}
		})
	}
}

func TestCheckComparesTransfers(t *testing.T) {
	for _, c := range []struct {
		change func(*sim.Result)
		want   string
	}{
		{func(r *sim.Result) { r.Transfers++ }, "Result.Transfers is 3, the events give 2"},
		{func(r *sim.Result) { r.Transferred-- }, "Result.Transferred is 7, the events give 8"},
		{func(r *sim.Result) { r.Switches = 0 }, "Result.Switches is 0, the events give 1"},
	} {
		s, laws, r := script(apart()), &simtest.Laws{Config: apartConfig()}, apartResult
		s.observe(laws)
		c.change(&r)
		if err := laws.Check(r); err == nil || err.Error() != "simtest: "+c.want {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// early is apart with request 1 fetched from the start.
func early() (script, sim.Config) {
	s, cfg := script(apart()), apartConfig()
	cfg.Link.Layers = 2
	e := s.move("10 r1 pull #1", 0)
	e.Output, e.Timeline.PrefillEnd, e.Timeline.FirstToken = 0, sim.NoTime, sim.NoTime
	s.on("20 r1 pulled #1").Took = 20
	return s, cfg
}

func TestEachLawOfEarlyTransfersCanBeBroken(t *testing.T) {
	for _, c := range []struct {
		alter func(s *script, cfg *sim.Config)
		want  string
	}{
		{func(*script, *sim.Config) {}, ""},
		{func(_ *script, cfg *sim.Config) { cfg.Link.Layers = 1 }, "pull of a request that is running"},
		{func(s *script, _ *sim.Config) { s.double("0 r1 pull #1") }, "pull of a request that is running"},
		{func(s *script, _ *sim.Config) { s.on("0 r1 pull #1").Replica = 0 }, "a transfer to replica 0 from replica 0"},
		{func(s *script, _ *sim.Config) { s.on("0 r1 pull #1").Replica = 2 }, "handed over to replica 1, replica 2 fetches it"},
		// It comes back to the place that was announced before, but no other may.
		{func(s *script, _ *sim.Config) {
			e := s.move("45 r0 drain", 11)
			e.Replica = 1
		}, "handed over to a replica that was closed at 11 ns"},
		{func(s *script, _ *sim.Config) {
			s.move("45 r0 drain", 1).Replica = 1
			s.move("52 r0 open", 8).Replica = 1
		}, "a replica opens with 0 sequences in line, 0 running, 1 coming and blocks of 0"},
		{func(s *script, _ *sim.Config) { s.on("10 r0 step 1").FreeBlocks = 4 }, "1 KV blocks in use, the batch needs 2, and transfers 0"},
	} {
		t.Run(c.want, func(t *testing.T) {
			s, cfg := early()
			laws := &simtest.Laws{Config: cfg, Keep: 100}
			c.alter(&s, &laws.Config)
			s.observe(laws)
			err := laws.Check(apartResult)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got\n%v\nwant %q", err, c.want)
			}
		})
	}
}

// Two transfers that share a port, each slow enough for it alone.
func TestPortsCarryNoMoreThanTheyCan(t *testing.T) {
	cfg := sim.Config{
		Link:   &sim.Link{TokenBytes: 1000, Bandwidth: 1e9},
		Router: sim.Router(second{}), Replicas: make([]sim.Replica, 3),
	}
	for i := range cfg.Replicas {
		cfg.Replicas[i] = sim.Replica{Role: sim.RolePrefill, Scheduler: scheduler.ChunkedPrefill{}, CostModel: sim.CostFunc(func(sim.Batch) time.Duration { return 1000 })}
	}
	cfg.Replicas[2].Role, cfg.Replicas[2].Scheduler = sim.RoleDecode, scheduler.Pull{Scheduler: scheduler.ChunkedPrefill{}}
	run := func(bandwidth float64) error {
		laws := &simtest.Laws{Config: cfg}
		link := *cfg.Link
		link.Bandwidth = bandwidth
		laws.Config.Link = &link
		cfg.Observers = []sim.Observer{laws}
		res, err := sim.Run(context.Background(), cfg, func(yield func(sim.Request, error) bool) {
			_ = yield(sim.Request{ID: 0, Prompt: 160, Output: 2}, nil) && yield(sim.Request{ID: 1, Prompt: 160, Output: 2}, nil)
		})
		if err != nil {
			t.Fatal(err)
		}
		return laws.Check(res)
	}
	if err := run(1e9); err != nil {
		t.Error(err)
	}
	// Each gets 0.5e9.
	if err := run(0.9e9); err == nil || !strings.Contains(err.Error(), "a port of 9e+08 B/s has carried 320000 bytes in 320000 ns") {
		t.Errorf("got %v", err)
	}
}

// second routes by id.
type second struct{}

func (second) Route(_ sim.Time, q sim.Query, _ []sim.Load) int { return q.ID }
