package costmodel

import "math"

// The forms of measured kernels. Each is a floor plus a smooth maximum of what
// a kernel may wait for:
//
//   - compute and memory, as shares of what a datasheet promises
//   - a chain of steps that cannot be divided, so that a small kernel takes
//     as long as one of its tiles
//   - memory in the cache of the device: repeated in a benchmark, a small
//     kernel finds its operands there, in an engine it does not: see
//     [Calibration.Cold]
//
// The norm of the smooth maximum is a parameter too.

// The parameters that forms share.
var (
	paramFloor   = Parameter{Name: "floor", Unit: "s", Start: 8e-6, Low: 1e-7, High: 1e-4}
	paramCompute = Parameter{Name: "compute", Start: 0.6, Low: 0.05, High: 1, Neutral: 1}
	paramMemory  = Parameter{Name: "memory", Start: 0.8, Low: 0.05, High: 1.2, Neutral: 1}
	paramNorm    = Parameter{Name: "norm", Start: 2, Low: 1, High: 12, Neutral: 100}
	paramCache   = Parameter{Name: cacheSize, Unit: "B", Start: 3e7, Low: 1e5, High: 1e9}
	paramSpeedup = Parameter{Name: "cache speed-up", Start: 2, Low: 1, High: 10, Neutral: 1}
)

// cacheSize names the parameter that Cold takes away.
const cacheSize = "cache"

// inCache returns the factor on the time of bytes when those of the whole
// kernel may lie in a cache of that size. The edge is sharp: what does not fit
// evicts itself before it is read again.
func inCache(bytes, size, speedup float64) float64 {
	if size == 0 {
		return 1
	}
	x := bytes / size
	x *= x * x
	x *= x
	return 1 - (1-1/speedup)/(1+x*x)
}

// smoothMax returns the p-norm of its values, which are not negative.
func smoothMax(p float64, values ...float64) float64 {
	top := 0.0
	for _, v := range values {
		top = max(top, v)
	}
	if top == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range values {
		switch {
		case v == top:
			sum++
		case v > 1e-6*top:
			sum += math.Exp(p * math.Log(v/top))
		}
	}
	return top * math.Pow(sum, 1/p)
}

// Cold returns the calibration without the effect of the device's cache: what
// an engine sees, whose weights and KV blocks were read a whole step ago. The
// coefficients stay as fitted.
func (c *Calibration) Cold() *Calibration {
	cold := *c
	cold.Coefficients = append([]Coefficient(nil), c.Coefficients...)
	for i := range cold.Coefficients {
		if cold.Coefficients[i].Name == cacheSize {
			cold.Coefficients[i].Value, cold.Coefficients[i].Error = 0, 0
		}
	}
	return &cold
}

// KernelForm is the formula of [Kernel] for any operator whose inputs are
// FLOPs and bytes: floor + the smooth maximum of both over what the GPU
// promises.
func KernelForm(g GPU) Form {
	return Form{
		Name:       "kernel",
		Inputs:     []string{"FLOPs", "bytes"},
		Parameters: []Parameter{paramFloor, paramCompute, paramMemory, paramNorm},
		Seconds: func(p, x []float64) float64 {
			return p[0] + smoothMax(p[3], x[0]/(p[1]*g.Rate), x[1]/(p[2]*g.Bandwidth))
		},
	}
}

// MatrixForm is the time of a product (m × k)·(k × n) at a rate in FLOP per
// second, with weights and activations of so many bytes a value and BF16
// results:
//
//	floor + ‖ (⌈w⌉/w)^wave·2mnk/(compute·rate) + 2mn/(output·bandwidth), (B_a·mk + B_w·kn)/(memory·bandwidth), chain·k^exponent ‖
//
// The results are written behind the products, so that they add to them; the
// chain is the loop of one tile over k, which splits of k shorten. A single row
// has a kernel of its own, whose chain is vector times as long.
//
// w > 1 is the number of tiles of 128 × 256 results for each processor of the
// GPU: tiles run in waves, the last of which is not full. Smaller tiles make up
// for some of it, so that wave is below 1.
func MatrixForm(g GPU, rate, weight, activation float64) Form {
	processors := float64(g.Processors)
	if processors == 0 {
		processors = math.Inf(1)
	}
	return Form{
		Name:   "matrix product",
		Inputs: []string{"m", "n", "k"},
		Parameters: []Parameter{
			startAt(paramFloor, 2e-6), paramCompute, paramMemory, paramNorm,
			{Name: "output", Start: 1, Low: 0.1, High: 5, Neutral: 1e9},
			{Name: "chain", Unit: "s", Start: 1e-8, Low: 1e-11, High: 1e-5},
			{Name: "chain exponent", Start: 0.5, Low: 0.05, High: 1, Neutral: 1},
			paramCache, paramSpeedup,
			{Name: "output cache", Unit: "B", Start: 3e7, Low: 1e5, High: 1e9},
			{Name: "wave", Start: 0.5, Low: 0.001, High: 1},
			{Name: "vector", Start: 0.7, Low: 0.05, High: 2, Neutral: 1},
		},
		Seconds: func(p, x []float64) float64 {
			in, out := activation*x[0]*x[2]+weight*x[2]*x[1], bf16*x[0]*x[1]
			near, kept := inCache(in, p[7], p[8]), inCache(out, p[9], p[8])
			wave := 1.0
			if w := math.Ceil(x[0]/128) * math.Ceil(x[1]/256) / processors; w > 1 {
				wave = math.Pow(math.Ceil(w)/w, p[10])
			}
			chain := p[5] * math.Pow(x[2], p[6])
			if x[0] == 1 {
				chain *= p[11]
			}
			return p[0] + smoothMax(p[3],
				wave*2*x[0]*x[1]*x[2]/(p[1]*rate)+kept*out/(p[4]*g.Bandwidth),
				near*in/(p[2]*g.Bandwidth),
				chain)
		},
	}
}

// DecodeForm is the time of one layer's attention for b sequences of equal
// context, one position each, with KV of so many bytes a value, 2 for BF16:
//
//	floor + swap + ‖ ‖KV bytes/(memory·bandwidth), block·b·n_kv‖₄ + row·b·n, chain(context) ‖
//
// A block is one program of the kernel, for a sequence and a KV head; swap is
// a second launch that kernels with grouped heads need unless there is one
// sequence or one KV head. Groups split a long context over the device, so
// that the chain grows with a power of it; without groups some do not, and it
// grows in proportion.
func DecodeForm(g GPU, cache float64) Form {
	return Form{
		Name:   "decode attention",
		Inputs: []string{"sequences", "heads", "KV heads", "head dim", "context"},
		Parameters: []Parameter{
			paramFloor, paramMemory, paramNorm,
			{Name: "block", Unit: "s", Start: 1e-9, Low: 1e-12, High: 1e-6},
			{Name: "row", Unit: "s", Start: 1e-9, Low: 1e-12, High: 1e-7},
			{Name: "chain", Unit: "s", Start: 1e-8, Low: 1e-12, High: 1e-5},
			{Name: "chain exponent", Start: 0.5, Low: 0.05, High: 1, Neutral: 1},
			{Name: "chain without groups", Unit: "s", Start: 1e-9, Low: 1e-12, High: 1e-7},
			{Name: "swap", Unit: "s", Start: 1e-7, Low: 1e-9, High: 1e-4},
			paramCache, paramSpeedup,
		},
		Seconds: func(p, x []float64) float64 {
			b, heads, kv, dim, context := x[0], x[1], x[2], x[3], x[4]
			start, chain := p[0], p[5]*math.Pow(context, p[6])
			if heads == kv {
				chain = max(chain, p[7]*context)
			} else if b > 1 && kv > 1 {
				start += p[8]
			}
			bytes := 2*cache*kv*dim*context*b + 4*heads*dim*b
			moved := inCache(bytes, p[9], p[10]) * bytes / (p[1] * g.Bandwidth)
			return start + smoothMax(p[2], smoothMax(4, moved, p[3]*b*kv)+p[4]*b*heads, chain)
		},
	}
}

// PrefillForm is the time of one layer's attention for b prompts of s
// positions each, without cached tokens, that leave KV of so many bytes a value:
//
//	floor + ‖ 2·b·n·d·s²/(compute·rate)·(128/d)^small + tile·tiles, bytes/(memory·bandwidth), chain·s·d/128 ‖
//
// A tile is 128 positions of one head; the chain is its loop over the keys. A
// prompt of one position is computed by the kernel for decoding, whose tiles
// are those of the KV heads.
func PrefillForm(g GPU, cache float64) Form {
	return Form{
		Name:   "prefill attention",
		Inputs: []string{"prompts", "heads", "KV heads", "head dim", "positions"},
		Parameters: []Parameter{
			paramFloor, paramCompute, paramMemory, paramNorm,
			{Name: "chain", Unit: "s", Start: 1e-8, Low: 1e-11, High: 1e-6},
			{Name: "small", Start: 0.3, Low: 0.001, High: 1.5},
			{Name: "tile", Unit: "s", Start: 1e-8, Low: 1e-11, High: 1e-6},
			paramCache, paramSpeedup,
		},
		Seconds: func(p, x []float64) float64 {
			b, heads, kv, dim, s := x[0], x[1], x[2], x[3], x[4]
			tiles := b * heads * math.Ceil(s/128)
			if s == 1 {
				tiles = b * kv
			}
			bytes := b * s * dim * (4*heads + 4*cache*kv)
			return p[0] + smoothMax(p[3],
				2*b*heads*dim*s*(s+1)/(p[1]*g.Rate)*math.Pow(128/dim, p[5])+p[6]*tiles,
				inCache(bytes, p[7], p[8])*bytes/(p[2]*g.Bandwidth),
				p[4]*s*dim/128)
		},
	}
}

// MixedForm is the time of one layer's attention for a whole batch of one
// model, in seconds per unit of work, so that it needs no datasheet:
//
//	floor + row·positions + ‖ chain·longest, sequence·decodes + pair·cached + causal·(in chunks) + key·context ‖
//
// Kernels that serve prompts and decodes in one launch give a decode a whole
// tile of queries, so that its keys cost what 128 pairs cost: several times
// the decode kernel's price. For batches of decodes alone, of prompts alone
// and of both the coefficients differ, and are fitted apart.
func MixedForm() Form {
	small := func(name string, start float64) Parameter {
		return Parameter{Name: name, Unit: "s", Start: start, Low: 1e-13, High: 1e-4}
	}
	return Form{
		Name:   "attention of a batch",
		Inputs: []string{"positions of prompts", "pairs with cached tokens", "pairs within chunks", "decodes", "context of decodes", "longest"},
		Parameters: []Parameter{
			paramFloor, small("row", 1e-9), small("chain", 1e-8), small("sequence", 1e-7),
			small("pair", 5e-11), small("causal", 5e-11), small("key", 2e-9), paramNorm,
		},
		Seconds: func(p, x []float64) float64 {
			return p[0] + p[1]*x[0] + smoothMax(p[7], p[2]*x[5], p[3]*x[3]+p[4]*x[1]+p[5]*x[2]+p[6]*x[4])
		},
	}
}

// ExpertsForm is the time of the routed experts of one layer on one GPU, whose
// products run at a rate in FLOP per second, with weights and activations of so
// many bytes a value and BF16 results. Rows are the picks that its experts
// compute and distinct the experts that have any; picks are those that pass
// through the kernels around the products, of other ranks too unless they are
// sorted out before. Matrices are those of one expert, three with a gate.
//
//	floor + ‖ 2·values·blocks·rows of a tile/(compute·rate), weights of the distinct experts/(memory·bandwidth), chain·(h + I)·(rows of a tile/64)^exponent ‖ + activations/(activation·bandwidth)
//
// Values are those of one expert. Its rows are computed in blocks as high as a
// tile of the kernel, which the engine chooses ([ExpertsTile]): at least one for
// each distinct expert, and on average the last one of each is half full. The
// chain is the loops of one tile over the hidden and the inner size; higher
// tiles take shorter steps, so that theirs are slower. A pick of another rank
// costs skipped times what a row costs in activations. Tuned is 1 for shapes
// whose tiles the engine has been tuned for on this GPU, which multiplies the
// rate by tuned; 0 for those of a rule.
//
// Routing is an input and not fitted: take it from [RoutedExperts] or from what
// a benchmark says of itself.
func ExpertsForm(g GPU, rate, weight, activation float64) Form {
	return Form{
		Name:   "experts",
		Inputs: []string{"rows", "distinct", "picks", "matrices", "hidden", "inner", "rows of a tile", "tuned"},
		Parameters: []Parameter{
			startAt(paramFloor, 1e-5), paramCompute, paramMemory, startAt(paramNorm, 2.5),
			{Name: "activation", Start: 0.5, Low: 0.02, High: 2, Neutral: 1},
			{Name: "skipped", Start: 0.3, Low: 0.001, High: 1, Neutral: 1},
			startAt(paramCache, 6e7), startAt(paramSpeedup, 4),
			{Name: "tuned", Start: 1.3, Low: 0.5, High: 4, Neutral: 1},
			{Name: "chain", Unit: "s", Start: 1e-8, Low: 1e-12, High: 1e-7},
			{Name: "chain exponent", Start: 0.4, Low: 0.01, High: 1.5},
		},
		Seconds: func(p, x []float64) float64 {
			rows, distinct, picks, hidden, inner, tile := x[0], x[1], x[2], x[4], x[5], x[6]
			values := x[3] * hidden * inner
			weights := weight * values * distinct
			compute := p[1]
			if x[7] > 0 {
				compute *= p[8]
			}
			blocks := max(distinct, rows/tile+distinct/2)
			passed := activation*(hidden+inner) + bf16*(hidden+(x[3]-1)*inner)
			return p[0] + smoothMax(p[3],
				2*values*blocks*tile/(compute*rate),
				inCache(weights, p[6], p[7])*weights/(p[2]*g.Bandwidth),
				p[9]*(hidden+inner)*math.Pow(tile/64, p[10])) +
				(rows+p[5]*(picks-rows))*passed/(p[4]*g.Bandwidth)
		},
	}
}

// ExpertsTile returns the rows of a tile that vLLM's kernel for experts in BF16
// and FP8 takes for a batch of so many positions, where nobody has tuned it
// (get_default_config in vllm/model_executor/layers/fused_moe/fused_moe.py, of
// versions after 0.14; kernels of 0.24 are fitted with it).
func ExpertsTile(positions float64) float64 {
	switch {
	case positions <= 32:
		return 16
	case positions <= 96:
		return 32
	case positions <= 512:
		return 64
	}
	return 128
}

// RingForm is an all-reduce of that many bytes over one number of GPUs, with
// two algorithms: up to switchover bytes each GPU reads the tensors of all
// others, beyond it the tensor travels round a ring twice.
func RingForm(gpus int, switchover float64) Form {
	n := float64(gpus)
	return Form{
		Name:   "all-reduce",
		Inputs: []string{"bytes"},
		Parameters: []Parameter{
			startAt(paramFloor, 6e-6),
			{Name: "direct", Unit: "B/s", Start: 1e11, Low: 5e8, High: 2e12},
			{Name: "ring floor", Unit: "s", Start: 1e-5, Low: 1e-7, High: 1e-3},
			{Name: "ring", Unit: "B/s", Start: 1e11, Low: 5e8, High: 2e12},
		},
		Seconds: func(p, x []float64) float64 {
			if x[0] <= switchover {
				return p[0] + (n-1)*x[0]/p[1]
			}
			return p[2] + 2*(n-1)/n*x[0]/p[3]
		},
	}
}

// LayerForm is the time of the matrix products and element-wise kernels of
// whole layers, without attention: [KernelForm] on their sums, and vector for
// each value of the vectors that element-wise kernels pass on.
func LayerForm(g GPU) Form {
	return Form{
		Name:   "layer without attention",
		Inputs: []string{"FLOPs", "bytes", "values"},
		Parameters: []Parameter{
			startAt(paramFloor, 3e-5), paramCompute, paramMemory, paramNorm,
			{Name: "vector", Unit: "s", Start: 1e-12, Low: 0, High: 1e-9},
		},
		Seconds: func(p, x []float64) float64 {
			return p[0] + p[4]*x[2] + smoothMax(p[3], x[0]/(p[1]*g.Rate), x[1]/(p[2]*g.Bandwidth))
		},
	}
}

// StepForm is the time of whole steps of one set-up, measured from outside:
//
//	start + sequence·sequences + ‖ FLOPs·(1 + fall·positions)/(compute·rate), bytes/(memory·bandwidth), floor ‖
//
// Start and floor are the host's part: what the device waits for, and launches
// that it overtakes when a step is small. Fall is how the efficiency of long prompts
// sinks: to a half at 1/fall positions.
func StepForm(g GPU) Form {
	return Form{
		Name:   "step",
		Inputs: []string{"FLOPs", "bytes", "sequences", "positions"},
		Parameters: []Parameter{
			{Name: "start", Unit: "s", Start: 5e-3, Low: 1e-5, High: 0.5},
			{Name: "sequence", Unit: "s", Start: 1e-4, Low: 0, High: 0.1},
			paramCompute, paramMemory, paramNorm,
			{Name: "fall", Start: 1e-5, Low: 0, High: 1e-3},
			{Name: "floor", Unit: "s", Start: 1e-2, Low: 0, High: 0.5},
		},
		Seconds: func(p, x []float64) float64 {
			return p[0] + p[1]*x[2] + smoothMax(p[4], x[0]*(1+p[5]*x[3])/(p[2]*g.Rate), x[1]/(p[3]*g.Bandwidth), p[6])
		},
	}
}

// HostForm is what a step of an engine takes beyond its kernels: step +
// sequence·sequences. Its samples are lives of requests: steps and
// sequences summed over the steps of one.
func HostForm() Form {
	return Form{
		Name:   "host",
		Inputs: []string{"kernels", "steps", "sequences"},
		Parameters: []Parameter{
			{Name: "step", Unit: "s", Start: 3e-4, Low: 0, High: 1e-2},
			{Name: "sequence", Unit: "s", Start: 1e-5, Low: 0, High: 5e-4},
		},
		Seconds: func(p, x []float64) float64 { return x[0] + p[0]*x[1] + p[1]*x[2] },
	}
}

func startAt(p Parameter, start float64) Parameter {
	p.Start = start
	return p
}
