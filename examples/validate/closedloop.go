package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"servesim/costmodel"
	"servesim/scheduler"
	"servesim/sim"
)

// loopReport is one model, GPU and engine at fixed numbers of clients: time per
// output token, simulated from kernel fits alone and with a host term that was
// fitted on half of the rows.
type loopReport struct {
	Model   string  `json:"model"`
	GPU     string  `json:"gpu"`
	Engine  string  `json:"engine"`
	Formats string  `json:"formats"`
	Rows    int     `json:"rows"`
	Reading reading `json:"reading"`
	// Tried is every reading that was looked at, with its cross-validated error
	// on the fitted half.
	Tried []triedReading `json:"readings_tried"`
	// Bare is without a host term, Catalogue of the catalogue's set-up as it is
	// with the host of the engine, both on all rows; Spec is what a closed form
	// without simulation reaches by the reference page.
	Bare      costmodel.Accuracy `json:"kernels_alone"`
	Catalogue costmodel.Accuracy `json:"catalogue"`
	Spec      string             `json:"reference,omitempty"`
	Host      loopHost           `json:"host"`
	Held      costmodel.Accuracy `json:"with_host_other_half"`
	Target    float64            `json:"target,omitempty"`
	Met       bool               `json:"met"`

	points []point
}

// loopHost is what the steps of a closed loop take beyond their kernels.
type loopHost struct {
	host
	// Prompt is for each step with prompts: engines replay a CUDA graph for
	// decodes, and launch such a step kernel by kernel.
	Prompt float64 `json:"prompt_s"`
}

// reading is what the rows do not say about how they were measured.
type reading struct {
	// Cache is the format of keys and values. Quantised checkpoints often
	// come with one of their own.
	Cache string `json:"kv_cache"`
	// Shortest is the share of the named lengths from which those of requests
	// are spread evenly: 1 where all are alike. Public benchmarks take 0.8.
	Shortest float64 `json:"shortest_request"`
	// Padded means that an all-reduce takes no longer than one of a larger
	// message: the measured ones have a plateau between two algorithms, which
	// fused collectives do not.
	Padded bool `json:"all_reduce_padded"`
	// Eight means that experts with MXFP4 weights multiply MXFP8 activations, as
	// engines do on GPUs that can; otherwise they expand the weights to BF16.
	Eight bool `json:"mxfp8_experts,omitempty"`
}

type triedReading struct {
	reading
	Error float64 `json:"cross_validated_mape"`
}

// loopRow is a measured point.
type loopRow struct {
	id, version             string
	clients, prompt, output int
	tp, ep                  int     // GPUs that share every layer, and parts into which they deal the experts
	tpot                    float64 // s
	simulated               looped
}

// references are the errors of a closed form on the same rows.
var references = map[string]string{
	"Llama-3.1-70B H100 vllm fp8":     "bias -2 %, MAPE 8.7 %",
	"Llama-3.1-70B B200 vllm fp8":     "bias +1 %, MAPE 6.2 %",
	"Llama-3.1-70B B200 vllm nvfp4":   "bias -4 %, MAPE 6.9 %",
	"Qwen3-32B H100 vllm bf16":        "bias -15 %, MAPE 17.4 %",
	"Qwen3-32B H100 sglang bf16":      "bias +17 %, MAPE 19.7 %",
	"Llama-3.1-70B B200 trtllm fp8":   "bias +14 %, MAPE 16.4 %",
	"Llama-3.1-70B B200 trtllm nvfp4": "bias +6 %, MAPE 9.5 %",
	"Llama-3.1-8B H100 trtllm bf16":   "bias -12 %, MAPE 12.2 %",
	"Qwen3-32B H100 trtllm fp8":       "bias +6 %, MAPE 12.6 %",
}

// precisionOf names the catalogue's precision of a quantisation.
var precisionOf = map[string]string{"": "bfloat16", "bf16": "bfloat16", "fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4"}

// reportLoops simulates the aggregated rows of models for whose GPU and formats
// there are kernels; other rows are counted by reason.
func reportLoops(o options, fits []*fitted) ([]*loopReport, map[string]int, error) {
	path := filepath.Join(o.data, "endtoend", "closed_loop_ttft_tpot.csv.gz")
	groups, skipped := map[string][]*loopRow{}, map[string]int{}
	columns := []string{"id", "backend", "backend_version", "model_path", "system", "mode", "isl", "osl", "gemm_quant_mode", "batch_size", "tp_size", "pp_size", "attention_dp_size", "silicon_tpot_ms"}
	err := readCSV(path, columns, func(r *row) {
		m, g, why := loopSetup(r)
		if why != "" {
			skipped[why]++
			return
		}
		if o.gpu != "" && g.Name != o.gpu {
			return
		}
		formats := cmp.Or(r.text("gemm_quant_mode"), "bf16")
		key := strings.Join([]string{m.Name, g.Name, r.text("backend"), formats}, " ")
		if references[key] == "" { // the references are over all versions
			key = strings.Join([]string{m.Name, g.Name, strings.TrimSuffix(r.text("backend")+"-"+r.text("backend_version"), "-"), formats}, " ")
		}
		groups[key] = append(groups[key], &loopRow{id: r.text("id"), version: r.text("backend_version"), clients: r.count("batch_size"), prompt: r.count("isl"),
			output: r.count("osl"), tp: r.count("tp_size"), ep: expertParts(r), tpot: r.number("silicon_tpot_ms") * 1e-3})
	})
	if err != nil {
		return nil, nil, err
	}
	var keys []string
	for k := range groups {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	l := libraryOf(fits)
	var list []*loopReport
	for _, k := range keys {
		parts := strings.Fields(k)
		if len(groups[k]) < 10 {
			skipped["fewer than 10 rows of a kind"] += len(groups[k])
			continue
		}
		r := &loopReport{Model: parts[0], GPU: parts[1], Engine: parts[2], Formats: parts[3], Rows: len(groups[k]), Spec: references[k]}
		if err := r.fill(o.data, l, groups[k]); err != nil {
			skipped[err.Error()] += len(groups[k])
			continue
		}
		list = append(list, r)
	}
	return list, skipped, nil
}

// loopSetup returns what a row is of, or why it is left out.
func loopSetup(r *row) (m costmodel.Model, g costmodel.GPU, why string) {
	switch dp := r.text("attention_dp_size"); {
	case r.text("mode") != "agg":
		return m, g, "disaggregated"
	case r.text("pp_size") != "1" || dp != "" && dp != "1":
		return m, g, "pipeline or data-parallel attention"
	case strings.Contains(r.text("model_path"), "Llama-3.1-8B-Instruct-FP8"):
		return m, g, "named as outliers by their provenance"
	}
	g, err := gpuOf(r.text("system"))
	if err != nil {
		return m, g, "GPU not in the catalogue"
	}
	if m, err = modelOf(r.text("model_path")); err != nil {
		return m, g, "not a model of the catalogue"
	}
	if m.MLA.KVRank > 0 {
		return m, g, "latent attention, of which there are no kernels"
	}
	if precisionOf[r.text("gemm_quant_mode")] == "" {
		return m, g, "number format without kernels"
	}
	return m, g, ""
}

// expertParts reads the expert-parallel degree; rows of dense models have none.
func expertParts(r *row) int {
	if r.text("moe_ep_size") == "" {
		return 1
	}
	return r.count("moe_ep_size")
}

// fill simulates the rows by one reading after the other. Each question of a
// reading is settled by the cross-validated error on the fitted half; the other
// half is looked at once, at the end.
func (r *loopReport) fill(data string, l library, rows []*loopRow) error {
	m, err := modelOf(r.Model)
	if err != nil {
		return err
	}
	g, err := costmodel.LookupGPU(r.GPU)
	if err != nil {
		return err
	}
	// Experts that come quantised, as those of gpt-oss, stay as they are,
	// whatever the rows call them.
	if m.MoE.Precision == (costmodel.Precision{}) {
		m.Precision = precision(precisionOf[r.Formats])
		if m.MoE.Layers > 0 {
			m.MoE.Precision = m.Precision
		}
	}
	composed := func(by reading) loopMaker {
		return func(tp, ep int) (sim.CostModel, error) {
			return composeStack(l, data, by.setup(m, g, tp, ep), by.Padded)
		}
	}
	in, out := loopHalves(rows)
	var best *costmodel.Calibration
	try := func(by reading) error {
		if err := simulateLoops(in, by, composed(by)); err != nil {
			return err
		}
		c, err := r.fitHost(in)
		if err != nil {
			return err
		}
		r.Tried = append(r.Tried, triedReading{by, c.CrossValidated.MAPE})
		if best == nil || c.CrossValidated.MAPE < best.CrossValidated.MAPE {
			best, r.Reading = c, by
		}
		return nil
	}
	if err := try(reading{Cache: "bf16", Shortest: 1}); err != nil {
		return err
	}
	for _, other := range []func(*reading) bool{
		func(by *reading) bool { by.Cache = "fp8"; return r.Formats != "bf16" },
		func(by *reading) bool { by.Shortest = 0.8; return true },
		func(by *reading) bool {
			by.Padded = true
			return slices.ContainsFunc(in, func(row *loopRow) bool { return row.tp > 1 })
		},
		func(by *reading) bool {
			by.Eight = true
			return m.MoE.Precision == precision("w4a16_mxfp4") && l[g.Name+" experts w4a8_mxfp4_mxfp8"] != nil
		},
	} {
		if by := r.Reading; other(&by) {
			if err := try(by); err != nil {
				return err
			}
		}
	}
	if err := simulateLoops(rows, r.Reading, func(tp, ep int) (sim.CostModel, error) {
		return named(r.Reading.setup(m, g, tp, ep), r.Engine, rows[0].version)
	}); err != nil {
		return err
	}
	r.Catalogue = loopErrors(rows)
	if err := simulateLoops(rows, r.Reading, composed(r.Reading)); err != nil {
		return err
	}
	r.Bare = loopErrors(rows)
	for _, k := range best.Coefficients {
		switch k.Name {
		case "step":
			r.Host.Step = k.Value
		case "sequence":
			r.Host.Sequence = k.Value
		case "prompt":
			r.Host.Prompt = k.Value
		}
	}
	samples := hostSamples(out)
	errors := best.Test(samples)
	r.Held, r.points = costmodel.AccuracyOf(errors), scatter(samples, errors)
	if r.Engine == "vllm" && (r.Model == "Qwen3-32B" || r.Model == "Llama-3.1-70B") {
		r.Target = 0.08
	}
	r.Met = r.Target == 0 || r.Held.MAPE <= r.Target
	return nil
}

// loopHalves deals the shapes, in order of GPUs, prompt and output, to the half
// that is fitted and the other one in turn: rows that differ in their number of
// clients only stay together.
func loopHalves(rows []*loopRow) (in, out []*loopRow) {
	shape := func(r *loopRow) [4]int { return [4]int{r.tp, r.prompt, r.output, r.ep} }
	var shapes [][4]int
	for _, r := range rows {
		shapes = append(shapes, shape(r))
	}
	slices.SortFunc(shapes, func(a, b [4]int) int { return slices.Compare(a[:], b[:]) })
	shapes = slices.Compact(shapes)
	for _, r := range rows {
		if slices.Index(shapes, shape(r))%2 == 0 {
			in = append(in, r)
		} else {
			out = append(out, r)
		}
	}
	return in, out
}

// setup is the set-up of rows on so many GPUs, without efficiencies.
func (by reading) setup(m costmodel.Model, g costmodel.GPU, tp, ep int) costmodel.Setup {
	if by.Eight {
		m.MoE.Precision = precision("w4a8_mxfp4_mxfp8")
	}
	m.KV = costmodel.Format{}
	if by.Cache == "fp8" {
		m.KV.ValueBytes = 1
	}
	return costmodel.Setup{Model: m, GPU: g, TensorParallel: tp, ExpertParallel: ep}
}

// hostOf names the host of an engine in the catalogue, "" for the one that every
// GPU comes with: vLLM's since it schedules asynchronously by default, which
// began with 0.14. Rows without a version are taken to be of such a one.
func hostOf(engine, version string) string {
	name, _, _ := strings.Cut(engine, "-")
	minor := 0
	if _, err := fmt.Sscanf(version, "0.%d", &minor); name == "vllm" && err == nil && minor < 14 {
		return "vLLM-0.12"
	}
	if name == "trtllm" {
		return "TensorRT-LLM-1.0"
	}
	return ""
}

// named is the model that a program gets which knows nothing but names.
func named(s costmodel.Setup, engine, version string) (sim.CostModel, error) {
	var err error
	if s.Efficiency, err = costmodel.FittedEfficiency(s.GPU.Name); err != nil {
		return nil, err
	}
	if host := hostOf(engine, version); host != "" {
		if s.Efficiency.Host, err = costmodel.FittedHost(host); err != nil {
			return nil, err
		}
	}
	return costmodel.NewTransformer(s)
}

// loopMaker returns the model of a layout.
type loopMaker func(tp, ep int) (sim.CostModel, error)

// simulateLoops fills in what the clients of each row see.
func simulateLoops(rows []*loopRow, by reading, maker loopMaker) error {
	models := map[[2]int]*loopModel{}
	for _, row := range rows {
		layout := [2]int{row.tp, row.ep}
		if models[layout] == nil {
			m, err := maker(row.tp, row.ep)
			if err != nil {
				return err
			}
			models[layout] = &loopModel{CostModel: m}
		}
		var err error
		if row.simulated, err = closedLoop(models[layout], row, by.Shortest); err != nil {
			return fmt.Errorf("%s: %w", row.id, err)
		}
	}
	return nil
}

func loopErrors(rows []*loopRow) costmodel.Accuracy {
	var errors []float64
	for _, row := range rows {
		errors = append(errors, row.simulated.tpot/row.tpot-1)
	}
	return costmodel.AccuracyOf(errors)
}

// fitHost fits the host's term, without prompt where that is no better.
func (r *loopReport) fitHost(rows []*loopRow) (*costmodel.Calibration, error) {
	full := loopHostForm()
	short, err := full.Without("prompt")
	if err != nil {
		return nil, err
	}
	var best *costmodel.Calibration
	for _, form := range []costmodel.Form{short, full} {
		c, err := costmodel.Fit(form, hostSamples(rows), costmodel.Provenance{Platform: r.GPU, Formats: r.Formats, Kernels: r.Engine,
			Layout: "TP as in the rows", Boundary: "time per output token of a closed loop", Source: "closed_loop_ttft_tpot.csv.gz"})
		if err != nil {
			return nil, err
		}
		if best == nil || c.CrossValidated.MAPE < best.CrossValidated.MAPE {
			best = c
		}
	}
	return best, nil
}

// loopHostForm is costmodel.HostForm, and prompt for each step with prompts.
func loopHostForm() costmodel.Form {
	form := costmodel.HostForm()
	rest := form.Seconds
	form.Inputs = append(form.Inputs, "steps with prompts")
	form.Parameters = append(form.Parameters, costmodel.Parameter{Name: "prompt", Unit: "s", Start: 1e-3, Low: 0, High: 0.2})
	form.Seconds = func(p, x []float64) float64 { return rest(p, x) + p[2]*x[3] }
	return form
}

func hostSamples(rows []*loopRow) []costmodel.Sample {
	var list []costmodel.Sample
	for _, row := range rows {
		list = append(list, costmodel.Sample{Name: row.id, Group: fmt.Sprintf("%d·%d·%d·%d", row.tp, row.ep, row.prompt, row.output), Seconds: row.tpot,
			Inputs: []float64{row.simulated.tpot, 1, float64(row.clients), row.simulated.prompts}})
	}
	return list
}

// loopModel counts steps with prompts.
type loopModel struct {
	sim.CostModel
	prompts int // so far
}

// StepTime implements sim.CostModel.
func (l *loopModel) StepTime(b sim.Batch) time.Duration {
	if len(b.Prefills) > 0 {
		l.prompts++
	}
	return l.CostModel.StepTime(b)
}

// looped is what a request of a closed loop sees between two of its tokens.
type looped struct {
	tpot    float64 // s
	prompts float64 // steps with prompts; all steps are 1
}

// closedLoop runs so many clients, each with one request at a time, and returns
// the mean of their requests. The clients' first requests end at times spread
// over one request's life, as those of clients that have been at it for long do.
// Each client's second request counts, and a third one keeps it busy until those
// of the others end. Lengths are spread evenly between shortest and 1 of those
// in the row. Which steps there are does not depend on what they take, so that
// a host's term can be fitted afterwards.
func closedLoop(m *loopModel, row *loopRow, shortest float64) (looped, error) {
	const budget = 8192 // of vLLM and TensorRT-LLM on these GPUs
	var mean looped
	n := 0.0
	next := row.clients
	since := map[int]int{} // steps with prompts until a request's first token
	done := sim.ObserverFunc(func(e sim.Event) {
		if e.ID < row.clients || e.ID >= 2*row.clients {
			return
		}
		switch {
		case e.Kind == sim.FirstToken:
			since[e.ID] = m.prompts
		case e.Kind == sim.Finish && e.Output > 1:
			gaps := float64(e.Output - 1)
			mean.tpot += (e.Time - e.Timeline.FirstToken).Seconds() / gaps
			mean.prompts += float64(m.prompts-since[e.ID]) / gaps
			n++
		}
	})
	request := func(id int, arrival sim.Time) sim.Request {
		// The fractions of a sequence that fills the square evenly.
		prompt, output := spread(row.prompt, shortest, float64(id)*0.7548776662466927), spread(row.output, shortest, float64(id)*0.5698402909980532)
		return sim.Request{ID: id, Arrival: arrival, Prompt: prompt, Output: output, MaxOutput: output}
	}
	cfg := sim.Config{
		Replicas:  []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: m, MaxBatchTokens: budget}},
		Observers: []sim.Observer{done},
		FollowUp: func(c sim.Completion) []sim.Request {
			if next >= 3*row.clients {
				return nil
			}
			next++
			return []sim.Request{request(next-1, c.End)}
		},
	}
	first := func() iter.Seq2[sim.Request, error] {
		return func(yield func(sim.Request, error) bool) {
			for i := range row.clients {
				r := request(i, 0)
				left := max(1, r.Output*(i+1)/row.clients)
				r.Prompt += r.Output - left
				r.Output, r.MaxOutput = left, left
				if !yield(r, nil) {
					return
				}
			}
		}
	}
	if _, err := sim.Run(context.Background(), cfg, first()); err != nil {
		return looped{}, err
	}
	if n == 0 {
		return looped{}, fmt.Errorf("no request with two tokens")
	}
	return looped{mean.tpot / n, mean.prompts / n}, nil
}

// spread returns a length between shortest and 1 of the longest, by the
// fraction of x.
func spread(longest int, shortest, x float64) int {
	_, f := math.Modf(x)
	return max(1, int(math.Round(float64(longest)*(shortest+(1-shortest)*f))))
}
