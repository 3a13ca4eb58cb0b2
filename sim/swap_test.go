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

// What a pass has taken for the next position of a victim is not copied: two
// prompts of one block each decode into a second one.
func TestSwapAfterAdd(t *testing.T) {
	for _, tt := range []struct {
		name string
		add  func(p *sim.Plan, s *sim.Sequence)
	}{
		{"alone", func(p *sim.Plan, s *sim.Sequence) { p.Add(s, 1) }},
		{"with all", func(p *sim.Plan, _ *sim.Sequence) { p.AddDecodes() }},
	} {
		w := &watcher{pass: admitAll}
		st, _ := byHand(t, w, func(r *sim.Replica) { r.BlockTokens, r.HostBlocks = 4, 2 })
		for id := range 2 {
			st.Submit(0, sim.Request{ID: id, Prompt: 4, Output: 3})
		}
		plan(t, st, 0)
		complete(t, st, millisecond(1), nil)
		w.pass = func(v sim.View, p *sim.Plan) {
			s := v.Running.Last()
			tt.add(p, s)
			if !p.Swap(s) {
				t.Errorf("%s: refused: %v", tt.name, p.Refusal())
			}
			p.AddDecodes()
		}
		plan(t, st, millisecond(1))
		if s := st.Lookup(1); s.HostBlocks() != 1 || st.Free() != 8 || st.HostFree() != 1 {
			t.Errorf("%s: %d host blocks, %d free, %d free on the host", tt.name, s.HostBlocks(), st.Free(), st.HostFree())
		}
		complete(t, st, millisecond(2), nil)
		w.pass = func(v sim.View, p *sim.Plan) {
			p.SwapIn(v.Swapped.First())
			p.AddDecodes()
		}
		same(t, tt.name, []sim.Assignment{{ID: 0, Tokens: 1}, {ID: 1, Tokens: 1}}, plan(t, st, millisecond(2)))
		same(t, tt.name, glance{sim.Running, 5, 1, 1, 2, 1}, look(st, 1))
	}
}

// AddDecodes adds those that have come back since it was called, and the growth
// rule leaves them alone: the one free block is enough for 0, and 1 needs none.
func TestAddDecodesAfterSwapIn(t *testing.T) {
	w := &watcher{pass: admitAll}
	st, events := byHand(t, w, func(r *sim.Replica) {
		r.BlockTokens, r.HostBlocks, r.KVBlocks, r.Growth = 4, 2, 4, sim.TouchedGrowth
	})
	for id := range 2 {
		st.Submit(0, sim.Request{ID: id, Prompt: 4 - id, Output: 4})
	}
	plan(t, st, 0)
	complete(t, st, millisecond(1), nil)
	w.pass = func(v sim.View, p *sim.Plan) { p.Swap(v.Running.Last()) }
	plan(t, st, millisecond(1))
	complete(t, st, millisecond(2), nil)
	w.pass = func(v sim.View, p *sim.Plan) {
		all := p.AddDecodes()
		in := p.SwapIn(v.Swapped.First())
		if again := p.AddDecodes(); !all || !in || !again || p.Free() != 0 {
			t.Errorf("%t, %t, %t, %d free: %v", all, in, again, p.Free(), p.Refusal())
		}
	}
	same(t, "two decodes", []sim.Assignment{{ID: 0, Tokens: 1}, {ID: 1, Tokens: 1}}, plan(t, st, millisecond(2)))
	complete(t, st, millisecond(3), nil)
	// What a pass does to a sequence is told as it was then.
	w.pass = func(v sim.View, p *sim.Plan) {
		s := v.Running.Last()
		p.Swap(s)
		p.SwapIn(s)
		p.Preempt(s)
		p.AddDecodes()
	}
	plan(t, st, millisecond(3))
	var got [][2]int32
	for _, e := range events.of(sim.Admit, sim.Preempt) {
		if e.Time == millisecond(3) {
			got = append(got, [2]int32{e.Preemptions, e.Cached})
		}
	}
	same(t, "evictions and cached positions", [][2]int32{{2, 0}, {2, 4}, {3, 0}}, got)
}
