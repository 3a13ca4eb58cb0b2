package metrics

import "servesim/sim"

// cell collects the requests of one class.
type cell struct {
	class                     sim.Class
	tally                     tally
	ttft, gaps, tpot, latency distribution // latency is end to end
}

// tally counts requests.
type tally struct {
	arrived, completed, rejected, aborted int64
	met                                   int64 // completed requests that met every stated target
	oneToken                              int64 // completed requests with a single token
	tokens                                int64 // of completed requests
	preemptions                           int64
	reasons                               []Rejections
}

// unknownClass is the cell of requests whose class does not exist: they are
// rejected, but they did arrive.
const unknownClass = "(unknown)"

func newCell(k sim.Class, streaming bool) cell {
	return cell{class: k, ttft: newDistribution(streaming), gaps: newDistribution(streaming),
		tpot: newDistribution(streaming), latency: newDistribution(streaming)}
}

// cell returns the cell of a class index.
func (c *Collector) cell(class int) *cell {
	if unknown := len(c.cells) - 1; class < 0 || class >= unknown {
		return &c.cells[unknown]
	}
	return &c.cells[class]
}

func (c *Collector) arrive(e *sim.Event) {
	c.inSystem.move(e.Time, 1, c.window)
	if !c.window.holds(e.Time) {
		return
	}
	if c.firstArrival == sim.NoTime {
		c.firstArrival = e.Time
	}
	c.cell(e.Class).tally.arrived++
}

func (c *Collector) admit(e *sim.Event) {
	c.waiting.move(e.Time, -1, c.window)
	c.running.move(e.Time, 1, c.window)
	if e.Preemptions > 0 {
		delete(c.preempted, e.Serial)
	}
}

func (c *Collector) preempt(e *sim.Event) {
	c.running.move(e.Time, -1, c.window)
	c.waiting.move(e.Time, 1, c.window)
	c.preempted[e.Serial] = struct{}{}
	if c.window.holds(e.Timeline.Arrival) {
		c.cell(e.Class).tally.preemptions++
	}
}

// leave takes in the end of a request: completed, rejected or aborted.
func (c *Collector) leave(e *sim.Event) {
	c.inSystem.move(e.Time, -1, c.window)
	c.vacate(e)
	if c.window.holds(e.Time) {
		c.departures++
		c.sojourns.add(1, int64(e.Time-e.Timeline.Arrival))
	}
	if !c.window.holds(e.Timeline.Arrival) {
		return
	}
	k := c.cell(e.Class)
	switch e.Kind {
	case sim.Finish:
		c.lastCompletion = e.Time
		k.complete(e, c.options.Gap)
	case sim.Reject:
		k.tally.reject(Rejections{e.Reason, 1})
	default:
		k.tally.aborted++
	}
}

// vacate takes a request off the level it stands on: none at the front door,
// else waiting or running.
func (c *Collector) vacate(e *sim.Event) {
	if e.Timeline.Queued == sim.NoTime {
		return
	}
	waits := e.Timeline.Admitted == sim.NoTime
	if e.Preemptions > 0 {
		_, waits = c.preempted[e.Serial]
		delete(c.preempted, e.Serial)
	}
	if waits {
		c.waiting.move(e.Time, -1, c.window)
	} else {
		c.running.move(e.Time, -1, c.window)
	}
}

func (k *cell) complete(e *sim.Event, rule GapRule) {
	k.tally.completed++
	k.tally.tokens += int64(e.Output)
	first := e.Timeline.FirstToken
	k.ttft.add(float64(first-e.Timeline.Arrival), 1)
	k.latency.add(float64(e.Time-e.Timeline.Arrival), 1)
	if e.Output > 1 {
		k.tpot.add(float64(e.Time-first)/float64(e.Output-1), 1)
	} else {
		k.tally.oneToken++
	}
	if rule.meets(k.class, e) {
		k.tally.met++
	}
}

// reject counts rejections for one reason; there are few reasons.
func (t *tally) reject(r Rejections) {
	t.rejected += r.Count
	for i := range t.reasons {
		if t.reasons[i].Reason == r.Reason {
			t.reasons[i].Count += r.Count
			return
		}
	}
	t.reasons = append(t.reasons, r)
}

// add adds the counts of o.
func (t *tally) add(o tally) {
	t.arrived += o.arrived
	t.completed += o.completed
	t.aborted += o.aborted
	t.met += o.met
	t.oneToken += o.oneToken
	t.tokens += o.tokens
	t.preemptions += o.preemptions
	for _, r := range o.reasons {
		t.reject(r)
	}
}
