package metrics_test

import (
	"fmt"
	"math"
	"testing"

	"servesim/sim/metrics"
)

func repeat(n int, v float64) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = v
	}
	return s
}

func TestPercentile(t *testing.T) {
	var hundred, documents []float64
	for i := 1; i <= 100; i++ {
		hundred = append(hundred, float64(i))
	}
	for i := 1000.0; i <= 1900; i += 100 {
		documents = append(documents, i)
	}
	for _, c := range []struct {
		name   string
		values []float64
		q      float64
		method metrics.Method
		want   float64
	}{
		{"lab", []float64{10, 10, 19, 15, 42}, 0.50, metrics.NearestRank, 15},
		{"lab", []float64{10, 10, 19, 15, 42}, 0.95, metrics.NearestRank, 42},
		{"lab", []float64{10, 10, 19, 15, 42}, 0.95, metrics.Linear, 37.4},
		{"gaps", []float64{4, 4, 4, 4, 4, 4, 4, 16}, 0.95, metrics.NearestRank, 16},
		{"gaps", []float64{4, 4, 4, 4, 4, 4, 4, 16}, 0.95, metrics.Linear, 11.8},
		{"0.07 of 100 is rank 7", hundred, 0.07, metrics.NearestRank, 7},
		{"0.071 of 100 is rank 8", hundred, 0.071, metrics.NearestRank, 8},
		{"the last of 100", hundred, 1, metrics.NearestRank, 100},
		{"the last of 100", hundred, 1, metrics.Linear, 100},
		{"p99 of 100", hundred, 0.99, metrics.NearestRank, 99},
		{"p99 of 100", hundred, 0.99, metrics.Linear, 99.01},
		{"chats do not move it", append(repeat(90, 50), documents...), 0.95, metrics.NearestRank, 1400},
		{"chats do not move it", append(repeat(90, 900), documents...), 0.95, metrics.NearestRank, 1400},
		{"one value", []float64{3}, 0.5, metrics.Linear, 3},
		{"one value", []float64{3}, 0.5, metrics.NearestRank, 3},
		{"none", nil, 0.5, metrics.Linear, math.NaN()},
		{"not a number", []float64{1, math.NaN()}, 0.5, metrics.Linear, math.NaN()},
	} {
		got := metrics.Percentile(c.values, c.q, c.method)
		if math.IsNaN(c.want) != math.IsNaN(got) || math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v p%v is %v, want %v", c.name, c.method, 100*c.q, got, c.want)
		}
	}
}

// Percentiles of phases add up to nothing that anybody waited.
func TestPercentilesDoNotAdd(t *testing.T) {
	phase := func(from, to int) []float64 { // slow in [from, to) of 100 requests
		s := repeat(100, 10)
		for i := from; i < to; i++ {
			s[i] = 1000
		}
		return s
	}
	sum := func(phases ...[]float64) []float64 {
		s := make([]float64, 100)
		for _, p := range phases {
			for i, v := range p {
				s[i] += v
			}
		}
		return s
	}
	p95 := func(s []float64) float64 { return metrics.Percentile(s, 0.95, metrics.Linear) }

	a, b := phase(0, 10), phase(10, 20)
	if got := p95(a) + p95(b); got != 2000 {
		t.Errorf("sum of the phase p95s is %v, want 2000", got)
	}
	if got := metrics.Percentile(sum(a, b), 1, metrics.Linear); got != 1010 {
		t.Errorf("largest total is %v, want 1010", got)
	}

	x, y, z := phase(0, 4), phase(4, 8), phase(8, 12)
	for _, p := range [][]float64{x, y, z} {
		if got := p95(p); got != 10 {
			t.Errorf("p95 of a phase is %v, want 10", got)
		}
	}
	if got := p95(sum(x, y, z)); got != 1020 {
		t.Errorf("p95 of the total is %v, want 1020", got)
	}
}

func TestPercentileFractionPanics(t *testing.T) {
	for _, q := range []float64{0, -0.1, 1.01, math.NaN()} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("fraction %v was taken", q)
				}
			}()
			metrics.Percentile([]float64{1}, q, metrics.Linear)
		}()
	}
}

func ExamplePercentile() {
	ttft := []float64{10, 10, 19, 15, 42}
	fmt.Println(metrics.Percentile(ttft, 0.95, metrics.NearestRank))
	fmt.Printf("%.1f\n", metrics.Percentile(ttft, 0.95, metrics.Linear))
	// Output:
	// 42
	// 37.4
}
