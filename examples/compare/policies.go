package main

import (
	"slices"

	"servesim/scheduler"
	"servesim/sim"
)

// policy is what can be compared, by name: a scheduler on co-located replicas, or
// a deployment with pools.
type policy struct {
	name    string
	make    func() sim.Scheduler
	chunked bool // splits prompts; the others need a step for the longest one
	// reserves memory for the most a request can have, and has no other limit
	// for prompts.
	reserves bool
	growth   sim.Growth
	fill     func(*Manifest, *Pools, *sim.Config) error // of a deployment with pools
}

// policies are the schedulers that can be compared.
var policies = []policy{
	{name: "request-batch", make: func() sim.Scheduler { return &scheduler.RequestBatch{} }, reserves: true},
	{name: "continuous", make: func() sim.Scheduler { return scheduler.Continuous{} }},
	{name: "chunked", make: func() sim.Scheduler { return scheduler.ChunkedPrefill{} }, chunked: true},
	{name: "disaggregated", fill: (*Manifest).disaggregated},
	{name: "dynamic", fill: (*Manifest).dynamic},
	{name: "vllm-v1", make: func() sim.Scheduler { return scheduler.VLLM1{} }, chunked: true},
	{name: "vllm-v0", make: func() sim.Scheduler { return &scheduler.VLLM0{} }, growth: sim.TouchedGrowth},
	{name: "sarathi", make: func() sim.Scheduler { return &scheduler.Sarathi{} }, chunked: true, growth: sim.TouchedGrowth},
	{name: "orca", make: func() sim.Scheduler { return scheduler.Orca{} }, reserves: true},
}

// usual are the schedulers that are compared without a flag: one of a kind.
const usual = 5

func schedulerNames() (names []string) {
	for _, p := range policies {
		names = append(names, p.name)
	}
	return names
}

// deploy fills cfg with the replicas of a policy and what routes between them.
func (m *Manifest) deploy(name string, pools *Pools, cfg *sim.Config) error {
	p := policies[slices.IndexFunc(policies, func(p policy) bool { return p.name == name })]
	if p.fill != nil {
		return p.fill(m, pools, cfg)
	}
	cost, err := m.cost()
	if err != nil {
		return err
	}
	scheduler.Colocated{Replicas: m.Replicas, Replica: func(int) sim.Replica {
		return m.replica(p.make(), cost, m.budget(p), p.growth)
	}}.Fill(cfg)
	return nil
}

// replica makes one engine instance.
func (m *Manifest) replica(s sim.Scheduler, cost sim.CostModel, budget int, growth sim.Growth) sim.Replica {
	return sim.Replica{
		Scheduler: s, CostModel: cost, MaxBatchTokens: budget, Growth: growth,
		KVBlocks: m.KVBlocks, BlockTokens: m.BlockTokens, MaxSeqs: m.MaxSeqs, MaxModelLen: m.MaxModelLen, PrefixCache: m.PrefixCache,
	}
}

// budget returns the positions that one step may compute; 0 is no limit. A
// static batch is limited by its slots and its memory, not by tokens.
func (m *Manifest) budget(p policy) int {
	switch {
	case p.chunked:
		return m.ChunkTokens
	case p.reserves:
		return 0
	}
	return m.MaxModelLen
}
