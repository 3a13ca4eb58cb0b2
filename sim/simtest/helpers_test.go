package simtest_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/simtest"
)

// scenarios is how many seeds a test runs; SERVESIM_SCENARIOS overrides it.
func scenarios(t *testing.T, def int) uint64 {
	t.Helper()
	if s := os.Getenv("SERVESIM_SCENARIOS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("SERVESIM_SCENARIOS: %v", err)
		}
		return uint64(n)
	}
	return uint64(def)
}

// recorder is a testing.TB that keeps what is reported to it.
type recorder struct {
	testing.TB
	messages []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.messages = append(r.messages, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// failures returns what f reports.
func failures(f func(t testing.TB)) []string {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r.messages
}

// shipped are the schedulers that conform.
var shipped = []struct {
	name string
	make func() sim.Scheduler
}{
	{"Continuous", func() sim.Scheduler { return scheduler.Continuous{} }},
	{"Continuous reserving", func() sim.Scheduler { return scheduler.Continuous{ReserveMax: true} }},
	{"ChunkedPrefill", func() sim.Scheduler { return scheduler.ChunkedPrefill{} }},
	{"RequestBatch", func() sim.Scheduler { return &scheduler.RequestBatch{} }},
	{"RequestBatch of 3, padded", func() sim.Scheduler { return &scheduler.RequestBatch{Size: 3, Padded: true} }},
	{"RequestBatch freed at end", func() sim.Scheduler { return &scheduler.RequestBatch{FreeAtEnd: true} }},
	{"RequestBatch padded, freed at end", func() sim.Scheduler { return &scheduler.RequestBatch{Padded: true, FreeAtEnd: true} }},
	{"VLLM1", func() sim.Scheduler { return scheduler.VLLM1{} }},
	{"VLLM1, first chunks of 7, by priority", func() sim.Scheduler {
		return scheduler.VLLM1{FirstChunk: true, Threshold: 7, Priority: true}
	}},
	{"Chaos", func() sim.Scheduler { return &simtest.Chaos{Seed: 1} }},
}
