package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"servesim/examples/internal/commandtest"
)

// long reports whether the proofs run at full size: SERVESIM_LONG=1.
func long() bool { return os.Getenv("SERVESIM_LONG") != "" }

// small is a recording of 60 rows, two of which are no requests.
const small = "testdata/small.csv"

// output runs the program.
func output(t *testing.T, args ...string) string {
	t.Helper()
	return commandtest.Output(t, run, args...)
}

// wall is the one figure that may differ between runs.
var wall = regexp.MustCompile(`"wall_s": [0-9.e-]+`)

// steady runs the program with -json and blanks wall_s, once per scheduler.
func steady(t *testing.T, schedulers int, args ...string) string {
	t.Helper()
	text := output(t, append([]string{"-json"}, args...)...)
	if n := len(wall.FindAllString(text, -1)); n != schedulers {
		t.Errorf("compare %v: %d times wall_s, want %d", args, n, schedulers)
	}
	return wall.ReplaceAllString(text, `"wall_s": 0`)
}

// object runs the program with -json and returns its one object.
func object(t *testing.T, args ...string) map[string]any {
	t.Helper()
	return commandtest.Object[map[string]any](t, output(t, append([]string{"-json"}, args...)...))
}

// results returns the results of an object.
func results(o map[string]any) (list []map[string]any) {
	for _, r := range o["results"].([]any) {
		list = append(list, r.(map[string]any))
	}
	return list
}

func number(t *testing.T, o map[string]any, name string) float64 {
	t.Helper()
	v, ok := o[name].(float64)
	if !ok {
		t.Fatalf("%s is %v, want a number", name, o[name])
	}
	return v
}

func TestGolden(t *testing.T) {
	commandtest.Golden(t, "text", output(t, "-recording", small))
	commandtest.Golden(t, "json", steady(t, 5, "-recording", small))
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		write(t, path, content)
		return path
	}
	const header = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
	truncated := file("truncated.csv.gz", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x0b\xf1\xf4")
	const config = `{"config": {"preset": "azure-code-2023", "requests": 10}`
	for _, c := range []struct {
		args []string
		want []string // all in the error
	}{
		{[]string{"-replica", "2"}, []string{"flag provided but not defined: -replica; flags are ", "-replicas, -requests, -schedulers"}},
		{[]string{"fast"}, []string{`unexpected argument "fast"`}},
		{[]string{"-schedulers", "chunked,lifo"}, []string{"schedulers", `"lifo"`, "request-batch, continuous, chunked"}},
		{[]string{"-schedulers", ""}, []string{"schedulers", `""`, "request-batch, continuous, chunked"}},
		{[]string{"-schedulers", "chunked,chunked"}, []string{"schedulers", `"chunked" is there twice`}},
		{[]string{"-preset", "poisson"}, []string{"preset", `"poisson"`, "azure-code-2023, azure-conv-2023"}},
		{[]string{"-preset", "azure-conv-2023", "-recording", small}, []string{"preset", "recording", small, "exactly one"}},
		{[]string{"-preset", ""}, []string{"preset", "recording", "exactly one"}},
		{[]string{"-model", "gpt-5"}, []string{"model", `"gpt-5"`, "Llama-3.1-8B", "Llama-3.1-70B", "Qwen3-32B"}},
		{[]string{"-gpu", "tpu"}, []string{"GPU", `"tpu"`, "A100-80, ", "H100, "}},
		{[]string{"-model", "Llama-3.1-70B"}, []string{"Llama-3.1-70B on H100", "weights 141.11 GB"}},
		{[]string{"-tp", "3"}, []string{"TensorParallel 3", "Heads 32"}},
		{[]string{"-tp", "0"}, []string{"tensor_parallel is 0"}},
		{[]string{"-requests", "0"}, []string{"requests is 0"}},
		{[]string{"-requests", "-1"}, []string{"requests is -1"}},
		{[]string{"-requests", "many"}, []string{`invalid value "many" for flag -requests`}},
		{[]string{"-seeds", "0"}, []string{"seeds is 0"}},
		{[]string{"-seed", "-1"}, []string{`invalid value "-1" for flag -seed`}},
		{[]string{"-replicas", "0"}, []string{"replicas is 0"}},
		{[]string{"-replicas", "1"}, []string{"replicas is 1", "disaggregated and dynamic need 2"}},
		{[]string{"-replicas", "2", "-prefill-replicas", "2"}, []string{"prefill_replicas is 2 of 2"}},
		{[]string{"-prefill-replicas", "-1"}, []string{"prefill_replicas is -1"}},
		{[]string{"-dynamic-prefill", "4"}, []string{"dynamic_prefill_replicas is 4 of 4"}},
		{[]string{"-prefill-tokens", "0"}, []string{"prefill_step_tokens is 0"}},
		{[]string{"-local-tokens", "-1"}, []string{"local_prompt_tokens is -1"}},
		{[]string{"-first-token", "client"}, []string{"first_token", `"client"`, "prefill, decode"}},
		{[]string{"-link", "tin cans"}, []string{"link", `"tin cans"`, "InfiniBand-400G", "NVLink4"}},
		{[]string{"-controller", "pid"}, []string{"controller", `"pid"`, "work-ratio, load-threshold"}},
		{[]string{"-switch-cost", "NaN"}, []string{"switch_cost_ms is NaN"}},
		{[]string{"-workload", "chat"}, []string{"workload", `"chat"`, "code, voice, documents"}},
		{[]string{"-workload", "code", "-config", "x.json"}, []string{"workload is code", "config is x.json", "at most one"}},
		{[]string{"-kv-blocks", "-5"}, []string{"kv_blocks is -5"}},
		{[]string{"-max-seqs", "0"}, []string{"max_seqs is 0"}},
		{[]string{"-max-model-len", "1"}, []string{"max_model_len_tokens is 1"}},
		{[]string{"-chunk-tokens", "0"}, []string{"chunk_tokens is 0"}},
		{[]string{"-rate-scale", "NaN"}, []string{"rate_scale is NaN"}},
		{[]string{"-rate-scale", "0"}, []string{"rate_scale is 0"}},
		{[]string{"-rate-scale", "-2"}, []string{"rate_scale is -2"}},
		{[]string{"-rate-scale", "Inf"}, []string{"rate_scale is +Inf"}},
		{[]string{"-slo-ttft", "NaN"}, []string{"slo_ttft_ms is NaN"}},
		{[]string{"-slo-ttft", "0"}, []string{"slo_ttft_ms is 0"}},
		{[]string{"-slo-ttft", "1e15"}, []string{"slo_ttft_ms is 1e+15"}},
		{[]string{"-slo-itl", "-1"}, []string{"slo_itl_ms is -1"}},
		{[]string{"-slo-itl", "Inf"}, []string{"slo_itl_ms is +Inf"}},

		{[]string{"-recording", filepath.Join(dir, "none.csv")}, []string{"none.csv", "no such file"}},
		{[]string{"-recording", file("empty.csv", "")}, []string{"empty.csv", "empty"}},
		{[]string{"-recording", file("header.csv", header)}, []string{"header.csv", "no rows"}},
		{[]string{"-recording", file("columns.csv", "TIMESTAMP,ContextTokens\n2023-11-16 18:15:00,1\n")}, []string{"columns.csv", "GeneratedTokens"}},
		{[]string{"-recording", file("value.csv", header+"2023-11-16 18:15:00,-1,5\n")}, []string{"value.csv:2", "ContextTokens", "-1"}},
		{[]string{"-recording", truncated}, []string{"truncated.csv.gz", "unexpected EOF"}},

		{[]string{"-config", filepath.Join(dir, "none.json")}, []string{"none.json", "no such file"}},
		{[]string{"-config", file("empty.json", "")}, []string{"empty.json", "unexpected end of JSON input"}},
		{[]string{"-config", file("cut.json", config)}, []string{"cut.json", "unexpected end of JSON input"}},
		{[]string{"-config", file("field.json", `{"config": {"request": 10}}`)}, []string{"field.json", `unknown field "request"`}},
		{[]string{"-config", file("alone.json", `{"preset": "azure-code-2023", "speed": 2}`)}, []string{"alone.json", `unknown field "speed"`}},
		{[]string{"-config", file("type.json", `{"config": {"requests": "10"}}`)}, []string{"type.json", "requests"}},
		{[]string{"-config", file("trailing.json", config+"} {}")}, []string{"trailing.json", "after top-level value"}},
		{[]string{"-config", file("value.json", `{"config": {"rate_scale": -1}}`)}, []string{"rate_scale is -1"}},
		{[]string{"-config", file("text.json", "workload   azure-code-2023")}, []string{"text.json", "invalid character"}},

		{[]string{"-requests", "5", "-traces", small}, []string{small, "not a directory"}},
	} {
		err := commandtest.Failure(t, run, c.args...)
		for _, want := range c.want {
			if !strings.Contains(err, want) {
				t.Errorf("%v: error %q has no %q", c.args, err, want)
			}
		}
	}
}

func TestCancelled(t *testing.T) {
	for _, args := range [][]string{
		{"-requests", "5"},
		{"-requests", "900000000"}, // ends before the workload is described
		{"-recording", small},
	} {
		commandtest.Interrupted(t, run, append(args, "-traces", t.TempDir())...)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
