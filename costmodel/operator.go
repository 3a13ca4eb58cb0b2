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

// times returns the work of n launches.
func (w Work) times(n float64) Work {
	return Work{n * w.FLOPs, n * w.Causal, n * w.Bytes, n * w.Sequences}
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
	return Work{
		FLOPs: 2 * float64(p.Columns) * float64(p.Inner) * rows,
		Bytes: p.weightBytes() + float64(p.rowBytes()*rows),
	}
}

func (p Product) weightBytes() float64 {
	return float64(p.Columns) * float64(p.Inner) * p.Precision.Weights.BytesPerValue()
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
func (a Attention) Prompt(c sim.Chunk) Work { return a.core().prompt(c) }

// Decode returns the work of so many sequences that evaluate positions
// altogether and hold context tokens altogether, each equally many. With a
// window this is the most that sequences with this sum can have.
func (a Attention) Decode(sequences, positions, context float64) Work {
	return a.core().decode(sequences, positions, context)
}

func (a Attention) core() core {
	width := float64(a.Heads * a.HeadDim)
	token := float64(2*a.KVHeads*a.HeadDim) * a.KV.BytesPerValue()
	return core{perPair: 4 * width, perKey: token, perPosition: token + 2*bf16*width, window: float64(a.Window)}
}

// Latent is the core of multi-head latent attention in one layer on one GPU.
// The cache holds one latent of r_kv and one rotated key of d_r values a
// token, for all heads and on every GPU.
type Latent struct {
	Heads                              int // n, on this GPU
	KVRank, RopeDim, NopeDim, ValueDim int // r_kv, d_r, d_n and d_v
	KV                                 Format
}

// Prompt returns the work of one chunk with keys and values expanded to all
// heads:
//
//	F = 2·n·(d_n + d_r + d_v)·A
//	Q = n·(d_n + d_r + d_v)·(B_kv·keys read + 2·s) + B_kv·(r_kv + d_r)·s written
//
// Expanding the latents of the chunk is a product of the layer, not counted
// here; engines that expand those of the context again do more.
func (l Latent) Prompt(c sim.Chunk) Work { return l.promptCore().prompt(c) }

// Decode returns the work of so many sequences with the expansion absorbed
// into queries and outputs, so that all heads read the same latents:
//
//	F = 2·n·(2·r_kv + d_r)·A
//	Q = B_kv·(r_kv + d_r)·(keys read + s written) + 2·n·(4·r_kv + d_r)·s
//
// Queries and outputs of the size of latents are written and read: the products
// that make and take them count those of the heads' size only.
func (l Latent) Decode(sequences, positions, context float64) Work {
	return l.decodeCore().decode(sequences, positions, context)
}

func (l Latent) promptCore() core {
	width := float64(l.Heads * (l.NopeDim + l.RopeDim + l.ValueDim))
	return core{perPair: 2 * width, perKey: width * l.KV.BytesPerValue(), perPosition: l.tokenBytes() + bf16*width}
}

func (l Latent) decodeCore() core {
	return core{
		perPair: 2 * float64(l.Heads*(2*l.KVRank+l.RopeDim)), perKey: l.tokenBytes(),
		perPosition: l.tokenBytes() + bf16*float64(l.Heads*(4*l.KVRank+l.RopeDim)),
	}
}

func (l Latent) tokenBytes() float64 { return float64(l.KVRank+l.RopeDim) * l.KV.BytesPerValue() }

// core is what attention does for a pair of query and key, a key read and a
// position.
type core struct {
	perPair             float64 // FLOPs
	perKey, perPosition float64 // bytes
	window              float64 // 0 means none
}

// times returns the core of so many layers.
func (c core) times(layers int) core {
	n := float64(layers)
	return core{n * c.perPair, n * c.perKey, n * c.perPosition, c.window}
}

func (c core) prompt(chunk sim.Chunk) Work {
	s, p := float64(chunk.Tokens), float64(chunk.Context)
	cached, causal := pairs(s, p, c.window)
	return Work{
		FLOPs: c.perPair * (cached + causal), Causal: c.perPair * causal,
		Bytes: float64(c.perKey*keys(s, p, c.window)) + float64(c.perPosition*s), Sequences: 1,
	}
}

// decode takes n sequences with s positions and p tokens of context altogether.
func (c core) decode(n, s, p float64) Work {
	var all, read float64
	switch {
	case n == 0:
		return Work{}
	case c.window > 0 && s == n:
		all = min(p+n, n*c.window)
		read = all
	case c.window > 0:
		cached, causal := pairs(s/n, p/n, c.window)
		all, read = n*(cached+causal), n*keys(s/n, p/n, c.window)
	case s == n:
		all, read = p+n, p+n
	default:
		all, read = float64(s/n*p)+float64(s*(s/n+1)/2), p+s
	}
	return Work{FLOPs: c.perPair * all, Bytes: float64(c.perKey*read) + float64(c.perPosition*s), Sequences: n}
}

// self adds positions that see themselves only.
func (c core) self(w Work, positions, sequences int) Work {
	n := float64(positions)
	w.FLOPs += c.perPair * n
	w.Bytes += (c.perKey + c.perPosition) * n
	w.Sequences += float64(sequences)
	return w
}

// pairs counts the pairs of s positions behind p tokens: with cached tokens and
// within the chunk. In a window the positions that fill it see all before
// them, those behind them window tokens each, which count as cached unless the
// window lies in the chunk.
func pairs(s, p, window float64) (cached, causal float64) {
	if window == 0 || p+s <= window {
		return s * p, s * (s + 1) / 2
	}
	ramp := min(max(window-p, 0), s) // positions that see no more than a window
	all := float64(ramp*p) + float64(ramp*(ramp+1)/2) + float64((s-ramp)*window)
	// Position i sees min(i, window) of its chunk.
	full := min(s, window)
	causal = float64(full*(full+1)/2) + float64((s-full)*window)
	return all - causal, causal
}

// keys counts the tokens whose keys are read: of the context those that the
// first position sees, and the positions themselves.
func keys(s, p, window float64) float64 {
	if window > 0 {
		p = min(p, window-1)
	}
	return p + s
}
