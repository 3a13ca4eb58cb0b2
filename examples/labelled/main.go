// Labelled makes traces whose truth is known, to test profilers with, and scores
// what they say.
//
//	go run ./examples/labelled
//	go run ./examples/labelled -out DIR
//	go run ./examples/profile -answers DIR/traces/*.jsonl > answers.json
//	go run ./examples/labelled -score answers.json
//
// Each scenario is a run of the engine with one thing done to it on purpose, or
// a healthy run whose measurement is broken. scenario is an importable package
// that has them; manifest.go says what is written, files.go writes it.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"servesim/examples/internal/command"
	"servesim/examples/internal/terminal"
	"servesim/examples/labelled/scenario"
	"servesim/sim/profile"
)

func main() { command.Main("labelled", run) }

// options are what the command line says.
type options struct {
	out   string
	score string
	only  string
	seed  uint64
	json  bool
}

// run is the program without its process. Help and progress go to messages.
func run(ctx context.Context, args []string, out, messages io.Writer) error {
	var o options
	flags := newFlags(&o)
	if err := command.Parse(flags, usage, args, messages); err != nil {
		return err
	}
	scenarios, err := o.scenarios()
	if err != nil {
		return err
	}
	var answers profile.Answers
	if o.score != "" {
		if answers, err = readAnswers(o.score); err != nil {
			return err
		}
	}
	m, err := o.make(ctx, scenarios, messages)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	switch {
	case o.score != "":
		err = o.writeScore(&b, m, answers)
	case o.json:
		err = command.WriteJSON(&b, m)
	default:
		m.writeText(&b, o.out)
	}
	if err != nil {
		return err
	}
	_, err = out.Write(b.Bytes())
	return err
}

func (o *options) scenarios() ([]scenario.Scenario, error) {
	if o.only == "" {
		return scenario.All(), nil
	}
	var list []scenario.Scenario
	for _, name := range strings.Split(o.only, ",") {
		s, err := scenario.Lookup(strings.TrimSpace(name))
		if err != nil {
			return nil, fmt.Errorf("-only: %w", err)
		}
		list = append(list, s)
	}
	return list, nil
}

// make runs the scenarios and writes their files where that is asked for.
func (o *options) make(ctx context.Context, scenarios []scenario.Scenario, messages io.Writer) (*Manifest, error) {
	show, clear := terminal.Status(messages)
	defer clear()
	m := &Manifest{Version: 1, Seed: o.seed}
	for i, s := range scenarios {
		show(fmt.Sprintf("%d of %d: %s", i+1, len(scenarios), s.Name))
		e, err := o.entry(ctx, s)
		if err != nil {
			return nil, err
		}
		m.Scenarios = append(m.Scenarios, e)
	}
	if o.out == "" {
		return m, nil
	}
	return m, writeFile(o.out, "manifest.json", func(w io.Writer) error { return command.WriteJSON(w, m) })
}

func readAnswers(path string) (profile.Answers, error) {
	f, err := os.Open(path)
	if err != nil {
		return profile.Answers{}, err
	}
	defer f.Close()
	return profile.ReadAnswers(f, path)
}

func (o *options) writeScore(w io.Writer, m *Manifest, answers profile.Answers) error {
	score, err := profile.ScoreAnswers(m.truths(), answers.Answers)
	if err != nil {
		return fmt.Errorf("%s: %w", o.score, err)
	}
	if o.json {
		return command.WriteJSON(w, score)
	}
	return score.WriteText(w)
}

const usage = `Usage: labelled [flags]

Runs scenarios whose truth is known: bursts, memory that is short, slow parts
between client and engine, broken clocks. Prints what the truth is, and writes
traces for profilers to be tested with.

-out DIR writes
  manifest.json          names, files, labels: the truth
  traces/NAME.jsonl      what a profiler is given, without labels
  labels/NAME.jsonl      the truth about each request: causes, dominant
                         phases, nanoseconds by cause
  labelled/NAME.jsonl    both on one line
  perfetto/NAME.json     the run as it really was, for ui.perfetto.dev
  otlp/NAME.jsonl        the trace for OpenTelemetry; not for traces that are
                         broken as JSON
A profiler answers with a JSON object:
  {"profiler": "mine", "answers": [
    {"scenario": "burst", "ttft_phase": "queue", "e2e_phase": "queue",
     "causes": ["burst"], "affected": ["17", "18"]},
    {"scenario": "clock_skew", "refused": true, "causes": ["clock_skew"]}]}
Only scenario is required. -score reads it.

`

// newFlags binds the command line to the options.
func newFlags(o *options) *flag.FlagSet {
	flags := flag.NewFlagSet("labelled", flag.ContinueOnError)
	flags.StringVar(&o.out, "out", "", "write the traces below `directory`, which is made if need be")
	flags.StringVar(&o.score, "score", "", "score the answers in `file`, to traces of the same seed")
	flags.StringVar(&o.only, "only", "", "comma-separated `names` of the scenarios to run (default all)")
	flags.Uint64Var(&o.seed, "seed", 1, "`number` that determines arrivals and lengths")
	flags.BoolVar(&o.json, "json", false, "print one JSON object: the manifest, or the score")
	return flags
}
