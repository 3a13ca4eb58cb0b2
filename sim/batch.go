package sim

import "time"

// CostModel tells how long one step takes on one replica.
//
// StepTime is called once per step with the step's batch. It must be a pure
// function of the batch, must not keep b.Prefills and should not allocate. A
// result of zero counts as one nanosecond; a negative one, and so
// [InvalidDuration], ends the run with an error.
type CostModel interface {
	StepTime(b Batch) time.Duration
}

// CostFunc adapts a function to CostModel.
type CostFunc func(Batch) time.Duration

// StepTime calls f.
func (f CostFunc) StepTime(b Batch) time.Duration { return f(b) }

// Batch is the work of one step. It is plain data: a cost model can be called
// with a literal and no engine.
type Batch struct {
	// Decodes is the number of sequences that miss exactly one position
	// before their next token.
	Decodes int
	// Positions is the number of positions those sequences evaluate.
	Positions int
	// Context is the number of tokens already in the KV cache of those
	// sequences before the step, summed. Each position also reads the key
	// and value of its own token, which is not counted here.
	Context int
	// Prefills are the prompt chunks of the step.
	Prefills []Chunk
	// SwapIn and SwapOut are the KV blocks copied from and to host memory with
	// the step.
	SwapIn, SwapOut int
	// Padding is what the device computes without use.
	Padding Padding
}

// Chunk is a run of consecutive prompt positions of one sequence.
type Chunk struct {
	// Tokens is the number of positions, at least 1.
	Tokens int
	// Context is the number of tokens already in the KV cache of the
	// sequence before the step.
	Context int
	// Last is set when the chunk completes the prompt, so that the step
	// samples a token from it.
	Last bool
}

// Padding counts rows and positions that a static batch computes only because
// its tensors are rectangular.
type Padding struct {
	Rows         int // decode rows of sequences that have ended
	PromptTokens int // prompt positions behind the end of shorter prompts
}

// PrefillTokens returns the prompt positions of the batch, without padding.
func (b Batch) PrefillTokens() int {
	n := 0
	for _, c := range b.Prefills {
		n += c.Tokens
	}
	return n
}

// Samples returns the number of sequences that get a token from the step.
func (b Batch) Samples() int {
	n := b.Decodes
	for _, c := range b.Prefills {
		if c.Last {
			n++
		}
	}
	return n
}

// Empty reports whether the batch holds no work.
func (b Batch) Empty() bool {
	return b.Decodes == 0 && len(b.Prefills) == 0 && b.SwapIn == 0 && b.SwapOut == 0
}
