package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/trace"
)

// export writes a run in which some requests are preempted, some rejected and
// some give up, and returns what the lines must hold.
func export(t *testing.T, perLine int) (string, counts) {
	t.Helper()
	var b bytes.Buffer
	var want counts
	o := &trace.OTLP{W: &b, Run: 3, Model: "llama", PerLine: perLine, Tokens: true}
	counter := sim.ObserverFunc(func(e sim.Event) {
		switch e.Kind {
		case sim.Finish:
			want.Events += int(e.Preemptions) + 1
			want.Spans += trace.NumPhases + 1
		case sim.Reject, sim.Abort:
			want.Errors++
		default:
			return
		}
		want.Traces++
	})
	cost := sim.CostFunc(func(b sim.Batch) time.Duration {
		return 5*time.Millisecond + time.Duration(b.PrefillTokens())*20*time.Microsecond
	})
	cfg := sim.Config{TokenTimes: true, Observers: []sim.Observer{o, counter},
		Replicas: []sim.Replica{{Scheduler: scheduler.Continuous{}, CostModel: cost, KVBlocks: 100, MaxSeqs: 32, MaxBatchTokens: 2048}}}
	path := &sim.Path{NetworkIn: 3 * time.Millisecond, Gateway: time.Millisecond, NetworkOut: 4 * time.Millisecond, Tail: time.Millisecond}
	_, err := sim.Run(context.Background(), cfg, func(yield func(sim.Request, error) bool) {
		for i := range 200 {
			r := sim.Request{ID: i, Arrival: sim.Time(i+1) * 10_000_000, Prompt: 50 + i*37%400, Output: 10 + i%90, Path: path}
			if i%50 == 7 {
				r.Prompt = 10_000 // more than the cache holds
			}
			if !yield(r, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Flush(); err != nil {
		t.Fatal(err)
	}
	want.Lines = (want.Traces + perLine - 1) / perLine
	return b.String(), want
}

func TestCollectorReadsRuns(t *testing.T) {
	for _, perLine := range []int{1, 7} {
		text, want := export(t, perLine)
		if want.Errors == 0 || want.Events == want.Traces-want.Errors {
			t.Fatalf("the run shows too little: %+v", want)
		}
		var got counts
		if err := got.read(strings.NewReader(text), "run"); err != nil {
			t.Fatal(err)
		}
		// Requests that fail have the phases and events up to there.
		if got.Spans < want.Spans+want.Errors || got.Events < want.Events {
			t.Errorf("%d spans and %d events, want at least %d and %d", got.Spans, got.Events, want.Spans+want.Errors, want.Events)
		}
		got.Spans, got.Events = want.Spans, want.Events
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// What the Collector decodes is what our reader reads.
func TestCollectorAgrees(t *testing.T) {
	text, _ := export(t, 1)
	byID := map[string]trace.Entry{}
	for e, err := range (trace.OTLPReader{In: strings.NewReader(text), Name: "run"}).Entries() {
		if err != nil {
			t.Fatal(err)
		}
		byID[e.RequestID] = e
	}
	completed := 0
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		traces, err := new(ptrace.JSONUnmarshaler).UnmarshalTraces([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		resource := traces.ResourceSpans().At(0)
		if name, _ := resource.Resource().Attributes().Get("service.name"); name.Str() != "servesim" {
			t.Fatalf("service.name is %q", name.Str())
		}
		spans := resource.ScopeSpans().At(0).Spans()
		root := spans.At(0)
		if root.Kind() != ptrace.SpanKindClient || root.Name() != "chat llama" {
			t.Fatalf("%v span %q", root.Kind(), root.Name())
		}
		id, _ := root.Attributes().Get("gen_ai.request.id")
		if root.Status().Code() == ptrace.StatusCodeError {
			continue
		}
		completed++
		e := byID[id.Str()]
		first, _ := root.Attributes().Get("gen_ai.response.time_to_first_chunk")
		output, _ := root.Attributes().Get("gen_ai.usage.output_tokens")
		if took := root.EndTimestamp().AsTime().Sub(root.StartTimestamp().AsTime()); took != e.E2E() || int(output.Int()) != e.OutputTokens ||
			math.Round(first.Double()*1e9) != float64(e.TTFT()) {
			t.Errorf("request %s takes %v, %v s to the first of %d tokens; our reader has %+v", id.Str(), took, first.Double(), output.Int(), e.Record)
		}
		phases := e.Decompose().Phases
		for p := range trace.NumPhases {
			s := spans.At(p + 1)
			if took := s.EndTimestamp().AsTime().Sub(s.StartTimestamp().AsTime()); s.Name() != trace.Phase(p).String() || took != phases[p] ||
				s.ParentSpanID() != root.SpanID() || s.Kind() != ptrace.SpanKindInternal {
				t.Errorf("request %s: span %q takes %v under %v, want %v to take %v", id.Str(), s.Name(), took, s.ParentSpanID(), trace.Phase(p), phases[p])
			}
		}
	}
	if completed == 0 || completed != len(byID) {
		t.Errorf("%d completed, our reader has %d", completed, len(byID))
	}
}

// A checker that finds nothing is no checker.
func TestFaults(t *testing.T) {
	text, _ := export(t, 1)
	line, _, _ := strings.Cut(text, "\n")
	traces, err := new(ptrace.JSONUnmarshaler).UnmarshalTraces([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	root := traces.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	traceID, spanID := root.TraceID().String(), root.SpanID().String()
	raw, err := hex.DecodeString(spanID)
	if err != nil {
		t.Fatal(err)
	}
	raw[7]++
	child := hex.EncodeToString(raw)
	start := fmt.Sprint(uint64(root.StartTimestamp()))
	for _, c := range []struct{ name, from, to, want string }{
		{"short trace id", traceID, traceID[2:], "run:1: "},
		{"short span id", `"spanId":"` + spanID, `"spanId":"` + spanID[2:], "run:1: "},
		{"no span id", `"spanId":"` + spanID + `",`, ``, `run:1: span "chat llama" has the ids "` + traceID + `" and ""`},
		{"no parent", `"parentSpanId":"` + spanID, `"parentSpanId":"ffffffffffffffff`, "run:1: the parent ffffffffffffffff of span " + child + " is not in trace " + traceID},
		{"twice", `"spanId":"` + child, `"spanId":"` + spanID, "run:1: span " + spanID + " of trace " + traceID + " stands twice"},
		{"outside", `"startTimeUnixNano":"` + start, `"startTimeUnixNano":"1` + start[1:len(start)-1] + "9", "run:1: span "},
		{"backwards", `"endTimeUnixNano":"1`, `"endTimeUnixNano":"0`, "run:1: span "},
		{"cut", `]}]}]}`, ``, "run:1: "},
	} {
		broken := strings.Replace(line, c.from, c.to, 1)
		if broken == line {
			t.Fatalf("%s: nothing to replace", c.name)
		}
		var got counts
		if err := got.read(strings.NewReader(broken), "run"); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s…", c.name, err, c.want)
		}
	}
}

// Ids depend on the run and the request alone.
func TestIDs(t *testing.T) {
	ids := func(perLine int) (list []string) {
		text, _ := export(t, perLine)
		for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
			traces, err := new(ptrace.JSONUnmarshaler).UnmarshalTraces([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range traces.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
				list = append(list, s.TraceID().String()+s.SpanID().String())
			}
		}
		return list
	}
	a, b := ids(1), ids(7)
	if !slices.Equal(a, b) {
		t.Error("ids differ with the requests on a line")
	}
}
