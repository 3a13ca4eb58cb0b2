package workload_test

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/workload"
)

// chatAndDocuments is a workload of two classes with every optional setting.
func chatAndDocuments(seed uint64, arrivals workload.Arrivals) workload.Workload {
	return workload.Workload{
		Seed:     seed,
		Arrivals: arrivals,
		Mix: []workload.Share{
			{
				Class:     sim.Class{Name: "chat", TTFT: time.Second, Gap: 50 * time.Millisecond},
				Weight:    9,
				Lengths:   workload.AzureConv2023Lengths(),
				MaxOutput: 256,
				Hint:      &workload.Hint{Sigma: 0.5},
				Deadline:  time.Second,
			},
			{
				Class:    sim.Class{Name: "document", Priority: 1, TTFT: 20 * time.Second},
				Weight:   1,
				Lengths:  workload.Independent{Prompt: workload.LogNormal{Median: 8000, Sigma: 0.5, Max: 32000}, Output: workload.Fixed(300)},
				Patience: sim.Patience{First: time.Minute},
			},
		},
	}
}

func collect(t testing.TB, requests iter.Seq2[sim.Request, error]) []sim.Request {
	t.Helper()
	all, err := workload.Collect(requests)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRequestFields(t *testing.T) {
	w := workload.Workload{
		Arrivals: workload.Limit{Arrivals: workload.Bursts{Size: 2, Every: time.Second}, Count: 3},
		Mix: []workload.Share{{
			Class:     sim.Class{Name: "only", TTFT: time.Second},
			Lengths:   workload.Tokens{Prompt: 512, Output: 128},
			MaxOutput: 100,
			Hint:      &workload.Hint{},
			Deadline:  3 * time.Second,
			Patience:  sim.Patience{First: time.Minute, Total: time.Hour},
		}},
	}
	request := func(id int, arrival, deadline sim.Time) sim.Request {
		return sim.Request{ID: id, Arrival: arrival, Prompt: 512, Output: 128, MaxOutput: 100, Hint: 128,
			Deadline: deadline, Patience: sim.Patience{First: time.Minute, Total: time.Hour}}
	}
	want := []sim.Request{request(0, 0, 3e9), request(1, 0, 3e9), request(2, 1e9, 4e9)}
	if diff := cmp.Diff(want, collect(t, w.Requests())); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]sim.Class{{Name: "only", TTFT: time.Second}}, w.Classes()); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
}

func TestEachIterationIsTheSame(t *testing.T) {
	w := chatAndDocuments(7, workload.Limit{Arrivals: workload.AzureCode2023(), Count: 2000})
	sequence := w.Requests()
	a := collect(t, sequence)
	if diff := cmp.Diff(a, collect(t, sequence)); diff != "" {
		t.Errorf("second iteration (-first +second):\n%s", diff)
	}
	if diff := cmp.Diff(a[:100], collect(t, workload.Take(sequence, 100))); diff != "" {
		t.Errorf("an iteration that stops early (-want +got):\n%s", diff)
	}
	w.Seed = 8
	b := collect(t, w.Requests())
	same := 0
	for i := range a {
		if a[i].Arrival == b[i].Arrival || a[i].Prompt == b[i].Prompt && a[i].Output == b[i].Output {
			same++
		}
	}
	if same > len(a)/20 {
		t.Errorf("%d of %d requests are alike under another seed", same, len(a))
	}
}

// What request i is does not depend on when it comes, nor its lengths on the
// other settings.
func TestCommonRandomNumbers(t *testing.T) {
	const n = 3000
	base := collect(t, workload.Take(chatAndDocuments(1, workload.Poisson{Rate: 1}).Requests(), n))
	for name, arrivals := range map[string]workload.Arrivals{
		"faster":  workload.Poisson{Rate: 50},
		"bursty":  workload.Gamma{Rate: 1, CV: 5},
		"mmpp":    workload.AzureConv2023(),
		"regular": workload.Constant{Rate: 3},
	} {
		for i, q := range collect(t, workload.Take(chatAndDocuments(1, arrivals).Requests(), n)) {
			q.Arrival, q.Deadline = base[i].Arrival, base[i].Deadline
			if !cmp.Equal(q, base[i]) {
				t.Fatalf("%s: request %d is %+v, want %+v", name, i, q, base[i])
			}
		}
	}
	w := chatAndDocuments(1, workload.Poisson{Rate: 1})
	w.Mix[0].Hint, w.Mix[0].MaxOutput = nil, 0
	w.Mix[0].Weight, w.Mix[1].Weight = 0.8, 0.2
	moved := 0
	for i, q := range collect(t, workload.Take(w.Requests(), n)) {
		if q.Arrival != base[i].Arrival {
			t.Fatalf("request %d arrives at %v, want %v", i, q.Arrival, base[i].Arrival)
		}
		if q.Class != base[i].Class {
			if moved++; q.Class != 1 {
				t.Fatalf("request %d moved to class %d, whose share shrank", i, q.Class)
			}
		} else if q.Prompt != base[i].Prompt || q.Output != base[i].Output {
			t.Fatalf("request %d is %+v, want the lengths of %+v", i, q, base[i])
		}
	}
	within(t, "share of requests that moved to the class that grew", float64(moved)/n, 0.1, math.Sqrt(0.1*0.9/n), 4)
}

func TestShares(t *testing.T) {
	const n = 50_000
	var counts [2]float64
	var documents, lag, last float64
	for q, err := range workload.Take(chatAndDocuments(3, workload.Constant{Rate: 1}).Requests(), n) {
		if err != nil {
			t.Fatal(err)
		}
		counts[q.Class]++
		x := float64(q.Class) - 0.1
		lag += x * last
		last = x
		if q.Class == 1 {
			documents += math.Log(float64(q.Prompt))
		}
	}
	within(t, "share of documents", counts[1]/n, 0.1, math.Sqrt(0.09/n), 4)
	within(t, "covariance of neighbours' classes", lag/n, 0, 0.09/math.Sqrt(n), 4)
	within(t, "median of their prompts", documents/counts[1], math.Log(8000), 0.5/math.Sqrt(counts[1]), 4)
}

// The error of a hint is log-normal with the stated sigma and does not touch
// the outputs.
func TestHint(t *testing.T) {
	const n = 20_000
	w := workload.Workload{Seed: 1, Arrivals: workload.Constant{Rate: 1}, Mix: []workload.Share{{
		Lengths: workload.Tokens{Prompt: 1, Output: 100_000}, Hint: &workload.Hint{Sigma: 0.4},
	}}}
	var sum, squares float64
	for q := range workload.Take(w.Requests(), n) {
		x := math.Log(float64(q.Hint) / 100_000)
		sum, squares = sum+x, squares+x*x
	}
	within(t, "mean error", sum/n, 0, 0.4/math.Sqrt(n), 4)
	within(t, "variance of the error", squares/n, 0.16, 0.16*math.Sqrt(2.0/n), 4)
}

// backwards is an arrival process of a user that makes a mistake.
type backwards []sim.Time

func (b backwards) Times(*rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		for _, at := range b {
			if !yield(at, nil) {
				return
			}
		}
	}
}

// drawn is a length distribution of a user.
type drawn func(*rand.Rand) workload.Tokens

func (d drawn) Draw(r *rand.Rand) workload.Tokens { return d(r) }

func TestWorkloadErrors(t *testing.T) {
	broken := errors.New("broken")
	valid := func() workload.Workload { return chatAndDocuments(1, workload.Constant{Rate: 1}) }
	calls := 0
	for _, c := range []struct {
		name   string
		change func(w *workload.Workload)
		n      int // requests before the error
		want   string
	}{
		{"no arrivals", func(w *workload.Workload) { w.Arrivals = nil }, 0, "Workload.Arrivals is nil"},
		{"bad arrivals", func(w *workload.Workload) { w.Arrivals = workload.Poisson{Rate: -3} }, 0, "Workload.Arrivals: Poisson.Rate is -3,"},
		{"no classes", func(w *workload.Workload) { w.Mix = nil }, 0, "no classes in Workload.Mix"},
		{"NaN weight", func(w *workload.Workload) { w.Mix[1].Weight = math.NaN() }, 0, "Workload.Mix[1].Weight is NaN,"},
		{"negative weight", func(w *workload.Workload) { w.Mix[1].Weight = -1 }, 0, "Workload.Mix[1].Weight is -1,"},
		{"no weights", func(w *workload.Workload) { w.Mix[0].Weight, w.Mix[1].Weight = 0, 0 }, 0, "Workload.Mix weights sum to 0,"},
		{"max output", func(w *workload.Workload) { w.Mix[1].MaxOutput = -5 }, 0, "Workload.Mix[1].MaxOutput is -5,"},
		{"hint", func(w *workload.Workload) { w.Mix[0].Hint = &workload.Hint{Sigma: math.Inf(1)} }, 0, "Workload.Mix[0].Hint.Sigma is +Inf,"},
		{"target", func(w *workload.Workload) { w.Mix[0].Class.TTFT = -time.Second }, 0, "Workload.Mix[0].Class.TTFT is -1s,"},
		{"gap", func(w *workload.Workload) { w.Mix[0].Class.Gap = -time.Second }, 0, "Workload.Mix[0].Class.Gap is -1s,"},
		{"deadline", func(w *workload.Workload) { w.Mix[0].Deadline = -1 }, 0, "Workload.Mix[0].Deadline is -1ns,"},
		{"patience", func(w *workload.Workload) { w.Mix[1].Patience.Total = -1 }, 0, "Workload.Mix[1].Patience.Total is -1ns,"},
		{"arrivals that go back", func(w *workload.Workload) { w.Arrivals = backwards{5, 9, 7} }, 2,
			"Workload.Arrivals: arrival 2 is at 7ns, before 9ns"},
		{"negative arrival", func(w *workload.Workload) { w.Arrivals = backwards{-5} }, 0, "arrival 0 is at -5ns, before 0ns"},
		{"arrivals that fail", func(w *workload.Workload) { w.Arrivals = failing{broken} }, 2, "broken"},
		{"bad draw", func(w *workload.Workload) {
			w.Mix[0].Lengths = drawn(func(*rand.Rand) workload.Tokens {
				calls++
				return workload.Tokens{Prompt: 10, Output: 3 - calls}
			})
			w.Mix[1].Weight = 0
		}, 2, "Workload.Mix[0].Lengths drew prompt 10, output 0 for request 2,"},
	} {
		w := valid()
		c.change(&w)
		got, err := workload.Collect(workload.Take(w.Requests(), 10))
		if len(got) != c.n || !strings.Contains(errText(err), c.want) {
			t.Errorf("%s: %d requests, then %v, want %d, then %q", c.name, len(got), err, c.n, c.want)
		}
	}
}

func TestAShareOfOneNeedsNoWeight(t *testing.T) {
	w := workload.Workload{Arrivals: workload.Constant{Rate: 1}, Mix: []workload.Share{{Lengths: workload.Tokens{Prompt: 1, Output: 1}}}}
	if err := w.Validate(); err != nil {
		t.Error(err)
	}
}

// Making requests allocates per iteration, not per request.
func TestNoAllocationPerRequest(t *testing.T) {
	w := chatAndDocuments(1, workload.AzureCode2023())
	count := func(n int) float64 {
		return testing.AllocsPerRun(3, func() {
			for _, err := range workload.Take(w.Requests(), n) {
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if few, many := count(10), count(10_000); many > few+10 {
		t.Errorf("%v allocations for 10 requests, %v for 10,000", few, many)
	}
}

func TestSequenceHelpers(t *testing.T) {
	all := []sim.Request{
		{ID: 4, Arrival: 1000, Prompt: 1, Output: 1, Deadline: 5000},
		{ID: 5, Arrival: 3001, Prompt: 1, Output: 1},
	}
	slice := workload.FromSlice(all)
	if diff := cmp.Diff(all, collect(t, slice)); diff != "" {
		t.Errorf("FromSlice (-want +got):\n%s", diff)
	}
	for n, want := range map[int]int{0: 0, 1: 1, 2: 2, 3: 2} {
		if got := collect(t, workload.Take(slice, n)); len(got) != want {
			t.Errorf("Take %d gave %d requests, want %d", n, len(got), want)
		}
	}
	want := []sim.Request{
		{ID: 4, Arrival: 500, Prompt: 1, Output: 1, Deadline: 4500},
		{ID: 5, Arrival: 1501, Prompt: 1, Output: 1}, // 1500.5, half away from zero
	}
	if diff := cmp.Diff(want, collect(t, workload.Speed(slice, 2))); diff != "" {
		t.Errorf("Speed (-want +got):\n%s", diff)
	}
	broken := fmt.Errorf("broken")
	var fails iter.Seq2[sim.Request, error] = func(yield func(sim.Request, error) bool) {
		_ = yield(all[0], nil) && yield(sim.Request{}, broken)
	}
	for name, s := range map[string]iter.Seq2[sim.Request, error]{"Take": workload.Take(fails, 5), "Speed": workload.Speed(fails, 2)} {
		if got, err := workload.Collect(s); len(got) != 1 || !errors.Is(err, broken) {
			t.Errorf("%s of a failing sequence: %d requests, error %v", name, len(got), err)
		}
	}
	for name, s := range map[string]iter.Seq2[sim.Request, error]{
		"Take of -1 requests":   workload.Take(slice, -1),
		"Speed factor is NaN":   workload.Speed(slice, math.NaN()),
		"Speed factor is 0,":    workload.Speed(slice, 0),
		"divided by 1e-300 is ": workload.Speed(slice, 1e-300),
	} {
		if got, err := workload.Collect(s); len(got) != 0 || !strings.Contains(errText(err), name) {
			t.Errorf("%d requests, then %v, want error with %q", len(got), err, name)
		}
	}
}
