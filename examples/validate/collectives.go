package main

import (
	"fmt"
	"path/filepath"

	"servesim/costmodel"
)

// reduction is which all-reduce an engine is taken to use.
type reduction uint8

const (
	ownReduce    reduction = iota // the engine's own kernel
	paddedReduce                  // the same, no slower than for a larger message
	ncclReduce
)

// curve returns the measured times.
func (r reduction) curve(data string, g costmodel.GPU, gpus int) (*costmodel.Table, error) {
	if r == ncclReduce {
		return ncclReduceCurve(data, g, gpus)
	}
	path, err := collectiveFile(data, "_custom_allreduce_perf.csv.gz", g)
	if err != nil {
		return nil, err
	}
	sizes, seconds, err := reduceTimes(path, gpus)
	if err != nil {
		return nil, err
	}
	for i := len(seconds) - 2; i >= 0 && r == paddedReduce; i-- {
		seconds[i] = min(seconds[i], seconds[i+1])
	}
	return costmodel.NewTable(reduceProvenance(g, path, gpus), sizes, seconds, costmodel.LinearInterpolation, costmodel.Extend)
}

// ncclReduceCurve returns the measured all-reduce of NCCL.
func ncclReduceCurve(data string, g costmodel.GPU, gpus int) (*costmodel.Table, error) {
	path, err := collectiveFile(data, "_nccl_perf.csv.gz", g)
	if err != nil {
		return nil, err
	}
	c, err := ncclTimes(path, gpus)
	if err != nil {
		return nil, err
	}
	sizes, seconds := c.sorted("all_reduce")
	if len(sizes) == 0 {
		return nil, fmt.Errorf("%s has no all_reduce on %d GPUs", path, gpus)
	}
	return costmodel.NewTable(ncclProvenance(g, path, gpus), sizes, seconds, costmodel.LinearInterpolation, costmodel.Extend)
}

// gatherCurve returns the measured time of gathering or scattering with NCCL.
func gatherCurve(data string, g costmodel.GPU, gpus int) (*costmodel.Table, error) {
	path, err := collectiveFile(data, "_nccl_perf.csv.gz", g)
	if err != nil {
		return nil, err
	}
	sizes, seconds, err := gatherTimes(path, gpus)
	if err != nil {
		return nil, err
	}
	return costmodel.NewTable(ncclProvenance(g, path, gpus), sizes, seconds, costmodel.LinearInterpolation, costmodel.Extend)
}

// collectiveFile returns the file of a GPU's operations between GPUs, by its
// end.
func collectiveFile(data, end string, g costmodel.GPU) (string, error) {
	paths, err := filepath.Glob(filepath.Join(data, "kernels", "*"+end))
	if err != nil {
		return "", err
	}
	for _, path := range paths {
		if found, err := gpuOf(kernelGPU(path)); err == nil && found.Name == g.Name {
			return path, nil
		}
	}
	return "", fmt.Errorf("kernels/ has no *%s of %s", end, g.Name)
}

// reduceTimes returns bytes and seconds of all-reduces in a CUDA graph.
func reduceTimes(path string, gpus int) (sizes, seconds []float64, err error) {
	c := newCurves()
	err = readCSV(path, []string{"num_gpus", "message_size", "latency", "backend"}, func(r *row) {
		if r.text("backend") == "vllm_graph" && r.count("num_gpus") == gpus {
			c.add("all-reduce", 2*r.number("message_size"), r.number("latency")*1e-3)
		}
	})
	sizes, seconds = c.sorted("all-reduce")
	if err == nil && len(sizes) == 0 {
		err = fmt.Errorf("%s has no all-reduce on %d GPUs", path, gpus)
	}
	return sizes, seconds, err
}

// gatherTimes returns bytes of the whole tensor and seconds, the mean of
// gathering and scattering, which are alike.
func gatherTimes(path string, gpus int) (sizes, seconds []float64, err error) {
	c, err := ncclTimes(path, gpus)
	if err != nil {
		return nil, nil, err
	}
	sizes, seconds = c.sorted("all_gather")
	scattered, back := c.sorted("reduce_scatter")
	if len(sizes) == 0 || len(scattered) != len(sizes) {
		return nil, nil, fmt.Errorf("%s has %d sizes of all_gather and %d of reduce_scatter on %d GPUs", path, len(sizes), len(scattered), gpus)
	}
	for i := range seconds {
		if scattered[i] != sizes[i] {
			return nil, nil, fmt.Errorf("%s: all_gather of %v B and reduce_scatter of %v B on %d GPUs", path, sizes[i], scattered[i], gpus)
		}
		seconds[i] = (seconds[i] + back[i]) / 2
	}
	return sizes, seconds, nil
}

// ncclTimes returns bytes of the whole tensor and seconds of each operation.
func ncclTimes(path string, gpus int) (*curves, error) {
	c := newCurves()
	return c, readCSV(path, []string{"op_name", "nccl_dtype", "num_gpus", "message_size", "latency"}, func(r *row) {
		if r.text("nccl_dtype") == "half" && r.count("num_gpus") == gpus {
			c.add(r.text("op_name"), 2*r.number("message_size"), r.number("latency")*1e-3)
		}
	})
}

func reduceProvenance(g costmodel.GPU, path string, gpus int) costmodel.Provenance {
	return costmodel.Provenance{Platform: g.Name, Formats: "BF16", Kernels: "vLLM's all-reduce", Layout: fmt.Sprintf("%d GPUs", gpus),
		Boundary: "one collective in a CUDA graph", Source: filepath.Base(path)}
}

func ncclProvenance(g costmodel.GPU, path string, gpus int) costmodel.Provenance {
	return costmodel.Provenance{Platform: g.Name, Formats: "BF16", Kernels: "NCCL", Layout: fmt.Sprintf("%d GPUs", gpus),
		Boundary: "one collective on the device", Source: filepath.Base(path)}
}
