package simtest

import (
	"math"
	"time"

	"servesim/sim"
)

// site is the account of one replica.
type site struct {
	// Limits of the replica; math.MaxInt if unlimited or unknown.
	seqs, budget, modelLen, blocks int
	blockTokens                    int  // 0 if the replica is unknown
	perStep                        int  // tokens that a step may give a sequence
	shares                         bool // has a prefix cache
	eager                          bool // and shares blocks before they are computed

	steps   int64
	lastEnd sim.Time

	// history is how many sequences waited and ran, from the latest step end
	// on, after every change.
	history []moment

	// What the events since the latest step end announce of the next one.
	admits    int // all at admitAt
	admitAt   sim.Time
	evictedAt sim.Time
	fresh     int // prefill ends, first tokens and finishes, all at freshAt
	freshAt   sim.Time
	firsts    []int       // classes of the first tokens
	finishes  []int       // classes of the finishes
	left      []departure // residencies that ended
	found     int64       // positions that the prefix cache had of the admits

	accepted int // drafts, of the step that ends

	ledger
}

// moment is the state of a replica's lists from a time on.
type moment struct {
	at               sim.Time
	waiting, running int
	late             bool // the next step may have begun before
}

func newSite(cfg *sim.Config, index int) *site {
	s := &site{seqs: math.MaxInt, budget: math.MaxInt, modelLen: math.MaxInt, blocks: math.MaxInt, perStep: math.MaxInt32, shares: true, eager: true, history: []moment{{}}}
	if index >= len(cfg.Replicas) {
		return s
	}
	r := &cfg.Replicas[index]
	for _, f := range []struct {
		to    *int
		value int
	}{{&s.seqs, r.MaxSeqs}, {&s.budget, r.MaxBatchTokens}, {&s.modelLen, r.MaxModelLen}, {&s.blocks, r.KVBlocks - r.ReservedBlocks}} {
		if f.value > 0 {
			*f.to = f.value
		}
	}
	if s.blockTokens = r.BlockTokens; s.blockTokens == 0 {
		s.blockTokens = sim.DefaultBlockTokens
	}
	s.perStep, s.shares, s.eager = 1+r.Drafts, r.PrefixCache, r.EagerSharing
	if r.PrefixCache && r.KVBlocks == 0 {
		s.blocks = math.MaxInt32 // the cache numbers them
	}
	return s
}

// move notes that a request has moved within its replica, in or out of it.
func (l *Laws) move(e *sim.Event, x *life, from place) {
	if x.replica < 0 {
		return
	}
	s := l.site(x.replica)
	m := s.current()
	for _, p := range []struct {
		place place
		by    int
	}{{from, -1}, {x.place, +1}} {
		switch p.place {
		case waiting:
			m.waiting += p.by
		case running:
			m.running += p.by
		}
	}
	m.at = e.Time
	// Planning comes last in an instant, but for the requests that a client
	// sends at once when one is rejected.
	m.late = e.Kind == sim.Queue && l.rejectedAt == e.Time
	s.history = append(s.history, m)

	switch {
	case e.Kind == sim.Admit:
		if s.admits > 0 && s.admitAt != e.Time {
			l.violate(e, "admissions at %d ns and now, and no step between", int64(s.admitAt))
		}
		s.admits++
		s.admitAt = e.Time
	case e.Kind == sim.Preempt:
		s.evictedAt = e.Time
	}
}

// token notes an event that a step end brings about and stands before it.
func (l *Laws) token(e *sim.Event, s *site) {
	if s.fresh > 0 && s.freshAt != e.Time {
		l.violate(e, "tokens at %d ns, but no step ends then", int64(s.freshAt))
	}
	s.fresh++
	s.freshAt = e.Time
	switch {
	case e.Class < 0:
	case e.Kind == sim.FirstToken:
		s.firsts = append(s.firsts, e.Class)
	case e.Kind == sim.Finish:
		s.finishes = append(s.finishes, e.Class)
	}
}

// step checks the end of a step.
func (l *Laws) step(e *sim.Event) {
	if n := len(l.Config.Replicas); e.Replica < 0 || n > 0 && int(e.Replica) >= n {
		l.violate(e, "a step of replica %d of %d", e.Replica, n)
		return
	}
	s := l.site(e.Replica)
	l.counts.Steps++
	s.steps++
	if e.Step != s.steps {
		l.violate(e, "step %d of the replica has number %d", s.steps, e.Step)
	}
	start := e.Time - sim.Time(e.Took)
	if e.Took < time.Nanosecond {
		l.violate(e, "the step took %d ns", int64(e.Took))
	}
	if start < s.lastEnd {
		l.violate(e, "the step began at %d ns, the one before it ended at %d ns", int64(start), int64(s.lastEnd))
	}
	if s.admits > 0 && s.admitAt != start {
		l.violate(e, "admissions at %d ns for a step that began at %d ns", int64(s.admitAt), int64(start))
	}
	if s.evictedAt > start {
		l.violate(e, "a preemption at %d ns, in the middle of the step", int64(s.evictedAt))
	}
	if s.fresh > 0 && s.freshAt != e.Time {
		l.violate(e, "tokens at %d ns, but the step ends now", int64(s.freshAt))
	}
	l.batch(e, s)
	l.lists(e, s, start)
	l.memory(e, s)
	l.samples(e, s, start)
	l.positions(e, s, start)

	s.lastEnd = e.Time
	s.history[0] = moment{e.Time, s.current().waiting, s.current().running, false}
	s.history = s.history[:1]
	s.admits, s.fresh, s.found = 0, 0, 0
	s.firsts, s.finishes, s.left = s.firsts[:0], s.finishes[:0], s.left[:0]
}

func (s *site) current() moment { return s.history[len(s.history)-1] }

// batch checks the work of a step by itself.
func (l *Laws) batch(e *sim.Event, s *site) {
	b := e.Batch
	if b.Empty() {
		l.violate(e, "a step without work")
	}
	if b.Decodes < 0 || b.Context < 0 || b.Padding.Rows < 0 || b.Padding.PromptTokens < 0 {
		l.violate(e, "a negative count in the batch")
	}
	if b.Positions < b.Decodes || b.Positions > b.Decodes*s.perStep {
		l.violate(e, "%d positions for %d decodes", b.Positions, b.Decodes)
	}
	for _, c := range b.Prefills {
		if c.Tokens < 1 || c.Context < 0 {
			l.violate(e, "a chunk of %d tokens behind %d", c.Tokens, c.Context)
		}
		if c.Context+c.Tokens > s.modelLen {
			l.violate(e, "a sequence of %d tokens, over MaxModelLen %d", c.Context+c.Tokens, s.modelLen)
		}
	}
	if n := b.Positions + b.PrefillTokens(); n > s.budget {
		l.violate(e, "%d positions, over MaxBatchTokens %d", n, s.budget)
	}
}

// lists compares Waiting and Running with what the events gave when the step
// began.
func (l *Laws) lists(e *sim.Event, s *site, start sim.Time) {
	if int(e.Running) > s.seqs {
		l.violate(e, "%d sequences run, over MaxSeqs %d", e.Running, s.seqs)
	}
	if n := e.Batch.Decodes + len(e.Batch.Prefills); n > int(e.Running) {
		l.violate(e, "%d sequences in the batch of %d that run", n, e.Running)
	}
	i := len(s.history) - 1
	for i > 0 && s.history[i].at > start {
		i--
	}
	if m := s.history[i]; m.running != int(e.Running) {
		l.violate(e, "%d sequences run, the events give %d", e.Running, m.running)
	}
	j := i
	for j > 0 && s.history[j].late && s.history[j].at == start && s.history[j].waiting != int(e.Waiting) {
		j--
	}
	if s.history[j].waiting != int(e.Waiting) {
		l.violate(e, "%d sequences wait, the events give %d", e.Waiting, s.history[i].waiting)
	}
}

// memory checks that the blocks in use can hold what the batch needs.
func (l *Laws) memory(e *sim.Event, s *site) {
	if e.FreeBlocks < 0 || e.FreeBlocks > s.blocks {
		l.violate(e, "%d of %d KV blocks are free", e.FreeBlocks, s.blocks)
		return
	}
	if s.blockTokens == 0 {
		return
	}
	need := s.ownBlocks(e.Batch, int(e.Running))
	if s.shares {
		need = s.sharedBlocks(e.Batch)
	}
	if used := s.blocks - e.FreeBlocks; used < need {
		l.violate(e, "%d KV blocks in use, the batch needs %d", used, need)
	}
}

func (s *site) blocksFor(tokens int) int { return (tokens + s.blockTokens - 1) / s.blockTokens }

// ownBlocks returns the blocks that hold a batch if none is shared, with one
// for each of the other running sequences.
func (s *site) ownBlocks(b *sim.Batch, running int) int {
	need := max(b.Decodes, s.blocksFor(b.Context+b.Positions)) + max(0, running-b.Decodes-len(b.Prefills))
	for _, c := range b.Prefills {
		need += s.blocksFor(c.Context + c.Tokens)
	}
	return need
}

// sharedBlocks returns the blocks that a batch needs however much is shared:
// those that its sequences write are their own, unless sharing is eager, and
// the longest is all there.
func (s *site) sharedBlocks(b *sim.Batch) int {
	written, longest := b.Decodes, 0
	if b.Decodes > 0 {
		longest = s.blocksFor(b.Context/b.Decodes + 1)
	}
	for _, c := range b.Prefills {
		written += s.blocksFor(c.Context+c.Tokens) - c.Context/s.blockTokens
		longest = max(longest, s.blocksFor(c.Context+c.Tokens))
	}
	if s.eager {
		return longest
	}
	return max(written, longest)
}

// samples checks the tokens of a step: every sequence that misses no position
// gets one, unless its request ended on the way.
func (l *Laws) samples(e *sim.Event, s *site, start sim.Time) {
	lost := 0
	for _, d := range s.left {
		if d.at > start && d.kind != sim.Finish {
			lost++
		}
	}
	s.accepted = 0
	sum := len(s.firsts)
	for _, g := range e.Gaps {
		sum += g.Count
		l.gap(e, s, g)
	}
	if sum != int(e.Tokens) {
		l.violate(e, "%d tokens, but %d first tokens and gaps", e.Tokens, sum)
	}
	drafts := e.Batch.Positions - e.Batch.Decodes
	if s.accepted > drafts {
		l.violate(e, "%d gaps of zero from %d drafts", s.accepted, drafts)
	}
	if n, tokens := e.Batch.Samples(), int(e.Tokens)-s.accepted; tokens > n || tokens < n-lost {
		l.violate(e, "%d tokens from %d samples, %d of which may be lost", tokens, n, min(n, lost))
	}
	l.orphaned += int64(min(drafts, min(lost, e.Batch.Decodes)*(s.perStep-1)))
	for _, class := range s.firsts {
		b := s.book(class)
		b.tokens++
		b.last[e.Time]++
	}
	for _, class := range s.finishes {
		if !s.book(class).drop(e.Time, 1) {
			l.violate(e, "a request of class %d finished without a token of this step", class)
		}
	}
	l.counts.Tokens += int64(e.Tokens)
}
