package experiment_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"servesim/sim/experiment"
)

// Quantiles of Student's t are from a printed table, four digits or so.
var tabulated = cmp.Options{cmpopts.EquateApprox(2e-4, 1e-9), cmpopts.EquateNaNs()}

func TestPaired(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name  string
		a, b  []float64
		level float64
		want  experiment.Comparison
	}{
		{
			// Differences 1 2 3: mean 2, deviation 1, error 1/√3 = 0.57735;
			// t(0.975, 2) = 4.3027. Ratios 1.1 1.1 1.1.
			name: "three pairs", a: []float64{11, 22, 33}, b: []float64{10, 20, 30}, level: 0.95,
			want: experiment.Comparison{
				Difference: experiment.Interval{Mean: 2, Low: 2 - 2.4842, High: 2 + 2.4842, StdError: 0.57735, Level: 0.95, N: 3},
				Ratio:      experiment.Interval{Mean: 1.1, Low: 1.1, High: 1.1, StdError: 0, Level: 0.95, N: 3},
			},
		},
		{
			// t(0.995, 2) = 9.9248.
			name: "at 99 %", a: []float64{11, 22, 33}, b: []float64{10, 20, 30}, level: 0.99,
			want: experiment.Comparison{
				Difference: experiment.Interval{Mean: 2, Low: 2 - 5.7301, High: 2 + 5.7301, StdError: 0.57735, Level: 0.99, N: 3},
				Ratio:      experiment.Interval{Mean: 1.1, Low: 1.1, High: 1.1, StdError: 0, Level: 0.99, N: 3},
			},
		},
		{
			// Ratios 2 and 8: logarithms of base 2 are 1 and 3, mean 2, error
			// 1; t(0.975, 1) = 12.7062, so 2^(2 ± 12.7062). Differences 1, 7.
			name: "a ratio", a: []float64{2, 8}, b: []float64{1, 1}, level: 0.95,
			want: experiment.Comparison{
				Difference: experiment.Interval{Mean: 4, Low: 4 - 38.1186, High: 4 + 38.1186, StdError: 3, Level: 0.95, N: 2},
				Ratio:      experiment.Interval{Mean: 4, Low: math.Exp2(-10.7062), High: math.Exp2(14.7062), StdError: 0.693147, Level: 0.95, N: 2},
			},
		},
		{
			name: "no ratio to zero", a: []float64{1, 2, 3}, b: []float64{1, 1, 0}, level: 0.95,
			want: experiment.Comparison{
				Difference: experiment.Interval{Mean: 4.0 / 3, Low: 4.0/3 - 3.7947, High: 4.0/3 + 3.7947, StdError: 0.881917, Level: 0.95, N: 3},
				Ratio:      experiment.Interval{Mean: nan, Low: nan, High: nan, StdError: nan, Level: 0.95, N: 3},
			},
		},
	} {
		got, err := experiment.Paired(c.a, c.b, c.level)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if d := cmp.Diff(c.want, got, tabulated); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

// Pairing finds a difference that the spread between the seeds would hide.
func TestPairingCancelsTheSeed(t *testing.T) {
	var a, b []float64
	for i := range 10 {
		seed := 100 * float64(i)
		a, b = append(a, seed+5.5+0.1*float64(i%2)), append(b, seed+4.5)
	}
	got, err := experiment.Paired(a, b, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Difference.Excludes(0) || got.Difference.Excludes(1.05) || got.Difference.Excludes(got.Difference.High) {
		t.Errorf("difference %v", got.Difference)
	}
}

func TestMeanInterval(t *testing.T) {
	// Batches (1 2 3) (4 5 6) (7 8 9): means 2 5 8, deviation 3, error √3.
	got, err := experiment.MeanInterval([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 3, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	want := experiment.Interval{Mean: 5, Low: 5 - 7.4524, High: 5 + 7.4524, StdError: 1.73205, Level: 0.95, N: 3}
	if d := cmp.Diff(want, got, tabulated); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// Five values in two batches: (1 2) and (3 4 5).
	got, err = experiment.MeanInterval([]float64{1, 2, 3, 4, 5}, 2, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	want = experiment.Interval{Mean: 2.75, Low: 2.75 - 15.8828, High: 2.75 + 15.8828, StdError: 1.25, Level: 0.95, N: 2}
	if d := cmp.Diff(want, got, tabulated); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// About 95 of 100 intervals hold the true mean of a process with memory; the
// interval that takes each value as independent would hold it far less often.
func TestIntervalsCoverTheMean(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	covered := 0
	for range 400 {
		values, x := make([]float64, 4000), 0.0
		for i := range values {
			x = 0.8*x + random.NormFloat64()
			values[i] = x
		}
		got, err := experiment.MeanInterval(values, 20, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Excludes(0) {
			covered++
		}
	}
	if covered < 365 || covered > 395 { // 380 ± 3.5 standard deviations
		t.Errorf("%d of 400 intervals hold the mean, want about 380", covered)
	}
}

func TestErrors(t *testing.T) {
	paired := func(a, b []float64, level float64) error {
		_, err := experiment.Paired(a, b, level)
		return err
	}
	batch := func(values []float64, batches int, level float64) error {
		_, err := experiment.MeanInterval(values, batches, level)
		return err
	}
	two := []float64{1, 2}
	for _, c := range []struct {
		err  error
		want string
	}{
		{paired(two, []float64{1}, 0.95), "2 values in a, 1 in b"},
		{paired(two[:1], two[:1], 0.95), "1 pairs, want at least 2"},
		{paired(nil, nil, 0.95), "0 pairs, want at least 2"},
		{paired([]float64{1, math.NaN()}, two, 0.95), "a[1] is NaN"},
		{paired(two, []float64{math.Inf(1), 1}, 0.95), "b[0] is +Inf"},
		{paired(two, two, 95), "level is 95, want more than 0 and less than 1"},
		{paired(two, two, math.NaN()), "level is NaN"},
		{batch(two, 1, 0.95), "1 batches, want at least 2"},
		{batch(two, 3, 0.95), "2 values for 3 batches"},
		{batch([]float64{1, 2, math.NaN()}, 2, 0.95), "values[2] is NaN"},
		{batch(two, 2, 0), "level is 0, want"},
	} {
		if c.err == nil || !strings.HasPrefix(c.err.Error(), "experiment: "+c.want) {
			t.Errorf("error %v, want %s", c.err, c.want)
		}
	}
}

func ExamplePaired() {
	chunked := []float64{9.1, 8.7, 9.4, 9.0, 8.9}
	batch := []float64{7.9, 7.7, 8.0, 8.1, 7.6}
	c, err := experiment.Paired(chunked, batch, 0.95)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("goodput, requests/s:", c.Difference)
	fmt.Println("ratio:", c.Ratio)
	fmt.Println("sure:", c.Difference.Excludes(0))
	// Output:
	// goodput, requests/s: 1.16 [0.9025, 1.417] (95 %, n = 5)
	// ratio: 1.148 [1.114, 1.182] (95 %, n = 5)
	// sure: true
}

func ExampleMeanInterval() {
	waits := []float64{0, 80, 160, 240, 0, 80, 160, 240, 0, 80, 160, 240}
	i, err := experiment.MeanInterval(waits, 3, 0.95)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(i)
	// Output:
	// 120 [120, 120] (95 %, n = 3)
}
