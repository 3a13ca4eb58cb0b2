package metrics_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"servesim/sim"
	"servesim/sim/metrics"
)

// Percentiles of the sketch stay within 0.1 % over eleven orders of magnitude;
// count, mean and maximum are those of the exact mode.
func TestStreamingBound(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		exact := collector(t, oneReplica, metrics.Options{})
		stream := collector(t, oneReplica, metrics.Options{Streaming: true})
		span := 1 + random.Float64()*math.Log(1e11)
		now := sim.Time(1e12)
		for range 2000 {
			now += 1e9
			gap := sim.Time(math.Exp(random.Float64() * span))
			e := sim.Event{Kind: sim.StepEnd, Batch: &sim.Batch{}, Time: now, Gaps: []sim.GapGroup{{Prev: now - gap, Count: 1 + random.IntN(9)}}}
			exact.Observe(e)
			stream.Observe(e)
		}
		a, b := exact.Report().ITL, stream.Report().ITL
		if a.N != b.N || a.Mean != b.Mean || a.Max != b.Max {
			t.Errorf("n, mean, max %v %v %v in streaming mode, want %v %v %v", b.N, b.Mean, b.Max, a.N, a.Mean, a.Max)
		}
		for _, p := range [][2]metrics.Number{{a.P50, b.P50}, {a.P90, b.P90}, {a.P95, b.P95}, {a.P99, b.P99}} {
			if off := math.Abs(float64(p[1]/p[0] - 1)); !(off <= 1e-3) {
				t.Errorf("percentile %v in streaming mode, %v exactly: off by %.2g", float64(p[1]), float64(p[0]), off)
			}
		}
	}
}

func TestModeIsNamed(t *testing.T) {
	for streaming, want := range map[bool]string{false: "exact", true: "streaming, 3 significant digits"} {
		if got := collector(t, oneReplica, metrics.Options{Streaming: streaming}).Report().Mode; got != want {
			t.Errorf("mode %q, want %q", got, want)
		}
	}
}

// A percentile of a sketch never passes the largest value.
func TestSketchStaysBelowTheMaximum(t *testing.T) {
	c := collector(t, oneReplica, metrics.Options{Streaming: true})
	c.Observe(sim.Event{Kind: sim.StepEnd, Batch: &sim.Batch{}, Time: 1 << 20, Gaps: []sim.GapGroup{{Count: 3}}}) // the lower end of a bucket
	if got := c.Report().ITL; got.P99 != 1.048576 || got.Max != 1.048576 {
		t.Errorf("p99 %v, max %v, want 1.048576", float64(got.P99), float64(got.Max))
	}
}

// bytesPer measures the memory that n calls of f allocate, per call. The
// runtime and the race detector add a little.
func bytesPer(n int, f func()) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
}

func TestMemoryOfAStep(t *testing.T) {
	for _, c := range []struct {
		streaming bool
		batch     int
		most      float64 // bytes a step
	}{{false, 8, 8}, {false, 1024, 8}, {true, 1024, 0}} {
		m := collector(t, oneReplica, metrics.Options{Streaming: c.streaming})
		e := decodeStep(c.batch)
		step := func() {
			nextStep(&e)
			m.Observe(e)
		}
		if got := bytesPer(200_000, step); got > c.most+0.2 {
			t.Errorf("streaming %v, batch %d: %.3f bytes a step, want at most %v", c.streaming, c.batch, got, c.most)
		}
		if got := testing.AllocsPerRun(10_000, step); got != 0 {
			t.Errorf("streaming %v, batch %d: %v allocations a step", c.streaming, c.batch, got)
		}
	}
}

// Steps of equal length take no memory at all.
func TestEqualStepsAreMerged(t *testing.T) {
	m := collector(t, oneReplica, metrics.Options{})
	e := decodeStep(64)
	got := bytesPer(100_000, func() {
		e.Gaps[0].Prev = e.Time
		e.Time += ms(10)
		m.Observe(e)
	})
	if got > 0.2 {
		t.Errorf("%.3f bytes a step", got)
	}
	if itl := m.Report().ITL; itl.N != 6_400_000 || itl.P50 != 10 || itl.Mean != 10 {
		t.Errorf("ITL %+v, want 6.4 million gaps of 10 ms", itl)
	}
}
