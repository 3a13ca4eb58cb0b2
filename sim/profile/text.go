package profile

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Definitions states what the figures of a report mean. Every text report ends
// with it.
const Definitions = `TTFT     first token at the client - client_send
ITL      stream / (output tokens - 1): one mean a request, none for one token
E2E      last token at the client - client_send
phases   seven spans that tile E2E; prefill includes waits between its chunks
–        undefined or not measured
*        too few observations lie beyond the percentile to trust it
`

// columns is the width of the text.
const columns = 80

// WriteText writes the report in at most 80 columns, with the definitions of
// its figures below. Names of the trace are cut where they are longer.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	r.writeHead(&b)
	r.writeLatencies(&b)
	r.writePhases(&b)
	r.writeDominant(&b)
	for i := range r.Tails {
		r.Tails[i].write(&b)
	}
	r.writeGroups(&b)
	r.writeDelivery(&b)
	r.writeLoad(&b)
	for i, f := range r.Findings {
		if i == 0 {
			b.WriteByte('\n')
		}
		wrap(&b, "finding: ", f)
	}
	b.WriteString("\n" + Definitions)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) writeHead(b *strings.Builder) {
	head := plural(r.Requests, "request")
	if r.OneToken > 0 {
		head += fmt.Sprintf(", %d with one token and no gap", r.OneToken)
	}
	if r.Partial > 0 {
		head += fmt.Sprintf(", %d partial", r.Partial)
	}
	wrap(b, "", head)
	c := &r.Coordinates
	for _, line := range [][2]string{{"boundary", c.Boundary}, {"metric", c.Metric}, {"percentile", c.Percentile},
		{"arrivals", c.Arrivals}, {"shape", c.Shape}} {
		wrap(b, fmt.Sprintf("%-12s", line[0]), oneLine(line[1]))
	}
}

func (r *Report) writeLatencies(b *strings.Builder) {
	fmt.Fprintf(b, "\n%-17s%8s%11s%11s%11s%11s%11s\n", "ms", "n", "mean", "p50", "p95", "p99", "max")
	for _, row := range []struct {
		name string
		l    *Latency
	}{{"TTFT", &r.TTFT}, {"ITL", &r.ITL}, {"E2E", &r.E2E}, {"server TTFT", &r.Delivery.ServerTTFT}} {
		l := row.l
		few := func(name string, v Number) string {
			mark := ""
			if slices.Contains(l.Few, name) {
				mark = "*"
			}
			return fit(v, 10-len(mark)) + mark
		}
		fmt.Fprintf(b, "%-17s%8d%11s%11s%11s%11s%11s\n", row.name, l.N, fit(l.Mean, 10), fit(l.P50, 10), few("p95", l.P95), few("p99", l.P99), fit(l.Max, 10))
	}
}

func (r *Report) writePhases(b *strings.Builder) {
	fmt.Fprintf(b, "\n%-17s%8s%11s%11s%11s%11s%11s\n", "phase, ms", "n", "mean", "of E2E", "p50", "p95", "max")
	for _, f := range r.Phases {
		fmt.Fprintf(b, "%-17s%8d%11s%11s%11s%11s%11s\n", f.Phase, f.N, fit(f.MeanMs, 10), shareText(over(float64(f.MeanMs), float64(r.E2E.Mean))),
			fit(f.P50Ms, 10), fit(f.P95Ms, 10), fit(f.MaxMs, 10))
	}
	if r.Partial > 0 {
		fmt.Fprintf(b, "%-17s%8s%11s%11s\n", residual, "", fit(r.ResidualMs, 10), shareText(over(float64(r.ResidualMs), float64(r.E2E.Mean))))
	}
	b.WriteString("Means add up to the mean E2E; percentiles of phases do not add.\n")
}

func (r *Report) writeDominant(b *strings.Builder) {
	b.WriteByte('\n')
	for _, d := range []struct {
		name string
		Dominant
	}{{"TTFT", r.DominantTTFT}, {"E2E", r.DominantE2E}} {
		if !d.MeanMs.Defined() {
			wrap(b, d.name+"  ", "not measured")
			continue
		}
		wrap(b, fmt.Sprintf("%-6s", d.name), fmt.Sprintf("dominated by %s: %v ms mean, %s", d.Phase, d.MeanMs, shareText(d.Share)))
		wrap(b, "      next test ", d.NextTest)
		wrap(b, "      then      ", d.Change)
	}
}

func (t *Tail) write(b *strings.Builder) {
	name := strings.ToUpper(t.Metric)
	if t.Rest == 0 {
		fmt.Fprintf(b, "\nNobody is above p%s of %s, %v ms: all take the same\n", significant(100*float64(t.Quantile)), name, t.ThresholdMs)
		return
	}
	fmt.Fprintf(b, "\nAbove p%s of %s, %v ms: %s against %d\n", significant(100*float64(t.Quantile)), name, t.ThresholdMs, plural(t.N, "request"), t.Rest)
	ids := make([]string, len(t.IDs))
	for i, id := range t.IDs {
		ids[i] = shorten(oneLine(id), 60)
	}
	if t.N > len(ids) {
		ids = append(ids, "…")
	}
	wrap(b, "  slowest  ", strings.Join(ids, " "))
	var parts []string
	for _, e := range t.Excess {
		if e.Share > 0.05 || e.Share < -0.05 {
			parts = append(parts, fmt.Sprintf("%s %s (%v against %v ms)", e.Phase, shareText(e.Share), e.TailMs, e.RestMs))
		}
	}
	wrap(b, "  excess   ", fmt.Sprintf("%v ms in the mean: %s", t.MeanMs-t.RestMeanMs, strings.Join(parts, ", ")))
	parts = nil
	for _, f := range t.Factors {
		if f.Distinct {
			parts = append(parts, f.text())
		}
	}
	if parts == nil {
		parts = []string{"nothing that chance could not do with sets of this size"}
	}
	wrap(b, "  distinct ", strings.Join(parts, ", "))
}

// text: "in_flight 31 against 12", "class=document 100 % against 6 %".
func (f *Factor) text() string {
	format := func(v Number) string { return significant(float64(v)) }
	if strings.Contains(f.Name, "=") {
		format = shareText
	}
	return fmt.Sprintf("%s %s against %s", shorten(oneLine(f.Name), 60), format(f.Tail), format(f.Rest))
}

func (r *Report) writeGroups(b *strings.Builder) {
	for _, g := range r.Groups {
		if len(g.Cells) < 2 {
			continue
		}
		fmt.Fprintf(b, "\n%-17s%8s%9s%9s%9s%10s  %s\n", "by "+g.By, "n", "TTFT p50", "p95", "ITL p95", "E2E p95", "TTFT dominated")
		for _, c := range g.Cells {
			name := shorten(oneLine(c.Name), 16)
			if c.Few {
				fmt.Fprintf(b, "%s%8d  too few to say\n", pad(name, 17), c.N)
				continue
			}
			fmt.Fprintf(b, "%s%8d%9s%9s%9s%10s  %s\n", pad(name, 17), c.N, fit(c.P50TTFT, 8), fit(c.P95TTFT, 8), fit(c.P95ITL, 8), fit(c.P95E2E, 9), c.DominantTTFT)
		}
	}
}

func (r *Report) writeDelivery(b *strings.Builder) {
	d := &r.Delivery
	b.WriteByte('\n')
	if d.Verdict == NotMeasured {
		wrap(b, "delivery    ", fmt.Sprintf("server to client p50 %v ms; gaps at both ends: %s, %s", d.Path.P50, NotMeasured, d.Reason))
		return
	}
	wrap(b, "delivery    ", fmt.Sprintf("%s: %s. Over %s; server to client p50 %v ms", d.Verdict, d.Reason, plural(d.Requests, "request"), d.Path.P50))
	fmt.Fprintf(b, "%-17s%8s%11s%11s%11s%11s%11s\n", "gaps, ms, pooled", "n", "mean", "p50", "p95", "p99", "max")
	for _, end := range []struct {
		name string
		s    *GapShape
	}{{"  server", &d.ServerGaps}, {"  client", &d.ClientGaps}} {
		m := &end.s.Ms
		fmt.Fprintf(b, "%-17s%8d%11s%11s%11s%11s%11s\n", end.name, m.N, fit(m.Mean, 10), fit(m.P50, 10), fit(m.P95, 10), fit(m.P99, 10), fit(m.Max, 10))
	}
}

func (r *Report) writeLoad(b *strings.Builder) {
	a, l := &r.Arrivals, &r.Little
	wrap(b, "load        ", fmt.Sprintf("%s/s sent over %s s, gap CV %s; in the system %s = %s/s × %s s (Little's law)",
		a.RatePerS.digits(2), a.SpanS.digits(2), a.GapCV.digits(2), l.InSystem.digits(2), l.RatePerS.digits(2), l.MeanS.digits(2)))
	if t := r.Targets; t != nil {
		var parts []string
		for _, x := range []struct {
			name   string
			target Number
			met    int
		}{{"TTFT", t.TTFTMs, t.MetTTFT}, {"mean gap", t.ITLMs, t.MetITL}, {"E2E", t.E2EMs, t.MetE2E}} {
			if x.target.Defined() {
				parts = append(parts, fmt.Sprintf("%s %s ms by %d", x.name, significant(float64(x.target)), x.met))
			}
		}
		wrap(b, "targets     ", fmt.Sprintf("met together by %d of %d, %s; alone: %s", t.Met, r.Requests, shareText(t.Attainment), strings.Join(parts, ", ")))
	}
}

// fit formats v with one digit behind the point, or with an exponent where
// that is wider than the column.
func fit(v Number, width int) string {
	s := v.String()
	if utf8.RuneCountInString(s) > width {
		s = fmt.Sprintf("%.2e", float64(v))
	}
	return s
}

// pad is %-*s for text whose characters are longer than a byte.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// shorten cuts s to a number of characters.
func shorten(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// wrap writes text behind label, broken between words. Further lines are
// indented by the width of the label.
func wrap(b *strings.Builder, label, text string) {
	indent := utf8.RuneCountInString(label)
	b.WriteString(label)
	column := indent
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case column == indent:
		case column+1+n > columns:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	b.WriteByte('\n')
}
