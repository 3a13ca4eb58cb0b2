package main

import (
	"path/filepath"
	"testing"

	"servesim/costmodel"
	"servesim/sim"
)

// The catalogue's attention on RTX PRO 6000, against another engine's profiles,
// which no fit of kernels has seen: decodes alone are as measured. How fast
// cached keys are, and decodes beside prompts, was read off these same profiles.
func TestAttentionOfLayers(t *testing.T) {
	data := shared(t)
	for _, f := range []struct {
		file, model string
		tp          int
	}{
		{"rtxpro6000_llama-31-8b_tp1", "Llama-3.1-8B", 1}, {"rtxpro6000_llama-31-8b_tp2", "Llama-3.1-8B", 2},
		{"rtxpro6000_qwen3-30b-a3b-instruct-2507_tp1", "Qwen3-30B-A3B", 1},
	} {
		s, err := costmodel.NewSetup(f.model, "RTX-PRO-6000")
		if err != nil {
			t.Fatal(err)
		}
		s.TensorParallel = f.tp
		m, err := costmodel.NewTransformer(s)
		if err != nil {
			t.Fatal(err)
		}
		errors := map[string][]float64{}
		columns := []string{"prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us"}
		err = readCSV(filepath.Join(data, "layers", f.file+"_attention.csv.gz"), columns, func(r *row) {
			chunk, cached, n, context := r.count("prefill_chunk"), r.count("kv_prefill"), r.count("n_decode"), r.count("kv_decode")
			b := sim.Batch{Decodes: n, Positions: n, Context: n * context}
			if chunk > 0 {
				b.Prefills = []sim.Chunk{{Tokens: chunk, Context: cached}}
			}
			cost := m.Breakdown(b)
			layer := (cost[costmodel.PrefillAttention].Seconds + cost[costmodel.DecodeAttention].Seconds) / float64(s.Model.Layers)
			kind := ""
			switch {
			case chunk == 0:
				kind = "decodes"
			case n == 0 && cached >= 2048:
				kind = "long cached prompts"
			case n >= 16 && context >= 256 && context <= 4096:
				kind = "decodes beside prompts"
			default:
				return
			}
			errors[kind] = append(errors[kind], layer/(r.number("time_us")*1e-6)-1)
		})
		if err != nil {
			t.Fatal(err)
		}
		for kind, most := range map[string]float64{"decodes": 0.06, "long cached prompts": 0.08, "decodes beside prompts": 0.16} {
			a := costmodel.AccuracyOf(errors[kind])
			t.Logf("%s, %s: %v", f.file, kind, a)
			if !(a.MAPE <= most) {
				t.Errorf("%s, %s: %v, limit %v", f.file, kind, a, most)
			}
		}
	}
}

// What cached keys add to a chunk, on another GPU with another engine, which had
// no part in how fast they are said to be. Long chunks themselves take that
// engine's kernel up to 2.5 times as long as the catalogue's.
func TestCachedPromptsElsewhere(t *testing.T) {
	data := shared(t)
	s, err := costmodel.NewSetup("Llama-2-7B", "A100-80")
	if err != nil {
		t.Fatal(err)
	}
	m, err := costmodel.NewTransformer(s)
	if err != nil {
		t.Fatal(err)
	}
	layer := func(chunk, cached int) float64 {
		b := sim.Batch{Prefills: []sim.Chunk{{Tokens: chunk, Context: cached}}}
		return m.Breakdown(b)[costmodel.PrefillAttention].Seconds / float64(s.Model.Layers)
	}
	took := map[[2]int]float64{}
	columns := []string{"phase", "batch_size", "chunk_tokens", "kv_cache_tokens", "median_ms"}
	err = readCSV(filepath.Join(data, "layers", "vidur_attention_sample_a100_llama2_7b_tp1.csv.gz"), columns, func(r *row) {
		if r.text("phase") != "decode" && r.count("batch_size") == 1 {
			took[[2]int{r.count("chunk_tokens"), r.count("kv_cache_tokens")}] = r.number("median_ms") * 1e-3
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var errors []float64
	for at, seconds := range took {
		if fresh := took[[2]int{at[0], 0}]; fresh > 0 && at[1] >= 1024 {
			errors = append(errors, (layer(at[0], at[1])-layer(at[0], 0))/(seconds-fresh)-1)
		}
	}
	a := costmodel.AccuracyOf(errors)
	t.Logf("what cached tokens add on A100: %v", a)
	if a.N < 15 || a.MAPE > 0.12 {
		t.Errorf("%v, limit 12 %%", a)
	}
}
