package workload_test

import (
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/stat/distuv"

	"servesim/sim"
	"servesim/workload"
)

func random(seed uint64) *rand.Rand { return rand.New(workload.Stream(seed, "test", 0)) }

func TestConstantLengths(t *testing.T) {
	for _, l := range []workload.Lengths{
		workload.Tokens{Prompt: 512, Output: 128},
		workload.Independent{Prompt: workload.Fixed(512), Output: workload.Fixed(128)},
		workload.Independent{Prompt: workload.LogNormal{Median: 512}, Output: workload.LogNormal{Median: 3, Min: 128}},
		workload.Mixture{Components: []workload.Component{{Weight: 1, MedianPrompt: 511.6, MedianOutput: 500}}, MaxOutput: 128},
		workload.Resample{{Prompt: 512, Output: 128}},
	} {
		if got := l.Draw(random(1)); got != (workload.Tokens{Prompt: 512, Output: 128}) {
			t.Errorf("%+v drew %+v, want 512 and 128", l, got)
		}
	}
}

// A log-normal length against the law: the share at each bound is the
// probability beyond it, and quantiles inside are the law's.
func TestLogNormalClips(t *testing.T) {
	const n = 100_000
	l := workload.LogNormal{Median: 1000, Sigma: 1, Min: 200, Max: 3000}
	r := random(1)
	draws := make([]float64, n)
	var low, high float64
	for i := range draws {
		draws[i] = float64(l.Draw(r))
		if draws[i] < 200 || draws[i] > 3000 {
			t.Fatalf("drew %v, outside [200, 3000]", draws[i])
		}
		if draws[i] == 200 {
			low++
		}
		if draws[i] == 3000 {
			high++
		}
	}
	law := distuv.LogNormal{Mu: math.Log(1000), Sigma: 1}
	for _, c := range []struct {
		what      string
		got, want float64
	}{{"share at Min", low / n, law.CDF(200.5)}, {"share at Max", high / n, 1 - law.CDF(2999.5)}} {
		within(t, c.what, c.got, c.want, math.Sqrt(c.want*(1-c.want)/n), 4)
	}
	slices.Sort(draws)
	for _, p := range []float64{0.1, 0.25, 0.5, 0.75, 0.85} {
		x := law.Quantile(p)
		within(t, "quantile", draws[int(p*n)], x, math.Sqrt(p*(1-p)/n)/law.Prob(x)+0.5, 4)
	}
}

func TestLogNormalMixtureWeights(t *testing.T) {
	const n = 50_000
	l := workload.LogNormalMixture{Weights: []float64{3, 0, 1}, Medians: []float64{10, 100, 1000}, Sigmas: []float64{0, 0, 0}}
	counts := map[int]float64{}
	r := random(1)
	for range n {
		counts[l.Draw(r)]++
	}
	if len(counts) != 2 || counts[10]+counts[1000] != n {
		t.Fatalf("draws %v, want only 10 and 1000", counts)
	}
	within(t, "share of 10", counts[10]/n, 0.75, math.Sqrt(0.75*0.25/n), 4)
}

// Means, deviations and correlation of the logarithms of one component.
func TestMixtureComponent(t *testing.T) {
	const n = 50_000
	m := workload.Mixture{Components: []workload.Component{
		{Weight: 2, MedianPrompt: 1e6, MedianOutput: 1e5, SigmaPrompt: 0.5, SigmaOutput: 0.8, Rho: -0.6},
	}}
	r := random(1)
	var sx, sy, sxx, syy, sxy float64
	for range n {
		d := m.Draw(r)
		x, y := math.Log(float64(d.Prompt)/1e6)/0.5, math.Log(float64(d.Output)/1e5)/0.8
		sx, sy, sxx, syy, sxy = sx+x, sy+y, sxx+x*x, syy+y*y, sxy+x*y
	}
	root := math.Sqrt(n)
	within(t, "mean of x", sx/n, 0, 1/root, 4)
	within(t, "mean of y", sy/n, 0, 1/root, 4)
	within(t, "variance of x", sxx/n, 1, math.Sqrt2/root, 4)
	within(t, "variance of y", syy/n, 1, math.Sqrt2/root, 4)
	within(t, "correlation", sxy/n, -0.6, math.Sqrt(1+0.36)/root, 4)
}

func TestResampleKeepsPairs(t *testing.T) {
	observed := workload.Resample{{Prompt: 1, Output: 100}, {Prompt: 2, Output: 50}, {Prompt: 2, Output: 50}, {Prompt: 3, Output: 7}}
	const n = 40_000
	counts := map[workload.Tokens]float64{}
	r := random(1)
	for range n {
		counts[observed.Draw(r)]++
	}
	if len(counts) != 3 {
		t.Errorf("pairs drawn: %v", counts)
	}
	for pair, p := range map[workload.Tokens]float64{{Prompt: 1, Output: 100}: .25, {Prompt: 2, Output: 50}: .5, {Prompt: 3, Output: 7}: .25} {
		within(t, "share of a pair", counts[pair]/n, p, math.Sqrt(p*(1-p)/n), 4)
	}
}

func TestObserved(t *testing.T) {
	got, err := workload.Observed(workload.FromSlice([]sim.Request{{Prompt: 5, Output: 6}, {Prompt: 7, Output: 8}}))
	if diff := cmp.Diff(workload.Resample{{Prompt: 5, Output: 6}, {Prompt: 7, Output: 8}}, got); diff != "" || err != nil {
		t.Errorf("error %v, pairs (-want +got):\n%s", err, diff)
	}
	broken := errors.New("broken")
	var failing iter.Seq2[sim.Request, error] = func(yield func(sim.Request, error) bool) { yield(sim.Request{}, broken) }
	if got, err := workload.Observed(failing); got != nil || !errors.Is(err, broken) {
		t.Errorf("%v, %v, want the error", got, err)
	}
}

func TestInvalidLengths(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	ok := workload.Component{Weight: 1, MedianPrompt: 10, MedianOutput: 10}
	with := func(change func(*workload.Component)) workload.Mixture {
		c := ok
		change(&c)
		return workload.Mixture{Components: []workload.Component{ok, c}}
	}
	prompt := func(l workload.Length) workload.Lengths {
		return workload.Independent{Prompt: l, Output: workload.Fixed(1)}
	}
	for _, c := range []struct {
		lengths workload.Lengths
		want    string
	}{
		{nil, "Lengths is nil"},
		{workload.Tokens{Prompt: 0, Output: 1}, "Tokens.Prompt is 0,"},
		{workload.Tokens{Prompt: 1, Output: -1}, "Tokens.Output is -1,"},
		{workload.Resample{}, "no pairs in Resample"},
		{workload.Resample{{Prompt: 1, Output: 1}, {Prompt: 1}}, "pair 1 of Resample: Tokens.Output is 0,"},
		{workload.Independent{Output: workload.Fixed(1)}, "Independent.Prompt is nil"},
		{workload.Independent{Prompt: workload.Fixed(1)}, "Independent.Output is nil"},
		{prompt(workload.Fixed(0)), "Independent.Prompt: Fixed is 0,"},
		{prompt(workload.LogNormal{}), "LogNormal.Median is 0,"},
		{prompt(workload.LogNormal{Median: inf}), "LogNormal.Median is +Inf,"},
		{prompt(workload.LogNormal{Median: 1, Sigma: -1}), "LogNormal.Sigma is -1,"},
		{prompt(workload.LogNormal{Median: 1, Sigma: nan}), "LogNormal.Sigma is NaN,"},
		{prompt(workload.LogNormal{Median: 1, Min: -1}), "LogNormal.Min is -1,"},
		{prompt(workload.LogNormal{Median: 1, Max: -1}), "LogNormal.Max is -1,"},
		{prompt(workload.LogNormal{Median: 1, Min: 9, Max: 8}), "LogNormal.Min is 9, above Max 8"},
		{prompt(workload.LogNormal{Median: 1, Max: 1 << 31}), "LogNormal.Max is 2147483648,"},
		{prompt(workload.LogNormalMixture{}), "LogNormalMixture.Weights sum to 0,"},
		{prompt(workload.LogNormalMixture{Weights: []float64{1}}), "1 Weights, 0 Medians and 0 Sigmas"},
		{prompt(workload.LogNormalMixture{Weights: []float64{1, nan}, Medians: []float64{1, 1}, Sigmas: []float64{1, 1}}), "LogNormalMixture.Weights[1] is NaN,"},
		{prompt(workload.LogNormalMixture{Weights: []float64{1, 1}, Medians: []float64{1, 0}, Sigmas: []float64{1, 1}}), "LogNormalMixture.Medians[1] is 0,"},
		{prompt(workload.LogNormalMixture{Weights: []float64{1, 1}, Medians: []float64{1, 1}, Sigmas: []float64{1, inf}}), "LogNormalMixture.Sigmas[1] is +Inf,"},
		{prompt(workload.Empirical{}), "no Values in Empirical"},
		{prompt(workload.Empirical{Values: []int{1}}), "Empirical has 1 Values and 0 Weights"},
		{prompt(workload.Empirical{Values: []int{0}, Weights: []float64{1}}), "Empirical.Values[0] is 0,"},
		{prompt(workload.Empirical{Values: []int{2, 2}, Weights: []float64{1, 1}}), "Empirical.Values[1] is 2, want more than 2"},
		{prompt(workload.Empirical{Values: []int{2, 3}, Weights: []float64{1, nan}}), "Empirical.Weights[1] is NaN,"},
		{workload.ServeGenLengths{}, "ServeGenLengths.Prompt: no Values in Empirical"},
		{workload.ServeGenLengths{Prompt: workload.Empirical{Values: []int{1}, Weights: []float64{1}}}, "ServeGenLengths.Output: no Values"},
		{workload.Truncated{}, "Truncated.Lengths is nil"},
		{workload.Truncated{Lengths: workload.Tokens{}}, "Truncated.Lengths: Tokens.Prompt is 0,"},
		{workload.Truncated{Lengths: workload.Tokens{Prompt: 1, Output: 1}, Prompt: workload.Range{Min: 2, Max: 1}}, "Truncated.Prompt.Min is 2, above Max 1"},
		{workload.Truncated{Lengths: workload.Tokens{Prompt: 1, Output: 1}, Output: workload.Range{Max: -1}}, "Truncated.Output.Max is -1,"},
		{workload.Truncated{Lengths: workload.Tokens{Prompt: 1, Output: 1}, MaxTotal: 1}, "Truncated.MaxTotal is 1,"},
		{workload.Mixture{}, "no Components in Mixture"},
		{with(func(c *workload.Component) { c.Weight = -1 }), "Mixture.Components[1].Weight is -1,"},
		{with(func(c *workload.Component) { c.MedianPrompt = 0 }), "Mixture.Components[1].MedianPrompt is 0,"},
		{with(func(c *workload.Component) { c.MedianOutput = nan }), "Mixture.Components[1].MedianOutput is NaN,"},
		{with(func(c *workload.Component) { c.SigmaPrompt = -1 }), "Mixture.Components[1].SigmaPrompt is -1,"},
		{with(func(c *workload.Component) { c.SigmaOutput = inf }), "Mixture.Components[1].SigmaOutput is +Inf,"},
		{with(func(c *workload.Component) { c.Rho = 1.5 }), "Mixture.Components[1].Rho is 1.5,"},
		{workload.Mixture{Components: []workload.Component{{MedianPrompt: 1, MedianOutput: 1}}}, "Mixture weights sum to 0,"},
		{workload.Mixture{Components: []workload.Component{ok}, MaxPrompt: -1}, "Mixture.MaxPrompt is -1,"},
		{workload.Mixture{Components: []workload.Component{ok}, MaxOutput: -1}, "Mixture.MaxOutput is -1,"},
	} {
		w := workload.Workload{Arrivals: workload.Poisson{Rate: 1}, Mix: []workload.Share{{Lengths: c.lengths}}}
		requests, err := workload.Collect(workload.Take(w.Requests(), 1))
		if len(requests) != 0 || !strings.Contains(errText(err), "workload: Workload.Mix[0].Lengths") || !strings.Contains(errText(err), c.want) {
			t.Errorf("%+v: %v, %v, want error with %q", c.lengths, requests, err, c.want)
		}
	}
}

// The length presets against the recordings: means, percentiles, and the
// largest distance between the distribution functions.
func TestLengthPresetsAgainstRecordings(t *testing.T) {
	for _, c := range []struct {
		name           string
		lengths        workload.Lengths
		mean           float64 // relative tolerance of both means
		median         float64
		prompt, output float64 // distances
	}{
		{"code", workload.AzureCode2023Lengths(), 0.08, 0.06, 0.035, 0.030},
		{"conv", workload.AzureConv2023Lengths(), 0.02, 0.06, 0.050, 0.075},
	} {
		path := shared(t, "recordings/AzureLLMInferenceTrace_"+c.name+".csv.gz")
		observed, err := workload.Observed(workload.AzureCSV{Path: path}.Requests())
		if err != nil {
			t.Fatal(err)
		}
		drawn := drawPairs(t, c.lengths, 100_000)
		compared, err := workload.CompareLengths(observed, drawn)
		if err != nil {
			t.Fatal(err)
		}
		near(t, c.name+" mean prompt", float64(compared.Generated.PromptMean), float64(compared.Recorded.PromptMean), c.mean)
		near(t, c.name+" mean output", float64(compared.Generated.OutputMean), float64(compared.Recorded.OutputMean), c.mean)
		if float64(compared.PromptKS) > c.prompt || float64(compared.OutputKS) > c.output {
			t.Errorf("%s: distances %v and %v, want at most %v and %v", c.name, compared.PromptKS, compared.OutputKS, c.prompt, c.output)
		}
		for side, of := range map[string]func(workload.Tokens) int{
			"prompt": func(t workload.Tokens) int { return t.Prompt },
			"output": func(t workload.Tokens) int { return t.Output },
		} {
			a, b := sortedBy(observed, of), sortedBy(drawn, of)
			near(t, c.name+" median "+side, float64(b[len(b)/2]), float64(a[len(a)/2]), c.median)
			if b[0] < 1 || b[len(b)-1] > a[len(a)-1] {
				t.Errorf("%s %s: drawn %d to %d, recorded maximum %d", c.name, side, b[0], b[len(b)-1], a[len(a)-1])
			}
		}
	}
}

func sortedBy(pairs workload.Resample, of func(workload.Tokens) int) []int {
	out := make([]int, len(pairs))
	for i, p := range pairs {
		out[i] = of(p)
	}
	slices.Sort(out)
	return out
}
