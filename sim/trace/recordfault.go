package trace

import (
	"fmt"
	"iter"
	"time"

	"servesim/sim"
)

// DropSpan loses the span of a phase: both its ends are unknown, and so are
// the neighbours that share them. Their time becomes a residual.
type DropSpan struct {
	Phase Phase
	Chance
}

// Apply drops the span of the entries that chance picks, and what lies in it:
// the instants of the tokens in a Stream, the parts of a Gateway.
func (f DropSpan) Apply(entries iter.Seq2[Entry, error], mark func(string)) iter.Seq2[Entry, error] {
	return each(entries, mark, f.Phase.checkFault("DropSpan", f.Chance), func() func(*Entry) (bool, error) {
		hit := f.picker()
		return func(e *Entry) (bool, error) {
			if !hit() {
				return false, nil
			}
			times := e.instants()
			*times[f.Phase], *times[f.Phase+1] = Unknown, Unknown
			switch f.Phase {
			case Stream:
				e.Details.ServerTokens, e.Details.ClientTokens = nil, nil
			case Gateway:
				e.Details.Retrieval, e.Details.Assembly = 0, 0
			}
			return true, nil
		}
	})
}

// NegativeSpan ends a phase before it starts: its end is By before its start,
// and everything else stays. By is at least 1.
type NegativeSpan struct {
	Phase Phase
	By    time.Duration
	Chance
}

// Apply turns the span of the entries that chance picks. Those that lack its
// start are left alone.
func (f NegativeSpan) Apply(entries iter.Seq2[Entry, error], mark func(string)) iter.Seq2[Entry, error] {
	bad := f.Phase.checkFault("NegativeSpan", f.Chance)
	if bad == nil && (f.By < 1 || !inRange(sim.Time(f.By))) {
		bad = fmt.Errorf("trace: NegativeSpan.By is %v, want at least 1ns and less than 146 years", f.By)
	}
	return each(entries, mark, bad, func() func(*Entry) (bool, error) {
		hit := f.picker()
		return func(e *Entry) (bool, error) {
			times := e.instants()
			start, end := times[f.Phase], times[f.Phase+1]
			if !hit() || *start == Unknown {
				return false, nil
			}
			if !inRange(*start) || !inRange(start.Add(-f.By)) {
				return false, fmt.Errorf("trace: request %q: NegativeSpan moves %s beyond 146 years", e.RequestID, fieldNames[firstOf+int(f.Phase)+1])
			}
			*end = start.Add(-f.By)
			return true, nil
		}
	})
}

// checkFault reports fields that a fault of one phase cannot have.
func (p Phase) checkFault(fault string, c Chance) error {
	if int(p) >= NumPhases {
		return fmt.Errorf("trace: %s.Phase is %v", fault, p)
	}
	return c.check(fault)
}

// Duplicate repeats entries, as an exporter does that sends again what had
// arrived.
type Duplicate struct{ Chance }

// Apply yields the entries that chance picks twice, one behind the other.
func (f Duplicate) Apply(entries iter.Seq2[Entry, error], mark func(string)) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := f.check("Duplicate"); err != nil {
			yield(Entry{}, err)
			return
		}
		hit := f.picker()
		for e, err := range entries {
			if !yield(e, err) || err != nil {
				return
			}
			if hit() {
				mark(e.RequestID)
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// Reorder delays entries on their way into the file: each one that chance
// picks comes Behind others later. The order of a file says nothing, so the
// trace stays valid and its figures stay the same.
type Reorder struct {
	Behind int // at least 1
	Chance
}

// Apply holds the entries that chance picks back, at most Behind at a time. At
// the end of the trace those still held follow in their order.
func (f Reorder) Apply(entries iter.Seq2[Entry, error], mark func(string)) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		err := f.check("Reorder")
		if err == nil && f.Behind < 1 {
			err = fmt.Errorf("trace: Reorder.Behind is %d, want at least 1", f.Behind)
		}
		if err != nil {
			yield(Entry{}, err)
			return
		}
		type late struct {
			Entry
			due int
		}
		var held []late
		hit := f.picker()
		n := 0
		for e, err := range entries {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			n++
			if hit() {
				mark(e.RequestID)
				held = append(held, late{e, n + f.Behind})
			} else if !yield(e, nil) {
				return
			}
			for len(held) > 0 && held[0].due <= n {
				if !yield(held[0].Entry, nil) {
					return
				}
				held = held[1:]
			}
		}
		for _, l := range held {
			if !yield(l.Entry, nil) {
				return
			}
		}
	}
}
