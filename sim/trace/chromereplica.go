package trace

import (
	"fmt"
	"math"
	"strconv"

	"servesim/sim"
)

// chromeReplica is what the tracks of a replica need.
type chromeReplica struct {
	pid              int64
	usable           int           // KV blocks; 0 if they are not counted
	explainer        sim.Explainer // nil if the cost model is none
	slots            []sim.Time    // ends of the tracks for steps
	marks, roles     bool          // these tracks have names
	waiting, running counter
	used             int // KV blocks shown last
	dirty            bool
}

// counter is a number and what of it has been written.
type counter struct{ n, shown int }

// replica returns the replica of an event, which may be seen for the first
// time.
func (c *Chrome) replica(index int32) *chromeReplica {
	for i := len(c.replicas); i <= int(index); i++ {
		r := &chromeReplica{pid: int64(i) + 2, used: -1}
		if i < len(c.Config.Replicas) {
			k := &c.Config.Replicas[i]
			r.usable = k.KVBlocks - k.ReservedBlocks
			r.explainer, _ = k.CostModel.(sim.Explainer)
		}
		c.replicas = append(c.replicas, r)
		c.named("process_name", r.pid, r.pid*tracksPerProcess, "replica", int64(i))
	}
	return c.replicas[index]
}

// move counts a request in or out of where its phase is spent.
func (c *Chrome) move(l *chromeLife, by int) {
	if l.replica < 0 {
		c.atDoor.n += by
		return
	}
	r := c.replica(l.replica)
	if l.phase.running() {
		r.running.n += by
	} else {
		r.waiting.n += by
	}
	if !r.dirty {
		r.dirty = true
		c.dirty = append(c.dirty, r)
	}
}

// tick moves on to an instant: counters show what they were at the end of the
// one before.
func (c *Chrome) tick(now sim.Time) {
	if now > c.now {
		c.settle()
		c.now = now
	}
}

// settle writes the counters that have changed.
func (c *Chrome) settle() {
	if c.atDoor.n != c.atDoor.shown {
		c.atDoor.shown = c.atDoor.n
		c.count("front door", requestsPid, requestsPid, c.now)
		c.argInt("waiting", int64(c.atDoor.n))
		c.closeEvent()
	}
	for _, r := range c.dirty {
		if r.dirty = false; r.waiting.n == r.waiting.shown && r.running.n == r.running.shown {
			continue
		}
		r.waiting.shown, r.running.shown = r.waiting.n, r.running.n
		c.count("requests", r.pid, r.pid*tracksPerProcess, c.now)
		c.argInt("waiting", int64(r.waiting.n))
		c.argInt("running", int64(r.running.n))
		c.closeEvent()
	}
	c.dirty = c.dirty[:0]
}

// step writes a step on the first track that is free when it starts.
func (c *Chrome) step(e *sim.Event) {
	r := c.replica(e.Replica)
	start := e.Time.Add(-e.Took)
	slot := 0
	for slot < len(r.slots) && r.slots[slot] > start {
		slot++
	}
	tid := r.pid*tracksPerProcess + int64(slot)
	if slot == len(r.slots) {
		if slot >= roleTrack {
			c.err = fmt.Errorf("trace: step %d of replica %d: more than %d steps in flight", e.Step, e.Replica, roleTrack)
			return
		}
		r.slots = append(r.slots, 0)
		number := int64(slot) + 1
		if slot == 0 {
			number = -1
		}
		c.named("thread_name", r.pid, tid, "steps", number)
	}
	r.slots[slot] = e.Time
	c.usedBlocks(r, e, start)

	c.head('X', stepName(e.Batch), r.pid, tid, start)
	c.buf = append(c.buf, `,"cat":"step","dur":`...)
	c.buf = appendDecimal(c.buf, int64(e.Took), microsecond)
	c.buf = append(c.buf, `,"args":{`...)
	c.argInt("step", e.Step)
	c.batch(e.Batch)
	c.argInt("sampled_tokens", int64(e.Tokens))
	c.argInt("waiting", int64(e.Waiting))
	c.argInt("running", int64(e.Running))
	if r.explainer != nil {
		c.explain(r.explainer, e)
	}
	c.closeEvent()
}

// batch writes what a step computes. What it does not do is left out.
func (c *Chrome) batch(b *sim.Batch) {
	for _, f := range [...]struct {
		name string
		n    int
	}{
		{"decodes", b.Decodes}, {"positions", b.Positions}, {"context_tokens", b.Context},
		{"prefill_chunks", len(b.Prefills)}, {"prefill_tokens", b.PrefillTokens()},
		{"swap_in_blocks", b.SwapIn}, {"swap_out_blocks", b.SwapOut},
		{"padding_rows", b.Padding.Rows}, {"padding_tokens", b.Padding.PromptTokens},
	} {
		if f.n != 0 {
			c.argInt(f.name, int64(f.n))
		}
	}
}

// explain writes what the cost model says that the step waits for.
func (c *Chrome) explain(x sim.Explainer, e *sim.Event) {
	c.wait = x.Explain(*e.Batch, c.wait[:0])
	c.arg("cost_us")
	c.buf = append(c.buf, '{')
	for i := range c.wait {
		bound, seconds, first := c.wait[i].Bound, 0.0, true
		for k := range c.wait {
			if c.wait[k].Bound == bound {
				first = first && k >= i
				seconds += c.wait[k].Seconds
			}
		}
		if !first {
			continue
		}
		if math.IsNaN(seconds) || math.IsInf(seconds, 0) {
			c.err = fmt.Errorf("trace: step %d of replica %d: the cost model explains it with %v s for %q", e.Step, e.Replica, seconds, bound)
			return
		}
		c.arg(bound)
		c.buf = strconv.AppendFloat(c.buf, seconds*1e6, 'f', 3, 64)
	}
	c.buf = append(c.buf, '}')
}

// usedBlocks writes the KV blocks in use.
func (c *Chrome) usedBlocks(r *chromeReplica, e *sim.Event, start sim.Time) {
	used := r.usable - e.FreeBlocks
	if r.usable == 0 || used == r.used {
		return
	}
	r.used = used
	c.count("KV blocks", r.pid, r.pid*tracksPerProcess, start)
	c.argInt("used", int64(used))
	c.closeEvent()
}

// stepName is what viewers colour a step by.
func stepName(b *sim.Batch) string {
	switch chunks := len(b.Prefills) > 0; {
	case chunks && b.Decodes > 0:
		return "mixed"
	case chunks:
		return "prefill"
	case b.Decodes > 0:
		return "decode"
	}
	return "copy"
}

// mark writes an instant on the marks of a replica, or of the front door.
func (c *Chrome) mark(e *sim.Event) {
	pid := int64(requestsPid)
	if e.Replica >= 0 {
		r := c.replica(e.Replica)
		pid = r.pid
		c.nameOnce(&r.marks, pid, marksTrack, "marks")
	} else {
		c.nameOnce(&c.marked, pid, marksTrack, "marks")
	}
	c.head('i', e.Kind.String(), pid, pid*tracksPerProcess+marksTrack, e.Time)
	c.buf = append(c.buf, `,"cat":"mark","s":"t","args":{`...)
	if e.Serial > 0 {
		c.argInt("request", e.Serial)
	}
	if e.Reason != "" {
		c.argString("reason", e.Reason)
	}
	c.closeEvent()
}

func (c *Chrome) nameOnce(named *bool, pid, track int64, name string) {
	if !*named {
		*named = true
		c.named("thread_name", pid, pid*tracksPerProcess+track, name, -1)
	}
}

// role marks that a replica closes, or shows how long that took.
func (c *Chrome) role(e *sim.Event) {
	c.mark(e)
	if e.Kind == sim.Drain {
		return
	}
	r := c.replica(e.Replica)
	c.nameOnce(&r.roles, r.pid, roleTrack, "role")
	c.head('X', "to "+e.Reason, r.pid, r.pid*tracksPerProcess+roleTrack, e.Time.Add(-e.Took))
	c.buf = append(c.buf, `,"cat":"role","dur":`...)
	c.buf = appendDecimal(c.buf, int64(e.Took), microsecond)
	c.buf = append(c.buf, `,"args":{`...)
	c.closeEvent()
}
