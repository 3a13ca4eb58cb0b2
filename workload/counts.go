package workload

import (
	"fmt"
	"strings"
)

// Counts says what became of the rows of a recording: Read is the sum of
// Emitted and the Dropped.
type Counts struct {
	Read       int `json:"read"`                // rows; blank lines do not count
	Emitted    int `json:"emitted"`             // rows that became requests, or will where a reader holds rows (Sort, Spread)
	ZeroPrompt int `json:"dropped_zero_prompt"` // no prompt tokens
	ZeroOutput int `json:"dropped_zero_output"` // no output tokens: a failure, or an empty answer
	Images     int `json:"dropped_images"`      // has images, and KeepImages is not set
	Filtered   int `json:"dropped_filtered"`    // not of the model, log or type that was asked for
	Malformed  int `json:"dropped_malformed"`   // cannot be read, and SkipMalformed is set
	OutOfOrder int `json:"out_of_order"`        // rows before their predecessor, which Sort put in order; none is dropped for it
}

// Dropped returns the number of rows that did not become requests.
func (c Counts) Dropped() int {
	return c.ZeroPrompt + c.ZeroOutput + c.Images + c.Filtered + c.Malformed
}

// String says it in words: "5 rows: 2 requests, 3 dropped (2 without prompt
// tokens, 1 with images)".
func (c Counts) String() string {
	var reasons []string
	for _, r := range []struct {
		rows int
		what string
	}{
		{c.ZeroPrompt, "without prompt tokens"}, {c.ZeroOutput, "without output tokens"}, {c.Images, "with images"},
		{c.Filtered, "filtered out"}, {c.Malformed, "malformed"},
	} {
		if r.rows > 0 {
			reasons = append(reasons, fmt.Sprintf("%d %s", r.rows, r.what))
		}
	}
	s := fmt.Sprintf("%d rows: %d requests, %d dropped", c.Read, c.Emitted, c.Dropped())
	if reasons != nil {
		s += " (" + strings.Join(reasons, ", ") + ")"
	}
	if c.OutOfOrder > 0 {
		s += fmt.Sprintf(", %d put in order", c.OutOfOrder)
	}
	return s
}

// reason is why a row that can be read is dropped although it has tokens.
type reason uint8

const (
	notDropped reason = iota
	hasImages
	filteredOut
)

// resetCounts returns where an iteration counts, from zero: c if there is one.
func resetCounts(c *Counts) *Counts {
	if c == nil {
		return new(Counts)
	}
	*c = Counts{}
	return c
}

// add books a row and reports whether it is kept.
func (c *Counts) add(r *row) bool {
	c.Read++
	switch {
	case r.drop == filteredOut:
		c.Filtered++
	case r.drop == hasImages:
		c.Images++
	case r.prompt == 0:
		c.ZeroPrompt++
	case r.output == 0:
		c.ZeroOutput++
	default:
		c.Emitted++
		return true
	}
	return false
}
