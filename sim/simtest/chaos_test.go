package simtest_test

import (
	"context"
	"testing"

	"servesim/sim"
	"servesim/sim/simtest"
)

// features counts what happens in a set of runs.
type features struct {
	kinds                  map[sim.Kind]int
	reasons                map[string]int
	full, mixed, gaps, cut int

	hits, again, whole          int // admissions with hits: first ones, others, of all but the last position
	accepted, rejected, several int // steps with such drafts; with several of a class

	moves map[string]int // what happens between replicas, and to those who wait
	last  map[int64]sim.Event

	runs, events int
	total        sim.Result // of a part of its fields
}

// reached is what some deployments must come to.
var reached = []string{
	"fetched before the prompt is complete", "fetched behind a hit", "computed in spite of KV elsewhere", "ended elsewhere",
	"ended on the way", "ended coming", "ended in host memory", "turned away by the decode side", "ended there for want of room",
	"swapped out", "swapped in", "a token while waiting", "ended while waiting",
	"surplus", "first token from the decode side", "changed role", "stepped in a group",
}

func (f *features) Observe(e sim.Event) {
	f.kinds[e.Kind]++
	switch {
	case e.Reason != "":
		f.reasons[e.Reason]++
	case e.Kind == sim.StepEnd && e.FreeBlocks == 0:
		f.full++
	}
	if e.Kind == sim.StepEnd && e.Batch.Decodes > 0 && len(e.Batch.Prefills) > 0 {
		f.mixed++
	}
	if len(e.Gaps) > 1 {
		f.gaps++
	}
	if e.Cached > 0 {
		f.hit(e)
	}
	if e.Kind == sim.StepEnd {
		f.drafts(e)
	}
	f.move(e)
}

// move counts what deployments have of their own.
func (f *features) move(e sim.Event) {
	before := f.last[e.Serial]
	ended := e.Kind == sim.Abort || e.Kind == sim.Reject
	for what, happens := range map[string]bool{
		"fetched before the prompt is complete": e.Kind == sim.Pull && before.Kind != sim.Handoff,
		"fetched behind a hit":                  e.Kind == sim.Pull && e.Cached > 0,
		"computed in spite of KV elsewhere":     e.Kind == sim.Admit && before.Kind == sim.Handoff,
		"ended elsewhere":                       ended && before.Kind == sim.Handoff,
		"ended on the way":                      ended && before.Kind == sim.Pull && before.Replica == e.Replica,
		"ended coming":                          ended && before.Kind == sim.Pull && before.Replica != e.Replica,
		"ended in host memory":                  ended && before.Kind == sim.Preempt && before.Reason == sim.PreemptSwap,
		"turned away by the decode side":        e.Kind == sim.Reject && e.Replica >= 0 && e.Time == e.Timeline.PrefillEnd && e.Reason != sim.RejectOutOfKV,
		"ended there for want of room":          e.Kind == sim.Finish && e.Output == 1 && e.Reason == sim.FinishLength,
		"swapped out":                           e.Kind == sim.StepEnd && e.Batch.SwapOut > 0,
		"swapped in":                            e.Kind == sim.StepEnd && e.Batch.SwapIn > 0,
		"a token while waiting":                 e.Kind == sim.Admit && before.Kind == sim.Preempt && e.Output > before.Output,
		"ended while waiting":                   e.Kind == sim.Finish && before.Kind == sim.Preempt,
		"first token from the decode side":      e.Kind == sim.FirstToken && before.Kind == sim.Admit && e.Timeline.PrefillEnd != e.Time,
		"changed role":                          e.Kind == sim.Open,
	} {
		if happens {
			f.moves[what]++
		}
	}
	if f.last[e.Serial] = e; e.Kind == sim.Finish || ended {
		delete(f.last, e.Serial)
	}
}

func (f *features) hit(e sim.Event) {
	if e.Preemptions > 0 {
		f.again++
	} else {
		f.hits++
	}
	if int(e.Cached) == e.Prompt+e.Output-1 {
		f.whole++
	}
}

func (f *features) drafts(e sim.Event) {
	accepted := 0
	for _, g := range e.Gaps {
		if g.Prev == e.Time {
			accepted += g.Count
			if g.Count > 1 {
				f.several++
			}
		}
	}
	if accepted > 0 {
		f.accepted++
	}
	if e.Batch.Positions-e.Batch.Decodes > accepted {
		f.rejected++
	}
}

// underChaos runs a scenario with a Chaos of its own for every replica.
func underChaos(t *testing.T, s simtest.Scenario, f *features) {
	t.Helper()
	replicas := uint64(0)
	cfg := s.Config(func() sim.Scheduler {
		replicas++
		return &simtest.Chaos{Seed: s.Seed<<8 + replicas}
	})
	laws := &simtest.Laws{Config: cfg}
	cfg.Observers = []sim.Observer{laws, sim.ObserverFunc(func(sim.Event) { f.events++ })}
	watched := s.Seed < simtest.Scenarios || s.Deployments
	if watched {
		cfg.Observers = append(cfg.Observers, f)
		for _, r := range cfg.Replicas {
			f.moves["stepped in a group"] += r.Group
		}
	}
	res, err := sim.Run(context.Background(), cfg, s.Requests())
	if err == nil {
		err = laws.Check(res)
	}
	if err != nil {
		t.Fatalf("%v\nin %v", err, s)
	}
	f.add(res)
	if watched {
		f.cut += int(min(res.Unfinished, 1))
		f.moves["surplus"] += int(res.Surplus)
	}
}

func (f *features) add(r sim.Result) {
	f.runs++
	t := &f.total
	t.Arrived += r.Arrived
	t.Completed += r.Completed
	t.Rejected += r.Rejected
	t.Aborted += r.Aborted
	t.Unfinished += r.Unfinished
	t.Steps += r.Steps
	t.Tokens += r.Tokens
	t.Preemptions += r.Preemptions
	t.Transfers += r.Transfers
	t.Switches += r.Switches
	t.Surplus += r.Surplus
}

// Laws hold when a scheduler does whatever it may, and the scenarios reach
// everything: TestScheduler means little if they do not.
func TestLawsHoldUnderChaos(t *testing.T) {
	alike, apart := newFeatures(), newFeatures()
	for seed := range scenarios(t, 600) {
		underChaos(t, simtest.Scenario{Seed: seed}, alike)
		underChaos(t, simtest.Scenario{Seed: seed, Deployments: true}, apart)
	}
	alike.check(t, "replicas that are alike")
	apart.check(t, "deployments")
	for _, kind := range []sim.Kind{sim.Handoff, sim.Pull, sim.Pulled, sim.Drain, sim.Open} {
		if apart.kinds[kind] == 0 {
			t.Errorf("no %v in any run", kind)
		}
	}
	for _, what := range reached {
		if apart.moves[what] == 0 {
			t.Errorf("in no deployment: %s", what)
		}
	}
}

func newFeatures() *features {
	return &features{kinds: map[sim.Kind]int{}, reasons: map[string]int{}, moves: map[string]int{}, last: map[int64]sim.Event{}}
}

// check reports what does not happen although it can without roles.
func (f *features) check(t *testing.T, name string) {
	t.Helper()
	n := f.total
	t.Logf("%s: %d runs with %d events: %d requests arrived, %d completed, %d rejected, %d aborted, %d cut off; %d steps, %d tokens, %d preemptions, %d transfers, %d changes of role, %d surplus positions",
		name, f.runs, f.events, n.Arrived, n.Completed, n.Rejected, n.Aborted, n.Unfinished, n.Steps, n.Tokens, n.Preemptions, n.Transfers, n.Switches, n.Surplus)
	for _, kind := range []sim.Kind{
		sim.Arrive, sim.Queue, sim.Admit, sim.PrefillEnd, sim.FirstToken, sim.Preempt, sim.Finish, sim.Reject, sim.Abort, sim.StepEnd, sim.End,
	} {
		if f.kinds[kind] == 0 {
			t.Errorf("%s: no %v in any run", name, kind)
		}
	}
	for _, reason := range []string{
		sim.FinishStop, sim.FinishLength,
		sim.RejectEmptyPrompt, sim.RejectZeroOutput, sim.RejectDuplicateID, sim.RejectUnknownClass, sim.RejectBadField, sim.RejectPrefixBlock,
		sim.RejectModelLen, sim.RejectKVCapacity, sim.RejectOutOfKV, sim.RejectNoRoute, "gate", "chaos",
	} {
		if f.reasons[reason] == 0 {
			t.Errorf("%s: no request ended for the reason %s", name, reason)
		}
	}
	if f.full == 0 || f.mixed == 0 || f.gaps == 0 || f.cut == 0 {
		t.Errorf("%s: steps with a full cache %d, with prompts and decodes %d, with several gap groups %d; runs cut %d", name, f.full, f.mixed, f.gaps, f.cut)
	}
	if f.hits == 0 || f.again == 0 || f.whole == 0 {
		t.Errorf("%s: admissions with hits %d, after a preemption %d, of all positions but the last %d", name, f.hits, f.again, f.whole)
	}
	if f.accepted == 0 || f.rejected == 0 || f.several == 0 {
		t.Errorf("%s: steps with accepted drafts %d, with rejected ones %d, with several accepted for a class %d", name, f.accepted, f.rejected, f.several)
	}
}

// Chaos keeps the promise of its holds, and does hold.
func TestChaosConforms(t *testing.T) {
	holds := 0
	for seed := range scenarios(t, 100) {
		s := simtest.Scenario{Seed: 1000 + seed, Deployments: seed%2 == 1}
		passes, steps := 0, 0
		make := func() sim.Scheduler {
			c := &simtest.Chaos{Seed: seed}
			return sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
				passes++
				c.Schedule(v, p)
			})
		}
		if err := s.Run(make); err != nil {
			t.Fatal(err)
		}
		passes = 0
		cfg := s.Config(make)
		cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == sim.StepEnd {
				steps++
			}
		})}
		if _, err := sim.Run(context.Background(), cfg, s.Requests()); err != nil {
			t.Fatal(err)
		}
		if passes < steps {
			holds++
		}
	}
	if holds == 0 {
		t.Error("no run had fewer passes than steps")
	}
}

// Another seed is another chaos; the same seed is the same.
func TestChaosDependsOnItsSeed(t *testing.T) {
	s := simtest.Scenario{Seed: 4}
	run := func(seed uint64) []string {
		log := &simtest.Log{}
		cfg := s.Config(func() sim.Scheduler { return &simtest.Chaos{Seed: seed} })
		cfg.Observers = []sim.Observer{log}
		if _, err := sim.Run(context.Background(), cfg, s.Requests()); err != nil {
			t.Fatal(err)
		}
		return log.Lines
	}
	if d := simtest.Diff(run(1), run(1)); d != "" {
		t.Errorf("seed 1 twice: %s", d)
	}
	if simtest.Diff(run(1), run(2)) == "" {
		t.Error("seeds 1 and 2 do the same")
	}
}

func FuzzLawsUnderChaos(f *testing.F) {
	f.Add(uint64(3), uint64(5), false)
	f.Add(uint64(14), uint64(0), false)
	f.Add(uint64(3), uint64(1), true)
	f.Add(uint64(300), uint64(396), true) // aborted with a token of an earlier residency in flight
	f.Fuzz(func(t *testing.T, seed, chaos uint64, deployments bool) {
		if err := (simtest.Scenario{Seed: seed, Deployments: deployments}).Run(func() sim.Scheduler { return &simtest.Chaos{Seed: chaos} }); err != nil {
			t.Fatal(err)
		}
	})
}
