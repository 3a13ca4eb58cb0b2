package costmodel

import (
	"fmt"

	"servesim/sim"
)

// checkBatch panics for a batch that no engine makes.
func checkBatch(b *sim.Batch) {
	if b.Decodes < 0 || b.Positions < b.Decodes || b.Decodes == 0 && b.Positions > 0 ||
		b.Context < 0 || b.Padding.Rows < 0 || b.Padding.PromptTokens < 0 {
		panic(fmt.Sprintf("costmodel: Batch has Decodes %d, Positions %d, Context %d, Padding %+v",
			b.Decodes, b.Positions, b.Context, b.Padding))
	}
	for i := range b.Prefills {
		if c := &b.Prefills[i]; c.Tokens < 1 || c.Context < 0 {
			panic(fmt.Sprintf("costmodel: Batch.Prefills[%d] is %+v", i, *c))
		}
	}
}
