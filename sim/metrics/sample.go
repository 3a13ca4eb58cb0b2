package metrics

import "math"

// sample is a distribution at rest: its values in ascending order.
type sample struct {
	pairs     []pair
	n         int64
	sum, high float64
}

func (d *distribution) sample() sample {
	return sample{pairs: d.pairs(), n: d.n, sum: d.sum + d.lost, high: d.max}
}

// join returns the values of both samples.
func (s sample) join(t sample) sample {
	joined := sample{n: s.n + t.n, sum: s.sum + t.sum, high: max(s.high, t.high)}
	a, b := s.pairs, t.pairs
	switch { // shared, not copied, where one is empty
	case len(a) == 0:
		joined.pairs = b
		return joined
	case len(b) == 0:
		joined.pairs = a
		return joined
	}
	joined.pairs = make([]pair, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0].value <= b[0].value {
			joined.pairs, a = append(joined.pairs, a[0]), a[1:]
		} else {
			joined.pairs, b = append(joined.pairs, b[0]), b[1:]
		}
	}
	joined.pairs = append(append(joined.pairs, a...), b...)
	return joined
}

// summary describes the sample in milliseconds.
func (s sample) summary(o Options) Summary {
	at := func(q float64) Number { return Number(percentile(s.pairs, s.n, q, o.Percentiles) / 1e6) }
	d := Summary{N: s.n, Mean: over(s.sum/1e6, float64(s.n)), Max: Number(math.NaN()),
		P50: at(0.50), P90: at(0.90), P95: at(0.95), P99: at(0.99), Few: o.few(s.n)}
	if s.n > 0 {
		d.Max = Number(s.high / 1e6)
	}
	return d
}
