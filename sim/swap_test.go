package sim_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"servesim/scheduler"
	"servesim/sim"
)

// swapping is a replica whose memory is short, with room on the host.
func swapping(host int) sim.Config {
	return sim.Config{Check: true, Replicas: []sim.Replica{{
		Scheduler: &scheduler.VLLM0{Watermark: -1, Swap: true}, Growth: sim.TouchedGrowth,
		CostModel: sim.CostFunc(func(b sim.Batch) time.Duration {
			return time.Duration(1000 + 10*b.PrefillTokens() + 100*(b.SwapIn+b.SwapOut))
		}),
		KVBlocks: 20, BlockTokens: 4, HostBlocks: host,
	}}}
}

func swapRequests() (reqs []sim.Request) {
	for i := range 12 {
		reqs = append(reqs, sim.Request{ID: i, Arrival: sim.Time(i * 700), Prompt: 6 + i%5, Output: 10 + i%7})
	}
	return reqs
}

// What is swapped out comes back as it was: nothing is computed twice, and the
// copies are part of the steps.
func TestSwapKeepsWhatIsComputed(t *testing.T) {
	cfg := swapping(40)
	var out, in, took int
	cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
		if e.Kind == sim.StepEnd {
			out, in = out+e.Batch.SwapOut, in+e.Batch.SwapIn
			took += int(e.Took) - 1000 - 10*e.Batch.PrefillTokens()
		}
	})}
	reqs := swapRequests()
	_, log, res := tokens(t, cfg, reqs)
	want := 0
	for _, r := range reqs {
		want += r.Prompt + r.Output - 1
	}
	if got := int(res.PrefillTokens + res.DecodePositions); got != want || res.Recompute != 0 {
		t.Errorf("%d positions computed, %d needed, %d counted as lost", got, want, res.Recompute)
	}
	if res.Preemptions == 0 || !strings.Contains(strings.Join(log, "\n"), "preempt #") || out == 0 || in != out || took != 100*(in+out) {
		t.Errorf("%d preemptions, %d blocks out, %d in, %d ns for them", res.Preemptions, out, in, took)
	}
}

// Without room on the host victims are recomputed.
func TestSwapFallsBack(t *testing.T) {
	_, _, res := tokens(t, swapping(2), swapRequests())
	if res.Completed != 12 || res.Recompute == 0 {
		t.Errorf("%+v", res)
	}
}

// A client that leaves while its request is on the host leaves nothing there.
func TestAbortOnTheHost(t *testing.T) {
	for at := time.Duration(1000); at < 60_000; at += 1000 {
		cfg := swapping(40)
		reqs := swapRequests()
		for i := range reqs {
			reqs[i].Patience.Total = at
		}
		if _, err := sim.Run(context.Background(), cfg, slice(reqs)); err != nil { // Check recounts the host blocks
			t.Fatal(err)
		}
	}
}
