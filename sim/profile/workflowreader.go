package profile

import (
	"fmt"
	"io"
	"time"

	"servesim/sim/trace"
)

// ReadWorkflows reads a file of workflows: JSON objects one behind the other,
// on a line each or on many.
//
//	{"workflow": "w1", "first_token": "prefill", "spans": [
//	  {"name": "retrieve", "phase": "gateway", "duration_ms": 430},
//	  {"name": "policy", "phase": "gateway", "duration_ms": 45},
//	  {"name": "prefill", "phase": "prefill", "after": ["retrieve", "policy"], "wait_ms": 5, "duration_ms": 285}]}
//
// Where spans were measured, start_ms and end_ms stand in place of wait_ms and
// duration_ms, for all spans of the workflow. A wait is then the time from the
// last end of what a span comes after, or from the earliest start.
//
// The error names the file, the line, and the span or field.
func ReadWorkflows(r io.Reader, name string) ([]Workflow, error) {
	d, err := newDocument(r, name)
	if err != nil {
		return nil, err
	}
	var list []Workflow
	lines := map[string]int{}
	for d.more() {
		w, err := d.workflow()
		if err != nil {
			return nil, err
		}
		if first, ok := lines[w.ID]; ok {
			return nil, d.errorf("workflow %q is that of line %d", clip(w.ID), first)
		}
		lines[w.ID] = d.line()
		list = append(list, w)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: at least one workflow is required", name)
	}
	return list, nil
}

// readSpan is a span of a file before its times are worked out.
type readSpan struct {
	Span
	line           int
	start, end     time.Duration // since the clock's origin
	timed, lengths int           // how many of start and end, of wait and duration it has
	hasDuration    bool
}

func (d *document) workflow() (Workflow, error) {
	var w Workflow
	var spans []readSpan
	named := false
	err := d.object("a workflow", func(field string) error {
		switch field {
		case "workflow":
			named = true
			return d.text(field, &w.ID)
		case "first_token":
			return d.text(field, &w.FirstToken)
		case "spans":
			return d.list(field, func(int) error {
				s, err := d.span()
				spans = append(spans, s)
				return err
			})
		}
		return d.unknown(field, "workflow", "first_token", "spans")
	})
	switch {
	case err != nil:
		return w, err
	case !named:
		return w, d.errorf("missing field: workflow")
	}
	if at, err := w.take(spans); err != nil {
		return w, d.at(spans, at, err)
	}
	if _, at, err := w.order(); err != nil {
		return w, d.at(spans, at, err)
	}
	return w, nil
}

// at is the error of a span, or of the workflow without one.
func (d *document) at(spans []readSpan, i int, err error) error {
	if i >= len(spans) {
		return d.errorf("%w", err)
	}
	return fmt.Errorf("%s:%d: %w", d.name, spans[i].line, err)
}

func (d *document) span() (s readSpan, err error) {
	err = d.object("a span", func(field string) error {
		if s.line == 0 {
			s.line = d.line()
		}
		duration := func(to *time.Duration) error {
			s.lengths++
			return d.millis(field, to)
		}
		switch field {
		case "name":
			return d.text(field, &s.Name)
		case "phase":
			return d.text(field, &s.Phase)
		case "after":
			return d.texts(field, &s.After)
		case "wait_ms":
			return duration(&s.Wait)
		case "duration_ms":
			s.hasDuration = true
			return duration(&s.Duration)
		case "start_ms":
			s.timed++
			return d.millis(field, &s.start)
		case "end_ms":
			s.timed++
			return d.millis(field, &s.end)
		}
		return d.unknown(field, "name", "phase", "after", "wait_ms", "duration_ms", "start_ms", "end_ms")
	})
	if s.line == 0 {
		s.line = d.line()
	}
	return s, err
}

func (d *document) millis(field string, to *time.Duration) error {
	n, err := d.number(field)
	if err != nil {
		return err
	}
	t, err := trace.ParseMillis(n.String())
	if err != nil {
		return d.errorf("%s is %s, %w", field, clip(n.String()), err)
	}
	*to = time.Duration(t)
	return nil
}

// take gives the workflow its spans. With an error, at is the span at fault.
func (w *Workflow) take(spans []readSpan) (at int, err error) {
	measured := len(spans) > 0 && spans[0].timed > 0
	ends := map[string]time.Duration{}
	var origin time.Duration
	for i, s := range spans {
		switch {
		case measured && (s.timed != 2 || s.lengths > 0), !measured && (s.timed > 0 || !s.hasDuration):
			return i, fmt.Errorf("span %q needs duration_ms, or start_ms and end_ms, and the same as the first span", clip(s.Name))
		case s.end < s.start:
			return i, fmt.Errorf("span %q ends before it starts: align clocks of different processes first", clip(s.Name))
		}
		if i == 0 || s.start < origin {
			origin = s.start
		}
		ends[s.Name] = s.end
	}
	for i, s := range spans {
		if measured {
			ready, last := origin, ""
			for _, name := range s.After {
				end, ok := ends[name]
				if !ok {
					return i, fmt.Errorf("span %q comes after %q, which is no span", clip(s.Name), clip(name))
				}
				if last == "" || end > ready {
					ready, last = end, name
				}
			}
			if s.start < ready {
				return i, fmt.Errorf("span %q starts before %q has ended: it does not come after it, or their clocks differ", clip(s.Name), clip(last))
			}
			s.Wait, s.Duration = s.start-ready, s.end-s.start
		}
		w.Spans = append(w.Spans, s.Span)
	}
	return 0, nil
}
