package costmodel

import (
	"fmt"
	"strings"
	"time"
)

const (
	gib  = 1 << 30
	mib  = 1 << 20
	tera = 1e12
)

// gpus holds datasheet values with dense rates. Memory is what devices report
// within 1 % where that is known: GiB, although the names say GB. The paths in
// the sources are those of the public repositories aiconfigurator (systems/),
// InferenceX (gpu-specs.ts), InferSim (hardware/), llm-analysis (gpu_configs/)
// and GenZ (Systems/). Prices and all-in power are those of InferenceX,
// constants.ts; those of B300 and GB300 are estimates there.
// Processors are NVIDIA's, from datasheets and architecture papers, as CUDA
// counts them on a device; those of B300 (148), GB200 and GB300 (152) are as
// flashinfer's and FastVideo's public benchmarks report them.
var gpus = []GPU{
	// Three of one family, low confidence: public files disagree on bandwidth
	// (0.8 to 1.6 TB/s) and link (196 to 400 GB/s). AFD-search,
	// conf/hardware_config.py.
	{Name: "910B2", Rate: 376 * tera, INT8: 752 * tera, Bandwidth: 1.6 * tera, Memory: 64e9, Link: 196 * gib, Node: 8, Network: 50e9, Watts: 400},
	{Name: "910B3", Rate: 313 * tera, INT8: 626 * tera, Bandwidth: 1.6 * tera, Memory: 64e9, Link: 196 * gib, Node: 8, Network: 50e9},
	{Name: "910B4", Rate: 280 * tera, INT8: 560 * tera, Bandwidth: 0.8 * tera, Memory: 32e9, Link: 30e9, Node: 8},
	// SXM4. llm-analysis a100-sxm-40gb.json.
	{Name: "A100-40", Processors: 108, Rate: 312 * tera, INT8: 624 * tera, Bandwidth: 1.555 * tera, Memory: 40e9, Link: 300e9, Node: 8, Network: 25e9},
	// SXM4. NVIDIA A100 datasheet; aiconfigurator a100_sxm.yaml.
	{Name: "A100-80", Processors: 108, Rate: 312 * tera, INT8: 624 * tera, Bandwidth: 2.039 * tera, Memory: 80 * gib, Link: 300e9, Node: 8, Network: 25e9, Watts: 400},
	// aiconfigurator a100_pcie.yaml.
	{Name: "A100-80-PCIe", Processors: 108, Rate: 312 * tera, INT8: 624 * tera, Bandwidth: 1.935 * tera, Memory: 80 * gib, Link: 32e9, Node: 8, Network: 25e9, Watts: 300},
	// llm-analysis a10g-pcie-24gb.json.
	{Name: "A10G", Processors: 80, Rate: 70 * tera, INT8: 140 * tera, Bandwidth: 0.6 * tera, Memory: 24e9, Link: 32e9, Node: 8},
	// NVIDIA A30 datasheet.
	{Name: "A30", Processors: 56, Rate: 165 * tera, INT8: 330 * tera, Bandwidth: 0.933 * tera, Memory: 24 * gib, Link: 32e9, Node: 8, Watts: 165},
	// NVIDIA A40 datasheet.
	{Name: "A40", Processors: 84, Rate: 149.7 * tera, INT8: 299.3 * tera, Bandwidth: 0.696 * tera, Memory: 48 * gib, Link: 32e9, Node: 8, Watts: 300},
	// SXM. NVIDIA Blackwell datasheet; aiconfigurator b200_sxm.yaml, gpu-specs.ts.
	{Name: "B200", Processors: 148, Rate: 2250 * tera, FP8: 4500 * tera, INT8: 4500 * tera, FP4: 9000 * tera, Bandwidth: 7.7 * tera, Memory: 180 * gib,
		Link: 900e9, Node: 8, Network: 50e9, Watts: 1000, Price: Price{1.95, 2.34, 2.90, 2170}},
	// SXM. aiconfigurator b300_sxm.yaml, gpu-specs.ts.
	{Name: "B300", Processors: 148, Rate: 2250 * tera, FP8: 4500 * tera, INT8: 153.5 * tera, FP4: 13500 * tera, Bandwidth: 7.75 * tera, Memory: 268e9,
		Link: 900e9, Node: 8, Network: 100e9, Watts: 1100, Price: Price{2.34, 2.81, 3.48, 0}},
	// NVL72. aiconfigurator gb200.yaml, gpu-specs.ts.
	{Name: "GB200", Processors: 152, Rate: 2500 * tera, FP8: 5000 * tera, INT8: 5000 * tera, FP4: 10000 * tera, Bandwidth: 8 * tera, Memory: 189471 * mib,
		Link: 900e9, Node: 72, Watts: 1200, Price: Price{2.21, 2.75, 3.30, 0}},
	// NVL72. aiconfigurator gb300.yaml.
	{Name: "GB300", Processors: 152, Rate: 2500 * tera, FP8: 5000 * tera, INT8: 165 * tera, FP4: 15000 * tera, Bandwidth: 8 * tera, Memory: 288e9,
		Link: 900e9, Node: 72, Watts: 1400, Price: Price{2.65, 3.30, 3.96, 0}},
	// SXM5, 80 GB. NVIDIA H100 datasheet; aiconfigurator h100_sxm.yaml, gpu-specs.ts.
	{Name: "H100", Processors: 132, Rate: 989 * tera, FP8: 1978 * tera, INT8: 1978 * tera, Bandwidth: 3.35 * tera, Memory: 80 * gib,
		Link: 450e9, Node: 8, Network: 50e9, Watts: 700, Price: Price{1.30, 1.69, 1.30, 1730}},
	// aiconfigurator h100_pcie.yaml.
	{Name: "H100-PCIe", Processors: 114, Rate: 756.5 * tera, FP8: 1513 * tera, INT8: 1513 * tera, Bandwidth: 2 * tera, Memory: 80 * gib,
		Link: 64e9, Node: 8, Network: 50e9, Watts: 350},
	// InferSim gpu.py.
	{Name: "H20", Processors: 78, Rate: 148 * tera, FP8: 296 * tera, Bandwidth: 4.096 * tera, Memory: 96e9, Link: 450e9, Node: 8, Network: 50e9},
	// SXM, the H100's processor with other memory. NVIDIA H200 datasheet;
	// aiconfigurator h200_sxm.yaml.
	{Name: "H200", Processors: 132, Rate: 989 * tera, FP8: 1978 * tera, INT8: 1978 * tera, Bandwidth: 4.8 * tera, Memory: 141 * gib,
		Link: 450e9, Node: 8, Network: 50e9, Watts: 700, Price: Price{1.41, 1.74, 1.60, 0}},
	// InferSim gpu.py.
	{Name: "H800", Processors: 132, Rate: 989 * tera, FP8: 1979 * tera, Bandwidth: 3.43 * tera, Memory: 80e9, Link: 200e9, Node: 8, Network: 50e9},
	// aiconfigurator l4.yaml.
	{Name: "L4", Processors: 58, Rate: 121 * tera, FP8: 242 * tera, INT8: 242 * tera, Bandwidth: 0.3 * tera, Memory: 24 * gib, Link: 32e9, Node: 8, Network: 25e9, Watts: 72},
	// aiconfigurator l40s.yaml.
	{Name: "L40S", Processors: 142, Rate: 362.05 * tera, FP8: 733 * tera, INT8: 733 * tera, Bandwidth: 0.864 * tera, Memory: 46068 * mib,
		Link: 32e9, Node: 8, Network: 50e9, Watts: 350},
	// InferenceX gpu-specs.ts; GenZ system_configs.py.
	{Name: "MI300X", Rate: 1307 * tera, FP8: 2615 * tera, Bandwidth: 5.3 * tera, Memory: 192e9, Link: 448e9, Node: 8, Network: 50e9,
		Price: Price{1.12, 1.40, 1.55, 0}},
	// InferenceX gpu-specs.ts.
	{Name: "MI325X", Rate: 1307 * tera, FP8: 2615 * tera, Bandwidth: 6 * tera, Memory: 256e9, Link: 448e9, Node: 8, Network: 50e9,
		Price: Price{1.28, 1.59, 1.80, 0}},
	// InferenceX gpu-specs.ts, which names no link within the node.
	{Name: "MI355X", Rate: 2516 * tera, FP8: 5033 * tera, FP4: 10066 * tera, Bandwidth: 8 * tera, Memory: 288e9, Network: 50e9,
		Price: Price{1.48, 1.90, 2.10, 0}},
	// NVIDIA Ada architecture paper, with FP32 accumulation; memory as a
	// device reports it.
	{Name: "RTX-4090", Processors: 128, Rate: 165.2 * tera, FP8: 330.3 * tera, INT8: 660.6 * tera, Bandwidth: 1.008 * tera, Memory: 25_250_627_584,
		Link: 32e9, Node: 8, Watts: 450},
	// Server edition. aiconfigurator rtx_pro_6000_server.yaml.
	{Name: "RTX-PRO-6000", Processors: 188, Rate: 467.8 * tera, FP8: 935.6 * tera, INT8: 935.6 * tera, FP4: 1871 * tera, Bandwidth: 1.792 * tera, Memory: 97887 * mib,
		Link: 64e9, Node: 8, Network: 50e9, Watts: 600},
	// Three of cloud.google.com/tpu/docs: links as half of what is printed for
	// both ways, of all ports together.
	{Name: "TPU-v5e", Rate: 197 * tera, INT8: 393 * tera, Bandwidth: 0.819 * tera, Memory: 16e9, Link: 200e9},
	{Name: "TPU-v5p", Rate: 459 * tera, Bandwidth: 2.765 * tera, Memory: 95e9, Link: 600e9},
	{Name: "TPU-v6e", Rate: 918 * tera, INT8: 1836 * tera, Bandwidth: 1.638 * tera, Memory: 32e9, Link: 400e9},
}

// fitted says how well a vLLM-like engine uses a GPU, in shares of what its
// datasheet promises: of what kernelFits, which come first, have nothing of, such
// as latent attention, and for whoever wants a model of a few numbers.
//
// The shares and launches of matrix products and attention are fits of
// Kernel's formula with the maximum to vLLM's kernels, head dimension 128, as
// published with aiconfigurator (vLLM 0.14 on A100, 0.24 elsewhere); Narrow is
// FP8 and includes the conversion of activations. Mean and median errors over
// the whole of those tables, in %, of BF16 products, FP8 products, decode
// attention, and prefill attention from 1024 positions on:
//
//	A100          19 (12)   –        25 (15)   23 (19)
//	B200          17 (11)   34 (29)  18 (11)   24 (21)
//	H100          14 (9)    31 (26)  18 (8)    24 (21)
//	L40S          26 (13)   33 (26)  36 (17)   14 (10)
//	RTX PRO 6000  21 (12)   28 (22)  27 (20)   20 (18)
//
// The fits give no compute share for decode attention and no memory share for
// prefill attention, which hardly count: each borrows the other's. Those of
// experts are of H100, H200 and B200 together, and borrowed elsewhere: an error
// of 12 to 25 % up to 32 positions. Element-wise kernels reach 0.8 of the
// bandwidth in aiconfigurator; MeasuredKernels.Elementwise counts their launches. The
// shares of the link are chosen between the measured bus bandwidths of vLLM's
// all-reduce on 2, 4 and 8 GPUs, in GB/s: A100 202, 224, 232; B200 582, 655,
// 756; H100 342, 360, 480; L40S 19, 4, 2; RTX PRO 6000 40, 31, 24. On 8 GPUs
// they are too low for H100, by a quarter, and far too high for L40S.
//
// GPUs with the processor of another one borrow its kernels: A100-40 and
// A100-80-PCIe of A100-80, H200 and H800 of H100, GB200 of B200. They borrow the
// measured collectives only over links of the same speed.
//
// Of the host, see [FittedHost]: vLLM 0.19 on RTX PRO 6000, whose value the others
// borrow.
var fitted = []struct {
	gpus       []string
	efficiency Efficiency
}{
	{[]string{"A100-80", "A100-40", "A100-80-PCIe"}, Efficiency{
		Matrix:           Kernel{Launch: 6 * time.Microsecond, Compute: 0.75, Memory: 0.70},
		Experts:          Kernel{Launch: 10 * time.Microsecond, Compute: 0.4, Memory: 0.8},
		PrefillAttention: Kernel{Launch: 12 * time.Microsecond, Compute: 0.60, Memory: 0.65},
		DecodeAttention:  Kernel{Launch: 19 * time.Microsecond, Compute: 0.60, Memory: 0.65},
		Elementwise:      Kernel{Memory: 0.8},
		AllReduce:        Collective{Launch: 7 * time.Microsecond, Share: 0.73},
		Host:             HostTime{Sequence: 22 * time.Microsecond},
	}},
	{[]string{"B200", "GB200"}, Efficiency{
		Matrix:           Kernel{Launch: 3 * time.Microsecond, Compute: 0.70, Memory: 0.75},
		Narrow:           Kernel{Launch: 8 * time.Microsecond, Compute: 0.38, Memory: 0.78},
		Experts:          Kernel{Launch: 10 * time.Microsecond, Compute: 0.4, Memory: 0.8},
		PrefillAttention: Kernel{Launch: 14 * time.Microsecond, Compute: 0.50, Memory: 0.90},
		DecodeAttention:  Kernel{Launch: 10 * time.Microsecond, Compute: 0.50, Memory: 0.90},
		Elementwise:      Kernel{Memory: 0.8},
		AllReduce:        Collective{Launch: 7 * time.Microsecond, Share: 0.73},
		Host:             HostTime{Sequence: 22 * time.Microsecond},
	}},
	{[]string{"H100", "H200", "H800"}, Efficiency{
		Matrix:           Kernel{Launch: 4 * time.Microsecond, Compute: 0.80, Memory: 0.90},
		Narrow:           Kernel{Launch: 8 * time.Microsecond, Compute: 0.40, Memory: 0.85},
		Experts:          Kernel{Launch: 10 * time.Microsecond, Compute: 0.4, Memory: 0.8},
		PrefillAttention: Kernel{Launch: 14 * time.Microsecond, Compute: 0.65, Memory: 0.80},
		DecodeAttention:  Kernel{Launch: 12 * time.Microsecond, Compute: 0.65, Memory: 0.80},
		Elementwise:      Kernel{Memory: 0.8},
		AllReduce:        Collective{Launch: 7 * time.Microsecond, Share: 0.80},
		Host:             HostTime{Sequence: 22 * time.Microsecond},
	}},
	{[]string{"L40S"}, Efficiency{
		Matrix:           Kernel{Launch: 2 * time.Microsecond, Compute: 0.60, Memory: 0.80},
		Narrow:           Kernel{Launch: 6 * time.Microsecond, Compute: 0.42, Memory: 0.72},
		Experts:          Kernel{Launch: 10 * time.Microsecond, Compute: 0.4, Memory: 0.8},
		PrefillAttention: Kernel{Launch: 8 * time.Microsecond, Compute: 0.50, Memory: 0.85},
		DecodeAttention:  Kernel{Launch: 10 * time.Microsecond, Compute: 0.50, Memory: 0.85},
		Elementwise:      Kernel{Memory: 0.8},
		AllReduce:        Collective{Launch: 7 * time.Microsecond, Share: 0.12},
		Host:             HostTime{Sequence: 22 * time.Microsecond},
	}},
	{[]string{"RTX-PRO-6000"}, Efficiency{
		Matrix:           Kernel{Launch: 3 * time.Microsecond, Compute: 0.80, Memory: 0.80},
		Narrow:           Kernel{Launch: 7 * time.Microsecond, Compute: 0.65, Memory: 0.80},
		Experts:          Kernel{Launch: 10 * time.Microsecond, Compute: 0.4, Memory: 0.8},
		PrefillAttention: Kernel{Launch: 10 * time.Microsecond, Compute: 0.65, Memory: 0.85},
		DecodeAttention:  Kernel{Launch: 13 * time.Microsecond, Compute: 0.65, Memory: 0.85},
		Elementwise:      Kernel{Memory: 0.8},
		AllReduce:        Collective{Launch: 7 * time.Microsecond, Share: 0.48},
		Host:             HostTime{Sequence: 22 * time.Microsecond},
	}},
}

// hosts holds what remains between the sum of the kernels and the time per
// token of a whole engine. That this is host work is inferred. An engine that
// schedules asynchronously hides much of both.
var hosts = []struct {
	engine string
	time   HostTime
}{
	// Qwen3-32B on H100, closed loop, error 17 % without and 3.8 % with it.
	// Llama-3.1-70B on 4 to 8 GPUs: 27 to 60 µs a sequence.
	{"vLLM-0.12", HostTime{Step: 1200 * time.Microsecond, Sequence: 51 * time.Microsecond}},
	// Two recorded runs on RTX PRO 6000, Llama-3.1-8B and Qwen3-30B-A3B: 20 and
	// 23 µs a sequence, beside measured kernels. It schedules asynchronously.
	// Closed loops of gpt-oss-120b on H100 (0.18) and B200 (0.15) need nothing
	// beside their kernels.
	{"vLLM-0.19", HostTime{Sequence: 22 * time.Microsecond}},
	// Llama-3.1-8B on H100, closed loop, version 1.0.0rc3.
	{"TensorRT-LLM-1.0", HostTime{Step: 300 * time.Microsecond, Sequence: 20 * time.Microsecond}},
	// Vidur's profile of a 7B model on one A100; 1.4 ms on several GPUs, and
	// 7.7 ms where a Ray cluster drives them.
	{"Vidur", HostTime{Step: 940 * time.Microsecond, Sequence: 49 * time.Microsecond}},
}

// GPUs returns the GPUs of the catalogue, sorted by name.
func GPUs() []GPU { return append([]GPU(nil), gpus...) }

// LookupGPU returns the GPU of that name, upper and lower case alike. The
// error lists the known names.
func LookupGPU(name string) (GPU, error) {
	names := make([]string, len(gpus))
	for i, g := range gpus {
		if strings.EqualFold(g.Name, name) {
			return g, nil
		}
		names[i] = g.Name
	}
	return GPU{}, fmt.Errorf("costmodel: unknown GPU %q; known are %s", name, strings.Join(names, ", "))
}

// FittedEfficiency returns how well vLLM-like engines use a GPU of the
// catalogue: kernels and collectives as measured, each with its error on
// measurements that were kept aside ([Calibration.Held]), and the time per
// sequence that a whole engine needs beyond its kernels: that of vLLM 0.19, which
// prepares a step while the GPU computes the one before. Other engines need more
// ([FittedHost]). The error lists the GPUs whose kernels are known.
func FittedEfficiency(gpu string) (Efficiency, error) {
	var names []string
	for _, f := range fitted {
		for _, name := range f.gpus {
			if strings.EqualFold(name, gpu) {
				g, err := LookupGPU(name)
				e := f.efficiency
				e.Measured = fittedKernels(f.gpus[0], g)
				return e, err
			}
		}
		names = append(names, f.gpus...)
	}
	return Efficiency{}, fmt.Errorf("costmodel: no measured kernels of GPU %q; known are those of %s", gpu, strings.Join(names, ", "))
}

// FittedHost returns the host's time of an engine, upper and lower case alike.
// The error lists the known engines.
func FittedHost(engine string) (HostTime, error) {
	names := make([]string, len(hosts))
	for i, h := range hosts {
		if strings.EqualFold(h.engine, engine) {
			return h.time, nil
		}
		names[i] = h.engine
	}
	return HostTime{}, fmt.Errorf("costmodel: unknown engine %q; known are %s", engine, strings.Join(names, ", "))
}
