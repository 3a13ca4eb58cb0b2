package kv_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"math"
	"os"
	"testing"

	"servesim/sim/kv"
)

// recorded is a request of a Mooncake recording. The last hash stands for a
// block that may not be full.
type recorded struct {
	Prompt int       `json:"input_length"`
	Hashes []kv.Hash `json:"hash_ids"`
}

const recordedBlock = 512 // tokens

func mooncake(t testing.TB, name string) []recorded {
	t.Helper()
	f, err := os.Open(shared(t, "recordings/mooncake_fast25_"+name+"_trace.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var requests []recorded
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r recorded
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%s row %d: %v", name, len(requests)+1, err)
		}
		requests = append(requests, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return requests
}

// tally counts blocks and those found; per-token in the same way.
type tally struct{ blocks, hits, tokens, hitTokens int }

func (a tally) blockShare() float64 { return float64(a.hits) / float64(a.blocks) }
func (a tally) tokenShare() float64 { return float64(a.hitTokens) / float64(a.tokens) }

// replay allocates and frees one request after the other. With partial set,
// every recorded hash is a block that can be found whole, as those do who
// count ids; otherwise the engine's rules hold: only full blocks are hashed
// and the last token is never covered.
func replay(t testing.TB, requests []recorded, blocks int, partial bool) tally {
	t.Helper()
	c := kv.NewCache(blocks, 0, recordedBlock)
	var table kv.Table
	var sum tally
	for i, r := range requests {
		chain, prompt, covered := r.Hashes[:r.Prompt/recordedBlock], r.Prompt, r.Prompt
		if partial {
			chain, prompt = r.Hashes, len(r.Hashes)*recordedBlock
			covered = prompt + 1 // the lookup covers one token less
		}
		hit := c.Lookup(&table, chain, covered)
		if !c.Allocate(&table, chain, prompt, 0) {
			t.Fatalf("request %d of %d blocks does not fit into %d", i, len(r.Hashes), blocks)
		}
		c.FreeTable(&table)
		sum.blocks += len(r.Hashes)
		sum.hits += hit
		sum.tokens += r.Prompt
		sum.hitTokens += min(hit*recordedBlock, r.Prompt)
	}
	if err := c.Check(nil); err != nil || c.Owned() != 0 {
		t.Errorf("after the replay %d blocks are owned: %v", c.Owned(), err)
	}
	return sum
}

// The shares were computed from the recordings independently of this package
// (an ordered map as LRU list). A free list that takes a request's blocks back
// first to last instead of last to first misses the synthetic one at 1,000
// blocks: .082.
func TestMooncakeHitShares(t *testing.T) {
	const unlimited = math.MaxInt32
	sizes := []int{unlimited, 1_000, 10_000, 30_000, 50_000, 100_000}
	for _, c := range []struct {
		name     string
		requests int
		blocks   int
		tokens   float64 // share of tokens found in unlimited memory
		want     []float64
	}{
		{"conversation", 12_031, 288_500, .374, []float64{.366, .045, .212, .326, .355, .364}},
		{"synthetic", 3_993, 121_877, .651, []float64{.640, .084, .424, .624, .640, .640}},
	} {
		requests := mooncake(t, c.name)
		for i, size := range sizes {
			counted := replay(t, requests, size, true)
			if len(requests) != c.requests || counted.blocks != c.blocks {
				t.Fatalf("%s: %d requests with %d blocks, want %d with %d", c.name, len(requests), counted.blocks, c.requests, c.blocks)
			}
			if got := counted.blockShare(); math.Abs(got-c.want[i]) > .001 {
				t.Errorf("%s, %d blocks: hit share %.4f, want %.3f", c.name, size, got, c.want[i])
			}
			if got := counted.tokenShare(); size == unlimited && math.Abs(got-c.tokens) > .001 {
				t.Errorf("%s: token hit share %.4f, want %.3f", c.name, got, c.tokens)
			}
			full := replay(t, requests, size, false)
			if full.hits > counted.hits {
				t.Errorf("%s, %d blocks: full-block hashing finds %d blocks, more than %d", c.name, size, full.hits, counted.hits)
			}
			t.Logf("%-12s %10d blocks: block share %.4f, token share %.4f | full blocks only %.4f, %.4f",
				c.name, size, counted.blockShare(), counted.tokenShare(), full.blockShare(), full.tokenShare())
		}
	}
}

// In 16-token blocks the conversation shares at least what it shares in full
// 512-token blocks, and the conversion takes nothing away: the recorded chain
// comes back.
func TestMooncakeSplit(t *testing.T) {
	requests := mooncake(t, "conversation")[:500]
	c := kv.NewCache(math.MaxInt32, 0, 16)
	var table kv.Table
	var fine, coarse []kv.Hash
	var err error
	tokens, hitTokens := 0, 0
	for i, r := range requests {
		if fine, err = kv.Convert(fine[:0], r.Hashes, recordedBlock, 16, r.Prompt); err != nil || len(fine) != r.Prompt/16 {
			t.Fatalf("request %d: %d hashes for %d tokens: %v", i, len(fine), r.Prompt, err)
		}
		if coarse, err = kv.Convert(coarse[:0], fine, 16, recordedBlock, r.Prompt); err != nil || len(coarse) != r.Prompt/recordedBlock {
			t.Fatalf("request %d: %d hashes back: %v", i, len(coarse), err)
		}
		for j, h := range coarse {
			if h != r.Hashes[j] {
				t.Fatalf("request %d block %d: hash %d came back as %d", i, j, r.Hashes[j], h)
			}
		}
		hitTokens += 16 * c.Lookup(&table, fine, r.Prompt)
		tokens += r.Prompt
		if !c.Allocate(&table, fine, r.Prompt, 0) {
			t.Fatal("unlimited memory refused")
		}
		c.FreeTable(&table)
	}
	full := replay(t, requests, math.MaxInt32, false)
	got := float64(hitTokens) / float64(tokens)
	if lo := full.tokenShare(); got < lo || got > lo+.02 {
		t.Errorf("token share %.4f in 16-token blocks, %.4f in full 512-token blocks", got, lo)
	}
	t.Logf("token share %.4f in 16-token blocks, %.4f in 512-token blocks", got, full.tokenShare())
}
