package sim

import "time"

// Ledger says where the time of one request went on the engine's clock, in
// nanoseconds by cause. The parts add up exactly: [Ledger.ToFirst] is the time
// from the arrival to the first token, ToFirst and ToLast that to the end of
// the request. Parts of a life that did not happen are 0. With Config.Ledgers it
// costs O(1) per step, and one more call of the cost model for a step that mixes
// chunks and decodes.
type Ledger struct {
	Queue       QueueTime
	Prefill     PrefillTime
	Transfer    TransferTime
	FirstDecode FirstDecodeTime
	Stream      StreamTime
	// LateTransfer is set when the first token came from the prefill side:
	// Transfer and FirstDecode then lie between the first two tokens.
	LateTransfer bool
}

// QueueTime is the time from the arrival to the admission, and after a
// preemption before the first token to the next. One pass gives a cause to the
// time until the next one: the request that it refused gets what it was refused
// for, the others Order, and all get Policy if it refused nobody though there
// was room.
type QueueTime struct {
	Door   time.Duration // deferred by Admission
	Step   time.Duration // until the first pass, because a step was in flight
	Slots  time.Duration // MaxSeqs sequences ran
	Tokens time.Duration // the token budget of the step was used up
	Memory time.Duration // too few KV blocks were free
	Order  time.Duration // others were first
	Policy time.Duration // the scheduler did not try
}

// PrefillTime is the time from an admission to the end of the prompt.
type PrefillTime struct {
	Compute time.Duration // steps with a chunk of it
	Paused  time.Duration // the rest
}

// TransferTime is the time from the end of the prompt to the arrival of its KV
// on the decode side.
type TransferTime struct {
	Room       time.Duration // until it is pulled
	Wire       time.Duration // what the transfer takes alone on the link; with Link.Layers what is left of it behind the prompt, others included
	Contention time.Duration // what others on the link, and its windows, add
}

// FirstDecodeTime is the time from there to the next token.
type FirstDecodeTime struct {
	Queue   time.Duration // until the admission
	Compute time.Duration // the steps it is in
	Stalled time.Duration // the rest
}

// StreamTime is the time between the first and the last token, but for a late
// transfer and the decode behind it.
type StreamTime struct {
	Decode time.Duration // the steps it is in, without the chunks beside it
	// Interference is what those chunks add. Where a cost model says that a
	// step with a chunk is faster than one without, it is negative. Replicas
	// that step together have none: theirs counts as Decode.
	Interference time.Duration
	Stalled      time.Duration // steps and times without it while it runs
	Preempted    time.Duration // from a preemption to the next token
}

func (q *QueueTime) total() time.Duration {
	return q.Door + q.Step + q.Slots + q.Tokens + q.Memory + q.Order + q.Policy
}

func (l *Ledger) handedOver() time.Duration {
	t, f := &l.Transfer, &l.FirstDecode
	return t.Room + t.Wire + t.Contention + f.Queue + f.Compute + f.Stalled
}

// ToFirst returns the time from the arrival to the first token, or to the end
// of a request without one.
func (l *Ledger) ToFirst() time.Duration {
	sum := l.Queue.total() + l.Prefill.Compute + l.Prefill.Paused
	if !l.LateTransfer {
		sum += l.handedOver()
	}
	return sum
}

// ToLast returns the time from there to the end.
func (l *Ledger) ToLast() time.Duration {
	s := &l.Stream
	sum := s.Decode + s.Interference + s.Stalled + s.Preempted
	if l.LateTransfer {
		sum += l.handedOver()
	}
	return sum
}

// Ledger returns that of the request that e is about, complete for Finish,
// Reject and Abort events and zero without Config.Ledgers. It is valid during
// Observe only.
func (e Event) Ledger() Ledger {
	if e.seq == nil || e.seq.clerk == nil {
		return Ledger{}
	}
	return e.seq.clerk.Ledger
}

// clerk keeps the ledger of a living request.
type clerk struct {
	Ledger
	phase phase
	since Time // start of the phase
	// Of the time since then, what was spent in steps.
	inSteps, beside time.Duration
	counted         Time          // end of the latest of those outside the cohort
	alone           time.Duration // what its transfer takes alone; 0 if not known

	// In the queue.
	fresh         bool          // joined since the latest pass
	order, policy time.Duration // the replica's clocks at the first pass it saw
	refused       bool          // by the latest pass, at since, for why
	why           Refusal

	// In the cohort: its clocks when it joined, or was last looked at.
	decode, interference time.Duration
}

// phase is what a request spends its time on.
type phase uint8

const (
	phaseDoor phase = iota
	phaseQueue
	phasePrefill
	phaseRoom
	phaseWire
	phaseFirstQueue
	phaseFirstDecode
	phaseStream
	phasePreempted
)

// queueClocks add up the time that waiting sequences spend for a reason that
// all of them have.
type queueClocks struct {
	order, policy time.Duration
	mark          Time        // up to which they count
	ordered       bool        // the latest pass refused somebody
	fresh         []*Sequence // joined since
	refused       []*Sequence // by it
}

// advance brings the clocks of the queue up to now.
func (q *queueClocks) advance(now Time) {
	if q.ordered {
		q.order += now.Sub(q.mark)
	} else {
		q.policy += now.Sub(q.mark)
	}
	q.mark = now
}

// enterQueue begins the wait of s.
func (st *Stepper) enterQueue(s *Sequence) {
	c := s.clerk
	c.phase, c.since, c.fresh, c.refused = phaseQueue, st.hub.now, true, false
	st.clocks.fresh = append(st.clocks.fresh, s)
}

// beginPass gives the time since the latest pass its causes.
func (st *Stepper) beginPass() {
	q, now := &st.clocks, st.hub.now
	q.advance(now)
	for _, s := range q.fresh {
		if c := s.clerk; s.home == st && c.phase == phaseQueue && c.fresh {
			c.Queue.Step += now.Sub(c.since)
			c.fresh, c.order, c.policy = false, q.order, q.policy
		}
	}
	for _, s := range q.refused {
		if s.home == st && s.clerk.phase == phaseQueue {
			s.clerk.settleRefusal(now)
		}
	}
	q.fresh, q.refused, q.ordered = q.fresh[:0], q.refused[:0], false
}

// endPass notes that a pass without a refusal had no room left for the head of
// the queue.
func (st *Stepper) endPass() {
	head, p := st.waiting.first, &st.plan
	switch {
	case head == nil || st.clocks.ordered:
	case p.room == 0:
		p.refusedNow(head, RefusedTokens)
	case p.Slots() < 1:
		p.refusedNow(head, RefusedSlots)
	}
}

// refusedNow notes why a pass does not take s.
func (p *Plan) refusedNow(s *Sequence, why Refusal) {
	c := s.clerk
	if c == nil || c.phase != phaseQueue || c.fresh || s.state == Running {
		return
	}
	q := &p.st.clocks
	q.ordered = true
	if !c.refused {
		c.refused, c.since = true, p.st.hub.now
		q.refused = append(q.refused, s)
	}
	c.why = why
}

// settleRefusal gives c the time since the pass that refused it, and takes it
// from the clock that ran for the others.
func (c *clerk) settleRefusal(now Time) {
	if !c.refused {
		return
	}
	d := now.Sub(c.since)
	switch c.why {
	case RefusedSlots:
		c.Queue.Slots += d
	case RefusedTokens:
		c.Queue.Tokens += d
	default:
		c.Queue.Memory += d
	}
	c.order += d
	c.refused = false
}

// lookAtSteps adds what the cohort did since s joined, or since the last look.
func (st *Stepper) lookAtSteps(s *Sequence) {
	if c := s.clerk; s.member.in {
		k := &st.cohort
		decode, beside := k.decodeTime-c.decode, k.interference-c.interference
		c.decode, c.interference = k.decodeTime, k.interference
		c.inSteps += decode + beside
		c.beside += beside
	}
}

// turnTo ends the phase of s and begins another.
func (st *Stepper) turnTo(s *Sequence, next phase) {
	c, now := s.clerk, st.hub.now
	st.lookAtSteps(s)
	span := now.Sub(c.since)
	switch c.phase {
	case phaseDoor:
		c.Queue.Door += span
	case phaseQueue:
		q := &st.clocks
		if c.fresh {
			c.Queue.Step += span
			break
		}
		q.advance(now)
		c.settleRefusal(now)
		c.Queue.Order += q.order - c.order
		c.Queue.Policy += q.policy - c.policy
	case phasePrefill:
		c.Prefill.Compute += c.inSteps
		c.Prefill.Paused += span - c.inSteps
	case phaseRoom:
		c.Transfer.Room += span
	case phaseWire:
		wire := span
		if c.alone > 0 {
			wire = min(wire, c.alone)
		}
		c.Transfer.Wire += wire
		c.Transfer.Contention += span - wire
	case phaseFirstQueue:
		c.FirstDecode.Queue += span
	case phaseFirstDecode:
		c.FirstDecode.Compute += c.inSteps
		c.FirstDecode.Stalled += span - c.inSteps
	case phaseStream:
		c.Stream.Decode += c.inSteps - c.beside
		c.Stream.Interference += c.beside
		c.Stream.Stalled += span - c.inSteps
	case phasePreempted:
		c.Stream.Preempted += span
	}
	c.inSteps, c.beside, c.alone = 0, 0, 0
	c.phase, c.since, c.fresh = next, now, false
	if next == phaseQueue {
		st.enterQueue(s)
	}
}

// accountAdmission begins what s does as a running sequence.
func (st *Stepper) accountAdmission(s *Sequence) {
	switch c := s.clerk; c.phase {
	case phaseQueue:
		st.turnTo(s, phasePrefill)
	case phaseRoom, phaseFirstQueue:
		st.turnTo(s, phaseFirstDecode)
	}
}

// accountPreemption begins its wait after an eviction.
func (st *Stepper) accountPreemption(s *Sequence) {
	switch c := s.clerk; {
	case c.phase == phasePreempted:
	case s.timeline.FirstToken != NoTime:
		st.turnTo(s, phasePreempted)
	default:
		st.turnTo(s, phaseQueue)
	}
}

// accountToken ends what s waited for.
func (st *Stepper) accountToken(s *Sequence) {
	if s.clerk.phase != phaseStream {
		st.turnTo(s, phaseStream)
	}
}

// accountRow adds a step to those that s, outside the cohort, was in. The
// stages of a pipeline may overlap; no time counts twice.
func (st *Stepper) accountRow(s *Sequence) {
	c, f := s.clerk, st.step
	if c == nil || s.home != st {
		return
	}
	from := max(f.end.Add(-f.took), c.counted, c.since)
	if f.end <= from {
		return
	}
	c.counted = f.end
	c.inSteps += f.end.Sub(from)
	if f.end.Sub(from) == f.took {
		c.beside += f.beside
	}
}

// besideDecodes returns what the chunks of a step add to the time of its
// decodes.
func (st *Stepper) besideDecodes(f *step) time.Duration {
	if !st.hub.ledgers || len(f.prefill) == 0 || f.batch.Decodes == 0 || st.group != nil {
		return 0
	}
	alone := f.batch
	alone.Prefills, alone.Padding.PromptTokens = nil, 0
	host, _, total := st.times(alone)
	if len(st.ring) == 1 {
		total += host
	}
	return f.took - max(1, st.windows.stretch(st.hub.now, total))
}

// closeLedger ends the ledger of s.
func (h *hub) closeLedger(s *Sequence) {
	c := s.clerk
	if s.home == nil {
		c.Queue.Door += h.now.Sub(c.since)
		return
	}
	s.home.turnTo(s, phaseDoor)
}
