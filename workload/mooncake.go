package workload

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"servesim/sim"
	"servesim/sim/kv"
)

// Mooncake is a recording in the format of Mooncake's public traces (Qin et
// al., FAST 2025): a file of JSON lines, plain or gzip. Each row is an object
// with the keys timestamp (a number of milliseconds), input_length and
// output_length (whole numbers of tokens), and hash_ids (a list of whole
// numbers that name the blocks of the prompt). Other keys are ignored.
//
// Requests replays it: a row's arrival is its timestamp minus that of the
// first row, to the nanosecond, and its ID the number of the row, from 0. Rows
// without prompt or output are dropped and counted by reason; everything else
// that is wrong ends the sequence with an error that names file, line, key and
// value.
//
// # Prefixes
//
// hash_ids has an id for each block, also for a last one that is not full:
// ⌈input_length/BlockTokens⌉ in all, which is checked. Engines share full
// blocks only, so the id of a partial block becomes no hash: Request.Prefix
// has ⌊input_length/BlockTokens⌋, and up to BlockTokens - 1 tokens at the end
// of a prompt are never found in a cache.
//
// An id is a node of the prefix tree of its file. Prefix is the chain of ids
// under Path as salt, so that recordings replayed side by side share nothing,
// however their ids coincide. Request.PrefixBlock is BlockTokens; the engine
// converts to its own block size.
//
// # Ticks
//
// The timestamps of the conversation recording stand on ticks 3 s apart, with
// 10 rows each on average. By default the rows of a tick arrive together, as
// recorded; Spread sets them apart.
type Mooncake struct {
	// Path names the file, and the input in errors, and salts the prefixes.
	Path string
	// Open opens the input, once for each iteration. nil opens Path.
	Open func() (io.ReadCloser, error)
	// Class is the class of all requests.
	Class sim.Class
	// BlockTokens is the number of tokens that an id stands for. 0 means 512.
	BlockTokens int
	// Spread moves the i-th of n requests with equal timestamps, from 0, by
	// i·Spread/n, for which it holds the requests of one tick: with the width
	// of a tick, they come evenly over it. Requests that would be overtaken by
	// the next tick are an error. 0 leaves them together.
	Spread time.Duration
	// Sort puts rows in order of time, equal ones in order of the file, for
	// which it holds the whole file. By default a row before its predecessor
	// is an error.
	Sort bool
	// Counts, if not nil, is what an iteration has done so far: it is reset
	// at its start.
	Counts *Counts
}

// mooncakeBlock is the number of tokens in a block of the public traces.
const mooncakeBlock = 512

// Validate reports an invalid field.
func (m Mooncake) Validate() error {
	switch {
	case m.BlockTokens < 0 || m.BlockTokens > maxTokens:
		return fmt.Errorf("Mooncake.BlockTokens is %d, want 0 to %d", m.BlockTokens, maxTokens)
	case m.Spread < 0:
		return fmt.Errorf("Mooncake.Spread is %v, want at least 0", m.Spread)
	}
	return nil
}

// Classes returns the one class of the recording, for sim.Config.Classes.
func (m Mooncake) Classes() []sim.Class { return []sim.Class{m.Class} }

// Requests yields the requests of the recording as they are read. Each
// iteration opens the input anew.
func (m Mooncake) Requests() iter.Seq2[sim.Request, error] {
	requests := m.inOrder
	if m.Sort {
		requests = m.sorted
	}
	if m.Spread > 0 {
		return spreadTicks(requests, m.Spread, m.Path)
	}
	return requests
}

func (m Mooncake) inOrder(yield func(sim.Request, error) bool) {
	counts := resetCounts(m.Counts)
	var origin, last int64
	var lastLine int
	var lastStamp []byte
	err := m.rows(func(r *mooncakeRow) (bool, error) {
		if r.index == 0 {
			origin, last = r.at, r.at
		}
		if r.at < last {
			return false, fmt.Errorf("%s:%d: timestamp %s is before %s of line %d (Sort accepts that)",
				m.Path, r.line, shorten(r.stamp), shorten(lastStamp), lastLine)
		}
		last, lastLine, lastStamp = r.at, r.line, append(lastStamp[:0], r.stamp...)
		if !counts.add(r.prompt, r.output, 0) {
			return true, nil
		}
		return yield(m.request(r, origin), nil), nil
	})
	if err != nil {
		fail(yield, err)
	}
}

func (m Mooncake) sorted(yield func(sim.Request, error) bool) {
	counts := resetCounts(m.Counts)
	var kept []sim.Request
	origin := sim.Never
	err := m.rows(func(r *mooncakeRow) (bool, error) {
		origin = min(origin, sim.Time(r.at))
		if counts.add(r.prompt, r.output, 0) {
			kept = append(kept, m.request(r, 0))
		}
		return true, nil
	})
	if err != nil {
		fail(yield, err)
		return
	}
	slices.SortStableFunc(kept, func(a, b sim.Request) int { return cmp.Compare(a.Arrival, b.Arrival) })
	for _, q := range kept {
		q.Arrival -= origin
		if !yield(q, nil) {
			return
		}
	}
}

// request is the request of a row that is kept.
func (m Mooncake) request(r *mooncakeRow, origin int64) sim.Request {
	q := sim.Request{
		ID: r.index, Arrival: sim.Time(r.at - origin), Prompt: r.prompt, Output: r.output,
		PrefixBlock: m.blockTokens(),
	}
	if full := r.prompt / q.PrefixBlock; full > 0 {
		q.Prefix = kv.HashIDs(make([]kv.Hash, 0, full), r.ids[:full], m.Path)
	}
	return q
}

func (m Mooncake) blockTokens() int { return cmp.Or(m.BlockTokens, mooncakeBlock) }

// rows calls do for each row of the file, until it returns false or an error.
// The row is valid during the call.
func (m Mooncake) rows(do func(*mooncakeRow) (bool, error)) error {
	if err := m.Validate(); err != nil {
		return err
	}
	in, err := openInput(m.Path, m.Open)
	if err != nil {
		return err
	}
	defer in.Close()
	l, err := newLines(m.Path, in, maxJSONLine)
	if err != nil {
		return err
	}
	r := mooncakeRow{index: -1}
	err = l.each(func(line []byte) (bool, error) {
		r.index++
		r.line = l.number
		if err := r.parse(line, m.blockTokens()); err != nil {
			return false, l.errorf("%w", err)
		}
		return do(&r)
	})
	if err == nil && r.index < 0 {
		return fmt.Errorf("%s: no rows", m.Path)
	}
	return err
}
