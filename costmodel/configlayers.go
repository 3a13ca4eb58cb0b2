package costmodel

import (
	"encoding/json"
	"slices"
)

// classDefaults returns what transformers assumes for fields that a file of
// this model_type omits, as JSON. tie_word_embeddings is true where a class
// does not say otherwise.
func classDefaults(kind string) map[string]string {
	llama := map[string]string{
		"vocab_size": "32000", "hidden_size": "4096", "intermediate_size": "11008", "num_hidden_layers": "32",
		"num_attention_heads": "32", "tie_word_embeddings": "false",
	}
	qwen := map[string]string{
		"vocab_size": "151936", "hidden_size": "4096", "intermediate_size": "22016", "num_hidden_layers": "32",
		"num_attention_heads": "32", "num_key_value_heads": "32", "tie_word_embeddings": "false",
		"use_sliding_window": "false", "sliding_window": "4096", "max_window_layers": "28",
	}
	switch kind {
	case "llama":
		return llama
	case "mistral":
		llama["intermediate_size"], llama["num_key_value_heads"], llama["sliding_window"] = "14336", "8", "4096"
		return llama
	case "mixtral":
		llama["intermediate_size"], llama["num_key_value_heads"] = "14336", "8"
		llama["num_local_experts"], llama["num_experts_per_tok"] = "8", "2"
		return llama
	case "qwen2":
		return qwen
	case "qwen3":
		qwen["head_dim"] = "128"
		return qwen
	case "qwen3_moe":
		return map[string]string{
			"vocab_size": "151936", "hidden_size": "2048", "intermediate_size": "6144", "num_hidden_layers": "24",
			"num_attention_heads": "32", "num_key_value_heads": "4", "tie_word_embeddings": "false",
			"use_sliding_window": "false", "sliding_window": "4096", "decoder_sparse_step": "1",
			"moe_intermediate_size": "768", "num_experts_per_tok": "8", "num_experts": "128",
		}
	case "gemma2":
		return map[string]string{
			"vocab_size": "256000", "hidden_size": "2304", "intermediate_size": "9216", "num_hidden_layers": "26",
			"num_attention_heads": "8", "num_key_value_heads": "4", "head_dim": "256", "sliding_window": "4096",
			"sliding_window_pattern": "2",
		}
	case "gemma3_text":
		return map[string]string{
			"vocab_size": "262208", "hidden_size": "2304", "intermediate_size": "9216", "num_hidden_layers": "26",
			"num_attention_heads": "8", "num_key_value_heads": "4", "head_dim": "256", "sliding_window": "4096",
			"sliding_window_pattern": "6", "max_position_embeddings": "131072",
		}
	case "gpt_oss":
		return map[string]string{
			"vocab_size": "201088", "hidden_size": "2880", "intermediate_size": "2880", "num_hidden_layers": "36",
			"num_attention_heads": "64", "num_key_value_heads": "8", "head_dim": "64", "tie_word_embeddings": "false",
			"sliding_window": "128", "sliding_window_pattern": "2", "num_local_experts": "128", "num_experts_per_tok": "4",
		}
	case "llama4_text":
		return map[string]string{
			"vocab_size": "202048", "hidden_size": "5120", "intermediate_size": "8192", "intermediate_size_mlp": "16384",
			"num_hidden_layers": "48", "num_attention_heads": "40", "num_key_value_heads": "8", "head_dim": "128",
			"tie_word_embeddings": "false", "num_local_experts": "16", "num_experts_per_tok": "1",
			"interleave_moe_layer_step": "1", "no_rope_layer_interval": "4", "attention_chunk_size": "8192",
		}
	case "deepseek_v3":
		return map[string]string{
			"vocab_size": "129280", "hidden_size": "7168", "intermediate_size": "18432", "num_hidden_layers": "61",
			"num_attention_heads": "128", "tie_word_embeddings": "false", "moe_intermediate_size": "2048",
			"n_shared_experts": "1", "n_routed_experts": "256", "num_experts_per_tok": "8", "first_k_dense_replace": "3",
			"kv_lora_rank": "512", "q_lora_rank": "1536", "qk_rope_head_dim": "64", "v_head_dim": "128", "qk_nope_head_dim": "128",
		}
	case "deepseek_v2", "kimi_k2", "qwen2_moe", "phi", "phi3", "gpt_neox", "glm4", "glm4_moe", "olmo2", "stablelm":
		return map[string]string{"tie_word_embeddings": "false"}
	}
	return nil
}

// ungated reports whether the feed-forward network has two matrices.
func (f *fields) ungated() bool {
	act := ""
	f.decode(&act, "hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act")
	return act == "relu2" || slices.Contains([]string{"gpt2", "opt", "bloom", "gpt_neox", "gpt_neo", "gptj", "gpt_bigcode",
		"phi", "falcon", "mpt", "starcoder2"}, f.kind)
}

// unknown are fields of layers that are no transformer's, or read other keys
// than a Model says.
var unknown = []string{"ssm_cfg", "state_size", "ssm_state_size", "mamba_d_state", "linear_num_key_heads", "lru_width",
	"index_topk", "attn_type_list", "rwkv_version", "encoder_layers"}

func (f *fields) refuse() error {
	for _, name := range unknown {
		if f.has(name) {
			f.fail("%s: layers of %s are not modelled", name, f.kind)
		}
	}
	if f.bool("is_encoder_decoder", false) {
		f.fail("is_encoder_decoder is true, only decoders are modelled")
	}
	if n := f.optional("num_kv_shared_layers"); n > 0 {
		f.fail("num_kv_shared_layers is %d, shared caches are not modelled", n)
	}
	return f.err
}

// window reads which layers see a window, and what heads they have.
func (f *fields) window(m *Model) {
	tokens := f.optional("sliding_window", "attention_chunk_size")
	if m.MLA.KVRank > 0 || !f.bool("use_sliding_window", true) || tokens == 0 && !f.has("layer_types") {
		return
	}
	layers := f.windowLayers(m.Layers)
	if layers == 0 {
		return
	}
	if tokens == 0 {
		f.fail("layer_types names %d layers with a window, sliding_window is missing", layers)
	}
	m.Window = WindowLayers{Layers: layers, Tokens: tokens}
	// Where the layers that see everything have heads of their own, the other
	// fields are those of the window layers.
	if dim := f.optional("global_head_dim"); dim > 0 {
		m.Window.HeadDim, m.HeadDim = m.HeadDim, dim
	}
	if heads := f.optional("num_global_key_value_heads"); heads > 0 {
		m.Window.KVHeads, m.KVHeads = m.KVHeads, heads
	}
}

// windowLayers returns the number of layers with a window.
func (f *fields) windowLayers(layers int) (n int) {
	var types []string
	if f.decode(&types, "layer_types") {
		if len(types) != layers {
			f.fail("layer_types has %d entries for %d layers", len(types), layers)
		}
		for i, t := range types {
			switch t {
			case "sliding_attention", "chunked_attention":
				n++
			case "full_attention":
			default:
				f.fail("layer_types[%d] is %q, which is not modelled", i, t)
			}
		}
		return n
	}
	var rope []int // 1 for layers with rotary embedding, which see a chunk
	if f.decode(&rope, "no_rope_layers") && len(rope) > 0 {
		if len(rope) < layers {
			f.fail("no_rope_layers has %d entries for %d layers", len(rope), layers)
			return 0
		}
		for _, r := range rope[:layers] {
			n += r
		}
		return n
	}
	if pattern := f.optional("sliding_window_pattern", "_sliding_window_pattern", "no_rope_layer_interval"); pattern > 0 {
		return layers - layers/pattern // the last of each pattern sees everything
	}
	if f.has("use_sliding_window") && f.has("max_window_layers") {
		return max(layers-f.optional("max_window_layers"), 0)
	}
	return layers
}

// expertLayers returns the number of layers with experts.
func (f *fields) expertLayers(layers int) (n int) {
	dense, sparse, interleaved := f.optional("first_k_dense_replace"), f.step("decoder_sparse_step"), f.step("interleave_moe_layer_step")
	var apart, listed, frequency []int
	f.decode(&apart, "mlp_only_layers")
	isListed := f.decode(&listed, "moe_layers")
	every := 1
	if f.has("moe_layer_freq") && json.Unmarshal(f.values["moe_layer_freq"], &frequency) == nil {
		if len(frequency) != layers {
			f.fail("moe_layer_freq has %d entries for %d layers", len(frequency), layers)
			return 0
		}
	} else {
		every = f.step("moe_layer_freq")
	}
	for i := range layers {
		switch {
		case isListed && !slices.Contains(listed, i):
		case frequency != nil && frequency[i] == 0:
		case i < dense || i%every != 0 || (i+1)%sparse != 0 || slices.Contains(apart, i):
		case !isListed && (i+1)%interleaved != 0:
		default:
			n++
		}
	}
	return n
}

// step reads a number of layers, 1 if it is missing.
func (f *fields) step(name string) int {
	if !f.has(name) {
		return 1
	}
	n := f.int(name)
	if n < 1 {
		f.fail("%s is %d", name, n)
		return 1
	}
	return n
}
