package scheduler_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

// The work of every step of the policies after published engines, worked by
// hand. Steps take 1 ms, and blocks hold 4 tokens. Engines that do not reserve
// memory want a free block for every decode.
func TestEngineSteps(t *testing.T) {
	request := func(id int, arrival float64, prompt, output int) sim.Request {
		return sim.Request{ID: id, Arrival: at(arrival), Prompt: prompt, Output: output}
	}
	for _, c := range []struct {
		name     string
		replica  sim.Replica
		requests []sim.Request
		want     []string
	}{
		{"vllm v0: a free block for every decode",
			// Both prompts have room for two more tokens, but no block is
			// free: request 2 goes, comes back with 6 + 1 tokens into the
			// blocks it left, goes again, and ends with its third prompt.
			sim.Replica{Scheduler: &scheduler.VLLM0{Watermark: -1}, KVBlocks: 4},
			[]sim.Request{request(1, 0, 6, 3), request(2, 0, 6, 3)},
			[]string{"0 [6 6]", "1 []", "0 [7]", "1 []", "0 [8]"}},
		{"vllm v0: the watermark holds the second prompt back",
			// 0.3 of 10 blocks stay free: 2 + 5 + 3. Request 1 takes its third
			// block and ends; then 5 of 10 leave enough.
			sim.Replica{Scheduler: &scheduler.VLLM0{Watermark: 0.3}, KVBlocks: 10},
			[]sim.Request{request(1, 0, 9, 3), request(2, 0, 20, 1)},
			[]string{"0 [9]", "1 []", "1 []", "0 [20]"}},
		{"vllm v0: a prompt waits longer than 2.5 prompt steps",
			// The prompt step took 1 ms. At 4 ms request 2 has waited 2.5 ms,
			// which is not longer; at 5 ms it has.
			sim.Replica{Scheduler: &scheduler.VLLM0{DelayFactor: 2.5}},
			[]sim.Request{request(1, 0, 4, 6), request(2, 1.5, 5, 1)},
			[]string{"0 [4]", "1 []", "1 []", "1 []", "1 []", "0 [5]", "1 []"}},
		{"vllm v0 chunked: a prompt in progress wants a block too",
			// 1 + 5 of 7 blocks. At 1 ms the decode takes the last one, and
			// the prompt of 18, whose last block is half full, evicts itself.
			// It comes back, goes at 3 ms for the decode, and comes back.
			sim.Replica{Scheduler: &scheduler.VLLM0Chunked{Watermark: -1}, KVBlocks: 7, MaxBatchTokens: 8},
			[]sim.Request{request(1, 0, 4, 5), request(2, 0, 18, 1)},
			[]string{"0 [4 4]", "1 []", "1 [7]", "1 []", "1 [7]", "0 [8]", "0 [3]"}},
		{"vllm v0 chunked: who got nothing is first in the next step",
			// Slots of 2. At 1 ms the prompt has 2, request 2 decodes, request
			// 3, a decode row too, joins. At 2 ms the prompt is the only one,
			// has a slot of 4 and stands in front of request 3.
			sim.Replica{Scheduler: &scheduler.VLLM0Chunked{PartialPrefills: 2, LongPrefills: 2}, MaxBatchTokens: 4, MaxModelLen: 50},
			[]sim.Request{request(1, 0, 12, 1), request(2, 0, 2, 4), request(3, 0.5, 1, 4)},
			[]string{"0 [2 2]", "2 [2]", "1 [3]", "2 [2]", "1 [3]", "1 []"}},
		{"vllm v0 chunked: chunks of whole blocks",
			// 10 + 4 of 15: what is left is not a block.
			sim.Replica{Scheduler: &scheduler.VLLM0Chunked{WholeBlocks: true}, MaxBatchTokens: 15},
			[]sim.Request{request(1, 0, 10, 1), request(2, 0, 10, 1)},
			[]string{"0 [10 4]", "0 [6]"}},
		{"sarathi: decodes, prompts in progress, new prompts",
			sim.Replica{Scheduler: &scheduler.Sarathi{}, MaxBatchTokens: 16},
			[]sim.Request{request(1, 0, 5, 4), request(2, 0.5, 20, 1), request(3, 0.5, 30, 1)},
			[]string{"0 [5]", "1 [15]", "1 [5 10]", "1 [15]", "0 [5]"}},
		{"sarathi: who arrived last is preempted, though admitted first",
			// The shorter prompt goes first, but arrived later. At 2 ms one
			// block is free: request 1 takes it for position 5, request 2 goes
			// and comes back in the same pass into the block it left, with 3
			// + 1 tokens.
			sim.Replica{Scheduler: &scheduler.Sarathi{Watermark: -1}, MaxBatchTokens: 20, KVBlocks: 3,
				Order: sim.OrderFunc(scheduler.ByPrompt), MaxSeqs: 2},
			[]sim.Request{request(0, 0, 1, 1), request(1, 0.2, 4, 2), request(2, 0.5, 3, 4)},
			[]string{"1 []", "0 [3 4]", "1 [4]", "1 []", "1 []"}},
		{"alternating: a chunk and a decode in turns",
			// At 1 ms it is the turn of the decode; at 4 ms of the prompt, and
			// a turn for prompts does not start a second one.
			sim.Replica{Scheduler: &scheduler.Alternating{Chunk: 8}},
			[]sim.Request{request(1, 0, 4, 4), request(2, 0.5, 10, 2), request(3, 0.5, 5, 1)},
			[]string{"0 [4]", "1 []", "0 [8]", "1 []", "0 [2]", "2 []", "0 [5]"}},
		{"alternating: prompts go on when nobody decodes",
			sim.Replica{Scheduler: &scheduler.Alternating{}, MaxBatchTokens: 8},
			[]sim.Request{request(1, 0, 20, 1)},
			[]string{"0 [8]", "0 [8]", "0 [4]"}},
		{"orca: whole prompts beside decodes, memory for the longest output",
			// 4 + 9 - 1 positions are 3 of 8 blocks.
			sim.Replica{Scheduler: scheduler.Orca{}, KVBlocks: 8},
			[]sim.Request{{ID: 1, Prompt: 4, Output: 2, MaxOutput: 9}, {ID: 2, Prompt: 4, Output: 4, MaxOutput: 9}, {ID: 3, Prompt: 7, Output: 1, MaxOutput: 6}},
			[]string{"0 [4 4]", "2 []", "1 [7]", "1 []"}},
		{"orca: memory for the length of the model",
			// 13 positions are 4 of 8 blocks, whatever the request asks for.
			sim.Replica{Scheduler: scheduler.Orca{ModelLen: true}, KVBlocks: 8, MaxModelLen: 13},
			[]sim.Request{{ID: 1, Prompt: 4, Output: 2, MaxOutput: 2}, {ID: 2, Prompt: 4, Output: 3, MaxOutput: 3}, {ID: 3, Prompt: 7, Output: 1, MaxOutput: 1}},
			[]string{"0 [4 4]", "2 []", "1 [7]"}},
		{"request batch: memory for the length of the model",
			sim.Replica{Scheduler: &scheduler.RequestBatch{ModelLen: true}, KVBlocks: 8, MaxModelLen: 13},
			[]sim.Request{{ID: 1, Prompt: 4, Output: 1, MaxOutput: 1}, {ID: 2, Prompt: 4, Output: 1, MaxOutput: 1}, {ID: 3, Prompt: 7, Output: 1, MaxOutput: 1}},
			[]string{"0 [4 4]", "0 [7]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.replica.BlockTokens = 4
			switch c.replica.Scheduler.(type) {
			case scheduler.Orca, *scheduler.RequestBatch:
			default:
				c.replica.Growth = sim.TouchedGrowth
			}
			got, res := composition(t, c.replica, c.requests...)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("steps (-want +got):\n%s", d)
			}
			if res.Completed != int64(len(c.requests)) {
				t.Errorf("%d of %d completed", res.Completed, len(c.requests))
			}
		})
	}
}

// What the policies after engines cannot serve they reject, and serve the
// rest: 10 blocks of 16 tokens.
func TestEngineRejections(t *testing.T) {
	for _, c := range []struct {
		name      string
		scheduler sim.Scheduler
		budget    int
		faulty    sim.Request
		want      string
	}{
		{"vllm v0, budget", &scheduler.VLLM0{}, 32, sim.Request{Prompt: 33, Output: 1}, scheduler.RejectBatchTokens},
		// 9 of 10 blocks leave one of two free.
		{"vllm v0, watermark", &scheduler.VLLM0{Watermark: 0.2}, 0, sim.Request{Prompt: 129, Output: 1}, sim.RejectKVCapacity},
		{"vllm v0 chunked, watermark", &scheduler.VLLM0Chunked{Watermark: 0.2}, 32, sim.Request{Prompt: 129, Output: 1}, sim.RejectKVCapacity},
		{"sarathi, watermark", &scheduler.Sarathi{Watermark: 0.2}, 32, sim.Request{Prompt: 129, Output: 1}, sim.RejectKVCapacity},
		{"alternating, watermark", &scheduler.Alternating{Watermark: 0.2}, 32, sim.Request{Prompt: 129, Output: 1}, sim.RejectKVCapacity},
		// 8 blocks are admitted, 10 are full after 160 tokens. Then it would
		// have to come back with all of them.
		{"vllm v0, grown", &scheduler.VLLM0{Watermark: 0.2}, 0, sim.Request{Prompt: 128, Output: 40}, sim.RejectOutOfKV},
		{"orca, no bound", scheduler.Orca{}, 0, sim.Request{Prompt: 5, Output: 1}, scheduler.RejectUnboundedOutput},
		{"orca, budget", scheduler.Orca{}, 32, sim.Request{Prompt: 33, Output: 1, MaxOutput: 3}, scheduler.RejectBatchTokens},
	} {
		t.Run(c.name, func(t *testing.T) {
			reasons := map[int]string{}
			c.faulty.ID = 2
			_, err := sim.Run(context.Background(), sim.Config{
				Replicas: []sim.Replica{{Scheduler: c.scheduler, CostModel: flat, KVBlocks: 10, MaxBatchTokens: c.budget, Growth: sim.TouchedGrowth}},
				Check:    true,
				Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
					if e.Kind == sim.Finish || e.Kind == sim.Reject {
						reasons[e.ID] = e.Reason
					}
				})},
			}, requests(sim.Request{ID: 1, Prompt: 5, Output: 9, MaxOutput: 3}, c.faulty, sim.Request{ID: 3, Prompt: 5, Output: 9, MaxOutput: 60}))
			if d := cmp.Diff(map[int]string{1: "length", 2: c.want, 3: "stop"}, reasons); err != nil || d != "" {
				t.Errorf("error %v, reasons (-want +got):\n%s", err, d)
			}
		})
	}
}

// With Priority the head of the queue takes the place of one worse request, the
// last of two equal ones, and is admitted in the pass after. Request 3 then
// computes its prompt and the token it had again, at 3 ms.
func TestVLLM0Priority(t *testing.T) {
	for _, c := range []struct {
		priority bool
		want     []float64 // instants at which requests 1 to 3 end, in ms
	}{
		{false, []float64{3, 4, 3}},
		{true, []float64{5, 3, 5}},
	} {
		ends := make([]float64, 3)
		_, err := sim.Run(context.Background(), sim.Config{
			Replicas: []sim.Replica{{
				Scheduler: &scheduler.VLLM0{Priority: c.priority}, CostModel: flat, MaxSeqs: 2,
				Order: sim.OrderFunc(scheduler.ByPriority), Growth: sim.TouchedGrowth,
			}},
			Classes: []sim.Class{{Name: "chat"}, {Name: "batch", Priority: 1}},
			Check:   true,
			Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
				if e.Kind == sim.Finish {
					ends[e.ID-1] = e.Time.Milliseconds()
				}
			})},
		}, requests(sim.Request{ID: 1, Prompt: 4, Output: 3, Class: 1}, sim.Request{ID: 3, Prompt: 4, Output: 3, Class: 1},
			sim.Request{ID: 2, Arrival: at(0.5), Prompt: 5, Output: 1}))
		if d := cmp.Diff(c.want, ends); err != nil || d != "" {
			t.Errorf("Priority %v: error %v, ends (-want +got):\n%s", c.priority, err, d)
		}
	}
}

// counted counts the passes of a scheduler.
type counted struct {
	sim.Scheduler
	passes *int
}

func (c counted) Schedule(v sim.View, p *sim.Plan) {
	*c.passes++
	c.Scheduler.Schedule(v, p)
}

// Four requests decode a thousand steps while a fifth waits for a slot: the
// engine repeats the step without asking.
func TestDecodesAreHeld(t *testing.T) {
	for _, c := range policies {
		if c.name == "VLLM0 delay" {
			continue // time decides while somebody waits
		}
		t.Run(c.name, func(t *testing.T) {
			passes := 0
			rs := make([]sim.Request, 5)
			for i := range rs {
				rs[i] = sim.Request{ID: i, Prompt: 10, Output: 1000, MaxOutput: 1000}
			}
			res, err := sim.Run(context.Background(), sim.Config{Replicas: []sim.Replica{{
				Scheduler: counted{c.fresh(), &passes}, CostModel: flat, MaxSeqs: 4, MaxBatchTokens: 64, KVBlocks: 5000, MaxModelLen: 2000, Growth: sim.TouchedGrowth,
			}}}, requests(rs...))
			if err != nil || res.Completed != 5 {
				t.Fatalf("completed %d, error %v", res.Completed, err)
			}
			if passes > 30 {
				t.Errorf("%d passes for %d steps", passes, res.Steps)
			}
		})
	}
}
