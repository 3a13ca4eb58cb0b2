package workload

// Counts says what became of the rows of a recording: Read is the sum of the
// others.
type Counts struct {
	Read       int `json:"read"`                // data rows; blank lines do not count
	Emitted    int `json:"emitted"`             // rows that became requests, or will where a reader holds rows (Sort, Spread)
	ZeroPrompt int `json:"dropped_zero_prompt"` // no prompt tokens
	ZeroOutput int `json:"dropped_zero_output"` // no output tokens: a failure, or an empty answer
	Images     int `json:"dropped_images"`      // has images, and KeepImages is not set
}

// Dropped returns the number of rows that did not become requests.
func (c Counts) Dropped() int { return c.ZeroPrompt + c.ZeroOutput + c.Images }

// resetCounts returns where an iteration counts, from zero: c if there is one.
func resetCounts(c *Counts) *Counts {
	if c == nil {
		return new(Counts)
	}
	*c = Counts{}
	return c
}

// add books a row and reports whether it is kept. Images are those for which
// it would be dropped.
func (c *Counts) add(prompt, output, images int) bool {
	c.Read++
	switch {
	case images > 0:
		c.Images++
	case prompt == 0:
		c.ZeroPrompt++
	case output == 0:
		c.ZeroOutput++
	default:
		c.Emitted++
		return true
	}
	return false
}
