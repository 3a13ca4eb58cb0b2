// Bursts shows what a mean load hides: first the same ten requests a second,
// evenly or all at once; then a long prompt at the head of each burst, under
// several schedulers.
//
//	go run ./examples/bursts
//	go run ./examples/bursts -cost linear
//	go run ./examples/bursts -order shortest-prompt -budgets 256,1024
//	go run ./examples/bursts -json
//
// arrivals.go is the first part; scenario.go and schedulers.go are the second,
// what arrives and who serves it. text.go says how they are printed.
package main

import (
	"context"
	"flag"
	"io"

	"servesim/examples/internal/command"
)

// report is everything the program prints. The names carry the units.
type report struct {
	Arrivals   arrivals   `json:"arrivals"`
	LongPrompt longPrompt `json:"long_prompt"`
}

func main() { command.Main("bursts", run) }

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
	if r.LongPrompt, err = compare(ctx, s); err != nil {
		return err
	}
	if r.Arrivals, err = newArrivals(ctx); err != nil {
		return err
	}
	if asJSON {
		return command.WriteJSON(out, r)
	}
	return printText(out, r)
}

const usage = `Usage: bursts [flags]

Part one has no flags: 10 requests a second, evenly or at once. The flags shape
part two: bursts of short requests behind one long prompt, under three
schedulers. Times are virtual; nothing is drawn at random.

`

// newFlags binds the command line to a scenario, whose values are the
// defaults.
func newFlags(s *scenario, asJSON *bool) *flag.FlagSet {
	flags := flag.NewFlagSet("bursts", flag.ContinueOnError)
	flags.StringVar(&s.Cost, "cost", s.Cost, "what a step takes: transformer, a -model on a -gpu; or linear,\n10 ms and 0.1 ms a prompt token, to check by hand\n")
	flags.StringVar(&s.Model, "model", s.Model, "`name` of a model in the catalogue; an unknown one lists them\n")
	flags.StringVar(&s.GPU, "gpu", s.GPU, "`name` of a GPU in the catalogue; an unknown one lists them\n")
	flags.IntVar(&s.TensorParallel, "tp", s.TensorParallel, "GPUs that share every layer")
	flags.IntVar(&s.Bursts, "bursts", s.Bursts, "number of bursts")
	flags.DurationVar(&s.Every, "every", s.Every, "time from burst to burst, such as 2.5s; 0 chooses one at which a burst\ncomes while the one before is half way through its answers")
	flags.IntVar(&s.Size, "size", s.Size, "short requests of a burst")
	flags.IntVar(&s.ShortPrompt, "short-prompt", s.ShortPrompt, "`tokens` of a short prompt")
	flags.IntVar(&s.LongPrompt, "long-prompt", s.LongPrompt, "`tokens` of the long prompt")
	flags.IntVar(&s.Output, "output", s.Output, "`tokens` of every answer")
	flags.StringVar(&s.Order, "order", s.Order, "of the queue: arrival or shortest-prompt")
	flags.Var((*command.Ints)(&s.Budgets), "budgets", "comma-separated `tokens` of a step under the chunked scheduler;\none row each")
	flags.BoolVar(asJSON, "json", false, "print one JSON object")
	return flags
}
