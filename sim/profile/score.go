package profile

import (
	"fmt"
	"slices"
	"strings"
)

// Truth is the label of a scenario, known from how it was made.
type Truth struct {
	Scenario string `json:"scenario"`
	// Valid is false for a trace that must be refused. Its phases are not asked
	// for; its causes are.
	Valid     bool     `json:"valid"`
	TTFTPhase string   `json:"ttft_phase,omitempty"` // with the largest mean
	E2EPhase  string   `json:"e2e_phase,omitempty"`
	Causes    []string `json:"causes"`             // what was done to it; none for a healthy one
	Affected  []string `json:"affected,omitempty"` // ids of the requests that it was done to
}

// Answer is what a profiler says of a scenario.
type Answer struct {
	Scenario  string   `json:"scenario"`
	Refused   bool     `json:"refused"` // the trace is broken
	TTFTPhase string   `json:"ttft_phase,omitempty"`
	E2EPhase  string   `json:"e2e_phase,omitempty"`
	Causes    []string `json:"causes,omitempty"`
	// Affected are ids of requests; nil is no answer to that, and is not scored.
	Affected []string `json:"affected,omitempty"`
}

// Score is how far answers agree with the truth.
type Score struct {
	Scenarios int `json:"scenarios"`
	Answered  int `json:"answered"` // a scenario without an answer is missed in all that it asks

	Refusal   Hits    `json:"refusal"` // broken traces refused
	TTFTPhase Right   `json:"ttft_phase"`
	E2EPhase  Right   `json:"e2e_phase"`
	Causes    []Cause `json:"causes"`     // sorted by name
	AllCauses Hits    `json:"all_causes"` // pooled
	Affected  Hits    `json:"affected"`   // pooled over the scenarios that answer

	Missed []Miss `json:"missed"` // what is true and was not said
	Wrong  []Miss `json:"wrong"`  // what was said and is not true
}

// Right counts answers to questions with one right answer.
type Right struct {
	Right int `json:"right"`
	Of    int `json:"of"`
}

// Hits counts what was said and what is true.
type Hits struct {
	Hit       int    `json:"hit"`   // said and true
	False     int    `json:"false"` // said, not true
	Missed    int    `json:"missed"`
	Precision Number `json:"precision"` // Hit / (Hit + False); undefined if nothing was said
	Recall    Number `json:"recall"`    // Hit / (Hit + Missed); undefined if nothing is true
}

// Cause counts one cause over all scenarios.
type Cause struct {
	Cause string `json:"cause"`
	Hits
}

// Miss is one difference between an answer and the truth.
type Miss struct {
	Scenario string `json:"scenario"`
	What     string `json:"what"` // refusal, ttft_phase, e2e_phase, cause
	Want     string `json:"want"` // "" where nothing is true
	Got      string `json:"got"`  // "" where nothing was said
}

// ScoreAnswers compares answers with the truth. It refuses truths and answers
// that stand twice, answers to scenarios that are not there, and causes that
// no truth has: they are misspelt, and would pass for mistakes of the
// profiler. The error names the scenario.
func ScoreAnswers(truths []Truth, answers []Answer) (Score, error) {
	byScenario, known, err := index(truths, answers)
	if err != nil {
		return Score{}, err
	}
	s := Score{Scenarios: len(truths), Answered: len(answers), Causes: []Cause{}, Missed: []Miss{}, Wrong: []Miss{}}
	causes := map[string]*Hits{}
	for _, name := range known {
		causes[name] = &Hits{}
	}
	for _, t := range truths {
		a, answered := byScenario[t.Scenario]
		s.refusal(t, a)
		if t.Valid {
			s.phase("ttft_phase", &s.TTFTPhase, t.Scenario, t.TTFTPhase, a.TTFTPhase)
			s.phase("e2e_phase", &s.E2EPhase, t.Scenario, t.E2EPhase, a.E2EPhase)
		}
		compare(t.Causes, a.Causes, func(name string, said, is bool) {
			causes[name].count(said, is)
			s.AllCauses.count(said, is)
			switch {
			case !said:
				s.Missed = append(s.Missed, Miss{t.Scenario, "cause", name, ""})
			case !is:
				s.Wrong = append(s.Wrong, Miss{t.Scenario, "cause", "", name})
			}
		})
		if answered && a.Affected != nil {
			compare(t.Affected, a.Affected, func(_ string, said, is bool) { s.Affected.count(said, is) })
		}
	}
	for _, name := range known {
		causes[name].rate()
		s.Causes = append(s.Causes, Cause{name, *causes[name]})
	}
	for _, h := range []*Hits{&s.Refusal, &s.AllCauses, &s.Affected} {
		h.rate()
	}
	return s, nil
}

// index returns the answers by scenario and the sorted names of all causes.
func index(truths []Truth, answers []Answer) (map[string]Answer, []string, error) {
	labelled := map[string]bool{}
	var known []string
	for _, t := range truths {
		if labelled[t.Scenario] {
			return nil, nil, fmt.Errorf("profile: scenario %q is labelled twice", t.Scenario)
		}
		labelled[t.Scenario] = true
		known = append(known, t.Causes...)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	byScenario := map[string]Answer{}
	for _, a := range answers {
		if _, ok := byScenario[a.Scenario]; ok {
			return nil, nil, fmt.Errorf("profile: scenario %q is answered twice", clip(a.Scenario))
		}
		if !labelled[a.Scenario] {
			return nil, nil, fmt.Errorf("profile: an answer to %q, which is no scenario", clip(a.Scenario))
		}
		for _, c := range a.Causes {
			if _, ok := slices.BinarySearch(known, c); !ok {
				return nil, nil, fmt.Errorf("profile: scenario %q: unknown cause %q, known are %s", a.Scenario, clip(c), strings.Join(known, ", "))
			}
		}
		byScenario[a.Scenario] = a
	}
	return byScenario, known, nil
}

func (s *Score) refusal(t Truth, a Answer) {
	if a.Refused || !t.Valid {
		s.Refusal.count(a.Refused, !t.Valid)
	}
	switch {
	case !t.Valid && !a.Refused:
		s.Missed = append(s.Missed, Miss{t.Scenario, "refusal", "refused", "accepted"})
	case t.Valid && a.Refused:
		s.Wrong = append(s.Wrong, Miss{t.Scenario, "refusal", "accepted", "refused"})
	}
}

// phase counts a question with one answer. A wrong answer misses the right one
// too; it is listed once.
func (s *Score) phase(what string, r *Right, scenario, want, got string) {
	r.Of++
	switch {
	case got == want:
		r.Right++
	case got == "":
		s.Missed = append(s.Missed, Miss{scenario, what, want, got})
	default:
		s.Wrong = append(s.Wrong, Miss{scenario, what, want, got})
	}
}

// compare calls f for each name that is true or was said, in order, once.
func compare(truth, said []string, f func(name string, said, is bool)) {
	const isTrue, wasSaid = 1, 2
	marks := map[string]int{}
	for _, name := range truth {
		marks[name] |= isTrue
	}
	for _, name := range said {
		marks[name] |= wasSaid
	}
	all := slices.Concat(truth, said)
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		f(name, marks[name]&wasSaid != 0, marks[name]&isTrue != 0)
	}
}

func (h *Hits) count(said, is bool) {
	switch {
	case said && is:
		h.Hit++
	case said:
		h.False++
	default:
		h.Missed++
	}
}

func (h *Hits) rate() {
	h.Precision = over(float64(h.Hit), float64(h.Hit+h.False))
	h.Recall = over(float64(h.Hit), float64(h.Hit+h.Missed))
}
