package kv

import "fmt"

// Transfer is what moves when the KV state of a prompt goes to another replica.
type Transfer struct {
	Tokens      int   // tokens the destination lacks
	Blocks      int   // blocks that hold them
	TokenBytes  int64 // bytes of the tokens alone
	BlocksBytes int64 // bytes of whole blocks, as a pull by blocks moves them
}

// Transfer returns what moves for a prompt of which the destination has found
// hit tokens, whole blocks, in its own cache. It panics unless 0 ≤ hit ≤
// prompt.
func (l Layout) Transfer(prompt, hit int) Transfer {
	if hit < 0 || hit > prompt {
		panic(fmt.Sprintf("kv: Transfer(prompt %d, hit %d)", prompt, hit))
	}
	p := Pool{blockTokens: l.BlockTokens}
	t := Transfer{Tokens: prompt - hit, Blocks: p.Blocks(prompt) - hit/l.BlockTokens}
	t.TokenBytes = int64(t.Tokens) * l.TokenBytes()
	t.BlocksBytes = int64(t.Blocks) * l.BlockBytes()
	return t
}

// LayerwiseEnd returns when the last layer has arrived, counted from the start
// of the prefill, if each of so many equal layers is sent as soon as it is
// computed: max(C + X/L, C/L + X), a two-stage pipeline. prefill is C and
// transfer X, in one unit; sent after the prefill it would end at C + X.
func LayerwiseEnd(prefill, transfer float64, layers int) float64 {
	n := float64(layers)
	return max(prefill+transfer/n, prefill/n+transfer)
}
