package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// printText writes the report as tables.
func printText(out io.Writer, r report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if len(r.Kernels) > 0 {
		printKernels(w, r.Kernels)
	}
	if len(r.Layers) > 0 {
		fmt.Fprint(w, "\nLayers without attention, two models left out at a time (MAPE)\nGPU\tmodels\tall\t≤ 64 tokens\t≤ 512\tmore\tworst pair\ttarget\t\t\n")
		for _, l := range r.Layers {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", l.GPU, l.Models, percent(l.Held.MAPE), percent(l.Decode.MAPE), percent(l.Knee.MAPE),
				percent(l.Prefill.MAPE), percent(l.Worst), percent(l.Target), verdict(l.Met))
		}
	}
	if len(r.Steps) > 0 {
		fmt.Fprint(w, "\nStatic batches of whole engines, other half of the shapes (MAPE)\nGPU\tmodel\tTP\tprompts ≤ 2048 tokens\tfixed part\tlonger\tdecode steps\ttarget\t\t\n")
		for _, s := range r.Steps {
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", s.GPU, s.Model, s.TP, percent(s.Prompt.MAPE), s.Fixed, percent(s.Long.MAPE),
				percent(s.Decode.MAPE), percent(s.Target), verdict(s.Met))
		}
		for _, s := range r.Steps {
			if s.Fell != "" {
				fmt.Fprintf(w, "%s %s TP %d, measured: %s\n", s.GPU, s.Model, s.TP, s.Fell)
			}
		}
	}
	if len(r.Loops) > 0 {
		printLoops(w, r)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, run := range r.Runs {
		if err := printRun(out, run); err != nil {
			return err
		}
	}
	for _, path := range r.Absent {
		fmt.Fprintf(out, "not in the data: %s\n", path)
	}
	for _, why := range r.LeftOut {
		fmt.Fprintf(out, "run left out: %s\n", why)
	}
	return nil
}

func printKernels(w io.Writer, list []*fitted) {
	fmt.Fprint(w, "Kernels, on the geometries that the fit did not see (all-reduce: sizes)\nGPU\toperator\tn\tMAPE\tmedian\tbias\tcross-validated\troofline\tinterpolation\ttarget\t\t\n")
	for _, f := range list {
		target := "–"
		if f.Target > 0 {
			target = percent(f.Target)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", f.GPU, f.Operator, f.Held.N, percent(f.Held.MAPE), percent(f.Held.Median),
			signed(f.Held.Bias), percent(f.Cross.MAPE), percent(f.Roofline.MAPE), percent(f.Table.MAPE), target, verdict(f.Met))
	}
	fmt.Fprint(w, "\nCoefficients ± standard error; ! at the end of its range; (MAPE without it)\n")
	for _, f := range list {
		var values []string
		for _, v := range f.Values {
			s := fmt.Sprintf("%s %.3g ± %.1g", v.Name, v.Value, v.Error)
			if v.Unit != "" {
				s = fmt.Sprintf("%s %.3g ± %.1g %s", v.Name, v.Value, v.Error, v.Unit)
			}
			if v.AtBound {
				s += "!"
			}
			if v.Without != nil {
				s += " (" + percent(*v.Without) + ")"
			}
			values = append(values, s)
		}
		fmt.Fprintf(w, "%s %s: %s\n", f.GPU, f.Operator, strings.Join(values, ", "))
	}
}

func printLoops(w io.Writer, r report) {
	fmt.Fprint(w, "\nTime per output token at a fixed number of clients\nmodel\tGPU\tengine\tformats\trows\tKV\tlengths\tall-reduce\tkernels alone\tbias\treference\twith host, other half\thost ms + µs·n + ms a prompt step\ttarget\t\t\n")
	for _, l := range r.Loops {
		target := "–"
		if l.Target > 0 {
			target = percent(l.Target)
		}
		lengths, reduce := "as named", "measured"
		if l.Reading.Shortest < 1 {
			lengths = fmt.Sprintf("%g–1", l.Reading.Shortest)
		}
		if l.Reading.Padded {
			reduce = "padded"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.2f + %.0f + %.1f\t%s\t%s\t\n", l.Model, l.GPU, l.Engine, l.Formats, l.Rows,
			l.Reading.Cache, lengths, reduce, percent(l.Bare.MAPE), signed(l.Bare.Bias), cmp.Or(l.Spec, "–"), percent(l.Held.MAPE),
			1e3*l.Host.Step, 1e6*l.Host.Sequence, 1e3*l.Host.Prompt, target, verdict(l.Met))
	}
	fmt.Fprint(w, "KV, lengths and all-reduce are readings of what the rows do not say, chosen by cross-validation on the fitted half\n")
	var reasons []string
	for why := range r.Skipped {
		reasons = append(reasons, why)
	}
	slices.Sort(reasons)
	for _, why := range reasons {
		fmt.Fprintf(w, "left out: %d rows, %s\n", r.Skipped[why], why)
	}
}

func printRun(out io.Writer, r *runReport) error {
	fmt.Fprintf(out, "\nRun %s: %s on %s, TP %d, %d rank(s)\n", r.Run, r.Model, r.GPU, r.TP, r.Ranks)
	fmt.Fprintf(out, "device time from %s; %d KV blocks a rank (%s)\n", r.Device, r.Blocks, r.BlocksFrom)
	fmt.Fprintf(out, "host %.3f ms + %.1f µs·sequences a step, from %s; this run by itself would need %.3f ms + %.1f µs\n",
		1e3*r.Host.Step, 1e6*r.Host.Sequence, r.HostFrom, 1e3*r.Residual.Step, 1e6*r.Residual.Sequence)
	fmt.Fprintf(out, "%d steps, %d preemptions; pace %.3f, without host %.3f; mean TTFT changes by %.1f %% for 1 %% of model time\n",
		r.Steps, r.Preemptions, r.Pace, r.BarePace, r.Amplification)
	for _, why := range r.LeftOut {
		fmt.Fprintf(out, "no host from %s\n", why)
	}
	if r.Estimate != "" {
		fmt.Fprintf(out, "%s\n", r.Estimate)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\treal\tsimulated\terror\twithout host\tpeer\t\n")
	for i, f := range r.Figures {
		peer := "–"
		if f.Peer != nil {
			peer = signed(*f.Peer)
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.1f %s\t%s\t%s\t%s\t\n", f.Metric, f.Real, f.Simulated, f.Unit, signed(f.Error), signed(r.Bare[i].Error), peer)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	kv := "not recorded"
	if !math.IsNaN(float64(r.Series.KV)) {
		kv = fmt.Sprintf("%.1f points", float64(r.Series.KV))
	}
	fmt.Fprintf(out, "series, mean difference over %d s: %.1f running, %.1f waiting, KV %s\n", r.Series.Seconds, r.Series.Running, r.Series.Waiting, kv)
	for _, c := range r.Checks {
		if !c.Met {
			fmt.Fprintf(out, "missed: %s %s, limit %s\n", c.Metric, signed(c.Error), percent(c.Limit))
		}
	}
	return nil
}

func percent(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*x)
}

func signed(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	return fmt.Sprintf("%+.1f %%", 100*x)
}

func verdict(met bool) string {
	if met {
		return ""
	}
	return "missed"
}
