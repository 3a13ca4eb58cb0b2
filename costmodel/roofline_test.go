package costmodel_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"servesim/costmodel"
	"servesim/sim"
)

// teaching holds the constants of the cost lab.
var teaching = costmodel.Roofline{
	SharedBytes: 4e6, ContextBytesPerRequest: 1e5, OpsPerPosition: 2e6,
	Bandwidth: 1e11, Rate: 1e12, Overhead: 20 * time.Microsecond,
}

func change(edit func(*costmodel.Roofline)) costmodel.Roofline {
	r := teaching
	edit(&r)
	return r
}

var (
	doubleRate  = change(func(r *costmodel.Roofline) { r.Rate *= 2 })
	fourContext = change(func(r *costmodel.Roofline) { r.ContextBytesPerRequest *= 4 })
	halfOps     = change(func(r *costmodel.Roofline) { r.OpsPerPosition /= 2 })
	halfHost    = change(func(r *costmodel.Roofline) { r.Overhead /= 2 })
	halfBoth    = change(func(r *costmodel.Roofline) { r.OpsPerPosition /= 2; r.Overhead /= 2 })
)

// The tables of the cost lab, as printed: microseconds to one decimal, tokens
// per second rounded.
func TestRooflineTable(t *testing.T) {
	for _, c := range []struct {
		name                string
		model               costmodel.Roofline
		requests, positions int
		want                string // transfer compute step, tokens per second of R = N, bound
	}{
		{"1", teaching, 1, 1, "41.0 2.0 61.0 16393 memory"},
		{"4", teaching, 4, 4, "44.0 8.0 64.0 62500 memory"},
		{"8", teaching, 8, 8, "48.0 16.0 68.0 117647 memory"},
		{"16", teaching, 16, 16, "56.0 32.0 76.0 210526 memory"},
		{"32", teaching, 32, 32, "72.0 64.0 92.0 347826 memory"},
		{"40", teaching, 40, 40, "80.0 80.0 100.0 400000 memory"},
		{"64", teaching, 64, 64, "104.0 128.0 148.0 432432 compute"},
		{"128", teaching, 128, 128, "168.0 256.0 276.0 463768 compute"},
		{"twice the rate", doubleRate, 16, 16, "56.0 16.0 76.0 210526 memory"},
		{"four times the context", fourContext, 32, 32, "168.0 64.0 188.0 170213 memory"},
		{"28 positions are free", teaching, 16, 28, "56.0 56.0 76.0 210526 memory"},
		{"29 are not", teaching, 16, 29, "56.0 58.0 78.0 205128 compute"},
		{"96 positions", teaching, 16, 96, "56.0 192.0 212.0 75472 compute"},
		{"32 positions", teaching, 16, 32, "56.0 64.0 84.0 190476 compute"},
		{"64 positions", teaching, 16, 64, "56.0 128.0 148.0 108108 compute"},
		{"65", teaching, 65, 65, "105.0 130.0 150.0 433333 compute"},
		{"66", teaching, 66, 66, "106.0 132.0 152.0 434211 compute"},
		{"four times the context, 22", fourContext, 22, 22, "128.0 44.0 148.0 148649 memory"},
		{"four times the context, 65", fourContext, 65, 65, "300.0 130.0 320.0 203125 memory"},
		{"half the overhead, 4", halfHost, 4, 4, "44.0 8.0 54.0 74074 memory"},
		{"half the overhead, 64", halfHost, 64, 64, "104.0 128.0 138.0 463768 compute"},
		{"half the operations, 4", halfOps, 4, 4, "44.0 4.0 64.0 62500 memory"},
		{"half the operations, 64", halfOps, 64, 64, "104.0 64.0 124.0 516129 memory"},
		{"both, 4", halfBoth, 4, 4, "44.0 4.0 54.0 74074 memory"},
		{"both, 64", halfBoth, 64, 64, "104.0 64.0 114.0 561404 memory"},
	} {
		v := c.model.Terms(c.requests, c.positions)
		got := fmt.Sprintf("%.1f %.1f %.1f %.0f %v",
			v.Transfer*1e6, v.Compute*1e6, v.Step*1e6, v.TokenRate(float64(c.requests)), v.Bound)
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestRooflineIntensity(t *testing.T) {
	for _, c := range []struct {
		n    int
		want string // operations per byte, attainable operations per second
	}{
		{16, "5.714 571.4e9"}, // 32 Mop over 5.6 MB
		{40, "10.000 1000.0e9"},
		{128, "15.238 1000.0e9"},
	} {
		v := teaching.Terms(c.n, c.n)
		if got := fmt.Sprintf("%.3f %.1fe9", v.Intensity, v.Attainable/1e9); got != c.want {
			t.Errorf("R=N=%d: %s, want %s", c.n, got, c.want)
		}
		if v.Crossover != 10 {
			t.Errorf("crossover at %v op/B, want 10", v.Crossover)
		}
	}
}

// Growing a batch: R 16 → 64 takes 1.947 times as long at 2.054 times the
// rate; beyond the crossover T = 20 + 2R µs.
func TestRooflineGrowth(t *testing.T) {
	small, large := teaching.Terms(16, 16), teaching.Terms(64, 64)
	got := fmt.Sprintf("%.3f %.3f", large.Step/small.Step, large.TokenRate(64)/small.TokenRate(16))
	if got != "1.947 2.054" {
		t.Errorf("time and rate grow by %s, want 1.947 2.054", got)
	}
	for n, want := range map[int]time.Duration{41: 102, 50: 120, 1000: 2020} {
		step := teaching.StepTime(sim.Batch{Decodes: n, Positions: n})
		if step != want*time.Microsecond {
			t.Errorf("R=N=%d: %v, want %vµs", n, step, int(want))
		}
	}
}

func TestRooflineUsefulOutput(t *testing.T) {
	few, many := teaching.Terms(16, 32).TokenRate(24), teaching.Terms(16, 64).TokenRate(28)
	if got := fmt.Sprintf("%.0f %.0f", few, many); got != "285714 189189" {
		t.Errorf("useful rates %s, want 285714 189189", got)
	}
}

func TestRooflineSearch(t *testing.T) {
	const us = time.Microsecond
	free := costmodel.Roofline{Bandwidth: 1, Rate: 1}
	for _, c := range []struct {
		name      string
		got, want int
	}{
		{"150 µs", teaching.LargestBatch(150 * us), 65},
		{"a nanosecond less", teaching.LargestBatch(150*us - 1), 64},
		{"four times the context", fourContext.LargestBatch(150 * us), 22},
		{"one just fits", teaching.LargestBatch(61 * us), 1},
		{"one does not fit", teaching.LargestBatch(60 * us), 0},
		{"nothing costs anything", free.LargestBatch(0), math.MaxInt},
		{"free positions", teaching.FreePositions(16), 28},
		{"none beyond the crossover", teaching.FreePositions(64), 52},
		{"free positions, no operations", free.FreePositions(3), math.MaxInt},
		{"crossover", teaching.Crossover(), 40},
		{"crossover, four times the context", fourContext.Crossover(), math.MaxInt},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.name, c.got, c.want)
		}
	}
	if a, b := teaching.RateLimit(), fourContext.RateLimit(); !near(a, 500_000) || !near(b, 250_000) {
		t.Errorf("rate limits %v and %v, want 500000 and 250000", a, b)
	}
}

// Steps of 16 and 128: 144 tokens in 352 µs. The mean of the rates is 337147.
func TestTally(t *testing.T) {
	var tally costmodel.Tally
	if got := tally.TokenRate(); !math.IsNaN(got) {
		t.Errorf("rate of nothing is %v, want NaN", got)
	}
	for _, n := range []int{16, 128} {
		tally.Add(float64(n), teaching.Terms(n, n).Step)
	}
	if got := fmt.Sprintf("%.0f", tally.TokenRate()); got != "409091" {
		t.Errorf("rate %s, want 409091", got)
	}
}

func TestRooflineStepTime(t *testing.T) {
	for _, c := range []struct {
		name  string
		batch sim.Batch
		want  time.Duration
	}{
		{"decode", sim.Batch{Decodes: 40, Positions: 40, Context: 1e6}, 100_000},
		{"verification", sim.Batch{Decodes: 16, Positions: 96}, 212_000},
		{"mixed: R = 16, N = 96", sim.Batch{Decodes: 14, Positions: 14, Prefills: []sim.Chunk{{Tokens: 50}, {Tokens: 32}}}, 212_000},
		{"padding is work", sim.Batch{Decodes: 14, Positions: 14, Prefills: []sim.Chunk{{Tokens: 50}, {Tokens: 2}},
			Padding: sim.Padding{Rows: 10, PromptTokens: 20}}, 212_000},
	} {
		if got := teaching.StepTime(c.batch); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestRooflineClaim(t *testing.T) {
	bound := change(func(r *costmodel.Roofline) { r.Overhead = 0 })
	v := bound.Terms(40, 40)
	if v.Claim != costmodel.LowerBound || fmt.Sprintf("%.1f", v.Step*1e6) != "80.0" {
		t.Errorf("without overhead: %v of %v s, want a lower bound of 80 µs", v.Claim, v.Step)
	}
	if got := teaching.Terms(40, 40).Claim; got != costmodel.Prediction {
		t.Errorf("with overhead: %v", got)
	}
}

// Eight experts, two per position: 2, then 8·(1 − 0.75²) = 3.5, and in the
// limit all. Bytes never fall.
func TestExperts(t *testing.T) {
	moe := change(func(r *costmodel.Roofline) {
		r.Experts = costmodel.Experts{Count: 8, PerPosition: 2, Bytes: 1e6}
	})
	for n, want := range map[int]float64{0: 0, 1: 2, 2: 3.5, 3: 4.625, 1000: 8} {
		if got := moe.Experts.Touched(n); got != want {
			t.Errorf("%d positions touch %v experts, want %v", n, got, want)
		}
		if got := moe.Terms(1, n).Bytes; got != 4.1e6+want*1e6 {
			t.Errorf("%d positions: %v bytes, want %v", n, got, 4.1e6+want*1e6)
		}
	}
	last := 0.0
	for n := range 200 {
		bytes := moe.Terms(n, n).Bytes
		if bytes < last {
			t.Fatalf("bytes fall from %v to %v at R=N=%d", last, bytes, n)
		}
		last = bytes
	}
	// 13 MB fit into 130 µs: 4 + 1.2 + 8·(1 − 0.75^12) = 12.947, with 13 requests 13.110.
	if got := moe.LargestBatch(150 * time.Microsecond); got != 12 {
		t.Errorf("largest batch within 150 µs: %d, want 12", got)
	}
}

func TestRooflineValidate(t *testing.T) {
	for _, c := range []struct {
		edit func(*costmodel.Roofline)
		want string
	}{
		{func(*costmodel.Roofline) {}, ""},
		{func(r *costmodel.Roofline) { r.SharedBytes = -1 }, "costmodel: Roofline.SharedBytes is -1"},
		{func(r *costmodel.Roofline) { r.ContextBytesPerRequest = math.NaN() }, "costmodel: Roofline.ContextBytesPerRequest is NaN"},
		{func(r *costmodel.Roofline) { r.OpsPerPosition = math.Inf(1) }, "costmodel: Roofline.OpsPerPosition is +Inf"},
		{func(r *costmodel.Roofline) { r.Bandwidth = 0 }, "costmodel: Roofline.Bandwidth is 0"},
		{func(r *costmodel.Roofline) { r.Rate = 0 }, "costmodel: Roofline.Rate is 0"},
		{func(r *costmodel.Roofline) { r.Overhead = -1 }, "costmodel: Roofline.Overhead is -1ns"},
		{func(r *costmodel.Roofline) { r.Experts.Count = -1 }, "costmodel: Roofline.Experts.Count is -1"},
		{func(r *costmodel.Roofline) { r.Experts.PerPosition = 2 }, "costmodel: Roofline.Experts.PerPosition is 2 of 0"},
		{func(r *costmodel.Roofline) { r.Experts.Bytes = -1 }, "costmodel: Roofline.Experts.Bytes is -1"},
	} {
		r := change(c.edit)
		wantError(t, r.Validate(), c.want)
		if c.want != "" {
			wantPanic(t, c.want, func() { r.Terms(1, 1) })
			wantPanic(t, c.want, func() { r.StepTime(sim.Batch{Decodes: 1, Positions: 1}) })
		}
	}
}
