package costmodel

import "fmt"

// Model is the shape of a dense decoder-only transformer with grouped-query
// attention and a SwiGLU feed-forward network: three matrices. The fields are
// those of the model's config.json.
type Model struct {
	Name           string
	Layers         int  // num_hidden_layers
	Hidden         int  // hidden_size
	Intermediate   int  // intermediate_size
	Heads          int  // num_attention_heads
	KVHeads        int  // num_key_value_heads, divides Heads
	HeadDim        int  // head_dim; often not Hidden/Heads
	Vocab          int  // vocab_size
	TiedEmbeddings bool // the LM head is the embedding table

	// Weights is the format of the layers' matrices. Embedding and LM head
	// stay BF16, and so does the arithmetic: narrower weights are expanded
	// before they are multiplied.
	Weights Format
	// KV is the format of the KV cache.
	KV Format
}

// Params returns the number of parameters. Vectors other than the norms of a
// layer's inputs (biases, norms of queries and keys) are left out.
func (m Model) Params() int {
	tables := 2
	if m.TiedEmbeddings {
		tables = 1
	}
	return m.Layers*(m.layerMatrix()+2*m.Hidden) + m.Hidden + tables*m.Vocab*m.Hidden
}

// layerMatrix returns the matrix elements of one layer: Q, K, V, output, gate,
// up and down.
func (m Model) layerMatrix() int {
	return m.Hidden * (m.HeadDim*(2*m.Heads+2*m.KVHeads) + 3*m.Intermediate)
}

// KVBytesPerToken returns the bytes that one token occupies in the KV cache,
// keys and values of all layers.
func (m Model) KVBytesPerToken() float64 {
	return float64(2*m.Layers*m.KVHeads*m.HeadDim) * m.KV.BytesPerValue()
}

// KVBytes returns the bytes that sequences of these lengths occupy in the KV
// cache: 2·L·H_KV·d·bytes·Σ lengths. Block rounding and the allocator's own
// data are not in it.
func (m Model) KVBytes(lengths ...int) float64 {
	tokens := 0
	for _, n := range lengths {
		tokens += n
	}
	return m.KVBytesPerToken() * float64(tokens)
}

// Validate names the first field that is out of range.
func (m Model) Validate() error {
	for _, f := range []struct {
		name  string
		value int
	}{
		{"Layers", m.Layers}, {"Hidden", m.Hidden}, {"Intermediate", m.Intermediate}, {"Heads", m.Heads},
		{"KVHeads", m.KVHeads}, {"HeadDim", m.HeadDim}, {"Vocab", m.Vocab},
	} {
		if f.value < 1 {
			return badField("Model."+f.name, f.value)
		}
	}
	if m.Heads%m.KVHeads != 0 {
		return fmt.Errorf("costmodel: Model.KVHeads %d does not divide Heads %d", m.KVHeads, m.Heads)
	}
	if err := m.Weights.validate("Model.Weights"); err != nil {
		return err
	}
	return m.KV.validate("Model.KV")
}
