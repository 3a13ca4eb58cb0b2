package main

import (
	"bytes"
	"fmt"
	"io"
)

// printText writes the report in 80 columns.
func printText(w io.Writer, r report) error {
	var b bytes.Buffer
	printDecode(&b, r.Teaching)
	printWhatIf(&b, r.Teaching)
	printVerification(&b, r.Teaching)
	printLimited(&b, r.Teaching)
	printDevice(&b, r.Device)
	_, err := w.Write(b.Bytes())
	return err
}

func printDecode(b *bytes.Buffer, t teaching) {
	c := t.Constants
	fmt.Fprintf(b, "ONE STEP of R requests that evaluate N positions\n")
	fmt.Fprintf(b, "T(R, N) = h + max(M/W, F/P): a %s; without h it is a lower bound\n", t.Claim)
	fmt.Fprintf(b, "M = %.0f kB + %.0f kB·R   F = %.0f Mop·N   W = %.0f GB/s   P = %.0f Top/s   h = %.0f µs\n\n",
		c.SharedBytes/1e3, c.ContextBytes/1e3, c.OpsPerPosition/1e6, c.Bandwidth/1e9, c.Rate/1e12, c.OverheadUs)
	fmt.Fprintf(b, "Plain decode, N = R\n\n")
	fmt.Fprintf(b, "%5s %12s %11s %9s %10s  %-8s %7s %8s\n", "R", "transfer µs", "compute µs", "step µs", "tokens/s", "bound", "op/B", "Gop/s")
	for _, p := range t.Decode {
		fmt.Fprintf(b, "%5d %12.1f %11.1f %9.1f %10.0f  %-8s %7.3f %8.1f\n", p.Requests, p.TransferUs, p.ComputeUs,
			p.StepUs, p.TokenRate, p.Bound, p.Intensity, p.Attainable/1e9)
	}
	fmt.Fprintf(b, "\nCrossover at R = N = %d, %.0f op/B. No batch passes %.0f tokens/s.\n", t.Crossover, t.OpsPerByte, t.RateLimit)
	g := t.Growth
	fmt.Fprintf(b, "From R = %d to %d: time ×%.3f, rate ×%.3f.\n", g.From, g.To, g.Time, g.Rate)
	u := t.Unequal
	fmt.Fprintf(b, "Steps of %d and %d in turn: %.0f tokens/s, total over total. (The mean of the\ntwo step rates, %.0f, is the rate of nothing.)\n",
		u.Requests[0], u.Requests[1], u.Rate, u.MeanRate)
}

func printWhatIf(b *bytes.Buffer, t teaching) {
	fmt.Fprintf(b, "\nWHAT IF, N = R\n\n")
	fmt.Fprintf(b, "%-27s %4s %10s %9s %10s  %s\n", "change", "R", "before µs", "after µs", "tokens/s", "bound")
	for _, w := range t.WhatIf {
		p := w.After
		fmt.Fprintf(b, "%-27s %4d %10.1f %9.1f %10.0f  %s\n", w.Change, p.Requests, w.BeforeUs, p.StepUs, p.TokenRate, p.Bound)
	}
}

func printVerification(b *bytes.Buffer, t teaching) {
	fmt.Fprintf(b, "\nVERIFICATION by %d requests: more positions share one read of the context\n\n", t.Verification[0].Requests)
	fmt.Fprintf(b, "%5s %12s %11s %9s  %-8s %7s %9s\n", "N", "transfer µs", "compute µs", "step µs", "bound", "useful", "useful/s")
	for _, v := range t.Verification {
		useful, rate := "–", "–"
		if v.Useful != nil {
			useful, rate = fmt.Sprint(*v.Useful), fmt.Sprintf("%.0f", *v.UsefulRate)
		}
		fmt.Fprintf(b, "%5d %12.1f %11.1f %9.1f  %-8s %7s %9s\n", v.Positions, v.TransferUs, v.ComputeUs, v.StepUs, v.Bound, useful, rate)
	}
	fmt.Fprintf(b, "\n%d positions are free. N = %d has the best rate of useful tokens.\n", t.Free, t.BestUseful)
}

func printLimited(b *bytes.Buffer, t teaching) {
	fmt.Fprintf(b, "\nWITHIN %.0f µs, N = R\n\n", t.Limited[0].LimitUs)
	fmt.Fprintf(b, "%-18s %9s %9s %10s %12s %12s\n", "change", "largest R", "step µs", "tokens/s", "one more µs", "never above")
	for _, l := range t.Limited {
		fmt.Fprintf(b, "%-18s %9d %9.1f %10.0f %12.1f %12.0f\n", l.Change, l.Largest.Requests, l.Largest.StepUs,
			l.Largest.TokenRate, l.Next.StepUs, l.Limit)
	}
	last := t.Limited[len(t.Limited)-1]
	fmt.Fprintf(b, "\nKeeping R = %d with %s would take %.0f µs.\n", last.AtBase.Requests, last.Change, last.AtBase.StepUs)
}

func printDevice(b *bytes.Buffer, d device) {
	name := d.GPU
	if d.Degree > 1 {
		name = fmt.Sprintf("%d × %s", d.Degree, d.GPU)
	}
	fmt.Fprintf(b, "\n%s on %s: decode with %d tokens of context each (%s)\n\n", d.Model, name, d.Context, d.Claim)
	fmt.Fprintf(b, "%5s %9s %9s %9s %10s %8s %8s %10s\n", "batch", "floor ms", "step ms", "matrices", "attention", "others", "host", "tokens/s")
	note := false
	for _, p := range d.Batches {
		mark := ""
		if !p.Fits {
			mark, note = " *", true
		}
		fmt.Fprintf(b, "%5d %9.2f %9.2f %9.2f %10.2f %8.2f %8.2f %10.0f%s\n", p.Batch, p.FloorMs, p.StepMs,
			p.MatricesMs, p.AttentionMs, p.OtherMs, p.HostMs, p.TokenRate, mark)
	}
	fmt.Fprintf(b, "\n%.2f billion parameters; on each GPU %.1f GB of weights and %d KV blocks of\n%d tokens at %.0f B: %d requests fit.",
		float64(d.Params)/1e9, d.WeightBytes/1e9, d.Blocks, d.BlockTokens, d.KVBytes, d.FittingBatch)
	if note {
		fmt.Fprintf(b, " (* does not fit)")
	}
	fmt.Fprintf(b, "\nThe floor is the datasheet's: no overhead, every peak reached.\n")
	fmt.Fprintf(b, "A prompt of %d tokens takes %.1f ms alone.\n", d.PrefillTokens, d.PrefillMs)
}
