package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"servesim/costmodel"
)

// stepReport is one set-up of whole engines, timed from outside with static
// batches: prompts and decode steps fitted on half the shapes and tested on the
// other half.
type stepReport struct {
	GPU    string             `json:"gpu"`
	Model  string             `json:"model"`
	TP     int                `json:"tensor_parallel"`
	Prompt costmodel.Accuracy `json:"prompts_to_2048_tokens"`
	Long   costmodel.Accuracy `json:"longer_prompts"`
	Decode costmodel.Accuracy `json:"decode_steps"`
	// Fixed names what does not grow with the tokens of short prompts beside
	// the floor: start, of the step, or sequence, of each prompt.
	Fixed string `json:"prompts_fixed_part"`
	// Fell is a measured contradiction that no form describes: a longer prompt
	// that took less than a shorter one.
	Fell   string  `json:"prompts_fell,omitempty"`
	Target float64 `json:"target"`
	Met    bool    `json:"met"`
}

// bloom is not in the catalogue: bigscience/bloom, config.json. Feed-forward
// matrices are 4·hidden wide and not gated, and every head has keys of its own.
var bloom = costmodel.Model{Name: "BLOOM-176B", Layers: 70, Hidden: 14336, Intermediate: 4 * 14336, Ungated: true,
	Heads: 112, KVHeads: 112, HeadDim: 128, Vocab: 250880, TiedEmbeddings: true}

// reportSteps reads the medians of static batches. Rows of a scaled device and
// of 64 prompts on two GPUs are left out: they were not measured as such.
func reportSteps(data, only string) ([]*stepReport, error) {
	path := filepath.Join(data, "endtoend", "splitwise_perf_medians.csv.gz")
	type key struct {
		hardware, model string
		tp              int
	}
	prompts, decodes := map[key][]costmodel.Sample{}, map[key][]costmodel.Sample{}
	var keys []key
	columns := []string{"hardware", "model", "tensor_parallel", "prompt_size", "batch_size", "token_size", "prompt_ms", "token_ms"}
	err := readCSV(path, columns, func(r *row) {
		k := key{r.text("hardware"), r.text("model"), r.count("tensor_parallel")}
		p, b, t := r.number("prompt_size"), r.number("batch_size"), r.number("token_size")
		if strings.HasSuffix(k.hardware, "-pcap") || k.tp == 2 && b == 64 {
			return
		}
		if prompts[k] == nil {
			keys = append(keys, k)
		}
		m := bloom
		if k.model != "bloom-176b" {
			var err error
			if m, err = modelOf("Llama-2-70B"); err != nil {
				r.err = err
				return
			}
		}
		shape := fmt.Sprintf("%g·%g", p, b)
		prompts[k] = append(prompts[k], costmodel.Sample{Name: r.at(), Group: shape, Seconds: r.number("prompt_ms") * 1e-3,
			Inputs: stepWork(m, k.tp, b*p, b*p*(p+1)/2, b*p, b)})
		context := p + t/2
		decodes[k] = append(decodes[k], costmodel.Sample{Name: r.at(), Group: fmt.Sprintf("%s·%g", shape, t), Seconds: r.number("token_ms") * 1e-3,
			Inputs: stepWork(m, k.tp, b, b*context, b*context, b)})
	})
	if err != nil {
		return nil, err
	}
	var list []*stepReport
	for _, k := range keys {
		g, err := gpuOf(k.hardware)
		if err != nil {
			return nil, err
		}
		if only != "" && g.Name != only {
			continue
		}
		r := &stepReport{GPU: g.Name, Model: k.model, TP: k.tp, Target: 0.06}
		from := costmodel.Provenance{Platform: g.Name, Formats: "FP16", Kernels: "vLLM, 2023", Layout: fmt.Sprintf("TP %d", k.tp),
			Boundary: "an engine's step, host included", Source: filepath.Base(path)}
		if err := r.fill(g, prompts[k], decodes[k], from); err != nil {
			return nil, fmt.Errorf("%s %s TP %d: %w", k.hardware, k.model, k.tp, err)
		}
		list = append(list, r)
	}
	return list, nil
}

// stepWork returns the FLOPs, bytes and sequences of a step on one GPU.
func stepWork(m costmodel.Model, tp int, positions, pairs, keys, sequences float64) []float64 {
	s := costmodel.Setup{Model: m, GPU: costmodel.GPU{Link: 1}, TensorParallel: tp}
	matrices := float64(m.Params()-2*m.Vocab*m.Hidden) / float64(tp)
	if m.TiedEmbeddings {
		matrices = float64(m.Params()-m.Vocab*m.Hidden) / float64(tp)
	}
	head := float64(m.Vocab*m.Hidden) / float64(tp)
	attention := 4 * float64(m.Layers*m.Heads*m.HeadDim) / float64(tp) * pairs
	return []float64{
		2*matrices*positions + 2*head*sequences + attention,
		2*(matrices+head) + s.KVBytesPerToken()*keys,
		sequences,
		positions,
	}
}

// fill fits on every second shape: prompts up to longestPrompt tokens, longer
// ones and decode steps apart. What does not grow with the tokens belongs to the
// step in some set-ups and to each of its prompts in others: on A100, four
// prompts take up to two fifths more than one of as many tokens. The short
// prompts of the fitted half decide which, by cross-validation.
func (r *stepReport) fill(g costmodel.GPU, prompts, decodes []costmodel.Sample, from costmodel.Provenance) error {
	var short, long []costmodel.Sample
	for _, s := range unique(prompts) {
		if positions := s.Inputs[3]; positions <= longestPrompt {
			short = append(short, s)
		} else {
			long = append(long, s)
		}
	}
	for _, part := range []struct {
		name    string
		samples []costmodel.Sample
		without [][]string // a form each
		to      *costmodel.Accuracy
	}{
		{"prompts", short, [][]string{{"sequence", "memory", "norm", "fall"}, {"start", "memory", "norm", "fall"}}, &r.Prompt},
		{"long prompts", long, [][]string{{"start", "memory", "norm", "fall", "floor"}}, &r.Long},
		{"decode steps", decodes, [][]string{{"norm", "fall", "floor"}}, &r.Decode},
	} {
		in, out := halves(part.samples)
		var best *costmodel.Calibration
		for _, without := range part.without {
			c, err := fitSteps(g, in, from, without)
			if err != nil {
				return fmt.Errorf("%s: %w", part.name, err)
			}
			if best == nil || c.CrossValidated.MAPE < best.CrossValidated.MAPE {
				best = c
			}
		}
		*part.to = costmodel.AccuracyOf(best.Test(out))
		if part.name == "prompts" {
			r.Fixed = best.Coefficients[0].Name
		}
	}
	r.Fell = fell(short)
	r.Met = r.Prompt.MAPE <= r.Target && r.Decode.MAPE <= r.Target
	return nil
}

// fell names the longer prompt that took least beside a shorter one, if it took
// a twentieth less or more.
func fell(prompts []costmodel.Sample) (what string) {
	worst := 0.95
	for _, a := range prompts {
		for _, b := range prompts {
			if share := b.Seconds / a.Seconds; a.Inputs[2] == b.Inputs[2] && a.Inputs[3] < b.Inputs[3] && share < worst {
				worst = share
				what = fmt.Sprintf("%g tokens took %.1f ms, %g took %.1f ms", a.Inputs[3], 1e3*a.Seconds, b.Inputs[3], 1e3*b.Seconds)
			}
		}
	}
	return what
}

// longestPrompt is the number of prompt tokens of a batch up to which its time
// has a target.
const longestPrompt = 2048

// unique keeps one sample, the median, of each shape: prompts were timed once
// for each output length too.
func unique(samples []costmodel.Sample) []costmodel.Sample {
	byShape := map[string][]costmodel.Sample{}
	var shapes []string
	for _, s := range samples {
		if byShape[s.Group] == nil {
			shapes = append(shapes, s.Group)
		}
		byShape[s.Group] = append(byShape[s.Group], s)
	}
	var list []costmodel.Sample
	for _, shape := range shapes {
		same := byShape[shape]
		slices.SortFunc(same, func(a, b costmodel.Sample) int { return cmp.Compare(a.Seconds, b.Seconds) })
		list = append(list, same[len(same)/2])
	}
	return list
}

// halves deals samples to the fitted half and the other one in turn, in order of
// the length of one prompt, then of their number, so that both have batches of
// several prompts.
func halves(samples []costmodel.Sample) (in, out []costmodel.Sample) {
	s := slices.Clone(samples)
	slices.SortFunc(s, func(a, b costmodel.Sample) int {
		x, y := a.Inputs, b.Inputs
		return cmp.Or(cmp.Compare(x[3]/x[2], y[3]/y[2]), cmp.Compare(x[2], y[2]), cmp.Compare(x[0], y[0]))
	})
	for i := range s {
		if i%2 == 0 {
			in = append(in, s[i])
		} else {
			out = append(out, s[i])
		}
	}
	return in, out
}

// fitSteps fits without the parameters that few shapes of one kind do not tell.
// Each sample counts twice: what is left of four shapes when cross-validation
// takes one away must outnumber three parameters.
func fitSteps(g costmodel.GPU, samples []costmodel.Sample, from costmodel.Provenance, without []string) (*costmodel.Calibration, error) {
	form := costmodel.StepForm(g)
	for i, p := range form.Parameters {
		if p.Name == "floor" { // the search does not find a floor that no sample touches
			first := slices.MinFunc(samples, func(a, b costmodel.Sample) int { return cmp.Compare(a.Seconds, b.Seconds) })
			form.Parameters[i].Start = 0.8 * first.Seconds
		}
	}
	for _, name := range without {
		var err error
		if form, err = form.Without(name); err != nil {
			return nil, err
		}
	}
	return costmodel.Fit(form, slices.Concat(samples, samples), from)
}
