package workload

import (
	"container/heap"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"servesim/sim"
)

// Workflow is compound requests: each is a graph of model calls and tools. A
// node begins when all nodes that it comes After are done, so a join waits for
// the slowest; nodes that do not wait for each other run in parallel. Model
// calls are requests to the engine and done when their client has the answer;
// tools take time of their own and nothing of the engine.
//
// What a node draws depends on (Seed, workflow, node, attempt) alone.
type Workflow struct {
	Seed uint64 `doc:"-"`
	// Starts says when workflows begin.
	Starts Arrivals `doc:"starts"`
	// Source becomes Origin.Source, and keeps the IDs of several workloads apart:
	// from 0 to 32,767.
	Source int `doc:"-"`
	// Class is the index of the class of the calls.
	Class int    `doc:"-"`
	Nodes []Node `doc:"nodes"` // at most 256, each behind those that it comes after
	// Deadline is given to the calls for policies, counted from the start; 0
	// means none.
	Deadline time.Duration `doc:"deadline_ms,opt"`
	// Path is the client's side of every call; nil means none.
	Path *sim.Path `doc:"client_path,opt"`
	// Done hears of every workflow that has ended. nil means nobody does.
	Done func(WorkflowResult) `doc:"-"`
}

// Node is a step of a [Workflow]: a model call if it has Lengths, a tool if it
// has a Tool.
type Node struct {
	Name    string  `doc:"name,opt"`
	After   []int   `doc:"after,opt"` // indices of nodes
	Lengths Lengths `doc:"lengths,opt"`
	Tool    Delay   `doc:"tool,opt"`
	// Skip is the probability that the node is left out; it is done at once
	// then.
	Skip float64 `doc:"skip,opt"`
	// Fail is the probability that an attempt of a tool fails at its end, and
	// Retries how often it is tried again, at most 255; so is a call that is
	// rejected or aborted. When the last attempt fails, the workflow does.
	Fail    float64 `doc:"fail,opt"`
	Retries int     `doc:"retries,opt"`
	// Deadline of the class, MaxOutput and Patience of the call.
	MaxOutput int          `doc:"max_output_tokens,opt"`
	Patience  sim.Patience `doc:"patience,opt"`
}

// WorkflowResult is what became of one workflow.
type WorkflowResult struct {
	Number     int64 // from 0, in order of the starts; Origin.Session of its calls
	Start, End sim.Time
	Failed     bool // End is when the last attempt of a node failed
	Nodes      []NodeResult
}

// NodeResult is what became of a node. Of a failed workflow, nodes that were not
// done have Done NoTime, and there is no slack.
type NodeResult struct {
	Ready, Done sim.Time
	Attempts    int           // 0 if it was skipped
	Slack       time.Duration // how much later it could have been done without delaying the end
	Critical    bool          // on the longest chain of dependencies, whose times add up to End - Start
}

// Validate reports the first invalid field.
func (w Workflow) Validate() error {
	if err := validate("Workflow.Starts", w.Starts); err != nil {
		return err
	}
	switch {
	case w.Source < 0 || w.Source > 1<<15-1:
		return fmt.Errorf("Workflow.Source is %d, want from 0 to %d", w.Source, 1<<15-1)
	case w.Class < 0:
		return fmt.Errorf("Workflow.Class is %d, want at least 0", w.Class)
	case w.Deadline < 0:
		return fmt.Errorf("Workflow.Deadline is %v, want at least 0", w.Deadline)
	case len(w.Nodes) == 0 || len(w.Nodes) > 256:
		return fmt.Errorf("Workflow.Nodes are %d, want from 1 to 256", len(w.Nodes))
	}
	for i, n := range w.Nodes {
		field := fmt.Sprintf("Workflow.Nodes[%d]", i)
		if (n.Lengths == nil) == (n.Tool == nil) {
			return fmt.Errorf("%s has both or neither of Lengths and Tool", field)
		}
		if n.Lengths != nil {
			if err := validate(field+".Lengths", n.Lengths); err != nil {
				return err
			}
		} else if err := validate(field+".Tool", n.Tool); err != nil {
			return err
		}
		for _, a := range n.After {
			if a < 0 || a >= i {
				return fmt.Errorf("%s.After names node %d, want one before it", field, a)
			}
		}
		switch {
		case !(n.Skip >= 0 && n.Skip <= 1):
			return fmt.Errorf("%s.Skip is %v, want a probability", field, n.Skip)
		case !(n.Fail >= 0 && n.Fail <= 1) || n.Fail > 0 && n.Tool == nil:
			return fmt.Errorf("%s.Fail is %v, want the probability of a tool", field, n.Fail)
		case n.Retries < 0 || n.Retries > 255:
			return fmt.Errorf("%s.Retries is %d, want from 0 to 255", field, n.Retries)
		case n.MaxOutput < 0:
			return fmt.Errorf("%s.MaxOutput is %d, want at least 0", field, n.MaxOutput)
		}
	}
	return nil
}

// WorkflowRun is the workflows of one run: its Requests go to sim.Run and its
// FollowUp to sim.Config. It is used once.
type WorkflowRun struct {
	w      Workflow
	after  [][]int // nodes that come after each
	draws  *family
	rand   *rand.Rand
	live   map[int64]*flow
	calls  arrivalHeap // of the workflows that have begun, before the first answer
	used   bool
	broken error
}

// flow is a workflow under way.
type flow struct {
	WorkflowResult
	waiting []int // dependencies that are not done
	left    int   // nodes that are not done
}

// Begin returns the workflows of a run.
func (w Workflow) Begin() (*WorkflowRun, error) {
	if err := w.Validate(); err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	r := &WorkflowRun{w: w, after: make([][]int, len(w.Nodes)), draws: newFamily(w.Seed, "workflow"), live: map[int64]*flow{}}
	r.rand = rand.New(r.draws)
	for i, n := range w.Nodes {
		for _, a := range n.After {
			r.after[a] = append(r.after[a], i)
		}
	}
	return r, nil
}

// Requests yields the calls that need no answer of the engine before them, in
// order of arrival. It may be used once.
func (r *WorkflowRun) Requests() iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		if r.used {
			fail(yield, errors.New("WorkflowRun.Requests is used twice"))
			return
		}
		r.used = true
		number := int64(0)
		for t, err := range r.w.Starts.Times(rand.New(Stream(r.w.Seed, "workflow starts", 0))) {
			if err != nil {
				yield(sim.Request{}, err)
				return
			}
			if !r.yieldBefore(t, yield) {
				return
			}
			for _, q := range r.begin(number, t) {
				heap.Push(&r.calls, q)
			}
			if number++; r.broken != nil {
				fail(yield, r.broken)
				return
			}
		}
		r.yieldBefore(sim.Never, yield)
	}
}

// yieldBefore yields the calls that arrive before t.
func (r *WorkflowRun) yieldBefore(t sim.Time, yield func(sim.Request, error) bool) bool {
	for len(r.calls) > 0 && r.calls[0].Arrival < t {
		if !yield(heap.Pop(&r.calls).(sim.Request), nil) {
			return false
		}
	}
	return true
}

// begin starts a workflow and returns its first calls.
func (r *WorkflowRun) begin(number int64, t sim.Time) []sim.Request {
	f := &flow{WorkflowResult: WorkflowResult{Number: number, Start: t, Nodes: make([]NodeResult, len(r.w.Nodes))}, left: len(r.w.Nodes)}
	f.waiting = make([]int, len(r.w.Nodes))
	for i, n := range r.w.Nodes {
		f.waiting[i] = len(n.After)
		f.Nodes[i] = NodeResult{Ready: sim.NoTime, Done: sim.NoTime}
	}
	r.live[number] = f
	var out []sim.Request
	for i, n := range r.w.Nodes {
		if len(n.After) == 0 {
			out = r.ready(f, i, t, out)
		}
	}
	return out
}

// ready begins a node at an instant and appends the calls that follow from it.
func (r *WorkflowRun) ready(f *flow, i int, t sim.Time, out []sim.Request) []sim.Request {
	n := &r.w.Nodes[i]
	f.Nodes[i].Ready = t
	r.rewind(f, i, 0)
	switch {
	case n.Skip > 0 && r.rand.Float64() < n.Skip:
		return r.done(f, i, t, out)
	case n.Tool == nil:
		return r.call(f, i, t, out)
	}
	for attempt := 0; attempt <= n.Retries; attempt++ {
		f.Nodes[i].Attempts++
		r.rewind(f, i, attempt)
		r.rand.Float64() // the draw of Skip
		t = t.Add(max(0, n.Tool.Draw(r.rand)))
		if n.Fail == 0 || r.rand.Float64() >= n.Fail {
			return r.done(f, i, t, out)
		}
	}
	r.fail(f, t)
	return out
}

// call appends the request of a node.
func (r *WorkflowRun) call(f *flow, i int, t sim.Time, out []sim.Request) []sim.Request {
	n, attempt := &r.w.Nodes[i], f.Nodes[i].Attempts
	f.Nodes[i].Attempts++
	r.rewind(f, i, attempt)
	r.rand.Float64() // the draw of Skip
	l := n.Lengths.Draw(r.rand)
	if l.Prompt < 1 || l.Output < 1 {
		r.broken = fmt.Errorf("Workflow.Nodes[%d].Lengths drew prompt %d, output %d, want at least 1", i, l.Prompt, l.Output)
		return out
	}
	q := sim.Request{
		ID:      r.callID(f, i) | attempt,
		Arrival: t.Add(r.w.Path.Before()), Prompt: l.Prompt, Output: l.Output, MaxOutput: n.MaxOutput, Class: r.w.Class,
		Path: r.w.Path, Patience: n.Patience, Origin: sim.Origin{Source: r.w.Source, Session: f.Number, Node: i},
	}
	if r.w.Deadline > 0 {
		q.Deadline = f.Start.Add(r.w.Deadline)
	}
	return append(out, q)
}

// done ends a node and begins those that waited for it alone.
func (r *WorkflowRun) done(f *flow, i int, t sim.Time, out []sim.Request) []sim.Request {
	f.Nodes[i].Done = t
	f.left--
	for _, next := range r.after[i] {
		if f.waiting[next]--; f.waiting[next] == 0 && r.live[f.Number] == f {
			at := t
			for _, a := range r.w.Nodes[next].After {
				at = max(at, f.Nodes[a].Done)
			}
			out = r.ready(f, next, at, out)
		}
	}
	if f.left == 0 && r.live[f.Number] == f {
		r.finish(f)
	}
	return out
}

// callID is the ID of the first attempt of a call.
func (r *WorkflowRun) callID(f *flow, node int) int {
	return r.w.Source<<48 | int(f.Number)<<16 | node<<8
}

// FollowUp answers the end of a call with those that waited for it, and no
// requests of others.
func (r *WorkflowRun) FollowUp(c sim.Completion) []sim.Request {
	o := c.Request.Origin
	f := r.live[o.Session]
	if f == nil || o.Source != r.w.Source || o.Node >= len(r.w.Nodes) || c.Request.ID != r.callID(f, o.Node)|(f.Nodes[o.Node].Attempts-1) {
		return nil
	}
	switch {
	case c.Kind == sim.Finish:
		return r.done(f, o.Node, c.Client.Done, nil)
	case f.Nodes[o.Node].Attempts <= r.w.Nodes[o.Node].Retries:
		return r.call(f, o.Node, c.Client.Done, nil)
	}
	r.fail(f, c.Client.Done)
	return nil
}

// fail ends a workflow of which a node cannot be done. Calls that are under way
// run to their end, and nothing follows them.
func (r *WorkflowRun) fail(f *flow, t sim.Time) {
	f.Failed, f.End = true, t
	r.report(f)
}

// finish ends a workflow that is done, and says what its end waited for.
func (r *WorkflowRun) finish(f *flow) {
	last := 0
	for i := range f.Nodes {
		if f.Nodes[i].Done > f.Nodes[last].Done {
			last = i
		}
	}
	f.End = f.Nodes[last].Done
	for i := len(f.Nodes) - 1; i >= 0; i-- {
		n := &f.Nodes[i]
		latest := f.End
		for _, next := range r.after[i] {
			s := &f.Nodes[next]
			latest = min(latest, s.Done.Add(s.Slack)-(s.Done-s.Ready))
		}
		n.Slack = latest.Sub(n.Done)
	}
	for i := last; i >= 0; {
		f.Nodes[i].Critical = true
		before := -1
		for _, a := range r.w.Nodes[i].After {
			if before < 0 || f.Nodes[a].Done > f.Nodes[before].Done {
				before = a
			}
		}
		i = before
	}
	r.report(f)
}

func (r *WorkflowRun) report(f *flow) {
	delete(r.live, f.Number)
	if r.w.Done != nil {
		r.w.Done(f.WorkflowResult)
	}
}

func (r *WorkflowRun) rewind(f *flow, node, attempt int) {
	r.draws.rewind(uint64(f.Number)<<16 | uint64(node)<<8 | uint64(attempt))
}

// arrivalHeap sorts requests by arrival, then ID.
type arrivalHeap []sim.Request

func (h arrivalHeap) Len() int { return len(h) }
func (h arrivalHeap) Less(i, j int) bool {
	return h[i].Arrival < h[j].Arrival || h[i].Arrival == h[j].Arrival && h[i].ID < h[j].ID
}
func (h arrivalHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *arrivalHeap) Push(x any)   { *h = append(*h, x.(sim.Request)) }
func (h *arrivalHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
