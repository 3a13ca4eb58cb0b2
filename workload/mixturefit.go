package workload

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/integrate/quad"
)

// FitMixture fits a [Mixture] of a number of bivariate log-normal components
// with full covariances to pairs of lengths, by expectation-maximisation.
// Limits of both sides say which lengths are censored and which are missing;
// the fitted law has no bounds itself. Components come in order of their
// weights, the largest first.
//
// A pair is taken as uniform within the rounding of its lengths, to second
// order: a component may settle on an atom, but not become narrower than the
// rounding. Below some 5 tokens that is coarse. The maximum may be a local
// one: compare starts and seeds, and the fit with the recording
// ([CompareLengths]). At least 10 pairs per component are asked for.
func FitMixture(pairs Resample, components int, prompt, output Limits, o FitOptions) (Mixture, FitQuality, error) {
	o, err := o.withDefaults()
	if err == nil {
		err = checkObservations(len(pairs), components)
	}
	if err == nil {
		err = prompt.validate("prompt Limits", pairs.prompts)
	}
	if err == nil {
		err = output.validate("output Limits", pairs.outputs)
	}
	if err != nil {
		return Mixture{}, FitQuality{}, fmt.Errorf("workload: FitMixture: %w", err)
	}
	data := newLengthPairs(pairs, prompt, output)
	var best *pairMixture
	var quality FitQuality
	for start := range o.Starts {
		m := data.begin(components, rand.New(Stream(o.Seed, "pair fit", uint64(start))))
		q := o.climb(m, float64(len(pairs)))
		if best == nil || q.LogLikelihood > quality.LogLikelihood {
			best, quality = m, q
		}
	}
	quality.BIC = -2*quality.LogLikelihood + float64(6*components-1)*math.Log(float64(len(pairs)))
	return best.mixture(), quality, nil
}

func (s Resample) prompts(yield func(int) bool) {
	for _, t := range s {
		if !yield(t.Prompt) {
			return
		}
	}
}

func (s Resample) outputs(yield func(int) bool) {
	for _, t := range s {
		if !yield(t.Output) {
			return
		}
	}
}

// lengthPairs are observed pairs of lengths, as logarithms.
type lengthPairs struct {
	pairs          []logPair
	prompt, output Limits
	nodes          [2][quadNodes]float64 // of Gauss and Legendre on [-1, 1]: places and weights
}

// logPair is one of them: logarithms and the variances of their rounding. A
// censored one is the logarithm of its bound and has no variance.
type logPair struct {
	x, y, vx, vy float64
	cx, cy       bool // censored
}

const quadNodes = 48

func newLengthPairs(pairs Resample, prompt, output Limits) *lengthPairs {
	d := &lengthPairs{prompt: prompt, output: output}
	side := func(v int, l Limits) (log, variance float64, censored bool) {
		if l.Censored > 0 && v >= l.Censored {
			low, _ := l.interval(v)
			return low, 0, true
		}
		return math.Log(float64(v)), 1 / (12 * float64(v) * float64(v)), false
	}
	for _, t := range pairs {
		var p logPair
		p.x, p.vx, p.cx = side(t.Prompt, prompt)
		p.y, p.vy, p.cy = side(t.Output, output)
		d.pairs = append(d.pairs, p)
	}
	quad.Legendre{}.FixedLocations(d.nodes[0][:], d.nodes[1][:], -1, 1)
	return d
}

// moments are those of pairs: their weight and the sums of x, y, x², y², xy.
type moments2 struct{ n, x, y, xx, yy, xy float64 }

func (m *moments2) add(w float64, o moments2) {
	m.n += w
	m.x += float64(w * o.x)
	m.y += float64(w * o.y)
	m.xx += float64(w * o.xx)
	m.yy += float64(w * o.yy)
	m.xy += float64(w * o.xy)
}

// normal2 is a bivariate normal law of the logarithms with its weight.
type normal2 struct {
	weight           float64
	mx, my           float64
	sx, sy, rho      float64
	logScale         float64 // logarithm of the weight and the density at the mean
	perX, perY, root float64 // 1/sx, 1/sy, √(1-ρ²)
}

// set takes the law of the moments of pairs whose weights sum to total.
func (c *normal2) set(m moments2, total float64) {
	c.weight = m.n / total
	if m.n > 0 {
		c.mx, c.my = m.x/m.n, m.y/m.n
		c.sx = math.Sqrt(max(m.xx/m.n-float64(c.mx*c.mx), leastSigma*leastSigma))
		c.sy = math.Sqrt(max(m.yy/m.n-float64(c.my*c.my), leastSigma*leastSigma))
		c.rho = (m.xy/m.n - float64(c.mx*c.my)) / (c.sx * c.sy)
		c.rho = max(-mostRho, min(mostRho, c.rho))
	}
	c.perX, c.perY, c.root = 1/c.sx, 1/c.sy, math.Sqrt(1-float64(c.rho*c.rho))
	c.logScale = math.Log(c.weight) - 2*logRoot2Pi - math.Log(c.sx*c.sy*c.root)
}

// mostRho keeps components that have collapsed to a line apart from a
// division by 0.
const mostRho = 1 - 1e-9

// point returns the logarithm of the weighted density at a pair that is not
// censored, in the mean over its rounding.
func (c *normal2) point(p *logPair) float64 {
	u, v := (p.x-c.mx)*c.perX, (p.y-c.my)*c.perY
	q := float64(u*u) + float64(v*v) - 2*c.rho*u*v + float64(p.vx*c.perX*c.perX) + float64(p.vy*c.perY*c.perY)
	return c.logScale - q/(2*c.root*c.root)
}

// half is point where x is at least its bound; and the moments of the pair.
func (c *normal2) half(p *logPair) (float64, moments2) {
	v := (p.y - c.my) * c.perY
	mean, sigma := c.mx+float64(c.rho*c.sx*v), c.sx*c.root
	log, z1, z2 := normalBetween((p.x-mean)/sigma, math.Inf(1))
	log += math.Log(c.weight) - logRoot2Pi - math.Log(c.sy) - (float64(v*v)+float64(p.vy*c.perY*c.perY))/2
	x := mean + float64(sigma*z1)
	xx := float64(mean*mean) + float64(2*mean*sigma*z1) + float64(sigma*sigma*z2)
	return log, moments2{x: x, y: p.y, xx: xx, yy: float64(p.y*p.y) + p.vy, xy: x * p.y}
}

// swapped is the law with x and y exchanged.
func (c *normal2) swapped() *normal2 {
	return &normal2{weight: c.weight, mx: c.my, my: c.mx, sx: c.sy, sy: c.sx, rho: c.rho, perX: c.perY, perY: c.perX, root: c.root}
}

// box returns the probability of x in [x0, x1] and y in [y0, y1] and the
// moments of pairs there, by Gauss-Legendre over y.
func (c *normal2) box(nodes *[2][quadNodes]float64, x0, x1, y0, y1 float64) (float64, moments2) {
	from, to := max(y0, c.my-9*c.sy), min(y1, c.my+9*c.sy)
	var sum moments2
	sigma := c.sx * c.root
	for i, node := range nodes[0] {
		if from >= to {
			break
		}
		y := (from+to)/2 + float64((to-from)/2*node)
		v := (y - c.my) * c.perY
		mean := c.mx + float64(c.rho*c.sx*v)
		log, z1, z2 := normalBetween((x0-mean)/sigma, (x1-mean)/sigma)
		w := nodes[1][i] * (to - from) / 2 * c.perY * density(v) * math.Exp(log)
		x := mean + float64(sigma*z1)
		xx := float64(mean*mean) + float64(2*mean*sigma*z1) + float64(sigma*sigma*z2)
		sum.add(w, moments2{x: x, y: y, xx: xx, yy: y * y, xy: x * y})
	}
	if sum.n < 1e-300 { // farther than the integral reaches: at the corner
		x, y := max(x0, min(c.mx, x1)), max(y0, min(c.my, y1))
		return 1e-300, moments2{x: x, y: y, xx: x * x, yy: y * y, xy: x * y}
	}
	n := sum.n
	return n, moments2{x: sum.x / n, y: sum.y / n, xx: sum.xx / n, yy: sum.yy / n, xy: sum.xy / n}
}

// pairMixture is a mixture while it is fitted.
type pairMixture struct {
	*lengthPairs
	parts []normal2
}

// begin draws a beginning: centres far apart (k-means++, Arthur and
// Vassilvitskii, SODA 2007), each with the pairs that are nearest to it.
func (d *lengthPairs) begin(components int, r *rand.Rand) *pairMixture {
	var all moments2
	for i := range d.pairs {
		p := &d.pairs[i]
		all.add(1, moments2{x: p.x, y: p.y, xx: p.x * p.x, yy: p.y * p.y})
	}
	var whole normal2
	whole.set(all, all.n)
	nearest, owner := make([]float64, len(d.pairs)), make([]int, len(d.pairs))
	for i := range nearest {
		nearest[i] = math.Inf(1)
	}
	first := r.IntN(len(d.pairs))
	for k := range components {
		centre := d.pairs[first]
		if k > 0 {
			centre = d.pairs[pick(r, nearest, itself)]
		}
		for i, p := range d.pairs {
			dx, dy := (p.x-centre.x)*whole.perX, (p.y-centre.y)*whole.perY
			if distance := float64(dx*dx) + float64(dy*dy); distance < nearest[i] {
				nearest[i], owner[i] = distance, k
			}
		}
		if floats.Sum(nearest) == 0 { // fewer places than components
			floats.AddConst(1, nearest)
		}
	}
	sums := make([]moments2, components)
	spread := 0.1 / float64(components) // lets neighbours overlap
	for i, p := range d.pairs {
		sums[owner[i]].add(1, moments2{x: p.x, y: p.y, xx: float64(p.x*p.x) + float64(spread*whole.sx*whole.sx),
			yy: float64(p.y*p.y) + float64(spread*whole.sy*whole.sy), xy: p.x * p.y})
	}
	m := &pairMixture{lengthPairs: d, parts: make([]normal2, components)}
	for k := range m.parts {
		m.parts[k] = whole // for one that owns nothing
		m.parts[k].set(sums[k], float64(len(d.pairs)))
	}
	return m
}

// iterate implements climber.
func (m *pairMixture) iterate() float64 {
	sums := make([]moments2, len(m.parts))
	logs, at := make([]float64, len(m.parts)), make([]moments2, len(m.parts))
	total := 0.0
	for i := range m.pairs {
		p := &m.pairs[i]
		point := moments2{x: p.x, y: p.y, xx: float64(p.x*p.x) + p.vx, yy: float64(p.y*p.y) + p.vy, xy: p.x * p.y}
		for k := range m.parts {
			if c := &m.parts[k]; p.cx || p.cy {
				logs[k], at[k] = m.censored(c, p)
			} else {
				logs[k], at[k] = c.point(p), point
			}
		}
		log := floats.LogSumExp(logs)
		total += log
		for k, l := range logs {
			if l-log > -40 {
				sums[k].add(math.Exp(l-log), at[k])
			}
		}
	}
	if m.prompt.truncates() || m.output.truncates() {
		total -= float64(len(m.pairs)) * m.addUnseen(sums)
	}
	n := 0.0
	for _, s := range sums {
		n += s.n
	}
	for k := range m.parts {
		m.parts[k].set(sums[k], n)
	}
	return total
}

// censored returns the logarithm of a component's weighted likelihood of a
// pair and the moments of what the pair may have been.
func (m *pairMixture) censored(c *normal2, p *logPair) (float64, moments2) {
	switch {
	case p.cx && p.cy:
		mass, at := c.box(&m.nodes, p.x, math.Inf(1), p.y, math.Inf(1))
		return math.Log(c.weight) + math.Log(mass), at
	case p.cx:
		return c.half(p)
	}
	log, at := c.swapped().half(&logPair{x: p.y, y: p.x, vy: p.vx})
	at.x, at.y, at.xx, at.yy = at.y, at.x, at.yy, at.xx
	return log, at
}

// addUnseen adds the pairs that were left out, as many as the parameters say
// there are, and returns the logarithm of the part that is seen.
func (m *pairMixture) addUnseen(sums []moments2) float64 {
	x0, x1 := m.prompt.visible()
	y0, y1 := m.output.visible()
	inside := make([]moments2, len(m.parts))
	mass := make([]float64, len(m.parts))
	seen := 0.0
	for k := range m.parts {
		mass[k], inside[k] = m.parts[k].box(&m.nodes, x0, x1, y0, y1)
		seen += float64(m.parts[k].weight * mass[k])
	}
	for k, c := range m.parts {
		w := float64(len(m.pairs)) / seen * c.weight
		sums[k].add(w, moments2{x: c.mx, y: c.my, xx: float64(c.mx*c.mx) + float64(c.sx*c.sx),
			yy: float64(c.my*c.my) + float64(c.sy*c.sy), xy: float64(c.mx*c.my) + float64(c.rho*c.sx*c.sy)})
		sums[k].add(-w*min(1, mass[k]), inside[k])
	}
	return math.Log(seen)
}

func (m *pairMixture) mixture() Mixture {
	var out Mixture
	for _, c := range m.parts {
		out.Components = append(out.Components, Component{
			Weight:       c.weight,
			MedianPrompt: math.Exp(c.mx), MedianOutput: math.Exp(c.my),
			SigmaPrompt: c.sx, SigmaOutput: c.sy,
			Rho: c.rho,
		})
	}
	slices.SortStableFunc(out.Components, func(a, b Component) int { return cmp.Compare(b.Weight, a.Weight) })
	return out
}
