package metrics_test

import (
	"context"
	"fmt"
	"iter"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/metrics"
	"servesim/sim/simtest"
	"servesim/workload"
)

// far is two regions of clients: one beside the engine, one far away behind a
// proxy.
func far(proxy sim.Proxy) workload.ClientSide {
	return workload.ClientSide{Seed: 1, Classes: []workload.Regions{{
		{Name: "beside", Weight: 1},
		{Name: "far", Weight: 2, Path: workload.ClientPath{
			NetworkIn: workload.ExponentialDelay{Base: 3 * time.Microsecond, Mean: 9 * time.Microsecond}, Gateway: workload.After(4 * time.Microsecond),
			Proxy: proxy, NetworkOut: workload.ExponentialDelay{Mean: 7 * time.Microsecond}, Tail: workload.After(time.Microsecond)}},
	}}}
}

// seen are the latencies of one request at its client, ns.
type seen struct {
	class     int
	ttft, e2e float64
	gaps      []float64
}

// The figures at the client are those of the tokens that the path delivers,
// whatever is rejected, given up, sent again or preempted, and those at the
// engine are what they are without a path.
func TestClientFigures(t *testing.T) {
	completed, retried := 0, int64(0)
	for seed := range uint64(60) {
		s := simtest.Scenario{Seed: seed}
		cfg := s.Config(func() sim.Scheduler { return scheduler.ChunkedPrefill{} })
		c := far([]sim.Proxy{{}, {Tokens: 3}, {Every: 20 * time.Microsecond}, {Tokens: 4, Every: 15 * time.Microsecond}}[seed%4])
		retry := workload.Retry{Attempts: 3, Backoff: 30 * time.Microsecond}
		cfg.FollowUp = c.FollowUp(workload.FollowUps(retry.FollowUp, cfg.FollowUp))
		var requests []seen
		cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind != sim.Finish {
				return
			}
			_, start := e.Attempt()
			tokens := e.Path().Deliver(nil, e.TokenTimes(nil))
			send := start.Add(-e.Path().Before())
			x := seen{class: e.Class, ttft: float64(tokens[0] - send), e2e: float64(tokens[len(tokens)-1] - send)}
			for i, at := range tokens[1:] {
				x.gaps = append(x.gaps, float64(at-tokens[i]))
			}
			requests = append(requests, x)
		})}
		sent := slices.SortedStableFunc(valuesOf(t, s.Requests()), func(a, b sim.Request) int { return int(a.Arrival - b.Arrival) })
		for i := range sent {
			if sent[i].Class < 0 || sent[i].Class > 2 {
				sent[i].Class = 0
			}
			c.Classes = []workload.Regions{c.Classes[0]} // one for every class
		}
		r, err := metrics.Run(context.Background(), cfg, metrics.Options{ClientGaps: true}, c.Requests(workload.FromSlice(sent)))
		if err != nil {
			t.Fatalf("%v: %v", s, err)
		}
		for class := -1; class < 3; class++ {
			got := r.Client
			if class >= 0 {
				got = r.Classes[class].Client
			}
			var ttft, e2e, gaps, tpot []float64
			for _, x := range requests {
				if class >= 0 && x.class != class {
					continue
				}
				ttft, e2e, gaps = append(ttft, x.ttft), append(e2e, x.e2e), append(gaps, x.gaps...)
				if n := len(x.gaps); n > 0 {
					tpot = append(tpot, (x.e2e-x.ttft)/float64(n))
				}
			}
			for _, f := range []struct {
				name string
				got  metrics.Summary
				want []float64
			}{{"TTFT", got.TTFT, ttft}, {"ITL", got.ITL, gaps}, {"TPOT", got.TPOT, tpot}, {"E2E", got.E2E, e2e}} {
				checkSummary(t, fmt.Sprintf("seed %d, class %d: %s", seed, class, f.name), f.got, f.want)
			}
		}
		if r.Client.FirstUnknown != 0 || int(r.Completed) != len(requests) {
			t.Errorf("seed %d: %d first tokens unknown, %d of %d completed", seed, r.Client.FirstUnknown, len(requests), r.Completed)
		}
		completed += len(requests)
		retried += r.Attempts - r.Arrived
	}
	if completed < 300 || retried < 30 {
		t.Errorf("%d completed, %d retries: too few to say anything", completed, retried)
	}
}

func valuesOf(t *testing.T, requests iter.Seq2[sim.Request, error]) iter.Seq[sim.Request] {
	return func(yield func(sim.Request) bool) {
		for q, err := range requests {
			if err != nil {
				t.Fatal(err)
			}
			if !yield(q) {
				return
			}
		}
	}
}

func checkSummary(t *testing.T, what string, got metrics.Summary, want []float64) {
	t.Helper()
	if got.N != int64(len(want)) {
		t.Errorf("%s: n is %d, want %d", what, got.N, len(want))
		return
	}
	if len(want) == 0 {
		return
	}
	slices.Sort(want)
	sum := 0.0
	for _, v := range want {
		sum += v
	}
	median := (want[(len(want)-1)/2] + want[len(want)/2]) / 2
	for _, f := range []struct {
		name      string
		got, want float64
	}{{"mean", float64(got.Mean), sum / float64(len(want))}, {"p50", float64(got.P50), median}, {"max", float64(got.Max), want[len(want)-1]}} {
		if math.Abs(f.got*1e6-f.want) > 1e-9*f.want+1e-6 {
			t.Errorf("%s: %s is %v ns, want %v", what, f.name, f.got*1e6, f.want)
		}
	}
}

// tenSteps is one replica whose steps take 10 ms, 50 with a prompt, and a class
// with targets.
func tenSteps(ttft, gap time.Duration) sim.Config {
	return sim.Config{Classes: []sim.Class{{Name: "chat", TTFT: ttft, Gap: gap}}, Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{},
		CostModel: sim.CostFunc(func(b sim.Batch) time.Duration {
			return 10*time.Millisecond + 40*time.Millisecond*time.Duration(len(b.Prefills))
		})}}}
}

// Targets are met at one boundary and missed at the other. What nobody knows is
// not said.
func TestTargetsAtTheClient(t *testing.T) {
	const ms = time.Millisecond
	way := &sim.Path{NetworkIn: 20 * ms, NetworkOut: 30 * ms}
	counting := &sim.Path{Proxy: sim.Proxy{Tokens: 4}}
	clock := &sim.Path{Proxy: sim.Proxy{Every: 40 * ms}}
	const unknown = math.MaxInt
	for _, c := range []struct {
		name       string
		path       *sim.Path
		ttft, gap  time.Duration
		rule       metrics.GapRule
		tokenTimes bool
		output     int
		engine     int // met, of one
		client     int
	}{
		{"beside", nil, 50 * ms, 10 * ms, metrics.GapP95, false, 20, 1, 1},
		{"far", way, 99 * ms, 10 * ms, metrics.GapP95, false, 20, 1, 0},
		{"far, a longer target", way, 100 * ms, 10 * ms, metrics.GapMax, false, 20, 1, 1},
		{"smooth, far, missed gaps", way, 100 * ms, 9 * ms, metrics.GapP95, false, 20, 0, 0},
		{"in fours", counting, 0, 39 * ms, metrics.GapMax, true, 20, 1, 0},
		{"in fours, a longer target", counting, 80 * ms, 40 * ms, metrics.GapMax, true, 20, 1, 1},
		{"in fours, late", counting, 79 * ms, 40 * ms, metrics.GapMax, true, 20, 1, 0},
		{"in fours, one gap in 4 is longer", counting, 0, 39 * ms, metrics.GapP95, true, 20, 1, 0},
		{"in fours, the mean gap", counting, 0, 9 * ms, metrics.GapMean, true, 20, 0, 1}, // 160 of 19
		{"in fours, not known", counting, 80 * ms, 0, metrics.GapP95, false, 20, 1, unknown},
		{"in fours, gaps not known", counting, 0, 40 * ms, metrics.GapP95, false, 20, 1, unknown},
		{"in fours, mean not known", counting, 0, 40 * ms, metrics.GapMean, false, 20, 1, unknown},
		{"in fours, one token", counting, 50 * ms, 1 * ms, metrics.GapP95, false, 1, 1, 1},
		{"by the clock", clock, 90 * ms, 0, metrics.GapP95, false, 20, 1, 1},
		{"by the clock, late", clock, 89 * ms, 0, metrics.GapP95, false, 20, 1, 0},
		{"by the clock, gaps not known", clock, 90 * ms, 40 * ms, metrics.GapP95, false, 20, 1, unknown},
		{"by the clock, late, gaps not known", clock, 89 * ms, 40 * ms, metrics.GapP95, false, 20, 1, 0},
		{"by the clock, gaps", clock, 90 * ms, 40 * ms, metrics.GapMax, true, 20, 1, 1},
	} {
		for boundary, want := range []int{c.engine, c.client} {
			cfg := tenSteps(c.ttft, c.gap)
			cfg.TokenTimes = c.tokenTimes
			r, err := metrics.Run(context.Background(), cfg, metrics.Options{Gap: c.rule, Boundary: metrics.Boundary(boundary)},
				workload.FromSlice([]sim.Request{{Arrival: 1e9, Prompt: 10, Output: c.output, Path: c.path}}))
			if err != nil {
				t.Fatal(err)
			}
			known := want != unknown
			if !known {
				want = 0
			}
			says := slices.ContainsFunc(r.Findings, func(f string) bool {
				return strings.HasPrefix(f, "whether targets were met is not known of 1 completed request")
			})
			if r.Met != int64(want) || r.Attainment.Defined() != known || r.Goodput.Defined() != known || says == known || known && float64(r.Attainment) != float64(want) {
				t.Errorf("%s at the %s: %d met, attainment %v, want %d, known %v; findings %q", c.name, r.Boundary, r.Met, r.Attainment, want, known, r.Findings)
			}
			if (r.Client != nil) != (boundary == 1) {
				t.Errorf("%s at the %s: client %+v", c.name, r.Boundary, r.Client)
			}
		}
	}
}

// Behind a proxy that counts, a run without token times measures E2E at the
// client and says that it does not measure TTFT.
func TestClientNotMeasured(t *testing.T) {
	cfg := tenSteps(0, 0)
	path := &sim.Path{NetworkIn: 20 * time.Millisecond, NetworkOut: 30 * time.Millisecond, Proxy: sim.Proxy{Tokens: 2}, Tail: time.Second}
	r, err := metrics.Run(context.Background(), cfg, metrics.Options{Client: true}, workload.FromSlice([]sim.Request{{Arrival: 1e9, Prompt: 10, Output: 5, Path: path}}))
	if err != nil {
		t.Fatal(err)
	}
	c := r.Client
	if c.FirstUnknown != 1 || c.TTFT.N+c.TPOT.N+c.ITL.N != 0 || c.TTFT.P50.Defined() || c.E2E.Max != 140 || r.E2E.Max != 90 || r.TTFT.Max != 50 {
		t.Errorf("client %+v, engine TTFT %v E2E %v", c, r.TTFT.Max, r.E2E.Max)
	}
	want := []string{"TTFT and TPOT at the client are not measured for 1 completed requests: behind a proxy that counts tokens they take sim.Config.TokenTimes"}
	if d := cmp.Diff(want, r.Findings); d != "" {
		t.Errorf("findings (-want +got):\n%s", d)
	}
}

func TestClientOptions(t *testing.T) {
	for _, c := range []struct {
		o    metrics.Options
		want string
	}{
		{metrics.Options{Boundary: 2}, "metrics: Options.Boundary is boundary(2)"},
		{metrics.Options{ClientGaps: true}, "metrics: Options.ClientGaps takes sim.Config.TokenTimes"},
	} {
		if _, err := metrics.New(oneReplica, c.o); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

// The same request at both boundaries: the engine meets a target of 60 ms to the
// first token, the client waits 110.
func ExampleOptions_client() {
	cfg := tenSteps(60*time.Millisecond, 0)
	path := &sim.Path{NetworkIn: 30 * time.Millisecond, NetworkOut: 30 * time.Millisecond}
	requests := workload.FromSlice([]sim.Request{{Arrival: sim.Time(path.Before()), Prompt: 512, Output: 11, Path: path}})
	for _, boundary := range []metrics.Boundary{metrics.AtEngine, metrics.AtClient} {
		r, err := metrics.Run(context.Background(), cfg, metrics.Options{Client: true, Boundary: boundary}, requests)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		fmt.Printf("TTFT %v ms at the engine, %v at the client; E2E %v and %v; target at the %s: %d of %d\n",
			r.TTFT.P50, r.Client.TTFT.P50, r.E2E.P50, r.Client.E2E.P50, r.Boundary, r.Met, r.Arrived)
	}
	// Output:
	// TTFT 50.00 ms at the engine, 110.0 at the client; E2E 150.0 and 210.0; target at the engine: 1 of 1
	// TTFT 50.00 ms at the engine, 110.0 at the client; E2E 150.0 and 210.0; target at the client: 0 of 1
}

func TestClientText(t *testing.T) {
	cfg := tenSteps(60*time.Millisecond, 0)
	path := &sim.Path{NetworkIn: 30 * time.Millisecond, Proxy: sim.Proxy{Tokens: 2}}
	r, err := metrics.Run(context.Background(), cfg, metrics.Options{Boundary: metrics.AtClient}, workload.FromSlice([]sim.Request{{Arrival: 1e9, Prompt: 10, Output: 5, Path: path}}))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\nat the client, ms\n",
		"\nE2E          1      120.0     120.0*",
		"\n1 with a first token at an unknown instant\n",
		"\nattainment –: 0 of 1 (gap target by p95 per request, nearest-rank,\n  all targets at the client)\n",
		"\nfinding: TTFT and TPOT at the client are not measured",
		"\nclient      start is the send",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, &b)
		}
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if len([]rune(line)) > 80 {
			t.Errorf("%d columns: %s", len([]rune(line)), line)
		}
	}
}
