package scheduler

import (
	"fmt"
	"slices"
	"time"

	"servesim/sim"
)

// Colocated computes and decodes every request on one replica.
//
// Like the other deployments it is a value that fills a [sim.Config]: which
// replicas there are, what they do, and how requests get from one to another.
// Workload, classes and observers are left alone, so that one line switches
// between deployments of the same number of replicas:
//
//	scheduler.Colocated{Replicas: 4, Replica: chunked}.Fill(&cfg)
//	scheduler.Disaggregated{Prefill: 1, Decode: 3, PrefillReplica: chunked, Link: link}.Fill(&cfg)
//	scheduler.Dynamic{Prefill: 2, Decode: 2, Replica: chunked, Link: link, Roles: controller}.Fill(&cfg)
//
// Schedulers, routers and controllers are stateful: make a deployment anew for
// every run.
type Colocated struct {
	Replicas int
	// Replica makes the i-th replica, from 0, with a scheduler of its own.
	Replica func(i int) sim.Replica
	// Router spreads arrivals; nil means [LeastLoaded].
	Router sim.Router
}

// Fill replaces the replicas of cfg and what routes between them.
func (d Colocated) Fill(cfg *sim.Config) {
	cfg.Replicas = replicas("Colocated.Replica", nil, d.Replicas, d.Replica, func(r *sim.Replica) { r.Role = sim.RoleBoth })
	cfg.Router = orElse(d.Router, LeastLoaded{})
	cfg.Handoff, cfg.Link, cfg.Roles, cfg.SwitchCost = nil, nil, nil, 0
}

// Disaggregated computes prompts in a pool of replicas and decodes in another
// (Splitwise, Patel et al., ISCA 2024; DistServe, Zhong et al., OSDI 2024). A
// link carries the KV between them. Every pool has the weights, so that two
// replicas hold what one would, and neither disturbs the other.
type Disaggregated struct {
	Prefill, Decode int // replicas of each pool
	// PrefillReplica and DecodeReplica make the i-th replica of all, prefill
	// replicas first, with a scheduler of its own. A nil DecodeReplica means
	// PrefillReplica. Schedulers of the decode pool that do not pull
	// themselves, as [Pull], [VLLM1] and [DistServe] do, are put into a Pull.
	PrefillReplica, DecodeReplica func(i int) sim.Replica
	// Headroom is that of [Pull].
	Headroom float64
	Link     sim.Link
	// FirstToken is the side that samples first tokens.
	FirstToken sim.FirstTokenSide
	// Local is the Limit of [Conditional]: prompts with fewer positions to
	// compute stay in the decode pool. 0 hands all over.
	Local int
	// Router spreads arrivals; nil means Conditional, with the fewest pending
	// positions in the prefill pool. Handoff picks the decode replica; nil means
	// the one with the fewest requests.
	Router, Handoff sim.Router
}

// Fill replaces the replicas of cfg and what routes between them.
func (d Disaggregated) Fill(cfg *sim.Config) {
	if d.DecodeReplica == nil {
		d.DecodeReplica = d.PrefillReplica
	}
	cfg.Replicas = replicas("Disaggregated.PrefillReplica", nil, d.Prefill, d.PrefillReplica, func(r *sim.Replica) {
		r.Role, r.FirstToken = sim.RolePrefill, d.FirstToken
	})
	cfg.Replicas = replicas("Disaggregated.DecodeReplica", cfg.Replicas, d.Decode, d.DecodeReplica, func(r *sim.Replica) {
		r.Role, r.Scheduler = sim.RoleDecode, pulling(r.Scheduler, d.Headroom)
	})
	cfg.Router = orElse(d.Router, &Conditional{Limit: d.Local})
	cfg.Handoff = orElse(d.Handoff, &DecodePool{})
	cfg.Link = &d.Link
	cfg.Roles, cfg.SwitchCost = nil, 0
}

// Dynamic is a disaggregated deployment whose replicas move between the pools
// as the work changes. One that changes drains first, then opens SwitchCost
// later.
type Dynamic struct {
	Prefill, Decode int // replicas of each pool at the start
	// Replica makes the i-th replica, from 0, with a scheduler of its own that
	// serves in both roles. One that does not pull itself is put into a [Pull].
	Replica func(i int) sim.Replica
	// Roles moves the replicas. One that is a sim.Observer too, as [WorkRatio]
	// is, observes the run.
	Roles      sim.RoleController
	SwitchCost time.Duration
	// Headroom, Link, FirstToken, Local, Router and Handoff are those of
	// [Disaggregated].
	Headroom        float64
	Link            sim.Link
	FirstToken      sim.FirstTokenSide
	Local           int
	Router, Handoff sim.Router
}

// Fill replaces the replicas of cfg and what routes between them, and appends an
// observer if the controller is one.
func (d Dynamic) Fill(cfg *sim.Config) {
	if d.Replica == nil {
		panic("scheduler: Dynamic.Replica is nil")
	}
	Disaggregated{
		Prefill: d.Prefill, Decode: d.Decode, PrefillReplica: func(i int) sim.Replica {
			r := d.Replica(i)
			r.Scheduler = pulling(r.Scheduler, d.Headroom)
			return r
		},
		Headroom: d.Headroom, Link: d.Link, FirstToken: d.FirstToken, Local: d.Local, Router: d.Router, Handoff: d.Handoff,
	}.Fill(cfg)
	for i := range cfg.Replicas {
		cfg.Replicas[i].FirstToken = d.FirstToken
	}
	cfg.Roles, cfg.SwitchCost = d.Roles, d.SwitchCost
	if o, ok := d.Roles.(sim.Observer); ok {
		cfg.Observers = append(slices.Clip(cfg.Observers), o)
	}
}

// replicas appends n replicas that a function of that name makes.
func replicas(name string, list []sim.Replica, n int, replica func(int) sim.Replica, role func(*sim.Replica)) []sim.Replica {
	if n > 0 && replica == nil {
		panic(fmt.Sprintf("scheduler: %s is nil", name))
	}
	for range n {
		r := replica(len(list))
		role(&r)
		list = append(list, r)
	}
	return list
}

// pulling returns a scheduler that fetches what other replicas have computed.
func pulling(s sim.Scheduler, headroom float64) sim.Scheduler {
	switch s.(type) {
	case nil, Pull, *Pull, VLLM1, *VLLM1, DistServe, *DistServe:
		return s
	}
	return Pull{Scheduler: s, Headroom: headroom}
}
