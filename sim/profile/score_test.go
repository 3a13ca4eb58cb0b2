package profile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"servesim/sim/profile"
)

// truths are four scenarios: two with one cause each, one with two, one whose
// trace is broken, one healthy.
func truths() []profile.Truth {
	return []profile.Truth{
		{Scenario: "burst", Valid: true, TTFTPhase: "queue", E2EPhase: "stream", Causes: []string{"burst"}, Affected: []string{"3", "4", "5", "6"}},
		{Scenario: "far", Valid: true, TTFTPhase: "network_in", E2EPhase: "stream", Causes: []string{"distant_client"}},
		{Scenario: "both", Valid: true, TTFTPhase: "queue", E2EPhase: "queue", Causes: []string{"burst", "slow_gateway"}},
		{Scenario: "skew", Causes: []string{"clock_skew"}},
		{Scenario: "healthy", Valid: true, TTFTPhase: "prefill", E2EPhase: "stream"},
	}
}

// perfect answers with the truth.
func perfect() (answers []profile.Answer) {
	for _, t := range truths() {
		answers = append(answers, profile.Answer{Scenario: t.Scenario, Refused: !t.Valid, TTFTPhase: t.TTFTPhase, E2EPhase: t.E2EPhase, Causes: t.Causes, Affected: t.Affected})
	}
	return answers
}

func score(t *testing.T, answers []profile.Answer) profile.Score {
	t.Helper()
	s, err := profile.ScoreAnswers(truths(), answers)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPerfectProfiler(t *testing.T) {
	s := score(t, perfect())
	if len(s.Missed)+len(s.Wrong) > 0 || s.TTFTPhase != (profile.Right{Right: 4, Of: 4}) || s.E2EPhase != (profile.Right{Right: 4, Of: 4}) || s.Answered != 5 {
		t.Errorf("%+v", s)
	}
	for _, h := range []profile.Hits{s.Refusal, s.AllCauses, s.Affected} {
		if h.Precision != 1 || h.Recall != 1 {
			t.Errorf("%+v", h)
		}
	}
}

// A wrong profiler: it blames the queue and a burst for everything, once a
// gateway, refuses a sound trace and accepts the broken one, and leaves one
// scenario out.
func TestWrongProfiler(t *testing.T) {
	s := score(t, []profile.Answer{
		{Scenario: "burst", TTFTPhase: "queue", E2EPhase: "queue", Causes: []string{"burst"}, Affected: []string{"5", "6", "7", "6"}},
		{Scenario: "far", Refused: true, Causes: []string{"burst"}},
		{Scenario: "both", TTFTPhase: "queue", Causes: []string{"burst", "burst"}},
		{Scenario: "skew", TTFTPhase: "queue", E2EPhase: "queue", Causes: []string{"slow_gateway"}},
	})
	want := profile.Score{Scenarios: 5, Answered: 4,
		Refusal:   profile.Hits{False: 1, Missed: 1, Precision: 0, Recall: 0},
		TTFTPhase: profile.Right{Right: 2, Of: 4}, E2EPhase: profile.Right{Right: 0, Of: 4},
		Causes: []profile.Cause{
			{Cause: "burst", Hits: profile.Hits{Hit: 2, False: 1, Precision: 2. / 3, Recall: 1}},
			{Cause: "clock_skew", Hits: profile.Hits{Missed: 1, Precision: -1, Recall: 0}},
			{Cause: "distant_client", Hits: profile.Hits{Missed: 1, Precision: -1, Recall: 0}},
			{Cause: "slow_gateway", Hits: profile.Hits{False: 1, Missed: 1, Precision: 0, Recall: 0}},
		},
		AllCauses: profile.Hits{Hit: 2, False: 2, Missed: 3, Precision: 0.5, Recall: 0.4},
		Affected:  profile.Hits{Hit: 2, False: 1, Missed: 2, Precision: 2. / 3, Recall: 0.5},
		Missed: []profile.Miss{
			{Scenario: "far", What: "ttft_phase", Want: "network_in"}, {Scenario: "far", What: "e2e_phase", Want: "stream"},
			{Scenario: "far", What: "cause", Want: "distant_client"},
			{Scenario: "both", What: "e2e_phase", Want: "queue"}, {Scenario: "both", What: "cause", Want: "slow_gateway"},
			{Scenario: "skew", What: "refusal", Want: "refused", Got: "accepted"}, {Scenario: "skew", What: "cause", Want: "clock_skew"},
			{Scenario: "healthy", What: "ttft_phase", Want: "prefill"}, {Scenario: "healthy", What: "e2e_phase", Want: "stream"},
		},
		Wrong: []profile.Miss{
			{Scenario: "burst", What: "e2e_phase", Want: "stream", Got: "queue"},
			{Scenario: "far", What: "refusal", Want: "accepted", Got: "refused"}, {Scenario: "far", What: "cause", Got: "burst"},
			{Scenario: "skew", What: "cause", Got: "slow_gateway"},
		}}
	undefined := cmp.Comparer(func(a, b profile.Number) bool { // -1 stands for a rate of nothing
		return a == b || a == -1 && !b.Defined() || b == -1 && !a.Defined()
	})
	if d := cmp.Diff(want, s, undefined); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	var b bytes.Buffer
	if err := s.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"5 scenarios, 4 answered", "dominant phase of TTFT right in 2 of 4, of E2E in 0 of 4", "burst 2 1 0 0.67 1.00", "clock_skew 0 0 1 – 0.00",
		"all causes 2 2 3 0.50 0.40", "missed far: cause, want distant_client", "wrong burst: e2e_phase, want stream, got queue"} {
		if !has(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if utf8.RuneCountInString(line) > 80 {
			t.Errorf("long line %q", line)
		}
	}
}

// Who says everything misses nothing and is precise in little; who says
// nothing misses all; chance is not rewarded.
func TestLazyProfilers(t *testing.T) {
	var all []profile.Answer
	for _, x := range truths() {
		all = append(all, profile.Answer{Scenario: x.Scenario, Refused: true, Causes: []string{"burst", "clock_skew", "distant_client", "slow_gateway"}})
	}
	s := score(t, all)
	if s.AllCauses.Recall != 1 || s.AllCauses.Precision != 0.25 || s.Refusal.Recall != 1 || s.Refusal.Precision != 0.2 || s.TTFTPhase.Right != 0 {
		t.Errorf("says everything: %+v", s)
	}
	if s.Affected.Recall.Defined() {
		t.Errorf("nobody was asked for requests: %+v", s.Affected)
	}
	s = score(t, nil)
	if s.AllCauses.Recall != 0 || s.AllCauses.Precision.Defined() || s.Refusal.Recall != 0 || len(s.Missed) != 5+1+8 || len(s.Wrong) != 0 || s.Affected.Recall.Defined() {
		t.Errorf("says nothing: %+v", s)
	}
}

func TestScoreRefuses(t *testing.T) {
	for _, c := range []struct {
		truths  []profile.Truth
		answers []profile.Answer
		want    string
	}{
		{append(truths(), truths()[0]), nil, `profile: scenario "burst" is labelled twice`},
		{truths(), append(perfect(), perfect()[1]), `profile: scenario "far" is answered twice`},
		{truths(), []profile.Answer{{Scenario: "near"}}, `profile: an answer to "near", which is no scenario`},
		{truths(), []profile.Answer{{Scenario: "far", Causes: []string{"distant client"}}},
			`profile: scenario "far": unknown cause "distant client", known are burst, clock_skew, distant_client, slow_gateway`},
	} {
		if _, err := profile.ScoreAnswers(c.truths, c.answers); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

func TestReadAnswers(t *testing.T) {
	want := profile.Answers{Profiler: "mine", Answers: perfect()}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := profile.ReadAnswers(bytes.NewReader(data), "file")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for _, c := range []struct{ text, want string }{
		{"", "file: the file is empty"},
		{"{}", "file:1: missing field: answers"},
		{`{"answers": [`, "file:1: the file ends in the middle of a value"},
		{`{"answers": {}}`, "file:1: answers is an object, want a list"},
		{"{\"answers\": [\n7]}", "file:2: answer 1 is 7, want an object"},
		{"{\"answers\": [{\"scenario\": \"a\"},\n{}]}", "file:2: answer 2: missing field: scenario"},
		{`{"answers": [{"scenario": null}]}`, "file:1: scenario is null, want a string"},
		{`{"answers": [{"scenario": "a", "refused": "yes"}]}`, `file:1: refused is "yes", want true or false`},
		{`{"answers": [{"scenario": "a", "causes": "burst"}]}`, `file:1: causes is "burst", want a list`},
		{`{"answers": [{"scenario": "a", "cause": []}]}`, `file:1: unknown field "cause", known are scenario, refused, ttft_phase, e2e_phase, causes, affected`},
		{`{"answers": [{"scenario": "a", "ttft_phase": "decode"}]}`, `file:1: ttft_phase is "decode", want one of network_in, gateway,`},
		{`{"answers": [{"scenario": "a", "ttft_phase": "queue", "refused": true}]}`, `file:1: answer 1, scenario "a": a refused trace has no phases`},
		{`{"answers": [], "answers": []}`, `file:1: field "answers" stands twice`},
		{`{"answers": [{"scenario": "a", "affected": ["1", 2]}]}`, `file:1: affected, item 2, is 2, want a string`},
		{`{"answers": []} {}`, "file:1: more behind the object"},
	} {
		if _, err := profile.ReadAnswers(strings.NewReader(c.text), "file"); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.text, err, c.want)
		}
	}
}

// A document is bounded: a file without an end is refused.
func TestDocumentsAreBounded(t *testing.T) {
	if _, err := profile.ReadAnswers(endless{}, "file"); err == nil || err.Error() != "file: longer than 16777216 bytes" {
		t.Errorf("error %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestAnswer(t *testing.T) {
	r := analyse(t, burst(), profile.Options{})
	want := profile.Answer{Scenario: "burst", TTFTPhase: "queue", E2EPhase: "stream"}
	if d := cmp.Diff(want, r.Answer("burst")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func ExampleScoreAnswers() {
	truths := []profile.Truth{
		{Scenario: "burst", Valid: true, TTFTPhase: "queue", E2EPhase: "stream", Causes: []string{"burst"}},
		{Scenario: "skew", Causes: []string{"clock_skew"}},
	}
	file := strings.NewReader(`{"answers": [
		{"scenario": "burst", "ttft_phase": "queue", "e2e_phase": "stream", "causes": ["burst"]},
		{"scenario": "skew", "refused": false, "causes": ["burst"]}]}`)
	answers, err := profile.ReadAnswers(file, "answers.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := profile.ScoreAnswers(truths, answers.Answers)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("causes: precision %.2f, recall %.2f\n", s.AllCauses.Precision, s.AllCauses.Recall)
	for _, m := range s.Missed {
		fmt.Printf("missed in %s: %s %s\n", m.Scenario, m.What, m.Want)
	}
	// Output:
	// causes: precision 0.50, recall 0.50
	// missed in skew: refusal refused
	// missed in skew: cause clock_skew
}
