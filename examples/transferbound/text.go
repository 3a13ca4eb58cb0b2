package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"servesim/examples/internal/terminal"
	"servesim/sim/metrics"
)

// published is the share of prefill execution in p95 TTFT that one disaggregated
// set-up was reported to have under bursts, in percent: a bounded result, and a
// range to compare with.
var published = [2]float64{2, 23}

// printText writes the report in 80 columns, a column a link.
func printText(w io.Writer, r report) error {
	var b bytes.Buffer
	s := r.Scenario
	terminal.Wrap(&b, "", fmt.Sprintf("WHERE THE TIME TO THE FIRST TOKEN GOES: %d bursts of %d requests, one every %v s, to %d GPUs that compute prompts and %d that decode",
		s.Bursts, s.Size, s.EveryS, s.Prefill, s.Decode))
	fmt.Fprintf(&b, "\n  %s on %s; prompts about %d tokens, answers about %d\n\n", s.Model, s.GPU, s.Prompt, s.Output)
	for from := 0; from < len(r.Results); from += columns {
		printTable(&b, r.Results[from:min(from+columns, len(r.Results))])
	}
	b.WriteString(legend)
	for _, x := range r.Results {
		b.WriteByte('\n')
		terminal.Wrap(&b, "  ", reading(x, s))
	}
	_, err := w.Write(b.Bytes())
	return err
}

// columns is how many links stand side by side.
const columns = 3

const legend = `  ms: mean of the requests above p95 TTFT; %: sum over the sum of their TTFT.
  queue: for a prefill GPU; prefill: the steps that compute the prompt; room:
  until the decode side fetches; wire: the transfer, were it alone; contention:
  with other transfers; decode_queue: until its next step; first_decode: that
  step. Percentiles are linear, times virtual.
`

func printTable(b *bytes.Buffer, results []result) {
	row := func(name string, cell func(result) string) {
		var line strings.Builder
		fmt.Fprintf(&line, "  %-14s", name)
		for _, r := range results {
			fmt.Fprintf(&line, "  %19s", cell(r))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	row("", func(r result) string { return r.Link })
	row("port", func(r result) string { return fmt.Sprintf("%.4g GB/s", r.GBps) })
	row("TTFT p50", func(r result) string { return fmt.Sprintf("%.0f ms", r.TTFTP50) })
	row("TTFT p95", func(r result) string { return fmt.Sprintf("%.0f ms", r.TTFTP95) })
	fmt.Fprintln(b)
	row("above p95", func(result) string { return fmt.Sprintf("%10s %8s", "ms", "%") })
	for p := range parts {
		row(part(p).String(), func(r result) string {
			x := r.Tail.Parts[p]
			return fmt.Sprintf("%10s %8s", number(x.Mean), number(x.Share))
		})
	}
	row("TTFT", func(r result) string { return fmt.Sprintf("%10s %8s", number(r.Tail.TTFT), "") })
	fmt.Fprintln(b)
}

func number(v metrics.Number) string {
	if !v.Defined() {
		return "–"
	}
	return fmt.Sprintf("%.1f", v)
}

// reading says what the tail over one link is made of.
func reading(r result, s scenario) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: the KV of a burst takes %s ms over the ports of the decode side, its prompts %s ms of every prefill GPU. ", r.Link, short(r.BurstMs), short(r.ComputeMs))
	t := r.Tail
	if t.Requests == 0 {
		b.WriteString("No request is above p95.")
		return b.String()
	}
	fmt.Fprintf(&b, "In the tail, computing the prompt is %.1f %% of TTFT, ", t.Prefill)
	if p := float64(t.Prefill); p >= published[0] && p <= published[1] {
		fmt.Fprintf(&b, "within the %v to %v %% that were reported for one set-up; ", published[0], published[1])
	} else {
		fmt.Fprintf(&b, "outside the %v to %v %% that were reported for one set-up; ", published[0], published[1])
	}
	fmt.Fprintf(&b, "queueing is %.1f %%, transfer %.1f %%, the first decode step %.1f %%.", t.Queueing, t.Transfer, t.Decode)
	return b.String()
}

// short formats a time without digits that say nothing.
func short(ms float64) string {
	if ms < 10 {
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}
