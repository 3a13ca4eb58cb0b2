// Profile says where the time of the requests of a trace goes, and what to test
// next.
//
//	go run ./examples/profile
//	go run ./examples/profile trace.jsonl
//	go run ./examples/profile -json trace.jsonl > report.json
//	go run ./examples/profile -record diagnosis.json trace.jsonl > diagnosis.md
//	go run ./examples/profile -answers DIR/*.jsonl > answers.json
//
// Without a file it profiles a built-in burst, and shows that a broken record
// is refused: builtin.go. Traces come from examples/compare -traces DIR, or
// from a server that writes the fields that -h lists.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"servesim/examples/internal/command"
	"servesim/examples/internal/terminal"
	"servesim/sim/profile"
)

func main() { command.ExitOnError("profile", run(os.Args[1:], os.Stdout, os.Stderr)) }

// options are what the command line says.
type options struct {
	profile.Options
	json    bool
	answers bool
	record  string
}

// run is the program without its process. Help goes to messages.
func run(args []string, out, messages io.Writer) error {
	var o options
	flags := newFlags(&o)
	if err := command.ParseFiles(flags, usage, args, messages); err != nil {
		return err
	}
	files := flags.Args()
	for _, f := range files {
		if strings.HasPrefix(f, "-") {
			return fmt.Errorf("flag %s stands behind a file; flags come first", f)
		}
	}
	var b bytes.Buffer
	if err := o.write(&b, files); err != nil {
		return err
	}
	_, err := out.Write(b.Bytes())
	return err
}

func (o *options) write(w io.Writer, files []string) error {
	switch {
	case o.answers && (o.json || o.record != ""):
		return errors.New("-answers writes JSON of its own: leave out -json and -record")
	case o.answers:
		return o.writeAnswers(w, files)
	case len(files) > 1:
		return fmt.Errorf("%d files; only -answers takes more than one", len(files))
	case len(files) == 0 && o.record != "":
		return errors.New("-record needs a trace")
	case len(files) == 0:
		return o.writeBuiltin(w)
	}
	report, err := o.read(files[0])
	if err != nil {
		return err
	}
	switch {
	case o.record != "":
		return o.writeRecord(w, &report, files[0])
	case o.json:
		return command.WriteJSON(w, report)
	}
	terminal.Wrap(w, "TRACE ", files[0])
	return report.WriteText(w)
}

func (o *options) read(path string) (profile.Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return profile.Report{}, err
	}
	defer f.Close()
	return profile.Read(f, path, o.Options)
}

// writeRecord completes the diagnosis record in the file and writes it.
func (o *options) writeRecord(w io.Writer, report *profile.Report, trace string) error {
	f, err := os.Open(o.record)
	if err != nil {
		return err
	}
	defer f.Close()
	record, err := profile.ReadDiagnosis(f, o.record)
	if err != nil {
		return err
	}
	record = report.Complete(record, filepath.Base(trace))
	if err := record.Validate(); err != nil {
		return fmt.Errorf("%s: %w", o.record, err)
	}
	if o.json {
		return command.WriteJSON(w, record)
	}
	return record.WriteMarkdown(w)
}

// writeAnswers profiles every file and writes what a scorer reads. A scenario
// is called like its file, without the extension. Only a trace that cannot be
// read at all is an error.
func (o *options) writeAnswers(w io.Writer, files []string) error {
	if len(files) == 0 {
		return errors.New("-answers needs traces")
	}
	answers := profile.Answers{Profiler: "servesim/sim/profile"}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		scenario := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		report, err := profile.Read(bytes.NewReader(data), path, o.Options)
		if err != nil {
			answers.Answers = append(answers.Answers, profile.Answer{Scenario: scenario, Refused: true})
			continue
		}
		answers.Answers = append(answers.Answers, report.Answer(scenario))
	}
	return command.WriteJSON(w, answers)
}

const usage = `Usage: profile [flags] [trace.jsonl]

Profiles a trace: where the time goes, which phase dominates, what the slow
requests have in common, what to test next. Without a file it profiles a
built-in burst and shows that a broken record is refused.

A trace is one JSON object a line, times in milliseconds on one clock:
  request_id, prompt_tokens, output_tokens, client_send_ms,
  gateway_arrival_ms, queue_enter_ms, prefill_start_ms, prefill_end_ms,
  first_token_server_ms, first_token_client_ms, last_token_client_ms
and beside "details_version": 1, as far as they are known:
  class, route, cached_tokens, clock_error_ms, server_tokens_ms,
  client_tokens_ms (lists, one instant a token)
Other fields are left out. A broken record is an error with file and line.

-record takes a JSON object with what a trace cannot tell:
  objective, configuration (an object of strings), negative_control,
  stop_rule (contribution, movement, bound)
and, if they are not to be taken from the trace, coordinates (boundary, metric,
percentile, arrivals, shape), trace_boundaries, workload_distribution,
suspected_phase, discriminating_test, claim.

`

// newFlags binds the command line to the options.
func newFlags(o *options) *flag.FlagSet {
	flags := flag.NewFlagSet("profile", flag.ContinueOnError)
	flags.BoolVar(&o.json, "json", false, "print one JSON object")
	flags.BoolVar(&o.answers, "answers", false, "profile many traces, named like scenarios, and print the answers\nthat a scorer reads")
	flags.StringVar(&o.record, "record", "", "complete the diagnosis record in `file` from the trace and print it as\na page of Markdown")
	flags.Func("percentiles", "`convention`: linear or nearest-rank (default linear)", func(s string) error {
		for _, m := range []profile.Method{profile.Linear, profile.NearestRank} {
			if s == m.String() {
				o.Percentiles = m
				return nil
			}
		}
		return errors.New("want linear or nearest-rank")
	})
	flags.Func("tail", "`fraction` above which requests are slow (default 0.95)", func(s string) (err error) {
		if o.Tail, err = strconv.ParseFloat(s, 64); err == nil && !(o.Tail > 0 && o.Tail < 1) {
			err = errors.New("want a number between 0 and 1")
		}
		return err
	})
	flags.Func("min-cell", "`requests` below which a group is flagged, without figures\n(default 20)", func(s string) (err error) {
		if o.MinCell, err = strconv.Atoi(s); err != nil || o.MinCell < 1 {
			err = errors.New("want a whole number, at least 1")
		}
		return err
	})
	flags.Var((*command.Ints)(&o.PromptBands), "prompt-bands", "comma-separated largest `tokens` of all prompt bands but the last\n(default 512,2048,8192,32768)")
	flags.BoolVar(&o.Partial, "partial", false, "accept records that lack instants: their time is a residual")
	flags.StringVar(&o.Arrivals, "arrivals", "", "what the report calls the arrival process (default \"trace replay\")")
	flags.Float64Var(&o.InSystem, "in-system", 0, "mean `number` of requests in the system that something else\ncounted, to compare with Little's law")
	target := func(to *time.Duration, name, text string) {
		flags.Func(name, text+", `ms`", func(s string) error {
			ms, err := strconv.ParseFloat(s, 64)
			if err != nil || !(ms > 0 && ms < 1e12) {
				return errors.New("want a number of milliseconds above 0")
			}
			*to = time.Duration(ms * 1e6)
			return nil
		})
	}
	target(&o.TTFT, "slo-ttft", "target for the first token")
	target(&o.ITL, "slo-itl", "target for the mean gap of a request")
	target(&o.E2E, "slo-e2e", "target for the last token")
	return flags
}
