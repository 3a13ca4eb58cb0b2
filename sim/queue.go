package sim

// queue is the waiting queue of a replica: a list that is always in order.
// With an Order, a treap over the same sequences finds the place of a new one
// in O(log n); its priorities are hashes of serial numbers, so its shape is
// the same in every run.
type queue struct {
	list
	order Order
	root  *Sequence
}

// treeLinks place a sequence in the treap.
type treeLinks struct{ left, right *Sequence }

// push adds s: at its sorted place, or by its turn if there is no Order. Most
// come at one of the ends.
func (q *queue) push(s *Sequence) {
	if q.order != nil {
		q.insertAfter(q.predecessor(s), s)
		q.root = q.treeInsert(q.root, s)
		return
	}
	first, last := q.first, q.last
	for first != nil && first.turn < s.turn && last.turn > s.turn {
		first, last = first.links[slotPlace].next, last.links[slotPlace].prev
	}
	switch {
	case first == nil || last.turn < s.turn:
		q.insertAfter(last, s)
	default:
		q.insertAfter(first.links[slotPlace].prev, s)
	}
}

func (q *queue) remove(s *Sequence) {
	if q.order != nil {
		q.root = q.treeRemove(q.root, s)
	}
	q.list.remove(s)
}

func (q *queue) before(a, b *Sequence) bool {
	switch {
	case q.order.Before(a, b):
		return true
	case q.order.Before(b, a):
		return false
	case a.req.Arrival != b.req.Arrival:
		return a.req.Arrival < b.req.Arrival
	}
	return a.serial < b.serial
}

func (q *queue) predecessor(s *Sequence) *Sequence {
	var found *Sequence
	for t := q.root; t != nil; {
		if q.before(t, s) {
			found, t = t, t.tree.right
		} else {
			t = t.tree.left
		}
	}
	return found
}

func (q *queue) treeInsert(t, s *Sequence) *Sequence {
	if t == nil {
		return s
	}
	if s.treePriority() > t.treePriority() {
		s.tree.left, s.tree.right = q.treeSplit(t, s)
		return s
	}
	if q.before(s, t) {
		t.tree.left = q.treeInsert(t.tree.left, s)
	} else {
		t.tree.right = q.treeInsert(t.tree.right, s)
	}
	return t
}

// treeSplit divides t into what stands before s and the rest.
func (q *queue) treeSplit(t, s *Sequence) (left, right *Sequence) {
	if t == nil {
		return nil, nil
	}
	if q.before(t, s) {
		t.tree.right, right = q.treeSplit(t.tree.right, s)
		return t, right
	}
	left, t.tree.left = q.treeSplit(t.tree.left, s)
	return left, t
}

func (q *queue) treeRemove(t, s *Sequence) *Sequence {
	switch {
	case t == nil:
		panic("sim: Order.Before changed its mind about a waiting sequence")
	case t == s:
		t = treeMerge(s.tree.left, s.tree.right)
		s.tree = treeLinks{}
	case q.before(s, t):
		t.tree.left = q.treeRemove(t.tree.left, s)
	default:
		t.tree.right = q.treeRemove(t.tree.right, s)
	}
	return t
}

// treeMerge joins two treaps, all of a before all of b.
func treeMerge(a, b *Sequence) *Sequence {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.treePriority() > b.treePriority():
		a.tree.right = treeMerge(a.tree.right, b)
		return a
	}
	b.tree.left = treeMerge(a, b.tree.left)
	return b
}

// treePriority is the finaliser of SplitMix64 over the serial number.
func (s *Sequence) treePriority() uint64 {
	z := uint64(s.serial) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
