package profile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/graph/simple"
	"gonum.org/v1/gonum/graph/topo"
)

// Workflow is a compound request: a graph of model calls, tools and what lies
// between them.
type Workflow struct {
	ID    string
	Spans []Span
	// FirstToken names the span at whose end the user sees the first token. ""
	// is none.
	FirstToken string
}

// Span is one piece of work. It starts Wait after the last of the spans that
// it comes After has ended, or after the beginning of the workflow.
type Span struct {
	Name     string // unique in the workflow
	Phase    string // what it is: a phase of a request, a tool; free
	After    []string
	Wait     time.Duration // coordination: nothing runs that this span needs
	Duration time.Duration
}

const (
	// maxSpans bounds what one workflow takes, in time and on the stack.
	maxSpans = 100_000
	// maxLength bounds the length of a workflow to 146 years.
	maxLength = time.Duration(1) << 62
)

// Validate reports the first fault: a workflow without spans, a name that is
// missing or stands twice, a dependency that is not there, a time below 0, a
// cycle.
func (w *Workflow) Validate() error {
	_, _, err := w.order()
	return err
}

// order returns the spans in an order in which each stands behind those that
// it needs, and the indices of those. With an error, at is the span at fault.
func (w *Workflow) order() (sorted []int, at int, err error) {
	if len(w.Spans) == 0 {
		return nil, 0, errors.New("a workflow needs at least one span")
	}
	if len(w.Spans) > maxSpans {
		return nil, 0, fmt.Errorf("a workflow of %d spans, want at most %d", len(w.Spans), maxSpans)
	}
	index := map[string]int{}
	var sum time.Duration
	for i, s := range w.Spans {
		switch {
		case s.Name == "":
			return nil, i, fmt.Errorf("span %d has no name", i+1)
		case s.Duration < 0 || s.Wait < 0:
			return nil, i, fmt.Errorf("span %q takes %v and waits %v, want at least 0", s.Name, s.Duration, s.Wait)
		case s.Duration >= maxLength || s.Wait >= maxLength-s.Duration || sum >= maxLength-s.Duration-s.Wait:
			return nil, i, fmt.Errorf("span %q ends beyond 146 years", s.Name)
		}
		sum += s.Duration + s.Wait
		if first, ok := index[s.Name]; ok {
			return nil, i, fmt.Errorf("span %q stands twice, as %d and %d", s.Name, first+1, i+1)
		}
		index[s.Name] = i
	}
	if _, ok := index[w.FirstToken]; !ok && w.FirstToken != "" {
		return nil, 0, fmt.Errorf("first_token is %q, which is no span", w.FirstToken)
	}
	graph := simple.NewDirectedGraph()
	for i := range w.Spans {
		graph.AddNode(simple.Node(i))
	}
	for i, s := range w.Spans {
		for _, name := range s.After {
			from, ok := index[name]
			switch {
			case !ok:
				return nil, i, fmt.Errorf("span %q comes after %q, which is no span", s.Name, name)
			case from == i:
				return nil, i, fmt.Errorf("span %q comes after itself", s.Name)
			}
			graph.SetEdge(graph.NewEdge(simple.Node(from), simple.Node(i)))
		}
	}
	nodes, err := topo.SortStabilized(graph, nil)
	var cycles topo.Unorderable
	if errors.As(err, &cycles) {
		var names []string
		for _, n := range cycles[0] {
			names = append(names, fmt.Sprintf("%q", w.Spans[n.ID()].Name))
		}
		slices.Sort(names)
		return nil, int(cycles[0][0].ID()), fmt.Errorf("spans wait for each other: %s", strings.Join(names[:min(len(names), 10)], ", "))
	}
	if err != nil {
		return nil, 0, err
	}
	for _, n := range nodes {
		sorted = append(sorted, int(n.ID()))
	}
	return sorted, 0, nil
}

// Path is when each span of a workflow runs, and which of them decide how long
// it takes.
type Path struct {
	Workflow string `json:"workflow"`
	TotalMs  Number `json:"total_ms"`
	// FirstTokenMs is the end of the first token's span; undefined without one.
	FirstTokenMs Number `json:"first_token_ms"`
	// Critical and FirstTokenCritical name the longest chains to the end of the
	// workflow and to the first token, in order of time. Of equally long ones
	// the first declared is taken.
	Critical           []string `json:"critical"`
	FirstTokenCritical []string `json:"first_token_critical,omitempty"`
	WaitMs             Number   `json:"wait_ms"` // coordination on the critical path
	// Phases and FirstTokenPhases split the time on the two chains. Waits are
	// the residual.
	Phases           []PhaseTime `json:"phases"`
	FirstTokenPhases []PhaseTime `json:"first_token_phases,omitempty"`
	Spans            []PathSpan  `json:"spans"` // in the order of the workflow
}

// PhaseTime is the part of a chain that one phase takes.
type PhaseTime struct {
	Phase string `json:"phase"`
	Ms    Number `json:"ms"`
}

// PathSpan is when a span runs.
type PathSpan struct {
	Name    string `json:"name"`
	Phase   string `json:"phase,omitempty"`
	StartMs Number `json:"start_ms"`
	EndMs   Number `json:"end_ms"`
	// SlackMs is how much later the span could end without delaying the
	// workflow: 0 on the critical path. Another span becomes critical behind it.
	SlackMs  Number `json:"slack_ms"`
	Critical bool   `json:"critical"` // in Path.Critical
}

// Path follows the dependencies. Parallel branches count by the longest one,
// not by their sum.
func (w *Workflow) Path() (Path, error) {
	sorted, _, err := w.order()
	if err != nil {
		return Path{}, fmt.Errorf("profile: workflow %q: %w", w.ID, err)
	}
	index := map[string]int{}
	for i, s := range w.Spans {
		index[s.Name] = i
	}
	n := len(w.Spans)
	start, end, longest := make([]time.Duration, n), make([]time.Duration, n), make([]int, n)
	last := sorted[0]
	for _, i := range sorted {
		s := &w.Spans[i]
		longest[i] = -1
		for _, name := range s.After {
			if from := index[name]; longest[i] < 0 || end[from] > end[longest[i]] {
				longest[i] = from
			}
		}
		if longest[i] >= 0 {
			start[i] = end[longest[i]]
		}
		start[i] += s.Wait
		end[i] = start[i] + s.Duration
		if end[i] > end[last] {
			last = i
		}
	}
	latest := make([]time.Duration, n) // at which a span may end
	for i := range latest {
		latest[i] = end[last]
	}
	for k := n - 1; k >= 0; k-- {
		s := &w.Spans[sorted[k]]
		for _, name := range s.After {
			from := index[name]
			latest[from] = min(latest[from], latest[sorted[k]]-s.Duration-s.Wait)
		}
	}

	p := Path{Workflow: w.ID, TotalMs: inMillis(end[last]), FirstTokenMs: undefined()}
	chain := w.chain(longest, last)
	p.Critical, p.Phases = w.describe(chain)
	var wait time.Duration
	critical := make([]bool, n)
	for _, i := range chain {
		wait += w.Spans[i].Wait
		critical[i] = true
	}
	p.WaitMs = inMillis(wait)
	if w.FirstToken != "" {
		first := index[w.FirstToken]
		p.FirstTokenMs = inMillis(end[first])
		p.FirstTokenCritical, p.FirstTokenPhases = w.describe(w.chain(longest, first))
	}
	for i, s := range w.Spans {
		p.Spans = append(p.Spans, PathSpan{s.Name, s.Phase, inMillis(start[i]), inMillis(end[i]), inMillis(latest[i] - end[i]), critical[i]})
	}
	return p, nil
}

func inMillis(d time.Duration) Number { return Number(float64(d) / 1e6) }

// chain follows the longest predecessors back from a span.
func (w *Workflow) chain(longest []int, last int) []int {
	var chain []int
	for i := last; i >= 0; i = longest[i] {
		chain = append(chain, i)
	}
	slices.Reverse(chain)
	return chain
}

// describe names the spans of a chain and adds up its phases, in the order in
// which they first come.
func (w *Workflow) describe(chain []int) (spans []string, phases []PhaseTime) {
	var names []string
	sums := map[string]time.Duration{}
	add := func(phase string, d time.Duration) {
		if _, ok := sums[phase]; !ok {
			names = append(names, phase)
		}
		sums[phase] += d
	}
	for _, i := range chain {
		s := &w.Spans[i]
		spans = append(spans, s.Name)
		if s.Wait > 0 {
			add(residual, s.Wait)
		}
		phase := s.Phase
		if phase == "" {
			phase = s.Name
		}
		add(phase, s.Duration)
	}
	for _, name := range names {
		phases = append(phases, PhaseTime{name, inMillis(sums[name])})
	}
	return spans, phases
}

// Saving shortens a span.
type Saving struct {
	Span string
	By   time.Duration
}

// Save returns the workflow with spans shortened; w stays as it is. Whether
// that shortens the whole is for Path to say: a shorter branch can make another
// one critical.
func (w *Workflow) Save(savings ...Saving) (Workflow, error) {
	shorter := *w
	shorter.Spans = slices.Clone(w.Spans)
	for _, s := range savings {
		i := slices.IndexFunc(shorter.Spans, func(x Span) bool { return x.Name == s.Span })
		if i < 0 {
			return Workflow{}, fmt.Errorf("profile: workflow %q has no span %q", w.ID, s.Span)
		}
		x := &shorter.Spans[i]
		if s.By < 0 || s.By > x.Duration {
			return Workflow{}, fmt.Errorf("profile: span %q takes %v and cannot save %v", s.Span, x.Duration, s.By)
		}
		x.Duration -= s.By
	}
	return shorter, nil
}
