package workload_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"servesim/workload"
)

func TestAcceptanceCurveFit(t *testing.T) {
	for _, c := range []struct {
		name      string
		mean      []float64
		reach     []float64 // one position beyond the measured ones
		deviation float64
	}{
		{"concave", []float64{1.75, 2.25, 2.5}, []float64{0.75, 0.5, 0.25, 0}, 0},
		{"one point", []float64{1.5}, []float64{0.5, 0}, 0},
		{"nothing accepted", []float64{1, 1}, []float64{0, 0, 0}, 0},
		{"all accepted", []float64{2, 3}, []float64{1, 1, 0}, 0},
		// .5 .2 .4: the last two are .3 each, and 1.7 becomes 1.8.
		{"bends up", []float64{1.5, 1.7, 2.1}, []float64{0.5, 0.3, 0.3, 0}, 0.1},
		// .2 .3 .7: .25 each does not do, .4 each does.
		{"bends up all the way", []float64{1.2, 1.5, 2.2}, []float64{0.4, 0.4, 0.4, 0}, 0.3},
		// .5 .5 -.2: the last counts as 0.
		{"falls", []float64{1.5, 2, 1.8}, []float64{0.5, 0.5, 0, 0}, 0.2},
		// .5 .5 -.3 .1: -.1 each counts as 0.
		{"falls and recovers in part", []float64{1.5, 2, 1.7, 1.8}, []float64{0.5, 0.5, 0, 0, 0}, 0.3},
		// .5 .3 -.2 .4: .1 each for the last two.
		{"falls and recovers", []float64{1.5, 1.8, 1.6, 2}, []float64{0.5, 0.3, 0.1, 0.1, 0}, 0.3},
	} {
		curve := workload.AcceptanceCurve{MeanLength: c.mean}
		a, deviation, err := curve.Fit(9)
		if err != nil || a.Seed != 9 || a.Validate() != nil {
			t.Errorf("%s: %+v, %v, %v", c.name, a, err, a.Validate())
		}
		if d := cmp.Diff(c.reach, a.PerPosition(len(c.reach)), cmpopts.EquateApprox(0, 1e-12)); d != "" {
			t.Errorf("%s: per position (-want +got):\n%s", c.name, d)
		}
		if math.Abs(deviation-c.deviation) > 1e-12 {
			t.Errorf("%s: deviation %v, want %v", c.name, deviation, c.deviation)
		}
	}
}

func TestAcceptanceCurveFaults(t *testing.T) {
	for _, c := range []struct {
		mean []float64
		want string
	}{
		{nil, "AcceptanceCurve.MeanLength is empty"},
		{[]float64{2.1}, "AcceptanceCurve.MeanLength[0]: a mean accepted length of 2.1 with 1 drafts, want 1 to 2"},
		{[]float64{1.5, 0.9}, "AcceptanceCurve.MeanLength[1]: a mean accepted length of 0.9 with 2 drafts, want 1 to 3"},
		{[]float64{1.5, math.NaN()}, "AcceptanceCurve.MeanLength[1]: a mean accepted length of NaN with 2 drafts, want 1 to 3"},
	} {
		curve := workload.AcceptanceCurve{MeanLength: c.mean}
		if _, _, err := curve.Fit(0); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

func TestReadAcceptance(t *testing.T) {
	got, err := workload.ReadAcceptance("x.yaml", strings.NewReader("# about\r\n\r\na-1.5:\n  on: # mode\n    1: 1.5\n    2: 1.75\n  off:\n    1: 2\nb:\n  on:\n    1: 1"))
	if err != nil {
		t.Fatal(err)
	}
	want := []workload.AcceptanceCurve{
		{"a-1.5", "on", []float64{1.5, 1.75}},
		{"a-1.5", "off", []float64{2}},
		{"b", "on", []float64{1}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestReadAcceptanceFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "x.yaml: the file is empty"},
		{"# nothing\n", "x.yaml: no curve in the file"},
		{"a:\n", "x.yaml:1: a has no mode"},
		{"a:\nb:\n", "x.yaml:2: a has no mode"},
		{"a:\n  on:\n", "x.yaml:2: a on has no mean length"},
		{"a:\n  on:\n  off:\n", "x.yaml:3: a on has no mean length"},
		{"a:\n  on:\n    1: 1.5\n  on:\n", "x.yaml:4: a on is there twice"},
		{"a:\n  on:\n    1: 1.5\na:\n  on:\n", "x.yaml:5: a on is there twice"},
		{"a:\n  on:\n    2: 1.5\n", `x.yaml:3: drafts are "2", want 1`},
		{"a:\n  on:\n    01: 1.5\n", `x.yaml:3: drafts are "01", want 1`},
		{"a:\n  on:\n    1: 1.5\n    1: 1.5\n", `x.yaml:4: drafts are "1", want 2`},
		{"a:\n  on:\n    1: high\n", `x.yaml:3: "high" is not a number`},
		{"a:\n  on:\n    1: 2.5\n", "x.yaml:3: a mean accepted length of 2.5 with 1 drafts, want 1 to 2"},
		{"a:\n  on:\n    1: NaN\n", "x.yaml:3: a mean accepted length of NaN with 1 drafts, want 1 to 2"},
		{"a:\n  on\n", `x.yaml:2: "  on" is not a key with a colon`},
		{"  on:\n", `x.yaml:1: "  on:" has no place: want a model, a mode indented by 2 or drafts and a mean length indented by 4`},
		{"a: 1\n", `x.yaml:1: "a: 1" has no place: want a model, a mode indented by 2 or drafts and a mean length indented by 4`},
		{"a:\n    1: 1.5\n", `x.yaml:2: "    1: 1.5" has no place: want a model, a mode indented by 2 or drafts and a mean length indented by 4`},
	} {
		_, err := workload.ReadAcceptance("x.yaml", strings.NewReader(c.text))
		if err == nil || err.Error() != c.want {
			t.Errorf("%q\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

// The measured curves: nine of eight drafts each, of which some fall or bend
// up. They are fitted to 0.2 tokens of mean lengths from 1.8 to 5.2.
func TestMeasuredAcceptance(t *testing.T) {
	dir := shared(t, filepath.Join("measured", "acceptance"))
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	deviations := map[string]string{}
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		curves, err := workload.ReadAcceptance(filepath.Base(path), f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range curves {
			a, deviation, err := c.Fit(1)
			if err != nil || len(c.MeanLength) != 8 {
				t.Errorf("%s %s: %d drafts, %v", c.Model, c.Mode, len(c.MeanLength), err)
			}
			deviations[c.Model+" "+c.Mode] = fmt.Sprintf("%.3f", deviation)
			for k, mean := range c.MeanLength {
				if got := a.MeanLength(k + 1); got < mean-1e-9 || got > mean+0.2 {
					t.Errorf("%s %s: mean length %v with %d drafts, measured %v", c.Model, c.Mode, got, k+1, mean)
				}
			}
		}
	}
	want := map[string]string{
		"deepseek-v4-pro thinking_on": "0.030",
		// .03 .10 is .065 each, and -.16 .11 is 0: 3.16 for the measured 3.00.
		"deepseek-v4-pro thinking_off":         "0.160",
		"glm-5.2-fp8 thinking_on":              "0.010",
		"kimi-k2.5-nvfp4 thinking_on":          "0.000",
		"kimi-k2.5-nvfp4 thinking_off":         "0.010",
		"minimax-m3 thinking_on":               "0.080",
		"minimax-m3 thinking_off":              "0.177",
		"qwen3.5-397b-a17b-nvfp4 thinking_on":  "0.000",
		"qwen3.5-397b-a17b-nvfp4 thinking_off": "0.020",
	}
	if d := cmp.Diff(want, deviations); d != "" {
		t.Errorf("deviations (-want +got):\n%s", d)
	}
}

func FuzzReadAcceptance(f *testing.F) {
	f.Add([]byte("# c\nm:\n  on:\n    1: 1.8\n    2: 2.4\n    3: 2.3\n"))
	f.Add([]byte("m:\n  on:\n    1: 1\nn:\n  off:\n    1: 2e0\n"))
	f.Add([]byte("m:\n on:\n\t1: 1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		curves, err := workload.ReadAcceptance("f", strings.NewReader(string(data)))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Fatalf("error %q does not name the file", err)
			}
			return
		}
		for _, c := range curves {
			a, deviation, err := c.Fit(1)
			if err != nil {
				t.Fatalf("%+v was read: %v", c, err)
			}
			if err := a.Validate(); err != nil || !(deviation >= 0) {
				t.Fatalf("%+v: deviation %v, %v", c, deviation, err)
			}
			before := 1.0
			for i, p := range a.PerPosition(len(c.MeanLength) + 1) {
				if !(p >= 0 && p <= before) {
					t.Fatalf("%+v: position %d is accepted with %v behind %v", c, i, p, before)
				}
				before = p
			}
		}
	})
}
