package main

import (
	"flag"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/examples/internal/commandtest"
	"servesim/sim/profile"
	"servesim/sim/trace"
)

var program = commandtest.WithoutContext(run)

// output runs the program.
func output(t *testing.T, args ...string) string {
	t.Helper()
	return commandtest.Output(t, program, args...)
}

// lines are the records of the burst as a file.
func lines() string {
	var b []byte
	for _, r := range burst() {
		b = append(r.AppendJSON(b), '\n')
	}
	return string(b)
}

// has reports whether the text holds the words, wherever its lines break.
func has(text, words string) bool {
	return strings.Contains(strings.Join(strings.Fields(text), " "), words)
}

func TestGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"text":   nil,
		"json":   {"-json"},
		"record": {"-record", "testdata/diagnosis.json", commandtest.File(t, "burst.jsonl", lines())},
	} {
		got := output(t, args...)
		commandtest.Golden(t, name, got)
		if name != "json" {
			commandtest.Columns(t, got)
		}
	}
}

// The built-in cases say what the burst must say, and refuse the broken record.
func TestBuiltin(t *testing.T) {
	text := output(t)
	for _, want := range []string{"10 requests", "arrivals replayed burst", "shape 2048 input / 65 output tokens",
		"TTFT 10 349.7 265.5 659.5* 706.3* 718.0", "ITL 10 22.0 22.0 22.0*", "E2E 10 1757.7 1673.5 2067.5*",
		"TTFT dominated by queue: 151.7 ms mean", "E2E dominated by stream: 1408.0 ms mean", "slowest burst-10",
		`refused: record 1, request "burst-01": prefill_end_ms 1023 is before prefill_start_ms 1028:`} {
		if !has(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	b := commandtest.Object[builtin](t, output(t, "-json"))
	if b.Report.DominantTTFT.Phase != "queue" || !strings.HasPrefix(b.Negative, `record 1, request "burst-01": prefill_end_ms`) {
		t.Errorf("%s, %q", b.Report.DominantTTFT.Phase, b.Negative)
	}
}

// A file gives the same figures as the records in memory.
func TestFile(t *testing.T) {
	path := commandtest.File(t, "burst.jsonl", lines())
	fromFile := commandtest.Object[profile.Report](t, output(t, "-json", "-arrivals", "replayed burst", path))
	b := commandtest.Object[builtin](t, output(t, "-json"))
	same := cmp.Comparer(func(a, b profile.Number) bool { return a == b || !a.Defined() && !b.Defined() })
	if d := cmp.Diff(b.Report, fromFile, same); d != "" {
		t.Errorf("(-memory +file):\n%s", d)
	}
	if text := output(t, path); !strings.HasPrefix(text, "TRACE "+path[:5]) || !has(text, "arrivals trace replay") {
		t.Errorf("%s", text)
	}
}

func TestFlags(t *testing.T) {
	path := commandtest.File(t, "burst.jsonl", lines())
	r := commandtest.Object[profile.Report](t, output(t, "-json", "-percentiles", "nearest-rank", "-tail", "0.5", "-min-cell", "10",
		"-prompt-bands", "100, 3000", "-in-system", "40", "-slo-ttft", "266", "-slo-itl", "22", "-slo-e2e", "1e4", path))
	if r.TTFT.P50 != 243 || r.Tails[0].ThresholdMs != 243 || r.Tails[0].N != 5 {
		t.Errorf("TTFT p50 %v, tail %+v", r.TTFT.P50, r.Tails[0])
	}
	if c := r.Groups[0].Cells[0]; c.Name != "101–3000" || c.Few || c.P95TTFT != 718 {
		t.Errorf("%+v", c)
	}
	if r.Little.Finding == "" || r.Little.Observed != 40 {
		t.Errorf("%+v", r.Little)
	}
	if x := r.Targets; x.MetTTFT != 5 || x.MetITL != 10 || x.MetE2E != 10 || x.Met != 5 || x.TTFTMs != 266 || x.ITLMs != 22 || x.E2EMs != 10000 {
		t.Errorf("%+v", x)
	}
	partial := commandtest.File(t, "partial.jsonl", strings.Replace(lines(), `"prefill_start_ms":1028,`, "", 1))
	r = commandtest.Object[profile.Report](t, output(t, "-json", "-partial", partial))
	if r.Partial != 1 || r.ResidualMs <= 0 {
		t.Errorf("%d partial, residual %v", r.Partial, r.ResidualMs)
	}
}

// Answers name the phases of what is sound and refuse what is broken.
func TestAnswers(t *testing.T) {
	sound, broken := commandtest.File(t, "sound.jsonl", lines()), commandtest.File(t, "skew.jsonl", strings.Replace(lines(), "1018", "900", 1))
	answers, err := profile.ReadAnswers(strings.NewReader(output(t, "-answers", sound, broken)), "answers")
	if err != nil {
		t.Fatal(err)
	}
	want := profile.Answers{Profiler: "servesim/sim/profile", Answers: []profile.Answer{
		{Scenario: "sound", TTFTPhase: "queue", E2EPhase: "stream"}, {Scenario: "skew", Refused: true}}}
	if d := cmp.Diff(want, answers); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	score, err := profile.ScoreAnswers([]profile.Truth{{Scenario: "sound", Valid: true, TTFTPhase: "queue", E2EPhase: "stream"}, {Scenario: "skew"}}, answers.Answers)
	if err != nil || len(score.Missed)+len(score.Wrong) > 0 {
		t.Errorf("%+v, %v", score, err)
	}
}

func TestRecordAsJSON(t *testing.T) {
	d := commandtest.Object[profile.Diagnosis](t, output(t, "-json", "-record", "testdata/diagnosis.json", commandtest.File(t, "burst.jsonl", lines())))
	if err := d.Validate(); err != nil || d.Suspect != "queue" || !strings.Contains(d.Claim, "burst.jsonl, replayed") {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestErrors(t *testing.T) {
	sound := commandtest.File(t, "sound.jsonl", lines())
	broken := commandtest.File(t, "broken.jsonl", lines()+"\n{}\n")
	half := commandtest.File(t, "half.json", `{"objective": "fast", "configuration": {"gpu": "H100"}, "negative_control": "idle", "stop_rule": {"bound": "none"}}`)
	typo := commandtest.File(t, "typo.json", "{\n\"objektive\": \"fast\"}")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-tails", "1"}, "flag provided but not defined: -tails; flags are -answers, -arrivals, -in-system, -json, -min-cell, -partial, -percentiles, -prompt-bands, -record, -slo-e2e, -slo-itl, -slo-ttft, -tail"},
		{[]string{"nowhere.jsonl"}, "open nowhere.jsonl: no such file or directory"},
		{[]string{broken}, broken + ":12: missing fields: request_id, prompt_tokens,"},
		{[]string{commandtest.File(t, "empty.jsonl", "")}, "empty.jsonl: at least one trace is required"},
		{[]string{sound, sound}, "2 files; only -answers takes more than one"},
		{[]string{sound, "-json"}, "flag -json stands behind a file; flags come first"},
		{[]string{"-record", half}, "-record needs a trace"},
		{[]string{"-record", half, sound}, half + ": profile: diagnosis: missing fields: stop_rule.contribution, stop_rule.movement"},
		{[]string{"-record", typo, sound}, typo + `:2: unknown field "objektive", known are objective, coordinates,`},
		{[]string{"-record", "nowhere.json", sound}, "open nowhere.json: no such file or directory"},
		{[]string{"-answers"}, "-answers needs traces"},
		{[]string{"-answers", "-json", sound}, "-answers writes JSON of its own: leave out -json and -record"},
		{[]string{"-answers", "nowhere.jsonl"}, "open nowhere.jsonl: no such file or directory"},
		{[]string{"-percentiles", "exact"}, `invalid value "exact" for flag -percentiles: want linear or nearest-rank`},
		{[]string{"-tail", "95"}, `invalid value "95" for flag -tail: want a number between 0 and 1`},
		{[]string{"-min-cell", "0"}, `invalid value "0" for flag -min-cell: want a whole number, at least 1`},
		{[]string{"-prompt-bands", "1k"}, `invalid value "1k" for flag -prompt-bands: "1k" is not a whole number`},
		{[]string{"-prompt-bands", "5,4"}, "profile: Options.PromptBands are [5 4], want them to ascend from at least 1"},
		{[]string{"-slo-ttft", "0"}, `invalid value "0" for flag -slo-ttft: want a number of milliseconds above 0`},
		{[]string{"-in-system", "-1"}, "profile: Options.InSystem is -1, want at least 0"},
	} {
		if err := commandtest.Failure(t, program, c.args...); !strings.Contains(err, c.want) {
			t.Errorf("%v: %s, want %s", c.args, err, c.want)
		}
	}
}

// Help goes to messages, names every flag and every field of a trace.
func TestHelp(t *testing.T) {
	help := commandtest.Help(t, program)
	newFlags(&options{}).VisitAll(func(f *flag.Flag) {
		if !strings.Contains(help, "  -"+f.Name) {
			t.Errorf("no -%s in the help", f.Name)
		}
	})
	e := trace.Entry{Record: burst()[0], Details: trace.Details{Class: "c", Route: "r", HasCached: true, ClockError: 1, ServerTokens: nil}}
	for name := range commandtest.Object[map[string]any](t, string(e.AppendJSON(nil))) {
		if !strings.Contains(help, name) {
			t.Errorf("no %s in the help", name)
		}
	}
}
