package sim_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

func at(ms ...int) (times []sim.Time) {
	for _, t := range ms {
		times = append(times, sim.Time(t)*sim.Time(time.Millisecond))
	}
	return times
}

func TestDeliver(t *testing.T) {
	sampled := at(100, 110, 120, 130, 190, 200)
	for _, tt := range []struct {
		name string
		path *sim.Path
		want []sim.Time
	}{
		{"no path", nil, sampled},
		{"network", &sim.Path{NetworkOut: 5 * ms}, at(105, 115, 125, 135, 195, 205)},
		{"four tokens at once", &sim.Path{Proxy: sim.Proxy{Tokens: 4}}, at(130, 130, 130, 130, 200, 200)},
		{"every 25 ms", &sim.Path{Proxy: sim.Proxy{Every: 25 * ms}}, at(125, 125, 125, 150, 200, 200)},
		{"two tokens or 25 ms", &sim.Path{Proxy: sim.Proxy{Tokens: 2, Every: 25 * ms}}, at(110, 110, 125, 150, 200, 200)},
		{"more than there are", &sim.Path{Proxy: sim.Proxy{Tokens: 99}, NetworkOut: ms}, at(201, 201, 201, 201, 201, 201)},
	} {
		if d := cmp.Diff(tt.want, tt.path.Deliver(nil, sampled)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

// The engine's times are the same with and without a path, and what the client
// sees agrees with what is delivered.
func TestPathOfACompletion(t *testing.T) {
	paths := []*sim.Path{nil, {NetworkIn: 3 * ms, Gateway: 2 * ms, Retrieval: 40 * ms, Assembly: ms, NetworkOut: 4 * ms, Tail: 6 * ms},
		{Proxy: sim.Proxy{Tokens: 3}, NetworkOut: ms}, {Proxy: sim.Proxy{Every: 16 * ms}}}
	for _, p := range paths {
		var got sim.Client
		var delivered []sim.Time
		cfg := sim.Config{TokenTimes: true, Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: idleCost}}}
		cfg.FollowUp = func(c sim.Completion) []sim.Request { got = c.Client; return nil }
		cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == sim.Finish {
				delivered = e.Path().Deliver(nil, e.TokenTimes(nil))
				if o := e.Origin(); o.Turn != 7 {
					t.Errorf("origin %+v", o)
				}
			}
		})}
		res, err := sim.Run(context.Background(), cfg, slice([]sim.Request{{ID: 1, Arrival: sim.Time(100 * ms), Prompt: 1000, Output: 5, Path: p, Origin: sim.Origin{Turn: 7}}}))
		if err != nil || res.End != sim.Time(168*ms) {
			t.Fatalf("%v: end %v, error %v", p, res.End, err)
		}
		tail := time.Duration(0)
		if p != nil {
			tail = p.Tail
		}
		want := sim.Client{Send: sim.Time(100*ms - p.Before()), First: delivered[0], Last: delivered[4], Done: delivered[4].Add(tail)}
		if got != want {
			t.Errorf("%v: client %+v, want %+v", p, got, want)
		}
	}
}

func TestFaultyPath(t *testing.T) {
	for _, p := range []sim.Path{{NetworkIn: -1}, {Tail: -1}, {Proxy: sim.Proxy{Tokens: -1}}, {Gateway: 1 << 62}} {
		cfg := sim.Config{Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: idleCost}}}
		res, err := sim.Run(context.Background(), cfg, slice([]sim.Request{{ID: 1, Prompt: 1, Output: 1, Path: &p}}))
		if err != nil || res.Rejected != 1 {
			t.Errorf("%v: %+v, error %v", &p, res, err)
		}
	}
}
