package main

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/costmodel"
)

// folder writes a run, its requests from the lines, and returns its path.
func folder(t *testing.T, meta string, lines ...string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "meta.json"), meta)
	write(t, filepath.Join(dir, "requests.jsonl"), strings.Join(lines, "\n"))
	return dir
}

const sound = `{"request_id":"a","input_toks":3,"output_toks":1,"arrival_time":1,"queued_ts":5,"scheduled_ts":5,"first_token_ts":6,"last_token_ts":6}`

// changed is the sound request with another value of a field; "" takes the
// field out.
func changed(field, value string) string {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(sound), &fields); err != nil {
		panic(err)
	}
	fields[field] = json.RawMessage(value)
	if value == "" {
		delete(fields, field)
	}
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func TestRequestsAreRefused(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{[]string{changed("scheduled_ts", "4")}, `:1: request "a": scheduled_ts is 4, before what came first, 5`},
		{[]string{changed("arrival_time", "")}, `:1: request "a": no arrival_time`},
		{[]string{changed("queued_ts", "")}, `:1: request "a": no queued_ts`},
		{[]string{changed("first_token_ts", "null")}, `:1: request "a": no first_token_ts`},
		{[]string{changed("arrival_time", "-5")}, `:1: request "a": arrival_time is -5`},
		{[]string{changed("input_toks", "")}, `:1: request "a": input_toks is 0 or not there`},
		{[]string{changed("output_toks", "0")}, `:1: request "a": output_toks is 0 or not there`},
		{[]string{changed("request_id", `"b"`), sound, "", sound}, `:4: request_id is "a", as in line 2`},
		{[]string{changed("request_id", `"b"`), changed("arrival_time", "900")}, `: request "b": queued_ts is 5, 899 s after arrival_time`},
		{[]string{sound[:20]}, `:1: unexpected end of JSON input`},
		{nil, `: no requests`},
	} {
		dir := folder(t, fmt.Sprintf(settings, ""), c.lines...)
		_, err := readRecording(dir)
		if want := filepath.Join(dir, "requests.jsonl") + c.want; err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestSettingsAreRefused(t *testing.T) {
	for more, want := range map[string]string{
		`"tensor_parallel_size":-2`:               "tensor_parallel_size is -2 or not there",
		`"max_num_seqs":0`:                        "max_num_seqs is 0 or not there",
		`"max_num_batched_tokens":-1`:             "max_num_batched_tokens is -1 or not there",
		`"pipeline_parallel_size":2`:              "pipeline_parallel_size is 2, only 1 is replayed",
		`"quantization":"awq"`:                    `quantization is "awq", which is not replayed`,
		`"kv_cache_dtype":"int8"`:                 `kv_cache_dtype is "int8", which is not replayed`,
		`"scheduling_policy":"priority"`:          `scheduling policy is "priority", which is not replayed`,
		`"speculative_config":{"method":"ngram"}`: `speculative_config is "{\"method\":\"ngram\"}", which is not replayed`,
		`"dtype":"float32"`:                       `dtype is "float32", which is not replayed`,
		`"block_size":-16`:                        "block_size is -16 or not there",
		`"max_model_len":-1`:                      "max_model_len is -1 or not there",
		`"long_prefill_token_threshold":-1`:       "long_prefill_token_threshold is -1 or not there",
	} {
		dir := folder(t, fmt.Sprintf(settings, ","+more), sound)
		_, err := readRecording(dir)
		if want := filepath.Join(dir, "meta.json") + ": " + want; err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// What an engine made of its settings counts, wherever a version writes it.
func TestSettings(t *testing.T) {
	asked := engineSettings{reduce: ncclReduce, tp: 1, ranks: 1, seqs: 4, batchTokens: 64, async: true, prefixes: true, blockSize: 16}
	made := engineSettings{reduce: ncclReduce, tp: 2, ranks: 1, seqs: 8, batchTokens: 512, maxModelLen: 4096, threshold: 100, watermark: 0.01,
		wholePrompts: true, blocks: 7, blockSize: 64, utilisation: 0.8}
	for name, c := range map[string]struct {
		meta string
		want engineSettings
	}{
		"asked": {fmt.Sprintf(settings, `,"disable_custom_all_reduce":true,"kv_cache_dtype":"auto","dtype":"bfloat16","speculative_config":null`), asked},
		"resolved": {`{"engine_kwargs":{"tensor_parallel_size":2,"max_num_seqs":4},"resolved_config":{
			"scheduler_config":{"max_num_seqs":8,"max_num_batched_tokens":512,"async_scheduling":false,"enable_chunked_prefill":false,
				"long_prefill_token_threshold":100,"watermark":0.01,"policy":"fcfs"},
			"parallel_config":{"disable_custom_all_reduce":true},
			"cache_config":{"num_gpu_blocks":7,"block_size":64,"gpu_memory_utilization":0.8,"enable_prefix_caching":false,"cache_dtype":"auto"},
			"model_config":{"max_model_len":4096,"quantization":null}}}`, made},
		"beside": {`{"engine_kwargs":{"disable_custom_all_reduce":true,"tensor_parallel_size":2,"max_model_len":4096},
			"scheduler_config":{"max_num_seqs":8,"max_num_batched_tokens":512,"async_scheduling":false,"enable_chunked_prefill":false,
				"long_prefill_token_threshold":100,"watermark":0.01},
			"kv_cache":{"num_gpu_blocks":7,"block_size":64,"gpu_memory_utilization":0.8,"enable_prefix_caching":false}}`, made},
	} {
		rec, err := readRecording(folder(t, c.meta, sound))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.want, rec.settings, cmp.AllowUnexported(engineSettings{})); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// A folder has requests in any order, and needs neither a series nor a peer;
// one that is there has to make sense.
func TestFolderFiles(t *testing.T) {
	dir := folder(t, fmt.Sprintf(settings, ""), changed("arrival_time", "2"), strings.Replace(sound, `"a"`, `"b"`, 1))
	rec, err := readRecording(dir)
	if err != nil || rec.requests[0].ID != "b" || rec.series != nil || rec.peer != nil {
		t.Fatalf("%+v, %v", rec, err)
	}
	const head = "t,prompt_throughput,gen_throughput,running,waiting,kv_cache_pct\n"
	for _, c := range []struct{ file, text, want string }{
		{"timeseries.csv", "t,running\n1,2\n", `: no column "prompt_throughput"`},
		{"timeseries.csv", head + "1,0,0,1,0,0\n1,0,0,1,0,0\n", `:3: t is 1, not after 1`},
		{"timeseries.csv", head + "1,0,0,many,0,0\n", `:2: running is "many", not a number`},
		{"peer_simulator_summary.txt", "nothing\n", ": no line of a name, two figures and their difference"},
	} {
		path := filepath.Join(dir, c.file)
		write(t, path, c.text)
		if _, err := readRecording(dir); err == nil || err.Error() != path+c.want {
			t.Errorf("got  %v\nwant %s%s", err, path, c.want)
		}
		write(t, filepath.Join(dir, "timeseries.csv"), head)
	}
	write(t, filepath.Join(dir, "peer_simulator_summary.txt"), "Metric   vLLM   Sim  Diff%\n-----\nTPOT Mean   32.5   32.1  -1.0%\n")
	rec, err = readRecording(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]peerRow{{"TPOT Mean", 32.5, 32.1, -0.01}}, rec.peer); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Blocks of 32 tokens and prompts that are not cut: the first prompt, of a token
// more than a step takes, would need two steps.
func TestReplaySettings(t *testing.T) {
	r := engine(t, fmt.Sprintf(settings, `,"async_scheduling":false,"enable_chunked_prefill":false,"block_size":32`))
	r.rec.requests[0].Prompt = 65
	if _, err := r.run(); err == nil || !strings.Contains(err.Error(), "request r0: ") {
		t.Errorf("a prompt larger than a step gives %v, want rejected", err)
	}
	r.rec.requests[0].Prompt, r.rec.settings.maxModelLen = 64, 66
	if _, err := r.run(); err == nil || !strings.HasSuffix(err.Error(), ": request r0: ended after 2 of its 3 tokens") {
		t.Errorf("a context that is too short gives %v", err)
	}
	r.rec.settings.maxModelLen, r.blocks = 0, 4 // one is reserved: room for both prompts, not for answers
	h, err := r.run()
	if err != nil {
		t.Fatal(err)
	}
	if h.makespan != 6 {
		t.Errorf("makespan %v with blocks for one request at a time, want 6", h.makespan)
	}
	r = engine(t, fmt.Sprintf(settings, `,"async_scheduling":false,"long_prefill_token_threshold":16`))
	if h, err = r.run(); err != nil || h.requests[0].first != 2 {
		t.Errorf("a prompt in two chunks has its first token at %v, %v, want 2", h.requests[0].first, err)
	}
}

// A workload file tells which prompts begin with an earlier one; that of
// another run does not.
func TestSharedPrompts(t *testing.T) {
	r := engine(t, fmt.Sprintf(settings, ""))
	near, far := t.TempDir(), t.TempDir()
	write(t, filepath.Join(near, "other.csv"), "input_toks,prefix_shared_with_earlier_toks\n320,0\n33,32\n")
	write(t, filepath.Join(near, "prices.csv"), "gpu,price\nH100,2\n")
	write(t, filepath.Join(far, "this.csv"), "input_toks,prefix_shared_with_earlier_toks\n32,0\n33,32\n")
	list, from, err := r.rec.sharedPrompts(near, far)
	if err != nil || from != "this.csv" || fmt.Sprint(list) != "[-1 0]" {
		t.Errorf("%v from %q, %v", list, from, err)
	}
	write(t, filepath.Join(far, "this.csv"), "input_toks,prefix_shared_with_earlier_toks\n32,none\n")
	want := filepath.Join(far, "this.csv") + `:2: prefix_shared_with_earlier_toks is "none", not a number`
	if _, _, err := r.rec.sharedPrompts(far); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A run whose answers have one token has no TPOT and no host of its own, and a
// run without a series is compared without one.
func TestReportOfShortAnswers(t *testing.T) {
	r := engine(t, fmt.Sprintf(settings, ""))
	for i := range r.rec.requests {
		m := &r.rec.requests[i]
		m.Output, m.Last = 1, m.First
	}
	r.rec.series = nil
	report := &runReport{Run: "short", Model: "m", GPU: "g", Ranks: 1}
	if err := report.simulate(r); err != nil {
		t.Fatal(err)
	}
	if n := answers(r); n != 0 {
		t.Errorf("%d answers of two tokens", n)
	}
	text, err := json.Marshal(report)
	if err != nil || !strings.Contains(string(text), `"series_mean_errors":{"seconds":0,"running":null`) || strings.Contains(string(text), "TPOT") {
		t.Errorf("JSON %s, %v", text, err)
	}
	var out strings.Builder
	if err := printRun(&out, report); err != nil || !strings.Contains(out.String(), "running not recorded") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if err := plotRun(t.TempDir(), report); err != nil {
		t.Error(err)
	}
}

// Who has ended is idle: a simulation that is over early is not compared with
// the seconds that it shares with the engine only.
func TestSeriesErrors(t *testing.T) {
	rec := &recording{series: []second{{T: 1, Running: 4, KV: 10}, {T: 2, Running: 4}, {T: 3, Running: 4, Waiting: 6}}}
	got := rec.seriesErrors([]second{{T: 1, Running: 4, KV: 4}})
	if want := (seriesErrors{3, 8. / 3, 2, 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := rec.seriesErrors(nil); got.Running != 4 {
		t.Errorf("against nothing %+v", got)
	}
	if got := (&recording{}).seriesErrors([]second{{T: 1}}); !math.IsNaN(float64(got.Running)) {
		t.Errorf("without a recorded series %+v", got)
	}
	h := &history{makespan: 2.2, steps: [][]step{{{end: 0.4, tokens: 6, prompts: 20}, {end: 1.2, tokens: 8}, {end: 2.2}}}}
	var rates []float64
	for _, s := range h.seriesOf([]second{{T: 0.5}, {T: 1.5}}, 2, 1) {
		rates = append(rates, s.T, s.OutputRate, s.PromptRate)
	}
	if want := []float64{0.5, 12, 40, 1.5, 8, 0, 2.5, 0, 0}; !cmp.Equal(rates, want) {
		t.Errorf("times and rates %v, want %v", rates, want)
	}
}

// A copy of a run, under whatever name, is no other run to fit a host on.
func TestSameRun(t *testing.T) {
	var runs []*recording
	for _, arrival := range []string{"1", "1", "2"} {
		rec, err := readRecording(folder(t, fmt.Sprintf(settings, ""), changed("arrival_time", arrival)))
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, rec)
	}
	if !runs[0].sameAs(runs[1]) || runs[0].sameAs(runs[2]) {
		t.Errorf("copy %t, another run %t", runs[0].sameAs(runs[1]), runs[0].sameAs(runs[2]))
	}
}

// A run is computed in the formats of its engine and of the model's
// configuration; a name alone does not tell them.
func TestRunFormats(t *testing.T) {
	mxfp4 := precision("w4a16_mxfp4")
	for _, c := range []struct {
		name     string
		settings engineSettings
		want     costmodel.Precision
		experts  costmodel.Precision
		cache    float64
		err      string
	}{
		{"Qwen/Qwen3-32B", engineSettings{}, costmodel.Precision{}, costmodel.Precision{}, 2, ""},
		{"Qwen/Qwen3-32B", engineSettings{eightWeights: true, eightCache: true}, precision("fp8"), costmodel.Precision{}, 1, ""},
		{"Qwen/Qwen3-30B-A3B", engineSettings{eightWeights: true}, precision("fp8"), precision("fp8"), 2, ""},
		{"openai/gpt-oss-20b", engineSettings{}, costmodel.Precision{}, mxfp4, 2, ""},
		{"Qwen/Qwen3-32B-FP8", engineSettings{}, costmodel.Precision{}, costmodel.Precision{}, 2,
			"Qwen/Qwen3-32B-FP8 has quantised weights, FP8: -model with its config.json tells how"},
	} {
		m, err := modelOf(c.name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.settings.formats(m, c.name)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: %v, want %s", c.name, err, c.err)
			}
			continue
		}
		if err != nil || got.Precision != c.want || got.MoE.Precision != c.experts || got.KV.BytesPerValue() != c.cache {
			t.Errorf("%s, %+v: %v, experts %v, cache of %v bytes, %v", c.name, c.settings, got.Precision, got.MoE.Precision, got.KV.BytesPerValue(), err)
		}
	}
}

// Every figure with a target says whether it is met, in lines that a terminal
// of 95 columns holds.
func TestRunPrints(t *testing.T) {
	r := engine(t, fmt.Sprintf(settings, ""))
	r.rec.peer = []peerRow{{Metric: "TTFT Mean", Real: 1250, Peer: 1300, Error: 0.04}}
	report := &runReport{Run: "two", Model: "m", GPU: "g", TP: 1, Ranks: 1, BlockTokens: 16, Residual: &host{Sequence: 1e-3}, AtBound: []string{"sequence"}}
	if err := report.simulate(r); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := printRun(&out, report); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"TTFT Mean, ms", "met", "missed", "+4.0", "A = ", "its sequence is at the end of its range", "missing in a step of", "running, real", "pace"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if n := len([]rune(line)); n > 95 {
			t.Errorf("a line of %d: %s", n, line)
		}
	}
}
