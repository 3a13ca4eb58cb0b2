package profile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim/profile"
)

// fork is two retrievals side by side, or one behind the other.
func fork(dependent bool) profile.Workflow {
	w := profile.Workflow{ID: "w", FirstToken: "join", Spans: []profile.Span{
		{Name: "a", Duration: 430 * ms},
		{Name: "b", Duration: 280 * ms},
		{Name: "join", After: []string{"b", "a"}, Wait: 5 * ms, Duration: 20 * ms},
	}}
	if dependent {
		w.Spans[1].After = []string{"a"}
	}
	return w
}

func path(t *testing.T, w profile.Workflow) profile.Path {
	t.Helper()
	p, err := w.Path()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// 430 beside 280 is 430 and the overhead, with a slack of 150; 710 only if one
// needs the other.
func TestCriticalPath(t *testing.T) {
	want := profile.Path{Workflow: "w", TotalMs: 455, FirstTokenMs: 455, WaitMs: 5,
		Critical: []string{"a", "join"}, FirstTokenCritical: []string{"a", "join"},
		Phases:           []profile.PhaseTime{{Phase: "a", Ms: 430}, {Phase: "residual", Ms: 5}, {Phase: "join", Ms: 20}},
		FirstTokenPhases: []profile.PhaseTime{{Phase: "a", Ms: 430}, {Phase: "residual", Ms: 5}, {Phase: "join", Ms: 20}},
		Spans: []profile.PathSpan{
			{Name: "a", EndMs: 430, Critical: true},
			{Name: "b", EndMs: 280, SlackMs: 150},
			{Name: "join", StartMs: 435, EndMs: 455, Critical: true},
		}}
	if d := cmp.Diff(want, path(t, fork(false))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	p := path(t, fork(true))
	if p.TotalMs != 735 || strings.Join(p.Critical, " ") != "a b join" || p.Spans[1].SlackMs != 0 {
		t.Errorf("dependent: %+v", p)
	}
}

// Saving on a branch helps until the other is critical.
func TestSavings(t *testing.T) {
	w := fork(false)
	for by, want := range map[time.Duration]float64{100 * ms: 355, 150 * ms: 305, 151 * ms: 305, 430 * ms: 305} {
		shorter, err := w.Save(profile.Saving{Span: "a", By: by})
		if err != nil {
			t.Fatal(err)
		}
		if p := path(t, shorter); p.TotalMs != profile.Number(want) {
			t.Errorf("%v saved: %v, want %v", by, p.TotalMs, want)
		}
	}
	shorter, err := w.Save(profile.Saving{Span: "a", By: 200 * ms}, profile.Saving{Span: "b", By: 100 * ms}, profile.Saving{Span: "a", By: 10 * ms})
	if err != nil {
		t.Fatal(err)
	}
	if p := path(t, shorter); p.TotalMs != 245 || p.Critical[0] != "a" {
		t.Errorf("%+v", p)
	}
	if d := cmp.Diff(fork(false), w); d != "" {
		t.Errorf("the workflow was changed:\n%s", d)
	}
	for _, c := range []struct {
		s    profile.Saving
		want string
	}{
		{profile.Saving{Span: "c"}, `profile: workflow "w" has no span "c"`},
		{profile.Saving{Span: "a", By: 431 * ms}, `profile: span "a" takes 430ms and cannot save 431ms`},
		{profile.Saving{Span: "a", By: -1}, `profile: span "a" takes 430ms and cannot save -1ns`},
	} {
		if _, err := w.Save(c.s); err == nil || err.Error() != c.want {
			t.Errorf("%+v: error %v, want %s", c.s, err, c.want)
		}
	}
}

// Branches that end elsewhere, roots that start late, and the first token on a
// chain of its own.
func TestSlack(t *testing.T) {
	w := profile.Workflow{ID: "w", FirstToken: "early", Spans: []profile.Span{
		{Name: "log", After: []string{"root"}, Duration: 3 * ms},
		{Name: "late root", Wait: 40 * ms, Duration: 10 * ms, Phase: "tool"},
		{Name: "root", Duration: 10 * ms, Phase: "tool"},
		{Name: "early", After: []string{"root"}, Duration: 7 * ms},
		{Name: "end", After: []string{"early", "late root"}, Duration: 10 * ms, Phase: "tool"},
	}}
	p := path(t, w)
	slack := map[string]profile.Number{}
	for _, s := range p.Spans {
		slack[s.Name] = s.SlackMs
	}
	want := map[string]profile.Number{"log": 47, "late root": 0, "root": 33, "early": 33, "end": 0}
	if d := cmp.Diff(want, slack); d != "" {
		t.Errorf("slack (-want +got):\n%s", d)
	}
	if p.TotalMs != 60 || p.FirstTokenMs != 17 || p.WaitMs != 40 {
		t.Errorf("total %v, first token %v, waits %v", p.TotalMs, p.FirstTokenMs, p.WaitMs)
	}
	if d := cmp.Diff([]profile.PhaseTime{{Phase: "residual", Ms: 40}, {Phase: "tool", Ms: 20}}, p.Phases); d != "" {
		t.Errorf("phases (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]profile.PhaseTime{{Phase: "tool", Ms: 10}, {Phase: "early", Ms: 7}}, p.FirstTokenPhases); d != "" {
		t.Errorf("phases of the first token (-want +got):\n%s", d)
	}
}

func TestInvalidWorkflows(t *testing.T) {
	span := func(name string, after ...string) profile.Span {
		return profile.Span{Name: name, After: after, Duration: ms}
	}
	for _, c := range []struct {
		w    profile.Workflow
		want string
	}{
		{profile.Workflow{}, "a workflow needs at least one span"},
		{profile.Workflow{Spans: []profile.Span{span("")}}, "span 1 has no name"},
		{profile.Workflow{Spans: []profile.Span{span("a"), span("b"), span("a")}}, `span "a" stands twice, as 1 and 3`},
		{profile.Workflow{Spans: []profile.Span{span("a", "b")}}, `span "a" comes after "b", which is no span`},
		{profile.Workflow{Spans: []profile.Span{span("a", "a")}}, `span "a" comes after itself`},
		{profile.Workflow{Spans: []profile.Span{span("c"), span("a", "b"), span("b", "a", "c")}}, `spans wait for each other: "a", "b"`},
		{profile.Workflow{Spans: []profile.Span{{Name: "a", Duration: -1}}}, `span "a" takes -1ns and waits 0s, want at least 0`},
		{profile.Workflow{Spans: []profile.Span{{Name: "a", Wait: -1}}}, `span "a" takes 0s and waits -1ns, want at least 0`},
		{profile.Workflow{Spans: []profile.Span{{Name: "a", Duration: 1 << 61}, {Name: "b", Wait: 1 << 61}}}, `span "b" ends beyond 146 years`},
		{profile.Workflow{Spans: []profile.Span{span("a")}, FirstToken: "x"}, `first_token is "x", which is no span`},
		{profile.Workflow{Spans: make([]profile.Span, 100_001)}, "a workflow of 100001 spans, want at most 100000"},
	} {
		if err := c.w.Validate(); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
		if _, err := c.w.Path(); err == nil || err.Error() != `profile: workflow "": `+c.want {
			t.Errorf("Path: error %v, want %s", err, c.want)
		}
	}
}

func TestLongChain(t *testing.T) {
	w := profile.Workflow{ID: "chain"}
	const n = 20_000
	for i := range n {
		s := profile.Span{Name: fmt.Sprint(i), Duration: ms}
		if i > 0 {
			s.After = []string{fmt.Sprint(i - 1)}
		}
		w.Spans = append(w.Spans, s)
	}
	if p := path(t, w); p.TotalMs != n || len(p.Critical) != n {
		t.Errorf("%v ms over %d spans", p.TotalMs, len(p.Critical))
	}
}

const workflowFile = `{"workflow": "w", "first_token": "join", "spans": [
  {"name": "a", "duration_ms": 430},
  {"name": "b", "duration_ms": 280},
  {"name": "join", "after": ["b", "a"], "wait_ms": 5, "duration_ms": 20}]}
`

const measuredFile = `{"workflow":"m","first_token":"join","spans":[{"name":"b","start_ms":1700000000000,"end_ms":1700000000280},{"name":"a","start_ms":1700000000000,"end_ms":1700000000430},
{"name":"join","after":["b","a"],"start_ms":1700000000435,"end_ms":1700000000455},{"name":"late","start_ms":1700000000100.5,"end_ms":1700000000101}]}`

func TestReadWorkflows(t *testing.T) {
	got, err := profile.ReadWorkflows(strings.NewReader(workflowFile+measuredFile), "file")
	if err != nil {
		t.Fatal(err)
	}
	measured := fork(false)
	measured.ID = "m"
	measured.Spans[0], measured.Spans[1] = measured.Spans[1], measured.Spans[0]
	measured.Spans = append(measured.Spans, profile.Span{Name: "late", Wait: 100_500 * time.Microsecond, Duration: 500 * time.Microsecond})
	if d := cmp.Diff([]profile.Workflow{fork(false), measured}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// The wait of a measured span counts from the last end of what it needs, in
// whatever order those stand, or from the earliest start.
func TestMeasuredWaits(t *testing.T) {
	got, err := profile.ReadWorkflows(strings.NewReader(`{"workflow": "m", "spans": [
		{"name": "late", "start_ms": 150, "end_ms": 200},
		{"name": "root", "start_ms": 100, "end_ms": 110},
		{"name": "join", "after": ["late", "root"], "start_ms": 205, "end_ms": 206}]}`), "file")
	if err != nil {
		t.Fatal(err)
	}
	want := []time.Duration{50 * ms, 0, 5 * ms}
	for i, s := range got[0].Spans {
		if s.Wait != want[i] {
			t.Errorf("%s waits %v, want %v", s.Name, s.Wait, want[i])
		}
	}
}

func TestReadWorkflowsRefuses(t *testing.T) {
	edit := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(workflowFile) }
	for _, c := range []struct{ name, text, want string }{
		{"empty", " \n", "file: at least one workflow is required"},
		{"no JSON", "spans", "file:1: not JSON: invalid character 's'"},
		{"list", "[]", "file:1: a workflow is a list, want an object"},
		{"cut", workflowFile[:90], "file:3: the file ends in the middle of a value"},
		{"comma", edit(`430},`, `430},,`), "file:2: not JSON: invalid character ','"},
		{"no id", edit(`"workflow": "w", `, ``), "file:4: missing field: workflow"},
		{"no spans", `{"workflow":"w"}`, "file:1: a workflow needs at least one span"},
		{"unknown field", edit(`"wait_ms"`, `"waits"`), `file:4: unknown field "waits", known are name, phase, after, wait_ms, duration_ms, start_ms, end_ms`},
		{"other letters", edit(`"spans"`, `"Spans"`), `file:1: unknown field "Spans", known are workflow, first_token, spans`},
		{"field twice", edit(`"name": "b"`, `"name": "b", "name": "c"`), `file:3: field "name" stands twice`},
		{"number as name", edit(`"name": "b"`, `"name": 7`), "file:3: name is 7, want a string"},
		{"null", edit(`430`, `null`), "file:2: duration_ms is null, want a number"},
		{"text as number", edit(`430`, `"430"`), `file:2: duration_ms is "430", want a number`},
		{"huge number", edit(`430`, `1e99`), "file:2: duration_ms is 1e99, beyond 146 years"},
		{"negative", edit(`430`, `-1`), `file:2: span "a" takes -1ms and waits 0s, want at least 0`},
		{"after", edit(`["b", "a"]`, `"a"`), `file:4: after is "a", want a list`},
		{"after what", edit(`["b", "a"]`, `["b", {}]`), `file:4: after, item 2, is an object, want a string`},
		{"unknown span", edit(`["b", "a"]`, `["c"]`), `file:4: span "join" comes after "c", which is no span`},
		{"cycle", edit(`"b", "dur`, `"b", "after": ["join"], "dur`), `file:3: spans wait for each other: "b", "join"`},
		{"twice", workflowFile + workflowFile, `file:8: workflow "w" is that of line 4`},
		{"first token", edit(`"first_token": "join"`, `"first_token": "x"`), `file:2: first_token is "x", which is no span`},
		{"no duration", edit(`, "duration_ms": 430`, ``), `file:2: span "a" needs duration_ms, or start_ms and end_ms`},
		{"both", edit(`"duration_ms": 430`, `"duration_ms": 430, "start_ms": 1, "end_ms": 2`), `file:2: span "a" needs duration_ms, or`},
		{"mixed", strings.Replace(measuredFile, `"start_ms":1700000000435,"end_ms":1700000000455`, `"duration_ms":4`, 1), `file:2: span "join" needs duration_ms, or start_ms and end_ms, and the same as the first span`},
		{"backwards", strings.Replace(measuredFile, `455}`, `434}`, 1), `file:2: span "join" ends before it starts: align clocks`},
		{"too early", strings.Replace(measuredFile, `1700000000435`, `1700000000429`, 1), `file:2: span "join" starts before "a" has ended:`},
		{"measured, unknown", strings.Replace(measuredFile, `["b","a"]`, `["z"]`, 1), `file:2: span "join" comes after "z", which is no span`},
		{"bad UTF-8", workflowFile + "\n\xff", "file:6: not UTF-8"},
		{"bad UTF-8 behind a good replacement character", "\ufffd\n\xff", "file:2: not UTF-8"},
		{"deep", strings.Repeat("[", 1_000_000), "file:1: a workflow is a list, want an object"},
		{"deep inside", `{"spans":` + strings.Repeat("[", 1_000_000), "file:1: a span is a list, want an object"},
	} {
		_, err := profile.ReadWorkflows(strings.NewReader(c.text), "file")
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
	}
}

func ExampleWorkflow() {
	w := profile.Workflow{ID: "question", FirstToken: "prefill", Spans: []profile.Span{
		{Name: "documents", Phase: "gateway", Duration: 430 * time.Millisecond},
		{Name: "profile of the user", Phase: "gateway", Duration: 280 * time.Millisecond},
		{Name: "prefill", Phase: "prefill", After: []string{"documents", "profile of the user"}, Duration: 285 * time.Millisecond},
	}}
	p, err := w.Path()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("first token:", p.FirstTokenMs, "ms by", p.Critical, "- slack of the other branch:", p.Spans[1].SlackMs)
	shorter, err := w.Save(profile.Saving{Span: "documents", By: 200 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	if p, err = shorter.Path(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("200 ms less:", p.FirstTokenMs, "ms by", p.Critical)
	// Output:
	// first token: 715.0 ms by [documents prefill] - slack of the other branch: 150.0
	// 200 ms less: 565.0 ms by [profile of the user prefill]
}
