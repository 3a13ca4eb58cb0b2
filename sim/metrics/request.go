package metrics

import "servesim/sim"

// cell collects the requests of one class.
type cell struct {
	class                     sim.Class
	tally                     tally
	ttft, gaps, tpot, latency distribution // latency is end to end
	client                    *clientCell  // nil where the client is not measured
}

// tally counts requests, and the ends of their attempts.
type tally struct {
	arrived, retries             int64 // first attempts, and later ones
	completed, rejected, aborted int64
	met                          int64 // completed requests that met every stated target
	unjudged                     int64 // and those of which that is not known
	oneToken                     int64 // completed requests with a single token
	tokens                       int64 // of completed requests
	preemptions                  int64
	reasons                      []Rejections

	abortedPrompt, abortedOutput int64 // tokens of aborted attempts
	door                         door
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

// measured returns the start of the request that e is about, the arrival of
// its first attempt, and whether it lies in the window.
func (c *Collector) measured(e *sim.Event) (start sim.Time, counts bool) {
	_, start = e.Attempt()
	return start, c.window.holds(start)
}

func (c *Collector) arrive(e *sim.Event) {
	c.inSystem.move(e.Time, 1, c.window)
	c.atDoor.move(e.Time, 1, c.window)
	attempt, start := e.Attempt()
	if !c.window.holds(start) {
		return
	}
	if c.firstArrival == sim.NoTime {
		c.firstArrival = start
	}
	t := &c.cell(e.Class).tally
	if attempt == 0 {
		t.arrived++
	} else {
		t.retries++
	}
	t.door.arrive(e)
}

func (c *Collector) queue(e *sim.Event) {
	c.waiting.move(e.Time, 1, c.window)
	c.leaveDoor(e)
}

// leaveDoor takes a request off the front door: into a queue, or to its end.
func (c *Collector) leaveDoor(e *sim.Event) {
	c.atDoor.move(e.Time, -1, c.window)
	if _, counts := c.measured(e); counts {
		c.cell(e.Class).tally.door.leave(e)
	}
}

func (c *Collector) admit(e *sim.Event) {
	c.waiting.move(e.Time, -1, c.window)
	c.running.move(e.Time, 1, c.window)
	delete(c.again, e.Serial)
}

// waitAgain takes in a running request that has lost its place, or got one in the
// queue of another replica.
func (c *Collector) waitAgain(e *sim.Event) {
	c.running.move(e.Time, -1, c.window)
	c.waiting.move(e.Time, 1, c.window)
	c.again[e.Serial] = struct{}{}
}

func (c *Collector) preempt(e *sim.Event) {
	c.waitAgain(e)
	if _, counts := c.measured(e); counts {
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
	start, counts := c.measured(e)
	if !counts {
		return
	}
	k := c.cell(e.Class)
	switch e.Kind {
	case sim.Finish:
		c.lastCompletion = e.Time
		k.complete(e, start)
		c.judge(k, e, start)
	case sim.Reject:
		k.tally.reject(Rejections{e.Reason, 1, promptOf(e)})
	default:
		k.tally.aborted++
		k.tally.abortedPrompt += promptOf(e)
		k.tally.abortedOutput += int64(e.Output)
	}
}

// promptOf returns the prompt tokens of a request, none if it cannot have as
// many: such a request is rejected, and sums must not overflow.
func promptOf(e *sim.Event) int64 {
	if e.Prompt < 0 || e.Prompt > maxPrompt {
		return 0
	}
	return int64(e.Prompt)
}

// maxPrompt is the longest prompt that is not a faulty one.
const maxPrompt = 1 << 40

// vacate takes a request off the level it stands on: at the front door,
// waiting or running.
func (c *Collector) vacate(e *sim.Event) {
	if e.Timeline.Queued == sim.NoTime {
		c.leaveDoor(e)
		return
	}
	_, again := c.again[e.Serial]
	delete(c.again, e.Serial)
	if again || e.Timeline.Admitted == sim.NoTime {
		c.waiting.move(e.Time, -1, c.window)
	} else {
		c.running.move(e.Time, -1, c.window)
	}
}

// complete takes in the completion of a request that started at start.
func (k *cell) complete(e *sim.Event, start sim.Time) {
	k.tally.completed++
	k.tally.tokens += int64(e.Output)
	first := e.Timeline.FirstToken
	k.ttft.add(float64(first-start), 1)
	k.latency.add(float64(e.Time-start), 1)
	if e.Output > 1 {
		k.tpot.add(float64(e.Time-first)/float64(e.Output-1), 1)
	} else {
		k.tally.oneToken++
	}
}

// judge takes in what the client of a completed request sees, and whether it met
// its targets.
func (c *Collector) judge(k *cell, e *sim.Event, start sim.Time) {
	a := answer{start, e.Timeline.FirstToken, e.Time, e.Output, int64(e.GapsOver)}
	if k.client != nil {
		if seen := c.atClient(k, e, a); c.options.Boundary == AtClient {
			a = seen
		}
	}
	met, known := c.options.Gap.meets(k.class, a)
	if met && known {
		k.tally.met++
	}
	if !known {
		k.tally.unjudged++
	}
}

// reject counts rejections for one reason; there are few reasons.
func (t *tally) reject(r Rejections) {
	t.rejected += r.Count
	for i := range t.reasons {
		if t.reasons[i].Reason == r.Reason {
			t.reasons[i].Count += r.Count
			t.reasons[i].Prompt += r.Prompt
			return
		}
	}
	t.reasons = append(t.reasons, r)
}

// add adds the counts of o.
func (t *tally) add(o tally) {
	t.arrived += o.arrived
	t.retries += o.retries
	t.completed += o.completed
	t.aborted += o.aborted
	t.abortedPrompt += o.abortedPrompt
	t.abortedOutput += o.abortedOutput
	t.door.add(o.door)
	t.met += o.met
	t.unjudged += o.unjudged
	t.oneToken += o.oneToken
	t.tokens += o.tokens
	t.preemptions += o.preemptions
	for _, r := range o.reasons {
		t.reject(r)
	}
}
