package workload

import (
	"errors"
	"fmt"
	"time"

	"servesim/sim"
)

// traceLabRow is a round with what its row says of the session.
type traceLabRow struct {
	TraceLabRound
	line    int // of the file, from 1
	session string
	round   int      // from 0
	arrival sim.Time // of the session
}

// The columns of a replay file.
const (
	labSession = iota
	labArrival
	labRound
	labPrefix
	labInput
	labOutput
	labWait
)

var labColumns = [...]csvColumn{
	labSession: {name: "session_id", also: "id"}, labArrival: {name: "arrival_time"}, labRound: {name: "round_idx"},
	labPrefix: {name: "prefix_len"}, labInput: {name: "input_len"}, labOutput: {name: "output_len"},
	labWait: {name: "tool_wait_after_ms"},
}

// rows calls do for each row of the file, until it returns false or an error.
func (t TraceLab) rows(do func(traceLabRow) (bool, error)) error {
	in, err := openInput(t.Path, t.Open)
	if err != nil {
		return err
	}
	defer in.Close()
	l, err := newLines(t.Path, in, maxLine)
	if err != nil {
		return err
	}
	columns := labColumns
	fields, err := readHeader(l, columns[:]...)
	if err != nil {
		return err
	}
	var r traceLabRow
	n := 0
	err = l.each(func(line []byte) (bool, error) {
		if err := r.parse(fields, line); err != nil {
			return false, l.errorf("%w", err)
		}
		r.Row, r.line = n, l.number
		n++
		return do(r)
	})
	if err == nil && n == 0 {
		return fmt.Errorf("%s: no rows", t.Path)
	}
	return err
}

func (r *traceLabRow) parse(t *table, line []byte) (err error) {
	if err := t.split(line); err != nil {
		return err
	}
	if id := t.field(labSession); len(id) == 0 {
		return t.fault(labSession, errors.New("a row without session"))
	} else if string(id) != r.session { // one string for the rows of a session
		r.session = string(id)
	}
	for _, f := range []struct {
		column int
		value  *int64
	}{{labArrival, (*int64)(&r.arrival)}, {labWait, (*int64)(&r.Wait)}} {
		if *f.value, err = parseDuration(t.field(f.column), time.Millisecond); err != nil {
			return t.fault(f.column, err)
		}
	}
	for _, f := range []struct {
		column int
		value  *int
	}{{labRound, &r.round}, {labPrefix, &r.Prefix}, {labInput, &r.Input}, {labOutput, &r.Output}} {
		if *f.value, err = t.count(f.column); err != nil {
			return err
		}
	}
	if n := r.Prefix + r.Input + r.Output; n > maxContent {
		return fmt.Errorf("prefix_len, input_len and output_len make %d tokens, more than %d", n, maxContent)
	}
	return nil
}
