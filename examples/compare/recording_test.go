package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Without flags the choice matters, and the program is sure of it.
func TestDefaultClaim(t *testing.T) {
	o := object(t)
	config, w := o["config"].(map[string]any), o["workload"].(map[string]any)
	if number(t, w, "requests") < 5000 || config["model"] != "Llama-3.1-8B" || config["gpu"] != "H100" || config["replicas"] != 1.0 ||
		config["slo_ttft_ms"] != 1000.0 || config["slo_itl_ms"] != 50.0 {
		t.Errorf("defaults: %v requests, %v", w["requests"], config)
	}
	goodput := map[any]float64{}
	for _, r := range results(o) {
		goodput[r["scheduler"]] = number(t, r, "goodput_req_per_s")
	}
	comparisons := o["comparisons"].([]any)
	if len(comparisons) != 2 {
		t.Fatalf("%d comparisons of 3 schedulers", len(comparisons))
	}
	worst := 1.0
	for _, c := range comparisons {
		c := c.(map[string]any)
		worst = max(worst, number(t, c, "goodput_ratio"))
		if c["seeds"] != 10.0 || c["level"] != 0.95 {
			t.Errorf("%v seeds at level %v", c["seeds"], c["level"])
		}
		if low := number(t, c, "goodput_diff_low_req_per_s"); low <= 0 {
			t.Errorf("%v ahead of %v by %v at least, want more than 0", c["scheduler"], c["than"], low)
		}
		if goodput[c["scheduler"]] <= goodput[c["than"]] {
			t.Errorf("first seed: %v has %v, %v has %v", c["scheduler"], goodput[c["scheduler"]], c["than"], goodput[c["than"]])
		}
	}
	if worst < 1.1 {
		t.Errorf("best and worst differ by a factor of %v, want 1.1 at least", worst)
	}
}

// A whole recording runs through every scheduler, and the reference profiler
// reads the traces and prints the same figures.
func TestRecording(t *testing.T) {
	recording := shared(t, "recordings/AzureLLMInferenceTrace_conv.csv.gz")
	dir := filepath.Join(t.TempDir(), "new", "traces")
	o := object(t, "-recording", recording, "-traces", dir)
	if w := o["workload"].(map[string]any); w["requests"] != 19366.0 {
		t.Errorf("%v requests, want 19366", w["requests"])
	}
	if c := o["comparisons"].([]any); len(c) != 0 {
		t.Errorf("%d comparisons of one run each", len(c))
	}
	rs := results(o)
	if len(rs) != 3 {
		t.Fatalf("%d results", len(rs))
	}
	for _, r := range rs {
		if sum := number(t, r, "completed") + number(t, r, "rejected") + number(t, r, "unfinished"); sum != 19366 {
			t.Errorf("%v: %v requests ended, want 19366", r["scheduler"], sum)
		}
	}
	if t.Failed() {
		return
	}
	profiler := shared(t, "oracle/latency_profiler.py")
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

// shared returns the path of a file beside the repository, or skips.
func shared(t *testing.T, name string) string {
	t.Helper()
	root := os.Getenv("SERVESIM_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	path := filepath.Join(root, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no shared/%s", name)
	}
	return path
}
