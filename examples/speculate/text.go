package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"servesim/examples/internal/terminal"
	"servesim/sim/metrics"
)

// printText writes the report in 80 columns.
func printText(w io.Writer, r report) error {
	var b bytes.Buffer
	printByHand(&b, r.ByHand)
	printScenario(&b, r.Comparison.Scenario)
	printRows(&b, r.Comparison)
	printReading(&b, r.Comparison)
	_, err := w.Write(b.Bytes())
	return err
}

func printByHand(b *bytes.Buffer, h byHand) {
	fmt.Fprintf(b, "ONE STEP BY HAND: %d requests, a small roofline\n\n", h.Requests)
	terminal.Wrap(b, "  step     ", fmt.Sprintf("T = %v + max(M/%.0e B/s, F/%.0e op/s): M is %.0f bytes and %.0f for each request, F is %.0f operations for each position",
		byHandCost.Overhead, byHandCost.Bandwidth, byHandCost.Rate, byHandCost.SharedBytes, byHandCost.ContextBytesPerRequest, byHandCost.OpsPerPosition))
	terminal.Wrap(b, "  drafts   ", fmt.Sprintf("at least 1, 2 and 3 are right with a probability of %s", probabilities(byHandAccepted)))
	fmt.Fprintf(b, "\n  drafts  positions  useful tokens  step, µs  bound    useful tokens/s\n")
	for _, o := range h.Options {
		mark := ""
		if o.Positions == h.Chosen {
			mark = "  chosen"
		}
		fmt.Fprintf(b, "  %6d  %9d  %13.0f  %8.0f  %-7s  %15.0f%s\n", o.Drafts, o.Positions, o.Useful, o.StepUs, o.Bound, o.PerS, mark)
	}
	last, best := h.Options[len(h.Options)-1], h.fastest()
	b.WriteByte('\n')
	terminal.Wrap(b, "", fmt.Sprintf("Look at the last column: %d positions bring more tokens a step than %d, %.0f in place of %.0f, and fewer a second. "+
		"Checked is not accepted, and beyond the transfer's time every position costs its own.", last.Positions, best.Positions, last.Useful, best.Useful))
}

func printScenario(b *bytes.Buffer, s scenario) {
	fmt.Fprintf(b, "\nFIXED AGAINST VARIABLE, FROM ONE REQUEST AT A TIME TO MANY\n\n")
	terminal.Wrap(b, "  fixed      ", fmt.Sprintf("%d drafts of each request in every step", s.Fixed))
	terminal.Wrap(b, "  variable   ", fmt.Sprintf("up to %d, in each step as many as have the most expected tokens per time; it knows prices and acceptance exactly", s.Most))
	a := s.Acceptance
	if a.File == "" {
		terminal.Wrap(b, "  acceptance ", fmt.Sprintf("a draft is right with a probability of %v if those before it are (-acceptance FILE: a measured curve)", a.Constant))
	} else {
		terminal.Wrap(b, "  acceptance ", fmt.Sprintf("%s of %s: what each draft adds to the measured mean length, averaged where that rises, 0 where it falls; mean lengths deviate by %.2f tokens at most. "+
			"The curve belongs to that model and its drafter, the prices to the model below", a.Curve, a.File, a.Deviation))
	}
	terminal.Wrap(b, "             ", "at least 1, 2, … are right: "+probabilities(a.PerPosition))
	terminal.Wrap(b, "  step       ", fmt.Sprintf("%s on %d × %s, BF16, a prediction", s.Model, s.TensorParallel, s.GPU))
	terminal.Wrap(b, "  drafter    ", "one layer of the model and its head, run once for each draft that a step checks; its memory is not counted")
	terminal.Wrap(b, "  load       ", fmt.Sprintf("prompts of %d tokens, answers of %d; measured while all requests decode, from the last prompt to the first end; %d requests at least, in rounds",
		s.Prompt, s.Output, enough))
}

// tableRow has 80 columns.
const tableRow = "%8s %8s %8s %6s %7s %6s %6s %6s %6s %5s %4s\n"

func printRows(b *bytes.Buffer, c comparison) {
	fmt.Fprintf(b, "\n%8s %17s %6s %7s %13s %13s %10s\n", "", "tokens/s", "", "drafts", "accepted", "step, ms", "compute, %")
	fmt.Fprintf(b, tableRow, "requests", "fixed", "variable", "ratio", "variab.", "fixed", "var.", "fixed", "var.", "fixed", "var.")
	for _, r := range c.Rows {
		f, v := r.Fixed, r.Variable
		fmt.Fprintf(b, tableRow, strconv.Itoa(r.Requests), fit(f.TokensS, 0, 8), fit(v.TokensS, 0, 8), fit(r.Ratio, 3, 6), fit(v.Drafts, 2, 6),
			fit(f.Accepted, 2, 6), fit(v.Accepted, 2, 6), fit(f.StepMs, 1, 6), fit(v.StepMs, 1, 6), fit(f.Compute*100, 0, 5), fit(v.Compute*100, 0, 4))
	}
	b.WriteByte('\n')
	terminal.Wrap(b, "", "\"Drafts\" and \"accepted\" count per request and step; the model's own token comes on top. "+
		"\"Compute\" is the part of the model's time in operators that wait for arithmetic; the others wait for memory, or the host.")
}

// printReading says where the variable number gains and why, from the figures.
func printReading(b *bytes.Buffer, c comparison) {
	var fewer, same, more []row
	for _, r := range c.Rows {
		switch d := float64(r.Variable.Drafts) - float64(c.Scenario.Fixed); {
		case !r.Ratio.Defined():
		case d < -0.5:
			fewer = append(fewer, r)
		case d > 0.5:
			more = append(more, r)
		default:
			same = append(same, r)
		}
	}
	fmt.Fprintf(b, "\nLook at\n")
	group := func(name string, rows []row, why func(row) string) {
		if len(rows) > 0 {
			last := rows[len(rows)-1]
			terminal.Wrap(b, fmt.Sprintf("  %-13s ", name), fmt.Sprintf("%s: the variable number brings %s times the tokens of the fixed one. %s",
				requestsOf(rows), span(rows, func(r row) float64 { return float64(r.Ratio) }, "%.3f"), why(last)))
		}
	}
	group("fewer drafts", fewer, func(r row) string { return fewerText(c, fewer[0], r) })
	group("the same", same, func(r row) string {
		return fmt.Sprintf("About %d drafts are the best number there, and a policy that varies it has nothing to gain. %s", c.Scenario.Fixed, marginText(r))
	})
	group("more drafts", more, func(r row) string {
		price := ": a position more is cheap, and"
		if r.Fixed.Compute >= 0.005 {
			price = "; even so,"
		}
		return fmt.Sprintf("%s%s drafts beyond the fixed %d are right often enough. %s", waits(r), price, c.Scenario.Fixed, marginText(r))
	})
	if len(c.Rows) > 0 {
		printRates(b, c)
	}
	terminal.Wrap(b, "  left out      ", "estimates that are wrong, drafts made and not checked, kernels captured for one shape. "+
		"By these a real policy can lose where the fixed number is right; here hardly anything but chance makes a ratio fall below 1."+publishedText(c))
}

// publishedText compares with what the source of the idea estimates.
func publishedText(c comparison) string {
	at := func(requests int) (metrics.Number, bool) {
		i := slices.IndexFunc(c.Rows, func(r row) bool { return r.Requests == requests && r.Ratio.Defined() })
		if i < 0 {
			return 0, false
		}
		return c.Rows[i].Ratio, true
	}
	few, ok1 := at(16)
	many, ok2 := at(96)
	if !ok1 || !ok2 || c.Scenario.Fixed != 5 {
		return ""
	}
	return fmt.Sprintf(" A published estimate against 5 drafts, for a system of its own, is -1.5 %% at 16 concurrent requests per rank and +11 %% at 96; here it is %+.1f %% and %+.1f %%.",
		100*float64(few-1), 100*float64(many-1))
}

// fewerText says why fewer drafts than the fixed number are better, in the
// first and the last row where they are.
func fewerText(c comparison, first, last row) string {
	text := ""
	if first.Fixed.Compute < 0.005 {
		text = fmt.Sprintf("%s, but the drafter's passes take %s %% of it, and draft %d is right in %.0f %% of the steps only. ",
			waits(first), fit(first.Fixed.DraftShare*100, 0, 5), c.Scenario.Fixed, 100*c.Scenario.Acceptance.PerPosition[c.Scenario.Fixed-1])
	}
	if last.Fixed.Compute >= 0.005 {
		text += fmt.Sprintf("%s; fewer positions make it %s ms in place of %s. ", waits(last), fit(last.Variable.StepMs, 1, 8), fit(last.Fixed.StepMs, 1, 8))
	}
	return text + marginText(last)
}

// printRates converts steps into tokens where that is allowed.
func printRates(b *bytes.Buffer, c comparison) {
	r := c.Rows[len(c.Rows)-1]
	if !r.Ratio.Defined() {
		return
	}
	rate := stepRate{StepsPerS: 1e3 / float64(r.Fixed.StepMs), Requests: r.Requests, Drafts: c.Scenario.Fixed}
	text := ""
	if r.Fixed.FullPerS.Defined() {
		tau := 1 + float64(r.Fixed.Accepted)
		useful, _ := rate.useful(tau) // one number of drafts
		text = fmt.Sprintf("%.1f steps/s × %d requests × %d positions are %.0f tokens/s if every draft is right, and %.0f at the %.2f that come. ",
			rate.StepsPerS, rate.Requests, 1+rate.Drafts, float64(r.Fixed.FullPerS), useful, tau)
	}
	if !r.Variable.FullPerS.Defined() {
		text += fmt.Sprintf("For the variable policy it is refused: %v.", errVariable)
	}
	if text != "" {
		terminal.Wrap(b, "  conversion    ", text)
	}
}

// waits says how much of the fixed step waits for arithmetic.
func waits(r row) string {
	if r.Fixed.Compute < 0.005 {
		return fmt.Sprintf("With %s nothing in the fixed step waits for arithmetic", requestsOf([]row{r}))
	}
	return fmt.Sprintf("With %s %s %% of the fixed step wait for arithmetic", requestsOf([]row{r}), fit(r.Fixed.Compute*100, 0, 5))
}

// marginText compares what one more draft costs and brings.
func marginText(r row) string {
	cost := r.DraftUs / r.StepUs
	if !r.Next.Defined() {
		return fmt.Sprintf("One more draft would make the step %.1f %% longer, and -most forbids it.", 100*cost)
	}
	gain := float64(r.Next) / (1 + float64(r.Variable.Accepted))
	all := ""
	if r.Requests > 1 {
		all = fmt.Sprintf(" for all %d", r.Requests)
	}
	return fmt.Sprintf("One more draft%s would make the step %.1f %% longer and bring %.1f %% more tokens.", all, 100*cost, 100*gain)
}

// requestsOf names the rows by their requests.
func requestsOf(rows []row) string {
	texts := make([]string, len(rows))
	for i, r := range rows {
		texts[i] = strconv.Itoa(r.Requests)
	}
	return strings.Join(texts, ", ") + plural(len(rows) == 1 && rows[0].Requests == 1, " request", " requests")
}

func plural(one bool, singular, several string) string {
	if one {
		return singular
	}
	return several
}

// span formats the least and the largest value.
func span(rows []row, value func(row) float64, format string) string {
	least, most := math.Inf(1), math.Inf(-1)
	for _, r := range rows {
		least, most = min(least, value(r)), max(most, value(r))
	}
	low, high := fmt.Sprintf(format, least), fmt.Sprintf(format, most)
	if low == high {
		return low
	}
	return low + " to " + high
}

func probabilities(list []float64) string {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = strconv.FormatFloat(math.Round(p*1000)/1000, 'f', -1, 64)
	}
	return strings.Join(texts, ", ")
}

// fit formats v with as many decimals as fit into the width, – for NaN.
func fit(v metrics.Number, decimals, width int) string {
	if !v.Defined() {
		return "–"
	}
	for ; decimals >= 0; decimals-- {
		if s := strconv.FormatFloat(float64(v), 'f', decimals, 64); len(s) <= width {
			return s
		}
	}
	return strconv.FormatFloat(float64(v), 'e', 0, 64)
}
