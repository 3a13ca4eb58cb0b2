package costmodel

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// Grid is a measured time at the points of a rectangular grid, such as an
// attention kernel by sequences and context. Between the points it interpolates
// linearly along every axis, which is exact for products of one coordinate of
// each. It never answers outside.
type Grid struct {
	from    Provenance
	axes    [][]float64
	seconds []float64 // the last axis runs fastest
}

// maxAxes bounds the axes of a grid, so that looking up needs no allocation.
const maxAxes = 6

// NewGrid returns a grid of the samples, whose inputs are the coordinates.
// Samples need not fill one: the values of an axis that have the fewest of
// their points are left out, one after the other, until none is missing. Of
// two samples at one point the later counts.
func NewGrid(from Provenance, samples []Sample) (*Grid, error) {
	if err := from.Validate(); err != nil {
		return nil, err
	}
	if len(samples) == 0 {
		return nil, fmt.Errorf("costmodel: a grid of no samples (%s)", from.Source)
	}
	n := len(samples[0].Inputs)
	if n == 0 || n > maxAxes {
		return nil, fmt.Errorf("costmodel: a grid of %d axes, not 1 to %d", n, maxAxes)
	}
	names := make([]string, n)
	for i := range samples {
		if err := checkSample(&samples[i], names); err != nil {
			return nil, err
		}
	}
	g := &Grid{from: from}
	for a := range n {
		g.axes = append(g.axes, valuesOf(samples, a))
	}
	for !g.fill(samples) {
		g.dropSparsest()
	}
	return g, nil
}

// valuesOf returns the values of an axis, rising.
func valuesOf(samples []Sample, axis int) []float64 {
	var values []float64
	for i := range samples {
		values = append(values, samples[i].Inputs[axis])
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// fill takes the times over and reports whether every point has one.
func (g *Grid) fill(samples []Sample) bool {
	size := 1
	for _, axis := range g.axes {
		size *= len(axis)
	}
	g.seconds = make([]float64, size)
	for i := range samples {
		if at, ok := g.index(samples[i].Inputs); ok {
			g.seconds[at] = samples[i].Seconds
		}
	}
	return !slices.Contains(g.seconds, 0)
}

// dropSparsest removes the value whose points are missing most often, of equal
// ones that of the longest axis.
func (g *Grid) dropSparsest() {
	axis, value, worst := 0, 0, math.Inf(1)
	for a := range g.axes {
		filled := make([]int, len(g.axes[a]))
		for at, s := range g.seconds {
			if s > 0 {
				filled[g.coordinate(at, a)]++
			}
		}
		each := float64(len(g.seconds) / len(g.axes[a]))
		for i, n := range filled {
			share := float64(n) / each
			if share < worst || share == worst && len(g.axes[a]) > len(g.axes[axis]) {
				axis, value, worst = a, i, share
			}
		}
	}
	g.axes[axis] = slices.Delete(g.axes[axis], value, value+1)
}

// coordinate returns which value of an axis a point has.
func (g *Grid) coordinate(at, axis int) int {
	for a := len(g.axes) - 1; a > axis; a-- {
		at /= len(g.axes[a])
	}
	return at % len(g.axes[axis])
}

func (g *Grid) index(x []float64) (at int, ok bool) {
	for a, axis := range g.axes {
		i, found := slices.BinarySearch(axis, x[a])
		if !found {
			return 0, false
		}
		at = at*len(axis) + i
	}
	return at, true
}

// From returns where the measurements come from.
func (g *Grid) From() Provenance { return g.from }

// Axis returns the measured values of an axis, rising. The caller must not
// change them.
func (g *Grid) Axis(a int) []float64 { return g.axes[a] }

// Nearest moves a point into the grid's range, in place, and reports whether it
// was outside.
func (g *Grid) Nearest(x []float64) (moved bool) {
	for a, axis := range g.axes {
		inside := min(max(x[a], axis[0]), axis[len(axis)-1])
		moved = moved || inside != x[a]
		x[a] = inside
	}
	return moved
}

// Lookup returns the time at a point. The error of one outside the range names
// the axis and the value.
func (g *Grid) Lookup(x ...float64) (float64, error) {
	if len(x) != len(g.axes) {
		return 0, fmt.Errorf("costmodel: a point of %d coordinates in a grid of %d axes", len(x), len(g.axes))
	}
	var low [maxAxes]int
	var share [maxAxes]float64
	for a, axis := range g.axes {
		if math.IsNaN(x[a]) || x[a] < axis[0] || x[a] > axis[len(axis)-1] {
			return 0, fmt.Errorf("costmodel: coordinate %d is %v, outside the measured %v to %v (%s)",
				a, x[a], axis[0], axis[len(axis)-1], g.from.Source)
		}
		i := min(sort.SearchFloat64s(axis, x[a]), len(axis)-1)
		if i > 0 && axis[i] > x[a] {
			i--
		}
		low[a] = i
		if i+1 < len(axis) {
			share[a] = (x[a] - axis[i]) / (axis[i+1] - axis[i])
		}
	}
	sum := 0.0
	for corner := range 1 << len(g.axes) {
		weight, at := 1.0, 0
		for a, axis := range g.axes {
			i := low[a]
			if corner>>a&1 == 1 {
				weight *= share[a]
				i++
			} else {
				weight *= 1 - share[a]
			}
			at = at*len(axis) + min(i, len(axis)-1)
		}
		if weight > 0 {
			sum += float64(weight * g.seconds[at])
		}
	}
	return sum, nil
}
