package workload

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"time"

	"servesim/sim"
	"servesim/sim/kv"
)

// ErrOrder is what an error about a row before its predecessor is, as
// errors.Is tells: the reader's Sort accepts such rows.
var ErrOrder = errors.New("rows out of order")

// recording is what the readers of rows have in common: they replay the rows
// of a file in order of time.
type recording struct {
	path    string // of the file, in errors
	open    func() (io.ReadCloser, error)
	longest int    // bytes of a line
	clock   string // name of the timestamps, in errors
	sort    bool
	skip    bool // drop rows that cannot be read
	spread  time.Duration
	counts  *Counts
	block   int // tokens of a block of the prefixes
	// begin reads a header, if the format has one, and returns what reads a
	// row: everything but index and line.
	begin func(l *lines) (func(line []byte, r *row) error, error)
}

// row is a request as a recording has it.
type row struct {
	index  int    // among the rows, from 0
	line   int    // of the file, from 1
	at     int64  // ns on the clock of the recording
	stamp  []byte // the timestamp as written, valid during the call
	prompt int
	output int
	drop   reason    // why it is dropped although it has tokens
	prefix []kv.Hash // valid after the call
}

// requests yields the requests of the recording as they are read.
func (rec recording) requests() iter.Seq2[sim.Request, error] {
	requests := rec.inOrder
	if rec.sort {
		requests = rec.sorted
	}
	if rec.spread > 0 {
		return spreadTicks(requests, rec.spread, rec.path)
	}
	return requests
}

func (rec recording) inOrder(yield func(sim.Request, error) bool) {
	counts := resetCounts(rec.counts)
	var origin, last int64
	var lastLine int
	var lastStamp []byte
	first := true
	err := rec.rows(counts, func(r *row) (bool, error) {
		if first {
			first, origin, last = false, r.at, r.at
		}
		if r.at < last {
			return false, orderError(fmt.Sprintf("%s:%d: %s %s is before %s of line %d (Sort accepts that)",
				rec.path, r.line, rec.clock, shorten(r.stamp), shorten(lastStamp), lastLine))
		}
		last, lastLine, lastStamp = r.at, r.line, append(lastStamp[:0], r.stamp...)
		arrival, err := rec.arrival(r.at, origin, r.line)
		if err != nil || !counts.add(r) {
			return true, err
		}
		return yield(rec.request(r.index, arrival, r.prompt, r.output, r.prefix), nil), nil
	})
	if err != nil {
		fail(yield, err)
	}
}

func (rec recording) sorted(yield func(sim.Request, error) bool) {
	counts := resetCounts(rec.counts)
	var kept []keptRow
	var prefixes [][]kv.Hash
	origin, last := int64(math.MaxInt64), int64(math.MinInt64)
	err := rec.rows(counts, func(r *row) (bool, error) {
		if r.at < last {
			counts.OutOfOrder++
		}
		origin, last = min(origin, r.at), r.at
		if !counts.add(r) {
			return true, nil
		}
		if rec.block > 0 {
			prefixes = append(prefixes, r.prefix)
		}
		kept = append(kept, keptRow{r.at, int32(len(kept)), int32(r.index), int32(r.line), int32(r.prompt), int32(r.output)})
		return true, nil
	})
	if err != nil {
		fail(yield, err)
		return
	}
	slices.SortFunc(kept, func(a, b keptRow) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.index, b.index))
	})
	for _, k := range kept {
		arrival, err := rec.arrival(k.at, origin, int(k.line))
		if err != nil {
			fail(yield, err)
			return
		}
		var prefix []kv.Hash
		if rec.block > 0 {
			prefix = prefixes[k.nth]
		}
		if !yield(rec.request(int(k.index), arrival, int(k.prompt), int(k.output), prefix), nil) {
			return
		}
	}
}

// keptRow is a row without its prefix, in a quarter of a request's memory.
type keptRow struct {
	at                               int64
	nth, index, line, prompt, output int32 // nth among the rows that are kept
}

// arrival is the time since the origin.
func (rec recording) arrival(at, origin int64, line int) (sim.Time, error) {
	if origin < 0 && at > math.MaxInt64+origin {
		return 0, fmt.Errorf("%s:%d: %s is more than 292 years after the first", rec.path, line, rec.clock)
	}
	return sim.Time(at - origin), nil
}

func (rec recording) request(id int, arrival sim.Time, prompt, output int, prefix []kv.Hash) sim.Request {
	return sim.Request{ID: id, Arrival: arrival, Prompt: prompt, Output: output, Prefix: prefix, PrefixBlock: rec.block}
}

// rows calls do for each row that can be read, until it returns false or an
// error. The row is valid during the call. Others are an error or, if asked
// for, counted.
func (rec recording) rows(counts *Counts, do func(*row) (bool, error)) error {
	in, err := openInput(rec.path, rec.open)
	if err != nil {
		return err
	}
	defer in.Close()
	l, err := newLines(rec.path, in, rec.longest)
	if err != nil {
		return err
	}
	parse, err := rec.begin(l)
	if err != nil {
		return err
	}
	r := row{index: -1}
	err = l.each(func(line []byte) (bool, error) {
		r.index++
		r.line, r.drop = l.number, notDropped
		if err := parse(line, &r); err != nil {
			if rec.skip {
				counts.Read++
				counts.Malformed++
				return true, nil
			}
			return false, l.errorf("%w", err)
		}
		return do(&r)
	})
	if err == nil && r.index < 0 {
		return fmt.Errorf("%s: no rows", rec.path)
	}
	return err
}

// orderError is an ErrOrder that says where.
type orderError string

func (e orderError) Error() string        { return string(e) }
func (e orderError) Is(target error) bool { return target == ErrOrder }

// failed yields nothing but an error.
func failed[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) { fail(yield, err) }
}
