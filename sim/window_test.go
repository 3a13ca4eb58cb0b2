package sim_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

// ends runs one request of four tokens on a replica with steps of 10 ms and
// returns the ends of the steps in ms.
func ends(t *testing.T, windows ...sim.Window) (ms []float64, res sim.Result) {
	t.Helper()
	cfg := oneReplica(sim.ObserverFunc(func(e sim.Event) {
		if e.Kind == sim.StepEnd {
			ms = append(ms, e.Time.Milliseconds())
		}
	}))
	cfg.Replicas[0].Scheduler = scheduler.ChunkedPrefill{}
	cfg.Replicas[0].CostModel = everyStep(10 * time.Millisecond)
	cfg.Windows = windows
	return ms, mustRun(t, cfg, sim.Request{ID: 1, Prompt: 4, Output: 4})
}

func TestWindows(t *testing.T) {
	for _, c := range []struct {
		name    string
		windows []sim.Window
		want    []float64
	}{
		{"none", nil, []float64{10, 20, 30, 40}},
		// The step that starts at 10 is in the window, the one at 30 is not.
		{"straggler", []sim.Window{{From: millisecond(10), To: millisecond(30), Factor: 2.5}}, []float64{10, 35, 45, 55}},
		{"faster", []sim.Window{{From: millisecond(10), To: millisecond(16), Factor: 0.5}}, []float64{10, 15, 20, 30}},
		// The step in flight at 15 ends at 20; nothing starts before 27.
		{"pause", []sim.Window{{From: millisecond(15), To: millisecond(27), Pause: true}}, []float64{10, 20, 37, 47}},
		{"pause between steps", []sim.Window{{From: millisecond(12), To: millisecond(18), Pause: true}}, []float64{10, 20, 30, 40}},
		{"pause at the start", []sim.Window{{To: millisecond(5), Pause: true}}, []float64{15, 25, 35, 45}},
		{"one after the other", []sim.Window{
			{From: millisecond(20), To: millisecond(22), Factor: 3},
			{From: millisecond(10), To: millisecond(20), Pause: true},
		}, []float64{10, 50, 60, 70}},
		{"of another time", []sim.Window{{From: millisecond(40), To: millisecond(90), Pause: true}}, []float64{10, 20, 30, 40}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, res := ends(t, c.windows...)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("step ends (-want +got):\n%s", d)
			}
			if want := c.want[len(c.want)-1]; res.End.Milliseconds() != want {
				t.Errorf("the run ends at %v, want %v ms", res.End, want)
			}
		})
	}
}

func TestWindowErrors(t *testing.T) {
	for _, c := range []struct {
		windows []sim.Window
		want    string
	}{
		{[]sim.Window{{Replica: 1, To: 1, Pause: true}}, "Config.Windows[0].Replica is 1 of 1"},
		{[]sim.Window{{From: -1, To: 1, Pause: true}}, "Config.Windows[0] is from -1 to 1"},
		{[]sim.Window{{From: 5, To: 5, Pause: true}}, "Config.Windows[0] is from 5 to 5"},
		{[]sim.Window{{To: 5}}, "Config.Windows[0].Factor is 0 with Pause false"},
		{[]sim.Window{{To: 5, Factor: 2, Pause: true}}, "Config.Windows[0].Factor is 2 with Pause true"},
		{[]sim.Window{{To: 5, Factor: math.NaN()}}, "Config.Windows[0].Factor is NaN"},
		{[]sim.Window{{To: 5, Factor: math.Inf(1)}}, "Config.Windows[0].Factor is +Inf"},
		{[]sim.Window{{To: 5, Factor: -1}}, "Config.Windows[0].Factor is -1"},
		{[]sim.Window{{To: 5, Factor: 1}, {From: 4, To: 6, Factor: 1}}, "Config.Windows[0] and [1] of replica 0 overlap"},
	} {
		cfg := oneReplica()
		cfg.Windows = c.windows
		_, err := sim.Run(context.Background(), cfg, slice(nil))
		mentions(t, err, c.want)
	}
}
