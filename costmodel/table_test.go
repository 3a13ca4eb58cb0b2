package costmodel_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"servesim/costmodel"
)

func table(t *testing.T, between costmodel.Interpolation, outside costmodel.Outside) *costmodel.Table {
	t.Helper()
	m, err := costmodel.NewTable(given, []float64{1, 2, 4, 8}, []float64{10, 10, 16, 40}, between, outside)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTable(t *testing.T) {
	linear, monotone := costmodel.LinearInterpolation, costmodel.MonotoneInterpolation
	const refused = -1
	for _, c := range []struct {
		between    costmodel.Interpolation
		outside    costmodel.Outside
		size, want float64
	}{
		{linear, costmodel.Refuse, 1, 10}, {linear, costmodel.Refuse, 3, 13}, {linear, costmodel.Refuse, 8, 40},
		{linear, costmodel.Refuse, 0.5, refused}, {linear, costmodel.Refuse, 9, refused}, {linear, costmodel.Hold, math.NaN(), refused},
		{linear, costmodel.Hold, 0.5, 10}, {linear, costmodel.Hold, 99, 40},
		{linear, costmodel.Extend, 0.5, 10}, {linear, costmodel.Extend, 10, 52},
		{monotone, costmodel.Refuse, 2, 10}, {monotone, costmodel.Refuse, 1.5, 10}, {monotone, costmodel.Extend, 10, 52},
	} {
		got, err := table(t, c.between, c.outside).Lookup(c.size)
		if err != nil {
			got = refused
		}
		if got != c.want {
			t.Errorf("interpolation %d, outside %d: size %v takes %v, want %v", c.between, c.outside, c.size, got, c.want)
		}
	}
	// Between 4 and 8 the slopes are 3 and 6: cubics bend, straight lines do not.
	m := table(t, monotone, costmodel.Refuse)
	last := 0.0
	for x := 1.0; x <= 8; x += 1. / 64 {
		y := m.Seconds(x)
		if y < last {
			t.Fatalf("the monotone curve falls at %v", x)
		}
		last = y
	}
	if y := m.Seconds(3); y >= 13 {
		t.Errorf("the monotone curve is at %v, not below the straight 13", y)
	}
	_, err := table(t, linear, costmodel.Refuse).Lookup(9)
	wantError(t, err, "costmodel: size 9 is outside the measured 1 to 8 (a test)")
	wantPanic(t, "costmodel: size 9 is outside the measured 1 to 8 (a test)", func() { table(t, linear, costmodel.Refuse).Seconds(9) })
}

func TestExtendedTimesAreNotNegative(t *testing.T) {
	m, err := costmodel.NewTable(given, []float64{10, 20}, []float64{1, 9}, costmodel.LinearInterpolation, costmodel.Extend)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Seconds(1); got != 0 {
		t.Errorf("far below the range: %v, want 0", got)
	}
}

func TestTableRefuses(t *testing.T) {
	for _, c := range []struct {
		from           costmodel.Provenance
		sizes, seconds []float64
		want           string
	}{
		{costmodel.Provenance{}, []float64{1}, []float64{1}, "costmodel: Provenance.Platform is missing: a measurement belongs to a set-up"},
		{given, nil, nil, "costmodel: a table of 0 sizes and 0 times"},
		{given, []float64{1, 1}, []float64{1, 1}, "costmodel: size 1 of a table is 1, not finite and above the one before"},
		{given, []float64{1, 2}, []float64{1, 0}, "costmodel: time 1 of a table, at size 2, is 0 s"},
	} {
		_, err := costmodel.NewTable(c.from, c.sizes, c.seconds, costmodel.LinearInterpolation, costmodel.Refuse)
		wantError(t, err, c.want)
	}
}

// A product of the coordinates is interpolated exactly; points beside the grid
// are left out of it.
func TestGrid(t *testing.T) {
	var samples []costmodel.Sample
	for _, n := range []float64{1, 2, 8} {
		for _, c := range []float64{100, 1000, 4000} {
			samples = append(samples, costmodel.Sample{Inputs: []float64{n, c}, Seconds: 5 + n*c})
		}
	}
	samples = append(samples, costmodel.Sample{Inputs: []float64{4, 500}, Seconds: 1})
	g, err := costmodel.NewGrid(given, samples)
	if err != nil {
		t.Fatal(err)
	}
	if got := g.Axis(0); len(got) != 3 || len(g.Axis(1)) != 3 {
		t.Errorf("axes %v and %v", got, g.Axis(1))
	}
	for _, x := range [][]float64{{1, 100}, {8, 4000}, {5, 2500}, {1.5, 100}, {8, 300}} {
		if got, err := g.Lookup(x...); err != nil || math.Abs(got-5-x[0]*x[1]) > 1e-9 {
			t.Errorf("%v takes %v, %v, want %v", x, got, err, 5+x[0]*x[1])
		}
	}
	_, err = g.Lookup(9, 100)
	wantError(t, err, "costmodel: coordinate 0 is 9, outside the measured 1 to 8 (a test)")
	x := []float64{9, 50}
	if moved := g.Nearest(x); !moved || x[0] != 8 || x[1] != 100 {
		t.Errorf("the nearest point is %v", x)
	}
	if allocs := testing.AllocsPerRun(100, func() { g.Lookup(5, 2500) }); allocs > 0 {
		t.Errorf("%v allocations a look-up", allocs)
	}
	_, err = costmodel.NewGrid(costmodel.Provenance{}, samples)
	wantError(t, err, "costmodel: Provenance.Platform is missing: a measurement belongs to a set-up")
}

func TestEstimateRun(t *testing.T) {
	g := costmodel.GPU{Watts: 700, Price: costmodel.Price{Hyperscaler: 3, Rental: 2}}
	e := g.EstimateRun(8, 30*time.Minute)
	if e.GPUSeconds != 14400 || e.BoardJoules != 14400*700 || e.AllInJoules != 0 || e.Hyperscaler != 12 || e.Neocloud != 0 || e.Rental != 8 {
		t.Errorf("got %+v", e)
	}
	if got, want := e.String(), "14400 GPU-seconds; estimates: at most 2.8 kWh of the boards, $12.00 hyperscaler, $8.00 three-year rental"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, c := range []struct {
		gpu  costmodel.GPU
		want string
	}{
		{costmodel.GPU{Watts: 3600}, "1 GPU-seconds; estimates: at most 0.001 kWh of the boards, no price known"},
		{costmodel.GPU{Price: costmodel.Price{AllInWatts: 3600}}, "1 GPU-seconds; estimates: 0.001 kWh all in, no price known"},
		{costmodel.GPU{Price: costmodel.Price{Neocloud: 3600}}, "1 GPU-seconds; estimates: no power known, $1.00 neocloud"},
	} {
		if got := c.gpu.EstimateRun(1, time.Second).String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if m := e.PerMillion(4e6); m.Hyperscaler != 3 || m.GPUSeconds != 3600 {
		t.Errorf("a million tokens: %+v", m)
	}
	if got, want := (costmodel.GPU{}).EstimateRun(1, time.Second).String(), "1 GPU-seconds; estimates: the catalogue has neither power nor price"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func ExampleTable() {
	t, err := costmodel.NewTable(costmodel.Provenance{
		Platform: "RTX 4090", Formats: "BF16", Kernels: "vLLM", Layout: "one GPU", Boundary: "one kernel", Source: "an example",
	}, []float64{1, 64, 512}, []float64{127e-6, 144e-6, 376e-6}, costmodel.LinearInterpolation, costmodel.Refuse)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.0f µs\n", 1e6*t.Seconds(288))
	_, err = t.Lookup(1024)
	fmt.Println(err)
	// Output:
	// 260 µs
	// costmodel: size 1024 is outside the measured 1 to 512 (an example)
}
