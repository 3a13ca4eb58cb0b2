package workload

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// JointShape says how prompt and output lengths depend on each other.
type JointShape struct {
	// Pearson is the correlation of the lengths, and PearsonLog that of their
	// logarithms.
	Pearson    Figure `json:"pearson"`
	PearsonLog Figure `json:"pearson_log"`
	// EtaSquared is the share of the variance of the logarithm of the output
	// that lies between bins of the prompt, of [EtaBins] bins. Unlike a
	// correlation it sees any dependence of the mean.
	EtaSquared Figure `json:"eta_squared"`
	// TokenRatio is the number of prompt tokens for one of output.
	TokenRatio Figure `json:"prompt_tokens_per_output_token"`
	// OutputByDecile is the mean output by prompt, from short to long, in ten
	// bins. Where many prompts are equal a bin can be empty.
	OutputByDecile []Figure `json:"output_by_prompt_decile"`
	// PromptMode and OutputMode are the most frequent lengths, the smallest of
	// several, and the others the shares of the requests that have them.
	PromptMode      Figure `json:"prompt_mode"`
	PromptModeShare Figure `json:"prompt_mode_share"`
	OutputMode      Figure `json:"output_mode"`
	OutputModeShare Figure `json:"output_mode_share"`
	// OneToken is the share of outputs of one token.
	OneToken Figure `json:"output_of_one_token"`
}

// EtaBins is the number of bins of JointShape.EtaSquared. The edges of bins are
// quantiles of the prompts, as in [Summary]. A bin has its upper edge, so that
// equal prompts are in one.
const EtaBins = 20

func jointShape(prompts, outputs []int32) JointShape {
	n := len(prompts)
	x, y := make([]float64, n), make([]float64, n)
	ones := 0
	var sumPrompts, sumOutputs float64
	for i := range prompts {
		x[i], y[i] = float64(prompts[i]), float64(outputs[i])
		sumPrompts += x[i]
		sumOutputs += y[i]
		if outputs[i] == 1 {
			ones++
		}
	}
	s := JointShape{
		Pearson:    correlation(x, y),
		PearsonLog: Figure(math.NaN()),
		EtaSquared: Figure(math.NaN()),
		TokenRatio: orNaN(sumPrompts/sumOutputs, sumOutputs > 0),
		OneToken:   orNaN(float64(ones)/float64(n), n > 0),
	}
	sorted := slices.Clone(outputs)
	slices.Sort(sorted)
	s.OutputMode, s.OutputModeShare = mostFrequent(sorted)
	logs, varied := positive(sorted), vary(sorted)
	copy(sorted, prompts)
	slices.Sort(sorted)
	s.PromptMode, s.PromptModeShare = mostFrequent(sorted)
	for _, m := range binned(prompts, sorted, y, 10) {
		s.OutputByDecile = append(s.OutputByDecile, orNaN(m.mean, m.n > 0))
	}
	if !varied {
		s.Pearson = Figure(math.NaN())
	}
	if !varied || !logs || !positive(sorted) {
		return s
	}
	for i := range x {
		x[i], y[i] = math.Log(x[i]), math.Log(y[i])
	}
	if vary(sorted) {
		s.PearsonLog = correlation(x, y)
	}
	s.EtaSquared = between(binned(prompts, sorted, y, EtaBins))
	return s
}

// positive and vary report that values in order are all above 0, and that not
// all are equal.
func positive(sorted []int32) bool { return len(sorted) > 0 && sorted[0] > 0 }
func vary(sorted []int32) bool     { return len(sorted) > 0 && sorted[0] < sorted[len(sorted)-1] }

// mostFrequent returns the value that occurs most often, the smallest of
// several, and its share.
func mostFrequent(sorted []int32) (value, share Figure) {
	most, times := int32(0), 0
	for i := 0; i < len(sorted); {
		j := i + 1
		for j < len(sorted) && sorted[j] == sorted[i] {
			j++
		}
		if j-i > times {
			most, times = sorted[i], j-i
		}
		i = j
	}
	return orNaN(float64(most), times > 0), orNaN(float64(times)/float64(len(sorted)), times > 0)
}

func correlation(x, y []float64) Figure { return orNaN(stat.Correlation(x, y, nil), len(x) > 1) }

// binned puts values into bins of the prompts that they belong to, which are
// there in order too.
func binned(prompts, sorted []int32, values []float64, bins int) []moments {
	out := make([]moments, bins)
	var edges []float64
	for i := 1; i < bins; i++ {
		edges = append(edges, float64(quantile(sorted, float64(i)/float64(bins))))
	}
	for i, p := range prompts {
		bin, _ := slices.BinarySearch(edges, float64(p)) // the first edge that is not below
		out[bin].add(values[i])
	}
	return out
}

// between is the share of the sum of squared deviations that lies between
// bins.
func between(bins []moments) Figure {
	var n, sum, within, squares float64
	for _, b := range bins {
		n += b.n
		sum += float64(b.n * b.mean)
		within += b.m2
	}
	mean := sum / n
	for _, b := range bins {
		d := b.mean - mean
		squares += float64(b.n * float64(d*d))
	}
	return orNaN(squares/(squares+within), squares+within > 0)
}
