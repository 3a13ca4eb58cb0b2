package scheduler_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

// admissions runs rs one at a time, behind one that keeps the replica busy
// until all are queued, and returns the ids in order of admission.
func admissions(t *testing.T, o sim.Order, admission sim.Admission, rs ...sim.Request) (got []int) {
	t.Helper()
	_, err := sim.Run(context.Background(), sim.Config{
		Replicas:  []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: flat, MaxSeqs: 1, Order: o}},
		Classes:   []sim.Class{{Name: "batch", Priority: 5}, {Name: "chat", Priority: -1}, {Name: "tool", Priority: 2}},
		Admission: admission,
		Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == sim.Admit && e.ID > 0 {
				got = append(got, e.ID)
			}
		})},
	}, requests(append([]sim.Request{{ID: 0, Prompt: 1, Output: 50}}, rs...)...))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Five requests that every order sorts differently. Requests 4 and 5 tie in
// all of them, so they keep their order of arrival.
func TestOrders(t *testing.T) {
	rs := []sim.Request{
		{ID: 1, Arrival: at(1), Prompt: 30, Output: 2, Hint: 0, Class: 0, Deadline: at(900)},
		{ID: 2, Arrival: at(2), Prompt: 10, Output: 2, Hint: 9, Class: 2, Deadline: 0},
		{ID: 3, Arrival: at(3), Prompt: 20, Output: 2, Hint: 3, Class: 1, Deadline: at(500)},
		{ID: 4, Arrival: at(4), Prompt: 15, Output: 2, Hint: 5, Class: 2, Deadline: at(700)},
		{ID: 5, Arrival: at(5), Prompt: 15, Output: 2, Hint: 5, Class: 2, Deadline: at(700)},
	}
	for _, c := range []struct {
		name  string
		order sim.Order
		want  []int
	}{
		{"none", nil, []int{1, 2, 3, 4, 5}},
		{"arrival", sim.OrderFunc(scheduler.ByArrival), []int{1, 2, 3, 4, 5}},
		{"priority", sim.OrderFunc(scheduler.ByPriority), []int{3, 2, 4, 5, 1}},
		{"prompt", sim.OrderFunc(scheduler.ByPrompt), []int{2, 4, 5, 3, 1}},
		{"hint, unknown last", sim.OrderFunc(scheduler.ByHint), []int{3, 4, 5, 2, 1}},
		{"deadline, none last", sim.OrderFunc(scheduler.ByDeadline), []int{3, 4, 5, 1, 2}},
	} {
		if d := cmp.Diff(c.want, admissions(t, c.order, nil, rs...)); d != "" {
			t.Errorf("%s: admissions (-want +got):\n%s", c.name, d)
		}
	}
}

// deferFirst lets request 1 in at 10 ms.
type deferFirst struct{}

func (deferFirst) Admit(now sim.Time, q sim.Query, _ []sim.Load) sim.Decision {
	if q.ID == 1 && now < at(10) {
		return sim.Decision{Until: at(10)}
	}
	return sim.Decision{}
}

// ByArrival puts a request that was held at the front door where it belongs;
// without an order it joins the end.
func TestByArrivalIsNotTheOrderOfTheQueue(t *testing.T) {
	rs := []sim.Request{{ID: 1, Arrival: at(1), Prompt: 5, Output: 1}, {ID: 2, Arrival: at(2), Prompt: 5, Output: 1}}
	if d := cmp.Diff([]int{1, 2}, admissions(t, sim.OrderFunc(scheduler.ByArrival), deferFirst{}, rs...)); d != "" {
		t.Errorf("ByArrival (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]int{2, 1}, admissions(t, nil, deferFirst{}, rs...)); d != "" {
		t.Errorf("no order (-want +got):\n%s", d)
	}
}

// Every order is a strict weak order over what it looks at.
func TestOrdersAreStrict(t *testing.T) {
	for name, before := range map[string]func(a, b *sim.Sequence) bool{
		"arrival": scheduler.ByArrival, "priority": scheduler.ByPriority, "prompt": scheduler.ByPrompt,
		"hint": scheduler.ByHint, "deadline": scheduler.ByDeadline,
	} {
		st, err := sim.NewStepper(sim.Config{
			Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: flat}},
			Classes:  []sim.Class{{Priority: 1}, {Priority: 0}, {Priority: 1}},
		})
		if err != nil {
			t.Fatal(err)
		}
		for id := range 27 {
			st.Submit(0, sim.Request{ID: id, Arrival: sim.Time(id % 3), Prompt: 1 + id/3%3, Class: id / 9, Hint: id % 2 * (id / 3 % 3), Deadline: sim.Time(id / 9 * (id % 2))})
		}
		for a := range 27 {
			x := st.Lookup(a)
			if before(x, x) {
				t.Errorf("%s: a request stands before itself", name)
			}
			for b := range 27 {
				y := st.Lookup(b)
				if before(x, y) && before(y, x) {
					t.Errorf("%s: %d and %d stand before each other", name, a, b)
				}
				for c := range 27 {
					if z := st.Lookup(c); before(x, y) && !before(x, z) && !before(z, y) {
						t.Errorf("%s: %d before %d, but %d is neither behind the one nor before the other", name, a, b, c)
					}
				}
			}
		}
	}
}
