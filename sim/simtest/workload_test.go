package simtest_test

import (
	"errors"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"servesim/sim"
	"servesim/sim/simtest"
)

type seq = iter.Seq2[sim.Request, error]

// clock yields n requests, one every millisecond; 0 means without end.
func clock(n int, change func(r *sim.Request)) func() seq {
	return func() seq {
		return func(yield func(sim.Request, error) bool) {
			for i := 0; i < n || n == 0; i++ {
				r := sim.Request{ID: i, Arrival: sim.Time(i).Add(time.Duration(i) * time.Millisecond), Prompt: 10, Output: 5}
				if change != nil {
					change(&r)
				}
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

func TestWorkloadsConform(t *testing.T) {
	simtest.TestWorkload(t, clock(1, nil))
	simtest.TestWorkload(t, clock(500, nil))
	simtest.TestWorkload(t, clock(0, nil)) // without end
	for seed := range uint64(8) {
		s := simtest.Scenario{Seed: seed}
		// Without the faulty requests that scenarios contain on purpose.
		simtest.TestWorkload(t, func() seq {
			return func(yield func(sim.Request, error) bool) {
				for r, err := range s.Requests() {
					if r.Prompt > 0 && r.Output > 0 && r.Class >= 0 && r.Hint >= 0 && !yield(r, err) {
						return
					}
				}
			}
		})
	}
}

func TestFaultyWorkloadsFail(t *testing.T) {
	at := func(id int, change func(r *sim.Request)) func() seq {
		return clock(20, func(r *sim.Request) {
			if r.ID == id {
				change(r)
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	position, calls := 0, 0
	for _, c := range []struct {
		name     string
		requests func() seq
		want     string
	}{
		{"empty", func() seq { return func(func(sim.Request, error) bool) {} }, "the workload is empty"},
		{"error", func() seq {
			return func(yield func(sim.Request, error) bool) {
				if yield(sim.Request{Prompt: 1, Output: 1}, nil) {
					yield(sim.Request{}, errors.New("bad row"))
				}
			}
		}, "requests[1]: bad row"},
		{"fails in the end", func() seq {
			if calls++; calls < 6 {
				return clock(20, nil)()
			}
			return func(yield func(sim.Request, error) bool) { yield(sim.Request{}, errors.New("closed")) }
		}, "two iterators read in turn: requests[0]: closed"},
		{"goes on after an error", func() seq {
			return func(yield func(sim.Request, error) bool) {
				for {
					yield(sim.Request{}, errors.New("bad row"))
				}
			}
		}, "goes on after the loop was left"},
		{"arrival before 0", at(0, func(r *sim.Request) { r.Arrival = -1 }), "requests[0] (id 0): Arrival is -1, less than 0"},
		{"arrival goes back", at(3, func(r *sim.Request) { r.Arrival = 1 }), "requests[3] (id 3): Arrival is 1, less than 2000002"},
		{"prompt", at(3, func(r *sim.Request) { r.Prompt = 0 }), "requests[3] (id 3): Prompt is 0, less than 1"},
		{"output", at(3, func(r *sim.Request) { r.Output = 0 }), "requests[3] (id 3): Output is 0, less than 1"},
		{"max output", at(3, func(r *sim.Request) { r.MaxOutput = -1 }), "MaxOutput is -1"},
		{"hint", at(3, func(r *sim.Request) { r.Hint = -1 }), "Hint is -1"},
		{"class", at(3, func(r *sim.Request) { r.Class = -1 }), "Class is -1"},
		{"deadline", at(3, func(r *sim.Request) { r.Deadline = -1 }), "Deadline is -1"},
		{"patience for the first token", at(3, func(r *sim.Request) { r.Patience.First = -1 }), "Patience.First is -1"},
		{"patience", at(3, func(r *sim.Request) { r.Patience.Total = -1 }), "Patience.Total is -1"},
		{"attempt", at(3, func(r *sim.Request) { r.Attempt = -1 }), "Attempt is -1"},
		{"first attempt", at(3, func(r *sim.Request) { r.First = -1 }), "First is -1"},
		{"shares a random stream", clock(20, func(r *sim.Request) { r.Prompt += rng.IntN(1000) }), "left after 1 requests: requests[0] is {ID:0 "},
		{"one iterator for all", func() seq {
			return func(yield func(sim.Request, error) bool) {
				for position < 30 {
					position++
					if !yield(sim.Request{ID: position, Prompt: 1, Output: 1}, nil) {
						return
					}
				}
			}
		}, "left after 1 requests: 1 requests, then 0"},
		{"ends sooner", func() seq { calls++; return clock(21-calls, nil)() }, "read again: 20 requests, then 16"},
		{"ends later", func() seq { calls++; return clock(max(20, 16+calls), nil)() }, "read again: 20 requests, then 21 or more"},
		{"does not leave", func() seq {
			return func(yield func(sim.Request, error) bool) {
				for i := range 5 {
					yield(sim.Request{ID: i, Prompt: 1, Output: 1}, nil)
				}
			}
		}, "left after 1 requests: goes on after the loop was left"},
		{"iterators share state", func() seq {
			return func(yield func(sim.Request, error) bool) {
				position = 0
				for position < 20 {
					position++
					if !yield(sim.Request{ID: position, Prompt: 1, Output: 1}, nil) {
						return
					}
				}
			}
		}, "two iterators read in turn"},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls = 0
			got := strings.Join(failures(func(t testing.TB) { simtest.TestWorkload(t, c.requests) }), "\n")
			if !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
