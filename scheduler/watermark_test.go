package scheduler_test

import (
	"context"
	"testing"
	"time"

	"servesim/scheduler"
	"servesim/sim"
)

// A fraction of memory that never runs out keeps nobody waiting, with prefix
// caching or without: the second request runs beside the first.
func TestWatermarkOfUnlimitedMemory(t *testing.T) {
	for _, prefix := range []bool{false, true} {
		for name, s := range map[string]func() sim.Scheduler{
			"VLLM1": func() sim.Scheduler { return scheduler.VLLM1{Watermark: 0.1} },
			"VLLM0": func() sim.Scheduler { return &scheduler.VLLM0{Watermark: 0.1} },
			"Pull":  func() sim.Scheduler { return scheduler.Pull{Scheduler: scheduler.ChunkedPrefill{}, Headroom: 0.1} },
		} {
			r := sim.Replica{Scheduler: s(), CostModel: sim.CostFunc(func(sim.Batch) time.Duration { return time.Millisecond }), PrefixCache: prefix}
			cfg := sim.Config{Replicas: []sim.Replica{r}}
			if name == "Pull" {
				p := r
				p.Scheduler, p.Role, cfg.Replicas[0].Role = scheduler.VLLM1{}, sim.RolePrefill, sim.RoleDecode
				cfg.Replicas = append(cfg.Replicas, p)
				cfg.Link = &sim.Link{TokenBytes: 1, Bandwidth: 1e9}
			}
			most := int32(0)
			cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
				if e.Kind == sim.StepEnd && e.Replica == 0 {
					most = max(most, e.Running)
				}
			})}
			_, err := sim.Run(context.Background(), cfg, func(yield func(sim.Request, error) bool) {
				for id := range 2 {
					if !yield(sim.Request{ID: id, Arrival: sim.Time(id) * sim.Time(10*time.Millisecond), Prompt: 20, Output: 50}, nil) {
						return
					}
				}
			})
			if err != nil || most != 2 {
				t.Errorf("%s, prefix cache %t: %d run at most, error %v", name, prefix, most, err)
			}
		}
	}
}
