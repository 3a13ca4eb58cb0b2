package main

import (
	"fmt"
	"iter"
	"os"
	"strings"
	"time"

	"servesim/sim"
	"servesim/sim/trace"
	"servesim/workload"
)

// format is a kind of recording. Those without requests are described in ways
// of their own.
type format struct {
	name string
	// is tells it by the beginning of a file: the header of a CSV file, or the
	// first row of a file of JSON lines; nil is never told.
	is func(h head) bool
	// requests reads the rows; nil if there are none.
	requests func(o options, sort bool, c *workload.Counts) iter.Seq2[sim.Request, error]
	// loses is what a row may say that requests do not.
	loses string
	// flags are those that mean something to it alone, or to some.
	flags []string
}

// formats are the kinds of recordings, the more special ones first.
var formats = []format{
	{
		name: "azure", is: has("TIMESTAMP", "ContextTokens", "GeneratedTokens"), requests: azure,
		flags: []string{"keep-images", "skip-malformed"},
	},
	{
		name: "burstgpt", is: has("Timestamp", "Request tokens", "Response tokens"), requests: burstGPT,
		loses: "models, log types and sessions", flags: []string{"model", "log", "spread", "skip-malformed"},
	},
	{
		name: "ragpulse", is: func(h head) bool { return h.has("timestamp", "input_length") && h.object("hash_ids") }, requests: ragPulse,
		loses: "sessions and the kinds of passages", flags: []string{"block-tokens", "no-prefix", "spread", "skip-malformed"},
	},
	{name: "bailian", is: has("timestamp", "input_length", "chat_id"), requests: bailian, loses: "types and sessions", flags: blockFlags},
	{name: "mooncake", is: has("timestamp", "input_length"), requests: mooncake, flags: blockFlags},
	{name: "timed-trace", requests: timedTrace, flags: blockFlags}, // a Mooncake file with other units
	{
		name: "tracelab", is: has("round_idx", "prefix_len", "input_len"), requests: openLoop,
		loses: "the feedback of sessions", flags: []string{"block-tokens", "no-prefix", "assume-ttft", "assume-itl"},
	},
	{
		name: "lengths", is: has("num_prefill_tokens", "num_decode_tokens"), requests: lengths,
		flags: []string{"prompt-column", "output-column", "time-column", "unit", "skip-malformed"},
	},
	{name: "trace", is: has("request_id", "client_send_ms"), requests: ownTrace, loses: "the timelines"},
	{
		name: "document", is: has("servesim_workload"), requests: document, loses: "the seed, classes, paths and feedback",
		flags: []string{"assume-ttft", "assume-itl", "requests", "horizon"},
	},
	{name: "ragpulse-side", is: has("token_length")},
	{name: "servegen", is: func(h head) bool { return h.archive || h.windows() }, flags: []string{"rates"}},
}

var blockFlags = []string{"unit", "block-tokens", "loose-ids", "no-prefix", "type", "spread", "skip-malformed"}

// has tells a format by names that must be there.
func has(names ...string) func(head) bool { return func(h head) bool { return h.has(names...) } }

func formatNames() (names []string) {
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

func formatNamed(name string) *format {
	for i := range formats {
		if formats[i].name == name {
			return &formats[i]
		}
	}
	return nil
}

// detect tells the format of a file by its beginning.
func detect(file string) (*format, error) {
	h, err := readHead(file)
	if err != nil {
		return nil, err
	}
	for i, f := range formats {
		if f.is != nil && f.is(h) {
			return &formats[i], nil
		}
	}
	return nil, fmt.Errorf("%s: its beginning is that of no known format; -format names one of %s", file, strings.Join(formatNames(), ", "))
}

func azure(o options, sort bool, c *workload.Counts) iter.Seq2[sim.Request, error] {
	return workload.AzureCSV{Path: o.file, KeepImages: o.keepImages, Sort: sort, SkipMalformed: o.skip, Counts: c}.Requests()
}

func burstGPT(o options, sort bool, c *workload.Counts) iter.Seq2[sim.Request, error] {
	return workload.BurstGPT{Path: o.file, Model: o.model, Log: o.log, Spread: o.spread, Sort: sort, SkipMalformed: o.skip, Counts: c}.Requests()
}

func mooncake(o options, sort bool, c *workload.Counts) iter.Seq2[sim.Request, error] {
	return o.blocks(workload.Mooncake{Path: o.file}, sort, c)
}

func timedTrace(o options, sort bool, c *workload.Counts) iter.Seq2[sim.Request, error] {
	return o.blocks(workload.VLLMTimedTrace(o.file), sort, c)
}

func bailian(o options, sort bool, c *workload.Counts) iter.Seq2[sim.Request, error] {
	return o.blocks(workload.QwenBailian(o.file), sort, c)
}

// blocks reads a recording whose rows name blocks, all of them.
func (o *options) blocks(m workload.Mooncake, sort bool, c *workload.Counts) iter.Seq2[sim.Request, error] {
	if o.unit != 0 {
		m.Unit = o.unit
	}
	if o.blockTokens != 0 {
		m.BlockTokens = o.blockTokens
	}
	m.LooseIDs, m.NoPrefix, m.PartialIDs = o.looseIDs, o.noPrefix, true
	m.Type, m.Spread, m.Sort, m.SkipMalformed, m.Counts = o.kind, o.spread, sort, o.skip, c
	return m.Requests()
}

func ragPulse(o options, sort bool, c *workload.Counts) iter.Seq2[sim.Request, error] {
	p := o.ragPulse()
	p.Sort, p.Counts = sort, c
	return p.Requests()
}

func (o *options) ragPulse() workload.RAGPulse {
	return workload.RAGPulse{Path: o.file, BlockTokens: o.blockTokens, NoPrefix: o.noPrefix, Spread: o.spread, SkipMalformed: o.skip}
}

func lengths(o options, sort bool, c *workload.Counts) iter.Seq2[sim.Request, error] {
	return workload.LengthCSV{
		Path: o.file, Prompt: o.prompt, Output: o.answer, Time: o.clock, Unit: o.unit,
		Sort: sort, SkipMalformed: o.skip, Counts: c,
	}.Requests()
}

// openLoop reads sessions as requests if the command line says how long
// answers take.
func openLoop(o options, sort bool, c *workload.Counts) iter.Seq2[sim.Request, error] {
	t := workload.TraceLab{Path: o.file, BlockTokens: o.blockTokens, Sort: sort, Counts: c}
	if !o.closedLoop() {
		t.OpenLoop = func(r workload.TraceLabRound) time.Duration { return o.takes(r.Output) }
	}
	if !o.noPrefix {
		return t.Requests()
	}
	return func(yield func(sim.Request, error) bool) {
		for q, err := range t.Requests() {
			q.Prefix, q.PrefixBlock = nil, 0
			if !yield(q, err) {
				return
			}
		}
	}
}

// closedLoop reports that nothing says how long answers take.
func (o *options) closedLoop() bool { return o.ttft == 0 && o.gap == 0 }

// ownTrace reads what a run, or a measurement, did as the requests it was sent.
func ownTrace(o options, _ bool, c *workload.Counts) iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		*c = workload.Counts{}
		f, err := os.Open(o.file)
		if err != nil {
			yield(sim.Request{}, err)
			return
		}
		defer f.Close()
		in, err := unzip(f)
		if err != nil {
			yield(sim.Request{}, fmt.Errorf("%s: %w", o.file, err))
			return
		}
		for q, err := range workload.FromTrace(trace.Read(in, o.file)) {
			if err == nil {
				c.Read++
				c.Emitted++
			}
			if !yield(q, err) || err != nil {
				return
			}
		}
	}
}
