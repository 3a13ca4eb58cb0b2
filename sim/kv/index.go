package kv

// index finds the first registered block of a hash. It is an open-addressing
// table with linear probing and backward-shift deletion: in a full cache, where
// every block comes with a deletion and an insertion, two to three times as
// fast as a map, and without allocation once it has its size.
type index struct {
	slots []slot // length 0 or a power of two, at most three quarters used
	shift uint   // 64 − log2(len(slots))
	n     int
}

type slot struct {
	hash  Hash
	first Block // absent marks a slot that is not used
}

// home is where the search for h begins: Fibonacci hashing, because recorded
// hashes may be small consecutive numbers.
func (x *index) home(h Hash) int { return int(uint64(h) * golden >> x.shift) }

// find returns the slot of h, or the unused one where h would go.
func (x *index) find(h Hash) int {
	mask := len(x.slots) - 1
	i := x.home(h)
	for x.slots[i].first != absent && x.slots[i].hash != h {
		i = (i + 1) & mask
	}
	return i
}

// get returns the first block of h.
func (x *index) get(h Hash) (Block, bool) {
	if x.n == 0 {
		return absent, false
	}
	b := x.slots[x.find(h)].first
	return b, b != absent
}

// set makes b the first block of h.
func (x *index) set(h Hash, b Block) {
	if 4*(x.n+1) > 3*len(x.slots) {
		x.grow()
	}
	s := &x.slots[x.find(h)]
	if s.first == absent {
		x.n++
	}
	*s = slot{h, b}
}

// remove forgets h, which must be known, and closes the gap: every later entry
// of the cluster that may move to the hole without passing its home does.
func (x *index) remove(h Hash) {
	mask := len(x.slots) - 1
	hole := x.find(h)
	for i := (hole + 1) & mask; x.slots[i].first != absent; i = (i + 1) & mask {
		home := x.home(x.slots[i].hash)
		if (i-home)&mask >= (i-hole)&mask {
			x.slots[hole] = x.slots[i]
			hole = i
		}
	}
	x.slots[hole].first = absent
	x.n--
}

func (x *index) clear() {
	for i := range x.slots {
		x.slots[i].first = absent
	}
	x.n = 0
}

func (x *index) grow() {
	old := x.slots
	size := max(16, 2*len(old))
	x.slots = make([]slot, size)
	x.shift = 64
	for s := size; s > 1; s /= 2 {
		x.shift--
	}
	x.clear()
	for _, s := range old {
		if s.first != absent {
			x.set(s.hash, s.first)
		}
	}
}
