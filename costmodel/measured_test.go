package costmodel_test

import (
	"math"
	"testing"

	"servesim/costmodel"
	"servesim/sim"
)

// point is one measured closed loop: so many clients, each with one request of
// this shape at a time.
type point struct {
	degree, clients, prompt, output int
	tpot                            float64 // ms
}

// The composed model against the time per token of whole engines in BF16. The
// host terms of both engines were fitted to these very points, so the errors
// say how well the form fits, not how well it forecasts.
func TestMeasuredTPOT(t *testing.T) {
	for _, c := range []struct {
		backend, version, path, model string
		host                          string
		points                        int
		limit                         float64 // of the mean error
	}{
		{"vllm", "0.12.0", "Qwen/Qwen3-32B", "Qwen3-32B", "vLLM-0.12", 90, 0.05},
		{"trtllm", "1.0.0rc3", "meta-llama/Llama-3.1-8B-Instruct", "Llama-3.1-8B", "TensorRT-LLM-1.0", 177, 0.10},
	} {
		points := readPoints(t, c.backend, c.version, c.path)
		if len(points) != c.points {
			t.Errorf("%s %s: %d points, want %d", c.backend, c.model, len(points), c.points)
		}
		host, err := costmodel.FittedHost(c.host)
		if err != nil {
			t.Fatal(err)
		}
		bias, mean := 0.0, 0.0
		for _, p := range points {
			s := setup(t, c.model, "H100")
			s.TensorParallel = p.degree
			s.Efficiency.Host = host
			e := closedLoop(build(t, s), p)*1e3/p.tpot - 1
			bias += e / float64(len(points))
			mean += math.Abs(e) / float64(len(points))
		}
		t.Logf("%s %s, %d points: bias %+.1f %%, mean error %.1f %%", c.backend, c.model, len(points), 100*bias, 100*mean)
		if mean > c.limit {
			t.Errorf("%s %s: mean error %.1f %%, limit %.0f %%", c.backend, c.model, 100*mean, 100*c.limit)
		}
	}
}

// closedLoop returns the mean step time of the steady state: a share of the
// steps carries 8192 positions of prompts beside the decodes, so that prompts
// keep pace with outputs.
func closedLoop(m sim.CostModel, p point) float64 {
	const budget = 8192
	b := sim.Batch{Decodes: p.clients, Positions: p.clients, Context: p.clients * (p.prompt + p.output/2)}
	decode := m.StepTime(b).Seconds()
	for range max(1, budget/p.prompt) {
		b.Prefills = append(b.Prefills, sim.Chunk{Tokens: min(p.prompt, budget), Last: true})
	}
	share := min(1, float64(p.clients)*float64(p.prompt)/float64(p.output)/budget)
	return (1-share)*decode + share*m.StepTime(b).Seconds()
}

func readPoints(t *testing.T, backend, version, path string) (points []point) {
	t.Helper()
	for r := range readTable(t, "measured/endtoend/closed_loop_ttft_tpot.csv.gz") {
		if r.text("backend") != backend || r.text("backend_version") != version || r.text("model_path") != path ||
			r.text("system") != "h100_sxm" || r.text("precision") != "" || r.text("mode") != "agg" {
			continue
		}
		points = append(points, point{int(r.number("tp_size")), int(r.number("batch_size")),
			int(r.number("isl")), int(r.number("osl")), r.number("silicon_tpot_ms")})
	}
	return points
}
