package trace

import (
	"fmt"
	"io"
	"strconv"

	"servesim/sim"
)

// Writer is a sim.Observer that writes one line for every request that
// completes, in order of completion. Requests that are rejected, aborted or
// unfinished have no full timeline and no line.
//
// request_id is the engine's serial number, unique in a run. The engine has no
// client side: client_send and gateway_arrival are the arrival, queue_enter
// the instant at which the request was routed to a replica, and a token
// reaches the client when it is sampled.
//
// The zero value of the other fields is ready. Call Flush at the end.
type Writer struct {
	W io.Writer

	buffered
}

// Observe writes the record of a Finish event and ignores the others. A fault
// is kept for Flush, and nothing is written after it.
func (w *Writer) Observe(e sim.Event) {
	if e.Kind != sim.Finish || w.err != nil {
		return
	}
	r := timeline(&e)
	if err := r.Validate(); err != nil {
		w.err = fmt.Errorf("trace: request %d: %w", e.Serial, err)
		return
	}
	w.buf = append(w.buf, `{"request_id":"`...)
	w.buf = strconv.AppendInt(w.buf, e.Serial, 10)
	w.buf = append(w.buf, '"')
	w.buf = r.appendRest(w.buf)
	w.endLine()
}

// timeline is the record of a Finish event, without an id.
func timeline(e *sim.Event) Record {
	t := &e.Timeline
	return Record{PromptTokens: e.Prompt, OutputTokens: e.Output,
		ClientSend: t.Arrival, GatewayArrival: t.Arrival, QueueEnter: t.Queued,
		PrefillStart: t.Admitted, PrefillEnd: t.PrefillEnd,
		FirstTokenServer: t.FirstToken, FirstTokenClient: t.FirstToken, LastTokenClient: e.Time}
}

// FromEvent returns the record that a Writer writes for a Finish event, for
// observers that write more than it does.
func FromEvent(e sim.Event) Record {
	r := timeline(&e)
	r.RequestID = strconv.FormatInt(e.Serial, 10)
	return r
}

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
	w.endLine()
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
	w.endLine()
	return w.err
}

func (w *Writer) endLine() {
	w.buf = append(w.buf, '\n')
	w.drain(w.W)
}

// Flush writes what is buffered. It returns the first fault since the start: a
// failed write or a Finish event whose timeline is not valid.
func (w *Writer) Flush() error {
	w.flush(w.W)
	return w.err
}
