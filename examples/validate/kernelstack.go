package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"servesim/costmodel"
	"servesim/sim"
)

// kernelStack is a model on a GPU whose kernels were fitted: a
// costmodel.Transformer with them, and with the measured all-reduce.
type kernelStack struct {
	*costmodel.Transformer
	source string
}

// stepSeconds implements stepper.
func (k *kernelStack) stepSeconds(batches []sim.Batch) float64 {
	return k.GroupTime(batches).Seconds()
}

// library holds what was fitted to kernels, by GPU and operator.
type library map[string]*costmodel.Calibration

func libraryOf(fits []*fitted) library {
	l := library{}
	for _, f := range fits {
		l[f.GPU+" "+f.Operator] = f.calibration
	}
	return l
}

// The names of operators by the numbers of products and of experts.
var (
	matrixNames  = map[costmodel.Number]string{costmodel.BF16: "matrix bf16", costmodel.FP8: "matrix fp8", costmodel.FP4: "matrix nvfp4"}
	expertsNames = map[costmodel.Number]string{costmodel.BF16: "experts bf16"}
)

// kernels returns all fits of a GPU.
func (l library) kernels(g costmodel.GPU) *costmodel.MeasuredKernels {
	of := func(operator string) *costmodel.Calibration { return l[g.Name+" "+operator] }
	m := &costmodel.MeasuredKernels{
		Products: map[costmodel.Number]*costmodel.Calibration{}, Experts: map[costmodel.Number]*costmodel.Calibration{},
		Attention:       costmodel.AttentionKernels{Prefill: of("prefill attention"), Decode: of("decode attention")},
		NarrowAttention: costmodel.AttentionKernels{Prefill: of("prefill attention fp8"), Decode: of("decode attention fp8")},
		Elementwise:     elementwiseFloor,
	}
	for n, operator := range matrixNames {
		m.Products[n] = of(operator)
	}
	for n, operator := range expertsNames {
		m.Experts[n] = of(operator)
	}
	return m
}

// needed are the operators that a model is composed of, without which it is
// refused.
func needed(m costmodel.Model) ([]string, error) {
	if m.MLA.KVRank > 0 {
		return nil, fmt.Errorf("%s has latent attention, of which kernels/ has no measurements", m.Name)
	}
	suffix := ""
	if m.KV.BytesPerValue() < 2 {
		suffix = " fp8"
	}
	list := []string{"matrix bf16", "prefill attention" + suffix, "decode attention" + suffix}
	for _, part := range []struct {
		number costmodel.Number
		names  map[costmodel.Number]string
		there  bool
	}{{m.Precision.Compute, matrixNames, true}, {m.MoE.Precision.Compute, expertsNames, m.MoE.Layers > 0}} {
		if !part.there {
			continue
		}
		name, ok := part.names[part.number]
		if !ok {
			return nil, fmt.Errorf("%s computes in %v, which no operator of the report does", m.Name, part.number)
		}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list, nil
}

// newKernelStack fits the kernels of one GPU that a model needs, from the data
// or else from the catalogue.
func newKernelStack(data string, s costmodel.Setup) (*kernelStack, error) {
	names, err := needed(s.Model)
	if err != nil {
		return nil, err
	}
	var some []operator
	for _, op := range operators {
		if slices.Contains(names, op.name) {
			some = append(some, op)
		}
	}
	fits, err := fitKernels(data, s.GPU.Name, false, some...)
	if err != nil {
		return nil, err
	}
	if len(fits) == 0 {
		return catalogueStack(s)
	}
	return composeStack(libraryOf(fits), data, s, false)
}

// catalogueStack takes the catalogue's fits, for a GPU that data has no kernels
// of.
func catalogueStack(s costmodel.Setup) (*kernelStack, error) {
	var err error
	if s.Efficiency, err = costmodel.FittedEfficiency(s.GPU.Name); err != nil {
		return nil, fmt.Errorf("data has neither layers/ nor kernels/ of %s: %w", s.GPU.Name, err)
	}
	s.Efficiency.Host = costmodel.HostTime{} // a run's own is fitted
	t, err := costmodel.NewTransformer(s)
	if err != nil {
		return nil, err
	}
	return &kernelStack{t, "the catalogue's fits to kernels of " + s.GPU.Name}, nil
}

// composeStack completes a set-up with the fits to kernels of its GPU. Padded,
// an all-reduce takes no longer than one of a larger message.
func composeStack(l library, data string, s costmodel.Setup, padded bool) (*kernelStack, error) {
	names, err := needed(s.Model)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if l[s.GPU.Name+" "+name] == nil {
			return nil, fmt.Errorf("kernels/ has no %s of %s", name, s.GPU.Name)
		}
	}
	e := &s.Efficiency
	e.Measured = l.kernels(s.GPU)
	e.Elementwise = costmodel.Kernel{Memory: 0.8}
	e.Measured.AllReduce = map[int]costmodel.Curve{}
	for _, gpus := range []int{s.TensorParallel, s.DataParallel} {
		if gpus > 1 {
			if e.Measured.AllReduce[gpus], err = reduceCurve(data, s.GPU, gpus, padded); err != nil {
				return nil, err
			}
		}
	}
	t, err := costmodel.NewTransformer(s)
	if err != nil {
		return nil, err
	}
	return &kernelStack{t, "fits to kernels/ of " + s.GPU.Name}, nil
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
const elementwiseFloor = 2500 * time.Nanosecond
