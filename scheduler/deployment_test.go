package scheduler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

// unit makes a replica that takes 5 ms a step, 0.1 ms a prompt token, and
// decodes 8 requests at a time.
func unit(int) sim.Replica {
	return sim.Replica{Scheduler: scheduler.ChunkedPrefill{}, KVBlocks: 2000, MaxSeqs: 8, MaxBatchTokens: 1024, CostModel: sim.CostFunc(func(b sim.Batch) time.Duration {
		return 5*ms + time.Duration(b.PrefillTokens())*ms/10
	})}
}

// fast carries 1 MB a token at 100 GB/s, 10 µs a token.
var fast = sim.Link{TokenBytes: 1e6, Bandwidth: 1e11}

// steady is n requests, one every so often.
func steady(n int, from sim.Time, every time.Duration, prompt, output int) (rs []sim.Request) {
	for i := range n {
		rs = append(rs, sim.Request{ID: int(from) + i, Arrival: from.Add(time.Duration(i) * every), Prompt: prompt, Output: output})
	}
	return rs
}

// filler is a deployment.
type filler interface{ Fill(*sim.Config) }

// deploy runs rs on a deployment.
func deploy(t *testing.T, d filler, rs []sim.Request, observers ...sim.Observer) sim.Result {
	t.Helper()
	cfg := sim.Config{Check: true, Observers: observers}
	d.Fill(&cfg)
	res, err := sim.Run(context.Background(), cfg, requests(rs...))
	if err != nil {
		t.Fatalf("%T: %v", d, err)
	}
	if res.Completed != int64(len(rs)) || res.Arrived != res.Completed {
		t.Errorf("%T: %+v", d, res)
	}
	return res
}

// The same requests through every deployment: each position is computed once,
// plus one a request where the decode side samples the first token; transfers
// move the prompts that were handed over.
func TestDeploymentsDoTheSameWork(t *testing.T) {
	const n, prompt, output = 60, 300, 20
	rs := steady(n, 0, 20*ms, prompt, output)
	rs[7].Prompt, rs[30].Prompt = 40, 50 // short ones
	const positions = n*(prompt+output-1) - 260 - 250
	idle := &scheduler.LoadThreshold{Prompts: 1e6, Requests: 1e6}
	for _, c := range []struct {
		name       string
		d          filler
		extra      int64
		transfers  int64
		transfered int64
	}{
		{"co-located", scheduler.Colocated{Replicas: 4, Replica: unit}, 0, 0, 0},
		{"disaggregated", scheduler.Disaggregated{Prefill: 1, Decode: 3, PrefillReplica: unit, Link: fast}, 0, n, n*prompt - 510},
		{"first token from the decode side", scheduler.Disaggregated{Prefill: 2, Decode: 2, PrefillReplica: unit, Link: fast, FirstToken: sim.FirstFromDecode}, n, n, n*prompt - 510},
		{"short prompts stay", scheduler.Disaggregated{Prefill: 2, Decode: 2, PrefillReplica: unit, DecodeReplica: unit, Link: fast, Local: 100}, 0, n - 2, (n - 2) * prompt},
		{"dynamic", scheduler.Dynamic{Prefill: 2, Decode: 2, Replica: unit, Link: fast, Roles: idle, FirstToken: sim.FirstFromDecode, Local: 45}, n - 1, n - 1, (n-1)*prompt - 250},
	} {
		res := deploy(t, c.d, rs)
		if got := res.PrefillTokens + res.DecodePositions; got != positions+c.extra {
			t.Errorf("%s: %d positions computed, want %d and %d", c.name, got, positions, c.extra)
		}
		if res.Transfers != c.transfers || res.Transferred != c.transfered {
			t.Errorf("%s: %d transfers of %d positions, want %d of %d", c.name, res.Transfers, res.Transferred, c.transfers, c.transfered)
		}
	}
}

// What a deployment sets, the next one replaces, and what it does not set stays.
func TestDeploymentsFillAConfig(t *testing.T) {
	var indices []int
	numbered := func(i int) sim.Replica {
		indices = append(indices, i)
		return sim.Replica{Scheduler: scheduler.ChunkedPrefill{}, MaxSeqs: i + 1}
	}
	watcher := &scheduler.WorkRatio{PromptRate: 1, TokenRate: 1}
	observers := make([]sim.Observer, 1, 8)
	observers[0] = watcher
	cfg := sim.Config{Classes: []sim.Class{{Name: "chat"}}, MaxSteps: 9, Observers: observers}
	describe := func() (out []string) {
		for _, r := range cfg.Replicas {
			out = append(out, fmt.Sprintf("%v %d %T first %d", r.Role, r.MaxSeqs, r.Scheduler, r.FirstToken))
		}
		return append(out, fmt.Sprintf("%T %T link %v roles %T %v, %d observers", cfg.Router, cfg.Handoff, cfg.Link != nil, cfg.Roles, cfg.SwitchCost, len(cfg.Observers)))
	}
	for _, c := range []struct {
		d    filler
		want []string
	}{
		{scheduler.Dynamic{Prefill: 2, Decode: 1, Replica: numbered, Link: fast, FirstToken: sim.FirstFromDecode, Roles: &scheduler.LoadThreshold{}, SwitchCost: time.Second}, []string{
			"prefill 1 scheduler.Pull first 1", "prefill 2 scheduler.Pull first 1", "decode 3 scheduler.Pull first 1",
			"*scheduler.Conditional *scheduler.DecodePool link true roles *scheduler.LoadThreshold 1s, 1 observers"}},
		{scheduler.Disaggregated{Prefill: 1, Decode: 2, PrefillReplica: numbered, Link: fast, FirstToken: sim.FirstFromDecode, Router: fixed(0)}, []string{
			"prefill 1 scheduler.ChunkedPrefill first 1", "decode 2 scheduler.Pull first 0", "decode 3 scheduler.Pull first 0",
			"scheduler_test.fixed *scheduler.DecodePool link true roles <nil> 0s, 1 observers"}},
		{scheduler.Disaggregated{Prefill: 1, Decode: 1, PrefillReplica: numbered, Link: fast, Handoff: fixed(1), DecodeReplica: func(int) sim.Replica {
			return sim.Replica{Scheduler: scheduler.VLLM1{}}
		}}, []string{
			"prefill 1 scheduler.ChunkedPrefill first 0", "decode 0 scheduler.VLLM1 first 0",
			"*scheduler.Conditional scheduler_test.fixed link true roles <nil> 0s, 1 observers"}},
		{scheduler.Disaggregated{Prefill: 1, Decode: 1, PrefillReplica: numbered, Link: fast, DecodeReplica: func(int) sim.Replica {
			return sim.Replica{Scheduler: scheduler.DistServe{}}
		}}, []string{
			"prefill 1 scheduler.ChunkedPrefill first 0", "decode 0 scheduler.DistServe first 0",
			"*scheduler.Conditional *scheduler.DecodePool link true roles <nil> 0s, 1 observers"}},
		{scheduler.Colocated{Replicas: 2, Replica: numbered}, []string{
			"both 1 scheduler.ChunkedPrefill first 0", "both 2 scheduler.ChunkedPrefill first 0",
			"scheduler.LeastLoaded <nil> link false roles <nil> 0s, 1 observers"}},
		{scheduler.Dynamic{Prefill: 1, Decode: 1, Replica: numbered, Link: fast, Roles: watcher}, []string{
			"prefill 1 scheduler.Pull first 0", "decode 2 scheduler.Pull first 0",
			"*scheduler.Conditional *scheduler.DecodePool link true roles *scheduler.WorkRatio 0s, 2 observers"}},
	} {
		c.d.Fill(&cfg)
		if d := cmp.Diff(c.want, describe()); d != "" {
			t.Errorf("%T (-want +got):\n%s", c.d, d)
		}
	}
	if d := cmp.Diff([]int{0, 1, 2, 0, 1, 2, 0, 0, 0, 1, 0, 1}, indices); d != "" {
		t.Errorf("replicas made (-want +got):\n%s", d)
	}
	if cfg.MaxSteps != 9 || len(cfg.Classes) != 1 || observers[:2][1] != nil {
		t.Errorf("a deployment changed more than its own: %+v, %v", cfg, observers[:2])
	}
	scheduler.Disaggregated{Prefill: 1, Decode: 1, PrefillReplica: unit, Headroom: 0.5}.Fill(&cfg)
	if got, want := cfg.Replicas[1].Scheduler, (scheduler.Pull{Scheduler: scheduler.ChunkedPrefill{}, Headroom: 0.5}); got != want {
		t.Errorf("the decode side has %+v, want %+v", got, want)
	}
}

func TestFaultyDeployments(t *testing.T) {
	for want, d := range map[string]filler{
		"Colocated.Replica is nil":            scheduler.Colocated{Replicas: 1},
		"Disaggregated.PrefillReplica is nil": scheduler.Disaggregated{Prefill: 1, Decode: 1, DecodeReplica: unit},
		"Disaggregated.DecodeReplica is nil":  scheduler.Disaggregated{Decode: 1},
		"Dynamic.Replica is nil":              scheduler.Dynamic{Prefill: 1, Decode: 1},
	} {
		if got := panics(func() { d.Fill(&sim.Config{}) }); got != "scheduler: "+want {
			t.Errorf("panic %q, want %q", got, want)
		}
	}
	var cfg sim.Config
	scheduler.Disaggregated{Decode: 2, PrefillReplica: unit, Link: fast}.Fill(&cfg)
	if _, err := sim.Run(context.Background(), cfg, requests()); err == nil || !strings.Contains(err.Error(), "all have RoleDecode") {
		t.Errorf("without a prefill pool: error %v", err)
	}
}

// One line switches between deployments of four replicas. Prompts of 100 ms, one
// every 40 ms, are too much for a prefill pool of one.
func Example_deployments() {
	controller := &scheduler.LoadThreshold{Prompts: 4000, Requests: 20}
	for _, d := range []interface{ Fill(*sim.Config) }{
		scheduler.Colocated{Replicas: 4, Replica: unit},
		scheduler.Disaggregated{Prefill: 1, Decode: 3, PrefillReplica: unit, Link: fast},
		scheduler.Dynamic{Prefill: 1, Decode: 3, Replica: unit, Link: fast, Roles: controller, SwitchCost: time.Second},
	} {
		var worst time.Duration
		cfg := sim.Config{Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == sim.FirstToken {
				worst = max(worst, e.Time.Sub(e.Timeline.Arrival))
			}
		})}}
		d.Fill(&cfg)
		res, err := sim.Run(context.Background(), cfg, requests(steady(200, 0, 40*ms, 1000, 20)...))
		fmt.Printf("%T: %d done, TTFT up to %v, %d switches %v\n", d, res.Completed, worst.Round(ms), res.Switches, err)
	}
	// Output:
	// scheduler.Colocated: 200 done, TTFT up to 105ms, 0 switches <nil>
	// scheduler.Disaggregated: 200 done, TTFT up to 13.021s, 0 switches <nil>
	// scheduler.Dynamic: 200 done, TTFT up to 3.3s, 2 switches <nil>
}
