package workload

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// LengthComparison says how near generated lengths come to recorded ones.
type LengthComparison struct {
	Recorded  JointLengths `json:"recorded"`
	Generated JointLengths `json:"generated"`
	// PromptKS and OutputKS are the largest distances between the distribution
	// functions (Kolmogorov-Smirnov), 0 to 1.
	PromptKS Figure `json:"prompt_ks"`
	OutputKS Figure `json:"output_ks"`
}

// JointLengths are figures of pairs of prompt and output lengths that their
// margins do not show, beside the means.
type JointLengths struct {
	Pairs      int    `json:"pairs"`
	PromptMean Figure `json:"prompt_mean"`
	OutputMean Figure `json:"output_mean"`
	// Spearman is the rank correlation, ties having their mean rank.
	Spearman Figure `json:"spearman"`
	// Eta2 is the part of the variance of the logarithm of the output that
	// lies between 20 groups of equal size by prompt length; equal prompts stay in one group,
	// that of their mean rank. It sees dependence that is not monotone. Below
	// 20 pairs there is no figure.
	Eta2 Figure `json:"eta2"`
}

// CompareLengths compares pairs, at least one in each list, with lengths from 1
// to 2^31-1. An error names what is not.
func CompareLengths(recorded, generated Resample) (LengthComparison, error) {
	if err := errors.Join(recorded.comparable("recorded"), generated.comparable("generated")); err != nil {
		return LengthComparison{}, fmt.Errorf("workload: CompareLengths: %w", err)
	}
	ks := func(side func(Resample) []int32) Figure {
		return Figure(stat.KolmogorovSmirnov(sorted(side(recorded)), nil, sorted(side(generated)), nil))
	}
	return LengthComparison{
		Recorded:  recorded.joint(),
		Generated: generated.joint(),
		PromptKS:  ks(func(s Resample) []int32 { return column(s.prompts, len(s)) }),
		OutputKS:  ks(func(s Resample) []int32 { return column(s.outputs, len(s)) }),
	}, nil
}

// DrawLengths draws n pairs, as the requests 0 to n-1 of a [Workload] with that
// seed and one class would have them.
func DrawLengths(l Lengths, n int, seed uint64) (Resample, error) {
	if err := validate("Lengths", l); err != nil {
		return nil, fmt.Errorf("workload: DrawLengths: %w", err)
	}
	f := newFamily(seed, "lengths")
	r := rand.New(f)
	pairs := make(Resample, n)
	for i := range pairs {
		f.rewind(uint64(i))
		pairs[i] = l.Draw(r)
		if err := pairs[i].Validate(); err != nil {
			return nil, fmt.Errorf("workload: DrawLengths: draw %d: %w", i, err)
		}
	}
	return pairs, nil
}

func (s Resample) comparable(name string) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for i, t := range s {
		if t.Prompt > maxTokens || t.Output > maxTokens {
			return fmt.Errorf("%s: pair %d is %+v, want at most %d", name, i, t, maxTokens)
		}
	}
	return nil
}

func (s Resample) joint() JointLengths {
	prompts, outputs := column(s.prompts, len(s)), column(s.outputs, len(s))
	ranked := ranks(prompts)
	return JointLengths{
		Pairs:      len(s),
		PromptMean: summarise(prompts).Mean,
		OutputMean: summarise(outputs).Mean,
		Spearman:   orNaN(stat.Correlation(ranked, ranks(outputs), nil), len(s) > 1),
		Eta2:       eta2(ranked, outputs),
	}
}

// eta2 is the correlation ratio of the logarithms of outputs with the ventile
// of the rank of their prompts.
func eta2(ranked []float64, outputs []int32) Figure {
	const groups = 20
	var inGroup [groups]moments
	var all moments
	for i, rank := range ranked {
		log := math.Log(float64(outputs[i]))
		all.add(log)
		inGroup[int(groups*rank/float64(len(ranked)))].add(log)
	}
	within := 0.0
	for _, g := range inGroup {
		within += g.m2
	}
	return orNaN(1-within/all.m2, len(ranked) >= groups && all.m2 > 0)
}

func column(values func(func(int) bool), n int) []int32 {
	out := make([]int32, 0, n)
	for v := range values {
		out = append(out, int32(v))
	}
	return out
}

func sorted(values []int32) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = float64(v)
	}
	slices.Sort(out)
	return out
}
