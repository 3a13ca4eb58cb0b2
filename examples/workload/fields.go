package main

import (
	"context"
	"math"
	"slices"
	"time"

	"servesim/workload"
)

// Field is one field of what clients send, over all clients and windows.
type Field struct {
	Name    string          `json:"field"`
	Windows int             `json:"windows"` // of clients, with values
	Mean    workload.Figure `json:"mean"`
	P50     workload.Figure `json:"p50"` // the smallest value that is not exceeded with this probability
	P99     workload.Figure `json:"p99"`
	One     workload.Figure `json:"share_of_1"`
}

// field collects a Field.
type field struct {
	name    string
	windows int
	weights map[float64]float64 // by value
}

// describeFields weighs the windows of clients by how many requests rates say
// that they have, or all the same if there are none.
func describeFields(ctx context.Context, o options, rates []workload.ServeGenClient) ([]Field, error) {
	var fields []*field
	for c, err := range (workload.ServeGen{Path: o.file}).Lengths() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		for i, w := range c.Windows {
			end := time.Duration(math.MaxInt64)
			if i+1 < len(c.Windows) {
				end = c.Windows[i+1].Start
			}
			weight := weigh(rates, c.Name, w.Start, end)
			for _, f := range w.Fields {
				fields = collect(fields, f, weight)
			}
		}
	}
	var out []Field
	for _, f := range fields {
		out = append(out, f.figures())
	}
	return out, nil
}

// weigh is the sum of a client's rates in windows of a time.
func weigh(rates []workload.ServeGenClient, name string, from, to time.Duration) float64 {
	if rates == nil {
		return 1
	}
	sum := 0.0
	for _, c := range rates {
		if c.Name != name {
			continue
		}
		for _, w := range c.Windows {
			if w.Start >= from && w.Start < to {
				sum += w.Rate
			}
		}
	}
	return sum
}

// collect adds the values of a window to those of the field of its name.
func collect(fields []*field, from workload.ServeGenField, weight float64) []*field {
	i := slices.IndexFunc(fields, func(f *field) bool { return f.name == from.Name })
	if i < 0 {
		i = len(fields)
		fields = append(fields, &field{name: from.Name, weights: map[float64]float64{}})
	}
	f := fields[i]
	if len(from.Values) > 0 {
		f.windows++
	}
	for _, v := range from.Values {
		f.weights[v.Value] += v.Share * weight
	}
	return fields
}

func (f *field) figures() Field {
	values := make([]float64, 0, len(f.weights))
	for v := range f.weights {
		values = append(values, v)
	}
	slices.Sort(values)
	total, sum := 0.0, 0.0
	for _, v := range values {
		total += f.weights[v]
		sum += v * f.weights[v]
	}
	out := Field{Name: f.name, Windows: f.windows, Mean: workload.Figure(sum / total), One: workload.Figure(f.weights[1] / total)}
	at := func(q float64) workload.Figure {
		below := 0.0
		for _, v := range values {
			if below += f.weights[v]; below >= q*total {
				return workload.Figure(v)
			}
		}
		return workload.Figure(math.NaN())
	}
	out.P50, out.P99 = at(.5), at(.99)
	return out
}
