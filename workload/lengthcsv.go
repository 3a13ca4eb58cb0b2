package workload

import (
	"cmp"
	"io"
	"iter"
	"time"

	"servesim/sim"
)

// LengthCSV is a file of lengths: a CSV file, plain or gzip, with a column of
// prompt lengths and one of output lengths, in any order and among others. The
// default names are those of the processed traces of Vidur and Etalon, of which
// some also have arrivals.
//
// Requests replays it: a row's ID is its number, from 0, and its arrival the
// timestamp minus that of the first row if there is a column of them. Without
// one everything arrives at 0, as a batch job does; [Observed] takes the
// lengths only, for a workload with arrivals of its own. Rows without prompt
// or output are dropped and counted by reason; everything else that is wrong
// ends the sequence with an error that names file, line, column and value.
type LengthCSV struct {
	// Path names the file, and the input in errors.
	Path string `doc:"path"`
	// Open opens the input, once for each iteration. nil opens Path.
	Open func() (io.ReadCloser, error) `doc:"-"`
	// Class is the class of all requests.
	Class sim.Class `doc:"-"`
	// Prompt and Output name the columns of tokens. Empty means
	// num_prefill_tokens and num_decode_tokens.
	Prompt string `doc:"prompt_column,opt"`
	Output string `doc:"output_column,opt"`
	// Time names the column of arrivals, which must then be there. Empty means
	// arrived_at, if it is there.
	Time string `doc:"time_column,opt"`
	// Unit is that of an arrival: a second, a millisecond, a microsecond or a
	// nanosecond. 0 means a second. Dates with a time of day need none.
	Unit time.Duration `doc:"unit_ms,opt"`
	// Sort puts rows in order of time, equal ones in order of the file, for
	// which it holds the whole file. By default a row before its predecessor
	// is an error.
	Sort bool `doc:"sort,opt"`
	// SkipMalformed drops rows that cannot be read. By default one is an error.
	SkipMalformed bool `doc:"skip_malformed,opt"`
	// Counts, if not nil, is what an iteration has done so far: it is reset
	// at its start.
	Counts *Counts `doc:"-"`
}

// Validate reports an invalid field.
func (c LengthCSV) Validate() error { return checkUnit("LengthCSV.Unit", c.Unit) }

// Classes returns the one class of the recording, for sim.Config.Classes.
func (c LengthCSV) Classes() []sim.Class { return []sim.Class{c.Class} }

// Requests yields the requests of the recording as they are read. Each
// iteration opens the input anew.
func (c LengthCSV) Requests() iter.Seq2[sim.Request, error] {
	if err := c.Validate(); err != nil {
		return failed[sim.Request](err)
	}
	return recording{
		path: c.Path, open: c.Open, longest: maxLine, clock: cmp.Or(c.Time, "arrived_at"),
		sort: c.Sort, skip: c.SkipMalformed, counts: c.Counts, begin: c.begin,
	}.requests()
}

func (c LengthCSV) begin(l *lines) (func(line []byte, r *row) error, error) {
	const (
		prompt = iota
		output
		arrival
	)
	t, err := readHeader(l,
		csvColumn{name: cmp.Or(c.Prompt, "num_prefill_tokens")},
		csvColumn{name: cmp.Or(c.Output, "num_decode_tokens")},
		csvColumn{name: cmp.Or(c.Time, "arrived_at"), optional: c.Time == ""})
	if err != nil {
		return nil, err
	}
	unit := cmp.Or(c.Unit, time.Second)
	return func(line []byte, r *row) (err error) {
		if err := t.split(line); err != nil {
			return err
		}
		if t.has(arrival) {
			r.stamp = t.field(arrival)
			if r.at, err = parseInstant(r.stamp, unit); err != nil {
				return t.fault(arrival, err)
			}
		}
		if r.prompt, err = t.count(prompt); err != nil {
			return err
		}
		r.output, err = t.count(output)
		return err
	}, nil
}
