package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// recorded is a run of Llama-3.1-8B on a GPU, with blocks of its KV cache.
const recorded = `{"model":"meta-llama/Llama-3.1-8B","hardware":{"device_name":%q},"kv_cache":{"num_gpu_blocks":1000},
	"engine_kwargs":{"max_num_seqs":4,"max_num_batched_tokens":64}}`

// Of one GPU the runs on it are looked at too: those that name it, and those
// that cannot be read.
func TestRunsOfOneGPU(t *testing.T) {
	data := t.TempDir()
	for name, meta := range map[string]string{
		"one": fmt.Sprintf(recorded, "NVIDIA H100 80GB HBM3"), "two": fmt.Sprintf(recorded, "NVIDIA A100-SXM4-80GB"),
		"h100_three": fmt.Sprintf(recorded, ""), "strange": fmt.Sprintf(recorded, "abacus"), "broken": "{",
	} {
		write(t, filepath.Join(data, "runs", name, "meta.json"), meta)
		write(t, filepath.Join(data, "runs", name, "requests.jsonl"), sound)
	}
	for gpu, want := range map[string][]string{
		"":     {"Run h100_three", "Run one", "Run two", "run left out: broken", "run left out: strange"},
		"H100": {"Run h100_three", "Run one", "run left out: broken"},
		"a100": {"Run two", "run left out: broken"},
	} {
		var out strings.Builder
		if err := run([]string{"-data", data, "-gpu", gpu}, &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"Run h100_three", "Run one", "Run two", "run left out: broken", "run left out: strange"} {
			expected := false
			for _, w := range want {
				expected = expected || w == line
			}
			if got := strings.Contains(out.String(), "\n"+line+":"); got != expected {
				t.Errorf("-gpu %q: %q is there: %t\n%s", gpu, line, got, out.String())
			}
		}
	}
}
