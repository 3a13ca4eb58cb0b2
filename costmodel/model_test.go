package costmodel_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"servesim/costmodel"

	"github.com/google/go-cmp/cmp"
)

// Parameter counts as published and KV bytes per token in BF16.
func TestCatalogueModels(t *testing.T) {
	for _, c := range []struct{ name, format, billions, kv string }{
		{"Llama-2-7B", "%.3f", "6.738", "524288"},
		{"Llama-3.1-8B", "%.3f", "8.030", "131072"},
		{"Llama-3.1-70B", "%.3f", "70.554", "327680"},
		{"Qwen3-8B", "%.3f", "8.191", "147456"},
		{"Qwen3-32B", "%.2f", "32.76", "262144"},
	} {
		m, err := costmodel.LookupModel(strings.ToLower(c.name))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Validate(); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprintf(c.format, float64(m.Params())/1e9); got != c.billions {
			t.Errorf("%s: %s billion parameters, want %s", c.name, got, c.billions)
		}
		if got := fmt.Sprint(int(m.KVBytesPerToken())); got != c.kv {
			t.Errorf("%s: %s KV bytes a token, want %s", c.name, got, c.kv)
		}
		if m.Name != c.name {
			t.Errorf("name %q, want %q", m.Name, c.name)
		}
	}
	if got := len(costmodel.Models()); got != 5 {
		t.Errorf("%d models in the catalogue, 5 of them tested", got)
	}
}

// The catalogue agrees with the models' own config.json.
func TestCatalogueAgainstConfigs(t *testing.T) {
	for name, file := range map[string]string{
		"Llama-2-7B": "llama-2-7b-hf", "Llama-3.1-8B": "Meta-Llama-3.1-8B", "Llama-3.1-70B": "Meta-Llama-3.1-70B",
		"Qwen3-8B": "Qwen3-8B", "Qwen3-32B": "Qwen3-32B",
	} {
		data, err := os.ReadFile(shared(t, "models/"+file+"_config.json"))
		if err != nil {
			t.Fatal(err)
		}
		var config struct {
			Layers       int  `json:"num_hidden_layers"`
			Hidden       int  `json:"hidden_size"`
			Intermediate int  `json:"intermediate_size"`
			Heads        int  `json:"num_attention_heads"`
			KVHeads      int  `json:"num_key_value_heads"`
			HeadDim      *int `json:"head_dim"`
			Vocab        int  `json:"vocab_size"`
			Tied         bool `json:"tie_word_embeddings"`
		}
		if err := json.Unmarshal(data, &config); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		want := costmodel.Model{Name: name, Layers: config.Layers, Hidden: config.Hidden, Intermediate: config.Intermediate,
			Heads: config.Heads, KVHeads: config.KVHeads, HeadDim: config.Hidden / config.Heads, Vocab: config.Vocab,
			TiedEmbeddings: config.Tied}
		if config.HeadDim != nil {
			want.HeadDim = *config.HeadDim
		}
		got, err := costmodel.LookupModel(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Two sequences of a model with 32 layers, 8 KV heads of 128.
func TestKVBytes(t *testing.T) {
	m := costmodel.Model{Layers: 32, KVHeads: 8, HeadDim: 128}
	if got := m.KVBytesPerToken(); got != 131_072 {
		t.Errorf("%v bytes a token, want 131072", got)
	}
	if got := m.KVBytes(4096, 1024); got != 671_088_640 {
		t.Errorf("%v bytes, want 671088640", got)
	}
	m.KV = costmodel.Format{ValueBytes: 1, ScaleBytes: 2, Group: 32}
	if got := m.KVBytesPerToken(); got != 69_632 {
		t.Errorf("%v bytes a token with scales, want 69632", got)
	}
}

// A tied table is counted once: 8·10 parameters fewer.
func TestTiedEmbeddings(t *testing.T) {
	m := tiny
	if got := m.Params(); got != 1736 { // 1536 in matrices, 2·80 in tables, (2·2+1)·8 in norms
		t.Errorf("%d parameters, want 1736", got)
	}
	m.TiedEmbeddings = true
	if got := m.Params(); got != 1656 {
		t.Errorf("%d parameters when tied, want 1656", got)
	}
}

func TestLookupErrors(t *testing.T) {
	_, err := costmodel.LookupModel("gpt-5")
	wantError(t, err, `costmodel: unknown model "gpt-5"; known are Llama-2-7B, Llama-3.1-8B, Llama-3.1-70B, Qwen3-8B, Qwen3-32B`)
	_, err = costmodel.LookupGPU("")
	wantError(t, err, `costmodel: unknown GPU ""; known are A100-80, B200, H100, H200`)
	_, err = costmodel.NewSetup("Qwen3-8B", "abacus")
	wantError(t, err, `costmodel: unknown GPU "abacus"; known are A100-80, B200, H100, H200`)
	_, err = costmodel.FittedEfficiency("abacus")
	wantError(t, err, `costmodel: unknown GPU "abacus"; known are A100-80, B200, H100, H200`)
}

// Dense rates, bytes per second, and memory as devices report it.
func TestCatalogueGPUs(t *testing.T) {
	want := []costmodel.GPU{
		{Name: "A100-80", Rate: 312e12, Bandwidth: 2.039e12, Memory: 85_899_345_920, Link: 300e9},
		{Name: "B200", Rate: 2250e12, Bandwidth: 7.7e12, Memory: 193_273_528_320, Link: 900e9},
		{Name: "H100", Rate: 989e12, Bandwidth: 3.35e12, Memory: 85_899_345_920, Link: 450e9},
		{Name: "H200", Rate: 989e12, Bandwidth: 4.8e12, Memory: 151_397_597_184, Link: 450e9},
	}
	if diff := cmp.Diff(want, costmodel.GPUs()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, g := range want {
		e, err := costmodel.FittedEfficiency(strings.ToLower(g.Name))
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Validate(); err != nil {
			t.Errorf("%s: %v", g.Name, err)
		}
		if e.Claim() != costmodel.Prediction {
			t.Errorf("%s: a fitted efficiency claims a %v", g.Name, e.Claim())
		}
	}
}

func TestSetupValidate(t *testing.T) {
	for _, c := range []struct {
		edit func(*costmodel.Setup)
		want string
	}{
		{func(*costmodel.Setup) {}, ""},
		{func(s *costmodel.Setup) { s.TensorParallel = 8 }, ""},
		{func(s *costmodel.Setup) { s.TensorParallel = 32 }, ""},
		{func(s *costmodel.Setup) { s.Model.Layers = 0 }, "costmodel: Model.Layers is 0"},
		{func(s *costmodel.Setup) { s.Model.HeadDim = -1 }, "costmodel: Model.HeadDim is -1"},
		{func(s *costmodel.Setup) { s.Model.KVHeads = 5 }, "costmodel: Model.KVHeads 5 does not divide Heads 32"},
		{func(s *costmodel.Setup) { s.Model.Weights.ValueBytes = -1 }, "costmodel: Model.Weights.ValueBytes is -1"},
		{func(s *costmodel.Setup) { s.Model.KV.Group = 32 }, "costmodel: Model.KV.ValueBytes is 0"},
		{func(s *costmodel.Setup) { s.Model.KV = costmodel.Format{ValueBytes: 1, ScaleBytes: 1} },
			"costmodel: Model.KV.ScaleBytes is 1 without a Group"},
		{func(s *costmodel.Setup) { s.GPU.Rate = math.Inf(1) }, "costmodel: GPU.Rate is +Inf"},
		{func(s *costmodel.Setup) { s.GPU.Bandwidth = math.NaN() }, "costmodel: GPU.Bandwidth is NaN"},
		{func(s *costmodel.Setup) { s.GPU.Memory = 0 }, "costmodel: GPU.Memory is 0"},
		{func(s *costmodel.Setup) { s.Efficiency.Matrix.Compute = 1.5 }, "costmodel: Efficiency.Matrix.Compute is 1.5, not in [0, 1]"},
		{func(s *costmodel.Setup) { s.Efficiency.DecodeAttention.Memory = math.NaN() },
			"costmodel: Efficiency.DecodeAttention.Memory is NaN, not in [0, 1]"},
		{func(s *costmodel.Setup) { s.Efficiency.AllReduce.Launch = -1 }, "costmodel: Efficiency.AllReduce.Launch is -1ns"},
		{func(s *costmodel.Setup) { s.Efficiency.Step = -1 }, "costmodel: Efficiency.Step is -1ns"},
		{func(s *costmodel.Setup) { s.Efficiency.Sequence = -1 }, "costmodel: Efficiency.Sequence is -1ns"},
		{func(s *costmodel.Setup) { s.TensorParallel = -1 }, "costmodel: Setup.TensorParallel is -1"},
		{func(s *costmodel.Setup) { s.TensorParallel = 3 }, "costmodel: Setup.TensorParallel 3 does not divide Model.Heads 32"},
		{func(s *costmodel.Setup) { s.TensorParallel = 4; s.Model.Intermediate = 1026 },
			"costmodel: Setup.TensorParallel 4 does not divide Model.Intermediate 1026"},
		{func(s *costmodel.Setup) { s.TensorParallel, s.Model.Heads, s.Model.KVHeads = 4, 36, 6 },
			"costmodel: Setup.TensorParallel 4 and Model.KVHeads 6: neither divides the other"},
		{func(s *costmodel.Setup) { s.TensorParallel, s.GPU.Link = 2, 0 }, "costmodel: Setup.TensorParallel is 2, GPU.Link is 0"},
	} {
		s := setup(t, "Llama-3.1-8B", "H100")
		c.edit(&s)
		_, err := costmodel.NewTransformer(s)
		wantError(t, err, c.want)
	}
}
