package workload_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/workload"
)

// counted draws a process and counts it in slots.
func counted(t *testing.T, a workload.Arrivals, slots int, slot time.Duration) []int {
	t.Helper()
	counts := make([]int, slots)
	for at, err := range (workload.Limit{Arrivals: a, Duration: time.Duration(slots) * slot}).Times(random(3)) {
		if err != nil {
			t.Fatal(err)
		}
		counts[at.Sub(0)/slot]++
	}
	return counts
}

func TestCountArrivals(t *testing.T) {
	at := func(times ...sim.Time) (out []sim.Request) {
		for i, t := range times {
			out = append(out, sim.Request{ID: i, Arrival: t})
		}
		return out
	}
	for _, c := range []struct {
		times []sim.Time
		want  []int
	}{
		{nil, nil},
		{[]sim.Time{5}, nil},
		{[]sim.Time{100, 100, 109, 110, 145, 151}, []int{3, 1, 0, 0, 1}}, // slots of 10 from 100 on, the last is not over
	} {
		got, err := workload.CountArrivals(workload.FromSlice(at(c.times...)), 10)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%v: error %v, counts (-want +got):\n%s", c.times, err, diff)
		}
	}
	for _, c := range []struct {
		slot  time.Duration
		times []sim.Time
		want  string
	}{
		{0, at2(1), "slot of 0s"},
		{10, at2(7, 6), "request 1 arrives at 6ns, before 7ns"},
		{1, at2(0, 1<<40), "request 1 comes 1099511627776 slots"},
	} {
		if _, err := workload.CountArrivals(workload.FromSlice(at(c.times...)), c.slot); !strings.Contains(errText(err), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

func at2(times ...sim.Time) []sim.Time { return times }

// The parameters of a process that made the counts come back, within what the
// number of visits allows.
func TestFitMMPPRecovers(t *testing.T) {
	const slots = 8000
	m := workload.MMPP{
		Rates:      []float64{2, 16, 40},
		Transition: [][]float64{{.95, .04, .01}, {.1, .85, .05}, {.05, .15, .8}},
		Slot:       500 * time.Millisecond,
	}
	fit, quality, err := workload.FitMMPP(counted(t, m, slots, m.Slot), m.Slot, 3, workload.FitOptions{Starts: 2})
	if err != nil {
		t.Fatal(err)
	}
	if !quality.Converged || fit.Slot != m.Slot {
		t.Errorf("%+v, slot %v", quality, fit.Slot)
	}
	// Three rates and two free transitions a state.
	within(t, "parameters", (quality.BIC+2*quality.LogLikelihood)/math.Log(slots), 9, 1e-9, 1)
	pi, err := m.Stationary()
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Rates {
		visits := pi[i] * slots
		// Standard errors if the states were seen; they nearly are.
		within(t, fmt.Sprintf("rate %d", i), fit.Rates[i], m.Rates[i], math.Sqrt(m.Rates[i]/(visits*m.Slot.Seconds())), 4)
		for j, p := range m.Transition[i] {
			within(t, fmt.Sprintf("transition %d %d", i, j), fit.Transition[i][j], p, math.Sqrt(p*(1-p)/visits), 4.5)
		}
	}
}

// More iterations never lower the likelihood.
func TestFitMMPPClimbs(t *testing.T) {
	counts := counted(t, workload.AzureCode2023(), 600, time.Second)
	last := math.Inf(-1)
	for n := 1; n < 40; n++ {
		_, q, err := workload.FitMMPP(counts, time.Second, 3, workload.FitOptions{Starts: 1, Iterations: n})
		if err != nil {
			t.Fatal(err)
		}
		if q.LogLikelihood < last-1e-9 {
			t.Fatalf("%d iterations: likelihood %v after %v", n, q.LogLikelihood, last)
		}
		last = q.LogLikelihood
	}
}

// A level that is visited once does not vanish from the model: rate and
// variance are those of the counts.
func TestFitMMPPKeepsWhatIsSeenOnce(t *testing.T) {
	low, high := counted(t, workload.Poisson{Rate: 2}, 400, time.Second), counted(t, workload.Poisson{Rate: 12}, 200, time.Second)
	counts := append(append([]int{}, low...), high...)
	m, _, err := workload.FitMMPP(counts, time.Second, 2, workload.FitOptions{Starts: 2})
	if err != nil {
		t.Fatal(err)
	}
	sum, squares := 0.0, 0.0
	for _, c := range counts {
		sum += float64(c)
		squares += float64(c * c)
	}
	mean := sum / 600
	rate, err := m.Rate()
	if err != nil {
		t.Fatal(err)
	}
	near(t, "rate", rate, mean, 1e-9)
	pi, err := m.Stationary()
	if err != nil {
		t.Fatal(err)
	}
	near(t, "share of the low rate", pi[0], 2.0/3, 0.01)
	idc, err := m.IDC(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "IDC(1 s)", idc, (squares/600-mean*mean)/mean, 0.05)
}

// Two slots by hand. States with rates 0 and 1 are kept with probability ¾:
// the stationary law is ½, ½. Counts 0, 1 come from the states (0, 1) or
// (1, 1): ½·¼·e⁻¹ + ½·e⁻¹·¾·e⁻¹.
func TestMMPPLogLikelihood(t *testing.T) {
	m := workload.MMPP{Rates: []float64{0, 1}, Transition: [][]float64{{.75, .25}, {.25, .75}}}
	e := math.Exp(-1)
	got, err := m.LogLikelihood([]int{0, 1})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "likelihood", math.Exp(got), e/8+3*e*e/8, 1e-9)
}

// Our own fit of the recordings: as likely as the printed presets or more, and
// with four states the same burstiness.
func TestFitMMPPToRecordings(t *testing.T) {
	for _, c := range []struct {
		name   string
		preset workload.MMPP
		rates  []float64
	}{
		{"code", workload.AzureCode2023(), []float64{0, 0.28, 7.11, 22.7}},
		{"conv", workload.AzureConv2023(), []float64{1.75, 4.31, 5.52, 7.29}},
	} {
		path := shared(t, "recordings/AzureLLMInferenceTrace_"+c.name+".csv.gz")
		counts, err := workload.CountArrivals(workload.AzureCSV{Path: path}.Requests(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		fit, quality, err := workload.FitMMPP(counts, time.Second, 4, workload.FitOptions{Starts: 2})
		if err != nil {
			t.Fatal(err)
		}
		printed, err := c.preset.LogLikelihood(counts)
		if err != nil {
			t.Fatal(err)
		}
		if quality.LogLikelihood < printed {
			t.Errorf("%s: likelihood %.2f, the preset has %.2f", c.name, quality.LogLikelihood, printed)
		}
		for i, rate := range c.rates {
			if math.Abs(fit.Rates[i]-rate) > 0.01*rate+0.01 {
				t.Errorf("%s: rates %.3g, want %.3g", c.name, fit.Rates, c.rates)
				break
			}
		}
		for _, w := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
			got, err := fit.IDC(w)
			if err != nil {
				t.Fatal(err)
			}
			want, err := c.preset.IDC(w)
			if err != nil {
				t.Fatal(err)
			}
			near(t, fmt.Sprintf("%s: IDC(%v)", c.name, w), got, want, 0.04)
		}
	}
}

func TestInvalidFitMMPP(t *testing.T) {
	counts := make([]int, 100)
	counts[3] = 5
	negative := append([]int{0, -1}, counts...)
	for _, c := range []struct {
		counts  []int
		slot    time.Duration
		states  int
		options workload.FitOptions
		want    string
	}{
		{counts, 0, 2, workload.FitOptions{}, "FitMMPP: slot of 0s"},
		{counts, 1, 0, workload.FitOptions{}, "0 states"},
		{counts, 1, 4, workload.FitOptions{}, "100 slots for 4 states, want at least 160"},
		{negative, 1, 1, workload.FitOptions{}, "count 1 is -1"},
		{make([]int, 100), 1, 1, workload.FitOptions{}, "no arrivals in any slot"},
		{counts, 1, 1, workload.FitOptions{Starts: -1}, "FitOptions.Starts is -1"},
		{counts, 1, 1, workload.FitOptions{Iterations: -1}, "FitOptions.Iterations is -1"},
		{counts, 1, 1, workload.FitOptions{Tolerance: math.NaN()}, "FitOptions.Tolerance is NaN"},
	} {
		if _, _, err := workload.FitMMPP(c.counts, c.slot, c.states, c.options); !strings.Contains(errText(err), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	if _, err := (workload.MMPP{}).LogLikelihood(counts); !strings.Contains(errText(err), "no Rates") {
		t.Errorf("likelihood of nothing: %v", err)
	}
	if _, err := workload.AzureCode2023().LogLikelihood(negative); !strings.Contains(errText(err), "count 1 is -1") {
		t.Errorf("likelihood of a negative count: %v", err)
	}
}
