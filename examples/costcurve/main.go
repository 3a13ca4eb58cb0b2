// Costcurve prints what one step costs and why: first a small roofline whose
// every figure can be checked by hand, then a real model on a real GPU.
//
//	go run ./examples/costcurve
//	go run ./examples/costcurve -model Qwen3-32B -gpu H200 -context 4000
//	go run ./examples/costcurve -json
//
// teaching.go holds the small roofline, device.go the real one, text.go how
// they are printed.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// report is everything the program prints. The names carry the units.
type report struct {
	Teaching teaching `json:"teaching"`
	Device   device   `json:"device"`
}

func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "costcurve:", err)
		os.Exit(1)
	}
}

const usage = `Usage: costcurve [flags]

Shows what one step of a batch costs and what binds it: first a roofline with
teaching constants, worked out by hand, then a transformer on a real GPU.

`

// run is the program without its process. Help goes to messages.
func run(args []string, out, messages io.Writer) error {
	flags := flag.NewFlagSet("costcurve", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are reported once, by main
	asJSON := flags.Bool("json", false, "print one JSON object")
	model := flags.String("model", "Llama-3.1-8B", "`name` of a model in the catalogue; an unknown\none lists them")
	gpu := flags.String("gpu", "H100", "`name` of a GPU in the catalogue")
	tp := flags.Int("tp", 1, "GPUs that share every layer")
	context := flags.Int("context", 1000, "`tokens` that every request holds in its KV cache")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(messages)
			fmt.Fprint(messages, usage)
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
	dev, err := newDevice(*model, *gpu, *tp, *context)
	if err != nil {
		return err
	}
	r := report{Teaching: newTeaching(), Device: dev}
	if *asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	return printText(out, r)
}
