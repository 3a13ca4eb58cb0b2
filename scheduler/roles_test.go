package scheduler_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

// pooled makes the loads of a prefill pool with so many positions to compute
// each, and behind it a decode pool with so many requests each.
func pooled(positions, requests []int) (loads []sim.Load) {
	for _, n := range positions {
		loads = append(loads, sim.Load{Role: sim.RolePrefill, PendingPrompt: n, Waiting: 1, Replica: len(loads)})
	}
	for _, n := range requests {
		loads = append(loads, sim.Load{Role: sim.RoleDecode, Running: n, Replica: len(loads)})
	}
	return loads
}

func change(replica int, role sim.Role) []sim.RoleChange {
	return []sim.RoleChange{{Replica: replica, Role: role}}
}

func TestLoadThreshold(t *testing.T) {
	const prefill, decode = sim.RolePrefill, sim.RoleDecode
	closed := pooled([]int{101, 101}, []int{0, 0, 0})
	closed[4].Closed = true
	both := append(pooled([]int{900}, []int{0}), sim.Load{Role: sim.RoleBoth, Replica: 2})
	coming := pooled([]int{101, 101}, []int{1, 0})
	coming[3].Coming = 2
	held := pooled([]int{0, 0, 0}, []int{11})
	held[0].Held, held[1].Held = 9, 1
	for _, c := range []struct {
		name  string
		loads []sim.Load
		want  []sim.RoleChange
	}{
		{"nothing to do", pooled([]int{0, 0}, []int{0, 0}), nil},
		{"at the thresholds", pooled([]int{100, 100}, []int{0, 0}), nil},
		{"at that of the decodes", pooled([]int{0, 0}, []int{10, 10}), nil},
		{"prompts above it, decodes have room", pooled([]int{101, 100}, []int{3, 1}), change(3, prefill)},
		// 8 requests on two replicas would be 7.5 of 10 on one: 75 %.
		{"below the calm level on one replica less", pooled([]int{101, 101}, []int{4, 3}), change(3, prefill)},
		{"not below it", pooled([]int{101, 101}, []int{4, 4}), nil},
		{"the last decode replica stays", pooled([]int{900}, []int{0}), nil},
		{"decodes above, prompts have room", pooled([]int{0, 30, 9}, []int{11}), change(0, decode)},
		{"not enough of it", pooled([]int{0, 160, 9}, []int{11}), nil},
		{"the last prefill replica stays", pooled([]int{0}, []int{11, 11}), nil},
		{"both above", pooled([]int{101, 101}, []int{11, 11}), nil},
		{"one drains", closed, nil},
		{"a replica of both roles is left alone", both, nil},
		{"what is going to come counts", coming, change(2, prefill)},
		{"of equals, the one with fewer blocks held", held, change(2, decode)},
	} {
		ctl := &scheduler.LoadThreshold{Prompts: 100, Requests: 10}
		got, next := ctl.Control(at(7), c.loads)
		if d := cmp.Diff(c.want, got); d != "" || next != at(1007) {
			t.Errorf("%s: next look at %v, changes (-want +got):\n%s", c.name, next, d)
		}
	}
}

func TestLoadThresholdOptions(t *testing.T) {
	busy, idle := pooled([]int{101, 101}, []int{1, 0, 0}), pooled([]int{0, 0}, []int{0, 0, 0})
	ctl := &scheduler.LoadThreshold{Prompts: 100, Requests: 10, Looks: 3, Every: 50 * ms}
	var got []int
	for i, loads := range [][]sim.Load{busy, busy, idle, busy, busy, busy, busy, busy, busy} {
		changes, next := ctl.Control(at(float64(50*i)), loads)
		got = append(got, len(changes))
		if next != at(float64(50*i+50)) {
			t.Errorf("look %d: next at %v", i, next)
		}
	}
	// An idle look ends the row; a change begins another.
	if d := cmp.Diff([]int{0, 0, 0, 0, 0, 1, 0, 0, 1}, got); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
	for _, c := range []struct {
		ctl  scheduler.LoadThreshold
		want int
	}{
		{scheduler.LoadThreshold{MinDecode: 3}, 0},
		{scheduler.LoadThreshold{MinDecode: 2}, 1},
		{scheduler.LoadThreshold{Calm: 0.05}, 0}, // 1 request on two replicas is 5 %
		{scheduler.LoadThreshold{Calm: 0.06}, 1},
	} {
		c.ctl.Prompts, c.ctl.Requests = 100, 10
		if got, _ := c.ctl.Control(0, busy); len(got) != c.want {
			t.Errorf("%+v: changes %v", &c.ctl, got)
		}
	}
	crowded := pooled([]int{0, 0}, []int{11, 11})
	if got, _ := (&scheduler.LoadThreshold{Prompts: 100, Requests: 10, MinPrefill: 2}).Control(0, crowded); got != nil {
		t.Errorf("with MinPrefill: changes %v", got)
	}
}

// arrivals tells a controller of n requests, and that as many have completed.
func arrivals(c *scheduler.WorkRatio, n, prompt, output int) {
	for range n {
		c.Observe(sim.Event{Kind: sim.Arrive, Prompt: prompt})
		c.Observe(sim.Event{Kind: sim.Queue, Prompt: prompt})
		c.Observe(sim.Event{Kind: sim.FirstToken, Prompt: prompt, Output: 1})
		c.Observe(sim.Event{Kind: sim.Finish, Prompt: prompt, Output: output})
	}
}

func TestWorkRatio(t *testing.T) {
	const prefill, decode = sim.RolePrefill, sim.RoleDecode
	for _, c := range []struct {
		name           string
		prompt, output int // a request
		loads          []sim.Load
		want           []sim.RoleChange
	}{
		// 1,000 prompt tokens a second and 100 output tokens a second a replica.
		{"half and half", 1000, 100, pooled([]int{5, 6}, []int{1, 0}), nil},
		{"three quarters", 3000, 100, pooled([]int{5, 6}, []int{1, 0}), change(3, prefill)},
		{"three quarters, as they are", 3000, 100, pooled([]int{5, 6, 7}, []int{1}), nil},
		{"a quarter", 1000, 300, pooled([]int{5, 6}, []int{1, 0}), change(0, decode)},
		// 2.75 of four replicas: three quarters away from two.
		{"at the margin", 2750, 125, pooled([]int{5, 6}, []int{1, 0}), nil},
		{"over the margin", 2751, 124, pooled([]int{5, 6}, []int{1, 0}), change(3, prefill)},
		{"under it", 1000, 220, pooled([]int{5, 6}, []int{1, 0}), nil}, // 1.25
		{"well under it", 1000, 221, pooled([]int{5, 6}, []int{1, 0}), change(0, decode)},
		{"nearly all prompts", 9000, 1, pooled([]int{5, 6, 7}, []int{1}), nil},
		{"nearly all outputs", 1, 9000, pooled([]int{5}, []int{1, 2, 3}), nil},
		{"a replica of both roles is left alone", 1000, 100, append(pooled([]int{5}, []int{1}), sim.Load{Role: sim.RoleBoth, Replica: 2}), nil},
	} {
		ctl := &scheduler.WorkRatio{PromptRate: 1000, TokenRate: 100}
		arrivals(ctl, 10, c.prompt, c.output)
		got, next := ctl.Control(at(7), c.loads)
		if d := cmp.Diff(c.want, got); d != "" || next != at(1007) {
			t.Errorf("%s: next look at %v, changes (-want +got):\n%s", c.name, next, d)
		}
	}
}

func TestWorkRatioOptions(t *testing.T) {
	loads := pooled([]int{5, 6}, []int{1, 0})
	moves := func(c scheduler.WorkRatio, prompt, output int) bool {
		c.PromptRate, c.TokenRate = 1000, 100
		arrivals(&c, 10, prompt, output)
		got, _ := c.Control(0, loads)
		return len(got) == 1
	}
	for _, c := range []struct {
		name           string
		ctl            scheduler.WorkRatio
		prompt, output int
		want           bool
	}{
		{"3 of 4 replicas", scheduler.WorkRatio{}, 3000, 100, true},
		{"a margin of half a replica", scheduler.WorkRatio{Margin: 0.5}, 3000, 100, false},
		{"two decode replicas at least", scheduler.WorkRatio{MinDecode: 2}, 3000, 100, false},
		{"1 of 4 replicas", scheduler.WorkRatio{}, 1000, 300, true},
		{"two prefill replicas at least", scheduler.WorkRatio{MinPrefill: 2}, 1000, 300, false},
	} {
		if got := moves(c.ctl, c.prompt, c.output); got != c.want {
			t.Errorf("%s: moves %v", c.name, got)
		}
	}

	// Nine requests are too few, also with what has faded of others.
	few := &scheduler.WorkRatio{PromptRate: 1000, TokenRate: 100}
	arrivals(few, 9, 3000, 100)
	for range 100 {
		if got, _ := few.Control(0, loads); got != nil {
			t.Errorf("nine requests: changes %v", got)
		}
	}
	arrivals(few, 9, 3000, 100)
	if got, _ := few.Control(0, loads); got != nil {
		t.Errorf("nine requests, and nine long ago: changes %v", got)
	}
	arrivals(few, 2, 3000, 100)
	if got, _ := few.Control(0, loads); len(got) != 1 {
		t.Errorf("eleven requests within a second: changes %v", got)
	}

	// Without answers it does not know their length, and while one drains it waits.
	ctl := &scheduler.WorkRatio{PromptRate: 1000, TokenRate: 100}
	for range 20 {
		ctl.Observe(sim.Event{Kind: sim.Arrive, Prompt: 9000})
	}
	if got, _ := ctl.Control(0, loads); got != nil {
		t.Errorf("without answers: changes %v", got)
	}
	arrivals(ctl, 10, 9000, 1)
	loads = pooled([]int{5, 6}, []int{1, 0, 3, 3})
	loads[3].Closed = true
	if got, _ := ctl.Control(0, loads); got != nil {
		t.Errorf("while one drains: changes %v", got)
	}
	loads[3].Closed = false
	if got, _ := ctl.Control(0, loads); len(got) != 1 {
		t.Errorf("afterwards: changes %v", got)
	}
}

// What is older fades: of a window of w looks, m looks after ten of other work,
// the part that is new is (1 - k^m) / (1 - k^(m+10)) with k = w/(w+1). Prompts of
// 1,000 tokens and then of 2,300 pass the 2,200 that move a replica when that
// part is 12/13.
func TestWorkRatioWindow(t *testing.T) {
	for _, c := range []struct {
		window time.Duration
		want   int
	}{{time.Second, 4}, {10 * time.Second, 23}, {0, 45}} {
		ctl := &scheduler.WorkRatio{PromptRate: 1000, TokenRate: 100, Window: c.window}
		loads := pooled([]int{0, 0}, []int{0, 0})
		look := func(prompt int) bool {
			arrivals(ctl, 20, prompt, 100)
			got, _ := ctl.Control(0, loads)
			return len(got) > 0
		}
		for range 10 {
			if look(1000) {
				t.Errorf("window %v: a change without a cause", c.window)
			}
		}
		looks := 1
		for looks < 100 && !look(2300) {
			looks++
		}
		if looks != c.want {
			t.Errorf("window %v: a change after %d looks, want %d", c.window, looks, c.want)
		}
	}
}

func TestFaultyControllers(t *testing.T) {
	for _, c := range []struct {
		ctl  sim.RoleController
		want string
	}{
		{&scheduler.LoadThreshold{Requests: 1}, "0 positions and 1 requests"},
		{&scheduler.LoadThreshold{Prompts: 1}, "1 positions and 0 requests"},
		{&scheduler.LoadThreshold{Prompts: 1, Requests: 1, Calm: 1.5}, "Calm 1.5"},
		{&scheduler.LoadThreshold{Prompts: 1, Requests: 1, Looks: -1}, "Looks -1"},
		{&scheduler.LoadThreshold{Prompts: 1, Requests: 1, Every: -1}, "LoadThreshold.Every is -1ns"},
		{&scheduler.WorkRatio{PromptRate: 1}, "1 prompt and 0 output tokens"},
		{&scheduler.WorkRatio{TokenRate: 1}, "0 prompt and 1 output tokens"},
		{&scheduler.WorkRatio{PromptRate: 1, TokenRate: 1, Margin: -1}, "Margin -1"},
		{&scheduler.WorkRatio{PromptRate: 1, TokenRate: 1, Window: -1}, "Window -1ns"},
		{&scheduler.WorkRatio{PromptRate: 1, TokenRate: 1, Every: -1}, "WorkRatio.Every is -1ns"},
	} {
		got := panics(func() { c.ctl.Control(0, pooled([]int{1}, []int{1})) })
		if !strings.HasPrefix(got, "scheduler: ") || !strings.Contains(got, c.want) {
			t.Errorf("panic %q, want %q in it", got, c.want)
		}
	}
}

// shift is 30 s of prompt work for three replicas and then 30 s of decode work
// for three.
func shift() []sim.Request {
	rs := steady(750, 0, 40*ms, 1000, 10)
	return append(rs, steady(600, at(30_000), 50*ms, 50, 120)...)
}

// roles is an observer that follows the prefill pool and how long requests take.
type roles struct {
	prefill  int
	sizes    []int           // of the prefill pool after each change
	switches []time.Duration // from drain to open
	took     time.Duration   // from arrival to last token, summed
}

func (r *roles) Observe(e sim.Event) {
	switch {
	case e.Kind == sim.Finish:
		r.took += e.Time.Sub(e.Timeline.Arrival)
	case e.Kind == sim.Drain && e.Reason == "decode":
		r.prefill--
	case e.Kind == sim.Open && e.Reason == "prefill":
		r.prefill++
	}
	if e.Kind == sim.Open {
		r.switches = append(r.switches, e.Took)
		r.sizes = append(r.sizes, r.prefill)
	}
}

// Both controllers follow the work and lose nothing. They do better than every
// split that stays, and worse the longer a switch takes.
func TestRolesFollowTheWork(t *testing.T) {
	static := time.Hour
	for i := 1; i < 4; i++ {
		seen := &roles{}
		deploy(t, scheduler.Disaggregated{Prefill: i, Decode: 4 - i, PrefillReplica: unit, Link: fast}, shift(), seen)
		static = min(static, seen.took/1350)
	}
	for name, controller := range map[string]func() sim.RoleController{
		"threshold": func() sim.RoleController { return &scheduler.LoadThreshold{Prompts: 3000, Requests: 14, Looks: 2} },
		"ratio": func() sim.RoleController {
			return &scheduler.WorkRatio{PromptRate: 9500, TokenRate: 1400, Window: 5 * time.Second}
		},
	} {
		before := time.Duration(0)
		for _, cost := range []time.Duration{0, 5 * time.Second} {
			seen := &roles{prefill: 2}
			res := deploy(t, scheduler.Dynamic{Prefill: 2, Decode: 2, Replica: unit, Link: fast, Roles: controller(), SwitchCost: cost}, shift(), seen)
			mean := seen.took / 1350
			t.Logf("%s, switch cost %v: prefill pool 2 %v, a request takes %v, static %v", name, cost, seen.sizes, mean, static)
			if n := len(seen.sizes); n < 2 || n > 4 || seen.sizes[0] != 3 || seen.sizes[n-1] > 2 || res.Switches != int64(n) {
				t.Errorf("%s, switch cost %v: prefill pools of %v, %d switches", name, cost, seen.sizes, res.Switches)
			}
			if mean >= static || mean <= before {
				t.Errorf("%s, switch cost %v: a request takes %v, at best %v with a split that stays, %v with a lower cost", name, cost, mean, static, before)
			}
			before = mean
			for _, took := range seen.switches {
				if took < cost {
					t.Errorf("%s: a switch took %v, with a cost of %v", name, took, cost)
				}
			}
		}
	}
}
