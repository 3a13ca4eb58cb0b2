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
//	floor + chain·k/(1 + k/split) + ‖ 2·mn^(1-wave)·tiled^wave·k/(compute·rate) + 2mn/(output·bandwidth), (B_a·mk + B_w·kn + 2mn)/(memory·bandwidth) ‖
//
// The results are written behind the products, so that they add to them besides
// counting as traffic. The chain is the loop of one tile over k, which splits of
// k bound. Tiled is m·n rounded up to whole waves: see tiledValues.
//
// Weights of fewer bytes than activations mean that a kernel of its own brings
// the activations to the weights' format first, of which the product then reads
// B_w·mk bytes. Kernels for such formats do not split k, so that the chain is
// one more thing to wait for, and take taller tiles for more rows, whose loop
// is longer:
//
//	floor + ‖ row·m, (B_a + B_w)·mk/(quantise·bandwidth) ‖₄ + ‖ …, …, chain·k·(1 + min(m, 256)/height) ‖
//
// A benchmark rotates several matrices of weights but not the activations and
// results, so that the weights of which cache bytes stay near and the activation
// cache are two sizes, which a product shares between its operands. Activations
// and results are as near in an engine, whose kernels have just written them.
//
// The time rises with m, n and k, cold or not.
func MatrixForm(g GPU, rate, weight, activation float64) Form {
	form := Form{
		Name:   "matrix product",
		Inputs: []string{"m", "n", "k"},
		Parameters: []Parameter{
			startAt(paramFloor, 2e-6), paramCompute, paramMemory, startAt(paramNorm, 2.5),
			{Name: "output", Start: 1, Low: 0.1, High: 20, Neutral: 1e9},
			startAt(paramCache, 1e7), paramSpeedup,
			{Name: "activation cache", Unit: "B", Start: 6e7, Low: 1e6, High: 1e9},
			{Name: "wave", Start: 0.3, Low: 0.001, High: 1},
			{Name: "chain", Unit: "s", Start: 2e-9, Low: 1e-11, High: 1e-6},
		},
	}
	// work returns the time of products and traffic, on activations of so many
	// bytes a value beside other bytes that a kernel before has moved. It also
	// returns the factor on the time of activations.
	work := func(p, x []float64, activation, moved, chain float64) (seconds, warm float64) {
		m, n, k := x[0], x[1], x[2]
		weights, in, out := weight*k*n, activation*m*k, bf16*m*n
		passing := in + out + moved
		near := inCache(weights+passing*p[5]/p[7], p[5], p[6])
		warm = inCache(weights+passing, p[7], p[6])
		tiled := m * n * math.Pow(tiledValues(m, n, float64(g.Processors))/(m*n), p[8])
		return smoothMax(p[3],
			2*tiled*k/(p[1]*rate)+warm*out/(p[4]*g.Bandwidth),
			(near*weights+warm*(in+out))/(p[2]*g.Bandwidth),
			chain), warm
	}
	if weight >= activation {
		form.Parameters = append(form.Parameters,
			Parameter{Name: "split", Start: 1000, Low: 10, High: 1e5, Neutral: 1e9})
		form.Seconds = func(p, x []float64) float64 {
			seconds, _ := work(p, x, activation, 0, 0)
			return p[0] + p[9]*x[2]/(1+x[2]/p[10]) + seconds
		}
		return form
	}
	form.Parameters = append(form.Parameters,
		Parameter{Name: "height", Start: 128, Low: 10, High: 1e5, Neutral: 1e9},
		Parameter{Name: "quantise", Start: 0.8, Low: 0.05, High: 10, Neutral: 1e9},
		Parameter{Name: "row", Unit: "s", Start: 5e-9, Low: 1e-12, High: 1e-7})
	form.Seconds = func(p, x []float64) float64 {
		moved := (activation + weight) * x[0] * x[2]
		seconds, warm := work(p, x, weight, moved, p[9]*x[2]*(1+min(x[0], 256)/p[10]))
		return p[0] + smoothMax(4, p[12]*x[0], warm*moved/(p[11]*g.Bandwidth)) + seconds
	}
	return form
}

// tiledValues returns m·n rounded up to whole waves: every processor computes a
// tile of the results at a time, and the last wave is not full. Kernels take
// the shape of tile that is done first. One of half the size reads more for
// each product, so that it counts 1.2 times its values. 0 processors means that
// their number is not known and nothing is rounded.
func tiledValues(m, n, processors float64) float64 {
	if processors == 0 {
		return m * n
	}
	least, weight := math.Inf(1), 1.0
	for _, t := range [...][2]float64{{128, 256}, {128, 128}, {64, 128}, {64, 64}} {
		tiles := math.Ceil(m/t[0]) * math.Ceil(n/t[1])
		if t[0] != t[1] {
			tiles = min(tiles, math.Ceil(m/t[1])*math.Ceil(n/t[0]))
		}
		least = min(least, math.Ceil(tiles/processors)*processors*t[0]*t[1]*weight)
		weight *= 1.2
	}
	return least
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

// ExpertsForm is the time of the routed experts of one layer on one GPU, in
// BF16. Rows are the picks that its experts compute and distinct the experts
// that have any; picks are those that pass through the kernels around the
// products, of other ranks too unless they are sorted out before. Matrices are
// those of one expert, three with a gate.
//
//	floor + ‖ FLOPs/(compute·rate), weights of the distinct experts/(memory·bandwidth) + expert·distinct, chain·(h + I) ‖ + activations/(activation·bandwidth)
//
// FLOPs count what each distinct expert computes besides: tile rows. The chain
// is the loops of one tile over the hidden and the inner size. A pick of
// another rank costs skipped times what a row costs in activations. Tuned is 1
// for shapes whose tiles the engine has been tuned for on this GPU, which
// multiplies the rate by tuned; 0 for those that take the tiles of a rule.
//
// Routing is an input and not fitted: take it from [RoutedExperts] or from what
// a benchmark says of itself.
func ExpertsForm(g GPU) Form {
	return Form{
		Name:   "experts",
		Inputs: []string{"rows", "distinct", "picks", "matrices", "hidden", "inner", "tuned"},
		Parameters: []Parameter{
			startAt(paramFloor, 1e-5), paramCompute, paramMemory, startAt(paramNorm, 3),
			{Name: "activation", Start: 0.5, Low: 0.02, High: 2, Neutral: 1},
			{Name: "tile", Start: 16, Low: 0.01, High: 128},
			{Name: "expert", Unit: "s", Start: 1e-8, Low: 1e-11, High: 1e-5},
			{Name: "skipped", Start: 0.3, Low: 0.001, High: 1.2, Neutral: 1},
			paramCache, paramSpeedup,
			{Name: "tuned", Start: 1.3, Low: 0.5, High: 4, Neutral: 1},
			{Name: "chain", Unit: "s", Start: 1e-8, Low: 1e-12, High: 1e-7},
		},
		Seconds: func(p, x []float64) float64 {
			rows, distinct, picks, hidden, inner := x[0], x[1], x[2], x[4], x[5]
			values := x[3] * hidden * inner
			weights := bf16 * values * distinct
			compute := p[1]
			if x[6] > 0 {
				compute *= p[10]
			}
			return p[0] + smoothMax(p[3],
				2*values*(rows+p[5]*distinct)/(compute*g.Rate),
				inCache(weights, p[8], p[9])*weights/(p[2]*g.Bandwidth)+p[6]*distinct,
				p[11]*(hidden+inner)) +
				bf16*(rows+p[7]*(picks-rows))*(2*hidden+x[3]*inner)/(p[4]*g.Bandwidth)
		},
	}
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
