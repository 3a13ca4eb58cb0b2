package profile_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/profile"
	"servesim/sim/trace"
	"servesim/workload"
)

// driver runs the reference profiler over many files in one interpreter, which
// takes its time to start. A record separator stands behind each report.
const driver = `
import importlib.util, pathlib, sys
spec = importlib.util.spec_from_file_location("reference", sys.argv[1])
m = importlib.util.module_from_spec(spec)
sys.modules["reference"] = m
spec.loader.exec_module(m)
for p in map(pathlib.Path, sys.argv[2:]):
    try:
        m.print_report(m.analyse(m.load_jsonl(p), p.name))
    except Exception as e:
        print("refused:", e)
    print("\x1e", end="")
`

// reference runs the reference profiler over texts by name.
func reference(t *testing.T, texts map[string]string) map[string]string {
	t.Helper()
	profiler := shared(t, "oracle/latency_profiler.py")
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	t.Parallel()
	dir := t.TempDir()
	args := []string{"-c", driver, profiler}
	var names []string
	for name, text := range texts {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
		names = append(names, name)
	}
	out, err := exec.Command(python, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	reports := strings.Split(string(out), "\x1e")
	if len(reports) != len(names)+1 {
		t.Fatalf("%d reports of %d files:\n%s", len(reports)-1, len(names), out)
	}
	found := map[string]string{}
	for i, name := range names {
		found[name] = reports[i]
	}
	return found
}

// figures are the lines of a reference report that state figures, rebuilt from
// ours.
func figures(r *profile.Report) string {
	shape := fmt.Sprintf("input p50/p95 %.0f/%.0f | output p50/p95 %.0f/%.0f tokens", r.Prompt.P50, r.Prompt.P95, r.Output.P50, r.Output.P95)
	if !strings.Contains(r.Coordinates.Shape, "p95") {
		shape = fmt.Sprintf("%.0f input / %.0f output tokens", r.Prompt.P50, r.Output.P50)
	}
	itl := fmt.Sprintf("%.1f", r.ITL.P95)
	if !r.ITL.P95.Defined() {
		itl = "nan"
	}
	return fmt.Sprintf("%d requests\n%s\n%.1f\n%.1f\n%s\n%.1f\n%s %.1f\n%s %.1f\n", r.Requests, shape, r.TTFT.P50, r.TTFT.P95, itl, r.E2E.P95,
		r.DominantTTFT.Phase, r.DominantTTFT.MeanMs, r.DominantE2E.Phase, r.DominantE2E.MeanMs)
}

var referenceFigures = regexp.MustCompile(`(?s)\((\d+ requests)\).* \| trace replay \| (.*)\np50 TTFT: (\S+) ms\np95 TTFT: (\S+) ms\n` +
	`p95 ITL:  (\S+) ms/token\np95 E2E:  (\S+) ms\nDominant TTFT phase: (\S+) \((\S+) ms mean\).*Dominant E2E phase: (\S+) \((\S+) ms mean\)`)

func figuresOf(reference string) string {
	m := referenceFigures.FindStringSubmatch(reference)
	if m == nil {
		return reference
	}
	return fmt.Sprintf("%s\n%s\n%s\n%s\n%s\n%s\n%s %s\n%s %s\n", m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8], m[9], m[10])
}

// lines writes records as a file.
func lines(records []trace.Record) string {
	var b []byte
	for _, r := range records {
		b = append(r.AppendJSON(b), '\n')
	}
	return string(b)
}

// ours writes what a run of the engine emits.
func ours(t *testing.T, policy sim.Scheduler, seed uint64, step time.Duration) string {
	t.Helper()
	load := workload.Workload{Seed: seed, Arrivals: workload.Limit{Arrivals: workload.Gamma{Rate: 12, CV: 3}, Count: 400},
		Mix: []workload.Share{{Lengths: workload.AzureCode2023Lengths()}}}
	var b bytes.Buffer
	w := &trace.Writer{W: &b}
	cost := sim.CostFunc(func(b sim.Batch) time.Duration {
		return step + time.Duration(b.PrefillTokens())*37*time.Microsecond + time.Duration(b.Decodes)*11*time.Microsecond
	})
	cfg := sim.Config{Classes: load.Classes(), Observers: []sim.Observer{w},
		Replicas: []sim.Replica{{Scheduler: policy, CostModel: cost, KVBlocks: 3000, BlockTokens: 16, MaxBatchTokens: 16384, MaxModelLen: 16384}}}
	if _, err := sim.Run(context.Background(), cfg, load.Requests()); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Every figure agrees to the printed digits, for runs of the engine, and for
// random records whose figures often lie on the edge of rounding.
func TestAgreesWithTheReference(t *testing.T) {
	texts := map[string]string{
		"burst":      lines(burst()),
		"one":        lines(burst()[:1]),
		"one-token":  lines([]trace.Record{record("a", 7, 1, 0.25, 1, 2, 3, 4, 5, 6, 0)}),
		"some-gaps":  lines([]trace.Record{record("a", 7, 1, 0, 1, 2, 3, 4, 5, 6, 7), record("b", 9, 2, 5, 1, 2, 3, 4, 5, 6, 9.35)}),
		"negative":   lines([]trace.Record{record("a", 7, 3, -1e6-0.35, 1, 2, 3, 4, 5, 6, 7), record("b", 8, 3, -3, 1, 2, 3, 4, 5, 6, 7)}),
		"all-equal":  lines([]trace.Record{record("a", 1, 1, 3, 0, 0, 0, 0, 0, 0, 0)}),
		"blank-crlf": "\r\n \t\n" + strings.ReplaceAll(lines(burst()[:3]), "\n", "\r\n\r\n"),
	}
	for seed := range uint64(2) {
		for name, policy := range map[string]func() sim.Scheduler{
			"continuous": func() sim.Scheduler { return scheduler.Continuous{} },
			"chunked":    func() sim.Scheduler { return scheduler.ChunkedPrefill{} },
			"batch":      func() sim.Scheduler { return &scheduler.RequestBatch{} },
		} {
			texts[fmt.Sprintf("%s-%d", name, seed)] = ours(t, policy(), seed, 7*ms)
			texts[fmt.Sprintf("%s-%d-odd", name, seed)] = ours(t, policy(), seed, 7_123_457)
		}
	}
	detailed := trace.Entry{Record: record("a", 7, 2, 0, 1, 2, 3, 4, 5, 6, 7), Details: trace.Details{Class: "chat", ClockError: 1, HasCached: true}}
	detailed.Details.ClientTokens = []sim.Time{detailed.FirstTokenClient, detailed.LastTokenClient}
	texts["detailed"] = string(detailed.AppendJSON(nil)) + "\n"
	for i := range uint64(200) {
		texts[fmt.Sprintf("random-%03d", i)] = lines(random(i))
	}
	for name, want := range reference(t, texts) {
		got, err := profile.Read(strings.NewReader(texts[name]), name, profile.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(figuresOf(want), figures(&got)); d != "" {
			t.Errorf("%s (-reference +got):\n%s", name, d)
		}
		// What is printed are these figures.
		printed := text(t, &got)
		for _, d := range []profile.Dominant{got.DominantTTFT, got.DominantE2E} {
			if line := fmt.Sprintf("dominated by %s: %.1f ms mean", d.Phase, d.MeanMs); !strings.Contains(printed, line) {
				t.Errorf("%s: no %q in\n%s", name, line, printed)
			}
		}
	}
}

// random makes records of one resolution: whole milliseconds, twentieths, on
// whose sums .1f is a coin toss, or nanoseconds; near 0, far behind it, or at
// today's distance from 1970.
func random(seed uint64) (records []trace.Record) {
	r := rand.New(rand.NewPCG(seed, 1))
	unit := []float64{1, 0.05, 0.25, 1e-6}[r.IntN(4)]
	origin := []sim.Time{0, -sim.Time(time.Hour), 1_700_000_000_000_000_000, sim.Time(1) << 53}[r.IntN(4)]
	most := 1 + r.IntN(400)
	for i := range 1 + r.IntN(60) {
		phases := make([]float64, 7)
		for k := range phases {
			if r.IntN(8) > 0 {
				phases[k] = float64(r.IntN(most)) * unit
			}
		}
		rec := record(fmt.Sprint(i), 1+r.IntN(3000), 1+r.IntN(1+r.IntN(300)), float64(r.IntN(100_000))*unit, phases...)
		for _, t := range instants(&rec) {
			*t += origin
		}
		records = append(records, rec)
	}
	return records
}

// What the reference refuses is refused here, and so is what it lets pass; the
// error names file, line and field.
func TestRefusals(t *testing.T) {
	good := strings.TrimSpace(lines(burst()[:1]))
	edit := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(good) }
	cases := []struct {
		name, text, want string
		passes           bool // the reference accepts it
	}{
		{"empty", "", "at least one trace is required", false},
		{"blank", "\n \r\n", "at least one trace is required", false},
		{"order", "\n" + edit(`1024`, `1010`), ":2: queue_enter_ms 1010 is before gateway_arrival_ms 1018", false},
		{"missing", edit(`"prefill_start_ms":1028,`, "", `"request_id":"burst-01",`, ""), ":1: missing fields: request_id, prefill_start_ms", false},
		{"counts first", edit(`:65`, `:0`, `1024`, `1010`), ":1: output_tokens is 0", false},
		{"cut", good + "\n" + good[:60], ":2: ", false},
		{"number as id", edit(`"burst-01"`, `17`), ":1: request_id is 17, want a string", true},
		{"NaN", edit(`1024`, `NaN`), ":1: queue_enter_ms is NaN", true},
		{"infinity", edit(`2610`, `Infinity`), ":1: last_token_client_ms is Infinity", true},
		{"fractional count", edit(`:65`, `:65.5`), ":1: output_tokens is 65.5", true},
		{"boolean count", edit(`:65`, `:true`), ":1: output_tokens is true", true},
		{"id twice", good + "\n\n" + good, `:3: request_id "burst-01" is that of line 1`, true},
		{"key twice", edit(`{`, `{"prompt_tokens":1,`), ":1: field prompt_tokens stands twice", true},
		{"all times as text", regexp.MustCompile(`_ms":(\d+)`).ReplaceAllString(good, `_ms":"$1"`), `:1: client_send_ms is "1000", want a number`, false},
		{"bad UTF-8", edit("burst-01", "b\xff"), ":1: byte ", false},
	}
	texts := map[string]string{}
	for _, c := range cases {
		texts[c.name] = c.text
		_, err := profile.Read(strings.NewReader(c.text), "trace.jsonl", profile.Options{})
		if err == nil || !strings.HasPrefix(err.Error(), "trace.jsonl") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
	}
	found := reference(t, texts)
	for _, c := range cases {
		if refused := strings.HasPrefix(found[c.name], "refused:"); refused == c.passes {
			t.Errorf("%s: the reference says\n%s", c.name, found[c.name])
		}
	}
}
