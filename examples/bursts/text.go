package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"servesim/examples/internal/terminal"
	"servesim/sim/metrics"
)

// printText writes the report in 80 columns.
func printText(w io.Writer, r report) error {
	var b bytes.Buffer
	printArrivals(&b, r.Arrivals)
	printScenario(&b, r.LongPrompt.Scenario)
	printResults(&b, r.LongPrompt)
	printReading(&b, r.LongPrompt)
	_, err := w.Write(b.Bytes())
	return err
}

func printArrivals(b *bytes.Buffer, a arrivals) {
	fmt.Fprintf(b, "SAME RATE, OTHER ARRIVALS: %v requests/s, %v ms of service each, one at a time\n\n", a.RatePerS, a.ServiceMs)
	for _, p := range a.Patterns {
		fmt.Fprintf(b, "  %s  %s\n", p.Name, p.Text)
	}
	fmt.Fprintf(b, "\nWait in ms of the 1st, 2nd, … request of each second\n\n   ")
	for i := range a.Patterns[0].WaitsMs {
		fmt.Fprintf(b, " %5d", i+1)
	}
	fmt.Fprintf(b, " %8s\n", "mean")
	for _, p := range a.Patterns {
		fmt.Fprintf(b, "  %s", p.Name)
		for _, wait := range p.WaitsMs {
			fmt.Fprintf(b, " %5.0f", wait)
		}
		fmt.Fprintf(b, " %8s\n", figure("%.0f", p.MeanMs))
	}
	fmt.Fprintf(b, "\n    %7s %14s %14s %10s %10s %8s\n", "busy", "waiting, most", "L in system", "λ per s", "W ms", "λ·W")
	for _, p := range a.Patterns {
		fmt.Fprintf(b, "  %s %6s%% %14d %14s %10s %10s %8s\n", p.Name, figure("%.0f", p.Busy*100), p.Waiting,
			figure("%.1f", p.L), figure("%.1f", p.Lambda), figure("%.0f", p.WMs), figure("%.1f", p.Lambda*p.WMs/1e3))
	}
	first, last := a.Patterns[0], a.Patterns[len(a.Patterns)-1]
	b.WriteByte('\n')
	terminal.Wrap(b, "", fmt.Sprintf("Look at the mean wait: the same requests at the same rate wait %s ms in %s and %s ms in %s. "+
		"Little's law, L = λW, holds for both: %s and %s requests are in the system.",
		figure("%.0f", first.MeanMs), first.Name, figure("%.0f", last.MeanMs), last.Name, figure("%.1f", first.L), figure("%.1f", last.L)))
	for _, p := range a.Patterns {
		if p.Finding != "" {
			terminal.Wrap(b, "", fmt.Sprintf("%s: %s.", p.Name, p.Finding))
		}
	}
}

func printScenario(b *bytes.Buffer, s scenario) {
	fmt.Fprintf(b, "\nA LONG PROMPT AT THE HEAD OF EACH BURST\n\n")
	terminal.Wrap(b, "  bursts  ", fmt.Sprintf("%d, one every %s: a prompt of %d tokens and behind it %d of %d; every answer has %d tokens",
		s.Bursts, seconds(s.Every), s.LongPrompt, s.Size, s.ShortPrompt, s.Output))
	if s.Order == "arrival" {
		terminal.Wrap(b, "  queue   ", "in order of arrival (-order shortest-prompt: the short ones pass)")
	} else {
		terminal.Wrap(b, "  queue   ", "shortest prompt first: the short ones pass (-order arrival: they do not)")
	}
	if s.Cost == "linear" {
		terminal.Wrap(b, "  cost    ", fmt.Sprintf("linear: %v ms a step and %v ms a prompt token; memory never runs out (-cost transformer: a model on a GPU)",
			ms(teaching.Fixed), ms(teaching.PerPromptToken)))
	} else {
		terminal.Wrap(b, "  cost    ", fmt.Sprintf("transformer: %s on %d × %s, %d KV blocks; a prediction (-cost linear: one to check by hand)",
			s.Model, s.TensorParallel, s.GPU, s.KVBlocks))
	}
}

// resultRow is a row of the table, 80 columns.
const resultRow = "%-13s %7s %6s %6s %6s %6s %6s %8s %7s %6s\n"

func printResults(b *bytes.Buffer, l longPrompt) {
	fmt.Fprintf(b, "\n%-13s %7s %13s %13s %15s %7s %6s\n", "", "step", "TTFT short, s", "TTFT long, s", "gap, ms", "prompt", "last")
	fmt.Fprintf(b, resultRow, "scheduler", "tokens", "p50", "max", "p50", "max", "p50", "max", "in max", "end, s")
	for _, r := range l.Results {
		prompt := "–"
		if r.ITL.N > 0 {
			prompt = fit(float64(r.GapPrompt), 0, 7)
		}
		in := func(v metrics.Number) string { return fit(float64(v)/1e3, 2, 6) }
		fmt.Fprintf(b, resultRow, r.Scheduler, strconv.Itoa(r.StepTokens),
			in(r.TTFTShort.P50), in(r.TTFTShort.Max), in(r.TTFTLong.P50), in(r.TTFTLong.Max),
			fit(float64(r.ITL.P50), 1, 6), fit(float64(r.ITL.Max), 1, 8), prompt, fit(r.EndS, 2, 6))
	}
	b.WriteByte('\n')
	terminal.Wrap(b, "", "\"Step tokens\" is the most that a step computes: schedulers that compute prompts whole need room for the longest. "+
		"TTFT counts from the arrival. A gap lies between two tokens of one request; "+
		"\"prompt in max\" counts the prompt tokens computed during the largest one.")
	for _, r := range l.Results {
		for _, x := range r.Rejections {
			terminal.Wrap(b, "", fmt.Sprintf("%s, %d: %d of %d requests rejected, %s", r.Scheduler, r.StepTokens, x.Count, r.Completed+r.Rejected, x.Reason))
		}
		if r.Preemptions > 0 {
			terminal.Wrap(b, "", fmt.Sprintf("%s, %d: %d preemptions", r.Scheduler, r.StepTokens, r.Preemptions))
		}
	}
}

// printReading says what to look at, in words that hold for any figures.
func printReading(b *bytes.Buffer, l longPrompt) {
	named := func(name string) *result {
		i := slices.IndexFunc(l.Results, func(r result) bool { return r.Scheduler == name })
		return &l.Results[i]
	}
	batch, continuous, chunked := named("request-batch"), named("continuous"), named("chunked")
	for i := range l.Results {
		if r := &l.Results[i]; r.Scheduler == "chunked" && r.StepTokens < chunked.StepTokens {
			chunked = r
		}
	}
	fmt.Fprintf(b, "\nLook at\n")
	point := func(name, text string) { terminal.Wrap(b, fmt.Sprintf("  %-13s ", name), text) }
	point("request-batch", "starts nobody until its batch has ended."+
		than(" The median short request waits %.2f s for its first token, %s.", batch.TTFTShort.P50/1e3, continuous.TTFTShort.P50/1e3)+
		gapText(batch)+
		than(" The last request ends at %.2f s, %s.", metrics.Number(batch.EndS), metrics.Number(continuous.EndS)))
	point("continuous", "starts requests between any two steps, but computes prompts whole."+gapText(continuous))
	at := fmt.Sprintf(" At %d tokens a step", chunked.StepTokens)
	point("chunked", "computes the decodes first and fills the step with pieces of prompts."+
		than(at+fmt.Sprintf(" the largest gap, with %d prompt tokens in it, is", chunked.GapPrompt)+" %.1f ms, %s.", chunked.ITL.Max, continuous.ITL.Max)+
		than(at+" the long prompt's first token takes %.2f s, %s.", chunked.TTFTLong.P50/1e3, continuous.TTFTLong.P50/1e3))
	switch {
	case continuous.Rejected > 0:
	case l.Scenario.Order == "arrival":
		point("short prompts", "stand behind the long one in every queue, whether it is computed whole or in pieces. With shortest-prompt they pass, and it pays.")
	default:
		point("short prompts", "pass the long one of their burst in the queue, and it waits for them. With arrival it goes first.")
	}
	point("work", workText(l.Results))
}

// gapText says what the largest gap is made of.
func gapText(r *result) string {
	switch {
	case r.ITL.N == 0:
		return " Answers of one token have no gaps."
	case r.GapPrompt == 0:
		return fmt.Sprintf(" Its largest gap, %s ms, has no prompt in it: decodes are not disturbed.", figure("%.1f", r.ITL.Max))
	}
	text := fmt.Sprintf(" Its largest gap, %s ms, is %s times the median one: decodes stand still, here for %d prompt tokens.",
		figure("%.1f", r.ITL.Max), ratio(float64(r.ITL.Max/r.ITL.P50)), r.GapPrompt)
	if r.Preemptions > 0 {
		text += " A preempted request waits on top."
	}
	return text
}

// than formats a value and how it compares with that of continuous. It is
// empty if one of them is undefined.
func than(format string, value, reference metrics.Number) string {
	if !value.Defined() || !reference.Defined() || value <= 0 || reference <= 0 {
		return ""
	}
	compared := ""
	switch q := float64(value / reference); {
	case q == 1:
		compared = "as with continuous"
	case q > 1:
		compared = ratio(q) + " times that of continuous"
	default:
		compared = ratio(q) + " of that of continuous"
	}
	return fmt.Sprintf(format, float64(value), compared)
}

// workText compares what the schedulers computed.
func workText(results []result) string {
	same := true
	for _, r := range results {
		same = same && r.Positions == results[0].Positions
	}
	if same {
		return fmt.Sprintf("All computed the same %d positions. A scheduler removes no work; it chooses which request pays.", results[0].Positions)
	}
	var b strings.Builder
	b.WriteString("The schedulers computed")
	for i, r := range results {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %d (%s %d)", r.Positions, r.Scheduler, r.StepTokens)
	}
	b.WriteString(" positions: preempted requests are computed again, rejected ones not at all.")
	return b.String()
}

// ratio formats a ratio: 41, 6.7, 1.35, 0.48, 1/41.
func ratio(q float64) string {
	switch {
	case q >= 10:
		return fmt.Sprintf("%.0f", q)
	case q >= 2:
		return fmt.Sprintf("%.1f", q)
	case q > 0.1:
		return fmt.Sprintf("%.2f", q)
	}
	return fmt.Sprintf("1/%.0f", 1/q)
}

// fit formats v with as many decimals as fit into the width, – for NaN.
func fit(v float64, decimals, width int) string {
	if math.IsNaN(v) {
		return "–"
	}
	for ; decimals >= 0; decimals-- {
		if s := strconv.FormatFloat(v, 'f', decimals, 64); len(s) <= width {
			return s
		}
	}
	return strconv.FormatFloat(v, 'e', 0, 64)
}

func figure(format string, v metrics.Number) string {
	if !v.Defined() {
		return "–"
	}
	return fmt.Sprintf(format, float64(v))
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'g', -1, 64) + " s" }
