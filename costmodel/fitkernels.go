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
// The norm of the smooth maximum is a parameter too, but for attention, which a
// simulated step evaluates every time: a root is cheap, a power is not.

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

// MatrixForm is the time of a product (m × k)·(k × n) of BF16 activations and
// results, with weights of B_w bytes a value and activations of B_a as the
// precision has them:
//
//	floor + chain·k/(1 + k/split) + ‖ 2·mn^(1-wave)·tiled^wave·k/(compute·rate) + 2mn/(output·bandwidth), (B_a·mk + B_w·kn + 2mn)/(memory·bandwidth) ‖
//
// The results are written behind the products, so that they add to them besides
// counting as traffic. The chain is the loop of one tile over k, which splits of
// k bound. Tiled is m·n rounded up to whole waves: see tiledValues.
//
// Where products do not compute in BF16, a kernel of its own brings the
// activations to their format first. Kernels for such formats do not split k, so
// that the chain is one more thing to wait for, and take taller tiles for more
// rows, whose loop is longer:
//
//	floor + ‖ row·m, (2 + B_a)·mk/(quantise·bandwidth) ‖₄ + ‖ …, …, chain·k·(1 + min(m, 256)/height) ‖
//
// A benchmark rotates several matrices of weights but not the activations and
// results, so that the weights of which cache bytes stay near and the activation
// cache are two sizes, which a product shares between its operands. Activations
// and results are as near in an engine, whose kernels have just written them.
//
// The time rises with m, n and k, cold or not.
func MatrixForm(g GPU, p Precision) Form {
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
	f := newMatrixFormula(g, p)
	form.Seconds = f.seconds
	if !f.converts {
		form.Parameters = append(form.Parameters,
			Parameter{Name: "split", Start: 1000, Low: 10, High: 1e5, Neutral: 1e9})
		return form
	}
	form.Parameters = append(form.Parameters,
		Parameter{Name: "height", Start: 128, Low: 10, High: 1e5, Neutral: 1e9},
		Parameter{Name: "quantise", Start: 0.8, Low: 0.05, High: 10, Neutral: 1e9},
		Parameter{Name: "row", Unit: "s", Start: 5e-9, Low: 1e-12, High: 1e-7})
	return form
}

// matrixFormula is the formula of MatrixForm. The formulas of this file are no
// closures, so that a simulated step evaluates them without an allocation.
type matrixFormula struct {
	rate, bandwidth, processors float64
	weight, activation          float64 // bytes a value
	converts                    bool    // activations to another format
}

func newMatrixFormula(g GPU, p Precision) matrixFormula {
	return matrixFormula{g.Peak(p.Compute), g.Bandwidth, float64(g.Processors), p.Weights.BytesPerValue(), p.Activations.BytesPerValue(), p.Compute != BF16}
}

func (f matrixFormula) seconds(p, x []float64) float64 {
	if !f.converts {
		seconds, _ := f.work(p, x, 0, 0)
		return p[0] + p[9]*x[2]/(1+x[2]/p[10]) + seconds
	}
	moved := (bf16 + f.activation) * x[0] * x[2]
	seconds, warm := f.work(p, x, moved, p[9]*x[2]*(1+min(x[0], 256)/p[10]))
	return p[0] + smoothMax(4, p[12]*x[0], warm*moved/(p[11]*f.bandwidth)) + seconds
}

// work returns the time of products and traffic beside other bytes that a
// kernel before has moved, and the factor on the time of activations.
func (f matrixFormula) work(p, x []float64, moved, chain float64) (seconds, warm float64) {
	m, n, k := x[0], x[1], x[2]
	weights, in, out := f.weight*k*n, f.activation*m*k, bf16*m*n
	passing := in + out + moved
	near := inCache(weights+passing*p[5]/p[7], p[5], p[6])
	warm = inCache(weights+passing, p[7], p[6])
	tiled := m * n * math.Pow(tiledValues(m, n, f.processors)/(m*n), p[8])
	return smoothMax(p[3],
		2*tiled*k/(p[1]*f.rate)+warm*out/(p[4]*f.bandwidth),
		(near*weights+warm*(in+out))/(p[2]*f.bandwidth),
		chain), warm
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

// headDims are the factors on the main term of heads that are not 128 wide:
// kernels are compiled for each width, and some widths have another kernel.
var headDims = []Parameter{headDim("64"), headDim("192"), headDim("256"), headDim("512")}

func headDim(width string) Parameter {
	return Parameter{Name: "head dim " + width, Start: 1, Low: 0.4, High: 50, Neutral: 1}
}

// ofHeadDim picks the factor of the kernel that heads of that width fit.
func ofHeadDim(dim float64, factors []float64) float64 {
	switch {
	case dim <= 64:
		return factors[0]
	case dim <= 128:
		return 1
	case dim <= 192:
		return factors[1]
	case dim <= 256:
		return factors[2]
	}
	return factors[3]
}

// DecodeForm is the time of one layer's attention for b sequences of equal
// context, one position each, with KV of so many bytes a value, 2 for BF16:
//
//	floor + fill·d + swap + ‖ max(A, B) + exposed·min(A, B) + row·b·n, chain(context) ‖₂
//	A = width·KV bytes/(memory·bandwidth), B = block·b·n_kv
//
// A block is one program of the kernel, for a sequence and a KV head: what it
// waits for is hidden behind the reads of others but for the exposed share.
// Fill is the first tile, as wide as a head. Swap is a second launch that
// kernels with grouped heads need unless there is one sequence or one KV head.
// Groups split a long context over the device, so that the chain grows with
// its square root; without groups some do not, and it grows in proportion.
// Width is the factor of the head dimension d.
//
// With a window the context is at most as long; 0 means none. The kernels for
// windows are others, and are fitted apart.
func DecodeForm(g GPU, cache float64) Form {
	return Form{
		Name:   "decode attention",
		Inputs: []string{"sequences", "heads", "KV heads", "head dim", "context", "window"},
		Parameters: append([]Parameter{
			startAt(paramFloor, 7e-6), paramMemory,
			{Name: "fill", Unit: "s", Start: 1e-9, Low: 1e-12, High: 1e-7},
			{Name: "block", Unit: "s", Start: 1e-9, Low: 1e-12, High: 1e-6},
			{Name: "exposed", Start: 0.2, Low: 0, High: 1},
			{Name: "row", Unit: "s", Start: 1e-9, Low: 1e-12, High: 1e-7},
			{Name: "chain", Unit: "s", Start: 1e-8, Low: 1e-12, High: 1e-5},
			{Name: "chain without groups", Unit: "s", Start: 1e-9, Low: 1e-12, High: 1e-7},
			{Name: "swap", Unit: "s", Start: 1e-7, Low: 1e-9, High: 1e-4},
			paramCache, paramSpeedup,
		}, headDims...),
		Seconds: func(p, x []float64) float64 { return decodeSeconds(g.Bandwidth, cache, p, x) },
	}
}

// decodeSeconds is the formula of DecodeForm.
func decodeSeconds(bandwidth, cache float64, p, x []float64) float64 {
	b, heads, kv, dim, context := x[0], x[1], x[2], x[3], x[4]
	if window := x[5]; window > 0 {
		context = min(context, window)
	}
	start, chain := p[0]+p[2]*dim, p[6]*math.Sqrt(context)
	if heads == kv {
		chain = max(chain, p[7]*context)
	} else if b > 1 && kv > 1 {
		start += p[8]
	}
	bytes := 2*cache*kv*dim*context*b + 4*heads*dim*b
	moved := ofHeadDim(dim, p[11:]) * inCache(bytes, p[9], p[10]) * bytes / (p[1] * bandwidth)
	blocks := p[3] * b * kv
	work := max(moved, blocks) + p[4]*min(moved, blocks) + p[5]*b*heads
	return start + math.Sqrt(work*work+chain*chain)
}

// PrefillForm is the time of one layer's attention for b prompts of s
// positions each, without cached tokens, that leave KV of so many bytes a value:
//
//	floor + width·4·b·n·d·A/(compute·rate) + max(tile·tiles, block·b·n_kv + row·b·n) + chain·keys·d/128 + read/(memory·bandwidth) + written/(write·bandwidth)
//
// for A pairs of a query and a key of one prompt. A tile is 128 positions of
// one head; the chain is its loop over the keys that it sees. A prompt of one
// position has no tiles: it is computed by a kernel for decoding, with blocks
// and rows as in [DecodeForm]. Keys and values are written by a kernel of their
// own, which quantises them for a narrow cache; queries, keys, values and results
// are read and written besides. Width is the factor of the head dimension d. The
// terms add up: a smooth maximum describes the kernels no better.
//
// In a window, 0 meaning none, a position sees so many tokens, itself
// included: A is that of [Attention]. The kernels for windows are others, and
// are fitted apart.
func PrefillForm(g GPU, cache float64) Form {
	return Form{
		Name:   "prefill attention",
		Inputs: []string{"prompts", "heads", "KV heads", "head dim", "positions", "window"},
		Parameters: append([]Parameter{
			paramFloor, paramCompute, paramMemory,
			{Name: "chain", Unit: "s", Start: 1e-8, Low: 1e-11, High: 1e-6},
			{Name: "tile", Unit: "s", Start: 1e-8, Low: 1e-11, High: 1e-6},
			{Name: "block", Unit: "s", Start: 1e-8, Low: 1e-12, High: 1e-6},
			{Name: "row", Unit: "s", Start: 1e-10, Low: 1e-12, High: 1e-7},
			{Name: "write", Start: 0.3, Low: 0.01, High: 5, Neutral: 1e9},
			paramCache, paramSpeedup,
		}, headDims...),
		Seconds: func(p, x []float64) float64 {
			work, chain := prefillSeconds(g.Rate, g.Bandwidth, cache, p, x)
			return p[0] + work + chain
		},
	}
}

// prefillSeconds is the formula of PrefillForm without the floor. Prompts of one
// launch add up their work, and share the longest chain.
func prefillSeconds(rate, bandwidth, cache float64, p, x []float64) (work, chain float64) {
	b, heads, kv, dim, s, window := x[0], x[1], x[2], x[3], x[4], x[5]
	_, seen := pairs(s, 0, window)
	keys := s
	if window > 0 {
		keys = min(s, window+tileRows)
	}
	launch := b * (p[5]*kv + p[6]*heads)
	if s > 1 {
		launch = max(launch, p[4]*b*heads*math.Ceil(s/tileRows))
	}
	values := b * s * dim
	read, written := values*(4*heads+2*cache*kv), values*2*cache*kv
	work = ofHeadDim(dim, p[10:])*4*b*heads*dim*seen/(p[1]*rate) + launch +
		inCache(read, p[8], p[9])*read/(p[2]*bandwidth) + written/(p[7]*bandwidth)
	return work, p[3] * keys * dim / 128
}

// tileRows are the queries of one tile.
const tileRows = 128

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

// ExpertsForm is the time of the routed experts of one layer on one GPU, with
// BF16 results. Rows are the picks that its experts compute and distinct the
// experts that have any; picks are those that pass through the kernels around
// the products, of other ranks too unless they are sorted out before. Matrices
// are those of one expert, three with a gate.
//
//	floor + ‖ 2·values·blocks·rows of a tile/(compute·rate), weights of the distinct experts/(memory·bandwidth), chain·(h + I)·(rows of a tile/64)^exponent ‖ + activations/(activation·bandwidth)
//
// Values are those of one expert. Its rows are computed in blocks as high as a
// tile of the kernel, which the engine chooses ([RoutedExperts.Tile]): at least
// one for each distinct expert, and on average the last one of each is half full.
// The chain is the loops of one tile over the hidden and the inner size; higher
// tiles take shorter steps, so that theirs are slower. A pick of another rank
// costs skipped times what a row costs in activations. Tuned is 1 for shapes
// whose tiles the engine has been tuned for on this GPU, which multiplies the
// rate by tuned; 0 for those of a rule.
//
// Routing is an input and not fitted: take it from [RoutedExperts] or from what
// a benchmark says of itself.
func ExpertsForm(g GPU, p Precision) Form {
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
		Seconds: newExpertsFormula(g, p).seconds,
	}
}

// expertsFormula is the formula of ExpertsForm.
type expertsFormula struct {
	rate, bandwidth, weight, activation float64
}

func newExpertsFormula(g GPU, p Precision) expertsFormula {
	return expertsFormula{g.Peak(p.Compute), g.Bandwidth, p.Weights.BytesPerValue(), p.Activations.BytesPerValue()}
}

func (f expertsFormula) seconds(p, x []float64) float64 {
	rows, distinct, picks, hidden, inner, tile := x[0], x[1], x[2], x[4], x[5], x[6]
	values := x[3] * hidden * inner
	weights := f.weight * values * distinct
	compute := p[1]
	if x[7] > 0 {
		compute *= p[8]
	}
	blocks := max(distinct, rows/tile+distinct/2)
	passed := f.activation*(hidden+inner) + bf16*(hidden+(x[3]-1)*inner)
	return p[0] + smoothMax(p[3],
		2*values*blocks*tile/(compute*f.rate),
		inCache(weights, p[6], p[7])*weights/(p[2]*f.bandwidth),
		p[9]*(hidden+inner)*math.Pow(tile/64, p[10])) +
		(rows+p[5]*(picks-rows))*passed/(p[4]*f.bandwidth)
}

// RingForm is an all-reduce of that many bytes over one number of GPUs, with
// two algorithms: up to switchover bytes each GPU reads the tensors of all
// others, beyond it the tensor travels round a ring twice.
func RingForm(gpus int, switchover float64) Form { return ringForm("all-reduce", gpus, switchover, 2) }

// GatherForm is the same for gathering a tensor of that many bytes whose parts
// lie on so many GPUs, or scattering one: it travels round the ring once.
func GatherForm(gpus int, switchover float64) Form { return ringForm("gather", gpus, switchover, 1) }

func ringForm(name string, gpus int, switchover, turns float64) Form {
	f := ringFormula{float64(gpus), switchover, turns}
	return Form{
		Name:   name,
		Inputs: []string{"bytes"},
		Parameters: []Parameter{
			startAt(paramFloor, 6e-6),
			{Name: "direct", Unit: "B/s", Start: 1e11, Low: 5e8, High: 2e12},
			{Name: "ring floor", Unit: "s", Start: 1e-5, Low: 1e-7, High: 1e-3},
			{Name: "ring", Unit: "B/s", Start: 1e11, Low: 5e8, High: 2e12},
		},
		Seconds: func(p, x []float64) float64 { return f.seconds(p, x[0]) },
	}
}

// ringFormula is the formula of RingForm and GatherForm.
type ringFormula struct{ gpus, switchover, turns float64 }

func (f ringFormula) seconds(p []float64, bytes float64) float64 {
	if bytes <= f.switchover {
		return p[0] + (f.gpus-1)*bytes/p[1]
	}
	return p[2] + f.turns*(f.gpus-1)/f.gpus*bytes/p[3]
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
//	‖ start + sequence·sequences + max(FLOPs/(compute·rate), bytes/(memory·bandwidth)), floor ‖
//
// The device and the host work at the same time. Floor is the host's part: what
// it takes to launch a step, whatever is in it, so that small steps take the
// same. Start and sequence are what the device does beside the work that FLOPs
// and bytes count: exchanges, kernels too small to fill it, sampling.
func StepForm(g GPU) Form {
	return Form{
		Name:   "step",
		Inputs: []string{"FLOPs", "bytes", "sequences"},
		Parameters: []Parameter{
			{Name: "start", Unit: "s", Start: 5e-3, Low: 0, High: 0.5},
			{Name: "sequence", Unit: "s", Start: 1e-4, Low: 0, High: 0.1},
			paramCompute, paramMemory,
			{Name: "floor", Unit: "s", Start: 1e-2, Low: 0, High: 0.5},
			{Name: "norm", Start: 4, Low: 1, High: 100, Neutral: 100},
		},
		Seconds: func(p, x []float64) float64 {
			work := max(x[0]/(p[2]*g.Rate), x[1]/(p[3]*g.Bandwidth))
			return smoothMax(p[5], p[0]+p[1]*x[2]+work, p[4])
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
