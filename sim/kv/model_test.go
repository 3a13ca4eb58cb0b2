package kv_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"servesim/sim/kv"
)

// The naive cache: plain slices and a map, every count by looking at all
// blocks. Blocks are objects; numbers agree with the real cache's as long as
// nothing is owned by count.

type modelBlock struct {
	number int
	hash   kv.Hash
	hashed bool
	refs   int
	holds  int
}

type model struct {
	blockTokens int
	all, free   []*modelBlock
	byHash      map[kv.Hash][]*modelBlock // in order of registration
	anonymous   []*modelBlock
	events      map[string]int // blocks by kind
}

type modelTable struct {
	blocks       []*modelBlock
	hashed       int
	holds        int
	ended        bool
	found        []*modelBlock
	chain        []kv.Hash // of the sequence
	tokens       int       // known tokens
	lookupTokens int       // of the last lookup, 0 = none or forgotten
}

func newModel(total, reserved, blockTokens int) *model {
	m := &model{blockTokens: blockTokens, byHash: map[kv.Hash][]*modelBlock{}, events: map[string]int{}}
	for i := reserved; i < total; i++ {
		b := &modelBlock{number: i}
		m.all = append(m.all, b)
		m.free = append(m.free, b)
	}
	return m
}

func (m *model) lookup(chain []kv.Hash, tokens int, dropLast bool) []*modelBlock {
	var found []*modelBlock
	for i, h := range chain {
		same := m.byHash[h]
		if (i+1)*m.blockTokens >= tokens || len(same) == 0 {
			break
		}
		found = append(found, same[0])
	}
	if dropLast && len(found) > 0 {
		found = found[:len(found)-1]
	}
	return found
}

func (m *model) take() *modelBlock {
	b := m.free[0]
	m.free = m.free[1:]
	if b.hashed {
		same := m.byHash[b.hash]
		i := slices.Index(same, b)
		if m.byHash[b.hash] = slices.Delete(slices.Clone(same), i, i+1); len(same) == 1 {
			delete(m.byHash, b.hash)
		}
		b.hashed = false
		m.events["removed"]++
	}
	return b
}

// need returns the free blocks an allocation takes, and how many are fresh.
func (m *model) need(t *modelTable, slots int) (need, fresh int) {
	blocks := 0
	for blocks*m.blockTokens < slots {
		blocks++
	}
	fresh = max(0, blocks-len(t.blocks)-len(t.found))
	need = fresh
	for _, b := range t.found {
		if b.refs == 0 {
			need++
		}
	}
	return need, fresh
}

func (m *model) allocate(t *modelTable, chain []kv.Hash, tokens, slots int) bool {
	need, fresh := m.need(t, slots)
	if need > len(m.free) {
		return false
	}
	for _, b := range t.found {
		if b.refs == 0 {
			i := slices.Index(m.free, b)
			m.free = slices.Delete(slices.Clone(m.free), i, i+1)
		}
		b.refs++
	}
	if len(t.blocks) == 0 {
		t.hashed = len(t.found)
	}
	t.blocks = append(t.blocks, t.found...)
	t.found, t.lookupTokens = nil, 0
	for range fresh {
		b := m.take()
		b.refs = 1
		t.blocks = append(t.blocks, b)
	}
	m.register(t, chain, tokens)
	return true
}

func (m *model) register(t *modelTable, chain []kv.Hash, tokens int) {
	for t.hashed < min(len(chain), len(t.blocks)) && (t.hashed+1)*m.blockTokens <= tokens {
		b := t.blocks[t.hashed]
		b.hash, b.hashed = chain[t.hashed], true
		m.byHash[b.hash] = append(m.byHash[b.hash], b)
		m.events["stored"]++
		t.hashed++
	}
}

func (m *model) freeTable(t *modelTable) {
	if t.holds > 0 {
		t.ended = true
		return
	}
	for _, b := range slices.Backward(t.blocks) {
		if b.refs--; b.refs == 0 {
			m.free = append(m.free, b)
		}
	}
	*t = modelTable{}
}

func (m *model) hold(t *modelTable, by int) {
	t.holds += by
	if t.holds == max(by, 0) { // first hold or last release
		for _, b := range t.blocks {
			b.holds += by
		}
	}
	if t.holds == 0 && t.ended {
		t.ended = false
		m.freeTable(t)
	}
}

func (m *model) reset() bool {
	if len(m.free) < len(m.all) {
		return false
	}
	for _, b := range m.all {
		b.hashed = false
	}
	m.byHash = map[kv.Hash][]*modelBlock{}
	m.events["cleared"]++
	return true
}

// pair drives the cache and its model side by side.
type pair struct {
	t         testing.TB
	cache     *kv.Cache
	model     *model
	tables    []kv.Table
	models    []modelTable
	events    map[string]int
	maxTokens int
	numbered  bool // nothing was ever owned by count
	lastOp    string
}

func newPair(t testing.TB, total, reserved, blockTokens, sequences, maxTokens int, dropLast bool) *pair {
	p := &pair{t: t, cache: kv.NewCache(total, reserved, blockTokens), model: newModel(total, reserved, blockTokens),
		tables: make([]kv.Table, sequences), models: make([]modelTable, sequences), events: map[string]int{}, maxTokens: maxTokens, numbered: true}
	p.cache.DropLastHit, p.cache.MaxTokens = dropLast, maxTokens
	p.cache.OnEvent = func(e kv.Event) {
		p.events[e.Kind.String()] += max(1, len(e.Hashes))
	}
	return p
}

// content gives sequence number i a chain through a tree with two branches at
// every depth: most sequences share a beginning. Small numbers as hashes.
func content(i, depth int) []kv.Hash {
	chain := make([]kv.Hash, depth)
	at := kv.Hash(0)
	for d := range chain {
		at = 2*at + kv.Hash(i>>d&1)
		chain[d] = at + kv.Hash(1)<<d
	}
	return chain
}

// step performs one operation chosen by three numbers.
func (p *pair) step(op, which, size int) {
	i := which % len(p.tables)
	r, m := &p.tables[i], &p.models[i]
	p.lastOp = fmt.Sprintf("op %d sequence %d size %d", op%10, i, size)
	switch op % 10 {
	case 0, 1:
		p.lookup(r, m, which/len(p.tables), size)
	case 2, 3, 4:
		p.allocate(r, m, size, op%10 == 4)
	case 5:
		if !m.ended {
			p.cache.FreeTable(r)
			p.model.freeTable(m)
		}
	case 6:
		if len(m.blocks) > 0 && !m.ended && size%2 == 0 {
			p.cache.Hold(r)
			p.model.hold(m, 1)
		} else if m.holds > 0 {
			p.cache.Release(r)
			p.model.hold(m, -1)
		}
	case 7:
		p.takeByCount(size)
	case 8:
		p.giveByCount(size)
	case 9:
		if size%4 > 0 {
			p.cache.Register(r, m.chain, m.tokens)
			p.model.register(m, m.chain, m.tokens)
		} else if got, want := p.cache.Reset(), p.model.reset(); got != want {
			p.t.Fatalf("%s: Reset = %t, want %t", p.lastOp, got, want)
		}
	}
	p.compare()
}

func (p *pair) lookup(r *kv.Table, m *modelTable, kind, size int) {
	if len(m.blocks) > 0 {
		return
	}
	if m.chain == nil {
		m.chain = content(kind, 1+size%12)
	}
	tokens := size + 1
	m.lookupTokens = tokens
	m.found = p.model.lookup(m.chain, tokens, p.cache.DropLastHit)
	if got := p.cache.Match(m.chain, tokens); got != len(m.found) {
		p.t.Fatalf("%s: Match = %d, want %d", p.lastOp, got, len(m.found))
	}
	if got := p.cache.Lookup(r, m.chain, tokens); got != len(m.found) {
		p.t.Fatalf("%s: Lookup = %d, want %d", p.lastOp, got, len(m.found))
	}
}

func (p *pair) allocate(r *kv.Table, m *modelTable, size int, delay bool) {
	if m.holds > 0 {
		return
	}
	if m.lookupTokens > 0 { // blocks may have been reused since
		if got := p.cache.Lookup(r, m.chain, m.lookupTokens); true {
			m.found = p.model.lookup(m.chain, m.lookupTokens, p.cache.DropLastHit)
			if got != len(m.found) {
				p.t.Fatalf("%s: repeated Lookup = %d, want %d", p.lastOp, got, len(m.found))
			}
		}
	}
	tokens := max(len(m.found)*p.model.blockTokens, m.tokens) + size%40
	ahead := size % 5
	slots := tokens + ahead
	if p.maxTokens > 0 {
		slots = min(slots, p.maxTokens)
	}
	chain := m.chain
	if delay {
		chain = nil
	}
	need, _ := p.model.need(m, slots)
	if got := p.cache.Need(r, tokens, ahead); got != need {
		p.t.Fatalf("%s: Need = %d, want %d", p.lastOp, got, need)
	}
	got, want := p.cache.Allocate(r, chain, tokens, ahead), p.model.allocate(m, chain, tokens, slots)
	if got != want {
		p.t.Fatalf("%s: Allocate = %t, want %t", p.lastOp, got, want)
	}
	if got {
		m.tokens = tokens
	}
}

func (p *pair) takeByCount(n int) {
	got, want := p.cache.Take(n), n <= len(p.model.free)
	if got != want {
		p.t.Fatalf("%s: Take(%d) = %t with %d free", p.lastOp, n, got, len(p.model.free))
	}
	if want {
		p.numbered = p.numbered && n == 0
		for range n {
			p.model.anonymous = append(p.model.anonymous, p.model.take())
		}
	}
}

func (p *pair) giveByCount(n int) {
	n = min(n, len(p.model.anonymous))
	p.cache.Give(n)
	p.model.free = append(p.model.free, p.model.anonymous[:n]...)
	p.model.anonymous = p.model.anonymous[n:]
}

func (p *pair) compare() {
	p.t.Helper()
	m := p.model
	owned, held, cached := 0, 0, 0
	for _, b := range m.all {
		owned += one(b.refs > 0)
		held += one(b.holds > 0)
		cached += one(b.hashed)
	}
	got := [...]int{p.cache.Free(), p.cache.Owned(), p.cache.Held(), p.cache.Cached(), p.cache.Anonymous()}
	want := [...]int{len(m.free), owned + len(m.anonymous), held, cached, len(m.anonymous)}
	if got != want {
		p.t.Fatalf("%s: free, owned, held, cached, by count = %v, want %v", p.lastOp, got, want)
	}
	for _, kind := range []string{"stored", "removed", "cleared"} {
		if p.events[kind] != m.events[kind] {
			p.t.Fatalf("%s: %d blocks %s, want %d", p.lastOp, p.events[kind], kind, m.events[kind])
		}
	}
	number := map[*modelBlock]kv.Block{}
	for i := range p.tables {
		p.compareTable(&p.tables[i], &p.models[i], number)
	}
	if p.numbered {
		p.compareFreeOrder()
	}
	live := make([]*kv.Table, len(p.tables))
	for i := range p.tables {
		live[i] = &p.tables[i]
	}
	if err := p.cache.Check(slices.Values(live)); err != nil {
		p.t.Fatalf("%s: %v", p.lastOp, err)
	}
}

// compareTable checks that tables share exactly the blocks they share in the
// model; number remembers which block is which.
func (p *pair) compareTable(r *kv.Table, m *modelTable, number map[*modelBlock]kv.Block) {
	blocks := r.Blocks()
	if len(blocks) != len(m.blocks) || r.Held() != (m.holds > 0) {
		p.t.Fatalf("%s: table of %d blocks, held %t, want %d, %d holds", p.lastOp, len(blocks), r.Held(), len(m.blocks), m.holds)
	}
	for i, b := range m.blocks {
		known, ok := number[b]
		if ok && known != blocks[i] || p.numbered && int(blocks[i]) != b.number {
			p.t.Fatalf("%s: position %d is block %d, want %d (number %d)", p.lastOp, i, blocks[i], known, b.number)
		}
		number[b] = blocks[i]
		state := kv.Owned
		if b.holds > 0 {
			state = kv.Held
		} else if b.refs > 1 {
			state = kv.Shared
		}
		if p.cache.Refs(blocks[i]) != b.refs || p.cache.State(blocks[i]) != state {
			p.t.Fatalf("%s: block %d has %d references and is %v, want %d and %v",
				p.lastOp, blocks[i], p.cache.Refs(blocks[i]), p.cache.State(blocks[i]), b.refs, state)
		}
	}
}

func (p *pair) compareFreeOrder() {
	i := 0
	for b := range p.cache.FreeOrder() {
		if i >= len(p.model.free) || int(b) != p.model.free[i].number {
			p.t.Fatalf("%s: free list differs from the model's at %d: block %d", p.lastOp, i, b)
		}
		i++
	}
}

func TestCacheAgainstModel(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 7))
		p := newPair(t, 8+rng.IntN(60), rng.IntN(2), 1+rng.IntN(8), 1+rng.IntN(8), int(seed%3)*30, seed%2 == 1)
		skip := 0 // half of the runs own nothing by count, so that numbers are compared
		if seed%4 < 2 {
			skip = 7
		}
		for range 3_000 {
			op := rng.IntN(10)
			if op == skip && skip > 0 {
				continue
			}
			p.step(op, rng.IntN(64), rng.IntN(64))
		}
	}
}

func FuzzCache(f *testing.F) {
	f.Add(uint8(10), uint8(4), false, []byte("\x00\x01\x10\x02\x01\x20\x05\x01\x00\x00\x02\x10\x02\x02\x20"))
	f.Add(uint8(6), uint8(1), true, []byte("\x02\x00\x05\x06\x00\x02\x05\x00\x00\x07\x00\x02\x06\x00\x01\x08\x00\x02\x09\x00\x04"))
	f.Fuzz(func(t *testing.T, total, blockTokens uint8, dropLast bool, ops []byte) {
		p := newPair(t, int(total)+2, int(total)%2, int(blockTokens)%16+1, 5, int(total)%3*40, dropLast)
		for ; len(ops) >= 3; ops = ops[3:] {
			p.step(int(ops[0]), int(ops[1]), int(ops[2]))
		}
	})
}
