package workload

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"

	//lint:ignore SA1019 the type is frozen, so its outputs never change, and it takes all 128 bits of a key.
	xrand "golang.org/x/exp/rand"
)

// Stream returns the stream of random numbers that belongs to a seed, a
// purpose ("arrivals", "lengths", …) and an index, usually a request's. Equal
// arguments give equal streams; streams whose arguments differ anywhere are
// unrelated. The generator is PCG XSL RR 128/64 (O'Neill, 2014) with all 128
// bits of its state keyed.
func Stream(seed uint64, purpose string, index uint64) rand.Source {
	f := newFamily(seed, purpose)
	f.rewind(index)
	return f
}

// family holds the streams of one (seed, purpose). It is at one of them at a
// time, so that a stream per request costs no allocation.
type family struct {
	pcg  xrand.PCGSource
	key0 uint64
	key1 uint64
}

func newFamily(seed uint64, purpose string) *family {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(purpose), seed))
	return &family{
		key0: binary.BigEndian.Uint64(sum[0:8]),
		key1: binary.BigEndian.Uint64(sum[8:16]),
	}
}

// rewind moves the family to the beginning of its stream of that index. Both
// halves of the state pass through bijections of the index, so no two indices
// share a state.
func (f *family) rewind(index uint64) {
	low := mix(f.key0 ^ index)
	high := mix(f.key1 ^ bits.RotateLeft64(low, 32))
	var state [16]byte
	binary.BigEndian.PutUint64(state[:8], high)
	binary.BigEndian.PutUint64(state[8:], low)
	if err := f.pcg.UnmarshalBinary(state[:]); err != nil {
		panic("workload: " + err.Error())
	}
}

// Uint64 implements rand.Source.
func (f *family) Uint64() uint64 { return f.pcg.Uint64() }

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
