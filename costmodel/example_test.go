package costmodel_test

import (
	"fmt"
	"strings"
	"time"

	"servesim/costmodel"
	"servesim/sim"
)

func ExampleLinear() {
	cost := costmodel.Linear{Fixed: 10 * time.Millisecond, PerPromptToken: 100 * time.Microsecond}
	fmt.Println(cost.StepTime(sim.Batch{
		Decodes: 1, Positions: 1,
		Prefills: []sim.Chunk{{Tokens: 512, Last: true}},
	}))
	// Output: 61.2ms
}

func ExampleRoofline() {
	cost := costmodel.Roofline{
		SharedBytes: 4e6, ContextBytesPerRequest: 1e5, OpsPerPosition: 2e6,
		Bandwidth: 1e11, Rate: 1e12, Overhead: 20 * time.Microsecond,
	}
	for _, n := range []int{16, 40, 64} {
		t := cost.Terms(n, n)
		fmt.Printf("%d requests: transfer %.0f µs, compute %.0f µs, step %.0f µs, %.0f tokens/s, %v-bound\n",
			n, t.Transfer*1e6, t.Compute*1e6, t.Step*1e6, t.TokenRate(float64(n)), t.Bound)
	}
	fmt.Println("within 150 µs:", cost.LargestBatch(150*time.Microsecond))
	fmt.Println("free positions of 16 requests:", cost.FreePositions(16))
	// Output:
	// 16 requests: transfer 56 µs, compute 32 µs, step 76 µs, 210526 tokens/s, memory-bound
	// 40 requests: transfer 80 µs, compute 80 µs, step 100 µs, 400000 tokens/s, memory-bound
	// 64 requests: transfer 104 µs, compute 128 µs, step 148 µs, 432432 tokens/s, compute-bound
	// within 150 µs: 65
	// free positions of 16 requests: 28
}

func ExampleTally() {
	var t costmodel.Tally
	t.Add(16, 76e-6)
	t.Add(128, 276e-6)
	fmt.Printf("%.0f tokens/s\n", t.TokenRate())
	// Output: 409091 tokens/s
}

func ExampleNewTransformer() {
	setup, err := costmodel.NewSetup("Llama-3.1-8B", "H100")
	if err != nil {
		fmt.Println(err)
		return
	}
	setup.Efficiency = costmodel.Efficiency{} // the datasheet: a lower bound
	cost, err := costmodel.NewTransformer(setup)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cost.Claim(), cost.StepTime(sim.Batch{Decodes: 1, Positions: 1}).Round(10*time.Microsecond))
	// Output: lower bound 4.48ms
}

func ExampleTransformer_Breakdown() {
	setup, err := costmodel.NewSetup("Qwen3-32B", "h200")
	if err != nil {
		fmt.Println(err)
		return
	}
	cost, err := costmodel.NewTransformer(setup)
	if err != nil {
		fmt.Println(err)
		return
	}
	step := cost.Breakdown(sim.Batch{
		Decodes: 32, Positions: 32, Context: 32 * 2000,
		Prefills: []sim.Chunk{{Tokens: 2048, Last: true}},
	})
	for op, c := range step {
		if c.Seconds > 0 {
			fmt.Printf("%-18v %5.1f ms %v\n", costmodel.Op(op), c.Seconds*1e3, c.Bound)
		}
	}
	fmt.Printf("%.1f ms for %.0f TFLOP and %.0f GB\n", step.Seconds()*1e3, step.FLOPs()/1e12, step.Bytes()/1e9)
	// Output:
	// embedding            0.0 ms memory
	// qkv                 17.1 ms compute
	// prefill attention   10.0 ms compute
	// decode attention     4.9 ms memory
	// output              13.6 ms compute
	// gate+up             84.0 ms compute
	// down                41.4 ms compute
	// lm head              0.4 ms memory
	// sampling             0.0 ms memory
	// elementwise          8.8 ms memory
	// host                 0.7 ms host
	// 180.9 ms for 134 TFLOP and 151 GB
}

func ExampleSetup_KVCapacity() {
	setup, err := costmodel.NewSetup("Llama-3.1-8B", "H100")
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := setup.KVCapacity(costmodel.KVBudget{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.1f GB · %.1f − %.1f − %.1f − %.1f = %.1f GB: %d blocks of %d tokens\n",
		c.Memory/1e9, c.Utilisation, c.Weights/1e9, c.Activations/1e9, c.Runtime/1e9, c.Available/1e9,
		c.Blocks, c.BlockTokens)
	// Output: 85.9 GB · 0.9 − 16.1 − 1.1 − 0.2 = 60.0 GB: 28621 blocks of 16 tokens
}

func ExampleModel_KVBytes() {
	m, err := costmodel.LookupModel("Llama-3.1-8B")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.KVBytesPerToken(), m.KVBytes(4096, 1024))
	// Output: 131072 6.7108864e+08
}

// A mixture of experts in a file of its own.
func ExampleReadModel() {
	m, err := costmodel.ReadModel("mine", strings.NewReader(`{
		"model_type": "qwen3_moe", "num_hidden_layers": 48, "num_experts": 64,
		"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}
	}`), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.1f billion parameters, %.1f used by a token, %.0f KV bytes a token\n",
		float64(m.Params())/1e9, float64(m.ActiveParams())/1e9, m.KVBytesPerToken())
	// Output: 15.6 billion parameters, 2.9 used by a token, 49152 KV bytes a token
}

// Two operators of a layer of Llama-3.1-8B on an H100, with and without
// overheads: a product of 64 rows, and attention of 64 sequences of 1000 tokens.
func ExampleKernel() {
	gate := costmodel.Product{Columns: 2 * 14336, Inner: 4096}
	attention := costmodel.Attention{Heads: 32, KVHeads: 8, HeadDim: 128}
	ideal, real := costmodel.Kernel{}, costmodel.Kernel{Launch: 5 * time.Microsecond, Compute: 0.8, Memory: 0.9, Smooth: 2}
	for _, w := range []costmodel.Work{gate.Work(64), attention.Decode(64, 64, 64_000)} {
		fmt.Printf("%.1f GFLOP, %.0f MB: %.0f µs, at best %.0f\n", w.FLOPs/1e9, w.Bytes/1e6,
			1e6*real.Seconds(w, 989e12, 3.35e12), 1e6*ideal.Seconds(w, 989e12, 3.35e12))
	}
	// Output:
	// 15.0 GFLOP, 239 MB: 87 µs, at best 71
	// 1.0 GFLOP, 264 MB: 92 µs, at best 79
}

// What 64 positions read of 128 experts when each picks 8.
func ExampleRoutedExperts() {
	e := costmodel.RoutedExperts{Count: 128, PerPosition: 8, Hidden: 2048, Inner: 768, Ranks: 1, Shards: 1}
	fmt.Printf("%.1f of 128 experts\n", e.Distinct(16))
	e.Ranks = 8
	fmt.Printf("%.1f of 16 on the busiest of 8 GPUs, %.1f of 128 picks\n", e.Distinct(16), e.Picks(16))
	// Output:
	// 82.4 of 128 experts
	// 13.1 of 16 on the busiest of 8 GPUs, 21.6 of 128 picks
}

func ExampleTransformer_Explain() {
	setup, err := costmodel.NewSetup("gpt-oss-20b", "H100")
	if err != nil {
		fmt.Println(err)
		return
	}
	cost, err := costmodel.NewTransformer(setup)
	if err != nil {
		fmt.Println(err)
		return
	}
	batch := sim.Batch{Decodes: 32, Positions: 32, Context: 32 * 4000}
	var counted sim.FP8Ops
	for _, o := range cost.Explain(batch, nil) {
		counted += o.Counted
		if o.Seconds > 0.3e-3 {
			fmt.Printf("%-18s %4.2f ms %s\n", o.Name, o.Seconds*1e3, o.Bound)
		}
	}
	step := cost.StepTime(batch)
	fmt.Printf("%v, MFU %.1f %%\n", step.Round(10*time.Microsecond), 100*counted.Utilisation(step, setup.GPU.FP8Rate()))
	// Output:
	// qkv                0.34 ms memory
	// decode attention   1.47 ms memory
	// output             0.30 ms memory
	// experts            5.25 ms memory
	// lm head            0.38 ms memory
	// host               0.70 ms host
	// 8.82ms, MFU 2.9 %
}

// A step that checks two drafts for one request and computes a prompt of 100.
func ExampleModel_Counts() {
	m, err := costmodel.LookupModel("Llama-3.1-8B")
	if err != nil {
		fmt.Println(err)
		return
	}
	c := m.Counts([]costmodel.Selection{{Cached: 128, InFlight: 2, New: 3}, {New: 100, Prompt: true, Length: 100}})
	fmt.Printf("%.4f tera-operations, %.4f of them in attention\n", c.Total().Tera(), c.Attention.Tera())
	// Output: 2.8896 tera-operations, 0.0057 of them in attention
}

// The catalogue's kernels state their errors, and fits of your own take their
// place.
func ExampleMeasuredKernels() {
	setup, err := costmodel.NewSetup("Llama-3.1-8B", "H100")
	if err != nil {
		fmt.Println(err)
		return
	}
	measured := *setup.Efficiency.Measured // others share the catalogue's
	fmt.Println("decode attention:", measured.Attention.Decode.Held)

	measured.Attention.Decode, err = costmodel.NewCalibration(costmodel.DecodeForm(setup.GPU, 2),
		[]float64{9e-6, 0.9, 1e-9, 2e-8, 0.1, 3e-10, 1e-7, 1e-9, 1e-8, 1e5, 1, 1, 1, 1, 1},
		costmodel.Provenance{Platform: "H100 SXM", Formats: "BF16", Kernels: "mine", Layout: "one GPU", Boundary: "one kernel", Source: "my notes"})
	if err != nil {
		fmt.Println(err)
		return
	}
	batch := sim.Batch{Decodes: 64, Positions: 64, Context: 64 * 2000}
	for _, kernels := range []*costmodel.MeasuredKernels{setup.Efficiency.Measured, &measured} {
		setup.Efficiency.Measured = kernels
		cost, err := costmodel.NewTransformer(setup)
		if err != nil {
			fmt.Println(err)
			return
		}
		step := cost.Breakdown(batch)
		fmt.Printf("%.2f ms of %.2f ms\n", step[costmodel.DecodeAttention].Seconds*1e3, step.Seconds()*1e3)
	}
	// Output:
	// decode attention: n 8720, MAPE 8.2 %, median 4.6 %, p90 17.9 %, bias -0.6 %
	// 6.20 ms of 13.57 ms
	// 5.93 ms of 13.30 ms
}
