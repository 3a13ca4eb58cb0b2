package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Delay draws a time, such as what a person needs to think.
type Delay interface {
	Draw(r *rand.Rand) time.Duration
}

// After is the same time always.
type After time.Duration

// Validate reports a negative time.
func (d After) Validate() error {
	if d < 0 {
		return fmt.Errorf("After is %v, want at least 0", time.Duration(d))
	}
	return nil
}

// Draw returns d.
func (d After) Draw(*rand.Rand) time.Duration { return time.Duration(d) }

// LogNormalDelay is Median·exp(Sigma·z), at most Max. Turn gaps of the RAGPulse
// recording have a median of 56 s and Sigma 1.53.
type LogNormalDelay struct {
	Median time.Duration `doc:"median_s"`
	Sigma  float64       `doc:"sigma"`
	Max    time.Duration `doc:"max_s,opt"` // 0 means a thousand hours
}

// longestDelay is what the engine takes.
const longestDelay = 1000 * time.Hour

// Validate reports the first invalid field.
func (d LogNormalDelay) Validate() error {
	switch {
	case d.Median < 0 || d.Median > longestDelay:
		return fmt.Errorf("LogNormalDelay.Median is %v, want from 0 to %v", d.Median, longestDelay)
	case d.Max < 0 || d.Max > longestDelay:
		return fmt.Errorf("LogNormalDelay.Max is %v, want from 0 to %v", d.Max, longestDelay)
	}
	return checkNotNegative("LogNormalDelay.Sigma", d.Sigma)
}

// Draw returns one delay.
func (d LogNormalDelay) Draw(r *rand.Rand) time.Duration {
	most := d.Max
	if most == 0 {
		most = longestDelay
	}
	return time.Duration(min(math.Round(float64(d.Median)*math.Exp(d.Sigma*r.NormFloat64())), float64(most)))
}

// Count is the same number always, as a [Length].
type Count int

// Validate reports a number below 1.
func (n Count) Validate() error {
	if n < 1 {
		return fmt.Errorf("Count is %d, want at least 1", int(n))
	}
	return nil
}

// Draw returns n.
func (n Count) Draw(*rand.Rand) int { return int(n) }
