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
//
// Experts on A100 are of vLLM 0.14, which takes other tiles than the rule of
// [RoutedExperts.Tile], and tuned ones for some shapes, of Mixtral among them,
// that are up to 1.9 times as fast. FP8 experts on H100 are slower than BF16 in
// the measurements, unless they have scales for blocks.
var kernelFits = []struct {
	gpu, operator   string
	kernels, source string
	held            Accuracy
	values          []float64
}{
	{
		"A100-80", "matrix bf16", "vLLM 0.14.0", "a100_sxm_gemm_vllm_0.14.0_bfloat16.csv.gz",
		Accuracy{N: 4452, MAPE: 0.085, Median: 0.065, P90: 0.180, Bias: -0.001},
		[]float64{2.686e-06, 0.8969, 0.7581, 2.417, 0.7067, 1.449e+07, 1.135, 2.413e+07, 0.2845, 1.026e-08, 349.9},
	},
	{
		"A100-80", "prefill attention", "vLLM 0.14.0", "a100_sxm_attention_vllm_0.14.0_context_attention_perf.csv.gz",
		Accuracy{N: 3043, MAPE: 0.081, Median: 0.046, P90: 0.198, Bias: -0.020},
		[]float64{1.055e-05, 0.5968, 0.9569, 1.817e-08, 2.772e-08, 2.557e-08, 2.464e-09, 0.3986, 1.837e+07, 3.692, 1, 1, 1, 1},
	},
	{
		"A100-80", "decode attention", "vLLM 0.14.0", "a100_sxm_attention_vllm_0.14.0_generation_attention_perf.csv.gz",
		Accuracy{N: 2969, MAPE: 0.073, Median: 0.051, P90: 0.166, Bias: 0.015},
		[]float64{1.116e-05, 0.7429, 9.99e-10, 3.273e-08, 0.1054, 7.893e-10, 2.294e-07, 2.156e-08, 6.227e-06, 3.825e+06, 10, 1, 1, 1, 1},
	},
	{
		"A100-80", "experts bf16", "vLLM 0.14.0", "a100_sxm_moe_vllm_0.14.0_bfloat16.csv.gz",
		Accuracy{N: 3180, MAPE: 0.116, Median: 0.077, P90: 0.252, Bias: 0.026},
		[]float64{3.703e-05, 0.3369, 0.8474, 1.842, 0.5737, 0.9202, 2.837e+07, 10, 1.878, 1.465e-08, 1.181},
	},
	{
		"B200", "matrix bf16", "vLLM 0.24.0", "b200_sxm_gemm_vllm_0.24.0_bfloat16.csv.gz",
		Accuracy{N: 17538, MAPE: 0.083, Median: 0.065, P90: 0.181, Bias: -0.004},
		[]float64{2.006e-06, 0.7782, 0.906, 2.204, 1.315, 1.256e+07, 1.094, 1.384e+08, 0.05933, 1.073e-09, 5674},
	},
	{
		"B200", "matrix fp8", "vLLM 0.24.0", "b200_sxm_gemm_vllm_0.24.0_fp8.csv.gz",
		Accuracy{N: 17538, MAPE: 0.108, Median: 0.054, P90: 0.222, Bias: -0.017},
		[]float64{5.57e-06, 0.8475, 0.8401, 1.624, 0.5545, 1.618e+07, 2.656, 3.293e+06, 0.1274, 6.257e-10, 1488, 0.1759, 6.199e-09},
	},
	{
		"B200", "matrix nvfp4", "vLLM 0.24.0", "b200_sxm_gemm_vllm_0.24.0_nvfp4.csv.gz",
		Accuracy{N: 17538, MAPE: 0.068, Median: 0.048, P90: 0.151, Bias: -0.006},
		[]float64{6.697e-06, 0.6015, 0.7707, 2.949, 0.8281, 2.544e+06, 1.356, 8.373e+07, 0.8363, 5.913e-10, 6.467e+04, 0.8502, 7.114e-10},
	},
	{
		"B200", "prefill attention", "vLLM 0.24.0", "b200_sxm_attention_vllm_0.24.0_context_attention_perf.csv.gz",
		Accuracy{N: 6596, MAPE: 0.082, Median: 0.057, P90: 0.180, Bias: 0.001},
		[]float64{1.005e-05, 0.6646, 1.2, 7.793e-09, 1.864e-08, 8.676e-09, 1.462e-10, 0.2147, 2.007e+07, 1, 1.799, 1, 0.8846, 1.625},
	},
	{
		"B200", "decode attention", "vLLM 0.24.0", "b200_sxm_attention_vllm_0.24.0_generation_attention_perf.csv.gz",
		Accuracy{N: 8517, MAPE: 0.072, Median: 0.050, P90: 0.166, Bias: 0.008},
		[]float64{8.015e-06, 0.9041, 6.887e-09, 9.887e-09, 0.06693, 2.539e-10, 5.25e-08, 2.149e-10, 9.385e-08, 8.341e+07, 1.866, 1.019, 1, 0.9964, 1.069},
	},
	{
		"B200", "prefill attention fp8", "vLLM 0.24.0", "b200_sxm_attention_vllm_0.24.0_context_attention_perf.csv.gz",
		Accuracy{N: 6953, MAPE: 0.103, Median: 0.070, P90: 0.234, Bias: -0.005},
		[]float64{1.029e-05, 0.7863, 1.192, 7.8e-09, 1.621e-08, 7.551e-09, 2.169e-11, 0.03677, 6.885e+05, 1.429, 1.885, 28.7, 0.7637, 0.9498},
	},
	{
		"B200", "decode attention fp8", "vLLM 0.24.0", "b200_sxm_attention_vllm_0.24.0_generation_attention_perf.csv.gz",
		Accuracy{N: 9000, MAPE: 0.084, Median: 0.063, P90: 0.171, Bias: 0.002},
		[]float64{8.667e-06, 0.8887, 4.815e-09, 7.981e-09, 0.2024, 2.553e-10, 4.835e-08, 4.225e-11, 3.892e-08, 9.464e+07, 1.224, 1.092, 5.136, 0.988, 1.005},
	},
	{
		"B200", "prefill attention window", "vLLM 0.24.0", "b200_sxm_attention_vllm_0.24.0_context_attention_perf.csv.gz",
		Accuracy{N: 5882, MAPE: 0.094, Median: 0.070, P90: 0.204, Bias: 0.002},
		[]float64{9.778e-06, 0.8011, 0.8329, 1.064e-08, 1.868e-08, 8.35e-09, 9.689e-11, 0.1881, 4.985e+06, 1.064, 2.242, 1, 1.301, 1},
	},
	{
		"B200", "decode attention window", "vLLM 0.24.0", "b200_sxm_attention_vllm_0.24.0_generation_attention_perf.csv.gz",
		Accuracy{N: 7241, MAPE: 0.065, Median: 0.049, P90: 0.139, Bias: 0.006},
		[]float64{8.05e-06, 0.9703, 8.764e-09, 8.463e-09, 0.3693, 2.944e-10, 3.117e-08, 1.14e-12, 1.001e-09, 7.731e+07, 1.397, 0.4, 1, 1.023, 1},
	},
	{
		"B200", "experts bf16", "vLLM 0.24.0", "b200_sxm_moe_vllm_0.24.0_bfloat16.csv.gz",
		Accuracy{N: 6589, MAPE: 0.139, Median: 0.087, P90: 0.361, Bias: -0.030},
		[]float64{2.096e-05, 0.588, 0.9457, 2.203, 0.3425, 0.07948, 7.141e+07, 10, 1.3, 1.464e-09, 0.8503},
	},
	{
		"B200", "experts fp8", "vLLM 0.24.0", "b200_sxm_moe_vllm_0.24.0_fp8.csv.gz",
		Accuracy{N: 5646, MAPE: 0.132, Median: 0.075, P90: 0.355, Bias: 0.000},
		[]float64{2.442e-05, 0.6525, 0.9385, 1.976, 0.3252, 0.1246, 7.46e+07, 9.999, 1.3, 1e-12, 1.5},
	},
	{
		"B200", "experts fp8_block", "vLLM 0.24.0", "b200_sxm_moe_vllm_0.24.0_fp8_block.csv.gz",
		Accuracy{N: 7857, MAPE: 0.124, Median: 0.089, P90: 0.286, Bias: -0.003},
		[]float64{2.253e-05, 0.2466, 0.9411, 1.684, 0.2522, 0.5418, 4.148e+07, 9.999, 1.3, 4.266e-09, 0.4763},
	},
	{
		"B200", "experts nvfp4", "vLLM 0.24.0", "b200_sxm_moe_vllm_0.24.0_nvfp4.csv.gz",
		Accuracy{N: 8100, MAPE: 0.175, Median: 0.114, P90: 0.450, Bias: -0.056},
		[]float64{1.969e-05, 1, 0.8922, 1.196, 0.2675, 0.1371, 2.635e+06, 9.999, 1.3, 1.688e-09, 1.175},
	},
	{
		"B200", "experts int4_wo", "vLLM 0.24.0", "b200_sxm_moe_vllm_0.24.0_int4_wo.csv.gz",
		Accuracy{N: 648, MAPE: 0.238, Median: 0.181, P90: 0.454, Bias: 0.028},
		[]float64{4.584e-05, 0.2372, 0.4381, 12, 0.0998, 0.3, 8.532e+07, 10, 1.3, 1.614e-08, 1.106},
	},
	{
		"B200", "experts w4a16_mxfp4", "vLLM 0.24.0", "b200_sxm_moe_vllm_0.24.0_w4a16_mxfp4.csv.gz",
		Accuracy{N: 1296, MAPE: 0.191, Median: 0.156, P90: 0.391, Bias: 0.129},
		[]float64{2.174e-05, 0.5589, 0.3997, 1.691, 0.1354, 0.3, 2.597e+07, 3.805, 1.3, 2.784e-09, 1.106},
	},
	{
		"B200", "experts w4a8_mxfp4_mxfp8", "vLLM 0.24.0", "b200_sxm_moe_vllm_0.24.0_w4a8_mxfp4_mxfp8.csv.gz",
		Accuracy{N: 972, MAPE: 0.167, Median: 0.125, P90: 0.356, Bias: -0.034},
		[]float64{3.191e-05, 1, 0.8624, 1, 0.244, 0.1421, 7.173e+07, 10, 1.3, 1e-12, 1.5},
	},
	{
		"H100", "matrix bf16", "vLLM 0.24.0", "h100_sxm_gemm_vllm_0.24.0_bfloat16.csv.gz",
		Accuracy{N: 17538, MAPE: 0.070, Median: 0.049, P90: 0.155, Bias: -0.012},
		[]float64{2.58e-06, 0.867, 0.9288, 2.882, 1.269, 5.95e+06, 1.336, 2.809e+07, 0.001, 1.285e-09, 3100},
	},
	{
		"H100", "matrix fp8", "vLLM 0.24.0", "h100_sxm_gemm_vllm_0.24.0_fp8.csv.gz",
		Accuracy{N: 17538, MAPE: 0.085, Median: 0.060, P90: 0.192, Bias: -0.007},
		[]float64{5.089e-06, 0.6367, 0.7994, 3.104, 20, 6.304e+06, 2.897, 1e+06, 0.755, 6.049e-10, 77.54, 0.4364, 6.823e-09},
	},
	{
		"H100", "prefill attention", "vLLM 0.24.0", "h100_sxm_attention_vllm_0.24.0_context_attention_perf.csv.gz",
		Accuracy{N: 6953, MAPE: 0.093, Median: 0.069, P90: 0.212, Bias: -0.010},
		[]float64{1.273e-05, 0.7243, 0.5412, 5.114e-09, 3.03e-09, 1.717e-08, 1.005e-12, 0.3151, 2.558e+07, 1.903, 1.394, 0.824, 0.7957, 1.746},
	},
	{
		"H100", "decode attention", "vLLM 0.24.0", "h100_sxm_attention_vllm_0.24.0_generation_attention_perf.csv.gz",
		Accuracy{N: 8720, MAPE: 0.082, Median: 0.046, P90: 0.179, Bias: -0.006},
		[]float64{9.049e-06, 0.9034, 1.623e-08, 2.364e-08, 0.7013, 1.385e-10, 6.573e-08, 2.568e-10, 1.003e-09, 4.068e+07, 1.599, 0.9859, 1.042, 1.033, 1.394},
	},
	{
		"H100", "prefill attention fp8", "vLLM 0.24.0", "h100_sxm_attention_vllm_0.24.0_context_attention_perf.csv.gz",
		Accuracy{N: 6715, MAPE: 0.103, Median: 0.074, P90: 0.232, Bias: -0.008},
		[]float64{1.372e-05, 0.7036, 0.3538, 8.608e-09, 1.213e-09, 1.437e-08, 3.152e-10, 0.1016, 3.528e+07, 1.408, 1.174, 1.015, 1.359, 1},
	},
	{
		"H100", "decode attention fp8", "vLLM 0.24.0", "h100_sxm_attention_vllm_0.24.0_generation_attention_perf.csv.gz",
		Accuracy{N: 8396, MAPE: 0.077, Median: 0.050, P90: 0.185, Bias: 0.005},
		[]float64{8.993e-06, 0.8012, 2.856e-08, 2.367e-08, 1, 1.076e-12, 6.925e-08, 1.503e-12, 1e-09, 2.622e+06, 9.973, 1.101, 1.45, 1.86, 1},
	},
	{
		"H100", "prefill attention window", "vLLM 0.24.0", "h100_sxm_attention_vllm_0.24.0_context_attention_perf.csv.gz",
		Accuracy{N: 6120, MAPE: 0.111, Median: 0.078, P90: 0.251, Bias: 0.003},
		[]float64{1.233e-05, 0.6823, 0.5126, 1.189e-08, 2.39e-09, 1.769e-08, 1.001e-12, 0.3237, 2.279e+07, 1.971, 2.48, 0.4, 1.088, 1},
	},
	{
		"H100", "decode attention window", "vLLM 0.24.0", "h100_sxm_attention_vllm_0.24.0_generation_attention_perf.csv.gz",
		Accuracy{N: 7584, MAPE: 0.109, Median: 0.070, P90: 0.233, Bias: 0.029},
		[]float64{9.921e-06, 0.9549, 3.523e-09, 2.442e-08, 0.787, 5.975e-11, 3.16e-07, 1.43e-09, 1.796e-09, 1.768e+07, 1.992, 2.296, 1.441, 1.135, 1},
	},
	{
		"H100", "experts bf16", "vLLM 0.24.0", "h100_sxm_moe_vllm_0.24.0_bfloat16.csv.gz",
		Accuracy{N: 7263, MAPE: 0.096, Median: 0.058, P90: 0.218, Bias: -0.009},
		[]float64{3.321e-05, 0.8733, 0.9198, 1.43, 0.3998, 0.6894, 2.853e+07, 10, 1.3, 6.256e-09, 0.9494},
	},
	{
		"H100", "experts fp8", "vLLM 0.24.0", "h100_sxm_moe_vllm_0.24.0_fp8.csv.gz",
		Accuracy{N: 6156, MAPE: 0.158, Median: 0.106, P90: 0.366, Bias: 0.004},
		[]float64{3.797e-05, 0.1685, 0.1676, 2.708, 0.1196, 0.0136, 6.999e+06, 9.988, 1.3, 1.752e-10, 1.088},
	},
	{
		"H100", "experts fp8_block", "vLLM 0.24.0", "h100_sxm_moe_vllm_0.24.0_fp8_block.csv.gz",
		Accuracy{N: 7857, MAPE: 0.104, Median: 0.063, P90: 0.241, Bias: -0.010},
		[]float64{3.379e-05, 0.3934, 0.8718, 2.466, 0.2378, 0.0769, 3.822e+07, 10, 1.3, 1e-12, 0.157},
	},
	{
		"H100", "experts int4_wo", "vLLM 0.24.0", "h100_sxm_moe_vllm_0.24.0_int4_wo.csv.gz",
		Accuracy{N: 648, MAPE: 0.221, Median: 0.155, P90: 0.422, Bias: 0.027},
		[]float64{4.316e-05, 0.4641, 0.7363, 12, 0.2096, 0.3, 4.131e+07, 10, 1.3, 1.995e-08, 1.5},
	},
	{
		"H100", "experts w4a16_mxfp4", "vLLM 0.24.0", "h100_sxm_moe_vllm_0.24.0_w4a16_mxfp4.csv.gz",
		Accuracy{N: 1296, MAPE: 0.233, Median: 0.181, P90: 0.498, Bias: -0.121},
		[]float64{3.629e-05, 0.7969, 0.7607, 1, 0.404, 0.3, 1e+05, 1.004, 1.3, 1e-12, 1.495},
	},
	{
		"L40S", "matrix bf16", "vLLM 0.24.0", "l40s_gemm_vllm_0.24.0_bfloat16.csv.gz",
		Accuracy{N: 17519, MAPE: 0.108, Median: 0.074, P90: 0.229, Bias: -0.012},
		[]float64{1.915e-06, 0.6734, 0.7994, 2.703, 1.057, 1.695e+07, 3.705, 9.163e+07, 0.2394, 4.797e-09, 598.8},
	},
	{
		"L40S", "matrix fp8", "vLLM 0.24.0", "l40s_gemm_vllm_0.24.0_fp8.csv.gz",
		Accuracy{N: 17533, MAPE: 0.123, Median: 0.093, P90: 0.258, Bias: -0.003},
		[]float64{4.956e-06, 0.6428, 0.7089, 6.943, 0.4481, 1.889e+07, 6.415, 1.255e+06, 0.3957, 9.594e-10, 44.23, 1.132, 5.405e-09},
	},
	{
		"L40S", "prefill attention", "vLLM 0.24.0", "l40s_attention_vllm_0.24.0_context_attention_perf.csv.gz",
		Accuracy{N: 6714, MAPE: 0.102, Median: 0.078, P90: 0.224, Bias: 0.007},
		[]float64{7.432e-06, 0.5686, 1.13, 1.144e-08, 2.538e-08, 2.549e-08, 7.533e-10, 0.8911, 9.329e+07, 9.698, 1.199, 0.9723, 0.9953, 1},
	},
	{
		"L40S", "decode attention", "vLLM 0.24.0", "l40s_attention_vllm_0.24.0_generation_attention_perf.csv.gz",
		Accuracy{N: 8396, MAPE: 0.084, Median: 0.062, P90: 0.173, Bias: 0.009},
		[]float64{7.703e-06, 0.7804, 2.473e-09, 2.757e-08, 0.1598, 1.824e-10, 1.407e-07, 1.442e-08, 3.451e-06, 1.08e+08, 3.644, 0.9773, 0.9773, 1.034, 1},
	},
	{
		"L40S", "prefill attention fp8", "vLLM 0.24.0", "l40s_attention_vllm_0.24.0_context_attention_perf.csv.gz",
		Accuracy{N: 6702, MAPE: 0.121, Median: 0.083, P90: 0.259, Bias: -0.004},
		[]float64{8.597e-06, 0.4705, 1.2, 2.927e-08, 1.032e-11, 1.301e-08, 7.488e-10, 0.3871, 8.792e+07, 3.481, 1.008, 2.063, 1.402, 1},
	},
	{
		"L40S", "decode attention fp8", "vLLM 0.24.0", "l40s_attention_vllm_0.24.0_generation_attention_perf.csv.gz",
		Accuracy{N: 8208, MAPE: 0.112, Median: 0.073, P90: 0.291, Bias: -0.013},
		[]float64{9.428e-06, 0.7825, 7.602e-09, 1.475e-08, 0.2746, 2.485e-10, 4.024e-08, 3.604e-11, 7.726e-07, 1.05e+08, 3.774, 0.9851, 0.9969, 0.9974, 1},
	},
	{
		"L40S", "prefill attention window", "vLLM 0.24.0", "l40s_attention_vllm_0.24.0_context_attention_perf.csv.gz",
		Accuracy{N: 6119, MAPE: 0.125, Median: 0.103, P90: 0.252, Bias: 0.017},
		[]float64{7.117e-06, 0.5486, 1.2, 8.472e-09, 2.471e-08, 1.196e-12, 2.472e-08, 0.5994, 9.661e+07, 9.996, 2.21, 1.541, 0.9381, 1},
	},
	{
		"L40S", "decode attention window", "vLLM 0.24.0", "l40s_attention_vllm_0.24.0_generation_attention_perf.csv.gz",
		Accuracy{N: 7582, MAPE: 0.118, Median: 0.078, P90: 0.221, Bias: -0.018},
		[]float64{6.085e-06, 0.8504, 1.285e-09, 6.439e-12, 0.1449, 2.915e-08, 2.167e-07, 2.425e-08, 2.156e-09, 1.351e+08, 9.995, 2.866, 0.93, 1.951, 1},
	},
	{
		"L40S", "experts bf16", "vLLM 0.24.0", "l40s_moe_vllm_0.24.0_bfloat16.csv.gz",
		Accuracy{N: 7182, MAPE: 0.112, Median: 0.052, P90: 0.287, Bias: 0.031},
		[]float64{2.237e-05, 0.7375, 0.8067, 1.636, 0.5777, 1, 9.776e+07, 3.66, 1.3, 1.055e-09, 0.01006},
	},
	{
		"L40S", "experts fp8", "vLLM 0.24.0", "l40s_moe_vllm_0.24.0_fp8.csv.gz",
		Accuracy{N: 6399, MAPE: 0.149, Median: 0.065, P90: 0.362, Bias: 0.027},
		[]float64{2.617e-05, 0.6743, 0.7777, 2.172, 0.4227, 1, 9.639e+07, 7.168, 1.3, 1.643e-12, 0.1741},
	},
	{
		"L40S", "experts fp8_block", "vLLM 0.24.0", "l40s_moe_vllm_0.24.0_fp8_block.csv.gz",
		Accuracy{N: 7803, MAPE: 0.097, Median: 0.043, P90: 0.224, Bias: 0.025},
		[]float64{2.069e-05, 0.5897, 0.7876, 2.095, 0.4474, 1, 9.939e+07, 10, 1.3, 3.669e-09, 0.01},
	},
	{
		"L40S", "experts int4_wo", "vLLM 0.24.0", "l40s_moe_vllm_0.24.0_int4_wo.csv.gz",
		Accuracy{N: 621, MAPE: 0.167, Median: 0.114, P90: 0.422, Bias: -0.151},
		[]float64{7.208e-06, 0.7351, 0.779, 4.466, 0.5642, 0.3, 9.096e+07, 2.481, 1.3, 4.796e-09, 0.09212},
	},
	{
		"L40S", "experts w4a16_mxfp4", "vLLM 0.24.0", "l40s_moe_vllm_0.24.0_w4a16_mxfp4.csv.gz",
		Accuracy{N: 1296, MAPE: 0.158, Median: 0.114, P90: 0.371, Bias: -0.130},
		[]float64{2.304e-05, 0.7925, 0.7479, 3.311, 0.4405, 0.3, 6.887e+07, 3.598, 1.3, 1.625e-09, 0.01803},
	},
	{
		"RTX-PRO-6000", "matrix bf16", "vLLM 0.24.0", "rtx_pro_6000_server_gemm_vllm_0.24.0_bfloat16.csv.gz",
		Accuracy{N: 17538, MAPE: 0.091, Median: 0.060, P90: 0.202, Bias: 0.007},
		[]float64{1.898e-06, 0.8892, 0.8491, 2.555, 0.9205, 2.051e+07, 2.274, 1.348e+08, 0.2938, 5.223e-09, 487.8},
	},
	{
		"RTX-PRO-6000", "matrix fp8", "vLLM 0.24.0", "rtx_pro_6000_server_gemm_vllm_0.24.0_fp8.csv.gz",
		Accuracy{N: 17538, MAPE: 0.091, Median: 0.052, P90: 0.243, Bias: -0.007},
		[]float64{4.561e-06, 0.9054, 0.8344, 2.924, 3.026, 2.028e+07, 1.77, 1.099e+08, 0.6378, 1.125e-09, 110.5, 0.7708, 3.77e-09},
	},
	{
		"RTX-PRO-6000", "matrix nvfp4", "vLLM 0.24.0", "rtx_pro_6000_server_gemm_vllm_0.24.0_nvfp4.csv.gz",
		Accuracy{N: 17538, MAPE: 0.070, Median: 0.039, P90: 0.162, Bias: 0.007},
		[]float64{6.449e-06, 0.7666, 0.6399, 12, 2.125, 1e+05, 2.404, 1.464e+08, 0.6084, 3.362e-09, 1e+05, 1.023, 5.27e-10},
	},
	{
		"RTX-PRO-6000", "prefill attention", "vLLM 0.24.0", "rtx_pro_6000_server_attention_vllm_0.24.0_context_attention_perf.csv.gz",
		Accuracy{N: 6715, MAPE: 0.078, Median: 0.047, P90: 0.191, Bias: 0.001},
		[]float64{7.878e-06, 0.6866, 1.199, 1.344e-08, 1.861e-08, 1.77e-08, 9.136e-10, 0.6289, 9.069e+07, 3.732, 1.159, 1.007, 0.968, 1},
	},
	{
		"RTX-PRO-6000", "decode attention", "vLLM 0.24.0", "rtx_pro_6000_server_attention_vllm_0.24.0_generation_attention_perf.csv.gz",
		Accuracy{N: 8391, MAPE: 0.081, Median: 0.054, P90: 0.184, Bias: 0.003},
		[]float64{7.953e-06, 0.8261, 2.933e-09, 2.126e-08, 0.1372, 1.403e-10, 1.583e-07, 1.511e-08, 4.075e-06, 1.63e+08, 1.952, 0.9849, 1.019, 1.008, 1},
	},
	{
		"RTX-PRO-6000", "prefill attention fp8", "vLLM 0.24.0", "rtx_pro_6000_server_attention_vllm_0.24.0_context_attention_perf.csv.gz",
		Accuracy{N: 6687, MAPE: 0.113, Median: 0.065, P90: 0.255, Bias: 0.004},
		[]float64{8.535e-06, 0.6153, 1.2, 3.812e-08, 1.005e-11, 1.059e-08, 7.635e-10, 0.3486, 1.058e+08, 1.951, 1.035, 2.585, 1.144, 1},
	},
	{
		"RTX-PRO-6000", "decode attention fp8", "vLLM 0.24.0", "rtx_pro_6000_server_attention_vllm_0.24.0_generation_attention_perf.csv.gz",
		Accuracy{N: 8098, MAPE: 0.108, Median: 0.070, P90: 0.242, Bias: 0.006},
		[]float64{9.692e-06, 0.8431, 9.282e-09, 1.113e-08, 0.4598, 2.005e-10, 3.378e-08, 2.277e-11, 8.368e-07, 1.673e+08, 2.449, 1.032, 1.173, 1.061, 1},
	},
	{
		"RTX-PRO-6000", "prefill attention window", "vLLM 0.24.0", "rtx_pro_6000_server_attention_vllm_0.24.0_context_attention_perf.csv.gz",
		Accuracy{N: 6120, MAPE: 0.094, Median: 0.069, P90: 0.215, Bias: 0.014},
		[]float64{7.573e-06, 0.4931, 1.199, 9.342e-09, 1.788e-08, 1.195e-11, 1.788e-08, 0.5209, 1.042e+08, 2.625, 2.103, 0.7265, 0.8141, 1},
	},
	{
		"RTX-PRO-6000", "decode attention window", "vLLM 0.24.0", "rtx_pro_6000_server_attention_vllm_0.24.0_generation_attention_perf.csv.gz",
		Accuracy{N: 7583, MAPE: 0.101, Median: 0.062, P90: 0.194, Bias: -0.019},
		[]float64{6.478e-06, 1.2, 5.256e-09, 1e-12, 0.01205, 2.143e-08, 1.725e-07, 2.062e-08, 1e-09, 1.374e+08, 3.999, 2.623, 1.02, 1.688, 1},
	},
	{
		"RTX-PRO-6000", "experts bf16", "vLLM 0.24.0", "rtx_pro_6000_server_moe_vllm_0.24.0_bfloat16.csv.gz",
		Accuracy{N: 7101, MAPE: 0.084, Median: 0.051, P90: 0.192, Bias: -0.032},
		[]float64{1.849e-05, 0.4937, 0.8139, 4.675, 0.3982, 0.03463, 1.176e+08, 2.347, 1.3, 7.445e-09, 0.01417},
	},
	{
		"RTX-PRO-6000", "experts fp8", "vLLM 0.24.0", "rtx_pro_6000_server_moe_vllm_0.24.0_fp8.csv.gz",
		Accuracy{N: 5913, MAPE: 0.088, Median: 0.061, P90: 0.195, Bias: -0.018},
		[]float64{1.85e-05, 0.4403, 0.7858, 5.818, 0.3516, 0.03965, 1.148e+08, 2.412, 1.3, 6.966e-09, 0.01},
	},
	{
		"RTX-PRO-6000", "experts nvfp4", "vLLM 0.24.0", "rtx_pro_6000_server_moe_vllm_0.24.0_nvfp4.csv.gz",
		Accuracy{N: 8073, MAPE: 0.107, Median: 0.070, P90: 0.240, Bias: -0.021},
		[]float64{2.436e-05, 1, 0.7607, 1.905, 0.3087, 0.03575, 1.761e+05, 3.875, 1.3, 5.456e-09, 0.01},
	},
	{
		"RTX-PRO-6000", "experts int4_wo", "vLLM 0.24.0", "rtx_pro_6000_server_moe_vllm_0.24.0_int4_wo.csv.gz",
		Accuracy{N: 648, MAPE: 0.140, Median: 0.114, P90: 0.319, Bias: -0.130},
		[]float64{2.513e-05, 0.7933, 0.7762, 12, 0.48, 0.3, 1.145e+08, 3.894, 1.3, 3.814e-09, 0.2793},
	},
	{
		"RTX-PRO-6000", "experts w4a16_mxfp4", "vLLM 0.24.0", "rtx_pro_6000_server_moe_vllm_0.24.0_w4a16_mxfp4.csv.gz",
		Accuracy{N: 1296, MAPE: 0.139, Median: 0.106, P90: 0.294, Bias: -0.075},
		[]float64{1.805e-05, 0.7161, 0.7318, 2.711, 0.3615, 0.3, 8.319e+07, 1.944, 1.3, 8.66e-09, 0.3644},
	},
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
	{"A100-80", "all-reduce", 2, 4.194e+06, 0.030, []float64{5.073e-06, 2.001e+11, 4.125e-05, 1.96e+11}},
	{"A100-80", "all-reduce", 4, 2.621e+05, 0.061, []float64{5.274e-06, 1.663e+11, 1.068e-05, 2.036e+11}},
	{"A100-80", "all-reduce", 8, 2.621e+05, 0.088, []float64{5.783e-06, 1.632e+11, 1.304e-05, 2.149e+11}},
	{"A100-80", "gather", 2, 5.243e+05, 0.121, []float64{9.939e-06, 9.213e+10, 2.981e-05, 1.553e+11}},
	{"A100-80", "gather", 4, 5.243e+05, 0.167, []float64{1.148e-05, 2.409e+11, 4.214e-05, 1.983e+11}},
	{"A100-80", "gather", 8, 8.389e+06, 0.071, []float64{1.61e-05, 9.27e+11, 7.717e-05, 2.132e+11}},
	{"B200", "all-reduce", 2, 1.049e+06, 0.051, []float64{6.789e-06, 1.701e+11, 2.614e-05, 5.396e+11}},
	{"B200", "all-reduce", 4, 1.049e+06, 0.067, []float64{6.936e-06, 2.821e+11, 2.023e-05, 6.109e+11}},
	{"B200", "all-reduce", 8, 6.554e+04, 0.144, []float64{7.788e-06, 5.269e+11, 1.621e-05, 6.682e+11}},
	{"B200", "gather", 2, 2.097e+06, 0.032, []float64{9.288e-06, 3.417e+11, 1.933e-05, 4.37e+11}},
	{"B200", "gather", 4, 8.389e+06, 0.082, []float64{1.167e-05, 6.902e+11, 2.736e-05, 5.852e+11}},
	{"B200", "gather", 8, 8.389e+06, 0.075, []float64{1.701e-05, 2e+12, 6.67e-05, 6.913e+11}},
	{"H100", "all-reduce", 2, 1.678e+07, 0.061, []float64{4.253e-06, 2.503e+11, 0.0001127, 3.463e+11}},
	{"H100", "all-reduce", 4, 1.049e+06, 0.069, []float64{4.659e-06, 3.781e+11, 1.201e-05, 3.372e+11}},
	{"H100", "all-reduce", 8, 2.621e+05, 0.053, []float64{4.842e-06, 3.047e+11, 1.044e-05, 3.792e+11}},
	{"H100", "gather", 2, 2.097e+06, 0.047, []float64{5.752e-06, 2.038e+11, 1.721e-05, 2.388e+11}},
	{"H100", "gather", 4, 2.097e+06, 0.049, []float64{7.474e-06, 5.678e+11, 2.195e-05, 3.076e+11}},
	{"H100", "gather", 8, 8.389e+06, 0.051, []float64{1.112e-05, 1.721e+12, 3.21e-05, 3.383e+11}},
	{"L40S", "all-reduce", 2, 6.554e+04, 0.014, []float64{5.284e-06, 1.457e+10, 4.284e-06, 1.894e+10}},
	{"L40S", "all-reduce", 4, 4096, 0.020, []float64{1.327e-05, 1.488e+10, 1.097e-05, 3.775e+09}},
	{"L40S", "all-reduce", 8, 1.049e+06, 0.041, []float64{2.451e-05, 1.054e+10, 0.0002678, 1.948e+09}},
	{"L40S", "gather", 2, 5.243e+05, 0.068, []float64{6.282e-06, 1.877e+10, 1.744e-05, 1.928e+10}},
	{"L40S", "gather", 4, 3.277e+04, 0.074, []float64{8.515e-06, 1.85e+10, 1.636e-05, 4.827e+09}},
	{"L40S", "gather", 8, 5.243e+05, 0.148, []float64{1.204e-05, 6.233e+09, 3.49e-05, 1.375e+09}},
	{"RTX-PRO-6000", "all-reduce", 2, 4.194e+06, 0.035, []float64{4.406e-06, 4.053e+10, 3.925e-05, 3.827e+10}},
	{"RTX-PRO-6000", "all-reduce", 4, 6.554e+04, 0.114, []float64{1.268e-05, 4.471e+10, 4.27e-05, 2.995e+10}},
	{"RTX-PRO-6000", "all-reduce", 8, 6.554e+04, 0.091, []float64{2.501e-05, 7.142e+10, 6.311e-05, 2.415e+10}},
	{"RTX-PRO-6000", "gather", 2, 1.311e+05, 0.055, []float64{5.816e-06, 3.636e+10, 1.473e-05, 3.146e+10}},
	{"RTX-PRO-6000", "gather", 4, 5.243e+05, 0.033, []float64{9.214e-06, 4.881e+10, 1.416e-05, 2.351e+10}},
	{"RTX-PRO-6000", "gather", 8, 5.243e+05, 0.061, []float64{1.444e-05, 5.081e+10, 3.88e-05, 2.339e+10}},
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
		if kind == "prefill" || kind == "decode" {
			if format = "BF16"; strings.HasSuffix(f.operator, " fp8") {
				format = "BF16, FP8 cache"
			}
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
	if of == "RTX-PRO-6000" {
		m.Mixed = 1.84 // median of vLLM 0.19's attention in LLMServingSim's profiles; 1.81 on two GPUs, 1.94 of Qwen3-30B-A3B
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
