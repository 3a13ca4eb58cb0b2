//go:build go1.24

package sim_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"testing"
	"time"

	"servesim/costmodel"
	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/metrics"
)

// Every benchmark runs with the metrics collector in streaming mode attached
// and, unless it says otherwise, with a flat step time, so that ns/step is the
// engine's own.

var flatCost = sim.CostFunc(func(sim.Batch) time.Duration { return 10 * time.Millisecond })

// observe attaches a streaming collector.
func observe(b *testing.B, cfg *sim.Config) {
	b.Helper()
	c, err := metrics.New(*cfg, metrics.Options{Streaming: true})
	if err != nil {
		b.Fatal(err)
	}
	cfg.Observers = []sim.Observer{c}
}

// measure runs one simulation per iteration and reports per step, per request
// and per token figures.
func measure(b *testing.B, config func() sim.Config, requests func() iter.Seq2[sim.Request, error]) {
	b.Helper()
	b.ReportAllocs()
	var total sim.Result
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		cfg := config()
		observe(b, &cfg)
		res, err := sim.Run(context.Background(), cfg, requests())
		if err != nil {
			b.Fatal(err)
		}
		total.Steps += res.Steps
		total.Completed += res.Completed
		total.Tokens += res.Tokens
	}
	runtime.ReadMemStats(&after)
	s := b.Elapsed().Seconds()
	b.ReportMetric(s*1e9/float64(total.Steps), "ns/step")
	b.ReportMetric(float64(total.Completed)/s, "req/s")
	b.ReportMetric(float64(total.Tokens)/s/1e6, "Mtok/s")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(total.Completed), "allocs/req")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(total.Completed), "B/req")
	b.ReportMetric(float64(total.Tokens)/float64(total.Steps), "tok/step")
}

// BenchmarkHeldStep repeats a decode batch that nothing disturbs.
func BenchmarkHeldStep(b *testing.B) {
	measureSteps(b, func(batch int) iter.Seq2[sim.Request, error] { return uniform(batch, 0, 16, 100_000) })
}

// BenchmarkPlannedStep lets one sequence end and one be admitted at every
// step: requests arrive one step apart and live for as many steps as the batch
// is large.
func BenchmarkPlannedStep(b *testing.B) {
	measureSteps(b, func(batch int) iter.Seq2[sim.Request, error] { return uniform(100_000, 10*time.Millisecond, 16, batch) })
}

// measureSteps measures batches of several sizes, and the largest with ledgers too.
func measureSteps(b *testing.B, requests func(batch int) iter.Seq2[sim.Request, error]) {
	b.Helper()
	run := func(name string, batch int, ledgers bool) {
		b.Run(name, func(b *testing.B) {
			measure(b, func() sim.Config {
				return sim.Config{Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: flatCost, KVBlocks: 1 << 30}}, Ledgers: ledgers}
			}, func() iter.Seq2[sim.Request, error] { return requests(batch) })
		})
	}
	for _, batch := range []int{8, 64, 256, 1024} {
		run(fmt.Sprintf("batch=%d", batch), batch, false)
	}
	run("batch=1024,ledgers", 1024, true)
}

// h100 is Llama-3.1-8B on one H100 with the memory it has.
func h100(b *testing.B) sim.Replica {
	b.Helper()
	setup, err := costmodel.NewSetup("Llama-3.1-8B", "H100")
	if err != nil {
		b.Fatal(err)
	}
	model, err := costmodel.NewTransformer(setup)
	if err != nil {
		b.Fatal(err)
	}
	kv, err := setup.KVCapacity(costmodel.KVBudget{})
	if err != nil {
		b.Fatal(err)
	}
	return sim.Replica{
		Scheduler: scheduler.ChunkedPrefill{}, CostModel: model,
		KVBlocks: kv.Blocks, MaxSeqs: 256, MaxBatchTokens: 2048, MaxModelLen: 8192,
	}
}

// saturation returns the request rate that one replica sustains when its queue
// is never empty.
func saturation(b *testing.B, prompt, output int) float64 {
	b.Helper()
	res, err := sim.Run(context.Background(), sim.Config{Replicas: []sim.Replica{h100(b)}}, uniform(5000, 0, prompt, output))
	if err != nil {
		b.Fatal(err)
	}
	return float64(res.Completed) / res.End.Seconds()
}

// BenchmarkChat is 512 tokens in, 128 out, on a roofline of Llama-3.1-8B on
// one H100, at shares of the saturation rate.
func BenchmarkChat(b *testing.B) {
	rate := saturation(b, 512, 128)
	for _, load := range []int{50, 95, 120} {
		b.Run(fmt.Sprintf("load=%d%%", load), func(b *testing.B) {
			measure(b, func() sim.Config { return sim.Config{Replicas: []sim.Replica{h100(b)}} },
				func() iter.Seq2[sim.Request, error] { return poisson(20_000, rate*float64(load)/100, 512, 128) })
			b.ReportMetric(rate*float64(load)/100, "offered_req/s")
		})
	}
}

// BenchmarkDecodeHeavy is 32 tokens in, 1024 out, at 95 % of saturation.
func BenchmarkDecodeHeavy(b *testing.B) {
	rate := saturation(b, 32, 1024)
	measure(b, func() sim.Config { return sim.Config{Replicas: []sim.Replica{h100(b)}} },
		func() iter.Seq2[sim.Request, error] { return poisson(20_000, rate*0.95, 32, 1024) })
	b.ReportMetric(rate*0.95, "offered_req/s")
}

// BenchmarkReplicas spreads a load that grows with the number of replicas.
func BenchmarkReplicas(b *testing.B) {
	rate := saturation(b, 512, 128)
	for _, n := range []int{1, 16, 256} {
		for _, router := range []string{"round-robin", "two-choices", "least-loaded"} {
			b.Run(fmt.Sprintf("n=%d/%s", n, router), func(b *testing.B) {
				measure(b, func() sim.Config {
					cfg := sim.Config{Router: map[string]sim.Router{
						"round-robin": &scheduler.RoundRobin{}, "two-choices": &scheduler.TwoChoices{}, "least-loaded": scheduler.LeastLoaded{},
					}[router]}
					for range n {
						cfg.Replicas = append(cfg.Replicas, h100(b))
					}
					return cfg
				}, func() iter.Seq2[sim.Request, error] { return poisson(40_000, rate*0.7*float64(n), 512, 128) })
			})
		}
	}
}
