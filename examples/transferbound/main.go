// Transferbound shows where the time to the first token goes when prompts and
// decodes have pools of their own and requests come in bursts: over a slow link
// hardly any of it is computing the prompt, over a fast one much of it is.
//
//	go run ./examples/transferbound
//	go run ./examples/transferbound -links Ethernet-25G,PCIe5-x16,NVLink4
//	go run ./examples/transferbound -model Llama-2-7B -size 4
//	go run ./examples/transferbound -json
//
// scenario.go says what arrives and what serves it, ledger.go where the time of
// each request went; tail.go sums it over the slowest, text.go prints it.
package main

import (
	"context"
	"flag"
	"io"
	"strings"

	"servesim/examples/internal/command"
)

func main() { command.Main("transferbound", run) }

// report is everything the program prints. The names carry the units.
type report struct {
	Scenario scenario `json:"scenario"`
	Results  []result `json:"results"` // one a link
	// Published is the share of prefill execution in p95 TTFT that one
	// disaggregated set-up was reported to have under bursts, in percent.
	Published [2]float64 `json:"published_prefill_share_pct"`
}

// run is the program without its process. Help goes to messages.
func run(ctx context.Context, args []string, out, messages io.Writer) error {
	s := defaults()
	asJSON := false
	flags := newFlags(&s, &asJSON)
	if err := command.Parse(flags, usage, args, messages); err != nil {
		return err
	}
	r, err := compare(ctx, s)
	if err != nil {
		return err
	}
	if asJSON {
		return command.WriteJSON(out, r)
	}
	return printText(out, r)
}

const usage = `Usage: transferbound [flags]

Bursts of requests reach a prefill pool; the decode pool fetches their KV over a
link and samples the first token. The same requests are run over each link.
Times are virtual.

`

// newFlags binds the command line to a scenario, whose values are the defaults.
func newFlags(s *scenario, asJSON *bool) *flag.FlagSet {
	flags := flag.NewFlagSet("transferbound", flag.ContinueOnError)
	flags.Func("links", "comma-separated `names` of links in the catalogue, a GPU's way to the\nother pool; an unknown one lists them (default "+strings.Join(s.Links, ",")+")", func(text string) error {
		s.Links = strings.Split(text, ",")
		return nil
	})
	flags.StringVar(&s.Model, "model", s.Model, "`name` of a model in the catalogue; an unknown one lists them\n")
	flags.StringVar(&s.GPU, "gpu", s.GPU, "`name` of a GPU in the catalogue; an unknown one lists them\n")
	flags.IntVar(&s.Prefill, "prefill", s.Prefill, "replicas of the prefill pool, one GPU each")
	flags.IntVar(&s.Decode, "decode", s.Decode, "replicas of the decode pool, one GPU each")
	flags.IntVar(&s.Bursts, "bursts", s.Bursts, "number of bursts")
	flags.IntVar(&s.Size, "size", s.Size, "requests of a burst, which come at once")
	flags.DurationVar(&s.Every, "every", s.Every, "time from burst to burst")
	flags.IntVar(&s.Prompt, "prompt", s.Prompt, "mean `tokens` of a prompt, which has between a half and one and a half\nof it")
	flags.IntVar(&s.Output, "output", s.Output, "mean `tokens` of an answer, the same")
	flags.Uint64Var(&s.Seed, "seed", s.Seed, "of the lengths")
	flags.BoolVar(asJSON, "json", false, "print one JSON object")
	return flags
}
