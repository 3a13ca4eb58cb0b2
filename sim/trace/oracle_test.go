package trace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"servesim/sim"
	"servesim/sim/trace"
)

// shared returns the path of a file beside the repository, or skips.
func shared(t *testing.T, name string) string {
	t.Helper()
	root := os.Getenv("SERVESIM_SHARED")
	if root == "" {
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				break
			}
			if dir == filepath.Dir(dir) {
				t.Skip("no go.mod above the test")
			}
			dir = filepath.Dir(dir)
		}
		root = filepath.Join(dir, "..", "shared")
	}
	path := filepath.Join(root, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no shared/%s", name)
	}
	return path
}

// profile runs the reference profiler over the file that write makes.
func profile(t *testing.T, write func(w *trace.Writer)) string {
	t.Helper()
	profiler := shared(t, "oracle/latency_profiler.py")
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	t.Parallel() // the interpreter takes its time to start
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := trace.Writer{W: file}
	write(&w)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(python, profiler, path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// The figures of the profiler's built-in case: queues of 4 to 520 ms, then the
// same service for all.
func TestReferenceProfilerReadsRecords(t *testing.T) {
	out := profile(t, func(w *trace.Writer) {
		for i, queue := range []float64{4, 8, 12, 18, 45, 90, 170, 260, 390, 520} {
			start := 1000 * float64(i+1)
			at := func(after float64) sim.Time { return ms(start + after) }
			if err := w.Write(trace.Record{RequestID: string(rune('a' + i)), PromptTokens: 2048, OutputTokens: 65,
				ClientSend: at(0), GatewayArrival: at(18), QueueEnter: at(24), PrefillStart: at(24 + queue), PrefillEnd: at(169 + queue),
				FirstTokenServer: at(180 + queue), FirstTokenClient: at(198 + queue), LastTokenClient: at(1606 + queue)}); err != nil {
				t.Fatal(err)
			}
		}
	})
	for _, want := range []string{"(10 requests)", "p50 TTFT: 265.5 ms", "p95 TTFT: 659.5 ms", "p95 ITL:  22.0 ms/token",
		"p95 E2E:  2067.5 ms", "Dominant TTFT phase: queue (151.7 ms mean)", "Dominant E2E phase: stream (1408.0 ms mean)"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// It accepts every line of a run with instants between the milliseconds.
func TestReferenceProfilerReadsARun(t *testing.T) {
	out := profile(t, func(w *trace.Writer) {
		for i := range int64(2000) {
			start := sim.Time(i * 1_234_567)
			w.Observe(sim.Event{Kind: sim.Finish, Serial: i, Time: start + 50_000_001, Prompt: 1, Output: 1 + int(i%3), Timeline: sim.Timeline{
				Arrival: start, Queued: start, Admitted: start + sim.Time(i), PrefillEnd: start + 10_000_007, FirstToken: start + 10_000_007}})
		}
	})
	if !strings.Contains(out, "(2000 requests)") || !strings.Contains(out, "p95 E2E:  50.0 ms") {
		t.Errorf("unexpected figures:\n%s", out)
	}
}
