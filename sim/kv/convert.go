package kv

import "fmt"

// Convert appends to dst the hash chain, in blocks of to tokens, of a sequence
// whose chain is known in blocks of from tokens. A cache compares hashes of
// one block size only: chains of another are converted, or refused with an
// error unless one size is a multiple of the other; they are never mixed.
//
// The chain describes the first tokens of the sequence; its last hash may
// stand for a block that is not full, as in recordings. Only full blocks of
// the result are hashed: ⌊min(tokens, len(chain)·from) / to⌋ of them.
//
// Splitting says exactly what the recording says. Equal blocks have equal
// parts. Two blocks that differ share no part, although their beginnings may
// have been equal: hits after splitting are a lower bound. The last part keeps
// the hash of the whole, so coarsening the result gives the recorded chain
// back. Coarsening is exact, since a hash covers all blocks before it.
func Convert(dst, chain []Hash, from, to, tokens int) ([]Hash, error) {
	if from < 1 || to < 1 {
		return dst, fmt.Errorf("kv: convert hashes of %d-token blocks to %d-token blocks: a block has at least 1 token", from, to)
	}
	if tokens < 0 {
		return dst, fmt.Errorf("kv: convert hashes of a sequence of %d tokens", tokens)
	}
	full := min(tokens/to, fullBlocks(len(chain), from, to))
	switch {
	case from%to == 0:
		return split(dst, chain, from/to, full), nil
	case to%from == 0:
		return coarsen(dst, chain, to/from, full), nil
	}
	return dst, fmt.Errorf("kv: hashes of %d-token blocks do not convert to %d-token blocks: neither is a multiple of the other", from, to)
}

// Convertible reports whether hashes of blocks of from tokens, at least 1, convert
// to those of blocks of to tokens.
func Convertible(from, to int) bool { return from%to == 0 || to%from == 0 }

// fullBlocks returns ⌊n·from / to⌋ for sizes of which one divides the other.
func fullBlocks(n, from, to int) int {
	if from >= to {
		return n * (from / to)
	}
	return n / (to / from)
}

func split(dst, chain []Hash, parts, n int) []Hash {
	for i := range n {
		whole, part := chain[i/parts], i%parts
		if part < parts-1 {
			whole = Hash(absorb(uint64(whole), ^uint64(part))) // no token and no id
		}
		dst = append(dst, whole)
	}
	return dst
}

func coarsen(dst, chain []Hash, parts, n int) []Hash {
	for i := range n {
		dst = append(dst, chain[(i+1)*parts-1])
	}
	return dst
}
