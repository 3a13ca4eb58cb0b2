package main

import (
	"cmp"
	"runtime"
	"slices"

	"servesim/costmodel"
)

// curves are measured times by size, one curve for each geometry: the baseline
// that knows a geometry and only lacks sizes between.
type curves struct {
	names  []string // in order of appearance
	points map[string][]place
}

type place struct{ size, seconds float64 }

func newCurves() *curves { return &curves{points: map[string][]place{}} }

func (c *curves) add(name string, size, seconds float64) {
	if c.points[name] == nil {
		c.names = append(c.names, name)
	}
	c.points[name] = append(c.points[name], place{size, seconds})
}

// sorted returns a curve by size; of several points of one size the first
// counts.
func (c *curves) sorted(name string) (sizes, seconds []float64) {
	p := slices.Clone(c.points[name])
	slices.SortStableFunc(p, func(a, b place) int { return cmp.Compare(a.size, b.size) })
	p = slices.CompactFunc(p, func(a, b place) bool { return a.size == b.size })
	for _, q := range p {
		sizes, seconds = append(sizes, q.size), append(seconds, q.seconds)
	}
	return sizes, seconds
}

// interpolate makes a table of every second point of each curve and returns its
// errors at the points between.
func (c *curves) interpolate(from costmodel.Provenance) []float64 {
	var errors []float64
	for _, name := range c.names {
		sizes, seconds := c.sorted(name)
		if len(sizes) < 3 {
			continue
		}
		var x, y []float64
		for i := 0; i < len(sizes); i += 2 {
			x, y = append(x, sizes[i]), append(y, seconds[i])
		}
		t, err := costmodel.NewTable(from, x, y, costmodel.LinearInterpolation, costmodel.Extend)
		if err != nil {
			panic(err) // sorted and measured
		}
		for i := 1; i < len(sizes); i += 2 {
			errors = append(errors, t.Seconds(sizes[i])/seconds[i]-1)
		}
	}
	return errors
}

// point is a measurement and its prediction, in seconds.
type point struct{ measured, predicted float64 }

// scatter pairs samples with their predictions, thinned for a plot.
func scatter(samples []costmodel.Sample, errors []float64) []point {
	const most = 4000
	var p []point
	for i := 0; i < len(samples); i += 1 + len(samples)/most {
		p = append(p, point{samples[i].Seconds, samples[i].Seconds * (1 + errors[i])})
	}
	return p
}

func workers() int { return runtime.GOMAXPROCS(0) }
