package simtest_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/simtest"
)

// mutant passes the events of a run on to Laws, one of them altered.
type mutant struct {
	laws   *simtest.Laws
	at     int // index of the event, among those that the alteration takes
	change func(e *sim.Event) bool
	seen   int
	before string
	after  string
}

func (m *mutant) Observe(e sim.Event) {
	// A step end lends its slices: what is altered must be a copy.
	c := e
	c.Gaps = slices.Clone(e.Gaps)
	c.Batch = &sim.Batch{}
	if e.Batch != nil {
		*c.Batch = *e.Batch
		c.Batch.Prefills = slices.Clone(e.Batch.Prefills)
	}
	if !m.change(&c) {
		m.laws.Observe(e)
		return
	}
	m.seen++
	if m.seen-1 != m.at {
		m.laws.Observe(e)
		return
	}
	m.before, m.after = e.String(), c.String()
	switch {
	case c.Kind == dropped:
	case c.Kind == doubled:
		m.laws.Observe(e)
		m.laws.Observe(e)
	default:
		m.laws.Observe(c)
	}
}

// Kinds that tell the mutant what to do with an event.
const (
	dropped sim.Kind = 200 + iota
	doubled
)

// mutations alter an event, or return false if they do not apply to it.
var mutations = []struct {
	name   string
	change func(e *sim.Event) bool
	loose  bool // nothing is known of sequences that a step leaves out
}{
	{"drop", func(e *sim.Event) bool { e.Kind = dropped; return true }, false},
	{"double", func(e *sim.Event) bool { e.Kind = doubled; return true }, false},
	{"kind", func(e *sim.Event) bool { e.Kind++; return e.Kind <= sim.Abort }, false},
	{"unknown kind", func(e *sim.Event) bool { e.Kind = 99; return true }, false},
	{"time earlier", func(e *sim.Event) bool { e.Time--; return !free(e) }, false},
	{"time later", func(e *sim.Event) bool { e.Time++; return !free(e) }, false},
	{"replica", func(e *sim.Event) bool { e.Replica++; return e.Kind != sim.End }, false},
	{"serial", ofRequest(func(e *sim.Event) { e.Serial += 1000 }), false},
	{"id", ofRequest(func(e *sim.Event) { e.ID++ }), false},
	{"class", ofRequest(func(e *sim.Event) { e.Class++ }), false},
	{"prompt", ofRequest(func(e *sim.Event) { e.Prompt++ }), false},
	{"output more", ofRequest(func(e *sim.Event) { e.Output++ }), false},
	{"output less", ofRequest(func(e *sim.Event) { e.Output-- }), false},
	{"arrival", ofRequest(func(e *sim.Event) { e.Timeline.Arrival++ }), false},
	{"queued", ofRequest(func(e *sim.Event) { e.Timeline.Queued++ }), false},
	{"admitted", ofRequest(func(e *sim.Event) { e.Timeline.Admitted++ }), false},
	{"prefill end", ofRequest(func(e *sim.Event) { e.Timeline.PrefillEnd++ }), false},
	{"first token", ofRequest(func(e *sim.Event) { e.Timeline.FirstToken++ }), false},
	{"preemptions", ofRequest(func(e *sim.Event) { e.Preemptions++ }), false},
	{"gaps over", func(e *sim.Event) bool {
		e.GapsOver++
		return e.Kind == sim.Finish || e.Kind == sim.Reject || e.Kind == sim.Abort
	}, false},
	{"reason", func(e *sim.Event) bool { e.Reason = ""; return e.Kind == sim.Finish || e.Kind == sim.Reject }, false},
	{"step", ofStep(func(e *sim.Event) { e.Step++ }), false},
	{"took more", ofStep(func(e *sim.Event) { e.Took++ }), true},
	{"took less", ofStep(func(e *sim.Event) { e.Took = 0 }), false},
	{"decodes", ofStep(func(e *sim.Event) { e.Batch.Decodes++ }), false},
	{"positions", ofStep(func(e *sim.Event) { e.Batch.Positions++ }), false},
	{"context", ofStep(func(e *sim.Event) { e.Batch.Context++ }), true},
	{"chunk", func(e *sim.Event) bool {
		e.Batch.Prefills = append(e.Batch.Prefills, sim.Chunk{Tokens: 1})
		return e.Kind == sim.StepEnd
	}, false},
	{"chunk tokens", ofChunk(func(c *sim.Chunk) { c.Tokens++ }), false},
	{"chunk context", ofChunk(func(c *sim.Chunk) { c.Context++ }), true},
	{"chunk last", func(e *sim.Event) bool {
		i := slices.IndexFunc(e.Batch.Prefills, func(c sim.Chunk) bool { return c.Last })
		if i >= 0 {
			e.Batch.Prefills[i].Last = false
		}
		return i >= 0
	}, false},
	{"tokens", ofStep(func(e *sim.Event) { e.Tokens++ }), false},
	{"gap prev", ofGap(func(g *sim.GapGroup) { g.Prev++ }), false},
	{"gap class", ofGap(func(g *sim.GapGroup) { g.Class++ }), false},
	{"gap count", ofGap(func(g *sim.GapGroup) { g.Count++ }), false},
	{"waiting", ofStep(func(e *sim.Event) { e.Waiting++ }), false},
	{"running", ofStep(func(e *sim.Event) { e.Running++ }), false},
	{"free", ofStep(func(e *sim.Event) { e.FreeBlocks += 1 << 40 }), false},
	{"positions less", func(e *sim.Event) bool {
		e.Batch.Positions--
		return e.Batch.Positions >= e.Batch.Decodes && e.Batch.Decodes > 0
	}, false},
	{"hit more", ofHit(func(e *sim.Event) { e.Cached++ }), false},
	{"hit of a block more", ofHit(func(e *sim.Event) { e.Cached *= 2 }), false},
	{"hit lost", ofHit(func(e *sim.Event) { e.Cached = 0 }), false},
	{"hit made up", func(e *sim.Event) bool {
		made := e.Cached == 0
		e.Cached = 720_720 // a multiple of every block size
		return made && e.Kind <= sim.Abort
	}, false},
	{"hit below zero", func(e *sim.Event) bool { e.Cached = -720_720; return e.Kind == sim.Admit }, false},
	{"accepted more", ofAccepted(func(e *sim.Event, g *sim.GapGroup) { g.Count++ }), false},
	{"accepted more, tokens too", ofAccepted(func(e *sim.Event, g *sim.GapGroup) { g.Count++; e.Tokens++ }), false},
	{"accepted lost", ofAccepted(func(e *sim.Event, g *sim.GapGroup) {
		e.Tokens -= int32(g.Count)
		e.Gaps = slices.DeleteFunc(e.Gaps, func(g sim.GapGroup) bool { return g.Prev == e.Time })
	}), false},
	{"accepted with a gap", ofAccepted(func(e *sim.Event, g *sim.GapGroup) { g.Prev = e.Gaps[0].Prev }), false},
	{"accepted by another class", ofAccepted(func(e *sim.Event, g *sim.GapGroup) { g.Class++ }), false},
	{"a gap of zero", func(e *sim.Event) bool {
		if len(e.Gaps) == 0 || e.Gaps[len(e.Gaps)-1].Prev == e.Time {
			return false
		}
		e.Gaps[0].Prev = e.Time
		return true
	}, false},
	{"padding", ofStep(func(e *sim.Event) { e.Batch.Padding.Rows = -1 }), false},
}

// free reports whether an event may come at any instant: a client's patience
// and a wake-up decide.
func free(e *sim.Event) bool {
	return e.Kind == sim.Abort || e.Kind == sim.Preempt || e.Kind == sim.Reject
}

func ofRequest(change func(*sim.Event)) func(*sim.Event) bool {
	return func(e *sim.Event) bool {
		change(e)
		return e.Kind != sim.StepEnd && e.Kind != sim.End
	}
}

func ofStep(change func(*sim.Event)) func(*sim.Event) bool {
	return func(e *sim.Event) bool {
		change(e)
		return e.Kind == sim.StepEnd
	}
}

func ofChunk(change func(*sim.Chunk)) func(*sim.Event) bool {
	return func(e *sim.Event) bool {
		for i := range e.Batch.Prefills {
			change(&e.Batch.Prefills[i])
			return true
		}
		return false
	}
}

func ofGap(change func(*sim.GapGroup)) func(*sim.Event) bool {
	return func(e *sim.Event) bool {
		for i := range e.Gaps {
			change(&e.Gaps[i])
			return true
		}
		return false
	}
}

func ofHit(change func(*sim.Event)) func(*sim.Event) bool {
	return func(e *sim.Event) bool {
		hit := e.Cached > 0
		change(e)
		return hit
	}
}

// ofAccepted changes a gap group of accepted drafts. The groups are in the
// order of their beginnings.
func ofAccepted(change func(*sim.Event, *sim.GapGroup)) func(*sim.Event) bool {
	return func(e *sim.Event) bool {
		n := len(e.Gaps)
		if n == 0 || e.Gaps[n-1].Prev != e.Time {
			return false
		}
		change(e, &e.Gaps[n-1])
		return true
	}
}

// Whatever field of whatever event of a real run is altered, a law is broken.
func TestAnAlteredEventBreaksALaw(t *testing.T) {
	run := func(t *testing.T, seed uint64, loose bool, m *mutant) (simtest.Scenario, error) {
		s := simtest.Scenario{Seed: seed}
		cfg := s.Config(func() sim.Scheduler { return scheduler.ChunkedPrefill{} })
		if seed%3 > 0 && !loose {
			cfg = s.Config(func() sim.Scheduler { return &simtest.Chaos{Seed: seed} })
		}
		m.laws = &simtest.Laws{Config: cfg}
		cfg.Observers = []sim.Observer{m}
		res, err := sim.Run(context.Background(), cfg, s.Requests())
		if err != nil {
			t.Fatalf("%v: %v", s, err)
		}
		return s, m.laws.Check(res)
	}
	for _, mut := range mutations {
		t.Run(mut.name, func(t *testing.T) {
			tried := 0
			for seed := uint64(0); tried < 6 && seed < scenarios(t, 100); seed++ {
				count := &mutant{change: mut.change, at: -1}
				if s, err := run(t, seed, mut.loose, count); err != nil {
					t.Fatalf("unaltered: %v: %v", s, err)
				}
				if count.seen == 0 {
					continue
				}
				tried++
				m := &mutant{change: mut.change, at: rand.New(rand.NewPCG(seed, 9)).IntN(count.seen)}
				if s, err := run(t, seed, mut.loose, m); err == nil {
					t.Errorf("no law is broken in %v\n%s\n%s", s, m.before, m.after)
				}
			}
			if tried < 3 {
				t.Errorf("the alteration applied to %d runs", tried)
			}
		})
	}
}
