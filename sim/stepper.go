package sim

import (
	"errors"
	"fmt"
	"time"

	"servesim/sim/kv"
)

// Stepper is one replica: its queue, its running sequences, its KV blocks and
// the step in flight. [Run] drives one per replica. Driven by hand it shows
// what a scheduler does, pass by pass:
//
//	Submit ──► Plan ──► Complete ──► Plan ──► …
//
// The caller owns the clock; times must not go back.
type Stepper struct {
	hub    *hub
	index  int32
	cfg    Replica
	limits Limits
	load   *Load

	memory     memory
	waiting    queue // ready to be computed
	remote     queue // whose KV another replica has
	swapped    list  // in host memory
	host       kv.Pool
	pulling    queue // whose blocks a transfer fills
	firstTurn  int64
	lastTurn   int64
	running    list
	prefilling list // running with Pending > 1
	parked     list // running with Pending ≤ 1, not in the cohort
	next       Role // when it is Closed
	closed     Time // since when
	switching  bool
	coming     list // computed elsewhere for this replica
	accounts   []*account
	cohort     cohort
	retained   retained
	ranks      int64

	plan   Plan
	step   *step  // being planned, or ended; in ring
	ring   []step // one for each batch in flight
	oldest int    // index of the first in flight
	flying int
	steps  int64

	hostFree, stageFree, lastEnd Time // when the host, the first stage and the last one are done with the latest step

	clocks   queueClocks
	group    *group // nil if it steps alone
	windows  windows
	pipeline Pipeliner // the cost model, if it is one
	holding  bool
	wakeAt   Time
	waking   Time // a wake-up of this pass is pending then
	touched  bool
	seen     uint64 // version of the prefix cache when the latest pass began

	speculation Speculation // of the latest step end

	ended []*Sequence // scratch of a step end
	gaps  []GapGroup  // scratch of a step end
}

// retained is what ended sequences keep until Plan.Release.
type retained struct {
	slots, blocks int
	tables        []kv.Table
}

func (r *retained) empty() bool { return r.slots == 0 && r.blocks == 0 && len(r.tables) == 0 }

// NewStepper returns the one replica of cfg, of RoleBoth, to be driven by hand. Router,
// Admission, FollowUp, Until and MaxSteps must be zero: the caller decides
// what arrives and when, and so a pause stops nothing. A client's patience is not
// watched. With Check the state is recounted after every pass and every step.
func NewStepper(cfg Config) (*Stepper, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if len(cfg.Replicas) != 1 || cfg.Replicas[0].Role != RoleBoth || cfg.Router != nil || cfg.Admission != nil || cfg.FollowUp != nil || cfg.Until != 0 || cfg.MaxSteps != 0 {
		return nil, errors.New("sim: NewStepper takes one replica of RoleBoth and no Router, Admission, FollowUp, Until or MaxSteps")
	}
	h := &hub{byHand: true}
	h.init(&cfg)
	st := &Stepper{}
	st.init(h, 0, cfg.Replicas[0], &Load{})
	st.windows = windowsOf(cfg.Windows, 0)
	return st, nil
}

// Submit puts a request into the queue at now. It returns the reason if the
// request is rejected, or "". Output 0 means that outcomes decide the end.
func (st *Stepper) Submit(now Time, r Request) (rejected string) {
	st.tick(now)
	s, reason := st.hub.arrive(r)
	if s == nil {
		return reason
	}
	if reason = st.take(s); reason != "" {
		st.hub.end(s, Reject, reason)
		return reason
	}
	st.submit(s)
	return ""
}

// Plan runs one scheduling pass at now and puts the step in flight. It returns
// the batch and how long the step takes by the cost model. The batch is empty
// if the scheduler planned nothing; where the pass preempted or rejected
// somebody, Run would ask for another one. The batch is valid until the next pass. Plan
// panics if as many steps as can be are in flight.
func (st *Stepper) Plan(now Time) (Batch, time.Duration, error) {
	if st.full() {
		panic("sim: Stepper.Plan with a step in flight")
	}
	st.tick(now)
	st.pass()
	if err := st.recountIfAsked(); err != nil {
		return Batch{}, 0, err
	}
	if !st.step.active {
		return Batch{}, 0, st.hub.err
	}
	return st.step.batch, st.step.took, st.hub.err
}

// Assignment is what a step computes for one sequence.
type Assignment struct {
	ID, Tokens int
}

// Scheduled lists the latest pass: the calls of Add in their order, and in the
// place of AddDecodes the sequences that it added, in order of admission.
func (st *Stepper) Scheduled() []Assignment {
	p := &st.plan
	var out []Assignment
	decodes := func() {
		single := make(map[*Sequence]bool)
		for _, a := range p.adds {
			single[a.s] = true
		}
		for s := range st.running.all {
			switch {
			case s.pass.added == p.number && s.pass.index < 0:
				out = append(out, Assignment{s.req.ID, s.pass.tokens})
			case s.member.in && !single[s]:
				out = append(out, Assignment{s.req.ID, 1})
			}
		}
	}
	for i, a := range p.adds {
		if p.all && i == p.allAt {
			decodes()
		}
		if a.s != nil && a.s.serial == a.serial {
			out = append(out, Assignment{a.s.req.ID, a.tokens})
		}
	}
	if p.all && p.allAt == len(p.adds) {
		decodes()
	}
	return out
}

// Speculation counts what a step did with draft tokens.
type Speculation struct {
	Sequences int // that had any checked
	Drafted   int // tokens checked
	Accepted  int // of them, those that the model confirmed
	// PerPosition[i] counts the sequences that had more than i accepted.
	PerPosition []int
}

// Speculation describes the latest completed step. PerPosition is as long as
// the replica's Drafts, and valid until the next one.
func (st *Stepper) Speculation() Speculation { return st.speculation }

// Outcome is what a step sampled for one sequence.
type Outcome struct {
	ID int
	// Tokens is 0 or 1, or up to 1 more than the drafts that the step checked.
	// A sequence with 0 has nothing to compute until a later outcome brings
	// its token.
	Tokens int
	// Dropped is the number of tokens that the model confirmed behind the one
	// that stopped it. They are not part of the answer.
	Dropped int
	// Drafts is the number of draft tokens that its next step can check, at
	// most the replica's Drafts.
	Drafts int
	// Stop ends the sequence after the token, with FinishStop unless that
	// is its last one anyway.
	Stop bool
	// Prefix are the hashes of the blocks that its tokens complete, in blocks
	// of the replica. They lengthen the request's own chain.
	Prefix []kv.Hash
}

// Complete ends the oldest step in flight at now. Without outcomes every sequence
// that completes its pending positions samples a token. With outcomes, only
// those listed do; the list may be empty but not nil. The outcome of a request
// that has ended meanwhile is dropped. It panics if no step is in flight.
func (st *Stepper) Complete(now Time, outcomes []Outcome) error {
	if st.flying == 0 {
		panic("sim: Stepper.Complete without a step in flight")
	}
	if outcomes == nil && st.cfg.Drafts > 0 && st.cfg.Drafter == nil {
		return errors.New("sim: Stepper.Complete: outcomes are nil, and so is the Drafter of a replica with Drafts")
	}
	st.tick(now)
	if outcomes == nil {
		st.finishStep()
	} else if err := st.finishWith(outcomes); err != nil {
		return err
	}
	if err := st.recountIfAsked(); err != nil {
		return err
	}
	return st.hub.err
}

// finishWith ends the step sequence by sequence.
func (st *Stepper) finishWith(outcomes []Outcome) error {
	st.step = &st.ring[st.oldest]
	for _, o := range outcomes {
		if err := st.checkOutcome(o); err != nil {
			return err
		}
	}
	st.settle()
	st.dissolve()
	st.land()
	for _, a := range st.step.chunks {
		if s := a.s; len(st.ring) == 1 && s.serial == a.serial && s.state == Running && s.Pending() <= 1 {
			st.stopPrefill(s)
			st.parked.pushBack(s)
		}
	}
	st.steps++
	st.ended, st.gaps = st.ended[:0], st.gaps[:0]
	st.speculation.reset(st.cfg.Drafts)
	tokens := 0
	for _, o := range outcomes {
		s := st.hub.live[o.ID]
		if s == nil || s.state != Running && len(st.ring) == 1 {
			continue
		}
		s.chain = append(s.chain, o.Prefix...)
		switch row := st.row(s); {
		case len(st.ring) > 1:
			if a := st.assigned(s); a != nil && o.Tokens > 0 {
				tokens += st.arrive(a)
			}
		case row > 1:
			tokens += st.endRow(s, row, o.Tokens, o.Dropped)
		case o.Tokens > 0:
			tokens++
			st.sampleAlone(s)
		}
		st.propose(s, o.Drafts)
		if s.generated >= s.output || o.Stop {
			st.finished(s)
		}
		if o.Stop && s.generated < s.output {
			s.touch |= touchStop
		}
	}
	for _, s := range st.ended {
		st.announceTokens(s)
	}
	st.hub.result.Tokens += int64(tokens)
	st.publishLoad()
	st.hub.stepped(st, tokens)
	return nil
}

// row returns the positions that the step in flight gives s as a decode with
// drafts, or 0.
func (st *Stepper) row(s *Sequence) int {
	for _, a := range st.step.rows {
		if a.s == s && a.serial == s.serial {
			return a.tokens
		}
	}
	return 0
}

// assigned returns the part of s in the step that ends, or nil.
func (st *Stepper) assigned(s *Sequence) *assignment {
	for _, l := range [][]assignment{st.step.chunks, st.step.rows} {
		for i := range l {
			if l[i].s == s && l[i].serial == s.serial {
				return &l[i]
			}
		}
	}
	return nil
}

// checkOutcome reports an outcome that the step in flight cannot have. That of
// a request that has ended is dropped later.
func (st *Stepper) checkOutcome(o Outcome) error {
	s := st.hub.live[o.ID]
	if s == nil || s.state != Running {
		return nil
	}
	row := st.row(s)
	samples := row > 0 || s.Pending() == 0 || s.member.in && st.step.decodes
	if a := st.assigned(s); len(st.ring) > 1 {
		samples = a != nil && a.samples
	}
	switch {
	case o.Tokens < 0 || o.Dropped < 0 || o.Tokens+o.Dropped > max(row, 1), row > 1 && o.Tokens == 0:
		return fmt.Errorf("sim: Stepper.Complete: outcome %+v of %d positions", o, max(row, 1))
	case o.Drafts < 0 || o.Drafts > st.cfg.Drafts:
		return fmt.Errorf("sim: Stepper.Complete: outcome %+v of a replica with %d Drafts", o, st.cfg.Drafts)
	case o.Tokens > 0 && !samples:
		return fmt.Errorf("sim: Stepper.Complete: outcome %+v with %d positions pending", o, s.Pending())
	}
	return nil
}

// dissolve parks every member with the position that the step in flight gave
// it, and without the token.
func (st *Stepper) dissolve() {
	for s := range st.running.all {
		if s.member.in {
			st.cohort.leave(s)
			st.parked.pushBack(s)
		}
	}
	st.cohort.joiners = st.cohort.joiners[:0]
	st.cohort.ended = st.cohort.planned
	if l := st.cohort.log; l != nil {
		l.base, l.ends = st.cohort.ended, l.ends[:0] // nobody asks for the steps before
	}
}

// Abort ends a request wherever it is. It returns false if there is none with
// that id.
func (st *Stepper) Abort(now Time, id int) bool {
	st.tick(now)
	s := st.hub.live[id]
	if s == nil {
		return false
	}
	st.leave(s, Abort, "")
	return true
}

// Lookup returns the sequence of a request in the replica, or nil.
func (st *Stepper) Lookup(id int) *Sequence { return st.hub.live[id] }

// Waiting returns the queue.
func (st *Stepper) Waiting() List { return List{&st.waiting.list} }

// Running returns the admitted sequences in order of admission.
func (st *Stepper) Running() List { return List{&st.running} }

// Swapped returns the sequences in host memory, the first evicted first.
func (st *Stepper) Swapped() List { return List{&st.swapped} }

// Free returns the KV blocks that are free.
func (st *Stepper) Free() int { return st.memory.Free() }

// HostFree returns the host blocks that are free.
func (st *Stepper) HostFree() int {
	if st.cfg.HostBlocks == 0 {
		return 0
	}
	return st.host.Free()
}

func (st *Stepper) tick(now Time) {
	if now < st.hub.now {
		panic(fmt.Sprintf("sim: Stepper: time goes back from %v to %v", st.hub.now, now))
	}
	st.hub.now = now
}
