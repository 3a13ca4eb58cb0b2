package sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

// shared makes a step of a group take 1 ms and what all of it computes, in ms.
type shared struct{}

func (shared) StepTime(b sim.Batch) time.Duration { return shared{}.GroupTime([]sim.Batch{b}) }
func (shared) GroupTime(bs []sim.Batch) time.Duration {
	d := ms
	for _, b := range bs {
		d += time.Duration(b.Decodes+b.PrefillTokens()) * ms
	}
	return d
}

func grouped(cost sim.CostModel, groups ...int) sim.Config {
	cfg := sim.Config{Check: true, Router: byID{0, 1, 1, 2}}
	for _, g := range groups {
		cfg.Replicas = append(cfg.Replicas, sim.Replica{Scheduler: scheduler.ChunkedPrefill{}, CostModel: cost, Group: g})
	}
	return cfg
}

// Two replicas step together, the third on its own.
func TestGroupStepsTogether(t *testing.T) {
	reqs := []sim.Request{
		{ID: 0, Prompt: 10, Output: 3},
		{ID: 3, Prompt: 10, Output: 2},
		{ID: 1, Arrival: sim.Time(5 * ms), Prompt: 4, Output: 2},
	}
	for _, tt := range []struct {
		name string
		cost sim.CostModel
		want map[int][]time.Duration
	}{
		// 1 + 10, 1 + 1 + 4, 1 + 1 + 1: request 1 joins at 11 ms.
		{"a group's own time", shared{}, map[int][]time.Duration{0: {11 * ms, 17 * ms, 20 * ms}, 1: {12 * ms, 15 * ms}, 3: {11 * ms, 13 * ms}}},
		// Without a Grouper the longest: 11, 5, 2.
		{"the longest of all", sim.CostFunc(shared{}.StepTime), map[int][]time.Duration{0: {11 * ms, 16 * ms, 18 * ms}, 1: {11 * ms, 13 * ms}, 3: {11 * ms, 13 * ms}}},
	} {
		got, _, _ := tokens(t, grouped(tt.cost, 7, 7, 0), reqs)
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: token times (-want +got):\n%s", tt.name, d)
		}
	}
}

// A straggler slows its group, and a pause stops it; it is faster if all of it is.
func TestGroupWindows(t *testing.T) {
	reqs := []sim.Request{{ID: 0, Prompt: 1, Output: 4}}
	window := func(replica int, factor float64) sim.Window {
		return sim.Window{Replica: replica, From: 1, To: sim.Time(5 * ms), Factor: factor, Pause: factor == 0}
	}
	for _, tt := range []struct {
		w    []sim.Window
		want []time.Duration
	}{
		{[]sim.Window{window(1, 3)}, []time.Duration{2 * ms, 8 * ms, 10 * ms, 12 * ms}},
		{[]sim.Window{window(1, 0)}, []time.Duration{2 * ms, 7 * ms, 9 * ms, 11 * ms}},
		{[]sim.Window{window(0, 0.5)}, []time.Duration{2 * ms, 4 * ms, 6 * ms, 8 * ms}},
		{[]sim.Window{window(0, 0.5), window(1, 0.5)}, []time.Duration{2 * ms, 3 * ms, 4 * ms, 5 * ms}},
	} {
		cfg := grouped(shared{}, 1, 1)
		cfg.Windows = tt.w
		got, _, _ := tokens(t, cfg, reqs)
		if d := cmp.Diff(tt.want, got[0]); d != "" {
			t.Errorf("%+v: token times (-want +got):\n%s", tt.w, d)
		}
	}
}

// A group of one is as if there was none.
func TestGroupOfOne(t *testing.T) {
	var reqs []sim.Request
	for i := range 40 {
		reqs = append(reqs, sim.Request{ID: i, Arrival: sim.Time(i) * sim.Time(7*ms), Prompt: 5 + i%9, Output: 3 + i%5})
	}
	one := func(group int) []string {
		cfg := grouped(shared{}, group)
		cfg.Router = nil
		cfg.Replicas[0].KVBlocks, cfg.Replicas[0].BlockTokens = 12, 4
		cfg.Windows = []sim.Window{{From: 1, To: sim.Time(50 * ms), Factor: 0.3}}
		_, log, _ := tokens(t, cfg, reqs)
		return log
	}
	if d := cmp.Diff(one(0), one(3)); d != "" {
		t.Errorf("log (-alone +group):\n%s", d)
	}
}

// Where a replica that prefills and one that decodes step together, the layers of
// a prompt leave while its own step computes them, not as those of the step before
// did.
func TestGroupSendsLayers(t *testing.T) {
	cfg := split(1, 1, sim.Link{Layers: 4, Bandwidth: 1e9}, func(r *sim.Replica) { r.Group = 1 }) // 1,000 tokens: 1 s
	_, log, _ := tokens(t, cfg, []sim.Request{{ID: 1, Prompt: 1000, Output: 2}, {ID: 2, Arrival: sim.Time(2 * time.Second), Prompt: 1000, Output: 2}})
	var pulled []string
	for _, line := range log {
		if strings.Contains(line, " pulled ") {
			pulled = append(pulled, line)
		}
	}
	// The first of four layers is there after a quarter of the 40 ms of the prompt.
	want := []string{
		"1010000000 r1 pulled #1 id 1 1000 positions in 1010000000",
		"3010000000 r1 pulled #2 id 2 1000 positions in 1010000000",
	}
	if d := cmp.Diff(want, pulled); d != "" {
		t.Errorf("transfers (-want +got):\n%s", d)
	}
}
