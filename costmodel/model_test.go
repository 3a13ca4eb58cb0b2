package costmodel_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"servesim/costmodel"

	"github.com/google/go-cmp/cmp"
)

// Parameters as published, those that a position uses, and KV bytes per token
// in BF16 while every layer holds the token.
func TestCatalogueModels(t *testing.T) {
	list := []struct{ name, billions, active, kv string }{
		{"Llama-2-7B", "6.738", "6.738", "524288"},
		{"Llama-2-13B", "13.016", "13.016", "819200"},
		{"Llama-2-70B", "68.977", "68.977", "327680"},
		{"Llama-3-8B", "8.030", "8.030", "131072"},
		{"Llama-3-70B", "70.554", "70.554", "327680"},
		{"Llama-3.1-8B", "8.030", "8.030", "131072"},
		{"Llama-3.1-70B", "70.554", "70.554", "327680"},
		{"Llama-3.1-405B", "405.85", "405.85", "516096"},
		{"Mistral-7B", "7.242", "7.242", "131072"},
		{"Mixtral-8x7B", "46.70", "12.88", "131072"},
		{"Mixtral-8x22B", "140.6", "39.2", "229376"},
		{"Qwen2.5-7B", "7.615", "7.615", "57344"},
		{"Qwen2.5-72B", "72.705", "72.705", "327680"},
		{"Qwen3-8B", "8.191", "8.191", "147456"},
		{"Qwen3-32B", "32.76", "32.76", "262144"},
		{"Qwen3-30B-A3B", "30.53", "3.35", "98304"},
		{"Qwen3-235B-A22B", "235.1", "22.2", "192512"},
		{"DeepSeek-R1", "671.0", "37.6", "70272"},
		{"DeepSeek-V3", "671.0", "37.6", "70272"},
		{"gpt-oss-20b", "20.91", "4.19", "49152"},
		{"gpt-oss-120b", "116.8", "5.71", "73728"},
		{"Gemma-3-27B", "27.01", "27.01", "507904"},
	}
	for _, c := range list {
		m, err := costmodel.LookupModel(strings.ToLower(c.name))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Validate(); err != nil {
			t.Error(err)
		}
		if got := billions(m.Params(), c.billions); got != c.billions {
			t.Errorf("%s: %s billion parameters, want %s", c.name, got, c.billions)
		}
		if got := billions(m.ActiveParams(), c.active); got != c.active {
			t.Errorf("%s: %s billion parameters in use, want %s", c.name, got, c.active)
		}
		if got := fmt.Sprint(int(m.KVBytesPerToken())); got != c.kv {
			t.Errorf("%s: %s KV bytes a token, want %s", c.name, got, c.kv)
		}
		if m.Name != c.name {
			t.Errorf("name %q, want %q", m.Name, c.name)
		}
	}
	for name, want := range map[string]int{"Llama-3-8B": 8192, "Llama-3-70B": 8192, "Llama-3.1-8B": 131072, "DeepSeek-R1": 163840} {
		if m, err := costmodel.LookupModel(name); err != nil || m.MaxPositions != want {
			t.Errorf("%s: %d positions, %v, want %d", name, m.MaxPositions, err, want)
		}
	}
	if got := len(costmodel.Models()); got != len(list) {
		t.Errorf("%d models in the catalogue, %d of them tested", got, len(list))
	}
}

// billions prints with as many digits as want has.
func billions(n int, want string) string {
	_, digits, _ := strings.Cut(want, ".")
	return fmt.Sprintf("%.*f", len(digits), float64(n)/1e9)
}

// Two sequences of a model with 32 layers, 8 KV heads of 128.
func TestKVBytes(t *testing.T) {
	m := costmodel.Model{Layers: 32, KVHeads: 8, HeadDim: 128}
	if got := m.KVBytesPerToken(); got != 131_072 {
		t.Errorf("%v bytes a token, want 131072", got)
	}
	if got := m.KVBytes(4096, 1024); got != 671_088_640 {
		t.Errorf("%v bytes, want 671088640", got)
	}
	m.KV = costmodel.Format{ValueBytes: 1, ScaleBytes: 2, Group: 32}
	if got := m.KVBytesPerToken(); got != 69_632 {
		t.Errorf("%v bytes a token with scales, want 69632", got)
	}
}

// A tied table is counted once: 8·10 parameters fewer.
func TestTiedEmbeddings(t *testing.T) {
	m := tiny
	if got := m.Params(); got != 1736 { // 1536 in matrices, 2·80 in tables, (2·2+1)·8 in norms
		t.Errorf("%d parameters, want 1736", got)
	}
	m.TiedEmbeddings = true
	if got := m.Params(); got != 1656 {
		t.Errorf("%d parameters when tied, want 1656", got)
	}
}

func TestLookupErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string // how it begins and ends
	}{
		{second(costmodel.LookupModel("gpt-5")), `costmodel: unknown model "gpt-5"; known are DeepSeek-R1, … Qwen3-235B-A22B`},
		{second(costmodel.LookupGPU("")), `costmodel: unknown GPU ""; known are 910B2, … TPU-v6e`},
		{second(costmodel.NewSetup("Qwen3-8B", "abacus")), `costmodel: unknown GPU "abacus"; known are 910B2, … TPU-v6e`},
		{second(costmodel.NewSetup("Qwen3-8B", "L4")), `costmodel: no measured kernels of GPU "L4"; known are those of A100-80, … RTX-PRO-6000`},
		{second(costmodel.FittedEfficiency("")), `costmodel: no measured kernels of GPU ""; known are those of A100-80, … RTX-PRO-6000`},
		{second(costmodel.FittedHost("abacus")), `costmodel: unknown engine "abacus"; known are vLLM-0.12, … Vidur`},
		{second(costmodel.LookupPrecision("bf17")), `costmodel: unknown precision "bf17"; known are bfloat16, … w4a8_mxfp4_mxfp8`},
	} {
		begins, ends, _ := strings.Cut(c.want, "…")
		if got := fmt.Sprint(c.err); !strings.HasPrefix(got, begins) || !strings.HasSuffix(got, ends) {
			t.Errorf("error %s, want %s", got, c.want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Dense rates, bytes per second, and memory as devices report it.
func TestCatalogueGPUs(t *testing.T) {
	const gib, mib = 1 << 30, 1 << 20
	want := map[string]costmodel.GPU{ // without power and prices
		"A100-40":      {Rate: 312e12, INT8: 624e12, Bandwidth: 1.555e12, Memory: 40e9, Link: 300e9, Network: 25e9},
		"A100-80":      {Rate: 312e12, INT8: 624e12, Bandwidth: 2.039e12, Memory: 80 * gib, Link: 300e9, Network: 25e9},
		"A100-80-PCIe": {Rate: 312e12, INT8: 624e12, Bandwidth: 1.935e12, Memory: 80 * gib, Link: 32e9, Network: 25e9},
		"A10G":         {Rate: 70e12, INT8: 140e12, Bandwidth: 0.6e12, Memory: 24e9, Link: 32e9},
		"L4":           {Rate: 121e12, FP8: 242e12, INT8: 242e12, Bandwidth: 0.3e12, Memory: 24 * gib, Link: 32e9, Network: 25e9},
		"L40S":         {Rate: 362.05e12, FP8: 733e12, INT8: 733e12, Bandwidth: 0.864e12, Memory: 46068 * mib, Link: 32e9, Network: 50e9},
		"RTX-PRO-6000": {Rate: 467.8e12, FP8: 935.6e12, INT8: 935.6e12, FP4: 1871e12, Bandwidth: 1.792e12, Memory: 97887 * mib, Link: 64e9, Network: 50e9},
		"H100-PCIe":    {Rate: 756.5e12, FP8: 1513e12, INT8: 1513e12, Bandwidth: 2e12, Memory: 80 * gib, Link: 64e9, Network: 50e9},
		"H100":         {Rate: 989e12, FP8: 1978e12, INT8: 1978e12, Bandwidth: 3.35e12, Memory: 80 * gib, Link: 450e9, Network: 50e9},
		"H200":         {Rate: 989e12, FP8: 1978e12, INT8: 1978e12, Bandwidth: 4.8e12, Memory: 141 * gib, Link: 450e9, Network: 50e9},
		"H20":          {Rate: 148e12, FP8: 296e12, Bandwidth: 4.096e12, Memory: 96e9, Link: 450e9, Network: 50e9},
		"H800":         {Rate: 989e12, FP8: 1979e12, Bandwidth: 3.43e12, Memory: 80e9, Link: 200e9, Network: 50e9},
		"B200":         {Rate: 2250e12, FP8: 4500e12, INT8: 4500e12, FP4: 9000e12, Bandwidth: 7.7e12, Memory: 180 * gib, Link: 900e9, Network: 50e9},
		"B300":         {Rate: 2250e12, FP8: 4500e12, INT8: 153.5e12, FP4: 13500e12, Bandwidth: 7.75e12, Memory: 268e9, Link: 900e9, Network: 100e9},
		"GB200":        {Rate: 2500e12, FP8: 5000e12, INT8: 5000e12, FP4: 10000e12, Bandwidth: 8e12, Memory: 189471 * mib, Link: 900e9},
		"GB300":        {Rate: 2500e12, FP8: 5000e12, INT8: 165e12, FP4: 15000e12, Bandwidth: 8e12, Memory: 288e9, Link: 900e9},
		"MI300X":       {Rate: 1307e12, FP8: 2615e12, Bandwidth: 5.3e12, Memory: 192e9, Link: 448e9, Network: 50e9},
		"MI325X":       {Rate: 1307e12, FP8: 2615e12, Bandwidth: 6e12, Memory: 256e9, Link: 448e9, Network: 50e9},
		"MI355X":       {Rate: 2516e12, FP8: 5033e12, FP4: 10066e12, Bandwidth: 8e12, Memory: 288e9, Network: 50e9},
		"TPU-v5e":      {Rate: 197e12, INT8: 393e12, Bandwidth: 0.819e12, Memory: 16e9, Link: 200e9},
		"TPU-v5p":      {Rate: 459e12, Bandwidth: 2.765e12, Memory: 95e9, Link: 600e9},
		"TPU-v6e":      {Rate: 918e12, INT8: 1836e12, Bandwidth: 1.638e12, Memory: 32e9, Link: 400e9},
		"910B2":        {Rate: 376e12, INT8: 752e12, Bandwidth: 1.6e12, Memory: 64e9, Link: 196 * gib, Network: 50e9},
		"910B3":        {Rate: 313e12, INT8: 626e12, Bandwidth: 1.6e12, Memory: 64e9, Link: 196 * gib, Network: 50e9},
		"910B4":        {Rate: 280e12, INT8: 560e12, Bandwidth: 0.8e12, Memory: 32e9, Link: 30e9},
		"A30":          {Rate: 165e12, INT8: 330e12, Bandwidth: 0.933e12, Memory: 24 * gib, Link: 32e9},
		"A40":          {Rate: 149.7e12, INT8: 299.3e12, Bandwidth: 0.696e12, Memory: 48 * gib, Link: 32e9},
		"RTX-4090":     {Rate: 165.2e12, FP8: 330.3e12, INT8: 660.6e12, Bandwidth: 1.008e12, Memory: 25_250_627_584, Link: 32e9},
	}
	if got := len(costmodel.GPUs()); got != len(want) {
		t.Errorf("%d GPUs in the catalogue, %d of them tested", got, len(want))
	}
	processors := map[string]int{"A100-40": 108, "A100-80": 108, "A100-80-PCIe": 108, "H100": 132, "H100-PCIe": 114, "H200": 132,
		"B200": 148, "L40S": 142, "RTX-PRO-6000": 188,
		"A10G": 80, "A30": 56, "A40": 84, "B300": 148, "GB200": 152, "GB300": 152, "H20": 78, "H800": 132, "L4": 58, "RTX-4090": 128}
	last := ""
	for _, g := range costmodel.GPUs() {
		if g.Name <= last {
			t.Errorf("%s behind %s", g.Name, last)
		}
		last = g.Name
		w := want[g.Name]
		w.Name, w.Node, w.Watts, w.Price, w.Processors = g.Name, g.Node, g.Watts, g.Price, processors[g.Name]
		if diff := cmp.Diff(w, g); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if err := g.Validate(); err != nil {
			t.Error(err)
		}
		e, err := costmodel.FittedEfficiency(strings.ToLower(g.Name))
		if err != nil {
			continue
		}
		if err := e.Validate(); err != nil {
			t.Errorf("%s: %v", g.Name, err)
		}
		if e.Claim() != costmodel.Prediction {
			t.Errorf("%s: a fitted efficiency claims a %v", g.Name, e.Claim())
		}
	}
}

func TestSetupValidate(t *testing.T) {
	for _, c := range []struct {
		edit func(*costmodel.Setup)
		want string
	}{
		{func(*costmodel.Setup) {}, ""},
		{func(s *costmodel.Setup) { s.TensorParallel = 8 }, ""},
		{func(s *costmodel.Setup) { s.TensorParallel = 32 }, ""},
		{func(s *costmodel.Setup) { s.Model.Layers = 0 }, "costmodel: Model.Layers is 0"},
		{func(s *costmodel.Setup) { s.Model.HeadDim = -1 }, "costmodel: Model.HeadDim is -1"},
		{func(s *costmodel.Setup) { s.Model.KVHeads = 5 }, "costmodel: Model.KVHeads 5 does not divide Heads 32"},
		{func(s *costmodel.Setup) { s.Model.Precision.Weights.ValueBytes = -1 }, "costmodel: Model.Precision.Weights.ValueBytes is -1"},
		{func(s *costmodel.Setup) { s.Model.KV.Group = 32 }, "costmodel: Model.KV.ValueBytes is 0"},
		{func(s *costmodel.Setup) { s.Model.KV = costmodel.Format{ValueBytes: 1, ScaleBytes: 1} },
			"costmodel: Model.KV.ScaleBytes is 1 without a Group"},
		{func(s *costmodel.Setup) { s.GPU.Rate = math.Inf(1) }, "costmodel: GPU.Rate is +Inf"},
		{func(s *costmodel.Setup) { s.GPU.Bandwidth = math.NaN() }, "costmodel: GPU.Bandwidth is NaN"},
		{func(s *costmodel.Setup) { s.GPU.Memory = 0 }, "costmodel: GPU.Memory is 0"},
		{func(s *costmodel.Setup) { s.Efficiency.Matrix.Compute = 1.5 }, "costmodel: Efficiency.Matrix.Compute is 1.5, not in [0, 1]"},
		{func(s *costmodel.Setup) { s.Efficiency.DecodeAttention.Memory = math.NaN() },
			"costmodel: Efficiency.DecodeAttention.Memory is NaN, not in [0, 1]"},
		{func(s *costmodel.Setup) { s.Efficiency.Experts.Smooth = 0.5 }, "costmodel: Efficiency.Experts.Smooth is 0.5, not 0 or in [1, 100]"},
		{func(s *costmodel.Setup) { s.Efficiency.MixedAttention.Sequence = -1 }, "costmodel: Efficiency.MixedAttention.Sequence is -1ns"},
		{func(s *costmodel.Setup) { s.Efficiency.PrefillAttention.Causal = 2 }, "costmodel: Efficiency.PrefillAttention.Causal is 2, not in [0, 1]"},
		{func(s *costmodel.Setup) { s.Efficiency.Exchange.Share = 2 }, "costmodel: Efficiency.Exchange.Share is 2, not in [0, 1]"},
		{func(s *costmodel.Setup) { s.Efficiency.Send.Hop = -1 }, "costmodel: Efficiency.Send.Hop is -1ns"},
		{func(s *costmodel.Setup) { s.Efficiency.AllReduce.Launch = -1 }, "costmodel: Efficiency.AllReduce.Launch is -1ns"},
		{func(s *costmodel.Setup) { s.Efficiency.Host.Step = -1 }, "costmodel: Efficiency.Host.Step is -1ns"},
		{func(s *costmodel.Setup) { s.Efficiency.Host.Sequence = -1 }, "costmodel: Efficiency.Host.Sequence is -1ns"},
		{func(s *costmodel.Setup) { s.TensorParallel = -1 }, "costmodel: Setup.TensorParallel is -1"},
		{func(s *costmodel.Setup) { s.TensorParallel = 3 }, "costmodel: Setup.TensorParallel 3 does not divide Model.Heads 32"},
		{func(s *costmodel.Setup) { s.TensorParallel = 4; s.Model.Intermediate = 1026 },
			"costmodel: Setup.TensorParallel 4 does not divide Model.Intermediate 1026"},
		{func(s *costmodel.Setup) { s.TensorParallel, s.Model.Heads, s.Model.KVHeads = 4, 36, 6 },
			"costmodel: Setup.TensorParallel 4 and Model.KVHeads 6: neither divides the other"},
		{func(s *costmodel.Setup) { s.TensorParallel, s.GPU.Link = 2, 0 }, "costmodel: Setup has 2 GPUs, GPU.Link is 0"},
		{func(s *costmodel.Setup) { s.TensorParallel, s.GPU.Network = 16, 0 }, "costmodel: Setup has 16 GPUs, GPU.Node is 8 and GPU.Network 0"},
		{func(s *costmodel.Setup) { s.PipelineParallel = 33 }, "costmodel: Setup.PipelineParallel is 33, Model.Layers 32"},
		{func(s *costmodel.Setup) { s.DataParallel = 2 }, "costmodel: Setup.DataParallel is 2, but Llama-3.1-8B has no experts to share"},
		{func(s *costmodel.Setup) { s.ExpertParallel = -2 }, "costmodel: Setup.ExpertParallel is -2"},
		{func(s *costmodel.Setup) { s.Exchange = 2 }, "costmodel: Setup.Exchange is 2"},
		{func(s *costmodel.Setup) { s.GPU.FP8 = -1 }, "costmodel: GPU.FP8 is -1"},
		{func(s *costmodel.Setup) { s.GPU.FP8, s.Model.Precision.Compute = 0, costmodel.FP8 },
			"costmodel: Model.Precision computes in FP8, which H100 does not"},
		{func(s *costmodel.Setup) { s.Model.Precision.Compute = 9 }, "costmodel: Model.Precision.Compute is number(9)"},
		{func(s *costmodel.Setup) { s.Model.Window.Layers = 33 }, "costmodel: Model.Window.Layers is 33 of 32"},
		{func(s *costmodel.Setup) { s.Model.Window.Layers = 3 }, "costmodel: Model.Window.Tokens is 0"},
		{func(s *costmodel.Setup) { s.Model.MoE.Layers = 33 }, "costmodel: Model.MoE.Layers is 33 of 32"},
		{func(s *costmodel.Setup) { s.Model.MLA.KVRank = 512 }, "costmodel: Model.MLA.NopeDim is 0"},
		{func(s *costmodel.Setup) { s.Popularity = []float64{1} }, "costmodel: Setup.Popularity has 1 values for 0 experts"},
	} {
		s := setup(t, "Llama-3.1-8B", "H100")
		c.edit(&s)
		_, err := costmodel.NewTransformer(s)
		wantError(t, err, c.want)
	}
	for _, c := range []struct {
		edit func(*costmodel.Setup)
		want string
	}{
		{func(s *costmodel.Setup) { s.TensorParallel, s.DataParallel, s.ExpertParallel = 2, 4, 8 }, ""},
		{func(s *costmodel.Setup) { s.TensorParallel, s.ExpertParallel = 4, 3 },
			"costmodel: Setup.ExpertParallel 3 does not divide TensorParallel · DataParallel 4"},
		{func(s *costmodel.Setup) { s.DataParallel, s.ExpertParallel = 3, 3 }, "costmodel: Setup.ExpertParallel 3 does not divide Model.MoE.Experts 128"},
		{func(s *costmodel.Setup) { s.DataParallel = 5 }, "costmodel: TensorParallel · DataParallel / ExpertParallel 5 does not divide Model.MoE.Inner 768"},
		{func(s *costmodel.Setup) { s.Model.MoE.Experts = 0 }, "costmodel: Model.MoE.Experts is 0"},
		{func(s *costmodel.Setup) { s.Model.MoE.PerPosition = 129 }, "costmodel: Model.MoE.PerPosition is 129 of 128"},
		{func(s *costmodel.Setup) { s.Model.MoE.Layers = 47 }, "costmodel: Model.Intermediate is 0"},
		{func(s *costmodel.Setup) { s.Popularity = make([]float64, 128) }, "costmodel: Setup.Popularity adds up to 0, a position picks 8"},
		{func(s *costmodel.Setup) { s.Popularity = make([]float64, 128); s.Popularity[1] = 0.5 }, "costmodel: Setup.Popularity[1] is 0.5, not in [0, 0]"},
	} {
		s := setup(t, "Qwen3-30B-A3B", "H100")
		c.edit(&s)
		_, err := costmodel.NewTransformer(s)
		wantError(t, err, c.want)
	}
}
