// Compare runs the same workload through several schedulers and says which
// wins, by how much, and how sure that is.
//
//	go run ./examples/compare
//	go run ./examples/compare -recording FILE -traces DIR
//	go run ./examples/compare -json > result.json
//	go run ./examples/compare -config result.json
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
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// options are what the command line says besides the manifest.
type options struct {
	json   bool
	traces string
}

// run is the program without its process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	m, o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if o.traces != "" {
		if err := os.MkdirAll(o.traces, 0o777); err != nil {
			return err
		}
	}
	p, done := reporter(stderr)
	out, err := compare(ctx, m, o.traces, p)
	done()
	if err != nil {
		return err
	}
	if o.json {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(out)
	}
	return writeText(stdout, out)
}

// parse reads the command line: -config first, whatever its place, then the
// other flags over it.
func parse(args []string, stderr io.Writer) (Manifest, options, error) {
	m := defaults()
	o, config := options{}, ""
	fs := flags(&m, &o, &config, stderr)
	if err := fs.Parse(args); err != nil {
		return m, o, err
	}
	if config != "" {
		var err error
		if m, err = read(config); err != nil {
			return m, o, err
		}
		o = options{}
		if err := flags(&m, &o, &config, stderr).Parse(args); err != nil {
			return m, o, err
		}
	}
	if fs.NArg() > 0 {
		return m, o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	set := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if set["recording"] {
		m.Preset = ""
		if !set["requests"] {
			m.Requests = 0
		}
		if !set["rate-scale"] {
			m.RateScale = 1
		}
	}
	return m, o, m.check()
}

// flags binds the command line to a manifest, whose values are the defaults.
func flags(m *Manifest, o *options, config *string, stderr io.Writer) *flag.FlagSet {
	fs := flag.NewFlagSet("compare", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprint(stderr, "Usage: compare [flags]\n\nRuns one workload through several schedulers and compares them.\n\n"+
			"The workload is generated (-preset) or recorded (-recording). Percentiles are\n"+
			"linear; a request meets its targets if its TTFT and the 95th percentile of its\n"+
			"gaps (nearest rank) do. The table shows the run of -seed; the comparison pairs\n"+
			"runs of -seeds seeds, in which all schedulers see the same requests.\n\n")
		fs.PrintDefaults()
	}
	fs.Func("schedulers", "comma-separated `names`: "+strings.Join(schedulerNames(), ", ")+" (default all)", func(s string) error {
		m.Schedulers = strings.Split(s, ",")
		return nil
	})
	fs.StringVar(&m.Preset, "preset", m.Preset, "generated workload: "+strings.Join(presetNames(), " or "))
	fs.StringVar(&m.Recording, "recording", m.Recording, "Azure trace `file` (CSV, plain or gzip) to replay instead of a preset;\nall its requests at its own rate unless -requests and -rate-scale say otherwise")
	fs.IntVar(&m.Requests, "requests", m.Requests, "number of requests; 0 is the whole recording")
	fs.Float64Var(&m.RateScale, "rate-scale", m.RateScale, "arrival rate as a multiple of the workload's own")
	fs.IntVar(&m.Replicas, "replicas", m.Replicas, "engine instances behind a least-loaded router")
	fs.StringVar(&m.Model, "model", m.Model, "model of the catalogue")
	fs.StringVar(&m.GPU, "gpu", m.GPU, "GPU of the catalogue")
	fs.IntVar(&m.TensorParallel, "tp", m.TensorParallel, "GPUs per replica, tensor-parallel")
	fs.IntVar(&m.KVBlocks, "kv-blocks", m.KVBlocks, "KV blocks per replica; 0 is what fits beside the weights")
	fs.IntVar(&m.MaxSeqs, "max-seqs", m.MaxSeqs, "running requests per replica at most")
	fs.IntVar(&m.MaxModelLen, "max-model-len", m.MaxModelLen, "prompt and output `tokens` of one request at most")
	fs.IntVar(&m.ChunkTokens, "chunk-tokens", m.ChunkTokens, "token budget of a step of the chunked scheduler;\nthe others compute prompts whole")
	fs.Float64Var(&m.TTFTTargetMs, "slo-ttft", m.TTFTTargetMs, "target for the first token, `ms`")
	fs.Float64Var(&m.GapTargetMs, "slo-itl", m.GapTargetMs, "target for the gap between tokens, `ms`")
	fs.Uint64Var(&m.Seed, "seed", m.Seed, "first seed of the generated workload")
	fs.IntVar(&m.Seeds, "seeds", m.Seeds, "paired runs per scheduler; 1 gives no interval")
	fs.BoolVar(&o.json, "json", o.json, "print one JSON object")
	fs.StringVar(&o.traces, "traces", o.traces, "write a timeline per request to `dir`/SCHEDULER.jsonl, for the first seed")
	fs.StringVar(config, "config", *config, "rerun the config of an earlier -json output in `file`; other flags go over it")
	return fs
}

// reporter shows which run is under way if stderr is a terminal.
func reporter(stderr io.Writer) (p progress, done func()) {
	f, ok := stderr.(*os.File)
	if ok {
		info, err := f.Stat()
		ok = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if !ok {
		return func(string, int, int) {}, func() {}
	}
	const clear = "\r\x1b[K"
	return func(s string, seed, seeds int) { fmt.Fprintf(f, "%s%s, run %d of %d", clear, s, seed, seeds) },
		func() { fmt.Fprint(f, clear) }
}
