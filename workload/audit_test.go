package workload_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/costmodel"
	"servesim/scheduler"
	"servesim/sim"
	"servesim/workload"
)

// oneStep is a server that takes a request of one output token whole in 200 ms,
// any number at a time.
func oneStep(maxSeqs int, observers ...sim.Observer) sim.Config {
	return sim.Config{
		Replicas: []sim.Replica{{
			Scheduler: scheduler.Continuous{},
			CostModel: costmodel.Linear{Fixed: 200 * time.Millisecond},
			MaxSeqs:   maxSeqs,
		}},
		Observers: observers,
	}
}

// schedule is n requests, 100 ms apart.
func schedule(n int) []sim.Request {
	var out []sim.Request
	for i := range n {
		out = append(out, sim.Request{ID: 100 + i, Arrival: sim.Time(i) * 100 * ms, Prompt: 1, Output: 1})
	}
	return out
}

func audited(t *testing.T, a *workload.Audit, cfg sim.Config, g *workload.Gate) workload.LoadReport {
	t.Helper()
	cfg.Observers = append(cfg.Observers, a)
	cfg.FollowUp = g.FollowUp
	if _, err := sim.Run(context.Background(), cfg, g.Requests()); err != nil {
		t.Fatal(err)
	}
	r, err := a.Report()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Ten requests a second for a server that does five, one at a time: behind a
// gate of one, request i is sent at 200·i ms in place of 100·i. From there
// every request takes 200 ms; from when it was due, 200 + 100·i.
func TestAuditShowsCoordinatedOmission(t *testing.T) {
	const n = 51
	g := &workload.Gate{Schedule: schedule(n), Limit: 1}
	a := &workload.Audit{Rate: 10, Schedule: g.Schedule}
	r := audited(t, a, oneStep(1), g)
	latency := func(mean, p50, p99, most float64) workload.Latency {
		return workload.Latency{N: n, Mean: workload.Figure(mean), P50: workload.Figure(p50), P99: workload.Figure(p99), Max: workload.Figure(most)}
	}
	// Of what was due by 5 s half has been sent, and one less completed.
	window := 5.000000001
	rate := func(n int) workload.Figure { return workload.Figure(float64(n) / window) }
	want := workload.LoadReport{
		RequestedRate: 10, IntendedRate: rate(51), DeliveredRate: rate(26), CompletedRate: rate(25),
		WarmUp:      workload.LoadPhase{},
		Measurement: workload.LoadPhase{To: workload.Figure(window), Intended: 51, Arrived: 26, Completed: 25},
		Drain:       workload.LoadPhase{From: workload.Figure(window), To: 10.2, Arrived: 25, Completed: 25},
		Late:        50,
		Lag:         latency(2500, 2500, 4950, 5000),
		TTFTActual:  latency(200, 200, 200, 200), TTFTIntended: latency(2700, 2700, 5150, 5200),
		E2EActual: latency(200, 200, 200, 200), E2EIntended: latency(2700, 2700, 5150, 5200),
		Findings: []string{
			"the measurement received 5.2 requests per second, -49.0 % against 10.2",
			"50 of 51 requests arrived late, by 2500 ms in the mean of all: latencies counted from there leave that out",
		},
	}
	if diff := cmp.Diff(want, r, closeFigures); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Without the gate the server queues, and there is nothing to omit.
	open := &workload.Gate{Schedule: schedule(n), Limit: n}
	r = audited(t, &workload.Audit{Schedule: open.Schedule}, oneStep(1), open)
	if diff := cmp.Diff(want.E2EIntended, r.E2EActual, closeFigures); diff != "" || r.Late != 0 || len(r.Findings) != 0 {
		t.Errorf("without a gate: %d late, findings %q, E2E (-want +got):\n%s", r.Late, r.Findings, diff)
	}
}

// Two requests per second, of which one a second completes: phases of 10, 20
// and the rest.
func TestAuditPhases(t *testing.T) {
	requests := make([]sim.Request, 60)
	for i := range requests {
		requests[i] = sim.Request{ID: i, Arrival: sim.Time(i) * 500 * ms, Prompt: 1, Output: 1 + i%2}
	}
	a := &workload.Audit{Rate: 2, WarmUp: 10 * time.Second, Measure: 15 * time.Second}
	cfg := oneStep(0, a)
	cfg.Until = sim.Time(25100 * time.Millisecond)
	if _, err := sim.Run(context.Background(), cfg, workload.FromSlice(requests)); err != nil {
		t.Fatal(err)
	}
	r, err := a.Report()
	if err != nil {
		t.Fatal(err)
	}
	want := []workload.LoadPhase{
		{From: 0, To: 10, Intended: 20, Arrived: 20, Completed: 20},
		{From: 10, To: 25, Intended: 30, Arrived: 30, Completed: 30},
		{From: 25, To: 25, Intended: 0},
	}
	if diff := cmp.Diff(want, []workload.LoadPhase{r.WarmUp, r.Measurement, r.Drain}, closeFigures); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	if r.IntendedRate != 2 || r.DeliveredRate != 2 || r.Late != 0 || r.NotCompleted != 0 || len(r.Findings) > 0 {
		t.Errorf("%+v", r)
	}
}

// What never came, what was turned away and what the end of the run cut off
// are told apart.
func TestAuditOfWhatDidNotComplete(t *testing.T) {
	a := &workload.Audit{Schedule: []sim.Request{{ID: 1, Arrival: ms}, {ID: 2, Arrival: 2 * ms}, {ID: 3, Arrival: 3 * ms}, {ID: 4, Arrival: 4 * ms}, {ID: 5, Arrival: 5 * ms}}}
	event := func(kind sim.Kind, serial int64, at, arrival sim.Time) {
		a.Observe(sim.Event{Kind: kind, Serial: serial, ID: int(serial), Time: at, Timeline: sim.Timeline{Arrival: arrival, FirstToken: at - ms}})
	}
	event(sim.Arrive, 1, ms, ms)
	event(sim.Arrive, 2, 2*ms, 2*ms)
	event(sim.Reject, 2, 2*ms, 2*ms)
	event(sim.Arrive, 3, 4*ms, 4*ms)
	event(sim.Arrive, 4, 4*ms, 4*ms)
	event(sim.Finish, 1, 6*ms, ms)
	event(sim.Abort, 3, 7*ms, 4*ms)
	event(sim.End, 0, 30*ms, 0)
	r, err := a.Report()
	if err != nil {
		t.Fatal(err)
	}
	if r.NotSent != 1 || r.NotCompleted != 4 || r.Late != 1 || r.E2EActual.N != 1 || r.Lag.N != 4 {
		t.Errorf("%+v", r)
	}
	if r.TTFTActual.Max != 4 || r.E2EActual.Max != 5 || math.Abs(float64(r.Drain.To)-0.03) > 1e-12 {
		t.Errorf("%+v", r)
	}
	if n := r.Measurement.Completed + r.Drain.Completed; n != 1 {
		t.Errorf("%d requests completed in the phases, want 1: %+v", n, r)
	}
	found := strings.Join(r.Findings, "\n")
	for _, want := range []string{"1 of 5 requests never arrived", "3 of 5 requests arrived and did not complete", "1 of 5 requests arrived late"} {
		if !strings.Contains(found, want) {
			t.Errorf("findings %q, want %q", r.Findings, want)
		}
	}
}

// A generator that does not deliver what it was asked for: 5.2 % more, 8.3 %
// less. A Poisson process scatters and is not accused.
func TestAuditOfGenerators(t *testing.T) {
	for _, c := range []struct {
		arrivals workload.Arrivals
		rate     float64
		finding  string
	}{
		{workload.VidurPoisson{QPS: 200}, 200, "requests per second, +"},
		{workload.SGLangBench{Rate: 200, Sending: 450 * time.Microsecond}, 200, "requests per second, -"},
		{workload.Poisson{Rate: 200}, 200, ""},
		{workload.Poisson{Rate: 1}, 1, ""},
	} {
		w := workload.Workload{Seed: 1, Arrivals: workload.Limit{Arrivals: c.arrivals, Duration: 100 * time.Second},
			Mix: []workload.Share{{Lengths: workload.Tokens{Prompt: 1, Output: 1}}}}
		a := &workload.Audit{Rate: c.rate, Measure: 100 * time.Second}
		if _, err := sim.Run(context.Background(), oneStep(0, a), w.Requests()); err != nil {
			t.Fatal(err)
		}
		r, err := a.Report()
		if err != nil {
			t.Fatal(err)
		}
		found := strings.Join(r.Findings, "\n")
		if c.finding == "" && found != "" || !strings.Contains(found, c.finding) {
			t.Errorf("%+v: findings %q, want %q", c.arrivals, r.Findings, c.finding)
		}
	}
}

func TestAuditOfNothing(t *testing.T) {
	a := &workload.Audit{WarmUp: time.Second}
	r, err := a.Report()
	if err != nil || len(r.Findings) != 1 || !strings.Contains(r.Findings[0], "nothing was to arrive") {
		t.Errorf("error %v, %+v", err, r)
	}
	data, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(data), `"intended_rate_per_s":null,`) || !strings.Contains(string(data), `"lag_ms":{"n":0,"mean":null,`) {
		t.Errorf("error %v, JSON %s", err, data)
	}
	twice := []sim.Request{{ID: 7}, {ID: 7}}
	for _, c := range []struct {
		a    *workload.Audit
		want string
	}{
		{&workload.Audit{Rate: -1}, "Audit.Rate is -1,"},
		{&workload.Audit{Rate: math.NaN()}, "Audit.Rate is NaN,"},
		{&workload.Audit{Schedule: twice}, "Audit.Schedule has 2 requests with 1 different IDs"},
		{&workload.Audit{WarmUp: -1}, "Audit.WarmUp is -1ns,"},
		{&workload.Audit{Measure: -1}, "Audit.Measure is -1ns,"},
		{&workload.Audit{WarmUp: 2, Measure: math.MaxInt64}, "Audit.Measure is"},
		{&workload.Audit{Tolerance: -1}, "Audit.Tolerance is -1,"},
	} {
		if _, err := c.a.Report(); !strings.Contains(errText(err), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// Never more than the limit in flight, and the limit is reached; requests come
// when they are due and there is room, in order.
func TestGate(t *testing.T) {
	w := chatAndDocuments(3, workload.Limit{Arrivals: workload.Gamma{Rate: 8, CV: 3}, Count: 400})
	requests := collect(t, w.Requests())
	for _, limit := range []int{1, 4, 1000} {
		g := &workload.Gate{Schedule: requests, Limit: limit}
		inFlight, most := 0, 0
		var ends, sent []sim.Time
		cfg := oneStep(3, sim.ObserverFunc(func(e sim.Event) {
			switch e.Kind {
			case sim.Arrive:
				inFlight++
				most = max(most, inFlight)
				// As the semaphore has it: room since the end of the
				// (sent-limit+1)th.
				due := requests[len(sent)].Arrival
				if n := len(sent) - limit; n >= 0 {
					due = max(due, ends[n])
				}
				if e.Time != due || e.ID != requests[len(sent)].ID {
					t.Fatalf("limit %d: request %d comes at %v, want request %d at %v", limit, e.ID, e.Time, requests[len(sent)].ID, due)
				}
				sent = append(sent, e.Time)
			case sim.Finish, sim.Reject, sim.Abort:
				inFlight--
				ends = append(ends, e.Time)
			}
		}))
		cfg.Classes = w.Classes()
		cfg.FollowUp = g.FollowUp
		r, err := sim.Run(context.Background(), cfg, g.Requests())
		if err != nil {
			t.Fatal(err)
		}
		if r.Arrived != 400 || most > limit || limit < 100 && most != limit {
			t.Errorf("limit %d: %d arrived, %d in flight at most", limit, r.Arrived, most)
		}
	}
	for _, c := range []struct {
		g    *workload.Gate
		want string
	}{
		{&workload.Gate{Schedule: schedule(2)}, "Gate.Limit is 0,"},
		{&workload.Gate{Schedule: []sim.Request{{Arrival: 5}, {Arrival: 4}}, Limit: 1}, "Gate.Schedule[1] arrives at 4ns, before 5ns"},
	} {
		if got, err := workload.Collect(c.g.Requests()); len(got) != 0 || !strings.Contains(errText(err), c.want) {
			t.Errorf("%d requests, then %v, want %q", len(got), err, c.want)
		}
	}
}

// A generator with a limit of concurrency hides the queue in itself.
func ExampleAudit() {
	schedule, err := workload.Collect(workload.Workload{
		Seed:     1,
		Arrivals: workload.VLLMBench{Requests: 500, Rate: 10},
		Mix:      []workload.Share{{Lengths: workload.Tokens{Prompt: 200, Output: 20}}},
	}.Requests())
	if err != nil {
		fmt.Println(err)
		return
	}
	gate := &workload.Gate{Schedule: schedule, Limit: 2}
	audit := &workload.Audit{Rate: 10, Schedule: schedule, WarmUp: 5 * time.Second}
	_, err = sim.Run(context.Background(), sim.Config{
		Replicas: []sim.Replica{{
			Scheduler: scheduler.Continuous{},
			CostModel: costmodel.Linear{Fixed: 10 * time.Millisecond},
		}},
		FollowUp:  gate.FollowUp,
		Observers: []sim.Observer{audit},
	}, gate.Requests())
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := audit.Report()
	fmt.Printf("E2E %.0f ms as sent, %.0f ms as scheduled, error %v\n", r.E2EActual.Mean, r.E2EIntended.Mean, err)
	// Output: E2E 210 ms as sent, 1372 ms as scheduled, error <nil>
}
