package workload

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"servesim/sim"
)

// OnOff is a Poisson process with two rates in turn, each for an exponential
// time: bursts and silences of a client. Off is usually 0. It starts in a state
// drawn by the time spent in each, so it has no warm-up. It is an MMPP of two
// states whose state changes at any time, not only at the end of a slot.
type OnOff struct {
	On      float64       `doc:"on_per_s"` // requests per second, at least 0
	Off     float64       `doc:"off_per_s,opt"`
	MeanOn  time.Duration `doc:"mean_on_s"` // mean time of a stay, above 0; together at least 1e-6 requests
	MeanOff time.Duration `doc:"mean_off_s"`
}

// Validate reports an invalid field.
func (o OnOff) Validate() error {
	for _, f := range []struct {
		name string
		rate float64
	}{{"On", o.On}, {"Off", o.Off}} {
		if !(f.rate >= 0 && f.rate <= maxRate) {
			return fmt.Errorf("OnOff.%s is %v, want 0 to 1e9", f.name, f.rate)
		}
	}
	switch {
	case o.MeanOn <= 0:
		return fmt.Errorf("OnOff.MeanOn is %v, want more than 0", o.MeanOn)
	case o.MeanOff <= 0:
		return fmt.Errorf("OnOff.MeanOff is %v, want more than 0", o.MeanOff)
	}
	if n := o.Rate() * (o.MeanOn.Seconds() + o.MeanOff.Seconds()); n < 1e-6 {
		return fmt.Errorf("OnOff.On is %v and Off is %v: %.3g requests in a stay of each, want at least 1e-6", o.On, o.Off, n)
	}
	return nil
}

// Times implements [Arrivals].
func (o OnOff) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) { renewal(o, o.gaps(r))(yield) }
}

// gaps draws the first state and returns a function that draws gaps.
func (o OnOff) gaps(r *rand.Rand) func() float64 {
	rates := [2]float64{o.Off, o.On}
	means := [2]float64{o.MeanOff.Seconds(), o.MeanOn.Seconds()}
	state := 0
	if r.Float64() < o.share() {
		state = 1
	}
	stay := means[state] * r.ExpFloat64()
	return func() float64 {
		gap := 0.0
		need := r.ExpFloat64() // expected arrivals until the next one
		for left := rates[state] * stay; need >= left; left = rates[state] * stay {
			need -= left
			gap += stay
			state = 1 - state
			stay = means[state] * r.ExpFloat64()
		}
		took := need / rates[state]
		stay -= took
		return gap + took
	}
}

// share is the fraction of time spent on.
func (o OnOff) share() float64 {
	on, off := o.MeanOn.Seconds(), o.MeanOff.Seconds()
	return on / (on + off)
}

// Rate returns the long-run number of requests per second. The fields are
// valid.
func (o OnOff) Rate() float64 {
	p := o.share()
	return float64(p*o.On) + float64((1-p)*o.Off)
}

// IDC returns the index of dispersion for counts in windows of that width,
// above 0, in closed form; the fields are valid. The covariance of the rates
// τ apart is v·exp(-θτ) with v = p(1-p)(On-Off)² and θ = 1/MeanOn + 1/MeanOff,
// and so IDC(w) = 1 + 2v/(λθ)·(1 - (1-exp(-θw))/(θw)) (Heffes and Lucantoni,
// "A Markov modulated characterization of packetized voice and data traffic",
// IEEE JSAC 1986).
func (o OnOff) IDC(window time.Duration) float64 {
	p, d := o.share(), o.On-o.Off
	theta := 1/o.MeanOn.Seconds() + 1/o.MeanOff.Seconds()
	x := theta * window.Seconds()
	return 1 + 2*p*(1-p)*d*d/(o.Rate()*theta)*(1+math.Expm1(-x)/x)
}
