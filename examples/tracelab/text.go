package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"servesim/examples/internal/terminal"
	"servesim/sim/profile"
)

// print writes the report in 80 columns.
func (r *report) print(b *bytes.Buffer) {
	if r.Trace != nil {
		terminal.Wrap(b, "TRACE ", r.File)
		b.WriteByte('\n')
		r.Trace.printRows(b)
		r.Trace.printFigures(b)
	}
	if r.Lab != nil {
		r.printLab(b)
	}
	if r.Replay != nil {
		r.printReplay(b)
	}
}

func (r *report) printLab(b *bytes.Buffer) {
	b.WriteString("FIVE REQUESTS\n\n")
	r.Lab.printRows(b)
	r.Lab.printFigures(b)
	terminal.Wrap(b, "means      ", fmt.Sprintf("one mean a request: %s; pooled, long answers weigh more", r.Lab.MeanGaps))
	terminal.Wrap(b, "percentile ", "nearest rank")

	fmt.Fprintf(b, "\nE DELIVERED %s MS LATER\n\n", figure(r.LateMs))
	r.Late.printRows(b)
	r.Late.printFigures(b)
	terminal.Wrap(b, "reads      ", "TTFT, publish gap and rate move; queue, prompt and gaps do not: the engine did the same")

	b.WriteString("\nA REQUEST THAT WAITS\n\n")
	r.Waiting.printRows(b)
	terminal.Wrap(b, "\nreads      ", "half the work is not half the time: the wait stays")

	b.WriteString("\nREFUSED\n\n")
	for _, x := range r.Refused {
		terminal.Wrap(b, "  ", x)
	}
}

// mostRows is how many requests are printed; -json has all.
const mostRows = 40

func (t *table) printRows(b *bytes.Buffer) {
	fmt.Fprintf(b, "%-14s%9s%9s%9s%9s%9s  %s\n", "ms", "arrival", "queue", "prompt", "publish", "TTFT", "gaps")
	for _, r := range t.Rows[:min(mostRows, len(t.Rows))] {
		fmt.Fprintf(b, "%-14s%9s%9s%9s%9s%9s  %s\n", terminal.Name(r.ID, 13), figure(r.ArrivalMs), figure(r.QueueMs), figure(r.PromptMs), figure(r.PublishMs), figure(r.TTFTMs), gaps(r.GapsMs))
	}
	if n := len(t.Rows) - mostRows; n > 0 {
		fmt.Fprintf(b, "… and %d more\n", n)
	}
}

// gaps lists the first few within 19 columns.
func gaps(values []float64) string {
	if len(values) == 0 {
		return "–"
	}
	var text string
	for i, v := range values {
		next := figure(profile.Number(v))
		if len(text)+len(next) > 16 {
			return fmt.Sprintf("%s …", text)
		}
		if i > 0 {
			text += " "
		}
		text += next
	}
	return text
}

func (t *table) printFigures(b *bytes.Buffer) {
	b.WriteByte('\n')
	terminal.Wrap(b, "TTFT       ", t.TTFT.String())
	terminal.Wrap(b, "gaps       ", t.Gaps.String())
	terminal.Wrap(b, "rate       ", fmt.Sprintf("%d tokens over %s ms, first arrival to last delivery: %s tokens/s; no steady rate of decoding", t.Tokens, figure(t.SpanMs), figure1(t.TokensPerS)))
}

// String formats a summary in ms.
func (s summary) String() string {
	if s.N == 0 {
		return "none"
	}
	return fmt.Sprintf("n %d, mean %s, p50 %s, p95 %s ms", s.N, figure(s.Mean), figure(s.P50), figure(s.P95))
}

func (r *report) printReplay(b *bytes.Buffer) {
	p := r.Replay
	terminal.Wrap(b, "RECORDING  ", terminal.Name(p.Path, 200))
	terminal.Wrap(b, "sessions   ", fmt.Sprintf("%d of %d rounds; %d without prompt or output are left out", p.Sessions, p.Rounds, p.Dropped))
	terminal.Wrap(b, "replica    ", fmt.Sprintf("%s on %s, prefix cache, chunks of %d tokens", p.Model, p.GPU, stepTokens))
	terminal.Wrap(b, "closed     ", "a round is sent when the answer before it has come and its tools are done: slow answers hold the load back")
	terminal.Wrap(b, "open       ", fmt.Sprintf("a round is sent when a guess of %s ms a token says that it would be: the feedback of the sessions is lost", figure(profile.Number(p.GuessMs))))
	terminal.Wrap(b, "speed      ", "at which sessions arrive; what lies within a session keeps its time")
	fmt.Fprintf(b, "\n%37s%16s%8s%7s%7s\n", "TTFT ms", "gap ms", "in", "last", "out")
	fmt.Fprintf(b, "%5s  %-6s%8s%8s%8s%8s%8s%8s%7s%7s\n", "speed", "loop", "mean", "p50", "p95", "mean", "p95", "system", "s", "tok/s")
	rejected := 0
	for _, x := range r.Replays {
		rejected += x.Rejected
		fmt.Fprintf(b, "%5v  %-6s%8s%8s%8s%8s%8s%8s%7s%7s\n", x.Speed, x.Loop, figure1(x.TTFT.Mean), figure1(x.TTFT.P50), figure1(x.TTFT.P95),
			figure(x.Gaps.Mean), figure(x.Gaps.P95), figure1(x.InSystem), figure1(x.SpanMs/1000), figure0(x.TokensPerS))
	}
	if rejected > 0 {
		terminal.Wrap(b, "\nrejected   ", fmt.Sprintf("%d rounds, too long for the replica", rejected))
	}
	terminal.Wrap(b, "\npercentile ", "nearest rank; gaps are pooled. In system: the mean between arrival and last token. Last: from the first arrival to the last token")
}

// figure prints with as many digits as there are, at most two behind the point.
func figure(v profile.Number) string { return digits(v, 2) }

func figure1(v profile.Number) string { return digits(v, 1) }

func figure0(v profile.Number) string { return digits(v, 0) }

func digits(v profile.Number, n int) string {
	if !v.Defined() {
		return "–"
	}
	s := strconv.FormatFloat(float64(v), 'f', n, 64)
	if n > 0 {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	if len(s) > 8 {
		s = strconv.FormatFloat(float64(v), 'e', 1, 64)
	}
	return s
}
