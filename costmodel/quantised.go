package costmodel

import (
	"fmt"
	"slices"
	"strings"
)

// quantised is what a checkpoint says of its numbers.
type quantised struct {
	file      string
	precision Precision
	kv        Format
	experts   bool // only the experts are quantised
}

// apply returns the model with these numbers.
func (q quantised) apply(m Model) (Model, error) {
	m.KV = q.kv
	if m.MoE.Layers > 0 {
		m.MoE.Precision = q.precision
	}
	if !q.experts {
		m.Precision = q.precision
		return m, nil
	}
	if m.MoE.Layers < m.Layers && q.precision != (Precision{}) {
		return Model{}, fmt.Errorf("%s: %d dense layers are quantised, but not their attention: not modelled", q.file, m.Layers-m.MoE.Layers)
	}
	return m, nil
}

// fp8KV is a KV cache in FP8 with a scale for the whole of it.
var fp8KV = Format{ValueBytes: 1}

// quantisation reads quantization_config. A file without one is in 16 bits:
// engines load FP32 as such.
func (f *fields) quantisation() (quantised, error) {
	o := f.object("quantization_config")
	if o == nil {
		return quantised{file: f.file}, f.err
	}
	q := quantised{file: o.at()}
	method := strings.ToLower(o.string("quant_method"))
	switch method {
	case "fp8", "fbgemm_fp8":
		q.precision = o.fp8()
	case "mxfp4":
		q.precision, q.experts = Precision{Weights: mxfp4}, true
	case "gptq", "awq":
		q.precision = o.weightOnly(o.int("bits", "w_bit"), o.optionalGroup("group_size", "q_group_size"))
	case "bitsandbytes":
		q.precision.Weights = Format{ValueBytes: 1}
		if o.bool("load_in_4bit", false) {
			q.precision.Weights = Format{ValueBytes: 0.5, ScaleBytes: 4, Group: 64}
		}
	case "compressed-tensors":
		q.precision, q.kv = o.compressed()
	case "modelopt", "modelopt_fp4":
		var err error
		if q, err = o.modelopt(); err != nil {
			return q, err
		}
	default:
		o.fail("quant_method is %q; known are fp8, fbgemm_fp8, mxfp4, gptq, awq, bitsandbytes, compressed-tensors, modelopt", method)
	}
	q.exclude(o, "modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules")
	return q, o.err
}

// modelopt reads what TensorRT Model Optimizer writes, into a file of its own
// or into quantization_config.
func (f *fields) modelopt() (quantised, error) {
	o := f
	if inner := f.object("quantization"); inner != nil {
		o = inner
	}
	q := quantised{file: o.at()}
	switch algo := strings.ToUpper(o.string("quant_algo")); algo {
	case "":
	case "FP8":
		q.precision = Precision{Weights: Format{ValueBytes: 1}, Activations: Format{ValueBytes: 1}, Compute: FP8}
	case "FP8_PB_WO", "FP8_BLOCK_SCALES":
		q.precision = Precision{Weights: fp8Blocks, Activations: fp8Rows, Compute: FP8}
	case "NVFP4":
		q.precision = Precision{Weights: nvfp4, Activations: nvfp4, Compute: FP4}
	case "W4A16_AWQ", "W4A16":
		q.precision = o.weightOnly(4, o.optionalGroup("group_size"))
	case "W4A8_AWQ":
		q.precision = o.weightOnly(4, o.optionalGroup("group_size"))
		q.precision.Activations, q.precision.Compute = Format{ValueBytes: 1}, FP8
	case "W8A16":
		q.precision = o.weightOnly(8, o.optionalGroup("group_size"))
	default:
		o.fail("quant_algo is %q, which is not modelled", algo)
	}
	switch kv := strings.ToUpper(o.string("kv_cache_quant_algo")); kv {
	case "":
	case "FP8", "INT8":
		q.kv = fp8KV
	case "NVFP4":
		q.kv = nvfp4
	default:
		o.fail("kv_cache_quant_algo is %q, which is not modelled", kv)
	}
	if o.object("kv_cache_scheme") != nil {
		q.kv = fp8KV
	}
	q.exclude(o, "exclude_modules", "ignore")
	return q, o.err
}

// fp8 reads blocks, or one scale for a matrix.
func (f *fields) fp8() Precision {
	var block []int
	if !f.decode(&block, "weight_block_size") {
		return Precision{Weights: Format{ValueBytes: 1}, Activations: Format{ValueBytes: 1}, Compute: FP8}
	}
	if len(block) != 2 || block[0] < 1 || block[1] < 1 {
		f.fail("weight_block_size is %v", block)
		return Precision{}
	}
	return Precision{
		Weights:     Format{ValueBytes: 1, ScaleBytes: 4, Group: block[0] * block[1]},
		Activations: Format{ValueBytes: 1, ScaleBytes: 4, Group: block[1]},
		Compute:     FP8,
	}
}

// weightOnly are integers of so many bits with a BF16 scale for each group; a
// group of 0 is a whole column.
func (f *fields) weightOnly(bits, group int) Precision {
	if !slices.Contains([]int{2, 3, 4, 8}, bits) {
		f.fail("bits is %d", bits)
		return Precision{}
	}
	w := Format{ValueBytes: float64(bits) / 8}
	if group > 0 {
		w.ScaleBytes, w.Group = 2, group
	}
	return Precision{Weights: w}
}

// optionalGroup reads the size of a group; −1 stands for a whole column.
func (f *fields) optionalGroup(names ...string) int {
	n := 0
	if f.decode(&n, names...) && n < -1 {
		f.fail("%s is %d", names[0], n)
	}
	return max(n, 0)
}

// compressed reads the first group of compressed-tensors: all that quantise
// weights alike.
func (f *fields) compressed() (p Precision, kv Format) {
	groups := f.object("config_groups")
	if groups == nil || len(groups.values) != 1 {
		f.fail("config_groups is not one group")
		return p, kv
	}
	for name := range groups.values {
		g := groups.object(name)
		if g == nil {
			break
		}
		weights, inputs := g.object("weights"), g.object("input_activations")
		if weights == nil {
			f.fail("config_groups.%s has no weights", name)
			break
		}
		p = weights.scheme(inputs)
		for _, o := range []*fields{groups, g, weights, inputs} {
			if o != nil && f.err == nil {
				f.err = o.err
			}
		}
	}
	if f.object("kv_cache_scheme") != nil {
		kv = fp8KV
	}
	return p, kv
}

// scheme reads weights, and the activations they are multiplied with unless
// these stay in 16 bits.
func (f *fields) scheme(inputs *fields) Precision {
	bits, kind, group := f.int("num_bits"), f.string("type"), f.optionalGroup("group_size")
	switch {
	case kind == "float" && bits == 4:
		p := Precision{Weights: nvfp4}
		if inputs != nil {
			p.Activations, p.Compute = nvfp4, FP4
		}
		return p
	case kind == "float" && bits == 8 || kind == "int" && bits == 8 && inputs != nil:
		p := Precision{Weights: Format{ValueBytes: 1}}
		var block []int
		if f.decode(&block, "block_structure") && len(block) == 2 && block[0] > 0 && block[1] > 0 {
			p.Weights = Format{ValueBytes: 1, ScaleBytes: 4, Group: block[0] * block[1]}
		}
		if inputs != nil {
			p.Activations, p.Compute = Format{ValueBytes: 1}, FP8
			if kind == "int" {
				p.Compute = INT8
			}
		}
		return p
	case kind == "int":
		return f.weightOnly(bits, group)
	}
	f.fail("type is %q with num_bits %d", kind, bits)
	return Precision{}
}

// exclude notes whether attention is kept in 16 bits. Embedding, LM head,
// router and encoders are so anyhow.
func (q *quantised) exclude(f *fields, names ...string) {
	var modules []string
	f.decode(&modules, names...)
	for _, m := range modules {
		switch {
		case strings.Contains(m, "vision") || strings.Contains(m, "audio"):
		case strings.Contains(m, "attn"):
			q.experts = true
		}
	}
}
