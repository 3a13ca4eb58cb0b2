package scheduler

import (
	"fmt"
	"time"

	"servesim/sim"
)

// LoadThreshold is a role controller that looks at what waits: it moves a
// replica into a pool that has more than a threshold, if the other pool can
// spare one. A pool can where its load, on one replica less, stays below Calm
// of its threshold; what lies between is the hysteresis. It moves one replica at
// a time, that with the least to finish, and none while another drains.
// Replicas of RoleBoth are left alone.
type LoadThreshold struct {
	// Every is the time from look to look. 0 means one second.
	Every time.Duration
	// Prompts is the threshold of the prefill pool, in prompt positions to
	// compute a replica. Requests is that of the decode pool, in requests a
	// replica, those included whose KV has not come yet.
	Prompts, Requests int
	// Calm is a fraction of the thresholds. 0 means 0.75.
	Calm float64
	// Looks is how many looks in a row must agree. 0 means 1.
	Looks int
	// MinPrefill and MinDecode are the least replicas of each pool. 0 means 1.
	MinPrefill, MinDecode int

	wants  sim.Role // RoleBoth: no change
	agreed int
}

// Control implements sim.RoleController.
func (c *LoadThreshold) Control(now sim.Time, loads []sim.Load) ([]sim.RoleChange, sim.Time) {
	if c.Prompts < 1 || c.Requests < 1 || !(c.Calm >= 0 && c.Calm <= 1) || c.Looks < 0 {
		panic(fmt.Sprintf("scheduler: LoadThreshold of %d positions and %d requests, Calm %v, Looks %d", c.Prompts, c.Requests, c.Calm, c.Looks))
	}
	next := now.Add(interval("LoadThreshold.Every", c.Every))
	p := countPools(loads, c.MinPrefill, c.MinDecode)
	if p.draining {
		return nil, next
	}
	wants := c.direction(&p)
	if wants != c.wants {
		c.wants, c.agreed = wants, 0
	}
	c.agreed++
	if wants == sim.RoleBoth || c.agreed < c.Looks {
		return nil, next
	}
	c.agreed = 0
	return p.move(loads, wants), next
}

// direction returns the role that a replica should get, or RoleBoth.
func (c *LoadThreshold) direction(p *pools) sim.Role {
	calm := c.Calm
	if calm == 0 {
		calm = 0.75
	}
	spare := func(load, replicas, threshold int) bool {
		return float64(load) < float64(calm*float64(threshold))*float64(replicas-1)
	}
	switch {
	case p.positions > c.Prompts*p.prefill && p.canGive(sim.RoleDecode) && spare(p.requests, p.decode, c.Requests):
		return sim.RolePrefill
	case p.requests > c.Requests*p.decode && p.canGive(sim.RolePrefill) && spare(p.positions, p.prefill, c.Prompts):
		return sim.RoleDecode
	}
	return sim.RoleBoth
}

// pools is what the pools have together.
type pools struct {
	prefill, decode       int // open replicas
	minPrefill, minDecode int
	positions             int // to compute in the prefill pool
	requests              int // in the decode pool, or on the way there
	draining              bool
}

func countPools(loads []sim.Load, minPrefill, minDecode int) pools {
	p := pools{minPrefill: max(minPrefill, 1), minDecode: max(minDecode, 1)}
	for i := range loads {
		l := &loads[i]
		switch {
		case l.Closed:
			p.draining = true
		case l.Role == sim.RolePrefill:
			p.prefill++
			p.positions += l.PendingPrompt
		case l.Role == sim.RoleDecode:
			p.decode++
			p.requests += requestsOf(l)
		}
	}
	return p
}

// canGive reports whether the pool of that role may lose a replica.
func (p *pools) canGive(role sim.Role) bool {
	if role == sim.RolePrefill {
		return p.prefill > p.minPrefill
	}
	return p.decode > p.minDecode
}

// move gives that role to the replica of the other pool that has the least to
// finish: positions to compute, or requests; then KV blocks that wait to be
// fetched.
func (p *pools) move(loads []sim.Load, to sim.Role) []sim.RoleChange {
	from := sim.RoleDecode
	if to == sim.RoleDecode {
		from = sim.RolePrefill
	}
	left := func(l *sim.Load) int {
		if from == sim.RolePrefill {
			return l.PendingPrompt
		}
		return requestsOf(l)
	}
	best := -1
	for i := range loads {
		l := &loads[i]
		if l.Role != from { // none is closed
			continue
		}
		if best < 0 || left(l) < left(&loads[best]) || left(l) == left(&loads[best]) && l.Held < loads[best].Held {
			best = i
		}
	}
	return []sim.RoleChange{{Replica: loads[best].Replica, Role: to}}
}

// interval returns the time from look to look.
func interval(name string, every time.Duration) time.Duration {
	switch {
	case every < 0:
		panic(fmt.Sprintf("scheduler: %s is %v", name, every))
	case every == 0:
		return time.Second
	}
	return every
}
