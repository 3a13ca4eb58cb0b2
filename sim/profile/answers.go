package profile

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"servesim/sim/trace"
)

// Answers is the file that a profiler under test hands in.
type Answers struct {
	Profiler string   `json:"profiler,omitempty"`
	Answers  []Answer `json:"answers"`
}

// ReadAnswers reads one JSON object, strictly:
//
//	{"profiler": "mine", "answers": [
//	  {"scenario": "burst", "refused": false, "ttft_phase": "queue", "e2e_phase": "stream",
//	   "causes": ["burst"], "affected": ["17", "18"]},
//	  {"scenario": "skew", "refused": true, "causes": ["clock_skew"]}]}
//
// Only scenario is required. A trace that is refused has no phases. The error
// names file, line and field.
func ReadAnswers(r io.Reader, name string) (Answers, error) {
	d, err := newDocument(r, name)
	if err != nil {
		return Answers{}, err
	}
	if !d.more() {
		return Answers{}, fmt.Errorf("%s: the file is empty", name)
	}
	a := Answers{Answers: []Answer{}}
	found := false
	err = d.object("the file", func(field string) error {
		switch field {
		case "profiler":
			return d.text(field, &a.Profiler)
		case "answers":
			found = true
			return d.list(field, func(number int) error {
				answer, err := d.answer(number)
				a.Answers = append(a.Answers, answer)
				return err
			})
		}
		return d.unknown(field, "profiler", "answers")
	})
	switch {
	case err != nil:
		return Answers{}, err
	case !found:
		return Answers{}, d.errorf("missing field: answers")
	case d.more():
		return Answers{}, d.errorf("more behind the object")
	}
	return a, nil
}

func (d *document) answer(number int) (a Answer, err error) {
	named := false
	err = d.object(fmt.Sprintf("answer %d", number), func(field string) error {
		switch field {
		case "scenario":
			named = true
			return d.text(field, &a.Scenario)
		case "refused":
			return d.boolean(field, &a.Refused)
		case "ttft_phase":
			return d.phase(field, &a.TTFTPhase)
		case "e2e_phase":
			return d.phase(field, &a.E2EPhase)
		case "causes":
			return d.texts(field, &a.Causes)
		case "affected":
			return d.texts(field, &a.Affected)
		}
		return d.unknown(field, "scenario", "refused", "ttft_phase", "e2e_phase", "causes", "affected")
	})
	switch {
	case err != nil:
	case !named:
		err = d.errorf("answer %d: missing field: scenario", number)
	case a.Refused && (a.TTFTPhase != "" || a.E2EPhase != ""):
		err = d.errorf("answer %d, scenario %q: a refused trace has no phases", number, clip(a.Scenario))
	}
	return a, err
}

// phase reads the name of one of the seven, or of the residual.
func (d *document) phase(field string, to *string) error {
	if err := d.text(field, to); err != nil {
		return err
	}
	if names := phaseNames(); !slices.Contains(names, *to) {
		return d.errorf("%s is %q, want one of %s", field, clip(*to), strings.Join(names, ", "))
	}
	return nil
}

func phaseNames() []string {
	var names []string
	for p := range trace.NumPhases {
		names = append(names, trace.Phase(p).String())
	}
	return append(names, residual)
}

// Answer is the report as an answer to a scenario: the dominant phases. It
// names no causes, which need knowledge that a trace does not hold.
func (r *Report) Answer(scenario string) Answer {
	return Answer{Scenario: scenario, TTFTPhase: r.DominantTTFT.Phase, E2EPhase: r.DominantE2E.Phase}
}
