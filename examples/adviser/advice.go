package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"servesim/sim/profile"
)

// report is everything the program prints.
type report struct {
	Workflows []advice `json:"workflows"`
	// FirstCall is the profile of the assistant's first model call.
	FirstCall *profile.Report `json:"first_call,omitempty"`
	// Simulation is the assistant as a run of the engine.
	Simulation *simulation `json:"simulation,omitempty"`
}

// advice is what is said of one workflow.
type advice struct {
	profile.Path
	// Worth lists the spans of the critical path by what they could save.
	Worth []worth `json:"worth"`
	Cases []saved `json:"cases,omitempty"`
}

// worth is what a span would save if it took no time: less than it takes where
// another branch becomes critical.
type worth struct {
	Span   string         `json:"span"`
	TakeMs profile.Number `json:"takes_ms"`
	SaveMs profile.Number `json:"saves_at_most_ms"`
}

// whatIf is a change to a workflow: savings, or another workflow. Without
// either, the spans cannot say what it comes to.
type whatIf struct {
	name    string
	savings []profile.Saving
	instead *profile.Workflow
	run     func(*setting) // the change in a simulation; nil is none
}

// saved is what a change comes to: by the spans, whose figures are undefined
// where they cannot say it, and in a run.
type saved struct {
	Case         string         `json:"case"`
	SaveMs       profile.Number `json:"saves_ms"` // negative is longer
	TotalMs      profile.Number `json:"total_ms"`
	FirstTokenMs profile.Number `json:"first_token_ms"`
	Critical     []string       `json:"critical,omitempty"`
	Run          *simulated     `json:"run,omitempty"`
}

// mostWorth is how many spans are weighed: each needs a path of its own.
const mostWorth = 20

func newAdvice(ctx context.Context, w *profile.Workflow, cases []whatIf) (advice, error) {
	path, err := w.Path()
	if err != nil {
		return advice{}, err
	}
	a := advice{Path: path, Worth: []worth{}}
	if a.Worth, err = weigh(w, &path); err != nil {
		return advice{}, err
	}
	for _, c := range cases {
		x, err := c.saves(w, &path)
		if err != nil {
			return advice{}, err
		}
		if c.run != nil {
			if x.Run, err = simulate(ctx, c.run); err != nil {
				return advice{}, err
			}
		}
		a.Cases = append(a.Cases, x)
	}
	return a, nil
}

// saves follows the changed workflow.
func (c *whatIf) saves(w *profile.Workflow, path *profile.Path) (saved, error) {
	if c.savings == nil && c.instead == nil {
		none := profile.Number(math.NaN())
		return saved{Case: c.name, SaveMs: none, TotalMs: none, FirstTokenMs: none}, nil
	}
	changed := *w
	if c.instead != nil {
		changed = *c.instead
	}
	changed, err := changed.Save(c.savings...)
	if err != nil {
		return saved{}, err
	}
	after, err := changed.Path()
	return saved{c.name, path.TotalMs - after.TotalMs, after.TotalMs, after.FirstTokenMs, after.Critical, nil}, err
}

// weigh takes the longest spans of the critical path away, one at a time.
func weigh(w *profile.Workflow, path *profile.Path) ([]worth, error) {
	list := []worth{}
	durations := map[string]time.Duration{}
	for _, s := range w.Spans {
		durations[s.Name] = s.Duration
	}
	longest := slices.Clone(path.Critical)
	slices.SortStableFunc(longest, func(a, b string) int { return cmp.Compare(durations[b], durations[a]) })
	for _, name := range longest[:min(mostWorth, len(longest))] {
		without, err := w.Save(profile.Saving{Span: name, By: durations[name]})
		if err != nil {
			return nil, err
		}
		after, err := without.Path()
		if err != nil {
			return nil, fmt.Errorf("without %q: %w", name, err)
		}
		list = append(list, worth{name, profile.Number(float64(durations[name]) / 1e6), path.TotalMs - after.TotalMs})
	}
	slices.SortStableFunc(list, func(a, b worth) int { return cmp.Compare(b.SaveMs, a.SaveMs) })
	return list, nil
}
