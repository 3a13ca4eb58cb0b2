package workload

import "math/rand/v2"

// pick draws the index of an item with probability proportional to its weight,
// from one uniform number. The weights are checked: at least 0, sum above 0.
func pick[T any](r *rand.Rand, items []T, weight func(*T) float64) int {
	return pickAt(r.Float64(), items, weight)
}

// pickAt returns the index of the item that holds the part u of the weight, u
// in [0, 1).
func pickAt[T any](u float64, items []T, weight func(*T) float64) int {
	sum := 0.0
	for i := range items {
		sum += weight(&items[i])
	}
	u *= sum
	picked := 0
	for i := range items {
		w := weight(&items[i])
		if w == 0 {
			continue // rounding may run past the last item that has weight
		}
		picked = i
		if u -= w; u < 0 {
			break
		}
	}
	return picked
}

func itself(w *float64) float64 { return *w }
