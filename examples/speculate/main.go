// Speculate compares two ways to check draft tokens: always the same number,
// and as many as the step has time for, from one request at a time to 128.
//
//	go run ./examples/speculate
//	go run ./examples/speculate -acceptance ../shared/measured/acceptance/glm5.2_mtp.yaml
//	go run ./examples/speculate -model Qwen3-32B -gpu H200 -constant 0.8
//	go run ./examples/speculate -json
//
// teaching.go is the choice of one step, by hand. scenario.go, cost.go and
// compare.go are the comparison: who is served, what steps and drafts cost, what
// is measured. rates.go says which rates follow from others, text.go how all is
// printed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
)

// report is everything the program prints. The names carry the units.
type report struct {
	ByHand     byHand     `json:"by_hand"`
	Comparison comparison `json:"comparison"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "speculate:", err)
		os.Exit(1)
	}
}

// run is the program without its process. Help goes to messages.
func run(ctx context.Context, args []string, out, messages io.Writer) error {
	s := defaults()
	asJSON := false
	flags := newFlags(&s, &asJSON)
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
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	var r report
	var err error
	if r.Comparison, err = compare(ctx, s); err != nil {
		return err
	}
	if r.ByHand, err = newByHand(ctx); err != nil {
		return err
	}
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	return printText(out, r)
}

const usage = `Usage: speculate [flags]

A drafter proposes tokens, the model checks several of them in one step, and
those that it confirms are output. Part one is the choice of one step by hand.
The flags shape part two: a fixed number of drafts against a variable one.

`

// newFlags binds the command line to a scenario, whose values are the
// defaults.
func newFlags(s *scenario, asJSON *bool) *flag.FlagSet {
	flags := flag.NewFlagSet("speculate", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are reported once, by main
	flags.StringVar(&s.Model, "model", s.Model, "`name` of a model in the catalogue; an unknown one lists them\n")
	flags.StringVar(&s.GPU, "gpu", s.GPU, "`name` of a GPU in the catalogue; an unknown one lists them\n")
	flags.IntVar(&s.TensorParallel, "tp", s.TensorParallel, "GPUs that share every layer")
	flags.Func("concurrency", "comma-separated numbers of `requests` that decode together; one row each\n(default "+joined(s.Concurrency)+")", func(text string) (err error) {
		s.Concurrency, err = parseInts(text)
		return err
	})
	flags.IntVar(&s.Prompt, "prompt", s.Prompt, "`tokens` of every prompt")
	flags.IntVar(&s.Output, "output", s.Output, "`tokens` of every answer")
	flags.IntVar(&s.Fixed, "fixed", s.Fixed, "`drafts` of a request that the fixed policy checks in a step")
	flags.IntVar(&s.Most, "most", s.Most, "`drafts` of a request that the variable policy checks at most")
	flags.StringVar(&s.Acceptance.File, "acceptance", "", "`file` with measured mean accepted lengths, such as\n../shared/measured/acceptance/glm5.2_mtp.yaml; none means -constant")
	flags.StringVar(&s.Acceptance.Curve, "curve", "", "`name` of a curve in that file, as mode or \"model mode\"; none means the\nfirst, an unknown one lists them")
	flags.Float64Var(&s.Acceptance.Constant, "constant", s.Acceptance.Constant, "`probability` that a draft is right if those before it are")
	flags.Uint64Var(&s.Seed, "seed", s.Seed, "of the answers: which drafts are right")
	flags.BoolVar(asJSON, "json", false, "print one JSON object")
	return flags
}

func parseInts(text string) (list []int, err error) {
	for _, field := range strings.Split(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number", field)
		}
		list = append(list, n)
	}
	return list, nil
}

func joined(list []int) string {
	texts := make([]string, len(list))
	for i, n := range list {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ",")
}
