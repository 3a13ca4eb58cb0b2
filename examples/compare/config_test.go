package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// variants are command lines with the number of their schedulers.
var variants = []struct {
	args       []string
	schedulers int
}{
	{[]string{"-requests", "150", "-seeds", "2"}, 5},
	{[]string{"-recording", small}, 5},
	{[]string{"-recording", small, "-requests", "30", "-rate-scale", "2.5"}, 5},
	{[]string{"-schedulers", "chunked,request-batch", "-preset", "azure-conv-2023", "-requests", "60", "-rate-scale", "0.3", "-replicas", "2",
		"-model", "qwen3-8b", "-gpu", "A100-80", "-tp", "2", "-max-seqs", "64", "-max-model-len", "9000", "-chunk-tokens", "300",
		"-slo-ttft", "812.5", "-slo-itl", "33.25", "-seed", "18446744073709551615", "-seeds", "2"}, 2},
	{[]string{"-requests", "50", "-kv-blocks", "1234", "-seeds", "1"}, 5},
	{[]string{"-workload", "documents", "-requests", "50", "-seeds", "2", "-schedulers", "dynamic,vllm-v1", "-prefill-replicas", "1", "-dynamic-prefill", "3",
		"-prefill-tokens", "512", "-local-tokens", "700", "-link", "PCIe4-x16", "-layer-wise", "-controller", "load-threshold", "-switch-cost", "12.5"}, 2},
}

// The same flags give the same bytes, and so does the config that was printed,
// whole or alone.
func TestReruns(t *testing.T) {
	for _, v := range variants {
		first := steady(t, v.schedulers, v.args...)
		if d := cmp.Diff(first, steady(t, v.schedulers, v.args...)); d != "" {
			t.Errorf("%v: second run (-first +second):\n%s", v.args, d)
		}
		path := filepath.Join(t.TempDir(), "out.json")
		write(t, path, first)
		if d := cmp.Diff(first, steady(t, v.schedulers, "-config", path)); d != "" {
			t.Errorf("%v: -config (-first +second):\n%s", v.args, d)
		}
		var o struct{ Config json.RawMessage }
		if err := json.Unmarshal([]byte(first), &o); err != nil {
			t.Fatal(err)
		}
		write(t, path, string(o.Config))
		if d := cmp.Diff(first, steady(t, v.schedulers, "-config", path)); d != "" {
			t.Errorf("%v: -config with the config alone (-first +second):\n%s", v.args, d)
		}
	}
}

// Flags go over the config of a file, wherever they stand.
func TestFlagsOverConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.json")
	write(t, path, output(t, "-json", "-requests", "40", "-seeds", "1", "-slo-ttft", "700", "-seed", "5"))
	for _, args := range [][]string{
		{"-config", path, "-seed", "6", "-gpu", "H200"},
		{"-seed", "6", "-gpu", "H200", "-config", path},
	} {
		got := steady(t, 5, args...)
		want := steady(t, 5, "-requests", "40", "-seeds", "1", "-slo-ttft", "700", "-seed", "6", "-gpu", "H200")
		if d := cmp.Diff(want, got); d != "" { // the KV blocks of the H200, too
			t.Errorf("%v (-want +got):\n%s", args, d)
		}
	}
	if got, want := steady(t, 5, "-config", path, "-recording", small, "-slo-ttft", "1000", "-seed", "1"), steady(t, 5, "-recording", small); got != want {
		t.Errorf("a recording over a preset (-want +got):\n%s", cmp.Diff(want, got))
	}
	write(t, path, output(t, "-json", "-recording", small))
	if got, want := steady(t, 5, "-config", path, "-preset", "azure-code-2023", "-requests", "20"), steady(t, 5, "-requests", "20"); got != want {
		t.Errorf("a preset over a recording (-want +got):\n%s", cmp.Diff(want, got))
	}
}
