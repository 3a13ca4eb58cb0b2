package workload

import (
	"fmt"
	"io"
	"iter"
	"time"

	"servesim/sim"
)

// BurstGPT is a recording in the format of the BurstGPT traces (Wang et al.,
// KDD 2025): a CSV file, plain or gzip, whose header names the columns
// Timestamp (seconds), Model, Request tokens, Response tokens and Log Type, in
// any order and among others. Files of six columns and of eight, which have
// Session ID and Elapsed time in front of Model, are therefore the same to it.
//
// Requests replays it: a row's arrival is its timestamp minus that of the
// first row, and its ID the number of the row, from 0. The clock is coarse:
// the rows of one second arrive together unless Spread sets them apart. Rows
// without response tokens, which are failures, and those without request
// tokens are dropped and counted by reason; everything else that is wrong ends
// the sequence with an error that names file, line, column and value. Sessions
// are replayed in open loop, when they were recorded.
type BurstGPT struct {
	// Path names the file, and the input in errors.
	Path string `doc:"path"`
	// Open opens the input, once for each iteration. nil opens Path.
	Open func() (io.ReadCloser, error) `doc:"-"`
	// Class is the class of all requests.
	Class sim.Class `doc:"-"`
	// Model keeps the rows of this model, such as "ChatGPT" or "GPT-4", and
	// Log those of this log type, such as "Conversation log" or "API log".
	// Empty keeps all.
	Model string `doc:"model,opt"`
	Log   string `doc:"log,opt"`
	// Spread moves the i-th of n requests with equal timestamps, from 0, by
	// i·Spread/n, for which it holds the requests of one tick. Requests that
	// would be overtaken by the next tick are an error. 0 leaves them together.
	Spread time.Duration `doc:"spread_s,opt"`
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
func (b BurstGPT) Validate() error {
	if b.Spread < 0 {
		return fmt.Errorf("BurstGPT.Spread is %v, want at least 0", b.Spread)
	}
	return nil
}

// Classes returns the one class of the recording, for sim.Config.Classes.
func (b BurstGPT) Classes() []sim.Class { return []sim.Class{b.Class} }

// Requests yields the requests of the recording as they are read. Each
// iteration opens the input anew.
func (b BurstGPT) Requests() iter.Seq2[sim.Request, error] {
	if err := b.Validate(); err != nil {
		return failed[sim.Request](err)
	}
	return recording{
		path: b.Path, open: b.Open, longest: maxLine, clock: burstColumns[burstTime].name,
		sort: b.Sort, skip: b.SkipMalformed, spread: b.Spread, counts: b.Counts, begin: b.begin,
	}.requests()
}

// The columns of a BurstGPT trace.
const (
	burstTime = iota
	burstModel
	burstPrompt
	burstOutput
	burstLog
)

var burstColumns = [...]csvColumn{
	burstTime: {name: "Timestamp"}, burstModel: {name: "Model"}, burstPrompt: {name: "Request tokens"},
	burstOutput: {name: "Response tokens"}, burstLog: {name: "Log Type"},
}

func (b BurstGPT) begin(l *lines) (func(line []byte, r *row) error, error) {
	columns := burstColumns
	t, err := readHeader(l, columns[:]...)
	if err != nil {
		return nil, err
	}
	return func(line []byte, r *row) (err error) {
		if err := t.split(line); err != nil {
			return err
		}
		r.stamp = t.field(burstTime)
		if r.at, err = parseInstant(r.stamp, time.Second); err != nil {
			return t.fault(burstTime, err)
		}
		if r.prompt, err = t.count(burstPrompt); err != nil {
			return err
		}
		if r.output, err = t.count(burstOutput); err != nil {
			return err
		}
		if b.Model != "" && string(t.field(burstModel)) != b.Model || b.Log != "" && string(t.field(burstLog)) != b.Log {
			r.drop = filteredOut
		}
		return nil
	}, nil
}
