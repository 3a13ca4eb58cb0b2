package main

import (
	"fmt"
	"io"
	"strings"

	"servesim/sim/metrics"
)

// tableHead is a row of the table: 79 columns.
const tableHead = "%-13s %7s %6s %6s %6s %6s %6s %5s %6s %5s %5s\n"

// writeText writes the outcome in 80 columns.
func writeText(w io.Writer, out Output) error {
	m, d := out.Config, out.Workload
	var b strings.Builder
	source := m.Preset
	if m.Recording != "" {
		source = m.Recording
	}
	fmt.Fprintf(&b, "workload   %s, %d requests at %s/s\n", source, d.Requests, d.Rate)
	fmt.Fprintf(&b, "           gap CV %s, index of dispersion %s / %s / %s at 1 / 10 / 60 s\n", d.GapCV, d.IDC1, d.IDC10, d.IDC60)
	fmt.Fprintf(&b, "           prompt p50 %s p95 %s, output p50 %s p95 %s tokens\n", d.Prompt.P50, d.Prompt.P95, d.Output.P50, d.Output.P95)
	if out.Dropped != nil && out.Dropped.Dropped() > 0 {
		fmt.Fprintf(&b, "           %d of %d rows dropped: %+v\n", out.Dropped.Dropped(), out.Dropped.Read, *out.Dropped)
	}
	fmt.Fprintf(&b, "deployment %s, %d × %d × %s, %d KV blocks of %d tokens each\n", m.Model, m.Replicas, m.TensorParallel, m.GPU, m.KVBlocks, m.BlockTokens)
	fmt.Fprintf(&b, "targets    TTFT %v ms, gap %v ms (p95 of each request's gaps)\n\n", m.TTFTTargetMs, m.GapTargetMs)

	fmt.Fprintf(&b, tableHead, "", "", "TTFT", "ms", "ITL", "ms", "E2E", "out", "good", "met", "KV")
	fmt.Fprintf(&b, tableHead, "scheduler", "p50", "p95", "p99", "p95", "p99", "p95 s", "tok/s", "req/s", "%", "%")
	for _, r := range out.Results {
		fmt.Fprintf(&b, tableHead, r.Scheduler, whole(r.TTFT.P50), whole(r.TTFT.P95), whole(r.TTFT.P99), ms(r.ITL.P95), whole(r.ITL.P99),
			seconds(r.E2E.P95), whole(r.TokenThroughput), figure("%.2f", r.Goodput), percent(r.Attainment), percent(r.KVPeak))
	}
	writeEnds(&b, out.Results)
	writeComparisons(&b, out)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeEnds says what became of the requests.
func writeEnds(b *strings.Builder, results []Result) {
	fmt.Fprintln(b)
	for _, r := range results {
		fmt.Fprintf(b, "%-14s %d completed, %d rejected, %d unfinished, %d preemptions; %d steps\n",
			r.Scheduler, r.Completed, r.Rejected, r.Unfinished, r.Preemptions, r.Steps)
		for _, x := range r.Rejections {
			fmt.Fprintf(b, "%-14s   rejected %d: %s\n", "", x.Count, x.Reason)
		}
		for _, f := range r.Findings {
			fmt.Fprintf(b, "%-14s   finding: %s\n", "", f)
		}
	}
}

// writeComparisons says which scheduler wins and how sure that is.
func writeComparisons(b *strings.Builder, out Output) {
	fmt.Fprintln(b)
	if len(out.Comparisons) == 0 {
		fmt.Fprintln(b, "One run per scheduler: differences come without an interval.")
	}
	for _, c := range out.Comparisons {
		verdict := "is ahead of"
		if c.Low <= 0 {
			verdict = "cannot be told from"
		}
		fmt.Fprintf(b, "%s %s %s in goodput: %+.2f req/s\n  (95 %% interval %+.2f … %+.2f, %d paired seeds)",
			c.Scheduler, verdict, c.Than, c.Difference, c.Low, c.High, c.Seeds)
		if c.RatioLow > 0 {
			fmt.Fprintf(b, ", %.2f times (%.2f … %.2f)", c.Ratio, c.RatioLow, c.RatioHigh)
		}
		fmt.Fprintln(b)
	}
	fmt.Fprint(b, "\nTTFT from the intended arrival; ITL pools every gap; linear percentiles.\n"+
		"good: completed requests that met both targets; met: their share of arrivals;\n"+
		"KV: peak share of the usable blocks. All times are virtual.\n")
}

func figure(format string, v metrics.Number) string {
	if !v.Defined() {
		return "–"
	}
	return fmt.Sprintf(format, float64(v))
}

func whole(v metrics.Number) string   { return figure("%.0f", v) }
func ms(v metrics.Number) string      { return figure("%.1f", v) }
func seconds(v metrics.Number) string { return figure("%.2f", v/1000) }
func percent(v metrics.Number) string { return figure("%.1f", v*100) }
