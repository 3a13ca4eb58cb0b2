package sim

import (
	"cmp"
	"math"
	"slices"

	"servesim/sim/kv"
)

// memory is the KV memory of a replica: a pool that counts blocks or, with
// prefix caching, a cache that knows them. Sequences without hashes are counted
// in both.
type memory struct {
	pool  kv.Pool
	cache *kv.Cache
	// apart: memory never runs out, so counted blocks need no numbers of the
	// cache and are counted in the pool.
	apart bool
}

func (m *memory) init(r *Replica) {
	switch {
	case r.PrefixCache && r.KVBlocks > 0:
		m.cache = kv.NewCache(r.KVBlocks, r.ReservedBlocks, r.BlockTokens)
	case r.PrefixCache:
		m.cache, m.apart = kv.NewCache(math.MaxInt32, 0, r.BlockTokens), true
		m.pool = kv.Unlimited(r.BlockTokens)
	case r.KVBlocks > 0:
		m.pool = kv.NewPool(r.KVBlocks, r.ReservedBlocks, r.BlockTokens)
	default:
		m.pool = kv.Unlimited(r.BlockTokens)
	}
	if r.EagerSharing {
		m.cache.Eager = true
	}
}

func (m *memory) Usable() int {
	if m.cache != nil {
		return m.cache.Usable()
	}
	return m.pool.Usable()
}

func (m *memory) Free() int {
	if m.cache != nil {
		return m.cache.Free() - m.pool.Owned()
	}
	return m.pool.Free()
}

func (m *memory) Owned() int {
	if m.cache != nil {
		return m.cache.Owned() + m.pool.Owned()
	}
	return m.pool.Owned()
}

func (m *memory) Blocks(tokens int) int {
	if m.cache != nil {
		return m.cache.Blocks(tokens)
	}
	return m.pool.Blocks(tokens)
}

func (m *memory) Take(n int) bool {
	if m.cache != nil && !m.apart {
		return m.cache.Take(n)
	}
	return m.pool.Take(n)
}

func (m *memory) Give(n int) {
	if m.cache != nil && !m.apart {
		m.cache.Give(n)
		return
	}
	m.pool.Give(n)
}

// version changes when lookups may have another outcome.
func (m *memory) version() uint64 {
	if m.cache == nil {
		return 0
	}
	return m.cache.Version()
}

// need returns the blocks that s lacks for that many more positions.
func (m *memory) need(s *Sequence, tokens int) int {
	if s.hashed {
		return m.cache.Need(&s.table, s.have()+tokens, 0)
	}
	return max(0, m.Blocks(s.have()+tokens)-s.Blocks())
}

// grow takes the need blocks that s lacks for that many more positions. Full
// blocks of a hashed sequence can be found from here on.
func (m *memory) grow(s *Sequence, tokens, need int) bool {
	if s.hashed {
		return m.cache.Allocate(&s.table, s.knownChain(), s.have()+tokens, 0)
	}
	return m.Take(need)
}

// have returns the positions of s that need no computation: its context or,
// before its admission, what the prefix cache and the store have of it.
func (s *Sequence) have() int {
	store := s.home.cfg.Store
	if !s.hashed && store == nil || s.state == Running || s.table.Len() > 0 || s.computed > 0 || s.req.NoPrefixRead {
		return s.Context()
	}
	hit := 0
	if s.hashed {
		c, n := s.home.memory.cache, s.req.Prompt+s.generated
		c.Lookup(&s.table, s.chain, n)
		hit = min(c.Known(&s.table)*c.BlockTokens(), n-1)
	}
	if store != nil {
		hit = min(hit+max(0, store.Match(s.req.query(), hit)), s.req.Prompt+s.generated-1)
	}
	return hit
}

// Store keeps KV outside of the replica, from where it is loaded without time
// of its own: Match returns how many positions of the request it has behind the
// first hit, which the prefix cache of the replica has. It must be a pure
// function and cheap: it is asked whenever a waiting sequence is looked at.
type Store interface {
	Match(q Query, hit int) int
}

// StoreFunc adapts a function to Store.
type StoreFunc func(q Query, hit int) int

// Match calls f.
func (f StoreFunc) Match(q Query, hit int) int { return f(q, hit) }

// knownChain returns the hashes of s without those of blocks that drafts would
// fill, which may be wrong.
func (s *Sequence) knownChain() []kv.Hash {
	if s.drafts == 0 {
		return s.chain
	}
	return s.chain[:min(len(s.chain), (s.req.Prompt+s.generated)/s.home.limits.BlockTokens)]
}

// growDecodes takes a block for each hashed decode whose next position needs
// one, and registers the blocks that they fill, in order of admission. With a
// plan, it leaves out what that has added one by one, and adds what is parked.
// It returns the blocks taken.
func (st *Stepper) growDecodes(p *Plan) (taken int) {
	c, cache := &st.cohort, st.memory.cache
	if cache == nil {
		return 0
	}
	due := append(st.ended[:0], c.hashed[c.phase]...)
	if filling := (c.phase + 1) % len(c.hashed); filling != c.phase {
		due = append(due, c.hashed[filling]...)
	}
	if p != nil {
		due = slices.DeleteFunc(due, p.planned)
		for s := range st.parked.all {
			if s.hashed && s.Pending() == 1 && !p.planned(s) {
				due = append(due, s)
			}
		}
	}
	slices.SortFunc(due, func(a, b *Sequence) int { return cmp.Compare(a.rank, b.rank) })
	before := cache.Free()
	for _, s := range due {
		if !s.member.in {
			p.mark(s, 1+s.Drafts(), p.Need(s, 1+s.Drafts()), -1)
		}
		if !cache.Allocate(&s.table, s.knownChain(), s.Context()+1+s.Drafts(), 0) {
			panic("sim: a decode that fits does not")
		}
	}
	st.ended = due[:0]
	return before - cache.Free()
}

// settle lets the prefix cache know what the step that ends has computed.
func (st *Stepper) settle() {
	if !st.cfg.EagerSharing {
		return
	}
	note := func(s *Sequence) {
		if s.hashed && s.state == Running {
			st.memory.cache.Computed(&s.table, s.Context())
		}
	}
	for _, work := range [][]assignment{st.step.chunks, st.step.rows} {
		for _, a := range work {
			if a.s.serial == a.serial {
				note(a.s)
			}
		}
	}
	if c := &st.cohort; st.step.decodes { // those that filled a block
		for _, s := range c.hashed[c.phase] {
			note(s)
		}
	}
}

// forget frees blocks and returns those that are owned by count.
func (m *memory) forget(b *blockSet) (counted int) {
	counted, b.blocks = b.blocks, 0
	if b.hashed {
		m.cache.FreeTable(&b.table)
		return 0
	}
	return counted
}
