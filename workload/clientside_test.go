package workload_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/simtest"
	"servesim/workload"
)

// twoClasses is chats and documents that are sent at 200 a second.
func twoClasses(count int) workload.Workload {
	return workload.Workload{
		Seed: 3, Arrivals: workload.Limit{Arrivals: workload.Poisson{Rate: 200}, Count: count},
		Mix: []workload.Share{
			{Class: sim.Class{Name: "chat"}, Weight: 3, Lengths: workload.Independent{Prompt: workload.LogNormal{Median: 50, Sigma: 1}, Output: workload.Fixed(8)}},
			{Class: sim.Class{Name: "document"}, Weight: 1, Lengths: workload.Tokens{Prompt: 400, Output: 4}},
		},
	}
}

// apart is chats from two regions, with a jitter and seldom a long way, and
// documents that wait for their passages.
func apart() workload.ClientSide {
	jitter := workload.MixedDelay{
		{Weight: 0.9, Delay: workload.ExponentialDelay{Base: 20 * time.Millisecond, Mean: 5 * time.Millisecond, Max: 60 * time.Millisecond}},
		{Weight: 0.1, Delay: workload.After(200 * time.Millisecond)},
	}
	return workload.ClientSide{Seed: 5, Classes: []workload.Regions{
		{
			{Name: "near", Weight: 2, Path: workload.SameRegion()},
			{Name: "far", Weight: 1, Path: workload.ClientPath{NetworkIn: jitter, NetworkOut: jitter, Proxy: sim.Proxy{Tokens: 3}, Tail: workload.After(2 * time.Millisecond)}},
		},
		{{Name: "library", Path: workload.ClientPath{
			Retrieval: workload.LogNormalDelay{Median: 80 * time.Millisecond, Sigma: 0.5, Max: time.Second}, Assembly: workload.After(5 * time.Millisecond),
			Gateway: workload.ResampleDelay{3 * time.Millisecond, 4 * time.Millisecond}}}},
	}}
}

// What arrives is what is sent, as much later as its path takes, in order of
// arrival, and nothing is read before it must be.
func TestClientSideOrder(t *testing.T) {
	w, c := twoClasses(2000), apart()
	simtest.TestWorkload(t, func() iter.Seq2[sim.Request, error] { return c.Requests(w.Requests()) })

	sent := collect(t, w.Requests())
	var want []sim.Request // sorted all at once
	for q, err := range c.Requests(w.Requests()) {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, q)
	}
	slices.SortStableFunc(want, func(a, b sim.Request) int { return a.ID - b.ID })
	for i, q := range want {
		as := sent[i]
		as.Path, as.Arrival = q.Path, as.Arrival.Add(q.Path.Before())
		if d := cmp.Diff(as, q); d != "" {
			t.Fatalf("request %d (-want +got):\n%s", i, d)
		}
	}
	slices.SortStableFunc(want, func(a, b sim.Request) int { return int(a.Arrival - b.Arrival) })

	var read, overtaken int
	var previous sim.Time // the last but one that was read
	counted := func(yield func(sim.Request, error) bool) {
		for _, q := range sent {
			if read > 0 {
				previous = sent[read-1].Arrival
			}
			read++
			if !yield(q, nil) {
				return
			}
		}
	}
	i := 0
	for q, err := range c.Requests(counted) {
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want[i], q); d != "" {
			t.Fatalf("place %d (-want +got):\n%s", i, d)
		}
		if read < len(sent) && previous >= q.Arrival {
			t.Fatalf("request %d arrives at %v, and %d that are sent up to %v are read", q.ID, q.Arrival, read, previous)
		}
		if i > 0 && q.ID < want[i-1].ID {
			overtaken++
		}
		i++
	}
	if i != len(sent) || overtaken < 300 {
		t.Errorf("%d of %d requests, %d of them overtaken", i, len(sent), overtaken)
	}
}

// Simultaneous requests stay in the order in which they were sent, and one that
// has a path keeps it.
func TestClientSideKeeps(t *testing.T) {
	own := &sim.Path{NetworkIn: time.Second}
	c := workload.ClientSide{Classes: []workload.Regions{{{Path: workload.ClientPath{NetworkIn: workload.ResampleDelay{0, 10 * time.Millisecond}}}}}}
	var sent []sim.Request
	for i := range 40 {
		sent = append(sent, sim.Request{ID: 100 - i, Arrival: sim.Time(i/4*10) * sim.Time(time.Millisecond), Prompt: 1, Output: 1})
	}
	sent[20].Path = own
	got := collect(t, c.Requests(workload.FromSlice(sent)))
	for i, q := range got {
		if i > 0 && q.Arrival == got[i-1].Arrival && q.ID > got[i-1].ID {
			t.Errorf("request %d comes before %d, which was sent earlier", got[i-1].ID, q.ID)
		}
		if q.ID == 80 && (q.Path != own || q.Arrival != sent[20].Arrival) {
			t.Errorf("a request with a path arrives at %v with %v", q.Arrival, q.Path)
		}
	}
}

// A part, a region or a class more moves nothing else that is fixedDelay.
func TestClientSideStreams(t *testing.T) {
	paths := func(c workload.ClientSide) map[int]sim.Path {
		out := map[int]sim.Path{}
		for _, q := range collect(t, c.Requests(twoClasses(3000).Requests())) {
			out[q.ID] = *q.Path
		}
		return out
	}
	before := paths(apart())

	gateway := apart()
	gateway.Classes[0][1].Path.Gateway = workload.ExponentialDelay{Mean: time.Millisecond}
	changed := 0
	for id, p := range paths(gateway) {
		if p.Gateway != before[id].Gateway {
			changed++
		}
		p.Gateway = before[id].Gateway
		if p != before[id] {
			t.Fatalf("request %d has %v with a gateway, %v without", id, &p, before[id])
		}
	}
	if changed < 600 {
		t.Errorf("%d gateways", changed)
	}

	third := apart()
	third.Classes[0] = append(workload.Regions{{Name: "moon", Weight: 0.5, Path: workload.ClientPath{NetworkIn: workload.After(1280 * time.Millisecond)}}}, third.Classes[0]...)
	moved, chats := 0, 0
	for _, q := range collect(t, third.Requests(twoClasses(3000).Requests())) {
		if q.Class == 0 {
			chats++
		}
		switch p := *q.Path; {
		case p.NetworkIn == 1280*time.Millisecond:
			moved++
		case p != before[q.ID]:
			t.Fatalf("request %d has %v beside a third region, %v without", q.ID, &p, before[q.ID])
		}
	}
	within(t, "share of the third region", float64(moved)/float64(chats), 0.5/3.5, 0.007, 4) // √(p(1-p)/2250)

	other := apart()
	other.Seed++
	same := 0
	for id, p := range paths(other) {
		if p == before[id] {
			same++
		}
	}
	if same > 1500 { // two near ones have the same path
		t.Errorf("%d of 3000 paths are the same under another seed", same)
	}
}

// Sessions keep their region if they are asked to, and every turn draws a delay
// of its own. A next turn is sent when the answer is at its client, who has
// thought, and arrives when it has come its way.
func TestSessionsAtADistance(t *testing.T) {
	s := conversation()
	s.Path, s.Think = nil, workload.After(300*time.Millisecond)
	c := apart()
	c.BySession = true
	run, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	region, done := map[int64]string{}, map[int64]sim.Time{}
	delays := map[time.Duration]bool{}
	name := c.Region()
	turns := 0
	cfg := sim.Config{Replicas: []sim.Replica{busyReplica()}, TokenTimes: true, FollowUp: c.FollowUp(run.FollowUp)}
	cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
		o, p := e.Origin(), e.Path()
		switch e.Kind {
		case sim.Arrive:
			if far := p.Proxy.Tokens == 3; far != (name(e) == "far") {
				t.Errorf("region %s has %v", name(e), p)
			}
			if o.Turn > 0 {
				turns++
				if send := e.Time.Add(-p.Before()); send != done[o.Session].Add(300*time.Millisecond) || name(e) != region[o.Session] {
					t.Errorf("turn %d of session %d is sent at %v from %s, want 300ms behind %v from %s", o.Turn, o.Session, send, name(e), done[o.Session], region[o.Session])
				}
			}
			region[o.Session] = name(e)
			delays[p.NetworkIn] = true
		case sim.Finish:
			client := p.Deliver(nil, e.TokenTimes(nil))
			done[o.Session] = client[len(client)-1].Add(p.Tail)
		}
	})}
	if _, err := sim.Run(context.Background(), cfg, c.Requests(run.Requests())); err != nil {
		t.Fatal(err)
	}
	if turns < 200 || len(delays) < 50 {
		t.Errorf("%d further turns, %d different delays", turns, len(delays))
	}
}

// A closed loop holds its concurrency at the clients: what is on its way, in the
// engine, or on its way back is one request a client.
func TestClientsAtADistance(t *testing.T) {
	run, err := workload.Clients{Seed: 1, Concurrency: 7, Requests: 100, Lengths: workload.Tokens{Prompt: 30, Output: 9}}.Begin()
	if err != nil {
		t.Fatal(err)
	}
	type edge struct {
		at   sim.Time
		step int // an end comes before a beginning
	}
	var edges []edge
	last := map[int64]sim.Time{} // of each client
	c := apart()
	cfg := sim.Config{Replicas: []sim.Replica{busyReplica()}, FollowUp: c.FollowUp(run.FollowUp), Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
		if e.Kind == sim.Finish {
			edges = append(edges, edge{e.Client().Send, 1}, edge{e.Client().Done, -1})
			last[e.Origin().Session] = e.Client().Done
		}
	})}}
	res, err := sim.Run(context.Background(), cfg, c.Requests(run.Requests()))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.step - b.step
	})
	all := sim.Never // of the clients have requests left
	for _, t := range last {
		all = min(all, t)
	}
	flying, most, full := 0, 0, 0
	for i, e := range edges {
		flying += e.step
		most = max(most, flying)
		if e.at < all && edges[i+1].at > e.at {
			full++
			if flying != 7 {
				t.Fatalf("%d in flight at %v", flying, e.at)
			}
		}
	}
	if res.Completed != 100 || most != 7 || full < 20 {
		t.Errorf("%d completed, at most %d in flight, %d instants looked at", res.Completed, most, full)
	}
}

// The end of a workflow is the sum of its critical path, ways included.
func TestWorkflowAtADistance(t *testing.T) {
	c := apart()
	w := workload.Workflow{Seed: 2, Starts: workload.Limit{Arrivals: workload.Poisson{Rate: 30}, Count: 100}, Nodes: []workload.Node{
		tool(40), {Lengths: workload.Tokens{Prompt: 100, Output: 5}}, {Lengths: workload.Tokens{Prompt: 200, Output: 3}, After: []int{0, 1}}}}
	ended := 0
	w.Done = func(x workload.WorkflowResult) {
		ended++
		var sum time.Duration
		for i, n := range x.Nodes {
			if n.Critical {
				sum += n.Done.Sub(n.Ready)
			}
			if i > 0 && n.Done.Sub(n.Ready) < 2*time.Millisecond {
				t.Errorf("a call took %v, less than its way", n.Done.Sub(n.Ready))
			}
		}
		if x.Failed || sum != x.End.Sub(x.Start) {
			t.Errorf("workflow %d: failed %v, critical path %v of %v", x.Number, x.Failed, sum, x.End.Sub(x.Start))
		}
	}
	run, err := w.Begin()
	if err != nil {
		t.Fatal(err)
	}
	cfg := sim.Config{Replicas: []sim.Replica{busyReplica()}, FollowUp: c.FollowUp(run.FollowUp)}
	if _, err := sim.Run(context.Background(), cfg, c.Requests(run.Requests())); err != nil || ended != 100 {
		t.Errorf("%d workflows ended, error %v", ended, err)
	}
}

// A refusal has a way back and a retry a way in, the same one; a client that
// gives up knows at once.
func TestRetryAtADistance(t *testing.T) {
	const ms = time.Millisecond
	c := workload.ClientSide{Classes: []workload.Regions{{{Path: workload.ClientPath{
		NetworkIn: workload.ResampleDelay{30 * ms, 31 * ms, 32 * ms}, Gateway: workload.After(5 * ms), NetworkOut: workload.After(20 * ms), Tail: workload.After(ms)}}}}}
	for _, tt := range []struct {
		name     string
		patience time.Duration
		limit    int
		back     time.Duration // from the end of an attempt until its client knows
	}{{"rejected", 0, 1, 21 * ms}, {"given up", 3 * ms, 0, 0}} {
		retry := workload.Retry{Attempts: 3, Backoff: 100 * ms}
		var sent []sim.Request
		for i := range 30 {
			sent = append(sent, sim.Request{ID: i, Prompt: 400, Output: 20, Patience: sim.Patience{First: tt.patience}})
		}
		cfg := sim.Config{Replicas: []sim.Replica{busyReplica()}, FollowUp: c.FollowUp(retry.FollowUp), Admission: scheduler.QueueLimit{Waiting: tt.limit}}
		ends, retries := map[int]sim.Time{}, 0
		paths := map[int]*sim.Path{}
		cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			n, first := e.Attempt()
			switch e.Kind {
			case sim.Arrive:
				if n == 0 {
					paths[e.ID] = e.Path()
					break
				}
				retries++
				p := paths[e.ID]
				want := ends[e.ID].Add(tt.back + 100*ms*time.Duration(n) + p.Before()) // 100 ms, 200 ms
				if e.Time != want || e.Path() != p || first != sim.Time(p.Before()) {
					t.Errorf("%s: attempt %d of %d arrives at %v with %v, want %v and %v; first %v", tt.name, n, e.ID, e.Time, e.Path(), want, p, first)
				}
			case sim.Reject, sim.Abort:
				ends[e.ID] = e.Time
			}
		})}
		if _, err := sim.Run(context.Background(), cfg, c.Requests(workload.FromSlice(sent))); err != nil || retries < 10 {
			t.Errorf("%s: %d retries, error %v", tt.name, retries, err)
		}
	}
}

// The next request of a gate is sent when the client has the answer before it,
// whether the paths are fixedDelay before the gate or behind it.
func TestGateAtADistance(t *testing.T) {
	const ms = time.Millisecond
	c := workload.ClientSide{Classes: []workload.Regions{{{Path: workload.ClientPath{NetworkIn: workload.After(30 * ms), NetworkOut: workload.After(20 * ms)}}}}}
	var sent []sim.Request
	for i := range 5 {
		sent = append(sent, sim.Request{ID: i, Prompt: 100, Output: 1}) // 2 ms
	}
	want := []sim.Time{at(30 * ms), at(82 * ms), at(134 * ms), at(186 * ms), at(238 * ms)}
	for _, before := range []bool{false, true} {
		g := &workload.Gate{Schedule: sent, Limit: 1}
		if before {
			g.Schedule = collect(t, c.Requests(workload.FromSlice(sent)))
		}
		var got []sim.Time
		cfg := sim.Config{Replicas: []sim.Replica{busyReplica()}, FollowUp: c.FollowUp(g.FollowUp), Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == sim.Arrive {
				got = append(got, e.Time)
			}
		})}}
		cfg.Replicas[0].PrefixCache = false
		if _, err := sim.Run(context.Background(), cfg, c.Requests(g.Requests())); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("paths before the gate %v: arrivals (-want +got):\n%s", before, d)
		}
	}
}

// fixedDelay is a delay of a user's own, without a Validate method.
type fixedDelay time.Duration

func (d fixedDelay) Draw(*rand.Rand) time.Duration { return time.Duration(d) }

// draws is a stream of random numbers.
func draws(purpose string) *rand.Rand { return rand.New(workload.Stream(1, purpose, 0)) }

func TestClientSideErrors(t *testing.T) {
	path := func(p workload.ClientPath) workload.ClientSide {
		return workload.ClientSide{Classes: []workload.Regions{{{Name: "r", Path: p}}}}
	}
	late := []sim.Request{{ID: 1, Arrival: 5, Prompt: 1, Output: 1}, {ID: 2, Arrival: 4, Prompt: 1, Output: 1}}
	class := []sim.Request{{ID: 1, Class: 2, Prompt: 1, Output: 1}}
	broken := func(yield func(sim.Request, error) bool) {
		yield(sim.Request{}, errors.New("broken"))
	}
	for _, tt := range []struct {
		c        workload.ClientSide
		requests iter.Seq2[sim.Request, error]
		want     string
	}{
		{workload.ClientSide{}, nil, "workload: no Classes in ClientSide"},
		{workload.ClientSide{Classes: []workload.Regions{{}}}, nil, "workload: ClientSide.Classes[0]: Regions weights sum to 0"},
		{workload.ClientSide{Classes: []workload.Regions{{{Weight: -1}}}}, nil, "workload: ClientSide.Classes[0]: Regions weights[0] is -1"},
		{workload.ClientSide{Classes: []workload.Regions{{{Name: "a", Weight: 1}, {Name: "a", Weight: 1}}}}, nil, `workload: ClientSide.Classes[0]: Regions[1].Name "a" is not unique`},
		{path(workload.ClientPath{Gateway: workload.After(-1)}), nil, "workload: ClientSide.Classes[0]: Regions[0].Path: ClientPath.Gateway: After is -1ns"},
		{path(workload.ClientPath{NetworkIn: workload.ExponentialDelay{Mean: -1}}), nil, "workload: ClientSide.Classes[0]: Regions[0].Path: ClientPath.NetworkIn: ExponentialDelay.Mean is -1ns"},
		{path(workload.ClientPath{NetworkIn: workload.ExponentialDelay{Base: 1001 * time.Hour}}), nil, "workload: ClientSide.Classes[0]: Regions[0].Path: ClientPath.NetworkIn: ExponentialDelay.Base is 1001h"},
		{path(workload.ClientPath{Tail: workload.ResampleDelay{}}), nil, "workload: ClientSide.Classes[0]: Regions[0].Path: ClientPath.Tail: no delays in ResampleDelay"},
		{path(workload.ClientPath{Tail: workload.ResampleDelay{1, -2}}), nil, "workload: ClientSide.Classes[0]: Regions[0].Path: ClientPath.Tail: ResampleDelay[1] is -2ns"},
		{path(workload.ClientPath{Assembly: workload.MixedDelay{}}), nil, "workload: ClientSide.Classes[0]: Regions[0].Path: ClientPath.Assembly: MixedDelay weights sum to 0"},
		{path(workload.ClientPath{Assembly: workload.MixedDelay{{Weight: 1}}}), nil, "workload: ClientSide.Classes[0]: Regions[0].Path: ClientPath.Assembly: MixedDelay[0].Delay is nil"},
		{path(workload.ClientPath{Proxy: sim.Proxy{Tokens: -1}}), nil, "workload: ClientSide.Classes[0]: Regions[0].Path: ClientPath.Proxy.Tokens is -1"},
		{path(workload.ClientPath{Proxy: sim.Proxy{Every: -1}}), nil, "workload: ClientSide.Classes[0]: Regions[0].Path: ClientPath.Proxy.Every is -1ns"},
		{path(workload.ClientPath{}), workload.FromSlice(late), "workload: ClientSide: request 2 is sent at 4ns, before 5ns"},
		{apart(), workload.FromSlice(class), "workload: request 1 has class 2, ClientSide.Classes has 2"},
		{path(workload.ClientPath{Retrieval: fixedDelay(-3)}), workload.FromSlice(late), `workload: ClientPath.Retrieval of region "r" drew -3ns for request 1`},
		{path(workload.ClientPath{NetworkIn: workload.After(1)}), workload.FromSlice([]sim.Request{{Arrival: sim.Never}}), "workload: the next arrival is more than 292 years"},
		{path(workload.ClientPath{}), broken, "broken"},
	} {
		requests := tt.requests
		if requests == nil {
			requests = twoClasses(1).Requests()
		}
		_, err := workload.Collect(tt.c.Requests(requests))
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("error %v, want %s", err, tt.want)
		}
	}
	for _, f := range []func(){
		func() { workload.ClientSide{}.FollowUp(nil) },
		func() { workload.ClientSide{}.Region() },
		func() {
			apart().FollowUp(func(sim.Completion) []sim.Request { return class })(sim.Completion{})
		},
	} {
		func() {
			defer func() {
				if p := recover(); p == nil || !strings.HasPrefix(fmt.Sprint(p), "workload: ") {
					t.Errorf("panic %v", p)
				}
			}()
			f()
		}()
	}
	if f := apart().FollowUp(nil); f != nil {
		t.Error("no follow-ups become some")
	}
	if got := apart().Region()(sim.Event{Class: -1}); got != "" {
		t.Errorf("an unknown class is in region %q", got)
	}
}

// The engine rejects a follow-up whose path cannot be, and nothing else ends.
func TestFollowUpWithABadPath(t *testing.T) {
	c := workload.ClientSide{Classes: []workload.Regions{{{Path: workload.ClientPath{NetworkIn: fixedDelay(-3)}}}}}
	next := []sim.Request{{ID: 2, Arrival: 1e9, Prompt: 1, Output: 1}}
	cfg := sim.Config{Replicas: []sim.Replica{busyReplica()}, FollowUp: c.FollowUp(func(done sim.Completion) []sim.Request {
		if done.Request.ID == 2 {
			return nil
		}
		return next
	})}
	res, err := sim.Run(context.Background(), cfg, workload.FromSlice([]sim.Request{{ID: 1, Prompt: 1, Output: 1}}))
	if err != nil || res.Completed != 1 || res.Rejected != 1 {
		t.Errorf("%+v, error %v", res, err)
	}
}

// Laws of delays: means within four standard errors, and bounds.
func TestDelayLaws(t *testing.T) {
	const n = 20_000
	for _, tt := range []struct {
		delay      workload.Delay
		mean, se   float64 // ms; se of one draw
		low, high  time.Duration
		everyValue int // how many different values there are, 0 for many
	}{
		{workload.ExponentialDelay{Base: 20 * time.Millisecond, Mean: 5 * time.Millisecond}, 25, 5, 20 * time.Millisecond, time.Second, 0},
		// ∫ min(x, 5) e^(-x/5)/5 dx = 5 (1 - 1/e)
		{workload.ExponentialDelay{Mean: 5 * time.Millisecond, Max: 5 * time.Millisecond}, 3.1606, 1.8, 0, 5 * time.Millisecond, 0},
		{workload.ResampleDelay{time.Millisecond, 4 * time.Millisecond, 7 * time.Millisecond}, 4, 2.45, time.Millisecond, 7 * time.Millisecond, 3},
		{workload.MixedDelay{{Weight: 9, Delay: workload.After(time.Millisecond)}, {Weight: 1, Delay: workload.After(101 * time.Millisecond)}}, 11, 30, time.Millisecond, 101 * time.Millisecond, 2},
	} {
		sum, values := 0.0, map[time.Duration]bool{}
		r := draws("delay law")
		for range n {
			d := tt.delay.Draw(r)
			sum += float64(d) / 1e6
			values[d] = true
			if d < tt.low || d > tt.high {
				t.Fatalf("%+v drew %v", tt.delay, d)
			}
		}
		within(t, fmt.Sprintf("mean of %+v", tt.delay), sum/n, tt.mean, tt.se/141.4, 4)
		if tt.everyValue > 0 && len(values) != tt.everyValue || tt.everyValue == 0 && len(values) < n/2 {
			t.Errorf("%+v drew %d different values", tt.delay, len(values))
		}
	}
}

// The presets are what their sources say of a round trip.
func TestPathPresets(t *testing.T) {
	for _, tt := range []struct {
		path workload.ClientPath
		want time.Duration
	}{{workload.SameRegion(), 2 * time.Millisecond}, {workload.CrossRegion(), 72 * time.Millisecond}, {workload.Mobile(), 150 * time.Millisecond}} {
		c := workload.ClientSide{Classes: []workload.Regions{{{Path: tt.path}}}}
		p := collect(t, c.Requests(twoClasses(1).Requests()))[0].Path
		want := &sim.Path{NetworkIn: tt.want / 2, NetworkOut: tt.want / 2}
		if d := cmp.Diff(want, p); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
}

// Every part of the law is the part of the path of that name.
func TestClientPathParts(t *testing.T) {
	law := workload.ClientPath{NetworkIn: workload.After(1), Gateway: workload.After(2), Retrieval: workload.After(3), Assembly: workload.After(4),
		Proxy: sim.Proxy{Tokens: 5, Every: 6}, NetworkOut: workload.After(7), Tail: workload.After(8)}
	c := workload.ClientSide{Classes: []workload.Regions{{{Path: law}}}}
	want := &sim.Path{NetworkIn: 1, Gateway: 2, Retrieval: 3, Assembly: 4, Proxy: sim.Proxy{Tokens: 5, Every: 6}, NetworkOut: 7, Tail: 8}
	if d := cmp.Diff(want, collect(t, c.Requests(twoClasses(1).Requests()))[0].Path); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
