package scheduler_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/costmodel"
	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/simtest"
	"servesim/workload"
)

// teaching is the roofline of the cost lab: 16 requests evaluate 28 positions
// in the time of 16.
var teaching = costmodel.Roofline{
	SharedBytes: 4e6, ContextBytesPerRequest: 1e5, OpsPerPosition: 2e6,
	Bandwidth: 1e11, Rate: 1e12, Overhead: 20 * time.Microsecond,
}

// draftsOf returns the distinct numbers of drafts per decode that the steps of
// a run with n equal requests check while all decode and no prompt is there.
func draftsOf(t *testing.T, r sim.Replica, n, output int) (drafts []float64) {
	t.Helper()
	var rs []sim.Request
	for i := range n {
		rs = append(rs, sim.Request{ID: i, Prompt: 8, Output: output})
	}
	_, err := sim.Run(context.Background(), sim.Config{Replicas: []sim.Replica{r}, Check: true, Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
		if b := e.Batch; e.Kind == sim.StepEnd && b.Decodes == n && len(b.Prefills) == 0 {
			k := float64(b.Positions-b.Decodes) / float64(b.Decodes)
			if len(drafts) == 0 || drafts[len(drafts)-1] != k {
				drafts = append(drafts, k)
			}
		}
	})}}, requests(rs...))
	if err != nil {
		t.Fatal(err)
	}
	return drafts
}

// none rejects every draft, so that all requests stay in step.
var none = sim.DrafterFunc(func(sim.Query, int, int) int { return 0 })

func TestVariableDrafts(t *testing.T) {
	for _, c := range []struct {
		name     string
		cost     sim.CostModel
		accepted []float64
		requests int
		want     float64
	}{
		// 16 requests check 16, 32, 48 or 64 positions. One draft brings 24
		// tokens in 84 µs (285,714/s), three bring 28 in 148 µs (189,189/s);
		// none brings 16 in 76 µs (210,526/s), two 26 in 116 µs (224,138/s).
		{"the larger rate, not the larger step", teaching, []float64{0.5, 0.125, 0.125}, 16, 1},
		// Alone the three drafts cost nothing: 8 of 41 µs.
		{"one request", teaching, []float64{0.5, 0.125, 0.125}, 1, 3},
		// 128 decodes without drafts are 276 µs, with one 256 µs more: 463,768/s
		// fall to 192 in 532 µs, 360,902/s.
		{"compute-bound", teaching, []float64{0.5, 0.125, 0.125}, 128, 0},
		// A draft that is never right is not worth its equal price.
		{"smallest among equals", flat, []float64{0.5, 0, 0}, 4, 1},
		{"free drafts", flat, []float64{0.5, 0.1, 1e-9}, 4, 3},
		{"no more than is known", flat, []float64{0.5}, 4, 1},
		{"nothing is known", flat, nil, 4, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := draftsOf(t, sim.Replica{
				Scheduler: &scheduler.VariableDrafts{CostModel: c.cost, Accepted: c.accepted},
				CostModel: c.cost, Drafts: 3, Drafter: none,
			}, c.requests, 12)
			if d := cmp.Diff([]float64{c.want}, got); d != "" {
				t.Errorf("drafts of a decode (-want +got):\n%s", d)
			}
		})
	}
}

// Fewer drafts where others would go short. 4 decodes with 3 drafts are 16
// positions, with 2 they are 12. Prompts have 8 tokens, blocks 4.
func TestVariableDraftsLeaveRoom(t *testing.T) {
	for _, c := range []struct {
		name    string
		replica sim.Replica
		output  int
		want    []float64
	}{
		{"budget", sim.Replica{MaxBatchTokens: 15}, 12, []float64{2}},
		// The last prompt ends with one position, which counts as a decode: 4
		// and one draft of each other fill the budget. Then 4 are too many.
		{"budget for the decodes only", sim.Replica{MaxBatchTokens: 7}, 40, []float64{0.75, 0}},
		// At most 8 + 10 positions are computed before the last step, and 22
		// with it and 3 drafts: 6 blocks.
		{"memory", sim.Replica{KVBlocks: 4 * 6, BlockTokens: 4}, 12, []float64{3}},
		// With 8 + t positions there, 3 drafts reach into block 5 from t = 5
		// on, 2 from t = 6, 1 from t = 7. At t = 8 the decode itself needs it,
		// and the youngest goes.
		{"less memory", sim.Replica{KVBlocks: 4 * 4, BlockTokens: 4}, 12, []float64{3, 2, 1, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.replica.Scheduler = &scheduler.VariableDrafts{CostModel: flat, Accepted: []float64{0.5, 0.4, 0.3}}
			c.replica.CostModel, c.replica.Drafts, c.replica.Drafter = flat, 3, none
			if d := cmp.Diff(c.want, draftsOf(t, c.replica, 4, c.output)); d != "" {
				t.Errorf("drafts of a decode (-want +got):\n%s", d)
			}
		})
	}
}

// Beside a prompt the drafts pay for the time they add. Request 1 decodes while
// the prompt of request 2, 64 positions, is computed with a budget of 40: what
// goes beyond 21 positions costs 2 µs each, as the transfer takes 42 µs.
//
// Alone, with 3 drafts, the decode brings 2 tokens in 61 µs: λ = 0.0328 per µs.
// A draft beside a chunk is worth it above 0.0656 tokens, so the third, 0.05, is
// left out there. The largest U/T of the whole step would keep it: 2 tokens in
// 106 µs against 1.95 in 104.
func TestVariableDraftsBesidePrompts(t *testing.T) {
	accepted := []float64{0.6, 0.35, 0.05}
	var steps []string
	_, err := sim.Run(context.Background(), sim.Config{
		Replicas: []sim.Replica{{
			Scheduler: &scheduler.VariableDrafts{CostModel: teaching, Accepted: accepted},
			CostModel: teaching, Drafts: 3, Drafter: none, MaxBatchTokens: 40,
		}},
		Check: true,
		Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == sim.StepEnd {
				steps = append(steps, fmt.Sprint(e.Batch.Positions, e.Batch.PrefillTokens()))
			}
		})},
	}, requests(sim.Request{ID: 1, Prompt: 8, Output: 5}, sim.Request{ID: 2, Arrival: sim.Time(70 * time.Microsecond), Prompt: 64, Output: 1}))
	if err != nil {
		t.Fatal(err)
	}
	// The first decode starts at 61 µs, before request 2 arrives.
	if d := cmp.Diff([]string{"0 8", "4 0", "3 37", "3 27", "4 0"}, steps); d != "" {
		t.Errorf("positions of decodes and of prompts (-want +got):\n%s", d)
	}
}

// A draft does not take the block that an admitted prompt still needs: 4 blocks
// of 4. At 1 ms request 1 has 3 positions in one block, the prompt of 11 has 5 in
// two; a draft would take the last block, which the other 6 positions need.
func TestVariableDraftsLeaveBlocksToPrompts(t *testing.T) {
	var steps []string
	res, err := sim.Run(context.Background(), sim.Config{
		Replicas: []sim.Replica{{
			Scheduler: &scheduler.VariableDrafts{CostModel: flat, Accepted: []float64{0.5, 0.4, 0.3}},
			CostModel: flat, Drafts: 3, Drafter: none, MaxBatchTokens: 8, KVBlocks: 4, BlockTokens: 4,
		}},
		Check: true,
		Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == sim.StepEnd {
				steps = append(steps, fmt.Sprint(e.Batch.Positions, e.Batch.PrefillTokens()))
			}
		})},
	}, requests(sim.Request{ID: 1, Prompt: 3, Output: 4}, sim.Request{ID: 2, Prompt: 11, Output: 1}))
	if err != nil || res.Preemptions > 0 {
		t.Errorf("%d preemptions, %v", res.Preemptions, err)
	}
	if d := cmp.Diff([]string{"0 8", "1 6", "4 0", "4 0"}, steps); d != "" {
		t.Errorf("positions of decodes and of prompts (-want +got):\n%s", d)
	}
}

// Without a token budget every step is one of those that the policy has priced,
// prompts and contexts included.
func TestVariableDraftsPriceTheStep(t *testing.T) {
	asked := map[string]bool{}
	text := func(b sim.Batch) string { return fmt.Sprint(b.Decodes, b.Positions, b.Context, b.Prefills) }
	cost := sim.CostFunc(func(b sim.Batch) time.Duration {
		asked[text(b)] = true
		return ms + time.Duration(b.Positions)*ms/20
	})
	mixed, alone := 0, 0
	_, err := sim.Run(context.Background(), sim.Config{
		Replicas: []sim.Replica{{
			Scheduler: &scheduler.VariableDrafts{CostModel: cost, Accepted: []float64{0.8, 0.5, 0.2}},
			CostModel: flat, Drafts: 3, Drafter: workload.Acceptance{Conditional: []float64{0.7}}, MaxSeqs: 3, KVBlocks: 14, BlockTokens: 4,
		}},
		Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			b := e.Batch
			if e.Kind != sim.StepEnd || b.Decodes == 0 {
				return
			}
			if !asked[text(*b)] {
				t.Errorf("step %d was not priced: %s", e.Step, text(*b))
			}
			if len(b.Prefills) > 0 {
				mixed++
			} else {
				alone++
			}
			clear(asked)
		})},
	}, requests(
		sim.Request{ID: 1, Prompt: 8, Output: 9}, sim.Request{ID: 2, Prompt: 5, Output: 12}, sim.Request{ID: 3, Arrival: at(0.5), Prompt: 13, Output: 3},
		sim.Request{ID: 4, Arrival: at(0.6), Prompt: 7, Output: 9}, sim.Request{ID: 5, Arrival: at(0.7), Prompt: 9, Output: 9},
		sim.Request{ID: 6, Arrival: at(2.5), Prompt: 21, Output: 4}, sim.Request{ID: 7, Arrival: at(3.5), Prompt: 3, Output: 4},
	))
	if err != nil || mixed < 3 || alone < 3 {
		t.Errorf("%d steps with prompts, %d without, %v", mixed, alone, err)
	}
}

// A prompt that waits for memory is no part of the step: 16 positions are 4
// blocks of 6, and request 1 has 3 at least.
func TestVariableDraftsBesideWaitingPrompt(t *testing.T) {
	cost := sim.CostFunc(func(b sim.Batch) time.Duration {
		if len(b.Prefills) > 0 {
			t.Errorf("a step with %v beside %d decodes is priced", b.Prefills, b.Decodes)
		}
		return ms
	})
	res, err := sim.Run(context.Background(), sim.Config{Replicas: []sim.Replica{{
		Scheduler: &scheduler.VariableDrafts{CostModel: cost, Accepted: []float64{0.5, 0.4}},
		CostModel: flat, Drafts: 2, Drafter: none, KVBlocks: 6, BlockTokens: 4,
	}}}, requests(sim.Request{ID: 1, Prompt: 9, Output: 8}, sim.Request{ID: 2, Arrival: at(0.5), Prompt: 16, Output: 1}))
	if err != nil || res.Completed != 2 || res.Drafted == 0 {
		t.Errorf("%d completed, %d drafts, %v", res.Completed, res.Drafted, err)
	}
}

// Without drafts the policy is VLLM1, and keeps the laws and its promises.
func TestVariableDraftsWithoutDrafts(t *testing.T) {
	fresh := func() sim.Scheduler {
		return &scheduler.VariableDrafts{CostModel: flat, Accepted: []float64{0.5}}
	}
	simtest.TestScheduler(t, fresh)
	for seed := range uint64(simtest.Scenarios) {
		s := simtest.Scenario{Seed: seed}
		want := drafting(t, s, func() sim.Scheduler { return scheduler.VLLM1{} }, 0, false)
		if d := simtest.Diff(want, drafting(t, s, fresh, 0, false)); d != "" {
			t.Fatalf("VLLM1 (-want) differs (+got); %s\nin %v", d, s)
		}
	}
}

// drafting runs a scenario with so many drafts and returns its log. Token
// budget and batch of every step are checked.
func drafting(t *testing.T, s simtest.Scenario, fresh func() sim.Scheduler, drafts int, check bool) []string {
	t.Helper()
	log := &simtest.Log{TokenTimes: true}
	cfg := s.Config(fresh)
	cfg.Check = check
	for i := range cfg.Replicas {
		r := &cfg.Replicas[i]
		r.Drafts, r.Drafter = drafts, workload.Acceptance{Seed: s.Seed, Conditional: []float64{0.7, 0.5}}
	}
	tokens := int64(0)
	cfg.Observers = []sim.Observer{log, sim.ObserverFunc(func(e sim.Event) {
		if e.Kind == sim.Finish || e.Kind == sim.Reject || e.Kind == sim.Abort {
			tokens += int64(e.Output)
		}
		if e.Kind != sim.StepEnd {
			return
		}
		limit := cfg.Replicas[e.Replica].MaxBatchTokens
		if n := e.Batch.Positions + e.Batch.PrefillTokens(); limit > 0 && n > limit {
			t.Errorf("%d positions in a step, limit %d", n, limit)
		}
		if e.Batch.Positions > (1+drafts)*e.Batch.Decodes {
			t.Errorf("%d positions of %d decodes", e.Batch.Positions, e.Batch.Decodes)
		}
	})}
	res, err := sim.Run(context.Background(), cfg, s.Requests())
	if err != nil {
		t.Fatalf("%v\nin %v", err, s)
	}
	if res.Unfinished == 0 && tokens != res.Tokens {
		t.Errorf("requests end with %d tokens of %d\nin %v", tokens, res.Tokens, s)
	}
	if drafts > 0 && res.Accepted > res.Drafted {
		t.Errorf("%d of %d drafts accepted", res.Accepted, res.Drafted)
	}
	return log.Lines
}

// With drafts, runs end, the engine's recount agrees, and a second run is the
// same, in drawn deployments from unlimited memory to barely enough.
func TestVariableDraftsInDrawnDeployments(t *testing.T) {
	var checked, varied int
	for seed := range uint64(2 * simtest.Scenarios) {
		s := simtest.Scenario{Seed: seed}
		accepted := workload.Acceptance{Conditional: []float64{0.7, 0.5}}.PerPosition(1 + int(seed)%5)
		fresh := func() sim.Scheduler {
			cost := sim.CostFunc(func(b sim.Batch) time.Duration {
				return 5*time.Microsecond + max(time.Duration(b.Positions+b.PrefillTokens())*300, time.Duration(b.Decodes)*700)
			})
			return counting{&scheduler.VariableDrafts{CostModel: cost, Accepted: accepted}, &checked}
		}
		log := drafting(t, s, fresh, 4, false)
		if d := simtest.Diff(log, drafting(t, s, fresh, 4, false)); d != "" {
			t.Fatalf("a second run differs; %s\nin %v", d, s)
		}
		if d := simtest.Diff(drafting(t, s, fresh, 4, true), log); d != "" {
			t.Fatalf("with Config.Check (-want) and without (+got); %s\nin %v", d, s)
		}
		if fixed := drafting(t, s, func() sim.Scheduler { return scheduler.VLLM1{} }, 4, false); simtest.Diff(fixed, log) != "" {
			varied++
		}
	}
	if checked == 0 || varied < simtest.Scenarios {
		t.Errorf("%d passes, %d runs that differ from a fixed number of drafts: the test shows nothing", checked, varied)
	}
}

// counting counts the passes of a scheduler.
type counting struct {
	sim.Scheduler
	passes *int
}

func (c counting) Schedule(v sim.View, p *sim.Plan) {
	*c.passes++
	c.Scheduler.Schedule(v, p)
}

func TestVariableDraftsFaults(t *testing.T) {
	for _, c := range []struct {
		e    scheduler.VariableDrafts
		want string
	}{
		{scheduler.VariableDrafts{}, "VariableDrafts.CostModel is nil"},
		{scheduler.VariableDrafts{CostModel: flat, Accepted: []float64{0.5, 0.6}}, "VariableDrafts.Accepted[1] is 0.6, want 0 to 0.5"},
		{scheduler.VariableDrafts{CostModel: flat, Accepted: []float64{1.5}}, "VariableDrafts.Accepted[0] is 1.5, want 0 to 1"},
		{scheduler.VariableDrafts{CostModel: flat, Accepted: []float64{math.NaN()}}, "VariableDrafts.Accepted[0] is NaN"},
		{scheduler.VariableDrafts{CostModel: flat, Accepted: []float64{-0.1}}, "VariableDrafts.Accepted[0] is -0.1"},
	} {
		if err := c.e.Validate(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	defer func() {
		if got, want := fmt.Sprint(recover()), "scheduler: VariableDrafts.CostModel is nil"; got != want {
			t.Errorf("panic %q, want %q", got, want)
		}
	}()
	(&scheduler.VariableDrafts{}).Schedule(sim.View{}, nil)
}

// A pass allocates nothing, whatever it weighs up.
func TestVariableDraftsAllocations(t *testing.T) {
	allocs := func(output int) float64 {
		return testing.AllocsPerRun(3, func() {
			var rs []sim.Request
			for i := range 8 {
				rs = append(rs, sim.Request{ID: i, Prompt: 8, Output: output})
			}
			if _, err := sim.Run(context.Background(), sim.Config{Replicas: []sim.Replica{{
				Scheduler: &scheduler.VariableDrafts{CostModel: teaching, Accepted: []float64{0.5, 0.4}},
				CostModel: teaching, Drafts: 2, Drafter: none,
			}}}, requests(rs...)); err != nil {
				t.Fatal(err)
			}
		})
	}
	if short, long := allocs(10), allocs(1010); long > short {
		t.Errorf("%v allocations in 1000 steps", long-short)
	}
}

// Four requests at a model whose steps take 1 ms up to 8 positions and 0.1 ms
// more for each further one. One right draft in two, and of those one in two
// with a second: one draft brings 6 tokens in 1 ms, two bring 7 in 1.4 ms.
func ExampleVariableDrafts() {
	cost := sim.CostFunc(func(b sim.Batch) time.Duration {
		return ms + time.Duration(max(0, b.Positions-8))*ms/10
	})
	odds := workload.Acceptance{Seed: 1, Conditional: []float64{0.5}}
	var rs []sim.Request
	for i := range 4 {
		rs = append(rs, sim.Request{ID: i, Prompt: 10, Output: 100})
	}
	for _, s := range []sim.Scheduler{scheduler.VLLM1{}, &scheduler.VariableDrafts{CostModel: cost, Accepted: odds.PerPosition(4)}} {
		res, err := sim.Run(context.Background(), sim.Config{
			Replicas: []sim.Replica{{Scheduler: s, CostModel: cost, Drafts: 4, Drafter: odds}},
		}, requests(rs...))
		if err != nil {
			fmt.Println(err)
		}
		fmt.Printf("%T: %d drafts checked, %d of %d tokens drafted, end at %v\n", s, res.Drafted, res.Accepted, res.Tokens, res.End)
	}
	// Output:
	// scheduler.VLLM1: 848 drafts checked, 184 of 400 tokens drafted, end at 118.5ms
	// *scheduler.VariableDrafts: 280 drafts checked, 128 of 400 tokens drafted, end at 70.2ms
}
