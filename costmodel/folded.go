package costmodel

import "servesim/sim"

// rate turns the work that all layers have in one class of operators into
// seconds.
type rate struct {
	launch, perSequence, perFLOP, perCausal, perByte, smooth float64
}

func (s Setup) rate(k Kernel, launches int, n Number) rate {
	flops, times := s.GPU.Peak(n), float64(launches)
	return rate{
		launch: times * k.Launch.Seconds(), perSequence: times * k.Sequence.Seconds(),
		perFLOP: 1 / (share(k.Compute) * flops), perCausal: 1 / (k.causal() * flops),
		perByte: 1 / (share(k.Memory) * s.GPU.Bandwidth), smooth: k.Smooth,
	}
}

func (r *rate) seconds(w Work) float64 {
	return r.launch + float64(r.perSequence*w.Sequences) + norm(r.compute(w), w.Bytes*r.perByte, r.smooth)
}

func (r *rate) compute(w Work) float64 {
	return float64((w.FLOPs-w.Causal)*r.perFLOP) + float64(w.Causal*r.perCausal)
}

// add counts the work of another launch, and what it takes. The bound is that
// of the sums: lead is by how much compute has been ahead of memory so far.
func (c *OpCost) add(r *rate, w Work, seconds float64, lead *float64) {
	c.FLOPs += w.FLOPs
	c.Bytes += w.Bytes
	c.Seconds += seconds
	*lead += r.compute(w) - float64(w.Bytes*r.perByte)
	c.Bound = MemoryBound
	if *lead > 0 {
		c.Bound = ComputeBound
	}
}

// folded is a product of some layers.
type folded struct {
	op                       Op
	flopsPerRow, bytesPerRow float64
	weightBytes              float64
	countedPerRow            sim.FP8Ops
	rate                     rate
	measured                 *measuredProduct // nil means by rate
}

// fold takes a product on this GPU, and the same undivided.
func (s Setup) fold(l launch, whole Product) folded {
	k, n := s.Efficiency.Matrix, float64(l.count)
	if l.Precision.Compute != BF16 {
		k = s.Efficiency.Narrow.or(k)
	}
	f := folded{
		op: l.op, flopsPerRow: n * l.Work(1).FLOPs, bytesPerRow: n * l.rowBytes(), weightBytes: n * l.weightBytes(),
		countedPerRow: l.Precision.Compute.fp8(n*whole.Work(1).FLOPs) / sim.FP8Ops(s.tp()),
		rate:          s.rate(k, l.count, l.Precision.Compute),
	}
	if c := s.Efficiency.Measured.products(l.Precision); c != nil {
		f.measured = s.measuredProduct(l, c)
		f.rate = s.rate(c.kernel(), l.count, l.Precision.Compute)
	}
	return f
}

func (f *folded) seconds(rows float64) float64 {
	if f.measured != nil {
		return f.measured.seconds(rows)
	}
	return f.rate.seconds(f.work(rows))
}

func (f *folded) work(rows float64) Work {
	return Work{FLOPs: f.flopsPerRow * rows, Bytes: f.weightBytes + float64(f.bytesPerRow*rows)}
}

// attending is the attention of the layers that attend alike.
type attending struct {
	prompt, decode           core
	prefill, decoding, mixed rate
	measured                 measuredAttention // without coefficients by rate
}

func (s Setup) attend(g attentionGroup) attending {
	m, e := s.Model, s.Efficiency
	prefill := e.PrefillAttention
	if g.window > 0 {
		prefill = e.WindowAttention.or(prefill)
	}
	a := attending{
		prefill:  s.rate(prefill, g.layers, BF16),
		decoding: s.rate(e.DecodeAttention, g.layers, BF16),
		mixed:    s.rate(e.MixedAttention.or(e.DecodeAttention), g.layers, BF16),
	}
	if l := m.MLA; l.KVRank > 0 {
		latent := Latent{g.heads / s.tp(), l.KVRank, l.RopeDim, l.NopeDim, l.ValueDim, m.KV}
		a.prompt, a.decode = latent.promptCore().times(g.layers), latent.decodeCore().times(g.layers)
		return a
	}
	one := Attention{g.heads / s.tp(), ceilDiv(g.kvHeads, s.tp()), g.headDim, g.window, m.KV}
	a.prompt = one.core().times(g.layers)
	a.decode = a.prompt
	a.measured = s.measuredAttention(one, g.layers)
	if c := e.Measured.prefill(m.KV.BytesPerValue(), g.window > 0); c != nil {
		a.prefill = s.rate(c.kernel(), g.layers, BF16)
	}
	if c := e.Measured.decode(m.KV.BytesPerValue(), g.window > 0); c != nil {
		a.decoding = s.rate(c.kernel(), g.layers, BF16)
		a.mixed = a.decoding
	}
	return a
}

func (a *attending) promptSeconds(b *sim.Batch, w Work) float64 {
	if a.measured.prefill != nil {
		return a.measured.prompts(b, a)
	}
	return a.prefill.seconds(w)
}

func (a *attending) decodeSeconds(b *sim.Batch, w Work) float64 {
	if a.measured.decode != nil {
		return max(a.measured.decode.seconds(b), w.FLOPs*a.decoding.perFLOP)
	}
	return a.decodeRate(b).seconds(w)
}

// prompts returns the attention of the prompt chunks in one launch.
func (a *attending) prompts(b *sim.Batch) Work {
	var w Work
	for i := range b.Prefills {
		w = w.Add(a.prompt.prompt(b.Prefills[i]))
	}
	if n := b.Padding.PromptTokens; n > 0 {
		w = a.prompt.self(w, n, 0)
	}
	return w
}

// decodes returns the attention of the decoding sequences in one launch.
func (a *attending) decodes(b *sim.Batch) Work {
	w := a.decode.decode(float64(b.Decodes), float64(b.Positions), float64(b.Context))
	if n := b.Padding.Rows; n > 0 {
		w = a.decode.self(w, n, n)
	}
	return w
}

// decodeRate is that of decodes alone or beside prompts.
func (a *attending) decodeRate(b *sim.Batch) *rate {
	if hasPrompts(b) {
		return &a.mixed
	}
	return &a.decoding
}

// vectors are operators that only move activations.
type vectors struct {
	bytesPerRow float64
	rate        rate
	least       float64 // seconds of their launches, as measured
}

// vectors returns operators of so many layers that move so many bytes for each
// row, with so many kernels a layer.
func (s Setup) vectors(bytes float64, layers, kernels int) vectors {
	e := s.Efficiency
	v := vectors{bytesPerRow: bytes, rate: s.rate(e.Elementwise, layers, BF16)}
	if e.Measured != nil {
		v.least = float64(layers*kernels) * e.Measured.Elementwise.Seconds()
	}
	return v
}

// fill joins bytes and launches by a root of squares: a launch hides behind what
// it moves.
func (v *vectors) fill(rows float64, cost *OpCost) {
	lead, w := 0.0, Work{Bytes: v.bytesPerRow * rows}
	moved := w.Bytes * v.rate.perByte
	cost.add(&v.rate, w, v.rate.launch+norm(moved, v.least, 2), &lead)
}

// logitBytes are what sampling moves for each logit: it is read in BF16 and
// written in FP32. In profiles of vLLM 0.19 a row takes as long as 6 to 8 bytes a
// logit.
const logitBytes = bf16 + 4

// samplingLaunches are the element-wise kernels between logits and a token.
const samplingLaunches = 5

// elementwise returns the values per position that element-wise operators of
// all layers read and write: two norms with residual of three vectors each,
// the activation with its inputs and result, queries and keys rotated in place.
func (s Setup) elementwise() int {
	m, tp := s.Model, s.tp()
	values := 2 * 3 * m.Layers * m.Hidden
	values += (m.Layers - m.MoE.Layers) * m.matrices() * m.Intermediate / tp
	values += m.MoE.Layers * 3 * m.MoE.Shared / tp
	for _, g := range m.attentionGroups() {
		rotated := (g.heads/tp + ceilDiv(g.kvHeads, tp)) * g.headDim
		if m.MLA.KVRank > 0 {
			rotated = (g.heads/tp + 1) * m.MLA.RopeDim
		}
		values += g.layers * 2 * rotated
	}
	return values
}
