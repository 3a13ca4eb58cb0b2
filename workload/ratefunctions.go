package workload

import (
	"errors"
	"fmt"
	"math"
	"time"

	"servesim/sim"
)

// Diurnal is a rate that swings once a period: Mean·(1 + Swing·cos(2π(t -
// Highest)/Period)). The ratio of peak to trough is (1+Swing)/(1-Swing).
type Diurnal struct {
	Mean    float64       `doc:"mean_per_s"`    // requests per second over a period, above 0
	Swing   float64       `doc:"swing"`         // 0 to 1; 1 comes down to 0
	Highest time.Duration `doc:"highest_s,opt"` // instant of the peak
	Period  time.Duration `doc:"period_s,opt"`  // 0 means 24 h
}

// Validate reports an invalid field.
func (d Diurnal) Validate() error {
	if err := checkRate("Diurnal.Mean", d.Mean); err != nil {
		return err
	}
	if !(d.Swing >= 0 && d.Swing <= 1) {
		return fmt.Errorf("Diurnal.Swing is %v, want 0 to 1", d.Swing)
	}
	if d.Period < 0 {
		return fmt.Errorf("Diurnal.Period is %v, want at least 0", d.Period)
	}
	return nil
}

// Rate implements [RateFunction].
func (d Diurnal) Rate(t sim.Time) float64 {
	period := d.Period
	if period == 0 {
		period = 24 * time.Hour
	}
	into := (time.Duration(t)%period - d.Highest%period).Seconds()
	return d.Mean * (1 + float64(d.Swing*math.Cos(2*math.Pi*into/period.Seconds())))
}

// Peak is the highest rate.
func (d Diurnal) Peak() float64 { return d.Mean * (1 + d.Swing) }

// Ramp is a rate that goes from From to To in a straight line, over Over, and
// stays there. If it stays at 0 the process ends.
type Ramp struct {
	From float64       `doc:"from_per_s"` // requests per second, at least 0, not both 0
	To   float64       `doc:"to_per_s"`
	Over time.Duration `doc:"over_s"` // above 0
}

// Validate reports an invalid field.
func (r Ramp) Validate() error {
	if err := errors.Join(checkNotNegative("Ramp.From", r.From), checkNotNegative("Ramp.To", r.To)); err != nil {
		return err
	}
	if r.Peak() == 0 {
		return errors.New("Ramp.From and Ramp.To are 0")
	}
	if r.Over <= 0 {
		return fmt.Errorf("Ramp.Over is %v, want more than 0", r.Over)
	}
	return nil
}

// Rate implements [RateFunction].
func (r Ramp) Rate(t sim.Time) float64 {
	if t >= sim.Time(r.Over) {
		return r.To
	}
	return r.From + float64((r.To-r.From)*(float64(t)/float64(r.Over)))
}

// Peak is the highest rate.
func (r Ramp) Peak() float64 { return max(r.From, r.To) }

// Resume is t, or never after a ramp down to 0.
func (r Ramp) Resume(t sim.Time) sim.Time {
	if r.To == 0 && t >= sim.Time(r.Over) {
		return sim.Never
	}
	return t
}

// Steps is a rate that is constant for a time, then another: stages of a test,
// a spike, or, repeated, a profile by the hour.
type Steps struct {
	Steps  []Step `doc:"steps"`
	Repeat bool   `doc:"repeat,opt"` // begins again after the last; by default the process ends
}

// Step is one constant rate.
type Step struct {
	Rate float64       `doc:"rate_per_s"` // requests per second, at least 0, not 0 in all steps
	For  time.Duration `doc:"for_s"`      // above 0
}

// Validate reports an invalid field.
func (s Steps) Validate() error {
	if len(s.Steps) == 0 {
		return errors.New("no Steps in Steps")
	}
	total := time.Duration(0)
	for i, step := range s.Steps {
		if err := checkNotNegative(fmt.Sprintf("Steps.Steps[%d].Rate", i), step.Rate); err != nil {
			return err
		}
		if step.For <= 0 || step.For > math.MaxInt64-total {
			return fmt.Errorf("Steps.Steps[%d].For is %v, want more than 0 and 292 years in all", i, step.For)
		}
		total += step.For
	}
	if s.Peak() == 0 {
		return errors.New("Steps.Steps have no Rate above 0")
	}
	return nil
}

// Rate implements [RateFunction].
func (s Steps) Rate(t sim.Time) float64 {
	if i, _ := s.at(t); i < len(s.Steps) {
		return s.Steps[i].Rate
	}
	return 0
}

// at returns the step at an instant and how much of it is left; behind the
// last step its index is their number.
func (s Steps) at(t sim.Time) (i int, left time.Duration) {
	into := time.Duration(t)
	if s.Repeat {
		total := time.Duration(0)
		for _, step := range s.Steps {
			total += step.For
		}
		into %= total
	}
	for i, step := range s.Steps {
		if into < step.For {
			return i, step.For - into
		}
		into -= step.For
	}
	return len(s.Steps), 0
}

// Resume is the first instant from t on with a rate above 0.
func (s Steps) Resume(t sim.Time) sim.Time {
	for {
		i, left := s.at(t)
		switch {
		case i == len(s.Steps) || t > sim.Never-sim.Time(left):
			return sim.Never
		case s.Steps[i].Rate > 0:
			return t
		}
		t = t.Add(left)
	}
}

// Peak is the highest rate.
func (s Steps) Peak() float64 {
	peak := 0.0
	for _, step := range s.Steps {
		peak = max(peak, step.Rate)
	}
	return peak
}
