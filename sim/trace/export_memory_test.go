package trace_test

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/trace"
)

// total counts the bytes that are written.
type total int64

func (n *total) Write(p []byte) (int, error) {
	*n += total(len(p))
	return len(p), nil
}

// What exporters keep does not grow with the requests they have written, though
// some are preempted. SERVESIM_LONG=1 writes a million and says how fast.
func TestExportsKeepLittle(t *testing.T) {
	n := 20_000
	long := os.Getenv("SERVESIM_LONG") != ""
	if long {
		n = 1_000_000
	}
	type exporter interface {
		sim.Observer
		Flush() error
	}
	causes := []string{"burst"}
	why := func(sim.Event) []string { return causes }
	for _, c := range []struct {
		name string
		make func(w *total) exporter
	}{
		{"JSON lines", func(w *total) exporter { return &trace.Writer{W: w} }},
		{"JSON lines with labels", func(w *total) exporter { return &trace.Writer{W: w, Labels: true, Causes: why} }},
		{"labels", func(w *total) exporter { return &trace.LabelWriter{W: w, Causes: why} }},
		{"OTLP", func(w *total) exporter { return &trace.OTLP{W: w, Model: "llama"} }},
		{"OTLP, 100 a line", func(w *total) exporter { return &trace.OTLP{W: w, Model: "llama", PerLine: 100} }},
	} {
		var bytes total
		x := c.make(&bytes)
		var own time.Duration
		var live []uint64
		finished, preempted := 0, 0
		cfg := sim.Config{Ledgers: true, Replicas: []sim.Replica{{Scheduler: scheduler.Continuous{}, KVBlocks: 100, MaxBatchTokens: 2048, MaxSeqs: 64,
			CostModel: sim.CostFunc(func(b sim.Batch) time.Duration {
				return time.Millisecond + time.Duration(b.PrefillTokens())*time.Microsecond
			})}}}
		cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			switch e.Kind {
			case sim.Preempt:
				preempted++
			case sim.Finish:
				if finished++; finished%(n/10) == 0 && finished >= n/5 {
					var m runtime.MemStats
					runtime.GC()
					runtime.ReadMemStats(&m)
					live = append(live, m.HeapAlloc)
				}
			}
			if !long {
				x.Observe(e)
				return
			}
			from := time.Now()
			x.Observe(e)
			own += time.Since(from)
		})}
		_, err := sim.Run(context.Background(), cfg, func(yield func(sim.Request, error) bool) {
			for i := range n {
				burst := sim.Time(i/20) * 200_000_000 // 20 at once, more than the cache holds
				if !yield(sim.Request{ID: i, Arrival: burst, Prompt: 64, Output: 20 + i*7%30}, nil) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Flush(); err != nil {
			t.Fatal(err)
		}
		if finished != n || preempted < n/100 {
			t.Errorf("%s: %d of %d finished, %d preemptions", c.name, finished, n, preempted)
		}
		first, last := live[0], live[len(live)-1]
		if growth := int64(last) - int64(first); growth > 200_000 {
			t.Errorf("%s: the live heap grew by %d bytes between %d and %d requests, to %d", c.name, growth, n/5, n, last)
		}
		if long {
			t.Logf("%s: %d requests, %d preemptions, %.0f B a request, %.0f ns a request, %.0f MB/s, live heap %.2f MB",
				c.name, n, preempted, float64(bytes)/float64(n), float64(own.Nanoseconds())/float64(n), float64(bytes)/own.Seconds()/1e6, float64(last)/1e6)
		}
	}
}
