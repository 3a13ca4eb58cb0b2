package sim_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

// script asks for changes at given instants.
type script map[sim.Time][]sim.RoleChange

func (s script) Control(now sim.Time, _ []sim.Load) (changes []sim.RoleChange, next sim.Time) {
	next = sim.Never
	for at := range s {
		if at > now {
			next = min(next, at)
		}
	}
	return s[now], next
}

// open picks the first open replica that is not of the role.
type open struct{ not sim.Role }

func (o open) Route(_ sim.Time, _ sim.Query, loads []sim.Load) int {
	for i, l := range loads {
		if l.Role != o.not && !l.Closed {
			return i
		}
	}
	return -1
}

// moving is a deployment of four replicas that any role suits.
func moving(roles script, cost time.Duration) sim.Config {
	cfg := split(2, 2, sim.Link{Bandwidth: 10e9}, func(r *sim.Replica) { // 1,000 tokens: 100 ms
		r.Scheduler = scheduler.Pull{Scheduler: scheduler.ChunkedPrefill{}}
	})
	cfg.Router, cfg.Handoff, cfg.Roles, cfg.SwitchCost = open{sim.RoleDecode}, open{sim.RolePrefill}, roles, cost
	return cfg
}

func TestRolesMove(t *testing.T) {
	const start = sim.Time(10 * ms)
	cfg := moving(script{0: nil, start: {{Replica: 0, Role: sim.RoleDecode}}}, 30*ms)
	reqs := []sim.Request{
		{ID: 1, Prompt: 1000, Output: 3},                               // on replica 0 when that is closed
		{ID: 2, Arrival: start + 1, Prompt: 1000, Output: 2},           // goes to replica 1
		{ID: 3, Arrival: sim.Time(time.Second), Prompt: 10, Output: 2}, // decoded by replica 0
	}
	times, log, res := tokens(t, cfg, reqs)
	var roles []string
	for _, line := range log {
		if strings.Contains(line, " drain ") || strings.Contains(line, " open ") {
			roles = append(roles, line)
		}
	}
	// The prompt is complete at 40 ms, its KV has left at 140 ms, or later: the
	// other transfer shares the port of replica 2 from 50 ms and 1 ns on.
	want := []string{"10000000 r0 drain as decode after 0", "259999999 r0 open as decode after 249999999"}
	if d := cmp.Diff(want, roles); d != "" {
		t.Errorf("changes (-want +got):\n%s\n%s", d, strings.Join(log, "\n"))
	}
	if res.Switches != 1 || res.Completed != 3 || res.Arrived != 3 {
		t.Errorf("%+v", res)
	}
	if times[1][0] != 40*ms || times[2][0] != 40*ms {
		t.Errorf("first tokens after %v and %v", times[1][0], times[2][0])
	}
	if last := log[len(log)-2]; !strings.Contains(last, " r0 step ") {
		t.Errorf("the last request did not end on replica 0: %s", last)
	}
}

// A change that is taken back while the replica drains leaves its role.
func TestRoleChangeTakenBack(t *testing.T) {
	cfg := moving(script{0: {{Replica: 0, Role: sim.RoleDecode}}, 5: {{Replica: 0, Role: sim.RolePrefill}}}, 20)
	_, log, res := tokens(t, cfg, []sim.Request{{ID: 1, Prompt: 10, Output: 2}, {ID: 2, Arrival: 100, Prompt: 10, Output: 2}})
	if res.Switches != 1 || !strings.Contains(strings.Join(log, "\n"), "20 r0 open as prefill after 20") {
		t.Errorf("%+v\n%s", res, strings.Join(log, "\n"))
	}
}

// A replica that waits for a prompt before it changes its role does not wait for
// one that is given up.
func TestDrainWithoutThePrompt(t *testing.T) {
	cfg := moving(script{0: nil, millisecond(10): {{Replica: 2, Role: sim.RolePrefill}}}, 5*ms)
	cfg.Link.Layers = 4
	cfg.Replicas[2].Scheduler = scheduler.ChunkedPrefill{} // pulls nothing
	_, log, _ := tokens(t, cfg, []sim.Request{
		{ID: 1, Prompt: 1000, Output: 3, Patience: sim.Patience{Total: 20 * ms}},
		{ID: 2, Arrival: millisecond(100), Prompt: 10, Output: 2},
	})
	if !strings.Contains(strings.Join(log, "\n"), "25000000 r2 open as prefill after 15000000") {
		t.Error(strings.Join(log, "\n"))
	}
}

// The controller is asked while requests are there or to come, and not longer.
func TestControllerStops(t *testing.T) {
	asked := 0
	cfg := moving(nil, 0)
	cfg.Roles = everyMillisecond{&asked}
	cfg.FollowUp = func(c sim.Completion) []sim.Request {
		if c.Request.ID > 1 {
			return nil
		}
		return []sim.Request{{ID: 2, Arrival: c.End.Add(time.Second), Prompt: 10, Output: 2}}
	}
	_, _, res := tokens(t, cfg, []sim.Request{{ID: 1, Prompt: 10, Output: 2}})
	if res.Completed != 2 || time.Duration(asked)*ms < time.Second || time.Duration(res.End) > 1100*ms {
		t.Errorf("asked %d times, end at %v, %+v", asked, res.End, res)
	}
}

// A controller may look at an idle system for as long as nothing arrives.
func TestControllerInQuietTimes(t *testing.T) {
	asked := 0
	cfg := moving(nil, 0)
	cfg.Roles = everyMillisecond{&asked}
	_, _, res := tokens(t, cfg, []sim.Request{{ID: 1, Prompt: 10, Output: 2}, {ID: 2, Arrival: sim.Time(3 * time.Minute), Prompt: 10, Output: 2}})
	if res.Completed != 2 || asked < 180_000 {
		t.Errorf("asked %d times, %+v", asked, res)
	}
}

type everyMillisecond struct{ asked *int }

func (c everyMillisecond) Control(now sim.Time, _ []sim.Load) ([]sim.RoleChange, sim.Time) {
	*c.asked++
	return nil, now.Add(ms)
}

func TestRoleErrors(t *testing.T) {
	for _, tt := range []struct {
		want   string
		change func(c *sim.Config)
	}{
		{"of those open 0 take prompts", func(c *sim.Config) {
			c.Roles = script{0: {{Replica: 0, Role: sim.RoleDecode}, {Replica: 1, Role: sim.RoleDecode}}}
		}},
		{"0 decode", func(c *sim.Config) {
			c.Roles = script{0: {{Replica: 2, Role: sim.RolePrefill}, {Replica: 3, Role: sim.RolePrefill}}}
		}},
		{"replica 7 of 4", func(c *sim.Config) { c.Roles = script{0: {{Replica: 7}}} }},
		{"prefill on replica 3 with InFlight 2", func(c *sim.Config) {
			c.Replicas[3].InFlight = 2
			c.Roles = script{0: {{Replica: 3, Role: sim.RolePrefill}}}
		}},
		{"asks for the next call", func(c *sim.Config) { c.Roles = atOnce{} }},
		{"SwitchCost", func(c *sim.Config) { c.SwitchCost = -1 }},
		{"needs Router", func(c *sim.Config) { c.Handoff = nil; c.Replicas = c.Replicas[:3] }},
	} {
		cfg := moving(script{}, 0)
		tt.change(&cfg)
		if _, err := sim.Run(context.Background(), cfg, slice([]sim.Request{{ID: 1, Prompt: 10, Output: 2}})); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v", tt.want, err)
		}
	}
}

type atOnce struct{}

func (atOnce) Control(now sim.Time, _ []sim.Load) ([]sim.RoleChange, sim.Time) { return nil, now }
