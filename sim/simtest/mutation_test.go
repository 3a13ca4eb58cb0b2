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

// mutation alters an event, or returns false if it does not apply to it.
type mutation struct {
	name   string
	change func(e *sim.Event) bool
	hidden hidden
}

// hidden says where an alteration may break no law; places make a set.
type hidden uint8

const (
	leftOut hidden = 1 << iota // by sequences that a step leaves out
	flight                     // where several steps are in flight
	kept                       // where a store or host memory may have any number of positions
)

var mutations = []mutation{
	{"drop", func(e *sim.Event) bool { e.Kind = dropped; return true }, 0},
	{"double", func(e *sim.Event) bool { e.Kind = doubled; return true }, 0},
	{"kind", func(e *sim.Event) bool { e.Kind++; return e.Kind <= sim.Abort }, 0},
	{"unknown kind", func(e *sim.Event) bool { e.Kind = 99; return true }, 0},
	{"time earlier", func(e *sim.Event) bool { e.Time--; return !free(e) }, flight},
	{"time later", func(e *sim.Event) bool { e.Time++; return !free(e) }, flight},
	{"replica", func(e *sim.Event) bool { e.Replica++; return e.Kind != sim.End }, 0},
	{"serial", ofRequest(func(e *sim.Event) { e.Serial += 1000 }), 0},
	{"id", ofRequest(func(e *sim.Event) { e.ID++ }), 0},
	{"class", ofRequest(func(e *sim.Event) { e.Class++ }), 0},
	{"prompt", ofRequest(func(e *sim.Event) { e.Prompt++ }), 0},
	{"output more", ofRequest(func(e *sim.Event) { e.Output++ }), flight},
	{"output less", ofRequest(func(e *sim.Event) { e.Output-- }), flight},
	{"arrival", ofRequest(func(e *sim.Event) { e.Timeline.Arrival++ }), 0},
	{"queued", ofRequest(func(e *sim.Event) { e.Timeline.Queued++ }), 0},
	{"admitted", ofRequest(func(e *sim.Event) { e.Timeline.Admitted++ }), 0},
	{"prefill end", ofRequest(func(e *sim.Event) { e.Timeline.PrefillEnd++ }), 0},
	{"first token", ofRequest(func(e *sim.Event) { e.Timeline.FirstToken++ }), 0},
	{"preemptions", ofRequest(func(e *sim.Event) { e.Preemptions++ }), 0},
	{"gaps over", func(e *sim.Event) bool {
		e.GapsOver++
		return e.Kind == sim.Finish || e.Kind == sim.Reject || e.Kind == sim.Abort
	}, 0},
	{"reason", func(e *sim.Event) bool { e.Reason = ""; return e.Kind == sim.Finish || e.Kind == sim.Reject }, 0},
	{"step", ofStep(func(e *sim.Event) { e.Step++ }), 0},
	{"took more", ofStep(func(e *sim.Event) { e.Took++ }), leftOut | flight},
	{"took less", ofStep(func(e *sim.Event) { e.Took = 0 }), 0},
	{"decodes", ofStep(func(e *sim.Event) { e.Batch.Decodes++ }), 0},
	{"positions", ofStep(func(e *sim.Event) { e.Batch.Positions++ }), 0},
	{"context", ofStep(func(e *sim.Event) { e.Batch.Context++ }), leftOut | flight},
	{"chunk", func(e *sim.Event) bool {
		e.Batch.Prefills = append(e.Batch.Prefills, sim.Chunk{Tokens: 1})
		return e.Kind == sim.StepEnd
	}, 0},
	{"chunk tokens", ofChunk(func(c *sim.Chunk) { c.Tokens++ }), 0},
	{"chunk context", ofChunk(func(c *sim.Chunk) { c.Context++ }), leftOut | flight},
	{"chunk last", func(e *sim.Event) bool {
		i := slices.IndexFunc(e.Batch.Prefills, func(c sim.Chunk) bool { return c.Last })
		if i >= 0 {
			e.Batch.Prefills[i].Last = false
		}
		return i >= 0
	}, 0},
	{"tokens", ofStep(func(e *sim.Event) { e.Tokens++ }), 0},
	{"gap prev", ofGap(func(g *sim.GapGroup) { g.Prev++ }), 0},
	{"gap class", ofGap(func(g *sim.GapGroup) { g.Class++ }), 0},
	{"gap count", ofGap(func(g *sim.GapGroup) { g.Count++ }), 0},
	{"waiting", ofStep(func(e *sim.Event) { e.Waiting++ }), flight},
	{"running", ofStep(func(e *sim.Event) { e.Running++ }), flight},
	{"free", ofStep(func(e *sim.Event) { e.FreeBlocks += 1 << 40 }), 0},
	{"positions less", func(e *sim.Event) bool {
		e.Batch.Positions--
		return e.Batch.Positions >= e.Batch.Decodes && e.Batch.Decodes > 0
	}, 0},
	{"hit more", ofHit(func(e *sim.Event) { e.Cached++ }), flight | kept},
	{"hit of a block more", ofHit(func(e *sim.Event) { e.Cached *= 2 }), flight | kept},
	{"hit lost", ofHit(func(e *sim.Event) { e.Cached = 0 }), flight | kept},
	{"hit made up", func(e *sim.Event) bool {
		made := e.Cached == 0
		e.Cached = 720_720 // a multiple of every block size
		return made && e.Kind <= sim.Abort
	}, 0},
	{"hit below zero", func(e *sim.Event) bool { e.Cached = -720_720; return e.Kind == sim.Admit }, 0},
	{"accepted more", ofAccepted(func(e *sim.Event, g *sim.GapGroup) { g.Count++ }), 0},
	{"accepted more, tokens too", ofAccepted(func(e *sim.Event, g *sim.GapGroup) { g.Count++; e.Tokens++ }), 0},
	{"accepted lost", ofAccepted(func(e *sim.Event, g *sim.GapGroup) {
		e.Tokens -= int32(g.Count)
		e.Gaps = slices.DeleteFunc(e.Gaps, func(g sim.GapGroup) bool { return g.Prev == e.Time })
	}), 0},
	{"accepted with a gap", ofAccepted(func(e *sim.Event, g *sim.GapGroup) { g.Prev = e.Gaps[0].Prev }), 0},
	{"accepted by another class", ofAccepted(func(e *sim.Event, g *sim.GapGroup) { g.Class++ }), 0},
	{"a gap of zero", func(e *sim.Event) bool {
		if len(e.Gaps) == 0 || e.Gaps[len(e.Gaps)-1].Prev == e.Time {
			return false
		}
		e.Gaps[0].Prev = e.Time
		return true
	}, 0},
	{"padding", ofStep(func(e *sim.Event) { e.Batch.Padding.Rows = -1 }), 0},
}

// moves alter the events of deployments.
var moves = []mutation{
	{"pull more", of(func(e *sim.Event) { e.Tokens++ }, sim.Pull), 0},
	{"pull less", of(func(e *sim.Event) { e.Tokens-- }, sim.Pull), 0},
	{"pull with a hit", of(func(e *sim.Event) { e.Cached += 720_720; e.Tokens -= 720_720 }, sim.Pull), 0},
	{"pulled more", of(func(e *sim.Event) { e.Tokens++ }, sim.Pulled), 0},
	{"pulled late", of(func(e *sim.Event) { e.Took++ }, sim.Pulled), 0},
	{"pulled soon", of(func(e *sim.Event) { e.Took-- }, sim.Pulled), 0},
	{"transfer made up", func(e *sim.Event) bool {
		made := e.Tokens == 0 && e.Took == 0 && e.Kind != sim.End
		e.Tokens = 1
		return made
	}, 0},
	{"handed elsewhere", of(func(e *sim.Event) { e.Replica = (e.Replica + 1) % 2 }, sim.Handoff), 0},
	{"handed back", of(func(e *sim.Event) { e.Kind = sim.Queue }, sim.Handoff), 0},
	{"swapped out or not", func(e *sim.Event) bool {
		if e.Reason == "" {
			e.Reason = sim.PreemptSwap
		} else {
			e.Reason = ""
		}
		return e.Kind == sim.Preempt
	}, 0},
	{"swapped for a reason", of(func(e *sim.Event) { e.Reason = "age" }, sim.Preempt), 0},
	{"swap out more", ofStep(func(e *sim.Event) { e.Batch.SwapOut++ }), 0},
	{"swap in more", ofStep(func(e *sim.Event) { e.Batch.SwapIn++ }), 0},
	{"swap out lost", ofSwap(func(b *sim.Batch) *int { return &b.SwapOut }), 0},
	{"swap in lost", ofSwap(func(b *sim.Batch) *int { return &b.SwapIn }), 0},
	{"closed or opened as", of(func(e *sim.Event) { e.Reason = "cook" }, sim.Drain, sim.Open), 0},
	{"opened late", of(func(e *sim.Event) { e.Took++ }, sim.Open), 0},
	{"closed after", of(func(e *sim.Event) { e.Took++ }, sim.Drain), 0},
	{"opened when closed", of(func(e *sim.Event) { e.Kind = sim.Open }, sim.Drain), 0},
	{"closed when opened", of(func(e *sim.Event) { e.Kind = sim.Drain }, sim.Open), 0},
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

func of(change func(*sim.Event), kinds ...sim.Kind) func(*sim.Event) bool {
	return func(e *sim.Event) bool {
		kind := e.Kind
		change(e)
		return slices.Contains(kinds, kind)
	}
}

// ofSwap forgets copies to or from host memory.
func ofSwap(blocks func(b *sim.Batch) *int) func(*sim.Event) bool {
	return func(e *sim.Event) bool {
		n := blocks(e.Batch)
		had := *n > 0
		*n = 0
		return had
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

// stages are the runs that are altered: of what scenarios, and the events of
// which replicas; those of the front door are in all.
var stages = []struct {
	name        string
	deployments bool
	hidden      hidden
	alter       func(r *sim.Replica) bool
	tries       int
}{
	{"replicas that are alike", false, 0, func(*sim.Replica) bool { return true }, 6},
	{"deployments", true, leftOut, func(r *sim.Replica) bool { return r.InFlight < 2 && !keeps(r) }, 4},
	{"stores and hosts", true, leftOut | kept, func(r *sim.Replica) bool { return r.InFlight < 2 && keeps(r) }, 3},
	{"steps in flight", true, leftOut | kept | flight, func(r *sim.Replica) bool { return r.InFlight > 1 }, 2},
}

func keeps(r *sim.Replica) bool { return r.Store != nil || r.HostBlocks > 0 }

// Whatever field of whatever event of a real run is altered, a law is broken.
func TestAnAlteredEventBreaksALaw(t *testing.T) {
	run := func(t *testing.T, s simtest.Scenario, calm bool, m *mutant) error {
		replicas := s.Seed << 8
		cfg := s.Config(func() sim.Scheduler {
			if replicas++; calm {
				return scheduler.ChunkedPrefill{}
			}
			return &simtest.Chaos{Seed: replicas}
		})
		m.laws = &simtest.Laws{Config: cfg}
		cfg.Observers = []sim.Observer{m}
		res, err := sim.Run(context.Background(), cfg, s.Requests())
		if err != nil {
			t.Fatalf("%v: %v", s, err)
		}
		return m.laws.Check(res)
	}
	for _, mut := range append(mutations[:len(mutations):len(mutations)], moves...) {
		t.Run(mut.name, func(t *testing.T) {
			all := 0
			for _, stage := range stages {
				if mut.hidden&stage.hidden != 0 {
					continue
				}
				tried := 0
				for seed := uint64(0); tried < stage.tries && seed < scenarios(t, 100); seed++ {
					s := simtest.Scenario{Seed: seed, Deployments: stage.deployments}
					replicas := s.Config(func() sim.Scheduler { return nil }).Replicas
					if !slices.ContainsFunc(replicas, func(r sim.Replica) bool { return stage.alter(&r) }) {
						continue
					}
					change := func(e *sim.Event) bool {
						return (e.Replica < 0 || stage.alter(&replicas[e.Replica])) && mut.change(e)
					}
					calm := !stage.deployments && (seed%3 == 0 || mut.hidden&leftOut != 0)
					count := &mutant{change: change, at: -1}
					if err := run(t, s, calm, count); err != nil {
						t.Fatalf("unaltered: %v: %v", s, err)
					}
					if count.seen == 0 {
						continue
					}
					tried++
					m := &mutant{change: change, at: rand.New(rand.NewPCG(seed, 9)).IntN(count.seen)}
					if err := run(t, s, calm, m); err == nil {
						t.Errorf("%s: no law is broken in %v\n%s\n%s", stage.name, s, m.before, m.after)
					}
				}
				all += tried
			}
			if all < 3 {
				t.Errorf("the alteration applied to %d runs", all)
			}
		})
	}
}
