package workload_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"servesim/workload"
)

var close12 = cmpopts.EquateApprox(1e-12, 0)

// Two states with rates 0 and 2, left with probability q at the end of a slot:
// the mean rate is 1, its variance 1, its correlation k slots apart (1-2q)^k.
func twoState(q float64) workload.MMPP {
	return workload.MMPP{Rates: []float64{0, 2}, Transition: [][]float64{{1 - q, q}, {q, 1 - q}}}
}

func TestMMPPClosedForms(t *testing.T) {
	for _, c := range []struct {
		name    string
		m       workload.MMPP
		windows []time.Duration
		idc     []float64
	}{
		{"one state is Poisson", workload.MMPP{Rates: []float64{5}, Transition: [][]float64{{1}}},
			[]time.Duration{time.Second / 4, time.Second, time.Minute}, []float64{1, 1, 1}},
		{"no memory", twoState(0.5),
			[]time.Duration{time.Second / 2, time.Second, 10 * time.Second}, []float64{1.5, 2, 2}},
		// Variance of the rate summed over n slots: n=2: 2 + 2·½ = 3; n=3: 3 + 2(2·½ + ¼) = 5.5.
		{"memory", twoState(0.25),
			[]time.Duration{time.Second, 2 * time.Second, 3 * time.Second}, []float64{2, 1 + 3.0/2, 1 + 5.5/3}},
		{"slots of 2 s", workload.MMPP{Rates: []float64{0, 2}, Transition: twoState(0.25).Transition, Slot: 2 * time.Second},
			[]time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, []float64{2, 3, 1 + 2*3.0/2}},
	} {
		var got []float64
		for _, w := range c.windows {
			idc, err := c.m.IDC(w)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			got = append(got, idc)
		}
		if diff := cmp.Diff(c.idc, got, close12); diff != "" {
			t.Errorf("%s: IDC (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestMMPPStationary(t *testing.T) {
	for _, c := range []struct {
		name string
		m    workload.MMPP
		pi   []float64
		rate float64
	}{
		{"1/4 and 3/4", workload.MMPP{Rates: []float64{4, 8}, Transition: [][]float64{{.7, .3}, {.1, .9}}}, []float64{.25, .75}, 7},
		{"rows rounded to three digits", workload.MMPP{Rates: []float64{3, 6, 9},
			Transition: [][]float64{{.333, .333, .333}, {.333, .333, .333}, {.333, .333, .333}}}, []float64{1. / 3, 1. / 3, 1. / 3}, 6},
		{"a state that is left for good", workload.MMPP{Rates: []float64{100, 2}, Transition: [][]float64{{.5, .5}, {0, 1}}}, []float64{0, 1}, 2},
		{"alternating", workload.MMPP{Rates: []float64{0, 6}, Transition: [][]float64{{0, 1}, {1, 0}}}, []float64{.5, .5}, 3},
	} {
		pi, err := c.m.Stationary()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		rate, err := c.m.Rate()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(append(c.pi, c.rate), append(slices.Clone(pi), rate), close12); diff != "" {
			t.Errorf("%s: stationary law and rate (-want +got):\n%s", c.name, diff)
		}
	}
}

// A state lasts whole slots: with alternating states all arrivals fall into
// slots of one parity.
func TestMMPPStateLastsASlot(t *testing.T) {
	m := workload.MMPP{Rates: []float64{0, 20}, Transition: [][]float64{{0, 1}, {1, 0}}, Slot: 250 * time.Millisecond}
	parities := map[int64]bool{}
	for seed := range uint64(8) {
		times := first(t, 500, seed, m)
		parity := int64(times[0]) / 250e6 % 2
		parities[parity] = true
		for _, at := range times {
			if int64(at)/250e6%2 != parity {
				t.Fatalf("seed %d: arrivals at %v and %v, in slots of both states", seed, times[0], at)
			}
		}
	}
	if len(parities) != 2 {
		t.Error("all seeds start in the same state, want the stationary law")
	}
}

// Rate and IDC of a long run against the closed forms. The squared deviations
// from the known mean count are averaged, and their standard error comes from
// means of 40 batches, so that memory between windows is accounted for.
func TestMMPPAgainstSimulation(t *testing.T) {
	const seconds = 240_000
	for name, m := range map[string]workload.MMPP{"code": workload.AzureCode2023(), "conv": workload.AzureConv2023(), "two states": twoState(0.1)} {
		rate, err := m.Rate()
		if err != nil {
			t.Fatal(err)
		}
		counts := make([]float64, seconds)
		for _, at := range first(t, int(seconds*rate*1.2), 11, m) {
			if s := int(at.Seconds()); s < seconds {
				counts[s]++
			} else {
				break
			}
		}
		for _, w := range []int{1, 10, 60} {
			want, err := m.IDC(time.Duration(w) * time.Second)
			if err != nil {
				t.Fatal(err)
			}
			const batches = 40
			mean := rate * float64(w)
			var idc, total [batches]float64
			per := seconds / w / batches
			for b := range batches {
				for i := range per {
					n := 0.0
					for _, c := range counts[(b*per+i)*w:][:w] {
						n += c
					}
					idc[b] += (n - mean) * (n - mean) / mean / float64(per)
					total[b] += n / float64(per*w)
				}
			}
			got, se := batchMean(idc[:])
			within(t, fmt.Sprintf("%s: IDC(%d s)", name, w), got, want, se, 3.5)
			if se > 0.1*want {
				t.Errorf("%s: standard error %.3g of IDC(%d s) %.3g shows nothing", name, se, w, want)
			}
			got, se = batchMean(total[:])
			within(t, name+": rate", got, rate, se, 3.5)
		}
	}
}

func batchMean(x []float64) (mean, se float64) {
	n := float64(len(x))
	for _, v := range x {
		mean += v / n
	}
	for _, v := range x {
		se += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(se / (n - 1) / n)
}

func TestInvalidMMPP(t *testing.T) {
	id := [][]float64{{.5, .5}, {.5, .5}}
	for _, c := range []struct {
		m    workload.MMPP
		want string
	}{
		{workload.MMPP{}, "no Rates in MMPP"},
		{workload.MMPP{Rates: []float64{1, 2}, Transition: id[:1]}, "MMPP.Transition has 1 rows for 2 rates"},
		{workload.MMPP{Rates: []float64{1, 2}, Transition: [][]float64{{1}, {1}}}, "MMPP.Transition[0] has 1 entries for 2 rates"},
		{workload.MMPP{Rates: []float64{1, -2}, Transition: id}, "MMPP.Rates[1] is -2,"},
		{workload.MMPP{Rates: []float64{1, math.NaN()}, Transition: id}, "MMPP.Rates[1] is NaN,"},
		{workload.MMPP{Rates: []float64{math.Inf(1), 1}, Transition: id}, "MMPP.Rates[0] is +Inf,"},
		{workload.MMPP{Rates: []float64{0, 0}, Transition: id}, "MMPP.Rates are [0 0]:"},
		{workload.MMPP{Rates: []float64{3, 0}, Transition: [][]float64{{.5, .5}, {0, 1}}}, "requests stop arriving"},
		{workload.MMPP{Rates: []float64{1, 2}, Transition: [][]float64{{.5, .498}, {.5, .5}}}, "MMPP.Transition[0] sums to 0.998, want 1 ± 0.001"},
		{workload.MMPP{Rates: []float64{1, 2}, Transition: [][]float64{{.5, .5}, {1.2, -.2}}}, "MMPP.Transition[1][0] is 1.2,"},
		{workload.MMPP{Rates: []float64{1, 2}, Transition: [][]float64{{.5, .5}, {math.NaN(), 1}}}, "MMPP.Transition[1][0] is NaN,"},
		{workload.MMPP{Rates: []float64{1, 2}, Transition: [][]float64{{1, 0}, {0, 1}}}, "no single stationary law"},
		{workload.MMPP{Rates: []float64{1, 2}, Transition: id, Slot: -1}, "MMPP.Slot is -1ns,"},
	} {
		if n, err := failure(c.m); n != 0 || !strings.Contains(errText(err), c.want) {
			t.Errorf("%+v: %d arrivals, then %v, want error with %q", c.m, n, err, c.want)
		}
	}
	if _, err := twoState(.5).IDC(1500 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "window 1.5s") {
		t.Errorf("IDC of a window across slots: %v", err)
	}
}

// The presets come as near to the recordings as four states do.
func TestPresetsAgainstRecordings(t *testing.T) {
	for _, c := range []struct {
		name      string
		m         workload.MMPP
		tolerance float64
	}{
		{"code", workload.AzureCode2023(), 0.25},
		{"conv", workload.AzureConv2023(), 0.15},
	} {
		d := describe(t, c.name)
		rate, err := c.m.Rate()
		if err != nil {
			t.Fatal(err)
		}
		near(t, c.name+" rate", rate, float64(d.Rate), 0.005)
		for window, recorded := range map[time.Duration]workload.Figure{time.Second: d.IDC1, 10 * time.Second: d.IDC10, time.Minute: d.IDC60} {
			idc, err := c.m.IDC(window)
			if err != nil {
				t.Fatal(err)
			}
			near(t, fmt.Sprintf("%s IDC(%v)", c.name, window), idc, float64(recorded), c.tolerance)
		}
	}
}

// describe reads one of the two recordings.
func describe(t *testing.T, name string) workload.Description {
	t.Helper()
	path := shared(t, "recordings/AzureLLMInferenceTrace_"+name+".csv.gz")
	d, err := workload.Describe(workload.AzureCSV{Path: path}.Requests())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// near fails unless got is within a relative tolerance of want.
func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got/want-1) <= tolerance) {
		t.Errorf("%s = %.5g, want %.5g ± %.3g %%", what, got, want, 100*tolerance)
	}
}
