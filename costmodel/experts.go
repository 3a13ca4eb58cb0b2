package costmodel

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// RoutedExperts are the routed experts of one mixture-of-experts layer as one
// GPU computes them. Count/Ranks of them are on each GPU, each divided over
// Shards GPUs.
type RoutedExperts struct {
	Count       int // E
	PerPosition int // k, that one position picks
	Hidden      int // h
	Inner       int // I_e, of a whole expert
	Ranks       int // expert parallel, divides Count; ≥ 1
	Shards      int // tensor parallel within an expert; ≥ 1
	Precision   Precision

	// Popularity is the probability that a position picks an expert, largest
	// first: Count values that add up to PerPosition, such as those of
	// [PowerLaw]. Experts are dealt to the ranks in this order, so that rank
	// 0 is the busiest. nil means that all are equally likely.
	Popularity []float64
	// Balanced means that picks take turns instead of being random, as in
	// benchmarks of that name: the most distinct experts, and equal ranks.
	Balanced bool
}

// Work returns the work of the busiest rank when n positions of all ranks
// together pick experts of three matrices each:
//
//	F = 2·3·h·I_e/Shards · Picks(n)
//	Q = B_w·3·h·I_e/Shards · Distinct(n) + 2·(2·h + 3·I_e/Shards) · Picks(n)
func (e RoutedExperts) Work(n float64) Work {
	if n == 0 {
		return Work{}
	}
	picks, inner := e.Picks(n), float64(e.Inner)/float64(e.Shards)
	matrices := 3 * float64(e.Hidden) * inner
	return Work{
		FLOPs: 2 * matrices * picks,
		Bytes: float64(matrices*e.Precision.Weights.BytesPerValue()*e.Distinct(n)) +
			float64(bf16*(2*float64(e.Hidden)+3*inner)*picks),
	}
}

// Picks returns the expected number of picks that fall on the busiest rank: the
// mean of rank 0 and, as picks are random, the expected largest of Ranks normal
// deviations. It is within 6 % of drawn routings if a rank has four picks or
// more, and too low by up to a fifth with fewer.
func (e RoutedExperts) Picks(n float64) float64 {
	mean, most := n*float64(e.PerPosition)*e.share(), n*min(float64(e.PerPosition), float64(e.Count/e.Ranks))
	// The picks of one position are distinct: hypergeometric, not binomial.
	return e.largest(mean, mean*float64(e.Count-e.PerPosition)/float64(e.Count), most)
}

// Distinct returns the expected number of distinct experts that n positions
// pick on the busiest rank. On a single one it is
//
//   - E·(1 − (1 − k/E)^n) if all are equally likely
//   - Σ (1 − (1 − q_e)^n) with a Popularity
//   - min(E, n·k) if Balanced
//
// and on several the same of the experts of rank 0, with the expected largest
// of Ranks normal deviations: as good as that of Picks.
func (e RoutedExperts) Distinct(n float64) float64 {
	k, local := float64(e.PerPosition), float64(e.Count)/float64(e.Ranks)
	switch {
	case e.Balanced:
		return min(local, n*k/float64(e.Ranks))
	case e.Popularity == nil:
		missed := math.Pow(1-k/float64(e.Count), n)
		return e.largest(local*(1-missed), local*(1-missed)*missed, local)
	}
	mean, variance := 0.0, 0.0
	for i := 0; i < e.Count; i += e.Ranks {
		missed := math.Pow(1-e.Popularity[i], n)
		mean += 1 - missed
		variance += float64((1 - missed) * missed)
	}
	return e.largest(mean, variance, local)
}

// Tile returns the rows of a tile of the kernel that vLLM takes when n positions
// pick experts and nobody has tuned it for their shape, by the precision: a rule
// of its own (get_default_config of fused_moe.py, of versions after 0.14), or
// that of the library that it calls.
func (e RoutedExperts) Tile(n float64) float64 {
	p, picks := e.Precision, n*float64(e.PerPosition)
	mean := picks / float64(e.Count)
	switch narrow := p.Weights.BytesPerValue() < 1; {
	case p.Compute == FP4 || p.Compute == FP8 && narrow: // TensorRT-LLM
		return min(max(powerOfTwo(math.Floor(mean)), 8), 64)
	case p.Compute == FP8 && p.Weights.Group > 0:
		if n <= 64 {
			return 16
		}
		return 64
	case p.Weights == mxfp4 && p.Compute == BF16: // Marlin
		for _, tile := range []float64{8, 16, 32, 48} {
			if mean < 0.9*tile {
				return tile
			}
		}
		return 64
	case p.Compute == BF16 && narrow: // few picks have a kernel of their own
		switch {
		case picks*float64(e.Ranks)/float64(e.Count) <= 6:
			return min(powerOfTwo(n), 16)
		case n <= 20:
			return 16
		case n <= 40:
			return 32
		}
		return 64
	case n <= 32:
		return 16
	case n <= 96:
		return 32
	case n <= 512:
		return 64
	}
	return 128
}

// powerOfTwo rounds up; 1 is the least.
func powerOfTwo(x float64) float64 { return math.Exp2(math.Ceil(math.Log2(max(x, 1)))) }

// largest returns the expected largest of Ranks numbers with this mean, and
// this variance if they were independent of each other.
func (e RoutedExperts) largest(mean, variance, most float64) float64 {
	if e.Ranks == 1 || e.Balanced {
		return mean
	}
	// Expert by expert, what one rank has the others have not.
	spread := variance * float64(e.Ranks-1) / float64(e.Ranks) * float64(e.Count) / float64(e.Count-1)
	return min(mean+float64(largestNormal(e.Ranks)*math.Sqrt(spread)), most)
}

// share is the expected part of the picks that falls on rank 0.
func (e RoutedExperts) share() float64 {
	if e.Popularity == nil || e.Balanced || e.Ranks == 1 {
		return 1 / float64(e.Ranks)
	}
	sum := 0.0
	for i := 0; i < e.Count; i += e.Ranks {
		sum += e.Popularity[i]
	}
	return sum / float64(e.PerPosition)
}

// largestNormal returns the expected largest of n normal deviations that add up
// to zero, in units of one of them (Blom, Statistical Estimates and Transformed
// Beta-Variables, 1958, for independent ones).
func largestNormal(n int) float64 {
	independent := distuv.UnitNormal.Quantile((float64(n) - 0.375) / (float64(n) + 0.25))
	return independent * math.Sqrt(float64(n)/float64(n-1))
}

// PowerLaw returns the Popularity of count experts of which each position
// picks perPosition: quantiles of a power law x^−alpha between 1 and spread,
// the ratio of the most and the least popular. No expert is picked more than
// once by a position. Benchmarks that route power_law_1.01 draw from alpha
// 1.01 and a spread of 0.8 per position, or 200 if there are fewer picks than
// experts.
func PowerLaw(count, perPosition int, alpha, spread float64) ([]float64, error) {
	switch {
	case count < 1:
		return nil, badField("PowerLaw count", count)
	case perPosition < 1 || perPosition > count:
		return nil, fmt.Errorf("costmodel: PowerLaw perPosition is %d of %d", perPosition, count)
	case !finite(alpha):
		return nil, badField("PowerLaw alpha", alpha)
	case !finite(spread) || spread < 1:
		return nil, badField("PowerLaw spread", spread)
	}
	q := make([]float64, count)
	for i := range q {
		u := (float64(count-i) - 0.5) / float64(count)
		if alpha == 1 {
			q[i] = math.Pow(spread, u)
			continue
		}
		q[i] = math.Pow(u*(math.Pow(spread, 1-alpha)-1)+1, 1/(1-alpha))
	}
	// Scale to the sum of picks. An expert that would be picked more than once
	// by each position is picked by all, and the others share the rest.
	left := float64(perPosition)
	for at := range q {
		sum := 0.0
		for _, x := range q[at:] {
			sum += x
		}
		if q[at]*left <= sum {
			for i := at; i < count; i++ {
				q[i] = min(q[i]*left/sum, 1)
			}
			break
		}
		q[at] = 1
		left--
	}
	return q, nil
}

// validatePopularity checks that q are probabilities of count experts, largest
// first, of which each position picks perPosition.
func validatePopularity(q []float64, count, perPosition int) error {
	if len(q) != count {
		return fmt.Errorf("costmodel: Setup.Popularity has %d values for %d experts", len(q), count)
	}
	sum, last := 0.0, 1.0
	for i, x := range q {
		if !(x >= 0 && x <= last) {
			return fmt.Errorf("costmodel: Setup.Popularity[%d] is %v, not in [0, %v]", i, x, last)
		}
		sum, last = sum+x, x
	}
	if math.Abs(sum-float64(perPosition)) > 1e-6*float64(perPosition) {
		return fmt.Errorf("costmodel: Setup.Popularity adds up to %v, a position picks %d", sum, perPosition)
	}
	return nil
}
