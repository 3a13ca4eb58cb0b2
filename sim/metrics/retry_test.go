package metrics_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/metrics"
	"servesim/workload"
)

// gate is an admission policy made of a function.
type gate func(now sim.Time, q sim.Query) sim.Decision

func (g gate) Admit(now sim.Time, q sim.Query, _ []sim.Load) sim.Decision { return g(now, q) }

// untilMs defers to an instant.
func untilMs(n int) sim.Decision { return sim.Decision{Until: ms(n)} }

// again sends the requests of an id again at the instants that are left.
func again(at map[int][]int) func(sim.Completion) []sim.Request {
	return func(c sim.Completion) []sim.Request {
		r := c.Request
		if c.Kind == sim.Finish || r.Attempt >= len(at[r.ID]) {
			return nil
		}
		if r.Attempt == 0 {
			r.First = r.Arrival
		}
		r.Arrival = ms(at[r.ID][r.Attempt])
		r.Attempt++
		return []sim.Request{r}
	}
}

func run(t *testing.T, cfg sim.Config, o metrics.Options, rs ...sim.Request) metrics.Report {
	t.Helper()
	r, err := metrics.Run(context.Background(), cfg, o, workload.FromSlice(rs))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tenMS is a deployment that serves one request at a time, in steps of 10 ms.
func tenMS(classes ...sim.Class) sim.Config {
	return sim.Config{Classes: classes, Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, MaxSeqs: 1,
		CostModel: sim.CostFunc(func(sim.Batch) time.Duration { return 10 * time.Millisecond })}}}
}

// story is a run of six requests, of 100 + id prompt tokens each:
//
//	1  at 0, tokens at 10, 20 and 30 ms
//	2  at 2, 12 and 60 ms, rejected twice; token at 70
//	3  at 5, deferred to 25; tokens at 40 and 50
//	4  at 100, given up at 115 after a token; the same from 200 on
//	5  at 300 and 310, rejected both times
//	6  at 400, deferred, given up at 430; at 440, deferred to 460; token at 470
func story() (sim.Config, []sim.Request) {
	cfg := tenMS(sim.Class{Name: "chat", TTFT: 65 * time.Millisecond})
	cfg.FollowUp = again(map[int][]int{2: {12, 60}, 4: {200}, 5: {310}, 6: {440}})
	cfg.Admission = gate(func(now sim.Time, q sim.Query) sim.Decision {
		switch {
		case q.ID == 2 && now == ms(2), q.ID == 5:
			return sim.Decision{Reject: "busy"}
		case q.ID == 2 && now == ms(12):
			return sim.Decision{Reject: "full"}
		case q.ID == 3 && now < ms(25):
			return untilMs(25)
		case q.ID == 6 && now < ms(460):
			return untilMs(460)
		}
		return sim.Decision{}
	})
	rs := []sim.Request{
		{ID: 1, Output: 3},
		{ID: 2, Arrival: ms(2), Output: 1},
		{ID: 3, Arrival: ms(5), Output: 2},
		{ID: 4, Arrival: ms(100), Output: 5, Patience: sim.Patience{Total: 15 * time.Millisecond}},
		{ID: 5, Arrival: ms(300), Output: 1},
		{ID: 6, Arrival: ms(400), Output: 1, Patience: sim.Patience{First: 30 * time.Millisecond}},
	}
	for i := range rs {
		rs[i].Prompt = 100 + rs[i].ID
	}
	return cfg, rs
}

// latencies leaves of a cell what the story states.
var latencies = cmp.FilterPath(func(p cmp.Path) bool {
	switch p.Last().String() {
	case ".Few", ".P50", ".P90", ".P95", ".P99", ".ITL", ".TPOT":
		return true
	}
	return false
}, cmp.Ignore())

func TestRetryBelongsToItsFirstAttempt(t *testing.T) {
	cfg, rs := story()
	r := run(t, cfg, metrics.Options{}, rs...)
	want := metrics.Cell{
		Arrived: 6, Attempts: 11, Completed: 4, Rejected: 4, Aborted: 3, Failed: 2,
		Rejections:    []metrics.Rejections{{Reason: "busy", Count: 3, Prompt: 102 + 2*105}, {Reason: "full", Count: 1, Prompt: 102}},
		AbortedPrompt: 2*104 + 106, AbortedOutput: 2,
		Deferrals: metrics.Deferrals{Deferred: 3, DeferredPrompt: 103 + 2*106, DeferredMean: 70.0 / 3, DeferredMax: 30},
		Met:       2, OneToken: 2,
		// Requests 1, 2, 3 and 6, from their first attempts.
		TTFT:            metrics.Summary{N: 4, Mean: (10 + 68 + 35 + 70) / 4.0, Max: 70},
		E2E:             metrics.Summary{N: 4, Mean: (30 + 68 + 45 + 70) / 4.0, Max: 70},
		TokenThroughput: 7 / 0.47, RequestThroughput: 4 / 0.47, Goodput: 2 / 0.47, Attainment: 2.0 / 6, AttemptRate: 11 / 0.47,
	}
	if d := cmp.Diff(want, r.Cell, near, latencies); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if len(r.Classes) != 1 {
		t.Fatalf("%d classes", len(r.Classes))
	}
	want.Class = "chat"
	if d := cmp.Diff(want, r.Classes[0], near, latencies); d != "" {
		t.Errorf("class (-want +got):\n%s", d)
	}
	// The front door holds somebody for 20 + 30 + 20 of 470 ms.
	type level struct {
		Mean metrics.Number
		Peak int64
	}
	if d := cmp.Diff(level{70.0 / 470, 1}, level{r.DoorMean, r.DoorPeak}, near); d != "" {
		t.Errorf("at the door (-want +got):\n%s", d)
	}
	if len(r.Findings) > 0 {
		t.Errorf("findings %q", r.Findings)
	}
}

// The window holds the first attempts of requests 3 and 4, a retry of request
// 2, and not the retry of request 4, which counts nonetheless.
func TestRetryIsInTheWindowOfItsFirstAttempt(t *testing.T) {
	cfg, rs := story()
	r := run(t, cfg, metrics.Options{WarmUp: ms(5), Until: ms(150)}, rs...)
	want := metrics.Cell{
		Arrived: 2, Attempts: 3, Completed: 1, Aborted: 2, Failed: 1,
		AbortedPrompt: 2 * 104, AbortedOutput: 2,
		Deferrals: metrics.Deferrals{Deferred: 1, DeferredPrompt: 103, DeferredMean: 20, DeferredMax: 20},
		Met:       1,
		TTFT:      metrics.Summary{N: 1, Mean: 35, Max: 35},
		E2E:       metrics.Summary{N: 1, Mean: 45, Max: 45},
		// From 5 to 50 ms.
		TokenThroughput: 2 / 0.045, RequestThroughput: 1 / 0.045, Goodput: 1 / 0.045, Attainment: 0.5, AttemptRate: 3 / 0.045,
	}
	if d := cmp.Diff(want, r.Cell, near, latencies); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff(metrics.Number(20.0/145), r.DoorMean, near); d != "" {
		t.Errorf("at the door (-want +got):\n%s", d)
	}
}

// The horizon comes while requests are at the front door, in the queue and
// between two attempts.
func TestAttemptsAtTheHorizon(t *testing.T) {
	cfg := tenMS(sim.Class{TTFT: time.Second})
	cfg.Until = ms(35)
	cfg.FollowUp = again(map[int][]int{2: {20}, 3: {1000}})
	cfg.Admission = gate(func(now sim.Time, q sim.Query) sim.Decision {
		switch {
		case q.ID == 2 && now < ms(10), q.ID == 3:
			return sim.Decision{Reject: "busy"}
		case q.ID == 4:
			return untilMs(1000)
		}
		return sim.Decision{}
	})
	r := run(t, cfg, metrics.Options{},
		sim.Request{ID: 1, Prompt: 1, Output: 9},
		sim.Request{ID: 2, Prompt: 20, Output: 1},
		sim.Request{ID: 3, Prompt: 300, Output: 1},
		sim.Request{ID: 4, Arrival: ms(5), Prompt: 4000, Output: 1})
	none := metrics.Summary{Mean: nan, Max: nan}
	want := metrics.Cell{
		Arrived: 4, Attempts: 5, Rejected: 2, Unfinished: 3, Failed: 1,
		Rejections: []metrics.Rejections{{Reason: "busy", Count: 2, Prompt: 320}},
		Deferrals:  metrics.Deferrals{Deferred: 1, DeferredPrompt: 4000, StillDeferred: 1, DeferredMean: nan, DeferredMax: nan},
		TTFT:       none, E2E: none,
		TokenThroughput: nan, RequestThroughput: nan, Goodput: nan, Attainment: 0, AttemptRate: nan,
	}
	if d := cmp.Diff(want, r.Cell, near, latencies); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff(metrics.Number(30.0/35), r.DoorMean, near); d != "" {
		t.Errorf("at the door (-want +got):\n%s", d)
	}
}

// 100 offered: 60 meet both targets, 15 come late through the door, 15 have a
// gap of 12 ms, and 10 are rejected three times each.
func TestGoodputWithRetries(t *testing.T) {
	cfg := tenMS(sim.Class{TTFT: 10 * time.Millisecond, Gap: 10 * time.Millisecond})
	cfg.Replicas[0].CostModel = sim.CostFunc(func(b sim.Batch) time.Duration {
		if b.Decodes > 0 && b.Context > 1000 {
			return 12 * time.Millisecond
		}
		return 10 * time.Millisecond
	})
	cfg.Admission = gate(func(now sim.Time, q sim.Query) sim.Decision {
		switch {
		case q.ID >= 60 && q.ID < 75 && now == q.Arrival:
			return sim.Decision{Until: now + ms(5)}
		case q.ID >= 90:
			return sim.Decision{Reject: scheduler.RejectQueueFull}
		}
		return sim.Decision{}
	})
	cfg.FollowUp = workload.Retry{Attempts: 3, Backoff: 20 * time.Millisecond}.FollowUp
	var rs []sim.Request
	for i := range 100 {
		r := sim.Request{ID: i, Arrival: ms(100 * i), Prompt: 10, Output: 2}
		if i >= 75 && i < 90 {
			r.Prompt = 1001
		}
		rs = append(rs, r)
	}
	r := run(t, cfg, metrics.Options{}, rs...)
	type figures struct {
		Arrived, Completed, Met, Failed, Attempts, Rejected, Deferred int64
		Rejections                                                    []metrics.Rejections
		Attainment, Goodput                                           metrics.Number
	}
	// The last completion is that of request 89, at 8922 ms.
	want := figures{100, 90, 60, 10, 120, 30, 15, []metrics.Rejections{{Reason: "queue_full", Count: 30, Prompt: 300}}, 0.6, 60 / 8.922}
	got := figures{r.Arrived, r.Completed, r.Met, r.Failed, r.Attempts, r.Rejected, r.Deferred, r.Rejections, r.Attainment, r.Goodput}
	if d := cmp.Diff(want, got, near); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A retry that cannot be is rejected, and an arrival like others.
func TestFaultyAttemptsArrive(t *testing.T) {
	cfg := tenMS()
	r := run(t, cfg, metrics.Options{Until: ms(100)},
		sim.Request{ID: 1, Prompt: 2, Output: 1, Attempt: 1, First: -1},
		sim.Request{ID: 2, Prompt: 2, Output: 1, Attempt: -1},
		sim.Request{ID: 3, Prompt: 2, Output: 1, Attempt: 1, First: ms(200)})
	if r.Arrived != 3 || r.Attempts != 3 || r.Rejected != 3 || r.Failed != 3 {
		t.Errorf("%d arrived, %d attempts, %d rejected, %d failed, want 3 each", r.Arrived, r.Attempts, r.Rejected, r.Failed)
	}
}

// Prompts that no request can have are no load.
func TestFaultyPromptsDoNotAdd(t *testing.T) {
	cfg := tenMS()
	r := run(t, cfg, metrics.Options{},
		sim.Request{ID: 1, Prompt: -5, Output: 1},
		sim.Request{ID: 2, Prompt: 1 << 62, Output: 1},
		sim.Request{ID: 3, Prompt: 1 << 62, Output: 1},
		sim.Request{ID: 4, Prompt: 1 << 40, Output: 1, Class: 7})
	want := []metrics.Rejections{{Reason: "bad_field", Count: 2}, {Reason: "empty_prompt", Count: 1}, {Reason: "unknown_class", Count: 1, Prompt: 1 << 40}}
	if d := cmp.Diff(want, r.Rejections); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// chain is what the events say of all attempts of one request, found by its
// id.
type chain struct {
	class, prompt, attempts, completed, met, preempted int
	aborted, received                                  int // attempts, and their tokens
	open, door                                         int // attempts alive, and at the door
	start                                              sim.Time
	ttft, latency                                      float64 // ms
	reasons                                            []string
	waits                                              []float64 // ms at the door
}

// chains follows requests from attempt to attempt without asking for them.
type chains struct {
	classes []sim.Class
	of      map[int]*chain
	order   []*chain
}

func (c *chains) Observe(e sim.Event) {
	switch e.Kind {
	case sim.Arrive, sim.Queue, sim.Preempt, sim.Finish, sim.Reject, sim.Abort:
	default:
		return
	}
	x := c.of[e.ID]
	if x == nil {
		x = &chain{class: e.Class, prompt: e.Prompt, start: e.Time}
		c.of[e.ID] = x
		c.order = append(c.order, x)
	}
	switch e.Kind {
	case sim.Arrive:
		x.attempts++
		x.open++
		x.door++
		return
	case sim.Preempt:
		x.preempted++
		return
	}
	if e.Kind == sim.Queue || e.Timeline.Queued == sim.NoTime {
		x.door--
		if wait := e.Time - e.Timeline.Arrival; wait > 0 {
			x.waits = append(x.waits, wait.Seconds()*1e3)
		}
	}
	if e.Kind != sim.Queue {
		x.open--
	}
	switch e.Kind {
	case sim.Reject:
		x.reasons = append(x.reasons, e.Reason)
	case sim.Abort:
		x.aborted++
		x.received += e.Output
	case sim.Finish:
		x.completed++
		first := e.Timeline.FirstToken - x.start
		x.ttft, x.latency = first.Seconds()*1e3, (e.Time-x.start).Seconds()*1e3
		if first <= sim.Time(c.classes[e.Class].TTFT) {
			x.met++
		}
	}
}

// cell adds up the requests of a class, or of all, that start in the window.
func (c *chains) cell(class int, from, to sim.Time) (k metrics.Cell) {
	k.TTFT, k.E2E = metrics.Summary{Mean: nan, Max: nan}, metrics.Summary{Mean: nan, Max: nan}
	k.DeferredMean, k.DeferredMax = nan, nan
	var ttft, latency, waits []float64
	for _, x := range c.order {
		if class >= 0 && x.class != class || x.start < from || x.start >= to {
			continue
		}
		k.Arrived++
		k.Attempts += int64(x.attempts)
		k.Completed += int64(x.completed)
		k.Met += int64(x.met)
		k.Preemptions += int64(x.preempted)
		k.Aborted += int64(x.aborted)
		k.AbortedPrompt += int64(x.aborted * x.prompt)
		k.AbortedOutput += int64(x.received)
		k.Unfinished += int64(x.open)
		if x.completed+x.open == 0 {
			k.Failed++
		}
		if x.completed > 0 {
			ttft, latency = append(ttft, x.ttft), append(latency, x.latency)
		}
		k.StillDeferred += int64(x.door)
		k.Deferred += int64(x.door + len(x.waits))
		k.DeferredPrompt += int64((x.door + len(x.waits)) * x.prompt)
		waits = append(waits, x.waits...)
		for _, reason := range x.reasons {
			k.Rejected++
			i, found := slices.BinarySearchFunc(k.Rejections, reason, func(r metrics.Rejections, s string) int { return strings.Compare(r.Reason, s) })
			if !found {
				k.Rejections = slices.Insert(k.Rejections, i, metrics.Rejections{Reason: reason})
			}
			k.Rejections[i].Count++
			k.Rejections[i].Prompt += int64(x.prompt)
		}
	}
	sum := func(values []float64) (mean, most metrics.Number) {
		total := 0.0
		for _, v := range values {
			total += v
		}
		if len(values) == 0 {
			return nan, nan
		}
		return metrics.Number(total / float64(len(values))), metrics.Number(slices.Max(values))
	}
	k.TTFT.N, k.E2E.N = int64(len(ttft)), int64(len(latency))
	k.TTFT.Mean, k.TTFT.Max = sum(ttft)
	k.E2E.Mean, k.E2E.Max = sum(latency)
	k.DeferredMean, k.DeferredMax = sum(waits)
	return k
}

// Random runs with refusals, deferrals, impatient clients and retries, counted
// again by id.
func TestAttemptsAddUp(t *testing.T) {
	seen := metrics.Cell{}
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 5))
		classes := []sim.Class{{Name: "chat", TTFT: 300 * time.Millisecond}, {Name: "batch", TTFT: time.Second}}
		recount := &chains{classes: classes, of: map[int]*chain{}}
		cfg := sim.Config{Classes: classes, Router: &scheduler.RoundRobin{}, Observers: []sim.Observer{recount},
			FollowUp: workload.Retry{Seed: seed, Attempts: 1 + int(seed%5), Backoff: 80 * time.Millisecond, Jitter: 0.5}.FollowUp,
			Admission: gate(func(now sim.Time, q sim.Query) sim.Decision {
				switch random.IntN(8) {
				case 0:
					return sim.Decision{Reject: "odd"}
				case 1, 2:
					return sim.Decision{Reject: "even"}
				case 3:
					return sim.Decision{Until: now.Add(time.Duration(1 + random.IntN(200e6)))}
				}
				return sim.Decision{}
			})}
		for range 2 {
			cfg.Replicas = append(cfg.Replicas, sim.Replica{Scheduler: scheduler.ChunkedPrefill{}, MaxBatchTokens: 256, KVBlocks: 60,
				CostModel: sim.CostFunc(func(b sim.Batch) time.Duration {
					return 8*time.Millisecond + time.Duration(b.PrefillTokens())*50*time.Microsecond
				})})
		}
		load := workload.Workload{Seed: seed, Arrivals: workload.Limit{Arrivals: workload.Gamma{Rate: 25, CV: 2}, Count: 200}, Mix: []workload.Share{
			{Class: classes[0], Weight: 2, Lengths: workload.Tokens{Prompt: 150, Output: 20}, Patience: sim.Patience{First: 250 * time.Millisecond}},
			{Class: classes[1], Weight: 1, Lengths: workload.Tokens{Prompt: 400, Output: 60}, Patience: sim.Patience{Total: 900 * time.Millisecond}},
		}}
		o := metrics.Options{Streaming: seed%3 == 1}
		if seed%2 == 1 {
			o.WarmUp, o.Until = ms(1000), ms(4000)
		}
		if seed%7 > 3 {
			cfg.Until = ms(2500)
		}
		r, err := metrics.Run(context.Background(), cfg, o, load.Requests())
		if err != nil {
			t.Fatal(err)
		}
		to := o.Until
		if to == 0 {
			to = sim.Never
		}
		some := cmpopts.IgnoreFields(metrics.Cell{}, "Class", "ITL", "TPOT", "TokenThroughput", "RequestThroughput", "Goodput", "Attainment",
			"AttemptRate", "OneToken")
		for i, got := range append([]metrics.Cell{r.Cell}, r.Classes...) {
			want := recount.cell(i-1, o.WarmUp, to)
			if d := cmp.Diff(want, got, near, latencies, some); d != "" {
				t.Fatalf("seed %d, cell %d (-want +got):\n%s", seed, i, d)
			}
			if d := cmp.Diff(metrics.Number(float64(want.Met)/float64(want.Arrived)), got.Attainment, near); d != "" {
				t.Errorf("seed %d, cell %d: attainment (-want +got):\n%s", seed, i, d)
			}
			if got.Attempts != got.Completed+got.Rejected+got.Aborted+got.Unfinished || got.Arrived != got.Completed+got.Failed+got.Unfinished {
				t.Errorf("seed %d, cell %d: the counts do not add up: %+v", seed, i, got)
			}
		}
		seen.Aborted += r.Aborted
		seen.AbortedOutput += r.AbortedOutput
		seen.Failed += r.Failed
		seen.Preemptions += r.Preemptions
		seen.StillDeferred += r.StillDeferred
		seen.Deferred += r.Deferred
		seen.Attempts += r.Attempts - r.Arrived
	}
	if min(seen.Aborted, seen.AbortedOutput, seen.Failed, seen.Deferred, seen.Attempts) < 100 || min(seen.Preemptions, seen.StillDeferred) < 5 {
		t.Errorf("the runs show too little: %+v", seen)
	}
}

// A collector of sketches remembers nothing of requests that were refused, made
// to wait, or given up.
func TestMemoryOfLostRequests(t *testing.T) {
	c := collector(t, oneReplica, metrics.Options{Streaming: true})
	now := sim.Time(0)
	serial := int64(0)
	if got := bytesPer(50_000, func() {
		now += 10
		serial += 2
		e := sim.Event{Kind: sim.Arrive, Time: now, Serial: serial, ID: int(serial), Prompt: 7, Replica: -1, Timeline: sim.Timeline{Arrival: now,
			Queued: sim.NoTime, Admitted: sim.NoTime, PrefillEnd: sim.NoTime, FirstToken: sim.NoTime}}
		c.Observe(e)
		e.Kind, e.Reason = sim.Reject, "busy"
		c.Observe(e)
		e.Kind, e.Serial, e.Reason = sim.Arrive, serial+1, ""
		c.Observe(e)
		now += 5
		e.Kind, e.Time, e.Timeline.Queued = sim.Queue, now, now
		c.Observe(e)
		e.Kind = sim.Abort
		c.Observe(e)
	}); got > 0.2 {
		t.Errorf("%.3f bytes for a rejected and an aborted request", got)
	}
	r := c.Report()
	if r.Rejected != 50_000 || r.Aborted != 50_000 || r.Deferred != 50_000 || r.DeferredMax != 5e-6 {
		t.Errorf("%+v", r.Cell)
	}
}
