package costmodel

import (
	"fmt"
	"time"

	"servesim/sim"
)

// Transformer predicts steps of a transformer from its shape and its GPUs: the
// time of each class of operators, added up, and the host's time.
//
//   - Weights are read once a step, whatever the batch holds. The LM head is
//     read only if a row is sampled, and multiplies sampled rows only: every
//     position of the decoding sequences and the last one of a finished
//     prompt.
//   - Attention counts exact (query, key) pairs: s positions behind p cached
//     tokens have s·p + s(s+1)/2, so FLOPs do not depend on how a prompt is
//     cut into chunks. Sequences that verify drafts are taken to evaluate
//     equally many positions each. In window layers the decodes of a batch
//     are taken to hold equally much context, which is the most they can read.
//   - Latent attention expands keys and values for prompts and absorbs the
//     expansion for decodes.
//   - A chunk or a decode reads the keys and values of its context and of its
//     own positions, and writes the latter.
//   - Of the experts, the expected number of distinct ones is read. With
//     expert parallelism the busiest rank counts. Every layer is as busy.
//   - Padding is work in every matrix product. In attention a padding position
//     sees itself only, because the batch does not say what else it would see.
//
// Where Efficiency.Measured has a fit of a class of operators, it tells their
// time from their shape; FLOPs, bytes and bounds stay what they are.
//
// Left out: rounding of reads to whole KV blocks, micro-batches in a pipeline,
// and overlap of computation with communication. Sequences of a batch are taken
// to be alike.
//
// Accuracy of [NewSetup] as it is, mean error of the time per token in measured
// closed loops of 4 to 512 clients: with vLLM 5.9 % for Llama-3.1-70B in FP8 and
// 8.9 % in NVFP4 on B200, 10 % in FP8 on H100, 12 % for gpt-oss-120b on H100 and
// 18 % on B200; with the host of vLLM 0.12 3.8 % for Qwen3-32B on H100, to whose
// rows it was fitted; with that of TensorRT-LLM, fitted likewise, 6.2 % for
// Llama-3.1-8B, and 6.7 % for Qwen3-32B and 15 % for Qwen3-235B-A22B in FP8 on H100.
// Two recorded runs of vLLM 0.19 on RTX PRO 6000, of Llama-3.1-8B and of
// Qwen3-30B-A3B on two ranks, come out within 4 % in makespan and 3 % in mean,
// median and 90th percentile of the time per token and of the latency, each with
// the host's time fitted on the other one. Nothing is checked on A100, H200 or
// L40S as a whole. examples/validate measures all of this.
//
// All methods are safe for concurrent use.
type Transformer struct {
	setup Setup

	products        []folded // of the layers, by operator
	head            folded
	experts         RoutedExperts // of one layer
	expertRate      rate
	measuredExperts *measuredExperts // nil means by rate
	attention       []attending
	embedding       vectors
	element         vectors
	sampling        vectors
	exchanges       exchanges

	// positions and samples are the seconds of all that depends on the number
	// of positions, or of sampled rows, alone. So a decode step costs two
	// look-ups and its attention.
	positions, samples []float64

	hostStep, hostSequence float64 // seconds
}

// tabled is the number of positions up to which seconds are looked up.
const tabled = 512

// NewTransformer validates s and works out what does not depend on the batch.
func NewTransformer(s Setup) (*Transformer, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	m, e := s.Model, s.Efficiency
	t := &Transformer{
		setup: s, experts: s.experts(), exchanges: newExchanges(s),
		expertRate: s.rate(e.Experts, m.MoE.Layers, m.MoE.Precision.Compute),
		embedding:  s.vectors(bf16*float64(2*m.Hidden), 1, 1),
		element:    s.vectors(bf16*float64(s.elementwise()), m.Layers, e.Measured.perLayer(m.Precision)),
		sampling:   s.vectors(float64(logitBytes*m.Vocab), 1, samplingLaunches),
		hostStep:   e.Host.Step.Seconds(), hostSequence: e.Host.Sequence.Seconds(),
	}
	if c := e.Measured.experts(m.MoE.Precision); c != nil && m.MoE.Layers > 0 {
		t.measuredExperts = s.measuredExperts(c)
		t.expertRate = s.rate(c.kernel(), m.MoE.Layers, m.MoE.Precision.Compute)
	}
	whole := Setup{Model: m}.launches()
	for i, l := range s.launches() {
		t.products = append(t.products, s.fold(l, whole[i].Product))
	}
	t.head = s.fold(launch{LMHead, 1, Product{Columns: ceilDiv(m.Vocab, s.tp()), Inner: m.Hidden}},
		Product{Columns: m.Vocab, Inner: m.Hidden})
	for _, g := range m.attentionGroups() {
		t.attention = append(t.attention, s.attend(g))
	}
	t.positions, t.samples = make([]float64, tabled+1), make([]float64, tabled+1)
	for n := range tabled + 1 {
		var cost Breakdown
		t.fillPositions(n, n*s.dp(), &cost)
		t.fillSamples(n, &cost)
		t.positions[n], t.samples[n] = cost.positions(), cost.samples()
	}
	return t, nil
}

// Setup returns what the model was made of.
func (t *Transformer) Setup() Setup { return t.setup }

// Claim says what the times are.
func (t *Transformer) Claim() Claim { return t.setup.Efficiency.Claim() }

// StepTime returns the time of b.
func (t *Transformer) StepTime(b sim.Batch) time.Duration {
	checkBatch(&b)
	rows := b.Positions + b.Padding.Rows
	positions, sampled := rows, rows
	prompts, decodes := 0.0, 0.0
	if hasPrompts(&b) {
		n, ends := promptPositions(&b)
		positions, sampled = positions+n, sampled+ends
		for i := range t.attention {
			a := &t.attention[i]
			prompts += a.promptSeconds(&b, a.prompts(&b))
		}
	}
	if rows > 0 {
		for i := range t.attention {
			a := &t.attention[i]
			decodes += a.decodeSeconds(&b, a.decodes(&b))
		}
	}
	device := t.positionSeconds(positions) + (prompts + decodes) + t.sampleSeconds(sampled)
	return sim.Round(device + t.host(&b, device))
}

func (t *Transformer) positionSeconds(n int) float64 {
	if n < len(t.positions) {
		return t.positions[n]
	}
	var cost Breakdown
	t.fillPositions(n, n*t.setup.dp(), &cost)
	return cost.positions()
}

func (t *Transformer) sampleSeconds(n int) float64 {
	if n < len(t.samples) {
		return t.samples[n]
	}
	var cost Breakdown
	t.fillSamples(n, &cost)
	return cost.samples()
}

// host returns the time of the host that the device waits for.
func (t *Transformer) host(b *sim.Batch, device float64) float64 {
	host := t.hostStep + float64(t.hostSequence*float64(b.Decodes+len(b.Prefills)))
	if t.setup.Efficiency.Host.Overlapped {
		return max(host-device, 0)
	}
	return host
}

// Breakdown returns the cost of b by operator.
func (t *Transformer) Breakdown(b sim.Batch) Breakdown {
	checkBatch(&b)
	var cost Breakdown
	t.fill(&b, positions(&b)*t.setup.dp(), &cost)
	cost[Host] = OpCost{Seconds: t.host(&b, cost.device()), Bound: HostBound}
	return cost
}

// GroupTime implements [servesim/sim.Grouper]: it returns the time of a step of
// all data-parallel groups together, one batch each. They wait for each other
// at the experts, which serve the positions of all; each attends to its own
// batch, and the slowest counts. A group without work takes part. With
// DataParallel 1 nothing is shared: the longest StepTime of any number of
// batches.
func (t *Transformer) GroupTime(batches []sim.Batch) time.Duration {
	if t.setup.dp() == 1 {
		longest := time.Duration(0)
		for _, b := range batches {
			longest = max(longest, t.StepTime(b))
		}
		return longest
	}
	if len(batches) != t.setup.dp() {
		panic(fmt.Sprintf("costmodel: GroupTime of %d batches, Setup.DataParallel is %d", len(batches), t.setup.dp()))
	}
	all := 0
	for i := range batches {
		checkBatch(&batches[i])
		all += positions(&batches[i])
	}
	device, host := 0.0, 0.0
	for i := range batches {
		var cost Breakdown
		t.fill(&batches[i], all, &cost)
		device = max(device, cost.device())
	}
	for i := range batches {
		host = max(host, t.host(&batches[i], device))
	}
	return sim.Round(device + host)
}

// StageTime returns the time that the longest stage of a pipeline spends on b,
// the host's apart: batches can follow each other at this distance. Without
// stages it is the time of the device.
func (t *Transformer) StageTime(b sim.Batch) time.Duration {
	cost := t.Breakdown(b)
	samples := cost.samples()
	ends := samples
	if pp := t.setup.pp(); pp == 1 {
		ends += cost[Embedding].Seconds
	} else {
		ends = max(ends, cost[Embedding].Seconds) + cost[Send].Seconds/float64(pp-1)
	}
	layers := cost.device() - samples - cost[Embedding].Seconds - cost[Send].Seconds
	return sim.Round(t.setup.stage(layers) + ends)
}

// fill computes the cost of every operator of the device into zeroed entries.
// The experts serve all positions of all groups.
func (t *Transformer) fill(b *sim.Batch, all int, cost *Breakdown) {
	rows := b.Positions + b.Padding.Rows
	n, sampled := rows, rows
	if hasPrompts(b) {
		prompt, ends := promptPositions(b)
		n, sampled = n+prompt, sampled+ends
		lead := 0.0
		for i := range t.attention {
			a := &t.attention[i]
			w := a.prompts(b)
			cost[PrefillAttention].add(&a.prefill, w, a.promptSeconds(b, w), &lead)
		}
	}
	if rows > 0 {
		lead := 0.0
		for i := range t.attention {
			a := &t.attention[i]
			w := a.decodes(b)
			cost[DecodeAttention].add(a.decodeRate(b), w, a.decodeSeconds(b, w), &lead)
		}
	}
	t.fillPositions(n, all, cost)
	t.fillSamples(sampled, cost)
}

// fillPositions computes what depends on the positions of this group, and of
// all groups, alone.
func (t *Transformer) fillPositions(n, all int, cost *Breakdown) {
	if n > 0 {
		rows, lead := float64(n), 0.0
		for i := range t.products {
			p := &t.products[i]
			if i > 0 && p.op != t.products[i-1].op {
				lead = 0
			}
			cost[p.op].add(&p.rate, p.work(rows), p.seconds(rows), &lead)
		}
		t.embedding.fill(rows, &cost[Embedding])
		t.element.fill(rows, &cost[Elementwise])
		cost[AllReduce] = t.exchanges.reduce(rows)
		cost[Send] = t.exchanges.send(rows)
	}
	if layers := t.setup.Model.MoE.Layers; layers > 0 && all > 0 {
		lead, w := 0.0, t.experts.Work(float64(all)).times(float64(layers))
		seconds := t.expertRate.seconds(w)
		if t.measuredExperts != nil {
			seconds = float64(layers) * t.measuredExperts.seconds(&t.experts, float64(all))
		}
		cost[Routed].add(&t.expertRate, w, seconds, &lead)
		cost[Dispatch] = t.exchanges.dispatch(float64(n), float64(all))
	}
}

// fillSamples computes what depends on the sampled rows alone.
func (t *Transformer) fillSamples(n int, cost *Breakdown) {
	if n == 0 {
		return
	}
	lead := 0.0
	cost[LMHead].add(&t.head.rate, t.head.work(float64(n)), t.head.seconds(float64(n)), &lead)
	t.sampling.fill(float64(n), &cost[Sampling])
	cost[Gather] = t.exchanges.gather(float64(n))
}

func hasPrompts(b *sim.Batch) bool { return len(b.Prefills) > 0 || b.Padding.PromptTokens > 0 }

// promptPositions returns the positions of the prompt chunks, padding included,
// and how many of them are sampled.
func promptPositions(b *sim.Batch) (n, sampled int) {
	n = b.Padding.PromptTokens
	for i := range b.Prefills {
		n += b.Prefills[i].Tokens
		if b.Prefills[i].Last {
			sampled++
		}
	}
	return n, sampled
}

// positions returns all positions of b, padding included.
func positions(b *sim.Batch) int {
	n, _ := promptPositions(b)
	return n + b.Positions + b.Padding.Rows
}
