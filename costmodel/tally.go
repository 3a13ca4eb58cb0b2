package costmodel

// Tally adds up steps of unequal size. Its rate is total tokens over total
// time, never a mean of step rates, which would count short steps too much.
// The zero value is empty.
type Tally struct {
	Tokens  float64 // useful tokens
	Seconds float64
}

// Add counts one step of the given length.
func (t *Tally) Add(tokens, seconds float64) {
	t.Tokens += tokens
	t.Seconds += seconds
}

// TokenRate returns useful tokens per second, NaN if nothing was added.
func (t Tally) TokenRate() float64 { return t.Tokens / t.Seconds }
