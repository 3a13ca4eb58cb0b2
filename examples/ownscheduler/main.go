// Ownscheduler brings a scheduler, a cost model and an arrival process of its
// own to the engine, and compares the scheduler with a shipped one.
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"time"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/metrics"
	"servesim/workload"
)

// shortestFirst decodes everything and admits, of the prompts that fit beside
// it, the shortest one first. Long prompts wait: the report shows who pays.
type shortestFirst struct{}

func (shortestFirst) Schedule(v sim.View, p *sim.Plan) {
	for !p.AddDecodes() {
		p.Preempt(v.Running.Last())
	}
	for {
		var shortest *sim.Sequence
		for s := range v.Waiting.All() {
			if shortest == nil || s.Pending() < shortest.Pending() {
				shortest = s
			}
		}
		if shortest == nil || !p.Add(shortest, shortest.Pending()) {
			return
		}
	}
}

// stepTime is 6 ms, and more for prompts than for decodes.
func stepTime(b sim.Batch) time.Duration {
	return 6*time.Millisecond + time.Duration(b.Decodes)*20*time.Microsecond + time.Duration(b.PrefillTokens())*25*time.Microsecond
}

// heavyTail draws Pareto gaps with mean 28 ms and infinite variance: calm,
// and then a rush.
func heavyTail(r *rand.Rand) float64 { return 0.014 / math.Sqrt(1-r.Float64()) }

func main() {
	load := workload.Workload{
		Seed:     1,
		Arrivals: workload.Limit{Arrivals: workload.Gaps(heavyTail), Count: 20_000},
		Mix: []workload.Share{
			{Class: sim.Class{Name: "chat", TTFT: time.Second}, Weight: 0.9, Lengths: workload.Tokens{Prompt: 300, Output: 60}},
			{Class: sim.Class{Name: "document", TTFT: 5 * time.Second}, Weight: 0.1, Lengths: workload.Tokens{Prompt: 4000, Output: 120}},
		},
	}
	for _, s := range []sim.Scheduler{scheduler.Continuous{}, shortestFirst{}} {
		cfg := sim.Config{Classes: load.Classes()}
		cfg.Replicas = []sim.Replica{{Scheduler: s, CostModel: sim.CostFunc(stepTime), KVBlocks: 8000, MaxSeqs: 64, MaxBatchTokens: 8192}}
		report, err := metrics.Run(context.Background(), cfg, metrics.Options{}, load.Requests())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%T, %d preemptions\n", s, report.Preemptions)
		for _, c := range report.Classes {
			fmt.Printf("  %-9s TTFT p50 %v ms, p95 %v ms; in time %.1f %%\n", c.Class, c.TTFT.P50, c.TTFT.P95, 100*float64(c.Attainment))
		}
	}
}
