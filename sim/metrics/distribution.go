package metrics

import (
	"fmt"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// distribution collects latencies in nanoseconds: every value, or a sketch of
// constant size. Count, mean and maximum are exact in both.
type distribution struct {
	sketch *hdrhistogram.Histogram // nil keeps every value
	whole  runs                    // values that are whole nanoseconds
	broken runs                    // the others, means over one request, as the bits of a float64

	n         int64
	sum, lost float64 // compensated sum: lost is what rounding took from it
	max       float64
}

// pair is a value that occurred count times.
type pair struct {
	value float64
	count int64
}

func byValue(a, b pair) int {
	switch {
	case a.value < b.value:
		return -1
	case a.value > b.value:
		return 1
	}
	return 0
}

// sketchDigits is the number of significant digits of a value in a sketch.
const sketchDigits = 3

func newDistribution(streaming bool) distribution {
	if !streaming {
		return distribution{}
	}
	return distribution{sketch: hdrhistogram.New(1, math.MaxInt64, sketchDigits)}
}

// add records count occurrences of ns, which is not negative.
func (d *distribution) add(ns float64, count int64) {
	if !(ns >= 0) || count < 0 {
		panic(fmt.Sprintf("metrics: %d intervals of %v ns: the events are not in order of time", count, ns))
	}
	if count == 0 {
		return
	}
	d.n += count
	d.max = max(d.max, ns)
	d.accumulate(float64(ns * float64(count)))
	whole := int64(ns)
	switch {
	case d.sketch != nil:
		if err := d.sketch.RecordValues(int64(math.Round(ns)), count); err != nil {
			panic("metrics: " + err.Error())
		}
	case float64(whole) == ns:
		d.whole.add(whole, count)
	default:
		d.broken.add(int64(math.Float64bits(ns)), count)
	}
}

// accumulate is Neumaier's summation for terms that are not negative, so that
// the mean of a billion gaps is right to the last digits.
func (d *distribution) accumulate(x float64) {
	sum := d.sum + x
	if d.sum >= x {
		d.lost += (d.sum - sum) + x
	} else {
		d.lost += (x - sum) + d.sum
	}
	d.sum = sum
}

// pairs returns the values in ascending order. A value of a sketch is the
// middle of its bucket, but no more than the largest value seen.
func (d *distribution) pairs() []pair {
	var ps []pair
	if d.sketch != nil {
		for _, b := range d.sketch.Distribution() {
			if b.Count > 0 {
				middle := float64(b.From) + float64(b.To-b.From)/2
				ps = append(ps, pair{min(middle, d.max), b.Count})
			}
		}
		return ps
	}
	whole, broken := d.whole.all(), d.broken.all()
	ps = make([]pair, 0, len(whole)+len(broken))
	for _, r := range whole {
		ps = append(ps, pair{float64(r.value), r.count})
	}
	for _, r := range broken {
		ps = append(ps, pair{math.Float64frombits(uint64(r.value)), r.count})
	}
	slices.SortFunc(ps, byValue)
	return ps
}
