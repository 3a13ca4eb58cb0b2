package workload_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/simtest"
	"servesim/sim/trace"
	"servesim/workload"
)

// throughGateway returns how long each request stood at the front door, ms, by
// ID, and the gateway phases of the trace.
func throughGateway(t *testing.T, admission sim.Admission, c workload.ClientSide, sent []sim.Request) (door map[int]float64, phases map[int]time.Duration) {
	t.Helper()
	door, phases = map[int]float64{}, map[int]time.Duration{}
	var b bytes.Buffer
	cfg := sim.Config{Replicas: []sim.Replica{busyReplica()}, Admission: admission}
	laws := &simtest.Laws{Config: cfg}
	cfg.Observers = []sim.Observer{laws, &trace.Writer{W: &b}, sim.ObserverFunc(func(e sim.Event) {
		if e.Kind == sim.Finish {
			door[e.ID] = float64(e.Timeline.Queued-e.Timeline.Arrival) / 1e6
			r := trace.FromEvent(e)
			phases[e.ID] = r.Decompose().Phases[trace.Gateway]
		}
	})}
	res, err := sim.Run(context.Background(), cfg, c.Requests(workload.FromSlice(sent)))
	if err != nil {
		t.Fatal(err)
	}
	if err := laws.Check(res); err != nil {
		t.Error(err)
	}
	return door, phases
}

// A request every 4 ms, 10 ms of service: each waits 6 ms longer than the one
// before. Two servers have 20 ms of work every 8 ms: pairs wait 2 ms longer than
// the pair before.
func TestGatewayQueue(t *testing.T) {
	const ms = time.Millisecond
	sent := func(n int) (requests []sim.Request) {
		for i := range n {
			requests = append(requests, sim.Request{ID: i, Arrival: at(time.Duration(4*i) * ms), Prompt: 10, Output: 1})
		}
		return requests
	}
	still := workload.ClientSide{Classes: []workload.Regions{{{Path: workload.ClientPath{Gateway: workload.After(3 * ms), Retrieval: workload.After(2 * ms)}}}}}
	service := workload.After(10 * ms)
	given := sent(4)
	given[1].Patience.First = 5 * ms // it is served all the same
	for _, tt := range []struct {
		name      string
		admission sim.Admission
		sent      []sim.Request
		want      map[int]float64
	}{
		{"one server", &workload.GatewayQueue{Service: service}, sent(4), map[int]float64{0: 10, 1: 16, 2: 22, 3: 28}},
		{"two servers", &workload.GatewayQueue{Servers: 2, Service: service}, sent(6), map[int]float64{0: 10, 1: 10, 2: 12, 3: 12, 4: 14, 5: 14}},
		{"enough", &workload.GatewayQueue{Servers: 3, Service: service}, sent(4), map[int]float64{0: 10, 1: 10, 2: 10, 3: 10}},
		{"no time", &workload.GatewayQueue{Service: workload.After(0)}, sent(2), map[int]float64{0: 0, 1: 0}},
		{"given up", &workload.GatewayQueue{Service: service}, given, map[int]float64{0: 10, 2: 22, 3: 28}},
		{"beside a limit", scheduler.All{scheduler.QueueLimit{Waiting: 9}, &workload.GatewayQueue{Service: service}}, sent(3), map[int]float64{0: 10, 1: 16, 2: 22}},
	} {
		door, phases := throughGateway(t, tt.admission, still, tt.sent)
		if d := cmp.Diff(tt.want, door); d != "" {
			t.Errorf("%s: ms at the front door (-want +got):\n%s", tt.name, d)
		}
		for id, v := range phases {
			if want := 5*ms + time.Duration(door[id]*1e6); v != want {
				t.Errorf("%s: gateway phase of %d is %v, want %v", tt.name, id, v, want)
			}
		}
	}
}

// M/M/1 at 8 of 10 requests per second waits ρ/(μ-λ) = 0.4 s.
func TestGatewayQueueClosedForm(t *testing.T) {
	w := workload.Workload{Seed: 4, Arrivals: workload.Limit{Arrivals: workload.Poisson{Rate: 8}, Count: 60_000},
		Mix: []workload.Share{{Lengths: workload.Tokens{Prompt: 1, Output: 1}}}}
	still := workload.ClientSide{Classes: []workload.Regions{{{}}}}
	door, _ := throughGateway(t, &workload.GatewayQueue{Seed: 4, Service: workload.ExponentialDelay{Mean: 100 * time.Millisecond}}, still, collect(t, w.Requests()))
	sum := 0.0
	for _, v := range door {
		sum += v
	}
	// The variance of the mean of n waits is ρ(2+5ρ-4ρ²+ρ³)/(1-ρ)⁴/μ²/n, 18 ms
	// squared (Whitt, "Planning queueing simulations", 1989).
	within(t, "mean wait and service, ms", sum/60_000, 500, 18, 4)
}

func TestGatewayQueueErrors(t *testing.T) {
	for _, tt := range []struct {
		g    *workload.GatewayQueue
		want string
	}{
		{&workload.GatewayQueue{}, "workload: GatewayQueue.Service is nil"},
		{&workload.GatewayQueue{Service: workload.After(-1)}, "workload: GatewayQueue.Service: After is -1ns"},
		{&workload.GatewayQueue{Servers: -1, Service: workload.After(1)}, "workload: GatewayQueue.Servers is -1"},
		{&workload.GatewayQueue{Service: fixedDelay(-3)}, "workload: GatewayQueue.Service drew -3ns for request 7"},
	} {
		func() {
			defer func() {
				if p, _ := recover().(string); !strings.HasPrefix(p, tt.want) {
					t.Errorf("panic %q, want %s", p, tt.want)
				}
			}()
			tt.g.Admit(0, sim.Query{ID: 7}, nil)
		}()
	}
}
