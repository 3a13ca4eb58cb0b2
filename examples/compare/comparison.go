package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"servesim/sim/experiment"
	"servesim/sim/metrics"
)

// Comparison says by how much the goodput of Scheduler exceeds that of Than,
// over pairs of runs with the same seed. Figures are undefined where a run has
// no goodput, the ratio also where one is 0.
type Comparison struct {
	Scheduler  string         `json:"scheduler"`
	Than       string         `json:"than"`
	Seeds      int            `json:"seeds"`
	Level      float64        `json:"level"`
	Difference metrics.Number `json:"goodput_diff_req_per_s"`
	Low        metrics.Number `json:"goodput_diff_low_req_per_s"`
	High       metrics.Number `json:"goodput_diff_high_req_per_s"`
	Ratio      metrics.Number `json:"goodput_ratio"`
	RatioLow   metrics.Number `json:"goodput_ratio_low"`
	RatioHigh  metrics.Number `json:"goodput_ratio_high"`
}

// level is that of the intervals.
const level = 0.95

// pairs compares the best scheduler by mean goodput with each of the others.
// One seed has no pairs.
func pairs(names []string, goodput [][]float64) ([]Comparison, error) {
	out := []Comparison{}
	if len(names) < 2 || len(goodput[0]) < 2 {
		return out, nil
	}
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sum(goodput[b]), sum(goodput[a])) })
	best := order[0]
	for _, i := range order[1:] {
		c, err := pair(goodput[best], goodput[i])
		if err != nil {
			return nil, fmt.Errorf("goodput of %s and %s: %w", names[best], names[i], err)
		}
		c.Scheduler, c.Than = names[best], names[i]
		out = append(out, c)
	}
	return out, nil
}

func pair(a, b []float64) (Comparison, error) {
	c := Comparison{Seeds: len(a), Level: level}
	if math.IsNaN(sum(a)) || math.IsNaN(sum(b)) {
		none := metrics.Number(math.NaN())
		c.Difference, c.Low, c.High, c.Ratio, c.RatioLow, c.RatioHigh = none, none, none, none, none, none
		return c, nil
	}
	p, err := experiment.Paired(a, b, level)
	d, r := p.Difference, p.Ratio
	c.Difference, c.Low, c.High = metrics.Number(d.Mean), metrics.Number(d.Low), metrics.Number(d.High)
	c.Ratio, c.RatioLow, c.RatioHigh = metrics.Number(r.Mean), metrics.Number(r.Low), metrics.Number(r.High)
	return c, err
}

// sum is NaN if a value is; cmp.Compare puts that below every number.
func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}
