package workload_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/workload"
)

// 20 prompts in 20 groups of one: all variance lies between the groups. Twice
// the same prompts with outputs e² times as long: half of the logarithms are
// 2 higher, which is within the groups; the variance of i·ln 2 over 20 is
// ln²2·(20²-1)/12 = 15.975, that within is 1.
func TestEta2(t *testing.T) {
	var once, twice workload.Resample
	for i := range 20 {
		once = append(once, workload.Tokens{Prompt: 10 * (i*7%20 + 1), Output: 1 << (i * 7 % 20)})
	}
	for _, p := range once {
		twice = append(twice, p, workload.Tokens{Prompt: p.Prompt, Output: int(math.Round(float64(p.Output) * math.Exp(2)))})
	}
	constant := workload.Resample{}
	for i := range 30 {
		constant = append(constant, workload.Tokens{Prompt: i + 1, Output: 9})
	}
	variance := math.Ln2 * math.Ln2 * 399 / 12
	for _, c := range []struct {
		name  string
		pairs workload.Resample
		want  float64
		tol   float64
	}{
		{"all", once, 1, 1e-12},
		{"part", twice, variance / (variance + 1), 0.002},
		{"constant output", constant, math.NaN(), 0},
		{"too few", once[:19], math.NaN(), 0},
	} {
		got, err := workload.CompareLengths(c.pairs, c.pairs)
		if err != nil {
			t.Fatal(err)
		}
		e := float64(got.Recorded.Eta2)
		if math.IsNaN(c.want) != math.IsNaN(e) || math.Abs(e-c.want) > c.tol {
			t.Errorf("%s: eta² %v, want %v", c.name, e, c.want)
		}
	}
}

// The joint structure of the recordings as published.
func TestJointLengthsOfRecordings(t *testing.T) {
	for name, want := range map[string]struct {
		requests       func() (workload.Resample, error)
		spearman, eta2 float64
	}{
		"code": {func() (workload.Resample, error) {
			return workload.Observed(workload.AzureCSV{Path: shared(t, "recordings/AzureLLMInferenceTrace_code.csv.gz")}.Requests())
		}, -0.02, 0.005},
		"conv": {func() (workload.Resample, error) {
			return workload.Observed(workload.AzureCSV{Path: shared(t, "recordings/AzureLLMInferenceTrace_conv.csv.gz")}.Requests())
		}, 0.07, 0.631},
		"Mooncake conversation": {func() (workload.Resample, error) {
			return workload.Observed(workload.Mooncake{Path: shared(t, "recordings/mooncake_fast25_conversation_trace.jsonl.gz")}.Requests())
		}, 0.07, 0.010},
		"Mooncake synthetic": {func() (workload.Resample, error) {
			return workload.Observed(workload.Mooncake{Path: shared(t, "recordings/mooncake_fast25_synthetic_trace.jsonl.gz")}.Requests())
		}, -0.52, 0.366},
	} {
		pairs, err := want.requests()
		if err != nil {
			t.Fatal(err)
		}
		c, err := workload.CompareLengths(pairs, pairs)
		if err != nil {
			t.Fatal(err)
		}
		if got := float64(c.Recorded.Spearman); math.Abs(got-want.spearman) > 0.006 {
			t.Errorf("%s: Spearman %.4f, want %.2f", name, got, want.spearman)
		}
		if got := float64(c.Recorded.Eta2); math.Abs(got-want.eta2) > 0.01 {
			t.Errorf("%s: eta² %.4f, want %.3f", name, got, want.eta2)
		}
		if c.PromptKS != 0 || c.OutputKS != 0 {
			t.Errorf("%s: distances %v and %v from itself", name, c.PromptKS, c.OutputKS)
		}
	}
}

// Distances by hand: prompts 1, 2, 2, 3 against 2, 3 differ most below 2;
// outputs 5, 5, 5, 9 against 9, 9 by ¾ between 5 and 9.
func TestCompareLengths(t *testing.T) {
	a := workload.Resample{{Prompt: 1, Output: 5}, {Prompt: 2, Output: 5}, {Prompt: 2, Output: 5}, {Prompt: 3, Output: 9}}
	b := workload.Resample{{Prompt: 3, Output: 9}, {Prompt: 2, Output: 9}}
	c, err := workload.CompareLengths(a, b)
	if err != nil {
		t.Fatal(err)
	}
	nan := workload.Figure(math.NaN())
	want := workload.LengthComparison{
		Recorded:  workload.JointLengths{Pairs: 4, PromptMean: 2, OutputMean: 6, Spearman: workload.Figure(math.Sqrt(6) / 3), Eta2: nan},
		Generated: workload.JointLengths{Pairs: 2, PromptMean: 2.5, OutputMean: 9, Spearman: nan, Eta2: nan},
		PromptKS:  0.25, OutputKS: 0.75,
	}
	if diff := cmp.Diff(fmt.Sprintf("%.9v", want), fmt.Sprintf("%.9v", c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	data, err := json.Marshal(c)
	if err != nil || !strings.Contains(string(data), `"generated":{"pairs":2,"prompt_mean":2.5,"output_mean":9,"spearman":null,"eta2":null},"prompt_ks":0.25,`) {
		t.Errorf("error %v, JSON %s", err, data)
	}
	for _, c := range []struct {
		a, b workload.Resample
		want string
	}{
		{nil, b, "recorded: no pairs"},
		{a, workload.Resample{{Prompt: 1}}, "generated: pair 0 of Resample: Tokens.Output is 0,"},
		{a, workload.Resample{{Prompt: 1 << 40, Output: 1}}, "generated: pair 0 is {Prompt:1099511627776 Output:1}"},
	} {
		if _, err := workload.CompareLengths(c.a, c.b); !strings.Contains(errText(err), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// What is drawn for a comparison is what a workload has.
func TestDrawLengths(t *testing.T) {
	got, err := workload.DrawLengths(workload.AzureConv2023Lengths(), 200, 6)
	if err != nil {
		t.Fatal(err)
	}
	w := workload.Workload{Seed: 6, Arrivals: workload.Poisson{Rate: 1}, Mix: []workload.Share{{Lengths: workload.AzureConv2023Lengths()}}}
	want, err := workload.Observed(workload.Take(w.Requests(), 200))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	if _, err := workload.DrawLengths(nil, 1, 0); !strings.Contains(errText(err), "Lengths is nil") {
		t.Errorf("error %v", err)
	}
	zero := drawn(func(*rand.Rand) workload.Tokens { return workload.Tokens{Prompt: 1} })
	if _, err := workload.DrawLengths(zero, 3, 0); !strings.Contains(errText(err), "draw 0: Tokens.Output is 0,") {
		t.Errorf("error %v", err)
	}
}

func TestObservedByClass(t *testing.T) {
	requests := []sim.Request{{Class: 1, Prompt: 1, Output: 2}, {Class: 0, Prompt: 3, Output: 4}, {Class: 1, Prompt: 5, Output: 6}}
	got, err := workload.ObservedByClass(workload.FromSlice(requests), 3)
	want := []workload.Resample{{{Prompt: 3, Output: 4}}, {{Prompt: 1, Output: 2}, {Prompt: 5, Output: 6}}, nil}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	if _, err := workload.ObservedByClass(workload.FromSlice(requests), 1); !strings.Contains(errText(err), "request 0 has class 1 of 1") {
		t.Errorf("error %v", err)
	}
}

// The components as classes have the law of the mixture, and each request
// tells its component.
func TestMixtureShares(t *testing.T) {
	const n = 20_000
	m := workload.AzureConv2023Lengths()
	w := workload.Workload{Seed: 1, Arrivals: workload.Constant{Rate: 1}, Mix: m.Shares()}
	requests := collect(t, workload.Take(w.Requests(), n))
	asClasses, err := workload.Observed(workload.FromSlice(requests))
	if err != nil {
		t.Fatal(err)
	}
	c, err := workload.CompareLengths(drawPairs(t, m, n), asClasses)
	if err != nil {
		t.Fatal(err)
	}
	if limit := workload.Figure(1.95 * math.Sqrt(2.0/n)); c.PromptKS > limit || c.OutputKS > limit {
		t.Errorf("distances %v and %v, limit %v", c.PromptKS, c.OutputKS, limit)
	}
	byClass, err := workload.ObservedByClass(workload.FromSlice(requests), len(m.Components))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range m.Components[:2] { // narrow ones
		prompts := sortedBy(byClass[i], func(t workload.Tokens) int { return t.Prompt })
		near(t, "median prompt of a class", float64(prompts[len(prompts)/2]), c.MedianPrompt, 0.02)
		near(t, "share of a class", float64(len(prompts))/n, c.Weight/0.998, 0.05)
	}
}

func TestEmpirical(t *testing.T) {
	const n = 40_000
	e := workload.Empirical{Values: []int{3, 7, 100}, Weights: []float64{1, 0, 3}}
	counts := map[int]float64{}
	for _, v := range drawnLengths(e, n) {
		counts[v]++
	}
	if len(counts) != 2 || counts[3]+counts[100] != n {
		t.Fatalf("draws %v, want only 3 and 100", counts)
	}
	within(t, "share of 3", counts[3]/n, 0.25, math.Sqrt(0.1875/n), 4)
}

// The law inside the bounds keeps its shape: a quantile of what is left is
// that of the law between the bounds.
func TestTruncated(t *testing.T) {
	const n = 20_000
	law := workload.Independent{Prompt: workload.LogNormal{Median: 100, Sigma: 1}, Output: workload.LogNormal{Median: 50, Sigma: 1}}
	all := drawPairs(t, law, 4*n)
	bounds := workload.Truncated{Lengths: law, Prompt: workload.Range{Min: 50}, Output: workload.Range{Max: 120}, MaxTotal: 400}
	var kept workload.Resample
	for _, p := range all {
		if p.Prompt >= 50 && p.Output <= 120 && p.Prompt+p.Output <= 400 {
			kept = append(kept, p)
		}
	}
	drawn := drawPairs(t, bounds, n)
	for _, p := range drawn {
		if p.Prompt < 50 || p.Output > 120 || p.Prompt+p.Output > 400 {
			t.Fatalf("drew %+v", p)
		}
	}
	c, err := workload.CompareLengths(kept, drawn)
	if err != nil {
		t.Fatal(err)
	}
	if limit := workload.Figure(1.95 * math.Sqrt(1.0/n+1/float64(len(kept)))); c.PromptKS > limit || c.OutputKS > limit {
		t.Errorf("distances %v and %v, limit %v", c.PromptKS, c.OutputKS, limit)
	}
	impossible := workload.Truncated{Lengths: workload.Tokens{Prompt: 10, Output: 10}, Prompt: workload.Range{Min: 11}}
	if _, err := workload.DrawLengths(impossible, 1, 0); !strings.Contains(errText(err), "draw 0: Tokens.Prompt is 0,") {
		t.Errorf("error %v", err)
	}
}
