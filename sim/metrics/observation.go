package metrics

import (
	"fmt"
	"math"
	"time"

	"servesim/sim"
)

// Observation is the window in which a benchmark at fixed concurrency measures
// the rate of its steps: the ends of successive steps, kept raw so that the
// rate can be worked out again with another filter. It is fed as a
// sim.Observer, or by hand with Add. Make it with [NewObservation].
//
// Calls are skipped first (WarmUp and Unmeasured); then the ends of Steps + 1
// calls at the wanted concurrency are kept. Calls at another concurrency leave
// no endpoint: they are counted, and their time stays in the interval that
// spans them.
type Observation struct {
	Config    ObservationConfig
	Endpoints []Endpoint

	calls, omitted int
	countdown      int64
}

// ObservationConfig is what the endpoints belong to.
type ObservationConfig struct {
	Name        string `json:"name,omitempty"`
	Replica     int    `json:"replica"`
	Concurrency int    `json:"concurrency"` // requests that run; ≥ 1
	WarmUp      int    `json:"warm_up"`     // calls that are skipped
	Unmeasured  int    `json:"unmeasured"`  // and as many behind them
	Steps       int    `json:"steps"`       // intervals between the endpoints; ≥ 1
	Draft       int    `json:"draft"`       // draft positions that a request submits in every step
	CPSize      int    `json:"cp_size"`     // devices that share one rank's context; ≥ 1
}

// Endpoint is the end of a call at the wanted concurrency.
type Endpoint struct {
	Time      sim.Time `json:"time_ns"`
	Flushed   bool     `json:"flushed"`   // the call also flushed what had piled up
	Omitted   int      `json:"omitted"`   // calls since the endpoint before, at another concurrency
	Positions int      `json:"positions"` // that the call computed
	Useful    int      `json:"useful"`    // tokens that came of it
}

// Call is a step of the engine, as a benchmark sees it.
type Call struct {
	End               sim.Time
	Running           int   // requests
	Countdown         int64 // to the next flush: it rises across a call that flushes
	Positions, Useful int
}

// NewObservation returns a window. The error names the field that cannot be.
func NewObservation(c ObservationConfig) (*Observation, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Observation{Config: c}, nil
}

func (c ObservationConfig) validate() error {
	for _, f := range []struct {
		name         string
		value, least int
	}{
		{"replica", c.Replica, 0}, {"concurrency", c.Concurrency, 1}, {"warm_up", c.WarmUp, 0}, {"unmeasured", c.Unmeasured, 0},
		{"steps", c.Steps, 1}, {"draft", c.Draft, 0}, {"cp_size", c.CPSize, 1},
	} {
		if f.value < f.least {
			return fmt.Errorf("metrics: %s of an observation is %d, less than %d", f.name, f.value, f.least)
		}
	}
	return nil
}

// Observe implements sim.Observer. Engines here flush nothing.
func (o *Observation) Observe(e sim.Event) {
	if e.Kind != sim.StepEnd || int(e.Replica) != o.Config.Replica {
		return
	}
	o.Add(Call{End: e.Time, Running: int(e.Running), Positions: e.Batch.Positions + e.Batch.PrefillTokens(), Useful: int(e.Tokens)})
}

// Add takes the next call. Calls behind the last endpoint are not looked at.
func (o *Observation) Add(c Call) {
	flushed := o.calls > 0 && c.Countdown > o.countdown
	o.calls++
	o.countdown = c.Countdown
	switch {
	case o.calls <= o.Config.WarmUp+o.Config.Unmeasured || o.Done():
	case c.Running != o.Config.Concurrency:
		o.omitted++
	default:
		if len(o.Endpoints) == 0 {
			o.omitted = 0 // before the window
		}
		o.Endpoints = append(o.Endpoints, Endpoint{c.End, flushed, o.omitted, c.Positions, c.Useful})
		o.omitted = 0
	}
}

// Done reports whether all endpoints are there. A loop that ends early has
// fewer.
func (o *Observation) Done() bool { return len(o.Endpoints) > o.Config.Steps }

// ObservationReport is what a window shows. Rates are NaN, not measured, if no
// interval is eligible.
type ObservationReport struct {
	Intervals int    `json:"intervals"` // selected
	Omitted   int    `json:"omitted"`   // calls at another concurrency between the first and the last endpoint
	LargestMs Number `json:"largest_interval_ms"`
	StepRate  Number `json:"steps_per_s"`
	TokenRate Number `json:"useful_tokens_per_s"` // of the calls that end the selected intervals
}

// NotFlushed is the usual filter: it leaves intervals out whose later endpoint
// flushed.
func NotFlushed(later Endpoint) bool { return !later.Flushed }

// Report works the rates out. Intervals are formed of neighbouring endpoints
// first; then those stay whose later endpoint passes the filter.
func (o *Observation) Report(filter func(later Endpoint) bool) ObservationReport {
	r := ObservationReport{LargestMs: Number(math.NaN()), StepRate: Number(math.NaN()), TokenRate: Number(math.NaN())}
	var sum, largest time.Duration
	useful := 0
	for i := 1; i < len(o.Endpoints); i++ {
		later := o.Endpoints[i]
		r.Omitted += later.Omitted
		if !filter(later) {
			continue
		}
		d := later.Time.Sub(o.Endpoints[i-1].Time)
		sum, largest, useful = sum+d, max(largest, d), useful+later.Useful
		r.Intervals++
	}
	if r.Intervals > 0 {
		r.LargestMs = Number(float64(largest) / 1e6)
		r.StepRate, r.TokenRate = Number(float64(r.Intervals)/sum.Seconds()), Number(float64(useful)/sum.Seconds())
	}
	return r
}

// FullAcceptance returns the tokens per second and device of a rank that would
// come if every position were accepted: steps/s · requests · (1 + draft) /
// cp_size. It is refused if a step submitted another number of positions.
func (o *Observation) FullAcceptance(r ObservationReport) (Number, error) {
	return o.accepted(r, float64(1+o.Config.Draft))
}

// Accepted is FullAcceptance with so many useful tokens per request and step.
func (o *Observation) Accepted(r ObservationReport, useful float64) (Number, error) {
	if !(useful >= 0 && useful <= float64(1+o.Config.Draft)) {
		return Number(math.NaN()), fmt.Errorf("metrics: %v useful tokens of %d positions a request and step", useful, 1+o.Config.Draft)
	}
	return o.accepted(r, useful)
}

func (o *Observation) accepted(r ObservationReport, useful float64) (Number, error) {
	positions := o.Config.Concurrency * (1 + o.Config.Draft)
	for i, e := range o.Endpoints {
		if e.Positions != positions {
			return Number(math.NaN()), fmt.Errorf("metrics: endpoint %d computed %d positions, not %d·%d: lengths vary, measure time and useful tokens together",
				i, e.Positions, o.Config.Concurrency, 1+o.Config.Draft)
		}
	}
	return Number(float64(r.StepRate) * float64(o.Config.Concurrency) * useful / float64(o.Config.CPSize)), nil
}

// SystemRate returns the tokens per second and device of a system of
// data-parallel ranks, from the rates per device of every rank: one rank's does
// not stand for the others.
func SystemRate(ranks ...Number) Number {
	sum := 0.0
	for _, r := range ranks {
		sum += float64(r)
	}
	return Number(sum / float64(len(ranks)))
}
