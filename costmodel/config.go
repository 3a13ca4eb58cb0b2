package costmodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// LoadModel reads a config.json of Hugging Face and, if there is one beside it,
// the hf_quant_config.json that some quantised models keep apart. Both names
// may have a prefix of their own, as in Qwen3-8B_config.json. The model is
// named for the prefix, or for the folder without one. Errors name file, field
// and value.
func LoadModel(path string) (Model, error) {
	config, err := os.Open(path)
	if err != nil {
		return Model{}, fmt.Errorf("costmodel: %w", err)
	}
	defer config.Close()
	prefix, _ := strings.CutSuffix(filepath.Base(path), "config.json")
	name := strings.TrimRight(prefix, "_-.")
	if name == "" {
		folder, err := filepath.Abs(filepath.Dir(path))
		if err != nil {
			return Model{}, fmt.Errorf("costmodel: %w", err)
		}
		name = filepath.Base(folder)
	}
	side := filepath.Join(filepath.Dir(path), prefix+"hf_quant_config.json")
	quantisation, err := os.Open(side)
	if errors.Is(err, fs.ErrNotExist) {
		return ReadModel(name, config, nil)
	}
	if err != nil {
		return Model{}, fmt.Errorf("costmodel: %w", err)
	}
	defer quantisation.Close()
	return ReadModel(name, config, quantisation)
}

// ReadModel reads the text of a config.json, and of a hf_quant_config.json
// unless it is nil. The text model of a multimodal one is read, without its
// encoders. Fields that the file omits have the defaults of the model's class in
// transformers, where these are known.
//
// Vectors are not counted, neither are position embeddings. Chunked local
// attention is taken for a window of the chunk's size, the most that it sees.
// Architectures with other kinds of layers (recurrent, linear or sparse
// attention, layers that share their cache) are refused.
func ReadModel(name string, config, quantisation io.Reader) (Model, error) {
	m, err := readModel(config, quantisation)
	if err != nil {
		return Model{}, fmt.Errorf("costmodel: model %s: %w", name, err)
	}
	m.Name = name
	if err := m.Validate(); err != nil {
		return Model{}, fmt.Errorf("%w, read from the config.json of %s", err, name)
	}
	return m, nil
}

func readModel(config, quantisation io.Reader) (Model, error) {
	c, err := readFields("config.json", config)
	if err != nil {
		return Model{}, err
	}
	c, err = c.text()
	if err != nil {
		return Model{}, err
	}
	m, err := c.model()
	if err != nil {
		return Model{}, err
	}
	q, err := c.quantisation()
	if err == nil && quantisation != nil {
		var side *fields
		if side, err = readFields("hf_quant_config.json", quantisation); err == nil {
			q, err = side.modelopt()
		}
	}
	if err != nil {
		return Model{}, err
	}
	return q.apply(m)
}

// fields are those of a JSON object. The first wrong one is kept as err.
type fields struct {
	file   string
	path   string // of the object in the file
	values map[string]json.RawMessage
	kind   string // model_type
	err    error
}

func readFields(file string, r io.Reader) (*fields, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	f := &fields{file: file}
	if err := json.Unmarshal(data, &f.values); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if f.values == nil {
		return nil, fmt.Errorf("%s: no object", file)
	}
	return f, nil
}

// wrappers are the names of the text model in a multimodal one.
var wrappers = []string{"text_config", "language_config", "llm_config"}

// text returns the fields of the text model, with the class's defaults.
func (f *fields) text() (*fields, error) {
	f.kind = f.string("model_type")
	for _, name := range wrappers {
		inner := f.object(name)
		if inner == nil {
			continue
		}
		inner.kind = inner.string("model_type")
		if inner.kind == "" {
			inner.kind = f.kind + "_text"
		}
		for _, outer := range []string{"tie_word_embeddings", "quantization_config"} {
			if v, ok := f.values[outer]; ok && !inner.has(outer) {
				inner.values[outer] = v
			}
		}
		f = inner
		break
	}
	if f.err != nil {
		return nil, f.err
	}
	for name, value := range classDefaults(f.kind) {
		if _, ok := f.values[name]; !ok {
			f.values[name] = json.RawMessage(value)
		}
	}
	return f, f.refuse()
}

// model reads the shape.
func (f *fields) model() (Model, error) {
	m := Model{
		Layers: f.int("num_hidden_layers", "n_layer", "num_layers"), Hidden: f.int("hidden_size", "n_embd", "d_model", "n_embed"),
		Heads: f.int("num_attention_heads", "n_head", "num_heads"), Vocab: f.int("vocab_size"),
		TiedEmbeddings: f.bool("tie_word_embeddings", true), MaxPositions: f.optional("max_position_embeddings", "n_positions", "seq_length"),
		DraftLayers: f.optional("num_nextn_predict_layers"), Ungated: f.ungated(),
	}
	if f.err != nil {
		return Model{}, f.err
	}
	if m.Layers < 1 || m.Layers > maxConfigLayers {
		return Model{}, fmt.Errorf("%s: num_hidden_layers is %d", f.at(), m.Layers)
	}
	f.attention(&m)
	f.window(&m)
	f.feedForward(&m)
	return m, f.err
}

// maxConfigLayers keeps broken files from being read layer by layer for long.
const maxConfigLayers = 10_000

// attention reads heads and latents.
func (f *fields) attention(m *Model) {
	if f.optional("kv_lora_rank") > 0 {
		m.MLA = MLA{
			KVRank: f.int("kv_lora_rank"), QueryRank: f.optional("q_lora_rank"), NopeDim: f.int("qk_nope_head_dim"),
			RopeDim: f.int("qk_rope_head_dim"), ValueDim: f.int("v_head_dim"),
		}
		return
	}
	m.KVHeads = f.optional("num_key_value_heads", "n_head_kv", "num_kv_heads")
	if m.KVHeads == 0 {
		m.KVHeads = m.Heads
		if f.bool("multi_query", false) {
			m.KVHeads = 1
		}
	}
	m.HeadDim = f.optional("head_dim")
	if m.HeadDim == 0 && m.Heads > 0 {
		if m.Hidden%m.Heads != 0 {
			f.fail("head_dim is missing, and hidden_size %d is no multiple of num_attention_heads %d", m.Hidden, m.Heads)
		}
		m.HeadDim = m.Hidden / m.Heads
	}
}

// feedForward reads the dense network and the experts.
func (f *fields) feedForward(m *Model) {
	dense := f.optional("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
	if dense == 0 {
		dense = 4 * m.Hidden // gpt2, bloom
	}
	experts := f.optional("num_experts", "num_local_experts", "n_routed_experts")
	if experts == 0 || !f.bool("enable_moe_block", true) {
		m.Intermediate = dense
		return
	}
	inner := f.optional("moe_intermediate_size")
	if inner == 0 {
		inner = dense
	}
	shared := f.optional("shared_expert_intermediate_size") + f.optional("n_shared_experts", "num_shared_experts")*inner
	switch f.kind {
	case "llama4_text": // one shared expert of the routed ones' size; dense layers are apart
		shared, dense = inner, f.int("intermediate_size_mlp")
	case "gemma4_text": // experts beside a dense network in every layer
		shared = dense
	}
	m.MoE = MoE{
		Layers: f.expertLayers(m.Layers), Experts: experts, Inner: inner, Shared: shared,
		PerPosition: f.int("num_experts_per_tok", "top_k_experts", "experts_per_token", "moe_top_k", "top_k"),
	}
	if m.MoE.Layers < m.Layers {
		m.Intermediate = dense
	}
	if m.MoE.Layers == 0 {
		m.MoE = MoE{}
	}
}

// at is the place of the object.
func (f *fields) at() string {
	if f.path == "" {
		return f.file
	}
	return f.file + ": " + f.path
}

func (f *fields) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("%s: %s", f.at(), fmt.Sprintf(format, args...))
	}
}

// has reports whether the field is there and not null.
func (f *fields) has(name string) bool {
	v, ok := f.values[name]
	return ok && string(v) != "null"
}

// decode reads the first of these fields that is there into v, and says whether
// one is.
func (f *fields) decode(v any, names ...string) bool {
	i := slices.IndexFunc(names, f.has)
	if i < 0 {
		return false
	}
	value := f.values[names[i]]
	if json.Unmarshal(value, v) != nil {
		text := string(value)
		if len(text) > 40 {
			text = text[:40] + "…"
		}
		f.fail("%s is %s", names[i], text)
		return false
	}
	return true
}

// int reads a field that must be there.
func (f *fields) int(names ...string) int {
	n := 0
	if !f.decode(&n, names...) {
		f.fail("%s is missing", names[0])
	}
	return n
}

// optional reads a field that may be missing, null, or zero.
func (f *fields) optional(names ...string) int {
	n := 0
	if f.decode(&n, names...) && n < 0 {
		f.fail("%s is %d", names[0], n)
	}
	return n
}

func (f *fields) bool(name string, missing bool) bool {
	b := missing
	f.decode(&b, name)
	return b
}

func (f *fields) string(name string) string {
	s := ""
	f.decode(&s, name)
	return s
}

// object returns the fields of an object, nil if there is none.
func (f *fields) object(name string) *fields {
	o := &fields{file: f.file, path: strings.TrimPrefix(f.path+"."+name, ".")}
	if !f.decode(&o.values, name) {
		return nil
	}
	return o
}
