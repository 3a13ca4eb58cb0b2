package costmodel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"servesim/costmodel"
)

func qwen(ranks int) costmodel.RoutedExperts {
	return costmodel.RoutedExperts{Count: 128, PerPosition: 8, Hidden: 2048, Inner: 768, Ranks: ranks, Shards: 1}
}

// 8 of 128 experts a position: 8, then 128·(1 − (15/16)²) = 15.5, in the limit
// all. Taking turns, positions share none until all are in use.
func TestDistinctExperts(t *testing.T) {
	for _, c := range []struct {
		n              float64
		random, inTurn string
	}{
		{1, "8.000", "8.000"}, {2, "15.500", "16.000"}, {8, "51.620", "64.000"}, {16, "82.423", "128.000"}, {1e6, "128.000", "128.000"},
	} {
		e := qwen(1)
		random := fmt.Sprintf("%.3f", e.Distinct(c.n))
		e.Balanced = true
		if inTurn := fmt.Sprintf("%.3f", e.Distinct(c.n)); random != c.random || inTurn != c.inTurn {
			t.Errorf("%v positions use %s experts, in turn %s; want %s and %s", c.n, random, inTurn, c.random, c.inTurn)
		}
	}
	// Popular experts are shared more.
	e := qwen(1)
	var err error
	if e.Popularity, err = costmodel.PowerLaw(128, 8, 1.2, 100); err != nil {
		t.Fatal(err)
	}
	if skewed, uniform := e.Distinct(16), qwen(1).Distinct(16); skewed > 0.9*uniform {
		t.Errorf("%v experts with a power law, %v without", skewed, uniform)
	}
}

// The busiest rank against drawn routings: within 6 %, or up to 20 % too low
// where a rank has less than four picks. The mean rank would be up to 84 % too
// low.
func TestBusiestRank(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, ranks := range []int{1, 2, 8, 32} {
		for _, n := range []int{1, 4, 16, 128, 1024} {
			e := qwen(ranks)
			picks, distinct := 0.0, 0.0
			runs := max(30, 1600/n)
			for range runs {
				most, used := drawBusiest(e, n, rng)
				picks += float64(most) / float64(runs)
				distinct += float64(used) / float64(runs)
			}
			p, d := e.Picks(float64(n))/picks-1, e.Distinct(float64(n))/distinct-1
			t.Logf("%2d ranks, %4d positions: %7.1f picks (%+.1f %%), %5.1f experts (%+.1f %%)", ranks, n, picks, 100*p, distinct, 100*d)
			lowest := -0.06
			if n*e.PerPosition < 4*ranks {
				lowest = -0.20
			}
			if min(p, d) < lowest || max(p, d) > 0.03 {
				t.Errorf("%d ranks, %d positions: picks %+.1f %%, experts %+.1f %% off", ranks, n, 100*p, 100*d)
			}
		}
	}
}

// drawBusiest routes n positions and returns the most picks and the most
// distinct experts of a rank.
func drawBusiest(e costmodel.RoutedExperts, n int, rng *rand.Rand) (picks, distinct int) {
	experts, used := rng.Perm(e.Count), make([]bool, e.Count)
	load, different := make([]int, e.Ranks), make([]int, e.Ranks)
	for range n {
		for i := range e.PerPosition {
			j := i + rng.IntN(e.Count-i)
			experts[i], experts[j] = experts[j], experts[i]
			x := experts[i]
			load[x%e.Ranks]++
			if !used[x] {
				used[x] = true
				different[x%e.Ranks]++
			}
		}
	}
	return slices.Max(load), slices.Max(different)
}

// Four experts dealt to two ranks: the first and the third to rank 0, which
// gets 0.9 + 0.3 of 2 picks a position and, of many, a few more by chance.
func TestPopularRank(t *testing.T) {
	e := costmodel.RoutedExperts{Count: 4, PerPosition: 2, Ranks: 2, Shards: 1, Popularity: []float64{0.9, 0.6, 0.3, 0.2}}
	if got := e.Picks(1e8) / 1e8; math.Abs(got-1.2) > 1e-3 {
		t.Errorf("%v picks a position, want 1.2", got)
	}
	// One position: 1.2 experts are expected, and by chance more.
	if got := e.Distinct(1); got < 1.2 || got > 2 {
		t.Errorf("%v distinct experts of one position", got)
	}
	e.Ranks = 1
	if got, want := e.Distinct(2), 0.99+0.84+0.51+0.36; !near(got, want) {
		t.Errorf("%v distinct experts of two positions, want %v", got, want)
	}
}

// Mixtral-like: 4 experts of 3·10·5 elements, 2 a position, two ranks of two
// halves. Without chance both ranks get half of 2·6 picks.
func TestExpertsWork(t *testing.T) {
	e := costmodel.RoutedExperts{Count: 4, PerPosition: 2, Hidden: 10, Inner: 10, Ranks: 2, Shards: 2, Balanced: true,
		Precision: costmodel.Precision{Weights: costmodel.Format{ValueBytes: 1}}}
	want := costmodel.Work{FLOPs: 2 * 150 * 6, Bytes: 150*2 + 2*(20+15)*6}
	if got := e.Work(6); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := e.Work(0); got != (costmodel.Work{}) {
		t.Errorf("no positions: %+v", got)
	}
}

// More positions never mean fewer picks, experts or bytes.
func TestExpertsAreMonotone(t *testing.T) {
	skewed, err := costmodel.PowerLaw(128, 8, 1.01, 200)
	if err != nil {
		t.Fatal(err)
	}
	for _, ranks := range []int{1, 2, 16, 128} {
		for _, popularity := range [][]float64{nil, skewed} {
			e := qwen(ranks)
			e.Popularity = popularity
			last := costmodel.Work{}
			for n := 1.0; n < 1e5; n = math.Ceil(n * 1.1) {
				w := e.Work(n)
				if w.FLOPs < last.FLOPs || w.Bytes < last.Bytes {
					t.Fatalf("%d ranks, %v positions: %+v, before %+v", ranks, n, w, last)
				}
				if d := e.Distinct(n); d > 128/float64(ranks)+1e-9 {
					t.Fatalf("%d ranks, %v positions: %v experts", ranks, n, d)
				}
				last = w
			}
		}
	}
}

func TestPowerLaw(t *testing.T) {
	for _, c := range []struct {
		count, perPosition int
		alpha, spread      float64
	}{{128, 8, 1.01, 200}, {128, 8, 1.2, 0.8 * 4096}, {8, 2, 1, 1000}, {8, 8, 2, 10}, {4, 1, 0, 1}, {256, 8, 3, 1e6}} {
		q, err := costmodel.PowerLaw(c.count, c.perPosition, c.alpha, c.spread)
		if err != nil {
			t.Fatal(err)
		}
		sum, last := 0.0, 1.0
		for i, x := range q {
			if x > last || x <= 0 {
				t.Errorf("%+v: q[%d] is %v behind %v", c, i, x, last)
			}
			sum, last = sum+x, x
		}
		if math.Abs(sum/float64(c.perPosition)-1) > 1e-12 {
			t.Errorf("%+v: adds up to %v", c, sum)
		}
	}
	// Quantiles 7/8, 5/8, 3/8 and 1/8 of 1/x between 1 and 16.
	q, err := costmodel.PowerLaw(4, 1, 1, 16)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%.3f", []float64{q[0] / q[3], q[1] / q[3], q[2] / q[3]}); got != "[8.000 4.000 2.000]" {
		t.Errorf("ratios %s, want 8, 4, 2", got)
	}
	for _, c := range []struct {
		count, perPosition int
		alpha, spread      float64
		want               string
	}{
		{0, 1, 1, 2, "costmodel: PowerLaw count is 0"},
		{8, 9, 1, 2, "costmodel: PowerLaw perPosition is 9 of 8"},
		{8, 1, math.NaN(), 2, "costmodel: PowerLaw alpha is NaN"},
		{8, 1, 1, 0.5, "costmodel: PowerLaw spread is 0.5"},
	} {
		_, err := costmodel.PowerLaw(c.count, c.perPosition, c.alpha, c.spread)
		wantError(t, err, c.want)
	}
}
