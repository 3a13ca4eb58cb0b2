//go:build go1.24

package trace_test

import (
	"bytes"
	"io"
	"testing"

	"servesim/sim/trace"
)

func BenchmarkWriter(b *testing.B) {
	w := trace.Writer{W: io.Discard}
	e := finish(0)
	b.ReportAllocs()
	for b.Loop() {
		e.Serial++
		e.Time += 1001
		w.Observe(e)
	}
}

func BenchmarkRead(b *testing.B) {
	var file bytes.Buffer
	w := trace.Writer{W: &file}
	for i := range int64(1000) {
		w.Observe(finish(i))
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(file.Len()))
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range trace.Read(bytes.NewReader(file.Bytes()), "file") {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
}
