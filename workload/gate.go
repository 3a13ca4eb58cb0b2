package workload

import (
	"fmt"
	"iter"

	"servesim/sim"
)

// Gate sends a schedule with at most Limit requests in flight, as load
// generators do with a limit of concurrency (vLLM's --max-concurrency): a
// request that finds no place waits at the client, in order, and arrives when
// one before it has ended. Its latency from there misses that wait (coordinated
// omission); [Audit] shows both. List Requests and FollowUp in the run.
type Gate struct {
	Schedule []sim.Request // in order of arrival
	Limit    int           // requests in flight, at least 1

	sent int
}

// Requests yields the requests that find the gate open, and starts the
// schedule anew.
func (g *Gate) Requests() iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		if g.Limit < 1 {
			fail(yield, fmt.Errorf("Gate.Limit is %d, want at least 1", g.Limit))
			return
		}
		for i := 1; i < len(g.Schedule); i++ {
			if g.Schedule[i].Arrival < g.Schedule[i-1].Arrival {
				fail(yield, fmt.Errorf("Gate.Schedule[%d] arrives at %v, before %v", i, g.Schedule[i].Arrival, g.Schedule[i-1].Arrival))
				return
			}
		}
		g.sent = min(g.Limit, len(g.Schedule))
		for _, q := range g.Schedule[:g.sent] {
			if !yield(q, nil) {
				return
			}
		}
	}
}

// FollowUp sends the next request of the schedule, for sim.Config.FollowUp:
// when it is due, but not before the client has the end of the one that made
// room.
func (g *Gate) FollowUp(c sim.Completion) []sim.Request {
	if g.sent == len(g.Schedule) {
		return nil
	}
	q := g.Schedule[g.sent]
	g.sent++
	q.Arrival = max(q.Arrival, max(c.End, c.Client.Done).Add(q.Path.Before()))
	return []sim.Request{q}
}
