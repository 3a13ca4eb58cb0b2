package main

import (
	"fmt"

	"servesim/costmodel"
	"servesim/sim"
)

// device is the decode curve of a real model: every request holds Context
// tokens.
type device struct {
	Model         string        `json:"model"`
	GPU           string        `json:"gpu"`
	Degree        int           `json:"tensor_parallel"`
	Context       int           `json:"context_tokens"`
	Claim         string        `json:"claim"`
	Params        int           `json:"params"`
	WeightBytes   float64       `json:"weight_bytes_per_gpu"`
	KVBytes       float64       `json:"kv_bytes_per_token_per_gpu"`
	Blocks        int           `json:"kv_blocks"`
	BlockTokens   int           `json:"block_tokens"`
	FittingBatch  int           `json:"fitting_batch"` // requests whose blocks fit beside the weights
	Batches       []devicePoint `json:"decode"`
	PrefillTokens int           `json:"prefill_tokens"`
	PrefillMs     float64       `json:"prefill_ms"`
}

// devicePoint is one decode step.
type devicePoint struct {
	Batch       int     `json:"batch"`
	Fits        bool    `json:"fits"`
	FloorMs     float64 `json:"floor_ms"` // the datasheet's roofline
	StepMs      float64 `json:"step_ms"`
	MatricesMs  float64 `json:"matrices_ms"` // experts among them
	AttentionMs float64 `json:"attention_ms"`
	OtherMs     float64 `json:"other_ms"` // element-wise operators, sampling, and what goes over links
	HostMs      float64 `json:"host_ms"`
	TokenRate   float64 `json:"tok_per_s"`
}

func newDevice(model, gpu string, degree, context int) (device, error) {
	if context < 1 {
		return device{}, fmt.Errorf("-context is %d, want at least 1", context)
	}
	setup, err := costmodel.NewSetup(model, gpu)
	if err != nil {
		return device{}, err
	}
	if degree < 1 {
		return device{}, fmt.Errorf("-tp is %d, want at least 1", degree)
	}
	setup.TensorParallel = degree
	cost, err := costmodel.NewTransformer(setup)
	if err != nil {
		return device{}, err
	}
	capacity, err := setup.KVCapacity(costmodel.KVBudget{})
	if err != nil {
		return device{}, fmt.Errorf("%w (-tp divides it over more GPUs)", err)
	}
	ideal := setup
	ideal.Efficiency = costmodel.Efficiency{}
	floor, err := costmodel.NewTransformer(ideal)
	if err != nil {
		return device{}, err
	}

	d := device{
		Model: setup.Model.Name, GPU: setup.GPU.Name, Degree: degree, Context: context,
		Claim: cost.Claim().String(), Params: setup.Model.Params(),
		WeightBytes: capacity.Weights, KVBytes: capacity.BytesPerToken,
		Blocks: capacity.Blocks, BlockTokens: capacity.BlockTokens,
		// The step's own token needs a place as well.
		FittingBatch:  capacity.Blocks / (context/capacity.BlockTokens + 1),
		PrefillTokens: context,
	}
	for n := 1; n <= 512; n *= 2 {
		b := sim.Batch{Decodes: n, Positions: n, Context: n * context}
		d.Batches = append(d.Batches, newDevicePoint(b, cost, floor, d.FittingBatch))
	}
	prompt := sim.Batch{Prefills: []sim.Chunk{{Tokens: context, Last: true}}}
	d.PrefillMs = ms(cost.StepTime(prompt).Seconds())
	return d, nil
}

func newDevicePoint(b sim.Batch, cost, floor *costmodel.Transformer, fitting int) devicePoint {
	parts := cost.Breakdown(b)
	sum := func(ops ...costmodel.Op) float64 {
		s := 0.0
		for _, op := range ops {
			s += parts[op].Seconds
		}
		return ms(s)
	}
	step := cost.StepTime(b).Seconds()
	return devicePoint{
		Batch: b.Decodes, Fits: b.Decodes <= fitting,
		FloorMs: ms(floor.StepTime(b).Seconds()), StepMs: ms(step),
		MatricesMs:  sum(costmodel.QKV, costmodel.Output, costmodel.GateUp, costmodel.Down, costmodel.Router, costmodel.Routed, costmodel.LMHead),
		AttentionMs: sum(costmodel.DecodeAttention),
		OtherMs:     sum(costmodel.Embedding, costmodel.Elementwise, costmodel.Sampling, costmodel.AllReduce, costmodel.Gather),
		HostMs:      sum(costmodel.Host),
		TokenRate:   round(float64(b.Decodes)/step, 1),
	}
}

func ms(seconds float64) float64 { return round(seconds*1e3, 4) }
