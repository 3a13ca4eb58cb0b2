// Compare runs the same workload through several schedulers and says which
// wins, by how much, and how sure that is.
//
//	go run ./examples/compare
//	go run ./examples/compare -workload voice
//	go run ./examples/compare -recording FILE -traces DIR
//	go run ./examples/compare -json > result.json
//	go run ./examples/compare -config result.json
//
// No topology wins everywhere: workloads.go has three workloads that different
// ones win, and says why.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"servesim/examples/internal/command"
	"servesim/examples/internal/terminal"
)

func main() { command.Main("compare", run) }

// options are what the command line says besides the manifest.
type options struct {
	json             bool
	traces           string
	config, workload string
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
	if errors.Is(err, context.Canceled) && len(out.Results) > 0 && !o.json {
		fmt.Fprint(stdout, "INTERRUPTED: only the runs that had ended are shown, and nothing is compared.\n\n")
		return errors.Join(err, writeText(stdout, out))
	}
	if err != nil {
		return err
	}
	if o.json {
		return command.WriteJSON(stdout, out)
	}
	if s, _, err := lookupSet(o.workload); err == nil {
		fmt.Fprintln(stdout, s.text())
	}
	return writeText(stdout, out)
}

// parse reads the command line: -config or -workload first, whatever their place,
// then the other flags over them. Help goes to messages.
func parse(args []string, messages io.Writer) (Manifest, options, error) {
	m := defaults()
	o := options{}
	fs := flags(&m, &o)
	if err := command.Parse(fs, usage, args, messages); err != nil {
		return m, o, err
	}
	if o.config != "" || o.workload != "" {
		var err error
		if m, err = o.manifest(); err != nil {
			return m, o, err
		}
		if err := command.Parse(flags(&m, &o), usage, args, messages); err != nil {
			return m, o, err
		}
	}
	set := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { set[f.Name] = true })
	m.settle(set)
	return m, o, m.check()
}

// manifest is what the other flags go over.
func (o *options) manifest() (Manifest, error) {
	if o.config != "" && o.workload != "" {
		return Manifest{}, fmt.Errorf("config is %s and workload is %s; at most one is possible", o.config, o.workload)
	}
	if o.config != "" {
		return read(o.config)
	}
	_, m, err := lookupSet(o.workload)
	return m, err
}

// settle lets the flags that were set take the place of what they contradict.
func (m *Manifest) settle(set map[string]bool) {
	switch {
	case set["recording"] && set["preset"]: // check refuses both
	case set["recording"]:
		m.Preset = ""
		if !set["seeds"] {
			m.Seeds = 1
		}
		if !set["requests"] {
			m.Requests = 0
		}
		if !set["rate-scale"] {
			m.RateScale = 1
		}
	case set["preset"]:
		if m.Recording != "" && !set["seeds"] {
			m.Seeds = defaults().Seeds
		}
		m.Recording = ""
		if p := lookupPreset(m.Preset); p != nil && !set["rate-scale"] {
			m.RateScale = p.scale
		}
	}
	for _, name := range []string{"model", "gpu", "tp", "max-seqs", "max-model-len"} {
		if set[name] && !set["kv-blocks"] {
			m.KVBlocks = 0 // those of -config fitted beside other weights
		}
	}
}

const usage = `Usage: compare [flags]

Runs one workload through several schedulers and compares them.

The workload is generated (-preset) or recorded (-recording). Percentiles are
linear; a request meets its targets if its TTFT and the 95th percentile of its
gaps (nearest rank) do. The table shows the run of -seed; the comparison pairs
runs of -seeds seeds, in which all schedulers see the same requests.

Chunked schedulers compute -chunk-tokens positions a step at most, continuous
and vllm-v0 up to -max-model-len, in whole prompts. request-batch and orca
reserve memory for -max-model-len tokens a request; that and -max-seqs are their
only limits. disaggregated computes prompts in one pool of replicas and decodes
in another, and -link carries the KV between them; dynamic moves replicas from
pool to pool as the work changes. All have the same number of GPUs.

`

// flags binds the command line to a manifest, whose values are the defaults.
func flags(m *Manifest, o *options) *flag.FlagSet {
	fs := flag.NewFlagSet("compare", flag.ContinueOnError)
	fs.Func("schedulers", "comma-separated `names` of\n"+wrapped(schedulerNames())+"\n(default the first five)", func(s string) error {
		m.Schedulers = strings.Split(s, ",")
		return nil
	})
	fs.StringVar(&m.Preset, "preset", m.Preset, "`name` of a generated workload:\n"+strings.Join(presetNames(), ", ")+"\n")
	fs.StringVar(&m.Recording, "recording", m.Recording, "recorded `file` to replay instead of a preset: an Azure trace (CSV)\nor a Mooncake trace (.jsonl), plain or gzip;\nall its requests at its own rate unless -requests and -rate-scale\nsay otherwise")
	fs.IntVar(&m.Requests, "requests", m.Requests, "number of requests; 0 is the whole recording")
	fs.Float64Var(&m.RateScale, "rate-scale", m.RateScale, "arrival rate as a multiple of the workload's own; a -preset brings its\nown value, which is work for four GPUs")
	fs.IntVar(&m.Replicas, "replicas", m.Replicas, "engine instances behind a least-loaded router")
	fs.StringVar(&m.Model, "model", m.Model, "`name` of a model in the catalogue; an unknown one lists them\n")
	fs.StringVar(&m.GPU, "gpu", m.GPU, "`name` of a GPU in the catalogue; an unknown one lists them\n")
	fs.IntVar(&m.TensorParallel, "tp", m.TensorParallel, "GPUs per replica, tensor-parallel")
	fs.IntVar(&m.KVBlocks, "kv-blocks", m.KVBlocks, "KV blocks per replica; 0 is what fits beside the weights")
	fs.IntVar(&m.MaxSeqs, "max-seqs", m.MaxSeqs, "running requests per replica at most")
	fs.IntVar(&m.MaxModelLen, "max-model-len", m.MaxModelLen, "prompt and output `tokens` of one request at most")
	fs.IntVar(&m.ChunkTokens, "chunk-tokens", m.ChunkTokens, "token budget of a step of the chunked scheduler;\nthe others compute prompts whole")
	fs.IntVar(&m.PrefillReplicas, "prefill-replicas", m.PrefillReplicas, "replicas of the prefill pool of disaggregated; 0 is the part of all\nthat prompts are of the work")
	fs.IntVar(&m.DynamicPrefill, "dynamic-prefill", m.DynamicPrefill, "replicas of the prefill pool of dynamic at the start; 0 is half of all")
	fs.IntVar(&m.PrefillTokens, "prefill-tokens", m.PrefillTokens, "token budget of a step in the prefill pool")
	fs.IntVar(&m.LocalTokens, "local-tokens", m.LocalTokens, "prompts with fewer `tokens` to compute stay in the decode pool")
	fs.StringVar(&m.FirstToken, "first-token", m.FirstToken, "`side` that samples first tokens: prefill or decode")
	fs.StringVar(&m.Link, "link", m.Link, "`name` of a link in the catalogue, a GPU's way to other replicas;\nan unknown one lists them\n")
	fs.BoolVar(&m.LayerWise, "layer-wise", m.LayerWise, "send KV layer by layer while the prompt is computed")
	fs.StringVar(&m.Controller, "controller", m.Controller, "what moves the roles of dynamic: work-ratio or load-threshold\n")
	fs.Float64Var(&m.SwitchCostMs, "switch-cost", m.SwitchCostMs, "`ms` from drained to open in another role")
	fs.BoolVar(&m.PrefixCache, "prefix-cache", m.PrefixCache, "share KV blocks of equal prefixes, which Mooncake recordings tell")
	fs.Float64Var(&m.TTFTTargetMs, "slo-ttft", m.TTFTTargetMs, "target for the first token, `ms`")
	fs.Float64Var(&m.GapTargetMs, "slo-itl", m.GapTargetMs, "target for the gap between tokens, `ms`")
	fs.Uint64Var(&m.Seed, "seed", m.Seed, "first seed of the generated workload")
	fs.IntVar(&m.Seeds, "seeds", m.Seeds, "paired runs per scheduler; 1 gives no interval")
	fs.BoolVar(&o.json, "json", o.json, "print one JSON object")
	fs.StringVar(&o.traces, "traces", o.traces, "write a timeline per request to `dir`/SCHEDULER.jsonl, for the first seed")
	fs.StringVar(&o.workload, "workload", o.workload, "`name` of a workload with what serves it and its targets; other flags go\nover it: "+setNames())
	fs.StringVar(&o.config, "config", o.config, "rerun the config of an earlier -json output in `file`; other flags go\nover it, and KV blocks are fitted anew to another model or GPU")
	return fs
}

// wrapped lists names on two lines.
func wrapped(names []string) string {
	half := (len(names) + 1) / 2
	return strings.Join(names[:half], ", ") + ",\n" + strings.Join(names[half:], ", ")
}

// reporter shows which run is under way if stderr is a terminal.
func reporter(stderr io.Writer) (p progress, done func()) {
	show, done := terminal.Status(stderr)
	return func(s string, seed, seeds int) { show(fmt.Sprintf("%s, run %d of %d", s, seed, seeds)) }, done
}
