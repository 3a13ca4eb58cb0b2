package profile_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/profile"
	"servesim/sim/trace"
)

// streamed is n requests whose tokens leave and arrive at these instants, ms
// behind the first token at the server.
func streamed(t *testing.T, n int, server, client []float64) profile.Report {
	t.Helper()
	p, err := profile.New(profile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		start := 10_000 * float64(i)
		last := len(client) - 1
		e := trace.Entry{Record: record(fmt.Sprint(i), 100, len(server), start, 5, 1, 4, 20, 10, client[0], client[last]-client[0])}
		for k := range server {
			e.Details.ServerTokens = append(e.Details.ServerTokens, sim.Time((start+40+server[k])*1e6+0.5))
			e.Details.ClientTokens = append(e.Details.ClientTokens, sim.Time((start+40+client[k])*1e6+0.5))
		}
		if err := p.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	r, err := p.Report()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDelivery(t *testing.T) {
	instants := func(f func(i int) float64) (list []float64) {
		for i := range 100 {
			list = append(list, f(i))
		}
		return list
	}
	even := instants(func(i int) float64 { return 22 * float64(i) })
	later := instants(func(i int) float64 { return 22*float64(i) + 80 })
	fives := instants(func(i int) float64 { return 22*float64(i/5*5+4) + 30 })
	// A stall of half a second every ten tokens, after which they follow slowly.
	stalls := instants(func(i int) float64 { return 22*float64(i) + 30 + 500*float64(i/10) })
	pairs := instants(func(i int) float64 { return 44 * float64(i/2) })
	pairsLater := instants(func(i int) float64 { return 44*float64(i/2) + 80 })
	uneven := instants(func(i int) float64 { return 22*float64(i) + 500*float64(i/10) })
	unevenLater := instants(func(i int) float64 { return 22*float64(i) + 500*float64(i/10) + 9 })
	for _, c := range []struct {
		name           string
		server, client []float64
		want           profile.Verdict
		perEvent       float64
	}{
		{"same engine, distant client", even, later, profile.Smooth, 1},
		{"received in fives", even, fives, profile.TransportBuffering, 5},
		{"stalls on the way", even, stalls, profile.TransportJitter, 1},
		{"pairs from the engine", pairs, pairsLater, profile.EngineGroups, 2},
		{"an uneven engine", uneven, unevenLater, profile.Smooth, 1},
	} {
		r := streamed(t, 3, c.server, c.client)
		d := r.Delivery
		if d.Verdict != c.want || !near(d.TokensPerEvent, c.perEvent) || d.Requests != 3 || d.ServerGaps.Ms.N != 297 {
			t.Errorf("%s: %s (%s), %v tokens an event", c.name, d.Verdict, d.Reason, d.TokensPerEvent)
		}
		finding := false
		for _, f := range r.Findings {
			finding = finding || len(f) > len(c.want) && f[:len(c.want)] == string(c.want)
		}
		if finding != (c.want != profile.Smooth) {
			t.Errorf("%s: findings %v", c.name, r.Findings)
		}
	}
	r := streamed(t, 3, even, fives)
	d := r.Delivery
	if d.ServerGaps.CV != 0 || !near(d.ServerGaps.Ms.P95, 22) || d.ServerGaps.Clustered != 0 || !near(d.ClientGaps.Ms.P95, 110) || !near(d.ClientGaps.Clustered, 80.0/99) {
		t.Errorf("server %+v, client %+v", d.ServerGaps, d.ClientGaps)
	}
	if s := text(t, &r); !has(s, "delivery transport buffering: tokens leave the server one by one, and 81 % of the client's gaps") || !has(s, "they arrive 5.0 at a time. Over 3 requests") {
		t.Errorf("%s", s)
	}
}

// The same engine, clients at +0 and +80 ms: server TTFTs are equal, client
// TTFTs differ by 80.
func TestDistantClient(t *testing.T) {
	beside, far := burst(), burst()
	for i := range far {
		far[i].FirstTokenClient += 80e6
		far[i].LastTokenClient += 80e6
	}
	a, b := analyse(t, beside, profile.Options{}), analyse(t, far, profile.Options{})
	if a.Delivery.ServerTTFT.P95 != b.Delivery.ServerTTFT.P95 || a.Delivery.ServerTTFT.Mean != b.Delivery.ServerTTFT.Mean {
		t.Errorf("server TTFT %v and %v", a.Delivery.ServerTTFT, b.Delivery.ServerTTFT)
	}
	if !near(b.TTFT.P95-a.TTFT.P95, 80) || !near(b.TTFT.Mean-a.TTFT.Mean, 80) || !near(b.Delivery.Path.P50-a.Delivery.Path.P50, 80) {
		t.Errorf("client TTFT p95 %v and %v", a.TTFT.P95, b.TTFT.P95)
	}
	if a.ITL.P95 != b.ITL.P95 {
		t.Errorf("ITL %v and %v", a.ITL.P95, b.ITL.P95)
	}
	if v := a.Delivery.Verdict; v != profile.NotMeasured {
		t.Errorf("without tokens: %s", v)
	}
}

// tenMs is a step of 10 ms, and 40 ms more for a prompt.
type tenMs struct{}

func (tenMs) StepTime(b sim.Batch) time.Duration { return 10*ms + time.Duration(len(b.Prefills))*40*ms }

// Traces of simulated requests tell a smooth server behind a path that
// coalesces from one that clusters.
func TestDeliveryOfARun(t *testing.T) {
	for _, c := range []struct {
		name   string
		path   *sim.Path
		want   profile.Verdict
		toSend float64 // server to client, ms, of the first token
	}{
		{"beside the engine", nil, profile.Smooth, 0},
		{"far away", &sim.Path{NetworkIn: 80 * ms, NetworkOut: 80 * ms}, profile.Smooth, 80},
		{"in fives", &sim.Path{NetworkOut: 80 * ms, Proxy: sim.Proxy{Tokens: 5}}, profile.TransportBuffering, 120},
		{"every 50 ms", &sim.Path{Proxy: sim.Proxy{Every: 50 * ms}}, profile.TransportBuffering, 50},
	} {
		var file bytes.Buffer
		w := &trace.Writer{W: &file, Tokens: true}
		cfg := sim.Config{TokenTimes: true, Observers: []sim.Observer{w},
			Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: tenMs{}}}}
		requests := func(yield func(sim.Request, error) bool) {
			yield(sim.Request{Arrival: 1e9, Prompt: 100, Output: 101, Path: c.path}, nil)
		}
		if _, err := sim.Run(context.Background(), cfg, requests); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		p, err := profile.New(profile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range (trace.Reader{In: &file, Name: "run"}).Entries() {
			if err == nil {
				err = p.Add(e)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		r, err := p.Report()
		if err != nil {
			t.Fatal(err)
		}
		if d := r.Delivery; d.Verdict != c.want || d.ServerTTFT.P50 != 50 || float64(d.Path.P50) != c.toSend {
			t.Errorf("%s: %s, server TTFT %v ms, path %v ms, want %s, 50 and %v: %s", c.name, d.Verdict, d.ServerTTFT.P50, d.Path.P50, c.want, c.toSend, d.Reason)
		}
	}
}
