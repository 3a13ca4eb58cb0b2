package workload

import (
	"fmt"
	"slices"

	"servesim/sim/kv"
)

// Text is a run of tokens in a prompt. The tokens of texts of one ID are the same
// where their positions in the text are, and those of different IDs differ. So
// prompts are known token by token without having any, and what they share is
// the same whatever the size of the blocks that it is found in.
type Text struct {
	ID     uint64
	From   int // position of the first token in the text
	Tokens int
}

// HashTexts appends to dst the hash chain of the full blocks of blockTokens
// tokens of texts that follow each other, as [kv.HashTokens] does for tokens: two
// chains are equal up to a block just if the tokens are. It panics if
// blockTokens is less than 1, or a text has negative numbers.
//
// Chains of two block sizes describe the same prompts. Coarsened by [kv.Convert],
// the finer finds what the coarser finds; split, the coarser finds less, since
// a block does not tell where its difference begins.
func HashTexts(dst []kv.Hash, texts []Text, blockTokens int, salt string) []kv.Hash {
	t := transcript{block: blockTokens, salt: salt, texts: texts, chain: dst[len(dst):]}
	if err := t.measure(); err != nil {
		panic("workload: HashTexts of " + err.Error())
	}
	return append(dst, t.hash()...)
}

// transcript is texts that follow each other and grow, with the hash chain of
// their full blocks.
type transcript struct {
	block  int // tokens, at least 1
	salt   string
	texts  []Text
	tokens int
	chain  []kv.Hash

	at, offset int   // the text, and position in it, of the first token without hash
	pieces     []int // scratch
}

// measure counts the tokens of the texts.
func (t *transcript) measure() error {
	t.tokens = 0
	for _, x := range t.texts {
		if x.From < 0 || x.Tokens < 0 || x.Tokens > maxTokens {
			return fmt.Errorf("a text of %d tokens from %d", x.Tokens, x.From)
		}
		t.tokens += x.Tokens
	}
	return nil
}

// add appends a text.
func (t *transcript) add(x Text) {
	if x.Tokens > 0 {
		t.texts = append(t.texts, x)
		t.tokens += x.Tokens
	}
}

// keep forgets all but the first n tokens.
func (t *transcript) keep(n int) {
	if n >= t.tokens {
		return
	}
	i, before := t.find(n)
	t.texts[i].Tokens = n - before
	if t.texts = t.texts[:i+1]; n == before {
		t.texts = t.texts[:i]
	}
	t.tokens = n
	if len(t.chain)*t.block > n { // without chains there are no blocks
		full := n / t.block
		t.chain = slices.Clip(t.chain[:full]) // what earlier requests have stays
		t.at, before = t.find(full * t.block)
		t.offset = full*t.block - before
	}
}

// find returns the text that has token n, and the tokens of those before.
func (t *transcript) find(n int) (i, before int) {
	for i < len(t.texts) && before+t.texts[i].Tokens <= n {
		before += t.texts[i].Tokens
		i++
	}
	return i, before
}

// last returns the last n tokens.
func (t *transcript) last(n int) []Text {
	i, before := t.find(max(0, t.tokens-n))
	out := slices.Clone(t.texts[i:])
	if skip := t.tokens - n - before; len(out) > 0 && skip > 0 {
		out[0].From += skip
		out[0].Tokens -= skip
	}
	return out
}

// hash returns the chain of all full blocks.
func (t *transcript) hash() []kv.Hash {
	if t.block < 1 {
		panic("workload: HashTexts with blocks of no tokens")
	}
	for start := len(t.chain) * t.block; start+t.block <= t.tokens; start += t.block {
		var parent kv.Hash
		if start > 0 {
			parent = t.chain[len(t.chain)-1]
		}
		t.chain = append(t.chain, kv.HashBlock(parent, start, t.next(), t.salt))
	}
	return t.chain
}

// next returns what the next block is made of: the ID, the position and the
// tokens of each piece. Pieces of one text that follow on are one.
func (t *transcript) next() []int {
	t.pieces = t.pieces[:0]
	for left := t.block; left > 0; {
		x := t.texts[t.at]
		n := min(left, x.Tokens-t.offset)
		id, from := int(x.ID), x.From+t.offset
		if k := len(t.pieces); k > 0 && t.pieces[k-3] == id && t.pieces[k-2]+t.pieces[k-1] == from {
			t.pieces[k-1] += n
		} else if n > 0 {
			t.pieces = append(t.pieces, id, from, n)
		}
		left -= n
		if t.offset += n; t.offset == x.Tokens {
			t.at, t.offset = t.at+1, 0
		}
	}
	return t.pieces
}
