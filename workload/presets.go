package workload

// The presets of Azure are fits of the public Azure recordings of November 2023 (Patel
// et al., "Splitwise", ISCA 2024; data CC-BY-4.0), one hour each. Stays of
// more than 100 s rest on few transitions.

// AzureCode2023 is the arrival process of the Azure coding recording: a
// four-state Poisson hidden Markov model of its counts per second (Baum-Welch).
// It has 2.57 requests per second and an index of dispersion of 12.0, 64.9 and
// 139 at 1, 10 and 60 s (recording: 2.567; 13.2, 71.6 and 164).
func AzureCode2023() MMPP {
	return MMPP{
		Rates: []float64{0.001, 0.267, 7.098, 22.736},
		Transition: [][]float64{
			{.9739, .0055, .02, .0006},
			{.1161, .428, .4311, .0248},
			{.0547, .0993, .7739, .0721},
			{.0279, .0423, .2856, .6442},
		},
	}
}

// AzureConv2023 is the arrival process of the Azure conversation recording,
// fitted in the same way. It has 5.52 requests per second and an index of
// dispersion of 1.28, 3.77 and 16.1 at 1, 10 and 60 s (recording: 5.530; 1.39,
// 3.86 and 16.1): nearly Poisson from gap to gap, with a slow tide.
func AzureConv2023() MMPP {
	return MMPP{
		Rates: []float64{1.761, 4.318, 5.544, 7.482},
		Transition: [][]float64{
			{.976, .024, 0, 0},
			{.0013, .9951, .0036, 0},
			{0, .0026, .9939, .0035},
			{0, 0, .0069, .9931},
		},
	}
}

// AzureCode2023Lengths are the lengths of the coding recording: two log-normal
// components each for prompt and output, independent because their rank
// correlation is -0.02, clipped to the recorded range. The recording's prompts
// were cut near 7,437 tokens; the clipped law has the same atom there. Means are
// 1,990 and 26.3 tokens (recording: 2,048 and 27.9), the largest distances
// between distribution functions 0.030 and 0.025.
func AzureCode2023Lengths() Independent {
	return Independent{
		Prompt: LogNormalMixture{
			Weights: []float64{.31, .69},
			Medians: []float64{258, 2110},
			Sigmas:  []float64{1.32, .72},
			Min:     3,
			Max:     7437,
		},
		Output: LogNormalMixture{
			Weights: []float64{.66, .34},
			Medians: []float64{10.6, 36.5},
			Sigmas:  []float64{.38, .90},
			Min:     6,
			Max:     1899,
		},
	}
}

// AzureConv2023Lengths are the lengths of the conversation recording: a
// bivariate log-normal mixture of five components, clipped to the recorded
// maxima. Means are 1,151 and 213 tokens (recording: 1,155 and 211), the largest
// distances between distribution functions 0.043 and 0.069.
func AzureConv2023Lengths() Mixture {
	return Mixture{
		Components: []Component{
			{Weight: .326, MedianPrompt: 1074, MedianOutput: 419, SigmaPrompt: .08, SigmaOutput: .11, Rho: .02},
			{Weight: .238, MedianPrompt: 399, MedianOutput: 94, SigmaPrompt: .05, SigmaOutput: .24, Rho: .31},
			{Weight: .180, MedianPrompt: 213, MedianOutput: 107, SigmaPrompt: .98, SigmaOutput: .88, Rho: 0},
			{Weight: .179, MedianPrompt: 1687, MedianOutput: 97, SigmaPrompt: .47, SigmaOutput: .48, Rho: -.08},
			{Weight: .075, MedianPrompt: 4086, MedianOutput: 55, SigmaPrompt: .03, SigmaOutput: .45, Rho: 0},
		},
		MaxPrompt: 14050,
		MaxOutput: 1000,
	}
}

// RAGPulsePassages are passages as prompts of the RAGPulse recording have them
// (Wang et al., 2025; MIT): six of 3,172. Topics make prompts begin alike as
// often as there: 77, 41, 23, 14, 9 and 6 % with the same one, two, … six
// passages as an earlier prompt. In the recording they stand behind a text of
// each request alone, so that a prefix cache finds none of them; see [Unshared].
func RAGPulsePassages() Retrieval {
	return Retrieval{
		Pool: 4000, Skew: 0.8, Count: Fixed(6), Tokens: LogNormal{Median: 246, Sigma: 0.40, Min: 20, Max: 512},
		Topics: 3500, TopicSkew: 0.9, Miss: 0.45,
	}
}
