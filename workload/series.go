package workload

import (
	"math"
	"slices"
)

// serial keeps what the autocorrelation of a series at lag 1 takes. Values are
// summed off the first one, so that a large mean costs no digits.
type serial struct {
	moments  // of values - first
	first    float64
	last     float64 // the last value - first
	products float64 // of successive values - first
}

func (s *serial) add(x float64) {
	if s.n == 0 {
		s.first = x
	}
	off := x - s.first
	s.products += float64(s.last * off) // 0 for the first
	s.moments.add(off)
	s.last = off
}

// acf is Σ(xᵢ-m)(xᵢ₊₁-m) / Σ(xᵢ-m)².
func (s *serial) acf() Figure {
	// The first value is 0 here, the last one s.last: both have one neighbour.
	sum := s.products - float64(s.mean*(2*float64(s.n*s.mean)-s.last)) + float64((s.n-1)*float64(s.mean*s.mean))
	return orNaN(sum/s.m2, s.n > 1 && s.m2 > 0)
}

// counts says how often each value occurs.
type counts map[float64]int

func (c counts) total() (n int) {
	for _, times := range c {
		n += times
	}
	return n
}

// sorted returns the values in order.
func (c counts) sorted() []float64 {
	values := make([]float64, 0, len(c))
	for v := range c {
		values = append(values, v)
	}
	slices.Sort(values)
	return values
}

// quantile interpolates linearly at position (n-1)·q of n values, which are
// those of c and, for the rest, 0.
func (c counts) quantile(sorted []float64, n int, q float64) float64 {
	at := q * float64(n-1)
	low, high := c.nth(sorted, n, int(at)), c.nth(sorted, n, int(at)+1)
	return low + float64((at-math.Floor(at))*(high-low))
}

// nth returns value i of n in order, from 0, the largest behind the end.
func (c counts) nth(sorted []float64, n, i int) float64 {
	below := n - c.total()
	if i < below {
		return 0
	}
	for _, v := range sorted {
		if below += c[v]; i < below {
			return v
		}
	}
	return sorted[len(sorted)-1]
}

// countACF sums products of the counts of windows up to maxLag apart.
type countACF struct {
	head   [maxLag]float64 // counts of the first windows
	recent [maxLag + 1]struct {
		index int64
		count float64
	} // of the last windows with arrivals, by index
	products [maxLag + 1]float64 // by lag
}

const maxLag = 60

// add counts a window with arrivals.
func (a *countACF) add(index int64, count float64) {
	if index < maxLag {
		a.head[index] = count
	}
	for lag := int64(1); lag <= min(maxLag, index); lag++ {
		a.products[lag] += float64(count * a.count(index-lag))
	}
	r := &a.recent[index%int64(len(a.recent))]
	r.index, r.count = index, count
}

// count is that of one of the last windows.
func (a *countACF) count(index int64) float64 {
	if r := a.recent[index%int64(len(a.recent))]; r.index == index {
		return r.count
	}
	return 0
}

// at is Σ(cᵢ-m)(cᵢ₊ₗ-m) / Σ(cᵢ-m)² for lag l.
func (a *countACF) at(lag int, w *windowShape) Figure {
	n := w.done
	if n <= int64(lag) {
		return Figure(math.NaN())
	}
	mean := w.sum / float64(n)
	ends := 2 * w.sum // of the sums over i and over i + lag
	for i := range int64(lag) {
		ends -= a.head[i] + a.count(n-1-i)
	}
	sum := a.products[lag] - float64(mean*ends) + float64(float64(n-int64(lag))*float64(mean*mean))
	deviations := w.squares - float64(w.sum*mean)
	return orNaN(sum/deviations, deviations > 0)
}
