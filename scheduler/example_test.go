package scheduler_test

import (
	"context"
	"fmt"
	"time"

	"servesim/scheduler"
	"servesim/sim"
)

// tokens prints when the tokens of each request come. A step takes 10 ms and
// 0.1 ms per prompt token; at most two sequences run.
func tokens(r sim.Replica) {
	r.CostModel, r.MaxSeqs = promptCost, 2
	_, err := sim.Run(context.Background(), sim.Config{
		TokenTimes: true, Replicas: []sim.Replica{r},
		Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == sim.Finish {
				fmt.Println(e.ID, e.TokenTimes(nil))
			}
		})},
	}, requests(
		sim.Request{ID: 1, Prompt: 100, Output: 2, MaxOutput: 5},
		sim.Request{ID: 2, Prompt: 100, Output: 5, MaxOutput: 5},
		sim.Request{ID: 3, Arrival: sim.Time(time.Millisecond), Prompt: 100, Output: 2, MaxOutput: 5},
	))
	if err != nil {
		fmt.Println(err)
	}
}

// Request 3 waits until the batch of requests 1 and 2 has ended.
func ExampleRequestBatch() {
	tokens(sim.Replica{Scheduler: &scheduler.RequestBatch{}})
	// Output:
	// 1 [30ms 40ms]
	// 2 [30ms 40ms 50ms 60ms 70ms]
	// 3 [90ms 100ms]
}

// Request 3 takes the place of request 1 at once. Its prompt is a step of its
// own, so request 2 waits 30 ms for its third token.
func ExampleContinuous() {
	tokens(sim.Replica{Scheduler: scheduler.Continuous{}})
	// Output:
	// 1 [30ms 40ms]
	// 3 [60ms 70ms]
	// 2 [30ms 40ms 70ms 80ms 90ms]
}

// With memory reserved for the longest output, here 7 blocks a request, two
// requests do not fit into 13 blocks.
func ExampleContinuous_orca() {
	tokens(sim.Replica{Scheduler: scheduler.Continuous{ReserveMax: true}, KVBlocks: 13})
	// Output:
	// 1 [20ms 30ms]
	// 2 [50ms 60ms 70ms 80ms 90ms]
	// 3 [110ms 120ms]
}

// With a budget of 61 positions a step, prompts are computed in chunks beside
// the decodes, and no gap is longer than a step of 61 positions, 16.1 ms.
func ExampleChunkedPrefill() {
	tokens(sim.Replica{Scheduler: scheduler.ChunkedPrefill{}, MaxBatchTokens: 61})
	// Output:
	// 1 [32.2ms 48.2ms]
	// 3 [80ms 90ms]
	// 2 [64.3ms 80ms 90ms 100ms 110ms]
}

// As in the engine, a step holds prompts or decodes, and 3 of 300 blocks stay
// free of prompts.
func ExampleVLLM0() {
	tokens(sim.Replica{Scheduler: &scheduler.VLLM0{}, KVBlocks: 300, Growth: sim.TouchedGrowth})
	// Output:
	// 1 [30ms 40ms]
	// 3 [60ms 70ms]
	// 2 [30ms 40ms 70ms 80ms 90ms]
}

// Two prompts share the 62 positions of a step evenly and get their first tokens
// together.
func ExampleVLLM0Chunked() {
	tokens(sim.Replica{Scheduler: &scheduler.VLLM0Chunked{PartialPrefills: 2, LongPrefills: 2}, MaxBatchTokens: 62, Growth: sim.TouchedGrowth})
	// Output:
	// 1 [60ms 70ms]
	// 2 [60ms 70ms 86.1ms 100ms 110ms]
	// 3 [100ms 110ms]
}

// Decodes are part of the chunk of 61 positions and never pause.
func ExampleSarathi() {
	tokens(sim.Replica{Scheduler: &scheduler.Sarathi{}, MaxBatchTokens: 61, Growth: sim.TouchedGrowth})
	// Output:
	// 1 [32.2ms 48.2ms]
	// 3 [80ms 90ms]
	// 2 [64.3ms 80ms 90ms 100ms 110ms]
}

// After each chunk of a prompt, decodes have a step of their own.
func ExampleAlternating() {
	tokens(sim.Replica{Scheduler: &scheduler.Alternating{Chunk: 61}, Growth: sim.TouchedGrowth})
	// Output:
	// 1 [30ms 40ms]
	// 3 [120ms 130ms]
	// 2 [70ms 80ms 106.1ms 130ms 140ms]
}

// Request 3 takes the place of request 1 at once, in a step with a decode of
// request 2.
func ExampleOrca() {
	tokens(sim.Replica{Scheduler: scheduler.Orca{}, KVBlocks: 14})
	// Output:
	// 1 [30ms 40ms]
	// 3 [60ms 70ms]
	// 2 [30ms 40ms 60ms 70ms 80ms]
}

// Running requests get what they miss, in order of admission.
func ExampleVLLM1() {
	tokens(sim.Replica{Scheduler: scheduler.VLLM1{}, MaxBatchTokens: 61})
	// Output:
	// 1 [32.2ms 48.2ms]
	// 3 [80ms 90ms]
	// 2 [64.3ms 80ms 90ms 100ms 110ms]
}

// Three replicas, one busy.
func ExampleRoundRobin() {
	loads := []sim.Load{{Running: 9}, {Running: 2}, {Waiting: 1, Running: 2}}
	r := &scheduler.RoundRobin{}
	for range 4 {
		fmt.Print(r.Route(0, sim.Query{}, loads), " ")
	}
	// Output:
	// 0 1 2 0
}

// The replica with the fewest requests gets the next one.
func ExampleLeastLoaded() {
	loads := []sim.Load{{Running: 9}, {Running: 3, PendingPrompt: 4000}, {Waiting: 1, Running: 2, PendingPrompt: 500}}
	fmt.Println(scheduler.LeastLoaded{}.Route(0, sim.Query{}, loads))
	// Output:
	// 2
}

// The lighter of two drawn replicas; the seed decides which are drawn.
func ExampleTwoChoices() {
	loads := []sim.Load{{Running: 9}, {Running: 3}, {Running: 3}}
	count := make([]int, len(loads))
	r := &scheduler.TwoChoices{Seed: 1}
	for range 1000 {
		count[r.Route(0, sim.Query{}, loads)]++
	}
	fmt.Println("the busiest replica gets", count[0], "of 1000")
	// Output:
	// the busiest replica gets 0 of 1000
}

// admitted prints the order in which four requests are admitted to one slot.
func admitted(o sim.Order) {
	_, err := sim.Run(context.Background(), sim.Config{
		Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: promptCost, MaxSeqs: 1, Order: o}},
		Classes:  []sim.Class{{Name: "batch", Priority: 1}, {Name: "chat", Priority: 0}},
		Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == sim.Admit {
				fmt.Print(e.ID, " ")
			}
		})},
	}, requests(
		sim.Request{ID: 1, Prompt: 400, Output: 2, Hint: 30, Deadline: sim.Time(3 * time.Second)},
		sim.Request{ID: 2, Prompt: 100, Output: 2, Deadline: sim.Time(2 * time.Second)},
		sim.Request{ID: 3, Prompt: 300, Output: 2, Class: 1, Hint: 20},
		sim.Request{ID: 4, Prompt: 200, Output: 2, Class: 1, Hint: 10, Deadline: sim.Time(time.Second)},
	))
	if err != nil {
		fmt.Println(err)
	}
}

func ExampleByArrival() {
	admitted(sim.OrderFunc(scheduler.ByArrival))
	// Output:
	// 1 2 3 4
}

func ExampleByPriority() {
	admitted(sim.OrderFunc(scheduler.ByPriority))
	// Output:
	// 3 4 1 2
}

func ExampleByPrompt() {
	admitted(sim.OrderFunc(scheduler.ByPrompt))
	// Output:
	// 2 4 3 1
}

// Requests without a prediction come last.
func ExampleByHint() {
	admitted(sim.OrderFunc(scheduler.ByHint))
	// Output:
	// 4 3 1 2
}

// Requests without a deadline come last.
func ExampleByDeadline() {
	admitted(sim.OrderFunc(scheduler.ByDeadline))
	// Output:
	// 4 2 1 3
}
