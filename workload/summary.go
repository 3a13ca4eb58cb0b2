package workload

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"time"
)

// Summary describes a set of lengths. Percentiles interpolate linearly at
// position (N-1)·q of the sorted values.
type Summary struct {
	Mean Figure
	CV   Figure // standard deviation of the population / mean
	Min  Figure
	P5   Figure
	P25  Figure
	P50  Figure
	P75  Figure
	P90  Figure
	P95  Figure
	P99  Figure
	P999 Figure // 99.9 %
	Max  Figure
}

func summarise(values []int32) Summary {
	var m moments
	for _, v := range values {
		m.add(float64(v))
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	at := func(q float64) Figure { return quantile(sorted, q) }
	return Summary{
		Mean: orNaN(m.mean, m.n > 0), CV: m.cv(),
		Min: at(0), P5: at(.05), P25: at(.25), P50: at(.5), P75: at(.75),
		P90: at(.9), P95: at(.95), P99: at(.99), P999: at(.999), Max: at(1),
	}
}

// quantile interpolates linearly at position (N-1)·q of sorted values.
func quantile[T int32 | time.Duration](sorted []T, q float64) Figure {
	if len(sorted) == 0 {
		return Figure(math.NaN())
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	low := float64(sorted[i])
	if i+1 == len(sorted) {
		return Figure(low)
	}
	return Figure(low + float64((at-float64(i))*(float64(sorted[i+1])-low)))
}

// ranks returns the rank of each value, from 0; equal values share the mean of
// their ranks.
func ranks(values []int32) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	out := make([]float64, len(values))
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			out[k] = float64(i+j-1) / 2
		}
		i = j
	}
	return out
}

// MarshalJSON writes one flat object.
func (d Description) MarshalJSON() ([]byte, error) {
	type plain Description // without this method
	return json.Marshal(struct {
		plain
		promptJSON
		outputJSON
	}{plain(d), promptJSON(d.Prompt), outputJSON(d.Output)})
}

// promptJSON and outputJSON are Summary under the names of JSON.
type promptJSON struct {
	Mean Figure `json:"prompt_mean"`
	CV   Figure `json:"prompt_cv"`
	Min  Figure `json:"prompt_min"`
	P5   Figure `json:"prompt_p5"`
	P25  Figure `json:"prompt_p25"`
	P50  Figure `json:"prompt_p50"`
	P75  Figure `json:"prompt_p75"`
	P90  Figure `json:"prompt_p90"`
	P95  Figure `json:"prompt_p95"`
	P99  Figure `json:"prompt_p99"`
	P999 Figure `json:"prompt_p99_9"`
	Max  Figure `json:"prompt_max"`
}

type outputJSON struct {
	Mean Figure `json:"output_mean"`
	CV   Figure `json:"output_cv"`
	Min  Figure `json:"output_min"`
	P5   Figure `json:"output_p5"`
	P25  Figure `json:"output_p25"`
	P50  Figure `json:"output_p50"`
	P75  Figure `json:"output_p75"`
	P90  Figure `json:"output_p90"`
	P95  Figure `json:"output_p95"`
	P99  Figure `json:"output_p99"`
	P999 Figure `json:"output_p99_9"`
	Max  Figure `json:"output_max"`
}
