package sim_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/kv"
)

// greedy plans all that is here, and does with what is remote as it is told.
type greedy struct {
	remote func(p *sim.Plan, s *sim.Sequence)
}

func (g greedy) Schedule(v sim.View, p *sim.Plan) {
	for s := range v.Remote.All() {
		g.remote(p, s)
	}
	p.AddDecodes()
	for s := range v.Waiting.All() {
		p.Add(s, s.Pending())
	}
}

// A replica whose blocks come free through the pass of another one of its group
// does not begin a second step beside the first.
func TestGroupBeginsOneStep(t *testing.T) {
	cfg := split(1, 1, sim.Link{}, func(r *sim.Replica) {
		r.Group, r.CostModel = 1, everyStep(ms)
		if r.Role == sim.RoleDecode {
			r.Scheduler = greedy{func(p *sim.Plan, s *sim.Sequence) { p.Add(s, s.Pending()) }}
		}
	})
	_, log, res := tokens(t, cfg, []sim.Request{{ID: 1, Prompt: 10, Output: 3}, {ID: 2, Arrival: 1, Prompt: 10, Output: 3}})
	for _, line := range log {
		if strings.Contains(line, "0 decodes context 0, prefills []") {
			t.Error(line)
		}
	}
	// Two prompts and, one millisecond later each, two times the prompt again
	// and a token more.
	if res.Completed != 2 || res.Steps != 5 || res.End != millisecond(4) {
		t.Errorf("%+v\n%s", res, strings.Join(log, "\n"))
	}
}

// A decode side whose model is shorter, or whose memory is, ends a request
// where it is, and takes nothing.
func TestHandoffThatCannotBe(t *testing.T) {
	chain := []kv.Hash{1, 2, 3, 4}
	for _, tt := range []struct {
		name   string
		change func(r *sim.Replica)
		want   string
	}{
		{"no room for a token", func(r *sim.Replica) { r.MaxModelLen = 40 }, "1600000 r0 finish #1 id 1 length: 1 tokens"},
		{"a model that is too short", func(r *sim.Replica) { r.MaxModelLen = 39 }, "1600000 r0 reject #1 id 1 exceeds_max_model_len: 1 tokens"},
		{"memory for the prompt alone", func(r *sim.Replica) { r.KVBlocks = 4 }, "1600000 r0 reject #1 id 1 out_of_kv: 1 tokens"},
		{"too little memory", func(r *sim.Replica) { r.KVBlocks = 3 }, "1600000 r0 reject #1 id 1 exceeds_kv_capacity: 1 tokens"},
		{"blocks that do not fit", func(r *sim.Replica) { r.BlockTokens = 7 }, "1600000 r0 reject #1 id 1 incompatible_prefix_block: 1 tokens"},
	} {
		cfg := split(1, 1, sim.Link{}, func(r *sim.Replica) {
			r.PrefixCache, r.KVBlocks = true, 20
			if r.Role == sim.RoleDecode {
				tt.change(r)
			}
		})
		_, log, res := tokens(t, cfg, []sim.Request{{ID: 1, Prompt: 40, Output: 3, Prefix: chain, PrefixBlock: 10}})
		if text := strings.Join(log, "\n"); !strings.Contains(text, tt.want) || strings.Contains(text, "handoff") || res.Transfers > 0 {
			t.Errorf("%s: want %s in\n%s", tt.name, tt.want, text)
		}
	}
}

// A sequence that is evicted while its token is in flight may have outgrown the
// cache when that comes.
func TestTokenInFlightOutgrowsTheCache(t *testing.T) {
	cfg := inFlight(2, sim.AsyncExact, staged{0, ms, ms})
	cfg.Replicas[0].KVBlocks, cfg.Replicas[0].BlockTokens = 2, 10
	_, log, res := tokens(t, cfg, []sim.Request{{ID: 1, Prompt: 18, Output: 9}})
	if text := strings.Join(log, "\n"); res.Tokens != 3 || !strings.Contains(text, "3000000 r0 reject #1 id 1 out_of_kv: 3 tokens") {
		t.Errorf("%+v\n%s", res, text)
	}
}

// What is swapped out in the pass that admits it takes along what it had: KV of
// a store, or a reservation. The transfer that it did not wait for is off.
func TestSwapInThePassOfTheAdmission(t *testing.T) {
	store := sim.StoreFunc(func(sim.Query, int) int { return 13 })
	swapOnce := func(reserve int) sim.Scheduler {
		done := false
		return sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
			for _, l := range []sim.List{v.Waiting, v.Remote} {
				for s := range l.All() {
					if reserve > 0 {
						p.Reserve(s, reserve)
					}
					p.Add(s, s.Pending())
					if !done {
						done = true
						p.Swap(s)
						return
					}
				}
			}
			for s := range v.Swapped.All() {
				p.SwapIn(s)
				p.Add(s, s.Pending())
			}
			p.AddDecodes()
		})
	}
	for _, tt := range []struct {
		name     string
		replicas int // 2: behind a prefill replica
		reserve  int
		out      int
	}{
		{"a store", 1, 0, 2}, {"a reservation", 1, 20, 4}, {"instead of a transfer", 2, 0, 2},
	} {
		cfg := split(1, 1, sim.Link{}, func(r *sim.Replica) {
			if r.Role == sim.RoleDecode {
				r.Scheduler, r.Store, r.KVBlocks, r.HostBlocks = swapOnce(tt.reserve), store, 10, 10
			}
		})
		if tt.replicas == 1 {
			cfg = sim.Config{Check: true, Replicas: cfg.Replicas[1:]}
			cfg.Replicas[0].Role = sim.RoleBoth
		}
		out, in := 0, 0
		cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == sim.StepEnd {
				out, in = out+e.Batch.SwapOut, in+e.Batch.SwapIn
			}
		})}
		_, log, res := tokens(t, cfg, []sim.Request{{ID: 1, Prompt: 20, Output: 3}})
		if res.Completed != 1 || out != tt.out || in != out || res.Transfers != 0 {
			t.Errorf("%s: %d blocks out, %d in, %+v\n%s", tt.name, out, in, res, strings.Join(log, "\n"))
		}
		if n := res.PrefillTokens + res.DecodePositions; n != int64(20*tt.replicas+2-13) {
			t.Errorf("%s: %d positions", tt.name, n)
		}
	}
}

// An admission says what it was, also if its pass goes on to evict the request.
func TestAdmissionOfAVictim(t *testing.T) {
	for _, how := range []string{"preempt", "swap"} {
		done := false
		cfg := split(1, 1, sim.Link{}, func(r *sim.Replica) {
			if r.Role != sim.RoleDecode {
				return
			}
			r.KVBlocks, r.HostBlocks = 10, 10
			r.Scheduler = sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
				greedy{func(p *sim.Plan, s *sim.Sequence) { p.Pull(s) }}.Schedule(v, p)
				for s := range v.Swapped.All() {
					p.SwapIn(s)
					p.Add(s, s.Pending())
				}
				if s := v.Running.First(); s != nil && !done {
					if done = true; how == "swap" {
						p.Swap(s)
					} else {
						p.Preempt(s)
					}
				}
			})
		})
		var kept keeper
		cfg.Observers = []sim.Observer{&kept}
		tokens(t, cfg, []sim.Request{{ID: 1, Prompt: 20, Output: 3}})
		type line struct {
			Kind        sim.Kind
			Cached      int32
			Preemptions int32
		}
		var got []line
		for _, e := range kept.of(sim.Admit, sim.Preempt) {
			if e.Replica == 1 {
				got = append(got, line{e.Kind, e.Cached, e.Preemptions})
			}
		}
		want := []line{{sim.Admit, 20, 0}, {sim.Preempt, 0, 1}, {sim.Admit, 0, 1}}
		if how == "swap" {
			want[2].Cached = 20
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: admissions and evictions (-want +got):\n%s", how, d)
		}
	}
}

// What a transfer brings does not depend on what the source finds of the prompt
// meanwhile.
func TestEarlyPullOfAVictim(t *testing.T) {
	passes := 0
	cfg := split(1, 1, sim.Link{Layers: 2}, func(r *sim.Replica) {
		if r.Role == sim.RoleDecode {
			return
		}
		r.MaxBatchTokens = 10
		r.Store = sim.StoreFunc(func(sim.Query, int) int { return 13 })
		r.Scheduler = sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
			if passes++; passes == 2 {
				p.Preempt(v.Running.First())
			}
			scheduler.ChunkedPrefill{}.Schedule(v, p)
		})
	})
	_, log, res := tokens(t, cfg, []sim.Request{{ID: 1, Prompt: 40, Output: 3}})
	if res.Transferred != 40 || res.Preemptions != 1 || res.PrefixHits != 13 {
		t.Errorf("%+v\n%s", res, strings.Join(log, "\n"))
	}
}

// AddDecodes takes in who has come back from the host since the first call.
func TestAddDecodesAgain(t *testing.T) {
	run := func(check bool) []string {
		cfg := swapping(40)
		cfg.Check, cfg.Replicas[0].Growth = check, sim.ExactGrowth
		cfg.Replicas[0].Scheduler = sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
			for !p.AddDecodes() {
				p.Swap(v.Running.Last())
			}
			for s := range v.Swapped.All() {
				p.SwapIn(s)
				p.AddDecodes()
			}
			for s := range v.Waiting.All() {
				p.Add(s, s.Pending())
			}
		})
		_, log, _ := tokens(t, cfg, swapRequests())
		return log
	}
	if d := cmp.Diff(run(true), run(false)); d != "" {
		t.Errorf("log (-checked +not):\n%s", d)
	}
}

// A request that was coming and ends elsewhere ends a hold while another waits.
func TestHoldEndsWithWhatWasComing(t *testing.T) {
	coming := map[sim.Time]int{}
	cfg := split(1, 1, sim.Link{Layers: 2}, func(r *sim.Replica) {
		r.CostModel = everyStep(10 * ms)
		if r.Role == sim.RoleDecode {
			r.Scheduler = sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
				coming[v.Now] = v.Coming.Len()
				if p.AddDecodes(); v.Running.Len() == 0 {
					p.Add(v.Waiting.First(), 1)
				}
				p.Hold()
			})
		} else {
			r.MaxBatchTokens = 10 // ten steps a prompt
		}
	})
	cfg.Check = false
	cfg.Router = byID{1, 0, 0, 1}
	_, _, res := tokens(t, cfg, []sim.Request{
		{ID: 0, Prompt: 1, Output: 20},
		{ID: 3, Prompt: 1, Output: 1}, // waits for the end of request 0
		{ID: 1, Arrival: 1, Prompt: 100, Output: 1, Patience: sim.Patience{Total: 35 * ms}},
		{ID: 2, Arrival: 1, Prompt: 100, Output: 1},
	})
	// Request 1 is announced in the first step, and leaves in the fourth, at whose
	// end request 2 is announced, after the pass; request 0 ends at 200 ms.
	want := map[sim.Time]int{}
	for at, n := range map[int]int{0: 0, 10: 1, 40: 0, 50: 1, 150: 0, 200: 0} {
		want[millisecond(at)] = n
	}
	if d := cmp.Diff(want, coming); d != "" || res.Aborted != 1 {
		t.Errorf("%+v, coming by pass (-want +got):\n%s", res, d)
	}
}

// A replica with several steps in flight cannot hand over.
func TestNoPrefillWithStepsInFlight(t *testing.T) {
	cfg := moving(script{0: {{Replica: 3, Role: sim.RolePrefill}}}, 0)
	cfg.Replicas[3].InFlight = 2
	_, err := sim.Run(context.Background(), cfg, slice([]sim.Request{{ID: 1, Prompt: 10, Output: 2}}))
	mentions(t, err, "prefill on replica 3 with InFlight 2")
}
