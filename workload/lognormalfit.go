package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// FitLogNormalMixture fits a mixture of a number of log-normal components to
// lengths, by expectation-maximisation. The likelihood is that of the whole
// numbers: a length of 6 is one between 5.5 and 6.5. So it is bounded, and a
// component may settle on an atom. Limits say which lengths are censored and
// which are missing; the fitted law has no bounds itself, so that it can be
// cut elsewhere. Components come in order of their medians.
//
// The maximum may be a local one: compare starts and seeds. With a truncated
// recording the part that was left out is an extrapolation. At least 10
// lengths per component are asked for.
func FitLogNormalMixture(lengths []int, components int, limits Limits, o FitOptions) (LogNormalMixture, FitQuality, error) {
	o, err := o.withDefaults()
	if err == nil {
		err = checkObservations(len(lengths), components)
	}
	if err == nil {
		err = limits.validate("Limits", slices.Values(lengths))
	}
	if err != nil {
		return LogNormalMixture{}, FitQuality{}, fmt.Errorf("workload: FitLogNormalMixture: %w", err)
	}
	bins := newLengthBins(lengths, limits)
	var best *normalMixture
	var quality FitQuality
	for start := range o.Starts {
		m := bins.begin(components, rand.New(Stream(o.Seed, "length fit", uint64(start))))
		q := o.climb(m, bins.n)
		if best == nil || q.LogLikelihood > quality.LogLikelihood {
			best, quality = m, q
		}
	}
	quality.BIC = -2*quality.LogLikelihood + float64(3*components-1)*math.Log(bins.n)
	return best.mixture(), quality, nil
}

func checkObservations(n, components int) error {
	if components < 1 {
		return fmt.Errorf("%d components, want at least 1", components)
	}
	if n/10 < components {
		return fmt.Errorf("%d lengths for %d components, want at least %d", n, components, 10*components)
	}
	return nil
}

// climber is a model in the hands of expectation-maximisation.
type climber interface {
	// iterate returns the log-likelihood of the parameters and replaces them.
	iterate() float64
}

// climb iterates until an iteration gains less than the tolerance.
func (o FitOptions) climb(m climber, observations float64) FitQuality {
	q := FitQuality{LogLikelihood: m.iterate()}
	for q.Iterations = 1; q.Iterations < o.Iterations && !q.Converged; q.Iterations++ {
		l := m.iterate()
		q.Converged = l-q.LogLikelihood < o.Tolerance*observations
		q.LogLikelihood = l
	}
	return q
}

// lengthBins are observed lengths by value, as intervals of the logarithm.
type lengthBins struct {
	low, high, count []float64
	n                float64
	limits           Limits
	logs             []float64 // of all lengths, sorted
}

func newLengthBins(lengths []int, limits Limits) *lengthBins {
	b := &lengthBins{limits: limits, n: float64(len(lengths))}
	sorted := slices.Clone(lengths)
	slices.Sort(sorted)
	for i, v := range sorted {
		b.logs = append(b.logs, math.Log(float64(v)))
		low, high := limits.interval(v)
		if i > 0 && low == b.low[len(b.low)-1] {
			b.count[len(b.count)-1]++
			continue
		}
		b.low, b.high, b.count = append(b.low, low), append(b.high, high), append(b.count, 1)
	}
	return b
}

// normalMixture is a mixture of normal laws of the logarithm.
type normalMixture struct {
	*lengthBins
	weight, mean, sigma []float64
}

// begin draws a beginning: means at random places in equal parts of the data.
func (b *lengthBins) begin(components int, r *rand.Rand) *normalMixture {
	m := &normalMixture{lengthBins: b}
	spread := b.logs[len(b.logs)-1] - b.logs[0] + 0.1
	for i := range components {
		at := (float64(i) + r.Float64()) / float64(components)
		m.weight = append(m.weight, 1/float64(components))
		m.mean = append(m.mean, b.logs[int(at*b.n)])
		m.sigma = append(m.sigma, spread/float64(3*components)*math.Exp(0.5*r.NormFloat64()))
	}
	return m
}

// leastSigma is where a component on an atom stops narrowing.
const leastSigma = 1e-6

// iterate implements climber.
func (m *normalMixture) iterate() float64 {
	k := len(m.weight)
	mass, first, second := make([]float64, k), make([]float64, k), make([]float64, k)
	p, m1, m2 := make([]float64, k), make([]float64, k), make([]float64, k)
	total := 0.0
	add := func(low, high, count float64) (logMass float64) {
		for j := range k {
			l, z1, z2 := normalBetween((low-m.mean[j])/m.sigma[j], (high-m.mean[j])/m.sigma[j])
			p[j] = math.Log(m.weight[j]) + l
			m1[j] = m.mean[j] + float64(m.sigma[j]*z1)
			m2[j] = float64(m.mean[j]*m.mean[j]) + float64(2*m.mean[j]*m.sigma[j]*z1) + float64(m.sigma[j]*m.sigma[j]*z2)
		}
		logMass = floats.LogSumExp(p)
		for j := range k {
			w := count * math.Exp(p[j]-logMass)
			mass[j] += w
			first[j] += float64(w * m1[j])
			second[j] += float64(w * m2[j])
		}
		return logMass
	}
	for i, count := range m.count {
		total += count * add(m.low[i], m.high[i], count)
	}
	if m.limits.truncates() {
		total -= m.n * m.addUnseen(add)
	}
	sum := floats.Sum(mass)
	for j := range k {
		m.weight[j] = mass[j] / sum
		if mass[j] > 0 {
			m.mean[j] = first[j] / mass[j]
			m.sigma[j] = max(math.Sqrt(max(0, second[j]/mass[j]-float64(m.mean[j]*m.mean[j]))), leastSigma)
		}
	}
	return total
}

// addUnseen adds the lengths that were left out, as many as the parameters say
// there are, and returns the logarithm of the part that is seen.
func (m *normalMixture) addUnseen(add func(low, high, count float64) float64) float64 {
	low, high := m.limits.visible()
	outside := [2]float64{m.probability(math.Inf(-1), low), m.probability(high, math.Inf(1))}
	seen := max(1-outside[0]-outside[1], 1e-300)
	if outside[0] > 0 {
		add(math.Inf(-1), low, m.n*outside[0]/seen)
	}
	if outside[1] > 0 {
		add(high, math.Inf(1), m.n*outside[1]/seen)
	}
	return math.Log(seen)
}

// probability is that of an interval.
func (m *normalMixture) probability(low, high float64) float64 {
	p := 0.0
	if low < high {
		for j, w := range m.weight {
			l, _, _ := normalBetween((low-m.mean[j])/m.sigma[j], (high-m.mean[j])/m.sigma[j])
			p += w * math.Exp(l)
		}
	}
	return p
}

func (m *normalMixture) mixture() LogNormalMixture {
	order := make([]int, len(m.mean))
	floats.Argsort(slices.Clone(m.mean), order)
	var out LogNormalMixture
	for _, j := range order {
		out.Weights = append(out.Weights, m.weight[j])
		out.Medians = append(out.Medians, math.Exp(m.mean[j]))
		out.Sigmas = append(out.Sigmas, m.sigma[j])
	}
	return out
}
