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
	"servesim/sim"
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

	// Of the deployments with pools. 0 prefill replicas: as many as the work of
	// the prompts asks for.
	PrefillReplicas int     `json:"prefill_replicas"`
	DynamicPrefill  int     `json:"dynamic_prefill_replicas"` // at the start; 0: half
	PrefillTokens   int     `json:"prefill_step_tokens"`      // token budget of a step in the prefill pool
	LocalTokens     int     `json:"local_prompt_tokens"`      // shorter prompts stay in the decode pool
	FirstToken      string  `json:"first_token"`              // prefill or decode: the side that samples it
	Link            string  `json:"link"`
	LayerWise       bool    `json:"layer_wise"` // KV is sent layer by layer
	Controller      string  `json:"controller"` // of the roles: work-ratio or load-threshold
	SwitchCostMs    float64 `json:"switch_cost_ms"`

	TTFTTargetMs float64 `json:"slo_ttft_ms"`
	GapTargetMs  float64 `json:"slo_itl_ms"`
}

// defaults is the comparison without flags: the arrivals and lengths of a code
// completion service at a load where the choice of the scheduler matters.
func defaults() Manifest {
	return Manifest{
		Schedulers: schedulerNames()[:usual], Preset: presets[0].name, Requests: 5000, RateScale: presets[0].scale, Seed: 1, Seeds: 10,
		Model: "Llama-3.1-8B", GPU: "H100", TensorParallel: 1, Replicas: 4,
		BlockTokens: sim.DefaultBlockTokens, MaxSeqs: 256, MaxModelLen: 16384, ChunkTokens: 1024,
		PrefillTokens: 2048, FirstToken: "prefill", Link: "InfiniBand-400G", Controller: "work-ratio", SwitchCostMs: 2000,
		TTFTTargetMs: 1000, GapTargetMs: 50,
	}
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
	if m.Preset != "" && lookupPreset(m.Preset) == nil {
		return fmt.Errorf("preset: unknown %q; known are %s", m.Preset, strings.Join(presetNames(), ", "))
	}
	if m.Recording != "" && m.Seeds != 1 {
		return fmt.Errorf("seeds is %d with a recording, which is the same in every run", m.Seeds)
	}
	if m.Preset != "" && m.Requests == 0 {
		return fmt.Errorf("requests is 0 with preset %s, which does not end", m.Preset)
	}
	if err := m.checkPools(); err != nil {
		return err
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
		{"prefill_step_tokens", float64(m.PrefillTokens), 1, many}, {"local_prompt_tokens", float64(m.LocalTokens), 0, many}, {"switch_cost_ms", m.SwitchCostMs, 0, 3.6e6},
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
