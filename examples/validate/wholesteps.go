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
	GPU    string  `json:"gpu"`
	Model  string  `json:"model"`
	TP     int     `json:"tensor_parallel"`
	Prompt stepFit `json:"prompts_to_2048_tokens"`
	Long   stepFit `json:"longer_prompts"`
	Decode stepFit `json:"decode_steps"`
	Target float64 `json:"target"`
	Met    bool    `json:"met"`
}

// stepFit is how well the steps of one kind are predicted.
type stepFit struct {
	Held costmodel.Accuracy `json:"held"`
	// Alone is of a fit to this set-up's steps only.
	Alone costmodel.Accuracy `json:"held_fitted_alone"`
	// Cross is of the fitted half, all set-ups of the GPU together.
	Cross costmodel.Accuracy `json:"cross_validated"`
	// Floor is what the host of the GPU takes for a step, in seconds; 0 if none
	// was fitted.
	Floor float64 `json:"host_floor_s,omitempty"`
	// Fell is a measured contradiction that no form describes: more tokens
	// that took less time than fewer did.
	Fell string `json:"fell,omitempty"`
}

// timedStep is a measured step. Halves are dealt in the order of what was asked for:
// lengths, then numbers, for prompts; numbers, then contexts, for decode steps.
type timedStep struct {
	costmodel.Sample
	asked  [2]float64
	tokens float64 // of one prompt, or of its context
}

// stepSetup is the steps of one set-up.
type stepSetup struct {
	report                *stepReport
	prompts, long, decode []timedStep
}

// bloom is not in the catalogue: bigscience/bloom, config.json. Feed-forward
// matrices are 4·hidden wide and not gated, and every head has keys of its own.
var bloom = costmodel.Model{Name: "BLOOM-176B", Layers: 70, Hidden: 14336, Intermediate: 4 * 14336, Ungated: true,
	Heads: 112, KVHeads: 112, HeadDim: 128, Vocab: 250880, TiedEmbeddings: true}

// reportSteps reads the medians of static batches and fits those of each GPU.
func reportSteps(data, only string) ([]*stepReport, error) {
	path := filepath.Join(data, "endtoend", "splitwise_perf_medians.csv.gz")
	setups, err := readSteps(path)
	if err != nil {
		return nil, err
	}
	byGPU := map[string][]*stepSetup{}
	var names []string
	var list []*stepReport
	for _, s := range setups {
		name := s.report.GPU
		if only != "" && name != only {
			continue
		}
		if byGPU[name] == nil {
			names = append(names, name)
		}
		byGPU[name] = append(byGPU[name], s)
		list = append(list, s.report)
	}
	for _, name := range names {
		g, err := gpuOf(name)
		if err != nil {
			return nil, err
		}
		from := costmodel.Provenance{Platform: g.Name, Formats: "FP16", Kernels: "vLLM, 2023", Layout: "TP of each set-up",
			Boundary: "an engine's step, host included", Source: filepath.Base(path)}
		if err := fitSteps(g, byGPU[name], from); err != nil {
			return nil, fmt.Errorf("static batches on %s: %w", g.Name, err)
		}
		for _, s := range byGPU[name] {
			alone, report := *s, *s.report
			alone.report = &report
			if err := fitSteps(g, []*stepSetup{&alone}, from); err != nil {
				return nil, fmt.Errorf("static batches on %s, TP %d alone: %w", g.Name, report.TP, err)
			}
			s.report.Prompt.Alone, s.report.Long.Alone, s.report.Decode.Alone = report.Prompt.Held, report.Long.Held, report.Decode.Held
		}
	}
	return list, nil
}

// readSteps returns the set-ups in the order of the file. Rows of a scaled device
// and of 64 prompts on two GPUs are left out: they were not measured as such.
func readSteps(path string) ([]*stepSetup, error) {
	type key struct {
		hardware, model string
		tp              int
	}
	setups := map[key]*stepSetup{}
	var list []*stepSetup
	columns := []string{"hardware", "model", "tensor_parallel", "prompt_size", "batch_size", "token_size", "prompt_ms", "token_ms", "e2e_ms"}
	err := readCSV(path, columns, func(r *row) {
		k := key{r.text("hardware"), r.text("model"), r.count("tensor_parallel")}
		p, b, t := r.number("prompt_size"), r.number("batch_size"), r.number("token_size")
		if strings.HasSuffix(k.hardware, "-pcap") || k.tp == 2 && b == 64 {
			return
		}
		m := bloom
		if k.model != "bloom-176b" {
			var err error
			if m, err = modelOf("Llama-2-70B"); err != nil {
				r.err = err
				return
			}
		}
		s := setups[k]
		if s == nil {
			g, err := gpuOf(k.hardware)
			if err != nil {
				return // see strangers
			}
			s = &stepSetup{report: &stepReport{GPU: g.Name, Model: k.model, TP: k.tp, Target: 0.06}}
			setups[k] = s
			list = append(list, s)
		}
		shape := fmt.Sprintf("%g·%g", p, b)
		prompt := timedStep{costmodel.Sample{Name: r.at(), Group: shape, Seconds: r.number("prompt_ms") * 1e-3,
			Inputs: stepWork(m, k.tp, b*p, b*p*(p+1)/2, b*p, b)}, [2]float64{p, b}, p}
		if b*p <= longestPrompt {
			s.prompts = append(s.prompts, prompt)
		} else {
			s.long = append(s.long, prompt)
		}
		// Most outputs of 512 tokens and more ended before: the whole time tells when.
		output := min(t, 1+(r.number("e2e_ms")-r.number("prompt_ms"))/r.number("token_ms"))
		context := p + output/2
		s.decode = append(s.decode, timedStep{costmodel.Sample{Name: r.at(), Group: fmt.Sprintf("%s·%g", shape, t), Seconds: r.number("token_ms") * 1e-3,
			Inputs: stepWork(m, k.tp, b, b*context, b*context, b)}, [2]float64{b, p + t/2}, context})
	})
	return list, err
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
	}
}

// fitSteps fits on every second shape of every set-up of one GPU: prompts up to
// longestPrompt tokens, longer ones and decode steps apart. The set-ups have
// their host in common. Four shapes of one set-up do not tell its floor, and one
// of them may be off by a fifth: the 58 ms of 128 tokens on eight H100 are the
// median of five repetitions of which two took 49 ms, as on two and on four.
//
// Decode steps share all but start. What is shared and what is left out gave
// the least error, of the combinations tried, in cross-validation of the fitted
// halves of both GPUs of the file. One tenth remains that no size explains: on
// two A100, one sequence takes 54 to 57 ms at any context if 128 tokens are asked
// for, and 60 ms if more are.
func fitSteps(g costmodel.GPU, setups []*stepSetup, from costmodel.Provenance) error {
	for _, part := range []struct {
		name            string
		of              func(*stepSetup) ([]timedStep, *stepFit)
		without, shared []string
	}{
		{"prompts", func(s *stepSetup) ([]timedStep, *stepFit) { return s.prompts, &s.report.Prompt },
			[]string{"memory", "norm"}, []string{"floor"}},
		{"long prompts", func(s *stepSetup) ([]timedStep, *stepFit) { return s.long, &s.report.Long },
			[]string{"start", "memory", "floor", "norm"}, nil},
		{"decode steps", func(s *stepSetup) ([]timedStep, *stepFit) { return s.decode, &s.report.Decode },
			[]string{"compute"}, []string{"sequence", "memory", "floor", "norm"}},
	} {
		var in []costmodel.Sample
		out := make([][]costmodel.Sample, len(setups))
		for k, s := range setups {
			steps, to := part.of(s)
			steps = unique(steps)
			to.Fell = fell(steps)
			fitted, held := halves(steps)
			in = append(in, ofSetup(fitted, k)...)
			out[k] = ofSetup(held, k)
		}
		form, err := stepForm(g, in, len(setups), part.without, part.shared)
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		// Each sample counts twice: what cross-validation leaves of sixteen
		// prompts must outnumber thirteen parameters.
		c, err := costmodel.Fit(form, slices.Concat(in, in), from)
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		for k, s := range setups {
			_, to := part.of(s)
			to.Held, to.Cross = costmodel.AccuracyOf(c.Test(out[k])), c.CrossValidated
			for _, v := range c.Coefficients {
				if v.Name == "floor" {
					to.Floor = v.Value
				}
			}
		}
	}
	for _, s := range setups {
		r := s.report
		r.Met = r.Prompt.Held.MAPE <= r.Target && r.Decode.Held.MAPE <= r.Target
	}
	return nil
}

// stepForm is costmodel.StepForm for n set-ups, without some parameters.
func stepForm(g costmodel.GPU, samples []costmodel.Sample, n int, without, shared []string) (costmodel.Form, error) {
	form := costmodel.StepForm(g)
	// Of floor and start the search does not find one that no sample touches.
	first := slices.MinFunc(samples, func(a, b costmodel.Sample) int { return cmp.Compare(a.Seconds, b.Seconds) })
	for i, p := range form.Parameters {
		switch p.Name {
		case "floor":
			form.Parameters[i].Start = 0.8 * first.Seconds
		case "start":
			form.Parameters[i].Start = 0.4 * first.Seconds
		}
	}
	for _, name := range without {
		var err error
		if form, err = form.Without(name); err != nil {
			return form, err
		}
	}
	return together(form, n, shared...), nil
}

// together is form for n set-ups, with which one it is, from 0, as one more
// input: shared parameters are one for all, the others one each.
func together(form costmodel.Form, n int, shared ...string) costmodel.Form {
	one, parameters := form.Seconds, form.Parameters
	form.Inputs = append(slices.Clone(form.Inputs), "set-up")
	form.Parameters = nil
	at := make([][]int, n) // places of the parameters of each set-up
	for _, p := range parameters {
		for k := range n {
			if !slices.Contains(shared, p.Name) {
				own := p
				own.Name = fmt.Sprintf("%s %d", p.Name, k)
				form.Parameters = append(form.Parameters, own)
			} else if k == 0 {
				form.Parameters = append(form.Parameters, p)
			}
			at[k] = append(at[k], len(form.Parameters)-1)
		}
	}
	form.Seconds = func(p, x []float64) float64 {
		last := len(x) - 1
		own := make([]float64, len(parameters))
		for i, j := range at[int(x[last])] {
			own[i] = p[j]
		}
		return one(own, x[:last])
	}
	return form
}

// ofSetup returns the samples of steps as those of set-up k.
func ofSetup(steps []timedStep, k int) []costmodel.Sample {
	var list []costmodel.Sample
	for _, s := range steps {
		s.Group = fmt.Sprintf("%s %d", s.Group, k)
		s.Inputs = append(slices.Clone(s.Inputs), float64(k))
		list = append(list, s.Sample)
	}
	return list
}

// fell names the step of more tokens that took least beside one of as many
// sequences and fewer tokens, if it took a twentieth less or more.
func fell(steps []timedStep) (what string) {
	worst := 0.95
	for _, a := range steps {
		for _, b := range steps {
			if share := b.Seconds / a.Seconds; a.Inputs[2] == b.Inputs[2] && a.tokens < b.tokens && share < worst {
				worst = share
				what = fmt.Sprintf("%.0f tokens took %.1f ms, %.0f took %.1f ms", a.tokens, 1e3*a.Seconds, b.tokens, 1e3*b.Seconds)
			}
		}
	}
	return what
}

// longestPrompt is the number of prompt tokens of a batch up to which its time
// has a target.
const longestPrompt = 2048

// unique keeps one step, the median, of each shape: prompts were timed once for
// each output length too.
func unique(steps []timedStep) []timedStep {
	byShape := map[string][]timedStep{}
	var shapes []string
	for _, s := range steps {
		if byShape[s.Group] == nil {
			shapes = append(shapes, s.Group)
		}
		byShape[s.Group] = append(byShape[s.Group], s)
	}
	var list []timedStep
	for _, shape := range shapes {
		same := byShape[shape]
		slices.SortFunc(same, func(a, b timedStep) int { return cmp.Compare(a.Seconds, b.Seconds) })
		list = append(list, same[len(same)/2])
	}
	return list
}

// halves deals steps to the fitted half and the other one in turn, in the order
// of what was asked for, so that both have batches of several sequences.
func halves(steps []timedStep) (in, out []timedStep) {
	s := slices.Clone(steps)
	slices.SortFunc(s, func(a, b timedStep) int { return slices.Compare(a.asked[:], b.asked[:]) })
	for i := range s {
		if i%2 == 0 {
			in = append(in, s[i])
		} else {
			out = append(out, s[i])
		}
	}
	return in, out
}
