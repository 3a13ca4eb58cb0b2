package workload

import (
	"fmt"
	"iter"

	"servesim/sim"
)

// FromSlice yields the requests of a slice, as they are.
func FromSlice(requests []sim.Request) iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		for _, q := range requests {
			if !yield(q, nil) {
				return
			}
		}
	}
}

// Collect returns the requests of a sequence as a slice. After an error it
// returns those before it.
func Collect(requests iter.Seq2[sim.Request, error]) ([]sim.Request, error) {
	var all []sim.Request
	for q, err := range requests {
		if err != nil {
			return all, err
		}
		all = append(all, q)
	}
	return all, nil
}

// Take yields the first n requests of a sequence and reads no further. A
// negative n is an error.
func Take(requests iter.Seq2[sim.Request, error], n int) iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		if n < 0 {
			fail(yield, fmt.Errorf("Take of %d requests", n))
			return
		}
		if n == 0 {
			return
		}
		left := n
		for q, err := range requests {
			if !yield(q, err) || err != nil {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}
}

// Speed multiplies the rate of a sequence by factor, as [Scale] does for a
// process: arrivals are divided by it. Deadlines keep their distance to the
// arrival.
func Speed(requests iter.Seq2[sim.Request, error], factor float64) iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		if err := checkPositive("Speed factor", factor); err != nil {
			fail(yield, err)
			return
		}
		for q, err := range requests {
			if err == nil {
				was := q.Arrival
				q.Arrival, err = scaleTime(was, factor)
				if q.Deadline != 0 {
					q.Deadline += q.Arrival - was
				}
			}
			if !yield(q, err) || err != nil {
				return
			}
		}
	}
}
