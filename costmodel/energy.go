package costmodel

import (
	"fmt"
	"time"
)

// Estimate is what a run takes in energy and money. Neither is measured: a GPU
// is charged with its board's limit, or its part of a data centre, for every
// second that it is held, busy or not. A real board draws less, the more so
// when it waits for memory.
type Estimate struct {
	GPUSeconds  float64
	BoardJoules float64 // at the limit of the board; 0 if the catalogue does not know it
	AllInJoules float64 // with the share of server, network and cooling; 0 if not known
	// Dollars by way of buying; a field is 0 if the catalogue has no price.
	Hyperscaler, Neocloud, Rental float64
}

// EstimateRun returns the estimates for so many GPUs held for so long.
func (g GPU) EstimateRun(gpus int, held time.Duration) Estimate {
	if gpus < 1 || held < 0 {
		panic(fmt.Sprintf("costmodel: EstimateRun of %d GPUs for %v", gpus, held))
	}
	seconds := float64(gpus) * held.Seconds()
	hours := seconds / 3600
	return Estimate{
		GPUSeconds: seconds, BoardJoules: seconds * g.Watts, AllInJoules: seconds * g.Price.AllInWatts,
		Hyperscaler: hours * g.Price.Hyperscaler, Neocloud: hours * g.Price.Neocloud, Rental: hours * g.Price.Rental,
	}
}

// PerMillion returns the estimate for a million of so many tokens.
func (e Estimate) PerMillion(tokens int) Estimate {
	if tokens < 1 {
		panic(fmt.Sprintf("costmodel: Estimate.PerMillion of %d tokens", tokens))
	}
	f := 1e6 / float64(tokens)
	return Estimate{f * e.GPUSeconds, f * e.BoardJoules, f * e.AllInJoules, f * e.Hyperscaler, f * e.Neocloud, f * e.Rental}
}

// String says that the figures are estimates, and which are not known.
func (e Estimate) String() string {
	s := fmt.Sprintf("%.0f GPU-seconds; estimates:", e.GPUSeconds)
	power, price := e.BoardJoules > 0 || e.AllInJoules > 0, e.Hyperscaler > 0 || e.Neocloud > 0 || e.Rental > 0
	if !power && !price {
		return s + " the catalogue has neither power nor price"
	}
	if e.BoardJoules > 0 {
		s += fmt.Sprintf(" at most %.3g kWh of the boards,", e.BoardJoules/3.6e6)
	}
	if e.AllInJoules > 0 {
		s += fmt.Sprintf(" %.3g kWh all in,", e.AllInJoules/3.6e6)
	}
	if !power {
		s += " no power known,"
	}
	if !price {
		s += " no price known,"
	}
	for _, p := range []struct {
		name  string
		value float64
	}{{"hyperscaler", e.Hyperscaler}, {"neocloud", e.Neocloud}, {"three-year rental", e.Rental}} {
		if p.value > 0 {
			s += fmt.Sprintf(" $%.2f %s,", p.value, p.name)
		}
	}
	return s[:len(s)-1]
}
