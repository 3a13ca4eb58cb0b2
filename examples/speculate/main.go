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
	"flag"
	"io"

	"servesim/examples/internal/command"
)

// report is everything the program prints. The names carry the units.
type report struct {
	ByHand     byHand     `json:"by_hand"`
	Comparison comparison `json:"comparison"`
}

func main() { command.Main("speculate", run) }

// run is the program without its process. Help goes to messages.
func run(ctx context.Context, args []string, out, messages io.Writer) error {
	s := defaults()
	asJSON := false
	flags := newFlags(&s, &asJSON)
	if err := command.Parse(flags, usage, args, messages); err != nil {
		return err
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
		return command.WriteJSON(out, r)
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
	flags.StringVar(&s.Model, "model", s.Model, "`name` of a model in the catalogue; an unknown one lists them\n")
	flags.StringVar(&s.GPU, "gpu", s.GPU, "`name` of a GPU in the catalogue; an unknown one lists them\n")
	flags.IntVar(&s.TensorParallel, "tp", s.TensorParallel, "GPUs that share every layer")
	flags.Var((*command.Ints)(&s.Concurrency), "concurrency", "comma-separated numbers of `requests` that decode together;\none row each")
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
