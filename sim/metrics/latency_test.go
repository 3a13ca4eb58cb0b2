package metrics_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"servesim/sim"
	"servesim/sim/metrics"
)

// near compares figures of a report: NaN equals NaN.
var near = cmp.Options{
	cmp.Transformer("float", func(v metrics.Number) float64 { return float64(v) }),
	cmpopts.EquateNaNs(), cmpopts.EquateApprox(1e-9, 1e-12),
}

var nan = metrics.Number(math.NaN())

// lab is the request-trace laboratory: five requests with queues of 2, 2, 8,
// 8 and 27 ms; only the times of E are given, the other arrivals are free.
func lab(delayE int) []request {
	return []request{
		{serial: 1, arrival: 0, admitted: 2, tokens: []int{10, 14, 18, 22}},
		{serial: 2, arrival: 0, admitted: 2, tokens: []int{10}},
		{serial: 3, arrival: 5, admitted: 13, tokens: []int{24, 28, 32}},
		{serial: 4, arrival: 10, admitted: 18, tokens: []int{25, 29}},
		{serial: 5, arrival: 3, admitted: 30, tokens: []int{45 + delayE, 49 + delayE, 65 + delayE}},
	}
}

func TestLatenciesOfTheLab(t *testing.T) {
	all := []string{"p90", "p95", "p99"}
	for _, c := range []struct {
		name             string
		method           metrics.Method
		delayE           int
		ttft, itl, tpot  metrics.Summary
		tokensPerS, reqs metrics.Number
	}{
		{
			name: "nearest rank", method: metrics.NearestRank,
			ttft:       metrics.Summary{N: 5, Mean: 19.2, P50: 15, P90: 42, P95: 42, P99: 42, Max: 42, Few: all},
			itl:        metrics.Summary{N: 8, Mean: 5.5, P50: 4, P90: 16, P95: 16, P99: 16, Max: 16, Few: all},
			tpot:       metrics.Summary{N: 4, Mean: 5.5, P50: 4, P90: 10, P95: 10, P99: 10, Max: 10, Few: all},
			tokensPerS: 200, reqs: 5 / 0.065,
		},
		{
			name: "linear", method: metrics.Linear,
			// TTFT 10 10 15 19 42: p90 at 3.6, p95 at 3.8, p99 at 3.96.
			ttft: metrics.Summary{N: 5, Mean: 19.2, P50: 15, P90: 32.8, P95: 37.4, P99: 41.08, Max: 42, Few: all},
			// Seven gaps of 4 and one of 16: p90 at 6.3, p95 at 6.65, p99 at 6.93.
			itl: metrics.Summary{N: 8, Mean: 5.5, P50: 4, P90: 7.6, P95: 11.8, P99: 15.16, Max: 16, Few: all},
			// 4 4 4 10: p90 at 2.7, p95 at 2.85, p99 at 2.97.
			tpot:       metrics.Summary{N: 4, Mean: 5.5, P50: 4, P90: 8.2, P95: 9.1, P99: 9.82, Max: 10, Few: all},
			tokensPerS: 200, reqs: 5 / 0.065,
		},
		{
			name: "E delivered 10 ms later", method: metrics.NearestRank, delayE: 10,
			ttft:       metrics.Summary{N: 5, Mean: 21.2, P50: 15, P90: 52, P95: 52, P99: 52, Max: 52, Few: all},
			itl:        metrics.Summary{N: 8, Mean: 5.5, P50: 4, P90: 16, P95: 16, P99: 16, Max: 16, Few: all},
			tpot:       metrics.Summary{N: 4, Mean: 5.5, P50: 4, P90: 10, P95: 10, P99: 10, Max: 10, Few: all},
			tokensPerS: 13 / 0.075, reqs: 5 / 0.075,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := report(t, oneReplica, metrics.Options{Percentiles: c.method}, events(100, lab(c.delayE)...))
			for _, s := range []struct {
				name      string
				want, got any
			}{
				{"TTFT", c.ttft, r.TTFT}, {"ITL", c.itl, r.ITL}, {"TPOT", c.tpot, r.TPOT},
				{"tokens per second", c.tokensPerS, r.TokenThroughput}, {"requests per second", c.reqs, r.RequestThroughput},
				{"one token", int64(1), r.OneToken}, {"convention", c.method.String(), r.Percentiles},
			} {
				if d := cmp.Diff(s.want, s.got, near); d != "" {
					t.Errorf("%s (-want +got):\n%s", s.name, d)
				}
			}
		})
	}
}

func TestEndToEnd(t *testing.T) {
	// E2E of the lab: 22, 10, 27, 19, 62.
	r := report(t, oneReplica, metrics.Options{}, events(100, lab(0)...))
	want := metrics.Summary{N: 5, Mean: 28, P50: 22, P90: 48, P95: 55, P99: 60.6, Max: 62, Few: []string{"p90", "p95", "p99"}}
	if d := cmp.Diff(want, r.E2E, near); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A group of equal gaps counts once per token, whatever the grouping.
func TestWeightedPercentilesEqualExpanded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, method := range []metrics.Method{metrics.Linear, metrics.NearestRank} {
		for range 50 {
			c := collector(t, sim.Config{Replicas: oneReplica.Replicas, Classes: make([]sim.Class, 3)}, metrics.Options{Percentiles: method})
			var expanded []float64
			var now sim.Time
			for range 1 + random.IntN(40) {
				now += ms(100)
				var gaps []sim.GapGroup
				for class := range 3 {
					gap, count := 1+random.IntN(5), random.IntN(4)
					gaps = append(gaps, sim.GapGroup{Prev: now - ms(gap), Class: class, Count: count})
					for range count {
						expanded = append(expanded, float64(gap))
					}
				}
				c.Observe(sim.Event{Kind: sim.StepEnd, Batch: &sim.Batch{}, Time: now, Gaps: gaps})
			}
			got := c.Report().ITL
			for _, p := range []struct {
				q   float64
				got metrics.Number
			}{{0.50, got.P50}, {0.90, got.P90}, {0.95, got.P95}, {0.99, got.P99}, {1, got.Max}} {
				want := metrics.Number(metrics.Percentile(expanded, p.q, method))
				if d := cmp.Diff(want, p.got, near); d != "" {
					t.Fatalf("%v p%v of %v (-want +got):\n%s", method, 100*p.q, expanded, d)
				}
			}
		}
	}
}

func TestPercentileFlags(t *testing.T) {
	for _, c := range []struct {
		n, minBeyond int
		want         []string
	}{
		{n: 1, want: []string{"p50", "p90", "p95", "p99"}},
		{n: 2, want: []string{"p90", "p95", "p99"}},
		{n: 19, want: []string{"p95", "p99"}},
		{n: 20, want: []string{"p99"}},
		{n: 99, want: []string{"p99"}},
		{n: 100},
		{n: 100, minBeyond: 5, want: []string{"p99"}},
		{n: 99, minBeyond: 5, want: []string{"p95", "p99"}},
		{n: 0},
	} {
		c2 := collector(t, oneReplica, metrics.Options{MinBeyond: c.minBeyond})
		c2.Observe(sim.Event{Kind: sim.StepEnd, Batch: &sim.Batch{}, Time: ms(9), Gaps: []sim.GapGroup{{Prev: ms(8), Count: c.n}}})
		if d := cmp.Diff(c.want, c2.Report().ITL.Few); d != "" {
			t.Errorf("n %d, MinBeyond %d (-want +got):\n%s", c.n, c.minBeyond, d)
		}
	}
}

// Short gaps after a long one are not lost in the mean.
func TestMeanIsExact(t *testing.T) {
	const long = 1 << 53 // ns; the next float64 is long + 2
	c := collector(t, oneReplica, metrics.Options{})
	c.Observe(sim.Event{Kind: sim.StepEnd, Batch: &sim.Batch{}, Time: long, Gaps: []sim.GapGroup{{Prev: 0, Count: 1}}})
	for i := range sim.Time(999) {
		c.Observe(sim.Event{Kind: sim.StepEnd, Batch: &sim.Batch{}, Time: long + i + 1, Gaps: []sim.GapGroup{{Prev: long + i, Count: 1}}})
	}
	// Plain addition is off by 1e-13.
	if got, want := float64(c.Report().ITL.Mean), 9007199254741991/1e9; math.Abs(got/want-1) > 1e-15 {
		t.Errorf("mean %v ms, want %v", got, want)
	}
}

func TestEventsOutOfOrderPanic(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a gap that ends before it starts was taken in")
		}
	}()
	collector(t, oneReplica, metrics.Options{}).Observe(
		sim.Event{Kind: sim.StepEnd, Batch: &sim.Batch{}, Time: ms(1), Took: time.Millisecond, Gaps: []sim.GapGroup{{Prev: ms(2), Count: 1}}})
}
