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
	Arrivals   arrivals   `json:"arrivals"`
	LongPrompt longPrompt `json:"long_prompt"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bursts:", err)
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
	if r.LongPrompt, err = compare(ctx, s); err != nil {
		return err
	}
	if r.Arrivals, err = newArrivals(ctx); err != nil {
		return err
	}
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
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
	flags.SetOutput(io.Discard) // errors are reported once, by main
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
	flags.Func("budgets", "comma-separated `tokens` of a step under the chunked scheduler;\none row each (default "+joined(s.Budgets, ",")+")", func(text string) (err error) {
		s.Budgets, err = parseInts(text)
		return err
	})
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

func joined(list []int, separator string) string {
	texts := make([]string, len(list))
	for i, n := range list {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, separator)
}
