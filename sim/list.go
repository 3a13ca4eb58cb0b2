package sim

import "iter"

// List is a read-only view of sequences in order. It stays valid while its
// sequences come and go, also inside a loop over it.
type List struct{ l *list }

// Len returns the number of sequences.
func (v List) Len() int { return v.l.n }

// First returns the first sequence, or nil.
func (v List) First() *Sequence { return v.l.first }

// Last returns the last sequence, or nil.
func (v List) Last() *Sequence { return v.l.last }

// All iterates from first to last. A sequence that leaves the list before the
// loop reaches it is not visited; one that joins behind the next one is. Loops
// may be nested, but not interleaved through iter.Pull.
func (v List) All() iter.Seq[*Sequence] {
	// The literal is small enough to be inlined, so that a loop allocates
	// nothing.
	return func(yield func(*Sequence) bool) { v.l.all(yield) }
}

// Backward iterates from last to first. The loop may remove the sequence it
// is at, and no other.
func (v List) Backward() iter.Seq[*Sequence] {
	return func(yield func(*Sequence) bool) {
		for s := v.l.last; s != nil; {
			prev := s.links[v.l.slot].prev
			if !yield(s) {
				return
			}
			s = prev
		}
	}
}

// list is an intrusive doubly linked list. A sequence has one pair of links
// for each slot, so it can stand in one list of every slot.
type list struct {
	first, last *Sequence
	n           int
	slot        int
	cursors     []*Sequence // next sequence of each loop that is under way
}

// The slots: where a sequence stands, and what it is doing there.
const (
	slotPlace    = iota // waiting or running
	slotActivity        // prefilling or parked
	slotComing          // on the list of the replica that is going to decode it
	slots
)

type links struct {
	prev, next *Sequence
	in         *list
}

func (l *list) contains(s *Sequence) bool { return s.links[l.slot].in == l }

func (l *list) pushBack(s *Sequence) { l.insertAfter(l.last, s) }

func (l *list) pushFront(s *Sequence) { l.insertAfter(nil, s) }

// insertAfter puts s behind at, or in front of all if at is nil.
func (l *list) insertAfter(at, s *Sequence) {
	k := &s.links[l.slot]
	k.in, k.prev = l, at
	if at == nil {
		k.next, l.first = l.first, s
	} else {
		a := &at.links[l.slot]
		k.next, a.next = a.next, s
	}
	if k.next == nil {
		l.last = s
	} else {
		k.next.links[l.slot].prev = s
	}
	l.n++
}

func (l *list) remove(s *Sequence) {
	k := &s.links[l.slot]
	for i, c := range l.cursors {
		if c == s {
			l.cursors[i] = k.next
		}
	}
	if k.prev == nil {
		l.first = k.next
	} else {
		k.prev.links[l.slot].next = k.next
	}
	if k.next == nil {
		l.last = k.prev
	} else {
		k.next.links[l.slot].prev = k.prev
	}
	*k = links{}
	l.n--
}

func (l *list) all(yield func(*Sequence) bool) {
	depth := len(l.cursors)
	l.cursors = append(l.cursors, l.first)
	for {
		s := l.cursors[depth]
		if s == nil {
			break
		}
		l.cursors[depth] = s.links[l.slot].next
		if !yield(s) {
			break
		}
	}
	l.cursors = l.cursors[:depth]
}
