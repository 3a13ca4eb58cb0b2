package sim_test

import (
	"context"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/kv"
)

// Edges where the parts of the engine meet: each test pins one that is easy to
// get wrong.

// Work that is planned and taken back in one pass is not in the prefix cache.
func TestTakenBackWorkIsNotFound(t *testing.T) {
	done := false
	var after int
	s := sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
		if !done {
			done = true
			s := v.Waiting.First()
			p.Add(s, s.Pending())
			p.Preempt(s)
			after = s.Pending()
			p.Add(s, s.Pending())
			return
		}
		p.AddDecodes()
	})
	prefill := 0
	cfg := sim.Config{Check: true, Replicas: []sim.Replica{{Scheduler: s, CostModel: sim.CostFunc(func(b sim.Batch) time.Duration {
		prefill += b.PrefillTokens()
		return time.Millisecond
	}), KVBlocks: 100, PrefixCache: true}}}
	res, err := sim.Run(context.Background(), cfg, requestsOf(sim.Request{ID: 1, Prompt: 64, Output: 2, Prefix: []kv.Hash{1, 2, 3, 4}, PrefixBlock: 16}))
	if err != nil || after != 64 || prefill != 64 {
		t.Errorf("pending after taking back %d, want 64; prefill computed %d, want 64; hits %d; %v", after, prefill, res.PrefixHits, err)
	}
}

// Nor does another request of the same pass find it.
func TestTakenBackWorkIsNotShared(t *testing.T) {
	done := false
	s := sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
		if !done {
			done = true
			a := v.Waiting.First()
			b := v.Waiting.Last()
			p.Add(a, a.Pending())
			p.Preempt(a)
			p.Add(b, b.Pending())
			return
		}
		p.AddDecodes()
		for s := range v.Waiting.All() {
			p.Add(s, s.Pending())
		}
	})
	n := 0
	cfg := sim.Config{Check: true, Replicas: []sim.Replica{{Scheduler: s, KVBlocks: 100, PrefixCache: true,
		CostModel: sim.CostFunc(func(b sim.Batch) time.Duration { n += b.PrefillTokens(); return time.Millisecond })}}}
	h := []kv.Hash{1, 2, 3, 4}
	_, err := sim.Run(context.Background(), cfg, requestsOf(
		sim.Request{ID: 1, Prompt: 65, Output: 2, Prefix: h, PrefixBlock: 16},
		sim.Request{ID: 2, Prompt: 66, Output: 2, Prefix: h, PrefixBlock: 16}))
	if err != nil || n < 64 {
		t.Errorf("%d prefill positions for two requests whose 64 shared tokens nobody ever computed; %v", n, err)
	}
}

// A victim of vLLM V1's priorities loses what the same pass had planned for it.
func TestVictimOfThePassIsNotFound(t *testing.T) {
	computed := 0
	cfg := sim.Config{
		Check:   true,
		Classes: []sim.Class{{Priority: 0}, {Priority: 1}},
		Replicas: []sim.Replica{{Scheduler: scheduler.VLLM1{Threshold: 32, Priority: true, FirstChunk: true},
			Order: sim.OrderFunc(scheduler.ByPriority), KVBlocks: 9, PrefixCache: true, MaxBatchTokens: 128, CostModel: everyStep(1 * time.Millisecond)}},
		Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == sim.StepEnd {
				for _, c := range e.Batch.Prefills {
					if c.Tokens == 32 || c.Context >= 32 {
						computed = max(computed, c.Context+c.Tokens)
					}
				}
			}
			if e.Kind == sim.Admit && e.ID == 1 && int(e.Cached) > computed {
				t.Errorf("request 1 finds %d positions in the cache, %d were ever computed", e.Cached, computed)
			}
		})},
	}
	if _, err := sim.Run(context.Background(), cfg, requestsOf(
		sim.Request{ID: 1, Class: 1, Prompt: 112, Output: 1, Prefix: []kv.Hash{1, 2, 3, 4, 5, 6, 7}, PrefixBlock: 16},
		sim.Request{ID: 2, Arrival: 1, Prompt: 16, Output: 2},
		sim.Request{ID: 3, Arrival: 1, Prompt: 16, Output: 2})); err != nil {
		t.Fatal(err)
	}
}

// A held step that overwrites cached content is seen by those who wait for it.
func TestHeldStepsDoNotOverwriteUnseen(t *testing.T) {
	rejected := func(check bool) (at sim.Time) {
		cfg := sim.Config{Check: check,
			Replicas: []sim.Replica{{Scheduler: scheduler.VLLM1{WholePrompts: true}, MaxSeqs: 1, MaxBatchTokens: 32, KVBlocks: 5, PrefixCache: true, CostModel: everyStep(1 * time.Millisecond)}},
			Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
				if e.Kind == sim.Reject {
					at = e.Time
				}
			})}}
		h := []kv.Hash{1, 2}
		if _, err := sim.Run(context.Background(), cfg, requestsOf(
			sim.Request{ID: 1, Prompt: 32, Output: 1, Prefix: h, PrefixBlock: 16},
			sim.Request{ID: 2, Arrival: millisecond(5), Prompt: 16, Output: 40},
			sim.Request{ID: 3, Arrival: millisecond(7), Prompt: 49, Output: 1, Prefix: h, PrefixBlock: 16})); err != nil {
			t.Fatal(err)
		}
		return at
	}
	if held, single := rejected(false), rejected(true); held != single {
		t.Errorf("rejected at %v with Hold, at %v without", held, single)
	}
}

// A pass that only releases what ended sequences retained is followed by another.
func TestReleaseIsFollowedByAPass(t *testing.T) {
	s := sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
		p.AddDecodes()
		for s := range v.Waiting.All() {
			if !p.Add(s, s.Pending()) {
				break
			}
			p.Retain(s, false, true)
		}
		if v.Running.Len() == 0 {
			p.Release()
		}
	})
	cfg := sim.Config{Check: true, Replicas: []sim.Replica{{Scheduler: s, CostModel: everyStep(1 * time.Millisecond), KVBlocks: 4}}}
	_, err := sim.Run(context.Background(), cfg, requestsOf(
		sim.Request{ID: 1, Prompt: 48, Output: 2},
		sim.Request{ID: 2, Prompt: 48, Output: 2}))
	if err != nil {
		t.Error(err)
	}
}

// Two hundred deferred requests that ask every 10 ms through a minute are no hang.
func TestPollingDuringAPauseIsNoHang(t *testing.T) {
	cfg := sim.Config{Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: everyStep(1 * time.Millisecond), MaxSeqs: 8}},
		Windows: []sim.Window{{From: millisecond(1), To: millisecond(60000), Pause: true}}, Admission: gate{}}
	var rs []sim.Request
	for i := range 200 {
		rs = append(rs, sim.Request{ID: i, Prompt: 4, Output: 5})
	}
	res, err := sim.Run(context.Background(), cfg, slice(rs))
	if err != nil || res.Completed != 200 {
		t.Errorf("%d completed: %v", res.Completed, err)
	}
}

// gate defers while more than four requests are inside.
type gate struct{}

func (gate) Admit(now sim.Time, q sim.Query, l []sim.Load) sim.Decision {
	if l[0].Waiting+l[0].Running > 4 {
		return sim.Decision{Until: now.Add(10 * time.Millisecond)}
	}
	return sim.Decision{}
}

// A wake-up that has nobody left to wake does not move the end of the run.
func TestWakeUpForNobodyMovesNoTime(t *testing.T) {
	cfg := sim.Config{Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: everyStep(1 * time.Millisecond)}},
		Windows: []sim.Window{{From: 0, To: millisecond(100000), Pause: true}}}
	res, err := sim.Run(context.Background(), cfg, requestsOf(sim.Request{ID: 1, Prompt: 4, Output: 5, Patience: sim.Patience{First: time.Second}}))
	if res.End != millisecond(1000) {
		t.Errorf("End %v, want 1s (aborted); %v", res.End, err)
	}
	cfg.Windows = nil
	cfg.Replicas[0].Scheduler = sim.SchedulerFunc(func(v sim.View, p *sim.Plan) { p.WakeAt(millisecond(100000)) })
	res, err = sim.Run(context.Background(), cfg, requestsOf(sim.Request{ID: 1, Prompt: 4, Output: 5, Patience: sim.Patience{First: time.Second}}))
	if res.End != millisecond(1000) {
		t.Errorf("End %v, want 1s (aborted); %v", res.End, err)
	}
}

// A run that an error ends does not claim to have reached the horizon.
func TestErrorEndsTheRunWhereItHappens(t *testing.T) {
	cfg := sim.Config{Until: millisecond(100000), MaxSteps: 3, Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: everyStep(1 * time.Millisecond)}}}
	res, err := sim.Run(context.Background(), cfg, requestsOf(sim.Request{ID: 1, Prompt: 4, Output: 50}, sim.Request{ID: 2, Arrival: millisecond(200000), Prompt: 4, Output: 5}))
	if err == nil || res.End != millisecond(4) {
		t.Errorf("End %v, want 4ms: %v", res.End, err)
	}
}

// A hang is an error whether or not an arrival lies beyond the horizon.
func TestHangIsAnErrorBeforeTheHorizon(t *testing.T) {
	cfg := sim.Config{Until: millisecond(1000), Replicas: []sim.Replica{{Scheduler: sim.SchedulerFunc(func(sim.View, *sim.Plan) {}), CostModel: everyStep(1 * time.Millisecond)}}}
	_, a := sim.Run(context.Background(), cfg, requestsOf(sim.Request{ID: 1, Prompt: 4, Output: 50}))
	_, b := sim.Run(context.Background(), cfg, requestsOf(sim.Request{ID: 1, Prompt: 4, Output: 50}, sim.Request{ID: 2, Arrival: millisecond(2000), Prompt: 4, Output: 5}))
	if (a == nil) != (b == nil) {
		t.Errorf("alone: %v; with an arrival beyond the horizon: %v", a, b)
	}
}

// A client that names no class of the configuration gets its request back as it sent it.
func TestClientSeesItsOwnRequest(t *testing.T) {
	var got int
	cfg := sim.Config{Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: everyStep(1 * time.Millisecond)}},
		FollowUp: func(c sim.Completion) []sim.Request { got = c.Request.Class; return nil }}
	sim.Run(context.Background(), cfg, requestsOf(sim.Request{ID: 1, Class: 7, Prompt: 4, Output: 5}))
	if got != 7 {
		t.Errorf("Completion.Request.Class %d, want 7 as sent", got)
	}
}

// A context that is cancelled already starts nothing.
func TestCancelledBeforeTheStart(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	cfg := sim.Config{Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: everyStep(1 * time.Millisecond)}}}
	res, err := sim.Run(ctx, cfg, requestsOf(sim.Request{ID: 1, Prompt: 4, Output: 5}))
	if err == nil || !res.Cancelled || res.Arrived != 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

// A follow-up at the end of time is an error, not a request that vanishes.
func TestFollowUpAtTheEndOfTime(t *testing.T) {
	n := 0
	cfg := sim.Config{Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: everyStep(1 * time.Millisecond)}},
		FollowUp: func(c sim.Completion) []sim.Request {
			if n++; n == 1 {
				return []sim.Request{{ID: 2, Arrival: sim.Never, Prompt: 4, Output: 5}}
			}
			return nil
		}}
	_, err := sim.Run(context.Background(), cfg, requestsOf(sim.Request{ID: 1, Prompt: 4, Output: 5}))
	mentions(t, err, "FollowUp of request 1", "request 2", "the end of time")
}

// A limit near the largest integer overflows nothing: the request is rejected.
func TestOutputLimitsAreBounded(t *testing.T) {
	ran := false
	cfg := sim.Config{Replicas: []sim.Replica{{Scheduler: sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
		for s := range v.Waiting.All() {
			if !ran && p.Fits(s, s.Prompt()+s.MaxOutput()-1) {
				t.Errorf("Fits(%d) in 100 blocks", s.Prompt()+s.MaxOutput()-1)
			}
			ran = true
		}
		scheduler.ChunkedPrefill{}.Schedule(v, p)
	}), CostModel: everyStep(1 * time.Millisecond), KVBlocks: 100}}}
	res, err := sim.Run(context.Background(), cfg, requestsOf(sim.Request{ID: 1, Prompt: 20, Output: 5, MaxOutput: math.MaxInt}))
	if err != nil || res.Rejected != 1 || ran {
		t.Errorf("%+v, %v; the scheduler saw it: %v", res, err, ran)
	}
}

// Sizes beyond what a replica can hold are errors of the configuration.
func TestSizesThatCannotBe(t *testing.T) {
	for name, r := range map[string]sim.Replica{
		"BlockTokens": {BlockTokens: math.MaxInt},
		"KVBlocks":    {PrefixCache: true, KVBlocks: math.MaxInt32 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			r.Scheduler, r.CostModel = scheduler.ChunkedPrefill{}, everyStep(time.Millisecond)
			_, err := sim.Run(context.Background(), sim.Config{Replicas: []sim.Replica{r}}, requestsOf(sim.Request{ID: 1, Prompt: 4, Output: 5}))
			mentions(t, err, "Config.Replicas[0]."+name)
		})
	}
}

// Clients that are long gone leave nothing behind.
func TestPatienceKeepsNoMemory(t *testing.T) {
	run := func(p sim.Patience) uint64 {
		var peak uint64
		n := 0
		cfg := sim.Config{Until: sim.Time(400_000) * 1_000_000, Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: sim.CostFunc(func(sim.Batch) time.Duration { return 400 * time.Microsecond })}},
			Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
				if e.Kind == sim.Finish {
					if n++; n == 399_000 {
						runtime.GC()
						var m runtime.MemStats
						runtime.ReadMemStats(&m)
						peak = m.HeapAlloc
					}
				}
			})}}
		_, err := sim.Run(context.Background(), cfg, func(yield func(sim.Request, error) bool) {
			if !yield(sim.Request{ID: -1, Prompt: 4, Output: 1 << 30}, nil) { // keeps the replica busy
				return
			}
			for i := range 400_000 {
				if !yield(sim.Request{ID: i, Arrival: sim.Time(i) * 1_000_000, Prompt: 4, Output: 2, Patience: p}, nil) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return peak
	}
	a, b := run(sim.Patience{}), run(sim.Patience{First: 10 * time.Minute, Total: time.Hour})
	if b > 4*a+1<<20 {
		t.Error("memory grows with requests that have ended")
	}
}

// Steps that end with outcomes and without mix.
func TestTokenTimesWithAndWithoutOutcomes(t *testing.T) {
	var times []sim.Time
	st, err := sim.NewStepper(sim.Config{TokenTimes: true, Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: everyStep(1 * time.Millisecond)}},
		Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == sim.Finish {
				times = e.TokenTimes(nil)
			}
		})}})
	if err != nil {
		t.Fatal(err)
	}
	st.Submit(0, sim.Request{ID: 1, Prompt: 4, Output: 5})
	for i := 1; i <= 5; i++ {
		st.Plan(millisecond(i - 1))
		var o []sim.Outcome
		if i <= 3 {
			o = []sim.Outcome{{ID: 1, Tokens: 1}}
		}
		if err := st.Complete(millisecond(i), o); err != nil {
			t.Fatal(i, err)
		}
	}
	if want := []sim.Time{millisecond(1), millisecond(2), millisecond(3), millisecond(4), millisecond(5)}; !slices.Equal(times, want) {
		t.Errorf("token times %v, want %v", times, want)
	}
}

// By hand a pause stops nothing.
func TestStepperKnowsNoPause(t *testing.T) {
	st, err := sim.NewStepper(sim.Config{Check: true, Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: everyStep(5 * time.Millisecond)}},
		Windows: []sim.Window{{From: 0, To: millisecond(100), Pause: true}}})
	if err != nil {
		t.Fatal(err)
	}
	st.Submit(0, sim.Request{ID: 1, Prompt: 4, Output: 5})
	if _, took, _ := st.Plan(0); took != 5*time.Millisecond {
		t.Errorf("took %v, want 5ms (a pause stops nothing)", took)
	}
}

func requestsOf(rs ...sim.Request) func(func(sim.Request, error) bool) { return slice(rs) }

// A wake-up at the end of a pause that has lost its request is asked for again
// by the next one.
func TestPauseEndsForWhoeverWaitsThen(t *testing.T) {
	cfg := sim.Config{Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: everyStep(time.Millisecond)}},
		Windows: []sim.Window{{To: millisecond(100), Pause: true}}}
	res, err := sim.Run(context.Background(), cfg, requestsOf(
		sim.Request{ID: 1, Prompt: 4, Output: 5, Patience: sim.Patience{First: 10 * time.Millisecond}},
		sim.Request{ID: 2, Arrival: millisecond(50), Prompt: 4, Output: 5}))
	if err != nil || res.Aborted != 1 || res.Completed != 1 || res.End != millisecond(105) {
		t.Errorf("%+v, %v", res, err)
	}
}
