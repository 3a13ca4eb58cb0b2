package workload

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"servesim/sim"
)

// VLLMBench is the arrivals of vLLM's serving benchmark (vllm bench serve):
// gamma gaps with mean 1/Rate and shape Burstiness. Without a ramp-up all
// instants are stretched so that the last request comes at Requests/Rate
// exactly, the first one gap after 0.
//
// The stretching makes the gaps of one run dependent: their squared CV is
// (N-1)/(N·k+1) in the mean for N requests and burstiness k, not 1/k, so 100
// requests at 0.01 have a CV of 7.0, not 10; and every run has the same load.
// [Gamma] is the process without it. All gaps are held, 8 bytes per request.
type VLLMBench struct {
	Requests int     `doc:"requests"`       // --num-prompts, at least 1
	Rate     float64 `doc:"rate_per_s,opt"` // --request-rate, above 0; +Inf means all at 0
	// Burstiness is the shape of the gaps, at least 1e-6: smaller is burstier.
	// 0 means 1, Poisson-like; +Inf means equal gaps.
	Burstiness float64 `doc:"burstiness,opt"`
	// RampUp varies the rate with the number of the request, not with time,
	// from From for the first to To for the last. Rate is not used then.
	RampUp VLLMRampUp `doc:"ramp_up,opt"`
	From   float64    `doc:"from_per_s,opt"` // requests per second, above 0 with a RampUp
	To     float64    `doc:"to_per_s,opt"`
}

// VLLMRampUp is the shape of a ramp-up of [VLLMBench].
type VLLMRampUp uint8

// The shapes of --ramp-up-strategy.
const (
	NoRampUp VLLMRampUp = iota
	LinearRampUp
	ExponentialRampUp
)

// vllmRampUps are the names of the shapes.
var vllmRampUps = [...]string{NoRampUp: "", LinearRampUp: "linear", ExponentialRampUp: "exponential"}

// MarshalText returns the name that --ramp-up-strategy has for it.
func (r VLLMRampUp) MarshalText() ([]byte, error) {
	if int(r) >= len(vllmRampUps) {
		return nil, fmt.Errorf("VLLMRampUp is %d", r)
	}
	return []byte(vllmRampUps[r]), nil
}

// UnmarshalText reads a name.
func (r *VLLMRampUp) UnmarshalText(name []byte) error {
	i := slices.Index(vllmRampUps[:], string(name))
	if i < 0 {
		return fmt.Errorf("%q is no ramp-up, want linear, exponential or empty", brief(string(name)))
	}
	*r = VLLMRampUp(i)
	return nil
}

// Validate reports an invalid field.
func (v VLLMBench) Validate() error {
	if v.Requests < 1 {
		return fmt.Errorf("VLLMBench.Requests is %d, want at least 1", v.Requests)
	}
	if k := v.Burstiness; k != 0 && !(k >= minShape) {
		return fmt.Errorf("VLLMBench.Burstiness is %v, want at least %v", k, minShape)
	}
	switch v.RampUp {
	case NoRampUp:
		if v.From != 0 || v.To != 0 {
			return fmt.Errorf("VLLMBench.From is %v and To is %v without a RampUp", v.From, v.To)
		}
		if math.IsInf(v.Rate, 1) {
			return nil
		}
		return checkRate("VLLMBench.Rate", v.Rate)
	case LinearRampUp, ExponentialRampUp:
		return errors.Join(checkRate("VLLMBench.From", v.From), checkRate("VLLMBench.To", v.To))
	}
	return fmt.Errorf("VLLMBench.RampUp is %d", v.RampUp)
}

// Times implements [Arrivals].
func (v VLLMBench) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		if err := v.Validate(); err != nil {
			fail(yield, err)
			return
		}
		yieldSeconds(0, v.instants(r), yield)
	}
}

// instants are the arrivals in seconds.
func (v VLLMBench) instants(r *rand.Rand) []float64 {
	gaps := make([]float64, v.Requests)
	if v.RampUp == NoRampUp && math.IsInf(v.Rate, 1) {
		return gaps
	}
	k := v.Burstiness
	if k == 0 {
		k = 1
	}
	var draw logGamma
	if !math.IsInf(k, 1) {
		draw = newLogGamma(k)
	}
	for i := range gaps {
		gaps[i] = 1 / v.rate(i)
		if !math.IsInf(k, 1) {
			gaps[i] *= math.Exp(draw.draw(r)) / k
		}
	}
	floats.CumSum(gaps, gaps)
	if last := gaps[len(gaps)-1]; v.RampUp == NoRampUp && last > 0 {
		floats.Scale(float64(v.Requests)/v.Rate/last, gaps)
	}
	return gaps
}

// rate is the rate of request i.
func (v VLLMBench) rate(i int) float64 {
	progress := float64(i) / float64(max(v.Requests-1, 1))
	switch v.RampUp {
	case LinearRampUp:
		return v.From + float64((v.To-v.From)*progress)
	case ExponentialRampUp:
		return v.From * math.Pow(v.To/v.From, progress)
	}
	return v.Rate
}

// yieldSeconds yields instants that are given in seconds after start, each to
// the nearest nanosecond.
func yieldSeconds(start sim.Time, instants []float64, yield func(sim.Time, error) bool) bool {
	for _, s := range instants {
		ns := math.Round(s * 1e9)
		if !(ns < float64(math.MaxInt64-start)) {
			fail(yield, errNoTime)
			return false
		}
		if !yield(start+sim.Time(ns), nil) {
			return false
		}
	}
	return true
}
