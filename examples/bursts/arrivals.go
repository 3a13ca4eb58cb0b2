package main

import (
	"context"
	"fmt"
	"time"

	"servesim/costmodel"
	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/metrics"
	"servesim/workload"
)

// The server of the first part takes one request at a time.
const (
	service  = 80 * time.Millisecond
	period   = time.Second
	perBurst = 10 // requests in a period, also of the pattern without bursts
	periods  = 10 // observed
)

// arrivals compares patterns of the same rate.
type arrivals struct {
	ServiceMs float64   `json:"service_ms"`
	RatePerS  float64   `json:"rate_per_s"`
	Observed  float64   `json:"observed_s"`
	Patterns  []pattern `json:"patterns"`
}

// pattern is what one arrival process does to the queue.
type pattern struct {
	Name string `json:"name"`
	Text string `json:"arrivals"`
	// WaitsMs holds the wait of the first, second, … request of each second:
	// the longest over all seconds.
	WaitsMs  []float64      `json:"waits_ms"`
	MeanMs   metrics.Number `json:"wait_mean_ms"`
	Requests int64          `json:"requests"`
	// Waiting is the most requests that waited while one was served.
	Waiting int            `json:"waiting_peak"`
	Busy    metrics.Number `json:"busy"` // fraction of time
	// L, Lambda and W are measured apart: the mean number in the system, the
	// rate of departures, the mean time from arrival to end.
	L       metrics.Number `json:"in_system_mean"`
	Lambda  metrics.Number `json:"departures_per_s"`
	WMs     metrics.Number `json:"time_in_system_mean_ms"`
	Finding string         `json:"finding,omitempty"`
}

// newArrivals runs both patterns.
func newArrivals(ctx context.Context) (arrivals, error) {
	a := arrivals{ServiceMs: ms(service), RatePerS: perBurst / period.Seconds(), Observed: (periods * period).Seconds()}
	for _, p := range []struct {
		name, text string
		process    workload.Arrivals
	}{
		{"A", fmt.Sprintf("one request every %v ms", ms(period)/perBurst), workload.Constant{Rate: a.RatePerS}},
		{"B", fmt.Sprintf("%d requests at once every %s", perBurst, seconds(period)), workload.Bursts{Size: perBurst, Every: period}},
	} {
		got := pattern{Name: p.name, Text: p.text, WaitsMs: make([]float64, perBurst)}
		if err := got.observe(ctx, p.process); err != nil {
			return arrivals{}, err
		}
		a.Patterns = append(a.Patterns, got)
	}
	return a, nil
}

// observe serves the arrivals and measures the waits, over whole periods.
func (p *pattern) observe(ctx context.Context, process workload.Arrivals) error {
	const end = sim.Time(periods * period)
	load := workload.Workload{Arrivals: process, Mix: []workload.Share{{Lengths: workload.Tokens{Prompt: 1, Output: 1}}}}
	cfg := sim.Config{
		Replicas: []sim.Replica{{
			Scheduler: scheduler.Continuous{},
			CostModel: costmodel.Linear{Fixed: service}, // a request is one step
			MaxSeqs:   1,
		}},
		Until: end,
	}
	total := time.Duration(0)
	cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
		switch e.Kind {
		case sim.StepEnd:
			p.Waiting = max(p.Waiting, int(e.Waiting))
		case sim.Finish:
			wait := e.Timeline.Admitted.Sub(e.Timeline.Arrival)
			place := e.ID % perBurst // requests are numbered from 0
			p.WaitsMs[place] = max(p.WaitsMs[place], ms(wait))
			total += wait
			p.Requests++
		}
	})}
	r, err := metrics.Run(ctx, cfg, metrics.Options{}, load.Requests())
	if err != nil {
		return err
	}
	p.MeanMs = metrics.Number(ms(total) / float64(p.Requests))
	p.Busy = r.Busy
	p.L, p.Lambda, p.WMs, p.Finding = r.Little.L, r.Little.Lambda, r.Little.W*1e3, r.Little.Finding
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }
