package workload_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/distuv"

	"servesim/workload"
)

// drawnLengths draws n lengths.
func drawnLengths(l workload.Length, n int) []int {
	r := random(1)
	out := make([]int, n)
	for i := range out {
		out[i] = l.Draw(r)
	}
	return out
}

// The parameters that made the lengths come back, also where rounding is
// coarse: a tenth of the first component is 2 tokens or less.
func TestFitLogNormalMixtureRecovers(t *testing.T) {
	const n = 20_000
	want := workload.LogNormalMixture{Weights: []float64{.4, .6}, Medians: []float64{5, 300}, Sigmas: []float64{.6, .5}}
	got, q, err := workload.FitLogNormalMixture(drawnLengths(want, n), 2, workload.Limits{}, workload.FitOptions{Starts: 2})
	if err != nil {
		t.Fatal(err)
	}
	if !q.Converged {
		t.Errorf("%+v", q)
	}
	for i, w := range want.Weights {
		root := math.Sqrt(w * n)
		within(t, fmt.Sprintf("weight %d", i), got.Weights[i], w, math.Sqrt(w*(1-w)/n), 4)
		within(t, fmt.Sprintf("log median %d", i), math.Log(got.Medians[i]), math.Log(want.Medians[i]), want.Sigmas[i]/root, 4.5)
		within(t, fmt.Sprintf("sigma %d", i), got.Sigmas[i], want.Sigmas[i], want.Sigmas[i]/root, 4.5)
	}
}

// A recording cut at a limit, and one from which short and long rows were left
// out, show the law behind them if one says so, and another if not.
func TestFitLogNormalMixtureLimits(t *testing.T) {
	const n = 40_000
	law := workload.LogNormal{Median: 150, Sigma: 1}
	cut := law
	cut.Max = 200
	var kept []int
	for _, v := range drawnLengths(law, n) {
		if v >= 60 && v <= 600 {
			kept = append(kept, v)
		}
	}
	for _, c := range []struct {
		name    string
		lengths []int
		limits  workload.Limits
	}{
		{"censored", drawnLengths(cut, n), workload.Limits{Censored: 200}},
		{"truncated", kept, workload.Limits{Range: workload.Range{Min: 60, Max: 600}}},
	} {
		fit := func(l workload.Limits) (median, sigma float64) {
			m, _, err := workload.FitLogNormalMixture(c.lengths, 1, l, workload.FitOptions{Starts: 1, Iterations: 5000, Tolerance: 1e-10})
			if err != nil {
				t.Fatal(err)
			}
			return m.Medians[0], m.Sigmas[0]
		}
		median, sigma := fit(c.limits)
		// What is not seen costs precision: some three times the standard errors
		// of whole data.
		within(t, c.name+": log median", math.Log(median), math.Log(150), 3/math.Sqrt(n), 4)
		within(t, c.name+": sigma", sigma, 1, 3/math.Sqrt(n), 4)
		if _, sigma := fit(workload.Limits{}); sigma > 0.9 {
			t.Errorf("%s, unsaid: sigma %.3f, want one that is too small", c.name, sigma)
		}
	}
}

// With a law that is not cut, MaxOutput cuts requests where one likes, and
// the recorded limit gives the recording back.
func TestCensoredFitIsCutAgain(t *testing.T) {
	recorded := drawnLengths(workload.LogNormal{Median: 300, Sigma: 0.8, Max: 500}, 20_000)
	law, _, err := workload.FitLogNormalMixture(recorded, 1, workload.Limits{Censored: 500}, workload.FitOptions{Starts: 1})
	if err != nil {
		t.Fatal(err)
	}
	law.Max = 500
	pairs := func(lengths []int) (out workload.Resample) {
		for _, v := range lengths {
			out = append(out, workload.Tokens{Prompt: 1, Output: v})
		}
		return out
	}
	again, err := workload.DrawLengths(workload.Independent{Prompt: workload.Fixed(1), Output: law}, 20_000, 9)
	if err != nil {
		t.Fatal(err)
	}
	c, err := workload.CompareLengths(pairs(recorded), again)
	if err != nil {
		t.Fatal(err)
	}
	if c.OutputKS > 0.02 {
		t.Errorf("distance %v from the recording", c.OutputKS)
	}
	near(t, "mean", float64(c.Generated.OutputMean), float64(c.Recorded.OutputMean), 0.01)
}

// pairLaw has strong dependence of both signs.
var pairLaw = workload.Mixture{Components: []workload.Component{
	{Weight: .6, MedianPrompt: 1000, MedianOutput: 200, SigmaPrompt: .5, SigmaOutput: .7, Rho: .8},
	{Weight: .4, MedianPrompt: 150, MedianOutput: 40, SigmaPrompt: .3, SigmaOutput: .4, Rho: -.6},
}}

func drawPairs(t *testing.T, l workload.Lengths, n int) workload.Resample {
	t.Helper()
	pairs, err := workload.DrawLengths(l, n, 1)
	if err != nil {
		t.Fatal(err)
	}
	return pairs
}

// recovered compares a fit with pairLaw; coarser says how much of the data is
// hidden.
func recovered(t *testing.T, name string, got workload.Mixture, n, coarser float64) {
	t.Helper()
	for i, want := range pairLaw.Components {
		c, root := got.Components[i], math.Sqrt(want.Weight*n)/coarser
		name := fmt.Sprintf("%s, component %d: ", name, i)
		within(t, name+"weight", c.Weight, want.Weight, coarser*0.5/math.Sqrt(n), 4.5)
		within(t, name+"log median prompt", math.Log(c.MedianPrompt), math.Log(want.MedianPrompt), want.SigmaPrompt/root, 4.5)
		within(t, name+"log median output", math.Log(c.MedianOutput), math.Log(want.MedianOutput), want.SigmaOutput/root, 4.5)
		within(t, name+"sigma of the prompt", c.SigmaPrompt, want.SigmaPrompt, want.SigmaPrompt/root, 4.5)
		within(t, name+"sigma of the output", c.SigmaOutput, want.SigmaOutput, want.SigmaOutput/root, 4.5)
		within(t, name+"rho", c.Rho, want.Rho, 1/root, 4.5)
	}
}

func TestFitMixtureRecovers(t *testing.T) {
	const n = 10_000
	whole := drawPairs(t, pairLaw, n)
	cut := slices.Clone(whole)
	var kept workload.Resample
	for i, p := range whole {
		cut[i] = workload.Tokens{Prompt: min(p.Prompt, 1200), Output: min(p.Output, 250)}
		if p.Prompt >= 80 && p.Prompt <= 2500 && p.Output <= 500 {
			kept = append(kept, p)
		}
	}
	for _, c := range []struct {
		name           string
		pairs          workload.Resample
		prompt, output workload.Limits
		coarser        float64
	}{
		{"whole", whole, workload.Limits{}, workload.Limits{}, 1.2},
		{"censored", cut, workload.Limits{Censored: 1200}, workload.Limits{Censored: 250}, 2},
		{"truncated", kept, workload.Limits{Range: workload.Range{Min: 80, Max: 2500}}, workload.Limits{Range: workload.Range{Max: 500}}, 2.5},
	} {
		got, _, err := workload.FitMixture(c.pairs, 2, c.prompt, c.output, workload.FitOptions{Starts: 1, Iterations: 300})
		if err != nil {
			t.Fatal(err)
		}
		recovered(t, c.name, got, n, c.coarser)
		if c.name == "whole" {
			continue
		}
		unsaid, _, err := workload.FitMixture(c.pairs, 2, workload.Limits{}, workload.Limits{}, workload.FitOptions{Starts: 1})
		if err != nil {
			t.Fatal(err)
		}
		if s := unsaid.Components[0].SigmaOutput; s > 0.65 {
			t.Errorf("%s, unsaid: sigma of the output %.3f, want one that is too small", c.name, s)
		}
	}
}

// Mass, mean and mean square of a normal variate in an interval, against
// integrals of the density: wide, narrow, far out, open.
func TestNormalBetween(t *testing.T) {
	for _, c := range [][2]float64{{-1, 2}, {0.3, 0.3004}, {-2.5, -2.497}, {2.497, 2.5}, {4, 4.01}, {-12, -11}, {6, 9}, {-0.002, 0.003}} {
		a, b := c[0], c[1]
		moment := func(n float64) float64 {
			f := func(z float64) float64 { return math.Pow(z, n) * math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) }
			return quad.Fixed(f, a, b, 60, nil, 0)
		}
		mass := moment(0)
		log, m1, m2 := workload.NormalBetween(a, b)
		what := fmt.Sprintf("[%v, %v]: ", a, b)
		near(t, what+"mass", math.Exp(log), mass, 1e-5)
		// Within the interval, in parts of its width.
		if d := math.Abs(m1-moment(1)/mass) / (b - a); d > 1e-5 {
			t.Errorf("%smean %v, want %v", what, m1, moment(1)/mass)
		}
		variance := moment(2)/mass - moment(1)/mass*moment(1)/mass
		if d := math.Abs(m2-m1*m1-variance) / (b - a) / (b - a); d > 1e-4 {
			t.Errorf("%svariance %v, want %v", what, m2-m1*m1, variance)
		}
	}
	inf := math.Inf(1)
	for _, c := range []struct{ a, b, log, m1, m2 float64 }{
		{-inf, inf, 0, 0, 1},
		{0, inf, -math.Ln2, math.Sqrt(2 / math.Pi), 1},
		{-inf, 0, -math.Ln2, -math.Sqrt(2 / math.Pi), 1},
		{100, inf, -5000 - math.Log(100*math.Sqrt(2*math.Pi)), 100, 10_000},
	} {
		log, m1, m2 := workload.NormalBetween(c.a, c.b)
		if math.Abs(log-c.log) > 1e-9 || math.Abs(m1-c.m1) > 1e-9 || math.Abs(m2-c.m2) > 1e-9 {
			t.Errorf("[%v, %v]: %v, %v, %v, want %v, %v, %v", c.a, c.b, log, m1, m2, c.log, c.m1, c.m2)
		}
	}
}

// The likelihood at the end is that of the law, given that a length is seen;
// the criterion counts weights, medians, sigmas and correlations.
func TestLengthFitLikelihoods(t *testing.T) {
	pairs := drawPairs(t, workload.Truncated{Lengths: workload.Mixture{Components: []workload.Component{
		{Weight: 1, MedianPrompt: 900, MedianOutput: 500, SigmaPrompt: .4, SigmaOutput: .5, Rho: .5},
	}}, Prompt: workload.Range{Min: 700}}, 3000)
	var prompts []int
	for _, p := range pairs {
		prompts = append(prompts, p.Prompt)
	}
	n := float64(len(pairs))
	seen := workload.Limits{Range: workload.Range{Min: 700}}
	o := workload.FitOptions{Starts: 1, Iterations: 3000, Tolerance: 1e-10}
	one, q1, err := workload.FitLogNormalMixture(prompts, 1, seen, o)
	if err != nil {
		t.Fatal(err)
	}
	two, q2, err := workload.FitMixture(pairs, 1, seen, workload.Limits{}, o)
	if err != nil {
		t.Fatal(err)
	}
	law := distuv.LogNormal{Mu: math.Log(one.Medians[0]), Sigma: one.Sigmas[0]}
	c := two.Components[0]
	margin := distuv.Normal{Mu: math.Log(c.MedianPrompt), Sigma: c.SigmaPrompt} // of the logarithm
	output := func(x float64) distuv.Normal {                                   // given that of the prompt
		z := (x - margin.Mu) / c.SigmaPrompt
		return distuv.Normal{Mu: math.Log(c.MedianOutput) + c.Rho*c.SigmaOutput*z, Sigma: c.SigmaOutput * math.Sqrt(1-c.Rho*c.Rho)}
	}
	var l1, l2 float64
	for _, p := range pairs {
		x := float64(p.Prompt)
		l1 += math.Log((law.CDF(x+0.5) - law.CDF(x-0.5)) / law.Survival(699.5))
		l2 += margin.LogProb(math.Log(x)) + output(math.Log(x)).LogProb(math.Log(float64(p.Output))) - math.Log(margin.Survival(math.Log(699.5)))
	}
	within(t, "likelihood of lengths", q1.LogLikelihood, l1, 1e-3, 1)
	within(t, "likelihood of pairs", q2.LogLikelihood, l2, 1e-2, 1)
	within(t, "parameters of a law", (q1.BIC+2*q1.LogLikelihood)/math.Log(n), 2, 1e-9, 1)
	within(t, "parameters of a law of pairs", (q2.BIC+2*q2.LogLikelihood)/math.Log(n), 5, 1e-9, 1)
	if _, q, err := workload.FitMixture(pairs, 3, seen, workload.Limits{}, workload.FitOptions{Starts: 1, Iterations: 2}); err != nil || math.Abs((q.BIC+2*q.LogLikelihood)/math.Log(n)-17) > 1e-9 {
		t.Errorf("error %v, %+v: want 17 parameters", err, q)
	}
	if _, q, err := workload.FitLogNormalMixture(prompts, 3, seen, workload.FitOptions{Starts: 1, Iterations: 2}); err != nil || math.Abs((q.BIC+2*q.LogLikelihood)/math.Log(n)-8) > 1e-9 {
		t.Errorf("error %v, %+v: want 8 parameters", err, q)
	}
}

// More iterations never lower the likelihood, whatever is hidden.
func TestLengthFitsClimb(t *testing.T) {
	pairs := drawPairs(t, workload.Truncated{Lengths: pairLaw, Prompt: workload.Range{Min: 100}}, 500)
	var prompts []int
	for i := range pairs {
		prompts = append(prompts, pairs[i].Prompt)
		pairs[i].Output = min(pairs[i].Output, 150)
	}
	from := workload.Limits{Range: workload.Range{Min: 100}}
	for name, fit := range map[string]func(o workload.FitOptions) (workload.FitQuality, error){
		"one": func(o workload.FitOptions) (workload.FitQuality, error) {
			_, q, err := workload.FitLogNormalMixture(prompts, 3, from, o)
			return q, err
		},
		"two": func(o workload.FitOptions) (workload.FitQuality, error) {
			_, q, err := workload.FitMixture(pairs, 3, from, workload.Limits{Censored: 150}, o)
			return q, err
		},
	} {
		last := math.Inf(-1)
		for n := 1; n < 40; n++ {
			q, err := fit(workload.FitOptions{Starts: 1, Iterations: n})
			if err != nil {
				t.Fatal(err)
			}
			if q.LogLikelihood < last-1e-6 {
				t.Fatalf("%s: %d iterations: likelihood %v after %v", name, n, q.LogLikelihood, last)
			}
			last = q.LogLikelihood
		}
	}
}

// Atoms end the likelihood nowhere: a component on one value keeps it.
func TestFitsOfAtoms(t *testing.T) {
	lengths := make([]int, 60)
	pairs := make(workload.Resample, 60)
	for i := range lengths {
		lengths[i] = 4096
		pairs[i] = workload.Tokens{Prompt: 4096, Output: 7}
		if i%3 == 0 {
			lengths[i] = 100 + i
			pairs[i] = workload.Tokens{Prompt: 100 + i, Output: 50 + i}
		}
	}
	one, _, err := workload.FitLogNormalMixture(lengths, 2, workload.Limits{}, workload.FitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	two, _, err := workload.FitMixture(pairs, 2, workload.Limits{}, workload.Limits{}, workload.FitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "weight of the atom", one.Weights[1], 2.0/3, 1e-3)
	near(t, "weight of the atom of pairs", two.Components[0].Weight, 2.0/3, 1e-3)
	for _, v := range drawnLengths(workload.LogNormal{Median: one.Medians[1], Sigma: one.Sigmas[1]}, 200) {
		if v != 4096 {
			t.Fatalf("the atom draws %d", v)
		}
	}
	// Pairs are taken as uniform within the rounding, which is wider than an
	// atom: neighbours are drawn too.
	two.Components = two.Components[:1]
	for _, p := range drawPairs(t, two, 200) {
		if p.Prompt < 4094 || p.Prompt > 4098 || p.Output < 5 || p.Output > 9 {
			t.Fatalf("the atom of pairs draws %+v", p)
		}
	}
}

// A mixture fitted to the conversation recording gives its margins and its
// dependence, which a fit without dependence does not.
func TestFitMixtureToConversation(t *testing.T) {
	recorded, err := workload.Observed(workload.AzureCSV{Path: shared(t, "recordings/AzureLLMInferenceTrace_conv.csv.gz")}.Requests())
	if err != nil {
		t.Fatal(err)
	}
	law, _, err := workload.FitMixture(recorded, 8, workload.Limits{}, workload.Limits{}, workload.FitOptions{Starts: 2, Tolerance: 1e-6})
	if err != nil {
		t.Fatal(err)
	}
	law.MaxPrompt, law.MaxOutput = 14050, 1000 // as recorded
	c, err := workload.CompareLengths(recorded, drawPairs(t, law, 50_000))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("distances %v and %v, recorded %+v, generated %+v", c.PromptKS, c.OutputKS, c.Recorded, c.Generated)
	if c.PromptKS > 0.04 || c.OutputKS > 0.04 {
		t.Errorf("distances %v and %v, want at most 0.04", c.PromptKS, c.OutputKS)
	}
	near(t, "mean prompt", float64(c.Generated.PromptMean), float64(c.Recorded.PromptMean), 0.01)
	near(t, "mean output", float64(c.Generated.OutputMean), float64(c.Recorded.OutputMean), 0.01)
	if d := math.Abs(float64(c.Generated.Spearman - c.Recorded.Spearman)); d > 0.03 {
		t.Errorf("Spearman %v, recorded %v", c.Generated.Spearman, c.Recorded.Spearman)
	}
	if d := math.Abs(float64(c.Generated.Eta2 - c.Recorded.Eta2)); d > 0.1 {
		t.Errorf("eta² %v, recorded %v", c.Generated.Eta2, c.Recorded.Eta2)
	}
	var prompts, outputs []int
	for _, p := range recorded {
		prompts, outputs = append(prompts, p.Prompt), append(outputs, p.Output)
	}
	margin := func(lengths []int) workload.Length {
		m, _, err := workload.FitLogNormalMixture(lengths, 5, workload.Limits{}, workload.FitOptions{Starts: 1, Iterations: 100})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	apart, err := workload.CompareLengths(recorded, drawPairs(t, workload.Independent{Prompt: margin(prompts), Output: margin(outputs)}, 50_000))
	if err != nil {
		t.Fatal(err)
	}
	if apart.PromptKS > 0.1 || apart.OutputKS > 0.1 || apart.Generated.Eta2 > 0.01 {
		t.Errorf("margins alone: %+v", apart)
	}
}

// Fits of two components to the coding recording, as printed elsewhere
// (maximum likelihood of the unrounded law).
func TestFitLogNormalMixtureToCode(t *testing.T) {
	recorded, err := workload.Observed(workload.AzureCSV{Path: shared(t, "recordings/AzureLLMInferenceTrace_code.csv.gz")}.Requests())
	if err != nil {
		t.Fatal(err)
	}
	var prompts []int
	for _, p := range recorded {
		prompts = append(prompts, p.Prompt)
	}
	got, _, err := workload.FitLogNormalMixture(prompts, 2, workload.Limits{}, workload.FitOptions{Starts: 2})
	if err != nil {
		t.Fatal(err)
	}
	want := workload.LogNormalMixture{Weights: []float64{.31, .69}, Medians: []float64{258, 2110}, Sigmas: []float64{1.32, .72}}
	for i := range want.Weights {
		near(t, "weight", got.Weights[i], want.Weights[i], 0.05)
		near(t, "median", got.Medians[i], want.Medians[i], 0.05)
		near(t, "sigma", got.Sigmas[i], want.Sigmas[i], 0.05)
	}
}

func TestInvalidLengthFits(t *testing.T) {
	lengths := drawnLengths(workload.LogNormal{Median: 100, Sigma: 1}, 100)
	for _, c := range []struct {
		lengths    []int
		components int
		limits     workload.Limits
		options    workload.FitOptions
		want       string
	}{
		{lengths, 0, workload.Limits{}, workload.FitOptions{}, "0 components"},
		{lengths, 11, workload.Limits{}, workload.FitOptions{}, "100 lengths for 11 components, want at least 110"},
		{append([]int{0}, lengths...), 1, workload.Limits{}, workload.FitOptions{}, "a length is 0, outside [1,"},
		{append([]int{9}, lengths...), 1, workload.Limits{Range: workload.Range{Min: 10}}, workload.FitOptions{}, "outside [10,"},
		{append([]int{1 << 20}, lengths...), 1, workload.Limits{Range: workload.Range{Max: 1 << 19}}, workload.FitOptions{}, "a length is 1048576"},
		{lengths, 1, workload.Limits{Range: workload.Range{Min: 3, Max: 2}}, workload.FitOptions{}, "Limits.Min is 3, above Max 2"},
		{lengths, 1, workload.Limits{Censored: -1}, workload.FitOptions{}, "Limits.Censored is -1"},
		{lengths, 1, workload.Limits{Censored: 9, Range: workload.Range{Max: 1 << 20}}, workload.FitOptions{}, "and no Max"},
		{lengths, 1, workload.Limits{}, workload.FitOptions{Starts: -1}, "FitOptions.Starts is -1"},
	} {
		if _, _, err := workload.FitLogNormalMixture(c.lengths, c.components, c.limits, c.options); !strings.Contains(errText(err), c.want) {
			t.Errorf("FitLogNormalMixture: error %v, want %q", err, c.want)
		}
		var pairs workload.Resample
		for _, v := range c.lengths {
			pairs = append(pairs, workload.Tokens{Prompt: 5, Output: v})
		}
		if _, _, err := workload.FitMixture(pairs, c.components, workload.Limits{}, c.limits, c.options); !strings.Contains(errText(err), c.want) {
			t.Errorf("FitMixture: error %v, want %q", err, c.want)
		}
	}
}
