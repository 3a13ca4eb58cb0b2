package simtest

import (
	"math"
	"slices"
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
	stores                         bool // has a store
	inFlight                       int  // steps that may be
	group                          int
	duty

	steps     int64
	lastStart sim.Time
	ends      []sim.Time // of as many steps as may be in flight, the oldest first

	// history is how many sequences waited and ran, after every change since the
	// step in flight that began first may have been planned.
	history []moment

	// What the events since the latest step end announce of the next one.
	admits    int // all at admitAt
	admitAt   sim.Time
	evictedAt sim.Time
	fresh     int // prefill ends, first tokens, handoffs and finishes, all at freshAt
	freshAt   sim.Time
	prompts   int         // prefill ends
	firsts    []int       // classes of the first tokens
	handed    []int       // classes of requests that left with one
	finishes  []int       // classes of the finishes
	left      []departure // residencies that ended
	planned   []admission // of a replica with several steps in flight
	found     int64       // positions that the prefix cache had of the admits

	accepted int // drafts, of the step that ends
	host     host

	ledger
}

// moment is the state of a replica's lists from a time on.
type moment struct {
	at               sim.Time
	waiting, running int
	apart            int  // blocks of transfers
	late             bool // the next step may have begun before
}

// admission is an instant at which so many requests were admitted, and in how
// many steps their own must end.
type admission struct {
	at           sim.Time
	count, steps int
}

func newSite(cfg *sim.Config, index int) *site {
	s := &site{seqs: math.MaxInt, budget: math.MaxInt, modelLen: math.MaxInt, blocks: math.MaxInt, perStep: math.MaxInt32, shares: true, eager: true, stores: true, inFlight: 1, ends: []sim.Time{0}, history: []moment{{}}}
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
	s.perStep, s.shares, s.eager, s.stores = 1+r.Drafts, r.PrefixCache, r.EagerSharing, r.Store != nil
	s.inFlight, s.group = max(1, r.InFlight), r.Group
	s.ends = make([]sim.Time, s.inFlight)
	s.duty = duty{known: true, role: r.Role, fromDecode: r.FirstToken == sim.FirstFromDecode}
	s.host.limit = r.HostBlocks
	if r.PrefixCache && r.KVBlocks == 0 {
		s.blocks = math.MaxInt32 // the cache numbers them
	}
	return s
}

// move notes that a request has moved from a place in a replica.
func (l *Laws) move(e *sim.Event, x *life, replica int32, from place) {
	if replica >= 0 && replica != x.replica {
		l.site(replica).note(e.Time, func(m *moment) { m.count(from, -1) })
		from = gone
	}
	if x.replica < 0 {
		return
	}
	s := l.site(x.replica)
	s.note(e.Time, func(m *moment) {
		m.count(from, -1)
		m.count(x.place, +1)
		// Planning comes last in an instant, but for the requests that a client
		// sends at once when one is rejected.
		m.late = e.Kind == sim.Queue && l.rejectedAt == e.Time
	})
	switch e.Kind {
	case sim.Admit:
		l.admit(e, s)
		x.admittedAt = e.Time
	case sim.Preempt:
		s.evictedAt = e.Time
		if x.admittedAt == e.Time {
			s.unadmit(e.Time)
		}
	}
}

// note appends a moment that differs from the one before.
func (s *site) note(at sim.Time, change func(m *moment)) {
	m := s.current()
	m.at, m.late = at, false
	change(&m)
	s.active = at
	s.history = append(s.history, m)
}

func (m *moment) count(p place, by int) {
	switch {
	case p&inLine != 0:
		m.waiting += by
	case p == running:
		m.running += by
	}
}

// admit notes an admission, which belongs to the step that begins with it or,
// with several in flight, later.
func (l *Laws) admit(e *sim.Event, s *site) {
	if s.inFlight > 1 {
		if n := len(s.planned); n == 0 || s.planned[n-1].at != e.Time {
			s.planned = append(s.planned, admission{at: e.Time, steps: s.inFlight})
		}
		s.planned[len(s.planned)-1].count++
		return
	}
	if s.admits > 0 && s.admitAt != e.Time {
		l.violate(e, "admissions at %d ns and now, and no step between", int64(s.admitAt))
	}
	s.admits++
	s.admitAt = e.Time
}

// unadmit takes back an admission by a pass that went on to evict the request:
// it need not have a step.
func (s *site) unadmit(at sim.Time) {
	if s.inFlight == 1 {
		s.admits--
		return
	}
	if last := len(s.planned) - 1; last >= 0 && s.planned[last].at == at {
		if s.planned[last].count--; s.planned[last].count == 0 {
			s.planned = s.planned[:last]
		}
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
	case e.Kind == sim.PrefillEnd:
		s.prompts++
	case e.Class < 0:
	case e.Kind == sim.FirstToken:
		s.firsts = append(s.firsts, e.Class)
	case (e.Kind == sim.Handoff || e.Kind == sim.Reject) && e.Output > 0:
		s.handed = append(s.handed, e.Class)
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
	l.begins(e, s, start)
	if s.fresh > 0 && s.freshAt != e.Time {
		l.violate(e, "tokens at %d ns, but the step ends now", int64(s.freshAt))
	}
	l.batch(e, s)
	m := l.lists(e, s, start)
	l.memory(e, s, m.apart)
	l.samples(e, s, start)
	l.swaps(e, s)
	l.positions(e, s, start)
	s.close(e, start)
}

// close makes a site ready for the next step.
func (s *site) close(e *sim.Event, start sim.Time) {
	s.lastStart, s.active = start, e.Time
	copy(s.ends, s.ends[1:])
	s.ends[len(s.ends)-1] = e.Time
	since := s.ends[0]
	if s.inFlight == 1 {
		s.history[0], s.history = s.current(), s.history[:1]
		s.left = s.left[:0]
	} else {
		s.history = slices.Delete(s.history, 0, s.at(since-1))
		s.left = slices.DeleteFunc(s.left, func(d departure) bool { return d.at < since })
	}
	s.admits, s.fresh, s.found, s.prompts = 0, 0, 0, 0
	s.firsts, s.finishes, s.handed = s.firsts[:0], s.finishes[:0], s.handed[:0]
}

// at returns the index of the last moment at that time or before.
func (s *site) at(t sim.Time) int {
	i := len(s.history) - 1
	for i > 0 && s.history[i].at > t {
		i--
	}
	return i
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
// began, and returns that moment.
func (l *Laws) lists(e *sim.Event, s *site, start sim.Time) moment {
	if int(e.Running) > s.seqs {
		l.violate(e, "%d sequences run, over MaxSeqs %d", e.Running, s.seqs)
	}
	if n := e.Batch.Decodes + len(e.Batch.Prefills); n > int(e.Running) {
		l.violate(e, "%d sequences in the batch of %d that run", n, e.Running)
	}
	if s.inFlight > 1 {
		return l.listsInFlight(e, s, start)
	}
	i := s.at(start)
	m := s.history[i]
	if m.running != int(e.Running) {
		l.violate(e, "%d sequences run, the events give %d", e.Running, m.running)
	}
	j := i
	for j > 0 && s.history[j].late && s.history[j].at == start && s.history[j].waiting != int(e.Waiting) {
		j--
	}
	if s.history[j].waiting != int(e.Waiting) {
		l.violate(e, "%d sequences wait, the events give %d", e.Waiting, m.waiting)
	}
	return m
}

// memory checks that the blocks in use can hold what the batch needs, beside
// those of transfers, which the batch may share where sharing is eager.
func (l *Laws) memory(e *sim.Event, s *site, apart int) {
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
	least := need + apart
	if s.eager {
		least = max(need, apart)
	}
	if used := s.blocks - e.FreeBlocks; used < least {
		l.violate(e, "%d KV blocks in use, the batch needs %d, and transfers %d", used, need, apart)
	}
}

// blocksFor returns the blocks that hold so many tokens, 0 if their size is
// unknown.
func (s *site) blocksFor(tokens int) int {
	if s.blockTokens == 0 {
		return 0
	}
	return (tokens + s.blockTokens - 1) / s.blockTokens
}

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
		if s.inFlight > 1 || d.at > start && d.kind == sim.Abort {
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
	n, tokens := e.Batch.Samples(), int(e.Tokens)-s.accepted
	if s.known && s.role == sim.RolePrefill {
		tokens = l.prefilled(e, s)
	}
	if tokens > n || tokens < n-lost {
		l.violate(e, "%d tokens from %d samples, %d of which may be lost", tokens, n, min(n, lost))
	}
	if s.inFlight > 1 {
		s.unsampled += int64(n - tokens)
		l.unsampled += int64(n - tokens)
	}
	l.orphaned += int64(min(drafts, min(lost, e.Batch.Decodes)*(s.perStep-1)))
	for _, class := range s.firsts {
		b := s.book(class)
		b.tokens++
		b.last[e.Time]++
	}
	for _, class := range s.handed {
		if !s.book(class).drop(e.Time, 1) {
			l.violate(e, "a request of class %d was handed over without a token of this step", class)
		}
	}
	for _, class := range s.finishes {
		if !s.book(class).drop(e.Time, 1) {
			l.violate(e, "a request of class %d finished without a token of this step", class)
		}
	}
	l.counts.Tokens += int64(e.Tokens)
}
