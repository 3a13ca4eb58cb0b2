// Adviser follows a compound request, a graph of model calls and tools, to the
// spans that decide how long it takes, and says what shortening them saves.
//
//	go run ./examples/adviser
//	go run ./examples/adviser workflow.json
//	go run ./examples/adviser -save "model queue=305" -save "tool=250" workflow.json
//	go run ./examples/adviser -rate 0.3 -documents 0
//	go run ./examples/adviser -json
//
// Without a file it works through an assistant that retrieves, calls a model,
// runs a tool and answers: on paper in scenario.go, as a run of the engine in
// simulation.go. cases.go is what is changed, load.go many of them at once,
// advice.go what is worked out.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"servesim/examples/internal/command"
	"servesim/sim/profile"
	"servesim/sim/trace"
)

func main() { command.Main("adviser", run) }

// run is the program without its process. Help goes to messages.
func run(ctx context.Context, args []string, out, messages io.Writer) error {
	var asJSON bool
	var savings []profile.Saving
	l := defaultLoad()
	flags := newFlags(&asJSON, &savings, &l)
	if err := command.ParseFiles(flags, usage, args, messages); err != nil {
		return err
	}
	if flags.NArg() > 1 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(1))
	}
	if flags.NArg() == 1 {
		var err error
		flags.Visit(func(f *flag.Flag) {
			if f.Name != "json" && f.Name != "save" {
				err = fmt.Errorf("-%s is for the built-in assistant: a file is not simulated", f.Name)
			}
		})
		if err != nil {
			return err
		}
	}
	r, err := advise(ctx, flags.Arg(0), savings, l)
	if err != nil {
		return err
	}
	if asJSON {
		return command.WriteJSON(out, r)
	}
	var b bytes.Buffer
	r.print(&b)
	_, err = out.Write(b.Bytes())
	return err
}

// advise works through the workflows of a file, or through the assistant.
func advise(ctx context.Context, path string, savings []profile.Saving, l load) (report, error) {
	if path == "" {
		if err := l.check(); err != nil {
			return report{}, err
		}
		return assistantReport(ctx, savings, l)
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
		a, err := newAdvice(ctx, &workflows[i], asked(savings))
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
saves. Without a file it works through a built-in assistant, which is also
simulated: alone with each change, and many at once.

The file holds JSON objects, one a workflow:
  {"workflow": "w1", "first_token": "prefill", "spans": [
    {"name": "retrieve", "phase": "gateway", "duration_ms": 430},
    {"name": "prefill", "phase": "prefill", "after": ["retrieve"],
     "wait_ms": 5, "duration_ms": 285}]}
or, for spans that were measured, start_ms and end_ms in place of wait_ms and
duration_ms. A wait is time in which nothing runs that the span needs.

`

// newFlags binds the command line.
func newFlags(asJSON *bool, savings *[]profile.Saving, l *load) *flag.FlagSet {
	flags := flag.NewFlagSet("adviser", flag.ContinueOnError)
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
	flags.Float64Var(&l.Rate, "rate", l.Rate, "`assistants` a second under load")
	flags.Float64Var(&l.Documents, "documents", l.Documents, "`documents` a second between them")
	flags.IntVar(&l.Workflows, "workflows", l.Workflows, "`number` of assistants in a run under load")
	flags.Uint64Var(&l.Seed, "seed", l.Seed, "of the arrivals under load, and of the tool's failures")
	return flags
}
