package costmodel_test

import (
	"context"
	"math"
	"testing"
	"time"

	"servesim/costmodel"
	"servesim/scheduler"
	"servesim/sim"
)

// 80 bytes on four GPUs over half of a link of 10 bytes per second: a ring
// sends 3/4 of them, twice to sum.
func TestCollective(t *testing.T) {
	c := costmodel.Collective{Launch: 10 * time.Second, Hop: time.Second, Share: 0.5}
	for _, x := range []struct {
		name      string
		got, want float64
	}{
		{"all-reduce", c.AllReduce(80, 4, 10), 10 + 6 + 120/5.0},
		{"gather", c.Gather(80, 4, 10), 10 + 3 + 60/5.0},
		{"send", c.Send(80, 10), 10 + 80/5.0},
		{"alone", c.AllReduce(80, 1, 10) + c.Gather(80, 1, 10), 0},
		{"nothing", c.AllReduce(0, 4, 10) + c.Gather(0, 4, 10), 0},
	} {
		if x.got != x.want {
			t.Errorf("%s: %v s, want %v", x.name, x.got, x.want)
		}
	}
	c.Curve = line{5, 0.25}
	if a, g := c.AllReduce(80, 4, 10), c.Gather(80, 4, 10); a != 25 || g != 12.5 {
		t.Errorf("measured: %v and %v s, want 25 and 12.5", a, g)
	}
}

// line is a curve of its own.
type line struct{ start, slope float64 }

func (l line) Seconds(bytes float64) float64 { return l.start + l.slope*bytes }

// A measured curve takes the place of the ring: 5 all-reduces of 80 bytes.
func TestCurveInStep(t *testing.T) {
	s := tinySetup()
	s.TensorParallel = 2
	s.Efficiency.AllReduce = costmodel.Collective{Curve: line{1, 0.01}}
	got := build(t, s).Breakdown(mixed)
	if a := got[costmodel.AllReduce]; a.Seconds != 5*1.8 || a.Bytes != 400 {
		t.Errorf("%+v, want 9 s and 400 bytes", a)
	}
	if build(t, s).Claim() != costmodel.Prediction {
		t.Error("a measured curve claims a lower bound")
	}
}

// Eight GPUs of a node use Link, sixteen the Network.
func TestNode(t *testing.T) {
	s := setup(t, "Llama-3.1-405B", "H100")
	s.Efficiency = costmodel.Efficiency{}
	b := sim.Batch{Decodes: 64, Positions: 64}
	for degree, bandwidth := range map[int]float64{8: 450e9, 16: 50e9} {
		s.TensorParallel = degree
		got := build(t, s).Breakdown(b)[costmodel.AllReduce]
		if want := 253 * 2 * 64 * 16384 * 2 * float64(degree-1) / float64(degree); !near(got.Bytes, want) || !near(got.Seconds, want/bandwidth) {
			t.Errorf("%d GPUs: %+v, want %v bytes over %v B/s", degree, got, want, bandwidth)
		}
	}
}

// Four groups of two GPUs share 8 experts of which a position picks 2. Of 5
// positions each: all 20 are gathered on the four groups and scattered back,
// BF16, in each of 3 layers.
func TestDispatch(t *testing.T) {
	s := expertSetup()
	s.TensorParallel, s.DataParallel, s.ExpertParallel = 2, 4, 8
	s.Efficiency.Exchange = costmodel.Collective{Launch: time.Second}
	got := build(t, s).Breakdown(mixed)[costmodel.Dispatch]
	want := 3 * 2 * (20 * 16 * 0.75)
	if got.Bytes != want || !near(got.Seconds, 6+want/500) || got.Bound != costmodel.LinkBound {
		t.Errorf("gathered: %+v, want %v bytes and %v s", got, want, 6+want/500)
	}
	// All to all: each position goes to 8·(1 − (7/8)²) = 1.875 of 8 ranks, of
	// which 7/8 are elsewhere; FP8 with scales there, BF16 back.
	s.Exchange = costmodel.AllToAll
	s.GPU.FP8, s.Model.MoE.Precision = 1000, fp8Block
	got = build(t, s).Breakdown(mixed)[costmodel.Dispatch]
	want = 3 * 5 * 1.875 * 0.875 * (8*(1+4.0/128) + 16)
	if !near(got.Bytes, want) || !near(got.Seconds, 6+want/500) {
		t.Errorf("all to all: %+v, want %v bytes", got, want)
	}
	// One group needs none of it.
	s.DataParallel, s.ExpertParallel = 1, 2
	if got := build(t, s).Breakdown(mixed)[costmodel.Dispatch]; got.Seconds != 0 {
		t.Errorf("one group dispatches: %+v", got)
	}
}

// expertSetup has 3 layers of 8 experts, of which positions pick 2, and a
// shared one.
func expertSetup() costmodel.Setup {
	s := tinySetup()
	s.Model.Layers, s.Model.Intermediate = 3, 0
	s.Model.MoE = costmodel.MoE{Layers: 3, Experts: 8, PerPosition: 2, Inner: 16, Shared: 4}
	return s
}

// The tiny model with experts: per layer 3·8·16 elements an expert.
func TestExpertsByHand(t *testing.T) {
	s := expertSetup()
	m := build(t, s)
	got := m.Breakdown(mixed)
	distinct := 8 * (1 - 0.75*0.75*0.75*0.75*0.75)
	for op, want := range map[costmodel.Op]costmodel.OpCost{
		costmodel.Routed: {FLOPs: 3 * 2 * 384 * 10, Bytes: 3 * (2*384*distinct + 2*(16+48)*10)},
		costmodel.Router: {FLOPs: 3 * 2 * 64 * 5, Bytes: 3 * 2 * (64 + 5*(8+8))},
		costmodel.GateUp: {FLOPs: 3 * 2 * 64 * 5, Bytes: 3 * 2 * (64 + 5*(8+8))},
		costmodel.Down:   {FLOPs: 3 * 2 * 32 * 5, Bytes: 3 * 2 * (32 + 5*(4+8))},
	} {
		want.Seconds, want.Bound = max(want.FLOPs, want.Bytes)/1000, costmodel.MemoryBound
		if want.FLOPs > want.Bytes {
			want.Bound = costmodel.ComputeBound
		}
		if c := got[op]; !near(c.FLOPs, want.FLOPs) || !near(c.Bytes, want.Bytes) || !near(c.Seconds, want.Seconds) || c.Bound != want.Bound {
			t.Errorf("%v: %+v, want %+v", op, c, want)
		}
	}
	if params := s.Model.Params(); params != 3*(8*32+16*8+3*8*4+64+8*384)+2*80+7*8 {
		t.Errorf("%d parameters", params)
	}
	if params := s.Model.ActiveParams(); params != 3*(8*32+16*8+3*8*4+64+2*384)+2*80+7*8 {
		t.Errorf("%d parameters in use", params)
	}
}

// Groups with equal batches take as long together as StepTime says for one;
// a group with less work waits; experts see the positions of all.
func TestGroupTime(t *testing.T) {
	s := setup(t, "Qwen3-30B-A3B", "H100")
	s.DataParallel, s.ExpertParallel = 2, 2
	m := build(t, s)
	small, large := sim.Batch{Decodes: 4, Positions: 4, Context: 4000}, sim.Batch{Decodes: 64, Positions: 64, Context: 256_000}
	equal := m.GroupTime([]sim.Batch{large, large})
	if got := m.StepTime(large); got != equal {
		t.Errorf("two equal batches take %v, one of them %v", equal, got)
	}
	unequal := m.GroupTime([]sim.Batch{small, large})
	if unequal != m.GroupTime([]sim.Batch{large, small}) {
		t.Error("the order of the groups matters")
	}
	if idle := m.GroupTime([]sim.Batch{{}, large}); !(m.StepTime(small) < idle && idle < unequal && unequal < equal) {
		t.Errorf("%v with an idle group, %v with a small one, %v with two large ones", idle, unequal, equal)
	}
	wantPanic(t, "costmodel: GroupTime of 1 batches, Setup.DataParallel is 2", func() { m.GroupTime([]sim.Batch{large}) })
	both := []sim.Batch{small, large}
	if n := testing.AllocsPerRun(20, func() { m.GroupTime(both) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	// Nothing to share.
	alone := transformer(t, "Llama-3.1-8B", "H100")
	if got, want := alone.GroupTime([]sim.Batch{small, large, {}}), alone.StepTime(large); got != want {
		t.Errorf("replicas of a dense model take %v, the longest of them %v", got, want)
	}
}

// Two ranks in the engine step together, at the group's pace.
func TestGroupInTheEngine(t *testing.T) {
	s := setup(t, "Qwen3-30B-A3B", "H100")
	s.DataParallel, s.ExpertParallel = 2, 2
	m := build(t, s)
	var group sim.Grouper = m
	steps, batches := map[sim.Time]time.Duration{}, map[sim.Time][]sim.Batch{}
	watch := sim.ObserverFunc(func(e sim.Event) {
		if e.Kind == sim.StepEnd {
			b := *e.Batch
			b.Prefills = append([]sim.Chunk(nil), b.Prefills...)
			steps[e.Time], batches[e.Time] = e.Took, append(batches[e.Time], b)
		}
	})
	rank := sim.Replica{Scheduler: scheduler.ChunkedPrefill{}, CostModel: m, Group: 1, KVBlocks: 10_000, MaxBatchTokens: 512}
	cfg := sim.Config{Replicas: []sim.Replica{rank, rank}, Router: &scheduler.RoundRobin{}, Observers: []sim.Observer{watch}}
	requests := func(yield func(sim.Request, error) bool) {
		for i := range 6 {
			if !yield(sim.Request{ID: i, Arrival: sim.Time(i) * 20e6, Prompt: 300 + 100*i, Output: 20}, nil) {
				return
			}
		}
	}
	if _, err := sim.Run(context.Background(), cfg, requests); err != nil {
		t.Fatal(err)
	}
	if len(steps) < 20 {
		t.Fatalf("%d steps", len(steps))
	}
	for at, bs := range batches {
		for len(bs) < 2 {
			bs = append(bs, sim.Batch{}) // a rank that only takes part
		}
		if want := group.GroupTime(bs); steps[at] != want {
			t.Errorf("the step that ends at %d took %v, want %v for %+v", at, steps[at], want, bs)
		}
	}
}

// Two stages of 16 layers each: a step passes both and sends its positions
// once; batches follow each other at half of the distance and a bit.
func TestPipeline(t *testing.T) {
	s := setup(t, "Llama-3.1-8B", "H100")
	one := build(t, s)
	whole := s.WeightBytes()
	s.PipelineParallel = 2
	s.Efficiency.Send.Launch = 10 * time.Microsecond
	two := build(t, s)
	b := sim.Batch{Decodes: 64, Positions: 64, Context: 64_000}
	send := 10*time.Microsecond + 1165
	if got, want := two.StepTime(b), one.StepTime(b)+send; got-want > 1 || want-got > 1 {
		t.Errorf("two stages take %v, want %v", got, want)
	}
	half := float64(two.StageTime(b)) / float64(one.StageTime(b))
	if half < 0.5 || half > 0.57 {
		t.Errorf("the longer stage takes %.3f of the whole, want a little more than half", half)
	}
	if s.GPUs() != 2 || s.KVBytesPerToken() != 65_536 || s.WeightBytes() > 0.55*whole || s.WeightBytes() < 0.5*whole {
		t.Errorf("%d GPUs with %v KV bytes a token and %v of %v bytes of weights", s.GPUs(), s.KVBytesPerToken(), s.WeightBytes(), whole)
	}
}

// Stages and groups on other nodes are reached over the network.
func TestNetworkBetweenNodes(t *testing.T) {
	s := setup(t, "Llama-3.1-405B", "H100")
	s.Efficiency = costmodel.Efficiency{}
	s.TensorParallel, s.PipelineParallel = 8, 2
	b := sim.Batch{Decodes: 64, Positions: 64}
	if got, want := build(t, s).Breakdown(b)[costmodel.Send], 64*16384*2.0; got.Bytes != want || !near(got.Seconds, want/50e9) {
		t.Errorf("between stages: %+v, want %v bytes over 50 GB/s", got, want)
	}
	s = setup(t, "DeepSeek-V3", "H100")
	s.Efficiency = costmodel.Efficiency{}
	s.DataParallel, s.ExpertParallel = 16, 16
	if got := build(t, s).Breakdown(b)[costmodel.Dispatch]; !near(got.Seconds, got.Bytes/50e9) {
		t.Errorf("between groups: %+v, want a rate of 50 GB/s", got)
	}
}

// Explain says what the average stage does, in the time of all.
func TestExplainStages(t *testing.T) {
	s := setup(t, "Llama-3.1-405B", "H100")
	s.TensorParallel = 8
	b := sim.Batch{Decodes: 64, Positions: 64, Context: 64_000}
	sum := func() (o sim.Operator) {
		for _, x := range build(t, s).Explain(b, nil) {
			if x.Name != "send" {
				o.FLOPs, o.Counted, o.Bytes, o.Sent, o.Seconds = o.FLOPs+x.FLOPs, o.Counted+x.Counted, o.Bytes+x.Bytes, o.Sent+x.Sent, o.Seconds+x.Seconds
			}
		}
		return o
	}
	one := sum()
	s.PipelineParallel = 2
	two := sum()
	if !near(two.FLOPs, one.FLOPs/2) || !near(float64(two.Counted), float64(one.Counted)/2) || !near(two.Bytes, one.Bytes/2) ||
		!near(two.Sent, one.Sent/2) || !near(two.Seconds, one.Seconds) {
		t.Errorf("one stage %+v, two %+v; want half of the work in the same time", one, two)
	}
}

// The last stage samples, once.
func TestStageSamples(t *testing.T) {
	s := tinySetup()
	s.PipelineParallel, s.Model.Vocab = 2, 1000
	m := build(t, s)
	cost := m.Breakdown(mixed)
	layers := 0.0
	for _, op := range []costmodel.Op{costmodel.QKV, costmodel.PrefillAttention, costmodel.DecodeAttention, costmodel.Output, costmodel.GateUp, costmodel.Down, costmodel.Elementwise} {
		layers += cost[op].Seconds
	}
	ends := max(cost[costmodel.Embedding].Seconds, cost[costmodel.LMHead].Seconds+cost[costmodel.Sampling].Seconds)
	if got, want := m.StageTime(mixed).Seconds(), layers/2+ends+cost[costmodel.Send].Seconds; cost[costmodel.Sampling].Seconds == 0 || math.Abs(got-want) > 1e-8 {
		t.Errorf("the longest stage takes %v s, want %v", got, want)
	}
}
