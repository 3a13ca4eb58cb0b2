package costmodel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"servesim/costmodel"
)

var given = costmodel.Provenance{Platform: "H100", Formats: "BF16", Kernels: "made up", Layout: "one GPU",
	Boundary: "one kernel", Source: "a test"}

// kernels are samples that a kernel of known efficiency would give, with an
// error that alternates, in ten groups.
func kernels(noise float64) []costmodel.Sample {
	g := costmodel.GPU{Rate: 1e15, Bandwidth: 2e12}
	form := costmodel.KernelForm(g)
	var list []costmodel.Sample
	for i := range 10 {
		for j := range 12 {
			x := []float64{math.Pow(10, 6+0.7*float64(j)), math.Pow(10, 5+0.35*float64(i))}
			t := form.Seconds([]float64{5e-6, 0.7, 0.8, 2}, x)
			list = append(list, costmodel.Sample{Name: fmt.Sprint(i, j), Group: fmt.Sprint(i), Inputs: x,
				Seconds: t * (1 + noise*float64((i+j)%2*2-1))})
		}
	}
	return list
}

func TestFitFindsTheCoefficients(t *testing.T) {
	g := costmodel.GPU{Rate: 1e15, Bandwidth: 2e12}
	c, err := costmodel.Fit(costmodel.KernelForm(g), kernels(0), given)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{5e-6, 0.7, 0.8, 2} {
		k := c.Coefficients[i]
		if math.Abs(k.Value/want-1) > 0.02 || k.AtBound {
			t.Errorf("%s is %v (at bound: %t), want %v", k.Name, k.Value, k.AtBound, want)
		}
	}
	if c.Fitted.MAPE > 0.002 || c.CrossValidated.MAPE > 0.002 || c.Samples != 120 || c.Groups != 10 {
		t.Errorf("fit %v, cross-validated %v, %d samples in %d groups", c.Fitted, c.CrossValidated, c.Samples, c.Groups)
	}
	if got := c.Seconds(1e12, 1e6); math.Abs(got/(5e-6+1e12/0.7e15)-1) > 0.02 {
		t.Errorf("a large product takes %v s", got)
	}
}

// Errors of five per cent show in residuals and errors of the parameters, not
// in the parameters.
func TestFitStatesItsError(t *testing.T) {
	g := costmodel.GPU{Rate: 1e15, Bandwidth: 2e12}
	c, err := costmodel.Fit(costmodel.KernelForm(g), kernels(0.05), given)
	if err != nil {
		t.Fatal(err)
	}
	if c.Fitted.MAPE < 0.04 || c.Fitted.MAPE > 0.06 || c.CrossValidated.MAPE < c.Fitted.MAPE || c.CrossValidated.MAPE > 0.08 {
		t.Errorf("fit %v, cross-validated %v", c.Fitted, c.CrossValidated)
	}
	if k := c.Coefficients[1]; math.Abs(k.Value-0.7) > 4*k.Error+0.01 || k.Error <= 0 || k.Error > 0.1 {
		t.Errorf("%s is %v ± %v, want 0.7", k.Name, k.Value, k.Error)
	}
	for i, r := range c.Residuals {
		if got := c.Seconds(kernels(0.05)[i].Inputs...)/kernels(0.05)[i].Seconds - 1; math.Abs(got-r) > 1e-12 {
			t.Fatalf("residual %d is %v, want %v", i, r, got)
		}
	}
}

func TestWithoutShowsWhatAParameterIsWorth(t *testing.T) {
	g := costmodel.GPU{Rate: 1e15, Bandwidth: 2e12}
	c, err := costmodel.Fit(costmodel.KernelForm(g), kernels(0.01), given)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"floor", "compute", "memory", "norm"} {
		less, err := c.Without(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(less.Coefficients) != 3 || less.Fitted.MAPE < 1.5*c.Fitted.MAPE {
			t.Errorf("without %s: %v, with it %v", name, less.Fitted, c.Fitted)
		}
	}
	if _, err := c.Without("colour"); err == nil {
		t.Error("no error for a parameter that the form does not have")
	}
}

// Wild samples among many do not move the fit.
func TestFitWithstandsWildSamples(t *testing.T) {
	g := costmodel.GPU{Rate: 1e15, Bandwidth: 2e12}
	samples := kernels(0)
	for i := 11; i < len(samples); i += 24 { // the largest products of every second group
		samples[i].Seconds *= 50
	}
	c, err := costmodel.Fit(costmodel.KernelForm(g), samples, given)
	if err != nil {
		t.Fatal(err)
	}
	if k := c.Coefficients[1]; math.Abs(k.Value/0.7-1) > 0.05 {
		t.Errorf("compute is %v, want 0.7", k.Value)
	}
}

// Five groups that disagree about a slope: each is predicted from the four
// others, and the error of the slope is that of a mean of five.
func TestGroupsAreOneWitnessEach(t *testing.T) {
	form := costmodel.Form{Name: "slope", Inputs: []string{"x"},
		Parameters: []costmodel.Parameter{{Name: "slope", Start: 1, Low: 0.1, High: 10}},
		Seconds:    func(p, x []float64) float64 { return p[0] * x[0] }}
	var samples []costmodel.Sample
	for g, slope := range []float64{0.96, 0.98, 1, 1.02, 1.04} {
		for x := 1.0; x <= 20; x++ {
			samples = append(samples, costmodel.Sample{Group: fmt.Sprint(g), Inputs: []float64{x}, Seconds: slope * x})
		}
	}
	c, err := costmodel.Fit(form, samples, given)
	if err != nil {
		t.Fatal(err)
	}
	// The standard deviation of the slopes is 0.0316; over √5 it is 0.0141.
	if k := c.Coefficients[0]; math.Abs(k.Value-1) > 0.005 || math.Abs(k.Error-0.0141) > 0.005 {
		t.Errorf("slope %v ± %v, want 1 ± 0.014", k.Value, k.Error)
	}
	// A group is 5/4 as far from the mean of the others as from that of all:
	// 5/4 of 0.024.
	if a := c.CrossValidated; a.N != len(samples) || math.Abs(a.MAPE-0.03) > 0.003 {
		t.Errorf("cross-validated %v, want 3 %%", a)
	}
}

func TestFitRefuses(t *testing.T) {
	form := costmodel.HostForm()
	good := costmodel.Sample{Name: "good", Inputs: []float64{1, 2, 3}, Seconds: 1}
	enough := []costmodel.Sample{good, good, good}
	with := func(change func(*costmodel.Sample)) []costmodel.Sample {
		bad := good
		bad.Name = "bad"
		change(&bad)
		return []costmodel.Sample{good, good, bad}
	}
	for _, c := range []struct {
		name    string
		samples []costmodel.Sample
		from    costmodel.Provenance
		want    string
	}{
		{"no provenance", enough, costmodel.Provenance{}, "costmodel: Provenance.Platform is missing: a measurement belongs to a set-up"},
		{"no boundary", enough, costmodel.Provenance{Platform: "a", Formats: "b", Kernels: "c", Layout: "d", Source: "f"}, "costmodel: Provenance.Boundary is missing: a measurement belongs to a set-up"},
		{"too few", enough[:2], given, "costmodel: 2 samples do not determine the 2 parameters of host"},
		{"inputs", with(func(s *costmodel.Sample) { s.Inputs = []float64{1} }), given, `costmodel: sample bad has 1 inputs, want 3: ["kernels" "steps" "sequences"]`},
		{"NaN", with(func(s *costmodel.Sample) { s.Inputs = []float64{1, math.NaN(), 1} }), given, "costmodel: sample bad: steps is NaN"},
		{"no time", with(func(s *costmodel.Sample) { s.Seconds = 0 }), given, "costmodel: sample bad took 0 s"},
	} {
		_, err := costmodel.Fit(form, c.samples, c.from)
		t.Run(c.name, func(t *testing.T) { wantError(t, err, c.want) })
	}
	form.Parameters[0].Start = 7
	if _, err := costmodel.Fit(form, enough, given); err == nil || !strings.Contains(err.Error(), "starts at 7") {
		t.Errorf("a start outside the bounds: %v", err)
	}
}

func TestColdLeavesTheCacheOut(t *testing.T) {
	g := costmodel.GPU{Rate: 1e15, Bandwidth: 1e12}
	form := costmodel.MatrixForm(g, g.Rate, 2, 2)
	truth := []float64{2e-6, 0.8, 0.8, 2, 1, 1e-9, 0.5, 3e7, 4, 3e7, 0.5, 0.8}
	var samples []costmodel.Sample
	for i := range 14 {
		for j := range 10 {
			x := []float64{math.Pow(2, float64(i)), 256 * math.Pow(2, float64(j)/2), 512 * math.Pow(2, float64(j)/3)}
			samples = append(samples, costmodel.Sample{Group: fmt.Sprint(j), Inputs: x, Seconds: form.Seconds(truth, x)})
		}
	}
	c, err := costmodel.Fit(form, samples, given)
	if err != nil {
		t.Fatal(err)
	}
	hot, cold := c.Seconds(1, 2048, 2048), c.Cold().Seconds(1, 2048, 2048)
	if want := 8.4e6 / 0.8e12; cold < want || cold > 1.5*want || hot > 0.7*cold {
		t.Errorf("8 MB of weights take %.1f µs from the cache, %.1f µs from memory", 1e6*hot, 1e6*cold)
	}
}

// Every form is positive and rises with its work.
func TestFormsRiseWithWork(t *testing.T) {
	g, err := costmodel.LookupGPU("H100")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		form costmodel.Form
		x    []float64
	}{
		{costmodel.KernelForm(g), []float64{1e9, 1e6}},
		{costmodel.MatrixForm(g, g.Rate, 2, 2), []float64{64, 4096, 4096}},
		{costmodel.DecodeForm(g, 2), []float64{16, 32, 8, 128, 1000}},
		{costmodel.PrefillForm(g, 2), []float64{2, 32, 8, 128, 1000}},
		{costmodel.ExpertsForm(g, g.Rate, 2, 2), []float64{64, 8, 128, 3, 2048, 768, 16, 0}},
		{costmodel.MixedForm(), []float64{512, 1e5, 1e5, 16, 16000, 1000}},
		{costmodel.RingForm(8, 5e5), []float64{1e5}},
		{costmodel.LayerForm(g), []float64{1e9, 1e6, 1e5}},
		{costmodel.StepForm(g), []float64{1e12, 1e10, 4, 100}},
		{costmodel.HostForm(), []float64{1, 100, 1000}},
	} {
		start := make([]float64, len(c.form.Parameters))
		for i, p := range c.form.Parameters {
			start[i] = p.Start
		}
		if len(c.x) != len(c.form.Inputs) {
			t.Fatalf("%s has inputs %q", c.form.Name, c.form.Inputs)
		}
		base := c.form.Seconds(start, c.x)
		if !(base > 0) {
			t.Errorf("%s: %v s", c.form.Name, base)
		}
		for i := range c.x {
			x := append([]float64(nil), c.x...)
			x[i] *= 4
			if more := c.form.Seconds(start, x); more < base && c.form.Inputs[i] != "KV heads" {
				t.Errorf("%s: four times the %s takes %v s, before %v s", c.form.Name, c.form.Inputs[i], more, base)
			}
		}
	}
}

// With the cache left out the experts' time falls with no size, whatever the
// coefficients, and is no shorter than the fitted shares of the datasheet allow.
func TestExpertsFollowTheLaws(t *testing.T) {
	g, err := costmodel.LookupGPU("H100")
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, format := range []string{"bfloat16", "fp8", "int4_wo"} {
		p, err := costmodel.LookupPrecision(format)
		if err != nil {
			t.Fatal(err)
		}
		rate, weight := g.Peak(p.Compute), p.Weights.BytesPerValue()
		form := costmodel.ExpertsForm(g, rate, weight, p.Activations.BytesPerValue())
		at := map[string]int{}
		for i, q := range form.Parameters {
			at[q.Name] = i
		}
		ones, x := slices.Repeat([]float64{1}, len(form.Parameters)), slices.Repeat([]float64{1}, len(form.Inputs))
		if n := testing.AllocsPerRun(100, func() { form.Seconds(ones, x) }); n > 0 {
			t.Errorf("%s: an evaluation allocates %v times", format, n)
		}
		for range 3000 {
			c := make([]float64, len(form.Parameters))
			for i, q := range form.Parameters {
				c[i] = q.Low + random.Float64()*(q.High-q.Low)
			}
			c[at["cache"]] = 0 // as in Cold
			size := func(most float64) float64 { return math.Floor(math.Exp(random.Float64() * math.Log(most+1))) }
			distinct := size(256)
			rows := distinct * size(4096)
			x := []float64{rows, distinct, rows * size(8), 2 + float64(random.IntN(2)), size(8192), size(16384), math.Exp2(float64(3 + random.IntN(5))), float64(random.IntN(2))}
			seconds := form.Seconds(c, x)
			if !(seconds > 0) || math.IsInf(seconds, 0) {
				t.Fatalf("%v with %v takes %v s", x, c, seconds)
			}
			share := c[at["compute"]]
			if x[7] > 0 {
				share *= c[at["tuned"]]
			}
			values := x[3] * x[4] * x[5]
			if least := max(2*values*rows/(share*rate), weight*values*distinct/(c[at["memory"]]*g.Bandwidth)); seconds < least {
				t.Fatalf("%v with %v takes %v s, no less than %v s is possible", x, c, seconds, least)
			}
			for i, name := range form.Inputs[:6] { // the tile is a choice of the engine, not a size
				more := slices.Clone(x)
				more[i] += size(more[i])
				if name == "rows" { // all of them pass through the kernels around
					more[2] = max(more[2], more[0])
				}
				if got := form.Seconds(c, more); got < seconds*(1-1e-12) {
					t.Fatalf("with %v: %v takes %v s, with more %s %v s", c, x, seconds, name, got)
				}
			}
		}
	}
}

func TestExpertsTile(t *testing.T) {
	for positions, want := range map[float64]float64{1: 16, 32: 16, 33: 32, 96: 32, 97: 64, 512: 64, 513: 128, 1e5: 128} {
		if got := costmodel.ExpertsTile(positions); got != want {
			t.Errorf("%v positions: tiles of %v rows, want %v", positions, got, want)
		}
	}
}

func ExampleFit() {
	// Steps of an engine: what the kernels take, and what was measured.
	var samples []costmodel.Sample
	for _, s := range []struct{ kernels, sequences, measured float64 }{
		{10.0e-3, 1, 10.52e-3}, {10.4e-3, 8, 11.06e-3}, {11.0e-3, 32, 12.14e-3}, {12.1e-3, 64, 13.88e-3}, {14.0e-3, 128, 17.06e-3},
	} {
		samples = append(samples, costmodel.Sample{Inputs: []float64{s.kernels, 1, s.sequences}, Seconds: s.measured})
	}
	c, err := costmodel.Fit(costmodel.HostForm(), samples, costmodel.Provenance{
		Platform: "H100", Formats: "BF16", Kernels: "an engine", Layout: "one GPU", Boundary: "a step", Source: "an example",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, k := range c.Coefficients {
		fmt.Printf("%s %.0f µs\n", k.Name, 1e6*k.Value)
	}
	// Output:
	// step 500 µs
	// sequence 20 µs
}
