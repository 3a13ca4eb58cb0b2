package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"servesim/costmodel"
	"servesim/sim"
)

// operator is a kind of measured kernel: how its files are read, what is
// fitted to them and what may be expected.
type operator struct {
	name  string
	files string // pattern of its files after the GPU's prefix
	need  []string
	form  func(costmodel.GPU) costmodel.Form
	// read returns a sample, a curve that it is a point of, and its place on
	// the curve. ok is false for rows of another kind.
	read func(*row) (s costmodel.Sample, curve string, size float64, ok bool)
	// bound is the roofline without efficiencies.
	bound  func(g costmodel.GPU, x []float64) float64
	target map[string]float64 // of the held half, by GPU; "" for all others
}

// operators in the order of the report.
var operators = []operator{
	{
		name: "matrix bf16", files: "_gemm_*_bfloat16.csv.gz", need: []string{"m", "n", "k", "latency_ms"},
		form: func(g costmodel.GPU) costmodel.Form { return costmodel.MatrixForm(g, costmodel.Precision{}) }, read: readMatrix,
		bound: func(g costmodel.GPU, x []float64) float64 {
			return max(2*x[0]*x[1]*x[2]/g.Rate, 2*(x[0]*x[1]+x[1]*x[2]+x[0]*x[2])/g.Bandwidth)
		},
		target: map[string]float64{"A100-80": 0.10, "H100": 0.10, "B200": 0.10, "": 0.15},
	},
	{
		name: "matrix fp8", files: "_gemm_*_fp8.csv.gz", need: []string{"m", "n", "k", "latency_ms"},
		form: func(g costmodel.GPU) costmodel.Form { return costmodel.MatrixForm(g, precision("fp8")) }, read: readMatrix,
		bound: func(g costmodel.GPU, x []float64) float64 {
			return max(2*x[0]*x[1]*x[2]/g.FP8, (2*x[0]*x[1]+x[1]*x[2]+2*x[0]*x[2])/g.Bandwidth)
		},
	},
	{
		name: "matrix nvfp4", files: "_gemm_*_nvfp4.csv.gz", need: []string{"m", "n", "k", "latency_ms"},
		form: func(g costmodel.GPU) costmodel.Form { return costmodel.MatrixForm(g, precision("nvfp4")) }, read: readMatrix,
		bound: func(g costmodel.GPU, x []float64) float64 {
			return max(2*x[0]*x[1]*x[2]/g.FP4, (2*x[0]*x[1]+9./16*x[1]*x[2]+2*x[0]*x[2])/g.Bandwidth)
		},
	},
	decodeOperator("", "bfloat16", 2, false), prefillOperator("", "bfloat16", 2, false),
	decodeOperator(" fp8", "fp8", 1, false), prefillOperator(" fp8", "fp8", 1, false),
	decodeOperator(" window", "bfloat16", 2, true), prefillOperator(" window", "bfloat16", 2, true),
	expertsOperator("bf16", "bfloat16"), expertsOperator("fp8", "fp8"), expertsOperator("fp8_block", "fp8_block"),
	expertsOperator("nvfp4", "nvfp4"), expertsOperator("int4_wo", "int4_wo"), expertsOperator("w4a16_mxfp4", "w4a16_mxfp4"),
	expertsOperator("w4a8_mxfp4_mxfp8", "w4a8_mxfp4_mxfp8"),
}

var attentionColumns = []string{"batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "kv_cache_dtype", "step", "latency_ms"}

func readMatrix(r *row) (s costmodel.Sample, curve string, size float64, ok bool) {
	m, n, k := r.number("m"), r.number("n"), r.number("k")
	group := r.text("n") + "×" + r.text("k")
	return sample(r, group, m, n, k), group, m, true
}

// decodeOperator is attention of decodes with a cache of one format, with or
// without a window.
func decodeOperator(suffix, format string, cache float64, windowed bool) operator {
	return operator{
		name: "decode attention" + suffix, files: "_attention_*_generation_attention_perf.csv.gz", need: attentionColumns,
		form: func(g costmodel.GPU) costmodel.Form { return costmodel.DecodeForm(g, cache) },
		read: func(r *row) (s costmodel.Sample, curve string, size float64, ok bool) {
			return readAttention(r, format, windowed, r.number("step")+1)
		},
		bound: func(g costmodel.GPU, x []float64) float64 {
			keys := x[4]
			if x[5] > 0 {
				keys = min(keys, x[5])
			}
			return max(4*x[0]*x[1]*x[3]*keys/g.Rate, (2*cache*x[2]*keys+4*x[1])*x[3]*x[0]/g.Bandwidth)
		},
		target: map[string]float64{"": 0.12},
	}
}

// prefillOperator is attention of prompts with a cache of one format, with or
// without a window. All prompts are without cached tokens.
func prefillOperator(suffix, format string, cache float64, windowed bool) operator {
	return operator{
		name: "prefill attention" + suffix, files: "_attention_*_context_attention_perf.csv.gz", need: attentionColumns,
		form: func(g costmodel.GPU) costmodel.Form { return costmodel.PrefillForm(g, cache) },
		read: func(r *row) (s costmodel.Sample, curve string, size float64, ok bool) {
			if r.number("step") != 0 {
				return s, "", 0, false
			}
			return readAttention(r, format, windowed, r.number("isl"))
		},
		bound: func(g costmodel.GPU, x []float64) float64 {
			one := costmodel.Attention{Heads: int(x[1]), KVHeads: int(x[2]), HeadDim: int(x[3]), Window: int(x[5])}.Prompt(sim.Chunk{Tokens: int(x[4])})
			return max(x[0]*one.FLOPs/g.Rate, x[0]*x[4]*x[3]*(4*x[1]+4*cache*x[2])/g.Bandwidth)
		},
		target: map[string]float64{"": 0.15},
	}
}

// readAttention takes rows with a cache of one format that have a window, or
// have none. Size is the context or the positions.
func readAttention(r *row, format string, windowed bool, size float64) (s costmodel.Sample, curve string, place float64, ok bool) {
	window := r.number("window_size")
	if r.text("kv_cache_dtype") != format || (window != 0) != windowed {
		return s, "", 0, false
	}
	group := geometry(r)
	s = sample(r, group, r.number("batch_size"), r.number("num_heads"), r.number("num_key_value_heads"), r.number("head_dim"), size, window)
	return s, fmt.Sprintf("%s·%s·%g", group, r.text("batch_size"), window), size, true
}

// geometry names heads and KV heads; the head dimension goes with them.
func geometry(r *row) string {
	return r.text("num_heads") + "/" + r.text("num_key_value_heads") + "×" + r.text("head_dim")
}

// precision is one of the catalogue, BF16 by its short name too.
func precision(name string) costmodel.Precision {
	if name == "bf16" {
		name = "bfloat16"
	}
	p, err := costmodel.LookupPrecision(name)
	if err != nil {
		panic(err) // of the list of operators
	}
	return p
}

// expertsOperator is routed experts of one format, by the names of the report
// and of the files.
func expertsOperator(name, format string) operator {
	p := precision(format)
	return operator{
		name: "experts " + name, files: "_moe_*_" + format + ".csv.gz",
		need: []string{"num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution", "latency_ms"},
		form: func(g costmodel.GPU) costmodel.Form { return costmodel.ExpertsForm(g, p) },
		read: func(r *row) (s costmodel.Sample, curve string, size float64, ok bool) { return readExperts(r, p) },
		bound: func(g costmodel.GPU, x []float64) float64 {
			values := x[3] * x[4] * x[5]
			return max(2*values*x[0]/g.Peak(p.Compute), p.Weights.BytesPerValue()*values*x[1]/g.Bandwidth)
		},
		target: map[string]float64{"": 0.20},
	}
}

// readExperts takes what a rank gets from the routing of the benchmark. That of
// vLLM 0.14 gives every expert a gate.
//
// Of MXFP4 weights the shapes with 896 experts are left out: their kernels take
// 70 µs at least, three times as long as those of the other models, so that the
// file mixes two kinds.
func readExperts(r *row, p costmodel.Precision) (s costmodel.Sample, curve string, size float64, ok bool) {
	marlin := p == precision("w4a16_mxfp4")
	alpha := 0.0
	if power, is := strings.CutPrefix(r.text("distribution"), "power_law_"); is {
		if _, err := fmt.Sscan(power, &alpha); err != nil && r.err == nil {
			r.err = fmt.Errorf("%s: distribution is %q", r.at(), r.text("distribution"))
		}
	}
	if marlin && r.number("num_experts") == 896 {
		return s, "", 0, false
	}
	old := strings.Contains(r.file, "_vllm_0.14.")
	n, hidden, inner := r.count("num_tokens"), r.number("hidden_size"), r.number("inter_size")/r.number("moe_tp_size")
	deal := routing{n, r.count("topk"), r.count("num_experts"), r.count("moe_ep_size"), alpha, old}
	if r.err != nil {
		return s, "", 0, false
	}
	if min(deal.positions, deal.picks, deal.ranks) < 1 || deal.experts < max(deal.picks, deal.ranks) {
		r.err = fmt.Errorf("%s: %d of %d experts on %d ranks for %d tokens", r.at(), deal.picks, deal.experts, deal.ranks, deal.positions)
		return s, "", 0, false
	}
	part := deal.share()
	matrices, tile, tuned := 3.0, tileOf(p, deal), 0.0
	switch {
	case old && slices.Contains(tunedA100, [2]float64{float64(deal.experts / deal.ranks), inner}):
		tile, tuned = tunedTile(part), 1
	case !old && (hidden == 2688 || deal.picks == 22): // the models of one family, whose experts have no gate
		matrices = 2
	}
	group := fmt.Sprintf("%s×%g", r.text("hidden_size"), inner)
	s = sample(r, group, part.rows, part.distinct, part.picks, matrices, hidden, inner, tile, tuned)
	return s, group + "·" + r.text("num_experts") + "·" + r.text("topk") + "·" + r.text("moe_tp_size") + "·" + r.text("moe_ep_size") + "·" + r.text("distribution"), float64(n), true
}

func sample(r *row, group string, inputs ...float64) costmodel.Sample {
	return costmodel.Sample{Name: r.at(), Group: group, Inputs: inputs, Seconds: r.number("latency_ms") * 1e-3}
}

// fitted is an operator on one GPU: what was fitted to one half of the
// measurements, and how it does on the other.
type fitted struct {
	GPU      string               `json:"gpu"`
	Operator string               `json:"operator"`
	From     costmodel.Provenance `json:"provenance"`
	Samples  int                  `json:"samples"`
	Groups   int                  `json:"groups"` // geometries of both halves
	FitOn    int                  `json:"fit_on"` // samples of the fit: the fit half, thinned evenly
	Fitted   costmodel.Accuracy   `json:"fit_half"`
	Cross    costmodel.Accuracy   `json:"cross_validated"`
	Held     costmodel.Accuracy   `json:"held_half"`
	Target   float64              `json:"target,omitempty"` // of Held.MAPE; 0 means none
	Met      bool                 `json:"met"`
	Roofline costmodel.Accuracy   `json:"roofline"`      // without efficiencies, on the held half
	Table    costmodel.Accuracy   `json:"interpolation"` // linear, of every second size of each geometry, on the sizes between
	Values   []coefficient        `json:"coefficients"`
	// GPUs and Switchover are of all-reduces.
	GPUs       int     `json:"gpus,omitempty"`
	Switchover float64 `json:"switchover_bytes,omitempty"`

	calibration *costmodel.Calibration
	points      []point // of the held half, for a plot
}

// coefficient is a fitted parameter and what it is worth.
type coefficient struct {
	Name    string   `json:"name"`
	Unit    string   `json:"unit,omitempty"`
	Value   float64  `json:"value"`
	Error   number   `json:"standard_error"`
	AtBound bool     `json:"at_bound,omitempty"`
	Without *float64 `json:"held_mape_without,omitempty"` // held half, fitted without the parameter
}

// fitSamples is the number of samples that a fit looks at. Errors are of all.
const fitSamples = 1500

// fitKernels fits operators to every GPU that data has kernels of, or to one.
// With worth it also fits without each parameter.
func fitKernels(data, only string, worth bool, operators ...operator) ([]*fitted, error) {
	type job struct {
		op   operator
		path string
		gpu  costmodel.GPU
	}
	var jobs []job
	for _, op := range operators {
		files, err := kernelFiles(data, only, op)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			jobs = append(jobs, job{op, f.path, f.gpu})
		}
	}
	results, errs := make([]*fitted, len(jobs)), make([]error, len(jobs))
	var wait sync.WaitGroup
	free := make(chan struct{}, workers())
	for i, j := range jobs {
		wait.Add(1)
		go func() {
			defer wait.Done()
			free <- struct{}{}
			defer func() { <-free }()
			results[i], errs[i] = fitKernel(j.op, j.gpu, j.path, worth)
		}()
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(results, func(f *fitted) bool { return f == nil }), nil
}

// kernelFile is a file of an operator's measurements.
type kernelFile struct {
	path string
	gpu  costmodel.GPU
}

// kernelFiles returns the files of an operator, of every GPU of the catalogue or
// of one.
func kernelFiles(data, only string, op operator) ([]kernelFile, error) {
	paths, err := filepath.Glob(filepath.Join(data, "kernels", "*"+op.files))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	var list []kernelFile
	for _, path := range paths {
		g, err := gpuOf(kernelGPU(path))
		if err == nil && (only == "" || g.Name == only) {
			list = append(list, kernelFile{path, g})
		}
	}
	return list, nil
}

// kernelGPU returns the part of a kernel file's name that names the GPU, "" if
// the file is none.
func kernelGPU(path string) string {
	for _, kind := range []string{"_gemm_", "_attention_", "_moe_", "_comm_"} {
		if name, _, ok := strings.Cut(filepath.Base(path), kind); ok {
			return name
		}
	}
	return ""
}

// fitKernel returns nil if the file has no rows of the operator.
func fitKernel(op operator, g costmodel.GPU, path string, worth bool) (*fitted, error) {
	var in, out []costmodel.Sample
	curves := newCurves()
	err := readCSV(path, op.need, func(r *row) {
		s, curve, size, ok := op.read(r)
		if !ok || r.err != nil {
			return
		}
		curves.add(curve, size, s.Seconds)
		if held(s.Group) {
			out = append(out, s)
		} else {
			in = append(in, s)
		}
	})
	if err != nil {
		return nil, err
	}
	if len(in)+len(out) == 0 {
		return nil, nil
	}
	f := &fitted{GPU: g.Name, Operator: op.name, Samples: len(in) + len(out), Groups: groups(in, out), From: kernelProvenance(g, op, path)}
	form := op.form(g)
	c, err := costmodel.Fit(form, thin(in, fitSamples), f.From)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	errors := c.Test(out)
	f.calibration, f.FitOn, f.Cross = c, c.Samples, c.CrossValidated
	f.Fitted, f.Held = costmodel.AccuracyOf(c.Test(in)), costmodel.AccuracyOf(errors)
	f.points = scatter(out, errors)
	f.Table = costmodel.AccuracyOf(curves.interpolate(f.From))
	var bounds []float64
	for _, s := range out {
		bounds = append(bounds, op.bound(g, s.Inputs)/s.Seconds-1)
	}
	f.Roofline = costmodel.AccuracyOf(bounds)
	f.setTarget(op.targetOf(f.GPU))
	return f, f.describe(c, out, worth)
}

// targetOf returns what is expected on a GPU, 0 if nothing is.
func (op operator) targetOf(gpu string) float64 {
	if target, ok := op.target[gpu]; ok {
		return target
	}
	return op.target[""]
}

func (f *fitted) setTarget(target float64) {
	f.Target, f.Met = target, target == 0 || f.Held.MAPE <= target
}

// describe lists the coefficients.
func (f *fitted) describe(c *costmodel.Calibration, out []costmodel.Sample, worth bool) error {
	for _, k := range c.Coefficients {
		v := coefficient{Name: k.Name, Unit: k.Unit, Value: k.Value, Error: number(k.Error), AtBound: k.AtBound}
		if worth {
			less, err := c.Without(k.Name)
			if err != nil {
				return err
			}
			without := costmodel.AccuracyOf(less.Test(out)).MAPE
			v.Without = &without
		}
		f.Values = append(f.Values, v)
	}
	return nil
}

// kernelProvenance reads what a kernel file's name says.
func kernelProvenance(g costmodel.GPU, op operator, path string) costmodel.Provenance {
	parts := strings.Split(strings.TrimSuffix(filepath.Base(path), ".csv.gz"), "_")
	kernels := "vLLM"
	for i, p := range parts {
		if p == "vllm" && i+1 < len(parts) {
			kernels = "vLLM " + parts[i+1]
		}
	}
	formats := "BF16"
	for _, kind := range []string{"matrix ", "experts "} {
		if f, ok := strings.CutPrefix(op.name, kind); ok {
			formats = f + " weights"
		}
	}
	if strings.HasSuffix(op.name, "attention fp8") {
		formats = "BF16, FP8 cache"
	}
	return costmodel.Provenance{Platform: g.Name, Formats: formats, Kernels: kernels, Layout: "one GPU",
		Boundary: "one kernel in a CUDA graph, repeated", Source: filepath.Base(path)}
}

// groups counts the groups of both halves.
func groups(halves ...[]costmodel.Sample) int {
	seen := map[string]bool{}
	for _, h := range halves {
		for _, s := range h {
			seen[s.Group] = true
		}
	}
	return len(seen)
}

// thin returns n samples spread evenly, in order.
func thin(samples []costmodel.Sample, n int) []costmodel.Sample {
	if len(samples) <= n {
		return samples
	}
	few := make([]costmodel.Sample, n)
	for i := range few {
		few[i] = samples[i*len(samples)/n]
	}
	return few
}
