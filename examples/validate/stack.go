package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"servesim/costmodel"
	"servesim/sim"
)

// stack is the time of a model's kernels, summed over its layers, from the
// measurements of layers/: tables of the dense kernels by positions, of the
// last ones by sequences, of the experts by positions and distinct experts,
// and fits of attention for decodes alone, prompts alone and both.
type stack struct {
	model  costmodel.Model
	source string // prefix of its files

	dense, last            map[string]*costmodel.Table
	names                  []string // of dense and last, sorted
	decode, prefill, mixed attention
	experts                []expertCurve          // by number of experts
	router                 *costmodel.Calibration // of matrix products; nil without experts
	reduce                 *costmodel.Table       // all-reduce of a tensor-parallel group by bytes; nil on one GPU
	gather                 *costmodel.Table       // or scatter, between ranks, by bytes; nil if there is one rank
	ranks                  int
}

type expertCurve struct {
	distinct float64
	time     *costmodel.Table
}

// newStack reads the layers of a model on a GPU, for an engine's settings. It is
// nil, without an error, if data has none.
func newStack(data string, g costmodel.GPU, gpuName string, m costmodel.Model, modelName string, e engineSettings) (*stack, error) {
	tp, ranks := e.tp, e.ranks
	prefix, err := layerFiles(data, gpuName, g, modelName, m, tp)
	if prefix == "" || err != nil {
		return nil, err
	}
	s := &stack{model: m, source: filepath.Base(prefix), ranks: ranks}
	from := costmodel.Provenance{Platform: cmp.Or(g.Name, gpuName), Formats: "BF16", Kernels: "vLLM 0.19, eager", Layout: fmt.Sprintf("TP %d", tp),
		Boundary: "one layer's kernels on the device", Source: s.source}
	if s.dense, err = layerTables(prefix+"_dense.csv.gz", "layer", "tokens", from); err != nil {
		return nil, err
	}
	if s.last, err = layerTables(prefix+"_per_sequence.csv.gz", "layer", "sequences", from); err != nil {
		return nil, err
	}
	if err := s.readExperts(prefix+"_moe.csv.gz", from); err != nil {
		return nil, err
	}
	if err := s.fitAttention(prefix+"_attention.csv.gz", from); err != nil {
		return nil, err
	}
	if tp > 1 {
		if s.reduce, err = e.reduce.curve(data, g, tp); err != nil {
			return nil, err
		}
	}
	if s.experts != nil && g.Name != "" {
		// layers/ has the experts without the product that picks them.
		fits, err := fitKernels(data, g.Name, false, operators[0])
		if err != nil {
			return nil, err
		}
		if len(fits) > 0 {
			s.router = fits[0].calibration.Cold()
		}
	}
	for name := range s.dense {
		s.names = append(s.names, name)
	}
	slices.Sort(s.names)
	if ranks > 1 && s.experts != nil {
		s.gather, err = gatherCurve(data, g, ranks)
	}
	return s, err
}

// layerFiles returns the path of the files of a GPU and a model up to the kind
// of layer, "" if there are none.
func layerFiles(data, gpuName string, g costmodel.GPU, modelName string, m costmodel.Model, tp int) (string, error) {
	paths, err := filepath.Glob(filepath.Join(data, "layers", fmt.Sprintf("*_tp%d_dense.csv.gz", tp)))
	if err != nil {
		return "", err
	}
	for _, path := range paths {
		prefix := strings.TrimSuffix(path, "_dense.csv.gz")
		parts := strings.Split(filepath.Base(prefix), "_") // the GPU, the model, "tp1"
		last := len(parts) - 2
		if last < 1 {
			continue
		}
		model := plain(parts[last])
		isModel := model == plain(filepath.Base(modelName)) || model == plain(m.Name)
		if isModel && isGPU(strings.Join(parts[:last], "_"), gpuName, g) {
			return prefix, nil
		}
	}
	return "", nil
}

// isGPU reports whether a file's name of a GPU is that of a run: g, if the
// catalogue knows it, and otherwise part of what the run calls it.
func isGPU(file, gpuName string, g costmodel.GPU) bool {
	known, err := gpuOf(file)
	if err != nil && g.Name == "" {
		return mentions(gpuName, file)
	}
	return err == nil && known.Name == g.Name
}

// layerTables reads one curve for each value of a column.
func layerTables(path, column, size string, from costmodel.Provenance) (map[string]*costmodel.Table, error) {
	c := newCurves()
	err := readCSV(path, []string{column, size, "time_us"}, func(r *row) {
		c.add(r.text(column), r.number(size), r.number("time_us")*1e-6)
	})
	if err != nil {
		return nil, err
	}
	tables := map[string]*costmodel.Table{}
	for _, name := range c.names {
		sizes, seconds := c.sorted(name)
		t, err := costmodel.NewTable(from, sizes, seconds, costmodel.LinearInterpolation, costmodel.Extend)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, name, err)
		}
		tables[name] = t
	}
	return tables, nil
}

func (s *stack) readExperts(path string, from costmodel.Provenance) error {
	if _, err := os.Stat(path); err != nil {
		if s.model.MoE.Layers > 0 {
			return fmt.Errorf("%s has experts: %w", s.model.Name, err)
		}
		return nil
	}
	tables, err := layerTables(path, "activated_experts", "tokens", from)
	if err != nil {
		return err
	}
	for name, t := range tables {
		var n float64
		if _, err := fmt.Sscan(name, &n); err != nil {
			return fmt.Errorf("%s: activated_experts is %q", path, name)
		}
		s.experts = append(s.experts, expertCurve{n, t})
	}
	slices.SortFunc(s.experts, func(a, b expertCurve) int { return cmp.Compare(a.distinct, b.distinct) })
	return nil
}

func (s *stack) fitAttention(path string, from costmodel.Provenance) error {
	var decodes, prompts, both []costmodel.Sample
	err := readCSV(path, []string{"prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us"}, func(r *row) {
		x := []float64{axisChunk: r.number("prefill_chunk"), axisCached: r.number("kv_prefill"),
			axisDecodes: r.number("n_decode"), axisContext: r.number("kv_decode")}
		b := costmodel.Sample{Name: r.at(), Group: fmt.Sprint(x[axisChunk], "+", x[axisDecodes]), Inputs: x, Seconds: r.number("time_us") * 1e-6}
		switch {
		case x[axisChunk] == 0:
			decodes = append(decodes, b)
		case x[axisDecodes] == 0:
			prompts = append(prompts, b)
		default:
			both = append(both, b)
		}
	})
	if err != nil {
		return err
	}
	for _, part := range []struct {
		to      *attention
		samples []costmodel.Sample
		axes    []int
	}{{&s.decode, decodes, []int{axisDecodes, axisContext}}, {&s.prefill, prompts, []int{axisChunk, axisCached}},
		{&s.mixed, both, []int{axisChunk, axisCached, axisDecodes, axisContext}}} {
		if *part.to, err = newAttention(part.samples, part.axes, from); err != nil {
			return err
		}
	}
	return nil
}

// stepSeconds returns the kernels' time of ranks that step together. A rank
// without work computes one position, so that the others get its experts.
func (s *stack) stepSeconds(batches []sim.Batch) float64 {
	together := 0
	for _, b := range batches {
		together += max(positionsOf(b), 1)
	}
	slowest := 0.0
	for _, b := range batches {
		if b.Empty() {
			b = sim.Batch{Decodes: 1, Positions: 1}
		}
		slowest = max(slowest, s.rankSeconds(b))
	}
	if s.experts != nil {
		slowest += float64(s.model.MoE.Layers) * s.expertSeconds(float64(together))
	}
	return slowest
}

func positionsOf(b sim.Batch) int { return b.Positions + b.PrefillTokens() }

// rankSeconds is a rank's part: everything but the experts.
func (s *stack) rankSeconds(b sim.Batch) float64 {
	n := float64(positionsOf(b))
	layer, once := s.attention(b), 0.0
	if s.router != nil {
		// The product, and one element-wise kernel to pick.
		layer += s.router.Seconds(n, float64(s.model.MoE.Experts), float64(s.model.Hidden)) + elementwiseFloor.Seconds()
	}
	for _, name := range s.names {
		t := s.dense[name].Seconds(n)
		switch name {
		case "embedding", "final_layernorm":
			once += t
		case "layernorm":
			layer += 2 * t // before attention and before the feed-forward network
		default:
			layer += t
		}
	}
	sampled := float64(b.Samples())
	if sampled > 0 {
		once += s.last["lm_head"].Seconds(sampled) + s.last["sampler"].Seconds(sampled)
	}
	if s.reduce != nil {
		// Behind attention, behind the feed-forward network and behind the
		// embedding; logits are gathered, half of an all-reduce.
		hidden := s.reduce.Seconds(2 * n * float64(s.model.Hidden))
		layer += 2 * hidden
		once += hidden
		if sampled > 0 {
			once += s.reduce.Seconds(2*sampled*float64(s.model.Vocab)) / 2
		}
	}
	return float64(s.model.Layers)*layer + once
}

func (s *stack) attention(b sim.Batch) float64 {
	w := workOf(b)
	switch {
	case len(b.Prefills) == 0:
		return s.decode.seconds(w)
	case b.Decodes == 0:
		return s.prefill.seconds(w)
	}
	return s.mixed.seconds(w)
}

// expertSeconds is one layer's experts for the positions of all ranks, dealt
// over the ranks, with both ways between them. Picks are taken to be equally
// likely.
func (s *stack) expertSeconds(n float64) float64 {
	local := float64(s.model.MoE.Experts) / float64(s.ranks)
	missed := math.Pow(1-float64(s.model.MoE.PerPosition)/float64(s.model.MoE.Experts), n)
	distinct := max(local*(1-missed), 1)
	i := 0
	for i < len(s.experts)-2 && s.experts[i+1].distinct < distinct {
		i++
	}
	t := s.experts[i].time.Seconds(n)
	if i+1 < len(s.experts) {
		low, high := s.experts[i], s.experts[i+1]
		t += (high.time.Seconds(n) - t) * max(0, distinct-low.distinct) / (high.distinct - low.distinct)
	}
	if s.gather != nil {
		bytes := n * float64(2*s.model.Hidden)
		t += 2 * s.gather.Seconds(bytes)
	}
	return t
}
