package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"servesim/examples/internal/terminal"
	"servesim/workload"
)

// text lays out an outcome in 80 columns.
type text struct{ strings.Builder }

// row writes a labelled paragraph.
func (t *text) row(label, format string, values ...any) {
	terminal.Wrap(t, fmt.Sprintf("%-12s", label), fmt.Sprintf(format, values...))
}

// writeText writes the outcome in 80 columns.
func writeText(w io.Writer, out Output) error {
	var t text
	t.row("file", "%s", out.File)
	t.row("format", "%s", out.Format)
	if out.Rows != nil {
		t.row("", "%s", out.Rows)
	}
	if d := out.Workload; d != nil {
		switch {
		case out.Starts != nil:
			t.arrivals("sessions", *out.Starts, *out.StartShape)
		case d.Span == 0:
			t.row("arrivals", "all at once")
		default:
			t.arrivals("requests", *d, out.Shape.Arrivals)
		}
		t.lengths(*d, out.Shape.Lengths)
	}
	if out.Sharing != nil {
		t.sharing(*out.Sharing)
	}
	if out.Continuations != nil {
		t.continuations(*out.Continuations)
	}
	if out.Parts != nil {
		t.parts(*out.Parts)
	}
	if out.Sessions != nil {
		t.sessions(*out.Sessions)
	}
	if out.Tokens != nil {
		t.row("ids", "%d", out.Tokens.IDs)
		t.summaries("tokens", map[string]workload.Summary{"of an id": out.Tokens.Tokens}, "of an id")
	}
	if out.Clients != nil {
		t.clients(*out.Clients)
	}
	if out.Fields != nil {
		t.fields(out.Fields)
	}
	t.WriteByte('\n')
	terminal.Wrap(&t, "", out.Conventions)
	_, err := io.WriteString(w, t.String())
	return err
}

// arrivals writes what is known of when things arrive.
func (t *text) arrivals(what string, d workload.Description, a workload.ArrivalShape) {
	t.row("arrivals", "%s %s/s over %s s (by gaps %s), gap CV %s",
		digits(d.Rate), what, digits(d.Span), digits(1/a.MeanGap), digits(d.GapCV))
	t.row("", "longest gap %s s, autocorrelation of gaps %s", digits(a.LongestGap), decimals(a.GapACF, 3))
	if b := a.Batches; a.ZeroGaps > 0 {
		t.row("", "%s of gaps are 0: %d batches of mean %s, dispersion %s, p99 %s, max %s, autocorrelation %s",
			percent(a.ZeroGaps, 1), b.Batches, decimals(b.Mean, 2), decimals(b.IDC, 2), digits(b.P99), digits(b.Max), decimals(b.ACF, 2))
	}
	if !defined(a.EmptySeconds) {
		return
	}
	t.row("", "%s of seconds are empty; autocorrelation of counts 1, 10, 60 s apart %s, %s, %s",
		percent(a.EmptySeconds, 1), decimals(a.CountACF1, 2), decimals(a.CountACF10, 2), decimals(a.CountACF60, 2))
	const line = "%-12s%8s%8s%10s%10s%10s\n"
	fmt.Fprintf(t, "\n"+line, "counts in", "windows", "of s", "IDC", "p99/mean", "max/mean")
	for _, w := range a.Windows {
		fmt.Fprintf(t, line, "", strconv.Itoa(w.Windows), strconv.Itoa(w.Seconds), digits(w.IDC), digits(w.P99), digits(w.Max))
	}
}

// lengths writes what is known of lengths.
func (t *text) lengths(d workload.Description, l workload.JointShape) {
	t.summaries("tokens", map[string]workload.Summary{"prompt": d.Prompt, "output": d.Output}, "prompt", "output")
	t.row("", "most frequent: prompt %s (%s), output %s (%s); outputs of one token %s",
		digits(l.PromptMode), percent(l.PromptModeShare, 1), digits(l.OutputMode), percent(l.OutputModeShare, 1), percent(l.OneToken, 1))
	t.row("jointly", "Pearson %s, of logarithms %s, Spearman %s, eta² %s, %s prompt tokens for one of output",
		decimals(l.Pearson, 2), decimals(l.PearsonLog, 2), decimals(d.Spearman, 2), decimals(l.EtaSquared, 3), digits(l.TokenRatio))
	var means []string
	for _, m := range l.OutputByDecile {
		means = append(means, decimals(m, 0))
	}
	t.row("", "mean output by tenths of the prompts: %s", strings.Join(means, " "))
}

// summaries writes a table of two lines per name.
func (t *text) summaries(label string, s map[string]workload.Summary, names ...string) {
	const line = "%-12s%8s%8s%8s%8s%8s%8s%8s\n"
	fmt.Fprintf(t, "\n"+line, label, "mean", "CV", "min", "p5", "p25", "p50", "p75")
	fmt.Fprintf(t, line, "", "", "", "p90", "p95", "p99", "p99.9", "max")
	for _, n := range names {
		v := s[n]
		fmt.Fprintf(t, line, n, digits(v.Mean), decimals(v.CV, 2), digits(v.Min), digits(v.P5), digits(v.P25), digits(v.P50), digits(v.P75))
		fmt.Fprintf(t, line, "", "", "", digits(v.P90), digits(v.P95), digits(v.P99), digits(v.P999), digits(v.Max))
	}
}

func (t *text) sharing(s workload.Sharing) {
	t.WriteByte('\n')
	if s.BlockTokens == 0 {
		t.row("prefixes", "none")
		return
	}
	t.row("prefixes", "%d blocks of %d tokens, %d distinct, %d first ones; %s are used once, the top 1 %% make %s",
		s.Blocks, s.BlockTokens, s.Distinct, s.Roots, percent(s.Once, 1), percent(s.Top1, 1))
	t.row("found", "%s of blocks, %s of prompt tokens; %s of requests find some, %s their whole prompt",
		decimals(s.BlockHits, 3), decimals(s.TokenHits, 3), decimals(s.AnyHit, 4), decimals(s.WholeHit, 3))
	t.row("", "per request mean %s, p50 %s, p90 %s", decimals(s.HitMean, 3), decimals(s.HitP50, 3), decimals(s.HitP90, 3))
	var limited []string
	for _, l := range s.Limited {
		limited = append(limited, fmt.Sprintf("%s in %d", decimals(l.BlockHits, 3), l.CacheBlocks))
	}
	if limited != nil {
		t.row("", "of blocks in caches of so many blocks: %s", strings.Join(limited, ", "))
	}
}

func (t *text) continuations(c workload.Continuations) {
	t.row("continue", "%d requests, %s, seem to continue an earlier one, up to %d in a row", c.Requests, percent(c.Share, 1), c.Longest)
	if c.Requests > 0 {
		t.row("", "behind its arrival by p10 %s, p50 %s, p90 %s s", digits(c.GapP10), digits(c.GapP50), digits(c.GapP90))
	}
}

func (t *text) parts(p Parts) {
	var shares []string
	for _, s := range p.Shares {
		shares = append(shares, fmt.Sprintf("%s %s", s.Kind, percent(s.Tokens, 1)))
	}
	t.row("parts", "%s; the most frequent first part begins %s of prompts", strings.Join(shares, ", "), percent(p.TopSystemPrompt, 1))
	t.row("", "found of their tokens, in the order of the file: %s behind equal parts, %s leading parts that were anywhere, %s anywhere",
		decimals(p.Tree, 3), decimals(p.Leading, 3), decimals(p.Anywhere, 3))
}

func (t *text) sessions(s Sessions) {
	n, p := s.Requests, s.Pauses
	t.row("sessions", "%d, of requests mean %s, p90 %s, p99 %s, max %s; %s have one",
		s.Sessions, decimals(n.Mean, 2), digits(n.P90), digits(n.P99), digits(n.Max), percent(s.Single, 1))
	t.row("", "pauses between %s p25 %s, p50 %s, p75 %s, p95 %s s", s.Between, digits(p.P25), digits(p.P50), digits(p.P75), digits(p.P95))
}

func (t *text) clients(c Clients) {
	t.row("clients", "%d, %s s in windows of %s s; %s of windows have requests, %s of these are fitted by a gamma distribution",
		c.Clients, number(c.SpanS), number(c.WindowS), percent(c.Active, 0), percent(c.Gamma, 0))
	t.row("rate", "mean %s, p95 %s, max %s requests/s; busiest to quietest hour %s", digits(c.Rate.Mean), digits(c.Rate.P95), digits(c.Rate.Max), decimals(c.PeakToTrough, 2))
	t.row("shares", "of the top client %s, 5 %s, 10 %s; %d make 90 %%; Gini %s",
		decimals(c.Top1, 2), decimals(c.Top5, 2), decimals(c.Top10, 2), c.For90, decimals(c.Gini, 2))
	t.row("gap CV", "p25 %s, p50 %s, p75 %s, p95 %s, weighted by rate %s", decimals(c.CV.P25, 2), decimals(c.CV.P50, 2), decimals(c.CV.P75, 2), decimals(c.CV.P95, 2), decimals(c.CVByRate, 2))
}

func (t *text) fields(fields []Field) {
	const line = "%-16s%10s%10s%10s%10s%10s\n"
	fmt.Fprintf(t, "\n"+line, "field", "windows", "mean", "p50", "p99", "is 1")
	for _, f := range fields {
		fmt.Fprintf(t, line, f.Name, strconv.Itoa(f.Windows), digits(f.Mean), digits(f.P50), digits(f.P99), percent(f.One, 1))
	}
}

func defined(f workload.Figure) bool { return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) }

// digits formats four significant digits, whole numbers whole.
func digits(f workload.Figure) string {
	switch v := float64(f); {
	case !defined(f):
		return "–"
	case math.Abs(v) >= 1000 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	default:
		return fmt.Sprintf("%#.4g", v)
	}
}

// decimals formats so many decimals.
func decimals(f workload.Figure, n int) string {
	if !defined(f) {
		return "–"
	}
	return strconv.FormatFloat(float64(f), 'f', n, 64)
}

func percent(f workload.Figure, n int) string {
	if !defined(f) {
		return "–"
	}
	return decimals(100*f, n) + " %"
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
