package simtest_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"servesim/sim"
	"servesim/sim/simtest"
)

// Stagger lets a request in when the one before it has four tokens. To hold
// is a mistake then: the step after the fourth token would be another one.
type Stagger struct{ Hold bool }

func (g Stagger) Schedule(v sim.View, p *sim.Plan) {
	for !p.AddDecodes() {
		p.Preempt(v.Running.Last())
	}
	for s := range v.Prefilling.All() {
		if n := min(s.Pending(), p.Room()); n > 0 {
			p.Add(s, n)
		}
	}
	s, last := v.Waiting.First(), v.Running.Last()
	if s != nil && (last == nil || last.Generated() >= 4) && p.Fits(s, s.Pending()) && p.Room() > 0 {
		p.Add(s, min(s.Pending(), p.Room()))
	}
	if g.Hold {
		p.Hold()
	}
}

// report stands in for the *testing.T of a test:
//
//	func TestStagger(t *testing.T) {
//		simtest.TestScheduler(t, func() sim.Scheduler { return Stagger{} })
//	}
type report struct{ testing.TB }

func (report) Helper() {}

func (report) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func (report) Fatalf(format string, args ...any) {
	first, _, _ := strings.Cut(fmt.Sprintf(format, args...), ";")
	fmt.Println(first)
	runtime.Goexit()
}

func ExampleTestScheduler() {
	for _, hold := range []bool{false, true} {
		done := make(chan bool)
		go func() {
			defer close(done)
			simtest.TestScheduler(report{}, func() sim.Scheduler { return Stagger{hold} })
			fmt.Println("conforms")
		}()
		<-done
	}
	// Output:
	// conforms
	// simtest: planning every step anew (-want) differs from what Hold lets happen (+got)
}

// A model with a table of measured times that is not smooth.
func ExampleTestCostModel() {
	simtest.TestCostModel(report{}, sim.CostFunc(func(b sim.Batch) time.Duration {
		n := 10 + b.Decodes + b.Context + 10*b.PrefillTokens() + b.Padding.Rows
		if b.Decodes == 9 {
			n -= 3
		}
		return time.Duration(n)
	}))
	// Output:
	// another decode is cheaper: 26ns for 8 decodes with context 8, 25ns for 9 decodes with context 9
}

// A workload that draws from one stream for all its iterators.
func ExampleTestWorkload() {
	rng := rand.New(rand.NewPCG(1, 2))
	simtest.TestWorkload(report{}, func() iter.Seq2[sim.Request, error] {
		return func(yield func(sim.Request, error) bool) {
			for id := range 3 {
				if !yield(sim.Request{ID: id, Prompt: 1 + rng.IntN(100), Output: 1}, nil) {
					return
				}
			}
		}
	})
	// Output:
	// left after 1 requests: requests[0] is {ID:0 Arrival:0s Prompt:77 Output:1 MaxOutput:0 Hint:0 Class:0 Deadline:0s Prefix:[] PrefixBlock:0 NoPrefixRead:false Path:no path Origin:{Source:0 Session:0 Turn:0 Node:0} Patience:{First:0s Total:0s} Attempt:0 First:0s}, then {ID:0 Arrival:0s Prompt:80 Output:1 MaxOutput:0 Hint:0 Class:0 Deadline:0s Prefix:[] PrefixBlock:0 NoPrefixRead:false Path:no path Origin:{Source:0 Session:0 Turn:0 Node:0} Patience:{First:0s Total:0s} Attempt:0 First:0s}
}

// Laws is an observer like any other.
func ExampleLaws() {
	cfg := sim.Config{Replicas: []sim.Replica{{
		Scheduler: Stagger{},
		CostModel: sim.CostFunc(func(b sim.Batch) time.Duration { return time.Millisecond }),
		KVBlocks:  8,
	}}}
	laws := &simtest.Laws{Config: cfg}
	cfg.Observers = []sim.Observer{laws}
	res, err := sim.Run(context.Background(), cfg, func(yield func(sim.Request, error) bool) {
		for id := range 20 {
			if !yield(sim.Request{ID: id, Prompt: 40, Output: 20}, nil) {
				return
			}
		}
	})
	fmt.Println(res.Arrived, err, laws.Check(res))
	res.Tokens++
	fmt.Println(laws.Check(res))
	// Output:
	// 20 <nil> <nil>
	// simtest: Result.Tokens is 401, the events give 400
}

func ExampleDiff() {
	fmt.Print(simtest.Diff(
		[]string{"0 r-1 arrive #1 id 1", "0 r0 queue #1 id 1", "0 r0 admit #1 id 1"},
		[]string{"0 r-1 arrive #1 id 1", "0 r0 queue #1 id 1", "10 end"},
	))
	// Output:
	// logs of 3 (-want) and 3 (+got) lines differ at line 3:
	//   0 r-1 arrive #1 id 1
	//   0 r0 queue #1 id 1
	// - 0 r0 admit #1 id 1
	// + 10 end
}
