package main

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"servesim/costmodel"
	"servesim/scheduler"
	"servesim/sim"
	"servesim/workload"
)

// scenario is a disaggregated set-up under bursts.
type scenario struct {
	Model    string   `json:"model"`
	GPU      string   `json:"gpu"`
	Prefill  int      `json:"prefill_replicas"`
	Decode   int      `json:"decode_replicas"`
	KVBlocks int      `json:"kv_blocks"` // per replica
	Links    []string `json:"links"`

	Bursts int           `json:"bursts"`
	Size   int           `json:"requests_per_burst"`
	Every  time.Duration `json:"-"`
	EveryS float64       `json:"every_s"` // Every, once complete
	Prompt int           `json:"prompt_mean_tokens"`
	Output int           `json:"output_mean_tokens"`
	Seed   uint64        `json:"seed"`
}

func defaults() scenario {
	return scenario{
		Model: "Llama-3.1-8B", GPU: "H100", Prefill: 3, Decode: 1, Links: []string{"Ethernet-100G", "NVLink4"},
		Bursts: 400, Size: 10, Every: 2 * time.Second, Prompt: 4000, Output: 100, Seed: 1,
	}
}

// What a replica takes at most.
const (
	maxSeqs     = 256
	maxModelLen = 16384
	stepTokens  = 2048
)

// check reports the first flag that cannot be run.
func (s *scenario) check() error {
	for _, f := range []struct {
		name       string
		value, max int
	}{
		{"-prefill", s.Prefill, 1000}, {"-decode", s.Decode, 1000}, {"-bursts", s.Bursts, 1_000_000}, {"-size", s.Size, 1_000_000},
		{"-prompt", s.Prompt, maxModelLen / 2}, {"-output", s.Output, maxModelLen / 4},
	} {
		if f.value < 1 || f.value > f.max {
			return fmt.Errorf("%s is %d, want 1 to %d", f.name, f.value, f.max)
		}
	}
	if s.Every <= 0 || s.Every > time.Hour {
		return fmt.Errorf("-every is %v, want more than 0, at most an hour", s.Every)
	}
	for i, l := range s.Links {
		if _, err := costmodel.LookupLink(l); err != nil {
			return fmt.Errorf("-links: %w", err)
		}
		if slices.Contains(s.Links[:i], l) {
			return fmt.Errorf("-links: %q is there twice", l)
		}
	}
	return nil
}

// complete looks model and GPU up and fills in the KV blocks that fit.
func (s *scenario) complete() (costmodel.Setup, error) {
	if err := s.check(); err != nil {
		return costmodel.Setup{}, err
	}
	setup, err := costmodel.NewSetup(s.Model, s.GPU)
	if err != nil {
		return setup, err
	}
	s.Model, s.GPU, s.EveryS = setup.Model.Name, setup.GPU.Name, s.Every.Seconds()
	kv, err := setup.KVCapacity(costmodel.KVBudget{Sequences: maxSeqs, BatchTokens: maxModelLen})
	s.KVBlocks = kv.Blocks
	return setup, err
}

// requests yields the bursts, the same for every link.
func (s *scenario) requests() iter.Seq2[sim.Request, error] {
	return workload.Workload{
		Seed:     s.Seed,
		Arrivals: workload.Limit{Arrivals: workload.Bursts{Size: s.Size, Every: s.Every}, Count: s.Bursts * s.Size},
		Mix:      []workload.Share{{Lengths: workload.Independent{Prompt: around(s.Prompt), Output: around(s.Output)}}},
	}.Requests()
}

// around draws whole numbers between half of it and one and a half times it, all
// equally likely: no processor rounds them otherwise.
type around int

// Draw implements workload.Length.
func (a around) Draw(r *rand.Rand) int {
	n := max(1, int(a)/2)
	return n + r.IntN(int(a)+int(a)/2-n+1)
}

// config is the set-up with one link. The decode side samples the first token, so
// that its way is part of the TTFT.
func (s *scenario) config(setup costmodel.Setup, link sim.Link) (sim.Config, error) {
	cost, err := costmodel.NewTransformer(setup)
	if err != nil {
		return sim.Config{}, err
	}
	var cfg sim.Config
	scheduler.Disaggregated{
		Prefill: s.Prefill, Decode: s.Decode, Link: link, FirstToken: sim.FirstFromDecode,
		PrefillReplica: func(int) sim.Replica {
			return sim.Replica{
				Scheduler: scheduler.ChunkedPrefill{}, CostModel: cost, KVBlocks: s.KVBlocks,
				MaxSeqs: maxSeqs, MaxModelLen: maxModelLen, MaxBatchTokens: stepTokens,
			}
		},
	}.Fill(&cfg)
	return cfg, nil
}
