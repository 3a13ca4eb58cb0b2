package metrics

import "encoding/binary"

// runs is a log of whole numbers and how often each came in a row. Steps that
// follow each other take about the same time for about the same batch, so
// differences are written, as varints: three or four bytes a step, where the
// memory a step touches for the first time is most of its cost.
type runs struct {
	current, written run
	n                int      // runs written
	last             []byte   // the chunk being filled
	full             [][]byte // chunks before it; one growing slice would be copied again and again
}

type run struct{ value, count int64 }

const (
	chunkBytes = 1 << 15
	runBytes   = 2 * binary.MaxVarintLen64 // most that one run takes
)

// add appends count occurrences of value, one at least.
func (r *runs) add(value, count int64) {
	if r.current.value != value {
		r.write()
		r.current.value = value
	}
	r.current.count += count
}

// write moves the current run to the log.
func (r *runs) write() {
	if r.current.count == 0 {
		return
	}
	if cap(r.last)-len(r.last) < runBytes {
		if len(r.last) > 0 {
			r.full = append(r.full, r.last)
		}
		r.last = make([]byte, 0, min(chunkBytes, 64+2*cap(r.last)))
	}
	r.last = binary.AppendVarint(r.last, r.current.value-r.written.value)
	r.last = binary.AppendVarint(r.last, r.current.count-r.written.count)
	r.written, r.current.count = r.current, 0
	r.n++
}

// all returns the runs, in order.
func (r *runs) all() []run {
	if r.current.count == 0 {
		return nil // nothing was added
	}
	rs := make([]run, 0, r.n+1)
	for _, chunk := range append(r.full[:len(r.full):len(r.full)], r.last) {
		for len(chunk) > 0 {
			var at run
			if len(rs) > 0 {
				at = rs[len(rs)-1]
			}
			value, n := binary.Varint(chunk)
			count, m := binary.Varint(chunk[n:])
			chunk = chunk[n+m:]
			rs = append(rs, run{at.value + value, at.count + count})
		}
	}
	return append(rs, r.current)
}
