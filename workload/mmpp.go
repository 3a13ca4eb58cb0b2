package workload

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/mat"

	"servesim/sim"
)

// MMPP is a Markov-modulated Poisson process in slots of equal length: during
// a slot arrivals are Poisson with the rate of the state; at its end the next
// state is drawn from the state's row of Transition. It is the Poisson hidden
// Markov model that is fitted to counts per second. The first slot starts at 0
// with a state drawn from the stationary law, so the process has no warm-up.
//
// For a process with generator Q, take a short Slot and Transition = exp(Q·Slot).
type MMPP struct {
	// Rates are the requests per second of each state, at least 0. Their
	// stationary mean must be above 0.
	Rates []float64 `doc:"rates_per_s"`
	// Transition is the row-stochastic matrix of one slot: Transition[i][j]
	// is the probability of state j after state i. Printed matrices are
	// rounded, so rows may sum to 1 ± 0.001; they are divided by their sum.
	Transition [][]float64 `doc:"transition"`
	// Slot is the time a state lasts at least. 0 means 1 s.
	Slot time.Duration `doc:"slot_s,opt"`
}

// Validate reports an invalid field.
func (m MMPP) Validate() error {
	_, err := m.chain()
	return err
}

// Times implements [Arrivals].
func (m MMPP) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		c, err := m.chain()
		if err != nil {
			fail(yield, err)
			return
		}
		slot := m.slot()
		state := pick(r, c.stationary, itself)
		start := sim.Time(0)   // of the current slot
		at := 0.0              // s into the slot
		need := r.ExpFloat64() // expected arrivals until the next one
		for {
			rate := m.Rates[state]
			left := rate * (slot.Seconds() - at)
			if need < left {
				at += need / rate
				if !yield(start+sim.Time(at*1e9), nil) {
					return
				}
				need = r.ExpFloat64()
				continue
			}
			need -= left // the rest carries over: Poisson arrivals have no memory
			if start > math.MaxInt64-2*sim.Time(slot) {
				fail(yield, errNoTime)
				return
			}
			start, at = start.Add(slot), 0
			state = pick(r, c.transition[state], itself)
		}
	}
}

// Stationary returns the long-run fraction of slots spent in each state.
func (m MMPP) Stationary() ([]float64, error) {
	c, err := m.chain()
	return c.stationary, err
}

// Rate returns the long-run number of requests per second.
func (m MMPP) Rate() (float64, error) {
	c, err := m.chain()
	return c.rate, err
}

// IDC returns the index of dispersion for counts in windows of that width in
// closed form. The window is a multiple or an integer fraction of Slot, and
// begins with a slot: windows that straddle slots, as those of [Describe] do,
// see less at the width of a slot, 4 % for [AzureCode2023], and as much at ten
// times that.
//
// Given the rates, counts are Poisson, so the variance of the count is its
// mean plus the variance of the integrated rate: with n slots of s seconds and
// γ(k) the covariance of the rates k slots apart, s²·(n·γ(0) + 2·Σ (n-k)·γ(k)).
func (m MMPP) IDC(window time.Duration) (float64, error) {
	c, err := m.chain()
	if err != nil {
		return 0, err
	}
	slot := m.slot()
	if window <= 0 || window%slot != 0 && slot%window != 0 {
		return 0, fmt.Errorf("MMPP.IDC: window %v is not a multiple or an integer fraction of the slot %v", window, slot)
	}
	p := mat.NewDense(len(m.Rates), len(m.Rates), nil)
	for i, row := range c.transition {
		p.SetRow(i, row)
	}
	weighted := mat.NewVecDense(len(m.Rates), nil) // stationary law times rate
	for i, rate := range m.Rates {
		weighted.SetVec(i, c.stationary[i]*rate)
	}
	later := mat.NewVecDense(len(m.Rates), append([]float64(nil), m.Rates...)) // expected rate k slots on
	covariance := func() float64 { return mat.Dot(weighted, later) - c.rate*c.rate }
	if window < slot {
		return 1 + window.Seconds()*covariance()/c.rate, nil
	}
	n := int(window / slot)
	sum := float64(n) * covariance()
	next := mat.NewVecDense(len(m.Rates), nil)
	for k := 1; k < n; k++ {
		next.MulVec(p, later)
		next, later = later, next
		sum += 2 * float64(n-k) * covariance()
	}
	return 1 + slot.Seconds()*sum/(float64(n)*c.rate), nil
}

func (m MMPP) slot() time.Duration {
	if m.Slot == 0 {
		return time.Second
	}
	return m.Slot
}

// chain is a checked MMPP: rows sum to 1.
type chain struct {
	transition [][]float64
	stationary []float64
	rate       float64
}

func (m MMPP) chain() (chain, error) {
	n := len(m.Rates)
	if n == 0 {
		return chain{}, errors.New("no Rates in MMPP")
	}
	if len(m.Transition) != n {
		return chain{}, fmt.Errorf("MMPP.Transition has %d rows for %d rates", len(m.Transition), n)
	}
	if m.Slot < 0 {
		return chain{}, fmt.Errorf("MMPP.Slot is %v, want at least 0", m.Slot)
	}
	c := chain{transition: make([][]float64, n)}
	for i, rate := range m.Rates {
		if !(rate >= 0 && rate <= maxRate) {
			return chain{}, fmt.Errorf("MMPP.Rates[%d] is %v, want 0 to 1e9", i, rate)
		}
		row, err := normalise(i, m.Transition[i], n)
		if err != nil {
			return chain{}, err
		}
		c.transition[i] = row
	}
	var err error
	if c.stationary, err = stationary(c.transition); err != nil {
		return chain{}, err
	}
	for i, p := range c.stationary {
		c.rate += float64(p * m.Rates[i])
	}
	if c.rate == 0 {
		return chain{}, fmt.Errorf("MMPP.Rates are %v: requests stop arriving", m.Rates)
	}
	return c, nil
}

// rowTolerance admits the rounding of printed matrices.
const rowTolerance = 1e-3

func normalise(i int, row []float64, n int) ([]float64, error) {
	if len(row) != n {
		return nil, fmt.Errorf("MMPP.Transition[%d] has %d entries for %d rates", i, len(row), n)
	}
	sum := 0.0
	for j, p := range row {
		if !(p >= 0 && p <= 1+rowTolerance) {
			return nil, fmt.Errorf("MMPP.Transition[%d][%d] is %v, want 0 to 1", i, j, p)
		}
		sum += p
	}
	if math.Abs(sum-1) > rowTolerance*(1+1e-9) {
		return nil, fmt.Errorf("MMPP.Transition[%d] sums to %v, want 1 ± %v", i, sum, rowTolerance)
	}
	out := make([]float64, n)
	for j, p := range row {
		out[j] = p / sum
	}
	return out, nil
}

// stationary solves π·P = π, Σπ = 1.
func stationary(p [][]float64) ([]float64, error) {
	n := len(p)
	a := mat.NewDense(n, n, nil)
	for i := range p {
		for j := range p {
			a.Set(j, i, p[i][j])
		}
		a.Set(i, i, p[i][i]-1)
	}
	b := mat.NewVecDense(n, nil)
	for j := range p { // the balance equations are dependent: one gives way to the sum
		a.Set(n-1, j, 1)
	}
	b.SetVec(n-1, 1)
	var x mat.VecDense
	if err := x.SolveVec(a, b); err != nil {
		return nil, fmt.Errorf("MMPP.Transition has no single stationary law (states that never meet): %w", err)
	}
	pi := make([]float64, n)
	for i := range pi {
		pi[i] = max(0, x.AtVec(i)) // a transient state may come out as -1e-17
	}
	return pi, nil
}
