package costmodel

import (
	"math"

	"servesim/sim"
)

// measuredAttention is the attention of layers that attend alike.
type measuredAttention struct {
	heads, kvHeads, headDim, window, layers float64
	rate, bandwidth, cache, processors      float64
	prefill                                 []float64     // coefficients; nil means not measured
	decode                                  *foldedDecode // nil means not measured
}

func (s Setup) measuredAttention(a Attention, layers int) measuredAttention {
	m := s.Efficiency.Measured
	k := measuredAttention{
		heads: float64(a.Heads), kvHeads: float64(a.KVHeads), headDim: float64(a.HeadDim), window: float64(a.Window), layers: float64(layers),
		rate: s.GPU.Rate, bandwidth: s.GPU.Bandwidth, cache: a.KV.BytesPerValue(), processors: float64(s.GPU.Processors),
	}
	if c := m.prefill(k.cache, a.Window > 0); c != nil {
		k.prefill = c.engineValues()
	}
	if c := m.decode(k.cache, a.Window > 0); c != nil {
		k.decode = k.foldDecode(c.engineValues(), m.Mixed)
	}
	return k
}

// prompts returns the time of all chunks in one launch: one floor, the longest
// chain and the work of each, without what is cached, and then that.
func (k *measuredAttention) prompts(b *sim.Batch, a *attending) float64 {
	sum, longest := k.prefill[0], 0.0
	add := func(prompts, positions float64) {
		x := [...]float64{prompts, k.heads, k.kvHeads, k.headDim, positions, k.window}
		work, chain := prefillSeconds(k.rate, k.bandwidth, k.cache, k.prefill, x[:])
		sum, longest = sum+work, max(longest, chain)
	}
	cached := false
	for _, c := range b.Prefills {
		add(1, float64(c.Tokens))
		cached = cached || c.Context > 0
	}
	if n := b.Padding.PromptTokens; n > 0 {
		add(float64(n), 1)
	}
	sum = k.layers * (sum + longest)
	if cached {
		sum += k.cached(b, a)
	}
	return sum
}

// Attention to cached tokens, which no benchmark of kernels has: read off vLLM
// 0.19 on RTX PRO 6000. There prompts behind 2048 tokens and more are 6 to 8 %
// off; what cached tokens add to a chunk of Llama-2-7B in Vidur's profile of A100,
// which had no part in it, is 10 % off.
const (
	// lastWave is the part of a block's time for which the last wave of blocks
	// keeps a GPU waiting.
	lastWave = 0.4
	// Where blocks leave at least so much of a GPU idle, two of them share each
	// tile's keys, and are done after halved of its time.
	idle, halved = 0.45, 0.58
)

// cached returns the time of the pairs with cached tokens, at the shares of the
// fit. A block is a tile of positions and a head, on one processor: few of them
// do not fill a GPU, however long they take. A chunk of one position reads its
// keys as a decode does.
func (k *measuredAttention) cached(b *sim.Batch, a *attending) float64 {
	blocks, total, longest, read := 0.0, 0.0, 0.0, 0.0
	for _, c := range b.Prefills {
		s, p := float64(c.Tokens), float64(c.Context)
		tiles := k.heads * math.Ceil(s/tileRows)
		blocks += tiles
		if p == 0 {
			continue
		}
		before, _ := pairs(s, p, k.window)
		compute := ofHeadDim(k.headDim, k.prefill[10:]) * a.prompt.perPair * before * a.prefill.perFLOP
		read += max(compute, a.prompt.perKey*(keys(s, p, k.window)-s)*a.prefill.perByte)
		if s == 1 {
			continue
		}
		block := compute * tileRows * math.Ceil(s/tileRows) / s * k.processors / tiles
		total, longest = total+block*tiles/k.processors, max(longest, block)
	}
	if k.processors == 0 {
		return read
	}
	if blocks <= (1-idle)*k.processors {
		longest *= halved
	}
	return max(read, longest, total+lastWave*longest)
}

// foldedDecode is decodeSeconds for the heads of one model.
type foldedDecode struct {
	start, swap                float64
	perKey, perRow             float64 // of reading and writing
	perBlock, exposed          float64
	perHead                    float64
	chain, chainWithoutGroups  float64
	perMixedKey                float64 // 0 means that steps with prompts are like others
	heads, kvHeads, seen, many float64
}

func (k *measuredAttention) foldDecode(p []float64, mixed float64) *foldedDecode {
	f := &foldedDecode{
		start: p[0] + float64(p[2]*k.headDim), swap: p[8], perBlock: p[3] * k.kvHeads, exposed: p[4], perHead: p[5] * k.heads,
		chain: p[6], chainWithoutGroups: p[7], heads: k.heads, kvHeads: k.kvHeads, seen: math.Inf(1), many: k.layers,
	}
	perByte := ofHeadDim(k.headDim, p[11:]) / (p[1] * k.bandwidth)
	f.perKey, f.perRow = 2*k.cache*k.kvHeads*k.headDim*perByte, 4*k.heads*k.headDim*perByte
	if mixed > 0 {
		f.perMixedKey = 2 * k.cache * k.heads * k.headDim / (mixed * k.bandwidth)
	}
	if k.window > 0 {
		f.seen = k.window
	}
	return f
}

// seconds takes sequences to be alike, and several positions of one for as many
// heads more. Padding rows see themselves only.
func (f *foldedDecode) seconds(b *sim.Batch) float64 {
	n, t := float64(b.Decodes), 0.0
	if n > 0 {
		rows := float64(b.Positions) / n
		context := min(float64(b.Context)/n+rows, f.seen)
		t = f.launch(n, rows, context)
		if f.perMixedKey > 0 && hasPrompts(b) {
			t = max(t, f.perMixedKey*n*context) // a tile has room for all rows of a sequence
		}
	}
	if pad := float64(b.Padding.Rows); pad > 0 {
		t += f.launch(n+pad, 1, 1)
		if n > 0 {
			t -= f.launch(n, 1, 1)
		}
	}
	return f.many * t
}

func (f *foldedDecode) launch(n, rows, context float64) float64 {
	start, chain := f.start, f.chain*math.Sqrt(context)
	if f.heads*rows == f.kvHeads {
		chain = max(chain, f.chainWithoutGroups*context)
	} else if n > 1 && f.kvHeads > 1 {
		start += f.swap
	}
	moved, blocks := n*(float64(f.perKey*context)+float64(f.perRow*rows)), f.perBlock*n
	work := max(moved, blocks) + float64(f.exposed*min(moved, blocks)) + float64(f.perHead*n*rows)
	return start + math.Sqrt(float64(work*work)+float64(chain*chain))
}
