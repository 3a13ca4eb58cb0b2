package scenario

import (
	"bytes"
	"time"

	"servesim/sim"
	"servesim/sim/trace"
)

// brokenScenarios are the healthy run, measured badly.
func brokenScenarios() []Scenario {
	return []Scenario{
		{
			Name: "reordered", About: "The exporter writes records out of order, which is no fault of theirs.",
			Causes: []string{"reordered_records"}, Valid: true, TTFT: trace.Prefill, E2E: trace.Stream,
			faults: []trace.Fault{trace.Reorder{Behind: 8, Chance: trace.Chance{Share: 0.1, Seed: 1}}},
		},
		{
			Name: "duplicated", About: "The exporter sends some records again.",
			Causes: []string{"duplicated_records"}, Accepted: true,
			faults: []trace.Fault{trace.Duplicate{Chance: trace.Chance{Share: 0.05, Seed: 1}}},
		},
		{
			Name: "dropped_spans", About: "The spans of some queues are lost.",
			Causes: []string{"dropped_spans"},
			faults: []trace.Fault{trace.DropSpan{Phase: trace.Queue, Chance: trace.Chance{Share: 0.05, Seed: 1}}},
		},
		{
			Name: "negative_spans", About: "Some prefills end before they start.",
			Causes: []string{"negative_spans"},
			faults: []trace.Fault{trace.NegativeSpan{Phase: trace.Prefill, By: 5 * ms, Chance: trace.Chance{Share: 0.05, Seed: 1}}},
		},
		{
			Name: "clock_skew", About: "The clock of the engine is 40 ms behind that of the client.",
			Causes: []string{"clock_skew"},
			faults: []trace.Fault{trace.ClockSkew{Clock: trace.EngineClock, By: -40 * ms}},
		},
		{
			Name: "clock_drift", About: "The clock of the engine loses a millisecond a second.",
			Causes: []string{"clock_drift"},
			faults: []trace.Fault{trace.ClockDrift{Clock: trace.EngineClock, PerSecond: -time.Millisecond}},
		},
		{
			Name: "clock_step", About: "The clock of the client is set back by 200 ms, 30 s after the start.",
			Causes: []string{"clock_step"},
			faults: []trace.Fault{trace.ClockStep{Clock: trace.ClientClock, At: sim.Time(0).Add(30 * time.Second), By: -200 * ms}},
		},
		{
			Name: "truncated", About: "The file ends in the middle of its last line.",
			Causes: []string{"truncated_file"},
			damage: func(lines [][]byte) int {
				last := len(lines) - 1
				lines[last] = lines[last][:len(lines[last])/2]
				return last
			},
		},
		{
			Name: "not_a_number", About: "The end of one prefill is NaN.",
			Causes: []string{"not_a_number"}, Accepted: true,
			damage: func(lines [][]byte) int {
				const field = `"prefill_end_ms":`
				middle := len(lines) / 2
				before, after, _ := bytes.Cut(lines[middle], []byte(field))
				_, rest, _ := bytes.Cut(after, []byte(","))
				lines[middle] = bytes.Join([][]byte{before, []byte(field + "NaN,"), rest}, nil)
				return middle
			},
		},
	}
}
