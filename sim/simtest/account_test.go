package simtest_test

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/simtest"
)

// byHand returns the first replica of a scenario, with nothing around it, and
// the requests that have an output.
func byHand(s simtest.Scenario) (cfg sim.Config, requests []sim.Request) {
	cfg = s.Config(func() sim.Scheduler { return &simtest.Chaos{Seed: s.Seed} })
	cfg.Replicas, cfg.Router, cfg.Admission, cfg.FollowUp, cfg.Until, cfg.MaxSteps = cfg.Replicas[:1], nil, nil, nil, 0, 0
	for r := range s.Requests() {
		if r.Output > 0 {
			requests = append(requests, r)
		}
	}
	return cfg, requests
}

// Every request that finishes gets the tokens it wants and the positions that
// they need, whatever was shared, lost or drafted.
func TestEveryRequestGetsItsPositions(t *testing.T) {
	var finished, hits, lost, rejected int
	for seed := range scenarios(t, 150) {
		s := simtest.Scenario{Seed: seed}
		cfg, requests := byHand(s)
		accounts, err := simtest.Serve(cfg, requests)
		if err != nil {
			t.Fatalf("%v\nin %v", err, s)
		}
		for _, a := range accounts {
			if a.Kind != sim.Finish {
				if a.Reason == "" {
					t.Errorf("%+v does not end\nin %v", a, s)
				}
				continue
			}
			if a.Scheduled != a.Needs() {
				t.Errorf("%+v needs %d positions\nin %v", a, a.Needs(), s)
			}
			room := max(1, cmp.Or(cfg.Replicas[0].MaxModelLen, math.MaxInt)-a.Request.Prompt)
			if want := min(a.Request.Output, cmp.Or(a.Request.MaxOutput, math.MaxInt), room); a.Output != want {
				t.Errorf("%+v wants %d tokens\nin %v", a, want, s)
			}
			finished++
			hits += a.Hits
			lost += a.Lost
			rejected += a.Rejected
		}
	}
	t.Logf("%d requests: %d positions hit, %d lost, %d drafts rejected", finished, hits, lost, rejected)
	if slices.Contains([]int{finished, hits, lost, rejected}, 0) {
		t.Error("some of these never happen")
	}
}

// A prompt of 33 tokens twice, worked by hand: after the first token comes a
// step that confirms one of two drafts, and then one that confirms both, but
// only one token is left to give. The second request finds two blocks of 16.
func TestAccounts(t *testing.T) {
	replica := sim.Replica{
		Scheduler: scheduler.VLLM1{}, CostModel: sim.CostFunc(func(sim.Batch) time.Duration { return time.Millisecond }),
		KVBlocks: 10, PrefixCache: true, Drafts: 2,
		Drafter: sim.DrafterFunc(func(_ sim.Query, index, _ int) int { return 2 - index%3 }),
	}
	hashed := sim.Request{ID: 1, Prompt: 33, Output: 4, PrefixBlock: 16}
	hashed.Prefix = append(hashed.Prefix, 7, 8)
	second := hashed
	second.Arrival = sim.Time(time.Second)
	long := sim.Request{ID: 2, Arrival: sim.Time(time.Second), Prompt: 200, Output: 1}
	got, err := simtest.Serve(sim.Config{Replicas: []sim.Replica{replica}}, []sim.Request{hashed, second, long})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []simtest.Account{
		{Kind: sim.Finish, Reason: sim.FinishStop, Output: 4, Scheduled: 33 + 3 + 3, Rejected: 1 + 2},
		{Kind: sim.Finish, Reason: sim.FinishStop, Output: 4, Scheduled: 1 + 3 + 3, Hits: 32, Rejected: 1 + 2},
		{Kind: sim.Reject, Reason: sim.RejectKVCapacity},
	} {
		a := got[i]
		if a.Kind != want.Kind || a.Reason != want.Reason || a.Output != want.Output || a.Scheduled != want.Scheduled || a.Hits != want.Hits || a.Rejected != want.Rejected {
			t.Errorf("account %d: got %+v, want %+v", i, a, want)
		}
		if a.Kind == sim.Finish && a.Needs() != want.Scheduled {
			t.Errorf("account %d: needs %d, want %d", i, a.Needs(), want.Scheduled)
		}
	}
}

func TestServeErrors(t *testing.T) {
	cfg, _ := byHand(simtest.Scenario{Seed: 1})
	if _, err := simtest.Serve(cfg, []sim.Request{{ID: 5, Prompt: 3}}); err == nil || err.Error() != "simtest: Serve: requests[0] (id 5): Output is 0" {
		t.Errorf("without output: %v", err)
	}
	cfg.Replicas[0].Scheduler = sim.SchedulerFunc(func(sim.View, *sim.Plan) {})
	if _, err := simtest.Serve(cfg, []sim.Request{{ID: 5, Prompt: 3, Output: 1}}); err == nil || !strings.Contains(err.Error(), "no token in 65536 passes, with 1 waiting and 0 running") {
		t.Errorf("with a scheduler that plans nothing: %v", err)
	}
	if _, err := simtest.Serve(sim.Config{}, nil); err == nil || !strings.Contains(err.Error(), "Replicas is empty") {
		t.Errorf("without a replica: %v", err)
	}
}
