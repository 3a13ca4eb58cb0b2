package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"servesim/examples/internal/terminal"
	"servesim/sim/metrics"
)

// tableHead is a row of the table: 80 columns.
const tableHead = "%-13s %6s %6s %6s %6s %6s %6s %5s %6s %5s %5s\n"

// writeText writes the outcome in 80 columns.
func writeText(w io.Writer, out Output) error {
	var b strings.Builder
	writeSetting(&b, out)
	fmt.Fprintf(&b, tableHead, "", "", "TTFT", "ms", "ITL", "ms", "E2E", "out", "good", "met", "KV")
	fmt.Fprintf(&b, tableHead, "scheduler", "p50", "p95", "p99", "p95", "p99", "p95 s", "tok/s", "req/s", "%", "%")
	for _, r := range out.Results {
		fmt.Fprintf(&b, tableHead, r.Scheduler, fit(r.TTFT.P50, 0, 6), fit(r.TTFT.P95, 0, 6), fit(r.TTFT.P99, 0, 6),
			fit(r.ITL.P95, 1, 6), fit(r.ITL.P99, 0, 6), fit(r.E2E.P95/1000, 2, 6), fit(r.TokenThroughput, 0, 5),
			fit(r.Goodput, 2, 6), fit(r.Attainment*100, 1, 5), fit(r.KVPeak*100, 1, 5))
	}
	writeEnds(&b, out.Results)
	writeComparisons(&b, out)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeSetting says what was run on what.
func writeSetting(b *strings.Builder, out Output) {
	m, d := out.Config, out.Workload
	source := m.Preset
	if m.Recording != "" {
		source = shorten(m.Recording, terminal.Columns-len("workload   ,"))
	}
	count := fmt.Sprintf("%d requests at %s/s", d.Requests, d.Rate)
	separator := ", "
	if len("workload   ")+utf8.RuneCountInString(source+separator+count) > terminal.Columns {
		separator = ",\n           "
	}
	fmt.Fprintf(b, "workload   %s%s%s\n", source, separator, count)
	row := func(name, format string, values ...any) {
		terminal.Wrap(b, fmt.Sprintf("%-11s", name), fmt.Sprintf(format, values...))
	}
	row("", "gap CV %s, dispersion index %s / %s / %s at 1 / 10 / 60 s", d.GapCV, d.IDC1, d.IDC10, d.IDC60)
	row("", "prompt p50 %s p95 %s, output p50 %s p95 %s tokens", d.Prompt.P50, d.Prompt.P95, d.Output.P50, d.Output.P95)
	if out.Dropped != nil && out.Dropped.Dropped() > 0 {
		row("", "%s", *out.Dropped)
	}
	row("deployment", "%s, %d × %d × %s, %d KV blocks of %d tokens each", m.Model, m.Replicas, m.TensorParallel, m.GPU, m.KVBlocks, m.BlockTokens)
	if out.Pools != nil {
		row("pools", "%s", division(m, out.Pools))
	}
	row("limits", "%d running requests, %d tokens a request, %d a chunked step; request-batch reserves the most a request can have", m.MaxSeqs, m.MaxModelLen, m.ChunkTokens)
	plain := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	row("targets", "TTFT %s ms, gap %s ms (p95 of each request's gaps)", plain(m.TTFTTargetMs), plain(m.GapTargetMs))
	b.WriteByte('\n')
}

// division says how the deployments with pools divide the replicas, and what lies
// between.
func division(m Manifest, p *Pools) string {
	var parts []string
	if slices.Contains(m.Schedulers, "disaggregated") {
		parts = append(parts, fmt.Sprintf("%d prefill and %d decode", p.Prefill, p.Decode))
	}
	if slices.Contains(m.Schedulers, "dynamic") {
		parts = append(parts, fmt.Sprintf("dynamic starts with %d and %d, by %s", p.DynamicPrefill, m.Replicas-p.DynamicPrefill, m.Controller))
	}
	link := m.Link
	if m.LayerWise {
		link += ", layer by layer"
	}
	return fmt.Sprintf("%s; %d tokens a prefill step; %s; first token from the %s side", strings.Join(parts, "; "), m.PrefillTokens, link, m.FirstToken)
}

// endsHead is a row of the table of counts.
const endsHead = "%-13s %10v %9v %11v %12v %11v\n"

// writeEnds says what became of the requests.
func writeEnds(b *strings.Builder, results []Result) {
	b.WriteByte('\n')
	fmt.Fprintf(b, endsHead, "requests", "completed", "rejected", "unfinished", "preemptions", "steps")
	for _, r := range results {
		fmt.Fprintf(b, endsHead, r.Scheduler, r.Completed, r.Rejected, r.Unfinished, r.Preemptions, r.Steps)
	}
	for _, r := range results {
		if few := tooFew(r); few != "" {
			terminal.Wrap(b, "", fmt.Sprintf("%s: too few observations to trust %s", r.Scheduler, few))
		}
		if r.PrefixHits > 0 {
			terminal.Wrap(b, "", fmt.Sprintf("%s: %d prompt tokens found in the prefix cache", r.Scheduler, r.PrefixHits))
		}
		if r.Transfers > 0 {
			terminal.Wrap(b, "", fmt.Sprintf("%s: %s of KV, %.0f tokens in the mean", r.Scheduler, plural(r.Transfers, "transfer"), float64(r.Transferred)/float64(r.Transfers)))
		}
		if r.RoleChanges > 0 {
			terminal.Wrap(b, "", fmt.Sprintf("%s: %s of role", r.Scheduler, plural(r.RoleChanges, "change")))
		}
		for _, x := range r.Rejections {
			terminal.Wrap(b, "", fmt.Sprintf("%s: %d rejected, %s", r.Scheduler, x.Count, x.Reason))
		}
		for _, f := range r.Findings {
			terminal.Wrap(b, "", fmt.Sprintf("%s: finding: %s", r.Scheduler, f))
		}
	}
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// tooFew lists the percentiles of the table that too few observations lie
// beyond.
func tooFew(r Result) string {
	var names []string
	for _, f := range []struct {
		name string
		few  []string
	}{{"TTFT", r.TTFT.Few}, {"ITL", r.ITL.Few}, {"E2E", r.E2E.Few}} {
		if len(f.few) > 0 {
			names = append(names, f.name+" "+strings.Join(f.few, " "))
		}
	}
	return strings.Join(names, ", ")
}

// writeComparisons says which scheduler wins and how sure that is.
func writeComparisons(b *strings.Builder, out Output) {
	b.WriteByte('\n')
	switch {
	case len(out.Results) == 1:
		b.WriteString("One scheduler: nothing to compare.\n")
	case len(out.Comparisons) == 0:
		b.WriteString("One run per scheduler: differences come without an interval.\n")
	}
	for _, c := range out.Comparisons {
		if !c.Difference.Defined() {
			terminal.Wrap(b, "", fmt.Sprintf("%s and %s cannot be compared: a run that completes no request has no goodput.", c.Scheduler, c.Than))
			continue
		}
		verdict := "is ahead of"
		if c.Low <= 0 {
			verdict = "cannot be told from"
		}
		terminal.Wrap(b, "", fmt.Sprintf("%s %s %s in goodput: %s req/s", c.Scheduler, verdict, c.Than, signed(c.Difference)))
		ratio := ""
		if c.RatioLow > 0 {
			ratio = fmt.Sprintf(", %.2f times (%.2f … %.2f)", c.Ratio, c.RatioLow, c.RatioHigh)
		}
		terminal.Wrap(b, "  ", fmt.Sprintf("(%v %% interval %s … %s, %d paired seeds)%s", 100*c.Level, signed(c.Low), signed(c.High), c.Seeds, ratio))
	}
	b.WriteString("\nTTFT from the intended arrival; ITL pools every gap; linear percentiles.\n" +
		"good: completed requests that met both targets; met: their share of arrivals;\n" +
		"KV: peak share of the usable blocks; k: thousands. All times are virtual.\n")
}

// signed formats a difference of rates, small ones with two digits.
func signed(v metrics.Number) string {
	if v != 0 && math.Abs(float64(v)) < 0.1 {
		return fmt.Sprintf("%+.2g", v)
	}
	return fmt.Sprintf("%+.2f", v)
}

// fit formats v with as many decimals as the width allows, in thousands or
// millions if it must; – for NaN.
func fit(v metrics.Number, decimals, width int) string {
	if !v.Defined() {
		return "–"
	}
	for _, unit := range []struct {
		size float64
		name string
	}{{1, ""}, {1e3, "k"}, {1e6, "M"}} {
		for d := decimals; d >= 0; d-- {
			if s := strconv.FormatFloat(float64(v)/unit.size, 'f', d, 64) + unit.name; len(s) <= width {
				return s
			}
		}
		decimals = 1
	}
	return strconv.FormatFloat(float64(v), 'e', 0, 64)
}

// shorten cuts the beginning of a path that is longer than n columns.
func shorten(path string, n int) string {
	if excess := utf8.RuneCountInString(path) - n; excess > 0 {
		return "…" + string([]rune(path)[excess+1:])
	}
	return path
}
