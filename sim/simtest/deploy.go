package simtest

import (
	"time"

	"servesim/sim"
)

// The parts that scenarios are made of. All of them are pure, so that one
// value serves every run.

// cost returns one of a few step times in whole nanoseconds: constant ones, so
// that steps of several replicas end at the same instant, and others.
func cost(kind int) sim.CostModel {
	return sim.CostFunc(func(b sim.Batch) time.Duration {
		switch kind % 4 {
		case 0:
			return 10 * time.Microsecond
		case 1:
			return time.Duration(4_000 + 3_000*len(b.Prefills) + 500*b.Decodes)
		}
		n := 5_000 + 40*b.Decodes + 3*b.Context + 700*b.PrefillTokens() + 11*b.Padding.Rows + 13*b.Padding.PromptTokens
		for _, c := range b.Prefills {
			n += 2 * c.Context
		}
		return time.Duration(n)
	})
}

// orders are the orders of a waiting queue, by name.
var orders = map[string]sim.Order{
	"arrival":  nil,
	"priority": sim.OrderFunc(func(a, b *sim.Sequence) bool { return a.Priority() < b.Priority() }),
	"prompt":   sim.OrderFunc(func(a, b *sim.Sequence) bool { return a.Prompt() < b.Prompt() }),
}

type routerFunc func(q sim.Query, loads []sim.Load) int

func (f routerFunc) Route(_ sim.Time, q sim.Query, loads []sim.Load) int { return f(q, loads) }

// routers are the ways to pick a replica, by name. Between them they read
// every field of a load.
var routers = map[string]sim.Router{
	"least-loaded": routerFunc(func(_ sim.Query, loads []sim.Load) int {
		return least(loads, func(l sim.Load) int { return 64*(l.Waiting+l.Running) + l.PendingPrompt })
	}),
	"most-free": routerFunc(func(_ sim.Query, loads []sim.Load) int {
		return least(loads, func(l sim.Load) int { return 4*l.Waiting - l.FreeBlocks })
	}),
	// No replica for one request in fourteen.
	"by-id": routerFunc(func(q sim.Query, loads []sim.Load) int {
		if q.ID%14 == 5 {
			return -1
		}
		return q.ID % len(loads)
	}),
}

func least(loads []sim.Load, load func(sim.Load) int) int {
	best := 0
	for i, l := range loads {
		if load(l) < load(loads[best]) {
			best = i
		}
	}
	return best
}

// gate defers and rejects by the request's id.
type gate struct{}

func (gate) Admit(now sim.Time, q sim.Query, _ []sim.Load) sim.Decision {
	switch {
	case q.ID%11 == 3:
		return sim.Decision{Reject: "gate"}
	case q.ID%5 == 2 && now < q.Arrival.Add(20*time.Microsecond):
		return sim.Decision{Until: now.Add(9 * time.Microsecond)}
	}
	return sim.Decision{}
}

// nextTurn sends two more turns of a session for every third request, some of
// them at once, whatever became of it.
func nextTurn(c sim.Completion) []sim.Request {
	r := c.Request
	if r.ID%3 != 0 || r.ID >= 2000 {
		return nil
	}
	r.ID += 1000
	r.Prompt = min(r.Prompt+c.Output, 90)
	r.Arrival = c.End.Add(time.Duration(r.ID%4) * 10 * time.Microsecond)
	if c.Kind != sim.Finish {
		r.Prompt = max(1, r.Prompt/2)
	}
	return []sim.Request{r}
}
