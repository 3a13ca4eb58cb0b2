package costmodel

import (
	"fmt"
	"strings"
)

// models holds the values of the models' config.json files on Hugging Face,
// all BF16 and with untied embeddings.
var models = []Model{
	// meta-llama/Llama-2-7b-hf, config.json. Trained before grouped queries.
	{Name: "Llama-2-7B", Layers: 32, Hidden: 4096, Intermediate: 11008, Heads: 32, KVHeads: 32, HeadDim: 128, Vocab: 32000},
	// meta-llama/Llama-3.1-8B, config.json.
	{Name: "Llama-3.1-8B", Layers: 32, Hidden: 4096, Intermediate: 14336, Heads: 32, KVHeads: 8, HeadDim: 128, Vocab: 128256},
	// meta-llama/Llama-3.1-70B, config.json.
	{Name: "Llama-3.1-70B", Layers: 80, Hidden: 8192, Intermediate: 28672, Heads: 64, KVHeads: 8, HeadDim: 128, Vocab: 128256},
	// Qwen/Qwen3-8B, config.json.
	{Name: "Qwen3-8B", Layers: 36, Hidden: 4096, Intermediate: 12288, Heads: 32, KVHeads: 8, HeadDim: 128, Vocab: 151936},
	// Qwen/Qwen3-32B, config.json. Hidden/Heads is 80, head_dim says 128.
	{Name: "Qwen3-32B", Layers: 64, Hidden: 5120, Intermediate: 25600, Heads: 64, KVHeads: 8, HeadDim: 128, Vocab: 151936},
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
