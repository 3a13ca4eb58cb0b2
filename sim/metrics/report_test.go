package metrics_test

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"servesim/sim"
	"servesim/sim/metrics"
)

// An outer object can hold a report among fields of its own.
func TestJSON(t *testing.T) {
	r := report(t, oneReplica, metrics.Options{}, events(100, request{tokens: []int{10}}))
	data, err := json.Marshal(struct {
		Scheduler string `json:"scheduler"`
		metrics.Report
	}{"chunked", r})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"scheduler", "completed", "rejected", "unfinished", "preemptions", "throughput_tok_per_s",
		"throughput_req_per_s", "goodput_req_per_s", "slo_attainment", "attempts", "attempts_per_s", "failed",
		"aborted_prompt_tokens", "aborted_output_tokens", "deferred", "deferred_prompt_tokens", "still_deferred", "door_mean", "door_peak", "kv_peak", "kv_mean", "steps", "simulated_s"} {
		if _, ok := got[name]; !ok {
			t.Errorf("no field %s", name)
		}
	}
	for _, name := range []string{"ttft_ms", "itl_ms", "tpot_ms", "e2e_ms"} {
		summary, ok := got[name].(map[string]any)
		for _, figure := range []string{"mean", "p50", "p90", "p95", "p99", "max"} {
			if _, there := summary[figure]; !ok || !there {
				t.Errorf("no field %s.%s", name, figure)
			}
		}
	}
	if v := got["ttft_ms"].(map[string]any)["p95"]; v != 10.0 {
		t.Errorf("ttft_ms.p95 is %v, want 10", v)
	}
	for _, undefined := range []any{got["itl_ms"].(map[string]any)["mean"], got["tpot_ms"].(map[string]any)["p50"],
		got["tpot_ms"].(map[string]any)["max"], got["slo_attainment"], got["goodput_req_per_s"],
		got["deferred_wait_mean_ms"], got["deferred_wait_max_ms"]} {
		if undefined != nil {
			t.Errorf("an undefined figure is %v, want null", undefined)
		}
	}
}

func TestJSONOfNothing(t *testing.T) {
	data, err := json.Marshal(collector(t, oneReplica, metrics.Options{}).Report())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(data, []byte(`"queue_mean":null`)) || !bytes.Contains(data, []byte(`"throughput_req_per_s":null`)) {
		t.Errorf("a run of no time has figures: %s", data)
	}
	var back metrics.Report
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if back.QueueMean.Defined() || back.TTFT.P50.Defined() {
		t.Error("null was read as a figure")
	}
}

func TestNumberString(t *testing.T) {
	for _, c := range []struct {
		v    metrics.Number
		want string
	}{{0, "0.00"}, {0.06134, "0.0613"}, {1.5, "1.50"}, {-12.345, "-12.35"}, {349.74, "349.7"}, {123456.7, "123456.7"},
		{3e9, "3.000e+09"}, {metrics.Number(math.NaN()), "–"}} {
		if got := c.v.String(); got != c.want {
			t.Errorf("%v prints as %s, want %s", float64(c.v), got, c.want)
		}
	}
}

func TestText(t *testing.T) {
	cfg := withClasses(sim.Class{Name: "chat", TTFT: 20 * time.Millisecond}, sim.Class{Name: "batch"})
	es := events(200_000_000,
		request{serial: 1, class: 0, tokens: []int{10}},
		request{serial: 2, class: 1, tokens: []int{50_000_000, 100_000_000}},
		request{serial: 3, class: 1, end: sim.Reject, reason: "a_reason"})
	for i, e := range es {
		if e.Kind == sim.Arrive && e.Serial == 1 {
			es = slices.Delete(es, i, i+1)
			break
		}
	}
	r := report(t, cfg, metrics.Options{Streaming: true}, es)
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if utf8.RuneCountInString(line) > 80 {
			t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
		}
		if strings.TrimRight(line, " ") != line {
			t.Errorf("space at the end of %q", line)
		}
	}
	for _, want := range []string{"class chat", "class batch", "rejected 1: a_reason", "finding: Little's law", "linear percentiles, streaming",
		"–", "1 completed with one token", "attainment"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, &b)
		}
	}
}

// Nothing of retries and deferrals stands in the text of a run without them;
// with them, the largest figures keep to 80 columns.
func TestTextOfLostRequests(t *testing.T) {
	text := func(r metrics.Report) string {
		var b strings.Builder
		if err := r.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	plain := text(report(t, oneReplica, metrics.Options{}, events(100, request{tokens: []int{10}})))
	for _, word := range []string{"attempt", "retry", "failed", "deferred", "rejected 0", "aborted 0:"} {
		if strings.Contains(plain, word) {
			t.Errorf("%q in the text of a run without losses:\n%s", word, plain)
		}
	}
	cfg, rs := story()
	r := run(t, cfg, metrics.Options{}, rs...)
	got := text(r)
	for _, want := range []string{
		"6 arrived, 4 completed, 2 failed, 0 unfinished\n",
		"  11 attempts: 4 rejected, 3 aborted\n",
		"  rejected 3: busy, 312 prompt tokens\n  rejected 1: full, 102 prompt tokens\n",
		"  aborted 3: 314 prompt tokens, 2 output tokens\n",
		"  deferred 3: 315 prompt tokens, 0 still wait\n  deferred for 23.33 ms mean, 30.00 ms max\n",
		"attainment 0.3333: 2 of 6 (gap target by p95 per request, nearest-rank)\nattempts 23.40/s, 1.83 per request\n",
		"deferred at the front door                0.1489          1\n",
		metrics.Definitions + metrics.RetryDefinitions + metrics.DeferralDefinitions,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the text lacks %q:\n%s", want, got)
		}
	}
	const many, tokens = 100_000_000, 1_000_000_000_000
	r.Arrived, r.Completed, r.Failed, r.Unfinished, r.Attempts, r.Rejected, r.Aborted = many, many, many, many, 2*many, many, many
	r.AbortedPrompt, r.AbortedOutput, r.Deferred, r.DeferredPrompt, r.StillDeferred = tokens, tokens, many, tokens, many
	r.DeferredMean, r.DeferredMax, r.AttemptRate, r.DoorMean, r.DoorPeak = many, many, many, many, many
	for i := range r.Rejections {
		r.Rejections[i].Count, r.Rejections[i].Prompt = many, tokens
	}
	k := r.Cell
	k.Class = "some class"
	r.Classes = []metrics.Cell{k, k}
	for _, line := range strings.Split(text(r), "\n") {
		if utf8.RuneCountInString(line) > 80 {
			t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
		}
		if strings.TrimRight(line, " ") != line {
			t.Errorf("space at the end of %q", line)
		}
	}
}
