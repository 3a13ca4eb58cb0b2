package main

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"servesim/costmodel"
	"servesim/sim"
	"servesim/workload"
)

// scenario is what the second part serves, and on what.
type scenario struct {
	Model          string `json:"model"`
	GPU            string `json:"gpu"`
	TensorParallel int    `json:"tensor_parallel"`
	KVBlocks       int    `json:"kv_blocks"`

	Concurrency []int `json:"concurrency"`
	Prompt      int   `json:"prompt_tokens"`
	Output      int   `json:"output_tokens"`
	Fixed       int   `json:"fixed_drafts"`
	Most        int   `json:"variable_drafts_at_most"`

	Acceptance acceptance `json:"acceptance"`
	Seed       uint64     `json:"seed"`
}

// acceptance says where the probabilities come from.
type acceptance struct {
	// File is empty for a constant probability.
	File     string  `json:"file,omitempty"`
	Curve    string  `json:"curve,omitempty"` // model and mode
	Constant float64 `json:"constant,omitempty"`
	// PerPosition[i] is the probability that at least i+1 drafts are right.
	PerPosition []float64 `json:"per_position"`
	// Measured are the mean tokens per step by number of drafts, from 1.
	Measured []float64 `json:"measured_mean_length,omitempty"`
	// Deviation is the largest difference to what the fit gives in their
	// place.
	Deviation float64 `json:"deviation"`
}

func defaults() scenario {
	return scenario{
		Model: "Llama-3.1-8B", GPU: "H100", TensorParallel: 1,
		Concurrency: []int{1, 2, 4, 8, 16, 32, 64, 96, 128},
		Prompt:      1000, Output: 1000, Fixed: 5, Most: 8, Seed: 1,
		Acceptance: acceptance{Constant: 0.7},
	}
}

// complete checks the scenario, fills what follows from the rest, and returns
// the prices and the answers.
func (s *scenario) complete() (drafting, workload.Acceptance, error) {
	if err := s.validate(); err != nil {
		return drafting{}, workload.Acceptance{}, err
	}
	odds, err := s.Acceptance.load(s.Seed, max(s.Fixed, s.Most))
	if err != nil {
		return drafting{}, workload.Acceptance{}, err
	}
	setup, err := costmodel.NewSetup(s.Model, s.GPU)
	if err != nil {
		return drafting{}, workload.Acceptance{}, err
	}
	setup.TensorParallel = s.TensorParallel
	capacity, err := setup.KVCapacity(costmodel.KVBudget{BatchTokens: stepTokens})
	if err != nil {
		return drafting{}, workload.Acceptance{}, err
	}
	s.KVBlocks = capacity.Blocks
	for _, r := range s.Concurrency {
		longest := s.Prompt + s.Output + max(s.Fixed, s.Most)
		if need := r * ((longest-1)/sim.DefaultBlockTokens + 1); need > s.KVBlocks {
			return drafting{}, workload.Acceptance{}, fmt.Errorf("%d requests need up to %d KV blocks, %s on %d × %s has %d", r, need, s.Model, s.TensorParallel, s.GPU, s.KVBlocks)
		}
	}
	cost, err := newDrafting(setup)
	return cost, odds, err
}

func (s *scenario) validate() error {
	if len(s.Concurrency) == 0 {
		return errors.New("-concurrency is empty")
	}
	for _, r := range s.Concurrency {
		if r < 1 || r > 4096 {
			return fmt.Errorf("-concurrency holds %d, want 1 to 4096", r)
		}
	}
	for _, f := range []struct {
		name              string
		value, least, top int
	}{
		{"-tp", s.TensorParallel, 1, 1024}, {"-prompt", s.Prompt, 1, 1 << 20}, {"-output", s.Output, 50, 1 << 20},
		{"-fixed", s.Fixed, 1, 64}, {"-most", s.Most, 1, 64},
	} {
		if f.value < f.least || f.value > f.top {
			return fmt.Errorf("%s is %d, want %d to %d", f.name, f.value, f.least, f.top)
		}
	}
	if a := s.Acceptance; a.Curve != "" && a.File == "" {
		return errors.New("-curve is for -acceptance")
	} else if a.File == "" && !(a.Constant >= 0 && a.Constant <= 1) {
		return fmt.Errorf("-constant is %v, want 0 to 1", a.Constant)
	}
	return nil
}

// load reads the measured curve, if there is one.
func (a *acceptance) load(seed uint64, drafts int) (workload.Acceptance, error) {
	odds := workload.Acceptance{Seed: seed, Conditional: []float64{a.Constant}}
	if a.File != "" {
		a.Constant = 0
		curve, err := a.find()
		if err != nil {
			return odds, err
		}
		if n := len(curve.MeanLength); drafts > n {
			return odds, fmt.Errorf("%s: %s is measured up to %d drafts, %d are wanted: lower -fixed or -most", a.File, a.Curve, n, drafts)
		}
		if odds, a.Deviation, err = curve.Fit(seed); err != nil {
			return odds, err
		}
		a.Measured = curve.MeanLength
		a.File = filepath.Base(a.File)
	}
	a.PerPosition = odds.PerPosition(drafts)
	return odds, nil
}

// find returns the curve of that name, the only or the first one if there is
// no name.
func (a *acceptance) find() (workload.AcceptanceCurve, error) {
	f, err := os.Open(a.File)
	if err != nil {
		return workload.AcceptanceCurve{}, err
	}
	defer f.Close()
	curves, err := workload.ReadAcceptance(a.File, f)
	if err != nil {
		return workload.AcceptanceCurve{}, err
	}
	var known []string
	for _, c := range curves {
		name := c.Model + " " + c.Mode
		if a.Curve == "" || strings.EqualFold(a.Curve, name) || strings.EqualFold(a.Curve, c.Mode) {
			a.Curve = name
			return c, nil
		}
		known = append(known, name)
	}
	return workload.AcceptanceCurve{}, fmt.Errorf("%s has no curve %q; it has %s", a.File, a.Curve, strings.Join(known, ", "))
}

// requests yields n requests that arrive at the start. Their numbers follow
// first, so that rounds have answers of their own.
func requests(n, prompt, output, first int) iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		for i := range n {
			if !yield(sim.Request{ID: first + i, Prompt: prompt, Output: output, MaxOutput: output}, nil) {
				return
			}
		}
	}
}
