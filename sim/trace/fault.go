package trace

import (
	"fmt"
	"iter"
	"math/rand/v2"
)

// Fault breaks a trace as measurements do. What a request really did is that
// of the unbroken trace: a profiler under test sees the broken one.
type Fault interface {
	// Apply returns the entries as the broken measurement has them, and calls
	// mark with the id of every request that it touches. It changes no entry in
	// place. A fault whose fields cannot be is the one error.
	Apply(entries iter.Seq2[Entry, error], mark func(id string)) iter.Seq2[Entry, error]
}

// Break applies faults, the first one first. mark is called with the id of
// each request that a fault touches, once per fault; nil hears nothing. Write
// what comes out with [Writer.WriteUnchecked].
func Break(entries iter.Seq2[Entry, error], mark func(id string), faults ...Fault) iter.Seq2[Entry, error] {
	if mark == nil {
		mark = func(string) {}
	}
	for _, f := range faults {
		entries = f.Apply(entries, mark)
	}
	return entries
}

// Entries returns records as entries without details.
func Entries(records iter.Seq2[Record, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for r, err := range records {
			if !yield(Entry{Record: r}, err) {
				return
			}
		}
	}
}

// Chance picks entries at random: each with the probability Share, 0 to 1. The
// same seed picks the same places.
type Chance struct {
	Share float64
	Seed  uint64
}

func (c Chance) check(fault string) error {
	if !(c.Share >= 0 && c.Share <= 1) {
		return fmt.Errorf("trace: %s.Share is %v, want 0 to 1", fault, c.Share)
	}
	return nil
}

// picker returns a function that says of one entry after the other whether it
// is hit.
func (c Chance) picker() func() bool {
	random := rand.New(rand.NewPCG(c.Seed, 0x7472616365)) // "trace"
	return func() bool { return random.Float64() < c.Share }
}

// each is a fault that changes entries one by one: change returns whether it
// touched e.
func each(entries iter.Seq2[Entry, error], mark func(string), bad error, start func() func(e *Entry) (bool, error)) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if bad != nil {
			yield(Entry{}, bad)
			return
		}
		change := start()
		for e, err := range entries {
			touched := false
			if err == nil {
				touched, err = change(&e)
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if touched {
				mark(e.RequestID)
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}
