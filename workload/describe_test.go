package workload_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/workload"
)

var closeFigures = cmp.Comparer(func(a, b workload.Figure) bool {
	return math.Abs(float64(a-b)) <= 1e-12*max(math.Abs(float64(a)), math.Abs(float64(b)))
})

// pairs are requests one second apart.
func pairs(lengths ...workload.Tokens) []sim.Request {
	var out []sim.Request
	for i, l := range lengths {
		out = append(out, sim.Request{ID: i, Arrival: sim.Time(i) * 1e9, Prompt: l.Prompt, Output: l.Output})
	}
	return out
}

func mustDescribe(t *testing.T, requests iter.Seq2[sim.Request, error]) workload.Description {
	t.Helper()
	d, err := workload.Describe(requests)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Two arrivals at 0, 2, …, 20 s: windows of 1 s hold 2, 0, 2, 0, …, so mean
// and variance are 1. Of the 21 gaps 11 are 0 and 10 are 2 s: mean 20/21,
// variance 440/441. There are 20 windows of 1 s, but 2 of 10 s. A delay of all
// changes nothing.
func TestDescribeArrivals(t *testing.T) {
	for _, delay := range []time.Duration{0, 300 * time.Millisecond} {
		w := workload.Workload{
			Arrivals: workload.Limit{Arrivals: workload.Shift{Arrivals: workload.Bursts{Size: 2, Every: 2 * time.Second}, By: delay}, Count: 22},
			Mix:      []workload.Share{{Lengths: workload.Tokens{Prompt: 1, Output: 1}}},
		}
		d := mustDescribe(t, w.Requests())
		nan := math.NaN()
		want := []float64{22, 20, 1.1, math.Sqrt(440) / 20, 1, nan, nan, nan}
		got := []float64{float64(d.Requests), float64(d.Span), float64(d.Rate), float64(d.GapCV), float64(d.IDC1),
			float64(d.IDC10), float64(d.IDC60), float64(d.Spearman)}
		for i := range want {
			if math.IsNaN(want[i]) != math.IsNaN(got[i]) || math.Abs(want[i]-got[i]) > 1e-12 {
				t.Errorf("delay %v: figure %d is %v, want %v", delay, i, got[i], want[i])
			}
		}
	}
}

// Ten windows are the fewest that give a figure: counts 1 but for 11 in the
// last make mean 2, variance 9.
func TestDescribeFewWindows(t *testing.T) {
	var requests []sim.Request
	for i := range 10 {
		requests = append(requests, sim.Request{Arrival: sim.Time(i) * 1e9, Prompt: 1, Output: 1})
	}
	for range 10 {
		requests = append(requests, sim.Request{Arrival: 9_999_999_999, Prompt: 1, Output: 1})
	}
	if d := mustDescribe(t, workload.FromSlice(requests)); !math.IsNaN(float64(d.IDC1)) {
		t.Errorf("IDC of 9 complete windows is %v, want none", d.IDC1)
	}
	requests = append(requests, sim.Request{Arrival: 10_000_000_000, Prompt: 1, Output: 1})
	if d := mustDescribe(t, workload.FromSlice(requests)); math.Abs(float64(d.IDC1)-4.5) > 1e-12 {
		t.Errorf("IDC is %v, want 4.5", float64(d.IDC1))
	}
}

func TestDescribeLengths(t *testing.T) {
	d := mustDescribe(t, workload.FromSlice(pairs(
		workload.Tokens{Prompt: 10, Output: 5}, workload.Tokens{Prompt: 10, Output: 5}, workload.Tokens{Prompt: 19, Output: 5},
		workload.Tokens{Prompt: 15, Output: 5}, workload.Tokens{Prompt: 42, Output: 5})))
	want := workload.Summary{Mean: 19.2, CV: workload.Figure(math.Sqrt(141.36) / 19.2), Min: 10, P5: 10, P25: 10, P50: 15, P75: 19,
		P90: 32.8, P95: 37.4, P99: 41.08, P999: 41.908, Max: 42}
	if diff := cmp.Diff(want, d.Prompt, closeFigures); diff != "" {
		t.Errorf("prompt (-want +got):\n%s", diff)
	}
	want = workload.Summary{Mean: 5, Min: 5, P5: 5, P25: 5, P50: 5, P75: 5, P90: 5, P95: 5, P99: 5, P999: 5, Max: 5}
	if diff := cmp.Diff(want, d.Output, closeFigures); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if !math.IsNaN(float64(d.Spearman)) {
		t.Errorf("rank correlation with a constant is %v, want none", d.Spearman)
	}
}

// Ranks of the outputs are 1, 2, 3½, 5, 3½: covariance 8, variances 10 and 9½.
func TestDescribeSpearman(t *testing.T) {
	up := pairs(workload.Tokens{Prompt: 1, Output: 5}, workload.Tokens{Prompt: 2, Output: 6}, workload.Tokens{Prompt: 30, Output: 7},
		workload.Tokens{Prompt: 400, Output: 8000}, workload.Tokens{Prompt: 5000, Output: 7})
	if got, want := float64(mustDescribe(t, workload.FromSlice(up)).Spearman), 8/math.Sqrt(95); math.Abs(got-want) > 1e-12 {
		t.Errorf("Spearman %v, want %v", got, want)
	}
}

func TestDescribeJSON(t *testing.T) {
	got, err := json.Marshal(mustDescribe(t, workload.FromSlice(nil)))
	if err != nil {
		t.Fatal(err)
	}
	lengths := func(side string) string {
		var b strings.Builder
		for _, f := range strings.Fields("mean cv min p5 p25 p50 p75 p90 p95 p99 p99_9 max") {
			fmt.Fprintf(&b, `,"%s_%s":null`, side, f)
		}
		return b.String()
	}
	want := `{"requests":0,"span_s":null,"rate_per_s":null,"gap_cv":null,"idc_1s":null,"idc_10s":null,"idc_60s":null,` +
		`"prompt_output_spearman":null` + lengths("prompt") + lengths("output") + `}`
	if string(got) != want {
		t.Errorf("JSON of nothing:\n%s\nwant\n%s", got, want)
	}
	got, err = json.Marshal(mustDescribe(t, workload.FromSlice(pairs(workload.Tokens{Prompt: 7, Output: 9}, workload.Tokens{Prompt: 8, Output: 10}))))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`{"requests":2,"span_s":1,"rate_per_s":2,"gap_cv":null,"idc_1s":null,`, `"prompt_p50":7.5,`, `"output_max":10}`} {
		if !strings.Contains(string(got), part) {
			t.Errorf("JSON %s lacks %s", got, part)
		}
	}
}

func TestFigureString(t *testing.T) {
	for f, want := range map[workload.Figure]string{13.15129: "13.15", 2.5666: "2.567", 0: "0"} {
		if got := f.String(); got != want {
			t.Errorf("%v is printed as %q, want %q", float64(f), got, want)
		}
	}
	if got := workload.Figure(math.NaN()).String(); got != "–" {
		t.Errorf("not measured is printed as %q", got)
	}
}

func TestDescribeErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		requests iter.Seq2[sim.Request, error]
		want     string
	}{
		{func(yield func(sim.Request, error) bool) { yield(sim.Request{}, broken) }, "broken"},
		{workload.FromSlice([]sim.Request{{Arrival: 5}, {ID: 1, Arrival: 4}}), "request 1 arrives at 4ns, before 5ns"},
		{workload.FromSlice([]sim.Request{{ID: 3, Prompt: -1}}), "request 3 has prompt -1, output 0"},
		{workload.FromSlice([]sim.Request{{ID: 3, Output: 1 << 40}}), "request 3 has prompt 0, output 1099511627776"},
	} {
		if _, err := workload.Describe(c.requests); !strings.Contains(errText(err), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// Poisson arrivals have CV 1 and IDC 1 at every width; the standard error of
// an IDC of n independent windows is √(2/n).
func TestDescribePoisson(t *testing.T) {
	const n = 300_000
	w := workload.Workload{
		Seed:     4,
		Arrivals: workload.Limit{Arrivals: workload.Poisson{Rate: 5}, Count: n},
		Mix:      []workload.Share{{Lengths: workload.Tokens{Prompt: 1, Output: 1}}},
	}
	d := mustDescribe(t, w.Requests())
	within(t, "rate", float64(d.Rate), 5, 5/math.Sqrt(n), 4)
	within(t, "CV", float64(d.GapCV), 1, 1/math.Sqrt(n), 4)
	within(t, "IDC(1 s)", float64(d.IDC1), 1, math.Sqrt(2/(n/5.0)), 4)
	within(t, "IDC(10 s)", float64(d.IDC10), 1, math.Sqrt(2/(n/50.0)), 4)
	within(t, "IDC(60 s)", float64(d.IDC60), 1, math.Sqrt(2/(n/300.0)), 4)
}

// The figures published with the recordings, to the digits printed there.
func TestDescribeRecordings(t *testing.T) {
	for name, want := range map[string]string{
		"code": "8819 rows, 3436 s, 2.567/s, CV 13.15, IDC 13.2 71.6 164, Spearman -0.02, " +
			"prompt 2048 0.96 3 75 578 1469 5188 7303 7436 7437 7437, output 27.9 2.15 6 6 9 13 55 90 251 825 1899",
		"conv": "19366 rows, 3502 s, 5.530/s, CV 1.094, IDC 1.39 3.86 16.1, Spearman 0.07, " +
			"prompt 1155 0.96 2 181 396 1020 2734 4083 4142 6179 14050, output 211.1 0.77 7 41 85 129 424 451 601 954 1000",
	} {
		d := describe(t, name)
		got := fmt.Sprintf("%d rows, %.0f s, %.3f/s, CV %.4g, IDC %.3g %.3g %.3g, Spearman %.2f, prompt %.0f %s, output %.1f %s",
			d.Requests, d.Span, d.Rate, d.GapCV, d.IDC1, d.IDC10, d.IDC60, d.Spearman,
			d.Prompt.Mean, percentiles(d.Prompt), d.Output.Mean, percentiles(d.Output))
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

func percentiles(s workload.Summary) string {
	return fmt.Sprintf("%.2f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f",
		s.CV, s.Min, s.P5, s.P25, s.P50, s.P90, s.P95, s.P99, s.P999, s.Max)
}
