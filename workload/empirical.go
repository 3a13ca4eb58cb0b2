package workload

import (
	"errors"
	"fmt"
	"math/rand/v2"
)

// Empirical is a length with a table of probabilities, such as a recorded
// histogram.
type Empirical struct {
	Values  []int     `doc:"values_tokens"` // tokens, at least 1 each, rising
	Weights []float64 `doc:"weights"`       // one per value, at least 0; divided by their sum
}

// Validate reports an invalid field.
func (e Empirical) Validate() error {
	if len(e.Values) == 0 {
		return errors.New("no Values in Empirical")
	}
	if len(e.Weights) != len(e.Values) {
		return fmt.Errorf("Empirical has %d Values and %d Weights, want equal numbers", len(e.Values), len(e.Weights))
	}
	for i, v := range e.Values {
		if v < 1 || v > maxTokens {
			return fmt.Errorf("Empirical.Values[%d] is %d, want 1 to %d", i, v, maxTokens)
		}
		if i > 0 && v <= e.Values[i-1] {
			return fmt.Errorf("Empirical.Values[%d] is %d, want more than %d", i, v, e.Values[i-1])
		}
	}
	return checkWeights("Empirical.Weights", e.Weights)
}

// Draw implements [Length].
func (e Empirical) Draw(r *rand.Rand) int { return e.at(r.Float64()) }

// at is the value below which the part u of the weight lies.
func (e Empirical) at(u float64) int { return e.Values[pickAt(u, e.Weights, itself)] }

// ServeGenLengths are the lengths of a client as ServeGen (Xiang et al., 2025)
// draws them: one uniform number decides both, so that the longest prompts
// always have the longest outputs, with a rank correlation near 1. [Independent] of the
// same two tables is without that coupling.
type ServeGenLengths struct {
	Prompt Empirical `doc:"prompt"`
	Output Empirical `doc:"output"`
}

// Validate reports an invalid field.
func (s ServeGenLengths) Validate() error {
	if err := validate("ServeGenLengths.Prompt", s.Prompt); err != nil {
		return err
	}
	return validate("ServeGenLengths.Output", s.Output)
}

// Draw implements [Lengths].
func (s ServeGenLengths) Draw(r *rand.Rand) Tokens {
	u := r.Float64()
	return Tokens{Prompt: s.Prompt.at(u), Output: s.Output.at(u)}
}
