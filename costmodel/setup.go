package costmodel

import "fmt"

// Setup is what a cost curve belongs to: a model on one or several GPUs, and
// how well the engine uses them. It takes TensorParallel · DataParallel ·
// PipelineParallel GPUs.
type Setup struct {
	Model Model
	GPU   GPU
	// TensorParallel is the number of GPUs that share every layer; 0 means
	// 1. Heads, feed-forward columns and vocabulary are divided; KV heads
	// are replicated when there are fewer of them than GPUs, latents always.
	TensorParallel int
	// PipelineParallel is the number of stages that share the layers; 0
	// means 1. A step passes through all of them, one after the other.
	PipelineParallel int
	// DataParallel is the number of groups of TensorParallel GPUs that attend
	// to sequences of their own and share the experts; 0 means 1. A batch is
	// that of one group; the others are taken to have as much work, unless they
	// are replicas of one sim.Replica.Group, each with a batch of its own.
	// Models without experts have no use for it.
	DataParallel int
	// ExpertParallel is the number of parts into which the experts are dealt
	// over TensorParallel · DataParallel GPUs, of which it is a divisor; 0
	// means 1. GPUs that have the same experts divide each of them.
	ExpertParallel int
	// Exchange is how the groups hand positions to the experts and back.
	Exchange Exchange
	// Popularity of the experts, as in [RoutedExperts]; nil means that all
	// are equally likely.
	Popularity []float64

	Efficiency Efficiency
}

// Exchange is the way of positions to the experts of other groups.
type Exchange uint8

// The exchanges.
const (
	// GatherScatter gathers all positions on all GPUs and scatters the sums:
	// vLLM's default.
	GatherScatter Exchange = iota
	// AllToAll sends a position once to every GPU that has an expert of it,
	// in the format of the experts' activations, and BF16 back: DeepEP.
	AllToAll
)

// NewSetup looks model and GPU up in the catalogue and takes the GPU's
// [FittedEfficiency].
func NewSetup(model, gpu string) (Setup, error) {
	m, err := LookupModel(model)
	if err != nil {
		return Setup{}, err
	}
	g, err := LookupGPU(gpu)
	if err != nil {
		return Setup{}, err
	}
	e, err := FittedEfficiency(g.Name)
	if err != nil {
		return Setup{}, err
	}
	return Setup{Model: m, GPU: g, Efficiency: e}, nil
}

// Validate names the first field that is out of range.
func (s Setup) Validate() error {
	if err := s.Model.Validate(); err != nil {
		return err
	}
	if err := s.GPU.Validate(); err != nil {
		return err
	}
	if err := s.Efficiency.Validate(); err != nil {
		return err
	}
	if err := s.validateDegrees(); err != nil {
		return err
	}
	m := s.Model
	for _, p := range []Precision{m.Precision, m.MoE.Precision} {
		if s.GPU.Peak(p.Compute) == 0 {
			return fmt.Errorf("costmodel: Model.Precision computes in %v, which %s does not", p.Compute, s.GPU.Name)
		}
	}
	if s.Popularity == nil {
		return nil
	}
	return validatePopularity(s.Popularity, m.MoE.Experts, m.MoE.PerPosition)
}

func (s Setup) validateDegrees() error {
	for _, f := range []struct {
		name  string
		value int
	}{
		{"TensorParallel", s.TensorParallel}, {"PipelineParallel", s.PipelineParallel},
		{"DataParallel", s.DataParallel}, {"ExpertParallel", s.ExpertParallel},
	} {
		if f.value < 0 {
			return badField("Setup."+f.name, f.value)
		}
	}
	tp, pp, dp, ep, m := s.tp(), s.pp(), s.dp(), s.ep(), s.Model
	for _, f := range []struct {
		name  string
		value int
	}{
		{"Heads", m.Heads}, {"Intermediate", m.Intermediate}, {"MoE.Shared", m.MoE.Shared},
	} {
		if f.value%tp != 0 {
			return fmt.Errorf("costmodel: Setup.TensorParallel %d does not divide Model.%s %d", tp, f.name, f.value)
		}
	}
	for _, g := range m.attentionGroups() {
		if g.kvHeads%tp != 0 && tp%g.kvHeads != 0 {
			return fmt.Errorf("costmodel: Setup.TensorParallel %d and Model.KVHeads %d: neither divides the other", tp, g.kvHeads)
		}
	}
	switch {
	case pp > m.Layers:
		return fmt.Errorf("costmodel: Setup.PipelineParallel is %d, Model.Layers %d", pp, m.Layers)
	case dp > 1 && m.MoE.Layers == 0:
		return fmt.Errorf("costmodel: Setup.DataParallel is %d, but %s has no experts to share", dp, m.Name)
	case tp*dp%ep != 0:
		return fmt.Errorf("costmodel: Setup.ExpertParallel %d does not divide TensorParallel · DataParallel %d", ep, tp*dp)
	case m.MoE.Layers > 0 && m.MoE.Experts%ep != 0:
		return fmt.Errorf("costmodel: Setup.ExpertParallel %d does not divide Model.MoE.Experts %d", ep, m.MoE.Experts)
	case m.MoE.Layers > 0 && m.MoE.Inner%(tp*dp/ep) != 0:
		return fmt.Errorf("costmodel: TensorParallel · DataParallel / ExpertParallel %d does not divide Model.MoE.Inner %d", tp*dp/ep, m.MoE.Inner)
	case s.Exchange > AllToAll:
		return badField("Setup.Exchange", uint8(s.Exchange))
	}
	return s.GPU.validateLink(s.GPUs())
}

// GPUs returns the number of GPUs.
func (s Setup) GPUs() int { return s.tp() * s.pp() * s.dp() }

func (s Setup) tp() int { return max(s.TensorParallel, 1) }
func (s Setup) pp() int { return max(s.PipelineParallel, 1) }
func (s Setup) dp() int { return max(s.DataParallel, 1) }
func (s Setup) ep() int { return max(s.ExpertParallel, 1) }

// attentionGroup are the layers that attend alike.
type attentionGroup struct {
	layers, heads, kvHeads, headDim, window int
}

// attentionGroups returns the layers that see everything and those with a
// window. Latent attention has one group without heads to divide.
func (m Model) attentionGroups() []attentionGroup {
	var groups []attentionGroup
	if full := m.Layers - m.Window.Layers; full > 0 {
		g := attentionGroup{layers: full, heads: m.Heads, kvHeads: m.KVHeads, headDim: m.HeadDim}
		if m.MLA.KVRank > 0 {
			g.kvHeads = 1
		}
		groups = append(groups, g)
	}
	if w := m.Window; w.Layers > 0 {
		g := attentionGroup{w.Layers, m.Heads, m.KVHeads, m.HeadDim, w.Tokens}
		if w.KVHeads > 0 {
			g.kvHeads = w.KVHeads
		}
		if w.HeadDim > 0 {
			g.headDim = w.HeadDim
		}
		groups = append(groups, g)
	}
	return groups
}

// launch is a product that so many layers have, on one GPU.
type launch struct {
	op    Op
	count int
	Product
}

// launches returns the products of all layers, sorted by operator. Routed
// experts, embedding and LM head are not among them.
func (s Setup) launches() []launch {
	m, tp := s.Model, s.tp()
	var list []launch
	add := func(op Op, count, columns, inner int, p Precision) {
		if count > 0 && columns > 0 && inner > 0 {
			list = append(list, launch{op, count, Product{columns, inner, p}})
		}
	}
	groups := m.attentionGroups()
	if l := m.MLA; l.KVRank > 0 {
		heads, queries := m.Heads/tp, m.Hidden
		if l.QueryRank > 0 {
			add(QKV, m.Layers, l.QueryRank, m.Hidden, m.Precision)
			queries = l.QueryRank
		}
		add(QKV, m.Layers, heads*(l.NopeDim+l.RopeDim), queries, m.Precision)
		add(QKV, m.Layers, l.KVRank+l.RopeDim, m.Hidden, m.Precision)
		add(QKV, m.Layers, heads*(l.NopeDim+l.ValueDim), l.KVRank, m.Precision)
		add(Output, m.Layers, m.Hidden, heads*l.ValueDim, m.Precision)
	} else {
		for _, g := range groups {
			add(QKV, g.layers, (g.heads/tp+2*ceilDiv(g.kvHeads, tp))*g.headDim, m.Hidden, m.Precision)
		}
		for _, g := range groups {
			add(Output, g.layers, m.Hidden, g.heads/tp*g.headDim, m.Precision)
		}
	}
	dense, inner, shared := m.Layers-m.MoE.Layers, m.Intermediate/tp, m.MoE.Shared/tp
	add(GateUp, dense, (m.matrices()-1)*inner, m.Hidden, m.Precision)
	add(GateUp, m.MoE.Layers, 2*shared, m.Hidden, m.MoE.Precision)
	add(Down, dense, m.Hidden, inner, m.Precision)
	add(Down, m.MoE.Layers, m.Hidden, shared, m.MoE.Precision)
	add(Router, m.MoE.Layers, m.MoE.Experts, m.Hidden, Precision{})
	return list
}

// experts returns the routed experts of one layer on one GPU.
func (s Setup) experts() RoutedExperts {
	e := s.Model.MoE
	return RoutedExperts{
		Count: e.Experts, PerPosition: e.PerPosition, Hidden: s.Model.Hidden, Inner: e.Inner,
		Ranks: s.ep(), Shards: s.tp() * s.dp() / s.ep(), Precision: e.Precision, Popularity: s.Popularity,
	}
}

// WeightBytes returns the bytes of the weights on the GPU that has most.
func (s Setup) WeightBytes() float64 {
	m := s.Model
	layers := float64(bf16 * 2 * m.Layers * m.Hidden)
	for _, l := range s.launches() {
		layers += float64(l.count*l.Columns*l.Inner) * l.Precision.Weights.BytesPerValue()
	}
	if e := m.MoE; e.Layers > 0 {
		local := float64(e.Layers*e.Experts*m.expert()) / float64(s.tp()*s.dp())
		layers += local * e.Precision.Weights.BytesPerValue()
	}
	// The first stage has the embedding, the last the LM head.
	tables := 2
	if m.TiedEmbeddings || s.pp() > 1 {
		tables = 1
	}
	return s.stage(layers) + float64(bf16*(tables*ceilDiv(m.Vocab, s.tp())+1)*m.Hidden)
}

// stage returns what the longest stage has of an amount of all layers.
func (s Setup) stage(amount float64) float64 {
	if s.pp() == 1 {
		return amount
	}
	return amount * float64(ceilDiv(s.Model.Layers, s.pp())) / float64(s.Model.Layers)
}

// KVBytesPerToken returns the bytes of one token in the KV cache of one GPU,
// while it is in the window of the layers that have one.
func (s Setup) KVBytesPerToken() float64 { return s.KVBytes(1) }

// KVBytes returns the bytes of sequences of these lengths in the KV cache of
// one GPU. Window layers hold min(length, window) tokens of each.
func (s Setup) KVBytes(lengths ...int) float64 {
	values := 0
	for _, g := range s.Model.attentionGroups() {
		tokens := 0
		for _, n := range lengths {
			if g.window > 0 {
				n = min(n, g.window)
			}
			tokens += n
		}
		values += g.layers * s.tokenValues(g) * tokens
	}
	return s.stage(float64(values) * s.Model.KV.BytesPerValue())
}

// tokenValues are the values that a token has in the cache of one layer on one
// GPU.
func (s Setup) tokenValues(g attentionGroup) int {
	if l := s.Model.MLA; l.KVRank > 0 {
		return l.KVRank + l.RopeDim
	}
	return 2 * ceilDiv(g.kvHeads, s.tp()) * g.headDim
}

// widest returns the inner columns of the widest feed-forward network on one
// GPU, per position.
func (s Setup) widest() int {
	m := s.Model
	experts := m.MoE.PerPosition*m.MoE.Inner/(s.tp()*s.dp()/s.ep()) + m.MoE.Shared/s.tp()
	return max(m.Intermediate/s.tp(), experts)
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
