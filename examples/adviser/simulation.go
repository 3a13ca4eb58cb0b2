package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"servesim/costmodel"
	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/profile"
	"servesim/sim/trace"
	"servesim/workload"
)

// setting is the assistant and what serves it. defaults() runs as assistant()
// says; variants change a field or two.
type setting struct {
	prompt, secondPrompt int // tokens of the two calls
	proposal, answer     int // tokens that they say
	retrieval, second    time.Duration
	serial               bool // the second retrieval needs the first
	withoutSecond        bool
	tool                 time.Duration
	fail                 float64 // how often the tool does
	retries              int

	speed    int // of the GPU: step times are divided by it
	replicas int
	chunk    int // tokens a step takes beside decodes; 0 computes prompts whole
	deadline time.Duration
	urgent   bool // the queue is sorted by deadline

	documentAt time.Duration // when somebody sends a document, from the start on; it may be before
	document   int           // tokens of its prompt; 0 is none
}

func defaults() setting {
	return setting{
		prompt: 3600, secondPrompt: 7200, proposal: 18, answer: 110,
		retrieval: 430 * ms, second: 280 * ms, tool: 760 * ms,
		speed: 1, replicas: 1, deadline: 8 * time.Second,
		documentAt: 160 * ms, document: 13_400,
	}
}

// step is a GPU on which the spans come out: 3600 tokens of prompt take 285 ms,
// 7200 take 555, and a document of 13,400 takes 1020. The proposal's 17 gaps
// make 396 ms and the answer's 109 make 2640, to a microsecond: neither is a
// whole number of nanoseconds a gap.
func step(speed int) sim.CostModel {
	n := time.Duration(speed)
	return costmodel.Linear{
		Fixed:           15 * ms / n,
		PerPromptToken:  75 * time.Microsecond / n,
		PerDecode:       7_377_670 * time.Nanosecond / n,
		PerContextToken: 254 * time.Nanosecond / n,
	}
}

// way is how long a token is under way to the client. The step that ends a
// prompt samples the first token, so that no decode comes before it.
const way = 85 * ms

// The nodes of the workflow.
const (
	inbound = iota
	gateway
	retrieval
	secondRetrieval
	assembly
	firstCall
	toolRun
	secondCall
)

// phases are those of the nodes that are no calls, and parts the spans of those
// that are: queue, prefill, the way of the first token, stream.
var (
	phases = map[int]string{inbound: "network_in", gateway: "gateway", retrieval: "gateway", secondRetrieval: "gateway", assembly: "gateway", toolRun: "tool"}
	parts  = map[int][4]profile.Span{
		firstCall: {{Name: "model queue", Phase: "queue"}, {Name: "prefill", Phase: "prefill"},
			{Name: firstToken, Phase: firstToken}, {Name: "tool proposal", Phase: "stream"}},
		secondCall: {{Name: "second call, queue", Phase: "second call"}, {Name: "second call, prefill", Phase: "second call"},
			{Name: "second call, return", Phase: "second call"}, {Name: "answer", Phase: "stream"}},
	}
)

// source tells the calls of workflows from the documents.
const source = 1

func (s *setting) nodes() []workload.Node {
	after := func(name string, d time.Duration, nodes ...int) workload.Node {
		return workload.Node{Name: name, Tool: workload.After(d), After: nodes}
	}
	nodes := []workload.Node{
		inbound:         after("inbound", 70*ms),
		gateway:         after("gateway and policy", 45*ms, inbound),
		retrieval:       after("retrieval", s.retrieval, gateway),
		secondRetrieval: after("second retrieval", s.second, gateway),
		assembly:        after("prompt assembly", 25*ms, retrieval, secondRetrieval),
		firstCall:       {Name: "first call", Lengths: workload.Tokens{Prompt: s.prompt, Output: s.proposal}, After: []int{assembly}},
		toolRun:         after("tool", s.tool, firstCall),
		secondCall:      {Name: "second call", Lengths: workload.Tokens{Prompt: s.secondPrompt, Output: s.answer}, After: []int{toolRun}},
	}
	if s.serial {
		nodes[secondRetrieval].After = []int{retrieval}
	}
	if s.withoutSecond {
		nodes[secondRetrieval].Skip = 1
	}
	nodes[toolRun].Fail, nodes[toolRun].Retries = s.fail, s.retries
	return nodes
}

// traffic is what arrives.
type traffic struct {
	seed      uint64
	starts    workload.Arrivals // of workflows
	documents []sim.Request
}

// outcome is a workflow that was run.
type outcome struct {
	workload.WorkflowResult
	// observed is what a profiler sees of it, and first the record of its first
	// call, from the user's question on. Neither is there if it failed.
	observed profile.Workflow
	first    trace.Record
}

// run simulates workflows and returns them in the order of their starts.
func (s *setting) run(ctx context.Context, t traffic) ([]outcome, error) {
	var out []outcome
	calls := map[sim.Origin]trace.Record{}
	w := workload.Workflow{Seed: t.seed, Starts: t.starts, Source: source, Nodes: s.nodes(), Deadline: s.deadline, Path: &sim.Path{NetworkOut: way}}
	w.Done = func(r workload.WorkflowResult) {
		o := outcome{WorkflowResult: r}
		if !r.Failed {
			o.observed, o.first = observe(w.Nodes, &r, calls)
		}
		for i := range w.Nodes {
			delete(calls, origin(&r, i))
		}
		out = append(out, o)
	}
	workflows, err := w.Begin()
	if err != nil {
		return nil, err
	}
	requests, err := workload.Collect(workflows.Requests())
	if err != nil {
		return nil, err
	}
	requests = append(requests, t.documents...)
	slices.SortStableFunc(requests, func(a, b sim.Request) int { return cmp.Compare(a.Arrival, b.Arrival) })

	cfg := s.config()
	cfg.FollowUp = workflows.FollowUp
	cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
		if o := e.Origin(); e.Kind == sim.Finish && o.Source == source {
			r, c := trace.FromEvent(e), e.Client()
			r.ClientSend, r.FirstTokenClient, r.LastTokenClient = c.Send, c.First, c.Last
			calls[o] = r
		}
	})}
	if _, err := sim.Run(ctx, cfg, workload.FromSlice(requests)); err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b outcome) int { return cmp.Compare(a.Number, b.Number) })
	return out, nil
}

// config is the replicas. Memory does not run out: it is not the subject.
func (s *setting) config() sim.Config {
	cfg := sim.Config{Router: scheduler.LeastPending{}}
	for range s.replicas {
		r := sim.Replica{Scheduler: scheduler.Continuous{}, CostModel: step(s.speed), MaxBatchTokens: 16_384}
		if s.chunk > 0 {
			r.Scheduler, r.MaxBatchTokens = scheduler.ChunkedPrefill{}, s.chunk
		}
		if s.urgent {
			r.Order = sim.OrderFunc(scheduler.ByDeadline)
		}
		cfg.Replicas = append(cfg.Replicas, r)
	}
	return cfg
}

// origin is that of a call of a workflow.
func origin(r *workload.WorkflowResult, node int) sim.Origin {
	return sim.Origin{Source: source, Session: r.Number, Node: node}
}

// observe makes spans of what was run: one of a tool, four of a call. A node
// begins when the last that it comes after is done, so nothing waits between
// spans.
func observe(nodes []workload.Node, r *workload.WorkflowResult, calls map[sim.Origin]trace.Record) (profile.Workflow, trace.Record) {
	w := profile.Workflow{ID: fmt.Sprintf("assistant %d", r.Number), FirstToken: firstToken}
	last := make([]string, len(nodes)) // span of each node
	for i, n := range nodes {
		var after []string
		for _, a := range n.After {
			after = append(after, last[a])
		}
		if n.Tool != nil {
			last[i] = n.Name
			w.Spans = append(w.Spans, profile.Span{Name: n.Name, Phase: phases[i], After: after, Duration: r.Nodes[i].Done.Sub(r.Nodes[i].Ready)})
			continue
		}
		c := calls[origin(r, i)]
		d := c.Decompose().Phases
		for k, took := range []time.Duration{d[trace.Queue], d[trace.Prefill], d[trace.FirstDecode] + d[trace.NetworkToFirst], d[trace.Stream]} {
			span := parts[i][k]
			span.After, span.Duration = after, took
			w.Spans = append(w.Spans, span)
			last[i], after = span.Name, []string{span.Name}
		}
	}
	first := calls[origin(r, firstCall)]
	first.RequestID = "first call"
	first.ClientSend, first.GatewayArrival = r.Start, r.Nodes[inbound].Done
	return w, first
}
