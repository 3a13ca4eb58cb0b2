package costmodel_test

import (
	"fmt"
	"math"
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
	form := costmodel.MatrixForm(g, costmodel.Precision{})
	truth := []float64{2e-6, 0.8, 0.8, 2, 1, 3e7, 4, 3e7, 0.5, 1e-10, 1000}
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
		{costmodel.MatrixForm(g, costmodel.Precision{}), []float64{64, 4096, 4096}},
		{costmodel.MatrixForm(g, precision("fp8")), []float64{64, 4096, 4096}},
		{costmodel.DecodeForm(g, 2), []float64{16, 32, 8, 128, 1000, 0}},
		{costmodel.PrefillForm(g, 2), []float64{2, 32, 8, 128, 1000, 0}},
		{costmodel.ExpertsForm(g, costmodel.Precision{}), []float64{64, 8, 128, 3, 2048, 768, 16, 0}},
		{costmodel.MixedForm(), []float64{512, 1e5, 1e5, 16, 16000, 1000}},
		{costmodel.RingForm(8, 5e5), []float64{1e5}},
		{costmodel.LayerForm(g), []float64{1e9, 1e6, 1e5}},
		{costmodel.StepForm(g), []float64{1e12, 1e10, 4}},
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

// A step takes the longer of what its host and its device take.
func TestStepWaitsForHostAndDevice(t *testing.T) {
	g, err := costmodel.LookupGPU("H100")
	if err != nil {
		t.Fatal(err)
	}
	form := costmodel.StepForm(g)
	at := func(floor, work float64) float64 {
		// start 10 ms, 1 ms for each of 5 sequences, half the rate and the bandwidth.
		p := []float64{10e-3, 1e-3, 0.5, 0.5, floor, 100}
		return form.Seconds(p, []float64{work * g.Rate, 0, 5})
	}
	for _, c := range []struct{ floor, work, want float64 }{
		{0, 0, 15e-3},
		{0, 20e-3, 55e-3},
		{30e-3, 0, 30e-3},
		{30e-3, 20e-3, 55e-3},
	} {
		if got := at(c.floor, c.work); math.Abs(got/c.want-1) > 1e-9 {
			t.Errorf("floor %v, %v s of FLOPs at the full rate: %v, want %v", c.floor, c.work, got, c.want)
		}
	}
}

// matrixForms are products in BF16, FP8 and NVFP4 on a GPU and on one whose
// processors are not known, with coefficients near those of measured ones.
func matrixForms(t *testing.T) map[string]*costmodel.Calibration {
	g, err := costmodel.LookupGPU("B200")
	if err != nil {
		t.Fatal(err)
	}
	unknown := g
	unknown.Processors = 0
	wide := []float64{2e-6, 0.7, 0.8, 2.5, 1, 1.7e7, 3, 9e7, 0.3, 5e-9, 600}
	narrow := []float64{5e-6, 0.7, 0.8, 3, 1, 1.7e7, 3, 9e7, 0.7, 6e-10, 80, 0.4, 7e-9}
	forms := map[string]*costmodel.Calibration{}
	for name, f := range map[string]struct {
		form   costmodel.Form
		values []float64
	}{
		"BF16":               {costmodel.MatrixForm(g, costmodel.Precision{}), wide},
		"FP8":                {costmodel.MatrixForm(g, precision("fp8")), narrow},
		"NVFP4":              {costmodel.MatrixForm(g, precision("nvfp4")), narrow},
		"unknown processors": {costmodel.MatrixForm(unknown, costmodel.Precision{}), wide},
	} {
		c := &costmodel.Calibration{Form: f.form}
		for i, p := range f.form.Parameters {
			c.Coefficients = append(c.Coefficients, costmodel.Coefficient{Name: p.Name, Unit: p.Unit, Value: f.values[i]})
		}
		forms[name] = c
	}
	return forms
}

// A product takes no less time for a row, a column or an inner value more, nor
// for many, near the edges of tiles, waves and caches or far from them.
func TestMatrixFormIsMonotone(t *testing.T) {
	sizes := []float64{1, 2, 3, 16, 63, 64, 65, 127, 128, 129, 255, 256, 257, 512, 513, 1000, 1024, 1025, 2304, 2305,
		4096, 4097, 5120, 8192, 9472, 9473, 16384, 32768, 65536, 131072}
	for name, hot := range matrixForms(t) {
		for state, c := range map[string]*costmodel.Calibration{"hot": hot, "cold": hot.Cold()} {
			for axis, input := range c.Form.Inputs {
				for _, a := range sizes {
					for _, b := range sizes {
						x, last := []float64{a, a, a}, 0.0
						x[(axis+1)%3], x[(axis+2)%3] = a, b
						for _, size := range sizes {
							x[axis] = size
							s := c.Seconds(x...)
							if !(s > 0) || math.IsInf(s, 0) || s < last*(1-1e-12) {
								t.Fatalf("%s, %s: %v takes %v s, with fewer %s %v s", name, state, x, s, input, last)
							}
							last = s
						}
					}
				}
			}
		}
	}
}

// No product is faster than its floor, its operations at the fitted share of
// the rate and, cold, its weights at the fitted share of the bandwidth.
func TestMatrixFormKeepsItsFloors(t *testing.T) {
	g, err := costmodel.LookupGPU("B200")
	if err != nil {
		t.Fatal(err)
	}
	for name, k := range map[string]struct{ rate, weight float64 }{"BF16": {g.Rate, 2}, "FP8": {g.FP8, 1}, "NVFP4": {g.FP4, 9. / 16}} {
		hot := matrixForms(t)[name]
		v, cold := hot.Values(), hot.Cold()
		for _, m := range []float64{1, 16, 300, 8192} {
			for _, n := range []float64{1, 128, 4096, 65536} {
				for _, inner := range []float64{1, 512, 28672} {
					compute := 2 * m * n * inner / (v[1] * k.rate)
					memory := k.weight * n * inner / (v[2] * g.Bandwidth)
					if s := hot.Seconds(m, n, inner); s < v[0]+compute {
						t.Errorf("%s: %v×%v×%v takes %v s, compute %v s", name, m, n, inner, s, compute)
					}
					if s := cold.Seconds(m, n, inner); s < v[0]+max(compute, memory) {
						t.Errorf("%s: %v×%v×%v takes %v s cold, compute %v s, memory %v s", name, m, n, inner, s, compute, memory)
					}
				}
			}
		}
	}
}

// One row more begins a second wave: with tiles of 128 × 256 alone and all of
// the wave, 148 processors are full with 37 × 4 tiles.
func TestMatrixFormCountsWaves(t *testing.T) {
	form := matrixForms(t)["BF16"]
	for i := range form.Coefficients {
		switch form.Coefficients[i].Name {
		case "wave":
			form.Coefficients[i].Value = 1
		case "floor", "chain":
			form.Coefficients[i].Value = 1e-12
		}
	}
	full, more := form.Seconds(37*128, 4*256, 65536), form.Seconds(37*128+1, 4*256, 65536)
	if jump := more / full; jump < 1.25 || jump > 2 {
		t.Errorf("%v s in one wave, %v s with one row more", full, more)
	}
}

// Activations that are brought to another format cost at least a share of each
// row, however short it is, and their traffic when it is long.
func TestMatrixFormQuantises(t *testing.T) {
	fp8 := matrixForms(t)["FP8"]
	if got := fp8.Seconds(32768, 32, 64) - fp8.Seconds(1, 32, 64); got < 32768*7e-9 || got > 1.2*32768*7e-9 {
		t.Errorf("32768 short rows take %v s more than one, want 0.23 ms", got)
	}
	const traffic = 3 * 32768 * 16384 / (0.4 * 7.7e12)
	if got := fp8.Seconds(32768, 32, 16384); got < traffic || got > 1.5*traffic {
		t.Errorf("32768 long rows take %v s, want a little more than %v s", got, traffic)
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
