package sim_test

import (
	"math/rand/v2"
	"time"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/kv"
)

// scenario is a deployment and a workload drawn from a seed.
type scenario struct {
	seed uint64
	kind int
}

// The kinds of scenario: which scheduler runs.
const (
	kindChaos = iota
	kindContinuous
	kindOrca
	kindChunked
	kindBatch
	kinds
)

// policies returns the scheduler of one replica, and the same as a policy of
// the reference engine.
func (sc scenario) policies(replica int) (sim.Scheduler, policy) {
	rng := rand.New(rand.NewPCG(sc.seed, 77))
	switch sc.kind {
	case kindChaos:
		seed := sc.seed*1000 + uint64(replica)
		return &bridge{policy: chaos(seed)}, chaos(seed)
	case kindContinuous, kindOrca:
		reserve := sc.kind == kindOrca
		return scheduler.Continuous{ReserveMax: reserve}, naiveContinuous(reserve)
	case kindChunked:
		return scheduler.ChunkedPrefill{}, naiveChunked
	}
	b := scheduler.RequestBatch{Size: rng.IntN(4), Padded: rng.IntN(2) == 0, FreeAtEnd: rng.IntN(2) == 0}
	return &b, naiveRequestBatch(b.Size, b.Padded, b.FreeAtEnd)
}

// config draws the deployment. Every call makes a fresh one, which notes what
// routers see.
func (sc scenario) config(note func(string)) (sim.Config, []policy) {
	rng := rand.New(rand.NewPCG(sc.seed, 1))
	cfg := sim.Config{TokenTimes: true, Router: scheduler.LeastLoaded{}}
	cfg.Classes = []sim.Class{{Gap: 12 * time.Microsecond}, {Priority: 1}, {Priority: 2, Gap: 30 * time.Microsecond}}
	var policies []policy
	r := sc.replica(rng)
	if rng.IntN(2) == 0 {
		cfg.Link = drawLink(rng)
	}
	for i := range 1 + rng.IntN(4) + one(cfg.Link != nil) {
		var p policy
		r.Scheduler, p = sc.policies(i)
		if cfg.Link != nil && sc.kind != kindChaos {
			pull := plainPull{next: r.Scheduler, headroom: float64(rng.IntN(2)) / 8}
			r.Scheduler, p = pull, naivePull(pull.headroom, p)
		}
		r := r
		if cfg.Link != nil {
			sc.vary(&r, rng)
		}
		cfg.Replicas = append(cfg.Replicas, r)
		policies = append(policies, p)
	}
	if rng.IntN(3) == 0 {
		cfg.Router = &scheduler.RoundRobin{}
	}
	if cfg.Link != nil {
		drawRoles(&cfg, rng)
	}
	if rng.IntN(3) == 0 {
		drawGroups(&cfg, rng)
	}
	drawWindows(&cfg, rng)
	if cfg.Link != nil {
		drawLinkWindows(&cfg, rng)
	}
	if cfg.Handoff != nil && rng.IntN(2) == 0 {
		cfg.Roles = shuffle{cfg.Replicas, rng.Uint64(), note}
		cfg.SwitchCost = time.Duration(rng.IntN(2) * rng.IntN(50_000))
	}
	cfg.Router = noted{"route", cfg.Router, note}
	if cfg.Handoff != nil {
		cfg.Handoff = noted{"hand off", cfg.Handoff, note}
	}
	if rng.IntN(4) == 0 {
		cfg.Admission = admitSome{}
	}
	if rng.IntN(2) == 0 {
		cfg.FollowUp = nextTurn
	}
	return cfg, policies
}

// replica draws the sizes that all replicas have.
func (sc scenario) replica(rng *rand.Rand) sim.Replica {
	r := sim.Replica{CostModel: sim.CostFunc(stepTime)}
	r.BlockTokens, _ = sc.prefix(0, 0)
	if rng.IntN(4) > 0 {
		r.KVBlocks = 4 + rng.IntN(200/r.BlockTokens+8)
		r.ReservedBlocks = rng.IntN(2)
	}
	if rng.IntN(3) == 0 {
		r.Growth = sim.TouchedGrowth
	}
	if rng.IntN(2) == 0 {
		r.MaxSeqs = 1 + rng.IntN(8)
	}
	if rng.IntN(3) > 0 {
		r.MaxBatchTokens = 4 + rng.IntN(80)
	}
	if rng.IntN(3) > 0 {
		r.MaxModelLen = 30 + rng.IntN(100)
	}
	r.Strict = rng.IntN(16) == 0
	r.PrefixCache = rng.IntN(3) == 0
	r.EagerSharing = r.PrefixCache && rng.IntN(2) == 0
	if r.KVBlocks > 0 && !r.PrefixCache {
		r.HostBlocks = rng.IntN(2) * rng.IntN(2*r.KVBlocks)
	}
	if rng.IntN(4) == 0 {
		r.Drafts = 1 + rng.IntN(4)
		r.Drafter = sim.DrafterFunc(func(q sim.Query, index, drafts int) int { return (q.ID*7 + index*3) % (drafts + 1) })
	}
	if rng.IntN(3) == 0 {
		r.CostModel = pipeline{rng.IntN(5), time.Duration(rng.IntN(2) * rng.IntN(12_000)), rng.IntN(2) * 9}
	}
	if r.Drafts == 0 && r.HostBlocks == 0 && !r.EagerSharing && rng.IntN(2) == 0 {
		r.InFlight = 2 + rng.IntN(3)
		r.Async = sim.Async(rng.IntN(3))
	}
	if rng.IntN(3) == 0 {
		r.Order = sim.OrderFunc(scheduler.ByPriority)
	}
	return r
}

// vary changes the sizes of one replica.
func (sc scenario) vary(r *sim.Replica, rng *rand.Rand) {
	if rng.IntN(4) == 0 {
		r.MaxModelLen = rng.IntN(2) * (10 + rng.IntN(60))
	}
	if rng.IntN(4) == 0 && r.KVBlocks > 0 {
		r.KVBlocks += rng.IntN(20)
	}
	if rng.IntN(6) == 0 {
		r.PrefixCache, r.EagerSharing, r.HostBlocks = !r.PrefixCache, false, 0
	}
	block, _ := sc.prefix(0, 0)
	r.BlockTokens = []int{block, block, block, block, block, 2 * block, 3 * block, block + 1}[rng.IntN(8)]
}

// drawLink draws a link that carries a prompt in about the time of a step. A power
// of two or a round number of tokens per second gives ties, others odd times.
func drawLink(rng *rand.Rand) *sim.Link {
	l := &sim.Link{TokenBytes: []int64{1, 3, 64, 1000}[rng.IntN(4)], Layers: rng.IntN(2) * rng.IntN(7)}
	tokens := []float64{float64(int(1) << (18 + rng.IntN(5))), 1e6, 3e6, 7e5, 2e5 + 3e6*rng.Float64()}[rng.IntN(5)]
	l.Bandwidth = tokens * float64(l.TokenBytes)
	l.Fabric = l.Bandwidth * []float64{0, 0.5, 1, 1.5, 3}[rng.IntN(5)]
	l.Latency = time.Duration(rng.IntN(2) * rng.IntN(20_000))
	return l
}

// drawRoles gives replicas roles, and routers that heed them, most of the time.
func drawRoles(cfg *sim.Config, rng *rand.Rand) {
	prefill, decode := rng.IntN(len(cfg.Replicas)), rng.IntN(len(cfg.Replicas)-1)
	if decode >= prefill {
		decode++
	}
	for i := range cfg.Replicas {
		r := &cfg.Replicas[i]
		r.FirstToken, r.FreeAborted = sim.FirstTokenSide(rng.IntN(2)), rng.IntN(3) == 0
		r.Role = sim.Role(rng.IntN(3))
		switch {
		case i == prefill:
			r.Role = sim.RolePrefill
		case i == decode && r.Role == sim.RolePrefill:
			r.Role = sim.RoleDecode
		}
		if r.Role == sim.RolePrefill {
			r.Drafts, r.InFlight, r.Async = 0, 0, sim.NotAsync
		}
	}
	if rng.IntN(3) > 0 {
		cfg.Router = among{sim.RoleDecode, cfg.Router}
	}
	decoders := 0
	for _, r := range cfg.Replicas {
		decoders += one(r.Role != sim.RolePrefill)
	}
	if decoders > 1 || rng.IntN(2) == 0 {
		cfg.Handoff = among{sim.RolePrefill, []sim.Router{scheduler.LeastLoaded{}, &scheduler.RoundRobin{}}[rng.IntN(2)]}
	}
}

// drawGroups makes some replicas step together, whatever their roles.
func drawGroups(cfg *sim.Config, rng *rand.Rand) {
	for i := range cfg.Replicas {
		if r := &cfg.Replicas[i]; rng.IntN(4) > 0 {
			r.Group = 1 + rng.IntN(1+len(cfg.Replicas)/3)
			r.InFlight, r.Async = 0, sim.NotAsync
		}
	}
	if rng.IntN(2) == 0 {
		for i := range cfg.Replicas {
			cfg.Replicas[i].CostModel = experts{}
		}
	}
}

// drawWindows slows replicas down, and stops them.
func drawWindows(cfg *sim.Config, rng *rand.Rand) {
	for i := range cfg.Replicas {
		for at := sim.Time(rng.IntN(400_000)); rng.IntN(2) == 0; at = at.Add(time.Duration(rng.IntN(100_000))) {
			w := sim.Window{Replica: i, From: at, To: at.Add(time.Duration(1 + rng.IntN(200_000))), Factor: 0.3 + 3*rng.Float64()}
			if w.Pause = rng.IntN(2) == 0; w.Pause {
				w.Factor = 0
			}
			cfg.Windows = append(cfg.Windows, w)
			at = w.To
		}
	}
}

// drawLinkWindows slows ports, all of them, or the fabric.
func drawLinkWindows(cfg *sim.Config, rng *rand.Rand) {
	for i := -1; i < len(cfg.Replicas); i++ {
		for at := sim.Time(rng.IntN(400_000)); rng.IntN(3) == 0; at = at.Add(time.Duration(rng.IntN(100_000))) {
			w := sim.Window{Link: true, Replica: i, From: at, To: at.Add(time.Duration(1 + rng.IntN(200_000))), Factor: []float64{0.5, 2, 3, 4 * rng.Float64()}[rng.IntN(4)]}
			if w.Pause = rng.IntN(4) == 0; w.Pause {
				w.Factor = 0
			}
			cfg.Windows = append(cfg.Windows, w)
			at = w.To
		}
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

func stepTime(b sim.Batch) time.Duration {
	return time.Duration(5_000 + 40*b.Decodes + 3*b.Context + 700*b.PrefillTokens() + 11*b.Padding.Rows + 13*b.Padding.PromptTokens + 17*b.SwapIn + 19*b.SwapOut)
}

// experts takes the time of all that a group computes, and some for each place in
// it, idle or not.
type experts struct{}

func (experts) StepTime(b sim.Batch) time.Duration { return stepTime(b) }

func (experts) GroupTime(bs []sim.Batch) (d time.Duration) {
	for i, b := range bs {
		d += 2_000
		if !b.Empty() {
			d += stepTime(b) * time.Duration(2+i) / 3
		}
	}
	return d
}

// pipeline takes stepTime on the device, in so many stages; 0 means that any
// number of steps overlap.
type pipeline struct {
	stages int
	host   time.Duration
	prompt int // host time per prompt position
}

func (p pipeline) StepTime(b sim.Batch) time.Duration {
	host, _, total := p.PipelineTime(b)
	return host + total
}

func (p pipeline) PipelineTime(b sim.Batch) (host, stage, total time.Duration) {
	total = stepTime(b)
	if p.stages > 0 {
		stage = total / time.Duration(p.stages)
	}
	return p.host + time.Duration(p.prompt*b.PrefillTokens()), stage, total
}

// requests draws the workload: bursts, long and short, and some faults.
func (sc scenario) requests() []sim.Request {
	rng := rand.New(rand.NewPCG(sc.seed, 2))
	var out []sim.Request
	at := sim.Time(0)
	for i := range 10 + rng.IntN(50) {
		if rng.IntN(3) == 0 {
			at = at.Add(time.Duration(rng.IntN(60_000)))
		}
		r := sim.Request{ID: i, Arrival: at, Prompt: 1 + rng.IntN(40), Output: 1 + rng.IntN(40), Class: rng.IntN(3)}
		if rng.IntN(3) == 0 {
			r.MaxOutput = 1 + rng.IntN(30)
		}
		switch rng.IntN(24) {
		case 0:
			r.Patience.First = time.Duration(rng.IntN(100_000))
		case 1:
			r.Patience.Total = time.Duration(rng.IntN(300_000))
		case 2:
			r.Prompt = rng.IntN(300)
		case 3:
			r.ID = rng.IntN(i + 1)
		case 4:
			r.Output, r.Class = rng.IntN(2), rng.IntN(5)-1
		}
		if rng.IntN(4) > 0 {
			r.PrefixBlock, r.Prefix = sc.prefix(rng.IntN(3), rng.IntN(80))
			r.NoPrefixRead = rng.IntN(10) == 0
		}
		out = append(out, r)
	}
	return out
}

// prefix returns the hash chain of the first tokens of one of a few texts, in
// blocks of the replicas' size.
func (sc scenario) prefix(text, tokens int) (block int, chain []kv.Hash) {
	block = 1 + rand.New(rand.NewPCG(sc.seed, 3)).IntN(16)
	for i := range tokens / block {
		chain = append(chain, kv.Hash(1000*text+i))
	}
	return block, chain
}
