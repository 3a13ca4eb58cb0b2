package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"servesim/workload"
)

// routing is a set-up of a kernel benchmark for experts: a rank gets all
// positions, and skips picks of other ranks.
type routing struct {
	positions, picks, experts, ranks int
	alpha                            float64 // exponent of the power law; 0 if picks take turns
	// inOrder means that among experts with equal rows those with the lowest
	// numbers come first, all of one rank; otherwise they come from all ranks
	// in turn. The times of vLLM 0.14 and 0.24 differ so for a few positions.
	inOrder bool
}

// share is what the rank that a benchmark times gets: of several the busiest.
type share struct {
	rows, distinct float64
	picks          float64 // that pass through the kernels around the products
}

// draws is the number of routings that a benchmark times, and that share takes
// the mean of.
const draws = 10

var (
	shares     = map[routing]share{}
	sharesLock sync.Mutex
)

// share returns the expected rows and distinct experts of a rank as the
// benchmark deals them: its power laws draw not picks but the rows of each
// expert, and picks in turn deal each rank its part of the positions.
func (r routing) share() share {
	if r.alpha == 0 {
		return r.turns()
	}
	sharesLock.Lock()
	defer sharesLock.Unlock()
	s, ok := shares[r]
	if !ok {
		random := rand.New(workload.Stream(1, "routing", uint64(r.positions)))
		for range draws {
			d := r.draw(random)
			s.rows += d.rows
			s.distinct += d.distinct
			s.picks += d.picks
		}
		s = share{s.rows / draws, s.distinct / draws, s.picks / draws}
		shares[r] = s
	}
	return s
}

// turns deals the picks of a position at equal distances, and those of the next
// positions beside them.
func (r routing) turns() share {
	stride := (r.experts + r.picks - 1) / r.picks
	rows := make([]int, r.experts)
	for i := range r.positions {
		first := i
		if r.positions < stride {
			first = i * stride / r.positions
		}
		for pick := range r.picks {
			rows[(first+pick*stride)%r.experts]++
		}
	}
	return r.rank(rows, 0)
}

// rank counts what lies on a rank.
func (r routing) rank(rows []int, rank int) share {
	local := r.experts / r.ranks
	s := share{picks: float64(r.positions * r.picks)}
	for _, n := range rows[rank*local : (rank+1)*local] {
		s.rows += float64(n)
		if n > 0 {
			s.distinct++
		}
	}
	return s
}

// draw gives every expert a part of the picks in proportion to a number drawn
// from the power law, rounded, and what is left over or missing one by one to
// the experts with the fewest, or from those with the most: so the times of few
// positions say. The busiest rank is the one that is timed.
func (r routing) draw(random *rand.Rand) share {
	low, high := 1., 0.8*float64(r.positions)
	picks := r.positions * r.picks
	if picks <= r.experts {
		low, high = 0.01, 2
	}
	low, high = math.Pow(low, 1-r.alpha), math.Pow(high, 1-r.alpha)
	part, sum := make([]float64, r.experts), 0.0
	for i := range part {
		part[i] = math.Pow((high-low)*random.Float64()+low, 1/(1-r.alpha))
		sum += part[i]
	}
	rows, left := make([]int, r.experts), picks
	for i := range rows {
		rows[i] = int(math.RoundToEven(part[i] / sum * float64(picks)))
		left -= rows[i]
	}
	order := r.order(rows) // rounding leaves or takes at most half a row an expert
	for i := range left {
		rows[order[i]]++
	}
	for i := range -left {
		rows[order[len(order)-1-i]]--
	}
	var busiest share
	at := 0
	for rank := range r.ranks {
		if s := r.rank(rows, rank); s.rows > busiest.rows {
			busiest, at = s, rank
		}
	}
	// A position picks an expert once: what goes beyond is picked from the first
	// experts of the rank instead.
	spare := 0
	for i, n := range rows {
		spare += max(n-r.positions, 0)
		rows[i] = min(n, r.positions)
	}
	local := r.experts / r.ranks
	for i := range local {
		n := min(spare, r.positions-rows[at*local+i])
		rows[at*local+i] += n
		spare -= n
	}
	return r.rank(rows, at)
}

// order returns the experts from those with the fewest rows to those with the
// most.
func (r routing) order(rows []int) []int {
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	if local := r.experts / r.ranks; !r.inOrder {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(a%local, b%local) })
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rows[a], rows[b]) })
	return order
}
