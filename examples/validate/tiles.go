package main

import (
	"math"

	"servesim/costmodel"
)

// tileOf returns the rows of a tile that the measured kernel takes for experts
// of a format.
func tileOf(p costmodel.Precision, deal routing) float64 {
	if deal.inOrder { // vLLM 0.14
		if deal.positions <= deal.experts/deal.ranks {
			return 16
		}
		return 64
	}
	e := costmodel.RoutedExperts{Count: deal.experts, PerPosition: deal.picks, Ranks: deal.ranks, Precision: p}
	return e.Tile(float64(deal.positions))
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
