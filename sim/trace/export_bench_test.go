//go:build go1.24

package trace_test

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/trace"
)

// busyRun returns a run of n requests on two replicas.
func busyRun(n int) (sim.Config, func(yield func(sim.Request, error) bool)) {
	cfg := sim.Config{Router: scheduler.LeastLoaded{}, TokenTimes: true, Classes: []sim.Class{{Name: "chat"}}}
	for range 2 {
		cfg.Replicas = append(cfg.Replicas, sim.Replica{
			Scheduler: scheduler.ChunkedPrefill{}, KVBlocks: 20_000, MaxBatchTokens: 2048, MaxSeqs: 256,
			CostModel: sim.CostFunc(func(b sim.Batch) time.Duration {
				return 6*time.Millisecond + time.Duration(50_000*b.PrefillTokens()+20_000*b.Decodes)
			})})
	}
	return cfg, func(yield func(sim.Request, error) bool) {
		for i := range n {
			if !yield(sim.Request{ID: i, Arrival: sim.Time(i) * 40_000_000, Prompt: 100 + i*37%900, Output: 20 + i*17%160}, nil) {
				return
			}
		}
	}
}

// exporter is what writes a run.
type exporter interface {
	sim.Observer
	Flush() error
}

// counted counts bytes.
type counted struct{ n int64 }

func (c *counted) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// benchmarkExport reports what an exporter adds to a run, in events a second of
// its own and bytes a request.
func benchmarkExport(b *testing.B, make func(w io.Writer, cfg sim.Config) exporter) {
	const requests = 5000
	b.ReportAllocs()
	var own time.Duration
	var w counted
	var events int
	for b.Loop() {
		cfg, load := busyRun(requests)
		x := make(&w, cfg)
		cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			events++
			from := time.Now()
			x.Observe(e)
			own += time.Since(from)
		})}
		if _, err := sim.Run(context.Background(), cfg, load); err != nil {
			b.Fatal(err)
		}
		from := time.Now()
		if err := x.Flush(); err != nil {
			b.Fatal(err)
		}
		own += time.Since(from)
	}
	b.ReportMetric(float64(own.Nanoseconds())/float64(b.N)/requests, "ns/request")
	b.ReportMetric(float64(w.n)/float64(b.N)/requests, "B/request")
	b.ReportMetric(float64(w.n)/own.Seconds()/1e6, "MB/s")
	b.ReportMetric(float64(events)/float64(b.N)/requests, "events/request")
}

func BenchmarkChrome(b *testing.B) {
	benchmarkExport(b, func(w io.Writer, cfg sim.Config) exporter { return &trace.Chrome{W: w, Config: cfg} })
}

func BenchmarkOTLP(b *testing.B) {
	benchmarkExport(b, func(w io.Writer, _ sim.Config) exporter { return &trace.OTLP{W: w, Model: "llama"} })
}

func BenchmarkLabelWriter(b *testing.B) {
	benchmarkExport(b, func(w io.Writer, _ sim.Config) exporter { return &trace.LabelWriter{W: w} })
}

func BenchmarkBenchWriter(b *testing.B) {
	benchmarkExport(b, func(w io.Writer, _ sim.Config) exporter { return &trace.BenchWriter{W: w, Detailed: true} })
}

func BenchmarkBenchReader(b *testing.B) {
	var file bytes.Buffer
	w := &trace.BenchWriter{W: &file, Detailed: true}
	cfg, load := busyRun(5000)
	cfg.Observers = []sim.Observer{w}
	if _, err := sim.Run(context.Background(), cfg, load); err != nil {
		b.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(file.Len()))
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range (trace.BenchReader{In: bytes.NewReader(file.Bytes()), Name: "file"}).Results() {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkCSV(b *testing.B) {
	benchmarkExport(b, func(w io.Writer, cfg sim.Config) exporter { return &trace.CSV{Requests: w, Steps: w, Config: cfg} })
}
