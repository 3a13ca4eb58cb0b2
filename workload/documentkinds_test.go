package workload_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/sim/simtest"
	"servesim/workload"
)

// unwritten are types that make requests, arrivals, lengths, delays or texts, and
// that a document has no kind for.
var unwritten = map[string]string{
	"Gaps":            "a function; resampled_gaps is its kind",
	"RateFunc":        "a function",
	"Merged":          "the sources of a document",
	"ClientSide":      "a field of a source",
	"Gate":            "watches a run",
	"TraceLabSession": "a part of tracelab",
	"TraceLab":        "inside tracelab and tracelab_open_loop",
	"Document":        "the document itself",
	"DocumentRun":     "a run",
	"SessionRun":      "a run",
	"TraceLabRun":     "a run",
	"WorkflowRun":     "a run",
}

// A type that a workload is made of has a kind, or a reason to have none.
func TestDocumentHasEveryType(t *testing.T) {
	// Methods of the interfaces that a document has kinds of, by result.
	makes := func(method string, f *ast.FuncType) bool {
		result := ""
		if f.Results != nil && len(f.Results.List) > 0 {
			switch x := f.Results.List[0].Type.(type) {
			case *ast.Ident:
				result = x.Name
			case *ast.SelectorExpr:
				result = x.Sel.Name
			case *ast.FuncType:
				result = "func"
			case *ast.StarExpr:
				result = "run"
			}
		}
		switch method {
		case "Times", "Requests", "Rate":
			return true
		case "Draw":
			return result == "Tokens" || result == "int" || result == "Duration"
		case "Begin":
			return result == "func" || result == "run"
		}
		return false
	}
	kinds, presets := workload.DocumentTypes()
	var makers []string
	functions := 0 // that return a kind and have no parameters
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() {
				continue
			}
			if f.Recv == nil {
				if r := f.Type.Results; f.Type.Params.NumFields() == 0 && r.NumFields() == 1 {
					if x, ok := r.List[0].Type.(*ast.Ident); ok && slices.Contains(kinds, x.Name) {
						functions++
					}
				}
				continue
			}
			receiver := f.Recv.List[0].Type
			if x, ok := receiver.(*ast.StarExpr); ok {
				receiver = x.X
			}
			if x, ok := receiver.(*ast.Ident); ok && x.IsExported() && makes(f.Name.Name, f.Type) && !slices.Contains(makers, x.Name) {
				makers = append(makers, x.Name)
			}
		}
	}
	if len(makers) < 50 {
		t.Errorf("only %d types are found: %v", len(makers), makers)
	}
	for _, name := range makers {
		kind := slices.Contains(kinds, name)
		if why, without := unwritten[name]; kind == without {
			t.Errorf("%s: has a kind: %v, is said to have none: %q", name, kind, why)
		}
	}
	for name := range unwritten {
		if !slices.Contains(makers, name) {
			t.Errorf("%s is no type that needs a kind", name)
		}
	}
	if functions != presets {
		t.Errorf("%d functions return presets, %d have a kind", functions, presets)
	}
}

// An engine answers every kind: each source of the documents of the tests runs
// to its end, and the laws hold.
func TestDocumentRuns(t *testing.T) {
	for _, path := range []string{everyKind, writeRecordings(t)} {
		d := readDocument(t, path)
		r, err := d.Begin()
		if err != nil {
			t.Fatal(err)
		}
		answered, regions := map[string]int{}, map[string]int{}
		cfg := sim.Config{Replicas: []sim.Replica{busyReplica()}, Classes: d.Classes(), Admission: r.Admission(), FollowUp: r.FollowUp}
		if (cfg.Admission != nil) != (d.Gateway != nil) {
			t.Errorf("%s: admission %v", path, cfg.Admission)
		}
		laws := &simtest.Laws{Config: cfg}
		cfg.Observers = []sim.Observer{laws, sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == sim.Finish {
				answered[d.Sources[e.Origin().Source].Name]++
				regions[d.Sources[e.Origin().Source].Name+"/"+r.Region(e)]++
			}
		})}
		res, err := sim.Run(context.Background(), cfg, r.Requests())
		if err != nil {
			t.Fatal(err)
		}
		if err := laws.Check(res); err != nil {
			t.Error(err)
		}
		for _, s := range d.Sources {
			if answered[s.Name] == 0 {
				t.Errorf("%s: no answers for %s", path, s.Name)
			}
		}
		if path != everyKind {
			continue
		}
		for _, region := range []string{"lengths/", "apart/", "apart/eu", "apart/road", "apart/elsewhere", "travellers/eu", "travellers/road"} {
			if regions[region] == 0 {
				t.Errorf("no answers at %s: %v", region, regions)
			}
		}
		if regions["travellers/eu"]%3 != 0 || regions["travellers/"] != 0 {
			t.Errorf("sessions move between regions: %v", regions)
		}
	}
}

// A client that is refused, and one of a session, has the same paths and waits
// whatever sources stand before its own.
func TestDocumentFollowUpsAreApart(t *testing.T) {
	const open = `{"name": "refused", "retry": {"attempts": 2, "backoff_ms": 1000, "jitter": 1}, "client_side": {"classes": [[{"path": {"kind": "parts", "network_in": {"kind": "exponential", "mean_s": 1}}}]]},
		"requests": {"kind": "open", "arrivals": {"kind": "limit", "arrivals": {"kind": "constant", "rate_per_s": 1}, "count": 1}, "mix": [{"lengths": {"kind": "tokens", "prompt_tokens": 5, "output_tokens": 6}}]}}`
	const chats = `{"name": "chats", "client_side": {"by_session": true, "classes": [[{"name": "a", "weight": 1, "path": {"kind": "mobile"}}, {"name": "b", "weight": 1, "path": {"kind": "parts", "network_in": {"kind": "exponential", "mean_s": 1}}}]]},
		"requests": {"kind": "sessions", "starts": {"kind": "limit", "arrivals": {"kind": "constant", "rate_per_s": 1}, "count": 9}, "turns": {"kind": "count", "number": 2}, "prefix_block_tokens": 4,
		"think": {"kind": "exponential", "mean_s": 1}, "lengths": {"kind": "tokens", "prompt_tokens": 5, "output_tokens": 6}}}`
	// next is what each request of a source leads to.
	next := func(sources, name string, kind sim.Kind) string {
		d := parsed(t, `{"servesim_workload": 1, "seed": 1, "sources": [`+sources+`]}`)
		source := slices.IndexFunc(d.Sources, func(s workload.Source) bool { return s.Name == name })
		r, err := d.Begin()
		if err != nil {
			t.Fatal(err)
		}
		requests, err := workload.Collect(r.Requests())
		if err != nil {
			t.Fatal(err)
		}
		var out []sim.Request
		for _, q := range requests {
			if q.Origin.Source != source {
				continue
			}
			end := q.Arrival.Add(time.Second)
			for _, q := range r.FollowUp(sim.Completion{Kind: kind, Request: q, End: end, Output: q.Output, Client: sim.Client{Done: end}}) {
				if q.ID>>48 != source || q.Origin.Source != source || q.Class != source {
					t.Errorf("%s of source %d sends %+v", name, source, q)
				}
				q.ID &= 1<<48 - 1
				q.Class, q.Origin.Source = 0, 0
				out = append(out, q)
			}
		}
		if len(out) == 0 {
			t.Errorf("%s sends nothing", name)
		}
		return text(out)
	}
	for name, kind := range map[string]sim.Kind{"refused": sim.Reject, "chats": sim.Finish} {
		alone := map[string]string{"refused": open, "chats": chats}[name]
		want := next(alone, name, kind)
		for _, sources := range []string{open + "," + chats, chats + "," + open} {
			if diff := cmp.Diff(want, next(sources, name, kind)); diff != "" {
				t.Errorf("%s (-alone +beside):\n%s", name, diff)
			}
		}
	}
}

// Requests in open loop beside sessions are not theirs, though both are without
// a number of their own.
func TestFollowUpOfOthers(t *testing.T) {
	starts := workload.Bursts{Size: 2, Every: time.Second}
	lengths := workload.Tokens{Prompt: 5, Output: 6}
	sessions, err := workload.Sessions{Starts: workload.Limit{Arrivals: starts, Count: 2}, Turns: workload.Count(2), Lengths: lengths}.Begin()
	if err != nil {
		t.Fatal(err)
	}
	flow, err := workload.Workflow{Starts: workload.Limit{Arrivals: starts, Count: 2}, Nodes: []workload.Node{{Name: "a", Lengths: lengths}, {Name: "b", After: []int{0}, Lengths: lengths}}}.Begin()
	if err != nil {
		t.Fatal(err)
	}
	lab, err := workload.TraceLabReplay{Recording: workload.TraceLab{Path: "x", Open: memory("id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\na,1,0,0,64,10,500\na,1,1,74,16,10,0\n")}}.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]interface {
		FollowUp(sim.Completion) []sim.Request
	}{"sessions": sessions, "workflow": flow, "recording": lab} {
		var first []sim.Request
		switch r := r.(type) {
		case *workload.SessionRun:
			first, err = workload.Collect(r.Requests())
		case *workload.WorkflowRun:
			first, err = workload.Collect(r.Requests())
		case *workload.TraceLabRun:
			first, err = workload.Collect(r.Requests())
		}
		if err != nil || len(first) == 0 {
			t.Fatal(name, first, err)
		}
		end := func(q sim.Request) []sim.Request {
			return r.FollowUp(sim.Completion{Kind: sim.Finish, Request: q, Output: q.Output})
		}
		other := sim.Request{ID: 77, Prompt: 5, Output: 6}
		if next := end(other); next != nil {
			t.Errorf("%s answer another's request with %+v", name, next)
		}
		if next := end(first[0]); len(next) != 1 {
			t.Errorf("%s answer their own with %+v", name, next)
		}
	}
}

// What is infinite in vLLM's benchmark: no gaps at all, or equal ones.
func TestDocumentInfinite(t *testing.T) {
	for arrivals, want := range map[string][]sim.Time{
		`{"kind": "vllm_bench", "requests": 3, "rate_per_s": "inf"}`:                                                              {0, 0, 0},
		`{"kind": "vllm_bench", "requests": 3, "rate_per_s": "inf", "burstiness": "inf"}`:                                         {0, 0, 0},
		`{"kind": "vllm_bench", "requests": 3, "rate_per_s": 2, "burstiness": "inf"}`:                                             {5e8, 1e9, 15e8},
		`{"kind": "scale", "factor": 2, "arrivals": {"kind": "vllm_bench", "requests": 2, "rate_per_s": 1, "burstiness": "inf"}}`: {5e8, 1e9},
	} {
		d := parsed(t, `{"servesim_workload": 1, "seed": 1, "sources": [{"requests": {"kind": "open", "arrivals": `+arrivals+`, "mix": [{"lengths": {"kind": "tokens", "prompt_tokens": 5, "output_tokens": 6}}]}}]}`)
		requests, err := workload.Collect(d.Requests())
		if err != nil {
			t.Fatal(err)
		}
		var got []sim.Time
		for _, q := range requests {
			got = append(got, q.Arrival)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", arrivals, diff)
		}
		if again := parsed(t, d.String()); !reflect.DeepEqual(again.Sources, d.Sources) {
			t.Errorf("%s is written as %s", arrivals, d)
		}
	}
}

// Faults of the ServeGen files that a document names.
func TestDocumentServeGenFaults(t *testing.T) {
	place := writeRecordings(t)
	for c, want := range map[string]string{
		`{"kind": "open", "arrivals": {"kind": "servegen_recorded", "path": "data/absent"}, "mix": [{"lengths": {"kind": "azure_conv_2023"}}]}`:                                                        "ServeGenRecordedArrivals.Path",
		`{"kind": "open", "arrivals": {"kind": "servegen_recorded", "path": "data/servegen", "client": "who"}, "mix": [{"lengths": {"kind": "azure_conv_2023"}}]}`:                                     `ServeGenRecordedArrivals.Client is "who", which is not in data/servegen`,
		`{"kind": "open", "arrivals": {"kind": "poisson", "rate_per_s": 1}, "mix": [{"lengths": {"kind": "servegen_recorded", "path": "data/servegen", "client": "who"}}]}`:                            `ServeGenRecordedLengths.Client is "who", which is not in data/servegen`,
		`{"kind": "open", "arrivals": {"kind": "poisson", "rate_per_s": 1}, "mix": [{"lengths": {"kind": "servegen_recorded", "path": "data/servegen", "client": "chunk-1", "window_start_s": 5}}]}`:   `ServeGenRecordedLengths.Start is 5s, where no window of "chunk-1" begins`,
		`{"kind": "open", "arrivals": {"kind": "poisson", "rate_per_s": 1}, "mix": [{"lengths": {"kind": "servegen_recorded", "path": "data/servegen", "client": "chunk-1", "window_start_s": 600}}]}`: `no field output_tokens`,
		`{"kind": "open", "arrivals": {"kind": "poisson", "rate_per_s": 1}, "mix": [{"lengths": {"kind": "servegen_recorded", "path": "data/servegen", "client": "chunk-1", "prompt_field": "x"}}]}`:   `no field x`,
	} {
		d, err := workload.ReadDocument(strings.NewReader(`{"servesim_workload": 1, "seed": 1, "sources": [{"first": 1, "requests": `+c+`}]}`), place)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := workload.Collect(d.Requests()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", c, err, want)
		}
	}
}

// Sources have beginnings of prompts in common if they name the texts alike, and
// nothing else, even with one seed.
func TestDocumentTexts(t *testing.T) {
	const lengths = `"lengths": {"kind": "tokens", "prompt_tokens": 8, "output_tokens": 4}, "preamble": {"kind": "system_prompts", "tokens": 8}`
	for name, requests := range map[string]string{
		"open":     `{"kind": "open", "prefix_block_tokens": 4, "arrivals": {"kind": "constant", "rate_per_s": 1}, "mix": [{` + lengths + `TEXTS}]}`,
		"sessions": `{"kind": "sessions", "prefix_block_tokens": 4, "starts": {"kind": "constant", "rate_per_s": 1}, ` + lengths + `TEXTS}`,
		"clients":  `{"kind": "clients", "prefix_block_tokens": 4, "concurrency": 1, "requests": 1, ` + lengths + `TEXTS}`,
	} {
		for texts, want := range map[string]int{``: 0, `, "texts": "x"`: 2} {
			r := strings.Replace(requests, "TEXTS", texts, 1)
			d := parsed(t, `{"servesim_workload": 1, "seed": 1, "sources": [{"name": "a", "seed": 2, "requests": `+r+`}, {"name": "b", "seed": 2, "requests": `+r+`}]}`)
			run, err := d.Begin()
			if err != nil {
				t.Fatal(err)
			}
			var two []sim.Request
			for q, err := range run.Requests() {
				if err != nil {
					t.Fatal(err)
				}
				if two = append(two, q); len(two) == 2 {
					break
				}
			}
			common := 0
			for common < len(two[0].Prefix) && two[0].Prefix[common] == two[1].Prefix[common] {
				common++
			}
			if common != want || len(two[0].Prefix) != 5 {
				t.Errorf("%s%s: %d blocks of %d in common, want %d", name, texts, common, len(two[0].Prefix), want)
			}
		}
	}
}
