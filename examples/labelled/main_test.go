package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"servesim/examples/internal/commandtest"
	"servesim/sim/profile"
	"servesim/sim/trace"
)

// output runs the program.
func output(t *testing.T, args ...string) string {
	t.Helper()
	return commandtest.Output(t, run, args...)
}

func TestGolden(t *testing.T) {
	got := output(t)
	commandtest.Golden(t, "text", got)
	commandtest.Columns(t, got)
}

// The files are there, agree with each other, and are read as they should be.
func TestFiles(t *testing.T) {
	directory := t.TempDir()
	const names = "burst,degraded_link,duplicated,clock_step,truncated"
	output(t, "-out", directory, "-only", names)
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(directory, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	m := commandtest.Object[Manifest](t, string(read("manifest.json")))
	if len(m.Scenarios) != 5 {
		t.Fatalf("%d scenarios", len(m.Scenarios))
	}
	for _, e := range m.Scenarios {
		var fault error
		entries := 0
		for _, err := range (trace.Reader{In: bytes.NewReader(read(e.Files.Trace)), Name: e.Name}).Entries() {
			if fault = err; err == nil {
				entries++
			}
		}
		if (fault == nil) != e.Valid || e.Valid && entries != e.Requests {
			t.Errorf("%s: %d of %d entries, valid %t, %v", e.Name, entries, e.Requests, e.Valid, fault)
		}
		affected := 0
		labels := 0
		for l, err := range trace.ReadLabels(bytes.NewReader(read(e.Files.Labels)), e.Name) {
			if err != nil {
				t.Fatal(err)
			}
			labels++
			if len(l.Causes) > 0 {
				affected++
			}
		}
		if labels != e.Requests || affected != len(e.Label.Affected) {
			t.Errorf("%s: %d labels, %d affected, of %d and %d", e.Name, labels, affected, e.Requests, len(e.Label.Affected))
		}
		var events struct {
			TraceEvents []json.RawMessage `json:"traceEvents"`
		}
		if err := json.Unmarshal(read(e.Files.Perfetto), &events); err != nil || len(events.TraceEvents) < e.Requests {
			t.Errorf("%s: %d trace events, %v", e.Name, len(events.TraceEvents), err)
		}
		if lines := bytes.Count(read(e.Files.Labelled), []byte(`"label_version":1`)); lines < e.Requests-1 {
			t.Errorf("%s: %d lines with labels", e.Name, lines)
		}
		if e.Files.OTLP == "" {
			if e.Name != "truncated" {
				t.Errorf("%s: no spans", e.Name)
			}
			continue
		}
		if lines := bytes.Count(read(e.Files.OTLP), []byte("\n")); lines < e.Requests {
			t.Errorf("%s: %d lines of spans", e.Name, lines)
		}
	}
}

// A profiler that knows everything scores in full; one that says the same of
// every trace does not.
func TestScore(t *testing.T) {
	var right, wrong profile.Answers
	for _, e := range commandtest.Object[Manifest](t, output(t, "-json")).Scenarios {
		l := e.Label
		a := profile.Answer{Scenario: e.Name, Refused: !e.Valid, TTFTPhase: l.TTFTPhase, E2EPhase: l.E2EPhase, Causes: l.Causes, Affected: l.Affected}
		right.Answers = append(right.Answers, a)
		wrong.Answers = append(wrong.Answers, profile.Answer{Scenario: e.Name, TTFTPhase: "queue", E2EPhase: "stream", Causes: []string{"burst"}})
	}
	score := func(a profile.Answers) (s profile.Score) {
		data, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		path := commandtest.File(t, "answers.json", string(data))
		if err := json.Unmarshal([]byte(output(t, "-json", "-score", path)), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := score(right)
	if s.AllCauses.Precision != 1 || s.AllCauses.Recall != 1 || s.Affected.Recall != 1 || s.Refusal.Recall != 1 || s.TTFTPhase.Right != s.TTFTPhase.Of || len(s.Missed)+len(s.Wrong) > 0 {
		t.Errorf("%+v", s)
	}
	// It names one cause of all, refuses nothing, and has the phases of a few.
	s = score(wrong)
	if s.AllCauses.Hit != 1 || s.AllCauses.Recall > 0.05 || s.Refusal.Recall != 0 || s.TTFTPhase.Right != 7 || s.TTFTPhase.Of != 22 {
		t.Errorf("%+v", s)
	}
}

func TestErrors(t *testing.T) {
	bad := commandtest.File(t, "bad.json", "{\"answers\": [\n{\"scenario\": 3}]}")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-only", "nothing"}, `-only: no scenario "nothing"; there are`},
		{[]string{"-sead", "1"}, "flags are -json, -only, -out, -score, -seed"},
		{[]string{"more"}, `unexpected argument "more"`},
		{[]string{"-score", bad}, "bad.json:2: scenario"},
		{[]string{"-score", bad + "x"}, "bad.jsonx"},
		{[]string{"-only", "healthy", "-out", filepath.Join(bad, "below")}, "not a directory"},
	} {
		if err := commandtest.Failure(t, run, c.args...); !strings.Contains(err, c.want) {
			t.Errorf("labelled %q: got %s, want %q", c.args, err, c.want)
		}
	}
	commandtest.Interrupted(t, run)
}

func TestHelp(t *testing.T) {
	help := commandtest.Help(t, run)
	for _, want := range []string{"-out directory", "-score file", "traces/NAME.jsonl"} {
		if !strings.Contains(help, want) {
			t.Errorf("help lacks %q:\n%s", want, help)
		}
	}
}
