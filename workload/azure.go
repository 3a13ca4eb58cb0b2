package workload

import (
	"io"
	"iter"

	"servesim/sim"
)

// AzureCSV is a recording in the format of Azure's public LLM inference
// traces of 2023, 2024 and 2025: a CSV file, plain or gzip, whose header names
// the columns TIMESTAMP, ContextTokens and GeneratedTokens and perhaps
// NumImages, in any order and among others.
//
// Requests replays it: a row's arrival is its timestamp minus that of the
// first row, to the nanosecond, and its ID the number of the row, from 0.
// Rows without prompt or output, or with images, are dropped and counted by
// reason; everything else that is wrong ends the sequence with an error that
// names file, line, column and value. Equal rows are requests each.
type AzureCSV struct {
	// Path names the file, and the input in errors.
	Path string `doc:"path"`
	// Open opens the input, once for each iteration. nil opens Path.
	Open func() (io.ReadCloser, error) `doc:"-"`
	// Class is the class of all requests.
	Class sim.Class `doc:"-"`
	// KeepImages replays requests with images as if they were text only. By
	// default they are dropped.
	KeepImages bool `doc:"keep_images,opt"`
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

// Classes returns the one class of the recording, for sim.Config.Classes.
func (a AzureCSV) Classes() []sim.Class { return []sim.Class{a.Class} }

// Requests yields the requests of the recording as they are read. Each
// iteration opens the input anew.
func (a AzureCSV) Requests() iter.Seq2[sim.Request, error] {
	return recording{
		path: a.Path, open: a.Open, longest: maxLine, clock: azureColumns[azureTime].name,
		sort: a.Sort, skip: a.SkipMalformed, counts: a.Counts, begin: a.begin,
	}.requests()
}

// The columns of an Azure trace.
const (
	azureTime = iota
	azurePrompt
	azureOutput
	azureImages
)

var azureColumns = [...]csvColumn{
	azureTime: {name: "TIMESTAMP"}, azurePrompt: {name: "ContextTokens"}, azureOutput: {name: "GeneratedTokens"},
	azureImages: {name: "NumImages", optional: true},
}

func (a AzureCSV) begin(l *lines) (func(line []byte, r *row) error, error) {
	columns := azureColumns
	t, err := readHeader(l, columns[:]...)
	if err != nil {
		return nil, err
	}
	return func(line []byte, r *row) (err error) {
		if err := t.split(line); err != nil {
			return err
		}
		r.stamp = t.field(azureTime)
		if r.at, err = parseTimestamp(r.stamp); err != nil {
			return t.fault(azureTime, err)
		}
		if r.prompt, err = t.count(azurePrompt); err != nil {
			return err
		}
		if r.output, err = t.count(azureOutput); err != nil {
			return err
		}
		if !t.has(azureImages) {
			return nil
		}
		images, err := t.count(azureImages)
		if images > 0 && !a.KeepImages {
			r.drop = hasImages
		}
		return err
	}, nil
}
