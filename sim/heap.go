package sim

// entry is a pending event of the run.
type entry struct {
	at      Time
	kind    entryKind
	replica int32
	seq     int64 // order of creation; the last word of the total order
	who     *Sequence
	serial  int64 // of who, or the pass of a wake-up: a different one means the entry is out of date
}

// entryKind orders events of one instant.
type entryKind uint8

const (
	stepEnd   entryKind = iota
	linkEvent           // transfers end, or get new rates
	roleControl
	roleOpen
	abortFirst
	abortTotal
	arrival // follow-ups and deferred requests; open-loop arrivals come in front of them
	wakeUp
)

func (a *entry) before(b *entry) bool {
	switch {
	case a.at != b.at:
		return a.at < b.at
	case a.kind != b.kind:
		return a.kind < b.kind
	case a.replica != b.replica:
		return a.replica < b.replica
	}
	return a.seq < b.seq
}

// eventHeap is a binary heap of values.
type eventHeap []entry

func (h *eventHeap) push(e entry) {
	*h = append(*h, e)
	s := *h
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(&s[parent]) {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = e
}

// pop removes the earliest entry of a heap that is not empty.
func (h *eventHeap) pop() entry {
	s := *h
	top := s[0]
	last := s[len(s)-1]
	s[len(s)-1] = entry{}
	s = s[:len(s)-1]
	*h = s
	if len(s) > 0 {
		s.sink(last)
	}
	return top
}

// sink puts e at the root and lets it down to its place.
func (h eventHeap) sink(e entry) { h.sinkFrom(0, e) }

// sinkFrom puts e at index i and lets it down to its place.
func (h eventHeap) sinkFrom(i int, e entry) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(&e) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = e
}
