//go:build go1.24

package costmodel_test

import (
	"testing"
	"time"

	"servesim/costmodel"
	"servesim/sim"
)

var benchmarkBatches = []struct {
	name  string
	batch sim.Batch
}{
	{"decode", sim.Batch{Decodes: 64, Positions: 64, Context: 64 * 1000}},
	{"mixed", sim.Batch{Decodes: 64, Positions: 64, Context: 64 * 1000, Prefills: []sim.Chunk{{Tokens: 448, Last: true}}}},
	{"prefill8", sim.Batch{Prefills: []sim.Chunk{{Tokens: 100}, {Tokens: 100}, {Tokens: 100}, {Tokens: 100},
		{Tokens: 100}, {Tokens: 100}, {Tokens: 100}, {Tokens: 100}}}},
}

func benchmarkStepTime(b *testing.B, model sim.CostModel) {
	for _, c := range benchmarkBatches {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				model.StepTime(c.batch)
			}
		})
	}
}

func BenchmarkTransformer(b *testing.B) {
	setup, err := costmodel.NewSetup("Llama-3.1-8B", "H100")
	if err != nil {
		b.Fatal(err)
	}
	model, err := costmodel.NewTransformer(setup)
	if err != nil {
		b.Fatal(err)
	}
	benchmarkStepTime(b, model)
}

func BenchmarkRoofline(b *testing.B) { benchmarkStepTime(b, teaching) }

func BenchmarkLinear(b *testing.B) {
	benchmarkStepTime(b, costmodel.Linear{Fixed: 10 * time.Millisecond, PerPromptToken: 100 * time.Microsecond})
}
