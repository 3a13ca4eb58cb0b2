package workload_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/workload"
)

// everyKind is a document with every kind and every field, those of files
// apart, laid out as WriteTo does.
const everyKind = "testdata/document.json"

func readDocument(t testing.TB, path string) workload.Document {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := workload.ReadDocument(f, path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// parsed reads a document from text.
func parsed(t testing.TB, text string) workload.Document {
	t.Helper()
	d, err := workload.ReadDocument(strings.NewReader(text), "w.json")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// played returns all requests of a document, answered after 10 ms a token.
func played(t testing.TB, d workload.Document) []sim.Request {
	t.Helper()
	r, err := d.Begin()
	if err != nil {
		t.Fatal(err)
	}
	requests, err := workload.Collect(r.OpenLoop(func(q sim.Request) time.Duration { return time.Duration(q.Output) * 10 * time.Millisecond }))
	if err != nil {
		t.Fatal(err)
	}
	return requests
}

// text is everything that is in requests.
func text(requests []sim.Request) string {
	var b strings.Builder
	for _, q := range requests {
		fmt.Fprintf(&b, "%+v", q)
		if q.Path != nil {
			fmt.Fprintf(&b, " %+v", *q.Path)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// A document that is written is as it was read, and the layout is one.
func TestDocumentRoundTrip(t *testing.T) {
	want, err := os.ReadFile(everyKind)
	if err != nil {
		t.Fatal(err)
	}
	d := readDocument(t, everyKind)
	if diff := cmp.Diff(string(want), d.String()); diff != "" {
		t.Errorf("%s (-file +written):\n%s", everyKind, diff)
	}
	line, err := json.Marshal(map[string]any{"of": d})
	if err != nil {
		t.Fatal(err)
	}
	var again struct{ Of workload.Document }
	if err := json.Unmarshal(line, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), again.Of.String()); diff != "" {
		t.Errorf("through encoding/json (-want +got):\n%s", diff)
	}
	if !reflect.DeepEqual(again.Of.Sources, d.Sources) {
		t.Error("the values differ, though the texts do not")
	}
}

// Every kind and every field has been read and written: the file has them all.
func TestDocumentIsWhole(t *testing.T) {
	seen := map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if kind, ok := v["kind"].(string); ok {
				for name := range v {
					seen[kind+"."+name] = true
				}
			}
			for name, x := range v {
				seen["."+name] = true
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	for _, d := range []workload.Document{readDocument(t, everyKind), parsed(t, recordings)} {
		var v any
		if err := json.Unmarshal([]byte(d.String()), &v); err != nil {
			t.Fatal(err)
		}
		walk(v)
	}
	if fields := workload.DocumentFields(); len(fields) < 150 {
		t.Errorf("only %d fields are known", len(fields))
	} else {
		for _, f := range fields {
			if !seen[f] && f != "qwen_bailian.kind" && f != "vllm_timed_trace.kind" { // which are mooncake, with fields
				t.Errorf("no document of the tests has %s", f)
			}
		}
	}
}

// The same document gives the same requests, whatever the rest of its process
// does.
func TestDocumentRepeats(t *testing.T) {
	a, b := readDocument(t, everyKind), readDocument(t, everyKind)
	first := played(t, a)
	if len(first) < 800 {
		t.Fatalf("only %d requests", len(first))
	}
	for name, d := range map[string]workload.Document{"read again": b, "begun again": a, "written and read": parsed(t, a.String())} {
		if diff := cmp.Diff(text(first), text(played(t, d))); diff != "" {
			t.Errorf("%s (-first +then):\n%s", name, diff)
		}
	}
	b.Seed++
	if other := played(t, b); text(other) == text(first) {
		t.Error("another seed gives the same requests")
	}
	ids := map[int]bool{}
	for i, q := range first {
		if ids[q.ID] {
			t.Errorf("two requests have ID %d", q.ID)
		}
		ids[q.ID] = true
		if i > 0 && q.Arrival < first[i-1].Arrival {
			t.Errorf("request %d arrives at %v, behind one at %v", q.ID, q.Arrival, first[i-1].Arrival)
		}
		if q.Class < 0 || q.Class >= len(a.Classes()) {
			t.Errorf("request %d has class %d", q.ID, q.Class)
		}
	}
}

// Sources draw by their names: others that come, go or move change nothing of
// one but its numbers.
func TestDocumentSourcesAreApart(t *testing.T) {
	whole := readDocument(t, everyKind)
	of := func(d workload.Document, name string) string {
		source := slices.IndexFunc(d.Sources, func(s workload.Source) bool { return s.Name == name })
		var out []sim.Request
		least := 1 << 30
		for _, q := range played(t, d) {
			if q.Origin.Source == source {
				least = min(least, q.Class)
				q.ID &= 1<<48 - 1
				q.Origin.Source = 0
				out = append(out, q)
			}
		}
		for i := range out {
			out[i].Class -= least
		}
		if len(out) == 0 {
			t.Fatalf("%s has no requests", name)
		}
		return text(out)
	}
	reversed := whole
	reversed.Sources = slices.Clone(whole.Sources)
	slices.Reverse(reversed.Sources)
	for _, s := range whole.Sources {
		alone := whole
		alone.Sources = []workload.Source{s}
		want := of(whole, s.Name)
		if diff := cmp.Diff(want, of(alone, s.Name)); diff != "" {
			t.Errorf("%s alone (-among others +alone):\n%s", s.Name, diff)
		}
		if diff := cmp.Diff(want, of(reversed, s.Name)); diff != "" {
			t.Errorf("%s in reverse order (-want +got):\n%s", s.Name, diff)
		}
	}
	// A source behind the others changes no numbers.
	fewer := whole
	fewer.Sources = whole.Sources[:3]
	var before []sim.Request
	for _, q := range played(t, whole) {
		if q.Origin.Source < 3 {
			before = append(before, q)
		}
	}
	if diff := cmp.Diff(text(before), text(played(t, fewer))); diff != "" {
		t.Errorf("without the last sources (-with +without):\n%s", diff)
	}
}

// A class that is added takes requests from the others, and changes none that
// it does not take.
func TestDocumentClassesAreApart(t *testing.T) {
	d := readDocument(t, everyKind)
	d.Sources = d.Sources[1:2]
	before := played(t, d)
	w := d.Sources[0].Requests.(workload.Workload)
	w.Mix = append(slices.Clone(w.Mix), workload.Share{Class: sim.Class{Name: "more"}, Weight: 1, Lengths: workload.Tokens{Prompt: 1, Output: 1}})
	d.Sources[0].Requests = w
	taken := 0
	for i, q := range played(t, d) {
		if q.Class == len(w.Mix)-1 {
			taken++
		} else if text([]sim.Request{q}) != text(before[i:i+1]) {
			t.Errorf("request %d was %+v and is %+v", q.ID, before[i], q)
		}
	}
	if taken < 20 || taken > 200 {
		t.Errorf("the class takes %d of %d requests", taken, len(before))
	}
}

// A document says what literals say.
func TestDocumentIsTheLiteral(t *testing.T) {
	w := workload.Workload{
		Seed:     9,
		Arrivals: workload.Limit{Arrivals: workload.Gamma{Rate: 5, CV: 2}, Count: 100},
		Mix: []workload.Share{
			{Class: sim.Class{Name: "a"}, Weight: 1, Lengths: workload.AzureConv2023Lengths()},
			{Class: sim.Class{Name: "b", TTFT: 250 * time.Millisecond}, Weight: 2, Lengths: workload.Tokens{Prompt: 3, Output: 4}},
		},
	}
	const mix = `[{"class": {"name": "a"}, "weight": 1, "lengths": {"kind": "azure_conv_2023"}},
		{"class": {"name": "b", "ttft_ms": 250}, "weight": 2, "lengths": {"kind": "tokens", "prompt_tokens": 3, "output_tokens": 4}}]`
	const open = `{"kind": "open", "arrivals": {"kind": "limit", "arrivals": {"kind": "gamma", "rate_per_s": 5, "cv": 2}, "count": 100}, "mix": ` + mix + `}`
	d := parsed(t, `{"servesim_workload": 1, "seed": 1, "sources": [{"seed": 9, "requests": `+open+`}]}`)
	want, err := workload.Collect(w.Requests())
	if err != nil {
		t.Fatal(err)
	}
	got, err := workload.Collect(d.Requests())
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("a Workload (-literal +document): %v\n%s", err, diff)
	}
	if diff := cmp.Diff(w.Classes(), d.Classes()); diff != "" {
		t.Errorf("classes (-literal +document):\n%s", diff)
	}

	// Sources are as the parts of a Merged of the same seed, but for their IDs.
	m := workload.Merged{Seed: 1, Parts: []workload.Part{{Name: "x", Arrivals: w.Arrivals, Mix: w.Mix}, {Name: "y", Arrivals: w.Arrivals, Mix: w.Mix}}}
	d = parsed(t, `{"servesim_workload": 1, "seed": 1, "sources": [{"name": "x", "requests": `+open+`}, {"name": "y", "requests": `+open+`}]}`)
	if want, err = workload.Collect(m.Requests()); err != nil {
		t.Fatal(err)
	}
	if got, err = workload.Collect(d.Requests()); err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if got[i].ID>>48 != got[i].Origin.Source || got[i].Origin.Source != got[i].Class/2 {
			t.Errorf("request %+v: ID, source and class do not agree", got[i])
		}
		got[i].ID, got[i].Origin = i, sim.Origin{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a Merged (-literal +document):\n%s", diff)
	}
}

// Clients of a source try again as it says, and what ends goes to its source.
func TestDocumentFollowUp(t *testing.T) {
	d := parsed(t, `{"servesim_workload": 1, "seed": 1, "sources": [
		{"name": "never", "requests": {"kind": "open", "arrivals": {"kind": "poisson", "rate_per_s": 1}, "mix": [{"lengths": {"kind": "azure_conv_2023"}}]}},
		{"name": "again", "seed": 4, "requests": {"kind": "open", "arrivals": {"kind": "poisson", "rate_per_s": 1}, "mix": [{"lengths": {"kind": "azure_conv_2023"}}]},
			"retry": {"attempts": 2, "backoff_ms": 100, "jitter": 0.5, "after": "refused"}},
		{"name": "chats", "retry": {"attempts": 2}, "requests": {"kind": "sessions", "starts": {"kind": "bursts", "size": 1, "every_s": 1}, "turns": {"kind": "count", "number": 2},
			"lengths": {"kind": "tokens", "prompt_tokens": 5, "output_tokens": 6}}}]}`)
	r, err := d.Begin()
	if err != nil {
		t.Fatal(err)
	}
	first := map[int]sim.Request{}
	for q, err := range r.Requests() {
		if err != nil {
			t.Fatal(err)
		}
		if first[q.Origin.Source] = q; len(first) == len(d.Sources) {
			break
		}
	}
	end := sim.Time(time.Hour)
	ends := func(source int, kind sim.Kind) []sim.Request {
		q := first[source]
		return r.FollowUp(sim.Completion{Kind: kind, Reason: "queue_full", Request: q, End: end, Output: q.Output, Client: sim.Client{Done: end}})
	}
	if next := append(ends(0, sim.Reject), ends(0, sim.Finish)...); next != nil {
		t.Errorf("those who never try again send %+v", next)
	}
	// The jitter is that of the request without its source.
	own := first[1]
	own.ID -= 1 << 48
	want := workload.Retry{Seed: 4, Attempts: 2, Backoff: 100 * time.Millisecond, Jitter: 0.5}.FollowUp(sim.Completion{Kind: sim.Reject, Reason: "queue_full", Request: own, End: end})
	want[0].ID = first[1].ID
	if diff := cmp.Diff(want, ends(1, sim.Reject)); diff != "" || len(want) != 1 {
		t.Errorf("a retry (-want +got):\n%s", diff)
	}
	if next := ends(1, sim.Abort); next != nil {
		t.Errorf("those who were not refused send %+v", next)
	}
	if next := ends(2, sim.Abort); len(next) != 1 || next[0].Attempt != 1 {
		t.Errorf("a chat that gave up sends %+v", next)
	}
	if next := ends(2, sim.Finish); len(next) != 1 || next[0].Origin.Turn != 1 || next[0].Prompt != 16 || next[0].Class != 2 {
		t.Errorf("an answered chat sends %+v", next)
	}
	if next := r.FollowUp(sim.Completion{Request: sim.Request{Origin: sim.Origin{Source: 9}}}); next != nil {
		t.Errorf("another's request is answered with %+v", next)
	}
}

// Without an engine, a client's next request comes when its answer is taken to
// have come and it has thought.
func TestDocumentOpenLoop(t *testing.T) {
	d := workload.Document{Sources: []workload.Source{{Requests: workload.Clients{
		Concurrency: 1, Requests: 3, Lengths: workload.Tokens{Prompt: 5, Output: 8}, MaxOutput: 6, Think: workload.After(time.Second),
		Path: &sim.Path{NetworkIn: 10 * time.Millisecond, NetworkOut: 20 * time.Millisecond, Tail: 30 * time.Millisecond},
	}}}}
	begin := func() *workload.DocumentRun {
		r, err := d.Begin()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	requests, err := workload.Collect(begin().OpenLoop(func(sim.Request) time.Duration { return 100 * time.Millisecond }))
	if err != nil {
		t.Fatal(err)
	}
	var got []sim.Time
	for _, q := range requests {
		got = append(got, q.Arrival)
	}
	const ms = sim.Time(time.Millisecond)
	// 100 ms for the answer, 50 ms back and read, 1 s to think, 10 ms there.
	if diff := cmp.Diff([]sim.Time{10 * ms, 1170 * ms, 2330 * ms}, got); diff != "" {
		t.Errorf("arrivals (-want +got):\n%s", diff)
	}
	if _, err := workload.Collect(begin().OpenLoop(func(sim.Request) time.Duration { return -1 })); err == nil || !strings.Contains(err.Error(), "takes -1ns") {
		t.Errorf("a time below 0: %v", err)
	}
}

// Kinds that are others with some fields given are written as these.
func TestDocumentShorthands(t *testing.T) {
	d := parsed(t, `{"servesim_workload": 1, "seed": 1, "sources": [{"name": "q", "requests": {"kind": "qwen_bailian", "path": "x", "type": "text"}},
		{"name": "v", "requests": {"kind": "vllm_timed_trace", "path": "x", "block_tokens": 32}}]}`)
	q, v := workload.QwenBailian("x"), workload.VLLMTimedTrace("x")
	q.Type, v.BlockTokens = "text", 32
	if !reflect.DeepEqual(d.Sources[0].Requests, workload.Requester(q)) || !reflect.DeepEqual(d.Sources[1].Requests, workload.Requester(v)) {
		t.Errorf("read %+v", d.Sources)
	}
	if again := parsed(t, d.String()); !reflect.DeepEqual(again, d) {
		t.Errorf("written as %s", d)
	}
	// What is a preset, number by number, is written as one.
	open := workload.Workload{Arrivals: workload.AzureCode2023(), Mix: []workload.Share{{Lengths: workload.AzureConv2023Lengths()}}}
	d.Sources = []workload.Source{{Requests: open}}
	if s := d.String(); strings.Count(s, "azure_co") != 2 || strings.Contains(s, "mmpp") {
		t.Errorf("presets are written as %s", s)
	}
	open.Arrivals.(workload.MMPP).Rates[0] = 0.002
	if s := d.String(); !strings.Contains(s, "mmpp") {
		t.Errorf("another process is written as %s", s)
	}
}

const threeRows = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n2023-11-16 18:15:51.2225670,879,55\n"

// recordings is a document of every kind that reads a file.
const recordings = `{
  "servesim_workload": 1, "seed": 5,
  "sources": [
    {"name": "azure", "class": {"name": "azure"}, "requests": {"kind": "azure", "path": "data/azure.csv", "keep_images": true, "sort": true, "skip_malformed": true}},
    {"name": "burstgpt", "requests": {"kind": "burstgpt", "path": "data/burstgpt.csv", "model": "ChatGPT", "log": "API log", "spread_s": 1, "sort": true, "skip_malformed": true}},
    {"name": "mooncake", "requests": {"kind": "mooncake", "path": "data/mooncake.jsonl", "unit_ms": 1, "block_tokens": 512, "loose_ids": true, "partial_ids": true,
      "type": "text", "spread_s": 3, "sort": true, "skip_malformed": true}},
    {"name": "bare", "requests": {"kind": "mooncake", "path": "data/mooncake.jsonl", "no_prefix": true}},
    {"name": "ragpulse", "requests": {"kind": "ragpulse", "path": "data/rag_0_trace.jsonl", "block_tokens": 32, "spread_s": 1, "sort": true, "skip_malformed": true}},
    {"name": "ragpulse bare", "requests": {"kind": "ragpulse", "path": "data/rag_0_trace.jsonl", "no_prefix": true}},
    {"name": "tracelab", "requests": {"kind": "tracelab_open_loop", "path": "data/tracelab.csv", "block_tokens": 32, "sort": true, "assume_ttft_ms": 500, "assume_itl_ms": 20.5}},
    {"name": "tracelab closed loop", "class": {"name": "agents"}, "requests": {"kind": "tracelab", "path": "data/tracelab.csv", "block_tokens": 32, "sort": true,
      "client_path": {"network_in_ms": 20}, "patience": {"total_ms": 60000}}},
    {"name": "servegen", "first": 20, "requests": {"kind": "open",
      "arrivals": {"kind": "servegen_recorded", "path": "data/servegen", "client": "chunk-1", "width_s": 300},
      "mix": [{"lengths": {"kind": "servegen_recorded", "path": "data/servegen", "client": "chunk-1", "window_start_s": 600, "prompt_field": "input_tokens", "output_field": "reason_tokens"}}]}},
    {"name": "servegen all", "first": 20, "requests": {"kind": "open", "arrivals": {"kind": "servegen_recorded", "path": "data/servegen"},
      "mix": [{"lengths": {"kind": "servegen_recorded", "path": "data/servegen", "client": "chunk-1"}}]}},
    {"name": "lengths", "requests": {"kind": "length_file", "path": "data/lengths.csv", "prompt_column": "p", "output_column": "o", "time_column": "t", "unit_ms": 1000, "sort": true, "skip_malformed": true}},
    {"name": "trace", "requests": {"kind": "trace", "path": "data/trace.jsonl"}},
    {"name": "fitted", "first": 50, "requests": {"kind": "open",
      "arrivals": {"kind": "superpose", "clients": [{"kind": "recorded", "from": {"kind": "azure", "path": "data/azure.csv"}}, {"kind": "resampled_gaps", "from": {"kind": "azure", "path": "data/azure.csv"}}]},
      "mix": [{"lengths": {"kind": "truncated", "lengths": {"kind": "recorded", "from": {"kind": "azure", "path": "data/azure.csv"}}, "prompt": {"max_tokens": 400}}}]}}
  ]
}`

// writeRecordings writes the recordings and the document into a folder.
func writeRecordings(t testing.TB) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "data", "servegen"), 0o700); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"w.json":              recordings,
		"data/azure.csv":      threeRows,
		"data/burstgpt.csv":   "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,API log\n45,GPT-4,1087,230,1317,API log\n",
		"data/mooncake.jsonl": `{"timestamp": 0, "input_length": 600, "output_length": 52, "hash_ids": [46, 47], "type": "text"}` + "\n",
		"data/rag_0_trace.jsonl": `{"timestamp": "3", "input_length": 70, "output_length": 5, "hash_ids": {"sys_prompt": [1], "passages_ids": [], "history": [], "web_search": [], "user_input": [1]}, "session_id": "a"}` +
			"\n",
		"data/tracelab.csv":                  "id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\na,1,0,0,64,10,500\na,1,1,74,16,10,0\n",
		"data/servegen/chunk-1-trace.csv":    "0,0.1,1,Gamma,1,10\n600,0.2,1,Gamma,1,5\n",
		"data/servegen/chunk-2-trace.csv":    "0,0.05,1,Weibull,1,20\n",
		"data/servegen/chunk-1-dataset.json": `{"0": {"input_tokens": "{45: 1}", "output_tokens": "{7: 1}"}, "600": {"input_tokens": "{46: 1}", "reason_tokens": "{8: 1}"}}`,
		"data/lengths.csv":                   "t,p,o\n0,10,20\n1.5,30,40\n",
		"data/trace.jsonl":                   `{"request_id":"b","prompt_tokens":2,"output_tokens":3,"client_send_ms":-4,"gateway_arrival_ms":-4,"queue_enter_ms":0,"prefill_start_ms":1,"prefill_end_ms":2,"first_token_server_ms":3,"first_token_client_ms":4,"last_token_client_ms":5}` + "\n",
	}
	for _, side := range []struct{ file, id string }{
		{"1_sys_prompt", "sys_prompt_id"}, {"2_passages", "passage_id"}, {"3_history", "history_id"}, {"5_web_search", "web_search_id"}, {"4_user_input", "user_input_id"},
	} {
		name := strings.Replace("data/rag_0_trace.jsonl", "0_trace", side.file, 1)
		files[name] = fmt.Sprintf("{%q: 1, \"token_length\": 33}\n", side.id)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(folder, "w.json")
}

// Files are found beside the document, and it gives the same requests in any
// folder: no prefix depends on where it lies.
func TestDocumentRecordings(t *testing.T) {
	here, there := readDocument(t, writeRecordings(t)), readDocument(t, writeRecordings(t))
	requests := played(t, here)
	if diff := cmp.Diff(text(requests), text(played(t, there))); diff != "" {
		t.Errorf("in another folder (-here +there):\n%s", diff)
	}
	n := map[string]int{}
	prefixes := map[string]int{}
	for _, q := range requests {
		name := here.Sources[q.Origin.Source].Name
		n[name]++
		prefixes[name] += len(q.Prefix)
		if name == "fitted" && q.Prompt != 374 && q.Prompt != 396 {
			t.Errorf("a drawn prompt has %d tokens", q.Prompt)
		}
		if name == "servegen" && (q.Prompt != 46 || q.Output != 8) || name == "servegen all" && (q.Prompt != 45 || q.Output != 7) {
			t.Errorf("%s: prompt %d, output %d", name, q.Prompt, q.Output)
		}
	}
	want := map[string]int{"azure": 3, "burstgpt": 1, "mooncake": 1, "bare": 1, "ragpulse": 1, "ragpulse bare": 1, "tracelab": 2, "tracelab closed loop": 2, "servegen": 20, "servegen all": 20, "lengths": 2, "trace": 1, "fitted": 50}
	if diff := cmp.Diff(want, n); diff != "" {
		t.Errorf("requests of the sources (-want +got):\n%s", diff)
	}
	for name, blocks := range map[string]int{"mooncake": 2, "bare": 0, "ragpulse": 2, "ragpulse bare": 0, "tracelab": 5, "tracelab closed loop": 5} {
		if prefixes[name] != blocks {
			t.Errorf("%s has %d blocks, want %d", name, prefixes[name], blocks)
		}
	}
	if !reflect.DeepEqual(parsed(t, recordings).Sources[0], here.Sources[0]) || !strings.Contains(here.String(), `"data/azure.csv"`) {
		t.Error("paths are not as they were written")
	}
}

// What a document has no place for is not lost without a word.
func TestDocumentCannotHave(t *testing.T) {
	open := func(a workload.Arrivals) workload.Requester {
		return workload.Workload{Arrivals: a, Mix: []workload.Share{{Lengths: workload.Tokens{Prompt: 1, Output: 1}}}}
	}
	poisson := workload.Poisson{Rate: 1}
	for want, s := range map[string]workload.Source{
		"Workload.Seed is set, which a document has no place for":                {Requests: workload.Workload{Seed: 1, Arrivals: poisson}},
		"Workload.Arrivals is nil":                                               {Requests: workload.Workload{}},
		"Source.Requests is nil":                                                 {},
		"Workload.Arrivals is a workload.Gaps, which a document has no kind for": {Requests: open(workload.Gaps(nil))},
		"Varying.Rate is a workload.RateFunc":                                    {Requests: open(workload.Varying{Rate: workload.RateFunc(nil)})},
		"Poisson.Rate is NaN, which a document has no number for":                {Requests: open(workload.Poisson{Rate: math.NaN()})},
		"Bursts.Every is -1ns, want at least 0":                                  {Requests: open(workload.Bursts{Size: 1, Every: -1})},
		"AzureCSV.Counts is set, which a document has no place for":              {Requests: workload.AzureCSV{Path: "x", Counts: &workload.Counts{}}},
		"Retry.On is set, which a document has no place for":                     {Requests: open(poisson), Retry: &workload.ClientRetry{Retry: workload.Retry{On: workload.Refused}}},
		"VLLMRampUp is 9": {Requests: open(workload.VLLMBench{Requests: 1, RampUp: 9})},
	} {
		_, err := workload.Document{Sources: []workload.Source{s}}.MarshalJSON()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	var b bytes.Buffer
	if n, err := (workload.Document{}).WriteTo(&b); err == nil || n != 0 || b.Len() > 0 {
		t.Errorf("an empty document is written: %d bytes, %v", n, err)
	}
}
