package sim_test

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"

	"servesim/costmodel"
	"servesim/sim"
	"servesim/sim/metrics"
)

// starving admits prompts whole beside the decodes, but preempts request 0 as soon as it decodes and never admits it again.
type starving struct{}

func (starving) Schedule(v sim.View, p *sim.Plan) {
	for s := range v.Running.All() {
		if s.ID() == 0 && s.Generated() > 3 {
			p.Preempt(s)
		}
	}
	p.AddDecodes()
	for s := range v.Waiting.All() {
		if s.ID() == 0 && s.Preemptions() > 0 {
			continue
		}
		if !p.Add(s, s.Pending()) {
			break
		}
	}
}

// A long run keeps no more at its end than at its beginning, whatever happens
// to a single request. SERVESIM_LONG=1 runs a million requests.
func TestLiveHeapStaysFlat(t *testing.T) {
	n := 200_000
	if os.Getenv("SERVESIM_LONG") != "" {
		n = 1_000_000
	}
	const load = 0.9 // of the saturation rate
	cost := costmodel.Linear{Fixed: 10 * time.Millisecond, PerDecode: 100 * time.Microsecond, PerPromptToken: 2 * time.Microsecond}
	for _, tokenTimes := range []bool{false, true} {
		replica := sim.Replica{Scheduler: starving{}, CostModel: cost, KVBlocks: 1 << 20, MaxSeqs: 128, MaxBatchTokens: 2048}
		full, err := sim.Run(context.Background(), sim.Config{Replicas: []sim.Replica{replica}}, uniform(10_000, 0, 512, 128))
		if full.Unfinished != 1 || err == nil {
			t.Fatalf("saturated: %+v, %v; want all but the starving request done", full, err)
		}
		rate := load * float64(full.Completed) / full.End.Seconds()
		cfg := sim.Config{TokenTimes: tokenTimes, Replicas: []sim.Replica{replica}, Until: sim.Time(float64(n) / rate * 1e9)}
		collector, err := metrics.New(cfg, metrics.Options{Streaming: true})
		if err != nil {
			t.Fatal(err)
		}
		var live []uint64
		finished := 0
		probe := sim.ObserverFunc(func(e sim.Event) {
			if e.Kind != sim.Finish {
				return
			}
			if finished++; finished == n/10 || finished == n/2 || finished == n*99/100 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				live = append(live, m.HeapAlloc)
			}
		})
		cfg.Observers = []sim.Observer{collector, probe}
		res, err := sim.Run(context.Background(), cfg, poisson(n, rate, 512, 128))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("TokenTimes %v, %.1f req/s: live heap %d B, %d of %d requests done, %+v", tokenTimes, rate, live, finished, n, res)
		if len(live) != 3 || res.Preemptions != 1 || res.Unfinished < 1 {
			t.Fatalf("%d probes, result %+v", len(live), res)
		}
		for _, b := range live[1:] {
			if r := float64(b) / float64(live[0]); r > 1.1 || r < 0.9 {
				t.Errorf("TokenTimes %v: live heap %d B, %.2f times that at a tenth of the run", tokenTimes, b, r)
			}
		}
	}
}
