package main

import (
	"math"

	"servesim/costmodel"
)

// tileOf returns the rows of a tile that the measured kernel takes for experts
// of a format: rules of vLLM and of the libraries it calls, for a batch of
// positions or for the picks of an expert.
func tileOf(format string, deal routing) float64 {
	positions, picks := float64(deal.positions), float64(deal.positions*deal.picks)
	mean := picks / float64(deal.experts)
	switch {
	case deal.inOrder: // vLLM 0.14
		if deal.positions <= deal.experts/deal.ranks {
			return 16
		}
		return 64
	case format == "fp8_block":
		if positions <= 64 {
			return 16
		}
		return 64
	case format == "nvfp4": // TensorRT-LLM's kernel, as the benchmark calls it
		return min(max(powerOfTwo(math.Floor(mean)), 8), 64)
	case format == "int4_wo": // few picks have a kernel of their own
		switch {
		case picks*float64(deal.ranks)/float64(deal.experts) <= 6:
			return min(powerOfTwo(positions), 16)
		case positions <= 20:
			return 16
		case positions <= 40:
			return 32
		}
		return 64
	case format == "w4a16_mxfp4": // Marlin
		for _, tile := range []float64{8, 16, 32, 48} {
			if mean < 0.9*tile {
				return tile
			}
		}
		return 64
	}
	return costmodel.ExpertsTile(positions)
}

// tunedTile is what tuning comes to: tiles that hold the rows of one expert,
// within what the kernel has.
func tunedTile(part share) float64 {
	return min(max(powerOfTwo(part.rows/part.distinct), 16), 128)
}

// powerOfTwo rounds up; 1 is the least.
func powerOfTwo(x float64) float64 { return math.Exp2(math.Ceil(math.Log2(max(x, 1)))) }

// tunedA100 are experts of a rank and their inner sizes that vLLM has files of
// tuned tiles for on A100-SXM4-80GB (vllm/model_executor/layers/fused_moe/configs).
// For other shapes version 0.14 takes tiles that are half as fast; the rule of
// 0.24, which the other GPUs are measured with, needs no tuning.
var tunedA100 = [][2]float64{
	{1, 1792}, {1, 3072}, {1, 3584}, {1, 7168}, {1, 14336},
	{8, 1792}, {8, 2048}, {8, 3584}, {8, 4096}, {8, 7168}, {128, 192},
}
