package workload_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"servesim/sim"
	"servesim/workload"
)

func TestAcceptancePerPosition(t *testing.T) {
	for _, c := range []struct {
		name        string
		conditional []float64
		drafts      int
		want        []float64
		mean        float64
	}{
		{"constant", []float64{0.5}, 4, []float64{0.5, 0.25, 0.125, 0.0625}, 1.9375},
		{"per position", []float64{0.8, 0.5, 0.25}, 5, []float64{0.8, 0.4, 0.1, 0.025, 0.00625}, 2.33125},
		{"the last is 0", []float64{0.8, 0}, 3, []float64{0.8, 0, 0}, 1.8},
		{"none", nil, 2, []float64{0, 0}, 1},
		{"no drafts", []float64{0.5}, 0, []float64{}, 1},
	} {
		a := workload.Acceptance{Conditional: c.conditional}
		if d := cmp.Diff(c.want, a.PerPosition(c.drafts), cmpopts.EquateApprox(1e-12, 0)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
		if got := a.MeanLength(c.drafts); math.Abs(got-c.mean) > 1e-12 {
			t.Errorf("%s: mean length %v, want %v", c.name, got, c.mean)
		}
	}
}

// counts returns how often at least i drafts are right, over ids and indices.
func counts(a workload.Acceptance, drafts int) (atLeast []float64) {
	const ids, indices = 400, 250
	atLeast = make([]float64, drafts)
	for id := range ids {
		for index := range indices {
			for i := range a.Accept(sim.Query{ID: id}, index, drafts) {
				atLeast[i]++
			}
		}
	}
	for i := range atLeast {
		atLeast[i] /= ids * indices
	}
	return atLeast
}

// Of 100,000 answers a share p deviates by 5·√(p(1-p)/100,000) < 0.008 in less
// than one of a million draws.
func TestAcceptanceShares(t *testing.T) {
	for _, c := range []struct {
		conditional []float64
		want        []float64
	}{
		{[]float64{0.7}, []float64{0.7, 0.49, 0.343, 0.2401}},
		{[]float64{0.9, 0.5, 0.1, 0}, []float64{0.9, 0.45, 0.045, 0}},
		{[]float64{1}, []float64{1, 1, 1, 1}},
		{[]float64{0}, []float64{0, 0, 0, 0}},
	} {
		for seed := range uint64(3) {
			got := counts(workload.Acceptance{Seed: seed, Conditional: c.conditional}, 4)
			if d := cmp.Diff(c.want, got, cmpopts.EquateApprox(0, 0.008)); d != "" {
				t.Errorf("%v, seed %d (-want +got):\n%s", c.conditional, seed, d)
			}
		}
	}
}

// Neighbours in request, index and seed are unrelated: two answers of one half
// each agree half of the time.
func TestAcceptanceIndependence(t *testing.T) {
	a := workload.Acceptance{Seed: 1, Conditional: []float64{0.5}}
	b := workload.Acceptance{Seed: 2, Conditional: []float64{0.5}}
	var index, id, seed, both float64
	for i := range 300 {
		for j := range 300 {
			x := a.Accept(sim.Query{ID: i}, j, 1)
			for _, c := range []struct {
				sum   *float64
				other int
			}{
				{&index, a.Accept(sim.Query{ID: i}, j+1, 1)},
				{&id, a.Accept(sim.Query{ID: i + 1}, j, 1)},
				{&seed, b.Accept(sim.Query{ID: i}, j, 1)},
				{&both, a.Accept(sim.Query{ID: i + 1}, j+1, 1)},
			} {
				if x == c.other {
					*c.sum++
				}
			}
		}
	}
	for i, sum := range []float64{index, id, seed, both} {
		if share := sum / 90_000; math.Abs(share-0.5) > 0.01 { // 6 standard deviations
			t.Errorf("comparison %d: %v agree", i, share)
		}
	}
}

// The same drafts are right however many there are, and a better curve
// confirms at least as many.
func TestAcceptanceNested(t *testing.T) {
	a := workload.Acceptance{Seed: 7, Conditional: []float64{0.8, 0.6}}
	better := workload.Acceptance{Seed: 7, Conditional: []float64{0.85, 0.7, 0.6}}
	seen := map[int]bool{}
	for id := range 50 {
		for index := range 50 {
			q := sim.Query{ID: id}
			most := a.Accept(q, index, 8)
			seen[most] = true
			for k := range 9 {
				if got := a.Accept(q, index, k); got != min(k, most) {
					t.Fatalf("request %d, token %d: %d of %d drafts, %d of 8", id, index, got, k, most)
				}
			}
			if got := better.Accept(q, index, 8); got < most {
				t.Fatalf("request %d, token %d: %d accepted, %d by the better curve", id, index, most, got)
			}
		}
	}
	if len(seen) < 6 {
		t.Errorf("only %v accepted", seen)
	}
}

// Answers stay what they are, whatever else a request says. The values come from
// the definition, evaluated elsewhere.
func TestAcceptancePinned(t *testing.T) {
	a := workload.Acceptance{Seed: 3, Conditional: []float64{0.8}}
	var got []int
	for index := range 12 {
		got = append(got, a.Accept(sim.Query{ID: 5, Prompt: index}, index, 5))
	}
	if d := cmp.Diff([]int{0, 4, 2, 2, 5, 5, 1, 5, 5, 1, 0, 5}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestAcceptanceFaults(t *testing.T) {
	for _, p := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
		a := workload.Acceptance{Conditional: []float64{1, p}}
		want := fmt.Sprintf("Acceptance.Conditional[1] is %v, want a probability from 0 to 1", p)
		if err := a.Validate(); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != "workload: "+want {
					t.Errorf("panic %q", got)
				}
			}()
			a.Accept(sim.Query{}, 0, 2)
		}()
	}
}

func TestAcceptanceAllocations(t *testing.T) {
	a := workload.Acceptance{Seed: 1, Conditional: []float64{0.9}}
	var drafter sim.Drafter = a
	index := 0
	if n := testing.AllocsPerRun(100, func() {
		drafter.Accept(sim.Query{ID: 4}, index, 5)
		index++
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Every second draft is right, if the one before it is.
func ExampleAcceptance() {
	a := workload.Acceptance{Seed: 1, Conditional: []float64{0.5}}
	fmt.Println(a.PerPosition(3), a.MeanLength(3))
	for index := range 8 {
		fmt.Print(a.Accept(sim.Query{ID: 42}, index, 3), " ")
	}
	// Output:
	// [0.5 0.25 0.125] 1.875
	// 0 0 1 0 3 2 0 1
}
