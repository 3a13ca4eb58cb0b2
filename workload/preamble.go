package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
)

// Preamble draws the texts that prompts begin with and may have in common:
// system prompts, examples, passages.
type Preamble interface {
	// Begin returns the function that appends the texts in front of request or
	// session n, counted from 0. It takes what it draws for n from r, which is a
	// fresh stream for each n; what all have in common is drawn by seed. A type
	// that also has Validate() error is asked before.
	Begin(seed uint64) func(dst []Text, n int64, r *rand.Rand) []Text
}

// Preambles are one behind the other. Texts of two of them are never the same.
type Preambles []Preamble

// Validate reports the first invalid preamble.
func (p Preambles) Validate() error {
	for i, q := range p {
		if err := validate(fmt.Sprintf("Preambles[%d]", i), q); err != nil {
			return err
		}
	}
	return nil
}

// Begin implements [Preamble].
func (p Preambles) Begin(seed uint64) func(dst []Text, n int64, r *rand.Rand) []Text {
	draws := make([]func([]Text, int64, *rand.Rand) []Text, len(p))
	for i, q := range p {
		draws[i] = q.Begin(seed)
	}
	return func(dst []Text, n int64, r *rand.Rand) []Text {
		for i, draw := range draws {
			from := len(dst)
			dst = draw(dst, n, r)
			for j := range dst[from:] {
				dst[from+j].ID = mix(dst[from+j].ID ^ mix(uint64(i)))
			}
		}
		return dst
	}
}

// SystemPrompts are system prompts of as many Tokens, one for each of Groups, 0
// means 1. With Skew 0 they are taken in turn; otherwise drawn, the k-th with a
// probability in proportion to k^-Skew.
type SystemPrompts struct {
	Tokens int     `doc:"tokens"`
	Groups int     `doc:"groups,opt"`
	Skew   float64 `doc:"skew,opt"`
}

// Validate reports the first invalid field.
func (s SystemPrompts) Validate() error {
	if err := checkTokens("SystemPrompts.Tokens", s.Tokens); err != nil {
		return err
	}
	if s.Groups < 0 || s.Groups > maxRanks {
		return fmt.Errorf("SystemPrompts.Groups is %d, want from 0 to %d", s.Groups, maxRanks)
	}
	return checkNotNegative("SystemPrompts.Skew", s.Skew)
}

// Begin implements [Preamble].
func (s SystemPrompts) Begin(uint64) func(dst []Text, n int64, r *rand.Rand) []Text {
	groups := max(1, s.Groups)
	law := newZipf(groups, s.Skew)
	return func(dst []Text, n int64, r *rand.Rand) []Text {
		group := int(n % int64(groups))
		if s.Skew > 0 {
			group = law.draw(r, nil)
		}
		return append(dst, Text{ID: uint64(group), Tokens: s.Tokens})
	}
}

// Unshared is a text of so many tokens of each request alone, such as the time or
// the name of a user: an engine finds nothing that stands behind it again.
type Unshared int

// Validate reports a length that cannot be.
func (u Unshared) Validate() error { return checkTokens("Unshared", int(u)) }

// Begin implements [Preamble].
func (u Unshared) Begin(uint64) func(dst []Text, n int64, r *rand.Rand) []Text {
	return func(dst []Text, n int64, _ *rand.Rand) []Text {
		return append(dst, Text{ID: uint64(n), Tokens: int(u)})
	}
}

// Tree is prompts that share the paths of a tree from the root: instructions,
// then examples, then a document, or the branches of a search. Level by level a
// prompt takes one of the branches, each with a text of its own, so that a
// request finds in a cache what the deepest node that an earlier one went
// through, or stands before, has.
type Tree struct {
	Levels []Branches `doc:"levels"` // from the root; the first has as many roots as branches
	// InTurn takes the leaves one after the other, a whole subtree before the
	// next. By default branches are drawn.
	InTurn bool `doc:"in_turn,opt"`
}

// Branches are the children of every node of one level of a [Tree].
type Branches struct {
	Tokens int `doc:"tokens"` // of each, at least 1
	Fanout int `doc:"fanout"` // at least 1
	// Skew makes the k-th child drawn in proportion to k^-Skew.
	Skew float64 `doc:"skew,opt"`
}

// Validate reports the first invalid field.
func (t Tree) Validate() error {
	leaves, tokens := 1.0, 0
	for i, l := range t.Levels {
		field := fmt.Sprintf("Tree.Levels[%d]", i)
		if l.Tokens < 1 || l.Tokens > maxTokens-tokens {
			return fmt.Errorf("%s.Tokens is %d, want at least 1, and at most %d on a path", field, l.Tokens, maxTokens)
		}
		if l.Fanout < 1 || l.Fanout > maxRanks {
			return fmt.Errorf("%s.Fanout is %d, want from 1 to %d", field, l.Fanout, maxRanks)
		}
		if err := checkNotNegative(field+".Skew", l.Skew); err != nil {
			return err
		}
		tokens += l.Tokens
		if leaves *= float64(l.Fanout); t.InTurn && leaves > math.MaxInt32 {
			return fmt.Errorf("%s makes %.0f leaves, want at most %d InTurn", field, leaves, math.MaxInt32)
		}
	}
	return nil
}

// Begin implements [Preamble].
func (t Tree) Begin(uint64) func(dst []Text, n int64, r *rand.Rand) []Text {
	laws := make([]zipf, len(t.Levels))
	leaves := int64(1)
	for i, l := range t.Levels {
		laws[i] = newZipf(l.Fanout, l.Skew)
		if t.InTurn {
			leaves *= int64(l.Fanout)
		}
	}
	return func(dst []Text, n int64, r *rand.Rand) []Text {
		node, below, leaf := uint64(0), leaves, n%leaves
		for i, l := range t.Levels {
			var child int
			if t.InTurn {
				below /= int64(l.Fanout)
				child = int(leaf / below)
				leaf %= below
			} else {
				child = laws[i].draw(r, nil)
			}
			node = mix(node ^ uint64(child))
			dst = append(dst, Text{ID: node, Tokens: l.Tokens})
		}
		return dst
	}
}

// maxRanks bounds tables of probabilities.
const maxRanks = 1 << 24

func checkTokens(field string, n int) error {
	if n < 0 || n > maxTokens {
		return fmt.Errorf("%s is %d, want from 0 to %d", field, n, maxTokens)
	}
	return nil
}

// zipf is a Zipf law of n ranks from 0: rank k has a weight of (k+1)^-skew.
type zipf []float64 // sums of the weights of the ranks before each, and of all

func newZipf(n int, skew float64) zipf {
	z := make(zipf, n+1)
	for k := range n {
		z[k+1] = z[k] + math.Pow(float64(k+1), -skew)
	}
	return z
}

// draw draws one of the ranks that are not among those taken, which rise.
func (z zipf) draw(r *rand.Rand, taken []int) int {
	rest := z[len(z)-1]
	for _, k := range taken {
		rest -= z[k+1] - z[k]
	}
	for range 64 {
		u := r.Float64() * rest
		for _, k := range taken { // u runs past what is taken
			if u >= z[k] {
				u += z[k+1] - z[k]
			}
		}
		k := min(sort.SearchFloat64s(z[1:], math.Nextafter(u, math.Inf(1))), len(z)-2)
		if _, found := slices.BinarySearch(taken, k); !found { // but for rounding
			return k
		}
	}
	first := 0 // all that is left weighs nothing beside what is taken
	for first < len(taken) && taken[first] == first {
		first++
	}
	return first
}
