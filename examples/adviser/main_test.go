package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/examples/internal/commandtest"
	"servesim/sim/profile"
	"servesim/sim/trace"
)

// output runs the program.
func output(t *testing.T, args ...string) string {
	t.Helper()
	return commandtest.Output(t, run, args...)
}

// whole is the output without arguments, as JSON.
var whole = sync.OnceValue(func() string {
	var out bytes.Buffer
	if err := run(context.Background(), []string{"-json"}, &out, io.Discard); err != nil {
		panic(err)
	}
	return out.String()
})

// figures runs the program and reads its JSON object; without arguments it is
// run once for all tests.
func figures(t *testing.T, args ...string) report {
	t.Helper()
	text := whole
	if len(args) > 0 {
		text = func() string { return output(t, append([]string{"-json"}, args...)...) }
	}
	return commandtest.Object[report](t, text())
}

func TestGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"text": nil,
		"json": {"-json"},
		"file": {"-save", "retrieve=100", "testdata/workflows.json"},
	} {
		got := output(t, args...)
		commandtest.Golden(t, name, got)
		if name != "json" {
			commandtest.Columns(t, got)
		}
	}
}

// The assistant: 1550 = 70 + 500 + 610 + 285 + 85, and 5986 in all; the queue
// dominates the first token. A saving counts only on the critical path.
func TestAssistant(t *testing.T) {
	r := figures(t)
	a := r.Workflows[0]
	if a.FirstTokenMs != 1550 || a.TotalMs != 5986 {
		t.Errorf("first token %v, total %v", a.FirstTokenMs, a.TotalMs)
	}
	want := []profile.PhaseTime{{Phase: "network_in", Ms: 70}, {Phase: "gateway", Ms: 500}, {Phase: "queue", Ms: 610}, {Phase: "prefill", Ms: 285},
		{Phase: "first decode and return", Ms: 85}}
	if d := cmp.Diff(want, a.FirstTokenPhases); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	cases := map[string][2]float64{}
	for _, c := range a.Cases {
		cases[c.Case] = [2]float64{float64(c.TotalMs), float64(c.FirstTokenMs)}
		if c.TotalMs.Defined() && c.SaveMs != a.TotalMs-c.TotalMs {
			t.Errorf("%s saves %v", c.Case, c.SaveMs)
		}
	}
	for name, want := range map[string][2]float64{
		"a quarter of the prefill": {5914.75, 1478.75},
		"half the model queue":     {5681, 1245},
		"a third of the tool":      {5732.67, 1550},
		"30 tokens of 24 ms less":  {5266, 1550},
		"all four":                 {4636.42, 1173.75},
		"half the retrieval":       {5836, 1400}, // 150 of 215: the other retrieval is critical then
		"no second retrieval":      {5986, 1550},
		"retrievals in series":     {6266, 1830},
	} {
		got, ok := cases[name]
		if !ok || math.Abs(got[0]-want[0]) > 0.005 || math.Abs(got[1]-want[1]) > 0.005 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for _, s := range a.Spans {
		if want := map[string]profile.Number{"second retrieval": 150}[s.Name]; s.SlackMs != want {
			t.Errorf("slack of %s is %v, want %v", s.Name, s.SlackMs, want)
		}
	}
	for _, w := range a.Worth {
		if w.Span == "retrieval" && w.SaveMs != 150 {
			t.Errorf("no retrieval saves %v, want 150", w.SaveMs)
		}
	}
	call := r.FirstCall
	if call.TTFT.Mean != 1550 || call.DominantTTFT.Phase != "queue" || call.DominantTTFT.MeanMs != 610 || call.ResidualMs != 85 {
		t.Errorf("first call: %v, %+v, residual %v", call.TTFT.Mean, call.DominantTTFT, call.ResidualMs)
	}
	if math.Abs(float64(call.ITL.Mean)-396./17) > 1e-9 {
		t.Errorf("ITL %v", call.ITL.Mean)
	}
}

// The run is the assistant: the same critical path, phases and slack, to the
// nanosecond but for the two streams, whose gaps are no whole nanoseconds.
func TestRunIsTheAssistant(t *testing.T) {
	paper, run := figures(t).Workflows[0].Path, figures(t).Simulation.Alone
	within := func(got, want profile.Number) bool { return math.Abs(float64(got-want)) < 0.001 }
	if run.FirstTokenMs != 1550 || !within(run.TotalMs, 5986) || run.WaitMs != 0 {
		t.Errorf("first token %v, total %v, waits %v", run.FirstTokenMs, float64(run.TotalMs), run.WaitMs)
	}
	if d := cmp.Diff(paper.FirstTokenPhases, run.FirstTokenPhases); d != "" {
		t.Errorf("phases to the first token (-paper +run):\n%s", d)
	}
	if d := cmp.Diff(paper.Phases, run.Phases, cmp.Comparer(within)); d != "" {
		t.Errorf("phases (-paper +run):\n%s", d)
	}
	spans := map[string]profile.PathSpan{}
	for _, s := range run.Spans {
		spans[s.Name] = s
	}
	same := cmp.Comparer(within)
	for _, want := range paper.Spans {
		got := spans[want.Name]
		if want.Name == "second call, first token" { // three spans in the run
			got = profile.PathSpan{Name: want.Name, Phase: want.Phase, StartMs: spans["second call, queue"].StartMs, EndMs: spans["second call, return"].EndMs, Critical: true}
		}
		if d := cmp.Diff(want, got, same); d != "" {
			t.Errorf("%s (-paper +run):\n%s", want.Name, d)
		}
	}
}

// What the graph of the engine's run says of slack and the critical path, the
// profiler finds in its trace.
func TestProfilerAgreesWithTheRun(t *testing.T) {
	s := defaults()
	s.fail, s.retries = 0.2, 2
	l := defaultLoad()
	traffic, err := l.traffic(&s, 1)
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.run(context.Background(), traffic)
	if err != nil {
		t.Fatal(err)
	}
	failed, retried := 0, 0
	for _, o := range out {
		if o.Failed {
			failed++
			continue
		}
		path, err := o.observed.Path()
		if err != nil {
			t.Fatal(err)
		}
		if want := profile.Number(float64(o.End.Sub(o.Start)) / 1e6); path.TotalMs != want {
			t.Fatalf("workflow %d takes %v, its spans %v", o.Number, want, path.TotalMs)
		}
		for node, name := range map[int]string{retrieval: "retrieval", secondRetrieval: "second retrieval", toolRun: "tool"} {
			for _, span := range path.Spans {
				slack := profile.Number(float64(o.Nodes[node].Slack) / 1e6)
				if span.Name == name && (span.SlackMs != slack || span.Critical != o.Nodes[node].Critical) {
					t.Fatalf("workflow %d, %s: %+v, the run says slack %v, critical %v", o.Number, name, span, slack, o.Nodes[node].Critical)
				}
			}
		}
		if err := o.first.Validate(); err != nil {
			t.Fatalf("workflow %d: %v", o.Number, err)
		}
		if ttft := profile.Number(float64(o.first.TTFT()) / 1e6); ttft != path.FirstTokenMs {
			t.Fatalf("workflow %d: first token after %v, the path says %v", o.Number, ttft, path.FirstTokenMs)
		}
		if o.Nodes[toolRun].Attempts > 1 {
			retried++
		}
	}
	if len(out) != l.Workflows || failed == 0 || retried == 0 {
		t.Errorf("%d workflows, %d failed, %d with a second attempt", len(out), failed, retried)
	}
}

// Runs with the changes, against the figures of the spans: they agree where the
// change is the span's alone.
func TestRunsOfChanges(t *testing.T) {
	s := defaults()
	s.documentAt += 280 * ms // as far behind as the call is in series
	s.serial = true
	o, err := s.alone(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if d := o.first.Decompose().Phases[trace.Queue]; d != 610*ms {
		t.Errorf("the queue of retrievals in series is %v", d)
	}
	got := map[string]simulated{}
	for _, c := range figures(t).Workflows[0].Cases {
		if _, ok := got[c.Case]; !ok {
			got[c.Case] = *c.Run
		}
	}
	// 17 gaps at 254 ns less for each of 950 tokens of context, and the last 30
	// gaps of the answer, whose context is 7279 to 7308 tokens.
	const lessContext, lastGaps = 17 * 950 * 254e-6, 30*(15+7.37767) + 254e-6*30*(7279.+7308)/2
	for name, want := range map[string][2]float64{
		"a quarter of the prefill": {5914.75 - lessContext, 1478.75},
		"half the model queue":     {5681, 1245},
		"a third of the tool":      {5732.67, 1550},
		"30 tokens of 24 ms less":  {5986 - lastGaps, 1550},
		"all four":                 {5986 - 71.25 - lessContext - 305 - 253.33 - lastGaps, 1173.75},
		"half the retrieval":       {5836, 1400},
		"… same document in front": {5986, 1550}, // the queue takes what the retrieval saved
		"no second retrieval":      {5986, 1550},
		"retrievals in series":     {6266, 1830},
		"a second GPU":             {5376, 940},
		"a GPU twice as fast":      {3538, 897.5}, // 1938 of its own, and the document ends 510 earlier
	} {
		if g := got[name]; math.Abs(float64(g.TotalMs)-want[0]) > 0.005 || math.Abs(float64(g.FirstTokenMs)-want[1]) > 0.005 {
			t.Errorf("%s: %v and %v, want %v", name, float64(g.TotalMs), float64(g.FirstTokenMs), want)
		}
	}
}

// Under load every figure moves the way it must.
func TestUnderLoad(t *testing.T) {
	r := figures(t).Simulation
	got := map[string]loaded{}
	for _, c := range r.UnderLoad {
		got[c.Case] = c
	}
	is := got["as it is"]
	for _, name := range []string{"half as many assistants", "no documents", "a second GPU", "a GPU twice as fast"} {
		if c := got[name]; !(c.TotalP95Ms < is.TotalP95Ms && c.InTime > is.InTime) {
			t.Errorf("%s: %+v, as it is %+v", name, c, is)
		}
	}
	if c := got["twice as many"]; !(c.TotalP95Ms > is.TotalP95Ms && c.InTime < is.InTime) {
		t.Errorf("twice as many: %+v, as it is %+v", c, is)
	}
	if c := got["chunks, deadline first"]; !(c.FirstTokenP95Ms < got["chunks of 1024 tokens"].FirstTokenP95Ms) {
		t.Errorf("deadlines: %+v, without %+v", c, got["chunks of 1024 tokens"])
	}
	if c := got["tool fails 1 in 5, 2 retries"]; c.Failed == 0 || is.Failed != 0 {
		t.Errorf("%d failed, %d without faults", c.Failed, is.Failed)
	}
	var longest profile.PhaseTime
	for _, p := range is.Phases {
		if p.Ms > longest.Ms {
			longest = p
		}
	}
	if longest.Phase != "stream" || is.FirstTokenP50Ms < 940 {
		t.Errorf("%+v is longest; first token %v", longest, is.FirstTokenP50Ms)
	}
}

// An interrupted run says so and prints nothing.
func TestInterrupt(t *testing.T) {
	commandtest.Interrupted(t, run)
}

func TestSave(t *testing.T) {
	r := figures(t, "-save", "tool=60", "-save", "second call, first token=0.5")
	cases := r.Workflows[0].Cases
	if c := cases[len(cases)-1]; c.Case != "-save" || c.SaveMs != 60.5 {
		t.Errorf("%+v", c)
	}
}

// Large workflows stay within the page and the columns.
func TestLargeWorkflow(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"workflow":"` + strings.Repeat("w", 300) + `","spans":[`)
	for i := range 2000 {
		if i > 0 {
			fmt.Fprintf(&b, `,{"name":"%s %d\n","after":["%s %d\n"],"duration_ms":1e9}`, strings.Repeat("long", 20), i, strings.Repeat("long", 20), i-1)
			continue
		}
		fmt.Fprintf(&b, `{"name":"%s 0\n","duration_ms":1}`, strings.Repeat("long", 20))
	}
	b.WriteString("]}")
	text := output(t, commandtest.File(t, "large.json", b.String()))
	lines := strings.Split(text, "\n")
	if len(lines) > 90 || !strings.Contains(text, "… and 1960 more") {
		t.Errorf("%d lines", len(lines))
	}
	commandtest.Columns(t, strings.Join(lines[4:], "\n")) // the first hold the name
}

func TestErrors(t *testing.T) {
	broken := commandtest.File(t, "broken.json", "{\"workflow\": \"w\",\n\"spans\": [{\"name\": \"a\", \"after\": [\"b\"], \"duration_ms\": 1}]}")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-saved", "x"}, "flag provided but not defined: -saved; flags are -documents, -json, -rate, -save, -seed, -workflows"},
		{[]string{"a.json", "b.json"}, `unexpected argument "b.json"`},
		{[]string{"nowhere.json"}, "open nowhere.json: no such file or directory"},
		{[]string{"-rate", "2", "testdata/workflows.json"}, "-rate is for the built-in assistant: a file is not simulated"},
		{[]string{"-rate", "0"}, "-rate is 0, want 0.001 to 100 workflows per second"},
		{[]string{"-rate", "NaN"}, "-rate is NaN, want 0.001 to 100 workflows per second"},
		{[]string{"-documents", "-1"}, "-documents is -1, want 0 to 100 per second"},
		{[]string{"-workflows", "0"}, "-workflows is 0, want 1 to 100000"},
		{[]string{"-rate", "0.001", "-documents", "100"}, "-documents is 100 and -rate 0.001: 4e+07 documents to 400 workflows, want at most a million"},
		{[]string{broken}, broken + `:2: span "a" comes after "b", which is no span`},
		{[]string{"-save", "tool"}, `invalid value "tool" for flag -save: want SPAN=MS`},
		{[]string{"-save", "tool=x"}, `invalid value "tool=x" for flag -save: "x" is not a number of milliseconds`},
		{[]string{"-save", "tool=-1"}, `invalid value "tool=-1" for flag -save: "-1" is not a number of milliseconds`},
		{[]string{"-save", "tools=1"}, `profile: workflow "assistant" has no span "tools"`},
		{[]string{"-save", "tool=761"}, `profile: span "tool" takes 760ms and cannot save 761ms`},
	} {
		if err := commandtest.Failure(t, run, c.args...); !strings.Contains(err, c.want) {
			t.Errorf("%v: %s, want %s", c.args, err, c.want)
		}
	}
	if help := commandtest.Help(t, run); !strings.Contains(help, "-save span=ms") {
		t.Errorf("-h: %q", help)
	}
}
