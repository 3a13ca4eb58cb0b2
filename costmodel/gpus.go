package costmodel

import (
	"fmt"
	"strings"
	"time"
)

const gib = 1 << 30

// gpus holds datasheet values with dense rates: vendors print the double for
// 2:4 sparsity. Memory is what devices report within 1 %: GiB, although the
// names say GB.
var gpus = []struct {
	gpu        GPU
	efficiency Efficiency
}{
	// SXM4, 80 GB. NVIDIA A100 datasheet; aiconfigurator systems/a100_sxm.yaml.
	{GPU{Name: "A100-80", Rate: 312e12, Bandwidth: 2.039e12, Memory: 80 * gib, Link: 300e9}, fittedA100},
	// SXM. NVIDIA Blackwell datasheet; aiconfigurator systems/b200_sxm.yaml.
	{GPU{Name: "B200", Rate: 2250e12, Bandwidth: 7.7e12, Memory: 180 * gib, Link: 900e9}, fittedB200},
	// SXM5, 80 GB. NVIDIA H100 datasheet; aiconfigurator systems/h100_sxm.yaml.
	{GPU{Name: "H100", Rate: 989e12, Bandwidth: 3.35e12, Memory: 80 * gib, Link: 450e9}, fittedH100},
	// SXM, the H100's processor with other memory. NVIDIA H200 datasheet;
	// aiconfigurator systems/h200_sxm.yaml. Its kernels are not fitted apart.
	{GPU{Name: "H200", Rate: 989e12, Bandwidth: 4.8e12, Memory: 141 * gib, Link: 450e9}, fittedH100},
}

// The shares and launches of matrix products and attention are fits of
// Kernel's formula to vLLM's BF16 kernels, head dimension 128, as published
// with aiconfigurator (vLLM 0.14 on A100, 0.24 on H100 and B200). Mean errors
// of the fits, matrix products and prefill attention: A100 12 and 19 %, H100
// 9 and 14 %, B200 11 and 22 %. The fits give no compute share for decode
// attention and no memory share for prefill attention, which hardly count:
// each borrows the other's. Element-wise kernels reach 0.8 of the bandwidth in
// aiconfigurator; their launches are part of Step. The shares of the link are
// chosen between the measured bus bandwidths of vLLM's all-reduce on 2, 4 and
// 8 GPUs, in GB/s: A100 202, 224, 232; H100 342, 360, 480; B200 582, 655, 756.
// On 8 GPUs they are too low, for H100 by a quarter.
//
// Step and Sequence are what remains between the sum of the kernels and the
// time per token of a whole engine: vLLM 0.12 with Qwen3-32B on H100, whose
// values B200 borrows, and for A100 the host time of a 7B model on one GPU
// (Vidur). That this is host work is inferred. An engine that overlaps host
// and device has less; set both to 0 for one that hides them.
var (
	fittedA100 = Efficiency{
		Matrix:           Kernel{Launch: 6 * time.Microsecond, Compute: 0.75, Memory: 0.70},
		PrefillAttention: Kernel{Launch: 12 * time.Microsecond, Compute: 0.60, Memory: 0.65},
		DecodeAttention:  Kernel{Launch: 19 * time.Microsecond, Compute: 0.60, Memory: 0.65},
		Elementwise:      Kernel{Memory: 0.8},
		AllReduce:        Kernel{Launch: 7 * time.Microsecond, Memory: 0.73},
		Step:             940 * time.Microsecond,
		Sequence:         49 * time.Microsecond,
	}
	fittedH100 = Efficiency{
		Matrix:           Kernel{Launch: 4 * time.Microsecond, Compute: 0.80, Memory: 0.90},
		PrefillAttention: Kernel{Launch: 14 * time.Microsecond, Compute: 0.65, Memory: 0.80},
		DecodeAttention:  Kernel{Launch: 12 * time.Microsecond, Compute: 0.65, Memory: 0.80},
		Elementwise:      Kernel{Memory: 0.8},
		AllReduce:        Kernel{Launch: 7 * time.Microsecond, Memory: 0.80},
		Step:             1200 * time.Microsecond,
		Sequence:         51 * time.Microsecond,
	}
	fittedB200 = Efficiency{
		Matrix:           Kernel{Launch: 3 * time.Microsecond, Compute: 0.70, Memory: 0.75},
		PrefillAttention: Kernel{Launch: 14 * time.Microsecond, Compute: 0.50, Memory: 0.90},
		DecodeAttention:  Kernel{Launch: 10 * time.Microsecond, Compute: 0.50, Memory: 0.90},
		Elementwise:      Kernel{Memory: 0.8},
		AllReduce:        Kernel{Launch: 7 * time.Microsecond, Memory: 0.73},
		Step:             1200 * time.Microsecond,
		Sequence:         51 * time.Microsecond,
	}
)

// GPUs returns the GPUs of the catalogue, sorted by name.
func GPUs() []GPU {
	list := make([]GPU, len(gpus))
	for i, g := range gpus {
		list[i] = g.gpu
	}
	return list
}

// LookupGPU returns the GPU of that name, upper and lower case alike. The
// error lists the known names.
func LookupGPU(name string) (GPU, error) {
	i, err := findGPU(name)
	if err != nil {
		return GPU{}, err
	}
	return gpus[i].gpu, nil
}

// FittedEfficiency returns how well vLLM-like engines use a GPU of the
// catalogue in BF16: kernels as measured, and the time per step and sequence
// that a whole engine needs beyond its kernels.
func FittedEfficiency(gpu string) (Efficiency, error) {
	i, err := findGPU(gpu)
	if err != nil {
		return Efficiency{}, err
	}
	return gpus[i].efficiency, nil
}

func findGPU(name string) (int, error) {
	names := make([]string, len(gpus))
	for i, g := range gpus {
		if strings.EqualFold(g.gpu.Name, name) {
			return i, nil
		}
		names[i] = g.gpu.Name
	}
	return 0, fmt.Errorf("costmodel: unknown GPU %q; known are %s", name, strings.Join(names, ", "))
}
