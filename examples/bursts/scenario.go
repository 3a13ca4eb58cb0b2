package main

import (
	"fmt"
	"iter"
	"math"
	"time"

	"servesim/costmodel"
	"servesim/sim"
)

// scenario is the second part: bursts of short requests, a long prompt at the
// head of each.
type scenario struct {
	Cost           string `json:"cost"` // transformer or linear
	Model          string `json:"model,omitempty"`
	GPU            string `json:"gpu,omitempty"`
	TensorParallel int    `json:"tensor_parallel,omitempty"`
	KVBlocks       int    `json:"kv_blocks"` // 0: memory never runs out

	Bursts      int           `json:"bursts"`
	Every       time.Duration `json:"-"`
	EveryS      float64       `json:"every_s"` // Every, once complete
	Size        int           `json:"short_requests_per_burst"`
	ShortPrompt int           `json:"short_prompt_tokens"`
	LongPrompt  int           `json:"long_prompt_tokens"`
	Output      int           `json:"output_tokens"`

	Order   string `json:"order"` // of the queue: arrival or shortest-prompt
	Budgets []int  `json:"chunked_step_tokens"`
}

func defaults() scenario {
	return scenario{
		Cost: "transformer", Model: "Llama-3.1-8B", GPU: "H100", TensorParallel: 1,
		Bursts: 4, Size: 10, ShortPrompt: 500, LongPrompt: 32_000, Output: 250,
		Order: "arrival", Budgets: []int{512, 2048, 8192},
	}
}

// teaching is 10 ms a step and 0.1 ms a prompt token.
var teaching = costmodel.Linear{Fixed: 10 * time.Millisecond, PerPromptToken: 100 * time.Microsecond}

// maxSeqs limits the running requests.
const maxSeqs = 256

// check reports the first flag that cannot be run.
func (s *scenario) check() error {
	const most = 1_000_000
	for _, f := range []struct {
		name  string
		value int
	}{
		{"-tp", s.TensorParallel}, {"-bursts", s.Bursts}, {"-size", s.Size}, {"-short-prompt", s.ShortPrompt},
		{"-long-prompt", s.LongPrompt}, {"-output", s.Output},
	} {
		if f.value < 1 || f.value > most {
			return fmt.Errorf("%s is %d, want 1 to %d", f.name, f.value, most)
		}
	}
	for _, b := range s.Budgets {
		if b < 1 || b > most {
			return fmt.Errorf("-budgets has %d, want 1 to %d", b, most)
		}
	}
	switch {
	case s.Cost != "transformer" && s.Cost != "linear":
		return fmt.Errorf("-cost is %q; known are transformer, linear", s.Cost)
	case s.Order != "arrival" && s.Order != "shortest-prompt":
		return fmt.Errorf("-order is %q; known are arrival, shortest-prompt", s.Order)
	case s.LongPrompt <= s.ShortPrompt:
		return fmt.Errorf("-long-prompt is %d, want more than -short-prompt %d", s.LongPrompt, s.ShortPrompt)
	case s.Every < 0:
		return fmt.Errorf("-every is %v, want at least 0", s.Every)
	case s.Every > math.MaxInt64/2/time.Duration(s.Bursts):
		return fmt.Errorf("-every %v and -bursts %d take more than 146 years", s.Every, s.Bursts)
	}
	return nil
}

// complete makes the cost model and fills in what the flags leave open: the
// KV blocks that fit and the time between bursts.
func (s *scenario) complete() (sim.CostModel, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	var cost sim.CostModel = teaching
	if s.Cost == "linear" {
		s.Model, s.GPU, s.TensorParallel = "", "", 0
	} else {
		t, err := s.transformer()
		if err != nil {
			return nil, err
		}
		cost = t
	}
	if s.Every == 0 {
		s.Every = s.halfWay(cost)
	}
	s.EveryS = s.Every.Seconds()
	return cost, nil
}

// transformer looks model and GPU up.
func (s *scenario) transformer() (*costmodel.Transformer, error) {
	setup, err := costmodel.NewSetup(s.Model, s.GPU)
	if err != nil {
		return nil, err
	}
	s.Model, s.GPU = setup.Model.Name, setup.GPU.Name
	setup.TensorParallel = s.TensorParallel
	cost, err := costmodel.NewTransformer(setup)
	if err != nil {
		return nil, err
	}
	kv, err := setup.KVCapacity(costmodel.KVBudget{Sequences: maxSeqs, BatchTokens: s.longest()})
	if err != nil {
		return nil, fmt.Errorf("%w (-tp divides it over more GPUs)", err)
	}
	s.KVBlocks = kv.Blocks
	return cost, nil
}

// longest is the longest a request gets, and the token budget of a step that
// computes prompts whole, as vLLM chose it before it chunked prompts.
func (s *scenario) longest() int { return s.LongPrompt + s.Output }

// halfWay is the time that a burst takes alone up to the middle of its
// answers, rounded up to tenths of a second.
func (s *scenario) halfWay(cost sim.CostModel) time.Duration {
	long := cost.StepTime(sim.Batch{Prefills: []sim.Chunk{{Tokens: s.LongPrompt, Last: true}}})
	shorts := sim.Batch{}
	for range s.Size {
		shorts.Prefills = append(shorts.Prefills, sim.Chunk{Tokens: s.ShortPrompt, Last: true})
	}
	n := s.Size + 1
	decode := cost.StepTime(sim.Batch{
		Decodes: n, Positions: n, Context: s.LongPrompt + s.Size*s.ShortPrompt + n*s.Output/4,
	})
	const grain = 100 * time.Millisecond
	took := long + cost.StepTime(shorts) + time.Duration(s.Output/2)*decode
	return (took + grain - 1) / grain * grain
}

// Classes of the requests.
const (
	short = iota
	long
)

func (s *scenario) classes() []sim.Class { return []sim.Class{{Name: "short"}, {Name: "long"}} }

// requests yields the bursts.
func (s *scenario) requests() iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		id := 0
		for b := range s.Bursts {
			at := sim.Time(b) * sim.Time(s.Every)
			for i := range s.Size + 1 {
				r := sim.Request{ID: id, Arrival: at, Prompt: s.ShortPrompt, Output: s.Output, MaxOutput: s.Output, Class: short}
				if i == 0 {
					r.Prompt, r.Class = s.LongPrompt, long
				}
				if !yield(r, nil) {
					return
				}
				id++
			}
		}
	}
}
