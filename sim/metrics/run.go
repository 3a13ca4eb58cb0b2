package metrics

import (
	"context"
	"iter"

	"servesim/sim"
)

// Run simulates cfg with one more observer, a Collector, and returns its
// report. With an error the report describes what had happened until then.
func Run(ctx context.Context, cfg sim.Config, o Options, requests iter.Seq2[sim.Request, error]) (Report, error) {
	c, err := New(cfg, o)
	if err != nil {
		return Report{}, err
	}
	cfg.Observers = append(cfg.Observers[:len(cfg.Observers):len(cfg.Observers)], c)
	if _, err = sim.Run(ctx, cfg, requests); err != nil {
		return c.Report(), err
	}
	return c.Report(), nil
}
