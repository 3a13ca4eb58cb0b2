package costmodel

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/interp"
)

// Table is a measured curve: seconds at rising sizes, such as the tokens of a
// matrix product. Between two sizes it interpolates; beyond them it does what
// Outside says, never something that was not asked for.
type Table struct {
	from           Provenance
	sizes, seconds []float64
	outside        Outside
	curve          interp.Predictor // nil for one size
	first, last    float64          // slopes at the ends, seconds per size
}

// Interpolation is the curve between two measured sizes.
type Interpolation uint8

// The interpolations.
const (
	// LinearInterpolation joins the points by straight lines.
	LinearInterpolation Interpolation = iota
	// MonotoneInterpolation joins them by cubics that rise where the points rise and fall
	// where they fall, without overshoot (Fritsch and Butland, SIAM J. Sci.
	// Stat. Comput. 5, 1984).
	MonotoneInterpolation
)

// Outside is what a Table does for sizes that were not measured.
type Outside uint8

// The behaviours.
const (
	// Refuse: the size is an error. It is the zero value.
	Refuse Outside = iota
	// Hold: the nearest end. Right below the smallest size of a kernel whose
	// floor was measured; a lower bound above the largest.
	Hold
	// Extend: the straight line through the two points at that end, but not
	// below zero.
	Extend
)

// NewTable returns the curve through the points, of which there must be one at
// least, at finite rising sizes, with positive times. Sizes and seconds are
// copied.
func NewTable(from Provenance, sizes, seconds []float64, between Interpolation, outside Outside) (*Table, error) {
	if err := from.Validate(); err != nil {
		return nil, err
	}
	if len(sizes) == 0 || len(sizes) != len(seconds) {
		return nil, fmt.Errorf("costmodel: a table of %d sizes and %d times", len(sizes), len(seconds))
	}
	for i, x := range sizes {
		if math.IsNaN(x) || math.IsInf(x, 0) || i > 0 && !(x > sizes[i-1]) {
			return nil, fmt.Errorf("costmodel: size %d of a table is %v, not finite and above the one before", i, x)
		}
		if s := seconds[i]; !(s > 0) || math.IsInf(s, 0) {
			return nil, fmt.Errorf("costmodel: time %d of a table, at size %v, is %v s", i, x, s)
		}
	}
	if between > MonotoneInterpolation || outside > Extend {
		return nil, fmt.Errorf("costmodel: a table with Interpolation %d and Outside %d", between, outside)
	}
	t := &Table{from: from, sizes: append([]float64(nil), sizes...), seconds: append([]float64(nil), seconds...), outside: outside}
	return t, t.join(between)
}

func (t *Table) join(between Interpolation) error {
	n := len(t.sizes)
	if n == 1 {
		return nil
	}
	slope := func(i int) float64 { return (t.seconds[i+1] - t.seconds[i]) / (t.sizes[i+1] - t.sizes[i]) }
	t.first, t.last = slope(0), slope(n-2)
	var curve interp.FittablePredictor = &interp.PiecewiseLinear{}
	if between == MonotoneInterpolation {
		curve = &interp.FritschButland{}
	}
	t.curve = curve
	return curve.Fit(t.sizes, t.seconds)
}

// From returns where the measurements come from.
func (t *Table) From() Provenance { return t.from }

// Range returns the smallest and the largest measured size.
func (t *Table) Range() (smallest, largest float64) { return t.sizes[0], t.sizes[len(t.sizes)-1] }

// Seconds is Lookup for a model that must answer: it panics where Lookup
// fails, which a table that holds or extends its ends does for NaN only. With
// it a Table is a Curve.
func (t *Table) Seconds(size float64) float64 {
	s, err := t.Lookup(size)
	if err != nil {
		panic(err.Error())
	}
	return s
}

// Lookup returns the time at a size. The error of a Refuse table names the
// size and the range.
func (t *Table) Lookup(size float64) (float64, error) {
	smallest, largest := t.Range()
	switch {
	case math.IsNaN(size):
		return 0, fmt.Errorf("costmodel: size %v of a table", size)
	case size >= smallest && size <= largest:
		if t.curve == nil {
			return t.seconds[0], nil
		}
		return t.curve.Predict(size), nil
	case t.outside == Refuse:
		return 0, fmt.Errorf("costmodel: size %v is outside the measured %v to %v (%s)", size, smallest, largest, t.from.Source)
	case size < smallest:
		if t.outside == Hold {
			return t.seconds[0], nil
		}
		return max(0, t.seconds[0]+float64(t.first*(size-smallest))), nil
	}
	if t.outside == Hold {
		return t.seconds[len(t.seconds)-1], nil
	}
	return max(0, t.seconds[len(t.seconds)-1]+float64(t.last*(size-largest))), nil
}
