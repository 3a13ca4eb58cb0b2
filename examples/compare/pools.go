package main

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"servesim/costmodel"
	"servesim/scheduler"
	"servesim/sim"
	"servesim/workload"
)

// Pools says how the deployments with pools divide the replicas.
type Pools struct {
	Prefill        int `json:"prefill_replicas"`
	Decode         int `json:"decode_replicas"`
	DynamicPrefill int `json:"dynamic_prefill_replicas"` // at the start

	rates rates
}

// rates is what a replica does if it does nothing else.
type rates struct {
	prompt, token float64 // per second
	batch         int     // requests that it decodes at a time
}

// needsPools reports whether a deployment with pools is compared.
func (m *Manifest) needsPools() bool {
	return slices.ContainsFunc(policies, func(p policy) bool { return p.fill != nil && slices.Contains(m.Schedulers, p.name) })
}

// pools divides the replicas for requests like those of w, or returns nil if
// there is nothing to divide. Where the manifest leaves it open, the prefill pool
// gets as much of the replicas as prompts are of the work, rounded.
func (m *Manifest) pools(w workload.Description) (*Pools, error) {
	if !m.needsPools() {
		return nil, nil
	}
	r, err := m.rates(w)
	if err != nil {
		return nil, err
	}
	p := &Pools{Prefill: m.PrefillReplicas, DynamicPrefill: m.DynamicPrefill, rates: r}
	if p.Prefill == 0 {
		prompts, outputs := float64(w.Prompt.Mean)/r.prompt, float64(w.Output.Mean)/r.token
		p.Prefill = int(float64(m.Replicas)*prompts/(prompts+outputs) + 0.5)
		p.Prefill = min(max(1, p.Prefill), m.Replicas-1)
	}
	if p.DynamicPrefill == 0 {
		p.DynamicPrefill = m.Replicas / 2
	}
	p.Decode = m.Replicas - p.Prefill
	return p, nil
}

// rates returns the prompt tokens that a replica computes per second in full
// steps, and the output tokens that it samples per second with as many requests
// of the mean length as memory, slots and the gap target allow.
func (m *Manifest) rates(w workload.Description) (r rates, err error) {
	cost, err := m.cost()
	if err != nil {
		return r, err
	}
	step := sim.Batch{Prefills: []sim.Chunk{{Tokens: m.PrefillTokens, Last: true}}}
	r.prompt = float64(m.PrefillTokens) / cost.StepTime(step).Seconds()
	context := int(float64(w.Prompt.Mean) + float64(w.Output.Mean)/2)
	decode := func(n int) time.Duration {
		return cost.StepTime(sim.Batch{Decodes: n, Positions: n, Context: n * context})
	}
	most := max(1, min(m.MaxSeqs, m.KVBlocks*m.BlockTokens/(context+1)))
	r.batch = max(1, sort.Search(most, func(n int) bool { return decode(n+1) > m.class().Gap }))
	r.token = float64(r.batch) / decode(r.batch).Seconds()
	return r, nil
}

// disaggregated fills cfg with a prefill and a decode pool.
func (m *Manifest) disaggregated(p *Pools, cfg *sim.Config) error {
	cost, link, err := m.parts()
	if err != nil {
		return err
	}
	scheduler.Disaggregated{
		Prefill: p.Prefill, Decode: p.Decode, Link: link, FirstToken: m.side(), Local: m.LocalTokens,
		PrefillReplica: func(int) sim.Replica {
			return m.replica(scheduler.ChunkedPrefill{}, cost, m.PrefillTokens, sim.ExactGrowth)
		},
		DecodeReplica: func(int) sim.Replica {
			return m.replica(scheduler.ChunkedPrefill{}, cost, m.ChunkTokens, sim.ExactGrowth)
		},
	}.Fill(cfg)
	return nil
}

// dynamic fills cfg with pools whose replicas move.
func (m *Manifest) dynamic(p *Pools, cfg *sim.Config) error {
	cost, link, err := m.parts()
	if err != nil {
		return err
	}
	scheduler.Dynamic{
		Prefill: p.DynamicPrefill, Decode: m.Replicas - p.DynamicPrefill, Link: link, FirstToken: m.side(), Local: m.LocalTokens,
		Replica: func(int) sim.Replica {
			return m.replica(scheduler.ChunkedPrefill{}, cost, m.PrefillTokens, sim.ExactGrowth)
		},
		Roles:      m.controller(p.rates),
		SwitchCost: time.Duration(m.SwitchCostMs * 1e6),
	}.Fill(cfg)
	return nil
}

// controller makes what moves the roles. The load threshold of prompts is what
// takes half the TTFT target to compute, that of requests what decodes within
// the gap target.
func (m *Manifest) controller(r rates) sim.RoleController {
	if m.Controller == "load-threshold" {
		return &scheduler.LoadThreshold{Prompts: max(1, int(r.prompt*m.TTFTTargetMs/2000)), Requests: r.batch}
	}
	return &scheduler.WorkRatio{PromptRate: r.prompt, TokenRate: r.token}
}

func (m *Manifest) side() sim.FirstTokenSide {
	if m.FirstToken == "decode" {
		return sim.FirstFromDecode
	}
	return sim.FirstFromPrefill
}

// parts returns the step times of a replica and the link between them.
func (m *Manifest) parts() (sim.CostModel, sim.Link, error) {
	cost, err := m.cost()
	if err != nil {
		return nil, sim.Link{}, err
	}
	l, err := costmodel.LookupLink(m.Link)
	if err != nil {
		return nil, sim.Link{}, err
	}
	s, err := m.setup()
	if err != nil {
		return nil, sim.Link{}, err
	}
	link, err := s.KVLink(l)
	if m.LayerWise {
		link.Layers = s.Model.Layers
	}
	return cost, link, err
}

// checkPools reports the first field of the deployments with pools that cannot
// be.
func (m *Manifest) checkPools() error {
	needed := m.needsPools()
	switch {
	case needed && m.Replicas == 1:
		return fmt.Errorf("replicas is 1; disaggregated and dynamic need 2 (leave them out of schedulers)")
	case m.PrefillReplicas < 0 || needed && m.PrefillReplicas >= m.Replicas:
		return fmt.Errorf("prefill_replicas is %d of %d", m.PrefillReplicas, m.Replicas)
	case m.DynamicPrefill < 0 || needed && m.DynamicPrefill >= m.Replicas:
		return fmt.Errorf("dynamic_prefill_replicas is %d of %d", m.DynamicPrefill, m.Replicas)
	case m.FirstToken != "prefill" && m.FirstToken != "decode":
		return fmt.Errorf("first_token: unknown %q; known are prefill, decode", m.FirstToken)
	case m.Controller != "work-ratio" && m.Controller != "load-threshold":
		return fmt.Errorf("controller: unknown %q; known are work-ratio, load-threshold", m.Controller)
	}
	_, err := costmodel.LookupLink(m.Link)
	return err
}
