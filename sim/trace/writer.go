package trace

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"servesim/sim"
)

// Writer is a sim.Observer that writes one line for every request that
// completes, in order of completion: what [EntryFromEvent] makes of its Finish
// event. Requests that are rejected, aborted or unfinished have no full
// timeline and no line.
//
// The zero value of the other fields is ready. Call Flush at the end.
type Writer struct {
	W io.Writer
	// Tokens writes the instants of every token, at the server and at the
	// client. The run must have Config.TokenTimes.
	Tokens bool
	// Labels writes a [Label] into every line, with the causes that Causes says.
	// Without it a profiler is blind. See [LabelWriter].
	Labels bool
	Causes func(e sim.Event) []string

	buffered
	scratch
}

// Observe writes the line of a Finish event and ignores the others. A fault
// is kept for Flush, and nothing is written after it.
func (w *Writer) Observe(e sim.Event) {
	if e.Kind != sim.Finish || w.err != nil {
		return
	}
	line, err := w.line(&e, w.Tokens)
	if err != nil {
		w.err = fmt.Errorf("trace: request %d: %w", e.Serial, err)
		return
	}
	w.buf = append(w.buf, `{"request_id":"`...)
	w.buf = strconv.AppendInt(w.buf, e.Serial, 10)
	w.buf = append(w.buf, '"')
	w.buf = line.appendRest(w.buf)
	w.buf = line.Details.append(w.buf)
	if w.Labels {
		l, err := causedLabel(&e, &line.Record, w.Causes)
		if err != nil {
			w.err = fmt.Errorf("trace: request %d: %w", e.Serial, err)
			return
		}
		w.buf = append(l.append(w.buf[:len(w.buf)-1]), '}')
	}
	w.endLine(w.W)
}

// scratch holds the tokens of the request that is written.
type scratch struct{ server, client []sim.Time }

// line is the valid entry of a Finish event, without an id.
func (s *scratch) line(e *sim.Event, tokens bool) (line Entry, err error) {
	line = Entry{Record: timeline(e), Details: pathDetails(e)}
	if line.FirstTokenClient == Unknown {
		return line, errProxyCounts
	}
	if tokens {
		s.server = e.TokenTimes(s.server[:0])
		s.client = e.Path().Deliver(s.client[:0], s.server)
		if len(s.server) == 0 {
			return line, errNoTokenTimes
		}
		line.Details.ServerTokens, line.Details.ClientTokens = s.server, s.client
	}
	return line, line.Validate()
}

var (
	errProxyCounts  = errors.New("when the first token reached the client is not known: behind a proxy that counts tokens it takes sim.Config.TokenTimes")
	errNoTokenTimes = errors.New("the instants of its tokens are not known: to write them takes sim.Config.TokenTimes")
)

// Write writes a record from elsewhere. It returns the error of Flush, or says
// why the record is not valid; a record that is not valid leaves the file as
// it was.
func (w *Writer) Write(r Record) error {
	if w.err != nil {
		return w.err
	}
	if err := r.Validate(); err != nil {
		return fmt.Errorf("trace: request %q: %w", r.RequestID, err)
	}
	w.buf = r.AppendJSON(w.buf)
	w.endLine(w.W)
	return w.err
}

// WriteEntry is Write with the details.
func (w *Writer) WriteEntry(e Entry) error {
	if w.err != nil {
		return w.err
	}
	if err := e.Validate(); err != nil {
		return fmt.Errorf("trace: request %q: %w", e.RequestID, err)
	}
	return w.WriteUnchecked(e)
}

// WriteUnchecked writes an entry whatever it holds: broken traces are made on
// purpose, to test who reads them. Instants that are Unknown are left out.
func (w *Writer) WriteUnchecked(e Entry) error {
	if w.err != nil {
		return w.err
	}
	w.buf = e.AppendJSON(w.buf)
	w.endLine(w.W)
	return w.err
}

// Flush writes what is buffered. It returns the first fault since the start: a
// failed write or a Finish event whose timeline is not valid.
func (w *Writer) Flush() error {
	w.flush(w.W)
	return w.err
}
