package workload_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/workload"
)

// The streams never change: recorded seeds keep their meaning.
func TestStreamIsPinned(t *testing.T) {
	got := map[string][3]uint64{}
	for name, s := range map[string]rand.Source{
		"0 arrivals 0":    workload.Stream(0, "arrivals", 0),
		"1 lengths 7":     workload.Stream(1, "lengths", 7),
		"max lengths max": workload.Stream(math.MaxUint64, "lengths", math.MaxUint64),
	} {
		got[name] = [3]uint64{s.Uint64(), s.Uint64(), s.Uint64()}
	}
	want := map[string][3]uint64{ // computed apart, with Python's hashlib and integers
		"0 arrivals 0":    {10944089837142884885, 17325133852462632991, 1369664917419821431},
		"1 lengths 7":     {6133870993821162266, 9794215027884704236, 8553108234682591914},
		"max lengths max": {7728552324741048245, 10521558005168066566, 4810570298533354151},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("first draws (-want +got):\n%s", diff)
	}
}

func TestStreamsDiffer(t *testing.T) {
	seen := map[uint64]string{}
	for _, purpose := range []string{"", "class", "lengths", "lengths1"} {
		for seed := range uint64(20) {
			for index := range uint64(200) {
				x := workload.Stream(seed, purpose, index).Uint64()
				if other, ok := seen[x]; ok {
					t.Fatalf("streams (%d, %q, %d) and %s begin alike", seed, purpose, index, other)
				}
				seen[x] = purpose
			}
		}
	}
}

// First draws of neighbouring streams must look like one good stream: mean,
// variance and lag-1 correlation along the index and along the seed.
func TestNeighbouringStreamsAreUnrelated(t *testing.T) {
	const n = 20_000
	along := map[string]func(i uint64) rand.Source{
		"index": func(i uint64) rand.Source { return workload.Stream(1, "lengths", i) },
		"seed":  func(i uint64) rand.Source { return workload.Stream(i, "lengths", 0) },
		"bits":  func(i uint64) rand.Source { return workload.Stream(1, "lengths", i<<44) },
	}
	for name, stream := range along {
		var sum, squares, products, last float64
		for i := range uint64(n) {
			x := rand.New(stream(i)).Float64() - 0.5
			sum += x
			squares += x * x
			products += x * last
			last = x
		}
		root := math.Sqrt(n)
		within(t, name+" mean", sum/n, 0, math.Sqrt(1.0/12)/root, 4)
		within(t, name+" variance", squares/n, 1.0/12, math.Sqrt(1.0/180)/root, 4)
		within(t, name+" lag-1 covariance", products/n, 0, 1.0/12/root, 4)
	}
}
