package scheduler_test

import (
	"context"
	"fmt"
	"testing"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/simtest"
)

// policies are the schedulers after published engines, with options that
// change what they plan. touched says that the engine wants a free block for
// every decode.
var policies = []struct {
	name    string
	touched bool
	fresh   func() sim.Scheduler
}{
	{"VLLM0", true, func() sim.Scheduler { return &scheduler.VLLM0{} }},
	{"VLLM0 no watermark", true, func() sim.Scheduler { return &scheduler.VLLM0{Watermark: -1} }},
	{"VLLM0 watermark", true, func() sim.Scheduler { return &scheduler.VLLM0{Watermark: 0.3} }},
	{"VLLM0 delay", true, func() sim.Scheduler { return &scheduler.VLLM0{DelayFactor: 0.5} }},
	{"VLLM0 priority", true, func() sim.Scheduler { return &scheduler.VLLM0{Priority: true} }},
	{"VLLM0Chunked", true, func() sim.Scheduler { return &scheduler.VLLM0Chunked{} }},
	{"VLLM0Chunked no watermark", true, func() sim.Scheduler { return &scheduler.VLLM0Chunked{Watermark: -1} }},
	{"VLLM0Chunked slots", true, func() sim.Scheduler {
		return &scheduler.VLLM0Chunked{PartialPrefills: 3, Threshold: 20, Watermark: -1}
	}},
	{"VLLM0Chunked long", true, func() sim.Scheduler {
		return &scheduler.VLLM0Chunked{PartialPrefills: 4, LongPrefills: 2, Threshold: 10}
	}},
	{"VLLM0Chunked whole blocks", true, func() sim.Scheduler {
		return &scheduler.VLLM0Chunked{PartialPrefills: 2, WholeBlocks: true}
	}},
	{"Sarathi", true, func() sim.Scheduler { return &scheduler.Sarathi{} }},
	{"Sarathi no watermark", true, func() sim.Scheduler { return &scheduler.Sarathi{Watermark: -1} }},
	{"Alternating", true, func() sim.Scheduler { return &scheduler.Alternating{} }},
	{"Alternating chunk", true, func() sim.Scheduler { return &scheduler.Alternating{Chunk: 7, Watermark: -1} }},
	{"Orca", false, func() sim.Scheduler { return scheduler.Orca{} }},
	{"Orca model", false, func() sim.Scheduler { return scheduler.Orca{ModelLen: true} }},
	{"RequestBatch model", false, func() sim.Scheduler { return &scheduler.RequestBatch{ModelLen: true} }},
	{"VLLM1", false, func() sim.Scheduler { return scheduler.VLLM1{} }},
}

// Every policy keeps the laws and its promises in drawn deployments.
func TestPolicies(t *testing.T) {
	for _, c := range policies {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if !c.touched {
				simtest.TestScheduler(t, c.fresh)
				return
			}
			for seed := range uint64(12) { // with the growth they are not meant for
				if err := (simtest.Scenario{Seed: seed}).Run(c.fresh); err != nil {
					t.Fatal(err)
				}
			}
			for seed := range uint64(simtest.Scenarios) {
				s := simtest.Scenario{Seed: seed}
				planned := touchedRun(t, s, c.fresh, false)
				anew := touchedRun(t, s, c.fresh, true)
				if d := simtest.Diff(anew, planned); d != "" {
					t.Fatalf("planning every step anew (-want) differs from what Hold lets happen (+got); %s\nin %v", d, s)
				}
			}
		})
	}
}

// touchedRun runs a scenario with sim.TouchedGrowth and returns its log.
func touchedRun(t *testing.T, s simtest.Scenario, fresh func() sim.Scheduler, check bool) []string {
	t.Helper()
	cfg := s.Config(fresh)
	cfg.Check = check
	for i := range cfg.Replicas {
		cfg.Replicas[i].Growth = sim.TouchedGrowth
	}
	log, laws := &simtest.Log{TokenTimes: true}, &simtest.Laws{Config: cfg}
	cfg.Observers = []sim.Observer{log, laws}
	res, err := sim.Run(context.Background(), cfg, s.Requests())
	if err == nil {
		err = laws.Check(res)
	}
	if err != nil {
		t.Fatalf("check %v: %v\nin %v\nlast events:\n%v", check, err, s, lastLines(log.Lines))
	}
	return log.Lines
}

func lastLines(lines []string) (s string) {
	for _, l := range lines[max(0, len(lines)-12):] {
		s += fmt.Sprintln(" ", l)
	}
	return s
}
