package costmodel

import (
	"fmt"
	"strings"
	"time"
)

// kernelFits are fits of the forms to vLLM's kernels, as published with
// aiconfigurator (systems/data): to one half of the geometries, with the errors
// on the other half. Operators are named, and fitted, as in examples/validate;
// values are in the order of the form's parameters.
var kernelFits = []struct {
	gpu, operator   string
	kernels, source string
	held            Accuracy
	values          []float64
}{
}

// ringFits are fits of RingForm to vLLM's all-reduce and of GatherForm to
// gathering and scattering with NCCL, on so many GPUs of a node: to every second
// size, with the mean error on the sizes between.
var ringFits = []struct {
	gpu, operator string
	gpus          int
	switchover    float64 // bytes
	held          float64
	values        []float64
}{
}

// fittedKernels returns the kernels that were measured on the GPU of one name
// with the rates of g, which may be another one.
func fittedKernels(of string, g GPU) *MeasuredKernels {
	m := &MeasuredKernels{
		Products: map[Precision]*Calibration{}, Experts: map[Precision]*Calibration{},
		AllReduce: map[int]Curve{}, Gather: map[int]Curve{},
		Elementwise: 2500 * time.Nanosecond, // norms, rotary embeddings and activations take 2 to 3 µs
	}
	wide, narrow := &m.Attention, &m.NarrowAttention
	attention := map[string]struct {
		form Form
		to   **Calibration
	}{
		"prefill attention":        {PrefillForm(g, 2), &wide.Prefill},
		"decode attention":         {DecodeForm(g, 2), &wide.Decode},
		"prefill attention window": {PrefillForm(g, 2), &wide.WindowPrefill},
		"decode attention window":  {DecodeForm(g, 2), &wide.WindowDecode},
		"prefill attention fp8":    {PrefillForm(g, 1), &narrow.Prefill},
		"decode attention fp8":     {DecodeForm(g, 1), &narrow.Decode},
	}
	for _, f := range kernelFits {
		if f.gpu != of {
			continue
		}
		kind, format, _ := strings.Cut(f.operator, " ")
		precision := Precision{}
		if format != "bf16" && kind != "decode" && kind != "prefill" {
			precision = mustPrecision(format)
		}
		from := Provenance{Platform: of, Formats: format, Kernels: f.kernels, Layout: "one GPU",
			Boundary: "one kernel in a CUDA graph, repeated", Source: f.source}
		switch kind {
		case "matrix":
			m.Products[precision] = mustCalibration(MatrixForm(g, precision), f.values, from, f.held)
		case "experts":
			m.Experts[precision] = mustCalibration(ExpertsForm(g, precision), f.values, from, f.held)
		default:
			a := attention[f.operator]
			*a.to = mustCalibration(a.form, f.values, from, f.held)
		}
	}
	measured, err := LookupGPU(of)
	if err != nil {
		panic(err)
	}
	for _, f := range ringFits {
		if f.gpu != of || g.Link != measured.Link {
			continue
		}
		if f.operator == "gather" {
			m.Gather[f.gpus] = ring{ringFormula{float64(f.gpus), f.switchover, 1}, f.values}
		} else {
			m.AllReduce[f.gpus] = ring{ringFormula{float64(f.gpus), f.switchover, 2}, f.values}
		}
	}
	return m
}

// mustPrecision and mustCalibration are for the tables of this file, where an
// error is one of the program.
func mustPrecision(name string) Precision {
	p, err := LookupPrecision(name)
	if err != nil {
		panic(err)
	}
	return p
}

func mustCalibration(form Form, values []float64, from Provenance, held Accuracy) *Calibration {
	c, err := NewCalibration(form, values, from)
	if err != nil {
		panic(fmt.Sprintf("%v (%s)", err, from))
	}
	c.Held = held
	return c
}
