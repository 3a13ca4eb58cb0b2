// Package scenario makes traces whose truth is known: runs with one thing done
// to them on purpose, and measurements that are broken on purpose.
//
//	All ──► Scenario.Run ──► Entries  what a profiler is given
//	            │            Labels   the truth about each request
//	            └──► sim.Run Truth    the truth about the whole
//
// A label comes from how a scenario is made, never from a profiler: the phases
// are stated beside the set-up that makes them the longest, and whose requests
// are affected follows from what was done to whom.
//
// Read scenario.go, then plan.go for the deployment that all have in common.
// load.go, engine.go, clientside.go and broken.go hold the scenarios.
package scenario

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"servesim/sim"
	"servesim/sim/profile"
	"servesim/sim/trace"
)

// Scenario is one way in which serving goes wrong, or its measurement.
type Scenario struct {
	Name  string
	About string // what is done, in a sentence
	// Causes are what a profiler should find; none for a healthy run.
	Causes []string
	// Valid is false where the trace must be refused.
	Valid bool
	// TTFT and E2E are the phases with the largest means, of a valid trace.
	TTFT, E2E trace.Phase
	// Accepted says that the reference profiler accepts an invalid trace.
	Accepted bool

	change func(p *plan) error      // what is done to the run
	faults []trace.Fault            // and to its measurement
	damage func(lines [][]byte) int // and to the file; returns the line that is hit
}

// All returns the scenarios, healthy ones first.
func All() []Scenario {
	return slices.Concat(loadScenarios(), engineScenarios(), clientScenarios(), brokenScenarios())
}

// DamagesText reports whether the file is broken as text, beside what it says.
func (s Scenario) DamagesText() bool { return s.damage != nil }

// Lookup returns the scenario of that name.
func Lookup(name string) (Scenario, error) {
	var names []string
	for _, s := range All() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Scenario{}, fmt.Errorf("no scenario %q; there are %q", name, names)
}

// Run is what a scenario gave.
type Run struct {
	Scenario Scenario
	Truth    profile.Truth
	Result   sim.Result
	Model    string // that was served
	// Entries are the trace as it was measured, in the order of the file.
	Entries []trace.Entry
	// Labels are those of the requests that completed, in order of completion.
	Labels []trace.Label
}

// Run runs the scenario. The same seed gives the same run. observers, which may
// be nil, makes observers that watch the run itself, as it really was.
func (s Scenario) Run(ctx context.Context, seed uint64, observers func(sim.Config) []sim.Observer) (Run, error) {
	r, err := s.run(ctx, seed, observers)
	if err != nil {
		return Run{}, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	return r, nil
}

func (s Scenario) run(ctx context.Context, seed uint64, observers func(sim.Config) []sim.Observer) (Run, error) {
	p, err := newPlan(seed)
	if err != nil {
		return Run{}, err
	}
	if s.change != nil {
		if err := s.change(p); err != nil {
			return Run{}, err
		}
	}
	p.config.Classes = p.merged().Classes()
	r := Run{Scenario: s, Model: p.setup.Model.Name, Truth: profile.Truth{Scenario: s.Name, Valid: s.Valid, Causes: slices.Clone(s.Causes), Affected: []string{}}}
	if s.Causes == nil {
		r.Truth.Causes = []string{}
	}
	if s.Valid {
		r.Truth.TTFTPhase, r.Truth.E2EPhase = s.TTFT.String(), s.E2E.String()
	}
	collect := &collector{p: p, run: &r}
	p.config.Observers = []sim.Observer{collect}
	if observers != nil {
		p.config.Observers = append(p.config.Observers, observers(p.config)...)
	}
	if r.Result, err = sim.Run(ctx, p.config, p.requests()); err != nil {
		return Run{}, err
	}
	return r, r.breakTrace()
}

// breakTrace applies what is wrong with the measurement and labels whom it hits.
func (r *Run) breakTrace() error {
	hit := map[string]bool{}
	var broken []trace.Entry
	for e, err := range trace.Break(sequence(r.Entries), func(id string) { hit[id] = true }, r.Scenario.faults...) {
		if err != nil {
			return err
		}
		broken = append(broken, e)
	}
	r.Entries = broken
	if damage := r.Scenario.damage; damage != nil {
		lines, err := r.lines(false)
		if err != nil {
			return err
		}
		hit[r.Entries[damage(lines)].RequestID] = true
	}
	for i := range r.Labels {
		if l := &r.Labels[i]; hit[l.RequestID] {
			l.Causes = slices.Clone(r.Scenario.Causes)
			r.Truth.Affected = append(r.Truth.Affected, l.RequestID)
		}
	}
	return nil
}

// WriteTrace writes the file that a profiler is given: a line per entry, damaged
// where the scenario says so. With labels, each line carries that of its request.
func (r *Run) WriteTrace(w io.Writer, labelled bool) error {
	lines, err := r.lines(labelled)
	if err != nil {
		return err
	}
	if r.Scenario.damage != nil {
		r.Scenario.damage(lines)
	}
	_, err = w.Write(bytes.Join(lines, nil))
	return err
}

// lines are the lines of the file before it is damaged.
func (r *Run) lines(labelled bool) ([][]byte, error) {
	labels := map[string]trace.Label{}
	for _, l := range r.Labels {
		labels[l.RequestID] = l
	}
	var b bytes.Buffer
	w := &trace.Writer{W: &b}
	for _, e := range r.Entries {
		var err error
		if labelled {
			err = w.WriteLabelled(e, labels[e.RequestID])
		} else {
			err = w.WriteUnchecked(e)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	lines := bytes.SplitAfter(b.Bytes(), []byte("\n"))
	return lines[:len(lines)-1], nil
}

// collector makes entries and labels of the requests that complete.
type collector struct {
	p      *plan
	run    *Run
	cached map[int64]int // positions found at the first admission, by serial number
}

// Observe implements sim.Observer.
func (c *collector) Observe(e sim.Event) {
	switch e.Kind {
	case sim.Admit:
		if c.cached == nil {
			c.cached = map[int64]int{}
		}
		if _, again := c.cached[e.Serial]; !again {
			c.cached[e.Serial] = int(e.Cached)
		}
	case sim.Reject, sim.Abort:
		delete(c.cached, e.Serial)
	case sim.Finish:
		entry := trace.EntryFromEvent(e)
		entry.Details.Class = c.p.config.Classes[e.Class].Name
		entry.Details.Route = fmt.Sprintf("replica %d", e.Replica)
		if entry.Details.HasCached = c.p.config.Replicas[e.Replica].PrefixCache; entry.Details.HasCached {
			entry.Details.CachedTokens = c.cached[e.Serial]
		}
		delete(c.cached, e.Serial)
		label := trace.LabelFromEvent(e)
		if c.run.Scenario.change != nil && len(c.run.Scenario.Causes) > 0 && c.p.affected(e) {
			label.Causes = slices.Clone(c.run.Scenario.Causes)
			c.run.Truth.Affected = append(c.run.Truth.Affected, label.RequestID)
		}
		c.run.Entries = append(c.run.Entries, entry)
		c.run.Labels = append(c.run.Labels, label)
	}
}
