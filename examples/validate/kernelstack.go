package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"servesim/costmodel"
	"servesim/sim"
)

// kernelStack is the time of a dense model's kernels, composed from fits to
// kernels/ of its GPU.
type kernelStack struct {
	model           costmodel.Model
	gpu             costmodel.GPU
	tp              int
	source          string
	matrix, head    *costmodel.Calibration // of the layers and of the LM head, in BF16
	prefill, decode *costmodel.Calibration
	reduce          *costmodel.Table // all-reduce by bytes; nil on one GPU
	launches        float64          // of element-wise kernels in a layer
}

// library holds what was fitted to kernels, by GPU and operator.
type library map[string]*costmodel.Calibration

// newKernelStack fits the kernels of one GPU: products in BF16 and attention.
func newKernelStack(data string, g costmodel.GPU, m costmodel.Model, tp, ranks int) (*kernelStack, error) {
	if ranks > 1 {
		return nil, fmt.Errorf("data has no layers of %s on %s, and ranks that step together are not composed from kernels", m.Name, g.Name)
	}
	fits, err := fitKernels(data, g.Name, false, operators[0], operators[3], operators[4])
	if err != nil {
		return nil, err
	}
	return composeStack(libraryOf(fits), data, g, g, m, tp, "matrix bf16", reading{Cache: "bf16"})
}

func libraryOf(fits []*fitted) library {
	l := library{}
	for _, f := range fits {
		l[f.GPU+" "+f.Operator] = f.calibration
	}
	return l
}

// composeStack takes the coefficients of one GPU for the rates of another,
// which is often the same. Matrix names the products' operator.
func composeStack(l library, data string, of, g costmodel.GPU, m costmodel.Model, tp int, matrix string, by reading) (*kernelStack, error) {
	if m.MoE.Layers > 0 || m.MLA.KVRank > 0 || m.Window.Layers > 0 {
		return nil, fmt.Errorf("%s is not dense with full attention: not composed from kernels", m.Name)
	}
	cache := ""
	if by.Cache != "bf16" {
		cache = " " + by.Cache
	}
	k := &kernelStack{model: m, gpu: g, tp: tp, source: "fits to kernels/ of " + of.Name}
	for _, part := range []struct {
		operator string
		to       **costmodel.Calibration
	}{{matrix, &k.matrix}, {"matrix bf16", &k.head}, {"prefill attention" + cache, &k.prefill}, {"decode attention" + cache, &k.decode}} {
		c := l[of.Name+" "+part.operator]
		if c == nil {
			return nil, fmt.Errorf("kernels/ has no %s of %s", part.operator, of.Name)
		}
		*part.to = c.Cold() // an engine has read everything else in between
	}
	// Two norms, rotary embedding and activation. The time of a quantised
	// product includes quantising its input, which engines do in the norm or
	// activation before it: those launches are not counted twice.
	k.launches = 4
	if matrix != "matrix bf16" {
		k.launches = 1
	}
	if tp > 1 {
		var err error
		if k.reduce, err = reduceCurve(data, of, tp, by.Padded); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// reduceCurve reads the measured all-reduce of an engine's own kernel. Padded,
// it takes no longer than one of a larger message.
func reduceCurve(data string, g costmodel.GPU, gpus int, padded bool) (*costmodel.Table, error) {
	paths, err := filepath.Glob(filepath.Join(data, "kernels", "*_custom_allreduce_perf.csv.gz"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		name, _, _ := strings.Cut(filepath.Base(path), "_comm_")
		if found, err := gpuOf(name); err != nil || found.Name != g.Name {
			continue
		}
		c, err := readReduce(path, gpus)
		if err != nil {
			return nil, err
		}
		sizes, seconds := c.sorted("all-reduce")
		for i := len(seconds) - 2; i >= 0 && padded; i-- {
			seconds[i] = min(seconds[i], seconds[i+1])
		}
		return costmodel.NewTable(reduceProvenance(g, path, gpus), sizes, seconds, costmodel.LinearInterpolation, costmodel.Extend)
	}
	return nil, fmt.Errorf("kernels/ has no all-reduce of %s", g.Name)
}

func readReduce(path string, gpus int) (*curves, error) {
	c := newCurves()
	err := readCSV(path, []string{"num_gpus", "message_size", "latency", "backend"}, func(r *row) {
		if r.text("backend") == "vllm_graph" && r.count("num_gpus") == gpus {
			c.add("all-reduce", 2*r.number("message_size"), r.number("latency")*1e-3)
		}
	})
	return c, err
}

func reduceProvenance(g costmodel.GPU, path string, gpus int) costmodel.Provenance {
	return costmodel.Provenance{Platform: g.Name, Formats: "BF16", Kernels: "vLLM's all-reduce", Layout: fmt.Sprintf("%d GPUs", gpus),
		Boundary: "one collective in a CUDA graph", Source: filepath.Base(path)}
}

// elementwiseFloor is what an element-wise kernel takes at least: the measured
// 2 to 3 µs of norms, rotary embeddings and activations in layers/.
const elementwiseFloor = 2.5e-6

// stepSeconds implements stepper for one rank.
func (k *kernelStack) stepSeconds(batches []sim.Batch) float64 {
	b, m := batches[0], k.model
	n := float64(positionsOf(b))
	if n == 0 {
		return 0
	}
	heads, kv := m.Heads/k.tp, (m.KVHeads+k.tp-1)/k.tp
	hidden, inner := float64(m.Hidden), float64(m.Intermediate/k.tp)
	width, pair := float64(heads*m.HeadDim), float64(2*kv*m.HeadDim)
	layer := k.matrix.Seconds(n, width+pair, hidden) + k.matrix.Seconds(n, hidden, width) +
		k.matrix.Seconds(n, 2*inner, hidden) + k.matrix.Seconds(n, hidden, inner) +
		k.attention(b, float64(heads), float64(kv)) +
		k.launches*elementwiseFloor + 2*n*(6*hidden+2*width+pair+3*inner)/(0.8*k.gpu.Bandwidth)
	once := elementwiseFloor + 4*n*hidden/k.gpu.Bandwidth
	sampled := float64(b.Samples())
	if sampled > 0 {
		once += k.head.Seconds(sampled, float64((m.Vocab+k.tp-1)/k.tp), hidden)
	}
	if k.reduce != nil {
		bytes := 2 * n * hidden
		layer += 2 * k.reduce.Seconds(bytes)
		once += k.reduce.Seconds(bytes)
		if sampled > 0 {
			once += k.reduce.Seconds(2*sampled*float64(m.Vocab)) / 2 // logits are gathered
		}
	}
	return float64(m.Layers)*layer + once
}

// attention takes decodes and each chunk as launches of their own; cached keys
// of a chunk run at the rate of its square.
func (k *kernelStack) attention(b sim.Batch, heads, kv float64) float64 {
	dim, t := float64(k.model.HeadDim), 0.0
	if d := float64(b.Decodes); d > 0 {
		t += k.decode.Seconds(d, heads, kv, dim, float64(b.Context)/d+1, 0)
	}
	share := k.prefill.Coefficients[1].Value // compute
	for _, c := range b.Prefills {
		s, p := float64(c.Tokens), float64(c.Context)
		t += k.prefill.Seconds(1, heads, kv, dim, s, 0) + 4*heads*dim*s*p/(share*k.gpu.Rate)
	}
	return t
}
