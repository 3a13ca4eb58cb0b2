package workload

import (
	"fmt"
	"math/rand/v2"
)

// Truncated draws lengths again until they lie within bounds, as a recording
// from which rows were left out: the law inside the bounds keeps its shape.
// [LogNormal] and [Mixture] with a Max move what lies above it to the bound
// instead, as a service does that cuts requests (censoring).
type Truncated struct {
	Lengths  Lengths `doc:"lengths"`
	Prompt   Range   `doc:"prompt,opt"`
	Output   Range   `doc:"output,opt"`
	MaxTotal int     `doc:"max_total_tokens,opt"` // of prompt and output together; 0 means no such bound
}

// Range are bounds of a length; 0 means no bound.
type Range struct {
	Min int `doc:"min_tokens,opt"`
	Max int `doc:"max_tokens,opt"`
}

func (r Range) has(v int) bool { return v >= r.Min && (r.Max == 0 || v <= r.Max) }

// Validate reports an invalid field.
func (t Truncated) Validate() error {
	if err := checkClip("Truncated.Prompt", t.Prompt.Min, t.Prompt.Max); err != nil {
		return err
	}
	if err := checkClip("Truncated.Output", t.Output.Min, t.Output.Max); err != nil {
		return err
	}
	if t.MaxTotal < 0 || t.MaxTotal > 0 && t.MaxTotal < max(1, t.Prompt.Min)+max(1, t.Output.Min) {
		return fmt.Errorf("Truncated.MaxTotal is %d, below the least prompt and output", t.MaxTotal)
	}
	return validate("Truncated.Lengths", t.Lengths)
}

// maxRedraws bounds the attempts for one pair.
const maxRedraws = 100_000

// Draw implements [Lengths]. Bounds that 100,000 draws in a row miss give a
// pair of zeros, which is an error of the workload.
func (t Truncated) Draw(r *rand.Rand) Tokens {
	for range maxRedraws {
		n := t.Lengths.Draw(r)
		if t.Prompt.has(n.Prompt) && t.Output.has(n.Output) && (t.MaxTotal == 0 || n.Prompt+n.Output <= t.MaxTotal) {
			return n
		}
	}
	return Tokens{}
}
