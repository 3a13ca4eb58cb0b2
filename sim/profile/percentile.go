package profile

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
)

// Method is a convention for percentiles of a finite sample.
type Method uint8

const (
	// Linear interpolates at position (N-1)q of the sorted sample, counted
	// from 0.
	Linear Method = iota
	// NearestRank takes the value of rank ⌈qN⌉, counted from 1.
	NearestRank
)

// String returns the name that reports use.
func (m Method) String() string {
	switch m {
	case Linear:
		return "linear"
	case NearestRank:
		return "nearest-rank"
	}
	return fmt.Sprintf("method(%d)", uint8(m))
}

// Percentile returns the value below which the fraction q of values lies, 0 <
// q ≤ 1. It is NaN for an empty sample and for one that holds NaN. The values
// need no order and are not changed. It panics for other fractions.
func Percentile(values []float64, q float64, m Method) float64 {
	if !(0 < q && q <= 1) {
		panic(fmt.Sprintf("profile: percentile fraction %v outside (0, 1]", q))
	}
	if slices.ContainsFunc(values, math.IsNaN) {
		return math.NaN()
	}
	return percentile(slices.Sorted(slices.Values(values)), q, m)
}

// percentile is Percentile of a sorted sample without NaN.
func percentile(sorted []float64, q float64, m Method) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	if m == NearestRank {
		return sorted[rank(q, n)-1]
	}
	position := float64(n-1) * q
	below := int(math.Floor(position))
	if position == float64(below) {
		return sorted[below]
	}
	// The conversion keeps the product from being fused into the sum.
	return sorted[below] + float64((sorted[below+1]-sorted[below])*(position-float64(below)))
}

// rank is ⌈qn⌉ for the decimal fraction that q prints as. In floating point
// 0.07 of 100 is a little more than 7, and its rank would be 8.
func rank(q float64, n int) int {
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(q, 'g', -1, 64))
	if !ok {
		panic(fmt.Sprintf("profile: %v is no fraction", q))
	}
	r.Mul(r, new(big.Rat).SetInt64(int64(n)))
	up := new(big.Int).Add(r.Num(), r.Denom())
	up.Sub(up, big.NewInt(1))
	return int(up.Quo(up, r.Denom()).Int64())
}

// total is an exact sum of float64s, so that a mean does not depend on the
// order of the records and equal phases have equal means. It keeps parts that
// do not overlap, whose sum is that of all values (Shewchuk, Adaptive Precision
// Floating-Point Arithmetic, 1997, section 2.4).
type total struct {
	parts []float64
	n     int
}

func (t *total) add(v float64) {
	kept := 0
	for _, p := range t.parts {
		if math.Abs(v) < math.Abs(p) {
			v, p = p, v
		}
		sum := v + p
		if lost := p - (sum - v); lost != 0 {
			t.parts[kept] = lost
			kept++
		}
		v = sum
	}
	t.parts = append(t.parts[:kept], v)
	t.n++
}

// over returns the sum divided by n, rounded once.
func (t *total) over(n int) float64 {
	if n == 0 {
		return math.NaN()
	}
	sum := new(big.Rat)
	for _, p := range t.parts {
		sum.Add(sum, new(big.Rat).SetFloat64(p))
	}
	v, _ := sum.Quo(sum, new(big.Rat).SetInt64(int64(n))).Float64()
	return v
}

func (t *total) mean() float64 { return t.over(t.n) }
