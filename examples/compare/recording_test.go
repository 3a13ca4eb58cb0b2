package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/examples/internal/commandtest"
)

// Without flags the choice matters: it is the first of the workloads below.
func TestDefaultClaim(t *testing.T) {
	if d := cmp.Diff(steady(t, 5, "-seeds", "1"), steady(t, 5, "-workload", "code", "-seeds", "1")); d != "" {
		t.Errorf("without flags (-) and with -workload code (+):\n%s", d)
	}
}

// No topology wins everywhere: on each of three workloads another one is ahead of
// the next best of five by 10 % of goodput at least, on the same four GPUs, and
// pairs of runs leave no doubt: the ten of the program with SERVESIM_LONG=1, else
// four. On the third it does not matter what moves the roles.
func TestNoTopologyWinsEverywhere(t *testing.T) {
	seeds := 4
	if long() {
		seeds = 10
	}
	type claim struct {
		winner string
		args   []string
	}
	claims := []claim{
		{"chunked", []string{"-workload", "code"}},
		{"continuous", []string{"-workload", "voice"}},
		{"disaggregated", []string{"-workload", "documents"}},
		{"disaggregated", []string{"-workload", "documents", "-schedulers", "disaggregated,dynamic", "-controller", "load-threshold"}},
	}
	if long() { // the above start with 2
		for _, start := range []string{"1", "3"} {
			claims = append(claims,
				claim{"chunked", []string{"-workload", "code", "-schedulers", "chunked,dynamic", "-dynamic-prefill", start}},
				claim{"continuous", []string{"-workload", "voice", "-schedulers", "continuous,dynamic", "-dynamic-prefill", start}},
				claim{"disaggregated", []string{"-workload", "documents", "-schedulers", "disaggregated,dynamic", "-dynamic-prefill", start}},
				claim{"disaggregated", []string{"-workload", "documents", "-schedulers", "disaggregated,dynamic", "-dynamic-prefill", start, "-controller", "load-threshold"}})
		}
	}
	for _, c := range claims {
		args := c.args
		if !long() {
			args = append([]string{"-seeds", strconv.Itoa(seeds)}, args...)
		}
		o := object(t, args...)
		config, w := o["config"].(map[string]any), o["workload"].(map[string]any)
		if number(t, w, "requests") < 2000 || config["replicas"] != 4.0 || config["tensor_parallel"] != 1.0 {
			t.Errorf("%v: %v requests on %v × %v GPUs", c.args, w["requests"], config["replicas"], config["tensor_parallel"])
		}
		comparisons := o["comparisons"].([]any)
		if n := len(results(o)); len(comparisons) != n-1 || n != 5 && len(c.args) == 2 {
			t.Fatalf("%v: %d comparisons of %d schedulers", c.args, len(comparisons), n)
		}
		for _, x := range comparisons {
			x := x.(map[string]any)
			ratio, low := number(t, x, "goodput_ratio"), number(t, x, "goodput_diff_low_req_per_s")
			t.Logf("%v: %v is ahead of %v by %.2f times", c.args, x["scheduler"], x["than"], ratio)
			if x["scheduler"] != c.winner || ratio < 1.1 || low <= 0 || x["seeds"] != float64(seeds) || x["level"] != 0.95 {
				t.Errorf("%v: %v has %.3f times the goodput of %v, the difference is %v at least, over %v seeds at level %v",
					c.args, x["scheduler"], ratio, x["than"], low, x["seeds"], x["level"])
			}
		}
	}
}

// A recording runs through every scheduler, and the reference profiler reads the
// traces and prints the same figures: all of it with SERVESIM_LONG=1, else the
// first 3000 requests.
func TestRecording(t *testing.T) {
	requests, args := 19366.0, []string{}
	if !long() {
		requests, args = 3000, []string{"-requests", "3000"}
	}
	recording := commandtest.Shared(t, "recordings/AzureLLMInferenceTrace_conv.csv.gz")
	dir := filepath.Join(t.TempDir(), "new", "traces")
	o := object(t, append(args, "-recording", recording, "-traces", dir)...)
	if w := o["workload"].(map[string]any); w["requests"] != requests {
		t.Errorf("%v requests, want %v", w["requests"], requests)
	}
	if c := o["comparisons"].([]any); len(c) != 0 {
		t.Errorf("%d comparisons of one run each", len(c))
	}
	rs := results(o)
	if len(rs) != 5 {
		t.Fatalf("%d results", len(rs))
	}
	for _, r := range rs {
		if sum := number(t, r, "completed") + number(t, r, "rejected") + number(t, r, "unfinished"); sum != requests {
			t.Errorf("%v: %v requests ended, want %v", r["scheduler"], sum, requests)
		}
	}
	if t.Failed() {
		return
	}
	profiler := commandtest.Shared(t, "oracle/latency_profiler.py")
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	for _, r := range rs {
		name := r["scheduler"].(string)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := exec.Command(python, profiler, filepath.Join(dir, name+".jsonl")).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			lines := strings.Split(string(out), "\n")
			at := func(field, percentile string) float64 { return number(t, r[field].(map[string]any), percentile) }
			for _, want := range []string{
				fmt.Sprintf("Scenario: %s.jsonl (%v requests)", name, number(t, r, "completed")),
				fmt.Sprintf("p50 TTFT: %.1f ms", at("ttft_ms", "p50")),
				fmt.Sprintf("p95 TTFT: %.1f ms", at("ttft_ms", "p95")),
				fmt.Sprintf("p95 ITL:  %.1f ms/token", at("tpot_ms", "p95")),
				fmt.Sprintf("p95 E2E:  %.1f ms", at("e2e_ms", "p95")),
			} {
				if !slices.Contains(lines, want) {
					t.Errorf("no line %q in\n%s", want, out)
				}
			}
		})
	}
}
