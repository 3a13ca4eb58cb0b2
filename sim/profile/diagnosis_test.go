package profile_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"servesim/sim/profile"
	"servesim/sim/trace"
)

// said is what only people can say.
func said() profile.Diagnosis {
	return profile.Diagnosis{
		Objective:     "p95 client TTFT below 1.2 s and p95 gap below 80 ms at the expected burst",
		Configuration: map[string]string{"model": "Llama-3.1-8B", "gpu": "H100", "engine": "continuous, 256 sequences"},
		Control:       "one request on an idle server: no queue",
		StopRule: profile.StopRule{Contribution: "a fifth of p95 TTFT", Movement: "p95 TTFT by 100 ms under the same burst",
			Bound: "throughput falls by less than 5 %"},
	}
}

func TestComplete(t *testing.T) {
	r := analyse(t, burst(), profile.Options{Arrivals: "replayed burst"})
	d := r.Complete(said(), "burst.jsonl")
	if err := d.Validate(); err != nil {
		t.Fatal(err)
	}
	want := said()
	want.Coordinates = r.Coordinates
	want.Boundaries = "client_send, gateway_arrival, queue_enter, prefill_start, prefill_end, first_token_server, first_token_client, last_token_client"
	want.Workload = "10 requests over 9.00 s, 1.00/s, gap CV 0.00; 2048 input / 65 output tokens"
	want.Suspect = "queue"
	want.Test = profile.NextTest(trace.Queue)
	want.Claim = "Under replayed burst (2048 input / 65 output tokens) and at the client's boundary, queue dominates TTFT: 151.7 ms in the mean, 43 % of it. " +
		"If the test bears it out, this should move it: capacity for the phase that holds the queue, admission, or the order of the queue. " +
		"burst.jsonl, replayed, can prove whether it did."
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	own := said()
	own.Suspect, own.Coordinates.Percentile = "stream", "p99"
	d = r.Complete(own, "x")
	if d.Test != profile.NextTest(trace.Stream) || !strings.Contains(d.Claim, "stream dominates E2E: 1408.0 ms") || d.Coordinates.Percentile != "p99" {
		t.Errorf("%+v", d)
	}
	own.Suspect = "gateway" // which the trace does not bear out: no test and no claim of ours
	if err := ptr(r.Complete(own, "x")).Validate(); err == nil || err.Error() != "profile: diagnosis: missing fields: discriminating_test, claim" {
		t.Errorf("error %v", err)
	}
}

func ptr[T any](v T) *T { return &v }

// Without a coordinate or a part of the stop rule it is no record.
func TestDiagnosisMissing(t *testing.T) {
	r := analyse(t, burst(), profile.Options{})
	whole := r.Complete(said(), "burst.jsonl")
	for _, c := range []struct {
		edit func(*profile.Diagnosis)
		want string
	}{
		{func(d *profile.Diagnosis) { d.Objective = " \n" }, "missing fields: objective"},
		{func(d *profile.Diagnosis) { d.Coordinates.Boundary = "" }, "missing fields: coordinates.boundary"},
		{func(d *profile.Diagnosis) { d.Coordinates.Metric = "" }, "missing fields: coordinates.metric"},
		{func(d *profile.Diagnosis) { d.Coordinates.Percentile = "" }, "missing fields: coordinates.percentile"},
		{func(d *profile.Diagnosis) { d.Coordinates.Arrivals = "" }, "missing fields: coordinates.arrivals"},
		{func(d *profile.Diagnosis) { d.Coordinates.Shape = "" }, "missing fields: coordinates.shape"},
		{func(d *profile.Diagnosis) { d.Configuration = nil }, "missing fields: configuration"},
		{func(d *profile.Diagnosis) { d.Boundaries, d.Workload = "", "" }, "missing fields: trace_boundaries, workload_distribution"},
		{func(d *profile.Diagnosis) { d.Suspect, d.Test, d.Control = "", "", "" }, "missing fields: suspected_phase, discriminating_test, negative_control"},
		{func(d *profile.Diagnosis) { d.Claim = "" }, "missing fields: claim"},
		{func(d *profile.Diagnosis) { d.StopRule = profile.StopRule{} }, "missing fields: stop_rule.contribution, stop_rule.movement, stop_rule.bound"},
		{func(d *profile.Diagnosis) { d.Suspect = "decode" },
			`suspected_phase is "decode", want one of network_in, gateway, queue, prefill, first_decode, network_to_first, stream, residual`},
	} {
		d := whole
		c.edit(&d)
		if err := d.Validate(); err == nil || err.Error() != "profile: diagnosis: "+c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
		var b bytes.Buffer
		if err := d.WriteMarkdown(&b); err == nil || b.Len() > 0 {
			t.Errorf("a page without %s", c.want)
		}
	}
}

func TestMarkdown(t *testing.T) {
	r := analyse(t, burst(), profile.Options{})
	d := r.Complete(said(), "burst_1.jsonl")
	d.Objective = "a *bold* claim\n# with <b>markup</b> and a | bar - or + 2. or -5 ms > 1) = 2.5"
	var b bytes.Buffer
	if err := d.WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	lines := strings.Split(strings.TrimSuffix(page, "\n"), "\n")
	if len(lines) > 60 {
		t.Errorf("%d lines are no page", len(lines))
	}
	for _, line := range lines {
		if utf8.RuneCountInString(line) > 80 {
			t.Errorf("long line %q", line)
		}
	}
	for _, want := range []string{`a \*bold\* claim \# with \<b>markup\</b> and a \| bar \- or \+ 2\. or \-5 ms \> 1\) \= 2.5`, "## Stop rule", "- contribution: a fifth of p95 TTFT",
		"- engine: continuous, 256 sequences - gpu: H100 - model: Llama-3.1-8B", "- phase: queue", `burst\_1.jsonl, replayed`, "- negative control: one request on an idle server"} {
		if !has(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
}

func TestReadDiagnosis(t *testing.T) {
	r := analyse(t, burst(), profile.Options{})
	whole := r.Complete(said(), "burst.jsonl")
	data, err := json.MarshalIndent(whole, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got, err := profile.ReadDiagnosis(bytes.NewReader(data), "file")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(whole, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got, err := profile.ReadDiagnosis(strings.NewReader("{}"), "file"); err != nil || got.Validate() == nil {
		t.Errorf("an empty object: %+v, %v", got, err)
	}
	for _, c := range []struct{ text, want string }{
		{"", "file: the file is empty"},
		{"[]", "file:1: the file is a list, want an object"},
		{"{\n\"objectives\": \"\"}", `file:2: unknown field "objectives", known are objective, coordinates, trace_boundaries,`},
		{"{\"coordinates\":\n{\"shapes\": \"\"}}", `file:2: unknown field "coordinates.shapes", known are arrivals, boundary, metric, percentile, shape`},
		{`{"coordinates.shape": ""}`, `file:1: unknown field "coordinates.shape"`},
		{`{"coordinates": "x"}`, `file:1: coordinates is "x", want an object`},
		{`{"stop_rule": {"bound": 5}}`, `file:1: stop_rule.bound is 5, want a string`},
		{`{"configuration": {"a": "1", "a": "2"}}`, `file:1: field "a" stands twice`},
		{`{"configuration": {"gpus": 2}}`, `file:1: configuration.gpus is 2, want a string`},
		{`{"suspected_phase": "decode"}`, `file:1: suspected_phase is "decode", want one of network_in,`},
		{"{}\n{}", "file:1: more behind the object"},
	} {
		if _, err := profile.ReadDiagnosis(strings.NewReader(c.text), "file"); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.text, err, c.want)
		}
	}
}
