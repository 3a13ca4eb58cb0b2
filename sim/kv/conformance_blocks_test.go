package kv_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"servesim/sim/kv"
)

// The kind "kv": one cache, requests with tokens, and a list of operations.

type kvConfig struct {
	BlockSize        int  `json:"block_size"`
	NumBlocks        int  `json:"num_blocks"`
	ReservedBlocks   int  `json:"reserved_blocks"`
	PrefixCaching    bool `json:"prefix_caching"`
	MaxModelLen      int  `json:"max_model_len"`
	DropLastHitBlock bool `json:"drop_last_hit_block"`
}

type kvRequest struct {
	ID             string
	Prompt         []tokenRun
	CacheSalt      string `json:"cache_salt"`
	SkipPrefixRead bool   `json:"skip_prefix_read"`
}

type tokenRun struct {
	Range  []int // first, one past the last
	Repeat []int // token, count
}

type kvStep struct {
	Op        string
	Request   string
	NewTokens int             `json:"new_tokens"`
	HitTokens int             `json:"hit_tokens"`
	Lookahead int             `json:"lookahead"`
	Tokens    json.RawMessage // a list for append_tokens, a number for set_computed
	Expect    map[string]any
	Asserted  []string
}

// manager drives a cache as a scheduler does.
type manager struct {
	cache    *kv.Cache
	caching  bool
	requests map[string]*managed
	events   []string
}

type managed struct {
	tokens   []int
	salt     string
	skip     bool // never reads the cache
	computed int
	table    kv.Table
}

func (c *conformanceCase) runSteps(t *testing.T, s *score) {
	m := &manager{
		cache:    kv.NewCache(c.Config.NumBlocks, c.Config.ReservedBlocks, c.Config.BlockSize),
		caching:  c.Config.PrefixCaching,
		requests: map[string]*managed{},
		events:   []string{},
	}
	m.cache.DropLastHit = c.Config.DropLastHitBlock
	m.cache.MaxTokens = c.Config.MaxModelLen
	m.cache.OnEvent = func(e kv.Event) {
		text := e.Kind.String()
		if e.Kind != kv.Cleared {
			text = fmt.Sprintf("%v:%d", e.Kind, len(e.Hashes))
		}
		m.events = append(m.events, text)
	}
	var tables []*kv.Table
	for _, r := range c.Requests {
		x := &managed{salt: r.CacheSalt, skip: r.SkipPrefixRead, tokens: tokensOf(r.Prompt)}
		m.requests[r.ID] = x
		tables = append(tables, &x.table)
	}
	for i, step := range c.Steps {
		where := fmt.Sprintf("step %d %s %s", i, step.Op, step.Request)
		compare(t, where, m.do(t, step), step.Expect, step.Asserted, s)
		if err := m.cache.Check(slices.Values(tables)); err != nil {
			t.Errorf("%s: %v", where, err)
		}
	}
}

func (m *manager) do(t *testing.T, step kvStep) map[string]any {
	r := m.requests[step.Request]
	switch step.Op {
	case "lookup":
		return m.lookup(r)
	case "allocate":
		return m.allocate(t, r, step)
	case "free":
		m.cache.FreeTable(&r.table)
		return map[string]any{"free_blocks": m.cache.Free(), "free_order": slices.Collect(m.cache.FreeOrder()), "cached_blocks": m.cache.Cached()}
	case "append_tokens":
		var more []int
		parse(t, step.Tokens, &more)
		r.tokens = append(r.tokens, more...)
	case "set_computed":
		parse(t, step.Tokens, &r.computed)
	case "reset_prefix_cache":
		return map[string]any{"ok": m.cache.Reset(), "cached_blocks": m.cache.Cached(), "free_blocks": m.cache.Free()}
	case "take_events":
		taken := m.events
		m.events = []string{}
		return map[string]any{"events": taken}
	default:
		t.Fatalf("unknown operation %q", step.Op)
	}
	return nil
}

func (m *manager) chain(r *managed) []kv.Hash {
	return kv.HashTokens(nil, r.tokens, m.cache.BlockTokens(), r.salt)
}

func (m *manager) lookup(r *managed) map[string]any {
	chain := m.chain(r)
	hashed := len(chain)
	if !m.caching || r.skip {
		chain = nil
	}
	hit := m.cache.Lookup(&r.table, chain, len(r.tokens))
	return map[string]any{
		"hit_blocks": list(r.table.Found()), "hit_tokens": hit * m.cache.BlockTokens(), "full_blocks_hashed": hashed,
	}
}

func (m *manager) allocate(t *testing.T, r *managed, step kvStep) map[string]any {
	if step.HitTokens == 0 && r.table.Len() == 0 {
		m.cache.FreeTable(&r.table) // allocates without the result of the lookup
	}
	found := len(r.table.Found())
	if found*m.cache.BlockTokens() != step.HitTokens {
		t.Fatalf("the case uses %d hit tokens, the lookup found %d blocks", step.HitTokens, found)
	}
	chain := m.chain(r)
	if !m.caching {
		chain = nil
	}
	before := r.table.Len()
	ok := m.cache.Allocate(&r.table, chain, r.computed+step.HitTokens+step.NewTokens, step.Lookahead)
	got := map[string]any{"ok": ok, "free_blocks": m.cache.Free(), "cached_blocks": m.cache.Cached(), "request_blocks": list(r.table.Blocks())}
	if !ok {
		return got
	}
	refs := []int{}
	for _, b := range r.table.Blocks() {
		refs = append(refs, m.cache.Refs(b))
	}
	fresh := list(r.table.Blocks()[before+found:])
	got["new_blocks"], got["new_blocks_count"], got["ref_counts"] = fresh, len(fresh), refs
	return got
}

// list is never nil, so that JSON shows an empty list.
func list(blocks []kv.Block) []kv.Block { return append([]kv.Block{}, blocks...) }

func tokensOf(runs []tokenRun) []int {
	var tokens []int
	for _, r := range runs {
		if r.Range != nil {
			for x := r.Range[0]; x < r.Range[1]; x++ {
				tokens = append(tokens, x)
			}
		} else {
			for range r.Repeat[1] {
				tokens = append(tokens, r.Repeat[0])
			}
		}
	}
	return tokens
}

func parse(t *testing.T, text json.RawMessage, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}
