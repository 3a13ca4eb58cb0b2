package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/costmodel"
	"servesim/sim"
)

// shared returns the folder of the measurements, or skips the test.
func shared(t *testing.T) string {
	t.Helper()
	root := os.Getenv("SERVESIM_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	data := filepath.Join(root, "measured")
	if _, err := os.Stat(data); err != nil {
		t.Skipf("no measurements: %v", err)
	}
	return data
}

// long reports whether the proofs run at full size.
func long() bool { return os.Getenv("SERVESIM_LONG") != "" }

// write makes a file in a folder of the test.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// writeZipped makes a compressed file.
func writeZipped(t *testing.T, path, text string) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, path, b.String())
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-nope"}, "flag provided but not defined: -nope; flags are -data, -gpu, -json, -kernels, -model, -plot, -run, -tp, -worth"},
		{[]string{"extra"}, `unexpected argument "extra"`},
		{[]string{"-data", "/none"}, "-data: stat /none: no such file or directory"},
		{[]string{"-data", ".", "-tp", "-1"}, "-tp is -1"},
		{[]string{"-data", ".", "-tp", "2"}, "-tp goes with -run"},
		{[]string{"-data", ".", "-model", "x"}, "-model goes with -run"},
		{[]string{"-data", ".", "-run", "x", "-worth"}, "-worth goes without -run"},
		{[]string{"-data", ".", "-gpu", "abacus"}, `no GPU of the catalogue is named in "abacus"`},
	} {
		err := run(c.args, io.Discard, io.Discard)
		if err == nil || err.Error() != c.want {
			t.Errorf("%v: %v, want %s", c.args, err, c.want)
		}
	}
	var help strings.Builder
	if err := run([]string{"-h"}, io.Discard, &help); err == nil || !strings.Contains(help.String(), "Usage: validate") {
		t.Errorf("help says %q, %v", help.String(), err)
	}
}

// Data need not have everything: what is not there is named, and so is a run
// that cannot be replayed.
func TestAbsentMeasurements(t *testing.T) {
	data := t.TempDir()
	err := run([]string{"-data", data}, io.Discard, io.Discard)
	if want := "-data: no measurements of any GPU in " + data; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	write(t, filepath.Join(data, "runs", "some", "meta.json"), fmt.Sprintf(settings, ""))
	var out strings.Builder
	if err := run([]string{"-data", data}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"not in the data: " + filepath.Join(data, "layers", "vidur_layer_times.csv.gz"),
		"not in the data: " + filepath.Join(data, "endtoend", "splitwise_perf_medians.csv.gz"),
		"not in the data: " + filepath.Join(data, "endtoend", "closed_loop_ttft_tpot.csv.gz"),
		"run left out: some: open " + filepath.Join(data, "runs", "some", "requests.jsonl"),
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// What was measured on a GPU that the catalogue does not have is named, and
// stops nothing, whichever GPU is asked for.
func TestStrangers(t *testing.T) {
	data := t.TempDir()
	for _, name := range []string{"b60_gemm_vllm_0.24.0_bfloat16", "b60_moe_vllm_0.24.0_bfloat16", "b60_attention_vllm_0.24.0_context_attention_perf",
		"b60_comm_vllm_0.24.0_custom_allreduce_perf", "b60_comm_nccl_2.29.2_nccl_perf", "h100_nvl_gemm_vllm_0.24.0_bfloat16"} {
		writeZipped(t, filepath.Join(data, "kernels", name+".csv.gz"), "nothing\n1\n")
	}
	writeZipped(t, filepath.Join(data, "layers", "vidur_layer_times.csv.gz"),
		"device,model,tp,num_tokens,layer_ms_no_attention,weights_per_layer_per_device\nb60,m,1,1,1,1\nb60,m,1,2,1,1\n")
	writeZipped(t, filepath.Join(data, "endtoend", "splitwise_perf_medians.csv.gz"),
		"hardware,model,tensor_parallel,prompt_size,batch_size,token_size,prompt_ms,token_ms,e2e_ms\nb60,bloom-176b,8,1,1,1,1,1,1\n")
	var out strings.Builder
	if err := run([]string{"-data", data}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`left out: 5 file(s) of kernels/: no GPU of the catalogue is named in "b60"`,
		`left out: 1 file(s) of kernels/: "h100_nvl" is a H100-NVL, which the catalogue does not have`,
		`left out: 2 row(s) of layers/vidur_layer_times.csv.gz: no GPU of the catalogue is named in "b60"`,
		`left out: 1 row(s) of endtoend/splitwise_perf_medians.csv.gz: no GPU of the catalogue is named in "b60"`,
	} {
		if !strings.Contains(out.String(), want+"\n") {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	err := run([]string{"-data", data, "-gpu", "H100"}, io.Discard, io.Discard)
	if want := "-data: no measurements of H100 in " + data; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestNoStrangersAreMeasured(t *testing.T) {
	if list, err := strangers(shared(t)); err != nil || len(list) > 0 {
		t.Errorf("%q, %v", list, err)
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"a100_sxm": "A100-80", "h100_sxm": "H100", "b200_sxm": "B200", "l40s": "L40S", "rtx_pro_6000_server": "RTX-PRO-6000",
		"NVIDIA GeForce RTX 4090": "RTX-4090", "rtxpro6000_llama31_8b": "RTX-PRO-6000", "a100-80gb": "A100-80", "H200": "H200", "a40": "A40",
		"NVIDIA A100-SXM4-80GB": "A100-80", "NVIDIA A100-SXM4-40GB": "A100-40", "NVIDIA A100 80GB PCIe": "A100-80-PCIe", "a100_pcie": "A100-80-PCIe",
		"A100-40": "A100-40", "NVIDIA H100 80GB HBM3": "H100", "h100_pcie": "H100-PCIe", "gb200": "GB200", "h200_sxm": "H200", "l4": "L4",
		"NVIDIA RTX PRO 6000 Blackwell Server Edition": "RTX-PRO-6000", "Ascend910B3": "910B3", "TPU-v6e-1": "TPU-v6e",
	} {
		if g, err := gpuOf(name); err != nil || g.Name != want {
			t.Errorf("%s is %s, %v, want %s", name, g.Name, err, want)
		}
	}
	for name, want := range map[string]string{
		"meta-llama/Llama-3.1-8B": "Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-8B": "Llama-3.1-8B",
		"Qwen/Qwen3-30B-A3B-Instruct-2507": "Qwen3-30B-A3B", "Qwen/Qwen3-32B": "Qwen3-32B", "/data/model/Qwen3-32B/": "Qwen3-32B",
		"meta-llama/Meta-Llama-3-8B-Instruct": "Llama-3-8B", "meta-llama/Meta-Llama-3-70B": "Llama-3-70B", "casperhansen/llama-3-70b-instruct": "Llama-3-70B",
		"deepseek-ai/DeepSeek-R1-0528": "DeepSeek-R1", "deepseek-ai/DeepSeek-V3": "DeepSeek-V3",
		"/hub/models--meta-llama--Llama-3.1-8B/snapshots/0e9e39f2": "Llama-3.1-8B",
	} {
		if m, err := modelOf(name); err != nil || m.Name != want {
			t.Errorf("%s is %s, %v, want %s", name, m.Name, err, want)
		}
	}
	// What is merely called alike is something else.
	for _, name := range []string{"", "NVIDIA L40", "NVIDIA RTX A6000", "NVIDIA H100 NVL", "NVIDIA GeForce RTX 4090 D", "A100-PCIE-40GB", "llama40b", "b60"} {
		if g, err := gpuOf(name); err == nil {
			t.Errorf("%q is %s, want an error", name, g.Name)
		}
	}
	for _, name := range []string{"", "somebody/else", "deepseek-ai/DeepSeek-V3.2-Exp-16L64E", "Llama-3.1-80B",
		"deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", "meta-llama/Llama-3.2-8B", "meta-llama/Llama-3-80B"} {
		if m, err := modelOf(name); err == nil {
			t.Errorf("%q is %s, want an error", name, m.Name)
		}
	}
}

// A folder with a config.json names a model as its file does.
func TestModelFolder(t *testing.T) {
	config := filepath.Join(filepath.Dir(shared(t)), "models", "Qwen3-8B_config.json")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "Somebody-8B")
	write(t, filepath.Join(dir, "config.json"), string(text))
	if m, err := modelOf(dir); err != nil || m.Name != "Somebody-8B" || m.Layers != 36 {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestCSVErrorsNameThePlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.csv")
	write(t, path, "m,n\n1,2\n3,four\n")
	want := path + `:3: n is "four", not a number`
	if err := readCSV(path, []string{"m", "n"}, func(r *row) { r.number("n") }); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	write(t, path, "m\nNaN\n")
	want = path + `:2: m is "NaN", not a number`
	if err := readCSV(path, nil, func(r *row) { r.number("m") }); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	want = path + `: no column "k"`
	if err := readCSV(path, []string{"k"}, func(*row) {}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	write(t, path, "m\n1.5\n")
	want = path + ":2: m is 1.5, not a whole number"
	if err := readCSV(path, nil, func(r *row) { r.count("m") }); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// No geometry is in both halves, whatever the operator, and each half has at
// least a third of the samples.
func TestSplit(t *testing.T) {
	data := shared(t)
	for _, op := range operators {
		paths, err := filepath.Glob(filepath.Join(data, "kernels", "*"+op.files))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v, %v", op.name, paths, err)
		}
		half, n := map[string]bool{}, [2]int{}
		err = readCSV(paths[len(paths)-1], op.need, func(r *row) {
			s, _, _, ok := op.read(r)
			if !ok {
				return
			}
			h := held(s.Group)
			if was, seen := half[s.Group]; seen && was != h {
				t.Fatalf("%s: %s is in both halves", op.name, s.Group)
			}
			half[s.Group] = h
			n[map[bool]int{false: 0, true: 1}[h]]++
		})
		if err != nil {
			t.Fatal(err)
		}
		if min(n[0], n[1]) < (n[0]+n[1])/3 {
			t.Errorf("%s: halves of %v samples", op.name, n)
		}
	}
}

// missed are what two formats of experts reach beyond their target of 20 %, on
// the GPUs whose kernels the form does not describe.
var missed = map[string]float64{"H100 experts int4_wo": 0.23, "B200 experts int4_wo": 0.25, "H100 experts w4a16_mxfp4": 0.24}

// One operator of one GPU, as an instance of all: better than the roofline by
// far, and within its target. Long, all that have a target on all GPUs, but for
// two formats of experts on the GPUs whose kernels the form does not describe.
func TestKernelTargets(t *testing.T) {
	data := shared(t)
	only, some := "A100-80", operatorsNamed(t, "prefill attention")
	if long() {
		only, some = "", operators
	}
	fits, err := fitKernels(data, only, false, some...)
	if err != nil {
		t.Fatal(err)
	}
	if long() && len(fits) < 50 || len(fits) < len(some) {
		t.Fatalf("%d fits of %d operators", len(fits), len(some))
	}
	// Products on the GPU whose cache matters most, and with activations that
	// are converted in the measured time, have no target or reach more.
	most := map[string]float64{"L40S matrix bf16": 0.12, "L40S matrix fp8": 0.14, "H100 matrix fp8": 0.10, "B200 matrix nvfp4": 0.08}
	for _, f := range fits {
		t.Logf("%s %s: held %v; roofline %v; interpolation %v", f.GPU, f.Operator, f.Held, f.Roofline, f.Table)
		name := f.GPU + " " + f.Operator
		limit := f.Target
		for _, other := range []map[string]float64{missed, most} {
			if x := other[name]; x > 0 {
				limit = x
			}
		}
		if limit > 0 && f.Held.MAPE > limit || f.Held.MAPE > f.Roofline.MAPE/1.5 || f.Held.N == 0 {
			t.Errorf("%s: held %v, limit %v, roofline %v", name, f.Held, limit, f.Roofline)
		}
	}
}

func operatorsNamed(t *testing.T, name string) []operator {
	t.Helper()
	for _, op := range operators {
		if op.name == name {
			return []operator{op}
		}
	}
	t.Fatalf("no operator %s", name)
	return nil
}

func TestLayersAndReduceTargets(t *testing.T) {
	data := shared(t)
	only, want := "H100", 1
	if long() {
		only, want = "", 3
	}
	layers, err := reportLayers(data, only)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		t.Logf("%s: %v, worst pair %.1f %%", l.GPU, l.Held, 100*l.Worst)
		if !l.Met {
			t.Errorf("%s: %v", l.GPU, l.Held)
		}
	}
	if len(layers) != want {
		t.Errorf("%d GPUs with layers, want %d", len(layers), want)
	}
	if !long() {
		return
	}
	reduce, err := fitReduce(data, "H100")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range reduce {
		if !f.Met {
			t.Errorf("%s: %v", f.Operator, f.Held)
		}
	}
	if len(reduce) != 6 {
		t.Errorf("%d collectives, want 6", len(reduce))
	}
}

func TestStaticBatches(t *testing.T) {
	steps, err := reportSteps(shared(t), "")
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != 8 {
		t.Errorf("%d set-ups, want 8", len(steps))
	}
	falls, worse := 0, false
	for _, s := range steps {
		name := fmt.Sprintf("%s %s TP %d", s.GPU, s.Model, s.TP)
		t.Logf("%s: prompts %v; longer %v; decode %v", name, s.Prompt, s.Long, s.Decode)
		if s.Prompt.Held.N != 3 || s.Decode.Held.N != 9 {
			t.Errorf("%s: %d prompts and %d decode steps are not fitted, want 3 and 9", name, s.Prompt.Held.N, s.Decode.Held.N)
		}
		if !s.Met || s.Prompt.Held.MAPE > s.Target || s.Decode.Held.MAPE > s.Target {
			t.Errorf("%s: prompts %v; decode steps %v; met %v", name, s.Prompt.Held, s.Decode.Held, s.Met)
		}
		if s.Prompt.Fell != "" {
			falls++
			worse = s.Prompt.Alone.MAPE > s.Target
		}
	}
	// On eight H100 128 tokens took longer than 256: what the host takes shows
	// in the other set-ups only.
	if falls != 1 || !worse {
		t.Errorf("prompts fell in %d set-ups, want 1; alone beyond the target: %t, want true", falls, worse)
	}
}

func TestTogether(t *testing.T) {
	line := costmodel.Form{
		Name: "line", Inputs: []string{"x"}, Parameters: []costmodel.Parameter{{Name: "slope"}, {Name: "base"}},
		Seconds: func(p, x []float64) float64 { return p[0]*x[0] + p[1] },
	}
	form := together(line, 2, "base")
	var names []string
	for _, p := range form.Parameters {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"slope 0", "slope 1", "base"}, names); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
	for set, want := range []float64{2*10 + 5, 3*10 + 5} {
		if got := form.Seconds([]float64{2, 3, 5}, []float64{10, float64(set)}); got != want {
			t.Errorf("set-up %d: %v, want %v", set, got, want)
		}
	}
}

// fixed is a device on which every step takes the same.
type fixed float64

func (f fixed) stepSeconds([]sim.Batch) float64 { return float64(f) }

// engine writes a run of two requests and returns its replay on a fixed device.
func engine(t *testing.T, settings string) *replay {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "meta.json"), settings)
	var lines strings.Builder
	for i, r := range []struct{ arrival, first, last float64 }{{0, 1, 3}, {0.5, 2, 4}} {
		fmt.Fprintf(&lines, `{"request_id":"r%d","input_toks":32,"output_toks":3,"arrival_time":%v,"queued_ts":%v,"scheduled_ts":%v,"first_token_ts":%v,"last_token_ts":%v}`+"\n",
			i, 100+r.arrival, 7+r.arrival, 7+r.arrival, 7+r.first, 7+r.last)
	}
	write(t, filepath.Join(dir, "requests.jsonl"), lines.String())
	write(t, filepath.Join(dir, "timeseries.csv"), "t,prompt_throughput,gen_throughput,running,waiting,kv_cache_pct\n1,64,0,1,0,0\n2,0,2,2,0,0\n")
	rec, err := readRecording(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &replay{rec: rec, device: fixed(1), scale: 1, blocks: 100}
}

const settings = `{"model":"m","engine_kwargs":{"max_num_seqs":4,"max_num_batched_tokens":64%s}}`

// Steps of a second. The second request arrives half-way through the first
// one. An engine that plans ahead has planned the next by then.
func TestReplay(t *testing.T) {
	for _, c := range []struct {
		async bool
		want  []float64 // taken, first and last token of both
	}{
		{false, []float64{0, 1, 3, 1, 2, 4}},
		{true, []float64{0, 1, 3, 1, 3, 5}},
	} {
		r := engine(t, fmt.Sprintf(settings, fmt.Sprintf(`,"async_scheduling":%t`, c.async)))
		h, err := r.run()
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		for _, l := range h.requests {
			got = append(got, l.taken, l.first, l.last)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("async %t: %v, want %v", c.async, got, c.want)
		}
		if h.makespan != c.want[5] || len(h.steps[0]) != int(c.want[5]) {
			t.Errorf("async %t: makespan %v in %d steps", c.async, h.makespan, len(h.steps[0]))
		}
	}
}

func TestReplayAddsTheHost(t *testing.T) {
	r := engine(t, fmt.Sprintf(settings, `,"async_scheduling":false`))
	r.host = host{Step: 0.25, Sequence: 0.5}
	r.scale = 2
	h, err := r.run()
	if err != nil {
		t.Fatal(err)
	}
	// One sequence in the first step: 2·1 + 0.25 + 0.5.
	if got := h.requests[0].first; got != 2.75 {
		t.Errorf("first token at %v, want 2.75", got)
	}
}

// The figures of a run against itself: the real columns are those of the file.
func TestCompare(t *testing.T) {
	r := engine(t, fmt.Sprintf(settings, `,"async_scheduling":false`))
	r.rec.peer = []peerRow{{Metric: "TTFT Mean", Real: 1250, Peer: 1300, Error: 0.04}}
	h, err := r.run()
	if err != nil {
		t.Fatal(err)
	}
	figures := compare(r.rec, h)
	for _, c := range []struct {
		metric          string
		real, simulated float64
	}{
		{"TTFT Mean", 1250, 1000}, {"TPOT Mean", 1000, 1000}, {"Latency Mean", 3250, 3000}, {"makespan", 4, 4}, {"output throughput", 1.5, 1.5},
	} {
		found := false
		for _, f := range figures {
			if f.Metric == c.metric {
				found = true
				if math.Abs(f.Real-c.real) > 1e-9 || math.Abs(f.Simulated-c.simulated) > 1e-9 {
					t.Errorf("%s is %v and %v, want %v and %v", c.metric, f.Real, f.Simulated, c.real, c.simulated)
				}
				if (f.Peer != nil) != (c.metric == "TTFT Mean") {
					t.Errorf("%s has peer %v", c.metric, f.Peer)
				}
			}
		}
		if !found {
			t.Errorf("no %s", c.metric)
		}
	}
	series := h.seriesOf(r.rec.series, 100, 1)
	if len(series) != 4 || series[1].Running != 2 || series[0].OutputRate != 1 {
		t.Errorf("series %+v", series)
	}
}

// Lives of requests under a host that takes a millisecond a step give it back.
func TestFitHost(t *testing.T) {
	r := engine(t, fmt.Sprintf(settings, `,"async_scheduling":false`))
	const real = 0.021
	r.device = fixed(0.02)
	for i := range r.rec.requests {
		m := &r.rec.requests[i]
		m.Last = m.First + 2*real
		for range 2 { // copies, for there must be more samples than parameters
			r.rec.requests = append(r.rec.requests, *m)
		}
	}
	h, _, err := fitHost([]*replay{r})
	if err != nil {
		t.Fatal(err)
	}
	past := *r
	past.host = h
	x, err := past.run()
	if err != nil {
		t.Fatal(err)
	}
	if got := (x.requests[0].last - x.requests[0].first) / 2; math.Abs(got-real) > 1e-4 {
		t.Errorf("steps of %v s with host %+v, want %v", got, h, real)
	}
}

func TestRecordingRefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "meta.json"), fmt.Sprintf(settings, ""))
	write(t, filepath.Join(dir, "requests.jsonl"), `{"request_id":"a","input_toks":3,"output_toks":1,"arrival_time":1,"queued_ts":5,"scheduled_ts":4,"first_token_ts":6,"last_token_ts":6}`)
	want := filepath.Join(dir, "requests.jsonl") + `:1: request "a": scheduled_ts is 4, before what came first, 5`
	if _, err := readRecording(dir); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A measured run, kernels alone: the pace of the engine within a tenth, and
// everything that the report promises is in the JSON.
func TestRecordedRun(t *testing.T) {
	data := shared(t)
	dir := filepath.Join(data, "runs", "rtx4090_llama31_8b")
	this, r, err := prepare(options{data: data}, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.simulate(this); err != nil {
		t.Fatal(err)
	}
	t.Logf("pace %.3f, TTFT amplification %.2f", r.BarePace, r.Amplification)
	if r.BarePace < 0.95 || r.BarePace > 1.05 || r.Blocks != 2588 || r.BlocksFrom != "recorded" || r.Preemptions == 0 || r.Amplification < 0.8 {
		t.Errorf("pace %v, %d blocks %s, %d preemptions, amplification %v", r.BarePace, r.Blocks, r.BlocksFrom, r.Preemptions, r.Amplification)
	}
	if r.Shared != 31 || r.SharedFrom != "sharegpt-llama-3.1-8b-300-sps10.csv" {
		t.Errorf("%d prompts begin with an earlier one, by %q", r.Shared, r.SharedFrom)
	}
	text, err := json.Marshal(report{Runs: []*runReport{r}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"kv_blocks_from":"recorded"`, `"peer_error":`, `"series":[{"t":1,`, `"series_recorded":[{"t":1,`, `"pace_without_host":`, `"ttft_amplification":`, `"energy_and_price_estimate":`, `"utilisation":{"mfu":0.`, `"mbu":0.`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in the JSON", want)
		}
	}
}

func TestReportPrints(t *testing.T) {
	var out strings.Builder
	worth := 0.25
	r := report{Kernels: []*fitted{{GPU: "G", Operator: "op", Held: costmodel.AccuracyOf([]float64{0.1, -0.1}), Cross: costmodel.AccuracyOf(nil),
		Target: 0.05, Values: []coefficient{{Name: "floor", Unit: "s", Value: 2e-6, Error: 1e-7, AtBound: true, Without: &worth}}}}}
	if err := printText(&out, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  10.0  ", "missed", "floor 2e-06 ± 1e-07 s! (25.0 %)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if text, err := json.Marshal(r); err != nil || !strings.Contains(string(text), `"cross_validated":{"n":0,"mape":null`) {
		t.Errorf("JSON %s, %v", text, err)
	}
}

func TestPlots(t *testing.T) {
	dir := t.TempDir()
	r := engine(t, fmt.Sprintf(settings, ""))
	h, err := r.run()
	if err != nil {
		t.Fatal(err)
	}
	all := report{Kernels: []*fitted{{GPU: "G", Operator: "op", points: []point{{1e-3, 2e-3}, {2e-3, 2e-3}}}},
		Runs: []*runReport{{Run: "two requests", Recorded: r.rec.series, Series: h.seriesOf(r.rec.series, 100, 1)}}}
	if err := plotAll(dir, all); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kernel-G-op.png", "run-two-requests-running.png", "run-two-requests-KV.png"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Steps of 20 ms: so does every token. Each of the other clients has one step
// with a prompt in a request's life.
func TestClosedLoop(t *testing.T) {
	device := func() *loopModel { return &loopModel{CostModel: costmodel.Linear{Fixed: 20 * time.Millisecond}} }
	for _, c := range []struct {
		clients, output int
		shortest        float64
	}{{1, 20, 1}, {4, 40, 1}, {8, 200, 0.8}} {
		got, err := closedLoop(device(), &loopRow{clients: c.clients, prompt: 10, output: c.output, tp: 1}, c.shortest)
		if err != nil {
			t.Fatal(err)
		}
		mean := float64(c.output) * (1 + c.shortest) / 2
		if want := float64(c.clients-1) / mean; math.Abs(got.tpot-0.02) > 1e-9 || math.Abs(got.prompts-want) > 0.15*want {
			t.Errorf("%d clients: %v s a token with %v prompts, want 0.02 with %v", c.clients, got.tpot, got.prompts, want)
		}
	}
	if _, err := closedLoop(device(), &loopRow{clients: 1, prompt: 1, output: 1}, 1); err == nil {
		t.Error("no error without a second token")
	}
}

// Rows that differ in their number of clients only are on one side.
func TestLoopHalves(t *testing.T) {
	var rows []*loopRow
	for _, clients := range []int{4, 8} {
		for _, tp := range []int{8, 1} {
			for _, prompt := range []int{1024, 8192} {
				rows = append(rows, &loopRow{clients: clients, tp: tp, prompt: prompt, output: 1024})
			}
		}
	}
	in, out := loopHalves(rows)
	if len(in) != 4 || len(out) != 4 {
		t.Fatalf("halves of %d and %d rows", len(in), len(out))
	}
	for _, r := range in {
		if r.prompt != 1024 {
			t.Errorf("%+v is fitted", r)
		}
	}
}

// The closed loops of one GPU with their targets. Reading and host term come
// from the fitted half, and the format of the cache is what matters most.
func TestClosedLoopTargets(t *testing.T) {
	data := shared(t)
	if !long() {
		return
	}
	var loops []*loopReport
	for _, gpu := range []string{"B200", "H100"} {
		fits, err := fitKernels(data, gpu, false, operators[:7]...)
		if err != nil {
			t.Fatal(err)
		}
		more, _, err := reportLoops(options{data: data, gpu: gpu}, fits)
		if err != nil {
			t.Fatal(err)
		}
		loops = append(loops, more...)
	}
	with := 0
	for _, l := range loops {
		t.Logf("%s %s %s %s: %v", l.Model, l.GPU, l.Engine, l.Formats, l.Held)
		if !l.Met {
			t.Errorf("%s %s %s %s: %v, target %v", l.Model, l.GPU, l.Engine, l.Formats, l.Held, l.Target)
		}
		if l.Target > 0 {
			with++
		}
		if quantised := l.Formats != "bf16"; quantised != (l.Reading.Cache == "fp8") {
			t.Errorf("%s %s %s %s: KV is %s", l.Model, l.GPU, l.Engine, l.Formats, l.Reading.Cache)
		}
	}
	if with != 4 {
		t.Errorf("%d set-ups with a target, want 4", with)
	}
}
