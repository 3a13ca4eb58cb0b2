package main

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"servesim/costmodel"
	"servesim/examples/internal/commandtest"
	"servesim/sim"
	"servesim/sim/metrics"
	"servesim/sim/simtest"
)

// output runs the program.
func output(t *testing.T, args ...string) string {
	t.Helper()
	return commandtest.Output(t, run, args...)
}

// figures runs the program and reads its JSON object.
func figures(t *testing.T, args ...string) report {
	t.Helper()
	return commandtest.Object[report](t, output(t, append(args, "-json")...))
}

// curveFile writes made-up curves: one that is well behaved and one that falls.
func curveFile(t *testing.T) string {
	t.Helper()
	return commandtest.File(t, "curves.yaml", "made-up:\n  smooth:\n    1: 1.8\n    2: 2.4\n    3: 2.8\n    4: 3.0\n    5: 3.1\n    6: 3.15\n"+
		"  falling:\n    1: 1.9\n    2: 2.5\n    3: 2.4\n    4: 2.6\n    5: 2.7\n    6: 2.6\n")
}

func TestGolden(t *testing.T) {
	file := curveFile(t)
	for name, args := range map[string][]string{
		"text":  nil,
		"json":  {"-json", "-concurrency", "1,96"},
		"curve": {"-acceptance", file, "-curve", "falling", "-most", "6", "-concurrency", "1,16,128"},
		"qwen":  {"-model", "Qwen3-32B", "-gpu", "H200", "-tp", "2", "-constant", "0.9", "-concurrency", "1,16,96"},
	} {
		got := output(t, args...)
		commandtest.Golden(t, name, got)
		if name != "json" {
			commandtest.Columns(t, got)
		}
	}
}

// 16 requests move 5.6 MB in 56 µs and evaluate a position in 2 µs, behind 20
// µs: 24 useful tokens of 32 positions in 84 µs are 285,714 a second, 28 of 64
// in 148 µs are 189,189.
func TestByHand(t *testing.T) {
	r := figures(t, "-concurrency", "1")
	want := byHand{Requests: 16, Chosen: 32, Options: []option{
		{0, 16, 16, 76, "memory", 210526},
		{1, 32, 24, 84, "compute", 285714},
		{2, 48, 26, 116, "compute", 224138},
		{3, 64, 28, 148, "compute", 189189},
	}}
	if d := cmp.Diff(want, r.ByHand, cmpopts.EquateApprox(0, 0.5)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestRates(t *testing.T) {
	rate := stepRate{StepsPerS: 200, Requests: 16, Drafts: 5}
	if got, err := rate.fullAcceptance(); got != 19_200 || err != nil {
		t.Errorf("full acceptance %v, %v; want 19200", got, err)
	}
	if got, err := rate.useful(3); got != 9600 || err != nil {
		t.Errorf("at 3 useful tokens %v, %v; want 9600", got, err)
	}
	rate.CPSize = 2
	if got, err := rate.fullAcceptance(); got != 9600 || err != nil {
		t.Errorf("full acceptance per device of two %v, %v; want 9600", got, err)
	}
	rate.Variable = true
	if got, err := rate.fullAcceptance(); !math.IsNaN(got) || !errors.Is(err, errVariable) {
		t.Errorf("variable, full acceptance: %v, %v", got, err)
	}
	if got, err := rate.useful(3); !math.IsNaN(got) || !errors.Is(err, errVariable) {
		t.Errorf("variable, useful: %v, %v", got, err)
	}
	rate.Variable = false
	for _, tau := range []float64{0.9, 6.1, math.NaN()} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v useful tokens of 6 positions are accepted", tau)
				}
			}()
			rate.useful(tau)
		}()
	}
}

// The steps of the fixed policy follow from each other; those of the variable
// one are refused.
func TestConversion(t *testing.T) {
	for _, r := range figures(t, "-concurrency", "4,96").Comparison.Rows {
		rate := stepRate{StepsPerS: 1e3 / float64(r.Fixed.StepMs), Requests: r.Requests, Drafts: 5}
		if useful, err := rate.useful(1 + float64(r.Fixed.Accepted)); err != nil || math.Abs(useful/float64(r.Fixed.TokensS)-1) > 1e-9 {
			t.Errorf("%d requests: %v tokens/s by conversion, %v measured, %v", r.Requests, useful, r.Fixed.TokensS, err)
		}
		if r.Fixed.Drafts != 5 || !r.Fixed.FullPerS.Defined() || r.Variable.FullPerS.Defined() {
			t.Errorf("%d requests: full acceptance %v with %v drafts, variable %v", r.Requests, r.Fixed.FullPerS, r.Fixed.Drafts, r.Variable.FullPerS)
		}
	}
}

// A pass of the drafter for the first draft of all, one for the second, and
// one for those that have a third.
func TestDraftTime(t *testing.T) {
	setup, err := costmodel.NewSetup("Llama-3.1-8B", "H100")
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDrafting(setup)
	if err != nil {
		t.Fatal(err)
	}
	pass := func(n, context int) time.Duration {
		return d.drafter.StepTime(sim.Batch{Decodes: n, Positions: n, Context: context})
	}
	for _, c := range []struct {
		batch sim.Batch
		want  time.Duration
	}{
		{sim.Batch{}, 0},
		{sim.Batch{Prefills: []sim.Chunk{{Tokens: 100}}}, 0},
		{sim.Batch{Decodes: 8, Positions: 8, Context: 8000}, 0},
		{sim.Batch{Decodes: 8, Positions: 16, Context: 8000}, pass(8, 8000)},
		{sim.Batch{Decodes: 8, Positions: 26, Context: 8000}, 2*pass(8, 8000) + pass(2, 2000)},
	} {
		if got := d.draftTime(c.batch); got != c.want {
			t.Errorf("%+v: %v, want %v", c.batch, got, c.want)
		}
		if got := d.StepTime(c.batch); got != c.want+d.model.StepTime(c.batch) {
			t.Errorf("%+v: a step of %v", c.batch, got)
		}
	}
	simtest.TestCostModel(t, d)
	// Head and layer, 128256·4096 and 218.1 million values of 2 bytes, are
	// 1.487 GB: at least 0.444 ms at 3.35 TB/s, and not twice that.
	if got := pass(1, 1000); got < 444*time.Microsecond || got > 888*time.Microsecond {
		t.Errorf("a pass of the drafter takes %v", got)
	}
}

// With a draft that is right 7 times in 10, the fifth is hardly worth its pass of
// the drafter while the steps wait for memory: four are better, by less than a
// hundredth. At the knee, with 32 requests, the gain passes that, and where the
// steps wait for arithmetic three are best: the more requests, the fewer drafts
// and the larger the gain.
func TestWhereVariableGains(t *testing.T) {
	ratio, drafts := 1.0, 5.0
	for _, r := range figures(t).Comparison.Rows {
		if want := 0.7 + 0.49 + 0.343 + 0.2401 + 0.16807; math.Abs(float64(r.Fixed.Accepted)-want) > 0.03 {
			t.Errorf("%d requests: %v of 5 drafts accepted, want about %.3f", r.Requests, r.Fixed.Accepted, want)
		}
		switch {
		case r.Requests <= 32:
			least, most := metrics.Number(1), metrics.Number(1.01)
			if r.Requests == 32 {
				least, most = 1.01, 1.02
			}
			if r.Ratio <= least || r.Ratio >= most || math.Abs(float64(r.Variable.Drafts)-4) > 0.1 || r.Fixed.Compute > 0.01 {
				t.Errorf("%d requests: ratio %v with %v drafts, %v compute-bound", r.Requests, r.Ratio, r.Variable.Drafts, r.Fixed.Compute)
			}
		case r.Ratio < 1.04 || math.Abs(float64(r.Variable.Drafts)-3) > 0.1 || r.Fixed.Compute < 0.4 || r.Variable.StepMs >= 0.85*r.Fixed.StepMs:
			t.Errorf("%d requests: ratio %v with %v drafts, %v compute-bound", r.Requests, r.Ratio, r.Variable.Drafts, r.Fixed.Compute)
		}
		if float64(r.Ratio) < ratio-0.005 || float64(r.Variable.Drafts) > drafts+0.05 {
			t.Errorf("%d requests: ratio %v with %v drafts, %v with %v for fewer requests", r.Requests, r.Ratio, r.Variable.Drafts, ratio, drafts)
		}
		ratio, drafts = float64(r.Ratio), float64(r.Variable.Drafts)
	}
	if ratio < 1.07 {
		t.Errorf("at the end: ratio %v with %v drafts", ratio, drafts)
	}
}

// Measured curves: the simulated acceptance is the fitted one, and the variable
// number never loses more than chance takes.
func TestMeasuredCurves(t *testing.T) {
	for _, c := range []struct {
		file, curve string
		least, most float64 // ratio at 128 requests
	}{
		{"dsv4_mtp.yaml", "thinking_on", 1.2, 1.3}, // the fourth draft is right once in 20 steps
		{"glm5.2_mtp.yaml", "thinking_on", 1.025, 1.05},
		{"minimaxm3_eagle3.yaml", "thinking_off", 1.04, 1.065},
		{"qwen3.5_mtp.yaml", "thinking_on", 0.995, 1.015}, // 4 are about as good for it as 5
	} {
		path := commandtest.Shared(t, "measured/acceptance/"+c.file)
		r := figures(t, "-acceptance", path, "-curve", c.curve, "-concurrency", "1,16,96,128").Comparison
		mean := 0.0
		for _, p := range r.Scenario.Acceptance.PerPosition[:5] {
			mean += p
		}
		for _, x := range r.Rows {
			if math.Abs(float64(x.Fixed.Accepted)-mean) > 0.03 {
				t.Errorf("%s, %d requests: %v of 5 drafts accepted, want %v", c.file, x.Requests, x.Fixed.Accepted, mean)
			}
			if x.Ratio < 0.995 {
				t.Errorf("%s, %d requests: ratio %v", c.file, x.Requests, x.Ratio)
			}
		}
		if got := float64(r.Rows[3].Ratio); got < c.least || got > c.most {
			t.Errorf("%s: ratio %v at 128 requests, want %v to %v", c.file, got, c.least, c.most)
		}
	}
}

// The words fit what the fixed step waits for: with 64 requests there is
// arithmetic in it, with 16 there is none. The drafter's passes can be too many
// in either.
func TestText(t *testing.T) {
	for _, c := range []struct{ args, want, none string }{
		{"-concurrency 16 -constant 0.75", "the same 16 requests: the variable number brings 1.000 times", "drafts 16"},
		{"-concurrency 16 -constant 0.7", "nothing in the fixed step waits for arithmetic, but the drafter's passes take", "the same 16"},
		{"-concurrency 1 -constant 0.7", "With 1 request nothing in the fixed step waits for arithmetic, but", "all 1"},
		{"-concurrency 16 -constant 0.9", "nothing in the fixed step waits for arithmetic: a position more is cheap, and drafts beyond the fixed 5", "even so"},
		{"-concurrency 64 -constant 0.9", "of the fixed step wait for arithmetic; even so, drafts beyond the fixed 5", "is cheap"},
		{"-concurrency 64 -constant 0.85", "the same 64 requests", "drafts 64"},
		{"-concurrency 64 -constant 0.5", "fewer drafts 64 requests", "the same 64"},
	} {
		flat := strings.Join(strings.Fields(output(t, strings.Fields(c.args)...)), " ")
		if !strings.Contains(flat, c.want) || strings.Contains(flat, c.none) {
			t.Errorf("%s: want %q, not %q, in\n%s", c.args, c.want, c.none, flat)
		}
	}
}

func TestFlags(t *testing.T) {
	file := curveFile(t)
	for _, c := range []struct {
		args string
		want string
	}{
		{"-speed 3", "flag provided but not defined: -speed; flags are -acceptance, -concurrency, -constant, -curve, -fixed, -gpu, -json, -model, -most, -output, -prompt, -seed, -tp"},
		{"now", `unexpected argument "now"`},
		{"-concurrency 1,x", `invalid value "1,x" for flag -concurrency: "x" is not a whole number`},
		{"-concurrency 0", "-concurrency holds 0, want 1 to 4096"},
		{"-concurrency 500", "500 requests need up to 63000 KV blocks, Llama-3.1-8B on 1 × H100 has"},
		{"-fixed 0", "-fixed is 0, want 1 to 64"},
		{"-most 65", "-most is 65, want 1 to 64"},
		{"-prompt 0", "-prompt is 0"},
		{"-output 20", "-output is 20, want 50 to"},
		{"-constant 1.5", "-constant is 1.5, want 0 to 1"},
		{"-constant NaN", "-constant is NaN, want 0 to 1"},
		{"-curve smooth", "-curve is for -acceptance"},
		{"-model GPT", `unknown model "GPT"`},
		{"-gpu T4", `unknown GPU "T4"`},
		{"-acceptance missing.yaml", "open missing.yaml"},
		{"-acceptance " + file + " -curve rough", `has no curve "rough"; it has made-up smooth, made-up falling`},
		{"-acceptance " + file, "made-up smooth is measured up to 6 drafts, 8 are wanted: lower -fixed or -most"},
	} {
		if err := commandtest.Failure(t, run, strings.Fields(c.args)...); !strings.Contains(err, c.want) {
			t.Errorf("%s: error %s, want %q", c.args, err, c.want)
		}
	}
}

func TestHelp(t *testing.T) {
	help := commandtest.Help(t, run)
	for _, want := range []string{"Usage: speculate", "-acceptance", "default 1,2,4,8,16,32,64,96,128"} {
		if !strings.Contains(help, want) {
			t.Errorf("help lacks %q", want)
		}
	}
}
