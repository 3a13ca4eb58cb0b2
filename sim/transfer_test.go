package sim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/kv"
)

const ms = time.Millisecond

// idleCost makes a prompt of 1,000 tokens take C = 40 ms in one step and a
// decode step D = 7 ms.
var idleCost = sim.CostFunc(func(b sim.Batch) time.Duration {
	if n := b.PrefillTokens(); n > 0 {
		return time.Duration(n) * 40 * time.Microsecond
	}
	return 7 * ms
})

// split is a deployment of prefill and decode replicas. Its KV is 1 MB per
// token and its ports carry 100 GB/s: 1,000 tokens in whole blocks of 10 take
// X = 10 ms.
func split(prefills, decodes int, link sim.Link, change func(r *sim.Replica)) sim.Config {
	link.TokenBytes = 1_000_000
	if link.Bandwidth == 0 {
		link.Bandwidth = 100e9
	}
	cfg := sim.Config{Link: &link, Check: true, Handoff: scheduler.Subset{First: prefills, Count: decodes, Router: scheduler.LeastLoaded{}}}
	cfg.Router = scheduler.Subset{Count: prefills, Router: &scheduler.RoundRobin{}}
	for i := range prefills + decodes {
		r := sim.Replica{CostModel: idleCost, BlockTokens: 10, Role: sim.RolePrefill, Scheduler: scheduler.ChunkedPrefill{}}
		if i >= prefills {
			r.Role, r.Scheduler = sim.RoleDecode, scheduler.Pull{Scheduler: scheduler.ChunkedPrefill{}}
		}
		if change != nil {
			change(&r)
		}
		cfg.Replicas = append(cfg.Replicas, r)
	}
	return cfg
}

// tokens runs cfg and returns the token times of each request, and the log.
func tokens(t *testing.T, cfg sim.Config, reqs []sim.Request) (times map[int][]time.Duration, log []string, res sim.Result) {
	t.Helper()
	times = map[int][]time.Duration{}
	cfg.TokenTimes = true
	cfg.Observers = append(cfg.Observers, sim.ObserverFunc(func(e sim.Event) {
		log = append(log, e.String())
		if e.Kind == sim.Finish || e.Kind == sim.Abort {
			for _, x := range e.TokenTimes(nil) {
				times[e.ID] = append(times[e.ID], x.Sub(e.Timeline.Arrival))
			}
		}
	}))
	res, err := sim.Run(context.Background(), cfg, slice(reqs))
	if err != nil {
		t.Fatal(err)
	}
	if n := res.Completed + res.Rejected + res.Aborted + res.Unfinished; n != res.Arrived {
		t.Errorf("%d of %d requests accounted for", n, res.Arrived)
	}
	return times, log, res
}

func TestDisaggregatedIdleSystem(t *testing.T) {
	const c, x, d = 40 * ms, 10 * ms, 7 * ms
	// The same with the terms ten times apart the other way round.
	slow := sim.Link{Bandwidth: 1e9} // X = 1 s
	for _, tt := range []struct {
		name  string
		link  sim.Link
		side  sim.FirstTokenSide
		chunk int
		want  []time.Duration
	}{
		{"token from the prefill side", sim.Link{}, sim.FirstFromPrefill, 0, []time.Duration{c, c + x + d, c + x + 2*d}},
		{"token from the decode side", sim.Link{}, sim.FirstFromDecode, 0, []time.Duration{c + x + d, c + x + 2*d, c + x + 3*d}},
		{"latency comes on top", sim.Link{Latency: 3 * ms}, sim.FirstFromPrefill, 0, []time.Duration{c, c + 3*ms + x + d, c + 3*ms + x + 2*d}},
		{"a slow link", slow, sim.FirstFromPrefill, 0, []time.Duration{c, c + 100*x + d, c + 100*x + 2*d}},
		{"a fabric slower than the ports", sim.Link{Fabric: 50e9}, sim.FirstFromPrefill, 0, []time.Duration{c, c + 2*x + d, c + 2*x + 2*d}},
		{"layers, compute longer: C + X/L", sim.Link{Layers: 10}, sim.FirstFromPrefill, 0, []time.Duration{c, c + x/10 + d, c + x/10 + 2*d}},
		{"layers, transfer longer: C/L + X", sim.Link{Layers: 10, Bandwidth: 1e9}, sim.FirstFromDecode, 0,
			[]time.Duration{c/10 + 100*x + d, c/10 + 100*x + 2*d, c/10 + 100*x + 3*d}},
		// Of four chunks of C/4, each is sent while the next is computed.
		{"layers and chunks", sim.Link{Layers: 10}, sim.FirstFromPrefill, 250, []time.Duration{c, c + x/40 + d, c + x/40 + 2*d}},
		{"chunks alone wait for the last", sim.Link{}, sim.FirstFromPrefill, 250, []time.Duration{c, c + x + d, c + x + 2*d}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := split(1, 1, tt.link, func(r *sim.Replica) { r.FirstToken, r.MaxBatchTokens = tt.side, tt.chunk })
			got, log, res := tokens(t, cfg, []sim.Request{{ID: 1, Prompt: 1000, Output: 3}})
			if d := cmp.Diff(tt.want, got[1]); d != "" {
				t.Errorf("token times (-want +got):\n%s\n%s", d, strings.Join(log, "\n"))
			}
			if res.Transfers != 1 || res.Transferred != 1000 {
				t.Errorf("%d transfers of %d positions", res.Transfers, res.Transferred)
			}
		})
	}
}

// A prompt of 4.194 GB over 50 GB/s beside a decode of 10 ms steps.
func TestDisaggregatedLeavesDecodesAlone(t *testing.T) {
	cost := sim.CostFunc(func(b sim.Batch) time.Duration {
		return 10*ms + time.Duration(b.PrefillTokens())*100*time.Microsecond
	})
	for _, tt := range []struct {
		side sim.FirstTokenSide
		want []time.Duration
	}{
		{sim.FirstFromPrefill, []time.Duration{3210 * ms, 3303_886_080}},
		{sim.FirstFromDecode, []time.Duration{3303_886_080}},
	} {
		link := sim.Link{Bandwidth: 50e9}
		cfg := split(1, 1, link, func(r *sim.Replica) { r.CostModel, r.FirstToken, r.BlockTokens = cost, tt.side, 16 })
		cfg.Link.TokenBytes = 131_072 // 32,000 tokens: 4.194 GB
		got, _, _ := tokens(t, cfg, []sim.Request{{ID: 1, Prompt: 32_000, Output: 3}})
		if d := cmp.Diff(tt.want, got[1][:len(tt.want)]); d != "" {
			t.Errorf("%v: token times (-want +got):\n%s", tt.side, d)
		}
		// The decode beside it runs undisturbed.
		got, _, _ = tokens(t, cfg, []sim.Request{{ID: 2, Prompt: 16, Output: 400}, {ID: 1, Arrival: sim.Time(50 * ms), Prompt: 32_000, Output: 3}})
		for i := 2; i < len(got[2]); i++ {
			if gap := got[2][i] - got[2][i-1]; gap != 10*ms {
				t.Fatalf("%v: gap %d of the other request is %v", tt.side, i, gap)
			}
		}
	}
}

// Two prompts complete at once and share the port of the decode replica; a
// third comes while they move.
func TestTransfersShareFairly(t *testing.T) {
	cfg := split(3, 1, sim.Link{Bandwidth: 10e9}, nil) // 1,000 tokens: 100 ms alone
	_, log, _ := tokens(t, cfg, []sim.Request{
		{ID: 1, Prompt: 1000, Output: 2}, {ID: 2, Prompt: 1000, Output: 2}, // at 40 ms
		{ID: 3, Arrival: sim.Time(50 * ms), Prompt: 1000, Output: 2}, // at 90 ms
	})
	// Half the rate each from 40 to 90 ms leaves 750 MB each; a third each takes
	// 225 ms, to 315 ms; the last has 250 MB left then, alone.
	want := map[string]int64{"id 1": 315e6, "id 2": 315e6, "id 3": 340e6}
	got := map[string]int64{}
	for _, line := range log {
		if strings.Contains(line, " pulled ") {
			var at int64
			fmt.Sscan(line, &at)
			for id := range want {
				if strings.Contains(line, id) {
					got[id] = at
				}
			}
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("arrivals (-want +got):\n%s", d)
	}
}

// Ports of different replicas do not disturb each other, and max-min fairness
// gives what a crowded port leaves over to others.
func TestTransfersUseWhatIsLeft(t *testing.T) {
	cfg := split(2, 2, sim.Link{Bandwidth: 10e9}, nil)
	cfg.Router = byID{0, 0, 1}
	cfg.Handoff = byID{2, 3, 3}
	// Requests 0 and 1 complete together on replica 0 and share its port; 2
	// comes from replica 1 into the port that 1 half fills.
	reqs := []sim.Request{{ID: 0, Prompt: 500, Output: 2}, {ID: 1, Prompt: 500, Output: 2}, {ID: 2, Prompt: 1000, Output: 2}}
	_, log, _ := tokens(t, cfg, reqs)
	var ends []string
	for _, line := range log {
		if strings.Contains(line, " pulled ") {
			ends = append(ends, strings.Fields(line)[0])
		}
	}
	// All three at 5 GB/s from 40 ms; 0 and 1 end at 140 ms with 500 MB each,
	// and 2, with 500 MB left, takes the port alone for 50 ms.
	if d := cmp.Diff([]string{"140000000", "140000000", "190000000"}, ends); d != "" {
		t.Errorf("arrivals (-want +got):\n%s", d)
	}
}

// byID routes request i to the i-th entry.
type byID []int

func (b byID) Route(_ sim.Time, q sim.Query, _ []sim.Load) int { return b[q.ID] }

func TestLinkWindows(t *testing.T) {
	run := func(w ...sim.Window) time.Duration {
		cfg := split(1, 1, sim.Link{Bandwidth: 10e9}, nil)
		cfg.Windows = w
		got, _, _ := tokens(t, cfg, []sim.Request{{ID: 1, Prompt: 1000, Output: 2}}) // from 40 to 140 ms
		return got[1][1]
	}
	at := func(d time.Duration) sim.Time { return sim.Time(d) }
	for _, tt := range []struct {
		name string
		w    []sim.Window
		want time.Duration
	}{
		{"none", nil, 147 * ms},
		{"half the speed of one port for 60 ms", []sim.Window{{Link: true, Replica: 1, From: at(50 * ms), To: at(110 * ms), Factor: 2}}, 177 * ms},
		{"a pause of every port", []sim.Window{{Link: true, Replica: -1, From: at(50 * ms), To: at(110 * ms), Pause: true}}, 207 * ms},
		{"the way back is free", []sim.Window{{Link: true, Replica: 0, From: at(0), To: at(40 * ms), Factor: 9}}, 147 * ms},
	} {
		if got := run(tt.w...); got != tt.want {
			t.Errorf("%s: second token after %v, want %v", tt.name, got, tt.want)
		}
	}
}

// With little memory on the decode side, transfers wait, the prefill side keeps
// its blocks and stops, and every request completes in the end.
func TestBackPressure(t *testing.T) {
	cfg := split(1, 1, sim.Link{}, func(r *sim.Replica) {
		r.KVBlocks = 250
		if r.Role == sim.RoleDecode {
			r.KVBlocks = 110 // one prompt at a time
		}
	})
	var held, waiting int
	cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
		if e.Kind == sim.StepEnd && e.Replica == 1 {
			waiting = max(waiting, int(e.Waiting))
		}
		if e.Kind == sim.StepEnd && e.Replica == 0 && e.FreeBlocks < 60 {
			held++
		}
	})}
	var reqs []sim.Request
	for i := range 8 {
		reqs = append(reqs, sim.Request{ID: i, Prompt: 1000, Output: 20})
	}
	got, log, res := tokens(t, cfg, reqs)
	if res.Completed != 8 || res.Rejected != 0 {
		t.Fatalf("%+v", res)
	}
	if waiting == 0 || held == 0 {
		t.Errorf("at most %d waited on the decode side, %d steps with a full prefill side", waiting, held)
	}
	// The prefill side holds two prompts: the third starts when the first has
	// left, and the last when the sixth is being pulled.
	last := got[7][0]
	if alone := 8 * 40 * ms; last <= alone+5*19*7*ms/2 {
		t.Errorf("the last first token comes after %v: the prefill side did not stop\n%s", last, strings.Join(log, "\n"))
	}
}

func TestTransferAborts(t *testing.T) {
	// A prompt of 40 ms, then 10 ms on the link; the client leaves at the time
	// given. The blocks of both sides are free in the end, which Check counts;
	// those of a transfer are when it ends.
	for _, tt := range []struct {
		at     time.Duration
		layers int
		held   bool // blocks are held after the abort
	}{
		{20 * ms, 0, false}, {45 * ms, 0, true}, {60 * ms, 0, false}, {20 * ms, 4, true}, {45 * ms, 4, false}, {41 * ms, 4, true},
	} {
		for _, chunk := range []int{0, 300} {
			cfg := split(1, 1, sim.Link{Layers: tt.layers}, func(r *sim.Replica) { r.KVBlocks, r.MaxBatchTokens = 200, chunk })
			cfg.FollowUp = func(c sim.Completion) []sim.Request {
				if c.Request.ID != 1 {
					return nil
				}
				return []sim.Request{{ID: 2, Arrival: c.End.Add(100 * ms), Prompt: 1990, Output: 2}}
			}
			var loads []sim.Load
			cfg.Admission = admitFunc(func(_ sim.Query, l []sim.Load) { loads = slices.Clone(l) })
			reqs := []sim.Request{{ID: 1, Prompt: 1000, Output: 50, Patience: sim.Patience{Total: tt.at}}, {ID: 3, Arrival: sim.Time(tt.at) + 1, Prompt: 1, Output: 1}}
			_, log, res := tokens(t, cfg, reqs)
			if res.Aborted != 1 || res.Completed != 2 {
				t.Errorf("abort at %v, %d layers: %+v\n%s", tt.at, tt.layers, res, strings.Join(log, "\n"))
			}
			for _, l := range loads {
				if l.Held != 0 || l.FreeBlocks != 200 {
					t.Errorf("abort at %v, %d layers: load %+v when all is over", tt.at, tt.layers, l)
				}
			}
		}
	}
}

type admitFunc func(sim.Query, []sim.Load)

func (f admitFunc) Admit(_ sim.Time, q sim.Query, l []sim.Load) sim.Decision {
	f(q, l)
	return sim.Decision{}
}

// The decode side has a part of the prompt in its cache and pulls the rest; of
// a prompt that it has whole, no byte moves.
func TestPullsWhatTheCacheLacks(t *testing.T) {
	chain := make([]kv.Hash, 100)
	for i := range chain {
		chain[i] = kv.Hash(i + 1)
	}
	for _, layers := range []int{0, 10} {
		cfg := split(1, 1, sim.Link{Layers: layers}, func(r *sim.Replica) { r.PrefixCache, r.KVBlocks = true, 1000 })
		reqs := []sim.Request{
			{ID: 1, Prompt: 600, Output: 2, Prefix: chain[:60], PrefixBlock: 10},
			{ID: 2, Arrival: sim.Time(time.Second), Prompt: 1000, Output: 2, Prefix: chain, PrefixBlock: 10},
			{ID: 3, Arrival: sim.Time(2 * time.Second), Prompt: 1000, Output: 2, Prefix: chain, PrefixBlock: 10},
		}
		_, log, res := tokens(t, cfg, reqs)
		var pulls []string
		for _, line := range log {
			if f := strings.Fields(line); len(f) > 6 && f[2] == "pull" {
				pulls = append(pulls, strings.Join(f[6:], " "))
			}
		}
		want := []string{"600 positions, cached 0", "400 positions, cached 600", "10 positions, cached 990"}
		if d := cmp.Diff(want, pulls); d != "" {
			t.Errorf("%d layers: pulls (-want +got):\n%s", layers, d)
		}
		if res.Transferred != 1010 || res.PrefixHits != 600+990 {
			t.Errorf("%d layers: %+v", layers, res)
		}
	}
}

// A request with one token and a decode on the side of the prompt needs no
// transfer.
func TestOneTokenStaysOnThePrefillSide(t *testing.T) {
	got, _, res := tokens(t, split(1, 1, sim.Link{Layers: 5}, nil), []sim.Request{{ID: 1, Prompt: 1000, Output: 1}, {ID: 2, Prompt: 1, Output: 1}})
	if res.Transfers != 0 || res.Completed != 2 || len(got[1]) != 1 {
		t.Errorf("%+v, tokens %v", res, got)
	}
}

func TestConfigRoles(t *testing.T) {
	for _, tt := range []struct {
		want   string
		change func(c *sim.Config)
	}{
		{"Link is nil", func(c *sim.Config) { c.Link = nil }},
		{"all have RolePrefill", func(c *sim.Config) { c.Replicas = c.Replicas[:2] }},
		{"all have RoleDecode", func(c *sim.Config) { c.Replicas = c.Replicas[2:] }},
		{"Router is nil", func(c *sim.Config) { c.Router = nil }},
		{"Handoff is nil", func(c *sim.Config) { c.Handoff = nil }},
		{"TokenBytes", func(c *sim.Config) { c.Link.TokenBytes = 0 }},
		{"Bandwidth", func(c *sim.Config) { c.Link.Bandwidth = -1 }},
		{"Fabric", func(c *sim.Config) { c.Link.Fabric = -1 }},
		{"Latency", func(c *sim.Config) { c.Link.Latency = -1 }},
		{"Layers", func(c *sim.Config) { c.Link.Layers = -1 }},
		{"Role is 3", func(c *sim.Config) { c.Replicas[0].Role = 3 }},
		{"FirstToken is 2", func(c *sim.Config) { c.Replicas[0].FirstToken = 2 }},
		{"Drafts", func(c *sim.Config) { c.Replicas[0].Drafts = 2 }},
		{"Windows[0].Replica", func(c *sim.Config) { c.Windows = []sim.Window{{Replica: -1, To: 1, Factor: 1}} }},
		{"Windows[0].Link", func(c *sim.Config) {
			c.Link = nil
			c.Replicas = c.Replicas[2:]
			c.Replicas[0].Role = 0
			c.Replicas[1].Role = 0
			c.Windows = []sim.Window{{Link: true, To: 1, Factor: 1}}
		}},
	} {
		cfg := split(2, 2, sim.Link{}, nil)
		tt.change(&cfg)
		if _, err := sim.Run(context.Background(), cfg, slice(nil)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v", tt.want, err)
		}
	}
}

// The decode side is chosen when a prompt is admitted: the router sees the load
// with that prompt, and with those chosen before.
func TestHandoffSeesTheAdmission(t *testing.T) {
	cfg := split(1, 1, sim.Link{Layers: 4}, func(r *sim.Replica) { r.KVBlocks = 300 })
	var got []string
	cfg.Handoff = routeFunc(func(q sim.Query, l []sim.Load) int {
		got = append(got, fmt.Sprintf("%d: %d waiting, %d running, %d pending, %d free, %d coming", q.ID, l[0].Waiting, l[0].Running, l[0].PendingPrompt, l[0].FreeBlocks, l[1].Coming))
		return 1
	})
	tokens(t, cfg, []sim.Request{{ID: 1, Prompt: 1000, Output: 2}, {ID: 2, Prompt: 500, Output: 2}})
	want := []string{"1: 0 waiting, 2 running, 0 pending, 150 free, 0 coming", "2: 0 waiting, 2 running, 0 pending, 150 free, 1 coming"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

type routeFunc func(sim.Query, []sim.Load) int

func (f routeFunc) Route(_ sim.Time, q sim.Query, l []sim.Load) int { return f(q, l) }

// A prompt that is preempted while it is sent has brought all positions in the
// end, whatever its own side finds in the prefix cache then.
func TestPullOfAPreemptedPrompt(t *testing.T) {
	chain := make([]kv.Hash, 100)
	for i := range chain {
		chain[i] = kv.Hash(i + 1)
	}
	cfg := split(1, 1, sim.Link{Layers: 10}, func(r *sim.Replica) { r.PrefixCache, r.MaxBatchTokens = true, 250 })
	passes := 0
	cfg.Replicas[0].Scheduler = sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
		if passes++; passes == 3 {
			p.Preempt(v.Running.First())
		}
		scheduler.ChunkedPrefill{}.Schedule(v, p)
	})
	_, log, res := tokens(t, cfg, []sim.Request{{ID: 1, Prompt: 1000, Output: 2, Prefix: chain, PrefixBlock: 10}})
	if res.Preemptions != 1 || res.Transferred != 1000 || !strings.Contains(strings.Join(log, "\n"), "pulled #1 id 1 1000 positions") {
		t.Errorf("%+v\n%s", res, strings.Join(log, "\n"))
	}
}

// What another request is going to compute here has no KV to share yet.
func TestPullOfBlocksThatAreNotComputed(t *testing.T) {
	chain := make([]kv.Hash, 100)
	for i := range chain {
		chain[i] = kv.Hash(i + 1)
	}
	cfg := split(1, 1, sim.Link{}, func(r *sim.Replica) { r.PrefixCache, r.EagerSharing = true, true })
	cfg.Router = byID{0, 1}
	cfg.Replicas[1].Scheduler = sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
		if v.Remote.Len()+v.Pulling.Len() > 0 {
			admitAll(v, p)
		}
		p.AddDecodes()
		if v.Running.Len() > 0 {
			for s := range v.Remote.All() {
				p.Pull(s)
			}
		}
		admitAll(v, p)
	})
	reqs := []sim.Request{{ID: 0, Prompt: 1000, Output: 2, Prefix: chain, PrefixBlock: 10}, {ID: 1, Prompt: 1000, Output: 2, Prefix: chain, PrefixBlock: 10, Arrival: sim.Time(60 * ms)}}
	_, log, _ := tokens(t, cfg, reqs)
	if !strings.Contains(strings.Join(log, "\n"), "pull #1 id 0 1000 positions, cached 0") {
		t.Error(strings.Join(log, "\n"))
	}
}

// What a batch keeps of its requests does not travel with them, and what a
// transfer reads is held even if only a slot was kept.
func TestRetainAndHandOver(t *testing.T) {
	for _, layers := range []int{0, 10} {
		for _, output := range []int{1, 3} {
			cfg := split(1, 1, sim.Link{Layers: layers, Bandwidth: 1e9}, func(r *sim.Replica) { r.KVBlocks, r.MaxSeqs = 101, 1 })
			cfg.Replicas[0].KVBlocks = 100
			cfg.Replicas[0].Scheduler = sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
				p.Release()
				admitAll(v, p)
				for s := range v.Running.All() {
					p.Retain(s, true, output == 3)
				}
			})
			var loads [][]sim.Load
			cfg.Admission = admitFunc(func(_ sim.Query, l []sim.Load) { loads = append(loads, slices.Clone(l)) })
			_, log, _ := tokens(t, cfg, []sim.Request{
				{ID: 1, Prompt: 1000, Output: output}, {ID: 2, Arrival: sim.Time(50 * ms), Prompt: 2000, Output: 1}, {ID: 3, Arrival: sim.Time(5 * time.Second), Prompt: 2000, Output: 1},
			})
			if l := loads[1][0]; output == 3 || layers == 10 {
				if l.FreeBlocks != 0 || l.Held != 100 {
					t.Errorf("%d layers, %d tokens: load %+v while the transfer reads", layers, output, l)
				}
			}
			if l := loads[2][1]; l.FreeBlocks != 101 || l.Running != 0 {
				t.Errorf("%d layers, %d tokens: load %+v of the decode side in the end\n%s", layers, output, l, strings.Join(log, "\n"))
			}
		}
	}
}

// What does not suit the decode side ends when it is handed over.
func TestHandOverToAnother(t *testing.T) {
	for _, layers := range []int{0, 10} {
		for _, tt := range []struct {
			name   string
			change func(r *sim.Replica)
			want   string
		}{
			{"fewer tokens", func(r *sim.Replica) { r.MaxModelLen = 1001 }, "r0 finish #1 id 1 length: 1 tokens"},
			{"no memory for the next token", func(r *sim.Replica) { r.KVBlocks = 100 }, "r0 reject #1 id 1 out_of_kv: 1 tokens"},
			{"prompt too long", func(r *sim.Replica) { r.MaxModelLen = 999 }, "r0 reject #1 id 1 exceeds_max_model_len: 1 tokens"},
			{"other blocks", func(r *sim.Replica) { r.PrefixCache, r.BlockTokens = true, 7 }, "r0 reject #1 id 1 incompatible_prefix_block: 1 tokens"},
		} {
			cfg := split(1, 1, sim.Link{Layers: layers}, nil)
			tt.change(&cfg.Replicas[1])
			_, log, _ := tokens(t, cfg, []sim.Request{{ID: 1, Prompt: 1000, Output: 9, Prefix: []kv.Hash{1, 2, 3}, PrefixBlock: 10}})
			if !strings.Contains(strings.Join(log, "\n"), tt.want) {
				t.Errorf("%s, %d layers: no %q:\n%s", tt.name, layers, tt.want, strings.Join(log, "\n"))
			}
		}
	}
}

// A pass that frees something and holds is asked again: here the youngest is
// evicted after the head of the queue was refused.
func TestHoldIsIgnoredAfterAnEviction(t *testing.T) {
	run := func(check bool) []string {
		cfg := oneReplica()
		r := &cfg.Replicas[0]
		r.KVBlocks, r.BlockTokens, cfg.Check = 4, 4, check
		passes := 0
		r.Scheduler = sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
			passes++
			admitAll(v, p)
			if passes == 2 {
				p.Preempt(v.Running.Last())
			}
			p.AddDecodes()
			p.Hold()
		})
		_, log, _ := tokens(t, cfg, []sim.Request{{ID: 1, Prompt: 6, Output: 3}, {ID: 2, Prompt: 6, Output: 2}, {ID: 3, Prompt: 7, Output: 2}})
		return log
	}
	if d := cmp.Diff(run(true), run(false)); d != "" {
		t.Errorf("holding changes the log (-without +with):\n%s", d)
	}
}

// A decode side that fetches nothing stops the prefill side; the error names the
// one that is to blame.
func TestStuckNamesTheDecodeSide(t *testing.T) {
	cfg := split(1, 1, sim.Link{}, func(r *sim.Replica) {
		if r.Role == sim.RoleDecode {
			r.Scheduler = scheduler.ChunkedPrefill{} // without Pull
		} else {
			r.KVBlocks = 101 // for one of them
		}
	})
	_, err := sim.Run(context.Background(), cfg, slice([]sim.Request{{ID: 0, Prompt: 1000, Output: 2}, {ID: 1, Prompt: 1000, Output: 2}}))
	mentions(t, err, "replica 1: no progress", "request 0 ")
}
