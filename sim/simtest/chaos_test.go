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
	cfg.Observers = []sim.Observer{laws}
	if s.Seed < simtest.Scenarios {
		cfg.Observers = append(cfg.Observers, f)
	}
	res, err := sim.Run(context.Background(), cfg, s.Requests())
	if err == nil {
		err = laws.Check(res)
	}
	if err != nil {
		t.Fatalf("%v\nin %v", err, s)
	}
	if res.Unfinished > 0 && s.Seed < simtest.Scenarios {
		f.cut++
	}
}

// Laws hold when a scheduler does whatever it may.
func TestLawsHoldUnderChaos(t *testing.T) {
	f := &features{kinds: map[sim.Kind]int{}, reasons: map[string]int{}}
	for seed := range scenarios(t, 600) {
		underChaos(t, simtest.Scenario{Seed: seed}, f)
		underChaos(t, simtest.Scenario{Seed: seed, Deployments: true}, f)
	}
	// TestScheduler means little if its scenarios do not reach everything.
	for kind := sim.Arrive; kind <= sim.End; kind++ {
		if f.kinds[kind] == 0 {
			t.Errorf("no %v in any run", kind)
		}
	}
	for _, reason := range []string{
		sim.FinishStop, sim.FinishLength,
		sim.RejectEmptyPrompt, sim.RejectZeroOutput, sim.RejectDuplicateID, sim.RejectUnknownClass, sim.RejectBadField, sim.RejectPrefixBlock,
		sim.RejectModelLen, sim.RejectKVCapacity, sim.RejectOutOfKV, sim.RejectNoRoute, "gate", "chaos",
	} {
		if f.reasons[reason] == 0 {
			t.Errorf("no request ended for the reason %s", reason)
		}
	}
	if f.full == 0 || f.mixed == 0 || f.gaps == 0 || f.cut == 0 {
		t.Errorf("steps with a full cache %d, with prompts and decodes %d, with several gap groups %d; runs cut %d", f.full, f.mixed, f.gaps, f.cut)
	}
	if f.hits == 0 || f.again == 0 || f.whole == 0 {
		t.Errorf("admissions with hits %d, after a preemption %d, of all positions but the last %d", f.hits, f.again, f.whole)
	}
	if f.accepted == 0 || f.rejected == 0 || f.several == 0 {
		t.Errorf("steps with accepted drafts %d, with rejected ones %d, with several accepted for a class %d", f.accepted, f.rejected, f.several)
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
	f.Fuzz(func(t *testing.T, seed, chaos uint64, deployments bool) {
		if err := (simtest.Scenario{Seed: seed, Deployments: deployments}).Run(func() sim.Scheduler { return &simtest.Chaos{Seed: chaos} }); err != nil {
			t.Fatal(err)
		}
	})
}
