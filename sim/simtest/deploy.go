package simtest

import (
	"math/bits"
	"time"

	"servesim/sim"
	"servesim/sim/kv"
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

type drafterFunc func(id, index, drafts int) int

func (f drafterFunc) Accept(q sim.Query, index, drafts int) int { return f(q.ID, index, drafts) }

// drafters say how many drafts are right, by name.
var drafters = map[string]sim.Drafter{
	"none": drafterFunc(func(_, _, _ int) int { return 0 }),
	"all":  drafterFunc(func(_, _, drafts int) int { return drafts }),
	"half": drafterFunc(func(id, index, drafts int) int { return (id*7 + index*3) % (drafts + 1) }),
	// Each further one is right half as often.
	"falling": drafterFunc(func(id, index, drafts int) int {
		return min(bits.TrailingZeros(uint(id*5+index*3)), drafts)
	}),
	// All or nothing, by the request and how far it is.
	"uneven": drafterFunc(func(id, index, drafts int) int { return drafts * ((id + index/8) % 2) }),
}

// textTokens is the length of a text: of a session, with its answers.
const textTokens = 160

// text returns the hash chain of a text that begins with so many tokens of a
// shared one and goes on by itself, in blocks of that many tokens.
func text(shared, sharedTokens, own, block int) []kv.Hash {
	tokens := make([]int, textTokens)
	for i := range tokens {
		if tokens[i] = 1000*shared + i; i >= sharedTokens {
			tokens[i] = 1_000_000 + own
		}
	}
	return kv.HashTokens(nil, tokens, block, "")
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
