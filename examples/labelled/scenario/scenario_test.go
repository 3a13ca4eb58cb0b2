package scenario_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/examples/labelled/scenario"
	"servesim/sim/profile"
	"servesim/sim/trace"
)

// seeds are those that the labels are checked with.
func seeds() []uint64 {
	if os.Getenv("SERVESIM_LONG") != "" {
		return []uint64{1, 2, 3, 4, 5, 6, 7, 8}
	}
	return []uint64{1, 2}
}

// run runs a scenario and returns it with its trace.
func run(t *testing.T, s scenario.Scenario, seed uint64) (scenario.Run, []byte) {
	t.Helper()
	r, err := s.Run(context.Background(), seed, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.WriteTrace(&b, false); err != nil {
		t.Fatal(err)
	}
	return r, b.Bytes()
}

// The phases of a label are the longest, by far enough for no other convention
// to see it otherwise, and every broken trace is refused with its line.
func TestLabelsHold(t *testing.T) {
	for _, s := range scenario.All() {
		for _, seed := range seeds() {
			r, text := run(t, s, seed)
			report, err := profile.Read(bytes.NewReader(text), s.Name, profile.Options{})
			switch {
			case !s.Valid:
				if err == nil || !strings.HasPrefix(err.Error(), s.Name+":") || strings.HasPrefix(err.Error(), s.Name+": ") {
					t.Errorf("%s, seed %d: got %v, want an error that names the line", s.Name, seed, err)
				}
				continue
			case err != nil:
				t.Errorf("seed %d: %v", seed, err)
				continue
			}
			means := map[string]float64{}
			for _, p := range report.Phases {
				means[p.Phase] = float64(p.MeanMs)
			}
			for _, q := range []struct{ what, want, until string }{{"TTFT", r.Truth.TTFTPhase, "stream"}, {"E2E", r.Truth.E2EPhase, ""}} {
				for phase, mean := range means {
					if phase != q.want && phase != q.until && mean > 0.85*means[q.want] {
						t.Errorf("%s, seed %d: the %s phase is %s with %.1f ms, %s has %.1f ms", s.Name, seed, q.what, q.want, means[q.want], phase, mean)
					}
				}
			}
		}
	}
}

// The reference profiler finds the same phases, accepts what is said that it does,
// and agrees with ours about every figure, to the printed digit.
func TestReferenceProfilerAgrees(t *testing.T) {
	profiler := shared(t, "oracle/latency_profiler.py")
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	directory, figures := t.TempDir(), map[string]string{}
	args := []string{"-c", `
import importlib.util, json, pathlib, sys
spec = importlib.util.spec_from_file_location("oracle", sys.argv[1])
oracle = importlib.util.module_from_spec(spec)
sys.modules["oracle"] = oracle
spec.loader.exec_module(oracle)
for path in map(pathlib.Path, sys.argv[2:]):
    try:
        r = oracle.analyse(oracle.load_jsonl(path), path.stem)
        figures = [r["p50_ttft_ms"], r["p95_ttft_ms"], r["p95_itl_ms"], r["p95_e2e_ms"], *r["phase_means_ms"].values()]
        print(json.dumps({"name": path.stem, "ttft": r["dominant_ttft_phase"], "e2e": r["dominant_e2e_phase"],
                          "figures": " ".join(f"{x:.1f}" for x in figures)}))
    except ValueError as e:
        print(json.dumps({"name": path.stem, "error": str(e)}))
`, profiler}
	for _, s := range scenario.All() {
		_, text := run(t, s, 1)
		if r, err := profile.Read(bytes.NewReader(text), s.Name, profile.Options{}); err == nil {
			list := []profile.Number{r.TTFT.P50, r.TTFT.P95, r.ITL.P95, r.E2E.P95}
			for _, p := range r.Phases {
				list = append(list, p.MeanMs)
			}
			figures[s.Name] = strings.Trim(fmt.Sprint(list), "[]")
		}
		path := filepath.Join(directory, s.Name+".jsonl")
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	out, err := exec.Command(python, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	decoder := json.NewDecoder(bytes.NewReader(out))
	for _, s := range scenario.All() {
		var got struct{ Name, TTFT, E2E, Error, Figures string }
		if err := decoder.Decode(&got); err != nil || got.Name != s.Name {
			t.Fatalf("%s: %v, %v\n%s", s.Name, got, err, out)
		}
		switch {
		case s.Valid && (got.Error != "" || got.TTFT != s.TTFT.String() || got.E2E != s.E2E.String()):
			t.Errorf("%s: the label says %v and %v, the profiler %+v", s.Name, s.TTFT, s.E2E, got)
		case !s.Valid && s.Accepted != (got.Error == ""):
			t.Errorf("%s: accepted is %t, the profiler says %q", s.Name, s.Accepted, got.Error)
		case s.Valid && got.Figures != figures[s.Name]:
			t.Errorf("%s: the profiler prints %s, ours %s", s.Name, got.Figures, figures[s.Name])
		}
	}
}

// Labels name the requests of the trace, the affected ones those of the truth,
// and their ledgers add up to the server's part of the trace.
func TestLabelsOfRequests(t *testing.T) {
	for _, s := range scenario.All() {
		r, text := run(t, s, 1)
		var ids, affected []string
		for _, l := range r.Labels {
			ids = append(ids, l.RequestID)
			if len(l.Causes) > 0 {
				affected = append(affected, l.RequestID)
				if !slices.Equal(l.Causes, s.Causes) {
					t.Errorf("%s: request %s has causes %q, want %q", s.Name, l.RequestID, l.Causes, s.Causes)
				}
			}
		}
		if d := cmp.Diff(r.Truth.Affected, append([]string{}, affected...)); d != "" {
			t.Errorf("%s: affected (-truth +labels):\n%s", s.Name, d)
		}
		if (len(s.Causes) > 0) != (len(affected) > 0) {
			t.Errorf("%s: %d requests are affected by %q", s.Name, len(affected), s.Causes)
		}
		if bytes.Contains(text, []byte("causes")) || bytes.Contains(text, []byte("ledger")) {
			t.Errorf("%s: the trace tells the truth", s.Name)
		}
		if !s.Valid {
			continue
		}
		at := map[string]int{}
		for i, e := range r.Entries {
			at[e.RequestID] = i
		}
		for i, id := range ids {
			e, ok := r.Entries[at[id]], slices.Contains(ids[:i], id)
			if _, there := at[id]; !there || ok {
				t.Fatalf("%s: label of %s without an entry, or twice", s.Name, id)
			}
			queue := e.FirstTokenServer.Sub(e.QueueEnter)
			if l := r.Labels[i].Ledger; l.ToFirst()-l.Queue.Door != queue {
				t.Errorf("%s: request %s has %v to its first token in the ledger, %v in the trace", s.Name, id, l.ToFirst()-l.Queue.Door, queue)
			}
		}
	}
}

// What is written with labels reads as both.
func TestLabelledTraces(t *testing.T) {
	for _, s := range scenario.All() {
		r, _ := run(t, s, 1)
		if !s.Valid {
			continue
		}
		var b bytes.Buffer
		if err := r.WriteTrace(&b, true); err != nil {
			t.Fatal(err)
		}
		labels := map[string]trace.Label{}
		for l, err := range trace.ReadLabels(bytes.NewReader(b.Bytes()), s.Name) {
			if err != nil {
				t.Fatal(err)
			}
			labels[l.RequestID] = l
		}
		var entries []trace.Entry
		for e, err := range (trace.Reader{In: &b, Name: s.Name}).Entries() {
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, e)
		}
		if d := cmp.Diff(r.Entries, entries); d != "" {
			t.Errorf("%s: entries (-want +got):\n%s", s.Name, d)
		}
		for _, l := range r.Labels {
			if d := cmp.Diff(l, labels[l.RequestID]); d != "" {
				t.Errorf("%s: label (-want +got):\n%s", s.Name, d)
			}
		}
	}
}

func TestSameSeedSameTrace(t *testing.T) {
	s, err := scenario.Lookup("interference")
	if err != nil {
		t.Fatal(err)
	}
	_, first := run(t, s, 7)
	if _, again := run(t, s, 7); !bytes.Equal(first, again) {
		t.Error("the same seed gives another trace")
	}
	if _, other := run(t, s, 8); bytes.Equal(first, other) {
		t.Error("another seed gives the same trace")
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	valid := 0
	for _, s := range scenario.All() {
		if seen[s.Name] || s.About == "" {
			t.Errorf("%q: twice, or without a sentence", s.Name)
		}
		seen[s.Name] = true
		if s.Valid {
			valid++
		}
	}
	if valid < 16 || len(seen) == valid {
		t.Errorf("%d valid of %d", valid, len(seen))
	}
	if _, err := scenario.Lookup("nothing"); err == nil || !strings.Contains(err.Error(), `"healthy"`) {
		t.Errorf("got %v, want the names that there are", err)
	}
}

func ExampleScenario_Run() {
	s, err := scenario.Lookup("slow_gateway")
	if err != nil {
		panic(err)
	}
	r, err := s.Run(context.Background(), 1, nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(s.About)
	fmt.Println(r.Truth.TTFTPhase, r.Truth.E2EPhase, r.Truth.Causes, len(r.Truth.Affected), "of", len(r.Entries))
	// Output:
	// One gateway process takes 200 ms for each request, which wait for it; answers are short.
	// gateway gateway [slow_gateway] 240 of 240
}

// shared returns the path of a file beside the repository, or skips.
func shared(t *testing.T, name string) string {
	t.Helper()
	root := os.Getenv("SERVESIM_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "..", "shared")
	}
	path := filepath.Join(root, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no shared/%s", name)
	}
	return path
}
