package simtest

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"time"

	"servesim/sim"
)

// Scenario is a deployment and a workload drawn from a seed: one to four
// replicas with KV caches from unlimited to barely enough for one request,
// limits or none, prefix caches, drafts that are right seldom or often, queues
// in order of arrival, priority or length, bursts, sessions, shared beginnings
// of prompts, impatient clients and faulty requests. The same seed gives the
// same scenario.
//
// A step takes some 5 to 100 µs, a run some milliseconds of virtual time. When
// everything is over, one more request per replica comes, which takes the
// whole KV cache: it shows memory that was never given back. Every eighth
// scenario is cut by sim.Config.Until instead.
type Scenario struct {
	Seed uint64
	// Deployments draws also what a scheduler must know of: prefill and decode
	// replicas with a link between them, changes of role, host memory, several
	// steps in flight; and what it need not: groups that step together, stores
	// behind prefix caches, windows, blocks of different sizes.
	Deployments bool
}

// layout is what Scenario draws for a deployment.
type layout struct {
	replicas     []sim.Replica // without Scheduler
	router       string
	order        string
	drafter      string
	admission    bool
	sessions     bool
	until        sim.Time
	requests     []sim.Request
	maxModelLen  int
	usableTokens int // of the smallest KV cache; 0 for no limit
	deployment
}

// Config returns a fresh deployment with a scheduler of its own for every
// replica. Token times and ledgers are kept.
func (s Scenario) Config(newScheduler func() sim.Scheduler) sim.Config {
	d := s.draw()
	cfg := sim.Config{
		Replicas:   d.replicas,
		TokenTimes: true,
		Ledgers:    true,
		Until:      d.until,
		// Far beyond any scheduler that gets on.
		MaxSteps: 1 << 17,
		Classes: []sim.Class{
			{Name: "chat", Gap: 12 * time.Microsecond},
			{Name: "batch", Priority: 1},
			{Name: "code", Priority: 2, Gap: 30 * time.Microsecond, TTFT: 200 * time.Microsecond},
		},
	}
	for i := range cfg.Replicas {
		cfg.Replicas[i].Scheduler = newScheduler()
	}
	if len(d.replicas) > 1 {
		cfg.Router = routers[d.router]
	}
	d.apply(&cfg, routers[d.router], s.Seed)
	if d.admission {
		cfg.Admission = gate{}
	}
	if d.sessions {
		cfg.FollowUp = nextTurn
	}
	return cfg
}

// Requests returns the open-loop part of the workload.
func (s Scenario) Requests() iter.Seq2[sim.Request, error] {
	requests := s.draw().requests
	return func(yield func(sim.Request, error) bool) {
		for _, r := range requests {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// String describes the scenario.
func (s Scenario) String() string {
	d := s.draw()
	var b strings.Builder
	fmt.Fprintf(&b, "simtest.Scenario{Seed: %d", s.Seed)
	if s.Deployments {
		b.WriteString(", Deployments: true")
	}
	fmt.Fprintf(&b, "}: %d requests, queue by %s", len(d.requests), d.order)
	if len(d.replicas) > 1 {
		fmt.Fprintf(&b, ", router %s", d.router)
	}
	if d.admission {
		b.WriteString(", admission")
	}
	if d.sessions {
		b.WriteString(", sessions")
	}
	if d.until > 0 {
		fmt.Fprintf(&b, ", until %v", d.until)
	}
	for i, r := range d.replicas {
		fmt.Fprintf(&b, "\n  replica %d: KVBlocks %d (%d reserved) of %d tokens, MaxSeqs %d, MaxBatchTokens %d, MaxModelLen %d, PrefixCache %t (eager %t), Drafts %d",
			i, r.KVBlocks, r.ReservedBlocks, r.BlockTokens, r.MaxSeqs, r.MaxBatchTokens, r.MaxModelLen, r.PrefixCache, r.EagerSharing, r.Drafts)
		if r.Drafts > 0 {
			fmt.Fprintf(&b, " accepted %s", d.drafter)
		}
		if s.Deployments {
			describeRole(&b, &r)
		}
	}
	d.describe(&b)
	return b.String()
}

func (s Scenario) draw() *layout {
	rng := rand.New(rand.NewPCG(s.Seed, 1))
	d := &layout{}
	r := sim.Replica{BlockTokens: 1 + rng.IntN(16)}
	cacheTokens := 0
	switch s.Seed % 4 { // KV pressure
	case 1:
		cacheTokens = 400 + rng.IntN(400)
	case 2:
		cacheTokens = 120 + rng.IntN(150)
	case 3:
		cacheTokens = 30 + rng.IntN(60)
	}
	if cacheTokens > 0 {
		r.ReservedBlocks = rng.IntN(2)
		r.KVBlocks = cacheTokens/r.BlockTokens + 1 + r.ReservedBlocks
		d.usableTokens = (r.KVBlocks - r.ReservedBlocks) * r.BlockTokens
	}
	if rng.IntN(2) == 0 {
		r.MaxSeqs = 1 + rng.IntN(8)
	}
	if rng.IntN(3) > 0 {
		r.MaxBatchTokens = 12 + rng.IntN(80)
	}
	if rng.IntN(3) > 0 {
		r.MaxModelLen = 40 + rng.IntN(110)
		d.maxModelLen = r.MaxModelLen
	}
	d.order = []string{"arrival", "arrival", "priority", "prompt"}[rng.IntN(4)]
	r.Order = orders[d.order]
	d.router = []string{"least-loaded", "most-free", "by-id"}[rng.IntN(3)]
	d.drawSharing(&r, rand.New(rand.NewPCG(s.Seed, 3)))
	same := rng.IntN(2) == 0 // replicas in step with each other
	for i := range 1 + rng.IntN(4) {
		r.CostModel = cost(rng.IntN(4))
		if same {
			r.CostModel = cost(int(s.Seed))
		}
		d.replicas = append(d.replicas, r)
		if r.KVBlocks > 0 && i%2 == 0 {
			r.KVBlocks++
		}
	}
	if s.Deployments {
		d.drawDeployment(s.Seed)
	}
	d.admission = rng.IntN(5) == 0
	d.sessions = rng.IntN(2) == 0
	last := d.drawRequests(rand.New(rand.NewPCG(s.Seed, 2)))
	if r.PrefixCache {
		d.drawTexts(rand.New(rand.NewPCG(s.Seed, 4)))
	}
	if s.Seed%8 == 6 {
		d.until = last/2 + sim.Time(rng.IntN(500_000))
	} else {
		d.fillCaches(last.Add(time.Minute))
	}
	return d
}

// drawSharing draws whether a replica has a prefix cache and drafts.
func (d *layout) drawSharing(r *sim.Replica, rng *rand.Rand) {
	r.PrefixCache = rng.IntN(5) < 2
	r.EagerSharing = rng.IntN(3) == 0 && r.PrefixCache
	if rng.IntN(3) > 0 {
		return
	}
	r.Drafts = 1 + rng.IntN(5)
	d.drafter = []string{"none", "all", "half", "falling", "uneven"}[rng.IntN(5)]
	r.Drafter = drafters[d.drafter]
}

// drawRequests draws bursts of short and long requests, and some faults, and
// returns the latest arrival.
func (d *layout) drawRequests(rng *rand.Rand) (at sim.Time) {
	pause := 1 + rng.IntN(200_000)
	for i := range 8 + rng.IntN(12*len(d.replicas)) {
		if rng.IntN(3) == 0 {
			at = at.Add(time.Duration(rng.IntN(pause)))
		}
		r := sim.Request{ID: i, Arrival: at, Prompt: 1 + rng.IntN(48), Output: 1 + rng.IntN(32), Class: rng.IntN(3)}
		if rng.IntN(4) == 0 {
			r.Output = 1 + rng.IntN(150)
		}
		if rng.IntN(3) == 0 {
			r.MaxOutput = 1 + rng.IntN(40)
		}
		if rng.IntN(3) == 0 {
			r.Hint = r.Output
			r.Deadline = at.Add(time.Duration(1 + rng.IntN(500_000)))
		}
		switch rng.IntN(24) {
		case 0:
			r.Patience.First = time.Duration(rng.IntN(200_000))
		case 1:
			r.Patience.Total = time.Duration(rng.IntN(600_000))
		case 2:
			r.Prompt = rng.IntN(400)
		case 3:
			r.ID = rng.IntN(i + 1)
		case 4:
			r.Output, r.Class = rng.IntN(2), rng.IntN(5)-1
		case 5:
			r.Prompt *= rng.IntN(2)
			r.Hint = -rng.IntN(2)
		}
		d.requests = append(d.requests, r)
	}
	return at
}

// drawTexts says what the requests are about: one of three long beginnings,
// shared, and something of their own, with the answer and what follows in the
// session. Some are asked twice, of some nothing is known. Now and then the
// hashes are of blocks of another size, or of none.
func (d *layout) drawTexts(rng *rand.Rand) {
	beginnings := [3]int{rng.IntN(20), rng.IntN(50), rng.IntN(90)}
	for i := range d.requests {
		r := &d.requests[i]
		r.NoPrefixRead = rng.IntN(8) == 0
		switch rng.IntN(10) {
		case 0, 1:
			continue
		case 2, 3:
			before := d.requests[max(i-1, 0)]
			r.Prefix, r.PrefixBlock = before.Prefix, before.PrefixBlock
			continue
		}
		shared := rng.IntN(len(beginnings))
		r.PrefixBlock = d.replicas[0].BlockTokens
		switch rng.IntN(16) {
		case 0:
			r.PrefixBlock *= 2
		case 1:
			r.PrefixBlock = 1
		case 2:
			r.PrefixBlock++ // neither a multiple nor a part, unless it is 2
		case 3:
			r.PrefixBlock = -rng.IntN(2)
		}
		r.Prefix = text(shared, beginnings[shared], i, max(r.PrefixBlock, 1))
	}
}

// fillCaches adds requests that take a whole KV cache each.
func (d *layout) fillCaches(at sim.Time) {
	prompt := max(d.usableTokens, 1)
	if d.maxModelLen > 0 {
		prompt = min(prompt, d.maxModelLen)
	}
	output := 1
	if d.link != nil && prompt > 1 { // the other side has a second token to give
		prompt, output = prompt-1, 2
	}
	for i := range d.replicas {
		d.requests = append(d.requests, sim.Request{ID: 1_000_000 + i, Arrival: at, Prompt: prompt, Output: output})
	}
}
