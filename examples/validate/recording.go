package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// recording is one measured run of a real engine: a folder with meta.json,
// requests.jsonl, timeseries.csv and, perhaps, peer_simulator_summary.txt.
type recording struct {
	dir      string
	name     string
	meta     meta
	requests []measured // by arrival
	series   []second
	peer     []peerRow
}

// meta is what the engine says of itself.
type meta struct {
	Model  string `json:"model"`
	Engine struct {
		TensorParallel int   `json:"tensor_parallel_size"`
		DataParallel   int   `json:"data_parallel_size"`
		ExpertParallel bool  `json:"enable_expert_parallel"`
		MaxSeqs        int   `json:"max_num_seqs"`
		MaxBatchTokens int   `json:"max_num_batched_tokens"`
		MaxModelLen    int   `json:"max_model_len"`
		PrefixCaching  *bool `json:"enable_prefix_caching"`
		AsyncSchedule  *bool `json:"async_scheduling"`
	} `json:"engine_kwargs"`
	VLLM string `json:"vllm_version"`
	KV   struct {
		Blocks        int     `json:"num_gpu_blocks"`
		BlockSize     int     `json:"block_size"`
		Utilisation   float64 `json:"gpu_memory_utilization"`
		PrefixCaching *bool   `json:"enable_prefix_caching"`
	} `json:"kv_cache"`
	Hardware struct {
		Device string  `json:"device_name"`
		Memory float64 `json:"device_total_memory_bytes"`
	} `json:"hardware"`
	Scheduler struct {
		Async *bool `json:"async_scheduling"`
	} `json:"scheduler_config"`
	TickSeconds float64 `json:"tick_seconds"`
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

// second is a line of timeseries.csv.
type second struct {
	T, PromptRate, OutputRate, Running, Waiting, KVPercent float64
}

func readRecording(dir string) (*recording, error) {
	r := &recording{dir: dir, name: filepath.Base(filepath.Clean(dir))}
	text, err := os.ReadFile(filepath.Join(dir, "meta.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &r.meta); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "meta.json"), err)
	}
	if err := r.readRequests(filepath.Join(dir, "requests.jsonl")); err != nil {
		return nil, err
	}
	columns := []string{"t", "prompt_throughput", "gen_throughput", "running", "waiting", "kv_cache_pct"}
	err = readCSV(filepath.Join(dir, "timeseries.csv"), columns, func(line *row) {
		r.series = append(r.series, second{line.number("t"), line.number("prompt_throughput"), line.number("gen_throughput"),
			line.number("running"), line.number("waiting"), line.number("kv_cache_pct")})
	})
	if err != nil {
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
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var m measured
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if m.Prompt < 1 || m.Output < 1 || m.Scheduled < m.Queued || m.First < m.Scheduled || m.Last < m.First {
			return fmt.Errorf("%s:%d: request %s has %d prompt and %d output tokens, times %v, %v, %v, %v", path, n, m.ID,
				m.Prompt, m.Output, m.Queued, m.Scheduled, m.First, m.Last)
		}
		r.requests = append(r.requests, m)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(r.requests) == 0 {
		return fmt.Errorf("%s: no requests", path)
	}
	slices.SortStableFunc(r.requests, func(a, b measured) int {
		switch {
		case a.Arrival < b.Arrival:
			return -1
		case a.Arrival > b.Arrival:
			return 1
		}
		return 0
	})
	return nil
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
