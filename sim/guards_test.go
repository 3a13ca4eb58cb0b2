package sim_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

// everyStep is a cost model whose steps all take d.
func everyStep(d time.Duration) sim.CostFunc {
	return func(sim.Batch) time.Duration { return d }
}

// millisecond is an instant, n ms after the start.
func millisecond(n int) sim.Time { return sim.Time(n) * sim.Time(time.Millisecond) }

// oneReplica is the smallest deployment that runs: steps of 1 ms.
func oneReplica(observers ...sim.Observer) sim.Config {
	return sim.Config{
		Replicas:  []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: everyStep(time.Millisecond)}},
		Observers: observers,
	}
}

// keeper keeps the events of a run, without what is valid during Observe only.
type keeper []sim.Event

func (k *keeper) Observe(e sim.Event) { *k = append(*k, e) }

// of returns the events of these kinds.
func (k keeper) of(kinds ...sim.Kind) (out []sim.Event) {
	for _, e := range k {
		for _, kind := range kinds {
			if e.Kind == kind {
				out = append(out, e)
			}
		}
	}
	return out
}

// mentions reports what err does not say.
func mentions(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", want)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

// addsUp fails unless every request that arrived has one ending.
func addsUp(t *testing.T, r sim.Result) {
	t.Helper()
	if n := r.Completed + r.Rejected + r.Aborted + r.Unfinished; n != r.Arrived {
		t.Errorf("%d of %d requests accounted for: %+v", n, r.Arrived, r)
	}
}

func TestConfigErrors(t *testing.T) {
	second := func(change func(*sim.Replica)) func(*sim.Config) {
		return func(c *sim.Config) {
			c.Router = &scheduler.RoundRobin{}
			c.Replicas = append(c.Replicas, c.Replicas[0])
			change(&c.Replicas[1])
		}
	}
	for _, c := range []struct {
		name   string
		change func(*sim.Config)
		want   string
	}{
		{"no replicas", func(c *sim.Config) { c.Replicas = nil }, "Config.Replicas is empty"},
		{"no router", func(c *sim.Config) { c.Replicas = append(c.Replicas, c.Replicas[0]) }, "Config.Router is nil with 2 replicas"},
		{"no scheduler", func(c *sim.Config) { c.Replicas[0].Scheduler = nil }, "Config.Replicas[0].Scheduler is nil"},
		{"no cost model", second(func(r *sim.Replica) { r.CostModel = nil }), "Config.Replicas[1].CostModel is nil"},
		{"blocks", second(func(r *sim.Replica) { r.KVBlocks = -7 }), "Config.Replicas[1].KVBlocks is -7"},
		{"reserved", func(c *sim.Config) { c.Replicas[0].ReservedBlocks = -1 }, "Config.Replicas[0].ReservedBlocks is -1"},
		{"block size", func(c *sim.Config) { c.Replicas[0].BlockTokens = -16 }, "Config.Replicas[0].BlockTokens is -16"},
		{"slots", func(c *sim.Config) { c.Replicas[0].MaxSeqs = -2 }, "Config.Replicas[0].MaxSeqs is -2"},
		{"budget", func(c *sim.Config) { c.Replicas[0].MaxBatchTokens = -3 }, "Config.Replicas[0].MaxBatchTokens is -3"},
		{"model length", func(c *sim.Config) { c.Replicas[0].MaxModelLen = math.MinInt }, "Config.Replicas[0].MaxModelLen is -9223372036854775808"},
		{"reserved of nothing", func(c *sim.Config) { c.Replicas[0].ReservedBlocks = 1 }, "Config.Replicas[0].ReservedBlocks is 1 without KVBlocks"},
		{"all reserved", func(c *sim.Config) { c.Replicas[0].KVBlocks, c.Replicas[0].ReservedBlocks = 4, 4 }, "Config.Replicas[0].ReservedBlocks is 4 of 4 KVBlocks"},
		{"eager sharing", second(func(r *sim.Replica) { r.EagerSharing = true }), "Config.Replicas[1].EagerSharing is set with PrefixCache false and InFlight 0"},
		{"horizon", func(c *sim.Config) { c.Until = -5 }, "Config.Until is -5"},
		{"steps", func(c *sim.Config) { c.MaxSteps = -6 }, "Config.MaxSteps is -6"},
		{"first token target", func(c *sim.Config) { c.Classes = []sim.Class{{}, {TTFT: -time.Second}} }, "Config.Classes[1].TTFT is -1s"},
		{"gap target", func(c *sim.Config) { c.Classes = []sim.Class{{Gap: -time.Millisecond}} }, "Config.Classes[0].Gap is -1ms"},
		{"observer", func(c *sim.Config) { c.Observers = []sim.Observer{&keeper{}, nil} }, "Config.Observers[1] is nil"},
	} {
		t.Run(c.name, func(t *testing.T) {
			events := &keeper{}
			cfg := oneReplica(events)
			c.change(&cfg)
			res, err := sim.Run(context.Background(), cfg, func(func(sim.Request, error) bool) { t.Error("the workload was asked") })
			mentions(t, err, c.want)
			if d := cmp.Diff(sim.Result{}, res); d != "" || len(*events) > 0 {
				t.Errorf("%d events, result (-want +got):\n%s", len(*events), d)
			}
			_, err = sim.NewStepper(cfg)
			mentions(t, err, "sim: ")
		})
	}
}

// An error of the workload in the middle of a long recording reaches the
// caller, and what happened before it is counted.
func TestReaderFailsInTheMiddle(t *testing.T) {
	const row = 900_000
	boom := errors.New("recording.csv:900001: truncated")
	cfg := oneReplica()
	cfg.Replicas[0].CostModel = everyStep(100 * time.Microsecond)
	res, err := sim.Run(context.Background(), cfg, func(yield func(sim.Request, error) bool) {
		for i := range row {
			if !yield(sim.Request{ID: i, Arrival: sim.Time(i) * sim.Time(time.Microsecond), Prompt: 1, Output: 1}, nil) {
				t.Error("the run stopped asking")
				return
			}
		}
		yield(sim.Request{}, boom)
		t.Log("asked again after the error")
	})
	if !errors.Is(err, boom) {
		t.Errorf("error %v does not wrap the workload's", err)
	}
	mentions(t, err, "sim: requests: ", "recording.csv:900001")
	addsUp(t, res)
	// The row before the error arrives at 899,999 µs, which has not come when
	// the error is read; a step takes 100 of them in.
	if res.Arrived != row-1 || res.Completed < row-300 || res.Unfinished > 300 {
		t.Errorf("counts so far %+v", res)
	}
}

func TestArrivalsMustNotGoBack(t *testing.T) {
	at := func(times ...sim.Time) (rs []sim.Request) {
		for i, t := range times {
			rs = append(rs, sim.Request{ID: 70 + i, Arrival: t, Prompt: 1, Output: 1})
		}
		return rs
	}
	for _, c := range []struct {
		name     string
		requests []sim.Request
		want     []string
		arrived  int64
	}{
		{"negative", at(-5), []string{"requests[0] (id 70)", "Arrival is -5 ns"}, 0},
		{"end of time", at(sim.Never), []string{"requests[0] (id 70)", "the end of time"}, 0},
		{"back", at(10, 30, 20), []string{"requests[2] (id 72)", "Arrival is 20 ns, before 30"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, err := sim.Run(context.Background(), oneReplica(), slice(c.requests))
			mentions(t, err, c.want...)
			addsUp(t, res)
			if res.Arrived != c.arrived {
				t.Errorf("%d arrived, want %d", res.Arrived, c.arrived)
			}
		})
	}
}

func TestCostModelFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		took time.Duration
		want []string
	}{
		{"negative", -3, []string{"replica 0", "a step of -3 ns", "0 decodes", "9 prompt tokens"}},
		{"invalid", sim.InvalidDuration, []string{"a step of -9223372036854775808 ns"}},
		{"not a number", sim.Round(math.NaN()), []string{"a step of -9223372036854775808 ns"}},
		{"past the end of time", math.MaxInt64, []string{"a step of 9223372036854775807 ns"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := oneReplica()
			cfg.Replicas[0].CostModel = everyStep(c.took)
			res, err := sim.Run(context.Background(), cfg, slice([]sim.Request{{ID: 1, Arrival: 1, Prompt: 9, Output: 2}}))
			mentions(t, err, c.want...)
			addsUp(t, res)
			if res.Unfinished != 1 || res.Tokens != 0 {
				t.Errorf("result %+v, want the request unfinished", res)
			}
		})
	}
	t.Run("zero counts as one nanosecond", func(t *testing.T) {
		cfg := oneReplica()
		cfg.Replicas[0].CostModel = everyStep(0)
		res, err := sim.Run(context.Background(), cfg, slice([]sim.Request{{ID: 1, Prompt: 9, Output: 4}}))
		if err != nil || res.End != 4 || res.Completed != 1 {
			t.Errorf("result %+v, error %v; want the end at 4 ns", res, err)
		}
	})
}

// A cancelled context ends the run within 10,000 steps, however many replicas
// step at one instant.
func TestCancel(t *testing.T) {
	for _, replicas := range []int{1, 64} {
		t.Run(map[int]string{1: "one replica", 64: "64 in lockstep"}[replicas], func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var steps, cancelledAt int64
			cfg := oneReplica(sim.ObserverFunc(func(e sim.Event) {
				if e.Kind != sim.StepEnd {
					return
				}
				if steps++; steps == 5000 {
					cancelledAt = steps
					cancel()
				}
			}))
			var rs []sim.Request
			for i := range replicas {
				rs = append(rs, sim.Request{ID: i, Prompt: 5, Output: 200_000})
			}
			for len(cfg.Replicas) < replicas {
				cfg.Replicas = append(cfg.Replicas, cfg.Replicas[0])
			}
			cfg.Router = &scheduler.RoundRobin{}
			res, err := sim.Run(ctx, cfg, slice(rs))
			if !errors.Is(err, context.Canceled) || !res.Cancelled {
				t.Errorf("error %v, Cancelled %v", err, res.Cancelled)
			}
			if res.Steps != steps || steps-cancelledAt > 10_000 {
				t.Errorf("%d steps after the cancellation", steps-cancelledAt)
			}
			addsUp(t, res)
			if res.Unfinished != int64(replicas) {
				t.Errorf("%d unfinished, want %d", res.Unfinished, replicas)
			}
		})
	}
}

func TestMaxSteps(t *testing.T) {
	cfg := oneReplica()
	cfg.MaxSteps = 25
	rs := []sim.Request{{ID: 1, Prompt: 5, Output: 20}, {ID: 2, Arrival: 1, Prompt: 5, Output: 1000}}
	res, err := sim.Run(context.Background(), cfg, slice(rs))
	mentions(t, err, "Config.MaxSteps = 25", "at 26ms", "1 requests alive")
	addsUp(t, res)
	if res.Completed != 1 || res.Unfinished != 1 || res.Steps > 26 {
		t.Errorf("result %+v", res)
	}
	// Request 2 starts with the second step, so 25 steps give it 24 tokens.
	rs[1].Output = 24
	if res := mustRun(t, cfg, rs...); res.Steps != 25 || res.Completed != 2 {
		t.Errorf("result %+v, want both completed in 25 steps", res)
	}
}

// onlyFirstChunk admits the head of the queue with four positions and never
// comes back to it.
var onlyFirstChunk = sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
	if s := v.Waiting.First(); s != nil {
		p.Add(s, 4)
	}
})

// idler plans nothing, or asks for more memory than there is.
func idler(ask bool) sim.Scheduler {
	return sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
		if s := v.Waiting.First(); s != nil && ask {
			p.Reserve(s, 1000)
		}
	})
}

// thrasher evicts everything that runs in every pass.
var thrasher = sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
	for v.Running.Len() > 0 {
		p.Preempt(v.Running.First())
	}
	p.Add(v.Waiting.First(), 1)
})

// A run that cannot go on ends with an error that names who is stuck.
func TestNothingHangs(t *testing.T) {
	one := []sim.Request{{ID: 42, Arrival: 3, Prompt: 10, Output: 2}}
	with := func(s sim.Scheduler) sim.Config {
		cfg := oneReplica()
		cfg.Replicas[0].Scheduler, cfg.Replicas[0].KVBlocks = s, 8
		return cfg
	}
	second := func(s sim.Scheduler) sim.Config {
		cfg := with(s)
		cfg.Replicas = append(oneReplica().Replicas, cfg.Replicas...)
		cfg.Router = toReplica(1)
		return cfg
	}
	followUp := func(f func(sim.Completion) []sim.Request) sim.Config {
		cfg := oneReplica()
		cfg.FollowUp = f
		return cfg
	}
	admit := func(d sim.Decision) sim.Config {
		cfg := oneReplica()
		cfg.Admission = always(d)
		return cfg
	}
	for _, c := range []struct {
		name string
		cfg  sim.Config
		want []string
	}{
		{"plans nothing", second(idler(false)),
			[]string{"replica 1: no progress at 3ns", "1 waiting, 0 running", "8 of 8 blocks free", "request 42 (serial 1) is waiting with 10 positions pending"}},
		{"is refused", with(idler(true)), []string{"no progress", "request 42", "last refusal: memory"}},
		{"forgets a prompt", with(onlyFirstChunk),
			[]string{"no progress at 1.000003ms", "0 waiting, 1 running, 7 of 8 blocks free", "request 42 (serial 1) is running with 6 positions pending, context 4, 1 blocks"}},
		{"evicts for ever", with(thrasher), []string{"replica 0: request 42 (serial 1, 10 prompt tokens, 0 generated) was preempted 1001 times"}},
		{"follow-up in the past", followUp(func(c sim.Completion) []sim.Request {
			return []sim.Request{{ID: 43, Arrival: c.End - 1, Prompt: 1, Output: 1}}
		}), []string{"FollowUp of request 42 at 2.000003ms", "request 43", "Arrival is 2000002 ns"}},
		{"follow-up without end", followUp(func(c sim.Completion) []sim.Request {
			return []sim.Request{{ID: 43, Arrival: c.End, Prompt: 0, Output: 1}}
		}), []string{"at 2.000003ms without time moving", "0 requests alive"}},
		{"deferred to the past", admit(sim.Decision{Until: 3}), []string{"Admission defers request 42 until 3ns at 3ns"}},
		{"wakes without end", with(sim.SchedulerFunc(func(v sim.View, p *sim.Plan) { p.WakeAt(v.Now + 1) })),
			[]string{"wake-ups and deferrals", "1 requests alive"}},
		{"defers without end", func() sim.Config {
			cfg := oneReplica()
			cfg.Admission = deferForEver{}
			return cfg
		}(), []string{"wake-ups and deferrals", "1 requests alive"}},
		{"deferred for ever", admit(sim.Decision{Until: sim.Never}), []string{"no progress at 3ns", "1 requests are deferred for ever"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, err := sim.Run(context.Background(), c.cfg, slice(one))
			mentions(t, err, append(c.want, "sim: ")...)
			addsUp(t, res)
		})
	}
}

// toReplica routes everything to one index.
type toReplica int

func (r toReplica) Route(sim.Time, sim.Query, []sim.Load) int { return int(r) }

// always is an admission policy that gives one answer.
type always sim.Decision

// deferForEver asks again a nanosecond later.
type deferForEver struct{}

func (deferForEver) Admit(now sim.Time, _ sim.Query, _ []sim.Load) sim.Decision {
	return sim.Decision{Until: now + 1}
}

func (a always) Admit(sim.Time, sim.Query, []sim.Load) sim.Decision { return sim.Decision(a) }

// A faulty request is rejected with a reason; those around it are served as if
// it had not come.
func TestFaultyRequests(t *testing.T) {
	replica := sim.Replica{Scheduler: scheduler.ChunkedPrefill{}, CostModel: everyStep(time.Millisecond), KVBlocks: 11, ReservedBlocks: 1, MaxModelLen: 170}
	whole, orca := replica, replica
	whole.Scheduler, whole.MaxBatchTokens = scheduler.Continuous{}, 64
	orca.Scheduler, orca.MaxModelLen = scheduler.Continuous{ReserveMax: true}, 0
	router := func(c *sim.Config) { c.Router = toReplica(-1) }
	for _, c := range []struct {
		name    string
		replica sim.Replica
		change  func(*sim.Config)
		faulty  sim.Request
		reason  string
		tokens  int
	}{
		{"empty prompt", replica, nil, sim.Request{Output: 1}, "empty_prompt", 0},
		{"negative prompt", replica, nil, sim.Request{Prompt: -1, Output: 1}, "empty_prompt", 0},
		{"zero output", replica, nil, sim.Request{Prompt: 1}, "zero_output", 0},
		{"negative output", replica, nil, sim.Request{Prompt: 1, Output: -4}, "bad_field", 0},
		{"negative limit", replica, nil, sim.Request{Prompt: 1, Output: 1, MaxOutput: -1}, "bad_field", 0},
		{"endless prompt", replica, nil, sim.Request{Prompt: math.MaxInt, Output: 1}, "bad_field", 0},
		{"endless output", replica, nil, sim.Request{Prompt: 1, Output: math.MaxInt}, "bad_field", 0},
		{"negative hint", replica, nil, sim.Request{Prompt: 1, Output: 1, Hint: -1}, "bad_field", 0},
		{"negative deadline", replica, nil, sim.Request{Prompt: 1, Output: 1, Deadline: -1}, "bad_field", 0},
		{"negative patience", replica, nil, sim.Request{Prompt: 1, Output: 1, Patience: sim.Patience{First: -1}}, "bad_field", 0},
		{"negative attempt", replica, nil, sim.Request{Prompt: 1, Output: 1, Attempt: -1}, "bad_field", 0},
		{"negative first arrival", replica, nil, sim.Request{Prompt: 1, Output: 1, Attempt: 1, First: -1}, "bad_field", 0},
		{"first arrival after its own", replica, nil, sim.Request{Prompt: 1, Output: 1, Attempt: 1, First: millisecond(100) + 1}, "bad_field", 0},
		{"negative total patience", replica, nil, sim.Request{Prompt: 1, Output: 1, Patience: sim.Patience{Total: -1}}, "bad_field", 0},
		{"no such class", replica, nil, sim.Request{Prompt: 1, Output: 1, Class: 1}, "unknown_class", 0},
		{"negative class", replica, nil, sim.Request{Prompt: 1, Output: 1, Class: -1}, "unknown_class", 0},
		{"id in flight", replica, nil, sim.Request{ID: -1, Prompt: 9, Output: 9}, "duplicate_id", 0},
		{"longer than the model", replica, nil, sim.Request{Prompt: 171, Output: 1}, "exceeds_max_model_len", 0},
		{"larger than the cache", replica, nil, sim.Request{Prompt: 161, Output: 1}, "exceeds_kv_capacity", 0},
		// 150 positions at first; the 10 blocks hold 160, so 10 tokens more.
		{"cannot grow", replica, nil, sim.Request{Prompt: 150, Output: 20}, "out_of_kv", 11},
		{"larger than a step", whole, nil, sim.Request{Prompt: 65, Output: 1}, "exceeds_batch_tokens", 0},
		{"output without bound", orca, nil, sim.Request{Prompt: 1, Output: 1}, "unbounded_output", 0},
		{"largest output", orca, nil, sim.Request{Prompt: 100, Output: 1, MaxOutput: 62}, "exceeds_kv_capacity", 0},
		{"refused", replica, func(c *sim.Config) { c.Admission = refuseID(7) }, sim.Request{Prompt: 1, Output: 1}, "too busy", 0},
		{"no replica", replica, router, sim.Request{Prompt: 1, Output: 1}, "no_route", 0},
		{"no such replica", replica, func(c *sim.Config) { c.Router = toReplica(1) }, sim.Request{Prompt: 1, Output: 1}, "no_route", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			events := &keeper{}
			cfg := sim.Config{Replicas: []sim.Replica{c.replica}, Observers: []sim.Observer{events}, Check: true}
			if c.change != nil {
				c.change(&cfg)
			}
			faulty := c.faulty
			if faulty.ID += 7; faulty.ID == 6 {
				faulty.ID = 1
			}
			faulty.Arrival = millisecond(100)
			good := sim.Request{ID: 1, Prompt: 10, Output: 101, MaxOutput: 101}
			late := sim.Request{ID: 2, Arrival: millisecond(500), Prompt: 10, Output: 3, MaxOutput: 3}
			res, err := sim.Run(context.Background(), cfg, slice([]sim.Request{good, faulty, late}))
			if err != nil {
				t.Fatal(err)
			}
			addsUp(t, res)
			want := []ending{{faulty.ID, c.reason, 0, millisecond(100)}, {1, "length", 101, millisecond(101)}, {2, "length", 3, millisecond(503)}}
			switch {
			case cfg.Router != nil:
				want = []ending{{1, c.reason, 0, 0}, {faulty.ID, c.reason, 0, millisecond(100)}, {2, c.reason, 0, millisecond(500)}}
			case c.tokens > 0:
				// Its prompt has to wait for the first request's memory.
				want[0], want[1] = want[1], ending{faulty.ID, c.reason, c.tokens, millisecond(101 + c.tokens)}
			}
			if d := cmp.Diff(want, events.endings(), cmp.AllowUnexported(ending{})); d != "" {
				t.Errorf("endings (-want +got):\n%s", d)
			}
		})
	}
}

// ending is how and when a request left.
type ending struct {
	id     int
	reason string
	tokens int
	at     sim.Time
}

func (k keeper) endings() (out []ending) {
	for _, e := range k.of(sim.Finish, sim.Reject, sim.Abort) {
		out = append(out, ending{e.ID, e.Reason, e.Output, e.Time})
	}
	return out
}

// refuseID turns one request away at the front door.
type refuseID int

func (r refuseID) Admit(_ sim.Time, q sim.Query, _ []sim.Load) sim.Decision {
	if q.ID == int(r) {
		return sim.Decision{Reject: "too busy"}
	}
	return sim.Decision{}
}

// colocated are the shipped policies, for tests that all of them must pass.
// Those that compute prompts whole get no token budget.
var colocated = []struct {
	name   string
	whole  bool
	policy func() sim.Scheduler
}{
	{"chunked", false, func() sim.Scheduler { return scheduler.ChunkedPrefill{} }},
	{"continuous", true, func() sim.Scheduler { return scheduler.Continuous{} }},
	{"orca", true, func() sim.Scheduler { return scheduler.Continuous{ReserveMax: true} }},
	{"request batch", true, func() sim.Scheduler { return &scheduler.RequestBatch{} }},
}

// crowd draws requests that finish, outgrow the cache, or give up.
func crowd(n int, impatient bool) (rs []sim.Request) {
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range n {
		r := sim.Request{ID: i, Arrival: millisecond(3 * i), Prompt: 2 + rng.IntN(90), Output: 1 + rng.IntN(60)}
		if r.MaxOutput = r.Output; i%11 == 5 {
			r.Prompt, r.Output, r.MaxOutput = 140, 40, 40
		}
		if impatient && i%5 == 2 {
			r.Patience = sim.Patience{First: time.Duration(rng.IntN(100)) * time.Millisecond, Total: time.Duration(1+rng.IntN(200)) * time.Millisecond}
		}
		rs = append(rs, r)
	}
	return rs
}

// smallCache is a replica of ten usable blocks, which the crowd outgrows.
func smallCache(whole bool, s sim.Scheduler) sim.Replica {
	r := sim.Replica{Scheduler: s, CostModel: everyStep(time.Millisecond), KVBlocks: 11, ReservedBlocks: 1, MaxSeqs: 8, MaxModelLen: 512}
	if !whole {
		r.MaxBatchTokens = 64
	}
	return r
}

// Every block is free or belongs to somebody, before every pass, and all are
// free in what a router sees after everybody has left.
func TestBlocksAreConserved(t *testing.T) {
	for _, p := range colocated {
		t.Run(p.name, func(t *testing.T) {
			a, last := &audited{inner: p.policy()}, &lastLoad{}
			r := smallCache(p.whole, a)
			res, err := sim.Run(context.Background(), sim.Config{Replicas: []sim.Replica{r}, Router: last, Check: true},
				slice(append(crowd(200, true), sim.Request{ID: 1000, Arrival: millisecond(1_000_000), Prompt: 1, Output: 1, MaxOutput: 1})))
			if err != nil {
				t.Fatal(err)
			}
			addsUp(t, res)
			if res.Completed == 0 || res.Aborted == 0 || res.Rejected == 0 || res.Preemptions == 0 && a.evicts() {
				t.Errorf("the mix lacks something: %+v", res)
			}
			if a.leaked != 0 || a.passes == 0 {
				t.Errorf("%d blocks missing at one of %d passes", a.leaked, a.passes)
			}
			if usable := r.KVBlocks - r.ReservedBlocks; last.FreeBlocks != usable || last.Blocks != usable {
				t.Errorf("at the end %d of %d blocks free, want all of %d", last.FreeBlocks, last.Blocks, usable)
			}
		})
	}
}

// Every finished request was given what it needs, and what evictions threw
// away once more.
func TestPositionsAreConserved(t *testing.T) {
	for _, p := range colocated {
		t.Run(p.name, func(t *testing.T) {
			a := &audited{inner: p.policy()}
			rs := crowd(60, false)
			scheduled, output := drive(t, smallCache(p.whole, a), rs)
			finished := 0
			for _, q := range rs {
				if output[q.ID] != q.Output {
					continue // rejected
				}
				finished++
				if got, want := scheduled[q.ID], q.Prompt+q.Output-1+a.lost[q.ID]; got != want {
					t.Errorf("request %d: %d positions scheduled, want prompt %d + output %d - 1 + lost %d", q.ID, got, q.Prompt, q.Output, a.lost[q.ID])
				}
			}
			if finished < 40 || a.evicts() && len(a.lost) == 0 {
				t.Errorf("%d finished, %d lost positions", finished, len(a.lost))
			}
		})
	}
}

// lastLoad routes to the first replica and remembers what it was told.
type lastLoad struct{ sim.Load }

func (l *lastLoad) Route(_ sim.Time, _ sim.Query, loads []sim.Load) int {
	l.Load = loads[0]
	return 0
}

// audited watches another scheduler: blocks that nobody has, and positions
// that an eviction throws away.
type audited struct {
	inner  sim.Scheduler
	passes int
	leaked int
	lost   map[int]int // by request id
}

func (a *audited) Schedule(v sim.View, p *sim.Plan) {
	held, context := 0, map[*sim.Sequence]int{}
	for s := range v.Waiting.All() {
		held += s.Blocks()
	}
	for s := range v.Running.All() {
		held += s.Blocks()
		context[s] = s.Context()
	}
	a.passes++
	if missing := v.Limits.Blocks - held - p.Free(); missing != 0 {
		a.leaked = missing
	}
	a.inner.Schedule(v, p)
	for s, had := range context {
		if s.Context() == 0 && had > 0 {
			if a.lost == nil {
				a.lost = map[int]int{}
			}
			a.lost[s.ID()] += had
		}
	}
}

// evicts reports whether the scheduler may run out of memory at all.
func (a *audited) evicts() bool {
	switch s := a.inner.(type) {
	case *scheduler.RequestBatch:
		return false
	case scheduler.Continuous:
		return !s.ReserveMax
	}
	return true
}
