package sim_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

// mustRun runs and fails on an error or counts that do not add up.
func mustRun(t *testing.T, cfg sim.Config, rs ...sim.Request) sim.Result {
	t.Helper()
	res, err := sim.Run(context.Background(), cfg, slice(rs))
	if err != nil {
		t.Fatal(err)
	}
	addsUp(t, res)
	return res
}

// tenMS is oneReplica with steps of 10 ms.
func tenMS(observers ...sim.Observer) sim.Config {
	cfg := oneReplica(observers...)
	cfg.Replicas[0].CostModel = everyStep(10 * time.Millisecond)
	cfg.Check = true
	return cfg
}

// Steps end at 10, 20, 30 ms. What happens at the horizon itself still counts.
func TestHorizon(t *testing.T) {
	events := &keeper{}
	cfg := tenMS(events)
	cfg.Until = millisecond(30)
	res := mustRun(t, cfg,
		sim.Request{ID: 1, Prompt: 5, Output: 1},
		sim.Request{ID: 2, Prompt: 5, Output: 3},
		sim.Request{ID: 3, Prompt: 5, Output: 4},
		sim.Request{ID: 4, Prompt: 0, Output: 1},
		sim.Request{ID: 5, Arrival: millisecond(5), Prompt: 5, Output: 9, Patience: sim.Patience{Total: 16 * time.Millisecond}},
		sim.Request{ID: 6, Arrival: millisecond(30), Prompt: 5, Output: 1},
		sim.Request{ID: 7, Arrival: millisecond(30) + 1, Prompt: 5, Output: 1})
	// Request 5 is aborted in the third step, which computes its position
	// nonetheless and drops the token.
	want := sim.Result{Arrived: 6, Completed: 2, Rejected: 1, Aborted: 1, Unfinished: 2, Steps: 3,
		Tokens: 3 + 3 + 2, PrefillTokens: 20, DecodePositions: 2 + 3, End: millisecond(30)}
	if d := cmp.Diff(want, res); d != "" {
		t.Errorf("result (-want +got):\n%s", d)
	}
	last := (*events)[len(*events)-1]
	if last.Kind != sim.End || last.Time != millisecond(30) {
		t.Errorf("the last event is %v", last)
	}
	for _, e := range *events {
		if e.Time > cfg.Until {
			t.Errorf("event behind the horizon: %v", e)
		}
	}
}

// The end of a run is its last event, although a client would have waited
// longer.
func TestEndIsTheLastEvent(t *testing.T) {
	patient := sim.Request{ID: 1, Prompt: 5, Output: 2, Patience: sim.Patience{First: time.Minute, Total: time.Hour}}
	if res := mustRun(t, tenMS(), patient); res.End != millisecond(20) {
		t.Errorf("End is %v, want 20ms", res.End)
	}
	cfg := tenMS()
	cfg.Until = millisecond(60_000_000)
	patient.Arrival = millisecond(7)
	if res := mustRun(t, cfg, patient); res.End != millisecond(27) {
		t.Errorf("with a horizon after everything, End is %v, want 27ms", res.End)
	}
}

// A patience beyond the end of time is no patience.
func TestPatienceWithoutEnd(t *testing.T) {
	events := &keeper{}
	mustRun(t, tenMS(events), sim.Request{ID: 1, Arrival: millisecond(7), Prompt: 5, Output: 2, Patience: sim.Patience{First: math.MaxInt64, Total: math.MaxInt64}})
	want := []ending{{1, "stop", 2, millisecond(27)}}
	if d := cmp.Diff(want, events.endings(), cmp.AllowUnexported(ending{})); d != "" {
		t.Errorf("endings (-want +got):\n%s", d)
	}
	for i, e := range (*events)[1:] {
		if e.Time < (*events)[i].Time {
			t.Errorf("time goes back from %v to %v", (*events)[i].Time, e.Time)
		}
	}
}

func TestOutputLength(t *testing.T) {
	for _, c := range []struct {
		prompt, output, maxOutput, maxModelLen int
		want                                   int
		reason                                 string
	}{
		{10, 7, 0, 0, 7, "stop"},
		{10, 7, 8, 18, 7, "stop"},
		{10, 7, 7, 0, 7, "length"},
		{10, 7, 3, 0, 3, "length"},
		{10, 1, 1, 0, 1, "length"},
		{10, 7, 0, 17, 7, "length"},
		{10, 7, 0, 15, 5, "length"},
		{10, 7, 6, 15, 5, "length"},
		{10, 7, 4, 15, 4, "length"},
		{10, 7, 0, 11, 1, "length"},
		{10, 7, 0, 10, 1, "length"}, // a prompt of full length gets one token
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			for _, p := range colocated {
				if c.maxOutput == 0 && c.maxModelLen == 0 && p.name != "chunked" {
					continue // no bound to reserve by
				}
				events := &keeper{}
				cfg := tenMS(events)
				cfg.Replicas[0].Scheduler, cfg.Replicas[0].MaxModelLen = p.policy(), c.maxModelLen
				cfg.Replicas[0].KVBlocks = 10
				res := mustRun(t, cfg, sim.Request{ID: 1, Prompt: c.prompt, Output: c.output, MaxOutput: c.maxOutput})
				want := []ending{{1, c.reason, c.want, millisecond(10 * c.want)}}
				if d := cmp.Diff(want, events.endings(), cmp.AllowUnexported(ending{})); d != "" {
					t.Errorf("%s: endings (-want +got):\n%s", p.name, d)
				}
				if res.Tokens != int64(c.want) || res.DecodePositions != int64(c.want-1) {
					t.Errorf("%s: result %+v", p.name, res)
				}
			}
		})
	}
}

// Steps last 10 ms, from multiples of it. One slot, prompts in chunks of 10.
// Request 1 holds the slot as long as the case says; request 2 is the
// impatient one; request 3 must find its memory and place free.
func TestPatience(t *testing.T) {
	const never = sim.NoTime
	first := func(ms int) sim.Patience { return sim.Patience{First: time.Duration(ms) * time.Millisecond} }
	total := func(ms int) sim.Patience { return sim.Patience{Total: time.Duration(ms) * time.Millisecond} }
	for _, c := range []struct {
		name     string
		ahead    int // output of request 1; 0 for none
		arrival  int // of request 2, ms
		admitAt  int // when the front door opens, ms
		prompt   int
		output   int
		patience sim.Patience

		kind     sim.Kind
		at       int
		tokens   int
		timeline sim.Timeline
	}{
		{"at the front door", 0, 2, 50, 10, 3, first(20),
			sim.Abort, 22, 0, sim.Timeline{Arrival: millisecond(2), Queued: never, Admitted: never, PrefillEnd: never, FirstToken: never}},
		{"while waiting", 9, 2, 0, 10, 3, first(20),
			sim.Abort, 22, 0, sim.Timeline{Arrival: millisecond(2), Queued: millisecond(2), Admitted: never, PrefillEnd: never, FirstToken: never}},
		{"in a prompt chunk", 0, 2, 0, 100, 3, first(33),
			sim.Abort, 35, 0, sim.Timeline{Arrival: millisecond(2), Queued: millisecond(2), Admitted: millisecond(2), PrefillEnd: never, FirstToken: never}},
		{"between chunks", 0, 0, 0, 100, 3, first(30),
			sim.Abort, 30, 0, sim.Timeline{Arrival: 0, Queued: 0, Admitted: 0, PrefillEnd: never, FirstToken: never}},
		{"first token in time", 0, 0, 0, 10, 3, first(11),
			sim.Finish, 30, 3, sim.Timeline{Arrival: 0, Queued: 0, Admitted: 0, PrefillEnd: millisecond(10), FirstToken: millisecond(10)}},
		{"first token at the last moment", 0, 0, 0, 10, 3, first(10),
			sim.Finish, 30, 3, sim.Timeline{Arrival: 0, Queued: 0, Admitted: 0, PrefillEnd: millisecond(10), FirstToken: millisecond(10)}},
		{"while decoding", 0, 0, 0, 10, 9, total(25),
			sim.Abort, 25, 2, sim.Timeline{Arrival: 0, Queued: 0, Admitted: 0, PrefillEnd: millisecond(10), FirstToken: millisecond(10)}},
		{"between two tokens", 0, 0, 0, 10, 9, total(30),
			sim.Abort, 30, 3, sim.Timeline{Arrival: 0, Queued: 0, Admitted: 0, PrefillEnd: millisecond(10), FirstToken: millisecond(10)}},
		{"last token at the last moment", 0, 0, 0, 10, 3, total(30),
			sim.Finish, 30, 3, sim.Timeline{Arrival: 0, Queued: 0, Admitted: 0, PrefillEnd: millisecond(10), FirstToken: millisecond(10)}},
		{"after the end", 0, 0, 0, 10, 3, total(31),
			sim.Finish, 30, 3, sim.Timeline{Arrival: 0, Queued: 0, Admitted: 0, PrefillEnd: millisecond(10), FirstToken: millisecond(10)}},
		{"the shorter of two", 9, 2, 0, 10, 3, sim.Patience{First: 40 * time.Millisecond, Total: 20 * time.Millisecond},
			sim.Abort, 22, 0, sim.Timeline{Arrival: millisecond(2), Queued: millisecond(2), Admitted: never, PrefillEnd: never, FirstToken: never}},
	} {
		t.Run(c.name, func(t *testing.T) {
			events := &keeper{}
			var times []sim.Time
			cfg := tenMS(events, sim.ObserverFunc(func(e sim.Event) {
				if e.ID == 2 {
					times = e.TokenTimes(times)
				}
			}))
			cfg.TokenTimes = true
			cfg.Replicas[0].MaxSeqs, cfg.Replicas[0].MaxBatchTokens, cfg.Replicas[0].KVBlocks = 1, 10, 7
			cfg.Admission = opensAt{2, millisecond(c.admitAt)}
			rs := []sim.Request{{ID: 2, Arrival: millisecond(c.arrival), Prompt: c.prompt, Output: c.output, Patience: c.patience}, {ID: 3, Arrival: millisecond(c.arrival), Prompt: 100, Output: 1}}
			if c.ahead > 0 {
				rs = append([]sim.Request{{ID: 1, Prompt: 10, Output: c.ahead}}, rs...)
			}
			mustRun(t, cfg, rs...)
			i := slices.IndexFunc(*events, func(e sim.Event) bool { return e.ID == 2 && (e.Kind == sim.Finish || e.Kind == sim.Abort) })
			got := (*events)[i]
			if got.Kind != c.kind || got.Time != millisecond(c.at) || got.Output != c.tokens {
				t.Errorf("got %v, want %v at %d ms with %d tokens", got, c.kind, c.at, c.tokens)
			}
			if d := cmp.Diff(c.timeline, got.Timeline); d != "" {
				t.Errorf("timeline (-want +got):\n%s", d)
			}
			if len(times) != c.tokens {
				t.Errorf("%d token times %v, want %d", len(times), times, c.tokens)
			}
			third := events.endings()
			if last := third[len(third)-1]; last.id != 3 || last.tokens != 1 {
				t.Errorf("endings %+v, want request 3 served last", third)
			}
		})
	}
}

// opensAt defers one request until an instant.
type opensAt struct {
	id int
	at sim.Time
}

func (o opensAt) Admit(now sim.Time, q sim.Query, _ []sim.Load) sim.Decision {
	if q.ID == o.id && now < o.at {
		return sim.Decision{Until: o.at}
	}
	return sim.Decision{}
}

// Two usable blocks hold 32 positions. Request 1 needs a third one for its
// 14th token while request 2 waits for memory: request 1 ends, request 2 runs.
func TestOutOfMemoryLetsOthersRun(t *testing.T) {
	for _, p := range colocated[:2] {
		t.Run(p.name, func(t *testing.T) {
			events := &keeper{}
			cfg := tenMS(events)
			cfg.Replicas[0].Scheduler, cfg.Replicas[0].KVBlocks = p.policy(), 2
			mustRun(t, cfg, sim.Request{ID: 1, Prompt: 20, Output: 30}, sim.Request{ID: 2, Prompt: 20, Output: 2})
			want := []ending{{1, "out_of_kv", 13, millisecond(130)}, {2, "stop", 2, millisecond(150)}}
			if d := cmp.Diff(want, events.endings(), cmp.AllowUnexported(ending{})); d != "" {
				t.Errorf("endings (-want +got):\n%s", d)
			}
		})
	}
}

// Scheduling does not change work: the positions computed are the same under
// every policy, but for what evictions throw away.
func TestWorkConservation(t *testing.T) {
	rs := crowd(300, false)
	prompts, outputs := 0, 0
	for i := range rs {
		if rs[i].Prompt == 140 {
			rs[i].Output, rs[i].MaxOutput = 20, 20
		}
		prompts, outputs = prompts+rs[i].Prompt, outputs+rs[i].Output
	}
	for _, blocks := range []int{0, 15} {
		for _, p := range colocated {
			t.Run(fmt.Sprintf("%s, %d blocks", p.name, blocks), func(t *testing.T) {
				a := &audited{inner: p.policy()}
				cfg := oneReplica()
				cfg.Replicas[0].Scheduler, cfg.Replicas[0].KVBlocks = a, blocks
				if !p.whole {
					cfg.Replicas[0].MaxBatchTokens = 64
				}
				res := mustRun(t, cfg, rs...)
				lost := 0
				for _, n := range a.lost {
					lost += n
				}
				if res.Completed != int64(len(rs)) || res.Tokens != int64(outputs) {
					t.Fatalf("result %+v", res)
				}
				if got, want := res.PrefillTokens+res.DecodePositions, int64(prompts+outputs-len(rs)+lost); got != want {
					t.Errorf("%d positions computed, want %d with %d recomputed", got, want, lost)
				}
				if res.Recompute != int64(lost) {
					t.Errorf("Result.Recompute is %d, %d positions lost", res.Recompute, lost)
				}
				if evicts := blocks > 0 && a.evicts(); evicts != (res.Preemptions > 0) || evicts != (lost > 0) {
					t.Errorf("%d preemptions, %d positions lost", res.Preemptions, lost)
				}
				// A chunked prompt can leave one position, which counts as a decode.
				if p.whole && lost == 0 && res.PrefillTokens != int64(prompts) {
					t.Errorf("%d prompt positions, want %d", res.PrefillTokens, prompts)
				}
			})
		}
	}
}

// The gaps of the step ends and GapsOver say the same as the token times of
// every request, also across preemptions, aborts and rejections.
func TestTokenTimes(t *testing.T) {
	const target = 4 * time.Millisecond
	byStep, byRequest := map[time.Duration]int{}, map[time.Duration]int{}
	preempted, over := 0, 0
	cfg := oneReplica(sim.ObserverFunc(func(e sim.Event) {
		switch e.Kind {
		case sim.StepEnd:
			for _, g := range e.Gaps {
				byStep[e.Time.Sub(g.Prev)] += g.Count
			}
		case sim.Finish, sim.Reject, sim.Abort:
			times := e.TokenTimes(nil)
			if len(times) != e.Output {
				t.Errorf("%d token times: %v", len(times), e)
			}
			if e.Output > 0 && times[0] != e.Timeline.FirstToken || e.Kind == sim.Finish && times[len(times)-1] != e.Time {
				t.Errorf("times %v of %v", times, e)
			}
			exceeded := 0
			for i := 1; i < len(times); i++ {
				gap := times[i].Sub(times[i-1])
				if byRequest[gap]++; gap > target {
					exceeded++
				}
			}
			if int(e.GapsOver) != exceeded {
				t.Errorf("%d gaps over the target, want %d: %v", e.GapsOver, exceeded, e)
			}
			over += exceeded
			preempted += int(e.Preemptions)
		default:
			if e.TokenTimes(nil) != nil {
				t.Errorf("token times of %v", e)
			}
		}
	}))
	cfg.TokenTimes = true
	cfg.Classes = []sim.Class{{Gap: target}}
	cfg.Replicas[0].KVBlocks, cfg.Replicas[0].MaxBatchTokens = 15, 64
	cfg.Replicas[0].CostModel = sim.CostFunc(func(b sim.Batch) time.Duration {
		return time.Millisecond + time.Duration(b.PrefillTokens())*100*time.Microsecond
	})
	mustRun(t, cfg, crowd(300, true)...)
	if d := cmp.Diff(byRequest, byStep); d != "" {
		t.Errorf("gaps, by request and by step (-want +got):\n%s", d)
	}
	if preempted == 0 || over == 0 || len(byStep) < 20 {
		t.Errorf("%d preemptions, %d gaps over, %d different gaps: too easy", preempted, over, len(byStep))
	}

	cfg.TokenTimes = false
	cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
		if times := e.TokenTimes(nil); times != nil {
			t.Errorf("token times without TokenTimes: %v", times)
		}
	})}
	mustRun(t, cfg, crowd(20, false)...)
}

// A scheduler asks for a pass at an instant: an idle replica plans then, a busy
// one at the first step end from then on, also if it holds.
func TestWakeAt(t *testing.T) {
	var passes []sim.Time
	cfg := tenMS()
	cfg.Check = false
	cfg.Replicas[0].Scheduler = sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
		passes = append(passes, v.Now)
		switch {
		case v.Now < millisecond(25):
			p.WakeAt(millisecond(25))
		case v.Running.Len() == 0:
			p.Add(v.Waiting.First(), 5)
		default:
			p.AddDecodes()
			p.Hold()
			if v.Now < millisecond(50) {
				p.WakeAt(millisecond(58))
			}
		}
	})
	res := mustRun(t, cfg, sim.Request{ID: 1, Arrival: millisecond(3), Prompt: 5, Output: 8})
	want := []sim.Time{millisecond(3), millisecond(25), millisecond(35), millisecond(65)}
	if d := cmp.Diff(want, passes); d != "" || res.End != millisecond(105) {
		t.Errorf("end at %v, passes (-want +got):\n%s", res.End, d)
	}
}

// An id is taken as long as its first bearer lives, whatever became of others
// that claimed it.
func TestIDs(t *testing.T) {
	events := &keeper{}
	mustRun(t, tenMS(events),
		sim.Request{ID: 1, Prompt: 5, Output: 3},
		sim.Request{ID: 1, Arrival: millisecond(1), Prompt: 5, Output: 1},
		sim.Request{ID: 1, Arrival: millisecond(2), Prompt: 5, Output: 1},
		sim.Request{ID: 1, Arrival: millisecond(30), Prompt: 5, Output: 1},
		sim.Request{ID: 1, Arrival: millisecond(31), Prompt: 5, Output: 1})
	want := []ending{{1, "duplicate_id", 0, millisecond(1)}, {1, "duplicate_id", 0, millisecond(2)}, {1, "stop", 3, millisecond(30)},
		{1, "duplicate_id", 0, millisecond(31)}, {1, "stop", 1, millisecond(40)}}
	if d := cmp.Diff(want, events.endings(), cmp.AllowUnexported(ending{})); d != "" {
		t.Errorf("endings (-want +got):\n%s", d)
	}
}

func TestEventSize(t *testing.T) {
	size := unsafe.Sizeof(sim.Event{})
	t.Logf("an event takes %d bytes", size)
	if size > 256 {
		t.Errorf("an event takes %d bytes, want at most 256", size)
	}
}

// spent returns what f allocates.
func spent(f func()) (allocs, bytes float64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs - before.Mallocs), float64(after.TotalAlloc - before.TotalAlloc)
}

// Steps allocate nothing, held or planned. The difference of two runs leaves
// out what a run needs once.
func TestAllocationsPerStep(t *testing.T) {
	const short, long = 20_000, 120_000
	for _, c := range []struct {
		name string
		s    sim.Scheduler
	}{
		{"held", scheduler.ChunkedPrefill{}},
		{"planned", sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
			p.AddDecodes()
			for s := range v.Waiting.All() {
				p.Add(s, s.Pending())
			}
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			decode := func(output int) float64 {
				steps := 0
				cfg := oneReplica(sim.ObserverFunc(func(e sim.Event) {
					if e.Kind == sim.StepEnd {
						steps++
					}
				}))
				cfg.Replicas[0].Scheduler, cfg.Replicas[0].KVBlocks = c.s, 1_000_000
				var rs []sim.Request
				for i := range 64 {
					rs = append(rs, sim.Request{ID: i, Prompt: 100 + i, Output: output})
				}
				allocs, _ := spent(func() { mustRun(t, cfg, rs...) })
				if steps != output {
					t.Fatalf("%d steps, want %d", steps, output)
				}
				return allocs
			}
			per := (decode(long) - decode(short)) / (long - short)
			t.Logf("%.6f allocations per step of 64 decodes", per)
			if per > 0.001 {
				t.Errorf("%g allocations per step, want 0", per)
			}
		})
	}
}

// In a steady state a request costs at most 3 allocations and 1 KiB, with and
// without token times.
func TestAllocationsPerRequest(t *testing.T) {
	const few, many = 5_000, 25_000
	for _, c := range []struct {
		name string
		cfg  func() sim.Config
	}{
		{"plain", func() sim.Config { return oneReplica() }},
		{"token times", func() sim.Config {
			var times []sim.Time
			cfg := oneReplica(sim.ObserverFunc(func(e sim.Event) { times = e.TokenTimes(times[:0]) }))
			cfg.TokenTimes = true
			return cfg
		}},
		{"order, patience", func() sim.Config {
			cfg := oneReplica()
			cfg.Replicas[0].Order = sim.OrderFunc(scheduler.ByPrompt)
			return cfg
		}},
		{"sessions", func() sim.Config {
			cfg := oneReplica()
			next := make([]sim.Request, 1)
			cfg.FollowUp = func(c sim.Completion) []sim.Request {
				if c.Request.ID%2 == 1 {
					return nil
				}
				next[0] = c.Request
				next[0].ID, next[0].Arrival = c.Request.ID+1, c.End.Add(time.Second)
				return next
			}
			return cfg
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			serve := func(n int) (allocs, bytes float64) {
				cfg := c.cfg()
				cfg.Replicas[0].KVBlocks, cfg.Replicas[0].MaxBatchTokens, cfg.Replicas[0].MaxSeqs = 10_000, 2048, 64
				return spent(func() {
					_, err := sim.Run(context.Background(), cfg, func(yield func(sim.Request, error) bool) {
						for i := range n {
							r := sim.Request{ID: 2 * i, Arrival: millisecond(3 * i), Prompt: 256, Output: 64}
							if c.name == "order, patience" {
								r.Patience = sim.Patience{First: 10 * time.Second, Total: 20 * time.Second}
							}
							if !yield(r, nil) {
								return
							}
						}
					})
					if err != nil {
						t.Fatal(err)
					}
				})
			}
			a1, b1 := serve(few)
			a2, b2 := serve(many)
			allocs, bytes := (a2-a1)/(many-few), (b2-b1)/(many-few)
			t.Logf("%.3f allocations and %.1f bytes per request", allocs, bytes)
			if allocs > 3 || bytes >= 1024 {
				t.Errorf("%.3f allocations and %.1f bytes per request, want at most 3 and 1 KiB", allocs, bytes)
			}
		})
	}
}
