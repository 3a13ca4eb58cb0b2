package metrics_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/costmodel"
	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/metrics"
)

// recount works a report's figures out again from the instant of every token.
type recount struct {
	classes        []sim.Class
	ttft, itl, e2e []float64 // ms
	met            int64
	times          []sim.Time
}

func (r *recount) Observe(e sim.Event) {
	switch e.Kind {
	case sim.Finish, sim.Reject, sim.Abort:
	default:
		return
	}
	r.times = e.TokenTimes(r.times[:0])
	var gaps []float64
	for i := 1; i < len(r.times); i++ {
		gaps = append(gaps, r.times[i].Sub(r.times[i-1]).Seconds()*1e3)
	}
	r.itl = append(r.itl, gaps...)
	if e.Kind != sim.Finish {
		return
	}
	ttft := (r.times[0] - e.Timeline.Arrival).Seconds() * 1e3
	r.ttft = append(r.ttft, ttft)
	r.e2e = append(r.e2e, (r.times[len(r.times)-1]-e.Timeline.Arrival).Seconds()*1e3)
	k := r.classes[e.Class]
	within := func(v float64, target time.Duration) bool { return target == 0 || v <= target.Seconds()*1e3+1e-9 }
	if within(ttft, k.TTFT) && (len(gaps) == 0 || within(metrics.Percentile(gaps, 0.95, metrics.NearestRank), k.Gap)) {
		r.met++
	}
}

// A run under memory pressure, with impatient clients and oversized prompts.
func TestReportOfARunAgreesWithItsTokenTimes(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	classes := []sim.Class{{Name: "chat", TTFT: 400 * time.Millisecond, Gap: 35 * time.Millisecond}, {Name: "batch", TTFT: 3 * time.Second}}
	second := &recount{classes: classes}
	cfg := sim.Config{Classes: classes, TokenTimes: true, Router: &scheduler.RoundRobin{}}
	for range 2 {
		cfg.Replicas = append(cfg.Replicas, sim.Replica{Scheduler: scheduler.ChunkedPrefill{}, KVBlocks: 121, ReservedBlocks: 1, MaxBatchTokens: 256,
			CostModel: costmodel.Linear{Fixed: 8 * time.Millisecond, PerPromptToken: 50 * time.Microsecond, PerDecode: 100 * time.Microsecond}})
	}
	c := collector(t, cfg, metrics.Options{})
	cfg.Observers = []sim.Observer{c, second}
	requests := func(yield func(sim.Request, error) bool) {
		now := sim.Time(0)
		for i := range 600 {
			now += sim.Time(random.ExpFloat64() * 45e6)
			r := sim.Request{ID: i, Arrival: now, Prompt: 1 + random.IntN(400), Output: 1 + random.IntN(200), Class: random.IntN(2)}
			switch {
			case i%50 == 0:
				r.Prompt = 5000
			case i%7 == 0:
				r.Patience.Total = 2 * time.Second
			}
			if !yield(r, nil) {
				return
			}
		}
	}
	result, err := sim.Run(context.Background(), cfg, requests)
	if err != nil {
		t.Fatal(err)
	}
	got := c.Report()
	if len(got.Findings) > 0 {
		t.Errorf("findings %q", got.Findings)
	}
	type counts struct{ Arrived, Completed, Rejected, Aborted, Unfinished, Preemptions, Steps, Tokens, Met int64 }
	want := counts{result.Arrived, result.Completed, result.Rejected, result.Aborted, result.Unfinished, result.Preemptions,
		result.Steps, result.Tokens, second.met}
	if d := cmp.Diff(want, counts{got.Arrived, got.Completed, got.Rejected, got.Aborted, got.Unfinished, got.Preemptions,
		got.Steps, got.Tokens, got.Met}); d != "" {
		t.Errorf("counts (-want +got):\n%s", d)
	}
	if want.Rejected == 0 || want.Aborted == 0 || want.Preemptions == 0 || want.Met == 0 || want.Met == want.Completed {
		t.Errorf("the run shows too little: %+v", want)
	}
	for _, s := range []struct {
		name   string
		values []float64
		got    metrics.Summary
	}{{"TTFT", second.ttft, got.TTFT}, {"ITL", second.itl, got.ITL}, {"E2E", second.e2e, got.E2E}} {
		at := func(q float64) metrics.Number {
			return metrics.Number(metrics.Percentile(s.values, q, metrics.Linear))
		}
		sum := 0.0
		for _, v := range s.values {
			sum += v
		}
		n := len(s.values)
		want := metrics.Summary{N: int64(n), Mean: metrics.Number(sum / float64(n)), P50: at(0.5), P90: at(0.9), P95: at(0.95), P99: at(0.99), Max: at(1)}
		if d := cmp.Diff(want, s.got, near); d != "" {
			t.Errorf("%s (-want +got):\n%s", s.name, d)
		}
	}
}
