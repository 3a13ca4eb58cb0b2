//go:build go1.24

package metrics_test

import (
	"fmt"
	"testing"

	"servesim/sim"
	"servesim/sim/metrics"
)

// BenchmarkStep feeds decode steps whose lengths all differ, so that the exact
// mode cannot merge any, and reports the cost of one step.
func BenchmarkStep(b *testing.B) {
	for _, streaming := range []bool{false, true} {
		for _, batch := range []int{8, 1024} {
			b.Run(fmt.Sprintf("streaming=%v/batch=%d", streaming, batch), func(b *testing.B) {
				c := collector(b, oneReplica, metrics.Options{Streaming: streaming})
				e := decodeStep(batch)
				b.ReportAllocs()
				for b.Loop() {
					nextStep(&e)
					c.Observe(e)
				}
			})
		}
	}
}

// BenchmarkRequest feeds the events of whole requests: arrive, queue, admit,
// prefill end, first token, finish.
func BenchmarkRequest(b *testing.B) {
	for _, o := range []metrics.Options{{}, {Streaming: true}, {Client: true}, {Client: true, Streaming: true}} {
		b.Run(fmt.Sprintf("streaming=%v/client=%v", o.Streaming, o.Client), func(b *testing.B) {
			c := collector(b, oneReplica, o)
			es := events(0, request{arrival: 0, admitted: 0, tokens: []int{5}})
			b.ReportAllocs()
			for i := int64(0); b.Loop(); i++ {
				for _, e := range es[:len(es)-1] {
					e.Time += sim.Time(i * 1_000_000)
					e.Timeline.Arrival += sim.Time(i * 1_000_000)
					e.Timeline.FirstToken += sim.Time(i * 1_000_000)
					if e.Kind == sim.Finish {
						e.Time += sim.Time(1_000_000 + i*7919%1_000_003)
						e.Output = 128
					}
					c.Observe(e)
				}
			}
		})
	}
}

// BenchmarkReport measures the report of a run with a million steps.
func BenchmarkReport(b *testing.B) {
	c := collector(b, oneReplica, metrics.Options{})
	e := decodeStep(64)
	for range 1_000_000 {
		nextStep(&e)
		c.Observe(e)
	}
	for b.Loop() {
		c.Report()
	}
}
