package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

// flat is a cost model whose steps all take 1 ms.
var flat = sim.CostFunc(func(sim.Batch) time.Duration { return ms })

// at is an instant, t ms after the start.
func at(t float64) sim.Time { return sim.Time(t * float64(ms)) }

// composition runs rs and returns what each step computes: decodes and prompt
// chunks, then padded rows and positions if there are any.
func composition(t *testing.T, r sim.Replica, rs ...sim.Request) (steps []string, res sim.Result) {
	t.Helper()
	r.CostModel = flat
	res, err := sim.Run(context.Background(), sim.Config{
		Replicas: []sim.Replica{r}, Check: true,
		Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind != sim.StepEnd {
				return
			}
			chunks := []int{}
			for _, c := range e.Batch.Prefills {
				chunks = append(chunks, c.Tokens)
			}
			s := fmt.Sprint(e.Batch.Decodes, chunks)
			if p := e.Batch.Padding; p != (sim.Padding{}) {
				s += fmt.Sprintf(" pad %d+%d", p.Rows, p.PromptTokens)
			}
			steps = append(steps, s)
		})},
	}, requests(rs...))
	if err != nil {
		t.Fatal(err)
	}
	return steps, res
}

// The work of every step of each policy, worked by hand. Steps take 1 ms, so a
// request that arrives at 0.5 ms comes during the first one. Blocks hold 4
// tokens.
func TestSteps(t *testing.T) {
	request := func(id int, arrival float64, prompt, output, limit int) sim.Request {
		return sim.Request{ID: id, Arrival: at(arrival), Prompt: prompt, Output: output, MaxOutput: limit}
	}
	for _, c := range []struct {
		name     string
		replica  sim.Replica
		requests []sim.Request
		want     []string
	}{
		{"chunked: decodes first, then what the budget leaves",
			sim.Replica{Scheduler: scheduler.ChunkedPrefill{}, MaxBatchTokens: 8},
			[]sim.Request{request(1, 0, 8, 3, 0), request(2, 0, 20, 1, 0)},
			[]string{"0 [8]", "1 [7]", "1 [7]", "0 [6]"}},
		{"chunked: prompts in progress before new ones",
			sim.Replica{Scheduler: scheduler.ChunkedPrefill{}, MaxBatchTokens: 8},
			[]sim.Request{request(1, 0, 12, 1, 0), request(2, 0, 6, 1, 0)},
			[]string{"0 [8]", "0 [4 4]", "0 [2]"}},
		{"chunked: without a budget prompts are whole",
			sim.Replica{Scheduler: scheduler.ChunkedPrefill{}},
			[]sim.Request{request(1, 0, 8, 3, 0), request(2, 0.5, 100, 1, 0)},
			[]string{"0 [8]", "1 [100]", "1 []"}},
		{"chunked: admission takes blocks for the whole prompt",
			// Prompt 2 needs 5 of 6 blocks; request 1 has 2 until it ends.
			sim.Replica{Scheduler: scheduler.ChunkedPrefill{}, MaxBatchTokens: 8, KVBlocks: 6, BlockTokens: 4},
			[]sim.Request{request(1, 0, 5, 3, 0), request(2, 0, 20, 1, 0)},
			[]string{"0 [5]", "1 []", "1 []", "0 [8]", "0 [8]", "0 [4]"}},
		{"chunked: the youngest is preempted and nobody is admitted then",
			// 5 blocks. Both prompts fill 2; at 1 ms both want a third. Request 3
			// would fit, but stands behind request 2 until request 1 has gone.
			sim.Replica{Scheduler: scheduler.ChunkedPrefill{}, KVBlocks: 5, BlockTokens: 4},
			[]sim.Request{request(1, 0, 8, 6, 0), request(2, 0, 8, 3, 0), request(3, 0.5, 2, 1, 0)},
			[]string{"0 [8 8]", "1 []", "1 []", "1 []", "1 []", "1 []", "0 [9 2]", "1 []"}},
		{"chunked: a prompt in progress is preempted like any other",
			// 2 + 6 of 8 blocks. At 3 ms request 1 wants a third one: request 2
			// loses 10 positions and waits for 6 blocks, until request 1 has gone.
			sim.Replica{Scheduler: scheduler.ChunkedPrefill{}, MaxBatchTokens: 6, KVBlocks: 8, BlockTokens: 4},
			[]sim.Request{request(1, 0, 6, 6, 0), request(2, 0, 24, 1, 0)},
			[]string{"0 [6]", "1 [5]", "1 [5]", "1 []", "1 []", "1 []", "0 [6]", "0 [6]", "0 [6]", "0 [6]"}},
		{"continuous: prompts first, whole and alone",
			sim.Replica{Scheduler: scheduler.Continuous{}},
			[]sim.Request{request(1, 0, 8, 3, 0), request(2, 0.5, 9, 2, 0)},
			[]string{"0 [8]", "0 [9]", "2 []", "1 []"}},
		{"continuous: prompts are packed into the budget",
			sim.Replica{Scheduler: scheduler.Continuous{}, MaxBatchTokens: 10},
			[]sim.Request{request(1, 0, 4, 1, 0), request(2, 0, 5, 1, 0), request(3, 0, 4, 1, 0), request(4, 0, 1, 1, 0)},
			[]string{"0 [4 5]", "1 [4]"}},
		{"continuous: a budget below the batch serves the oldest",
			sim.Replica{Scheduler: scheduler.Continuous{}, MaxBatchTokens: 2},
			[]sim.Request{request(1, 0, 2, 3, 0), request(2, 0, 2, 3, 0), request(3, 0, 2, 3, 0)},
			[]string{"0 [2]", "0 [2]", "0 [2]", "2 []", "2 []", "1 []", "1 []"}},
		{"continuous: memory is taken as it is needed",
			// As in the chunked case; the resumed prompt is 8 + 1 positions.
			sim.Replica{Scheduler: scheduler.Continuous{}, KVBlocks: 5, BlockTokens: 4},
			[]sim.Request{request(1, 0, 8, 6, 0), request(2, 0, 8, 3, 0)},
			[]string{"0 [8 8]", "1 []", "1 []", "1 []", "1 []", "1 []", "0 [9]", "1 []"}},
		{"orca: memory for the longest output",
			// 4 + 9 - 1 positions are 3 of 8 blocks.
			sim.Replica{Scheduler: scheduler.Continuous{ReserveMax: true}, KVBlocks: 8, BlockTokens: 4},
			[]sim.Request{request(1, 0, 4, 2, 9), request(2, 0, 4, 4, 9), request(3, 0, 4, 1, 9)},
			[]string{"0 [4 4]", "2 []", "0 [4]", "1 []", "1 []"}},
		{"orca: the model bounds the longest output",
			// 12 - 4 tokens at most: 11 positions, 3 of 8 blocks.
			sim.Replica{Scheduler: scheduler.Continuous{ReserveMax: true}, KVBlocks: 8, BlockTokens: 4, MaxModelLen: 12},
			[]sim.Request{request(1, 0, 4, 2, 0), request(2, 0, 4, 2, 30), request(3, 0, 4, 1, 9)},
			[]string{"0 [4 4]", "2 []", "0 [4]"}},
		{"request batch: runs to its end",
			sim.Replica{Scheduler: &scheduler.RequestBatch{}, MaxSeqs: 2},
			[]sim.Request{request(1, 0, 4, 2, 0), request(2, 0, 5, 4, 0), request(3, 0, 6, 1, 0)},
			[]string{"0 [4 5]", "2 []", "1 []", "1 []", "0 [6]"}},
		{"request batch: a size of its own",
			sim.Replica{Scheduler: &scheduler.RequestBatch{Size: 1}, MaxSeqs: 2},
			[]sim.Request{request(1, 0, 4, 2, 0), request(2, 0, 5, 3, 0)},
			[]string{"0 [4]", "1 []", "0 [5]", "1 []", "1 []"}},
		{"request batch: limited by the budget",
			sim.Replica{Scheduler: &scheduler.RequestBatch{}, MaxBatchTokens: 8},
			[]sim.Request{request(1, 0, 4, 1, 0), request(2, 0, 5, 1, 0), request(3, 0, 3, 1, 0)},
			[]string{"0 [4]", "0 [5 3]"}},
		{"request batch: limited by memory for the longest outputs",
			// 4 + 9 - 1 positions are 3 blocks each; 6 are there.
			sim.Replica{Scheduler: &scheduler.RequestBatch{}, KVBlocks: 6, BlockTokens: 4},
			[]sim.Request{request(1, 0, 4, 1, 9), request(2, 0, 4, 1, 9), request(3, 0, 4, 1, 9)},
			[]string{"0 [4 4]", "0 [4]"}},
		{"request batch: padded",
			// 3 prompts as 3 × 7; rows for three until the last has ended.
			sim.Replica{Scheduler: &scheduler.RequestBatch{Padded: true}, MaxSeqs: 3},
			[]sim.Request{request(1, 0, 4, 1, 0), request(2, 0, 7, 3, 0), request(3, 0, 5, 2, 0), request(4, 0, 2, 2, 0)},
			[]string{"0 [4 7 5] pad 0+5", "2 [] pad 1+0", "1 [] pad 2+0", "0 [2]", "1 []"}},
	} {
		t.Run(c.name, func(t *testing.T) {
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

// A batch gives its memory back as each request ends, or as a whole. 10 blocks
// of 4: request 1 reserves 2 (5 + 2 - 1 positions), request 2 reserves 3 (8 + 5
// - 1).
func TestBatchMemory(t *testing.T) {
	for _, c := range []struct {
		atEnd bool
		want  []int // blocks free in each step
	}{
		{false, []int{5, 5, 7, 7, 7, 9}},
		{true, []int{5, 5, 5, 5, 5, 9}},
	} {
		var free []int
		_, err := sim.Run(context.Background(), sim.Config{
			Replicas: []sim.Replica{{Scheduler: &scheduler.RequestBatch{FreeAtEnd: c.atEnd}, CostModel: flat, KVBlocks: 10, BlockTokens: 4}},
			Check:    true,
			Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
				if e.Kind == sim.StepEnd {
					free = append(free, e.FreeBlocks)
				}
			})},
		}, requests(sim.Request{ID: 1, Prompt: 5, Output: 2, MaxOutput: 2}, sim.Request{ID: 2, Prompt: 8, Output: 5, MaxOutput: 5},
			sim.Request{ID: 3, Arrival: at(0.5), Prompt: 3, Output: 1, MaxOutput: 1}))
		if d := cmp.Diff(c.want, free); err != nil || d != "" {
			t.Errorf("FreeAtEnd %v: error %v, free blocks (-want +got):\n%s", c.atEnd, err, d)
		}
	}
}

// What a policy cannot serve it rejects, and serves the rest.
func TestRejections(t *testing.T) {
	for _, c := range []struct {
		name    string
		replica sim.Replica
		faulty  sim.Request
		want    string
	}{
		{"continuous", sim.Replica{Scheduler: scheduler.Continuous{}, MaxBatchTokens: 8}, sim.Request{Prompt: 9, Output: 1}, scheduler.RejectBatchTokens},
		{"batch", sim.Replica{Scheduler: &scheduler.RequestBatch{}, MaxBatchTokens: 8}, sim.Request{Prompt: 9, Output: 1}, scheduler.RejectBatchTokens},
		{"orca, no bound", sim.Replica{Scheduler: scheduler.Continuous{ReserveMax: true}, KVBlocks: 4}, sim.Request{Prompt: 5, Output: 1}, scheduler.RejectUnboundedOutput},
		{"batch, no bound", sim.Replica{Scheduler: &scheduler.RequestBatch{}, KVBlocks: 4}, sim.Request{Prompt: 5, Output: 1}, scheduler.RejectUnboundedOutput},
		// 5 + 61 - 1 positions need 5 blocks of 16.
		{"orca, too large", sim.Replica{Scheduler: scheduler.Continuous{ReserveMax: true}, KVBlocks: 4}, sim.Request{Prompt: 5, Output: 1, MaxOutput: 61}, sim.RejectKVCapacity},
		{"batch, too large", sim.Replica{Scheduler: &scheduler.RequestBatch{}, KVBlocks: 4}, sim.Request{Prompt: 5, Output: 1, MaxOutput: 61}, sim.RejectKVCapacity},
	} {
		t.Run(c.name, func(t *testing.T) {
			reasons := map[int]string{}
			c.replica.CostModel = flat
			c.faulty.ID = 2
			_, err := sim.Run(context.Background(), sim.Config{
				Replicas: []sim.Replica{c.replica}, Check: true,
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
