package costmodel

import "fmt"

// Model is the shape of a decoder-only transformer. The fields are those of
// the model's config.json; [LoadModel] reads one. The zero values of Window,
// MLA and MoE describe a dense model with grouped-query attention.
type Model struct {
	Name           string
	Layers         int  // num_hidden_layers
	Hidden         int  // hidden_size
	Intermediate   int  // intermediate_size of the dense layers; 0 if every layer has experts
	Ungated        bool // the feed-forward network has two matrices, not three
	Heads          int  // num_attention_heads
	KVHeads        int  // num_key_value_heads, divides Heads; not used with MLA
	HeadDim        int  // head_dim; often not Hidden/Heads; not used with MLA
	Vocab          int  // vocab_size
	TiedEmbeddings bool // the LM head is the embedding table
	MaxPositions   int  // max_position_embeddings; 0 means not known
	DraftLayers    int  // num_nextn_predict_layers; no figure of the model includes them

	Window WindowLayers
	MLA    MLA
	MoE    MoE

	// Precision is that of the matrices of attention and of the dense
	// feed-forward network. Embedding, LM head and router stay BF16.
	Precision Precision
	// KV is the format of the KV cache.
	KV Format
}

// WindowLayers are the layers in which a position sees the last Tokens tokens
// only, itself included.
type WindowLayers struct {
	Layers  int // of Model.Layers; 0 means none
	Tokens  int // sliding_window
	KVHeads int // in these layers; 0 means Model.KVHeads
	HeadDim int // in these layers; 0 means Model.HeadDim
}

// MLA is multi-head latent attention. KVRank 0 means that the model has none.
type MLA struct {
	KVRank    int // kv_lora_rank
	QueryRank int // q_lora_rank; 0 means that queries are not compressed
	NopeDim   int // qk_nope_head_dim
	RopeDim   int // qk_rope_head_dim
	ValueDim  int // v_head_dim
}

// MoE are the layers with a mixture of experts in place of the dense
// feed-forward network. Layers 0 means that the model has none.
type MoE struct {
	Layers      int // of Model.Layers
	Experts     int // routed experts of a layer
	PerPosition int // num_experts_per_tok
	Inner       int // moe_intermediate_size, of one expert
	Shared      int // columns that every position uses: those of all shared experts together
	// Precision is that of the experts, shared ones included.
	Precision Precision
}

// Params returns the number of parameters. Vectors other than the norms of a
// layer's inputs (biases, norms of queries and keys) and draft layers are left
// out.
func (m Model) Params() int {
	return m.sharedParams() + m.MoE.Layers*m.MoE.Experts*m.expert()
}

// ActiveParams returns the parameters that one position uses, the whole
// embedding table included: of the routed experts those that it picks.
func (m Model) ActiveParams() int {
	return m.sharedParams() + m.MoE.Layers*m.MoE.PerPosition*m.expert()
}

// sharedParams are those that every position uses.
func (m Model) sharedParams() int {
	tables := 2
	if m.TiedEmbeddings {
		tables = 1
	}
	sum := (2*m.Layers+1)*m.Hidden + tables*m.Vocab*m.Hidden
	for _, l := range (Setup{Model: m}).launches() {
		sum += l.count * l.Columns * l.Inner
	}
	return sum
}

// expert returns the elements of a routed expert: gate, up and down.
func (m Model) expert() int { return 3 * m.Hidden * m.MoE.Inner }

// matrices returns the matrices of a feed-forward network.
func (m Model) matrices() int {
	if m.Ungated {
		return 2
	}
	return 3
}

// KVBytesPerToken returns the bytes that one token occupies in the KV cache,
// keys and values of all layers, as long as it is in the window of those that
// have one.
func (m Model) KVBytesPerToken() float64 { return Setup{Model: m}.KVBytesPerToken() }

// KVBytes returns the bytes that sequences of these lengths occupy in the KV
// cache: 2·L·H_KV·d·bytes·Σ lengths, where window layers hold min(length,
// window). Block rounding and the allocator's own data are not in it.
func (m Model) KVBytes(lengths ...int) float64 { return Setup{Model: m}.KVBytes(lengths...) }

// Validate names the first field that is out of range.
func (m Model) Validate() error {
	for _, f := range []struct {
		name  string
		value int
		least int
	}{
		{"Layers", m.Layers, 1}, {"Hidden", m.Hidden, 1}, {"Intermediate", m.Intermediate, m.denseLeast()}, {"Heads", m.Heads, 1},
		{"KVHeads", m.KVHeads, m.gqaLeast()}, {"HeadDim", m.HeadDim, m.gqaLeast()}, {"Vocab", m.Vocab, 1},
		{"MaxPositions", m.MaxPositions, 0}, {"DraftLayers", m.DraftLayers, 0},
	} {
		if f.value < f.least {
			return badField("Model."+f.name, f.value)
		}
	}
	if m.MLA == (MLA{}) && m.Heads%m.KVHeads != 0 {
		return fmt.Errorf("costmodel: Model.KVHeads %d does not divide Heads %d", m.KVHeads, m.Heads)
	}
	for _, err := range []error{m.Window.validate(m), m.MLA.validate(m), m.MoE.validate(m), m.Precision.validate("Model.Precision")} {
		if err != nil {
			return err
		}
	}
	return m.KV.validate("Model.KV")
}

// denseLeast is the least Intermediate: dense layers need one.
func (m Model) denseLeast() int { return min(max(m.Layers-m.MoE.Layers, 0), 1) }

// gqaLeast is the least KVHeads and HeadDim: latent attention has neither.
func (m Model) gqaLeast() int {
	if m.MLA == (MLA{}) {
		return 1
	}
	return 0
}

func (w WindowLayers) validate(m Model) error {
	switch {
	case w == WindowLayers{}:
		return nil
	case w.Layers < 1 || w.Layers > m.Layers:
		return fmt.Errorf("costmodel: Model.Window.Layers is %d of %d", w.Layers, m.Layers)
	case w.Tokens < 1:
		return badField("Model.Window.Tokens", w.Tokens)
	case w.KVHeads < 0 || w.KVHeads > 0 && m.Heads%w.KVHeads != 0:
		return fmt.Errorf("costmodel: Model.Window.KVHeads %d does not divide Heads %d", w.KVHeads, m.Heads)
	case w.HeadDim < 0:
		return badField("Model.Window.HeadDim", w.HeadDim)
	case m.MLA != (MLA{}):
		return fmt.Errorf("costmodel: Model.Window.Layers is %d beside MLA", w.Layers)
	}
	return nil
}

func (l MLA) validate(m Model) error {
	if l == (MLA{}) {
		return nil
	}
	for _, f := range []struct {
		name         string
		value, least int
	}{
		{"KVRank", l.KVRank, 1}, {"QueryRank", l.QueryRank, 0}, {"NopeDim", l.NopeDim, 1}, {"RopeDim", l.RopeDim, 1}, {"ValueDim", l.ValueDim, 1},
	} {
		if f.value < f.least {
			return badField("Model.MLA."+f.name, f.value)
		}
	}
	return nil
}

func (e MoE) validate(m Model) error {
	switch {
	case e == MoE{}:
		return nil
	case e.Layers < 1 || e.Layers > m.Layers:
		return fmt.Errorf("costmodel: Model.MoE.Layers is %d of %d", e.Layers, m.Layers)
	case e.Experts < 1:
		return badField("Model.MoE.Experts", e.Experts)
	case e.PerPosition < 1 || e.PerPosition > e.Experts:
		return fmt.Errorf("costmodel: Model.MoE.PerPosition is %d of %d", e.PerPosition, e.Experts)
	case e.Inner < 1:
		return badField("Model.MoE.Inner", e.Inner)
	case e.Shared < 0:
		return badField("Model.MoE.Shared", e.Shared)
	}
	return e.Precision.validate("Model.MoE.Precision")
}
