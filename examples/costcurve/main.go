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
	"flag"
	"io"
	"os"

	"servesim/examples/internal/command"
)

// report is everything the program prints. The names carry the units.
type report struct {
	Teaching teaching `json:"teaching"`
	Device   device   `json:"device"`
}

func main() { command.ExitOnError("costcurve", run(os.Args[1:], os.Stdout, os.Stderr)) }

const usage = `Usage: costcurve [flags]

Shows what one step of a batch costs and what binds it: first a roofline with
teaching constants, worked out by hand, then a transformer on a real GPU.

`

// run is the program without its process. Help goes to messages.
func run(args []string, out, messages io.Writer) error {
	flags := flag.NewFlagSet("costcurve", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print one JSON object")
	model := flags.String("model", "Llama-3.1-8B", "`name` of a model in the catalogue; an unknown\none lists them")
	gpu := flags.String("gpu", "H100", "`name` of a GPU in the catalogue")
	tp := flags.Int("tp", 1, "GPUs that share every layer")
	context := flags.Int("context", 1000, "`tokens` that every request holds in its KV cache")
	if err := command.Parse(flags, usage, args, messages); err != nil {
		return err
	}
	dev, err := newDevice(*model, *gpu, *tp, *context)
	if err != nil {
		return err
	}
	r := report{Teaching: newTeaching(), Device: dev}
	if *asJSON {
		return command.WriteJSON(out, r)
	}
	return printText(out, r)
}
