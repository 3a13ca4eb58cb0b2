package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"servesim/sim"
	"servesim/sim/metrics"
	"servesim/sim/trace"
	"servesim/workload"
)

// Output is the whole outcome: the JSON object of -json.
type Output struct {
	Config   Manifest             `json:"config"`
	Workload workload.Description `json:"workload"`
	Pools    *Pools               `json:"pools,omitempty"`
	// Dropped counts the rows of the recording that are not requests.
	Dropped     *workload.Counts `json:"recording_rows,omitempty"`
	Results     []Result         `json:"results"`
	Comparisons []Comparison     `json:"comparisons"`
	// How the figures are meant.
	Percentiles string `json:"percentiles"`
	GapRule     string `json:"gap_rule"`
	Definitions string `json:"definitions"`
}

// Result is what one scheduler did with the workload of the first seed. Its
// percentiles are linear; kv figures are fractions of the usable blocks.
type Result struct {
	Scheduler   string `json:"scheduler"`
	Completed   int64  `json:"completed"`
	Rejected    int64  `json:"rejected"`
	Unfinished  int64  `json:"unfinished"`
	Preemptions int64  `json:"preemptions"`

	TTFT metrics.Summary `json:"ttft_ms"`
	ITL  metrics.Summary `json:"itl_ms"`
	TPOT metrics.Summary `json:"tpot_ms"`
	E2E  metrics.Summary `json:"e2e_ms"`

	TokenThroughput   metrics.Number `json:"throughput_tok_per_s"`
	RequestThroughput metrics.Number `json:"throughput_req_per_s"`
	Goodput           metrics.Number `json:"goodput_req_per_s"`
	Attainment        metrics.Number `json:"slo_attainment"`
	KVPeak            metrics.Number `json:"kv_peak"`
	KVMean            metrics.Number `json:"kv_mean"`
	QueueMean         metrics.Number `json:"queue_mean"`
	BatchMean         metrics.Number `json:"batch_mean"`
	Busy              metrics.Number `json:"busy"`
	PrefixHits        int64          `json:"prefix_hit_tokens"`  // prompt tokens found in the prefix cache at first admission
	Transfers         int64          `json:"transfers"`          // of KV between replicas
	Transferred       int64          `json:"transferred_tokens"` // whose KV they moved
	RoleChanges       int64          `json:"role_changes"`
	Steps             int64          `json:"steps"`
	SimulatedS        metrics.Number `json:"simulated_s"`
	WallS             float64        `json:"wall_s"`

	Rejections []metrics.Rejections `json:"rejections,omitempty"`
	Findings   []string             `json:"findings,omitempty"`
}

// progress hears which run is under way.
type progress func(scheduler string, seed, seeds int)

// compare runs every scheduler on the same workloads. With an error from a run
// the output holds the results before it, and no comparisons.
func compare(ctx context.Context, m Manifest, traces string, p progress) (Output, error) {
	if err := m.check(); err != nil {
		return Output{}, err
	}
	if err := m.fillKV(); err != nil {
		return Output{}, err
	}
	seeds := m.Seeds
	var recorded []sim.Request
	out := Output{Config: m, Percentiles: metrics.Linear.String(), GapRule: metrics.GapP95.String(), Definitions: metrics.Definitions}
	if m.Recording != "" {
		seeds = 1
		var err error
		if recorded, out.Dropped, err = m.load(); err != nil {
			return Output{}, err
		}
	}
	var err error
	if out.Workload, err = workload.Describe(stoppable(ctx, m.requests(m.Seed, recorded))); err != nil {
		return Output{}, err
	}
	if out.Pools, err = m.pools(out.Workload); err != nil {
		return Output{}, err
	}
	goodput := make([][]float64, len(m.Schedulers))
	for i, name := range m.Schedulers {
		for k := range seeds {
			if err := ctx.Err(); err != nil {
				return out, err
			}
			p(name, k+1, seeds)
			dir := traces
			if k > 0 {
				dir = ""
			}
			r, err := m.runOne(ctx, name, out.Pools, m.requests(m.Seed+uint64(k), recorded), dir)
			if err != nil {
				return out, fmt.Errorf("%s, seed %d: %w", name, m.Seed+uint64(k), err)
			}
			goodput[i] = append(goodput[i], float64(r.Goodput))
			if k == 0 {
				out.Results = append(out.Results, r)
			}
		}
	}
	out.Comparisons, err = pairs(m.Schedulers, goodput)
	return out, err
}

// load reads the recording.
func (m *Manifest) load() ([]sim.Request, *workload.Counts, error) {
	counts := &workload.Counts{}
	rows := workload.AzureCSV{Path: m.Recording, Class: m.class(), Counts: counts}.Requests()
	if strings.HasSuffix(strings.TrimSuffix(m.Recording, ".gz"), ".jsonl") {
		rows = workload.Mooncake{Path: m.Recording, Class: m.class(), Counts: counts}.Requests()
	}
	if m.Requests > 0 {
		rows = workload.Take(rows, m.Requests)
	}
	rs, err := workload.Collect(rows)
	return rs, counts, err
}

// requests returns the workload of a seed.
func (m *Manifest) requests(seed uint64, recorded []sim.Request) iter.Seq2[sim.Request, error] {
	if m.Recording != "" {
		return workload.Speed(workload.FromSlice(recorded), m.RateScale)
	}
	p := lookupPreset(m.Preset)
	return workload.Workload{
		Seed:     seed,
		Arrivals: workload.Limit{Arrivals: workload.Scale{Arrivals: p.arrive(), Factor: m.RateScale}, Count: m.Requests},
		Mix:      []workload.Share{{Class: m.class(), Lengths: p.lengths()}},
	}.Requests()
}

// stoppable ends a sequence with the error of the context once it has one.
func stoppable(ctx context.Context, requests iter.Seq2[sim.Request, error]) iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		for r, err := range requests {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// runOne simulates one scheduler and writes its trace to dir, unless that is
// empty.
func (m *Manifest) runOne(ctx context.Context, name string, pools *Pools, requests iter.Seq2[sim.Request, error], dir string) (r Result, err error) {
	cfg := sim.Config{Classes: []sim.Class{m.class()}}
	if err := m.deploy(name, pools, &cfg); err != nil {
		return Result{}, err
	}
	collector, err := metrics.New(cfg, metrics.Options{})
	if err != nil {
		return Result{}, err
	}
	cfg.Observers = append(cfg.Observers, collector)
	if dir != "" {
		f, err := os.Create(filepath.Join(dir, name+".jsonl"))
		if err != nil {
			return Result{}, err
		}
		lines := &trace.Writer{W: f}
		cfg.Observers = append(cfg.Observers, lines)
		defer func() {
			if err = errors.Join(err, lines.Flush(), f.Close()); err != nil {
				os.Remove(f.Name()) // half a trace looks like a whole one
			}
		}()
	}
	start := time.Now()
	counts, err := sim.Run(ctx, cfg, requests)
	if err != nil {
		return Result{}, err
	}
	r = result(name, collector.Report(), time.Since(start))
	r.PrefixHits, r.Transfers, r.Transferred, r.RoleChanges = counts.PrefixHits, counts.Transfers, counts.Transferred, counts.Switches
	return r, nil
}

func result(name string, r metrics.Report, wall time.Duration) Result {
	return Result{
		Scheduler: name, Completed: r.Completed, Rejected: r.Rejected, Unfinished: r.Unfinished, Preemptions: r.Preemptions,
		TTFT: r.TTFT, ITL: r.ITL, TPOT: r.TPOT, E2E: r.E2E,
		TokenThroughput: r.TokenThroughput, RequestThroughput: r.RequestThroughput, Goodput: r.Goodput, Attainment: r.Attainment,
		KVPeak: r.KVPeak, KVMean: r.KVMean, QueueMean: r.QueueMean, BatchMean: r.BatchMean, Busy: r.Busy,
		Steps: r.Steps, SimulatedS: r.SimulatedS, WallS: wall.Seconds(), Rejections: r.Rejections, Findings: r.Findings,
	}
}
