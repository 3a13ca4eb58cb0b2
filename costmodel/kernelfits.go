package costmodel

import (
	"fmt"
	"time"
)

// kernelFits are fits of the forms to vLLM's kernels, as published with
// aiconfigurator (systems/data): to one half of the geometries, with the errors
// on the other half, which examples/validate reports. Values are in the order
// of the form's parameters.
var kernelFits = []struct {
	gpu, operator   string
	kernels, source string
	held            Accuracy
	values          []float64
}{
	{"A100-80", "matrix bf16", "vLLM", "x", Accuracy{N: 4452, MAPE: 0.099, Median: 0.078, P90: 0.000, Bias: 0.019},
		[]float64{8.26e-07, 1, 0.772, 1.2, 0.588, 1.34e-06, 0.179, 1.04e+05, 1.03, 9.27e+05, 0.763, 0.79}},
	{"A100-80", "experts bf16", "vLLM", "x", Accuracy{N: 3180, MAPE: 0.214, Median: 0.163, P90: 0.000, Bias: 0.032},
		[]float64{8.62e-05, 0.293, 1.13, 1.72, 0.82, 37.5, 1.69e-09, 0.3, 3.15e+07, 9.99, 2.07, 1.92e-12}},
	{"A100-80", "prefill attention", "vLLM", "x", Accuracy{N: 3043, MAPE: 0.087, Median: 0.051, P90: 0.000, Bias: -0.035},
		[]float64{1.07e-05, 0.588, 0.72, 1.09, 2.05e-08, 0.3, 2.78e-08, 1.52e+07, 2.54}},
	{"A100-80", "decode attention", "vLLM", "x", Accuracy{N: 2969, MAPE: 0.074, Median: 0.053, P90: 0.000, Bias: 0.016},
		[]float64{1.1e-05, 0.738, 1.89, 3.32e-08, 8.53e-10, 3.48e-07, 0.451, 2.15e-08, 6.25e-06, 4.94e+05, 1.31}},
	{"B200", "matrix bf16", "vLLM", "x", Accuracy{N: 17538, MAPE: 0.098, Median: 0.076, P90: 0.000, Bias: 0.007},
		[]float64{1.79e-06, 0.802, 0.856, 1.49, 0.814, 3.59e-08, 0.538, 9.38e+05, 1.1, 1.33e+05, 0.00312, 0.791}},
	{"B200", "matrix fp8", "vLLM", "x", Accuracy{N: 17538, MAPE: 0.260, Median: 0.174, P90: 0.000, Bias: -0.079},
		[]float64{5.83e-06, 0.714, 1.01, 1, 0.202, 7.1e-10, 1, 5.08e+07, 1.57, 1e+05, 0.986, 1.97}},
	{"B200", "matrix nvfp4", "vLLM", "x", Accuracy{N: 17538, MAPE: 0.100, Median: 0.067, P90: 0.000, Bias: 0.004},
		[]float64{6.84e-06, 0.646, 0.818, 1.04, 0.602, 5.71e-10, 1, 5.58e+07, 2.95, 1.14e+05, 0.399, 0.954}},
	{"B200", "experts bf16", "vLLM", "x", Accuracy{N: 6589, MAPE: 0.150, Median: 0.102, P90: 0.000, Bias: -0.011},
		[]float64{2.07e-05, 0.541, 0.975, 2.28, 0.445, 70.3, 1.23e-07, 0.118, 3.78e+07, 10, 1.3, 4.28e-10}},
	{"B200", "prefill attention", "vLLM", "x", Accuracy{N: 6596, MAPE: 0.107, Median: 0.075, P90: 0.000, Bias: 0.008},
		[]float64{9.94e-06, 0.648, 0.557, 1, 9.26e-09, 0.761, 1.69e-08, 1.32e+06, 1.49}},
	{"B200", "decode attention", "vLLM", "x", Accuracy{N: 8517, MAPE: 0.079, Median: 0.054, P90: 0.000, Bias: 0.004},
		[]float64{8.95e-06, 0.916, 1.27, 9.96e-09, 2.42e-10, 2.64e-08, 0.55, 1.38e-10, 1e-09, 8.41e+07, 1.95}},
	{"B200", "prefill attention fp8", "vLLM", "x", Accuracy{N: 6953, MAPE: 0.182, Median: 0.123, P90: 0.000, Bias: 0.002},
		[]float64{1.03e-05, 0.803, 0.242, 1, 1.11e-08, 0.847, 1.22e-08, 8.01e+05, 10}},
	{"B200", "decode attention fp8", "vLLM", "x", Accuracy{N: 9000, MAPE: 0.103, Median: 0.075, P90: 0.000, Bias: -0.000},
		[]float64{9.53e-06, 0.85, 1.88, 8.13e-09, 2.56e-10, 2.47e-08, 0.563, 2.22e-10, 5.85e-09, 4.17e+07, 1.36}},
	{"H100", "matrix bf16", "vLLM", "x", Accuracy{N: 17538, MAPE: 0.083, Median: 0.061, P90: 0.000, Bias: 0.005},
		[]float64{2.36e-06, 0.897, 0.862, 1.81, 0.893, 5.68e-08, 0.48, 4.88e+06, 1.11, 2.01e+07, 0.001, 0.972}},
	{"H100", "matrix fp8", "vLLM", "x", Accuracy{N: 17538, MAPE: 0.248, Median: 0.174, P90: 0.000, Bias: -0.063},
		[]float64{5.62e-06, 0.628, 1.03, 1, 0.419, 6.64e-10, 1, 1.49e+05, 1.01, 1e+05, 0.556, 0.741}},
	{"H100", "experts bf16", "vLLM", "x", Accuracy{N: 7263, MAPE: 0.115, Median: 0.076, P90: 0.000, Bias: 0.009},
		[]float64{3.8e-05, 0.657, 0.859, 1.56, 0.428, 0.0102, 1.14e-07, 0.956, 2.6e+07, 10, 1.3, 1e-12}},
	{"H100", "prefill attention", "vLLM", "x", Accuracy{N: 6953, MAPE: 0.105, Median: 0.069, P90: 0.000, Bias: -0.016},
		[]float64{1.28e-05, 0.696, 0.466, 1.06, 6.97e-09, 0.41, 4.1e-09, 3.57e+07, 1.45}},
	{"H100", "decode attention", "vLLM", "x", Accuracy{N: 8720, MAPE: 0.106, Median: 0.070, P90: 0.000, Bias: -0.009},
		[]float64{1.07e-05, 0.869, 1.23, 2.54e-08, 2.82e-10, 3.02e-07, 0.303, 1.66e-10, 1e-09, 4.1e+07, 1.55}},
	{"H100", "prefill attention fp8", "vLLM", "x", Accuracy{N: 6715, MAPE: 0.125, Median: 0.095, P90: 0.000, Bias: -0.030},
		[]float64{1.41e-05, 0.674, 0.318, 1, 1.07e-08, 0.13, 2.76e-09, 3.02e+07, 1.33}},
	{"H100", "decode attention fp8", "vLLM", "x", Accuracy{N: 8396, MAPE: 0.143, Median: 0.116, P90: 0.000, Bias: -0.002},
		[]float64{1.21e-05, 0.662, 1.44, 2.7e-08, 1.93e-10, 4.21e-07, 0.261, 2.3e-10, 1.3e-09, 1e+05, 1}},
	{"L40S", "matrix bf16", "vLLM", "x", Accuracy{N: 17519, MAPE: 0.151, Median: 0.089, P90: 0.000, Bias: 0.027},
		[]float64{1.44e-06, 0.717, 0.829, 1.44, 1, 3.24e-07, 0.275, 1.76e+07, 2.45, 7.15e+07, 0.345, 0.753}},
	{"L40S", "matrix fp8", "vLLM", "x", Accuracy{N: 17533, MAPE: 0.227, Median: 0.183, P90: 0.000, Bias: -0.012},
		[]float64{5.54e-06, 0.652, 0.768, 1.29, 0.322, 1.89e-09, 1, 1.51e+07, 10, 1.18e+05, 0.203, 0.473}},
	{"L40S", "experts bf16", "vLLM", "x", Accuracy{N: 7182, MAPE: 0.145, Median: 0.066, P90: 0.000, Bias: 0.049},
		[]float64{2.13e-05, 0.705, 0.765, 1.51, 0.593, 3.15, 1.11e-07, 1.03, 1.05e+08, 3.64, 1.3, 1.3e-09}},
	{"L40S", "prefill attention", "vLLM", "x", Accuracy{N: 6714, MAPE: 0.100, Median: 0.079, P90: 0.000, Bias: 0.006},
		[]float64{7.47e-06, 0.515, 0.784, 1.31, 1.62e-08, 0.164, 2.72e-08, 1.16e+08, 3.41}},
	{"L40S", "decode attention", "vLLM", "x", Accuracy{N: 8396, MAPE: 0.082, Median: 0.062, P90: 0.000, Bias: 0.007},
		[]float64{7.61e-06, 0.78, 1.85, 2.82e-08, 2.3e-10, 3.16e-07, 0.408, 1.52e-08, 3.42e-06, 1.08e+08, 3.64}},
	{"L40S", "prefill attention fp8", "vLLM", "x", Accuracy{N: 6702, MAPE: 0.164, Median: 0.118, P90: 0.000, Bias: -0.007},
		[]float64{9.63e-06, 0.465, 0.941, 1, 3.47e-08, 0.001, 1.65e-09, 9.52e+07, 2.63}},
	{"L40S", "decode attention fp8", "vLLM", "x", Accuracy{N: 8208, MAPE: 0.117, Median: 0.078, P90: 0.000, Bias: -0.014},
		[]float64{8.43e-06, 0.775, 1.48, 1.62e-08, 3.06e-10, 1.75e-06, 0.101, 1.42e-12, 6.64e-07, 1.05e+08, 3.38}},
	{"RTX-PRO-6000", "matrix bf16", "vLLM", "x", Accuracy{N: 17538, MAPE: 0.129, Median: 0.072, P90: 0.000, Bias: 0.031},
		[]float64{1.15e-06, 0.946, 0.875, 1.27, 0.963, 5.09e-07, 0.22, 2.08e+07, 1.54, 1.31e+08, 0.33, 0.765}},
	{"RTX-PRO-6000", "matrix fp8", "vLLM", "x", Accuracy{N: 17538, MAPE: 0.185, Median: 0.124, P90: 0.000, Bias: -0.057},
		[]float64{4.97e-06, 0.97, 1.04, 1, 0.895, 1.23e-09, 1, 2.04e+07, 2.58, 1e+05, 0.268, 0.906}},
	{"RTX-PRO-6000", "matrix nvfp4", "vLLM", "x", Accuracy{N: 17538, MAPE: 0.096, Median: 0.060, P90: 0.000, Bias: -0.003},
		[]float64{6.57e-06, 0.766, 0.539, 2.36, 0.978, 3.34e-09, 1, 1.03e+08, 1.71, 1.05e+08, 0.431, 1.02}},
	{"RTX-PRO-6000", "experts bf16", "vLLM", "x", Accuracy{N: 7101, MAPE: 0.109, Median: 0.064, P90: 0.000, Bias: -0.015},
		[]float64{1.18e-05, 0.493, 0.784, 6.91, 0.404, 79.1, 2.59e-10, 0.0401, 2.59e+05, 1.81, 1.3, 8.61e-09}},
	{"RTX-PRO-6000", "prefill attention", "vLLM", "x", Accuracy{N: 6715, MAPE: 0.080, Median: 0.049, P90: 0.000, Bias: -0.003},
		[]float64{7.91e-06, 0.672, 1.01, 1, 1.41e-08, 0.151, 1.85e-08, 1.3e+08, 2.2}},
	{"RTX-PRO-6000", "decode attention", "vLLM", "x", Accuracy{N: 8391, MAPE: 0.080, Median: 0.055, P90: 0.000, Bias: 0.004},
		[]float64{7.87e-06, 0.823, 1.8, 2.18e-08, 1.67e-10, 4.03e-07, 0.392, 1.53e-08, 3.97e-06, 1.66e+08, 1.9}},
	{"RTX-PRO-6000", "prefill attention fp8", "vLLM", "x", Accuracy{N: 6687, MAPE: 0.149, Median: 0.095, P90: 0.000, Bias: -0.007},
		[]float64{9.36e-06, 0.602, 0.964, 1, 3.89e-08, 0.001, 9.4e-10, 9.55e+07, 1.57}},
	{"RTX-PRO-6000", "decode attention fp8", "vLLM", "x", Accuracy{N: 8098, MAPE: 0.113, Median: 0.075, P90: 0.000, Bias: 0.002},
		[]float64{6.01e-06, 0.818, 1, 1.19e-08, 2.71e-10, 4.17e-06, 0.0518, 1.13e-12, 5.2e-07, 1.61e+08, 2.5}},
}

// fittedKernels returns the kernels of a GPU that were measured, by which name,
// with the rates of g, which may be another one.
func fittedKernels(of string, g GPU) *MeasuredKernels {
	m := &MeasuredKernels{
		Products: map[Number]*Calibration{}, Experts: map[Number]*Calibration{},
		Elementwise: 2500 * time.Nanosecond, // norms, rotary embeddings and activations take 2 to 3 µs
	}
	forms := map[string]struct {
		form    Form
		formats string
		set     func(*Calibration)
	}{
		"matrix bf16":           {MatrixForm(g, g.Rate, 2, 2), "BF16", func(c *Calibration) { m.Products[BF16] = c }},
		"matrix fp8":            {MatrixForm(g, g.FP8, 1, 2), "FP8 weights", func(c *Calibration) { m.Products[FP8] = c }},
		"matrix nvfp4":          {MatrixForm(g, g.FP4, nvfp4.BytesPerValue(), 2), "NVFP4 weights", func(c *Calibration) { m.Products[FP4] = c }},
		"experts bf16":          {ExpertsForm(g), "BF16", func(c *Calibration) { m.Experts[BF16] = c }},
		"prefill attention":     {PrefillForm(g, 2), "BF16", func(c *Calibration) { m.Attention.Prefill = c }},
		"decode attention":      {DecodeForm(g, 2), "BF16", func(c *Calibration) { m.Attention.Decode = c }},
		"prefill attention fp8": {PrefillForm(g, 1), "FP8 cache", func(c *Calibration) { m.NarrowAttention.Prefill = c }},
		"decode attention fp8":  {DecodeForm(g, 1), "FP8 cache", func(c *Calibration) { m.NarrowAttention.Decode = c }},
	}
	for _, f := range kernelFits {
		if f.gpu != of {
			continue
		}
		part := forms[f.operator]
		c, err := NewCalibration(part.form, f.values, Provenance{Platform: of, Formats: part.formats, Kernels: f.kernels, Layout: "one GPU",
			Boundary: "one kernel in a CUDA graph, repeated", Source: f.source})
		if err != nil {
			panic(fmt.Sprintf("%v: %s of %s", err, f.operator, of)) // a wrong table, which every test sees
		}
		c.Held = f.held
		part.set(c)
	}
	return m
}
