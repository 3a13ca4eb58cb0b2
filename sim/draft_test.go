package sim_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

// confirms accepts up to n drafts of every step.
func confirms(n int) sim.Drafter {
	return sim.DrafterFunc(func(_ sim.Query, _, drafts int) int { return min(n, drafts) })
}

// speculating is one replica with steps of 10 ms.
func speculating(drafts int, d sim.Drafter) sim.Replica {
	return sim.Replica{Scheduler: scheduler.VLLM1{}, CostModel: everyStep(10 * time.Millisecond), KVBlocks: 20, Drafts: drafts, Drafter: d}
}

func TestSpeculation(t *testing.T) {
	for _, c := range []struct {
		name              string
		replica           sim.Replica
		output            int
		times             []float64 // of the tokens, ms
		decodes           [][3]int  // decodes, positions, context of each step
		drafted, accepted int64
	}{
		{
			// Two of three drafts are right: three tokens a step. The rejected
			// position is computed again, so the context grows by three.
			"two of three", speculating(3, confirms(2)), 10,
			[]float64{10, 20, 20, 20, 30, 30, 30, 40, 40, 40},
			[][3]int{{0, 0, 0}, {1, 4, 8}, {1, 4, 11}, {1, 4, 14}}, 9, 6,
		},
		{
			// What is confirmed behind the last token is dropped.
			"ends inside a step", speculating(3, confirms(3)), 3,
			[]float64{10, 20, 20}, [][3]int{{0, 0, 0}, {1, 4, 8}}, 3, 1,
		},
		{
			"none is right", speculating(2, confirms(0)), 3,
			[]float64{10, 20, 30}, [][3]int{{0, 0, 0}, {1, 3, 8}, {1, 3, 9}}, 4, 0,
		},
		{
			// 8 prompt tokens of 12: the drafts would reach past the model's
			// length, so fewer are checked. The answer ends at 12.
			"near the model's length", func() sim.Replica {
				r := speculating(3, confirms(1))
				r.MaxModelLen = 12
				return r
			}(), 9,
			[]float64{10, 20, 20, 30}, [][3]int{{0, 0, 0}, {1, 3, 8}, {1, 1, 10}}, 2, 1,
		},
		{
			// A budget of two positions leaves room for one draft.
			"small budget", func() sim.Replica {
				r := speculating(3, confirms(3))
				r.MaxBatchTokens = 2
				return r
			}(), 4,
			[]float64{40, 50, 50, 60},
			[][3]int{{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {1, 2, 8}, {1, 2, 10}}, 2, 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var times []float64
			var decodes [][3]int
			cfg := sim.Config{Replicas: []sim.Replica{c.replica}, TokenTimes: true, Check: true, Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
				switch e.Kind {
				case sim.StepEnd:
					decodes = append(decodes, [3]int{e.Batch.Decodes, e.Batch.Positions, e.Batch.Context})
				case sim.Finish:
					for _, at := range e.TokenTimes(nil) {
						times = append(times, at.Milliseconds())
					}
				}
			})}}
			res := mustRun(t, cfg, sim.Request{ID: 1, Prompt: 8, Output: c.output})
			if d := cmp.Diff(c.times, times); d != "" {
				t.Errorf("token times (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.decodes, decodes); d != "" {
				t.Errorf("decodes, positions, context (-want +got):\n%s", d)
			}
			if res.Drafted != c.drafted || res.Accepted != c.accepted {
				t.Errorf("drafted %d, accepted %d; want %d, %d", res.Drafted, res.Accepted, c.drafted, c.accepted)
			}
		})
	}
}

// By hand, a replica has no more drafts than its configuration says, and needs
// outcomes or a drafter.
func TestStepperDraftFaults(t *testing.T) {
	st, err := sim.NewStepper(sim.Config{Check: true, Replicas: []sim.Replica{speculating(2, nil)}})
	if err != nil {
		t.Fatal(err)
	}
	st.Submit(0, sim.Request{ID: 1, Prompt: 8})
	if _, _, err := st.Plan(0); err != nil {
		t.Fatal(err)
	}
	mentions(t, st.Complete(1, nil), "outcomes are nil")
	mentions(t, st.Complete(1, []sim.Outcome{{ID: 1, Tokens: 1, Drafts: 3}}), "Drafts:3", "a replica with 2 Drafts")
	if err := st.Complete(1, []sim.Outcome{{ID: 1, Tokens: 1, Drafts: 2}}); err != nil {
		t.Fatal(err)
	}
	if s := st.Lookup(1); s.Drafts() != 2 || s.Generated() != 1 {
		t.Errorf("%d drafts, %d tokens; want 2 and 1", s.Drafts(), s.Generated())
	}
}

func TestDrafterFaults(t *testing.T) {
	for _, c := range []struct {
		replica sim.Replica
		want    string
	}{
		{speculating(2, nil), "Config.Replicas[0].Drafter is nil with Drafts 2"},
		{speculating(-1, nil), "Config.Replicas[0].Drafts is -1"},
		{speculating(1<<40, confirms(1)), "Config.Replicas[0].Drafts is 1099511627776, more than 1024"},
		{speculating(2, sim.DrafterFunc(func(sim.Query, int, int) int { return 3 })), "replica 0: Drafter accepts 3 of 2 drafts of request 1"},
		{speculating(2, sim.DrafterFunc(func(sim.Query, int, int) int { return -1 })), "Drafter accepts -1 of 2 drafts"},
	} {
		_, err := sim.Run(context.Background(), sim.Config{Replicas: []sim.Replica{c.replica}}, slice([]sim.Request{{ID: 1, Prompt: 8, Output: 5}}))
		mentions(t, err, c.want)
	}
}
