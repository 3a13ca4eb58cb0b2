package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/experiment"
	"servesim/sim/metrics"
	"servesim/sim/trace"
	"servesim/workload"
)

// Output is the whole outcome: the JSON object of -json.
type Output struct {
	Config   Manifest             `json:"config"`
	Workload workload.Description `json:"workload"`
	// Dropped counts the rows of the recording that are not requests.
	Dropped     *workload.Counts `json:"recording_rows,omitempty"`
	Results     []Result         `json:"results"`
	Comparisons []Comparison     `json:"comparisons"`
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
	Steps             int64          `json:"steps"`
	SimulatedS        metrics.Number `json:"simulated_s"`
	WallS             float64        `json:"wall_s"`

	Rejections []metrics.Rejections `json:"rejections,omitempty"`
	Findings   []string             `json:"findings,omitempty"`
}

// Comparison says by how much the goodput of Scheduler exceeds that of Than,
// over pairs of runs with the same seed.
type Comparison struct {
	Scheduler  string  `json:"scheduler"`
	Than       string  `json:"than"`
	Seeds      int     `json:"seeds"`
	Level      float64 `json:"level"`
	Difference float64 `json:"goodput_diff_req_per_s"`
	Low        float64 `json:"goodput_diff_low_req_per_s"`
	High       float64 `json:"goodput_diff_high_req_per_s"`
	Ratio      float64 `json:"goodput_ratio"`
	RatioLow   float64 `json:"goodput_ratio_low"`
	RatioHigh  float64 `json:"goodput_ratio_high"`
}

// progress hears which run is under way.
type progress func(scheduler string, seed, seeds int)

// compare runs every scheduler on the same workloads.
func compare(ctx context.Context, m Manifest, traces string, p progress) (Output, error) {
	if err := m.check(); err != nil {
		return Output{}, err
	}
	if err := m.fillKV(); err != nil {
		return Output{}, err
	}
	seeds := m.Seeds
	var recorded []sim.Request
	out := Output{Config: m}
	if m.Recording != "" {
		seeds = 1
		var err error
		if recorded, out.Dropped, err = m.load(); err != nil {
			return Output{}, err
		}
	}
	var err error
	if out.Workload, err = workload.Describe(m.requests(m.Seed, recorded)); err != nil {
		return Output{}, err
	}
	goodput := make([][]float64, len(m.Schedulers))
	for i, name := range m.Schedulers {
		for k := range seeds {
			p(name, k+1, seeds)
			dir := traces
			if k > 0 {
				dir = ""
			}
			r, err := m.runOne(ctx, name, m.requests(m.Seed+uint64(k), recorded), dir)
			if err != nil {
				return Output{}, fmt.Errorf("%s, seed %d: %w", name, m.Seed+uint64(k), err)
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
	for _, p := range presets {
		if p.name == m.Preset {
			return workload.Workload{
				Seed:     seed,
				Arrivals: workload.Limit{Arrivals: workload.Scale{Arrivals: p.arrive(), Factor: m.RateScale}, Count: m.Requests},
				Mix:      []workload.Share{{Class: m.class(), Lengths: p.lengths()}},
			}.Requests()
		}
	}
	panic("compare: preset " + m.Preset)
}

// runOne simulates one scheduler and writes its trace to dir, unless that is
// empty.
func (m *Manifest) runOne(ctx context.Context, name string, requests iter.Seq2[sim.Request, error], dir string) (r Result, err error) {
	cfg := sim.Config{Classes: []sim.Class{m.class()}, Router: scheduler.LeastLoaded{}}
	for range m.Replicas {
		replica, err := m.replica(name)
		if err != nil {
			return Result{}, err
		}
		cfg.Replicas = append(cfg.Replicas, replica)
	}
	collector, err := metrics.New(cfg, metrics.Options{})
	if err != nil {
		return Result{}, err
	}
	cfg.Observers = []sim.Observer{collector}
	if dir != "" {
		f, err := os.Create(filepath.Join(dir, name+".jsonl"))
		if err != nil {
			return Result{}, err
		}
		w := &trace.Writer{W: f}
		cfg.Observers = append(cfg.Observers, w)
		defer func() { err = errors.Join(err, w.Flush(), f.Close()) }()
	}
	start := time.Now()
	if _, err := sim.Run(ctx, cfg, requests); err != nil {
		return Result{}, err
	}
	return result(name, collector.Report(), time.Since(start)), nil
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

// pairs compares the best scheduler by mean goodput with each of the others.
// One seed has no pairs.
func pairs(names []string, goodput [][]float64) ([]Comparison, error) {
	out := []Comparison{}
	if len(names) < 2 || len(goodput[0]) < 2 {
		return out, nil
	}
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch x, y := sum(goodput[a]), sum(goodput[b]); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	best := order[0]
	for _, i := range order[1:] {
		c, err := experiment.Paired(goodput[best], goodput[i], 0.95)
		if err != nil {
			return nil, fmt.Errorf("goodput of %s and %s: %w", names[best], names[i], err)
		}
		out = append(out, Comparison{
			Scheduler: names[best], Than: names[i], Seeds: len(goodput[best]), Level: 0.95,
			Difference: c.Difference.Mean, Low: c.Difference.Low, High: c.Difference.High,
			Ratio: c.Ratio.Mean, RatioLow: c.Ratio.Low, RatioHigh: c.Ratio.High,
		})
	}
	return out, nil
}

func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}
