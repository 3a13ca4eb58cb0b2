package main

import (
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	workloadFields  = strings.Fields("requests rate_per_s gap_cv idc_1s idc_10s idc_60s prompt_p50 prompt_p95 output_p50 output_p95")
	countFields     = strings.Fields("completed rejected unfinished preemptions transfers transferred_tokens role_changes steps")
	latencyFields   = strings.Fields("ttft_ms itl_ms tpot_ms e2e_ms")
	summaryFields   = strings.Fields("mean p50 p90 p95 p99 max")
	figureFields    = strings.Fields("throughput_tok_per_s throughput_req_per_s goodput_req_per_s slo_attainment kv_peak kv_mean simulated_s wall_s")
	undefinedAtNone = strings.Fields("throughput_tok_per_s throughput_req_per_s goodput_req_per_s")
)

// checkFields checks names and types of an object of -json: figures are
// numbers or null, counts whole numbers.
func checkFields(t *testing.T, o map[string]any) {
	t.Helper()
	top := slices.Sorted(maps.Keys(o))
	if d := cmp.Diff([]string{"comparisons", "config", "definitions", "gap_rule", "percentiles", "results", "workload"}, slices.DeleteFunc(top, func(k string) bool { return k == "recording_rows" || k == "pools" })); d != "" {
		t.Errorf("fields (-want +got):\n%s", d)
	}
	figure := func(where string, o map[string]any, name string) {
		t.Helper()
		v, ok := o[name]
		if _, isNumber := v.(float64); !ok || v != nil && !isNumber {
			t.Errorf("%s.%s is %v (there: %v), want a number or null", where, name, v, ok)
		}
	}
	for _, name := range workloadFields {
		figure("workload", o["workload"].(map[string]any), name)
	}
	for _, r := range results(o) {
		where, _ := r["scheduler"].(string)
		if where == "" {
			t.Errorf("scheduler is %v", r["scheduler"])
		}
		for _, name := range countFields {
			if v := number(t, r, name); v < 0 || v != math.Trunc(v) {
				t.Errorf("%s.%s is %v, want a count", where, name, v)
			}
		}
		for _, name := range figureFields {
			figure(where, r, name)
		}
		for _, name := range latencyFields {
			for _, field := range summaryFields {
				figure(where+"."+name, r[name].(map[string]any), field)
			}
		}
	}
}

func TestJSONFields(t *testing.T) {
	o := object(t, "-requests", "200", "-seeds", "2")
	checkFields(t, o)
	names := []any{}
	for _, r := range results(o) {
		names = append(names, r["scheduler"])
		for _, name := range figureFields {
			number(t, r, name)
		}
		for _, name := range latencyFields {
			for _, field := range summaryFields {
				number(t, r[name].(map[string]any), field)
			}
		}
	}
	if d := cmp.Diff([]any{"request-batch", "continuous", "chunked", "disaggregated", "dynamic"}, names); d != "" {
		t.Errorf("schedulers (-want +got):\n%s", d)
	}
	w := o["workload"].(map[string]any)
	if w["requests"] != 200.0 || w["idc_60s"] != nil { // 17 s of arrivals
		t.Errorf("workload.requests %v, want 200; idc_60s %v, want null", w["requests"], w["idc_60s"])
	}
}

// What is not measured is null, never zero.
func TestJSONUndefined(t *testing.T) {
	// No prompt of the preset is so short: all are rejected.
	o := object(t, "-requests", "50", "-seeds", "2", "-max-model-len", "2")
	checkFields(t, o)
	for _, r := range results(o) {
		if r["completed"] != 0.0 || r["rejected"] != 50.0 || r["slo_attainment"] != 0.0 {
			t.Errorf("%v: completed %v, rejected %v, attainment %v", r["scheduler"], r["completed"], r["rejected"], r["slo_attainment"])
		}
		for _, name := range undefinedAtNone {
			if r[name] != nil {
				t.Errorf("%v: %s is %v, want null", r["scheduler"], name, r[name])
			}
		}
		for _, name := range latencyFields {
			if p50 := r[name].(map[string]any)["p50"]; p50 != nil {
				t.Errorf("%v: %s.p50 is %v, want null", r["scheduler"], name, p50)
			}
		}
	}
	for _, c := range o["comparisons"].([]any) {
		if c := c.(map[string]any); c["goodput_diff_req_per_s"] != nil || c["goodput_ratio"] != nil {
			t.Errorf("comparison without goodput: %v", c)
		}
	}

	// One request of one token has no gap, and no rate of arrivals.
	path := filepath.Join(t.TempDir(), "one.csv")
	write(t, path, "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:00.0000000,10,1\n")
	o = object(t, "-recording", path)
	checkFields(t, o)
	if w := o["workload"].(map[string]any); w["rate_per_s"] != nil || w["gap_cv"] != nil || w["requests"] != 1.0 {
		t.Errorf("workload of one request: %v", w)
	}
	for _, r := range results(o) {
		itl, tpot := r["itl_ms"].(map[string]any), r["tpot_ms"].(map[string]any)
		if itl["mean"] != nil || itl["max"] != nil || tpot["p95"] != nil || r["completed"] != 1.0 || r["slo_attainment"] != 1.0 {
			t.Errorf("one token: %v", r)
		}
	}

	// A goodput of zero has no ratio.
	o = object(t, "-requests", "50", "-seeds", "2", "-slo-ttft", "1")
	c := o["comparisons"].([]any)[0].(map[string]any)
	if c["goodput_diff_req_per_s"] != 0.0 || c["goodput_ratio"] != nil {
		t.Errorf("comparison of nothing: %v", c)
	}
}

func TestCountsAddUp(t *testing.T) {
	for _, args := range [][]string{
		{"-requests", "400", "-seeds", "1"},
		{"-requests", "400", "-seeds", "1", "-kv-blocks", "300"}, // rejections and preemptions
		{"-requests", "400", "-seeds", "1", "-replicas", "3", "-preset", "azure-conv-2023"},
		{"-recording", small},
	} {
		o := object(t, args...)
		requests := number(t, o["workload"].(map[string]any), "requests")
		rejected, preempted := 0.0, 0.0
		for _, r := range results(o) {
			completed := number(t, r, "completed")
			if sum := completed + number(t, r, "rejected") + number(t, r, "unfinished"); sum != requests {
				t.Errorf("%v: %v: %v requests ended, %v arrived", args, r["scheduler"], sum, requests)
			}
			if n := number(t, r["ttft_ms"].(map[string]any), "n"); n != completed {
				t.Errorf("%v: %v: %v first tokens, %v completed", args, r["scheduler"], n, completed)
			}
			rejected += number(t, r, "rejected")
			preempted += number(t, r, "preemptions")
		}
		if tight := slices.Contains(args, "-kv-blocks"); tight != (rejected > 0) || tight != (preempted > 0) {
			t.Errorf("%v: %v rejected, %v preemptions", args, rejected, preempted)
		}
	}
}
