// Tracelab works out what a trace of requests says: queue, prompt and publish
// gap, the time to the first token, the gaps, the rate; and what feedback does
// to a recording that is replayed.
//
//	go run ./examples/tracelab
//	go run ./examples/tracelab trace.jsonl
//	go run ./examples/tracelab -speed 1,8 recording.csv.gz
//	go run ./examples/tracelab -json
//
// lab.go is what is worked out, scenario.go the five requests of a run without
// a file, replay.go the sessions of a recording in closed and in open loop.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"servesim/examples/internal/command"
	"servesim/sim/profile"
	"servesim/sim/trace"
)

func main() { command.Main("tracelab", run) }

// report is everything the program prints. The names carry the units.
type report struct {
	// Lab is the five requests, Late those with one answer delivered LateMs
	// later; Waiting is a request with all and with half of its work; Refused
	// says why requests are.
	Lab     *table         `json:"lab,omitempty"`
	Late    *table         `json:"late,omitempty"`
	LateMs  profile.Number `json:"late_by_ms,omitempty"`
	Waiting *table         `json:"waiting,omitempty"`
	Refused []string       `json:"refused,omitempty"`

	File  string `json:"file,omitempty"`
	Trace *table `json:"trace,omitempty"`

	Replay  *replay    `json:"replay,omitempty"`
	Replays []replayed `json:"replays,omitempty"`
}

// run is the program without its process. Help goes to messages.
func run(ctx context.Context, args []string, out, messages io.Writer) error {
	p := defaultReplay()
	asJSON := false
	flags := newFlags(&p, &asJSON)
	if err := command.ParseFiles(flags, usage, args, messages); err != nil {
		return err
	}
	if flags.NArg() > 1 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(1))
	}
	r, err := work(ctx, flags.Arg(0), &p)
	if err != nil {
		return err
	}
	if r.Replay == nil {
		flags.Visit(func(f *flag.Flag) {
			if f.Name != "json" {
				err = fmt.Errorf("-%s is for a recording of sessions", f.Name)
			}
		})
		if err != nil {
			return err
		}
	}
	if asJSON {
		return command.WriteJSON(out, r)
	}
	var b bytes.Buffer
	r.print(&b)
	_, err = out.Write(b.Bytes())
	return err
}

// work reads a trace, which begins with a brace, or a recording; without a
// path it goes through the lab.
func work(ctx context.Context, path string, p *replay) (*report, error) {
	if path == "" {
		return laboratory()
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	if !beginsWithBrace(in) {
		p.Path = path
		r := &report{Replay: p}
		r.Replays, err = p.replays(ctx)
		return r, err
	}
	requests, err := readTrace(trace.Reader{In: in, Name: path})
	if err != nil {
		return nil, err
	}
	t, err := tabulate(requests)
	return &report{File: path, Trace: &t}, err
}

// beginsWithBrace looks past blanks, and leaves all to read.
func beginsWithBrace(in *bufio.Reader) bool {
	start, _ := in.Peek(4096) // a short file is no error
	return bytes.HasPrefix(bytes.TrimLeft(start, " \t\r\n"), []byte("{"))
}

// laboratory is the report without a file.
func laboratory() (*report, error) {
	const by = 10 * time.Millisecond
	r := &report{LateMs: ms(by)}
	for _, x := range []struct {
		requests []request
		to       **table
	}{{lab(), &r.Lab}, {late(by), &r.Late}, {waiting(), &r.Waiting}} {
		t, err := tabulate(x.requests)
		if err != nil {
			return nil, err
		}
		*x.to = &t
	}
	for _, q := range broken() {
		_, err := tabulate([]request{q})
		if err == nil {
			return nil, fmt.Errorf("request %q was accepted", q.ID)
		}
		r.Refused = append(r.Refused, err.Error())
	}
	return r, nil
}

const usage = `Usage: tracelab [flags] [trace.jsonl | recording.csv]

Says where the time to the first token of each request goes, and what gaps
follow. Without a file it works through five requests.

A trace is one JSON object a line, as examples/profile reads it, with
client_tokens_ms: the instant of every token. A recording is sessions of coding
agents in the format of TraceLab, plain or gzip; it is replayed on a simulated
GPU in closed loop, where a round waits for the answer before it, and in open
loop, where it does not.

`

// newFlags binds the command line to a replay, whose values are the defaults.
func newFlags(p *replay, asJSON *bool) *flag.FlagSet {
	flags := flag.NewFlagSet("tracelab", flag.ContinueOnError)
	flags.BoolVar(asJSON, "json", false, "print one JSON object")
	flags.StringVar(&p.Model, "model", p.Model, "`name` of a model in the catalogue; an unknown one lists them\n")
	flags.StringVar(&p.GPU, "gpu", p.GPU, "`name` of a GPU in the catalogue; an unknown one lists them\n")
	flags.Func("guess", fmt.Sprintf("`time` that the open loop takes a token of an answer to need (default %v)", p.PerToken), func(s string) (err error) {
		if p.PerToken, err = time.ParseDuration(s); err == nil && (p.PerToken < 0 || p.PerToken > time.Minute) {
			err = errors.New("want 0 to 1m")
		}
		return err
	})
	flags.Func("speed", "comma-separated `factors` by which sessions arrive faster (default 1,4,16)", func(text string) error {
		p.Speeds = nil
		for _, field := range strings.Split(text, ",") {
			v, err := strconv.ParseFloat(field, 64)
			if err != nil || !(v >= 0.001 && v <= 1000) {
				return fmt.Errorf("%q is not a number from 0.001 to 1000", field)
			}
			p.Speeds = append(p.Speeds, v)
		}
		return nil
	})
	return flags
}
