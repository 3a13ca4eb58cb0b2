package main

import (
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
				percent(l.Prefill.MAPE), percent(l.Worst), percent(l.Target), verdict(l.Target, l.Met))
		}
	}
	if len(r.Steps) > 0 {
		printSteps(w, r.Steps)
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
	if len(r.FromKernels) > 0 {
		printFromKernels(w, r.FromKernels)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, why := range r.Strangers {
		fmt.Fprintf(out, "left out: %s\n", why)
	}
	for _, path := range r.Absent {
		fmt.Fprintf(out, "not in the data: %s\n", path)
	}
	for _, why := range r.LeftOut {
		fmt.Fprintf(out, "run left out: %s\n", why)
	}
	return nil
}

func printSteps(w io.Writer, list []*stepReport) {
	fmt.Fprint(w, "\nStatic batches of whole engines, other half of the shapes (MAPE); alone: not fitted with the GPU's other set-ups\n"+
		"GPU\tmodel\tTP\tprompts ≤ 2048 tokens\talone\thost ms\tlonger\tdecode steps\talone\thost ms\ttarget\t\t\n")
	for _, s := range list {
		p, d := s.Prompt, s.Decode
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%.1f\t%s\t%s\t%s\t%.1f\t%s\t%s\t\n", s.GPU, s.Model, s.TP, percent(p.Held.MAPE), percent(p.Alone.MAPE), 1e3*p.Floor,
			percent(s.Long.Held.MAPE), percent(d.Held.MAPE), percent(d.Alone.MAPE), 1e3*d.Floor, percent(s.Target), verdict(s.Target, s.Met))
	}
	for _, s := range list {
		for _, part := range []struct{ name, fell string }{{"prompts", s.Prompt.Fell}, {"contexts of decode steps", s.Decode.Fell}} {
			if part.fell != "" {
				fmt.Fprintf(w, "%s %s TP %d, measured %s: %s\n", s.GPU, s.Model, s.TP, part.name, part.fell)
			}
		}
	}
}

func printKernels(w io.Writer, list []*fitted) {
	fmt.Fprint(w, "Kernels: errors in % on geometries that the fit did not see (all-reduce: sizes), predicted/measured - 1;\n"+
		"CV is cross-validated on the fitted half, bound the roofline without efficiencies, table linear interpolation\n"+
		"GPU\toperator\tn\tMAPE\tmedian\tbias\tCV\tbound\ttable\ttarget\t\t\n")
	for _, f := range list {
		target := "–"
		if f.Target > 0 {
			target = bare(f.Target)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", f.GPU, f.Operator, f.Held.N, bare(f.Held.MAPE), bare(f.Held.Median),
			points(f.Held.Bias), bare(f.Cross.MAPE), bare(f.Roofline.MAPE), bare(f.Table.MAPE), target, verdict(f.Target, f.Met))
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
	fmt.Fprint(w, "\nTime per output token at a fixed number of clients: errors in %, simulated/measured - 1;\n"+
		"with the host's term on the half of the rows that it is not fitted to, and of the catalogue as it is\n"+
		"model\tGPU\tengine\tformats\trows\tcatalogue\tbias\tkernels alone\tbias\twith host\ttarget\t\t\n")
	for _, l := range r.Loops {
		target := "–"
		if l.Target > 0 {
			target = bare(l.Target)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", l.Model, l.GPU, l.Engine, l.Formats, l.Rows,
			bare(l.Catalogue.MAPE), points(l.Catalogue.Bias), bare(l.Bare.MAPE), points(l.Bare.Bias), bare(l.Held.MAPE), target, verdict(l.Target, l.Met))
	}
	for _, l := range r.Loops {
		lengths, reduce := "as named", "measured"
		if l.Reading.Shortest < 1 {
			lengths = fmt.Sprintf("%g–1", l.Reading.Shortest)
		}
		if l.Reading.Padded {
			reduce = "padded"
		}
		if l.Reading.Eight {
			reduce += ", experts with MXFP8 activations"
		}
		fmt.Fprintf(w, "%s %s %s %s: KV %s, lengths %s, all-reduce %s; host %.2f ms + %.0f µs·sequences a step + %.1f ms a prompt step\n",
			l.Model, l.GPU, l.Engine, l.Formats, l.Reading.Cache, lengths, reduce, 1e3*l.Host.Step, 1e6*l.Host.Sequence, 1e3*l.Host.Prompt)
		if l.Spec != "" {
			fmt.Fprintf(w, "  a closed form on the same rows, without host: %s\n", l.Spec)
		}
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

// printFromKernels prints a line for each run, since -run with -kernels prints
// all of it.
func printFromKernels(w io.Writer, list []*runReport) {
	fmt.Fprint(w, "\nThe same runs from kernels/ or the catalogue alone, host from the other runs so composed: errors in %\n"+
		"run\tdevice\tpace\tTPOT mean\tp50\tp90\tE2E mean\tp50\tp90\tTTFT mean\tp50\tp90\tA\tmissed\t\n")
	for _, r := range list {
		missed := 0
		for _, c := range r.Checks {
			if !c.Met {
				missed++
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s", r.Run, r.GPU, points(r.Pace-1))
		for _, metric := range []string{"TPOT Mean", "TPOT Median", "TPOT P90", "Latency Mean", "Latency Median", "Latency P90", "TTFT Mean", "TTFT Median", "TTFT P90"} {
			cell := "–"
			for _, f := range r.Figures {
				if f.Metric == metric {
					cell = points(f.Error)
				}
			}
			fmt.Fprintf(w, "\t%s", cell)
		}
		fmt.Fprintf(w, "\t%.1f\t%d of %d\t\n", r.Amplification, missed, len(r.Checks))
	}
}

func printRun(out io.Writer, r *runReport) error {
	line := func(format string, values ...any) { fmt.Fprintf(out, format+"\n", values...) }
	line("\nRun %s: %s on %s, TP %d, %d rank(s)", r.Run, r.Model, r.GPU, r.TP, r.Ranks)
	line("device time from %s", r.Device)
	line("%d KV blocks of %d tokens a rank (%s)", r.Blocks, r.BlockTokens, r.BlocksFrom)
	if r.SharedFrom != "" {
		line("%d prompts begin with an earlier one, by %s", r.Shared, r.SharedFrom)
	}
	line("host %s, fitted on %s", r.Host, r.HostFrom)
	if r.Residual != nil {
		line("host that this run by itself would need: %s", *r.Residual)
		for _, name := range r.AtBound {
			line("  its %s is at the end of its range: kernels too slow, or more than a host is missing", name)
		}
	}
	for _, why := range r.LeftOut {
		line("no host from %s", why)
	}
	line("%d steps of %.1f sequences in the mean, %d preemptions", r.Steps, r.Sequences, r.Preemptions)
	line("pace (real/simulated makespan) %.3f, without host %.3f", r.Pace, r.BarePace)
	line("A = %.1f: mean TTFT changes by so many %% if the model is 1 %% slower", r.Amplification)
	if u := r.Utilisation; u != nil {
		line("MFU %s, MBU %s: operations and bytes of the simulated run over the GPUs' rates", percent(u.MFU), percent(u.MBU))
	}
	if r.NoUse != "" {
		line("MFU and MBU are not known: %s", r.NoUse)
	}
	if r.Estimate != "" {
		line("%s", r.Estimate)
	}
	line("TTFT and Latency (E2E) count from where the engine queues a request, TPOT from")
	line("its first token to its last; errors are simulated/real - 1, pace's real/simulated")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\treal\tsimulated\terror %\tlimit %\t\tno host %\tpeer %\t\n")
	for i, f := range r.Figures {
		peer := "–"
		if f.Peer != nil {
			peer = points(*f.Peer)
		}
		limit, met := r.verdict(f.Metric)
		fmt.Fprintf(w, "%s, %s\t%.1f\t%.1f\t%s\t%s\t%s\t%s\t%s\t\n", f.Metric, f.Unit, f.Real, f.Simulated, points(f.Error), limit, met, points(r.Bare[i].Error), peer)
	}
	limit, met := r.verdict("pace")
	fmt.Fprintf(w, "pace\t\t\t%s\t%s\t%s\t%s\t\t\n", points(r.Pace-1), limit, met, points(r.BarePace-1))
	if err := w.Flush(); err != nil {
		return err
	}
	if missed := slices.ContainsFunc(r.Checks, func(c check) bool { return !c.Met }); missed && r.Residual != nil {
		step := r.Residual.Step - r.Host.Step + (r.Residual.Sequence-r.Host.Sequence)*r.Sequences
		line("missing in a step of %.0f sequences, by this run itself: %+.2f ms of kernels or host", r.Sequences, 1e3*step)
	}
	return printSeries(out, r)
}

// verdict returns the limit of a figure's error in per cent and whether it is
// met, both empty for figures without one.
func (r *runReport) verdict(metric string) (limit, met string) {
	for _, c := range r.Checks {
		if c.Metric == metric {
			return fmt.Sprintf("%.1f", 100*c.Limit), verdict(c.Limit, c.Met)
		}
	}
	return "", ""
}

// printSeries prints some twenty of the seconds, real and simulated; all are in
// the JSON and in the pictures.
func printSeries(out io.Writer, r *runReport) error {
	e := r.SeriesErrors
	of := func(n number, unit string) string {
		if math.IsNaN(float64(n)) {
			return "not recorded"
		}
		return fmt.Sprintf("%.1f%s", float64(n), unit)
	}
	fmt.Fprintf(out, "series, mean difference over %d times: running %s, waiting %s, KV %s\n",
		e.Seconds, of(e.Running, ""), of(e.Waiting, ""), of(e.KV, " points"))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "s\trunning, real\tsimulated\twaiting, real\tsimulated\tKV %, real\tsimulated\t\n")
	every := (len(r.Series) + 19) / 20
	for i := every - 1; i >= 0 && i < len(r.Series); i += every {
		s := r.Series[i]
		running, waiting, kv := "–", "–", "–"
		if i < len(r.Recorded) {
			real := r.Recorded[i]
			running, waiting = fmt.Sprintf("%.0f", real.Running), fmt.Sprintf("%.0f", real.Waiting)
			if !math.IsNaN(float64(e.KV)) {
				kv = fmt.Sprintf("%.1f", real.KV)
			}
		}
		fmt.Fprintf(w, "%.0f\t%s\t%.0f\t%s\t%.0f\t%s\t%.1f\t\n", s.T, running, s.Running, waiting, s.Waiting, kv, s.KV)
	}
	return w.Flush()
}

// String gives the coefficients.
func (h host) String() string {
	return fmt.Sprintf("%.3f ms + %.1f µs·sequences a step", 1e3*h.Step, 1e6*h.Sequence)
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

// bare is percent, and points signed, without the unit.
func bare(x float64) string { return strings.TrimSuffix(percent(x), " %") }

func points(x float64) string { return strings.TrimSuffix(signed(x), " %") }

// verdict is empty where there is no target.
func verdict(target float64, met bool) string {
	switch {
	case target == 0:
		return ""
	case met:
		return "met"
	}
	return "missed"
}
