package servesim_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/metrics"
	"servesim/workload"
)

// The library example of the README.
func Example() {
	load := workload.Workload{
		Seed:     1,
		Arrivals: workload.Limit{Arrivals: workload.Gamma{Rate: 12, CV: 3}, Count: 2000},
		Mix:      []workload.Share{{Class: sim.Class{TTFT: time.Second}, Lengths: workload.Tokens{Prompt: 800, Output: 100}}},
	}
	cost := sim.CostFunc(func(b sim.Batch) time.Duration {
		return 6*time.Millisecond + time.Duration(b.PrefillTokens())*50*time.Microsecond
	})
	cfg := sim.Config{Classes: load.Classes()}
	cfg.Replicas = []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: cost, KVBlocks: 20_000, MaxBatchTokens: 1024}}
	report, err := metrics.Run(context.Background(), cfg, metrics.Options{}, load.Requests())
	if err != nil {
		panic(err)
	}
	fmt.Printf("TTFT p95 %.0f ms, %.1f %% in time\n", report.TTFT.P95, 100*report.Attainment)
	// Output:
	// TTFT p95 1017 ms, 94.5 % in time
}

// The README shows the code of Example, which compiles and runs.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(source), "func Example() {\n")
	body, _, ok := strings.Cut(body, "\t// Output:")
	if !ok || !strings.Contains(string(readme), "func main() {\n"+body+"}\n") {
		t.Errorf("README.md does not hold the body of Example:\n%s", body)
	}
}
