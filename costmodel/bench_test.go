//go:build go1.24

package costmodel_test

import (
	"strings"
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
	benchmarkStepTime(b, transformer(b, "Llama-3.1-8B", "H100"))
}

// A decode step of every kind of model: with windows there are two groups of
// layers, a smooth maximum takes a root, and one with p other than 2 a few
// logarithms.
func BenchmarkDecode(b *testing.B) {
	for name, s := range kinds(b) {
		model := build(b, s)
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				model.StepTime(benchmarkBatches[0].batch)
			}
		})
	}
}

func BenchmarkExplain(b *testing.B) {
	model := transformer(b, "Llama-3.1-8B", "H100")
	var operators []sim.Operator
	b.ReportAllocs()
	for b.Loop() {
		operators = model.Explain(benchmarkBatches[0].batch, operators[:0])
	}
}

func BenchmarkNewTransformer(b *testing.B) {
	s := kinds(b)
	for _, name := range []string{"dense", "latent", "skewed"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				build(b, s[name])
			}
		})
	}
}

func BenchmarkRoofline(b *testing.B) { benchmarkStepTime(b, teaching) }

func BenchmarkLinear(b *testing.B) {
	benchmarkStepTime(b, costmodel.Linear{Fixed: 10 * time.Millisecond, PerPromptToken: 100 * time.Microsecond})
}

// The forms of attention, which a step of a simulation evaluates.
func BenchmarkForms(b *testing.B) {
	g, err := costmodel.LookupGPU("H100")
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		form costmodel.Form
		x    []float64
	}{
		{"decode", costmodel.DecodeForm(g, 2), []float64{64, 32, 8, 128, 1000, 0}},
		{"prefill", costmodel.PrefillForm(g, 2), []float64{2, 32, 8, 128, 1000, 0}},
	} {
		p := make([]float64, len(c.form.Parameters))
		for i := range p {
			p[i] = c.form.Parameters[i].Start
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			sum := 0.0
			for b.Loop() {
				sum += c.form.Seconds(p, c.x)
			}
		})
	}
}
