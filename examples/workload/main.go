// Workload describes recorded workloads and workload documents, converts them
// between formats and draws them.
//
//	go run ./examples/workload describe FILE
//	go run ./examples/workload describe -json FILE
//	go run ./examples/workload convert -to mooncake FILE OUTPUT
//	go run ./examples/workload plot -out DIR RECORDING DOCUMENT
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
	"slices"
	"strings"
	"time"

	"servesim/examples/internal/terminal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "workload:", strings.TrimPrefix(err.Error(), "workload: ")) // the library's name too
		os.Exit(1)
	}
}

const usage = `Usage: workload describe [flags] FILE
       workload convert -to FORMAT [flags] FILE [OUTPUT]
       workload plot -out DIR [flags] FILE...

describe reads a recorded workload and says how requests arrive, how long they
are and what they share. convert writes it in another format, to standard
output without OUTPUT, and reports what became of the rows. plot draws PNG
pictures of one workload, or of several to compare: arrivals per second, index
of dispersion by window, prompt against output lengths.

FILE is plain or gzip. Its format is told by its content, or by -format. It may
be a workload document (JSON with "servesim_workload") in place of a recording:
its requests are generated, the first 100,000 unless -requests says otherwise.
Nothing is lost without being asked for: what cannot be read is an error, and
so is a conversion into a format that has no place for something (-lossy).

`

var commands = []string{"describe", "convert", "plot"}

// run is the program without its process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		o := options{}
		fmt.Fprint(stderr, usage)
		for _, command := range commands {
			fmt.Fprintf(stderr, "Flags of %s:\n", command)
			fs := o.flags(command)
			fs.SetOutput(stderr)
			fs.PrintDefaults()
			fmt.Fprintln(stderr)
		}
		if len(args) == 0 {
			return errors.New("describe, convert or plot?")
		}
		return flag.ErrHelp
	}
	if !slices.Contains(commands, args[0]) {
		return fmt.Errorf("unknown command %q; known are describe, convert and plot", args[0])
	}
	o, err := parse(args[0], args[1:], stderr)
	if err != nil {
		return err
	}
	o.show, o.done = terminal.Status(stderr)
	defer o.done()
	switch args[0] {
	case "convert":
		return convert(ctx, o, stdout, stderr)
	case "plot":
		return plotFiles(ctx, o, stdout)
	}
	out, err := describe(ctx, o)
	if err != nil {
		return err
	}
	o.done()
	if o.json {
		return writeJSON(stdout, out)
	}
	return writeText(stdout, out)
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// options are what the command line says.
type options struct {
	file   string
	files  []string // to plot
	output string   // empty: standard output
	out    string   // folder of pictures
	format string   // empty: told by the content
	json   bool

	unit        time.Duration
	blockTokens int
	keepImages  bool
	looseIDs    bool
	noPrefix    bool
	model, log  string
	kind        string
	spread      time.Duration
	sort        bool
	skip        bool
	ttft, gap   time.Duration // what answers of a replayed session are taken to need
	prompt      string        // columns of a length file
	answer      string
	clock       string

	requests int           // generated from a document at most
	horizon  time.Duration // 0: none

	cacheBlocks []int
	rates       string // file of the rates of clients whose lengths are described

	to          string
	toBlocks    int
	originDate  time.Time
	origin      time.Duration
	wholeMillis bool
	lossy       bool

	set  []string // names of the flags that were set
	show func(text string)
	done func()
}

// parse reads the command line behind the command. Help goes to messages.
func parse(command string, args []string, messages io.Writer) (options, error) {
	var o options
	fs := o.flags(command)
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(messages, usage)
			fs.SetOutput(messages)
			fs.PrintDefaults()
			return o, err
		}
		var known []string
		fs.VisitAll(func(f *flag.Flag) { known = append(known, "-"+f.Name) })
		return o, fmt.Errorf("%w; flags of %s are %s", err, command, strings.Join(known, ", "))
	}
	switch files := fs.Args(); {
	case len(files) == 0:
		return o, fmt.Errorf("%s what? FILE is missing", command)
	case command == "plot":
		o.files = files
	case len(files) == 1:
		o.file = files[0]
	case len(files) == 2 && command == "convert":
		o.file, o.output = files[0], files[1]
	default:
		return o, fmt.Errorf("unexpected argument %q (flags go before FILE)", files[len(files)-1])
	}
	fs.Visit(func(f *flag.Flag) { o.set = append(o.set, f.Name) })
	return o, o.check(command)
}

// check reports the first flag that cannot be.
func (o *options) check(command string) error {
	if o.format != "" && formatNamed(o.format) == nil {
		return fmt.Errorf("-format: unknown %q; known are %s", o.format, strings.Join(formatNames(), ", "))
	}
	if o.ttft < 0 || o.gap < 0 {
		return fmt.Errorf("-assume-ttft is %v and -assume-itl %v, want at least 0", o.ttft, o.gap)
	}
	if o.requests < 0 || o.horizon < 0 {
		return fmt.Errorf("-requests is %d and -horizon %v, want at least 0", o.requests, o.horizon)
	}
	switch {
	case command == "plot" && o.out == "":
		return errors.New("-out is missing: the folder of the pictures")
	case command != "convert":
		return nil
	}
	switch {
	case !slices.Contains(targets, o.to):
		return fmt.Errorf("-to is %q, want one of %s", o.to, strings.Join(targets, ", "))
	case o.to != "mooncake" && (slices.Contains(o.set, "whole-ms") || slices.Contains(o.set, "to-block-tokens")):
		return fmt.Errorf("-whole-ms and -to-block-tokens mean nothing to -to %s", o.to)
	case (o.to == "azure") == o.originDate.IsZero() && slices.Contains(o.set, "origin"):
		return fmt.Errorf("-origin of -to azure is a date, of others a time such as 117ms")
	case o.json && o.output == "":
		return errors.New("-json reports on standard output, so the recording needs an OUTPUT")
	}
	return nil
}

// flags binds the command line of a command.
func (o *options) flags(command string) *flag.FlagSet {
	fs := flag.NewFlagSet(command, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are reported once, by main
	fs.StringVar(&o.format, "format", "", "`name` of the format of FILE, instead of what its content tells:\n"+wrapNames(formatNames()))
	if command == "plot" {
		fs.StringVar(&o.out, "out", "", "`folder` of the pictures, which is made")
	} else {
		fs.BoolVar(&o.json, "json", false, "print one JSON object")
	}
	fs.DurationVar(&o.unit, "unit", 0, "unit of timestamps that are numbers, 1s, 1ms, 1µs or 1ns;\n0 is that of the format")
	fs.IntVar(&o.blockTokens, "block-tokens", 0, "`tokens` of a block of the prefixes of FILE; 0 is the format's")
	fs.BoolVar(&o.looseIDs, "loose-ids", false, "accept rows that do not have one hash id per block")
	fs.BoolVar(&o.noPrefix, "no-prefix", false, "leave prefixes out")
	fs.BoolVar(&o.keepImages, "keep-images", false, "keep requests with images as if they were text (Azure 2025)")
	fs.StringVar(&o.model, "model", "", "keep the rows of this `model` (BurstGPT)")
	fs.StringVar(&o.log, "log", "", "keep the rows of this `type` of log (BurstGPT)")
	fs.StringVar(&o.kind, "type", "", "keep the rows of this `type` (Bailian)")
	fs.StringVar(&o.prompt, "prompt-column", "", "`name` of the column of prompt tokens (length files)")
	fs.StringVar(&o.answer, "output-column", "", "`name` of the column of output tokens (length files)")
	fs.StringVar(&o.clock, "time-column", "", "`name` of the column of arrivals (length files)")
	fs.DurationVar(&o.spread, "spread", 0, "spread rows with equal timestamps over this `time`, such as 3s")
	fs.BoolVar(&o.skip, "skip-malformed", false, "drop rows that cannot be read, and count them")
	fs.DurationVar(&o.ttft, "assume-ttft", 0, "replay sessions in open loop as if answers needed this `time` to\nthe first token (TraceLab, documents)")
	fs.DurationVar(&o.gap, "assume-itl", 0, "the same for each further token")
	fs.IntVar(&o.requests, "requests", 100_000, "`number` of requests to generate at most; 0 is all (documents)\n")
	fs.DurationVar(&o.horizon, "horizon", 0, "`time` after which no request is generated; 0 is none (documents)")
	switch command {
	case "plot":
		return fs
	case "describe":
		o.cacheBlocks = []int{1_000, 10_000, 30_000, 50_000, 100_000}
		fs.Func("cache-blocks", "sizes of caches to replay prefixes in, `blocks` between commas\n(default 1000,10000,30000,50000,100000)", o.setCacheBlocks)
		fs.StringVar(&o.rates, "rates", "", "weigh the lengths of clients by the rates in this `file` (ServeGen)")
		return fs
	}
	fs.BoolVar(&o.sort, "sort", false, "put rows in order of time; they are held")
	fs.StringVar(&o.to, "to", "", "`format` to write: "+strings.Join(targets, ", "))
	fs.BoolVar(&o.lossy, "lossy", false, "leave out what the format has no place for")
	fs.BoolVar(&o.wholeMillis, "whole-ms", false, "round arrivals to whole milliseconds (mooncake)")
	fs.IntVar(&o.toBlocks, "to-block-tokens", 0, "`tokens` of a block of the prefixes written; 0 is 512 (mooncake)")
	fs.Func("origin", "`time` of the first arrival: a date such as 2023-11-16T00:00:00Z (azure;\nthe default is the start of 1970), or a time such as 117ms", o.setOrigin)
	return fs
}

func (o *options) setOrigin(s string) (err error) {
	if o.originDate, err = time.Parse(time.RFC3339, s); err == nil {
		return nil
	}
	if o.origin, err = time.ParseDuration(s); err != nil || o.origin < 0 {
		return errors.New("neither a date such as 2023-11-16T00:00:00Z nor a time such as 117ms")
	}
	return nil
}

func (o *options) setCacheBlocks(s string) error {
	o.cacheBlocks = nil
	for _, part := range strings.Split(s, ",") {
		var n int
		if _, err := fmt.Sscanf(part+"\n", "%d\n", &n); err != nil || n < 1 || n > 1<<31-1 {
			return fmt.Errorf("%q is not a number of blocks, at least 1", part)
		}
		o.cacheBlocks = append(o.cacheBlocks, n)
	}
	return nil
}

// wrapNames breaks a list of names into two lines.
func wrapNames(names []string) string {
	half := (len(names) + 1) / 2
	return strings.Join(names[:half], ", ") + ",\n" + strings.Join(names[half:], ", ")
}
