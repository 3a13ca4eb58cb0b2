package kv

// Hash names the content of a full block and of everything before it: equal
// hashes mean equal prefixes. Every value is valid, zero too.
//
// 64 bits suffice: among n distinct blocks the chance of any collision is at
// most n²/2⁶⁵, 3 in a million for ten million blocks, and a collision costs a
// simulation one false hit. Engines, which would answer with a stranger's
// content, use wider hashes.
type Hash uint64

// golden is 2⁶⁴ divided by the golden ratio, odd.
const golden = 0x9e3779b97f4a7c15

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014):
// one-to-one, and every input bit moves half of the output bits.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// absorb returns the state after one more word.
func absorb(state, word uint64) uint64 { return mix(state + golden + word) }

// root is the state before the first block.
func root(salt string) uint64 {
	state := uint64(len(salt))
	for i := range len(salt) {
		state = absorb(state, uint64(salt[i])<<56) // where no token reaches
	}
	return state
}

// HashBlock returns the hash of the block of tokens that follows the block
// hashed to parent and begins at position start. The salt enters at start 0
// only, where parent is ignored; later blocks inherit it through the chain.
// Requests of different salts never share. An adapter's name belongs into the
// salt; an image's hash takes the place of its placeholder tokens.
func HashBlock(parent Hash, start int, tokens []int, salt string) Hash {
	state := uint64(parent)
	if start == 0 {
		state = root(salt)
	}
	for _, t := range tokens {
		state = absorb(state, uint64(t))
	}
	return Hash(state)
}

// HashTokens appends to dst the hash chain of the full blocks of tokens. A
// last block that is not full has no hash. It panics if blockTokens is less
// than 1.
func HashTokens(dst []Hash, tokens []int, blockTokens int, salt string) []Hash {
	if blockTokens < 1 {
		panic("kv: HashTokens with blocks of no tokens")
	}
	var parent Hash
	for start := 0; len(tokens)-start >= blockTokens; start += blockTokens {
		parent = HashBlock(parent, start, tokens[start:start+blockTokens], salt)
		dst = append(dst, parent)
	}
	return dst
}

// HashIDs appends to dst the hash chain of blocks that a recording names by
// ids. It is needed if an id tells the content of its block alone, or if ids
// are unique only within a conversation or a file: its name is then the salt.
func HashIDs(dst []Hash, ids []uint64, salt string) []Hash {
	state := root(salt)
	for _, id := range ids {
		state = absorb(state, id)
		dst = append(dst, Hash(state))
	}
	return dst
}
