package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"servesim/examples/internal/terminal"
	"servesim/sim/profile"
)

// print writes the report in 80 columns.
func (r *report) print(b *bytes.Buffer) {
	for i := range r.Workflows {
		if i > 0 {
			b.WriteByte('\n')
		}
		r.Workflows[i].print(b)
	}
	if r.FirstCall != nil {
		printFirstCall(b, r.FirstCall)
	}
}

// mostSpans is how many spans are printed; -json has all.
const mostSpans = 40

func (a *advice) print(b *bytes.Buffer) {
	terminal.Wrap(b, "WORKFLOW ", shown(a.Workflow, 200))
	fmt.Fprintf(b, "\n%11s%11s%11s%11s  %s\n", "start ms", "end ms", "takes ms", "slack ms", "span")
	for _, s := range a.Spans[:min(mostSpans, len(a.Spans))] {
		slack := figure(s.SlackMs)
		if s.Critical {
			slack = "critical"
		}
		fmt.Fprintf(b, "%11s%11s%11s%11s  %s\n", figure(s.StartMs), figure(s.EndMs), figure(s.EndMs-s.StartMs), slack, shown(s.Name, 34))
	}
	if n := len(a.Spans) - mostSpans; n > 0 {
		fmt.Fprintf(b, "%46s  … and %d more\n", "", n)
	}
	b.WriteByte('\n')
	if a.FirstTokenMs.Defined() {
		terminal.Wrap(b, "first token ", fmt.Sprintf("%s ms = %s", figure(a.FirstTokenMs), sum(a.FirstTokenPhases)))
	}
	terminal.Wrap(b, "total       ", fmt.Sprintf("%s ms = %s", figure(a.TotalMs), sum(a.Phases)))
	if a.WaitMs > 0 {
		terminal.Wrap(b, "waits       ", fmt.Sprintf("%s ms of the critical path lie between spans: coordination, or work that nobody recorded", figure(a.WaitMs)))
	}
	var parts []string
	for _, w := range a.Worth[:min(6, len(a.Worth))] {
		text := fmt.Sprintf("%s %s", shown(w.Span, 34), figure(w.SaveMs))
		if w.SaveMs < w.TakeMs {
			text += fmt.Sprintf(" of %s, then another branch is critical", figure(w.TakeMs))
		}
		parts = append(parts, text)
	}
	terminal.Wrap(b, "at most     ", "ms saved if a span took no time: "+strings.Join(parts, "; "))
	if a.Cases == nil {
		return
	}
	fmt.Fprintf(b, "\n%-28s%14s%14s%14s\n", "what if", "saves ms", "total ms", "first token")
	for _, c := range a.Cases {
		fmt.Fprintf(b, "%-28s%14s%14s%14s\n", c.Case, figure(c.SaveMs), figure(c.TotalMs), figure(c.FirstTokenMs))
	}
}

// sum lists the phases of a chain: "network_in 70 + gateway 500".
func sum(phases []profile.PhaseTime) string {
	parts := make([]string, 0, len(phases))
	for _, p := range phases[:min(20, len(phases))] {
		parts = append(parts, fmt.Sprintf("%s %s", shown(p.Phase, 34), figure(p.Ms)))
	}
	if len(parts) < len(phases) {
		parts = append(parts, "…")
	}
	return strings.Join(parts, " + ")
}

func printFirstCall(b *bytes.Buffer, r *profile.Report) {
	fmt.Fprintf(b, "\nTHE FIRST CALL AS A PROFILE\n\n")
	d := r.DominantTTFT
	terminal.Wrap(b, "TTFT     ", fmt.Sprintf("%v ms, dominated by %s: %v ms", r.TTFT.Mean, d.Phase, d.MeanMs))
	terminal.Wrap(b, "test     ", d.NextTest)
	terminal.Wrap(b, "residual ", fmt.Sprintf("%v ms: first decode and return were not told apart, and no phase gets them", r.ResidualMs))
	terminal.Wrap(b, "gaps     ", fmt.Sprintf("18 tokens over 396 ms have 17 gaps of %v ms; 396/18 = 22 divides by tokens", r.ITL.Mean))
}

// figure prints milliseconds with as many digits as they have, at most two.
func figure(v profile.Number) string {
	if !v.Defined() {
		return "–"
	}
	s := strconv.FormatFloat(float64(v), 'f', 2, 64)
	s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	if s == "-0" || s == "" {
		s = "0"
	}
	if len(s) > 10 {
		s = strconv.FormatFloat(float64(v), 'e', 3, 64)
	}
	return s
}

// shown keeps a name from a file on one line and within a column.
func shown(name string, most int) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) {
		name = strconv.Quote(name)
	}
	if utf8.RuneCountInString(name) > most {
		name = string([]rune(name)[:most-1]) + "…"
	}
	return name
}
