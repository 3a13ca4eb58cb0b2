package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"servesim/costmodel"
)

// runReport is one recorded run beside its simulation.
type runReport struct {
	Run    string `json:"run"`
	Model  string `json:"model"`
	GPU    string `json:"gpu"`
	Device string `json:"device_time"` // where the kernels' time comes from
	// fromKernels means that Device is composed of kernels. A host is fitted on
	// runs of the same kind only: what their kernels lack differs.
	fromKernels bool
	TP          int `json:"tensor_parallel"`
	Ranks       int `json:"data_parallel"`

	Blocks      int    `json:"kv_blocks"`
	BlockTokens int    `json:"kv_block_tokens"`
	BlocksFrom  string `json:"kv_blocks_from"` // "recorded" or the capacity helper

	// Shared counts the prompts that begin with an earlier one, by the file
	// SharedFrom.
	Shared     int    `json:"prompts_shared"`
	SharedFrom string `json:"prompts_shared_from,omitempty"`

	// Host is fitted on the other runs, HostFrom, and Residual on this one:
	// what a step takes beyond its kernels here. There is none if hardly any
	// answer has two tokens.
	Host     host   `json:"host"`
	HostFrom string `json:"host_from"`
	// LeftOut are other runs that the data does not suffice for, and why.
	LeftOut  []string           `json:"host_left_out,omitempty"`
	HostFit  costmodel.Accuracy `json:"host_fit"`
	Residual *host              `json:"residual_per_step,omitempty"`
	// AtBound are the coefficients of Residual at the end of their range: the
	// kernels are too slow, or something else than a host is missing.
	AtBound []string `json:"residual_at_bound,omitempty"`

	Steps int `json:"steps"`
	// Utilisation is of the simulated run; nil if it is not known, and why.
	Utilisation *utilisation `json:"utilisation,omitempty"`
	NoUse       string       `json:"utilisation_unknown,omitempty"`
	Sequences   float64      `json:"sequences_per_step"`
	Preemptions int          `json:"preemptions"`
	Figures     []figure     `json:"figures"`
	Bare        []figure     `json:"figures_without_host"`
	// Pace is the real over the simulated makespan.
	Pace     float64 `json:"pace"`
	BarePace float64 `json:"pace_without_host"`
	// Amplification is the change of mean TTFT, in per cent, when the model
	// is one per cent slower.
	Amplification float64      `json:"ttft_amplification"`
	Checks        []check      `json:"checks"`
	SeriesErrors  seriesErrors `json:"series_mean_errors"`
	Series        []second     `json:"series"`
	Recorded      []second     `json:"series_recorded,omitempty"`
	// Estimate is of energy and price, from the catalogue.
	Estimate string `json:"energy_and_price_estimate,omitempty"`
}

// check is a target and whether it is met.
type check struct {
	Metric string  `json:"metric"`
	Error  float64 `json:"error"`
	Limit  float64 `json:"limit"`
	Met    bool    `json:"met"`
}

// options are those of the command line.
type options struct {
	data, run, gpu, model, plot string
	tp                          int
	json, worth                 bool
	kernels                     bool // and not layers/
}

// reportRuns replays one run, or every run of the data, or those on one GPU; of
// several it leaves out, with the reason, those that the data does not suffice
// for. A host term is fitted on the other folders beside a run.
func reportRuns(o options, only string) (list []*runReport, leftOut []string, err error) {
	known := map[runKey]*replay{}
	if o.run != "" {
		dir := filepath.Clean(o.run)
		r, err := reportRun(o, dir, known)
		return []*runReport{r}, nil, err
	}
	for _, dir := range runFolders(filepath.Join(o.data, "runs")) {
		if only != "" && !mayBeOn(dir, only) {
			continue
		}
		r, err := reportRun(o, dir, known)
		if err != nil {
			leftOut = append(leftOut, fmt.Sprintf("%s: %v", filepath.Base(dir), err))
			continue
		}
		list = append(list, r)
	}
	return list, leftOut, nil
}

// runKey is a run with one kind of device time.
type runKey struct {
	dir     string
	kernels bool
}

// mayBeOn reports whether a run was recorded on a GPU, or does not say on which.
func mayBeOn(dir, gpu string) bool {
	m, err := readMeta(dir)
	if err != nil {
		return true
	}
	g, err := gpuOf(m.gpu(filepath.Base(dir)))
	return err == nil && g.Name == gpu
}

// runFolders returns the folders in dir that hold a run.
func runFolders(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(dir, e.Name(), "meta.json")); err == nil {
			list = append(list, filepath.Join(dir, e.Name()))
		}
	}
	return list
}

func reportRun(o options, dir string, known map[runKey]*replay) (*runReport, error) {
	this, report, err := prepare(o, dir)
	if err != nil {
		return nil, err
	}
	if o.run == "" {
		known[runKey{dir, report.fromKernels}] = this
	}
	var others []*replay
	folders := append(runFolders(filepath.Dir(dir)), runFolders(filepath.Join(o.data, "runs"))...)
	seen := map[string]bool{filepath.Base(dir): true}
	for _, f := range folders {
		if seen[filepath.Base(f)] {
			continue
		}
		seen[filepath.Base(f)] = true
		key := runKey{f, report.fromKernels}
		if known[key] == nil {
			r, other, err := prepare(options{data: o.data, kernels: report.fromKernels}, f)
			if err == nil && other.fromKernels != report.fromKernels {
				err = errors.New("its steps are composed of kernels, those of this run are not")
			}
			if err != nil {
				report.LeftOut = append(report.LeftOut, fmt.Sprintf("%s: %v", filepath.Base(f), err))
				continue
			}
			known[key] = r
		}
		others = append(others, known[key])
	}
	others = slices.DeleteFunc(others, func(r *replay) bool { return r.rec.sameAs(this.rec) })
	if answers(others...) >= fewAnswers {
		h, c, err := fitHost(others)
		if err != nil {
			return nil, err
		}
		report.Host, report.HostFrom, report.HostFit = h, names(others), c.Fitted
	} else {
		report.HostFrom = "no other run: none"
	}
	if answers(this) >= fewAnswers {
		h, c, err := fitHost([]*replay{this})
		if err != nil {
			return nil, err
		}
		report.Residual = &h
		for _, k := range c.Coefficients {
			if k.AtBound {
				report.AtBound = append(report.AtBound, k.Name)
			}
		}
	}
	return report, report.simulate(this)
}

// fewAnswers are too few to fit a host's two coefficients to.
const fewAnswers = 3

// answers counts those of two tokens and more.
func answers(runs ...*replay) int {
	n := 0
	for _, r := range runs {
		for _, m := range r.rec.requests {
			if m.Output > 1 {
				n++
			}
		}
	}
	return n
}

// simulate fills in what needs runs: with the host term, without it, and one
// per cent slower.
func (r *runReport) simulate(this *replay) error {
	bare, err := this.run()
	if err != nil {
		return err
	}
	with := *this
	with.host = r.Host
	h, err := with.run()
	if err != nil {
		return err
	}
	slower := with
	slower.scale = 1.01
	slower.host.Step, slower.host.Sequence = 1.01*r.Host.Step, 1.01*r.Host.Sequence
	s, err := slower.run()
	if err != nil {
		return err
	}
	rec := this.rec
	r.Preemptions = h.preemptions
	r.Figures, r.Bare = compare(rec, h), compare(rec, bare)
	r.Pace, r.BarePace = rec.makespan()/h.makespan, rec.makespan()/bare.makespan
	ttft, slow := stat.Mean(h.latencies(rec).ttft, nil), stat.Mean(s.latencies(rec).ttft, nil)
	r.Amplification = 100 * (slow/ttft - 1)
	r.Recorded, r.Series = rec.series, h.seriesOf(rec.series, this.blocks, r.Ranks)
	r.SeriesErrors = rec.seriesErrors(r.Series)
	sequences := 0
	for _, s := range slices.Concat(h.steps...) {
		r.Steps++
		sequences += s.sequences
	}
	r.Sequences = float64(sequences) / float64(r.Steps)
	if this.counts != nil {
		u := h.utilisation(this.counts, rec.settings.ranks)
		r.Utilisation = &u
	}
	r.judge()
	return nil
}

// judge compares with the targets: 5 % on pace, TPOT and latency at mean, p50
// and p90, and on TTFT 5 % times the amplification if that is above one.
func (r *runReport) judge() {
	const limit = 0.05
	add := func(metric string, e, limit float64) {
		r.Checks = append(r.Checks, check{metric, e, limit, math.Abs(e) <= limit})
	}
	add("pace", r.Pace-1, limit)
	for _, f := range r.Figures {
		switch {
		case slices.Contains([]string{"TPOT Mean", "TPOT Median", "TPOT P90", "Latency Mean", "Latency Median", "Latency P90"}, f.Metric):
			add(f.Metric, f.Error, limit)
		case slices.Contains([]string{"TTFT Mean", "TTFT Median", "TTFT P90"}, f.Metric):
			add(f.Metric, f.Error, limit*max(1, r.Amplification))
		}
	}
}

// prepare reads a run and what is needed to simulate it. Errors name the folder
// or a file in it.
func prepare(o options, dir string) (*replay, *runReport, error) {
	rec, err := readRecording(dir)
	if err != nil {
		return nil, nil, err
	}
	r, report, err := newReplay(o, rec)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	return r, report, nil
}

func newReplay(o options, rec *recording) (*replay, *runReport, error) {
	rec.settings.tp = cmp.Or(o.tp, rec.settings.tp)
	e := rec.settings
	gpuName := cmp.Or(o.gpu, rec.meta.gpu(rec.name))
	modelName := rec.meta.Model
	m, err := modelOf(cmp.Or(o.model, modelName))
	if err != nil {
		return nil, nil, err
	}
	if m, err = e.formats(m, cmp.Or(o.model, modelName)); err != nil {
		return nil, nil, err
	}
	if m.Heads%e.tp != 0 {
		return nil, nil, fmt.Errorf("%d GPUs do not divide the %d heads of %s", e.tp, m.Heads, m.Name)
	}
	g, gpuErr := gpuOf(gpuName)
	r := &replay{rec: rec, scale: 1, apart: e.ranks > 1 && m.MoE.Layers == 0}
	report := &runReport{Run: rec.name, Model: m.Name, GPU: cmp.Or(g.Name, gpuName), TP: e.tp, Ranks: e.ranks, BlockTokens: e.blockSize}
	var s *stack
	if !o.kernels && plainFormats(m) { // layers/ is in BF16
		if s, err = newStack(o.data, g, gpuName, m, modelName, e); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case s != nil:
		r.device, report.Device = s, "layers/"+s.source
	case gpuErr != nil:
		return nil, nil, fmt.Errorf("%w; -gpu gives one", gpuErr)
	default:
		k, err := newKernelStack(o.data, e.layout(m, g), e.reduce)
		if err != nil {
			if !o.kernels {
				err = fmt.Errorf("no layers/ of %s on %s with TP %d; from kernels: %w", m.Name, g.Name, e.tp, err)
			}
			return nil, nil, err
		}
		r.device, report.Device, report.fromKernels = k, k.source, true
	}
	if e.reduce == ncclReduce && e.tp > 1 {
		report.Device += ", all-reduce of NCCL"
	}
	if r.blocks, report.BlocksFrom, err = kvBlocks(rec, m, g, gpuErr); err != nil {
		return nil, nil, err
	}
	report.Blocks = r.blocks
	if e.prefixes {
		r.shared, report.SharedFrom, err = rec.sharedPrompts(filepath.Dir(filepath.Clean(rec.dir)), filepath.Join(o.data, "runs"))
		if err != nil {
			return nil, nil, err
		}
		for _, earlier := range r.shared {
			if earlier >= 0 {
				report.Shared++
			}
		}
	}
	if r.counts, err = costmodel.NewTransformer(e.layout(m, g)); err != nil {
		report.NoUse = cmp.Or(gpuErr, err).Error()
	}
	if gpuErr == nil {
		report.Estimate = g.EstimateRun(e.tp*e.ranks, time.Duration(rec.makespan()*float64(time.Second))).String()
	}
	return r, report, nil
}

// formats returns the model as the engine computes it. A name that promises
// another format than the model has is refused: its configuration tells which.
func (e engineSettings) formats(m costmodel.Model, name string) (costmodel.Model, error) {
	quantised := m.Precision != (costmodel.Precision{}) || m.MoE.Precision != (costmodel.Precision{})
	if e.eightWeights && !quantised {
		quantised, m.Precision = true, precision("fp8")
		if m.MoE.Layers > 0 {
			m.MoE.Precision = m.Precision
		}
	}
	if e.eightCache {
		m.KV = costmodel.Format{ValueBytes: 1}
	}
	if quantised {
		return m, nil
	}
	for _, f := range []string{"FP8", "NVFP4", "FP4", "MXFP4", "INT8", "INT4", "AWQ", "GPTQ", "W4A16", "W8A8"} {
		if mentions(filepath.Base(name), f) {
			return m, fmt.Errorf("%s has quantised weights, %s: -model with its config.json tells how", name, f)
		}
	}
	return m, nil
}

// plainFormats reports whether all of a model is BF16.
func plainFormats(m costmodel.Model) bool {
	return m.Precision == (costmodel.Precision{}) && m.MoE.Precision == (costmodel.Precision{}) && m.KV == (costmodel.Format{})
}

// kvBlocks returns the recorded number of blocks, or what the capacity helper
// makes of the settings.
func kvBlocks(rec *recording, m costmodel.Model, g costmodel.GPU, gpuErr error) (blocks int, from string, err error) {
	e := rec.settings
	if e.blocks > 0 {
		return e.blocks, "recorded", nil
	}
	from = "capacity helper"
	if e.memory > 0 {
		if gpuErr != nil { // the helper needs nothing else of a GPU
			g = costmodel.GPU{Name: rec.meta.Hardware.Device, Rate: 1, Bandwidth: 1, Link: 1}
		}
		g.Memory, from = e.memory, "capacity helper, recorded memory"
	} else if gpuErr != nil {
		return 0, "", gpuErr
	}
	c, err := e.layout(m, g).KVCapacity(costmodel.KVBudget{Utilisation: e.utilisation, BlockTokens: e.blockSize, BatchTokens: e.batchTokens, Sequences: e.seqs})
	return c.Blocks, from, err
}

// layout is a run's set-up without efficiencies. Ranks share experts, if there
// are any.
func (e engineSettings) layout(m costmodel.Model, g costmodel.GPU) costmodel.Setup {
	s := costmodel.Setup{Model: m, GPU: g, TensorParallel: e.tp}
	if m.MoE.Layers > 0 {
		s.DataParallel = e.ranks
		if e.experts {
			s.ExpertParallel = e.ranks * e.tp
		}
	}
	return s
}
