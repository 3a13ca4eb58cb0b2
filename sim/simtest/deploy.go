package simtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"servesim/sim"
)

// deployment is what Scenario draws beside plain replicas.
type deployment struct {
	link       *sim.Link
	windows    []sim.Window
	short      int  // prompts that those who decode take from the front door
	moves      bool // replicas change roles
	switchCost time.Duration
	handoff    string // router
}

// drawDeployment gives replicas what not every scheduler can live with: roles,
// memory on the host, several steps in flight, company in their steps, and
// stores. Links and windows go with them.
func (d *layout) drawDeployment(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 5))
	shape := rng.IntN(8)
	apart := shape < 5
	d.moves = shape == 3 || shape == 4
	least := 1
	if apart {
		least = 2 + rng.IntN(2)
	}
	if d.moves {
		least = 3 + rng.IntN(2)
	}
	for len(d.replicas) < least {
		d.replicas = append(d.replicas, d.replicas[len(d.replicas)-1])
	}
	if apart {
		d.drawRoles(rng)
	}
	for i := range d.replicas {
		d.drawReplica(&d.replicas[i], rng)
	}
	if rng.IntN(4) == 0 {
		d.drawGroups(rng)
	}
	d.drawWindows(rng)
	d.limit()
}

// drawRoles makes some replicas compute prompts and others decode them.
func (d *layout) drawRoles(rng *rand.Rand) {
	prefills := 1 + rng.IntN(len(d.replicas)-1)
	side := sim.FirstTokenSide(rng.IntN(2))
	for i := range d.replicas {
		r := &d.replicas[i]
		r.FirstToken = side
		switch {
		case i < prefills:
			r.Role, r.Drafts, r.Drafter = sim.RolePrefill, 0, nil
		case i == len(d.replicas)-1 || rng.IntN(4) > 0:
			r.Role = sim.RoleDecode
		}
	}
	d.link = &sim.Link{
		TokenBytes: 1000, Bandwidth: 1e8 * float64(1+rng.IntN(200)),
		Latency: time.Duration(rng.IntN(2) * rng.IntN(20_000)),
		Layers:  []int{0, 0, 1, 2, 7}[rng.IntN(5)],
	}
	if rng.IntN(3) == 0 {
		d.link.Fabric = d.link.Bandwidth * float64(1+rng.IntN(20)) / 10
	}
	d.handoff = []string{"least-loaded", "most-free", "by-id", "least-held"}[rng.IntN(4)]
	d.short = rng.IntN(2) * rng.IntN(30)
	d.switchCost = time.Duration(rng.IntN(2) * rng.IntN(60_000))
}

// drawReplica draws what a replica has of its own.
func (d *layout) drawReplica(r *sim.Replica, rng *rand.Rand) {
	if rng.IntN(4) == 0 {
		d.resize(r, rng)
	}
	if rng.IntN(3) == 0 {
		r.Growth = sim.TouchedGrowth
	}
	if rng.IntN(5) == 0 {
		r.Store = store{}
	}
	r.FreeAborted = rng.IntN(3) == 0
	if rng.IntN(4) == 0 && r.Role != sim.RolePrefill && r.Drafts == 0 && !r.EagerSharing && !d.moves {
		r.InFlight = 2 + rng.IntN(3)
		r.Async = sim.Async(rng.IntN(3))
		if rng.IntN(2) == 0 {
			r.CostModel = staged{r.CostModel, time.Duration(rng.IntN(8_000)), 1 + rng.IntN(4)}
		}
		return
	}
	if rng.IntN(2) == 0 && r.KVBlocks > 0 && !r.PrefixCache {
		r.HostBlocks = 1 + rng.IntN(2*r.KVBlocks)
	}
}

// resize gives a replica blocks of another size, and memory and a model's limit
// a little larger or smaller.
func (d *layout) resize(r *sim.Replica, rng *rand.Rand) {
	tokens := (r.KVBlocks - r.ReservedBlocks) * r.BlockTokens
	r.BlockTokens = 1 + rng.IntN(16)
	if r.KVBlocks > 0 {
		r.KVBlocks = max(1, (tokens+rng.IntN(80)-30)/r.BlockTokens) + r.ReservedBlocks
	}
	if r.MaxModelLen > 0 && rng.IntN(2) == 0 {
		r.MaxModelLen = max(1, r.MaxModelLen+rng.IntN(40)-30)
	}
}

// drawGroups lets some replicas step together.
func (d *layout) drawGroups(rng *rand.Rand) {
	cost := sim.CostModel(cost(rng.IntN(4)))
	if rng.IntN(2) == 0 {
		cost = together{cost}
	}
	for i := range d.replicas {
		if r := &d.replicas[i]; r.InFlight < 2 {
			if r.Group = rng.IntN(3); r.Group > 0 {
				r.CostModel = cost
			}
		}
	}
}

// drawWindows slows and stops replicas and their links for a while.
func (d *layout) drawWindows(rng *rand.Rand) {
	for i := -1; i < len(d.replicas); i++ {
		for _, link := range []bool{false, true} {
			if link && d.link == nil || !link && i < 0 || rng.IntN(5) > 0 {
				continue
			}
			at := sim.Time(0)
			for range 1 + rng.IntN(3) {
				w := sim.Window{Replica: i, Link: link, From: at.Add(time.Duration(rng.IntN(400_000)))}
				w.To = w.From.Add(time.Duration(1 + rng.IntN(200_000)))
				if at = w.To; rng.IntN(3) == 0 {
					w.Pause = true
				} else {
					w.Factor = float64(1+rng.IntN(16)) / 4
				}
				d.windows = append(d.windows, w)
			}
		}
	}
}

// limit notes the smallest cache and limit of all replicas, and lets those be
// strict that can serve every request.
func (d *layout) limit() {
	d.usableTokens, d.maxModelLen = 0, 0
	for _, r := range d.replicas {
		if n := (r.KVBlocks - r.ReservedBlocks) * r.BlockTokens; n > 0 && (d.usableTokens == 0 || n < d.usableTokens) {
			d.usableTokens = n
		}
		if n := r.MaxModelLen; n > 0 && (d.maxModelLen == 0 || n < d.maxModelLen) {
			d.maxModelLen = n
		}
	}
	for i := range d.replicas {
		r := &d.replicas[i]
		fits := r.KVBlocks == 0 || r.MaxModelLen > 0 && r.MaxModelLen <= (r.KVBlocks-r.ReservedBlocks)*r.BlockTokens
		r.Strict = fits && r.Growth == sim.ExactGrowth
	}
}

// apply puts the deployment into cfg.
func (d *layout) apply(cfg *sim.Config, router sim.Router, seed uint64) {
	cfg.Windows = d.windows
	if d.link == nil {
		return
	}
	cfg.Link = d.link
	cfg.Router = pool{router: router, short: d.short, blind: d.router == "by-id"}
	cfg.Handoff = pool{router: routers[d.handoff], decodes: true, blind: d.handoff == "by-id"}
	if d.moves {
		cfg.SwitchCost = d.switchCost
		cfg.Roles = &mover{rng: rand.New(rand.NewPCG(seed, 6)), left: 40}
	}
}

// describe says what the deployment adds to a scenario.
func (d *deployment) describe(b *strings.Builder) {
	if l := d.link; l != nil {
		fmt.Fprintf(b, "\n  link of %g B/s, fabric %g, latency %v, %d layers, %d B a token; handoff %s", l.Bandwidth, l.Fabric, l.Latency, l.Layers, l.TokenBytes, d.handoff)
		if d.short > 0 {
			fmt.Fprintf(b, ", prompts to %d stay", d.short)
		}
	}
	if d.moves {
		fmt.Fprintf(b, "; roles change for %v", d.switchCost)
	}
	for _, w := range d.windows {
		fmt.Fprintf(b, "\n  window %+v", w)
	}
}

// describeRole says what a replica of a deployment has of its own.
func describeRole(b *strings.Builder, r *sim.Replica) {
	fmt.Fprintf(b, ", Role %v (FirstToken %d), HostBlocks %d, InFlight %d (Async %d), Group %d, Growth %d, Store %t, Strict %t, FreeAborted %t",
		r.Role, r.FirstToken, r.HostBlocks, r.InFlight, r.Async, r.Group, r.Growth, r.Store != nil, r.Strict, r.FreeAborted)
}

// pool lets a router choose among the open replicas that take prompts, or
// decode.
type pool struct {
	router  sim.Router
	decodes bool
	short   int  // prompts up to here may go to those that only decode
	blind   bool // closed ones are not left out
}

func (p pool) Route(now sim.Time, q sim.Query, loads []sim.Load) int {
	var in []sim.Load
	for _, l := range loads {
		switch {
		case l.Closed && !p.blind, p.decodes && l.Role == sim.RolePrefill:
		case !p.decodes && l.Role == sim.RoleDecode && q.Prompt > p.short:
		default:
			in = append(in, l)
		}
	}
	if len(in) == 0 {
		return -1
	}
	i := p.router.Route(now, q, in)
	if i < 0 {
		return -1
	}
	return in[i].Replica
}

// mover moves replicas between roles without a plan, but so that some are open
// for everything.
type mover struct {
	rng  *rand.Rand
	left int // changes
}

func (m *mover) Control(now sim.Time, loads []sim.Load) (changes []sim.RoleChange, next sim.Time) {
	if m.left == 0 {
		return nil, sim.Never
	}
	m.left--
	next = now.Add(time.Duration(1 + m.rng.IntN(100_000)))
	c := sim.RoleChange{Replica: m.rng.IntN(len(loads)), Role: sim.Role(m.rng.IntN(3))}
	prompts, decodes := 0, 0
	for i, l := range loads {
		if i != c.Replica && !l.Closed {
			if l.Role != sim.RoleDecode {
				prompts++
			}
			if l.Role != sim.RolePrefill {
				decodes++
			}
		}
	}
	if prompts == 0 || decodes == 0 {
		return nil, next
	}
	return []sim.RoleChange{c}, next
}

// store has a part of some requests.
type store struct{}

func (store) Match(q sim.Query, hit int) int { return max(0, (q.ID%4)*7-hit/2) }

// staged is a cost model with host work and stages.
type staged struct {
	sim.CostModel
	host   time.Duration
	stages int
}

func (c staged) PipelineTime(b sim.Batch) (host, stage, total time.Duration) {
	total = c.StepTime(b)
	return c.host, total/time.Duration(c.stages) + 1, total
}

// together is a cost model of a group, in which all that is computed counts.
type together struct{ sim.CostModel }

func (c together) GroupTime(batches []sim.Batch) time.Duration {
	var d time.Duration
	for _, b := range batches {
		if !b.Empty() {
			d += c.StepTime(b)
		}
	}
	return d
}
