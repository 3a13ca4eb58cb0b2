package costmodel

import "servesim/sim"

// Work is what one launch of an operator computes and moves on one GPU.
type Work struct {
	FLOPs     float64 // a multiply-add counts two; pairs behind the causal mask are not counted
	Causal    float64 // the part of FLOPs in which the positions of a chunk see each other
	Bytes     float64 // read and written in memory
	Sequences float64 // that attention works on; 0 elsewhere
}

// Add returns the work of both in one launch.
func (w Work) Add(v Work) Work {
	return Work{w.FLOPs + v.FLOPs, w.Causal + v.Causal, w.Bytes + v.Bytes, w.Sequences + v.Sequences}
}

// Product is a matrix product (Rows × Inner) · (Inner × Columns), the right
// side being weights:
//
//	F = 2·m·n·k
//	Q = B_w·n·k + B_a·m·k + 2·m·n
//
// with BF16 results.
type Product struct {
	Columns, Inner int // n and k, on this GPU
	Precision      Precision
}

// Work returns the work of that many rows. Without rows the weights are not
// read.
func (p Product) Work(rows float64) Work {
	if rows == 0 {
		return Work{}
	}
	n, k := float64(p.Columns), float64(p.Inner)
	return Work{
		FLOPs: 2 * n * k * rows,
		Bytes: float64(n*k*p.Precision.Weights.BytesPerValue()) + float64(p.rowBytes()*rows),
	}
}

// rowBytes are the activations of one row, in and out.
func (p Product) rowBytes() float64 {
	return float64(float64(p.Inner)*p.Precision.Activations.BytesPerValue()) + float64(bf16*p.Columns)
}

// Attention is the core of grouped-query attention in one layer on one GPU: s
// positions behind p cached tokens have A = s·p + s(s+1)/2 pairs of a query
// and a key, or Σ min(p+i, Window) with a window, and
//
//	F = 4·n·d·A
//	Q = B_kv·2·n_kv·d·(keys read + s written) + 2·2·n·d·s
type Attention struct {
	Heads, KVHeads, HeadDim int // n, n_kv and d, on this GPU
	Window                  int // tokens that a position sees, itself included; 0 means all
	KV                      Format
}

// Prompt returns the work of one chunk.
func (a Attention) Prompt(c sim.Chunk) Work {
	s, p := float64(c.Tokens), float64(c.Context)
	cached, causal := pairs(s, p, a.Window)
	return a.work(s, cached, causal, keys(s, p, a.Window), 1)
}

// Decode returns the work of so many sequences that evaluate positions
// altogether and hold context tokens altogether, each equally many. With a
// window this is the most that sequences with this sum can have.
func (a Attention) Decode(sequences, positions, context float64) Work {
	if sequences == 0 {
		return Work{}
	}
	s, p := positions/sequences, context/sequences
	cached, causal := pairs(s, p, a.Window)
	w := a.work(positions, sequences*(cached+causal), 0, sequences*keys(s, p, a.Window), sequences)
	return w
}

func (a Attention) work(positions, cached, causal, read, sequences float64) Work {
	perPair := 4 * float64(a.Heads*a.HeadDim)
	return Work{
		FLOPs:     perPair * (cached + causal),
		Causal:    perPair * causal,
		Bytes:     float64(a.tokenBytes()*(read+positions)) + float64(2*bf16*float64(a.Heads*a.HeadDim)*positions),
		Sequences: sequences,
	}
}

// tokenBytes are the key and the value of one token.
func (a Attention) tokenBytes() float64 {
	return float64(2*a.KVHeads*a.HeadDim) * a.KV.BytesPerValue()
}

// Latent is the core of multi-head latent attention in one layer on one GPU.
// The cache holds one latent of r_kv and one rotated key of d_r values a
// token, for all heads, on every GPU.
type Latent struct {
	Heads                              int // n, on this GPU
	KVRank, RopeDim, NopeDim, ValueDim int // r_kv, d_r, d_n and d_v
	KV                                 Format
}

// Prompt returns the work of one chunk with keys and values expanded to all
// heads:
//
//	F = 2·n·(d_n + d_r + d_v)·A
//	Q = n·(d_n + d_r + d_v)·(B_kv·(p + s) + 2·s) + latents written
//
// Expanding them is a product of the layer, not counted here.
func (l Latent) Prompt(c sim.Chunk) Work {
	s, p := float64(c.Tokens), float64(c.Context)
	cached, causal := pairs(s, p, 0)
	width := float64(l.Heads * (l.NopeDim + l.RopeDim + l.ValueDim))
	return Work{
		FLOPs:     2 * width * (cached + causal),
		Causal:    2 * width * causal,
		Bytes:     width*(float64(l.KV.BytesPerValue()*(p+s))+bf16*s) + float64(l.tokenBytes()*s),
		Sequences: 1,
	}
}

// Decode returns the work of so many sequences with the expansion absorbed
// into queries and outputs, so that all heads read the same latents:
//
//	F = 2·n·(2·r_kv + d_r)·A
//	Q = B_kv·(r_kv + d_r)·(keys read + s written) + 2·n·(2·r_kv + d_r)·s
func (l Latent) Decode(sequences, positions, context float64) Work {
	if sequences == 0 {
		return Work{}
	}
	cached, causal := pairs(positions/sequences, context/sequences, 0)
	width := float64(l.Heads * (2*l.KVRank + l.RopeDim))
	return Work{
		FLOPs:     2 * width * sequences * (cached + causal),
		Bytes:     float64(l.tokenBytes()*(context+2*positions)) + float64(bf16*width*positions),
		Sequences: sequences,
	}
}

func (l Latent) tokenBytes() float64 { return float64(l.KVRank+l.RopeDim) * l.KV.BytesPerValue() }

// pairs counts the pairs of s positions behind p tokens: with cached tokens and
// within the chunk. In a window the positions that fill it see all before
// them, those behind them window tokens each, which count as cached unless the
// window lies in the chunk.
func pairs(s, p float64, window int) (cached, causal float64) {
	if window == 0 || p+s <= float64(window) {
		return s * p, s * (s + 1) / 2
	}
	w := float64(window)
	ramp := min(max(w-p, 0), s) // positions that see less than a window, or just one
	all := float64(ramp*p) + float64(ramp*(ramp+1)/2) + float64((s-ramp)*w)
	// Position i sees min(i, w) of its chunk.
	full := min(s, w)
	causal = float64(full*(full+1)/2) + float64((s-full)*w)
	return all - causal, causal
}

// keys counts the tokens whose keys are read: of the context those that the
// first position sees, and the positions themselves.
func keys(s, p float64, window int) float64 {
	if window > 0 {
		p = min(p, float64(window-1))
	}
	return p + s
}
