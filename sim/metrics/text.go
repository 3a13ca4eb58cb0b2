package metrics

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// WriteText writes the report as a table of at most 80 columns, with the
// definitions of its figures below.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	if r.retried() {
		fmt.Fprintf(&b, "%d arrived, %d completed, %d failed, %d unfinished\n",
			r.Arrived, r.Completed, r.Failed, r.Unfinished)
	} else {
		fmt.Fprintf(&b, "%d arrived, %d completed, %d rejected, %d aborted, %d unfinished\n",
			r.Arrived, r.Completed, r.Rejected, r.Aborted, r.Unfinished)
	}
	writeLost(&b, &r.Cell)
	fmt.Fprintf(&b, "%d steps, %d tokens, %d preemptions; measured from %v to %v of %v s\n",
		r.Steps, r.Tokens, r.Preemptions, r.WindowFromS, r.WindowToS, r.SimulatedS)

	writeLatencies(&b, &r.Cell, fmt.Sprintf("ms, %s percentiles, %s", r.Percentiles, r.Mode))
	writeRates(&b, &r.Cell, r.rule())
	writeLoad(&b, &r.Load)
	fmt.Fprintf(&b, "\nLittle's law: L %v, λ %v/s, W %v s, residual %v\n",
		r.Little.L, r.Little.Lambda, r.Little.W, r.Little.Residual)
	for _, f := range r.Findings {
		writeWrapped(&b, "finding: "+f)
	}
	if len(r.Classes) > 1 {
		for i := range r.Classes {
			k := &r.Classes[i]
			if k.retried() {
				fmt.Fprintf(&b, "\nclass %s: %d arrived, %d completed, %d failed,\n  %d unfinished, %d preemptions\n",
					k.Class, k.Arrived, k.Completed, k.Failed, k.Unfinished, k.Preemptions)
			} else {
				fmt.Fprintf(&b, "\nclass %s: %d arrived, %d completed, %d rejected, %d aborted,\n  %d unfinished, %d preemptions\n",
					k.Class, k.Arrived, k.Completed, k.Rejected, k.Aborted, k.Unfinished, k.Preemptions)
			}
			writeLost(&b, k)
			writeLatencies(&b, k, "ms")
			writeRates(&b, k, r.rule())
		}
	}
	b.WriteString("\n" + Definitions)
	if r.retried() {
		b.WriteString(RetryDefinitions)
	}
	if r.Deferred > 0 {
		b.WriteString(DeferralDefinitions)
	}
	if r.Client != nil {
		b.WriteString(ClientDefinitions)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// rule says how targets are judged.
func (r *Report) rule() string {
	if r.Boundary == AtClient.String() {
		return r.GapRule + ",\n  all targets at the client"
	}
	return r.GapRule
}

// retried reports whether a client tried again.
func (k *Cell) retried() bool { return k.Attempts != k.Arrived }

// writeLost tells what was refused, given up and made to wait.
func writeLost(b *strings.Builder, k *Cell) {
	if k.retried() {
		fmt.Fprintf(b, "  %d attempts: %d rejected, %d aborted\n", k.Attempts, k.Rejected, k.Aborted)
	}
	for _, x := range k.Rejections {
		fmt.Fprintf(b, "  rejected %d: %s, %d prompt tokens\n", x.Count, x.Reason, x.Prompt)
	}
	if k.Aborted > 0 {
		fmt.Fprintf(b, "  aborted %d: %d prompt tokens, %d output tokens\n", k.Aborted, k.AbortedPrompt, k.AbortedOutput)
	}
	if k.Deferred > 0 {
		fmt.Fprintf(b, "  deferred %d: %d prompt tokens, %d still wait\n  deferred for %v ms mean, %v ms max\n",
			k.Deferred, k.DeferredPrompt, k.StillDeferred, k.DeferredMean, k.DeferredMax)
	}
}

func writeLatencies(b *strings.Builder, k *Cell, title string) {
	writeSummaries(b, title, &k.TTFT, &k.ITL, &k.TPOT, &k.E2E)
	if c := k.Client; c != nil {
		writeSummaries(b, "at the client, ms", &c.TTFT, &c.ITL, &c.TPOT, &c.E2E)
		if c.FirstUnknown > 0 {
			fmt.Fprintf(b, "%d with a first token at an unknown instant\n", c.FirstUnknown)
		}
	}
	if k.OneToken > 0 {
		fmt.Fprintf(b, "%d completed with one token and have no TPOT\n", k.OneToken)
	}
}

func writeSummaries(b *strings.Builder, title string, summaries ...*Summary) {
	fmt.Fprintf(b, "\n%s\n%-5s%9s%11s%11s%11s%11s%11s%11s\n", title, "", "n", "mean", "p50", "p90", "p95", "p99", "max")
	for i, s := range summaries {
		flag := func(p string, v Number) string {
			if slices.Contains(s.Few, p) {
				return v.String() + "*"
			}
			return v.String()
		}
		fmt.Fprintf(b, "%-5s%9d%11v%11s%11s%11s%11s%11v\n", [...]string{"TTFT", "ITL", "TPOT", "E2E"}[i], s.N, s.Mean,
			flag("p50", s.P50), flag("p90", s.P90), flag("p95", s.P95), flag("p99", s.P99), s.Max)
	}
}

func writeRates(b *strings.Builder, k *Cell, rule string) {
	fmt.Fprintf(b, "\nthroughput %v tokens/s, %v requests/s; goodput %v requests/s\n",
		k.TokenThroughput, k.RequestThroughput, k.Goodput)
	fmt.Fprintf(b, "attainment %v: %d of %d (gap target by %s)\n", k.Attainment, k.Met, k.Arrived, rule)
	if k.retried() {
		fmt.Fprintf(b, "attempts %v/s, %v per request\n", k.AttemptRate, over(float64(k.Attempts), float64(k.Arrived)))
	}
}

func writeLoad(b *strings.Builder, o *Load) {
	fmt.Fprintf(b, "\n%-37s%11s%11s\n", "over time", "mean", "peak")
	row := func(name string, mean Number, peak fmt.Stringer) {
		fmt.Fprintf(b, "%-37s%11v%11v\n", name, mean, peak)
	}
	if o.DoorPeak > 0 {
		row("deferred at the front door", o.DoorMean, count(o.DoorPeak))
	}
	row("waiting in the queues", o.QueueMean, count(o.QueuePeak))
	row("running", o.RunningMean, count(o.RunningPeak))
	row("in the system", o.InSystemMean, count(o.InSystemPeak))
	row("batch, sequences, over busy time", o.BatchMean, count(o.BatchPeak))
	row("batch, sequences, per step", o.BatchPerStep, count(o.BatchPeak))
	row("KV blocks in use, fraction of usable", o.KVMean, o.KVPeak)
	fmt.Fprintf(b, "%-37s%11v\n", "busy, fraction of time", o.Busy)
}

type count int64

func (n count) String() string { return fmt.Sprint(int64(n)) }

// writeWrapped breaks s at spaces so that no line passes 80 columns.
func writeWrapped(b *strings.Builder, s string) {
	column := 0
	for _, word := range strings.Fields(s) {
		n := len([]rune(word))
		switch {
		case column == 0:
		case column+1+n > 80:
			b.WriteString("\n  ")
			column = 2
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	b.WriteByte('\n')
}
