package workload

import (
	"fmt"
	"iter"
	"math"
	"time"

	"servesim/sim"
)

// spreadTicks moves the i-th of n requests with equal arrivals by i·over/n and
// holds them until the next arrival is known. The name is that of the input in
// errors.
func spreadTicks(requests iter.Seq2[sim.Request, error], over time.Duration, name string) iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		var tick []sim.Request
		for q, err := range requests {
			if len(tick) > 0 && (err != nil || q.Arrival != tick[0].Arrival) {
				last, ok := yieldTick(tick, over, name, yield)
				if !ok {
					return
				}
				if err == nil && last > q.Arrival {
					fail(yield, fmt.Errorf("%s: with Spread %v, request %d arrives at %v, after request %d of the next tick at %v",
						name, over, tick[len(tick)-1].ID, last, q.ID, q.Arrival))
					return
				}
				tick = tick[:0]
			}
			if err != nil {
				yield(q, err)
				return
			}
			tick = append(tick, q)
		}
		yieldTick(tick, over, name, yield)
	}
}

// yieldTick yields the requests of a tick and returns the last arrival.
func yieldTick(tick []sim.Request, over time.Duration, name string, yield func(sim.Request, error) bool) (last sim.Time, ok bool) {
	n := time.Duration(len(tick))
	for i, q := range tick {
		i := time.Duration(i)
		by := over/n*i + over%n*i/n // i·over/n without overflow
		if q.Arrival > math.MaxInt64-sim.Time(by) {
			fail(yield, fmt.Errorf("%s: request %d at %v, spread by %v, arrives after 292 years", name, q.ID, q.Arrival, by))
			return 0, false
		}
		last = q.Arrival.Add(by)
		q.Arrival = last
		if !yield(q, nil) {
			return last, false
		}
	}
	return last, true
}
