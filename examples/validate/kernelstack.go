package main

import (
	"fmt"
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
	if n := s.TensorParallel; n > 1 {
		curve, err := reduceCurve(data, s.GPU, n, padded)
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
