package sim_test

import (
	"cmp"
	"math"
	"slices"

	"servesim/sim"
	"servesim/sim/kv"
)

// refReplica is one engine instance.
type refReplica struct {
	cfg     sim.Replica
	index   int
	mates   []*refReplica // that step together, this one among them; nil if it steps alone
	line    []*refSeq     // that wait, in order
	swapped []*refSeq     // the first evicted first
	running []*refSeq
	coming  []*refSeq // whose prompts others compute for it
	held    []*refHeld
	host    int // free blocks of the host
	cache   *kv.Cache
	counted int // free blocks, without a cache
	usable  int
	tables  []*kv.Table // retained
	blocks  int         // retained
	slots   int         // retained
	ranks   int
	first   int // turns given out in front
	last    int // and behind
	steps   int64

	flying                       []*refStep // the oldest first
	hostFree, stageFree, lastEnd sim.Time   // when the host, the first stage and the last one are done with the latest step

	next              sim.Role // when it is closed
	closed, switching bool
	closedAt          sim.Time

	policy policy
	passes int
}

func newRefReplica(index int, cfg sim.Replica, p policy) *refReplica {
	if cfg.BlockTokens == 0 {
		cfg.BlockTokens = 16
	}
	usable := math.MaxInt
	if cfg.KVBlocks > 0 {
		usable = cfg.KVBlocks - cfg.ReservedBlocks
	}
	r := &refReplica{cfg: cfg, index: index, counted: usable, usable: usable, host: cfg.HostBlocks, policy: p}
	if cfg.PrefixCache {
		total := cfg.KVBlocks
		if total == 0 {
			total = math.MaxInt32
		}
		r.cache = kv.NewCache(total, cfg.ReservedBlocks, cfg.BlockTokens)
		r.cache.Eager = cfg.EagerSharing
		r.usable = r.cache.Usable()
	}
	return r
}

// waiting returns those in line in one of these states.
func (r *refReplica) waiting(states ...sim.State) (out []*refSeq) {
	for _, s := range r.line {
		if slices.Contains(states, s.state) {
			out = append(out, s)
		}
	}
	return out
}

// wants reports whether a pass could do anything.
func (r *refReplica) wants() bool {
	waiting := r.waiting(sim.Waiting, sim.Preempted, sim.Remote)
	return len(waiting)+len(r.swapped)+len(r.coming)+len(r.running) > 0 || r.slots+r.blocks+len(r.tables) > 0
}

// full reports whether no further step may be planned.
func (r *refReplica) full() bool {
	for _, m := range r.mates {
		if len(m.flying) > 0 {
			return true
		}
	}
	return len(r.flying) >= max(1, r.cfg.InFlight)
}

// refuses returns why s can never run here, or "".
func (r *refReplica) refuses(s *refSeq) string {
	switch {
	case s.req.Prompt > refMax(r.cfg.MaxModelLen):
		return sim.RejectModelLen
	case refBlocks(s.req.Prompt, r.cfg.BlockTokens) > r.usable && !r.cfg.Strict:
		return sim.RejectKVCapacity
	case r.cache != nil && s.req.PrefixBlock > 0 && r.cfg.BlockTokens%s.req.PrefixBlock > 0:
		return sim.RejectPrefixBlock
	}
	return ""
}

// hopeless reports whether s, which was evicted, could not go on even alone with
// so many tokens more.
func (r *refReplica) hopeless(s *refSeq, more int) bool {
	least := refBlocks(s.req.Prompt+s.generated+more, r.cfg.BlockTokens)
	if r.cfg.Growth == sim.TouchedGrowth && r.free()+s.blocks == r.usable {
		least++
	}
	return least > r.usable && !r.cfg.Strict
}

// aloft returns the tokens of s that are in flight.
func (r *refReplica) aloft(s *refSeq) (n int) {
	for _, f := range r.flying {
		for _, part := range f.parts {
			if part.s == s && part.samples {
				n = max(n, part.token+1-s.generated)
			}
		}
	}
	return n
}

// own makes s one of this replica's: its length, its hashes.
func (r *refReplica) own(s *refSeq) {
	s.home = r
	r.length(s)
	s.cache, s.chain = r.hashes(s)
}

// length says after how many tokens s ends here, and why.
func (r *refReplica) length(s *refSeq) {
	s.output, s.reason = s.req.Output, sim.FinishStop
	if m := s.req.MaxOutput; m > 0 && m <= s.output {
		s.output, s.reason = m, sim.FinishLength
	}
	if room := max(1, refMax(r.cfg.MaxModelLen)-s.req.Prompt); room <= s.output {
		s.output, s.reason = room, sim.FinishLength
	}
}

// hashes returns the prefix cache if s has hashes for it, and the hashes of its
// blocks, which may be as long as several of the request's.
func (r *refReplica) hashes(s *refSeq) (cache *kv.Cache, chain []kv.Hash) {
	if s.req.PrefixBlock == 0 || r.cache == nil || r.cfg.BlockTokens%s.req.PrefixBlock > 0 {
		return nil, nil
	}
	n := r.cfg.BlockTokens / s.req.PrefixBlock
	for i := n - 1; i < len(s.req.Prefix); i += n {
		chain = append(chain, s.req.Prefix[i])
	}
	return r.cache, chain
}

// enqueue puts s in line, behind the others or in front of them.
func (r *refReplica) enqueue(s *refSeq, front bool) {
	if front {
		r.first--
		s.turn = r.first
	} else {
		r.last++
		s.turn = r.last
	}
	r.line = append(r.line, s)
	slices.SortFunc(r.line, func(a, b *refSeq) int {
		if r.cfg.Order == nil {
			return cmp.Compare(a.turn, b.turn)
		}
		// The order of the tests: priority of the class, which the tests make equal
		// to its index; then arrival, then serial.
		return cmp.Or(cmp.Compare(a.req.Class, b.req.Class), cmp.Compare(a.req.Arrival, b.req.Arrival), cmp.Compare(a.serial, b.serial))
	})
}

// remove takes s out of the lists of the replica.
func (r *refReplica) remove(s *refSeq) {
	same := func(o *refSeq) bool { return o == s }
	r.running = slices.DeleteFunc(r.running, same)
	r.line = slices.DeleteFunc(r.line, same)
	r.swapped = slices.DeleteFunc(r.swapped, same)
}

// pending returns the positions that s has to compute before its next token,
// or before the next that does not depend on one in flight.
func (s *refSeq) pending() int {
	if s.expected > 0 && s.home.cfg.Async == sim.AsyncExact {
		most := max(1, refMax(s.home.cfg.MaxModelLen)-s.req.Prompt)
		if s.generated+s.expected >= min(most, refMax(s.req.MaxOutput)) {
			return 0
		}
	}
	return s.req.Prompt + s.generated + s.expected - s.have()
}

// have returns what needs no computation. The prefix cache is the one part
// that both engines use: package kv tests it against a naive model.
func (s *refSeq) have() int {
	if s.cache == nil || s.state == sim.Running || s.table.Len() > 0 || s.computed > 0 || s.req.NoPrefixRead {
		return s.computed
	}
	n := s.req.Prompt + s.generated
	s.cache.Lookup(s.table, s.known(), n)
	return min(s.cache.Known(s.table)*s.cache.BlockTokens(), n-1)
}

// known returns the hashes of the blocks whose tokens are there; drafts may be
// anything.
func (s *refSeq) known() []kv.Hash {
	return s.chain[:min(len(s.chain), (s.req.Prompt+s.generated)/s.cache.BlockTokens())]
}

func (r *refReplica) free() int {
	if r.cache != nil {
		return r.cache.Free()
	}
	return r.counted
}

// take takes n blocks by count; a negative n gives them back.
func (r *refReplica) take(n int) {
	switch {
	case r.cache == nil:
		r.counted -= n
	case n < 0:
		r.cache.Give(-n)
	case !r.cache.Take(n):
		panic("reference: blocks are short")
	}
}

// need returns the blocks that s lacks for that many more positions.
func (r *refReplica) need(s *refSeq, tokens int) int {
	if s.cache != nil {
		return s.cache.Need(s.table, s.have()+tokens, 0)
	}
	return max(0, refBlocks(s.computed+tokens, r.cfg.BlockTokens)-s.blocks)
}

// grow takes the blocks of s for that many more positions.
func (r *refReplica) grow(s *refSeq, tokens, need int) {
	if s.cache == nil {
		r.take(need)
		s.blocks += need
		return
	}
	if !s.cache.Allocate(s.table, s.known(), s.have()+tokens, 0) {
		panic("reference: blocks are short")
	}
	s.blocks = s.table.Len()
}

// freeBlocks frees the blocks of s.
func (r *refReplica) freeBlocks(s *refSeq) {
	if s.cache != nil {
		s.cache.FreeTable(s.table)
	} else {
		r.take(-s.blocks)
	}
	s.blocks = 0
}

// drop takes s, which ends, out of its replica and frees what it has there and
// elsewhere, but for what is kept and what a transfer reads or writes.
func (e *refEngine) drop(s *refSeq) {
	r := s.home
	r.remove(s)
	if s.flow != nil {
		e.orphan(s)
	}
	if s.state == sim.Running {
		if s.keepSlot {
			r.slots++
		}
		if s.keep && s.cache != nil && s.table.Len() > 0 {
			r.tables = append(r.tables, s.table)
			s.table, s.blocks = new(kv.Table), 0
		} else if s.keep {
			r.blocks += s.blocks
			s.blocks = 0
		}
	}
	if s.away != nil {
		e.free(s.away)
		s.away = nil
	}
	e.forget(s)
	r.freeBlocks(s)
	r.host += s.host
	s.host = 0
}

// missing returns the positions of s, which is in line, that are neither computed
// nor to be had from another replica.
func (s *refSeq) missing() int {
	n := s.req.Prompt + s.generated
	return n - max(s.computed, min(s.remote, n-1))
}

// inLine returns how many wait for admission.
func (r *refReplica) inLine() int { return len(r.line) + len(r.swapped) }

// loads returns what routers see.
func (e *refEngine) loads() []sim.Load {
	var out []sim.Load
	for _, r := range e.replicas {
		l := sim.Load{Waiting: r.inLine(), Running: len(r.running), FreeBlocks: r.free(), Blocks: math.MaxInt, Replica: r.index,
			Role: r.cfg.Role, Closed: r.closed, Coming: len(r.coming)}
		for _, h := range r.held {
			l.Held += h.blocks
		}
		if r.cfg.KVBlocks > 0 {
			l.Blocks = r.usable
		}
		for _, s := range slices.Concat(r.line, r.swapped) {
			l.PendingPrompt += s.missing()
		}
		for _, s := range r.running {
			if s.pending() > 1 || s.chunk && r.cfg.InFlight < 2 {
				l.PendingPrompt += s.pending()
			}
		}
		out = append(out, l)
	}
	return out
}
