package metrics_test

import (
	"slices"
	"testing"
	"time"

	"servesim/sim"
	"servesim/sim/metrics"
)

// request is a life to be told as events. Times are in milliseconds.
type request struct {
	serial   int64
	class    int
	arrival  int
	admitted int   // prompt end is the first token
	tokens   []int // instants
	over     int32 // gaps over the class target
	end      sim.Kind
	endAt    int // for Reject and Abort
	reason   string
}

func ms(n int) sim.Time { return sim.Time(n) * sim.Time(time.Millisecond) }

// events tells the lives in order of time: a StepEnd for every gap, without
// busy time, and End at end.
func events(end int, requests ...request) []sim.Event {
	var es []sim.Event
	for _, r := range requests {
		e := sim.Event{Serial: r.serial, Class: r.class, Replica: -1, Prompt: 1, Timeline: sim.Timeline{Arrival: ms(r.arrival),
			Queued: sim.NoTime, Admitted: sim.NoTime, PrefillEnd: sim.NoTime, FirstToken: sim.NoTime}}
		add := func(k sim.Kind, at int) {
			e.Kind, e.Time = k, ms(at)
			es = append(es, e)
		}
		add(sim.Arrive, r.arrival)
		if r.end == sim.Reject {
			e.Reason = r.reason
			add(sim.Reject, r.endAt)
			continue
		}
		e.Replica, e.Timeline.Queued = 0, ms(r.arrival)
		add(sim.Queue, r.arrival)
		if len(r.tokens) > 0 {
			e.Timeline.Admitted = ms(r.admitted)
			add(sim.Admit, r.admitted)
			first := r.tokens[0]
			e.Timeline.PrefillEnd = ms(first)
			add(sim.PrefillEnd, first)
			e.Timeline.FirstToken, e.Output = ms(first), 1
			add(sim.FirstToken, first)
		}
		for i := 1; i < len(r.tokens); i++ {
			es = append(es, sim.Event{Kind: sim.StepEnd, Batch: &sim.Batch{}, Time: ms(r.tokens[i]), Tokens: 1,
				Gaps: []sim.GapGroup{{Prev: ms(r.tokens[i-1]), Class: r.class, Count: 1}}})
		}
		e.Output, e.GapsOver = len(r.tokens), r.over
		switch r.end {
		case sim.Abort:
			add(sim.Abort, r.endAt)
		case 0:
			e.Reason = sim.FinishLength
			add(sim.Finish, r.tokens[len(r.tokens)-1])
		}
	}
	slices.SortStableFunc(es, func(a, b sim.Event) int { return int(a.Time - b.Time) })
	return append(es, sim.Event{Kind: sim.End, Time: ms(end)})
}

var oneReplica = sim.Config{Replicas: []sim.Replica{{KVBlocks: 1000}}}

func collector(t testing.TB, cfg sim.Config, o metrics.Options) *metrics.Collector {
	t.Helper()
	c, err := metrics.New(cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// report feeds the events to a fresh collector.
func report(t testing.TB, cfg sim.Config, o metrics.Options, es []sim.Event) metrics.Report {
	t.Helper()
	c := collector(t, cfg, o)
	for _, e := range es {
		c.Observe(e)
	}
	return c.Report()
}

// decodeStep is a step for nextStep to move on.
func decodeStep(batch int) sim.Event {
	return sim.Event{Kind: sim.StepEnd, Batch: &sim.Batch{Decodes: batch, Positions: batch},
		Gaps: []sim.GapGroup{{Count: batch}}, Tokens: int32(batch), FreeBlocks: 400}
}

// nextStep moves the step behind itself, of another length than before.
func nextStep(e *sim.Event) {
	e.Step++
	e.Took = 10*time.Millisecond + time.Duration(e.Step*7919%1_000_003)
	e.Gaps[0].Prev = e.Time
	e.Time = e.Time.Add(e.Took)
}
