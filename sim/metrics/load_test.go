package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"servesim/sim"
	"servesim/sim/metrics"
)

// Ten requests a second, 80 ms each, one at a time: evenly, and in bursts.
func TestQueueOfBursts(t *testing.T) {
	even := func(i int) (arrival, start int) { return 100 * i, 100 * i }
	bursts := func(i int) (arrival, start int) { return 1000 * (i / 10), 1000*(i/10) + 80*(i%10) }
	for _, c := range []struct {
		name  string
		times func(int) (int, int)
		want  metrics.Load
	}{
		{"even", even, metrics.Load{InSystemMean: 0.8, InSystemPeak: 1, RunningMean: 0.8, RunningPeak: 1}},
		// Waits of 0, 80, …, 720 ms, mean 360; nine wait from the start on.
		{"bursts", bursts, metrics.Load{QueueMean: 3.6, QueuePeak: 9, InSystemMean: 4.4, InSystemPeak: 10, RunningMean: 0.8, RunningPeak: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var requests []request
			for i := range 30 {
				arrival, start := c.times(i)
				requests = append(requests, request{serial: int64(i), arrival: arrival, admitted: start, tokens: []int{start + 80}})
			}
			r := report(t, oneReplica, metrics.Options{}, events(3000, requests...))
			levels := cmpopts.IgnoreFields(metrics.Load{}, "BatchMean", "BatchPerStep", "BatchPeak", "KVMean", "KVPeak", "Busy")
			if d := cmp.Diff(c.want, r.Load, near, levels); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			want := metrics.Little{L: c.want.InSystemMean, Lambda: 10, W: c.want.InSystemMean / 10}
			if d := cmp.Diff(want, r.Little, near); d != "" {
				t.Errorf("Little (-want +got):\n%s", d)
			}
			if len(r.Findings) > 0 {
				t.Errorf("findings %q", r.Findings)
			}
		})
	}
}

func stepOf(replica int32, from, to, sequences, free int) sim.Event {
	return sim.Event{Kind: sim.StepEnd, Replica: replica, Time: ms(to), Took: time.Duration(to-from) * time.Millisecond,
		Batch: &sim.Batch{Decodes: sequences - 1, Prefills: make([]sim.Chunk, 1)}, FreeBlocks: free, Tokens: int32(sequences)}
}

func TestOccupancyAndBatch(t *testing.T) {
	limited := []sim.Replica{{KVBlocks: 300}, {KVBlocks: 110, ReservedBlocks: 10}}
	// One sequence for 10 ms, three for 20 and two for 10: 90 / 40 over the
	// busy time, 2 a step. 40 of 80 replica-milliseconds are busy.
	load := func(mean, peak metrics.Number) metrics.Load {
		return metrics.Load{KVMean: mean, KVPeak: peak, BatchMean: 2.25, BatchPerStep: 2, BatchPeak: 3, Busy: 0.5}
	}
	for _, c := range []struct {
		name     string
		replicas []sim.Replica
		want     metrics.Load
	}{
		// 60 blocks for 10 ms, 300 for 20, 30 for 10, of 400 over 40 ms: 6900 / 16000.
		{"two limited", limited, load(0.43125, 1)},
		{"one limited", []sim.Replica{{}, limited[1]}, load(0.15, 0.6)},
		{"none limited", []sim.Replica{{}, {}}, load(nan, nan)},
	} {
		r := report(t, sim.Config{Replicas: c.replicas}, metrics.Options{}, []sim.Event{
			stepOf(1, 0, 10, 1, 40), stepOf(0, 0, 20, 3, 0), stepOf(0, 20, 30, 2, 270), {Kind: sim.End, Time: ms(40)}})
		if d := cmp.Diff(c.want, r.Load, near); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
		if r.Steps != 3 || r.Tokens != 6 {
			t.Errorf("%s: %d steps and %d tokens, want 3 and 6", c.name, r.Steps, r.Tokens)
		}
	}
}

// Where a request stands when it ends: each story lasts 40 ms.
func TestLevelsThroughPreemption(t *testing.T) {
	queued := sim.Timeline{Admitted: sim.NoTime, PrefillEnd: sim.NoTime, FirstToken: sim.NoTime}
	admitted := sim.Timeline{PrefillEnd: sim.NoTime, FirstToken: sim.NoTime}
	at := func(k sim.Kind, t int, l sim.Timeline, preemptions int32) sim.Event {
		return sim.Event{Kind: k, Time: ms(t), Timeline: l, Preemptions: preemptions, Output: 1}
	}
	arrival := []sim.Event{at(sim.Arrive, 0, queued, 0), at(sim.Queue, 0, queued, 0)}
	for _, c := range []struct {
		name             string
		events           []sim.Event
		waiting, running metrics.Number // ms of 40
	}{
		{"finished after it", []sim.Event{at(sim.Admit, 0, admitted, 0), at(sim.Preempt, 10, admitted, 1),
			at(sim.Admit, 30, admitted, 1), at(sim.Finish, 38, sim.Timeline{FirstToken: ms(35)}, 1)}, 20, 18},
		{"aborted while preempted", []sim.Event{at(sim.Admit, 0, admitted, 0), at(sim.Preempt, 10, admitted, 1),
			at(sim.Abort, 20, admitted, 1)}, 10, 10},
		{"aborted after it", []sim.Event{at(sim.Admit, 0, admitted, 0), at(sim.Preempt, 10, admitted, 1),
			at(sim.Admit, 12, admitted, 1), at(sim.Abort, 20, admitted, 1)}, 2, 18},
		{"rejected while it ran", []sim.Event{at(sim.Admit, 5, admitted, 0), at(sim.Reject, 8, admitted, 0)}, 5, 3},
		{"rejected in the queue", []sim.Event{at(sim.Reject, 16, queued, 0)}, 16, 0},
		{"aborted in the queue", []sim.Event{at(sim.Abort, 4, queued, 0)}, 4, 0},
	} {
		r := report(t, oneReplica, metrics.Options{}, append(append(arrival[:2:2], c.events...), sim.Event{Kind: sim.End, Time: ms(40)}))
		if d := cmp.Diff([]metrics.Number{c.waiting / 40, c.running / 40, (c.waiting + c.running) / 40},
			[]metrics.Number{r.QueueMean, r.RunningMean, r.InSystemMean}, near); d != "" {
			t.Errorf("%s: waiting, running, in the system (-want +got):\n%s", c.name, d)
		}
		if len(r.Findings) > 0 {
			t.Errorf("%s: findings %q", c.name, r.Findings)
		}
	}
}

// A million requests over 20,000 s pass 64 bits.
func TestIntegralsDoNotOverflow(t *testing.T) {
	c := collector(t, oneReplica, metrics.Options{})
	for range 1_000_000 {
		c.Observe(sim.Event{Kind: sim.Arrive})
	}
	c.Observe(sim.Event{Kind: sim.Arrive, Time: ms(10_000_000)})
	c.Observe(sim.Event{Kind: sim.End, Time: ms(20_000_000)})
	if got := c.Report().InSystemMean; got != 1_000_000.5 {
		t.Errorf("%v in the system, want 1000000.5", float64(got))
	}
}

func TestLittle(t *testing.T) {
	for _, c := range []struct {
		name               string
		l, lambda, w       float64
		residual           metrics.Number
		finding            bool
		toleratedDeviation float64
	}{
		{"40 = 20/s × 2 s", 40, 20, 2, 0, false, 0},
		{"4 observed", 4, 20, 2, -36, true, 0.05},
		{"within", 39, 20, 2, -1, false, 0.05},
		{"beyond", 37, 20, 2, -3, true, 0.05},
		{"nobody left", 3, 0, float64(nan), 3, true, 0.05},
		{"nothing happened", 0, 0, float64(nan), 0, false, 0},
		{"no time passed", float64(nan), float64(nan), float64(nan), nan, false, 0},
	} {
		got := metrics.CheckLittle(c.l, c.lambda, c.w, c.toleratedDeviation)
		if d := cmp.Diff(c.residual, got.Residual, near); d != "" {
			t.Errorf("%s: residual (-want +got):\n%s", c.name, d)
		}
		if (got.Finding != "") != c.finding {
			t.Errorf("%s: finding %q, want one: %v", c.name, got.Finding, c.finding)
		}
	}
	if got := metrics.CheckLittle(4, 20, 2, 0.05).Finding; !strings.Contains(got, "4.00 in the system observed, 40.00 expected from 20.00/s × 2.00 s") {
		t.Errorf("the finding does not state the figures: %q", got)
	}
}

// steady returns n requests, 10 ms apart, that stay 30 ms each.
func steady(n int) []request {
	var requests []request
	for i := range n {
		requests = append(requests, request{serial: int64(i), arrival: 10 * i, admitted: 10 * i, tokens: []int{10*i + 30}})
	}
	return requests
}

// A lost arrival shows as a finding, even one in a hundred.
func TestLostObservationsAreFound(t *testing.T) {
	es := events(1100, steady(100)...)
	for i, e := range es {
		if e.Kind == sim.Arrive && e.Serial == 50 {
			es = append(es[:i], es[i+1:]...)
			break
		}
	}
	r := report(t, oneReplica, metrics.Options{}, es)
	if len(r.Findings) != 2 || !strings.Contains(r.Findings[0], "Little") || !strings.Contains(r.Findings[1], "more requests ended") {
		t.Errorf("findings %q", r.Findings)
	}
	// 3000 request-milliseconds less one from 500 to 1100 ms: below zero at the end.
	if d := cmp.Diff(metrics.Number(2400.0/1100), r.InSystemMean, near); d != "" {
		t.Errorf("in the system (-want +got):\n%s", d)
	}
}

// The ends of a window and requests cut off by the end of the run do not make
// a finding of a steady run.
func TestEndsAreNoFinding(t *testing.T) {
	unfinished := steady(1000)
	unfinished[999].end = sim.End
	for _, c := range []struct {
		name     string
		options  metrics.Options
		requests []request
	}{
		{"warm-up", metrics.Options{WarmUp: ms(5001)}, steady(1000)},
		{"drain", metrics.Options{Until: ms(5005)}, steady(1000)},
		{"unfinished", metrics.Options{}, unfinished},
	} {
		r := report(t, oneReplica, c.options, events(11_000, c.requests...))
		if r.Little.Residual == 0 || len(r.Findings) > 0 {
			t.Errorf("%s: residual %v, findings %q, want some and none", c.name, float64(r.Little.Residual), r.Findings)
		}
	}
}
