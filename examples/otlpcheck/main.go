// Otlpcheck reads OTLP/JSON lines of traces with the reader of the OpenTelemetry
// Collector, and checks what a backend takes for granted.
//
//	go run . FILE…      or standard input, with no argument
//
// Of every line it checks that trace ids have 16 bytes and span ids 8, that no id
// stands twice, and that every parent is there, in the same trace, and lasts at
// least as long as its children. It is a module of its own: the library does not
// need the Collector.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// counts are what lines hold.
type counts struct {
	Lines, Traces, Spans, Events, Errors int
}

func main() {
	log.SetFlags(0)
	var c counts
	if len(os.Args) == 1 {
		if err := c.read(os.Stdin, "standard input"); err != nil {
			log.Fatal(err)
		}
	}
	for _, name := range os.Args[1:] {
		if err := c.file(name); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Printf("%d lines, %d traces, %d spans, %d events, %d errors\n", c.Lines, c.Traces, c.Spans, c.Events, c.Errors)
}

func (c *counts) file(name string) (err error) {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return c.read(f, name)
}

// read checks every line. The error names file and line.
func (c *counts) read(r io.Reader, name string) error {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 64<<20)
	for n := 1; in.Scan(); n++ {
		var u ptrace.JSONUnmarshaler
		traces, err := u.UnmarshalTraces(in.Bytes())
		if err == nil {
			err = c.check(traces)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
		c.Lines++
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// place is where a span is unique.
type place struct {
	trace pcommon.TraceID
	span  pcommon.SpanID
}

// check looks at the spans of one line.
func (c *counts) check(traces ptrace.Traces) error {
	spans := map[place]ptrace.Span{}
	for _, resource := range traces.ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			for _, s := range scope.Spans().All() {
				at := place{s.TraceID(), s.SpanID()}
				switch _, twice := spans[at]; {
				case at.trace.IsEmpty() || at.span.IsEmpty():
					return fmt.Errorf("span %q has the ids %q and %q", s.Name(), at.trace, at.span)
				case twice:
					return fmt.Errorf("span %v of trace %v stands twice", at.span, at.trace)
				}
				spans[at] = s
			}
		}
	}
	for at, s := range spans {
		c.Spans++
		c.Events += s.Events().Len()
		if s.EndTimestamp() < s.StartTimestamp() {
			return fmt.Errorf("span %v ends before it starts", at.span)
		}
		if s.ParentSpanID().IsEmpty() {
			c.Traces++
			if s.Status().Code() == ptrace.StatusCodeError {
				c.Errors++
			}
			continue
		}
		parent, ok := spans[place{at.trace, s.ParentSpanID()}]
		switch {
		case !ok:
			return fmt.Errorf("the parent %v of span %v is not in trace %v", s.ParentSpanID(), at.span, at.trace)
		case s.StartTimestamp() < parent.StartTimestamp() || s.EndTimestamp() > parent.EndTimestamp():
			return fmt.Errorf("span %v is not inside its parent %v", at.span, s.ParentSpanID())
		}
	}
	return nil
}
