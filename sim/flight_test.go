package sim_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/kv"
)

// staged takes host time, and from the start of a step to its end; the next
// enters after stage.
type staged struct{ host, stage, total time.Duration }

func (c staged) StepTime(sim.Batch) time.Duration { return c.host + c.total }
func (c staged) PipelineTime(sim.Batch) (host, stage, total time.Duration) {
	return c.host, c.stage, c.total
}

func inFlight(n int, async sim.Async, cost sim.CostModel) sim.Config {
	return sim.Config{Check: true, Replicas: []sim.Replica{{Scheduler: scheduler.VLLM1{}, CostModel: cost, InFlight: n, Async: async, KVBlocks: 1000}}}
}

// With two batches in flight the host prepares a step while the device computes
// the one before: a token takes the longer of the two.
func TestAsyncHidesTheHost(t *testing.T) {
	for _, tt := range []struct {
		name        string
		n           int
		async       sim.Async
		host, total time.Duration
		want        []time.Duration
	}{
		{"one in flight", 1, sim.NotAsync, 2 * ms, 7 * ms, []time.Duration{9 * ms, 18 * ms, 27 * ms}},
		{"short host", 2, sim.AsyncExact, 2 * ms, 7 * ms, []time.Duration{9 * ms, 16 * ms, 23 * ms}},
		{"long host", 2, sim.AsyncExact, 20 * ms, 7 * ms, []time.Duration{27 * ms, 47 * ms, 67 * ms}},
		{"no host", 2, sim.AsyncSurplus, 0, 7 * ms, []time.Duration{7 * ms, 14 * ms, 21 * ms}},
		// Without placeholders a second step finds nothing to do.
		{"not async", 2, sim.NotAsync, 2 * ms, 7 * ms, []time.Duration{9 * ms, 18 * ms, 27 * ms}},
	} {
		got, _, _ := tokens(t, inFlight(tt.n, tt.async, staged{tt.host, tt.total, tt.total}), []sim.Request{{ID: 1, Prompt: 10, Output: 3, MaxOutput: 3}})
		if d := cmp.Diff(tt.want, got[1]); d != "" {
			t.Errorf("%s: token times (-want +got):\n%s", tt.name, d)
		}
	}
}

// Four stages of 5 ms and four requests: each gets a token every 20 ms, and a
// step ends every 5 ms.
func TestPipelineStages(t *testing.T) {
	cfg := inFlight(4, sim.NotAsync, staged{0, 5 * ms, 20 * ms})
	cfg.Replicas[0].MaxBatchTokens = 10 // one prompt a step
	var reqs []sim.Request
	for i := range 4 {
		reqs = append(reqs, sim.Request{ID: i, Prompt: 10, Output: 3})
	}
	got, _, res := tokens(t, cfg, reqs)
	want := map[int][]time.Duration{}
	for i := range 4 {
		first := 20*ms + time.Duration(i)*5*ms
		want[i] = []time.Duration{first, first + 20*ms, first + 40*ms}
	}
	if d := cmp.Diff(want, got); d != "" || res.Steps != 12 {
		t.Errorf("%d steps, token times (-want +got):\n%s", res.Steps, d)
	}
}

// A step in flight is for nothing when it was planned before the end was known:
// never if MaxOutput says so, unless the engine plans it all the same.
func TestSurplusSteps(t *testing.T) {
	for _, tt := range []struct {
		async     sim.Async
		maxOutput int
		want      int64
	}{
		{sim.NotAsync, 5, 0}, {sim.AsyncExact, 5, 0}, {sim.AsyncExact, 9, 1}, {sim.AsyncExact, 0, 1}, {sim.AsyncSurplus, 5, 1}, {sim.AsyncSurplus, 9, 1},
	} {
		_, _, res := tokens(t, inFlight(2, tt.async, staged{ms, 5 * ms, 5 * ms}), []sim.Request{{ID: 1, Prompt: 10, Output: 5, MaxOutput: tt.maxOutput}})
		if res.Surplus != tt.want || res.Tokens != 5 || res.DecodePositions != 4+tt.want {
			t.Errorf("Async %d, MaxOutput %d: %d surplus, %d tokens, %d decode positions", tt.async, tt.maxOutput, res.Surplus, res.Tokens, res.DecodePositions)
		}
	}
}

// Driven by hand a step with others in flight ends without outcomes too.
func TestStepperWithStepsInFlight(t *testing.T) {
	st, err := sim.NewStepper(inFlight(2, sim.AsyncExact, staged{0, ms, ms}))
	if err != nil {
		t.Fatal(err)
	}
	st.Submit(0, sim.Request{ID: 1, Prompt: 10, Output: 3})
	for range 2 {
		if b, _, err := st.Plan(0); err != nil || b.Empty() {
			t.Fatal(b, err)
		}
	}
	for range 2 {
		if err := st.Complete(millisecond(1), nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := st.Lookup(1).Generated(); n != 2 {
		t.Errorf("%d tokens", n)
	}
}

// Under memory pressure, with aborts and with prefix caching, everybody gets
// the tokens that he asked for and every position is accounted for.
func TestInFlightAccounts(t *testing.T) {
	var preemptions, surplus, aborted int64
	late := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 9))
		n := 2 + rng.IntN(3)
		async := sim.Async(rng.IntN(3))
		if n > 2 {
			async = sim.NotAsync
		}
		cfg := inFlight(n, async, staged{time.Duration(rng.IntN(3)) * ms, 5 * ms, time.Duration(5+rng.IntN(10)) * ms})
		r := &cfg.Replicas[0]
		r.KVBlocks, r.BlockTokens, r.MaxBatchTokens, r.PrefixCache = 12+rng.IntN(20), 4, 8+rng.IntN(30), rng.IntN(2) == 0
		if rng.IntN(2) == 0 {
			r.MaxSeqs = 2 + rng.IntN(4)
		}
		var reqs []sim.Request
		want := int64(0)
		for i := range 20 {
			q := sim.Request{ID: i, Arrival: sim.Time(i) * sim.Time(10*ms), Prompt: 1 + rng.IntN(20), Output: 1 + rng.IntN(20)}
			if rng.IntN(2) == 0 {
				q.MaxOutput = q.Output
			}
			if rng.IntN(8) == 0 {
				q.Patience.Total = time.Duration(rng.IntN(400)) * ms
			}
			reqs = append(reqs, q)
			want += int64(q.Prompt + q.Output - 1)
		}
		// One whose last token was in flight when it was preempted does not compute
		// again what it lost.
		waiting, evicted := map[int]bool{}, 0
		cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			switch {
			case e.Kind == sim.Preempt:
				waiting[e.ID] = true
			case e.Kind == sim.Admit:
				waiting[e.ID] = false
			case e.Kind == sim.Finish && waiting[e.ID]:
				evicted++
			}
		})}
		times, log, res := tokens(t, cfg, reqs)
		for i, q := range reqs {
			if q.Patience.Total == 0 && len(times[i]) != q.Output {
				t.Fatalf("seed %d: %d tokens of %+v\n%v", seed, len(times[i]), q, log)
			}
		}
		if res.Aborted == 0 && evicted == 0 && res.PrefillTokens+res.DecodePositions != want+res.Recompute+res.Surplus {
			t.Fatalf("seed %d: %d positions, want %d: %+v", seed, res.PrefillTokens+res.DecodePositions, want+res.Recompute+res.Surplus, res)
		}
		late += evicted
		preemptions, surplus, aborted = preemptions+res.Preemptions, surplus+res.Surplus, aborted+res.Aborted
	}
	if preemptions == 0 || surplus == 0 || aborted == 0 || late == 0 {
		t.Error(fmt.Sprint("nothing tested: ", preemptions, surplus, aborted, late))
	}
}

// A request that needs more memory than there is ends so, also if its tokens
// come after it was preempted; one that just fits completes, although nobody
// knows that the token in flight is its last.
func TestInFlightOutOfMemory(t *testing.T) {
	for _, async := range []sim.Async{sim.NotAsync, sim.AsyncExact, sim.AsyncSurplus} {
		for _, s := range []sim.Scheduler{scheduler.ChunkedPrefill{}, scheduler.Continuous{}} {
			for _, n := range []int{2, 4} {
				cfg := inFlight(n, async, staged{0, ms, ms})
				r := &cfg.Replicas[0]
				r.Scheduler, r.KVBlocks, r.BlockTokens = s, 3, 4
				_, log, res := tokens(t, cfg, []sim.Request{{ID: 1, Prompt: 5, Output: 9}, {ID: 2, Prompt: 5, Output: 8}})
				if res.Completed != 1 || res.Rejected != 1 || res.Tokens != 16 || !strings.Contains(strings.Join(log, "\n"), "reject #1 id 1 out_of_kv: 8 tokens") {
					t.Errorf("%T, %d in flight, Async %d: %+v\n%s", s, n, async, res, strings.Join(log, "\n"))
				}
			}
		}
	}
}

// The second block of request 1 is planned at 3 ms with its last token in flight.
// Nobody knows its hash before that token comes.
func TestTokensInFlightHaveNoHash(t *testing.T) {
	chain := []kv.Hash{1, 2}
	for at, cached := range map[int]int32{3: 4, 4: 8} {
		cfg := inFlight(2, sim.AsyncExact, staged{0, ms, ms})
		r := &cfg.Replicas[0]
		r.Scheduler, r.BlockTokens, r.PrefixCache = scheduler.ChunkedPrefill{}, 4, true
		var got int32
		cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == sim.Admit && e.ID == 2 {
				got = e.Cached
			}
		})}
		tokens(t, cfg, []sim.Request{
			{ID: 1, Prompt: 4, Output: 9, Prefix: chain, PrefixBlock: 4},
			{ID: 2, Arrival: millisecond(at), Prompt: 9, Output: 1, Prefix: chain, PrefixBlock: 4},
		})
		if got != cached {
			t.Errorf("at %d ms %d positions are cached, want %d", at, got, cached)
		}
	}
}
