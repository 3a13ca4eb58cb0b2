// Adviser follows a compound request, a graph of model calls and tools, to the
// spans that decide how long it takes, and says what shortening them saves.
//
//	go run ./examples/adviser
//	go run ./examples/adviser workflow.json
//	go run ./examples/adviser -save "model queue=305" -save "tool=250" workflow.json
//	go run ./examples/adviser -json
//
// Without a file it works through an assistant that retrieves, calls a model,
// runs a tool and answers: scenario.go. advice.go is what is worked out.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"servesim/sim/profile"
	"servesim/sim/trace"
)

func main() {
	switch err := run(os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "adviser:", err)
		os.Exit(1)
	}
}

// run is the program without its process. Help goes to messages.
func run(args []string, out, messages io.Writer) error {
	var asJSON bool
	var savings []profile.Saving
	flags := newFlags(&asJSON, &savings)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(messages, usage)
			flags.SetOutput(messages)
			flags.PrintDefaults()
			return err
		}
		var known []string
		flags.VisitAll(func(f *flag.Flag) { known = append(known, "-"+f.Name) })
		return fmt.Errorf("%w; flags are %s", err, strings.Join(known, ", "))
	}
	if flags.NArg() > 1 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(1))
	}
	r, err := advise(flags.Arg(0), savings)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if asJSON {
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(r); err != nil {
			return err
		}
	} else {
		r.print(&b)
	}
	_, err = out.Write(b.Bytes())
	return err
}

// advise works through the workflows of a file, or through the assistant.
func advise(path string, savings []profile.Saving) (report, error) {
	if path == "" {
		return assistantReport(savings)
	}
	f, err := os.Open(path)
	if err != nil {
		return report{}, err
	}
	defer f.Close()
	workflows, err := profile.ReadWorkflows(f, path)
	if err != nil {
		return report{}, err
	}
	var r report
	for i := range workflows {
		a, err := newAdvice(&workflows[i], asked(savings))
		if err != nil {
			return report{}, err
		}
		r.Workflows = append(r.Workflows, a)
	}
	return r, nil
}

// asked are the cases of -save: all of them at once.
func asked(savings []profile.Saving) []whatIf {
	if savings == nil {
		return nil
	}
	return []whatIf{{name: "-save", savings: savings}}
}

const usage = `Usage: adviser [flags] [workflow.json]

Follows compound requests along their dependencies: when each span runs, which
chain decides, how much slack the others have, and what shortening a span
saves. Without a file it works through a built-in assistant.

The file holds JSON objects, one a workflow:
  {"workflow": "w1", "first_token": "prefill", "spans": [
    {"name": "retrieve", "phase": "gateway", "duration_ms": 430},
    {"name": "prefill", "phase": "prefill", "after": ["retrieve"],
     "wait_ms": 5, "duration_ms": 285}]}
or, for spans that were measured, start_ms and end_ms in place of wait_ms and
duration_ms. A wait is time in which nothing runs that the span needs.

`

// newFlags binds the command line.
func newFlags(asJSON *bool, savings *[]profile.Saving) *flag.FlagSet {
	flags := flag.NewFlagSet("adviser", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are reported once, by main
	flags.BoolVar(asJSON, "json", false, "print one JSON object")
	flags.Func("save", "`span=ms`: shorten a span; may be given more than once, for all at once", func(s string) error {
		i := strings.LastIndex(s, "=")
		if i < 0 {
			return errors.New("want SPAN=MS")
		}
		t, err := trace.ParseMillis(s[i+1:])
		if err != nil || t < 0 {
			return fmt.Errorf("%q is not a number of milliseconds", s[i+1:])
		}
		*savings = append(*savings, profile.Saving{Span: s[:i], By: time.Duration(t)})
		return nil
	})
	return flags
}
