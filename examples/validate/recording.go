package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// recording is one measured run of a real engine: a folder with meta.json and
// requests.jsonl and, perhaps, timeseries.csv and peer_simulator_summary.txt.
type recording struct {
	dir      string
	name     string
	meta     meta
	settings engineSettings
	requests []measured // by arrival
	series   []second
	peer     []peerRow
}

// meta is what the engine says of itself: what it was asked for and, in some
// recordings, what it made of that. Versions differ in where that stands.
type meta struct {
	Model  string    `json:"model"`
	Engine asked     `json:"engine_kwargs"`
	VLLM   string    `json:"vllm_version"`
	KV     cache     `json:"kv_cache"`
	Made   scheduled `json:"scheduler_config"`
	All    struct {
		Cache    cache     `json:"cache_config"`
		Made     scheduled `json:"scheduler_config"`
		Parallel parallel  `json:"parallel_config"`
		Model    struct {
			MaxModelLen  int    `json:"max_model_len"`
			Quantisation string `json:"quantization"`
		} `json:"model_config"`
		Speculation json.RawMessage `json:"speculative_config"`
	} `json:"resolved_config"`
	Hardware struct {
		Device string  `json:"device_name"`
		Memory float64 `json:"device_total_memory_bytes"`
	} `json:"hardware"`
}

type asked struct {
	parallel
	scheduled
	cache
	CacheType    string          `json:"kv_cache_dtype"`
	Type         string          `json:"dtype"`
	Quantisation string          `json:"quantization"`
	MaxModelLen  int             `json:"max_model_len"`
	Speculation  json.RawMessage `json:"speculative_config"`
}

type parallel struct {
	Tensor   int  `json:"tensor_parallel_size"`
	Pipeline int  `json:"pipeline_parallel_size"`
	Data     int  `json:"data_parallel_size"`
	Expert   bool `json:"enable_expert_parallel"`
	// NoCustom is set where an engine sums with NCCL only.
	NoCustom bool `json:"disable_custom_all_reduce"`
}

type scheduled struct {
	Seqs        int     `json:"max_num_seqs"`
	BatchTokens int     `json:"max_num_batched_tokens"`
	Async       *bool   `json:"async_scheduling"`
	Chunked     *bool   `json:"enable_chunked_prefill"`
	Threshold   int     `json:"long_prefill_token_threshold"`
	Watermark   float64 `json:"watermark"`
	Policy      string  `json:"policy"`
	PolicyAsked string  `json:"scheduling_policy"`
}

type cache struct {
	Blocks      int     `json:"num_gpu_blocks"`
	BlockSize   int     `json:"block_size"`
	Utilisation float64 `json:"gpu_memory_utilization"`
	Prefixes    *bool   `json:"enable_prefix_caching"`
	Type        string  `json:"cache_dtype"`
}

// engineSettings are those of an engine that the replay knows, with the engine's
// defaults where a recording does not say.
type engineSettings struct {
	tp, ranks           int
	experts             bool // are dealt over the ranks
	reduce              reduction
	seqs, batchTokens   int
	maxModelLen         int // 0 means that of the model
	async, prefixes     bool
	wholePrompts        bool
	threshold           int
	watermark           float64
	blocks, blockSize   int     // blocks 0 means not recorded
	memory, utilisation float64 // 0 means not recorded, and the default
	eightWeights        bool    // quantised to FP8 by the engine
	eightCache          bool    // of keys and values, in FP8
}

// settings reads meta, and refuses what the replay does not do.
func (m *meta) settings() (s engineSettings, err error) {
	e, all := &m.Engine, &m.All
	s = engineSettings{
		tp: cmp.Or(e.Tensor, all.Parallel.Tensor, 1), ranks: cmp.Or(e.Data, all.Parallel.Data, 1), experts: e.Expert || all.Parallel.Expert,
		seqs: cmp.Or(m.Made.Seqs, all.Made.Seqs, e.Seqs), batchTokens: cmp.Or(m.Made.BatchTokens, all.Made.BatchTokens, e.BatchTokens),
		maxModelLen: cmp.Or(all.Model.MaxModelLen, e.MaxModelLen),
		// Both are on by default in the recorded versions, and so are chunks.
		async:        first(m.Made.Async, all.Made.Async, e.Async),
		prefixes:     first(m.KV.Prefixes, all.Cache.Prefixes, e.Prefixes),
		wholePrompts: !first(m.Made.Chunked, all.Made.Chunked, e.Chunked),
		threshold:    cmp.Or(m.Made.Threshold, all.Made.Threshold, e.Threshold), watermark: cmp.Or(m.Made.Watermark, all.Made.Watermark),
		blocks: cmp.Or(m.KV.Blocks, all.Cache.Blocks), blockSize: cmp.Or(m.KV.BlockSize, all.Cache.BlockSize, e.BlockSize, 16),
		memory: m.Hardware.Memory, utilisation: cmp.Or(m.KV.Utilisation, all.Cache.Utilisation, e.Utilisation),
	}
	if e.NoCustom || all.Parallel.NoCustom {
		s.reduce = ncclReduce
	}
	for _, n := range []struct {
		field        string
		value, least int
	}{
		{"tensor_parallel_size", s.tp, 1}, {"data_parallel_size", s.ranks, 1}, {"max_num_seqs", s.seqs, 1}, {"max_num_batched_tokens", s.batchTokens, 1},
		{"max_model_len", s.maxModelLen, 0}, {"long_prefill_token_threshold", s.threshold, 0}, {"num_gpu_blocks", s.blocks, 0}, {"block_size", s.blockSize, 1},
	} {
		if n.value < n.least {
			return s, fmt.Errorf("%s is %d or not there", n.field, n.value)
		}
	}
	if n := cmp.Or(e.Pipeline, all.Parallel.Pipeline, 1); n != 1 {
		return s, fmt.Errorf("pipeline_parallel_size is %d, only 1 is replayed", n)
	}
	for _, text := range []struct {
		field, value string
		known        []string
	}{
		{"dtype", e.Type, []string{"", "auto", "bfloat16", "float16", "half"}},
		{"kv_cache_dtype", cmp.Or(e.CacheType, all.Cache.Type), []string{"", "auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2"}},
		{"quantization", cmp.Or(e.Quantisation, all.Model.Quantisation), []string{"", "fp8"}},
		{"scheduling policy", cmp.Or(m.Made.Policy, all.Made.Policy, e.PolicyAsked), []string{"", "fcfs"}},
		{"speculative_config", strings.Trim(cmp.Or(string(e.Speculation), string(all.Speculation)), " "), []string{"", "null"}},
	} {
		if !slices.Contains(text.known, text.value) {
			return s, fmt.Errorf("%s is %q, which is not replayed", text.field, text.value)
		}
		switch text.field {
		case "kv_cache_dtype":
			s.eightCache = strings.HasPrefix(text.value, "fp8")
		case "quantization":
			s.eightWeights = text.value == "fp8"
		}
	}
	return s, nil
}

// first returns the first of several settings that is there, true if none is.
func first(list ...*bool) bool {
	for _, b := range list {
		if b != nil {
			return *b
		}
	}
	return true
}

// measured is one request of a run. Arrival is on the client's clock, the
// other times are on the engine's, in seconds.
type measured struct {
	ID        string  `json:"request_id"`
	Prompt    int     `json:"input_toks"`
	Output    int     `json:"output_toks"`
	Arrival   float64 `json:"arrival_time"`
	Queued    float64 `json:"queued_ts"`
	Scheduled float64 `json:"scheduled_ts"`
	First     float64 `json:"first_token_ts"`
	Last      float64 `json:"last_token_ts"`
}

// check refuses what cannot have been, and what the line does not say: times
// that are not there are not numbers.
func (m *measured) check() error {
	for _, n := range []struct {
		field string
		value int
	}{{"input_toks", m.Prompt}, {"output_toks", m.Output}} {
		if n.value < 1 {
			return fmt.Errorf("%s is %d or not there", n.field, n.value)
		}
	}
	before := 0.0
	for _, t := range []struct {
		field string
		value float64
	}{{"arrival_time", m.Arrival}, {"queued_ts", m.Queued}, {"scheduled_ts", m.Scheduled}, {"first_token_ts", m.First}, {"last_token_ts", m.Last}} {
		switch {
		case math.IsNaN(t.value):
			return fmt.Errorf("no %s", t.field)
		case t.value < 0:
			return fmt.Errorf("%s is %v", t.field, t.value)
		}
		if t.field != "arrival_time" { // on another clock
			if t.value < before {
				return fmt.Errorf("%s is %v, before what came first, %v", t.field, t.value, before)
			}
			before = t.value
		}
	}
	return nil
}

// second is a line of timeseries.csv: the state of the engine at T, and tokens
// a second since the line before. Waiting counts preempted sequences too.
type second struct {
	T          float64 `json:"t"`
	PromptRate float64 `json:"prompt_tok_s"`
	OutputRate float64 `json:"output_tok_s"`
	Running    float64 `json:"running"`
	Waiting    float64 `json:"waiting"`
	KV         float64 `json:"kv_pct"`
}

func readMeta(dir string) (m meta, err error) {
	path := filepath.Join(dir, "meta.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// gpu returns what names the GPU: the recorded device or else the folder.
func (m *meta) gpu(folder string) string { return cmp.Or(m.Hardware.Device, folder) }

func readRecording(dir string) (*recording, error) {
	r := &recording{dir: dir, name: filepath.Base(filepath.Clean(dir))}
	var err error
	if r.meta, err = readMeta(dir); err != nil {
		return nil, err
	}
	if r.settings, err = r.meta.settings(); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "meta.json"), err)
	}
	if err := r.readRequests(filepath.Join(dir, "requests.jsonl")); err != nil {
		return nil, err
	}
	columns := []string{"t", "prompt_throughput", "gen_throughput", "running", "waiting", "kv_cache_pct"}
	err = readCSV(filepath.Join(dir, "timeseries.csv"), columns, func(line *row) {
		s := second{line.number("t"), line.number("prompt_throughput"), line.number("gen_throughput"),
			line.number("running"), line.number("waiting"), line.number("kv_cache_pct")}
		before := 0.0
		if n := len(r.series); n > 0 {
			before = r.series[n-1].T
		}
		if s.T <= before && line.err == nil {
			line.err = fmt.Errorf("%s: t is %v, not after %v", line.at(), s.T, before)
		}
		r.series = append(r.series, s)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	r.peer, err = readPeer(filepath.Join(dir, "peer_simulator_summary.txt"))
	return r, err
}

func (r *recording) readRequests(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	at := map[string]int{}
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		m := measured{Arrival: math.NaN(), Queued: math.NaN(), Scheduled: math.NaN(), First: math.NaN(), Last: math.NaN()}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if err := m.check(); err != nil {
			return fmt.Errorf("%s:%d: request %q: %w", path, n, m.ID, err)
		}
		if m.ID != "" && at[m.ID] > 0 {
			return fmt.Errorf("%s:%d: request_id is %q, as in line %d", path, n, m.ID, at[m.ID])
		}
		at[m.ID] = n
		r.requests = append(r.requests, m)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(r.requests) == 0 {
		return fmt.Errorf("%s: no requests", path)
	}
	slices.SortStableFunc(r.requests, func(a, b measured) int { return cmp.Compare(a.Arrival, b.Arrival) })
	return r.checkClocks(path)
}

// checkClocks refuses a request whose arrival was more than a minute before the
// engine had it, beside the one that took least: the clocks do not go together.
func (r *recording) checkClocks(path string) error {
	off := r.requests[0].Queued - r.requests[0].Arrival
	for _, m := range r.requests {
		off = min(off, m.Queued-m.Arrival)
	}
	for _, m := range r.requests {
		if late := m.Queued - m.Arrival - off; late > 60 {
			return fmt.Errorf("%s: request %q: queued_ts is %v, %.0f s after arrival_time", path, m.ID, m.Queued, late)
		}
	}
	return nil
}

// sameAs reports whether two folders hold the same run.
func (r *recording) sameAs(other *recording) bool {
	return len(r.requests) == len(other.requests) && r.requests[0] == other.requests[0]
}

// clock returns what to take off an engine's time so that it counts from the
// first arrival. Both clocks are aligned by the request that took least from
// its client to the engine.
func (r *recording) clock() float64 {
	first, off := r.requests[0].Arrival, r.requests[0].Queued-r.requests[0].Arrival
	for _, m := range r.requests {
		off = min(off, m.Queued-m.Arrival)
	}
	return first + off
}
