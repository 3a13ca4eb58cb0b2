package metrics

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
	// from 0, as numpy.percentile does.
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
		panic(fmt.Sprintf("metrics: percentile fraction %v outside (0, 1]", q))
	}
	pairs := make([]pair, len(values))
	for i, v := range values {
		if math.IsNaN(v) {
			return math.NaN()
		}
		pairs[i] = pair{v, 1}
	}
	slices.SortFunc(pairs, byValue)
	return percentile(pairs, int64(len(pairs)), q, m)
}

// percentile is the percentile of the sample in which each sorted pair stands
// count times, n values in all.
func percentile(sorted []pair, n int64, q float64, m Method) float64 {
	if n == 0 {
		return math.NaN()
	}
	if m == NearestRank {
		x, _ := neighbours(sorted, rank(q, n)-1)
		return x
	}
	position := float64(n-1) * q
	below := math.Floor(position)
	x, next := neighbours(sorted, int64(below))
	if position == below {
		return x
	}
	return x + float64((next-x)*(position-below))
}

// neighbours returns the value at index i of the expanded sample and the one
// after it; the last has itself for neighbour.
func neighbours(sorted []pair, i int64) (x, next float64) {
	for k, p := range sorted {
		if i >= p.count {
			i -= p.count
			continue
		}
		if i+1 < p.count || k+1 == len(sorted) {
			return p.value, p.value
		}
		return p.value, sorted[k+1].value
	}
	panic("metrics: percentile beyond the sample")
}

// rank is ⌈qn⌉ for the decimal fraction that q prints as. In floating point
// 0.07 of 100 is a little more than 7, and its rank would be 8.
func rank(q float64, n int64) int64 {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(q, 'g', -1, 64))
	r.Mul(r, new(big.Rat).SetInt64(n))
	up := new(big.Int).Add(r.Num(), r.Denom())
	up.Sub(up, big.NewInt(1))
	return up.Quo(up, r.Denom()).Int64()
}
