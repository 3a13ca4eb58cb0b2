package workload_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/workload"
)

// atSeconds are requests at so many seconds.
func atSeconds(seconds ...float64) []sim.Request {
	var out []sim.Request
	for i, s := range seconds {
		out = append(out, sim.Request{ID: i, Arrival: sim.Time(math.Round(s * 1e9)), Prompt: 1, Output: 1})
	}
	return out
}

func mustShape(t *testing.T, requests []sim.Request) workload.Shape {
	t.Helper()
	s, err := workload.DescribeShape(workload.FromSlice(requests))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// closeTo compares figures; those that are not measured are equal.
var closeTo = cmp.Comparer(func(a, b workload.Figure) bool {
	x, y := float64(a), float64(b)
	return math.IsNaN(x) && math.IsNaN(y) || math.Abs(x-y) <= 1e-9*max(1, math.Abs(x), math.Abs(y))
})

var none = workload.Figure(math.NaN())

// Arrivals at 0, 0, 1, 3, 3, 3 and 9 s: gaps 0, 1, 2, 0, 0, 6; batches of 2, 1,
// 3, 1; nine complete windows of 1 s with 2, 1, 0, 3, 0, 0, 0, 0, 0.
func TestArrivalShape(t *testing.T) {
	empty := func(seconds int) workload.WindowShape {
		return workload.WindowShape{Seconds: seconds, IDC: none, P99: none, Max: none}
	}
	want := workload.ArrivalShape{
		MeanGap: 1.5, LongestGap: 6, ZeroGaps: .5, GapACF: -4.75 / 27.5,
		EmptySeconds: 6. / 9, CountACF1: -1. / 9, CountACF10: none, CountACF60: none,
		Batches: workload.BatchShape{Batches: 4, Mean: 1.75, IDC: 11. / 28, P99: 2.97, Max: 3, ACF: -.75},
		Windows: []workload.WindowShape{
			{Seconds: 1, Windows: 9, IDC: 5. / 3, P99: 2.92 * 1.5, Max: 4.5}, empty(10), empty(60), empty(300),
		},
	}
	for _, delay := range []float64{0, .3} {
		var times []float64
		for _, s := range []float64{0, 0, 1, 3, 3, 3, 9} {
			times = append(times, s+delay)
		}
		if diff := cmp.Diff(want, mustShape(t, atSeconds(times...)).Arrivals, closeTo); diff != "" {
			t.Errorf("delay %v (-want +got):\n%s", delay, diff)
		}
	}
}

// naiveACF is Σ(xᵢ-m)(xᵢ₊ₗ-m) / Σ(xᵢ-m)².
func naiveACF(x []float64, lag int) workload.Figure {
	mean, sum, squares := 0.0, 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for i, v := range x {
		squares += (v - mean) * (v - mean)
		if i+lag < len(x) {
			sum += (v - mean) * (x[i+lag] - mean)
		}
	}
	return workload.Figure(sum / squares)
}

// Against every window held, for arrivals with silences of all lengths.
func TestArrivalShapeNaive(t *testing.T) {
	r := rand.New(workload.Stream(1, "shape", 0))
	for trial := range 30 {
		var times, gaps []float64
		now := 0.0
		for range 50 + r.IntN(400) {
			times = append(times, now)
			gap := math.Floor(1e9*math.Pow(r.Float64(), 6)*float64(1+trial*5)) / 1e9
			if r.IntN(5) == 0 {
				gap = 0
			}
			gaps = append(gaps, gap)
			now += gap
		}
		gaps = gaps[:len(gaps)-1]
		got := mustShape(t, atSeconds(times...)).Arrivals
		span := times[len(times)-1]
		want := got
		want.GapACF = naiveACF(gaps, 1)
		for i, width := range []float64{1, 10, 60, 300} {
			counts := make([]float64, int(span/width)+1)
			for _, s := range times {
				counts[int(math.Round(s*1e9)/(width*1e9))]++
			}
			counts = counts[:len(counts)-1]
			if len(counts) == 0 {
				continue
			}
			if width == 1 {
				acf := []*workload.Figure{&want.CountACF1, &want.CountACF10, &want.CountACF60}
				for j, lag := range []int{1, 10, 60} {
					if len(counts) > lag {
						*acf[j] = naiveACF(counts, lag)
					}
				}
			}
			s := workload.Summarise(counts)
			want.Windows = slices.Clone(want.Windows)
			want.Windows[i] = workload.WindowShape{
				Seconds: int(width), Windows: len(counts), IDC: s.CV * s.CV * s.Mean, P99: s.P99 / s.Mean, Max: s.Max / s.Mean,
			}
		}
		if diff := cmp.Diff(want, got, closeTo); diff != "" {
			t.Errorf("trial %d, %d requests in %v s (-want +got):\n%s", trial, len(times), span, diff)
		}
	}
}

// Twenty prompts of two requests each: η² is 0 if the outputs of each vary as
// those of all, 1 if they are the prompt's, and 1/3 if every other prompt has
// outputs 1 and 1, the others 1 and n.
func TestJointShape(t *testing.T) {
	for _, c := range []struct {
		name    string
		outputs func(prompt int) (a, b int)
		eta     workload.Figure
	}{
		{"independent", func(int) (int, int) { return 1, 100 }, 0},
		{"equal means", func(p int) (int, int) {
			return [][2]int{{1, 100}, {10, 10}}[p%2][0], [][2]int{{1, 100}, {10, 10}}[p%2][1]
		}, 0},
		{"of the prompt", func(p int) (int, int) { return 1 + 99*(p%2), 1 + 99*(p%2) }, 1},
		{"in part", func(p int) (int, int) { return 1, 1 + 99*(p%2) }, 1. / 3},
		{"constant", func(int) (int, int) { return 7, 7 }, none},
		{"one is zero", func(p int) (int, int) { return p % 2, 5 }, none},
	} {
		var requests []sim.Request
		for p := range 20 {
			a, b := c.outputs(p)
			requests = append(requests, sim.Request{Prompt: 10 + p, Output: a}, sim.Request{Prompt: 10 + p, Output: b})
		}
		got := mustShape(t, requests).Lengths
		if !cmp.Equal(got.EtaSquared, c.eta, closeTo) {
			t.Errorf("%s: eta² %v, want %v", c.name, float64(got.EtaSquared), float64(c.eta))
		}
		if (c.name == "constant") != math.IsNaN(float64(got.Pearson)) || math.IsNaN(float64(c.eta)) != math.IsNaN(float64(got.PearsonLog)) {
			t.Errorf("%s: Pearson %v, of logarithms %v", c.name, got.Pearson, got.PearsonLog)
		}
		for i := range requests {
			requests[i].Prompt = 7
		}
		if got := mustShape(t, requests).Lengths; !math.IsNaN(float64(got.PearsonLog)) {
			t.Errorf("%s, equal prompts: Pearson of logarithms %v", c.name, got.PearsonLog)
		}
	}
	// Prompts 1, 1, 2, 4, 8 have their tenths at 1, 1, 1.2, 1.6, 2, 2.8, 3.6,
	// 4.8 and 6.4: the two of 1 are in one bin.
	requests := []sim.Request{{Prompt: 8, Output: 1}, {Prompt: 1, Output: 10}, {Prompt: 4, Output: 100}, {Prompt: 1, Output: 30}, {Prompt: 2, Output: 100}}
	want := workload.JointShape{
		OutputByDecile: []workload.Figure{20, none, none, none, 100, none, none, 100, none, 1},
		PromptMode:     1, PromptModeShare: .4, OutputMode: 100, OutputModeShare: .4, OneToken: .2,
		TokenRatio: workload.Figure(16. / 241),
	}
	got := mustShape(t, requests).Lengths
	want.Pearson, want.PearsonLog, want.EtaSquared = got.Pearson, got.PearsonLog, got.EtaSquared
	if diff := cmp.Diff(want, got, closeTo); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Logarithms of prompts and outputs are as 0, 1, 2 and 0, 2, 1: their
	// correlation is ½.
	logs := mustShape(t, []sim.Request{{Prompt: 1, Output: 1}, {Prompt: 2, Output: 100}, {Prompt: 4, Output: 10}}).Lengths
	cov := (1.*1+2*100+4*10)/3 - 7./3*111/3
	if p := cov / math.Sqrt((21./3-49./9)*(10101./3-37*37)); !cmp.Equal(logs.PearsonLog, workload.Figure(.5), closeTo) || !cmp.Equal(logs.Pearson, workload.Figure(p), closeTo) {
		t.Errorf("Pearson %v, of logarithms %v, want %v, 0.5", float64(logs.Pearson), float64(logs.PearsonLog), p)
	}
}

func TestDescribeShapeErrors(t *testing.T) {
	broken := errors.New("broken")
	if _, err := workload.DescribeShape(func(yield func(sim.Request, error) bool) { yield(sim.Request{}, broken) }); !errors.Is(err, broken) {
		t.Errorf("error of the sequence became %v", err)
	}
	for want, requests := range map[string][]sim.Request{
		"workload: request 1 arrives at 4ns, before 5ns":         {{Arrival: 5}, {ID: 1, Arrival: 4}},
		"workload: request 3 has prompt -1, output 0":            {{ID: 3, Prompt: -1}},
		"workload: request 3 has prompt 0, output 1099511627776": {{ID: 3, Output: 1 << 40}},
	} {
		if _, err := workload.DescribeShape(workload.FromSlice(requests)); errText(err) != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	got, err := json.Marshal(mustShape(t, nil))
	if err != nil || strings.Contains(string(got), "NaN") || !strings.HasPrefix(string(got), `{"arrivals":{"mean_gap_s":null,`) {
		t.Errorf("nothing is %s, %v", got, err)
	}
}

// A silence of years costs no memory.
func TestDescribeShapeSilence(t *testing.T) {
	requests := atSeconds(0, 1)
	requests = append(requests, sim.Request{ID: 2, Arrival: sim.Time(200 * 365 * 24 * time.Hour), Prompt: 1, Output: 1})
	a := mustShape(t, requests).Arrivals
	if a.Windows[0].Windows != 200*365*24*3600 || a.EmptySeconds < .999999999 {
		t.Errorf("%d windows, %v empty", a.Windows[0].Windows, float64(a.EmptySeconds))
	}
}
