package metrics

import (
	"errors"
	"fmt"

	"servesim/sim"
)

// Collector is a sim.Observer that measures one run. Make it with [New], list
// it in Config.Observers and ask for its Report when the run is over.
//
// A step costs a few additions, whatever the batch. With the default options
// memory grows with steps and requests, never with tokens: about 4 bytes for a
// step whose gaps differ from those of the step before, about 20 for a
// completed request.
type Collector struct {
	options Options
	window  window
	cells   []cell // one per class and, behind them, one for unknown classes
	now     sim.Time

	inSystem, atDoor, waiting, running level
	again                              map[int64]struct{} // requests that have run and wait again, by serial
	departures                         int64              // requests that left in the window, however
	sojourns                           area               // their time in the system
	firstArrival                       sim.Time           // of a measured request
	lastCompletion                     sim.Time

	steps    steps
	replicas []replica

	sampled, delivered []sim.Time // scratch
}

// Options are the choices of a Collector. The zero value measures the whole
// run, keeps every value and interpolates percentiles.
type Options struct {
	// Percentiles is the convention for all percentiles but the gap target's.
	Percentiles Method
	// Gap is the rule for gap targets.
	Gap GapRule
	// Client measures at the client too; see the package comment.
	Client bool
	// ClientGaps measures every gap between tokens at the client: a client's ITL.
	// It takes sim.Config.TokenTimes and a time in proportion to the tokens of a
	// request. It sets Client.
	ClientGaps bool
	// Boundary is where targets are judged. AtClient sets Client.
	Boundary Boundary
	// WarmUp and Until bound the measured window; see the package comment.
	// Until 0 means the end of the run.
	WarmUp, Until sim.Time
	// Streaming keeps sketches in place of values: memory is constant, about
	// 1.8 MB a class, and a percentile lies within 0.1 % of the exact one, or
	// half a nanosecond where that is more.
	Streaming bool
	// MinBeyond is the number of observations that should lie beyond a
	// percentile. Below it the percentile is flagged. 0 means 1, so that a p95
	// needs 20 observations and a p99 100.
	MinBeyond int
}

// New returns a collector for one run of cfg, of which it reads Replicas and
// Classes. The error names the option that cannot be.
func New(cfg sim.Config, o Options) (*Collector, error) {
	switch {
	case o.Percentiles > NearestRank:
		return nil, fmt.Errorf("metrics: Options.Percentiles is %v", o.Percentiles)
	case o.Gap > GapMax:
		return nil, fmt.Errorf("metrics: Options.Gap is %v", o.Gap)
	case o.Boundary > AtClient:
		return nil, fmt.Errorf("metrics: Options.Boundary is %v", o.Boundary)
	case o.ClientGaps && !cfg.TokenTimes:
		return nil, errors.New("metrics: Options.ClientGaps takes sim.Config.TokenTimes")
	case o.WarmUp < 0:
		return nil, fmt.Errorf("metrics: Options.WarmUp is %d", o.WarmUp)
	case o.Until != 0 && o.Until <= o.WarmUp:
		return nil, fmt.Errorf("metrics: Options.Until is %v, not after WarmUp %v", o.Until, o.WarmUp)
	case o.MinBeyond < 0:
		return nil, fmt.Errorf("metrics: Options.MinBeyond is %d", o.MinBeyond)
	}
	o.Client = o.Client || o.ClientGaps || o.Boundary == AtClient
	c := &Collector{options: o, window: window{o.WarmUp, o.Until}, again: map[int64]struct{}{}, firstArrival: sim.NoTime, lastCompletion: sim.NoTime}
	if o.Until == 0 {
		c.window.to = sim.Never
	}
	classes := cfg.Classes
	if len(classes) == 0 {
		classes = []sim.Class{{}}
	}
	for _, k := range classes {
		c.cells = append(c.cells, newCell(k, o.Streaming))
	}
	if o.Client {
		for i := range c.cells {
			c.cells[i].client = newClientCell(o.Streaming)
		}
	}
	c.cells = append(c.cells, newCell(sim.Class{Name: unknownClass}, false))
	for _, r := range cfg.Replicas {
		c.replicas = append(c.replicas, replica{usable: int64(r.KVBlocks - r.ReservedBlocks)})
	}
	return c, nil
}

// Observe takes in an event. Events come in order of time.
func (c *Collector) Observe(e sim.Event) {
	c.now = e.Time
	switch e.Kind {
	case sim.StepEnd:
		c.stepEnd(&e)
	case sim.Arrive:
		c.arrive(&e)
	case sim.Queue:
		c.queue(&e)
	case sim.Admit:
		c.admit(&e)
	case sim.Handoff:
		c.waitAgain(&e)
	case sim.Preempt:
		c.preempt(&e)
	case sim.Finish, sim.Reject, sim.Abort:
		c.leave(&e)
	}
}

// few names the percentiles of n observations that too few lie beyond.
func (o Options) few(n int64) []string {
	beyond := int64(max(1, o.MinBeyond))
	var names []string
	for _, p := range []int64{50, 90, 95, 99} {
		if n > 0 && n*(100-p) < 100*beyond {
			names = append(names, fmt.Sprintf("p%d", p))
		}
	}
	return names
}
