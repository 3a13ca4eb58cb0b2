package metrics_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/sim/metrics"
)

func withClasses(classes ...sim.Class) sim.Config {
	return sim.Config{Replicas: []sim.Replica{{}}, Classes: classes}
}

// 100 offered: 60 meet both targets, 30 miss one, 10 are rejected.
func TestGoodput(t *testing.T) {
	cfg := withClasses(sim.Class{TTFT: 100 * time.Millisecond, Gap: 10 * time.Millisecond})
	var requests []request
	for i := range 100 {
		r := request{serial: int64(i), arrival: 10 * i, admitted: 10 * i}
		switch {
		case i < 60: // a first token exactly on target meets it
			r.tokens = []int{10*i + 100, 10*i + 110}
		case i < 75:
			r.tokens = []int{10*i + 101, 10*i + 110}
		case i < 90:
			r.tokens, r.over = []int{10*i + 99, 10*i + 110}, 1
		default:
			r.end, r.endAt, r.reason = sim.Reject, 10*i, sim.RejectKVCapacity
		}
		requests = append(requests, r)
	}
	r := report(t, cfg, metrics.Options{}, events(2000, requests...))
	type counts struct {
		Arrived, Completed, Rejected, Met, Attempts, Failed int64
		Rejections                                          []metrics.Rejections
	}
	want := counts{100, 90, 10, 60, 100, 10, []metrics.Rejections{{Reason: sim.RejectKVCapacity, Count: 10, Prompt: 10}}}
	if d := cmp.Diff(want, counts{r.Arrived, r.Completed, r.Rejected, r.Met, r.Attempts, r.Failed, r.Rejections}); d != "" {
		t.Errorf("counts (-want +got):\n%s", d)
	}
	// First arrival at 0, last completion at 890 + 110 ms.
	type rates struct{ Goodput, Requests, Attainment metrics.Number }
	if d := cmp.Diff(rates{60, 90, 0.6}, rates{r.Goodput, r.RequestThroughput, r.Attainment}, near); d != "" {
		t.Errorf("rates (-want +got):\n%s", d)
	}
}

// spread returns n gaps that sum to total milliseconds, as tokens.
func spread(n, total int) []int {
	tokens := []int{10}
	for i := 1; i <= n; i++ {
		tokens = append(tokens, 10+total*i/n)
	}
	return tokens
}

func TestGapRules(t *testing.T) {
	for _, c := range []struct {
		rule        metrics.GapRule
		gaps, total int
		over        int32
		want        int64
	}{
		// Nearest rank p95 allows n - ⌈0.95 n⌉ gaps over the target.
		{metrics.GapP95, 1, 10, 0, 1}, {metrics.GapP95, 1, 10, 1, 0},
		{metrics.GapP95, 19, 190, 0, 1}, {metrics.GapP95, 19, 190, 1, 0},
		{metrics.GapP95, 20, 200, 1, 1}, {metrics.GapP95, 20, 200, 2, 0},
		{metrics.GapP95, 39, 390, 1, 1}, {metrics.GapP95, 39, 390, 2, 0},
		{metrics.GapP95, 100, 1000, 5, 1}, {metrics.GapP95, 100, 1000, 6, 0},
		{metrics.GapMax, 100, 1000, 0, 1}, {metrics.GapMax, 100, 1000, 1, 0},
		{metrics.GapMean, 3, 30, 1, 1}, {metrics.GapMean, 3, 31, 1, 0}, {metrics.GapMean, 3, 29, 2, 1},
		// One token has no gap.
		{metrics.GapP95, 0, 0, 0, 1}, {metrics.GapMean, 0, 0, 0, 1}, {metrics.GapMax, 0, 0, 0, 1},
	} {
		cfg := withClasses(sim.Class{Gap: 10 * time.Millisecond})
		tokens := []int{10}
		if c.gaps > 0 {
			tokens = spread(c.gaps, c.total)
		}
		r := report(t, cfg, metrics.Options{Gap: c.rule}, events(2000, request{tokens: tokens, over: c.over}))
		if r.Met != c.want {
			t.Errorf("%v, %d gaps in %d ms, %d over: met %d, want %d", c.rule, c.gaps, c.total, c.over, r.Met, c.want)
		}
	}
}

// A mean gap a fraction of a nanosecond over the target misses it.
func TestMeanGapIsNotRounded(t *testing.T) {
	for late, want := range map[sim.Time]int64{0: 1, 1: 0} {
		es := events(100, request{tokens: spread(3, 30)})
		for i := range es {
			if es[i].Kind == sim.Finish {
				es[i].Time += late
			}
		}
		r := report(t, withClasses(sim.Class{Gap: 10 * time.Millisecond}), metrics.Options{Gap: metrics.GapMean}, es)
		if r.Met != want {
			t.Errorf("3 gaps in 30 ms and %d ns: met %d, want %d", late, r.Met, want)
		}
	}
}

func TestClasses(t *testing.T) {
	cfg := withClasses(sim.Class{Name: "chat", TTFT: 20 * time.Millisecond}, sim.Class{Name: "batch"})
	r := report(t, cfg, metrics.Options{}, events(200,
		request{serial: 1, class: 0, tokens: []int{10, 20}},
		request{serial: 2, class: 0, tokens: []int{30, 40}},
		request{serial: 3, class: 1, tokens: []int{50, 100}},
		request{serial: 4, class: 1, end: sim.Abort, endAt: 60},
		request{serial: 5, class: 1, end: sim.Reject, reason: "b"},
		request{serial: 6, class: 0, end: sim.Reject, reason: "b"},
		request{serial: 7, class: 0, end: sim.Reject, reason: "a"},
		request{serial: 8, class: 7, end: sim.Reject, reason: sim.RejectUnknownClass},
		request{serial: 9, class: 1, end: sim.End}, // never ends
	))
	type figures struct {
		Class                                             string
		Arrived, Completed, Rejected, Aborted, Unfinished int64
		Rejections                                        []metrics.Rejections
		TTFT, ITL, Tokens, Goodput, Attainment            metrics.Number
	}
	pick := func(k metrics.Cell) figures {
		return figures{k.Class, k.Arrived, k.Completed, k.Rejected, k.Aborted, k.Unfinished, k.Rejections,
			k.TTFT.Mean, k.ITL.Mean, k.TokenThroughput, k.Goodput, k.Attainment}
	}
	var got []figures
	for _, k := range append([]metrics.Cell{r.Cell}, r.Classes...) {
		got = append(got, pick(k))
	}
	want := []figures{
		{"", 9, 3, 4, 1, 1, []metrics.Rejections{{"a", 1, 1}, {"b", 2, 2}, {"unknown_class", 1, 1}}, 30, 70.0 / 3, 60, 20, 2.0 / 9},
		{"chat", 4, 2, 2, 0, 0, []metrics.Rejections{{"a", 1, 1}, {"b", 1, 1}}, 20, 10, 40, 10, 0.25},
		{"batch", 4, 1, 1, 1, 1, []metrics.Rejections{{"b", 1, 1}}, 50, 50, 20, nan, nan},
		{"(unknown)", 1, 0, 1, 0, 0, []metrics.Rejections{{"unknown_class", 1, 1}}, nan, nan, 0, nan, nan},
	}
	if d := cmp.Diff(want, got, near); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
