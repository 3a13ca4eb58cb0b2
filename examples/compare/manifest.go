package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"servesim/costmodel"
	"servesim/scheduler"
	"servesim/sim"
	"servesim/workload"
)

// Manifest is everything that decides a comparison. It is the config of the
// JSON output, and -config reads it back.
type Manifest struct {
	Schedulers []string `json:"schedulers"`
	// Preset or Recording is where the workload comes from; the other is
	// empty.
	Preset    string  `json:"preset"`
	Recording string  `json:"recording"`
	Requests  int     `json:"requests"` // 0: the whole recording
	RateScale float64 `json:"rate_scale"`
	Seed      uint64  `json:"seed"`
	Seeds     int     `json:"seeds"`

	Model          string `json:"model"`
	GPU            string `json:"gpu"`
	TensorParallel int    `json:"tensor_parallel"`
	Replicas       int    `json:"replicas"`
	KVBlocks       int    `json:"kv_blocks"` // per replica; 0: what fits
	BlockTokens    int    `json:"block_tokens"`
	MaxSeqs        int    `json:"max_seqs"`
	MaxModelLen    int    `json:"max_model_len_tokens"`
	ChunkTokens    int    `json:"chunk_tokens"` // token budget of a chunked step
	PrefixCache    bool   `json:"prefix_cache"`

	TTFTTargetMs float64 `json:"slo_ttft_ms"`
	GapTargetMs  float64 `json:"slo_itl_ms"`
}

// defaults is the comparison without flags: the arrivals and lengths of a code
// completion service at a load where the choice of the scheduler matters.
func defaults() Manifest {
	return Manifest{
		Schedulers: schedulerNames()[:usual], Preset: "azure-code-2023", Requests: 5000, RateScale: 1, Seed: 1, Seeds: 10,
		Model: "Llama-3.1-8B", GPU: "H100", TensorParallel: 1, Replicas: 1,
		BlockTokens: sim.DefaultBlockTokens, MaxSeqs: 256, MaxModelLen: 16384, ChunkTokens: 1024,
		TTFTTargetMs: 1000, GapTargetMs: 50,
	}
}

// policy is a scheduler by name.
type policy struct {
	name    string
	make    func() sim.Scheduler
	chunked bool // splits prompts; the others need a step for the longest one
	// reserves memory for the most a request can have, and has no other limit
	// for prompts.
	reserves bool
	growth   sim.Growth
}

// policies are the schedulers that can be compared.
var policies = []policy{
	{name: "request-batch", make: func() sim.Scheduler { return &scheduler.RequestBatch{} }, reserves: true},
	{name: "continuous", make: func() sim.Scheduler { return scheduler.Continuous{} }},
	{name: "chunked", make: func() sim.Scheduler { return scheduler.ChunkedPrefill{} }, chunked: true},
	{name: "vllm-v1", make: func() sim.Scheduler { return scheduler.VLLM1{} }, chunked: true},
	{name: "vllm-v0", make: func() sim.Scheduler { return &scheduler.VLLM0{} }, growth: sim.TouchedGrowth},
	{name: "sarathi", make: func() sim.Scheduler { return &scheduler.Sarathi{} }, chunked: true, growth: sim.TouchedGrowth},
	{name: "orca", make: func() sim.Scheduler { return scheduler.Orca{} }, reserves: true},
}

// usual are the schedulers that are compared without a flag: one of a kind.
const usual = 3

func schedulerNames() (names []string) {
	for _, p := range policies {
		names = append(names, p.name)
	}
	return names
}

// presets maps the names of the generated workloads to what they draw.
var presets = []struct {
	name    string
	arrive  func() workload.MMPP
	lengths func() workload.Lengths
}{
	{"azure-code-2023", workload.AzureCode2023, func() workload.Lengths { return workload.AzureCode2023Lengths() }},
	{"azure-conv-2023", workload.AzureConv2023, func() workload.Lengths { return workload.AzureConv2023Lengths() }},
}

func presetNames() (names []string) {
	for _, p := range presets {
		names = append(names, p.name)
	}
	return names
}

// read loads a manifest, or the config of an earlier JSON output, from a file.
func read(path string) (Manifest, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Manifest{}, err
	}
	m, err := decode(data)
	if err != nil {
		return Manifest{}, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func decode(data []byte) (Manifest, error) {
	var output struct {
		Config json.RawMessage `json:"config"`
	}
	if err := json.Unmarshal(data, &output); err != nil {
		return Manifest{}, err
	}
	if output.Config != nil {
		data = output.Config
	}
	m := defaults()
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return Manifest{}, err
	}
	if _, err := d.Token(); err != io.EOF {
		return Manifest{}, fmt.Errorf("something follows the config")
	}
	return m, nil
}

// check reports the first field that cannot be run. Model and GPU are looked
// up when the replicas are made.
func (m *Manifest) check() error {
	if len(m.Schedulers) == 0 {
		return fmt.Errorf("schedulers is empty; known are %s", strings.Join(schedulerNames(), ", "))
	}
	for i, s := range m.Schedulers {
		if !slices.Contains(schedulerNames(), s) {
			return fmt.Errorf("schedulers: unknown %q; known are %s", s, strings.Join(schedulerNames(), ", "))
		}
		if slices.Contains(m.Schedulers[:i], s) {
			return fmt.Errorf("schedulers: %q is there twice", s)
		}
	}
	if (m.Preset == "") == (m.Recording == "") {
		return fmt.Errorf("preset is %q and recording is %q; exactly one is needed", m.Preset, m.Recording)
	}
	if m.Preset != "" && !slices.Contains(presetNames(), m.Preset) {
		return fmt.Errorf("preset: unknown %q; known are %s", m.Preset, strings.Join(presetNames(), ", "))
	}
	if m.Recording != "" && m.Seeds != 1 {
		return fmt.Errorf("seeds is %d with a recording, which is the same in every run", m.Seeds)
	}
	if m.Preset != "" && m.Requests == 0 {
		return fmt.Errorf("requests is 0 with preset %s, which does not end", m.Preset)
	}
	const many = 1e9
	const longest = float64(math.MaxInt64 / 1e6) // ms
	for _, f := range []struct {
		name            string
		value, from, to float64
	}{
		{"requests", float64(m.Requests), 0, many}, {"seeds", float64(m.Seeds), 1, many}, {"tensor_parallel", float64(m.TensorParallel), 1, many},
		{"replicas", float64(m.Replicas), 1, 10_000}, {"kv_blocks", float64(m.KVBlocks), 0, many}, {"block_tokens", float64(m.BlockTokens), 1, many},
		{"max_seqs", float64(m.MaxSeqs), 1, many}, {"max_model_len_tokens", float64(m.MaxModelLen), 2, many}, {"chunk_tokens", float64(m.ChunkTokens), 1, many},
		{"slo_ttft_ms", m.TTFTTargetMs, 1e-6, longest}, {"slo_itl_ms", m.GapTargetMs, 1e-6, longest},
	} {
		if !(f.value >= f.from && f.value <= f.to) {
			return fmt.Errorf("%s is %v, want %.4g to %.4g", f.name, f.value, f.from, f.to)
		}
	}
	if !(m.RateScale > 0) || math.IsInf(m.RateScale, 0) {
		return fmt.Errorf("rate_scale is %v, want more than 0, and finite", m.RateScale)
	}
	return nil
}

// class is the one class of requests, with its targets.
func (m *Manifest) class() sim.Class {
	return sim.Class{
		TTFT: time.Duration(math.Round(m.TTFTTargetMs * 1e6)),
		Gap:  time.Duration(math.Round(m.GapTargetMs * 1e6)),
	}
}

// replica makes one engine instance.
func (m *Manifest) replica(name string) (sim.Replica, error) {
	i := slices.IndexFunc(policies, func(p policy) bool { return p.name == name })
	cost, err := m.cost()
	if err != nil {
		return sim.Replica{}, err
	}
	r := sim.Replica{
		Scheduler: policies[i].make(), CostModel: cost,
		KVBlocks: m.KVBlocks, BlockTokens: m.BlockTokens, MaxSeqs: m.MaxSeqs, MaxModelLen: m.MaxModelLen,
		MaxBatchTokens: m.budget(policies[i]), Growth: policies[i].growth, PrefixCache: m.PrefixCache,
	}
	return r, nil
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

func (m *Manifest) setup() (costmodel.Setup, error) {
	s, err := costmodel.NewSetup(m.Model, m.GPU)
	s.TensorParallel = m.TensorParallel
	return s, err
}

func (m *Manifest) cost() (sim.CostModel, error) {
	s, err := m.setup()
	if err != nil {
		return nil, err
	}
	return costmodel.NewTransformer(s)
}

// fillKV replaces KVBlocks 0 by what fits beside the weights.
func (m *Manifest) fillKV() error {
	s, err := m.setup()
	if err != nil || m.KVBlocks > 0 {
		return err
	}
	kv, err := s.KVCapacity(costmodel.KVBudget{BlockTokens: m.BlockTokens, Sequences: m.MaxSeqs, BatchTokens: m.MaxModelLen})
	m.KVBlocks = kv.Blocks
	return err
}
