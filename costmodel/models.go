package costmodel

import (
	"fmt"
	"strings"
)

// models holds the values of the models' config.json files on Hugging Face. BF16
// and untied embeddings unless said otherwise.
var models = []Model{
	// deepseek-ai/DeepSeek-R1 and -V3, config.json, which are alike. FP8 in blocks.
	// The first 3 layers are dense.
	{Name: "DeepSeek-R1", Layers: 61, Hidden: 7168, Intermediate: 18432, Heads: 128, Vocab: 129280, MaxPositions: 163840, DraftLayers: 1,
		MLA:       MLA{KVRank: 512, QueryRank: 1536, NopeDim: 128, RopeDim: 64, ValueDim: 128},
		MoE:       MoE{Layers: 58, Experts: 256, PerPosition: 8, Inner: 2048, Shared: 2048, Precision: Precision{fp8Blocks, fp8Rows, FP8}},
		Precision: Precision{fp8Blocks, fp8Rows, FP8}},
	{Name: "DeepSeek-V3", Layers: 61, Hidden: 7168, Intermediate: 18432, Heads: 128, Vocab: 129280, MaxPositions: 163840, DraftLayers: 1,
		MLA:       MLA{KVRank: 512, QueryRank: 1536, NopeDim: 128, RopeDim: 64, ValueDim: 128},
		MoE:       MoE{Layers: 58, Experts: 256, PerPosition: 8, Inner: 2048, Shared: 2048, Precision: Precision{fp8Blocks, fp8Rows, FP8}},
		Precision: Precision{fp8Blocks, fp8Rows, FP8}},
	// google/gemma-3-27b-it, config.json, and transformers' Gemma3TextConfig
	// for the vocabulary and for five window layers before each full one.
	{Name: "Gemma-3-27B", Layers: 62, Hidden: 5376, Intermediate: 21504, Heads: 32, KVHeads: 16, HeadDim: 128, Vocab: 262208,
		TiedEmbeddings: true, MaxPositions: 131072, Window: WindowLayers{Layers: 52, Tokens: 1024}},
	// openai/gpt-oss-20b and -120b, config.json. Experts in MXFP4; every second
	// layer has a window. Hidden/Heads is 45, head_dim says 64.
	{Name: "gpt-oss-20b", Layers: 24, Hidden: 2880, Heads: 64, KVHeads: 8, HeadDim: 64, Vocab: 201088, MaxPositions: 131072,
		Window: WindowLayers{Layers: 12, Tokens: 128},
		MoE:    MoE{Layers: 24, Experts: 32, PerPosition: 4, Inner: 2880, Precision: Precision{Weights: mxfp4}}},
	{Name: "gpt-oss-120b", Layers: 36, Hidden: 2880, Heads: 64, KVHeads: 8, HeadDim: 64, Vocab: 201088, MaxPositions: 131072,
		Window: WindowLayers{Layers: 18, Tokens: 128},
		MoE:    MoE{Layers: 36, Experts: 128, PerPosition: 4, Inner: 2880, Precision: Precision{Weights: mxfp4}}},
	// meta-llama/Llama-2-7b-hf, -13b-hf, -70b-hf, config.json. The smaller two
	// were trained before grouped queries.
	{Name: "Llama-2-7B", Layers: 32, Hidden: 4096, Intermediate: 11008, Heads: 32, KVHeads: 32, HeadDim: 128, Vocab: 32000, MaxPositions: 4096},
	{Name: "Llama-2-13B", Layers: 40, Hidden: 5120, Intermediate: 13824, Heads: 40, KVHeads: 40, HeadDim: 128, Vocab: 32000, MaxPositions: 4096},
	{Name: "Llama-2-70B", Layers: 80, Hidden: 8192, Intermediate: 28672, Heads: 64, KVHeads: 8, HeadDim: 128, Vocab: 32000, MaxPositions: 4096},
	// meta-llama/Meta-Llama-3-8B and -70B, config.json: the layers of 3.1.
	{Name: "Llama-3-8B", Layers: 32, Hidden: 4096, Intermediate: 14336, Heads: 32, KVHeads: 8, HeadDim: 128, Vocab: 128256, MaxPositions: 8192},
	{Name: "Llama-3-70B", Layers: 80, Hidden: 8192, Intermediate: 28672, Heads: 64, KVHeads: 8, HeadDim: 128, Vocab: 128256, MaxPositions: 8192},
	// meta-llama/Llama-3.1-8B, -70B, -405B, config.json.
	{Name: "Llama-3.1-8B", Layers: 32, Hidden: 4096, Intermediate: 14336, Heads: 32, KVHeads: 8, HeadDim: 128, Vocab: 128256, MaxPositions: 131072},
	{Name: "Llama-3.1-70B", Layers: 80, Hidden: 8192, Intermediate: 28672, Heads: 64, KVHeads: 8, HeadDim: 128, Vocab: 128256, MaxPositions: 131072},
	{Name: "Llama-3.1-405B", Layers: 126, Hidden: 16384, Intermediate: 53248, Heads: 128, KVHeads: 8, HeadDim: 128, Vocab: 128256, MaxPositions: 131072},
	// mistralai/Mistral-7B-v0.2, config.json: without the window of v0.1.
	{Name: "Mistral-7B", Layers: 32, Hidden: 4096, Intermediate: 14336, Heads: 32, KVHeads: 8, HeadDim: 128, Vocab: 32000, MaxPositions: 32768},
	// mistralai/Mixtral-8x7B-v0.1 and -8x22B-v0.1, config.json.
	{Name: "Mixtral-8x7B", Layers: 32, Hidden: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, Vocab: 32000, MaxPositions: 32768,
		MoE: MoE{Layers: 32, Experts: 8, PerPosition: 2, Inner: 14336}},
	{Name: "Mixtral-8x22B", Layers: 56, Hidden: 6144, Heads: 48, KVHeads: 8, HeadDim: 128, Vocab: 32000, MaxPositions: 65536,
		MoE: MoE{Layers: 56, Experts: 8, PerPosition: 2, Inner: 16384}},
	// Qwen/Qwen2.5-7B and -72B, config.json. A window is listed and not used.
	{Name: "Qwen2.5-7B", Layers: 28, Hidden: 3584, Intermediate: 18944, Heads: 28, KVHeads: 4, HeadDim: 128, Vocab: 152064, MaxPositions: 32768},
	{Name: "Qwen2.5-72B", Layers: 80, Hidden: 8192, Intermediate: 29568, Heads: 64, KVHeads: 8, HeadDim: 128, Vocab: 152064, MaxPositions: 32768},
	// Qwen/Qwen3-8B and -32B, config.json. Hidden/Heads is 80 in the latter,
	// head_dim says 128.
	{Name: "Qwen3-8B", Layers: 36, Hidden: 4096, Intermediate: 12288, Heads: 32, KVHeads: 8, HeadDim: 128, Vocab: 151936, MaxPositions: 40960},
	{Name: "Qwen3-32B", Layers: 64, Hidden: 5120, Intermediate: 25600, Heads: 64, KVHeads: 8, HeadDim: 128, Vocab: 151936, MaxPositions: 40960},
	// Qwen/Qwen3-30B-A3B and -235B-A22B, config.json. intermediate_size is
	// listed, but no layer is dense.
	{Name: "Qwen3-30B-A3B", Layers: 48, Hidden: 2048, Heads: 32, KVHeads: 4, HeadDim: 128, Vocab: 151936, MaxPositions: 40960,
		MoE: MoE{Layers: 48, Experts: 128, PerPosition: 8, Inner: 768}},
	{Name: "Qwen3-235B-A22B", Layers: 94, Hidden: 4096, Heads: 64, KVHeads: 4, HeadDim: 128, Vocab: 151936, MaxPositions: 40960,
		MoE: MoE{Layers: 94, Experts: 128, PerPosition: 8, Inner: 1536}},
}

// Models returns the models of the catalogue, by family and size.
func Models() []Model { return append([]Model(nil), models...) }

// LookupModel returns the model of that name, upper and lower case alike. The
// error lists the known names.
func LookupModel(name string) (Model, error) {
	for _, m := range models {
		if strings.EqualFold(m.Name, name) {
			return m, nil
		}
	}
	names := make([]string, len(models))
	for i, m := range models {
		names[i] = m.Name
	}
	return Model{}, fmt.Errorf("costmodel: unknown model %q; known are %s", name, strings.Join(names, ", "))
}
