package main

import (
	"fmt"
	"maps"
	"slices"
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

// formats are the names of precisions in those of operators, in the order in
// which one stands for others that compute alike.
var formats = []string{"bf16", "fp8", "fp8_block", "nvfp4", "int4_wo", "w4a16_mxfp4", "w4a8_mxfp4_mxfp8"}

// kernels returns all fits of a GPU.
func (l library) kernels(g costmodel.GPU) *costmodel.MeasuredKernels {
	of := func(operator string) *costmodel.Calibration { return l[g.Name+" "+operator] }
	m := &costmodel.MeasuredKernels{
		Products: map[costmodel.Precision]*costmodel.Calibration{}, Experts: map[costmodel.Precision]*costmodel.Calibration{},
		Attention: costmodel.AttentionKernels{Prefill: of("prefill attention"), Decode: of("decode attention"),
			WindowPrefill: of("prefill attention window"), WindowDecode: of("decode attention window")},
		NarrowAttention: costmodel.AttentionKernels{Prefill: of("prefill attention fp8"), Decode: of("decode attention fp8")},
		Elementwise:     elementwiseFloor,
	}
	for _, name := range formats {
		if c := of("matrix " + name); c != nil {
			m.Products[precision(name)] = c
		}
		if c := of("experts " + name); c != nil {
			m.Experts[precision(name)] = c
		}
	}
	return m
}

// needed are the operators that a model is composed of, without which it is
// refused: for products and experts of a precision the one of that name, or else
// one that computes alike.
func needed(m costmodel.Model, has func(operator string) bool) ([]string, error) {
	if m.MLA.KVRank > 0 {
		return nil, fmt.Errorf("%s has latent attention, of which kernels/ has no measurements", m.Name)
	}
	list := []string{"matrix bf16"}
	add := func(kind string, p costmodel.Precision) error {
		found := ""
		for _, name := range formats {
			if q := precision(name); has(kind+name) && (q == p || found == "" && q.Compute == p.Compute) {
				found = kind + name
			}
		}
		if found == "" {
			return fmt.Errorf("kernels/ has no %s%v", kind, p)
		}
		if !slices.Contains(list, found) {
			list = append(list, found)
		}
		return nil
	}
	if err := add("matrix ", m.Precision); err != nil {
		return nil, err
	}
	if m.MoE.Layers > 0 {
		if err := add("experts ", m.MoE.Precision); err != nil {
			return nil, err
		}
	}
	attention := ""
	if m.KV.BytesPerValue() < 2 {
		attention = " fp8"
	}
	if m.Layers > m.Window.Layers {
		list = append(list, "prefill attention"+attention, "decode attention"+attention)
	}
	if m.Window.Layers > 0 {
		list = append(list, "prefill attention window", "decode attention window")
	}
	for _, name := range list {
		if !has(name) {
			return nil, fmt.Errorf("kernels/ has no %s", name)
		}
	}
	return list, nil
}

// newKernelStack fits the kernels of one GPU that a model needs, from the data
// or else from the catalogue.
func newKernelStack(data string, s costmodel.Setup, reduce reduction) (*kernelStack, error) {
	here := map[string]bool{}
	for _, op := range operators {
		files, err := kernelFiles(data, s.GPU.Name, op)
		if err != nil {
			return nil, err
		}
		here[op.name] = len(files) > 0
	}
	if !slices.Contains(slices.Collect(maps.Values(here)), true) {
		return catalogueStack(data, s, reduce)
	}
	names, err := needed(s.Model, func(name string) bool { return here[name] })
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
	return compose(libraryOf(fits), data, s, reduce)
}

// catalogueStack takes the catalogue's fits, for a GPU that data has no kernels
// of. The catalogue's all-reduce is the engine's own: one of NCCL has to be
// measured, on this GPU or on the one whose kernels it borrows if both have the
// same link.
func catalogueStack(data string, s costmodel.Setup, reduce reduction) (*kernelStack, error) {
	var err error
	if s.Efficiency, err = costmodel.FittedEfficiency(s.GPU.Name); err != nil {
		return nil, fmt.Errorf("data has neither layers/ nor kernels/ of %s: %w", s.GPU.Name, err)
	}
	s.Efficiency.Host = costmodel.HostTime{} // a run's own is fitted
	if n := s.TensorParallel; reduce == ncclReduce && n > 1 {
		curve, err := ncclReduceCurve(data, s.GPU, n)
		if lender, ok := lender(s); err != nil && ok {
			curve, err = ncclReduceCurve(data, lender, n)
		}
		if err != nil {
			return nil, fmt.Errorf("disable_custom_all_reduce is true: %w", err)
		}
		s.Efficiency.AllReduce.Curve = curve
	}
	t, err := costmodel.NewTransformer(s)
	if err != nil {
		return nil, err
	}
	return &kernelStack{t, "the catalogue's fits to kernels of " + s.GPU.Name}, nil
}

// lender returns the GPU whose kernels the catalogue takes for that of a set-up,
// if their links are alike.
func lender(s costmodel.Setup) (costmodel.GPU, bool) {
	g, err := costmodel.LookupGPU(s.Efficiency.Measured.Products[costmodel.Precision{}].From.Platform)
	return g, err == nil && g.Link == s.GPU.Link
}

// composeStack completes a set-up with the fits to kernels of its GPU. Padded,
// an all-reduce takes no longer than one of a larger message.
func composeStack(l library, data string, s costmodel.Setup, padded bool) (*kernelStack, error) {
	reduce := ownReduce
	if padded {
		reduce = paddedReduce
	}
	return compose(l, data, s, reduce)
}

// compose completes a set-up for one kind of all-reduce.
func compose(l library, data string, s costmodel.Setup, reduce reduction) (*kernelStack, error) {
	if _, err := needed(s.Model, func(name string) bool { return l[s.GPU.Name+" "+name] != nil }); err != nil {
		return nil, fmt.Errorf("%w of %s", err, s.GPU.Name)
	}
	e := &s.Efficiency
	e.Measured = l.kernels(s.GPU)
	if known, err := costmodel.FittedEfficiency(s.GPU.Name); err == nil {
		e.Measured.Mixed = known.Measured.Mixed // kernels/ has no steps with prompts and decodes
	}
	e.Elementwise = costmodel.Kernel{Memory: 0.8}
	if n := s.TensorParallel; n > 1 {
		curve, err := reduce.curve(data, s.GPU, n)
		if err != nil {
			return nil, err
		}
		e.Measured.AllReduce = map[int]costmodel.Curve{n: curve}
	}
	if n := s.DataParallel; n > 1 {
		curve, err := gatherCurve(data, s.GPU, n)
		if err != nil {
			return nil, err
		}
		e.Measured.Gather = map[int]costmodel.Curve{n: curve}
	}
	t, err := costmodel.NewTransformer(s)
	if err != nil {
		return nil, err
	}
	return &kernelStack{t, "fits to kernels/ of " + s.GPU.Name}, nil
}

// elementwiseFloor is what an element-wise kernel takes at least: the measured
// 2 to 3 µs of norms, rotary embeddings and activations in layers/.
const elementwiseFloor = 2500 * time.Nanosecond
