package trace_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/simtest"
	"servesim/sim/trace"
)

// drawPath is the client's side of a request: none, or delays of which some are
// nothing, and a proxy that passes on, counts, has a clock, or both.
func drawPath(rng *rand.Rand) *sim.Path {
	if rng.IntN(6) == 0 {
		return nil
	}
	some := func() time.Duration { return time.Duration(rng.IntN(3) * (1 + rng.IntN(40_000))) }
	p := &sim.Path{NetworkIn: some(), Gateway: some(), Retrieval: some(), Assembly: some(), NetworkOut: some(), Tail: some()}
	if rng.IntN(2) == 0 {
		p.Proxy.Tokens = rng.IntN(9)
	}
	if rng.IntN(3) == 0 {
		p.Proxy.Every = time.Duration(1 + rng.IntN(60_000))
	}
	return p
}

// withPaths gives every request of a scenario a path, drawn from its ID and
// arrival, and returns the scenario's follow-ups with paths too.
func withPaths(seed uint64, requests iter.Seq2[sim.Request, error], next func(sim.Completion) []sim.Request) (iter.Seq2[sim.Request, error], func(sim.Completion) []sim.Request) {
	give := func(r *sim.Request) {
		r.Path = drawPath(rand.New(rand.NewPCG(seed, uint64(r.ID)<<40^uint64(r.Arrival))))
	}
	given := func(yield func(sim.Request, error) bool) {
		for r, err := range requests {
			give(&r)
			if !yield(r, err) {
				return
			}
		}
	}
	if next == nil {
		return given, nil
	}
	return given, func(c sim.Completion) []sim.Request {
		list := next(c)
		for i := range list {
			give(&list[i])
		}
		return list
	}
}

// delivered says, event by event, when each token reaches the client: at each
// instant of a token or of the proxy's clock the proxy looks at what it holds.
func delivered(p *sim.Path, sampled []sim.Time) []sim.Time {
	if p == nil {
		p = &sim.Path{}
	}
	first, last := sampled[0], sampled[len(sampled)-1]
	instants := slices.Clone(sampled)
	if every := p.Proxy.Every; every > 0 {
		for t := first.Add(every); t < last; t = t.Add(every) {
			instants = append(instants, t)
		}
	}
	slices.Sort(instants)
	var out []sim.Time
	came := 0
	for _, now := range slices.Compact(instants) {
		send := func() {
			for len(out) < came {
				out = append(out, now.Add(p.NetworkOut))
			}
		}
		for came < len(sampled) && sampled[came] == now {
			came++
			if counts := p.Proxy.Tokens > 1; !counts && p.Proxy.Every == 0 || counts && came-len(out) == p.Proxy.Tokens {
				send()
			}
		}
		if tick := p.Proxy.Every > 0 && now > first && now.Sub(first)%p.Proxy.Every == 0; tick || now == last {
			send()
		}
	}
	return out
}

// truth is what one run did to a completed request, kept apart from the trace.
type truth struct {
	path     *sim.Path
	timeline sim.Timeline
	server   []sim.Time
	done     sim.Time
}

// Whatever the deployment does, the line of a request says what its path and
// its timeline are, and the phases add up to E2E.
func TestLinesAreTheTruth(t *testing.T) {
	var lines, behind, waited int
	for seed := range uint64(96) {
		s := simtest.Scenario{Seed: seed, Deployments: seed%2 == 1}
		cfg := s.Config(func() sim.Scheduler {
			if s.Deployments {
				return &simtest.Chaos{Seed: seed}
			}
			return scheduler.ChunkedPrefill{}
		})
		var requests iter.Seq2[sim.Request, error]
		requests, cfg.FollowUp = withPaths(seed, s.Requests(), cfg.FollowUp)
		var file, plain bytes.Buffer
		w, short := &trace.Writer{W: &file, Tokens: true}, &trace.Writer{W: &plain}
		want := map[string]truth{}
		var made []trace.Entry
		cfg.Observers = []sim.Observer{w, short, sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == sim.Finish {
				var path *sim.Path
				if e.Path() != nil {
					copied := *e.Path()
					path = &copied
				}
				want[fmt.Sprint(e.Serial)] = truth{path, e.Timeline, e.TokenTimes(nil), e.Client().Done}
				made = append(made, trace.EntryFromEvent(e))
			}
		})}
		if _, err := sim.Run(context.Background(), cfg, requests); err != nil {
			t.Fatalf("%v: %v", s, err)
		}
		if len(want) == 0 {
			continue
		}
		if err := w.Flush(); err != nil {
			t.Fatalf("%v: %v", s, err)
		}
		if err := short.Flush(); err != nil {
			t.Fatalf("%v: %v", s, err)
		}
		read, err := entries(file.String(), false)
		if err != nil {
			t.Fatalf("%v: %v", s, err)
		}
		if d := cmp.Diff(made, read); d != "" {
			t.Fatalf("%v: EntryFromEvent and a line of Writer differ (-made +read):\n%s", s, d)
		}
		for i := range made {
			made[i].Details.ServerTokens, made[i].Details.ClientTokens = nil, nil
		}
		if read, err := entries(plain.String(), false); err != nil || !cmp.Equal(made, read) {
			t.Fatalf("%v: without tokens: error %v, (-made +read):\n%s", s, err, cmp.Diff(made, read))
		}
		for _, e := range read {
			checkLine(t, &e, want[e.RequestID])
			lines++
			if len(e.Details.ServerTokens) > 0 && e.Details.ServerTokens[0] != e.Details.ClientTokens[0] {
				behind++
			}
			if x := want[e.RequestID]; x.timeline.Queued > x.timeline.Arrival {
				waited++
			}
		}
		if t.Failed() {
			t.Fatalf("%v", s)
		}
	}
	if lines < 500 || behind < 200 || waited < 20 {
		t.Errorf("%d lines, %d with a client apart, %d that waited at the front door: too few to say anything", lines, behind, waited)
	}
}

func checkLine(t *testing.T, e *trace.Entry, x truth) {
	t.Helper()
	p, at := x.path, x.timeline
	if p == nil {
		p = &sim.Path{}
	}
	client := delivered(x.path, x.server)
	n := len(client) - 1
	want := trace.Decomposition{Phases: [trace.NumPhases]time.Duration{
		trace.NetworkIn:      p.NetworkIn,
		trace.Gateway:        p.Gateway + p.Retrieval + p.Assembly + at.Queued.Sub(at.Arrival),
		trace.Queue:          at.Admitted.Sub(at.Queued),
		trace.Prefill:        at.PrefillEnd.Sub(at.Admitted),
		trace.FirstDecode:    at.FirstToken.Sub(at.PrefillEnd),
		trace.NetworkToFirst: client[0].Sub(at.FirstToken),
		trace.Stream:         client[n].Sub(client[0]),
	}}
	got := e.Decompose()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("request %s, %v: phases (-want +got):\n%s", e.RequestID, x.path, d)
	}
	var sum time.Duration
	for _, phase := range got.Phases {
		sum += phase
	}
	if last := x.server[n]; sum != e.E2E() || e.LastTokenClient != last.Add(p.NetworkOut) || e.LastTokenClient.Add(e.Details.Tail) != x.done {
		t.Errorf("request %s, %v: phases add up to %v, E2E %v, last token at %v and %v, tail %v, done %v",
			e.RequestID, x.path, sum, e.E2E(), last, e.LastTokenClient, e.Details.Tail, x.done)
	}
	details := trace.Details{Retrieval: p.Retrieval, Assembly: p.Assembly, Tail: p.Tail, ServerTokens: x.server, ClientTokens: client}
	if d := cmp.Diff(details, e.Details); d != "" {
		t.Errorf("request %s, %v: details (-want +got):\n%s", e.RequestID, x.path, d)
	}
}

// oneReplica is a deployment whose steps take 10 ms, and 40 ms more for a
// prompt.
func oneReplica() sim.Config {
	return sim.Config{Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: steps{}}}}
}

type steps struct{}

func (steps) StepTime(b sim.Batch) time.Duration {
	return 10*time.Millisecond + time.Duration(len(b.Prefills))*40*time.Millisecond
}

func one(r sim.Request) iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) { yield(r, nil) }
}

// Without token times nobody knows when a proxy that counts sent its first
// piece: the writer says what it takes, and does not guess.
func TestWriterNeedsTokenTimes(t *testing.T) {
	counting := &sim.Path{Proxy: sim.Proxy{Tokens: 4}}
	for _, c := range []struct {
		name       string
		tokenTimes bool
		tokens     bool
		path       *sim.Path
		output     int
		want       string
	}{
		{"counting proxy", false, false, counting, 5, "trace: request 1: when the first token reached the client is not known"},
		{"with token times", true, false, counting, 5, ""},
		{"one token", false, false, counting, 1, ""},
		{"clock", false, false, &sim.Path{Proxy: sim.Proxy{Every: time.Millisecond}}, 5, ""},
		{"tokens", false, true, nil, 5, "trace: request 1: the instants of its tokens are not known"},
		{"tokens with token times", true, true, nil, 5, ""},
	} {
		var b bytes.Buffer
		w := &trace.Writer{W: &b, Tokens: c.tokens}
		cfg := oneReplica()
		cfg.TokenTimes = c.tokenTimes
		cfg.Observers = []sim.Observer{w, sim.ObserverFunc(func(e sim.Event) {
			unknown := strings.Contains(c.want, "first token")
			if e.Kind == sim.Finish && (trace.FromEvent(e).FirstTokenClient == trace.Unknown) != unknown {
				t.Errorf("%s: first_token_client %v", c.name, trace.FromEvent(e).FirstTokenClient)
			}
		})}
		if _, err := sim.Run(context.Background(), cfg, one(sim.Request{Prompt: 100, Output: c.output, Path: c.path})); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// A request that came a long way: the engine needs 50 ms for its first token
// and 10 for each other, the path is the rest.
func ExampleEntryFromEvent() {
	cfg := oneReplica()
	cfg.TokenTimes = true
	w := trace.Writer{W: os.Stdout}
	cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
		if e.Kind == sim.Finish {
			entry := trace.EntryFromEvent(e)
			entry.Details.Class = "chat"
			w.WriteEntry(entry)
		}
	})}
	path := &sim.Path{NetworkIn: 70 * time.Millisecond, Gateway: 45 * time.Millisecond, Retrieval: 430 * time.Millisecond, Assembly: 25 * time.Millisecond,
		Proxy: sim.Proxy{Tokens: 2}, NetworkOut: 30 * time.Millisecond, Tail: 5 * time.Millisecond}
	arrival := sim.Time(path.Before()) // sent at 0
	if _, err := sim.Run(context.Background(), cfg, one(sim.Request{Arrival: arrival, Prompt: 512, Output: 4, Path: path})); err != nil {
		fmt.Println(err)
	}
	if err := w.Flush(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"request_id":"1","prompt_tokens":512,"output_tokens":4,"client_send_ms":0,"gateway_arrival_ms":70,"queue_enter_ms":570,"prefill_start_ms":570,"prefill_end_ms":620,"first_token_server_ms":620,"first_token_client_ms":660,"last_token_client_ms":680,"details_version":1,"class":"chat","retrieval_ms":430,"prompt_assembly_ms":25,"client_tail_ms":5,"server_tokens_ms":[620,630,640,650],"client_tokens_ms":[660,660,680,680]}
}
