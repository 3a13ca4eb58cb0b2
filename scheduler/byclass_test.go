package scheduler_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

// fixed is a router that returns always the same.
type fixed int

func (f fixed) Route(sim.Time, sim.Query, []sim.Load) int { return int(f) }

func TestByClassAndSubset(t *testing.T) {
	r := scheduler.ByClass{
		scheduler.Subset{First: 1, Count: 3, Router: scheduler.LeastLoaded{}},
		nil,
		scheduler.Subset{First: 4, Count: 1},
		&scheduler.RoundRobin{},
		scheduler.Subset{First: 1, Count: 2, Router: fixed(-1)},
		scheduler.Subset{First: 1, Count: 2, Router: fixed(2)},
		scheduler.Subset{First: 0, Count: 5, Router: fixed(4)},
		scheduler.Subset{First: 4, Count: 3, Router: &scheduler.RoundRobin{}},
		scheduler.Subset{First: 5, Count: 3, Router: scheduler.LeastLoaded{}},
	}
	loads := waiting(0, 2, 2, 1, 9)
	for class, want := range []int{3, -1, 4, 0, -1, -1, 4, 4, -1, -1} {
		if got := r.Route(0, sim.Query{Class: class}, loads); got != want {
			t.Errorf("class %d: to %d, want %d", class, got, want)
		}
	}
}

// Inside a pool a Subset finds its replicas by their numbers, as long as some of
// them are there.
func TestSubsetInAPool(t *testing.T) {
	r := &scheduler.PrefillPool{Router: scheduler.Subset{First: 1, Count: 3, Router: scheduler.LeastLoaded{}}}
	loads := waiting(0, 9, 2, 1, 0)
	for _, c := range []struct {
		closed []int
		want   int
	}{{nil, 3}, {[]int{0, 3}, 2}, {[]int{2, 3}, 1}, {[]int{0, 2}, 3}, {[]int{1, 2, 3}, -1}} {
		for i := range loads {
			loads[i].Closed = slices.Contains(c.closed, i)
		}
		if got := r.Route(0, sim.Query{}, loads); got != c.want {
			t.Errorf("without %v: to %d, want %d", c.closed, got, c.want)
		}
	}
}

// Classes keep to their replicas, and one without an entry has no route.
func TestByClassInARun(t *testing.T) {
	cfg := sim.Config{Replicas: serial(3, flat), Classes: make([]sim.Class, 3), Router: scheduler.ByClass{
		scheduler.Subset{First: 0, Count: 2, Router: scheduler.LeastLoaded{}},
		scheduler.Subset{First: 2, Count: 1},
	}}
	perReplica := map[int32]int{}
	route := cfg.Router
	cfg.Router = spy{route, func(to int) { perReplica[int32(to)]++ }}
	var rs []sim.Request
	for id := range 9 {
		rs = append(rs, sim.Request{ID: id, Prompt: 1, Output: 1, Class: id % 3})
	}
	got := atDoor(t, cfg, rs...)
	for id := range rs {
		want := "queued 0s"
		if id%3 == 2 {
			want = "no_route 0s"
		}
		if got[id] != want {
			t.Errorf("request %d of class %d: %q, want %q", id, id%3, got[id], want)
		}
	}
	if d := cmp.Diff(map[int32]int{-1: 3, 0: 2, 1: 1, 2: 3}, perReplica); d != "" {
		t.Errorf("requests per replica (-want +got):\n%s", d)
	}
}

// spy reports where a router sends.
type spy struct {
	sim.Router
	to func(int)
}

func (s spy) Route(now sim.Time, q sim.Query, loads []sim.Load) int {
	to := s.Router.Route(now, q, loads)
	s.to(to)
	return to
}

// Class 0 shares two replicas, class 1 has the third for itself.
func ExampleByClass() {
	r := scheduler.ByClass{
		scheduler.Subset{First: 0, Count: 2, Router: scheduler.LeastLoaded{}},
		scheduler.Subset{First: 2, Count: 1},
	}
	loads := []sim.Load{{Replica: 0, Running: 5}, {Replica: 1, Running: 4}, {Replica: 2, Running: 0}}
	fmt.Println(r.Route(0, sim.Query{Class: 0}, loads), r.Route(0, sim.Query{Class: 1}, loads))
	// Output:
	// 1 2
}

// The router sees replicas 3 to 5 only.
func ExampleSubset() {
	r := scheduler.Subset{First: 3, Count: 3, Router: &scheduler.RoundRobin{}}
	loads := make([]sim.Load, 6)
	for i := range loads {
		loads[i].Replica = i
	}
	for range 4 {
		fmt.Print(r.Route(0, sim.Query{}, loads), " ")
	}
	// Output:
	// 3 4 5 3
}
