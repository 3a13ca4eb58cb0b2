package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

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
	if r.Simulation != nil {
		r.Simulation.print(b)
	}
}

// mostSpans is how many spans are printed; -json has all.
const mostSpans = 40

func (a *advice) print(b *bytes.Buffer) {
	terminal.Wrap(b, "WORKFLOW ", terminal.Name(a.Workflow, 200))
	fmt.Fprintf(b, "\n%11s%11s%11s%11s  %s\n", "start ms", "end ms", "takes ms", "slack ms", "span")
	for _, s := range a.Spans[:min(mostSpans, len(a.Spans))] {
		slack := figure(s.SlackMs)
		if s.Critical {
			slack = "critical"
		}
		fmt.Fprintf(b, "%11s%11s%11s%11s  %s\n", figure(s.StartMs), figure(s.EndMs), figure(s.EndMs-s.StartMs), slack, terminal.Name(s.Name, 34))
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
		text := fmt.Sprintf("%s %s", terminal.Name(w.Span, 34), figure(w.SaveMs))
		if w.SaveMs < w.TakeMs {
			text += fmt.Sprintf(" of %s, then another branch is critical", figure(w.TakeMs))
		}
		parts = append(parts, text)
	}
	terminal.Wrap(b, "at most     ", "ms saved if a span took no time: "+strings.Join(parts, "; "))
	if a.Cases == nil {
		return
	}
	simulated := slices.ContainsFunc(a.Cases, func(c saved) bool { return c.Run != nil })
	fmt.Fprintf(b, "\n%-26s%10s%10s%13s", "what if", "saves ms", "total ms", "first token")
	if simulated {
		fmt.Fprintf(b, "%11s%10s", "run: total", "first")
	}
	for _, c := range a.Cases {
		fmt.Fprintf(b, "\n%-26s%10s%10s%13s", c.Case, figure(c.SaveMs), figure(c.TotalMs), figure(c.FirstTokenMs))
		if c.Run != nil {
			fmt.Fprintf(b, "%11s%10s", figure(c.Run.TotalMs), figure(c.Run.FirstTokenMs))
		}
	}
	b.WriteByte('\n')
}

// sum lists the phases of a chain: "network_in 70 + gateway 500".
func sum(phases []profile.PhaseTime) string {
	parts := make([]string, 0, len(phases))
	for _, p := range phases[:min(20, len(phases))] {
		parts = append(parts, fmt.Sprintf("%s %s", terminal.Name(p.Phase, 34), figure(p.Ms)))
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

// print writes the run of one assistant, and those of many.
func (r *simulation) print(b *bytes.Buffer) {
	fmt.Fprintf(b, "\nTHE SAME AS A RUN OF THE ENGINE\n\n")
	terminal.Wrap(b, "first token ", fmt.Sprintf("%s ms = %s", figure(r.Alone.FirstTokenMs), sum(r.Alone.FirstTokenPhases)))
	terminal.Wrap(b, "total       ", fmt.Sprintf("%s ms = %s", figure(r.Alone.TotalMs), sum(r.Alone.Phases)))
	terminal.Wrap(b, "queue       ", "a document of another user, 13,400 tokens, in a step of 1020 ms")
	terminal.Wrap(b, "what if     ", "runs show what spans cannot: a shorter prompt is also faster to decode; 24 ms is a token's share of the time, not the last gaps; "+
		"a faster GPU shortens the queue too; a document that stays takes what the retrieval saved")
	l := r.Load
	fmt.Fprintf(b, "\nUNDER LOAD\n\n")
	terminal.Wrap(b, "load   ", fmt.Sprintf("%d assistants, %v a second; documents, %v a second; Poisson, seed %d", l.Workflows, l.Rate, l.Documents, l.Seed))
	fmt.Fprintf(b, "\n%-28s%16s%18s%9s\n", "", "first token s", "total s", "in")
	fmt.Fprintf(b, "%-28s%8s%8s%9s%9s%9s%9s\n", "what if", "p50", "p95", "p50", "p95", fmt.Sprintf("%v s %%", r.DeadlineS), "failed")
	for _, c := range r.UnderLoad {
		fmt.Fprintf(b, "%-28s%8s%8s%9s%9s%9.1f%9d\n", c.Case, seconds(c.FirstTokenP50Ms), seconds(c.FirstTokenP95Ms), seconds(c.TotalP50Ms), seconds(c.TotalP95Ms), 100*c.InTime, c.Failed)
	}
	b.WriteByte('\n')
	terminal.Wrap(b, "critical path ", "as it is, mean ms: "+sum(r.UnderLoad[0].Phases))
}

// seconds prints milliseconds as seconds.
func seconds(v profile.Number) string {
	if !v.Defined() {
		return "–"
	}
	return strconv.FormatFloat(float64(v)/1000, 'f', 2, 64)
}
