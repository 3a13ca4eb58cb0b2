package costmodel_test

import (
	"testing"
	"time"

	"servesim/costmodel"
	"servesim/sim"
)

func TestLinearStepTime(t *testing.T) {
	const ms = time.Millisecond
	proofs := costmodel.Linear{Fixed: 10 * ms, PerPromptToken: ms / 10} // of the scheduler proofs
	all := costmodel.Linear{Fixed: 1, PerPromptToken: 10, PerDecode: 100, PerContextToken: 1000}
	for _, c := range []struct {
		name  string
		model costmodel.Linear
		batch sim.Batch
		want  time.Duration
	}{
		{"decodes only", proofs, sim.Batch{Decodes: 2, Positions: 2, Context: 200}, 10 * ms},
		{"two whole prompts", proofs, sim.Batch{Prefills: []sim.Chunk{{Tokens: 100}, {Tokens: 100}}}, 30 * ms},
		{"long prompt beside a decode", proofs,
			sim.Batch{Decodes: 1, Positions: 1, Prefills: []sim.Chunk{{Tokens: 32000}}}, 3210 * ms},
		{"chunk of 512", proofs, sim.Batch{Decodes: 1, Positions: 1, Prefills: []sim.Chunk{{Tokens: 512}}}, 61*ms + 200*time.Microsecond},
		{"padded prompt", proofs, sim.Batch{Prefills: []sim.Chunk{{Tokens: 100}}, Padding: sim.Padding{PromptTokens: 50}}, 25 * ms},
		{"every price", all, sim.Batch{Decodes: 2, Positions: 3, Context: 5,
			Prefills: []sim.Chunk{{Tokens: 7, Context: 4}}, Padding: sim.Padding{Rows: 1, PromptTokens: 2}}, 1 + 90 + 400 + 9000},
		{"free", costmodel.Linear{}, sim.Batch{Decodes: 1, Positions: 1}, 0},
	} {
		if got := c.model.StepTime(c.batch); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestLinearValidate(t *testing.T) {
	for _, c := range []struct {
		model costmodel.Linear
		want  string
	}{
		{costmodel.Linear{}, ""},
		{costmodel.Linear{Fixed: -1}, "costmodel: Linear.Fixed is -1ns"},
		{costmodel.Linear{PerPromptToken: -2}, "costmodel: Linear.PerPromptToken is -2ns"},
		{costmodel.Linear{PerDecode: -3}, "costmodel: Linear.PerDecode is -3ns"},
		{costmodel.Linear{PerContextToken: -4}, "costmodel: Linear.PerContextToken is -4ns"},
	} {
		wantError(t, c.model.Validate(), c.want)
	}
	wantPanic(t, "costmodel: Linear.Fixed is -1ns", func() {
		costmodel.Linear{Fixed: -1}.StepTime(sim.Batch{Decodes: 1, Positions: 1})
	})
}

// Every model refuses batches that cannot exist.
func TestImpossibleBatches(t *testing.T) {
	models := []sim.CostModel{costmodel.Linear{Fixed: 1}, teaching, transformer(t, "Llama-3.1-8B", "H100")}
	for _, c := range []struct {
		batch sim.Batch
		want  string
	}{
		{sim.Batch{Decodes: 8}, "costmodel: Batch has Decodes 8, Positions 0, Context 0, Padding {Rows:0 PromptTokens:0}"},
		{sim.Batch{Positions: 8}, "costmodel: Batch has Decodes 0, Positions 8, Context 0, Padding {Rows:0 PromptTokens:0}"},
		{sim.Batch{Decodes: -1}, "costmodel: Batch has Decodes -1, Positions 0, Context 0, Padding {Rows:0 PromptTokens:0}"},
		{sim.Batch{Decodes: 1, Positions: 1, Context: -2}, "costmodel: Batch has Decodes 1, Positions 1, Context -2, Padding {Rows:0 PromptTokens:0}"},
		{sim.Batch{Padding: sim.Padding{Rows: -1}}, "costmodel: Batch has Decodes 0, Positions 0, Context 0, Padding {Rows:-1 PromptTokens:0}"},
		{sim.Batch{Prefills: []sim.Chunk{{Tokens: 1}, {Context: 3}}}, "costmodel: Batch.Prefills[1] is {Tokens:0 Context:3 Last:false}"},
		{sim.Batch{Prefills: []sim.Chunk{{Tokens: 1, Context: -3}}}, "costmodel: Batch.Prefills[0] is {Tokens:1 Context:-3 Last:false}"},
	} {
		for _, m := range models {
			wantPanic(t, c.want, func() { m.StepTime(c.batch) })
		}
	}
}

// A step allocates nothing, whatever it holds.
func TestStepTimeAllocations(t *testing.T) {
	batch := sim.Batch{Decodes: 8, Positions: 8, Context: 800, Prefills: []sim.Chunk{{Tokens: 10, Last: true}}}
	for _, m := range []sim.CostModel{costmodel.Linear{Fixed: 1}, teaching, transformer(t, "Llama-3.1-8B", "H100")} {
		if n := testing.AllocsPerRun(100, func() { m.StepTime(batch) }); n != 0 {
			t.Errorf("%T: %v allocations a step", m, n)
		}
	}
}
