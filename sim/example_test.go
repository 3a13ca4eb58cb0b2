package sim_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"servesim/scheduler"
	"servesim/sim"
)

// ofRequests yields a fixed workload.
func ofRequests(rs ...sim.Request) func(func(sim.Request, error) bool) {
	return func(yield func(sim.Request, error) bool) {
		for _, r := range rs {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// perPrompt is a step of 10 ms and 0.1 ms per prompt token.
var perPrompt = sim.CostFunc(func(b sim.Batch) time.Duration {
	return 10*time.Millisecond + time.Duration(b.PrefillTokens())*time.Millisecond/10
})

// One replica serves two requests that arrive together and one that comes
// while their prompts are computed.
func ExampleRun() {
	finished := sim.ObserverFunc(func(e sim.Event) {
		if e.Kind == sim.Finish {
			fmt.Printf("request %d: first token after %v, last after %v\n",
				e.ID, e.Timeline.FirstToken.Sub(e.Timeline.Arrival), e.Time.Sub(e.Timeline.Arrival))
		}
	})
	result, err := sim.Run(context.Background(), sim.Config{
		Replicas:  []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: perPrompt, KVBlocks: 1000, MaxBatchTokens: 512}},
		Observers: []sim.Observer{finished},
	}, ofRequests(
		sim.Request{ID: 1, Prompt: 100, Output: 3},
		sim.Request{ID: 2, Prompt: 100, Output: 6},
		sim.Request{ID: 3, Arrival: sim.Time(5 * time.Millisecond), Prompt: 200, Output: 2},
	))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d of %d completed, %d tokens in %d steps, %v\n", result.Completed, result.Arrived, result.Tokens, result.Steps, result.End)
	// Output:
	// request 1: first token after 30ms, last after 70ms
	// request 3: first token after 55ms, last after 65ms
	// request 2: first token after 30ms, last after 100ms
	// 3 of 3 completed, 11 tokens in 6 steps, 100ms
}

// A Stepper shows a scheduler at work, pass by pass. Four tokens fit into a
// step, so the prompt of request 2 is computed beside the decode of request 1.
func ExampleNewStepper() {
	stepper, err := sim.NewStepper(sim.Config{Replicas: []sim.Replica{{
		Scheduler: scheduler.ChunkedPrefill{}, CostModel: perPrompt, KVBlocks: 10, BlockTokens: 4, MaxBatchTokens: 4,
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	stepper.Submit(0, sim.Request{ID: 1, Prompt: 3, Output: 3})
	stepper.Submit(0, sim.Request{ID: 2, Prompt: 6, Output: 1})
	for now := sim.Time(0); stepper.Waiting().Len()+stepper.Running().Len() > 0; {
		_, took, err := stepper.Plan(now)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v: %v, %d blocks free\n", now, stepper.Scheduled(), stepper.Free())
		now = now.Add(took)
		if err := stepper.Complete(now, nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// 0s: [{1 3} {2 1}], 7 blocks free
	// 10.4ms: [{1 1} {2 3}], 7 blocks free
	// 20.7ms: [{1 1} {2 2}], 6 blocks free
}

// A scheduler of one's own: the shortest prompt first, one at a time.
func ExampleSchedulerFunc() {
	shortest := sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
		p.AddDecodes()
		if v.Running.Len() > 0 || v.Waiting.Len() == 0 {
			return
		}
		s := slices.MinFunc(slices.Collect(v.Waiting.All()), func(a, b *sim.Sequence) int { return a.Prompt() - b.Prompt() })
		p.Add(s, s.Pending())
	})
	_, err := sim.Run(context.Background(), sim.Config{
		Replicas: []sim.Replica{{Scheduler: shortest, CostModel: perPrompt}},
		Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == sim.FirstToken {
				fmt.Println("prompt of", e.Prompt, "answered at", e.Time)
			}
		})},
	}, ofRequests(
		sim.Request{ID: 1, Prompt: 300, Output: 2},
		sim.Request{ID: 2, Prompt: 100, Output: 2},
		sim.Request{ID: 3, Prompt: 200, Output: 2},
	))
	fmt.Println(err)
	// Output:
	// prompt of 100 answered at 20ms
	// prompt of 200 answered at 60ms
	// prompt of 300 answered at 110ms
	// <nil>
}

// A cost model is a function of plain data: it can be asked without an engine.
func ExampleCostFunc() {
	batch := sim.Batch{Decodes: 8, Positions: 8, Context: 4000, Prefills: []sim.Chunk{{Tokens: 120, Context: 0, Last: true}}}
	fmt.Println(perPrompt.StepTime(batch), batch.Samples())
	// Output:
	// 22ms 9
}

// Round is where a cost model leaves floating point.
func ExampleRound() {
	fmt.Println(sim.Round(0.0123), sim.Round(1.5e-9), sim.Round(math.NaN()) == sim.InvalidDuration)
	// Output:
	// 12.3ms 2ns true
}

// Token times are kept where the configuration asks for them.
func ExampleEvent_TokenTimes() {
	_, err := sim.Run(context.Background(), sim.Config{
		TokenTimes: true,
		Replicas:   []sim.Replica{{Scheduler: scheduler.Continuous{}, CostModel: perPrompt}},
		Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == sim.Finish {
				fmt.Println(e.ID, e.TokenTimes(nil))
			}
		})},
	}, ofRequests(
		sim.Request{ID: 1, Prompt: 100, Output: 4},
		sim.Request{ID: 2, Arrival: sim.Time(25 * time.Millisecond), Prompt: 400, Output: 1},
	))
	fmt.Println(err)
	// Output:
	// 2 [80ms]
	// 1 [20ms 30ms 90ms 100ms]
	// <nil>
}

// A session: the client reads the answer for a second and asks again.
func ExampleConfig_followUp() {
	turns := 0
	result, err := sim.Run(context.Background(), sim.Config{
		Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: perPrompt}},
		FollowUp: func(c sim.Completion) []sim.Request {
			if turns++; turns == 3 {
				return nil
			}
			next := c.Request
			next.Prompt += c.Output + 50 // the answer and a new question
			next.Arrival = c.End.Add(time.Second)
			return []sim.Request{next}
		},
	}, ofRequests(sim.Request{ID: 7, Prompt: 100, Output: 10}))
	fmt.Println(result.Completed, result.PrefillTokens, result.End, err)
	// Output:
	// 3 480 2.348s <nil>
}

// An admission policy refuses what would wait too long.
func ExampleAdmission() {
	result, err := sim.Run(context.Background(), sim.Config{
		Replicas:  []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: perPrompt, MaxSeqs: 1}},
		Admission: queueLimit(2),
	}, ofRequests(
		sim.Request{ID: 1, Prompt: 10, Output: 5},
		sim.Request{ID: 2, Prompt: 10, Output: 5},
		sim.Request{ID: 3, Prompt: 10, Output: 5},
		sim.Request{ID: 4, Prompt: 10, Output: 5},
	))
	fmt.Println(result.Completed, "completed,", result.Rejected, "rejected", err)
	// Output:
	// 2 completed, 2 rejected <nil>
}

// queueLimit turns requests away when that many wait.
type queueLimit int

func (n queueLimit) Admit(_ sim.Time, _ sim.Query, loads []sim.Load) sim.Decision {
	if loads[0].Waiting >= int(n) {
		return sim.Decision{Reject: "busy"}
	}
	return sim.Decision{}
}
