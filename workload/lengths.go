package workload

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

	"servesim/sim"
)

// Tokens are the lengths of one request, at least 1 each. As [Lengths] they
// are the lengths of every request.
type Tokens struct {
	Prompt int `doc:"prompt_tokens"`
	Output int `doc:"output_tokens"`
}

// Lengths draws the lengths of a request. All chance comes from r, which is a
// fresh stream for each request. A result below 1 is an error of the workload.
// A type that also has Validate() error is asked before the first request.
type Lengths interface {
	Draw(r *rand.Rand) Tokens
}

// Length draws one length, for [Independent].
type Length interface {
	Draw(r *rand.Rand) int
}

// Validate reports an invalid field.
func (t Tokens) Validate() error {
	if t.Prompt < 1 {
		return fmt.Errorf("Tokens.Prompt is %d, want at least 1", t.Prompt)
	}
	if t.Output < 1 {
		return fmt.Errorf("Tokens.Output is %d, want at least 1", t.Output)
	}
	return nil
}

// Draw returns t.
func (t Tokens) Draw(*rand.Rand) Tokens { return t }

// Independent draws the prompt, then the output, without dependence.
type Independent struct {
	Prompt Length `doc:"prompt"`
	Output Length `doc:"output"`
}

// Validate reports an invalid field.
func (l Independent) Validate() error {
	if err := validate("Independent.Prompt", l.Prompt); err != nil {
		return err
	}
	return validate("Independent.Output", l.Output)
}

// Draw implements [Lengths].
func (l Independent) Draw(r *rand.Rand) Tokens {
	return Tokens{Prompt: l.Prompt.Draw(r), Output: l.Output.Draw(r)}
}

// Fixed is a constant length, at least 1.
type Fixed int

// Validate reports an invalid value.
func (f Fixed) Validate() error {
	if f < 1 {
		return fmt.Errorf("Fixed is %d, want at least 1", int(f))
	}
	return nil
}

// Draw returns the length.
func (f Fixed) Draw(*rand.Rand) int { return int(f) }

// Resample draws pairs from a list of observed ones, each equally likely, with
// replacement. Prompt and output stay together, so their joint distribution is
// the observed one.
type Resample []Tokens

// Observed collects the pairs of a recording.
func Observed(requests iter.Seq2[sim.Request, error]) (Resample, error) {
	var pairs Resample
	for q, err := range requests {
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, Tokens{Prompt: q.Prompt, Output: q.Output})
	}
	return pairs, nil
}

// ObservedByClass collects the pairs of each class of a recording, by
// sim.Request.Class, so that lengths can be fitted and drawn per class. A class outside
// [0, classes) is an error.
func ObservedByClass(requests iter.Seq2[sim.Request, error], classes int) ([]Resample, error) {
	pairs := make([]Resample, classes)
	for q, err := range requests {
		if err != nil {
			return nil, err
		}
		if q.Class < 0 || q.Class >= classes {
			return nil, fmt.Errorf("workload: request %d has class %d of %d", q.ID, q.Class, classes)
		}
		pairs[q.Class] = append(pairs[q.Class], Tokens{Prompt: q.Prompt, Output: q.Output})
	}
	return pairs, nil
}

// Validate reports an empty list or the first invalid pair.
func (s Resample) Validate() error {
	if len(s) == 0 {
		return errors.New("no pairs in Resample")
	}
	for i, t := range s {
		if err := t.Validate(); err != nil {
			return fmt.Errorf("pair %d of Resample: %w", i, err)
		}
	}
	return nil
}

// Draw implements [Lengths].
func (s Resample) Draw(r *rand.Rand) Tokens { return s[r.IntN(len(s))] }

// maxTokens bounds every drawn length, so that sums of lengths stay integers.
const maxTokens = math.MaxInt32

// clip rounds x to the nearest integer, half away from zero, and moves it to
// the nearer bound if it lies outside. A bound of 0 means 1 below and
// maxTokens above.
func clip(x float64, low, high int) int {
	low = max(low, 1)
	if high == 0 {
		high = maxTokens
	}
	x = math.Round(x)
	switch {
	case x <= float64(low):
		return low
	case x >= float64(high):
		return high
	}
	return int(x)
}
