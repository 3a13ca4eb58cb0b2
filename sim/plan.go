package sim

import (
	"fmt"
	"math"
	"slices"
)

// Plan is the next step of a replica in the making. Every call is checked and
// acts at once on the plan's own accounts of tokens, slots and KV blocks; a
// refused call changes nothing. Events come when Schedule has returned.
//
// Calls that can never be right panic: more tokens than are pending, a
// sequence planned twice, one that is not there.
type Plan struct {
	st      *Stepper
	number  int64 // of this pass, from 1
	room    int   // positions left
	refusal Refusal

	adds    []assignment // single sequences, in the order of the calls
	all     bool         // AddDecodes was granted
	allAt   int          // length of adds then
	decodes int          // decode rows
	members int          // cohort members added one by one
	taken   int          // blocks taken for those

	changes  []change
	reserved []*Sequence // waiting with blocks of their own
	pulls    []*Sequence // transfers to start

	open               bool // between the start and the end of Schedule
	released           bool // Release gave something back
	padRows, padPrompt int
	swapIn, swapOut    int // blocks
	hold               bool
	wakeAt             Time
}

// assignment is the work of one sequence. s is nil if it was taken back.
type assignment struct {
	s      *Sequence
	serial int64
	tokens int

	// With several batches in flight:
	at      int   // context behind it
	life    int32 // preemptions before it
	samples bool  // a token is sampled behind it
}

// change is an admission, preemption or rejection. s is nil if it was undone.
// The counts are those of that moment: more may happen to s in the same pass.
type change struct {
	kind      Kind
	s         *Sequence
	reason    string
	cached    int
	preempted int32
	pulled    bool
}

// passMarks is what the pass with this number did to a sequence.
type passMarks struct {
	added    int64 // pass that added it
	admitted int64 // pass that admitted it
	tokens   int
	blocks   int // taken for these tokens
	index    int // in adds, or -1
	change   int // index of its admission in changes
	from     State
}

// Refusal says why a call on a plan was refused.
type Refusal uint8

// The reasons of a refusal.
const (
	NotRefused    Refusal = iota
	RefusedSlots          // MaxSeqs sequences run already
	RefusedTokens         // the token budget of the step is used up
	RefusedMemory         // not enough KV blocks are free
	RefusedHost           // not enough host blocks are free
)

// String returns the reason in lower case.
func (r Refusal) String() string {
	return [...]string{"not refused", "slots", "tokens", "memory", "host memory"}[r]
}

// Refusal says why the latest refused call of this pass was refused.
func (p *Plan) Refusal() Refusal { return p.refusal }

// Room returns the positions left in the step.
func (p *Plan) Room() int { return p.room }

// Slots returns how many more sequences may run.
func (p *Plan) Slots() int {
	return p.st.limits.MaxSeqs - p.st.running.n - p.st.retained.slots
}

// Free returns the KV blocks that are free.
func (p *Plan) Free() int { return p.st.memory.Free() }

// Need returns the KV blocks that s lacks for that many more positions.
func (p *Plan) Need(s *Sequence, tokens int) int {
	if tokens < 0 {
		panic(fmt.Sprintf("sim: Plan.Need of %d tokens", tokens))
	}
	return p.st.memory.need(s, tokens)
}

// Fits reports whether KV blocks for that many more positions of s are free,
// as an admission test that takes nothing. If not, Refusal is RefusedMemory.
func (p *Plan) Fits(s *Sequence, tokens int) bool {
	if p.Need(s, tokens) > p.Free() {
		return p.refuseTo(s, RefusedMemory)
	}
	return true
}

// Add lets the step compute the next tokens positions of s, a waiting or
// running sequence, at most its Pending and, where that is 1, its Drafts. A
// waiting one is admitted. It returns false, and changes nothing, if slots,
// token budget or KV blocks forbid it.
func (p *Plan) Add(s *Sequence, tokens int) bool {
	p.check()
	st := p.st
	pending := s.Pending()
	switch {
	case s.home != st || s.state == Ended || s.state == Pulling:
		panic(fmt.Sprintf("sim: Plan.Add of sequence %d, which is not in replica %d or still pulled", s.serial, st.index))
	case tokens < 1 || tokens > pending+s.Drafts():
		panic(fmt.Sprintf("sim: Plan.Add of %d tokens to sequence %d with %d pending", tokens, s.serial, pending))
	case p.planned(s):
		panic(fmt.Sprintf("sim: Plan.Add of sequence %d twice in a pass", s.serial))
	}
	waiting := s.state != Running
	if s.state == Swapped {
		panic(fmt.Sprintf("sim: Plan.Add of sequence %d, which is swapped out", s.serial))
	}
	if waiting && p.Slots() < 1 {
		return p.refuseTo(s, RefusedSlots)
	}
	if tokens > p.room {
		return p.refuseTo(s, RefusedTokens)
	}
	have, need := s.have(), p.Need(s, tokens)
	if st.hopelessSoon(s) {
		return p.refuse(RefusedMemory)
	}
	if pending == 1 && s.state == Running && s.pass.admitted != p.number && !st.canTouch(need, need) || !st.memory.grow(s, tokens, need) {
		return p.refuseTo(s, RefusedMemory)
	}
	if waiting {
		p.admit(s, have)
		s.computed = have
	}
	p.room -= tokens
	p.mark(s, tokens, need, len(p.adds))
	p.adds = append(p.adds, assignment{s: s, serial: s.serial, tokens: tokens})
	if pending == 1 {
		p.decodes++
		if s.member.in {
			p.members++
			p.taken += need
		}
	}
	return true
}

// AddDecodes adds to every running sequence with Pending 1 that is not in the
// plan yet this position and its Drafts, or to none. It returns false if token
// budget or KV blocks forbid it. It costs O(1) however many decode, but
// O(sequences) on a replica with Drafts.
func (p *Plan) AddDecodes() bool {
	p.check()
	st := p.st
	rows, need := 0, 0
	fresh, freshNeed := 0, 0 // of those admitted in this pass
	if !p.all {              // else only what has come back since
		rows = st.cohort.n - p.members
		need = st.cohort.crossing[st.cohort.phase] - p.taken
	}
	for s := st.parked.first; s != nil; s = s.links[slotActivity].next {
		if s.Pending() == 1 && !p.planned(s) {
			rows += 1 + s.Drafts()
			n := p.Need(s, 1+s.Drafts())
			need += n
			if s.pass.admitted == p.number {
				fresh, freshNeed = fresh+1+s.Drafts(), freshNeed+n
			}
		}
	}
	if p.all && rows == 0 {
		return true
	}
	if rows > p.room {
		return p.refuse(RefusedTokens)
	}
	if need > st.memory.Free() || rows > fresh && !st.canTouch(need-freshNeed, p.lastNeed()) {
		return p.refuse(RefusedMemory)
	}
	if st.hub.check || p.all { // again, for those who have come back from the host
		return p.addEachDecode()
	}
	need -= st.growDecodes(p)
	for s := st.parked.first; s != nil; s = s.links[slotActivity].next {
		if s.Pending() == 1 && !p.planned(s) {
			p.mark(s, 1+s.Drafts(), p.Need(s, 1+s.Drafts()), -1)
		}
	}
	st.memory.Take(need)
	if !p.all {
		p.all, p.allAt = true, len(p.adds)
	}
	p.room -= rows
	p.decodes += rows
	return true
}

// lastNeed returns the blocks that the youngest decode lacks that is not in
// the plan yet and ran before this pass.
func (p *Plan) lastNeed() int {
	if p.st.cfg.Growth == ExactGrowth {
		return 0
	}
	for s := p.st.running.last; s != nil; s = s.links[slotPlace].prev {
		if s.Pending() == 1 && !p.planned(s) && s.pass.admitted != p.number {
			return p.Need(s, 1+s.Drafts())
		}
	}
	return 0
}

// addEachDecode is AddDecodes without its shortcut.
func (p *Plan) addEachDecode() bool {
	for s := range p.st.running.all {
		if s.Pending() == 1 && !p.planned(s) && !p.Add(s, 1+s.Drafts()) {
			panic("sim: AddDecodes and Add disagree about " + p.refusal.String())
		}
	}
	return true
}

// Preempt evicts a running sequence for recomputation: its blocks are free at
// once, what the plan gave it comes back, and it waits at the head of the
// queue, or at its place if the replica has an Order. It keeps the tokens it
// has generated, and gets those in flight that come while it waits. It may be
// added again in the same pass; a loop over Running that does so meets it again
// at the end, and may never end itself. What others of the pass share of its
// planned blocks counts as computed, as in vLLM.
//
// A sequence that could not go on even alone, because prompt and generated
// tokens need more blocks than there are, ends with RejectOutOfKV. One that could
// not with its tokens in flight is not admitted before they have come: it ends
// then.
func (p *Plan) Preempt(s *Sequence) {
	p.check()
	st := p.st
	if s.home != st || s.state != Running {
		panic(fmt.Sprintf("sim: Plan.Preempt of sequence %d, which is %v", s.serial, s.state))
	}
	// KV that came by a transfer or from the host is lost.
	admitted := s.pass.admitted == p.number && !s.pulled && s.pass.from != Swapped
	if s.hashed && p.planned(s) {
		st.memory.cache.Unregister(&s.table, s.Context())
	}
	p.takeBack(s)
	lost := s.Context()
	st.release(s)
	s.computed, s.cached, s.drafts, s.expected, s.pulled = 0, 0, 0, 0, false
	if admitted {
		p.changes[s.pass.change].s = nil
		s.state = s.pass.from
		s.pass.admitted = 0
	} else {
		s.state = Preempted
		s.preempted++
		s.evictions++
		st.hub.preempted(st, s, lost)
		p.changes = append(p.changes, change{kind: Preempt, s: s, preempted: s.preempted})
	}
	if st.hopeless(s, 0) {
		p.changes = append(p.changes, change{kind: Reject, s: s, reason: RejectOutOfKV})
		st.letGo(s, Reject)
		s.state = Ended
		return
	}
	st.enqueue(s, true)
}

// takeBack undoes what this pass gave to s.
func (p *Plan) takeBack(s *Sequence) {
	st := p.st
	blocks := 0
	switch {
	case s.pass.added == p.number:
		blocks = s.pass.blocks
		p.room += s.pass.tokens
		if s.pass.index >= 0 {
			p.adds[s.pass.index].s = nil
		}
		if s.Pending() == 1 {
			p.decodes--
			if s.member.in {
				p.members--
				p.taken -= blocks
			}
		}
		s.pass.added = 0
	case p.all && s.member.in:
		if st.cohort.crossesNow(s) {
			blocks = 1
		}
		p.room++
		p.decodes--
	}
	if !s.hashed { // a table gives its blocks back as a whole
		st.memory.Give(blocks)
	}
}

// Pad makes the device compute at least that many decode rows, and that many
// prompt positions beyond those of the chunks. Padding takes no token budget.
func (p *Plan) Pad(rows, promptTokens int) {
	if rows < 0 || promptTokens < 0 {
		panic(fmt.Sprintf("sim: Plan.Pad(%d, %d)", rows, promptTokens))
	}
	p.padRows, p.padPrompt = rows, promptTokens
}

// Reject ends a waiting sequence for that reason.
func (p *Plan) Reject(s *Sequence, reason string) {
	p.check()
	if s.home != p.st || s.state != Waiting && s.state != Preempted && s.state != Remote && s.state != Swapped {
		panic(fmt.Sprintf("sim: Plan.Reject of sequence %d, which is %v", s.serial, s.state))
	}
	p.st.dequeue(s)
	p.st.letGo(s, Reject)
	s.state = Ended
	p.changes = append(p.changes, change{kind: Reject, s: s, reason: reason})
}

// Hold promises that the scheduler would plan the same decodes, and nothing
// else, at every step end until a request arrives here, a transfer ends, one of
// those that decode needs a block that is not free, or while another waits one
// ends or is aborted, here or on its way here, or the prefix cache changes. The
// engine then repeats the step without asking. It is ignored if the plan holds
// prompt chunks, evicts or rejects anybody, or releases something: what that frees
// may change its mind.
func (p *Plan) Hold() { p.hold = true }

// gaveBack reports whether the pass has freed anything.
func (p *Plan) gaveBack() bool {
	return p.released || slices.ContainsFunc(p.changes, func(c change) bool { return c.s != nil && c.kind != Admit })
}

// WakeAt asks for a pass at the first step end at or after t, or at t if the
// replica is idle then, even if nothing has changed. t must be later than now.
// It is forgotten at the next pass.
func (p *Plan) WakeAt(t Time) {
	if t <= p.st.hub.now {
		panic(fmt.Sprintf("sim: Plan.WakeAt(%v) at %v", t, p.st.hub.now))
	}
	p.wakeAt = t
}

// check panics if the plan is used outside the pass that it belongs to.
func (p *Plan) check() {
	if !p.open {
		panic("sim: a Plan was used after Schedule had returned")
	}
}

func (p *Plan) refuse(r Refusal) bool {
	p.refusal = r
	return false
}

// refuseTo is refuse for a sequence that may wait.
func (p *Plan) refuseTo(s *Sequence, r Refusal) bool {
	p.refusedNow(s, r)
	return p.refuse(r)
}

// planned reports whether this pass has given s work.
func (p *Plan) planned(s *Sequence) bool {
	return s.pass.added == p.number || p.all && s.member.in
}

func (p *Plan) mark(s *Sequence, tokens, blocks, index int) {
	s.pass.added, s.pass.tokens, s.pass.blocks, s.pass.index = p.number, tokens, blocks, index
}

// admit moves s from the queue to the running sequences. It has so many
// positions without computing them.
func (p *Plan) admit(s *Sequence, cached int) {
	p.st.dequeue(s)
	s.pass.admitted, s.pass.from, s.pass.change = p.number, s.state, len(p.changes)
	p.changes = append(p.changes, change{kind: Admit, s: s, cached: cached, preempted: s.preempted, pulled: s.pulled})
	s.state, s.cached = Running, cached
	p.st.run(s)
}

// reset makes the plan ready for a pass.
func (p *Plan) reset() {
	p.number++
	p.room = p.st.limits.MaxBatchTokens
	p.refusal = NotRefused
	p.adds, p.changes, p.reserved, p.pulls = p.adds[:0], p.changes[:0], p.reserved[:0], p.pulls[:0]
	p.all, p.allAt = false, 0
	p.decodes, p.members, p.taken = 0, 0, 0
	p.padRows, p.padPrompt = 0, 0
	p.swapIn, p.swapOut = 0, 0
	p.hold, p.wakeAt = false, Never
	p.open, p.released = true, false
}

func orMax(n int) int {
	if n == 0 {
		return math.MaxInt
	}
	return n
}
