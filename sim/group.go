package sim

import (
	"fmt"
	"time"
)

// Grouper is a CostModel for replicas that step together, as data-parallel
// ranks do that share their experts. GroupTime gets the batch of every replica
// of the group, in order of index; an empty one belongs to a replica that only
// takes part. It obeys what is said of StepTime. Without it a step of a group
// takes the longest StepTime of its replicas. Of the windows that the replicas are
// in, the slowest counts for all; a replica in none is in one of factor 1.
type Grouper interface {
	CostModel
	GroupTime(batches []Batch) time.Duration
}

// group is replicas that step together: each plans when all are idle, the step
// begins if one of them has planned anything, and ends for all at once.
type group struct {
	members []*Stepper
	flying  bool
	touched bool
	batches []Batch // scratch
}

// joinGroups puts the replicas into their groups.
func (e *engine) joinGroups() {
	groups := map[int]*group{}
	for i := range e.replicas {
		st := &e.replicas[i]
		if n := st.cfg.Group; n > 0 {
			if groups[n] == nil {
				groups[n] = &group{}
			}
			st.group = groups[n]
			st.group.members = append(st.group.members, st)
		}
	}
}

// lookGroup makes an idle group plan at the end of the instant.
func (e *engine) lookGroup(g *group) {
	if !g.flying && !g.touched {
		g.touched = true
		e.dirty = append(e.dirty, g.members[0])
	}
}

// startGroup lets an idle group begin its next step. While one of its replicas
// pauses, all do. A pass may have freed blocks of a replica that had planned
// before; if a step has begun it looks at its end.
func (e *engine) startGroup(g *group) {
	g.touched = false
	if g.flying {
		return
	}
	until := e.now
	for _, m := range g.members {
		if w := m.windows.at(e.now); w != nil && w.Pause {
			until = max(until, w.To)
		}
	}
	for _, m := range g.members {
		m.wakeAt = until
		if until == e.now {
			m.begin()
		} else if !m.needsPlan() {
			m.wakeAt = Never
		}
		e.settle(m)
		g.flying = g.flying || m.flying > 0
	}
	if !g.flying {
		for _, m := range g.members {
			e.wakeLater(m)
		}
		return
	}
	took := g.time(e)
	for _, m := range g.members {
		if m.flying > 0 {
			m.step.end, m.step.took = e.now.Add(took), took
			if m.cfg.Role == RolePrefill && e.net.link.Layers > 1 {
				e.net.computes(m)
			}
		}
	}
	e.push(entry{at: e.now.Add(took), kind: stepEnd, replica: g.members[0].index})
}

// time returns how long the step takes that the group has planned.
func (g *group) time(e *engine) time.Duration {
	g.batches = g.batches[:0]
	took := time.Duration(0)
	shared, ok := g.members[0].cfg.CostModel.(Grouper)
	for _, m := range g.members {
		var b Batch
		if m.flying > 0 {
			b = m.step.batch
			if !ok {
				took = worse(took, m.cfg.CostModel.StepTime(b))
			}
		}
		g.batches = append(g.batches, b)
	}
	if ok {
		took = shared.GroupTime(g.batches)
	}
	slowest := time.Duration(0)
	for _, m := range g.members {
		slowest = worse(slowest, m.windows.stretch(e.now, took))
	}
	if slowest < 0 || e.now >= Never-Time(slowest) {
		e.fail(fmt.Errorf("sim: replica %d: the cost model gives a step of %d ns for a group of %d replicas", g.members[0].index, int64(slowest), len(g.members)))
		slowest = 1
	}
	return max(slowest, 1)
}

// worse returns the longer of two times, or one that is invalid.
func worse(a, b time.Duration) time.Duration {
	if a < 0 || b < 0 {
		return InvalidDuration
	}
	return max(a, b)
}

// endGroup ends the step of a group.
func (e *engine) endGroup(g *group) {
	g.flying = false
	for _, m := range g.members {
		if m.flying > 0 {
			m.finishStep()
		}
	}
	e.lookGroup(g)
}
