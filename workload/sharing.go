package workload

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"servesim/sim"
	"servesim/sim/kv"
)

// Sharing is what the prompts of a sequence have in common with those before
// them, counted in the blocks that their prefixes name: request after request,
// as if each were over before the next. A block is found where all blocks of
// the prompt before it are.
//
// Engines find less: no block that is not full, which prefixes read with
// PartialIDs have, and never the last token of a prompt; and what they lose to
// requests that run at the same time.
type Sharing struct {
	// BlockTokens is the size of the blocks, 0 if no request has a prefix.
	BlockTokens int `json:"block_tokens"`
	// Blocks is the number of blocks of all prompts, and Distinct that of
	// different ones.
	Blocks   int `json:"blocks"`
	Distinct int `json:"distinct_blocks"`
	// BlockHits and TokenHits are the shares of the blocks that the prefixes
	// name and of all prompt tokens that a cache without limit has seen.
	BlockHits Figure `json:"block_hits"`
	TokenHits Figure `json:"token_hits"`
	// AnyHit and WholeHit are the shares of the requests that find a block and
	// that find their whole prompt.
	AnyHit   Figure `json:"requests_with_hit"`
	WholeHit Figure `json:"requests_found_whole"`
	// HitMean, HitP50 and HitP90 are of the share of its tokens that a request
	// finds, percentiles as in [Summary].
	HitMean Figure `json:"request_hit_mean"`
	HitP50  Figure `json:"request_hit_p50"`
	HitP90  Figure `json:"request_hit_p90"`
	// Once is the share of the distinct blocks that one request has. Top1 is
	// the share of all blocks that the most frequent 1 % of the distinct ones
	// make.
	Once Figure `json:"blocks_used_once"`
	Top1 Figure `json:"references_to_top_1_percent"`
	// Roots is the number of distinct first blocks.
	Roots int `json:"roots"`
	// Limited has the block hits of caches of limited size.
	Limited []LimitedHits `json:"limited"`
}

// LimitedHits is the share of blocks found in a cache that evicts the least
// recently used, as [kv.Cache] does. A prompt that does not fit is not stored.
type LimitedHits struct {
	CacheBlocks int    `json:"cache_blocks"`
	BlockHits   Figure `json:"block_hits"`
}

// DescribeSharing reads a sequence to its end and counts what a cache without
// limit and ones of so many blocks would find. It holds each distinct block,
// and 8 bytes per request. Prefixes in blocks of different sizes are an error.
func DescribeSharing(requests iter.Seq2[sim.Request, error], cacheBlocks ...int) (Sharing, error) {
	for _, n := range cacheBlocks {
		if n < 1 {
			return Sharing{}, fmt.Errorf("workload: DescribeSharing with a cache of %d blocks", n)
		}
	}
	c := sharing{sizes: cacheBlocks, uses: map[kv.Hash]int32{}, roots: map[kv.Hash]bool{}}
	for q, err := range requests {
		if err == nil {
			err = c.add(&q)
		}
		if err != nil {
			return Sharing{}, err
		}
	}
	return c.figures(), nil
}

// sharing collects a Sharing.
type sharing struct {
	sizes  []int       // blocks of limited caches
	caches []*lruCache // the first is without limit; none before the first prefix
	block  int
	blocks int
	uses   map[kv.Hash]int32 // requests that have a block
	roots  map[kv.Hash]bool

	found             []float64 // shares of the prompts
	some, whole       int       // requests
	tokens, hitTokens int
}

func (c *sharing) add(q *sim.Request) error {
	switch {
	case q.Prompt < 1 || q.Prompt > maxTokens || len(q.Prefix) > 0 && q.PrefixBlock < 1:
		return fmt.Errorf("workload: request %d has prompt %d, prefix in blocks of %d", q.ID, q.Prompt, q.PrefixBlock)
	case c.block == 0 && len(q.Prefix) > 0:
		c.block = q.PrefixBlock
		for _, n := range append([]int{math.MaxInt32}, c.sizes...) {
			c.caches = append(c.caches, &lruCache{cache: kv.NewCache(n, 0, c.block)})
		}
	case len(q.Prefix) > 0 && q.PrefixBlock != c.block:
		return fmt.Errorf("workload: request %d has a prefix in blocks of %d tokens, others have %d", q.ID, q.PrefixBlock, c.block)
	}
	hit := c.replay(q)
	c.tokens += q.Prompt
	c.hitTokens += hit
	if hit > 0 {
		c.some++
	}
	if hit == q.Prompt {
		c.whole++
	}
	c.found = append(c.found, float64(hit)/float64(q.Prompt))
	return nil
}

// replay returns how many tokens of a prompt have been seen.
func (c *sharing) replay(q *sim.Request) (hit int) {
	if len(q.Prefix) == 0 {
		return 0
	}
	chain := q.Prefix[:min(len(q.Prefix), blocks(q.Prompt, q.PrefixBlock))]
	for _, h := range chain {
		c.uses[h]++
	}
	c.roots[chain[0]] = true
	c.blocks += len(chain)
	for i, cache := range c.caches {
		n := cache.replay(chain)
		if i == 0 {
			hit = min(n*q.PrefixBlock, q.Prompt)
		}
	}
	return hit
}

func (c *sharing) figures() Sharing {
	n := float64(len(c.found))
	s := Sharing{
		BlockTokens: c.block, Blocks: c.blocks, Distinct: len(c.uses), Roots: len(c.roots),
		BlockHits: Figure(math.NaN()),
		TokenHits: orNaN(float64(c.hitTokens)/float64(c.tokens), c.tokens > 0),
		AnyHit:    orNaN(float64(c.some)/n, n > 0),
		WholeHit:  orNaN(float64(c.whole)/n, n > 0),
	}
	s.foundShares(c.found)
	s.reuse(c.uses)
	for i, cache := range c.caches {
		hits := Figure(float64(cache.hits) / float64(c.blocks)) // a cache has seen blocks
		if i == 0 {
			s.BlockHits = hits
		} else {
			s.Limited = append(s.Limited, LimitedHits{c.sizes[i-1], hits})
		}
	}
	return s
}

// foundShares sets the figures over requests.
func (s *Sharing) foundShares(found []float64) {
	var m moments
	for _, v := range found {
		m.add(v)
	}
	slices.Sort(found)
	s.HitMean, s.HitP50, s.HitP90 = orNaN(m.mean, m.n > 0), quantile(found, .5), quantile(found, .9)
}

// reuse sets the figures over distinct blocks.
func (s *Sharing) reuse(uses map[kv.Hash]int32) {
	counts := make([]int32, 0, len(uses))
	for _, n := range uses {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	once, _ := slices.BinarySearch(counts, 2)
	s.Once = orNaN(float64(once)/float64(len(counts)), len(counts) > 0)
	top := 0
	for _, n := range counts[len(counts)-len(counts)/100:] {
		top += int(n)
	}
	s.Top1 = orNaN(float64(top)/float64(s.Blocks), s.Blocks > 0)
}

// lruCache serves one prompt after the other.
type lruCache struct {
	cache *kv.Cache
	table kv.Table
	hits  int // blocks
}

// replay returns how many blocks of a prompt are found, and stores it.
func (c *lruCache) replay(chain []kv.Hash) int {
	tokens := len(chain) * c.cache.BlockTokens()
	hit := c.cache.Lookup(&c.table, chain, tokens+1) // a lookup leaves the last token out
	c.cache.Allocate(&c.table, chain, tokens, 0)
	c.cache.FreeTable(&c.table)
	c.hits += hit
	return hit
}
