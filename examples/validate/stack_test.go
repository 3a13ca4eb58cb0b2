package main

import (
	"path/filepath"
	"testing"
)

// Files of a GPU are those of its whole name.
func TestLayerFiles(t *testing.T) {
	data := t.TempDir()
	for _, name := range []string{"h20_llama-31-8b_tp1", "h100_llama-31-8b_tp1", "h200_llama-31-8b_tp2", "a100_pcie_llama-31-8b_tp1", "b60_llama-31-8b_tp1", "llama-31-8b_tp1"} {
		write(t, filepath.Join(data, "layers", name+"_dense.csv.gz"), "")
	}
	m, err := modelOf("meta-llama/Llama-3.1-8B")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		gpu  string
		tp   int
		want string
	}{
		{"NVIDIA H20", 1, "h20_llama-31-8b_tp1"},
		{"NVIDIA H200", 1, ""},
		{"NVIDIA H200", 2, "h200_llama-31-8b_tp2"},
		{"H20", 2, ""},
		{"NVIDIA H100 80GB HBM3", 1, "h100_llama-31-8b_tp1"},
		{"NVIDIA H100 NVL", 1, ""},
		{"NVIDIA H100 PCIe", 1, ""},
		{"NVIDIA A100 80GB PCIe", 1, "a100_pcie_llama-31-8b_tp1"},
		{"NVIDIA A100-SXM4-80GB", 1, ""},
		{"Intel Arc Pro B60", 1, "b60_llama-31-8b_tp1"},
		{"Intel Arc Pro B600", 1, ""},
	} {
		g, _ := gpuOf(c.gpu)
		got, err := layerFiles(data, c.gpu, g, "meta-llama/Llama-3.1-8B", m, c.tp)
		if got != "" {
			got = filepath.Base(got)
		}
		if err != nil || got != c.want {
			t.Errorf("%s, TP %d: %q, %v, want %q", c.gpu, c.tp, got, err, c.want)
		}
	}
}
