package sim_test

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

// oneSlot is a single server: one sequence at a time, and a prompt of n tokens
// keeps it busy for n ns. Every request has one output token.
func oneSlot(observers ...sim.Observer) sim.Config {
	return sim.Config{
		Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, MaxSeqs: 1, CostModel: sim.CostFunc(func(b sim.Batch) time.Duration {
			return time.Duration(b.PrefillTokens() + b.Decodes)
		})}},
		Observers: observers,
	}
}

// waits collects how long requests wait for the slot, in order of admission,
// and checks each against Lindley's recursion: the wait of a request is what
// its predecessor left of waiting and service when it arrived.
type waits struct {
	each    func(wait time.Duration)
	wrong   int
	arrival sim.Time
	wait    time.Duration
	service time.Duration
	started bool
}

func (w *waits) Observe(e sim.Event) {
	if e.Kind != sim.Finish {
		return
	}
	got := e.Timeline.Admitted.Sub(e.Timeline.Arrival)
	want := max(0, w.wait+w.service-e.Timeline.Arrival.Sub(w.arrival))
	if w.started && got != want || !w.started && got != 0 {
		w.wrong++
	}
	w.started, w.arrival, w.wait, w.service = true, e.Timeline.Arrival, got, time.Duration(e.Prompt)
	w.each(got)
}

// batchMeans is the mean of a sequence of correlated values and its standard
// error, from the means of batches of equal size.
type batchMeans struct {
	size int
	sum  float64
	in   int
	batches,
	total, squares float64
}

func (b *batchMeans) add(x float64) {
	b.sum += x
	if b.in++; b.in == b.size {
		m := b.sum / float64(b.size)
		b.batches++
		b.total += m
		b.squares += m * m
		b.sum, b.in = 0, 0
	}
}

func (b *batchMeans) mean() (mean, standardError float64) {
	mean = b.total / b.batches
	return mean, math.Sqrt((b.squares/b.batches - mean*mean) / (b.batches - 1))
}

// poissonQueue yields n requests with exponential gaps and a mean service of
// 1 ms, exponential or constant, at a load of rho.
func poissonQueue(seed uint64, n int, rho float64, exponential bool) iter.Seq2[sim.Request, error] {
	const service = 1e6 // ns
	return func(yield func(sim.Request, error) bool) {
		gaps, services := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
		at := 0.0
		for i := range n {
			at += gaps.ExpFloat64() * service / rho
			s := service
			if exponential {
				s = max(1, math.Round(services.ExpFloat64()*service))
			}
			if !yield(sim.Request{ID: i, Arrival: sim.Time(at), Prompt: int(s), Output: 1}, nil) {
				return
			}
		}
	}
}

// Mean waits of M/M/1, ρ/(μ-λ), and of M/D/1, half of that, within three
// standard errors. SERVESIM_LONG=1 takes as many requests as it needs for a
// standard error of at most 1 % of the closed form, and checks that too.
func TestMeanWaits(t *testing.T) {
	long := os.Getenv("SERVESIM_LONG") != ""
	for _, c := range []struct {
		name        string
		exponential bool
		rho         float64
		want        float64 // ms
		requests    int     // for a standard error of 1 %
	}{
		{"M/M/1", true, 0.5, 1, 600_000},
		{"M/M/1", true, 0.8, 4, 2_500_000},
		{"M/M/1", true, 0.9, 9, 10_000_000},
		{"M/D/1", false, 0.5, 0.5, 400_000},
		{"M/D/1", false, 0.8, 2, 1_500_000},
		{"M/D/1", false, 0.9, 4.5, 5_000_000},
	} {
		t.Run(fmt.Sprintf("%s at %g", c.name, c.rho), func(t *testing.T) {
			n := c.requests
			if !long {
				n = c.requests / 20
			}
			b := &batchMeans{size: n / 50}
			w := &waits{each: func(d time.Duration) { b.add(d.Seconds() * 1e3) }}
			res, err := sim.Run(context.Background(), oneSlot(w), poissonQueue(11, n, c.rho, c.exponential))
			if err != nil || res.Completed != int64(n) {
				t.Fatalf("%v: %+v", err, res)
			}
			mean, se := b.mean()
			t.Logf("%d requests: mean wait %.4f ms, closed form %g, standard error %.4f (%.2f %%)", n, mean, c.want, se, 100*se/c.want)
			if w.wrong > 0 {
				t.Errorf("%d waits differ from Lindley's recursion", w.wrong)
			}
			if math.Abs(mean-c.want) > 3*se {
				t.Errorf("mean wait %.4f ms, want %g within 3 standard errors of %.4f", mean, c.want, se)
			}
			if limit := map[bool]float64{true: 0.01, false: 0.1}[long]; se > limit*c.want {
				t.Errorf("standard error %.4f ms, want at most %g of %g ms", se, limit, c.want)
			}
		})
	}
}

// Constant gaps and constant services. At ρ < 1 nobody waits; at ρ > 1 request
// i waits i times the difference.
func TestConstantQueue(t *testing.T) {
	for _, c := range []struct{ gap, service, step time.Duration }{
		{10, 9, 0}, {10, 10, 0}, {10, 11, 1}, {10, 25, 15},
	} {
		var got []time.Duration
		w := &waits{each: func(d time.Duration) { got = append(got, d) }}
		var rs []sim.Request
		var want []time.Duration
		for i := range 500 {
			rs = append(rs, sim.Request{ID: i, Arrival: sim.Time(i) * sim.Time(c.gap), Prompt: int(c.service), Output: 1})
			want = append(want, time.Duration(i)*c.step)
		}
		mustRun(t, oneSlot(w), rs...)
		if d := cmp.Diff(want, got); d != "" || w.wrong > 0 {
			t.Errorf("%+v: waits (-want +got):\n%s", c, d)
		}
	}
}

// Client A sends one request every 100 ms; B sends ten at once every second;
// both ask for 80 ms of service. A never waits. Each burst of B waits 0, 80, …,
// 720 ms, with nine waiting when the first starts. L is λW: 0.8 and 4.4.
func TestSameMeanOtherArrivals(t *testing.T) {
	const ms, bursts = time.Millisecond, 20
	for _, c := range []struct {
		name  string
		at    func(i int) sim.Time
		wait  func(i int) time.Duration
		queue int32
		mean  time.Duration
		load  float64
	}{
		{"A", func(i int) sim.Time { return millisecond(100 * i) }, func(int) time.Duration { return 0 }, 0, 0, 0.8},
		{"B", func(i int) sim.Time { return millisecond(1000 * (i / 10)) }, func(i int) time.Duration { return time.Duration(i%10) * 80 * ms }, 9, 360 * ms, 4.4},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got, want []time.Duration
			var sum, sojourn time.Duration
			longest := int32(0)
			w := &waits{each: func(d time.Duration) { got, sum, sojourn = append(got, d), sum+d, sojourn+d+80*ms }}
			cfg := oneSlot(w, sim.ObserverFunc(func(e sim.Event) { longest = max(longest, e.Waiting) }))
			var rs []sim.Request
			for i := range 10 * bursts {
				rs = append(rs, sim.Request{ID: i, Arrival: c.at(i), Prompt: int(80 * ms), Output: 1})
				want = append(want, c.wait(i))
			}
			mustRun(t, cfg, rs...)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("waits (-want +got):\n%s", d)
			}
			if mean := sum / (10 * bursts); mean != c.mean || longest != c.queue {
				t.Errorf("mean wait %v with %d waiting, want %v with %d", mean, longest, c.mean, c.queue)
			}
			if load := sojourn.Seconds() / bursts; math.Abs(load-c.load) > 1e-12 {
				t.Errorf("%g inside on average, want %g", load, c.load)
			}
		})
	}
}

// inside integrates the number of sequences in a replica from what its step
// ends say, and the time that every one of them spent there. Between steps an
// idle replica is empty.
type inside struct {
	area, sojourn int64
	begin         sim.Time // of the step in flight, as far as integrated
	n             int64
}

func (l *inside) Observe(e sim.Event) {
	switch e.Kind {
	case sim.Queue:
		l.area += l.n * int64(e.Time-l.begin)
		l.begin, l.n = e.Time, l.n+1
	case sim.Finish, sim.Reject, sim.Abort:
		if e.Timeline.Queued == sim.NoTime {
			return
		}
		l.area += l.n * int64(e.Time-l.begin)
		l.begin, l.n = e.Time, l.n-1
		l.sojourn += int64(e.Time - e.Timeline.Queued)
	}
}

// steps integrates the same from the numbers of waiting and running sequences
// that step ends carry.
type steps struct {
	area int64
	from []sim.Time // arrivals since the latest step end
	left []sim.Time // aborts since then
}

func (s *steps) Observe(e sim.Event) {
	switch e.Kind {
	case sim.Queue:
		s.from = append(s.from, e.Time)
	case sim.Abort:
		s.left = append(s.left, e.Time)
	case sim.StepEnd:
		start := e.Time.Add(-e.Took)
		s.area += int64(e.Waiting+e.Running) * int64(e.Took)
		for _, t := range s.from {
			if t > start {
				s.area += int64(e.Time - t)
			}
		}
		for _, t := range s.left {
			if t > start {
				s.area -= int64(e.Time - t)
			}
		}
		s.from, s.left = s.from[:0], s.left[:0]
	}
}

// Little's law holds to the nanosecond on every run: the integral of the
// number inside is the sum of the times spent inside.
func TestLittlesLaw(t *testing.T) {
	for _, p := range colocated {
		t.Run(p.name, func(t *testing.T) {
			byEvents, bySteps := &inside{}, &steps{}
			cfg := oneReplica(byEvents, bySteps)
			r := &cfg.Replicas[0]
			r.Scheduler, r.MaxSeqs, r.KVBlocks = p.policy(), 6, 40
			r.CostModel = sim.CostFunc(func(b sim.Batch) time.Duration {
				return time.Millisecond + time.Duration(b.PrefillTokens())*12_345 + time.Duration(b.Context)*7
			})
			if !p.whole {
				r.MaxBatchTokens = 64
			}
			res := mustRun(t, cfg, crowd(400, true)...)
			if byEvents.area != byEvents.sojourn || byEvents.n != 0 {
				t.Errorf("∫N dt is %d ns, the sum of sojourns %d, %d are still inside", byEvents.area, byEvents.sojourn, byEvents.n)
			}
			if bySteps.area != byEvents.sojourn {
				t.Errorf("∫N dt from step ends is %d ns, the sum of sojourns %d", bySteps.area, byEvents.sojourn)
			}
			if res.Aborted == 0 || res.Completed < 100 {
				t.Errorf("too easy: %+v", res)
			}
		})
	}
}
