package simtest_test

import (
	"cmp"
	"math"
	"strings"
	"testing"
	"time"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/simtest"
)

// byHand returns a replica of a scenario, with nothing around it, and the
// requests that have an output.
func byHand(s simtest.Scenario) (cfg sim.Config, requests []sim.Request) {
	cfg = s.Config(func() sim.Scheduler { return &simtest.Chaos{Seed: s.Seed} })
	r := cfg.Replicas[int(s.Seed)%len(cfg.Replicas)]
	r.Role, r.Group, r.Strict = sim.RoleBoth, 0, false
	for r := range s.Requests() {
		if r.Output > 0 {
			requests = append(requests, r)
		}
	}
	return sim.Config{Replicas: []sim.Replica{r}, Classes: cfg.Classes, TokenTimes: true}, requests
}

// part says that some positions of every third request are elsewhere.
func part(r sim.Request) int {
	switch r.ID % 6 {
	case 0:
		return r.Prompt
	case 3:
		return r.Prompt / 2
	}
	return 0
}

// Every request that finishes gets the tokens it wants and the positions that
// they need, whatever was shared, fetched, swapped, lost, drafted or too much.
func TestEveryRequestGetsItsPositions(t *testing.T) {
	sums := map[string]int{}
	for seed := range scenarios(t, 200) {
		s := simtest.Scenario{Seed: seed, Deployments: seed%2 == 1}
		cfg, requests := byHand(s)
		hand := simtest.Hand{Config: cfg}
		if s.Deployments {
			hand.Remote, hand.Transfer = part, time.Duration(seed%7)*5*time.Microsecond
		}
		accounts, err := hand.Serve(requests)
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
			sums["finished"]++
			for name, n := range map[string]int{"hit": a.Hits, "transferred": a.Transferred, "again": a.Again, "lost": a.Lost, "rejected": a.Rejected, "surplus": a.Surplus} {
				sums[name] += n
			}
		}
	}
	t.Logf("requests finished, and positions: %v", sums)
	for _, name := range []string{"finished", "hit", "transferred", "again", "lost", "rejected", "surplus"} {
		if sums[name] == 0 {
			t.Errorf("none %s", name)
		}
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

// The same by hand for a prompt of 33 tokens whose KV is elsewhere, all or a part
// of it, and for one with a step in flight when it ends.
func TestAccountsOfDeployments(t *testing.T) {
	for _, tt := range []struct {
		remote, inFlight int
		want             simtest.Account
	}{
		{33, 1, simtest.Account{Transferred: 33, Again: 1, Scheduled: 3}},
		{20, 1, simtest.Account{Transferred: 20, Scheduled: 13 + 2}},
		{0, 2, simtest.Account{Scheduled: 33 + 2 + 1, Surplus: 1}},
	} {
		hand := simtest.Hand{
			Config: sim.Config{Replicas: []sim.Replica{{
				Scheduler: scheduler.Pull{Scheduler: scheduler.VLLM1{}}, CostModel: sim.CostFunc(func(sim.Batch) time.Duration { return time.Millisecond }),
				KVBlocks: 10, InFlight: tt.inFlight, Async: sim.Async(2 * (tt.inFlight - 1)),
			}}},
			Remote: func(sim.Request) int { return tt.remote }, Transfer: time.Millisecond,
		}
		accounts, err := hand.Serve([]sim.Request{{ID: 1, Prompt: 33, Output: 3}})
		if err != nil {
			t.Fatal(err)
		}
		a, want := accounts[0], tt.want
		if a.Transferred != want.Transferred || a.Again != want.Again || a.Scheduled != want.Scheduled || a.Surplus != want.Surplus || a.Needs() != want.Scheduled {
			t.Errorf("%d remote, %d in flight: got %+v, want %+v", tt.remote, tt.inFlight, a, want)
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
