package workload

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Delay draws a time, such as what a person needs to think or a packet on its
// way. All chance comes from r. A type that also has Validate() error is asked
// before the first draw.
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

// ExponentialDelay is Base and an exponential time of that Mean behind it, at most
// Max together: a distance and a queue of which only the mean is known.
type ExponentialDelay struct {
	Base time.Duration `doc:"base_s,opt"`
	Mean time.Duration `doc:"mean_s"`
	Max  time.Duration `doc:"max_s,opt"` // 0 means a thousand hours
}

// Validate reports the first invalid field.
func (d ExponentialDelay) Validate() error {
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"Base", d.Base}, {"Mean", d.Mean}, {"Max", d.Max}} {
		if f.value < 0 || f.value > longestDelay {
			return fmt.Errorf("%s is %v, want from 0 to %v", "ExponentialDelay."+f.name, f.value, longestDelay)
		}
	}
	return nil
}

// Draw returns one delay.
func (d ExponentialDelay) Draw(r *rand.Rand) time.Duration {
	most := d.Max
	if most == 0 {
		most = longestDelay
	}
	return min(d.Base+time.Duration(min(math.Round(float64(d.Mean)*r.ExpFloat64()), float64(longestDelay))), most)
}

// ResampleDelay draws from a list of observed delays, each equally likely, with
// replacement.
type ResampleDelay []time.Duration

// Validate reports an empty list or the first negative delay.
func (d ResampleDelay) Validate() error {
	if len(d) == 0 {
		return errors.New("no delays in ResampleDelay")
	}
	for i, v := range d {
		if v < 0 || v > longestDelay {
			return fmt.Errorf("ResampleDelay[%d] is %v, want from 0 to %v", i, v, longestDelay)
		}
	}
	return nil
}

// Draw returns one of the delays.
func (d ResampleDelay) Draw(r *rand.Rand) time.Duration { return d[r.IntN(len(d))] }

// MixedDelay is one of several delays, picked by weight: a usual one and its
// outliers, or hits and misses of a cache.
type MixedDelay []WeightedDelay

// WeightedDelay is a delay of a [MixedDelay].
type WeightedDelay struct {
	Weight float64 `doc:"weight"` // at least 0; divided by the sum of all
	Delay  Delay   `doc:"delay"`
}

// Validate reports the first invalid field.
func (d MixedDelay) Validate() error {
	weights := make([]float64, len(d))
	for i, w := range d {
		if err := validate(fmt.Sprintf("MixedDelay[%d].Delay", i), w.Delay); err != nil {
			return err
		}
		weights[i] = w.Weight
	}
	return checkWeights("MixedDelay weights", weights)
}

// Draw picks a delay and draws from it.
func (d MixedDelay) Draw(r *rand.Rand) time.Duration {
	return d[pick(r, d, func(w *WeightedDelay) float64 { return w.Weight })].Delay.Draw(r)
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
