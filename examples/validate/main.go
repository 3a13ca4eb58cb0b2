// Validate fits cost models to measurements of real GPUs and shows how far they
// can be trusted: every figure is of measurements that the fit did not see.
//
//	go run ./examples/validate -data ../shared/measured
//	go run ./examples/validate -data ../shared/measured -gpu H100 -worth
//	go run ./examples/validate -data ../shared/measured -run ../shared/measured/runs/rtx4090_llama31_8b
//	go run ./examples/validate -data ../shared/measured -json -plot plots
//
// kernels.go and reduce.go fit operators to one half of their geometries (of
// experts, routing.go tells what a rank gets and tiles.go how it is cut),
// layers.go to whole layers, wholesteps.go to static batches of engines.
// closedloop.go composes kernels and simulates engines under a fixed number of
// clients. runs.go replays recorded runs, request by request: recording.go reads
// one, stack.go and kernelstack.go with collectives.go tell what a step takes on
// the device, replay.go is the engine, hostfit.go finds what the host adds,
// compare.go the figures, utilisation.go MFU and MBU. platform.go maps names and
// splits samples, text.go and plot.go print.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"servesim/examples/internal/command"
)

// report is everything the program prints. Errors are predicted/measured - 1.
type report struct {
	Kernels []*fitted      `json:"kernels,omitempty"`
	Layers  []*layerReport `json:"layers,omitempty"`
	Steps   []*stepReport  `json:"static_batches,omitempty"`
	Loops   []*loopReport  `json:"closed_loops,omitempty"`
	Skipped map[string]int `json:"closed_loop_rows_left_out,omitempty"`
	Runs    []*runReport   `json:"runs,omitempty"`
	// FromKernels are the same runs without what layers/ measured.
	FromKernels []*runReport `json:"runs_from_kernels,omitempty"`
	// Strangers are the measurements of GPUs that the catalogue does not have.
	Strangers []string `json:"measurements_left_out,omitempty"`
	// Absent is what the data does not have, and LeftOut runs that it does not
	// suffice for, and why.
	Absent  []string `json:"absent,omitempty"`
	LeftOut []string `json:"runs_left_out,omitempty"`
}

func main() { command.ExitOnError("validate", run(os.Args[1:], os.Stdout, os.Stderr)) }

const usage = `Usage: validate [flags]

Fits cost models to measurements of real GPUs, on one half, and tests them on
the other; replays recorded runs of a real engine.

`

// run is the program without its process. Help goes to messages.
func run(args []string, out, messages io.Writer) error {
	o, err := parse(args, messages)
	if err != nil {
		return err
	}
	r, err := measure(o)
	if err != nil {
		return err
	}
	if o.plot != "" {
		if err := plotAll(o.plot, r); err != nil {
			return err
		}
	}
	if o.json {
		return command.WriteJSON(out, r)
	}
	return printText(out, r)
}

func parse(args []string, messages io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("validate", flag.ContinueOnError)
	flags.StringVar(&o.data, "data", "../shared/measured", "`folder` of the measurements")
	flags.StringVar(&o.run, "run", "", "replay one recorded run, in this `folder`, and nothing else")
	flags.StringVar(&o.gpu, "gpu", "", "`name` of the only GPU to look at, its runs included; with -run, of the GPU in place of the recorded one")
	flags.StringVar(&o.model, "model", "", "`config.json` or name of the run's model, in place of the recorded name")
	flags.IntVar(&o.tp, "tp", 0, "GPUs that share every layer of the run, in place of the recorded `number`")
	flags.StringVar(&o.plot, "plot", "", "write PNG pictures to this `folder`")
	flags.BoolVar(&o.kernels, "kernels", false, "compose the run's steps from kernels/ or the catalogue, where layers/ has them too")
	flags.BoolVar(&o.json, "json", false, "print one JSON object")
	flags.BoolVar(&o.worth, "worth", false, "fit kernels without each parameter too, to see what it is worth (slow)")
	if err := command.Parse(flags, usage, args, messages); err != nil {
		return o, err
	}
	if o.tp < 0 {
		return o, fmt.Errorf("-tp is %d", o.tp)
	}
	switch {
	case o.run == "" && o.model != "":
		return o, errors.New("-model goes with -run")
	case o.run == "" && o.tp != 0:
		return o, errors.New("-tp goes with -run")
	case o.run == "" && o.kernels:
		return o, errors.New("-kernels goes with -run: the report has both")
	case o.run != "" && o.worth:
		return o, errors.New("-worth goes without -run")
	}
	if _, err := os.Stat(o.data); err != nil {
		return o, fmt.Errorf("-data: %w", err)
	}
	return o, nil
}

// measure does what o asks for: one run, or everything.
func measure(o options) (r report, err error) {
	if o.run != "" {
		r.Runs, _, err = reportRuns(o, "")
		return r, err
	}
	only := ""
	if o.gpu != "" {
		g, err := gpuOf(o.gpu)
		if err != nil {
			return r, err
		}
		only, o.gpu = g.Name, g.Name
	}
	if r.Strangers, err = strangers(o.data); err != nil {
		return r, err
	}
	if r.Kernels, err = fitKernels(o.data, only, o.worth, operators...); err != nil {
		return r, err
	}
	reduce, err := fitReduce(o.data, only)
	if err != nil {
		return r, err
	}
	if r.Layers, err = reportLayers(o.data, only); r.failed(err) != nil {
		return r, err
	}
	if r.Steps, err = reportSteps(o.data, only); r.failed(err) != nil {
		return r, err
	}
	if r.Loops, r.Skipped, err = reportLoops(o, r.Kernels); r.failed(err) != nil {
		return r, err
	}
	r.Kernels = append(r.Kernels, reduce...)
	if r.Runs, r.LeftOut, err = reportRuns(options{data: o.data}, only); err != nil {
		return r, err
	}
	if r.FromKernels, _, err = reportRuns(options{data: o.data, kernels: true}, only); err != nil { // those without kernels are not of this kind
		return r, err
	}
	composed := map[string]bool{}
	for _, run := range r.Runs {
		composed[run.Run] = run.fromKernels
	}
	r.FromKernels = slices.DeleteFunc(r.FromKernels, func(run *runReport) bool { return composed[run.Run] })
	if len(r.FromKernels) == 0 {
		r.FromKernels = nil
	}
	found := len(r.Kernels) + len(r.Layers) + len(r.Steps) + len(r.Loops) + len(r.Runs) + len(r.LeftOut)
	if found == 0 && (only != "" || len(r.Strangers) == 0) {
		return r, fmt.Errorf("-data: no measurements of %s in %s", cmp.Or(only, "any GPU"), o.data)
	}
	return r, nil
}

// failed notes a file that the data does not have, and returns any other error.
func (r *report) failed(err error) error {
	var missing *fs.PathError
	if errors.Is(err, fs.ErrNotExist) && errors.As(err, &missing) {
		r.Absent = append(r.Absent, missing.Path)
		return nil
	}
	return err
}
