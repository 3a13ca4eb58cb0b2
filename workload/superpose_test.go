package workload_test

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/workload"
)

// recorder passes a process on and notes its arrivals.
type recorder struct {
	workload.Arrivals
	seen *[]sim.Time
}

func (p recorder) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		for t, err := range p.Arrivals.Times(r) {
			*p.seen = append(*p.seen, t)
			if !yield(t, err) {
				return
			}
		}
	}
}

func TestSuperposeInterleaves(t *testing.T) {
	s := workload.Superpose{
		workload.Shift{Arrivals: workload.Bursts{Size: 2, Every: 4 * time.Second}, By: time.Second},
		workload.Limit{Arrivals: workload.Constant{Rate: 1}, Count: 3},
		workload.Constant{Rate: 0.5},
	}
	sec := sim.Time(time.Second)
	want := []sim.Time{0, 0, sec, sec, sec, 2 * sec, 2 * sec, 4 * sec, 5 * sec, 5 * sec, 6 * sec}
	if diff := cmp.Diff(want, first(t, len(want), 1, s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ends := workload.Superpose{workload.Limit{Arrivals: workload.Poisson{Rate: 1}, Count: 30}, workload.Limit{Arrivals: workload.Poisson{Rate: 9}, Count: 50}}
	if n, err := failure(ends); n != 80 || err != nil {
		t.Errorf("%d arrivals, error %v, want 80, nil", n, err)
	}
}

// All arrivals of all clients, in order; clients added at the end leave the
// others as they are, and clients of one law differ.
func TestSuperposeKeepsClients(t *testing.T) {
	const n = 500
	run := func(clients int) (all []sim.Time, each [][]sim.Time) {
		each = make([][]sim.Time, clients)
		s := make(workload.Superpose, clients)
		for i := range s {
			s[i] = recorder{workload.Gamma{Rate: 1 + float64(i%3), CV: 2}, &each[i]}
		}
		return first(t, n*clients, 7, s), each
	}
	all, five := run(5)
	var union []sim.Time
	for _, times := range five {
		union = append(union, times...)
	}
	slices.Sort(union)
	if diff := cmp.Diff(union[:len(all)], all); diff != "" {
		t.Errorf("not the arrivals of the clients in order (-want +got):\n%s", diff)
	}
	_, seven := run(7)
	for i := range five {
		if m := min(len(five[i]), len(seven[i])); m < n/5 || !slices.Equal(five[i][:m], seven[i][:m]) {
			t.Errorf("client %d changes with the number of clients", i)
		}
	}
	if slices.Equal(five[0][:50], five[3][:50]) {
		t.Error("clients of one law have the same arrivals")
	}
}

// Bursty clients add up to nearly exponential gaps; the index of dispersion
// keeps theirs: that of independent streams is the mean of theirs, weighted by
// rate.
func TestSuperposeHidesBursts(t *testing.T) {
	var s workload.Superpose
	want, total := 0.0, 0.0
	for i, share := range workload.Shares(40, 1) {
		o := workload.OnOff{On: 40 * share * float64(2+i%3), MeanOn: 5 * time.Second, MeanOff: 5 * time.Second * time.Duration(1+i%3)}
		s = append(s, o)
		want += o.Rate() * o.IDC(10*time.Second)
		total += o.Rate()
	}
	d := described(t, 1, workload.Limit{Arrivals: s, Duration: 8000 * time.Second})
	near(t, "rate", float64(d.Rate), total, 0.03)
	near(t, "IDC(10 s)", float64(d.IDC10), want/total, 0.15)
	if d.GapCV > 1.2 || d.IDC10 < 5 {
		t.Errorf("gap CV %v and IDC(10 s) %v, want bursts that only the second shows", d.GapCV, d.IDC10)
	}
}

// described measures a process.
func described(t *testing.T, seed uint64, a workload.Arrivals) workload.Description {
	t.Helper()
	return mustDescribe(t, workload.Workload{Seed: seed, Arrivals: a, Mix: []workload.Share{{Lengths: workload.Tokens{Prompt: 1, Output: 1}}}}.Requests())
}

func TestSkewedShares(t *testing.T) {
	top := func(shares []float64, n int) string {
		sum := 0.0
		for _, s := range shares[:n] {
			sum += s
		}
		return fmt.Sprintf("%.2f", sum)
	}
	skewed := workload.Shares(162, 2)
	if got, want := top(skewed, 1)+top(skewed, 5)+top(skewed, 10)+top(skewed, 162), "0.220.500.641.00"; got != want {
		t.Errorf("shares of the first 1, 5, 10, 162: %s, want %s", got, want)
	}
	if !slices.IsSortedFunc(skewed, func(a, b float64) int { return int(math.Copysign(1, b-a)) }) {
		t.Error("shares are not in falling order")
	}
	for _, s := range workload.Shares(4, 0) {
		if math.Abs(s-0.25) > 1e-12 {
			t.Errorf("sigma 0: a share of %v, want 0.25", s)
		}
	}
	for _, bad := range []func(){func() { workload.Shares(0, 1) }, func() { workload.Shares(3, -1) }, func() { workload.Shares(3, math.NaN()) }} {
		func() {
			defer func() {
				if s := fmt.Sprint(recover()); !strings.HasPrefix(s, "workload: Shares(") {
					t.Errorf("panic %q", s)
				}
			}()
			bad()
		}()
	}
}

func TestInvalidSuperpose(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		s    workload.Superpose
		n    int
		want string
	}{
		{nil, 0, "no clients in Superpose"},
		{workload.Superpose{workload.Poisson{Rate: 1}, nil}, 0, "Superpose[1] is nil"},
		{workload.Superpose{workload.Poisson{Rate: 1}, workload.Poisson{}}, 0, "Superpose[1]: Poisson.Rate is 0,"},
		{workload.Superpose{failing{broken}, workload.Constant{Rate: 1e9}}, 4, "broken"}, // 0, 1 and 1, 2
	} {
		if n, err := failure(c.s); n != c.n || !strings.Contains(errText(err), c.want) {
			t.Errorf("%+v: %d arrivals, then %v, want %d, then %q", c.s, n, err, c.n, c.want)
		}
	}
}

// tenants are two parts of which one has two classes.
func tenants() workload.Merged {
	chat := chatAndDocuments(0, workload.Limit{Arrivals: workload.Poisson{Rate: 3}, Count: 200})
	return workload.Merged{Seed: 5, Parts: []workload.Part{
		{Name: "code", Arrivals: workload.Limit{Arrivals: workload.AzureCode2023(), Count: 300},
			Mix: []workload.Share{{Class: sim.Class{Name: "code"}, Lengths: workload.AzureCode2023Lengths()}}},
		{Name: "chat", Arrivals: chat.Arrivals, Mix: chat.Mix},
	}}
}

func TestMerged(t *testing.T) {
	m := tenants()
	all := collect(t, m.Requests())
	names := func(m workload.Merged) (names []string) {
		for _, c := range m.Classes() {
			names = append(names, c.Name)
		}
		return names
	}
	if diff := cmp.Diff([]string{"code", "chat", "document"}, names(m)); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
	counts := map[int]int{}
	for i, q := range all {
		counts[min(q.Class, 1)]++
		if q.ID != i || i > 0 && q.Arrival < all[i-1].Arrival {
			t.Fatalf("request %d has ID %d and arrives at %v", i, q.ID, q.Arrival)
		}
	}
	if counts[0] != 300 || counts[1] != 200 {
		t.Errorf("%d requests of the first part and %d of the second, want 300 and 200", counts[0], counts[1])
	}
	if diff := cmp.Diff(all, collect(t, m.Requests())); diff != "" {
		t.Errorf("the second iteration differs (-first +second):\n%s", diff)
	}
	// Another order, one part more: the requests of the parts stay, but for
	// IDs and the numbers of classes.
	more := tenants()
	more.Parts = append([]workload.Part{{Name: "new", Arrivals: workload.Limit{Arrivals: workload.Poisson{Rate: 10}, Count: 1000},
		Mix: []workload.Share{{Class: sim.Class{Name: "new"}, Lengths: workload.Tokens{Prompt: 1, Output: 1}}}}}, more.Parts[1], more.Parts[0])
	of := func(m workload.Merged, class string) (out []sim.Request) {
		for _, q := range collect(t, m.Requests()) {
			if m.Classes()[q.Class].Name == class {
				q.ID, q.Class = 0, 0
				out = append(out, q)
			}
		}
		return out
	}
	for _, class := range []string{"code", "chat", "document"} {
		if diff := cmp.Diff(of(m, class), of(more, class)); diff != "" {
			t.Errorf("%s changes with the other parts (-without +with):\n%s", class, diff)
		}
	}
}

func TestInvalidMerged(t *testing.T) {
	for _, c := range []struct {
		change func(m *workload.Merged)
		n      int
		want   string
	}{
		{func(m *workload.Merged) { m.Parts = nil }, 0, "no Parts in Merged"},
		{func(m *workload.Merged) { m.Parts[1].Name = "code" }, 0, `Merged.Parts[1].Name "code" is not unique`},
		{func(m *workload.Merged) { m.Parts[1].Mix = nil }, 0, "Merged.Parts[1]: no classes in Workload.Mix"},
		{func(m *workload.Merged) { m.Parts = m.Parts[1:]; m.Parts[0].Arrivals = backwards{5, 9, 7} }, 2, `part "chat": workload: Workload.Arrivals: arrival 2 is at 7ns`},
	} {
		m := tenants()
		c.change(&m)
		got, err := workload.Collect(m.Requests())
		if len(got) != c.n || !strings.Contains(errText(err), c.want) {
			t.Errorf("%d requests, then %v, want %d, then %q", len(got), err, c.n, c.want)
		}
	}
}

// A class that is added, wherever it stands, takes requests from the others;
// those that stay do not change.
func TestAddedClassTakesOnlyItsOwn(t *testing.T) {
	const n = 5000
	w := chatAndDocuments(1, workload.Poisson{Rate: 1})
	before := collect(t, workload.Take(w.Requests(), n))
	added := workload.Share{Class: sim.Class{Name: "code"}, Weight: 5, Lengths: workload.AzureCode2023Lengths()}
	for place := range 3 {
		more := w
		more.Mix = slices.Insert(slices.Clone(w.Mix), place, added)
		taken := 0.0
		for i, q := range collect(t, workload.Take(more.Requests(), n)) {
			if q.Class == place {
				taken++
				continue
			}
			q.Class = map[string]int{"chat": 0, "document": 1}[more.Mix[q.Class].Class.Name]
			if !cmp.Equal(q, before[i]) {
				t.Fatalf("request %d is %+v, was %+v", i, q, before[i])
			}
		}
		within(t, "share of the class", taken/n, 1.0/3, math.Sqrt(2.0/9/n), 4)
	}
	unnamed := workload.Workload{Seed: 1, Arrivals: workload.Poisson{Rate: 1}, Mix: []workload.Share{
		{Weight: 1, Lengths: workload.Tokens{Prompt: 1, Output: 1}}, {Weight: 3, Lengths: workload.Tokens{Prompt: 2, Output: 1}}}}
	second := 0.0
	for _, q := range collect(t, workload.Take(unnamed.Requests(), n)) {
		second += float64(q.Class) / n
	}
	within(t, "share of the second of two classes without names", second, 0.75, math.Sqrt(0.1875/n), 4)
}
