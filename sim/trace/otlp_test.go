package trace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/sim/trace"
)

// otlp writes entries as OTLP.
func otlp(t *testing.T, o trace.OTLP, list ...trace.Entry) string {
	t.Helper()
	var b bytes.Buffer
	o.W = &b
	err := trace.WriteOTLP(&o, func(yield func(trace.Entry, error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func readOTLP(text string, partial bool) (list []trace.Entry, err error) {
	for e, err := range (trace.OTLPReader{In: strings.NewReader(text), Name: "file", Partial: partial}).Entries() {
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
	return list, nil
}

// The ids of run 7, request r.
const (
	traceOfR  = "d8fcdecdd7fb1ea0331977d0090e7db8"
	parentOfR = "f28a9a9e314159a"
)

// goodOTLP is the detailed entry, one member a line.
func goodOTLP(t *testing.T) string {
	return otlp(t, trace.OTLP{Run: 7, Model: "llama"}, detailed())
}

func TestOTLP(t *testing.T) {
	var line struct {
		ResourceSpans []struct {
			Resource   map[string]any
			ScopeSpans []struct {
				Scope map[string]any
				Spans []map[string]any
			}
		}
	}
	text := goodOTLP(t)
	if err := json.Unmarshal([]byte(text), &line); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	attributes := func(v any) (list []string) {
		for _, a := range v.([]any) {
			value, err := json.Marshal(a.(map[string]any)["value"])
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, fmt.Sprint(a.(map[string]any)["key"], " ", string(value)))
		}
		return list
	}
	resource := line.ResourceSpans[0]
	if d := cmp.Diff([]string{`service.name {"stringValue":"servesim"}`, `service.instance.id {"stringValue":"7"}`,
		`servesim.epoch_unix_nano {"intValue":"1700000000000000000"}`}, attributes(resource.Resource["attributes"])); d != "" {
		t.Errorf("resource (-want +got):\n%s", d)
	}
	spans := resource.ScopeSpans[0].Spans
	if d := cmp.Diff([]string{
		`gen_ai.operation.name {"stringValue":"chat"}`, `gen_ai.provider.name {"stringValue":"servesim"}`,
		`gen_ai.request.model {"stringValue":"llama"}`, `gen_ai.response.model {"stringValue":"llama"}`,
		`gen_ai.request.stream {"boolValue":true}`, `gen_ai.response.id {"stringValue":"r"}`,
		`gen_ai.response.time_to_first_chunk {"doubleValue":0.1}`,
		`gen_ai.usage.input_tokens {"intValue":"100"}`, `gen_ai.usage.output_tokens {"intValue":"5"}`,
		`gen_ai.usage.cache_read.input_tokens {"intValue":"64"}`,
		`gen_ai.request.id {"stringValue":"r"}`, `gen_ai.request.n {"intValue":"1"}`, `gen_ai.usage.num_sequences {"intValue":"1"}`,
		`gen_ai.usage.prompt_tokens {"intValue":"100"}`, `gen_ai.usage.completion_tokens {"intValue":"5"}`,
		`gen_ai.latency.time_in_queue {"doubleValue":0.02}`, `gen_ai.latency.time_to_first_token {"doubleValue":0.075}`,
		`gen_ai.latency.time_in_model_prefill {"doubleValue":0.055}`, `gen_ai.latency.time_in_model_decode {"doubleValue":0.08}`,
		`gen_ai.latency.time_in_model_inference {"doubleValue":0.135}`, `gen_ai.latency.e2e {"doubleValue":0.155}`,
		`servesim.class {"stringValue":"chat"}`, `servesim.route {"stringValue":"replica-0"}`, `servesim.clock_error_ns {"intValue":"2500000"}`,
		`servesim.retrieval_ns {"intValue":"3000000"}`, `servesim.prompt_assembly_ns {"intValue":"1500000"}`, `servesim.client_tail_ns {"intValue":"250000"}`,
		`servesim.server_tokens_ns {"arrayValue":{"values":[{"intValue":"90000000"},{"intValue":"110000000"},{"intValue":"130000000"},{"intValue":"150000000"},{"intValue":"170000000"}]}}`,
		`servesim.client_tokens_ns {"arrayValue":{"values":[{"intValue":"100000000"},{"intValue":"140000000"},{"intValue":"140000000"},{"intValue":"180000000"},{"intValue":"180000000"}]}}`,
	}, attributes(spans[0]["attributes"])); d != "" {
		t.Errorf("attributes (-want +got):\n%s", d)
	}
	delete(spans[0], "attributes")
	unix := func(ms int) string { return strconv.Itoa(1_700_000_000_000_000_000 + ms*1_000_000) }
	want := []map[string]any{{"traceId": traceOfR, "spanId": parentOfR + "1", "kind": 3.0, "name": "chat llama",
		"startTimeUnixNano": unix(0), "endTimeUnixNano": unix(180), "status": map[string]any{},
		"events": []any{map[string]any{"timeUnixNano": unix(100), "name": "first_token"}}}}
	ends := []int{0, 10, 15, 35, 85, 90, 100, 180}
	for p := range trace.NumPhases {
		want = append(want, map[string]any{"traceId": traceOfR, "spanId": fmt.Sprint(parentOfR, p+2), "parentSpanId": parentOfR + "1", "kind": 1.0,
			"name": trace.Phase(p).String(), "startTimeUnixNano": unix(ends[p]), "endTimeUnixNano": unix(ends[p+1]), "status": map[string]any{}})
	}
	if d := cmp.Diff(want, spans); d != "" {
		t.Errorf("spans (-want +got):\n%s", d)
	}
}

// Entries, whole or partial, come back as they were.
func TestOTLPRoundTrip(t *testing.T) {
	path := detailed()
	path.RequestID = "quote \" \\ line\nend 😀"
	path.Details.Retrieval, path.Details.Assembly, path.Details.Tail = 3*time.Millisecond, 1, 5*time.Millisecond
	early := trace.Entry{Record: sample()}
	early.RequestID, early.ClientSend = "", -1
	want := []trace.Entry{{Record: sample()}, path, early}
	for p := range trace.NumPhases { // the neighbours lose an end each
		e := trace.Entry{Record: sample()}
		e.RequestID = fmt.Sprint("without ", trace.Phase(p))
		for b, err := range trace.Break(func(yield func(trace.Entry, error) bool) { yield(e, nil) }, nil,
			trace.DropSpan{Phase: trace.Phase(p), Chance: trace.Chance{Share: 1}}) {
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, b)
		}
	}
	lone := trace.Entry{Record: sample()}
	lone.RequestID, lone.GatewayArrival, lone.PrefillStart, lone.FirstTokenServer, lone.LastTokenClient = "lone", trace.Unknown, trace.Unknown, trace.Unknown, trace.Unknown
	want = append(want, lone)
	for _, perLine := range []int{0, 1, 4, 100} {
		text := otlp(t, trace.OTLP{PerLine: perLine, Epoch: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}, want...)
		if n, wantLines := strings.Count(text, "\n"), (len(want)+max(1, perLine)-1)/max(1, perLine); n != wantLines {
			t.Errorf("%d lines of %d requests each, want %d", n, perLine, wantLines)
		}
		got, err := readOTLP(text, true)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%d a line (-want +got):\n%s", perLine, d)
		}
		if _, err := readOTLP(text, false); err == nil || !strings.Contains(err.Error(), `request "without network_in": missing fields: client_send_ms, gateway_arrival_ms`) {
			t.Errorf("error %v", err)
		}
	}
}

// span is a span as any reader of OTLP has it.
type span struct {
	TraceID           string `json:"traceId"`
	SpanID            string `json:"spanId"`
	ParentSpanID      string `json:"parentSpanId"`
	Name              string
	Kind              int
	StartTimeUnixNano int64 `json:",string"`
	EndTimeUnixNano   int64 `json:",string"`
	Attributes        []struct {
		Key   string
		Value map[string]any
	}
	Events []struct {
		TimeUnixNano int64 `json:",string"`
		Name         string
	}
	Status struct {
		Code    int
		Message string
	}
}

func spansOf(t *testing.T, text string) (list []span) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		var l struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []span }
			}
		}
		d := json.NewDecoder(strings.NewReader(line))
		if err := d.Decode(&l); err != nil {
			t.Fatalf("%v\n%s", err, line)
		}
		list = append(list, l.ResourceSpans[0].ScopeSpans[0].Spans...)
	}
	return list
}

// Every request that ends has one trace, whose children lie in it and next to
// each other; those that complete read back as their entries.
func TestOTLPOfARun(t *testing.T) {
	var completed, failed, preemptions int
	for seed := range uint64(16) {
		var b bytes.Buffer
		o := &trace.OTLP{W: &b, Run: seed, PerLine: int(seed % 3), Tokens: true}
		var want []trace.Entry
		reasons := map[string]int{}
		server := map[string]time.Duration{} // end-to-end there
		events := 0
		observe(t, seed, func(sim.Config) sim.Observer {
			return sim.ObserverFunc(func(e sim.Event) {
				switch e.Kind {
				case sim.Finish, sim.Reject, sim.Abort:
					if e.Kind == sim.Finish && len(e.TokenTimes(nil)) == 0 {
						o.Tokens = false
					}
					if e.Kind == sim.Finish && e.Client().First == sim.NoTime {
						return // behind a proxy that counts tokens
					}
					events += int(e.Preemptions)
					if e.Kind != sim.Finish {
						reasons[or(e.Reason, e.Kind.String())]++
						break
					}
					want = append(want, trace.EntryFromEvent(e))
					server[strconv.FormatInt(e.Serial, 10)] = e.Time.Sub(e.Timeline.Queued)
				}
				o.Observe(e)
			})
		})
		if err := o.Flush(); err != nil {
			t.Fatal(err)
		}
		if b.Len() == 0 {
			continue
		}
		parents := map[string]span{}
		gotReasons := map[string]int{}
		gotEvents := 0
		ended := map[string]int64{}
		for _, s := range spansOf(t, b.String()) {
			if s.ParentSpanID == "" {
				id := ""
				parents[s.TraceID] = s
				ended[s.TraceID] = s.StartTimeUnixNano
				for _, e := range s.Events {
					if e.Name == "preemption" {
						gotEvents++
					}
					if e.TimeUnixNano < s.StartTimeUnixNano || e.TimeUnixNano > s.EndTimeUnixNano {
						t.Errorf("seed %d: event %s is not inside %s", seed, e.Name, s.SpanID)
					}
				}
				for _, a := range s.Attributes {
					switch a.Key {
					case "gen_ai.request.id":
						id = a.Value["stringValue"].(string)
					case "gen_ai.latency.e2e":
						if got := a.Value["doubleValue"].(float64); time.Duration(math.Round(got*1e9)) != server[id] {
							t.Errorf("seed %d: request %s took %v s at the server, want %v", seed, id, got, server[id])
						}
						delete(server, id)
					}
				}
				if s.Status.Code == 2 {
					gotReasons[s.Status.Message]++
				}
				continue
			}
			p := parents[s.TraceID]
			if s.ParentSpanID != p.SpanID || s.StartTimeUnixNano < p.StartTimeUnixNano || s.EndTimeUnixNano > p.EndTimeUnixNano {
				t.Errorf("seed %d: %s of %+v is not inside its parent %+v", seed, s.Name, s, p)
			}
			if s.StartTimeUnixNano != ended[s.TraceID] {
				t.Errorf("seed %d: %s starts at %d, the phase before ends at %d", seed, s.Name, s.StartTimeUnixNano, ended[s.TraceID])
			}
			ended[s.TraceID] = s.EndTimeUnixNano
		}
		if len(server) > 0 {
			t.Errorf("seed %d: no time at the server for %v", seed, server)
		}
		for id, p := range parents {
			if ended[id] != p.EndTimeUnixNano {
				t.Errorf("seed %d: the phases of %s end at %d, it at %d, status %+v", seed, p.SpanID, ended[id], p.EndTimeUnixNano, p.Status)
			}
		}
		if d := cmp.Diff(reasons, gotReasons); d != "" {
			t.Errorf("seed %d: failures (-want +got):\n%s", seed, d)
		}
		if gotEvents != events {
			t.Errorf("seed %d: %d preemptions, want %d", seed, gotEvents, events)
		}
		completed, failed, preemptions = completed+len(want), failed+len(parents)-len(want), preemptions+events
		if len(want) == 0 {
			continue
		}
		got, err := readOTLP(b.String(), false)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, d)
		}
	}
	if completed == 0 || failed == 0 || preemptions == 0 {
		t.Errorf("%d completed, %d failed, %d preemptions: the runs show too little", completed, failed, preemptions)
	}
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func TestOTLPReaderFaults(t *testing.T) {
	good := strings.TrimSuffix(otlp(t, trace.OTLP{Run: 7}, trace.Entry{Record: sample()}), "\n")
	for _, c := range []struct{ name, from, to, want string }{
		{"cut", `]}]}]}`, `]}]}`, `line: resourceSpans is [{"resource":{"attributes":[{"key":"serv…, which is not JSON`},
		{"no epoch", `servesim.epoch_unix_nano`, `epoch`, "the resource has no servesim.epoch_unix_nano of at least 0"},
		{"epoch", `"intValue":"17`, `"intValue":"-17`, "the resource has no servesim.epoch_unix_nano of at least 0"},
		{"long trace id", traceOfR, traceOfR + "00", `traceId is "` + traceOfR + `00", want 32 hexadecimal digits in lower case, not all 0`},
		{"base64", traceOfR, "5cL3CrSjTaa8A1+8LgKVhA==", `traceId is "5cL3CrSjTaa8A1+8LgKVhA==", want 32 hexadecimal digits in lower case, not all 0`},
		{"no trace id", `"traceId":"` + traceOfR + `",`, ``, `traceId is "", want 32 hexadecimal digits in lower case, not all 0`},
		{"zero span id", parentOfR + "1", "0000000000000000", `spanId is "0000000000000000", want 16 hexadecimal digits in lower case, not all 0`},
		{"no parent", `"parentSpanId":"` + parentOfR + `1",`, ``, "span " + parentOfR + "2 is a second one without a parent in trace " + traceOfR},
		{"other parent", `"parentSpanId":"` + parentOfR + `1"`, `"parentSpanId":"` + parentOfR + `9"`, "span " + parentOfR + "2 has the parent " + parentOfR + "9, which does not stand before it on the line"},
		{"other trace", `{"traceId":"` + traceOfR + `","spanId":"` + parentOfR + `2"`, `{"traceId":"a` + traceOfR[1:] + `","spanId":"` + parentOfR + `2"`,
			"span " + parentOfR + "2 has the parent " + parentOfR + "1, which does not stand before it on the line"},
		{"twice", parentOfR + "3", parentOfR + "2", "span " + parentOfR + "2 stands twice"},
		{"phase twice", `"gateway"`, `"network_in"`, "span " + parentOfR + "3: phase network_in stands twice"},
		{"number as text", `"startTimeUnixNano":"17`, `"startTimeUnixNano":"x17`, "span " + parentOfR + `1: startTimeUnixNano is "x1700000000000000000", want an integer below 2⁶³`},
		{"before 1970", `"startTimeUnixNano":"17`, `"startTimeUnixNano":"-17`, "span " + parentOfR + `1: startTimeUnixNano is "-1700000000000000000", before 1970 or beyond 146 years`},
		{"backwards", `"endTimeUnixNano":"1700000000180000000"`, `"endTimeUnixNano":"1699999999999999999"`, "span " + parentOfR + "1 ends 1 ns before it starts"},
		{"outside", `"startTimeUnixNano":"1700000000000000000"`, `"startTimeUnixNano":"1700000000000000001"`, "span " + parentOfR + "2 is not inside its parent"},
		{"longer", `"startTimeUnixNano":"1700000000000000000"`, `"startTimeUnixNano":"1699999999999999999"`, `request "r": its parent span ` + parentOfR + "1 is not as long as its phases"},
		{"longer behind", `"endTimeUnixNano":"1700000000180000000"`, `"endTimeUnixNano":"1700000000180000001"`, `request "r": its parent span ` + parentOfR + "1 is not as long as its phases"},
		{"gap", `"endTimeUnixNano":"1700000000010000000"`, `"endTimeUnixNano":"1700000000009999999"`, "span " + parentOfR + "3: gateway_arrival is 1 ns away from where another span or event has it"},
		{"missing phase", `"name":"queue"`, `"name":"line"`, ""},
		{"missing phases", `"name":"stream"`, `"name":"rest"`, `request "r": missing fields: last_token_client_ms`},
		{"no id", `gen_ai.request.id`, `request.id`, "span " + parentOfR + "1 lacks gen_ai.request.id"},
		{"no prompt", `gen_ai.usage.input_tokens`, `x`, `request "r": it lacks gen_ai.usage.input_tokens`},
		{"no output", `gen_ai.usage.output_tokens`, `x`, `request "r": it lacks gen_ai.usage.output_tokens`},
		{"zero prompt", `"gen_ai.usage.input_tokens","value":{"intValue":"100"`, `"gen_ai.usage.input_tokens","value":{"intValue":"0"`, `request "r": prompt_tokens is 0, want at least 1`},
		{"negative prompt", `"gen_ai.usage.input_tokens","value":{"intValue":"100"`, `"gen_ai.usage.input_tokens","value":{"intValue":"-1"`,
			"span " + parentOfR + "1: gen_ai.usage.input_tokens is -1, want at least 0"},
		{"type", `"gen_ai.usage.input_tokens","value":{"intValue":"100"`, `"gen_ai.usage.input_tokens","value":{"doubleValue":100`,
			"span " + parentOfR + `1: gen_ai.usage.input_tokens is {"doubleValue":100}, want an intValue`},
		{"attribute twice", `gen_ai.request.n"`, `gen_ai.request.id"`, "span " + parentOfR + "1: attribute gen_ai.request.id stands twice"},
		{"member twice", `"kind":3`, `"name":"chat"`, "span: field name stands twice"},
		{"list", `"resourceSpans":[`, `"resourceSpans":7,"x":[`, "resourceSpans is 7, want a list"},
		{"nothing", good, `{}`, ""},
	} {
		text := strings.Replace(good, c.from, c.to, 1)
		if text == good {
			t.Fatalf("%s: nothing to replace", c.name)
		}
		want := "file:2: " + c.want
		switch c.name {
		case "nothing":
			want = "file: " + trace.ErrEmpty.Error()
		case "missing phase": // its neighbours know both its ends
			want = ""
		}
		_, err := readOTLP("\n"+text, false)
		if got := fmt.Sprint(err); got != want && !(want == "" && err == nil) {
			t.Errorf("%s: error %v, want %s", c.name, err, want)
		}
	}
	if _, err := readOTLP(good+"\n"+good, false); err == nil || err.Error() != `file:2: request_id "r" is that of line 1` {
		t.Errorf("error %v", err)
	}
}

func TestOTLPErrors(t *testing.T) {
	e := trace.Entry{Record: sample()}
	none := e
	for _, at := range []*sim.Time{&none.ClientSend, &none.GatewayArrival, &none.QueueEnter, &none.PrefillStart, &none.PrefillEnd,
		&none.FirstTokenServer, &none.FirstTokenClient, &none.LastTokenClient} {
		*at = trace.Unknown
	}
	early, late := e, e
	early.ClientSend, late.LastTokenClient = ms(-1), 1<<62
	for _, c := range []struct {
		o    trace.OTLP
		e    trace.Entry
		want string
	}{
		{trace.OTLP{}, none, `trace: request "r": it has no instant`},
		{trace.OTLP{Epoch: time.Unix(0, 0)}, early, `trace: request "r": an instant at -1 lies before 1970 or beyond 2262`},
		{trace.OTLP{}, late, `trace: request "r": an instant at 4611686018427.387904 lies before 1970 or beyond 2262`},
		{trace.OTLP{Epoch: time.Unix(8e9, 0)}, trace.Entry{Record: trace.Record{LastTokenClient: 1<<62 - 1}},
			`trace: request "": an instant at 4611686018427.387903 lies before 1970 or beyond 2262`},
		{trace.OTLP{Epoch: time.Unix(-1, 0)}, e, `trace: request "r": OTLP.Epoch is ` + time.Unix(-1, 0).String() + `, want 1970 to 2262`},
		{trace.OTLP{PerLine: -1}, e, `trace: request "r": OTLP.PerLine is -1, want at least 0`},
	} {
		var b bytes.Buffer
		c.o.W = &b
		if err := c.o.WriteUnchecked(c.e); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
		if err := c.o.Flush(); err != nil || b.Len() > 0 {
			t.Errorf("%q and error %v behind an entry that was refused", &b, err)
		}
	}

	o := trace.OTLP{W: &failing{after: 100_000}, PerLine: 3}
	for i := range int64(10_000) {
		o.Observe(finish(i))
	}
	for range 2 { // the error stays
		if err := o.Flush(); err == nil || err.Error() != "trace: disk full" {
			t.Errorf("error %v", err)
		}
	}
	o = trace.OTLP{W: io.Discard}
	if err := o.Write(none); err == nil || !strings.HasPrefix(err.Error(), `trace: request "r": missing fields: client_send_ms, `) {
		t.Errorf("error %v", err)
	}
	bad := errors.New("bad entry")
	if err := trace.WriteOTLP(&o, func(yield func(trace.Entry, error) bool) { yield(trace.Entry{}, bad) }); !errors.Is(err, bad) {
		t.Errorf("error %v", err)
	}
}

// Labels are there only where they are asked for.
func TestOTLPLabels(t *testing.T) {
	var b bytes.Buffer
	o := trace.OTLP{W: &b}
	if err := o.WriteLabelled(trace.Entry{Record: sample()}, labelled()); err != nil {
		t.Fatal(err)
	}
	observed := trace.OTLP{W: &b, Labels: true, Causes: func(sim.Event) []string { return []string{"burst"} }}
	blind := trace.OTLP{W: &b}
	observed.Observe(finish(1))
	blind.Observe(finish(2))
	for _, o := range []*trace.OTLP{&o, &observed, &blind} {
		if err := o.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, s := range spansOf(t, b.String()) {
		for _, a := range s.Attributes {
			if after, ok := strings.CutPrefix(a.Key, "servesim.label."); ok {
				got = append(got, fmt.Sprint(after, " ", a.Value))
			}
		}
	}
	want := []string{`causes map[arrayValue:map[values:[map[stringValue:slow_gateway] map[stringValue:é"]]]]`,
		"ttft_phase map[stringValue:prefill]", "e2e_phase map[stringValue:stream]",
		"ledger_ns.queue_order map[intValue:20000000]", "ledger_ns.prefill_compute map[intValue:50000000]",
		"ledger_ns.stream_decode map[intValue:81000000]", "ledger_ns.stream_interference map[intValue:-1000000]",
		"causes map[arrayValue:map[values:[map[stringValue:burst]]]]", "ttft_phase map[stringValue:prefill]", "e2e_phase map[stringValue:stream]"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	other := labelled()
	other.RequestID = "s"
	if err := o.WriteLabelled(trace.Entry{Record: sample()}, other); err == nil || err.Error() != `trace: request "r" has the label of "s"` {
		t.Errorf("error %v", err)
	}
}

func TestOTLPAllocatesNothing(t *testing.T) {
	causes := []string{"burst"}
	o := trace.OTLP{W: io.Discard, Model: "llama", PerLine: 7, Labels: true, Causes: func(sim.Event) []string { return causes }}
	each := func(serial int64) {
		e := finish(serial)
		e.Kind = sim.Preempt
		o.Observe(e)
		o.Observe(finish(serial))
		e = finish(serial)
		e.Kind = sim.Reject
		o.Observe(e)
	}
	for i := range int64(1000) { // fills the buffer once
		each(i)
	}
	if got := testing.AllocsPerRun(1000, func() { each(1 << 40) }); got != 0 {
		t.Errorf("%v allocations a request", got)
	}
}

// FuzzOTLPReader: whatever is accepted is valid and survives a round trip.
func FuzzOTLPReader(f *testing.F) {
	// Short, as inputs that find something are made shorter for a minute each.
	const head, tail = `{"resourceSpans":[{"resource":{"attributes":[{"key":"servesim.epoch_unix_nano","value":{"intValue":"9"}}]},"scopeSpans":[{"spans":[`, `]}]}]}`
	const parent = `{"traceId":"` + traceOfR + `","spanId":"` + parentOfR + `1","startTimeUnixNano":"10","endTimeUnixNano":"30","attributes":[` +
		`{"key":"gen_ai.request.id","value":{"stringValue":"r"}},{"key":"gen_ai.usage.input_tokens","value":{"intValue":"1"}},` +
		`{"key":"gen_ai.usage.output_tokens","value":{"intValue":"1"}}],"events":[{"name":"client_send","timeUnixNano":"10"}]}`
	const child = `,{"traceId":"` + traceOfR + `","spanId":"` + parentOfR + `2","parentSpanId":"` + parentOfR + `1","name":"queue","startTimeUnixNano":"11","endTimeUnixNano":12}`
	f.Add([]byte(head + parent + tail))
	f.Add([]byte(head + parent + child + tail))
	f.Add([]byte(`{"resourceSpans":[{"resource":{"attributes":[{"key":"servesim.epoch_unix_nano","value":{"intValue":"0"}}]},"scopeSpans":[{"spans":[{}]}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := readOTLP(string(data), true)
		if err == nil && len(got) == 0 {
			t.Fatal("neither an entry nor an error")
		}
		for _, e := range got {
			if err := e.ValidatePartial(); err != nil {
				t.Fatalf("an entry that was read is not valid: %v", err)
			}
		}
		var b bytes.Buffer
		o := trace.OTLP{W: &b, Epoch: time.Unix(4e9, 0)}
		var want []trace.Entry
		for _, e := range got {
			if err := o.WriteUnchecked(e); err == nil { // else without an instant, or too early
				want = append(want, e)
			}
		}
		if err := o.Flush(); err != nil {
			t.Fatal(err)
		}
		if len(want) == 0 {
			return
		}
		back, err := readOTLP(b.String(), true)
		if err != nil {
			t.Fatalf("%s\n%v", &b, err)
		}
		if d := cmp.Diff(want, back); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}

// An exporter is listed in Config.Observers and flushed when the run is over.
func ExampleOTLP() {
	var file bytes.Buffer
	o := trace.OTLP{W: &file, Model: "llama"}
	o.Observe(sim.Event{Kind: sim.Finish, Serial: 17, Time: 2_000_500_000, Prompt: 512, Output: 128, Timeline: sim.Timeline{
		Arrival: 0, Queued: 0, Admitted: 1_000_000, PrefillEnd: 31_250_001, FirstToken: 31_250_001}})
	if err := o.Flush(); err != nil {
		fmt.Println(err)
	}
	for e, err := range (trace.OTLPReader{In: &file, Name: "trace.jsonl"}).Entries() {
		fmt.Println(e.RequestID, e.TTFT(), e.E2E(), err)
	}
	// Output:
	// 17 31.250001ms 2.0005s <nil>
}
