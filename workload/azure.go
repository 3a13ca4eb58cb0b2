package workload

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"

	"servesim/sim"
)

// AzureCSV is a recording in the format of Azure's public LLM inference
// traces of 2023, 2024 and 2025: a CSV file, plain or gzip, whose header names
// the columns TIMESTAMP, ContextTokens and GeneratedTokens and perhaps
// NumImages, in any order and among others.
//
// Requests replays it: a row's arrival is its timestamp minus that of the
// first row, to the nanosecond, and its ID the number of the row, from 0.
// Rows that cannot be simulated are dropped and counted by reason; everything
// else that is wrong ends the sequence with an error that names file, line,
// column and value.
type AzureCSV struct {
	// Path names the file, and the input in errors.
	Path string
	// Open opens the input, once for each iteration. nil opens Path.
	Open func() (io.ReadCloser, error)
	// Class is the class of all requests.
	Class sim.Class
	// KeepImages replays requests with images as if they were text only. By
	// default they are dropped.
	KeepImages bool
	// Sort puts rows in order of time, equal ones in order of the file, for
	// which it holds the whole file. By default a row before its predecessor
	// is an error.
	Sort bool
	// Counts, if not nil, is what an iteration has done so far: it is reset
	// at its start.
	Counts *Counts
}

// Classes returns the one class of the recording, for sim.Config.Classes.
func (a AzureCSV) Classes() []sim.Class { return []sim.Class{a.Class} }

// Requests yields the requests of the recording as they are read. Each
// iteration opens the input anew.
func (a AzureCSV) Requests() iter.Seq2[sim.Request, error] {
	if a.Sort {
		return a.sorted
	}
	return a.inOrder
}

func (a AzureCSV) inOrder(yield func(sim.Request, error) bool) {
	counts := resetCounts(a.Counts)
	var origin int64
	var last azureRow
	err := a.rows(func(r azureRow) (bool, error) {
		if r.index == 0 {
			origin, last.at = r.at, r.at
		}
		if r.at < last.at {
			return false, fmt.Errorf("%s:%d: TIMESTAMP %q is before %q of line %d (Sort accepts that)",
				a.Path, r.line, r.stamp, last.stamp, last.line)
		}
		last.at, last.line, last.stamp = r.at, r.line, append(last.stamp[:0], r.stamp...)
		q, err := a.request(r, origin)
		if err != nil || !a.add(counts, r) {
			return true, err
		}
		return yield(q, nil), nil
	})
	if err != nil {
		fail(yield, err)
	}
}

func (a AzureCSV) sorted(yield func(sim.Request, error) bool) {
	counts := resetCounts(a.Counts)
	var kept []keptRow
	origin := int64(math.MaxInt64)
	err := a.rows(func(r azureRow) (bool, error) {
		origin = min(origin, r.at)
		if a.add(counts, r) {
			kept = append(kept, keptRow{r.at, int32(r.index), int32(r.line), int32(r.prompt), int32(r.output)})
		}
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
		q, err := a.request(azureRow{
			at: k.at, index: int(k.index), line: int(k.line), prompt: int(k.prompt), output: int(k.output),
		}, origin)
		if err != nil {
			fail(yield, err)
			return
		}
		if !yield(q, nil) {
			return
		}
	}
}

// keptRow is an azureRow in a third of the memory.
type keptRow struct {
	at                          int64
	index, line, prompt, output int32
}

// add books a row and reports whether it is kept.
func (a AzureCSV) add(c *Counts, r azureRow) bool {
	if a.KeepImages {
		r.images = 0
	}
	return c.add(r.prompt, r.output, r.images)
}

// request is the request of a row that is kept.
func (a AzureCSV) request(r azureRow, origin int64) (sim.Request, error) {
	if origin < 0 && r.at > math.MaxInt64+origin {
		return sim.Request{}, fmt.Errorf("%s:%d: TIMESTAMP is more than 292 years after the first", a.Path, r.line)
	}
	return sim.Request{ID: r.index, Arrival: sim.Time(r.at - origin), Prompt: r.prompt, Output: r.output}, nil
}

// rows calls do for each row of the file, until it returns false or an error.
func (a AzureCSV) rows(do func(azureRow) (bool, error)) error {
	in, err := openInput(a.Path, a.Open)
	if err != nil {
		return err
	}
	defer in.Close()
	l, err := newLines(a.Path, in, maxLine)
	if err != nil {
		return err
	}
	columns, err := azureHeader(l)
	if err != nil {
		return err
	}
	fields := make([][]byte, 0, columns.n)
	index := 0
	err = l.each(func(line []byte) (bool, error) {
		if fields, err = splitCSV(fields[:0], line); err != nil {
			return false, l.errorf("%w", err)
		}
		r, err := columns.parse(l, fields)
		if err != nil {
			return false, err
		}
		r.index = index
		index++
		return do(r)
	})
	if err == nil && index == 0 {
		return fmt.Errorf("%s: no rows after the header", a.Path)
	}
	return err
}
