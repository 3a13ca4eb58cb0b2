//go:build go1.24

package profile_test

import (
	"bytes"
	"fmt"
	"testing"

	"servesim/sim/profile"
	"servesim/sim/trace"
)

func BenchmarkRead(b *testing.B) {
	var file []byte
	const n = 20_000
	for i := range n {
		r := record(fmt.Sprint(i), 100+i%3000, 1+i%300, 11.234567*float64(i), 5, 1, float64(i*7919%1000), 40.123456, 10, 5, float64(i*104729%5000))
		file = append(r.AppendJSON(file), '\n')
	}
	b.Run("reader", func(b *testing.B) {
		for b.Loop() {
			for _, err := range trace.Read(bytes.NewReader(file), "file") {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
	})
	b.Run("profile", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := profile.Read(bytes.NewReader(file), "file", profile.Options{}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
	})
}
