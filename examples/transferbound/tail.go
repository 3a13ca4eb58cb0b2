package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"servesim/costmodel"
	"servesim/sim"
	"servesim/sim/metrics"
)

// result is one link.
type result struct {
	Link string  `json:"link"`
	GBps float64 `json:"link_gb_per_s"` // that the port of a replica reaches
	// BurstMs is the KV of a burst of mean prompts over the ports of the decode
	// pool, ComputeMs the prompts themselves in the prefill pool.
	BurstMs   float64 `json:"burst_kv_ms"`
	ComputeMs float64 `json:"burst_prefill_ms"`

	TTFTP50 float64 `json:"ttft_p50_ms"`
	TTFTP95 float64 `json:"ttft_p95_ms"`
	// All describes every request, Tail those above p95 TTFT.
	All  shares `json:"all"`
	Tail shares `json:"above_p95"`
}

// shares says where the time to the first token of some requests went. Shares are
// sums over the sum of their TTFT, in percent, and undefined without requests.
type shares struct {
	Requests int            `json:"requests"`
	TTFT     metrics.Number `json:"ttft_mean_ms"`
	Parts    []partShare    `json:"parts"`
	Prefill  metrics.Number `json:"prefill_pct"`  // computing the prompts
	Queueing metrics.Number `json:"queueing_pct"` // queue, room, contention, decode_queue
	Transfer metrics.Number `json:"transfer_pct"` // wire
	Decode   metrics.Number `json:"first_decode_pct"`
}

type partShare struct {
	Part  string         `json:"part"`
	Mean  metrics.Number `json:"mean_ms"`
	Share metrics.Number `json:"share_pct"`
}

// compare runs the scenario over every link.
func compare(ctx context.Context, s scenario) (report, error) {
	setup, err := s.complete()
	if err != nil {
		return report{}, err
	}
	r := report{Scenario: s, Published: published}
	for _, name := range s.Links {
		l, err := costmodel.LookupLink(name)
		if err != nil {
			return report{}, err
		}
		link, err := setup.KVLink(l)
		if err != nil {
			return report{}, err
		}
		x := result{Link: l.Name, GBps: link.Bandwidth / 1e9}
		if err := x.observe(ctx, s, setup, link); err != nil {
			return report{}, fmt.Errorf("%s: %w", l.Name, err)
		}
		r.Results = append(r.Results, x)
	}
	return r, nil
}

// observe runs the scenario over a link. Percentiles are linear.
func (r *result) observe(ctx context.Context, s scenario, setup costmodel.Setup, link sim.Link) error {
	cfg, err := s.config(setup, link)
	if err != nil {
		return err
	}
	burst := float64(s.Size * s.Prompt)
	r.BurstMs = 1e3 * burst * float64(link.TokenBytes) / link.Bandwidth / float64(s.Decode)
	step := cfg.Replicas[0].CostModel.StepTime(sim.Batch{Prefills: []sim.Chunk{{Tokens: s.Prompt, Last: true}}})
	r.ComputeMs = ms(step) * float64(s.Size) / float64(s.Prefill)

	l := &ledger{link: link, block: sim.DefaultBlockTokens, alive: map[int64]*instants{}}
	cfg.Observers = []sim.Observer{l}
	counts, err := sim.Run(ctx, cfg, s.requests())
	switch {
	case err != nil:
		return err
	case l.unexpected != nil:
		return l.unexpected
	case counts.Completed != counts.Arrived:
		return fmt.Errorf("%d of %d requests completed", counts.Completed, counts.Arrived)
	}
	var ttft []float64
	for _, w := range l.ways {
		ttft = append(ttft, ms(w.ttft))
	}
	r.TTFTP50, r.TTFTP95 = metrics.Percentile(ttft, 0.5, metrics.Linear), metrics.Percentile(ttft, 0.95, metrics.Linear)
	var tail []way
	for _, w := range l.ways {
		if ms(w.ttft) > r.TTFTP95 {
			tail = append(tail, w)
		}
	}
	r.All, r.Tail = share(l.ways), share(tail)
	return nil
}

func share(ways []way) shares {
	var sums [parts]time.Duration
	var total time.Duration
	for _, w := range ways {
		total += w.ttft
		for p, d := range w.parts {
			sums[p] += d
		}
	}
	over := func(a, b float64) metrics.Number {
		if b == 0 {
			return metrics.Number(math.NaN())
		}
		return metrics.Number(a / b)
	}
	percent := func(list ...part) metrics.Number {
		sum := time.Duration(0)
		for _, p := range list {
			sum += sums[p]
		}
		return over(100*float64(sum), float64(total))
	}
	n := float64(len(ways))
	s := shares{Requests: len(ways), TTFT: over(ms(total), n)}
	for p, d := range sums {
		s.Parts = append(s.Parts, partShare{part(p).String(), over(ms(d), n), percent(part(p))})
	}
	s.Prefill, s.Transfer, s.Decode = percent(prefill), percent(wire), percent(decode)
	s.Queueing = percent(queue, room, contention, decodeQueue)
	return s
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }
