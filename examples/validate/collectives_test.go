package main

import (
	"path/filepath"
	"testing"

	"servesim/costmodel"
	"servesim/sim"
)

// writeNCCL writes measurements of all-reduces on two GPUs: 1 ms for a byte.
func writeNCCL(t *testing.T, data, gpu string) {
	t.Helper()
	writeZipped(t, filepath.Join(data, "kernels", gpu+"_comm_nccl_2.29_nccl_perf.csv.gz"),
		"op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency\n"+
			"all_reduce,NCCL,half,2,50,100\nall_reduce,NCCL,half,2,500,1000\n"+
			"all_reduce,NCCL,half,4,50,7\nall_reduce,NCCL,int8,2,60,7\nall_gather,NCCL,half,2,50,7\nreduce_scatter,NCCL,half,2,50,7\n")
}

func TestNCCLReduceCurve(t *testing.T) {
	data := t.TempDir()
	writeNCCL(t, data, "h100_sxm")
	h100, err := costmodel.LookupGPU("H100")
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ncclReduceCurve(data, h100, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got := curve.Seconds(550); got != 0.55 {
		t.Errorf("%v s for 550 B, want 0.55", got)
	}
	path := filepath.Join(data, "kernels", "h100_sxm_comm_nccl_2.29_nccl_perf.csv.gz")
	if _, err := ncclReduceCurve(data, h100, 8); err == nil || err.Error() != path+" has no all_reduce on 8 GPUs" {
		t.Errorf("on 8 GPUs: %v", err)
	}
}

// An engine that is told to sums with NCCL, whatever its kernels come from.
func TestSettingsChooseTheReduce(t *testing.T) {
	b := sim.Batch{Decodes: 1, Positions: 1, Context: 10}
	data := t.TempDir()
	for _, c := range []struct{ file, gpu string }{{"h100_sxm", "H100"}, {"h100_sxm", "H200"}} {
		writeNCCL(t, data, c.file)
		s, err := costmodel.NewSetup("Llama-3.1-8B", c.gpu)
		if err != nil {
			t.Fatal(err)
		}
		s.TensorParallel = 2
		k, err := newKernelStack(data, s, ncclReduce)
		if err != nil {
			t.Fatal(err)
		}
		// Two in each layer, and one behind the embedding, of 4096 values.
		if got, want := k.Breakdown(b)[costmodel.AllReduce].Seconds, (2*32+1)*8.192; got < want-1e-6 || got > want+1e-6 {
			t.Errorf("%s: all-reduces take %v s, want %v", c.gpu, got, want)
		}
	}
	s, err := costmodel.NewSetup("Llama-3.1-8B", "A100-80")
	if err != nil {
		t.Fatal(err)
	}
	s.TensorParallel = 2
	want := "disable_custom_all_reduce is true: kernels/ has no *_nccl_perf.csv.gz of A100-80"
	if _, err := newKernelStack(data, s, ncclReduce); err == nil || err.Error() != want {
		t.Errorf("without measurements: %v, want %s", err, want)
	}
	if _, err := newKernelStack(data, s, ownReduce); err != nil {
		t.Error(err)
	}
}

// So do kernels and layers of the measurements.
func TestSettingsChooseTheMeasuredReduce(t *testing.T) {
	data := shared(t)
	g, err := costmodel.LookupGPU("RTX-PRO-6000")
	if err != nil {
		t.Fatal(err)
	}
	m, err := costmodel.LookupModel("Llama-3.1-8B")
	if err != nil {
		t.Fatal(err)
	}
	own, err := ownReduce.curve(data, g, 2)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ncclReduceCurve(data, g, 2)
	if err != nil {
		t.Fatal(err)
	}
	known, err := costmodel.FittedEfficiency(g.Name)
	if err != nil {
		t.Fatal(err)
	}
	l := library{}
	for name, c := range calibrations(known.Measured) {
		l[g.Name+" "+name] = c
	}
	const bytes = 2 * 4096
	for _, c := range []struct {
		reduce reduction
		want   float64
	}{{ownReduce, own.Seconds(bytes)}, {ncclReduce, other.Seconds(bytes)}} {
		e := engineSettings{tp: 2, ranks: 2, reduce: c.reduce} // ranks of a dense model exchange nothing
		layers, err := newStack(data, g, g.Name, m, m.Name, e)
		if err != nil {
			t.Fatal(err)
		}
		if layers.gather != nil {
			t.Error("a dense model gathers")
		}
		if got := layers.reduce.Seconds(bytes); got != c.want {
			t.Errorf("%d: an all-reduce of layers/ takes %v, want %v", c.reduce, got, c.want)
		}
		k, err := compose(l, data, e.layout(m, g), c.reduce)
		if err != nil {
			t.Fatal(err)
		}
		if got := k.Breakdown(sim.Batch{Decodes: 1, Positions: 1})[costmodel.AllReduce].Seconds / 65; got < 0.9999*c.want || got > 1.0001*c.want {
			t.Errorf("%d: an all-reduce of kernels/ takes %v, want %v", c.reduce, got, c.want)
		}
	}
	if own.Seconds(bytes) == other.Seconds(bytes) {
		t.Error("both all-reduces are alike")
	}
}
