package workload

import (
	"errors"
	"fmt"
	"iter"

	"servesim/sim"
)

// Merged is several workloads in one sequence, each with its own arrivals and
// mix: tenants, or kinds of traffic that do not come and go together. A part
// draws from streams that are keyed by its name, so parts can be added,
// dropped and reordered without a change to the requests of the others, but
// for their IDs and classes, which number the whole. What is drawn by ID behind
// it, as by [Retry] and [ClientSide], moves with them; sources of a [Document] have
// IDs of their own.
type Merged struct {
	// Seed determines everything that is drawn.
	Seed  uint64
	Parts []Part
	// PrefixBlock is the block size of the hash chains of prompts and outputs; 0
	// makes none.
	PrefixBlock int
}

// Part is one of the workloads of a [Merged].
type Part struct {
	Name     string // unique
	Arrivals Arrivals
	Mix      []Share
}

// workload is a part as a workload of its own.
func (m Merged) workload(p Part) Workload {
	return Workload{Seed: Stream(m.Seed, "part "+p.Name, 0).Uint64(), Arrivals: p.Arrivals, Mix: p.Mix, PrefixBlock: m.PrefixBlock, part: p.Name}
}

// Validate reports the first invalid field.
func (m Merged) Validate() error {
	if len(m.Parts) == 0 {
		return errors.New("no Parts in Merged")
	}
	seen := map[string]bool{}
	for i, p := range m.Parts {
		if seen[p.Name] {
			return fmt.Errorf("Merged.Parts[%d].Name %q is not unique", i, p.Name)
		}
		seen[p.Name] = true
		if err := m.workload(p).Validate(); err != nil {
			return fmt.Errorf("Merged.Parts[%d]: %w", i, err)
		}
	}
	return nil
}

// Classes returns the classes of all parts, one part after the other, for
// sim.Config.Classes.
func (m Merged) Classes() []sim.Class {
	var classes []sim.Class
	for _, p := range m.Parts {
		classes = append(classes, m.workload(p).Classes()...)
	}
	return classes
}

// Requests yields the requests of all parts in order of arrival, simultaneous
// ones in the order of the parts. IDs count the sequence from 0.
func (m Merged) Requests() iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		if err := m.Validate(); err != nil {
			fail(yield, err)
			return
		}
		parts := make([]iter.Seq2[sim.Request, error], len(m.Parts))
		offsets := make([]int, len(m.Parts)) // of classes
		classes := 0
		for i, p := range m.Parts {
			parts[i] = m.workload(p).Requests()
			offsets[i] = classes
			classes += len(p.Mix)
		}
		id := 0
		merge(parts, func(q sim.Request) sim.Time { return q.Arrival }, func(part int, q sim.Request, err error) bool {
			if err != nil {
				yield(sim.Request{}, fmt.Errorf("part %q: %w", m.Parts[part].Name, err))
				return false
			}
			q.ID = id
			id++
			q.Class += offsets[part]
			return yield(q, nil)
		})
	}
}

// merge calls yield with the values of sequences in order of their instants,
// then of the sequences. An error comes at the instant of the value before it.
// It ends with the sequences or when yield returns false.
func merge[T any](sequences []iter.Seq2[T, error], at func(T) sim.Time, yield func(sequence int, v T, err error) bool) {
	var h mergeHeap[T]
	for i, s := range sequences {
		next, stop := iter.Pull2(s)
		defer stop()
		if v, err, ok := next(); ok {
			head := mergeHead[T]{sequence: i, next: next, v: v, err: err}
			if err == nil {
				head.at = at(v)
			}
			h = append(h, head)
			h.up(len(h) - 1)
		}
	}
	for len(h) > 0 {
		first := &h[0]
		if !yield(first.sequence, first.v, first.err) || first.err != nil {
			return
		}
		var more bool
		if first.v, first.err, more = first.next(); !more {
			h[0] = h[len(h)-1]
			h = h[:len(h)-1]
		} else if first.err == nil {
			first.at = at(first.v)
		}
		h.down()
	}
}

// mergeHead is the next value of a sequence.
type mergeHead[T any] struct {
	at       sim.Time
	sequence int
	next     func() (T, error, bool)
	v        T
	err      error
}

func (a *mergeHead[T]) before(b *mergeHead[T]) bool {
	return a.at < b.at || a.at == b.at && a.sequence < b.sequence
}

// mergeHeap is a binary heap, the earliest in front.
type mergeHeap[T any] []mergeHead[T]

func (h mergeHeap[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h[i].before(&h[parent]) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

func (h mergeHeap[T]) down() {
	for i := 0; ; {
		child := 2*i + 1
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if child >= len(h) || !h[child].before(&h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
