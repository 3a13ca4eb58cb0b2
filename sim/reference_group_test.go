package sim_test

import (
	"time"

	"servesim/sim"
)

// joinGroups makes the replicas of a group know each other, by number.
func (e *refEngine) joinGroups() {
	for _, r := range e.replicas {
		for _, o := range e.replicas {
			if r.cfg.Group > 0 && o.cfg.Group == r.cfg.Group {
				r.mates = append(r.mates, o)
			}
		}
	}
}

// planGroup lets each replica of an idle group plan; then one step begins for all
// that have planned one. While one pauses, all do.
func (e *refEngine) planGroup(mates []*refReplica) {
	if mates[0].full() {
		return
	}
	until := e.now
	for _, m := range mates {
		if w := e.window(m); w.Pause {
			until = max(until, w.To)
		}
	}
	var wakes []sim.Time
	for _, m := range mates {
		wake := until
		if until == e.now {
			wake = e.passes(m)
		}
		wakes = append(wakes, wake)
		e.drain(m)
	}
	if mates[0].full() {
		e.startGroup(mates)
		return
	}
	for i, m := range mates {
		if wakes[i] > 0 {
			e.push(refPending{at: wakes[i], kind: refWakeUp, replica: m.index, pass: m.passes})
		}
	}
}

// startGroup gives the steps that a group has planned their time.
func (e *refEngine) startGroup(mates []*refReplica) {
	took := e.groupTime(mates)
	for _, m := range mates {
		for _, f := range m.flying {
			f.began, f.took = e.now, took
			e.layersOf(f)
		}
	}
	e.push(refPending{at: e.now.Add(took), kind: refStepEnd, replica: mates[0].index})
}

// groupTime returns what a step of a group takes: as long as on the slowest of its
// replicas, whether that computes anything or not.
func (e *refEngine) groupTime(mates []*refReplica) (slowest time.Duration) {
	var batches []sim.Batch
	took := time.Duration(0)
	for _, m := range mates {
		b := sim.Batch{}
		if len(m.flying) > 0 {
			b = m.flying[0].batch
			took = max(took, m.cfg.CostModel.StepTime(b))
		}
		batches = append(batches, b)
	}
	if m, ok := mates[0].cfg.CostModel.(sim.Grouper); ok {
		took = m.GroupTime(batches)
	}
	for _, m := range mates {
		slowest = max(slowest, refRound(took, e.window(m).Factor))
	}
	return max(1, slowest)
}
