package workload

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"
)

// hmm is a Poisson hidden Markov model of counts while it is fitted. The
// variables have the names of Rabiner's tutorial, scaled so that they sum to 1.
type hmm struct {
	counts     []int
	initial    []float64   // law of the first state, the stationary one
	transition [][]float64 // row-stochastic
	rates      []float64   // arrivals per slot

	emission map[int][]float64 // by count: likelihood in each state, divided by the largest
	log      map[int]float64   // the logarithm of that largest
	alpha    [][]float64       // by slot: law of the state given the counts up to it
	beta     [][]float64       // by slot: likelihood of the counts behind it, scaled
	scale    []float64         // by slot: divisor of alpha
}

// leastRate keeps the logarithm of a rate finite: one arrival in 1e12 slots.
const leastRate = 1e-12

// leastTransition is where a probability that is on its way to 0 arrives.
const leastTransition = 1e-15

// newHMM draws a beginning: rates near quantiles of the counts, stays of 2 to
// 200 slots.
func newHMM(counts []int, states int, r *rand.Rand) *hmm {
	h := &hmm{counts: counts}
	sorted := slices.Clone(counts)
	slices.Sort(sorted)
	mean := 0.0
	for _, c := range counts {
		mean += float64(c) / float64(len(counts))
	}
	for i := range states {
		at := (float64(i) + r.Float64()) / float64(states)
		rate := float64(sorted[int(at*float64(len(sorted)))])
		h.rates = append(h.rates, rate*math.Exp(0.2*r.NormFloat64())+mean*(0.01+float64(0.1*float64(i)*r.Float64())))
		h.initial = append(h.initial, 1/float64(states))
		row := make([]float64, states)
		for j := range row {
			row[j] = r.ExpFloat64()
		}
		row[i] = 0
		leave := 0.5 * math.Exp(-r.Float64()*math.Log(100))
		if sum := floats.Sum(row); sum > 0 {
			floats.Scale(leave/sum, row)
		}
		row[i] = 1 - floats.Sum(row)
		h.transition = append(h.transition, row)
	}
	h.allocate()
	return h
}

func (h *hmm) allocate() {
	h.emission, h.log = map[int][]float64{}, map[int]float64{}
	for _, c := range h.counts {
		if h.emission[c] == nil {
			h.emission[c] = make([]float64, len(h.rates))
		}
	}
	h.alpha, h.beta = make([][]float64, len(h.counts)), make([][]float64, len(h.counts))
	h.scale = make([]float64, len(h.counts))
	for t := range h.counts {
		h.alpha[t], h.beta[t] = make([]float64, len(h.rates)), make([]float64, len(h.rates))
	}
}

// run iterates until an iteration gains less than the tolerance.
func (h *hmm) run(o FitOptions) FitQuality {
	q := FitQuality{LogLikelihood: h.forward()}
	for q.Iterations < o.Iterations && !q.Converged {
		h.backward()
		h.maximise()
		l := h.forward()
		q.Converged = l-q.LogLikelihood < o.Tolerance*float64(len(h.counts))
		q.LogLikelihood = l
		q.Iterations++
	}
	return q
}

// forward fills emission, alpha and scale and returns the log-likelihood.
func (h *hmm) forward() float64 {
	for c, e := range h.emission {
		for j, rate := range h.rates {
			e[j] = distuv.Poisson{Lambda: max(rate, leastRate)}.LogProb(float64(c))
		}
		top := floats.Max(e)
		h.log[c] = top
		for j := range e {
			e[j] = math.Exp(e[j] - top)
		}
	}
	total := 0.0
	for t, c := range h.counts {
		alpha, e := h.alpha[t], h.emission[c]
		for j := range alpha {
			p := h.initial[j]
			if t > 0 {
				p = 0
				for i, a := range h.alpha[t-1] {
					p += float64(a * h.transition[i][j])
				}
			}
			alpha[j] = p * e[j]
		}
		h.scale[t] = max(floats.Sum(alpha), math.SmallestNonzeroFloat64)
		floats.Scale(1/h.scale[t], alpha)
		total += math.Log(h.scale[t]) + h.log[c]
	}
	return total
}

// backward fills beta.
func (h *hmm) backward() {
	last := len(h.counts) - 1
	for j := range h.beta[last] {
		h.beta[last][j] = 1
	}
	for t := last - 1; t >= 0; t-- {
		e, next := h.emission[h.counts[t+1]], h.beta[t+1]
		for i, row := range h.transition {
			sum := 0.0
			for j, p := range row {
				sum += float64(float64(p*e[j]) * next[j])
			}
			h.beta[t][i] = sum / h.scale[t+1]
		}
	}
}

// maximise sets the parameters to their expectations given all counts. The
// last slot is followed by the first: a state is entered as often as it is
// left, and the stationary law is the share of slots in each.
func (h *hmm) maximise() {
	n := len(h.rates)
	moves := make([][]float64, n)
	for i := range moves {
		moves[i] = make([]float64, n)
	}
	weight, arrivals := make([]float64, n), make([]float64, n)
	for t, c := range h.counts {
		for i, a := range h.alpha[t] {
			gamma := a * h.beta[t][i]
			weight[i] += gamma
			arrivals[i] += float64(gamma * float64(c))
			if t+1 == len(h.counts) {
				for j, b := range h.beta[0] {
					moves[i][j] += gamma * float64(h.alpha[0][j]*b)
				}
				continue
			}
			e, next := h.emission[h.counts[t+1]], h.beta[t+1]
			for j, p := range h.transition[i] {
				moves[i][j] += float64(a*p) * float64(e[j]*next[j]) / h.scale[t+1]
			}
		}
	}
	total := floats.Sum(weight)
	for i, row := range moves {
		h.initial[i] = weight[i] / total
		if weight[i] > 0 {
			h.rates[i] = arrivals[i] / weight[i]
		}
		sum := floats.Sum(row)
		if sum == 0 {
			continue // a state never left keeps its row
		}
		for j := range row {
			if row[j] /= sum; row[j] < leastTransition {
				row[j] = 0
			}
		}
		h.transition[i] = row
	}
}

// mmpp returns the model with its states in order of their rates.
func (h *hmm) mmpp(slot time.Duration) MMPP {
	rates := slices.Clone(h.rates)
	order := make([]int, len(rates))
	floats.Argsort(rates, order)
	floats.Scale(1/slot.Seconds(), rates)
	m := MMPP{Rates: rates, Slot: slot}
	for _, i := range order {
		row := make([]float64, len(order))
		for j, k := range order {
			row[j] = h.transition[i][k]
		}
		m.Transition = append(m.Transition, row)
	}
	return m
}
