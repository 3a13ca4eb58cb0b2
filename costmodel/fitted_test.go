package costmodel_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"servesim/costmodel"
	"servesim/sim"
)

// The errors of the catalogue's kernels over the whole of the tables they were
// fitted to, as the catalogue states them: mean and median in %.
func TestFittedKernels(t *testing.T) {
	for _, c := range []struct{ gpu, file, version, bf16, fp8, decode, prefill string }{
		{"A100-80", "a100_sxm", "0.14.0", "19 (12)", "", "25 (15)", "23 (19)"},
		{"B200", "b200_sxm", "0.24.0", "17 (11)", "34 (29)", "18 (11)", "24 (21)"},
		{"H100", "h100_sxm", "0.24.0", "14 (9)", "31 (26)", "18 (8)", "24 (21)"},
		{"L40S", "l40s", "0.24.0", "26 (13)", "33 (26)", "36 (17)", "14 (10)"},
		{"RTX-PRO-6000", "rtx_pro_6000_server", "0.24.0", "21 (12)", "28 (22)", "27 (20)", "20 (18)"},
	} {
		s := setup(t, "Llama-3.1-8B", c.gpu)
		g, e := s.GPU, s.Efficiency
		check := func(name, file, want string, kernel costmodel.Kernel, number costmodel.Number, work func(row) costmodel.Work) {
			if want == "" {
				return
			}
			var errors []float64
			sum := 0.0
			for r := range readTable(t, fmt.Sprintf("measured/kernels/%s_%s.csv.gz", c.file, file)) {
				if w := work(r); w != (costmodel.Work{}) {
					x := math.Abs(kernel.Seconds(w, g.Peak(number), g.Bandwidth)*1e3/r.number("latency_ms") - 1)
					errors, sum = append(errors, x), sum+x
				}
			}
			slices.Sort(errors)
			got := fmt.Sprintf("%.0f (%.0f)", 100*sum/float64(len(errors)), 100*errors[len(errors)/2])
			t.Logf("%s, %s: %d kernels, %s %%", c.gpu, name, len(errors), got)
			if got != want {
				t.Errorf("%s, %s: error %s %%, stated %s", c.gpu, name, got, want)
			}
		}
		check("BF16 products", "gemm_vllm_"+c.version+"_bfloat16", c.bf16, e.Matrix, costmodel.BF16, productWork("bfloat16"))
		check("FP8 products", "gemm_vllm_"+c.version+"_fp8", c.fp8, e.Narrow, costmodel.FP8, productWork("fp8"))
		attention := "attention_vllm_" + c.version + "_%s_attention_perf"
		check("decode attention", fmt.Sprintf(attention, "generation"), c.decode, e.DecodeAttention, costmodel.BF16, decodeWork)
		check("prefill attention", fmt.Sprintf(attention, "context"), c.prefill, e.PrefillAttention, costmodel.BF16, promptWork)
	}
}

func productWork(precision string) func(row) costmodel.Work {
	p, err := costmodel.LookupPrecision(precision)
	if err != nil {
		panic(err)
	}
	return func(r row) costmodel.Work {
		return costmodel.Product{Columns: int(r.number("n")), Inner: int(r.number("k")), Precision: p}.Work(r.number("m"))
	}
}

// attention returns the shape of a row with heads of 128, a BF16 cache and no
// window, and whether it is one.
func attention(r row) (costmodel.Attention, bool) {
	a := costmodel.Attention{Heads: int(r.number("num_heads")), KVHeads: int(r.number("num_key_value_heads")), HeadDim: int(r.number("head_dim"))}
	if a.KVHeads == 0 {
		a.KVHeads = a.Heads
	}
	window := r.text("window_size") // no such column on A100
	return a, a.HeadDim == 128 && r.text("kv_cache_dtype") == "bfloat16" && (window == "" || window == "0")
}

func decodeWork(r row) costmodel.Work {
	a, ok := attention(r)
	if !ok {
		return costmodel.Work{}
	}
	n := r.number("batch_size")
	return a.Decode(n, n, n*r.number("step"))
}

// promptWork counts prompts of 1024 positions and more.
func promptWork(r row) (w costmodel.Work) {
	a, ok := attention(r)
	if !ok || r.number("isl") < 1024 {
		return w
	}
	one := a.Prompt(sim.Chunk{Tokens: int(r.number("isl")), Context: int(r.number("step"))})
	for range int(r.number("batch_size")) {
		w = w.Add(one)
	}
	return w
}
