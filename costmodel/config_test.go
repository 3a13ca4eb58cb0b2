package costmodel_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"servesim/costmodel"

	"github.com/google/go-cmp/cmp"
)

var (
	fp8Block = costmodel.Precision{
		Weights:     costmodel.Format{ValueBytes: 1, ScaleBytes: 4, Group: 128 * 128},
		Activations: costmodel.Format{ValueBytes: 1, ScaleBytes: 4, Group: 128},
		Compute:     costmodel.FP8,
	}
	fp8Tensor = costmodel.Precision{Weights: costmodel.Format{ValueBytes: 1}, Activations: costmodel.Format{ValueBytes: 1}, Compute: costmodel.FP8}
)

// The models' own files: those of the catalogue are read as they stand there.
func TestLoadModel(t *testing.T) {
	lookup := func(name string) costmodel.Model {
		m, err := costmodel.LookupModel(name)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	edit := func(name string, f func(*costmodel.Model)) costmodel.Model {
		m := lookup(name)
		f(&m)
		return m
	}
	for file, want := range map[string]costmodel.Model{
		"DeepSeek-V3":         lookup("DeepSeek-V3"),
		"Meta-Llama-3.1-405B": lookup("Llama-3.1-405B"),
		"Meta-Llama-3.1-70B":  lookup("Llama-3.1-70B"),
		"Meta-Llama-3.1-8B":   lookup("Llama-3.1-8B"),
		"Mixtral-8x22B-v0.1":  lookup("Mixtral-8x22B"),
		"Mixtral-8x7B-v0.1":   lookup("Mixtral-8x7B"),
		"Qwen3-235B-A22B":     lookup("Qwen3-235B-A22B"),
		"Qwen3-30B-A3B":       lookup("Qwen3-30B-A3B"),
		"Qwen3-32B":           lookup("Qwen3-32B"),
		"Qwen3-8B":            lookup("Qwen3-8B"),
		"gpt-oss-120b":        lookup("gpt-oss-120b"),
		"gpt-oss-20b":         lookup("gpt-oss-20b"),
		"llama-2-7b-hf":       lookup("Llama-2-7B"),
		"qwen2.5-7b-instruct": lookup("Qwen2.5-7B"),
		// The side file: FP8 with a scale for a matrix, and an FP8 cache.
		"Llama-3.1-70B-Instruct-FP8": edit("Llama-3.1-70B", func(m *costmodel.Model) {
			m.Precision, m.KV = fp8Tensor, costmodel.Format{ValueBytes: 1}
		}),
		"Qwen3-32B-FP8": edit("Qwen3-32B", func(m *costmodel.Model) { m.Precision = fp8Block }),
		"Kimi-K2-Instruct": edit("DeepSeek-V3", func(m *costmodel.Model) {
			m.Heads, m.Vocab, m.MaxPositions, m.DraftLayers = 64, 163840, 131072, 0
			m.MoE.Layers, m.MoE.Experts = 60, 384
		}),
		// q_lora_rank is null, two shared experts, BF16.
		"deepseek-v2-lite": {
			Layers: 27, Hidden: 2048, Intermediate: 10944, Heads: 16, Vocab: 102400, MaxPositions: 163840,
			MLA: costmodel.MLA{KVRank: 512, NopeDim: 128, RopeDim: 64, ValueDim: 128},
			MoE: costmodel.MoE{Layers: 26, Experts: 64, PerPosition: 6, Inner: 1408, Shared: 2816},
		},
		// head_dim is not hidden_size/num_attention_heads, 160.
		"mistral-nemo-instruct-2407": {
			Layers: 40, Hidden: 5120, Intermediate: 14336, Heads: 32, KVHeads: 8, HeadDim: 128, Vocab: 131072, MaxPositions: 131072,
		},
		// A wrapper. Heads of their own in the layers that see everything, a
		// dense network beside the experts.
		"gemma-4-26B-A4B": {
			Layers: 30, Hidden: 2816, Heads: 16, KVHeads: 2, HeadDim: 512, Vocab: 262144, MaxPositions: 262144, TiedEmbeddings: true,
			Window: costmodel.WindowLayers{Layers: 25, Tokens: 1024, KVHeads: 8, HeadDim: 256},
			MoE:    costmodel.MoE{Layers: 30, Experts: 128, PerPosition: 8, Inner: 704, Shared: 2112},
		},
		// A wrapper that omits no_rope_layers and tie_word_embeddings.
		"Llama-4-Scout-17B-16E-Instruct": {
			Layers: 48, Hidden: 5120, Heads: 40, KVHeads: 8, HeadDim: 128, Vocab: 202048, MaxPositions: 10485760,
			Window: costmodel.WindowLayers{Layers: 36, Tokens: 8192},
			MoE:    costmodel.MoE{Layers: 48, Experts: 16, PerPosition: 1, Inner: 8192, Shared: 8192},
		},
	} {
		got, err := costmodel.LoadModel(shared(t, "models/"+file+"_config.json"))
		if err != nil {
			t.Error(err)
			continue
		}
		want.Name = file
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(shared(t, "models/PROVENANCE.md")), "*_config.json"))
	if err != nil || len(files) != 23-1 {
		t.Errorf("%d files, %v; want 22, each of them tested", len(files), err)
	}
}

// What a file omits comes from its class.
func TestClassDefaults(t *testing.T) {
	for _, c := range []struct {
		name, config string
		want         costmodel.Model
	}{
		// google/gemma-3-27b-it in short, vocabulary and pattern omitted.
		{"gemma3", `{"model_type": "gemma3", "vision_config": {"hidden_size": 1152}, "text_config": {"model_type": "gemma3_text", "head_dim": 128,
			"hidden_size": 5376, "intermediate_size": 21504, "num_attention_heads": 32, "num_hidden_layers": 62,
			"num_key_value_heads": 16, "sliding_window": 1024}}`, edit(t, "Gemma-3-27B")},
		// google/gemma-3-4b-it omits heads as well.
		{"gemma3 small", `{"model_type": "gemma3", "text_config": {"hidden_size": 2560, "intermediate_size": 10240,
			"num_hidden_layers": 34, "sliding_window": 1024}}`, costmodel.Model{
			Layers: 34, Hidden: 2560, Intermediate: 10240, Heads: 8, KVHeads: 4, HeadDim: 256, Vocab: 262208, MaxPositions: 131072,
			TiedEmbeddings: true, Window: costmodel.WindowLayers{Layers: 29, Tokens: 1024}}},
		{"mistral v0.1", `{"model_type": "mistral"}`, costmodel.Model{
			Layers: 32, Hidden: 4096, Intermediate: 14336, Heads: 32, KVHeads: 8, HeadDim: 128, Vocab: 32000,
			Window: costmodel.WindowLayers{Layers: 32, Tokens: 4096}}},
		{"qwen2 with a window", `{"model_type": "qwen2", "use_sliding_window": true, "max_window_layers": 20}`, costmodel.Model{
			Layers: 32, Hidden: 4096, Intermediate: 22016, Heads: 32, KVHeads: 32, HeadDim: 128, Vocab: 151936,
			Window: costmodel.WindowLayers{Layers: 12, Tokens: 4096}}},
		{"qwen3_moe with dense layers", `{"model_type": "qwen3_moe", "decoder_sparse_step": 2, "mlp_only_layers": [1, 3]}`, costmodel.Model{
			Layers: 24, Hidden: 2048, Intermediate: 6144, Heads: 32, KVHeads: 4, HeadDim: 64, Vocab: 151936,
			MoE: costmodel.MoE{Layers: 10, Experts: 128, PerPosition: 8, Inner: 768}}},
		{"llama4 maverick", `{"model_type": "llama4", "text_config": {"num_local_experts": 128, "interleave_moe_layer_step": 2}}`, costmodel.Model{
			Layers: 48, Hidden: 5120, Intermediate: 16384, Heads: 40, KVHeads: 8, HeadDim: 128, Vocab: 202048,
			Window: costmodel.WindowLayers{Layers: 36, Tokens: 8192},
			MoE:    costmodel.MoE{Layers: 24, Experts: 128, PerPosition: 1, Inner: 8192, Shared: 8192}}},
		{"gpt2", `{"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768, "n_inner": null, "n_positions": 1024, "vocab_size": 50257}`, costmodel.Model{
			Layers: 12, Hidden: 768, Intermediate: 3072, Ungated: true, Heads: 12, KVHeads: 12, HeadDim: 64, Vocab: 50257, MaxPositions: 1024, TiedEmbeddings: true}},
		{"opt", `{"model_type": "opt", "num_hidden_layers": 12, "num_attention_heads": 12, "hidden_size": 768, "ffn_dim": 3000, "vocab_size": 50272}`, costmodel.Model{
			Layers: 12, Hidden: 768, Intermediate: 3000, Ungated: true, Heads: 12, KVHeads: 12, HeadDim: 64, Vocab: 50272, TiedEmbeddings: true}},
		{"multi-query", `{` + tinyConfig + `, "multi_query": true}`, costmodel.Model{
			Layers: 2, Hidden: 8, Intermediate: 16, Heads: 2, KVHeads: 1, HeadDim: 4, Vocab: 10}},
		{"listed layers with experts", `{` + tinyConfig + `, "num_local_experts": 8, "num_experts_per_tok": 2, "moe_layers": [1], "interleave_moe_layer_step": 5}`, costmodel.Model{
			Layers: 2, Hidden: 8, Intermediate: 16, Heads: 2, KVHeads: 2, HeadDim: 4, Vocab: 10,
			MoE: costmodel.MoE{Layers: 1, Experts: 8, PerPosition: 2, Inner: 16}}},
		{"layers with experts one by one", `{` + tinyConfig + `, "num_experts": 8, "num_experts_per_tok": 2, "moe_layer_freq": [0, 1]}`, costmodel.Model{
			Layers: 2, Hidden: 8, Intermediate: 16, Heads: 2, KVHeads: 2, HeadDim: 4, Vocab: 10,
			MoE: costmodel.MoE{Layers: 1, Experts: 8, PerPosition: 2, Inner: 16}}},
		{"layers with a chunk one by one", `{` + tinyConfig + `, "attention_chunk_size": 32, "no_rope_layers": [0, 1]}`, costmodel.Model{
			Layers: 2, Hidden: 8, Intermediate: 16, Heads: 2, KVHeads: 2, HeadDim: 4, Vocab: 10,
			Window: costmodel.WindowLayers{Layers: 1, Tokens: 32}}},
		{"fields of the wrapper", `{"model_type": "llava", "tie_word_embeddings": true, "text_config": {` + tinyConfig + `},
			"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["vision_tower.layers.0.self_attn"]}}`, costmodel.Model{
			Layers: 2, Hidden: 8, Intermediate: 16, Heads: 2, KVHeads: 2, HeadDim: 4, Vocab: 10, TiedEmbeddings: true, Precision: fp8Tensor}},
		{"qwen2_moe", `{"model_type": "qwen2_moe", "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16, "hidden_size": 2048,
			"intermediate_size": 5632, "vocab_size": 151936, "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
			"shared_expert_intermediate_size": 5632, "moe_layer_freq": 2, "first_k_dense_replace": 1}`, costmodel.Model{
			Layers: 24, Hidden: 2048, Intermediate: 5632, Heads: 16, KVHeads: 16, HeadDim: 128, Vocab: 151936,
			MoE: costmodel.MoE{Layers: 11, Experts: 60, PerPosition: 4, Inner: 1408, Shared: 5632}}},
	} {
		got, err := costmodel.ReadModel(c.want.Name, strings.NewReader(c.config), nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func edit(t *testing.T, name string) costmodel.Model {
	t.Helper()
	m, err := costmodel.LookupModel(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const tinyConfig = `"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2, "vocab_size": 10`

func TestQuantisation(t *testing.T) {
	four := func(group int) costmodel.Precision {
		return costmodel.Precision{Weights: costmodel.Format{ValueBytes: 0.5, ScaleBytes: 2, Group: group}}
	}
	nvfp4 := costmodel.Format{ValueBytes: 0.5, ScaleBytes: 1, Group: 16}
	fp8KV := costmodel.Format{ValueBytes: 1}
	for _, c := range []struct {
		name, config, side string
		want               costmodel.Precision
		kv                 costmodel.Format
	}{
		{"none", `null`, ``, costmodel.Precision{}, costmodel.Format{}},
		{"fp8", `{"quant_method": "fp8"}`, ``, fp8Tensor, costmodel.Format{}},
		{"blocks", `{"quant_method": "fp8", "weight_block_size": [128, 128]}`, ``, fp8Block, costmodel.Format{}},
		{"gptq", `{"quant_method": "gptq", "bits": 4, "group_size": 128}`, ``, four(128), costmodel.Format{}},
		{"awq", `{"quant_method": "awq", "w_bit": 4, "q_group_size": 64}`, ``, four(64), costmodel.Format{}},
		{"columns", `{"quant_method": "gptq", "bits": 8, "group_size": -1}`, ``, costmodel.Precision{Weights: costmodel.Format{ValueBytes: 1}}, costmodel.Format{}},
		{"bitsandbytes", `{"quant_method": "bitsandbytes", "load_in_8bit": true}`, ``, costmodel.Precision{Weights: costmodel.Format{ValueBytes: 1}}, costmodel.Format{}},
		{"bitsandbytes, 4 bits", `{"quant_method": "bitsandbytes", "load_in_4bit": true}`, ``,
			costmodel.Precision{Weights: costmodel.Format{ValueBytes: 0.5, ScaleBytes: 4, Group: 64}}, costmodel.Format{}},
		{"compressed FP8 in blocks", `{"quant_method": "compressed-tensors", "config_groups": {"group_0":
			{"weights": {"num_bits": 8, "type": "float", "block_structure": [128, 128]}, "input_activations": {"num_bits": 8}}}}`, ``,
			costmodel.Precision{Weights: fp8Block.Weights, Activations: costmodel.Format{ValueBytes: 1}, Compute: costmodel.FP8}, costmodel.Format{}},
		{"side file, 4 bits and FP8 activations", `null`, `{"quantization": {"quant_algo": "W4A8_AWQ", "group_size": 128}}`,
			costmodel.Precision{Weights: four(128).Weights, Activations: costmodel.Format{ValueBytes: 1}, Compute: costmodel.FP8}, costmodel.Format{}},
		{"compressed FP8", `{"quant_method": "compressed-tensors", "ignore": ["lm_head"], "kv_cache_scheme": {"num_bits": 8}, "config_groups": {"group_0":
			{"weights": {"num_bits": 8, "type": "float"}, "input_activations": {"num_bits": 8, "type": "float"}}}}`, ``, fp8Tensor, fp8KV},
		{"compressed INT4", `{"quant_method": "compressed-tensors", "config_groups": {"group_0":
			{"weights": {"num_bits": 4, "type": "int", "group_size": 32}, "input_activations": null}}}`, ``, four(32), costmodel.Format{}},
		{"compressed INT8", `{"quant_method": "compressed-tensors", "config_groups": {"group_0":
			{"weights": {"num_bits": 8, "type": "int"}, "input_activations": {"num_bits": 8}}}}`, ``,
			costmodel.Precision{Weights: costmodel.Format{ValueBytes: 1}, Activations: costmodel.Format{ValueBytes: 1}, Compute: costmodel.INT8}, costmodel.Format{}},
		{"modelopt", `{"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_scheme": {"num_bits": 8}, "ignore": ["lm_head"]}`, ``,
			costmodel.Precision{Weights: nvfp4, Activations: nvfp4, Compute: costmodel.FP4}, fp8KV},
		{"side file", `null`, `{"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}`, fp8Tensor, fp8KV},
		{"side file, cache only", `null`, `{"quantization": {"quant_algo": null, "kv_cache_quant_algo": "FP8"}}`, costmodel.Precision{}, fp8KV},
		{"side file, 4 bits", `null`, `{"quantization": {"quant_algo": "W4A16_AWQ", "group_size": 128}}`, four(128), costmodel.Format{}},
	} {
		config := strings.NewReader("{" + tinyConfig + `, "quantization_config": ` + c.config + "}")
		var m costmodel.Model
		var err error
		if c.side == "" {
			m, err = costmodel.ReadModel("tiny", config, nil)
		} else {
			m, err = costmodel.ReadModel("tiny", config, strings.NewReader(c.side))
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, m.Precision); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if m.KV != c.kv {
			t.Errorf("%s: cache in %+v, want %+v", c.name, m.KV, c.kv)
		}
	}
}

// Every error names file, field and value.
func TestReadModelErrors(t *testing.T) {
	const moe = tinyConfig + `, "num_experts": 8, "num_experts_per_tok": 2`
	for _, c := range []struct{ config, want string }{
		{`{`, "costmodel: model tiny: config.json: unexpected end of JSON input"},
		{`null`, "costmodel: model tiny: config.json: no object"},
		{`{"num_hidden_layers": 2}`, "costmodel: model tiny: config.json: hidden_size is missing"},
		{`{"text_config": {"num_hidden_layers": 2}}`, "costmodel: model tiny: config.json: text_config: hidden_size is missing"},
		{`{` + tinyConfig + `, "num_hidden_layers": 0}`, "costmodel: model tiny: config.json: num_hidden_layers is 0"},
		{`{` + tinyConfig + `, "hidden_size": 8.5}`, "costmodel: model tiny: config.json: hidden_size is 8.5"},
		{`{` + tinyConfig + `, "hidden_size": "8"}`, `costmodel: model tiny: config.json: hidden_size is "8"`},
		{`{` + tinyConfig + `, "num_key_value_heads": -1}`, "costmodel: model tiny: config.json: num_key_value_heads is -1"},
		{`{` + tinyConfig + `, "vocab_size": 0}`, "costmodel: Model.Vocab is 0, read from the config.json of tiny"},
		{`{` + tinyConfig + `, "hidden_size": 9}`, "costmodel: model tiny: config.json: head_dim is missing, and hidden_size 9 is no multiple of num_attention_heads 2"},
		{`{` + tinyConfig + `, "layer_types": ["full_attention"]}`, "costmodel: model tiny: config.json: layer_types has 1 entries for 2 layers"},
		{`{` + tinyConfig + `, "layer_types": ["full_attention", "linear_attention"]}`, `costmodel: model tiny: config.json: layer_types[1] is "linear_attention", which is not modelled`},
		{`{` + tinyConfig + `, "layer_types": ["full_attention", "sliding_attention"]}`, "costmodel: model tiny: config.json: layer_types names 1 layers with a window, sliding_window is missing"},
		{`{` + tinyConfig + `, "index_topk": 2048}`, "costmodel: model tiny: config.json: index_topk: layers of llama are not modelled"},
		{`{` + tinyConfig + `, "is_encoder_decoder": true}`, "costmodel: model tiny: config.json: is_encoder_decoder is true, only decoders are modelled"},
		{`{` + tinyConfig + `, "num_kv_shared_layers": 1}`, "costmodel: model tiny: config.json: num_kv_shared_layers is 1, shared caches are not modelled"},
		{`{` + tinyConfig + `, "num_experts": 8}`, "costmodel: model tiny: config.json: num_experts_per_tok is missing"},
		{`{` + moe + `, "decoder_sparse_step": 0}`, "costmodel: model tiny: config.json: decoder_sparse_step is 0"},
		{`{` + moe + `, "moe_layer_freq": [1]}`, "costmodel: model tiny: config.json: moe_layer_freq has 1 entries for 2 layers"},
		{`{` + tinyConfig + `, "quantization_config": {"quant_method": "aqlm"}}`,
			`costmodel: model tiny: config.json: quantization_config: quant_method is "aqlm"; known are fp8, fbgemm_fp8, mxfp4, gptq, awq, bitsandbytes, compressed-tensors, modelopt`},
		{`{` + tinyConfig + `, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128]}}`, "costmodel: model tiny: config.json: quantization_config: weight_block_size is [128]"},
		{`{` + tinyConfig + `, "quantization_config": {"quant_method": "gptq", "bits": 5}}`, "costmodel: model tiny: config.json: quantization_config: bits is 5"},
		{`{` + tinyConfig + `, "quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 6, "type": "float"}}}}}`,
			`costmodel: model tiny: config.json: quantization_config.config_groups.g.weights: type is "float" with num_bits 6`},
		{`{` + tinyConfig + `, "quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.*.self_attn"]}}`,
			"costmodel: model tiny: config.json: quantization_config: 2 dense layers are quantised, but not their attention: not modelled"},
	} {
		_, err := costmodel.ReadModel("tiny", strings.NewReader(c.config), nil)
		wantError(t, err, c.want)
	}
	_, err := costmodel.ReadModel("tiny", strings.NewReader("{"+tinyConfig+"}"), strings.NewReader(`{"quantization": {"quant_algo": "INT2"}}`))
	wantError(t, err, `costmodel: model tiny: hf_quant_config.json: quantization: quant_algo is "INT2", which is not modelled`)

	folder := t.TempDir()
	path := filepath.Join(folder, "config.json")
	if _, err := costmodel.LoadModel(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want one that names %s", err, path)
	}
	if err := os.WriteFile(path, []byte("{"+tinyConfig+"}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := costmodel.LoadModel(path); err != nil || m.Name != filepath.Base(folder) {
		t.Errorf("model %q, %v; want it named for its folder %s", m.Name, err, folder)
	}
}

// Whatever the file, there is an error or a model that is valid.
func FuzzReadModel(f *testing.F) {
	f.Add("{"+tinyConfig+"}", "")
	f.Add("{"+tinyConfig+`, "num_experts": 8, "num_experts_per_tok": 2, "decoder_sparse_step": 2, "layer_types": ["full_attention", "sliding_attention"], "sliding_window": 4}`, "")
	f.Add(`{"model_type": "gemma3", "text_config": {}}`, `{"quantization": {"quant_algo": "FP8"}}`)
	f.Add(`{"model_type": "deepseek_v3", "moe_layer_freq": [1, 0], "num_hidden_layers": 2, "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 1}}`, "")
	f.Fuzz(func(t *testing.T, config, side string) {
		var m costmodel.Model
		var err error
		if side == "" {
			m, err = costmodel.ReadModel("fuzz", strings.NewReader(config), nil)
		} else {
			m, err = costmodel.ReadModel("fuzz", strings.NewReader(config), strings.NewReader(side))
		}
		if err != nil {
			if !strings.HasPrefix(err.Error(), "costmodel: ") {
				t.Errorf("error %q", err)
			}
			return
		}
		if err := m.Validate(); err != nil {
			t.Error(err)
		}
	})
}
