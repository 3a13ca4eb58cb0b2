package sim_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"servesim/sim"
)

// noted is a router that notes what it sees and says.
type noted struct {
	name   string
	router sim.Router
	note   func(string)
}

func (n noted) Route(now sim.Time, q sim.Query, loads []sim.Load) int {
	to := n.router.Route(now, q, loads)
	n.note(fmt.Sprintf("%d %s %d to %d of%s", now, n.name, q.ID, to, loadsLine(loads)))
	return to
}

func loadsLine(loads []sim.Load) string {
	var s strings.Builder
	for _, l := range loads {
		fmt.Fprintf(&s, " r%d %v closed %t: waiting %d running %d pending %d, %d of %d free, %d come, %d held;", l.Replica, l.Role, l.Closed, l.Waiting, l.Running, l.PendingPrompt,
			l.FreeBlocks, l.Blocks, l.Coming, l.Held)
	}
	return s.String()
}

// among routes to the open replicas without that role as router would to them
// alone, and now and then to none.
type among struct {
	not    sim.Role
	router sim.Router
}

func (a among) Route(now sim.Time, q sim.Query, loads []sim.Load) int {
	var fit []sim.Load
	for _, l := range loads {
		if l.Role != a.not && !l.Closed {
			fit = append(fit, l)
		}
	}
	if len(fit) == 0 || q.ID%37 == 5 {
		return len(loads) - 1 - q.ID%(len(loads)+2) // any, or none
	}
	return fit[a.router.Route(now, q, fit)].Replica
}

// shuffle changes roles at random. It leaves an open replica for each stage, and
// gives RolePrefill to those that can have it.
type shuffle struct {
	replicas []sim.Replica
	seed     uint64
	note     func(string)
}

func (c shuffle) Control(now sim.Time, loads []sim.Load) (changes []sim.RoleChange, next sim.Time) {
	rng := rand.New(rand.NewPCG(c.seed, uint64(now)))
	open := slices.Clone(loads)
	for range rng.IntN(4) {
		i, role := rng.IntN(len(open)), sim.Role(rng.IntN(3))
		if c.replicas[i].InFlight > 1 && role == sim.RolePrefill {
			continue
		}
		was := open[i].Closed
		open[i].Closed = was || open[i].Role != role
		prompts, decodes := 0, 0
		for _, l := range open {
			prompts += one(!l.Closed && l.Role != sim.RoleDecode)
			decodes += one(!l.Closed && l.Role != sim.RolePrefill)
		}
		if open[i].Closed = open[i].Closed && prompts > 0 && decodes > 0; open[i].Closed || open[i].Role == role {
			changes = append(changes, sim.RoleChange{Replica: i, Role: role})
		}
		open[i].Closed = open[i].Closed || was
	}
	if next = now.Add(time.Duration(1 + rng.IntN(100_000))); rng.IntN(20) == 0 {
		next = sim.Never
	}
	c.note(fmt.Sprintf("%d changes %v of%s", now, changes, loadsLine(loads)))
	return changes, next
}

// admitSome defers and rejects by the request's id.
type admitSome struct{}

func (admitSome) Admit(now sim.Time, q sim.Query, _ []sim.Load) sim.Decision {
	switch {
	case q.ID%7 == 3:
		return sim.Decision{Reject: "seven"}
	case q.ID%5 == 2 && now < q.Arrival.Add(20*time.Microsecond):
		return sim.Decision{Until: now.Add(9 * time.Microsecond)}
	}
	return sim.Decision{}
}

// nextTurn sends two more turns of a session for some requests.
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
