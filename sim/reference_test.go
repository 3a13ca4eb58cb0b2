package sim_test

import (
	"cmp"
	"math"
	"slices"
	"time"

	"servesim/sim"
	"servesim/sim/kv"
)

// The files reference_*_test.go are a second engine: the same rules, written
// the slow and obvious way. It touches every sequence at every step, keeps plain
// slices, and shares no code with package sim but the plain data types. Tests
// run both on the same input and compare the event logs.

// refSeq is a request in the reference engine.
type refSeq struct {
	req       sim.Request
	serial    int64
	home      *refReplica // nil at the front door
	state     sim.State
	rank      int
	turn      int
	output    int
	reason    string
	generated int
	computed  int
	blocks    int
	host      int // blocks in host memory
	last      sim.Time
	timeline  sim.Timeline
	preempted int
	evictions int // since its last token
	over      int
	keepSlot  bool
	keep      bool // its blocks
	times     []sim.Time

	expected int // tokens in flight that the scheduler counts on

	remote int         // leading positions whose KV another replica has
	away   *refHeld    // its blocks there
	dest   *refReplica // that is going to decode it, while its prompt is computed
	early  *refHeld    // blocks taken there
	hit    int         // positions that a pull found in the prefix cache there
	flow   *refFlow
	pulled bool // its KV came by a transfer, and it has not run since
	asked  sim.Time

	// of the current pass
	tokens   int
	taken    int
	admitted bool
	from     sim.State

	chunk bool // a prompt chunk of it is in flight

	cache  *kv.Cache // of its replica, if it has hashes
	chain  []kv.Hash
	table  *kv.Table
	cached int
	drafts int
}

// refPending is something that will happen.
type refPending struct {
	at      sim.Time
	kind    int
	replica int
	created int
	pass    int     // of a wake-up
	s       *refSeq // nil for a follow-up
	req     sim.Request
}

// The kinds of pending events, in their order at one instant.
const (
	refStepEnd = iota
	refLink
	refControl
	refOpen
	refAbortFirst
	refAbortTotal
	refArrival
	refWakeUp
)

// refEngine is the whole deployment.
type refEngine struct {
	cfg      sim.Config
	classes  []sim.Class
	replicas []*refReplica
	reqs     []sim.Request // that are still to arrive
	live     []*refSeq
	pending  []refPending
	created  int
	serial   int64
	now      sim.Time
	log      []string
	res      sim.Result
	dirty    []*refReplica // to plan at the end of the instant
	flows    []*refFlow    // in order of their start
	rated    sim.Time      // when the link was last looked at
	gaveUp   bool          // somebody was evicted a thousand times without a token
}

// refRun simulates reqs with the given policy per replica and returns the
// engine after it, whose log lacks the end event.
func refRun(cfg sim.Config, policies []policy, reqs []sim.Request) *refEngine {
	e := &refEngine{cfg: cfg, classes: cfg.Classes, reqs: reqs}
	if len(e.classes) == 0 {
		e.classes = []sim.Class{{}}
	}
	for i, r := range cfg.Replicas {
		e.replicas = append(e.replicas, newRefReplica(i, r, policies[i]))
	}
	e.joinGroups()
	if cfg.Roles != nil {
		e.push(refPending{kind: refControl, replica: -1})
	}
	for !e.gaveUp {
		at := sim.Never
		if len(e.reqs) > 0 {
			at = e.reqs[0].Arrival
		}
		for _, p := range e.due() {
			at = min(at, p.at)
		}
		if at == sim.Never {
			break
		}
		e.now = at
		door := func() {
			for len(e.reqs) > 0 && e.reqs[0].Arrival == at {
				r := e.reqs[0]
				e.reqs = e.reqs[1:]
				e.arrive(r)
			}
		}
		for {
			p, ok := e.earliest()
			if !ok {
				door()
				if p, ok = e.earliest(); !ok {
					break
				}
			}
			if p.kind >= refArrival {
				door()
			}
			e.pending = slices.DeleteFunc(e.pending, func(o refPending) bool { return o.created == p.created })
			e.happen(p)
		}
		e.planAll()
	}
	e.res.Unfinished = int64(len(e.live))
	return e
}

// planAll lets the replicas plan that this instant has touched, by number, and
// then those that their passes touch.
func (e *refEngine) planAll() {
	slices.SortFunc(e.dirty, func(a, b *refReplica) int { return cmp.Compare(a.index, b.index) })
	for len(e.dirty) > 0 {
		r := e.dirty[0]
		e.dirty = e.dirty[1:]
		e.plan(r)
	}
}

// touch makes a replica plan at the end of the instant, if it can, and those that
// step together with it.
func (e *refEngine) touch(r *refReplica) {
	if len(r.mates) > 0 {
		r = r.mates[0]
	}
	if !r.full() && !slices.Contains(e.dirty, r) {
		e.dirty = append(e.dirty, r)
	}
}

// due returns everything that is going to happen, in no order.
func (e *refEngine) due() []refPending {
	return append(slices.Clone(e.pending), refPending{at: e.linkDue(), kind: refLink, replica: -1})
}

// earliest returns what happens first of what is due now.
func (e *refEngine) earliest() (first refPending, ok bool) {
	for _, p := range e.due() {
		if p.at == e.now && (!ok || cmp.Or(cmp.Compare(p.kind, first.kind), cmp.Compare(p.replica, first.replica), cmp.Compare(p.created, first.created)) < 0) {
			first, ok = p, true
		}
	}
	return first, ok
}

func (e *refEngine) push(p refPending) {
	e.created++
	p.created = e.created
	e.pending = append(e.pending, p)
}

func (e *refEngine) happen(p refPending) {
	switch p.kind {
	case refStepEnd:
		r := e.replicas[p.replica]
		if len(r.mates) == 0 {
			e.endStep(r)
		}
		for _, m := range r.mates {
			if len(m.flying) > 0 {
				e.endStep(m)
			}
		}
		e.touch(r)
	case refLink:
		e.linkHappens()
	case refControl:
		e.control()
	case refOpen:
		e.open(e.replicas[p.replica])
	case refAbortFirst, refAbortTotal:
		s := p.s
		if s.state == sim.Ended || p.kind == refAbortFirst && s.timeline.FirstToken >= 0 {
			return
		}
		if s.home != nil {
			e.drop(s)
			e.touch(s.home)
		}
		e.finish(s, sim.Abort, "")
	case refArrival:
		if p.s == nil {
			e.arrive(p.req)
		} else if p.s.state != sim.Ended {
			e.enter(p.s)
		}
	case refWakeUp:
		if r := e.replicas[p.replica]; r.passes == p.pass && r.wants() {
			e.touch(r)
		}
	}
}

// arrive lets a request in at the front door.
func (e *refEngine) arrive(r sim.Request) {
	e.serial++
	e.res.Arrived++
	s := &refSeq{req: r, serial: e.serial, last: -1, state: sim.Deferred, table: new(kv.Table),
		timeline: sim.Timeline{Arrival: r.Arrival, Queued: -1, Admitted: -1, PrefillEnd: -1, FirstToken: -1}}
	reason := ""
	switch {
	case r.Class < 0 || r.Class >= len(e.classes):
		reason = sim.RejectUnknownClass
		s.req.Class = -1
	case r.Prompt < 1:
		reason = sim.RejectEmptyPrompt
	case r.Output < 1:
		reason = sim.RejectZeroOutput
	case slices.ContainsFunc(e.live, func(o *refSeq) bool { return o.req.ID == r.ID }):
		reason = sim.RejectDuplicateID
	}
	e.emit(s, sim.Arrive)
	if reason != "" {
		e.finish(s, sim.Reject, reason)
		return
	}
	e.live = append(e.live, s)
	if d := r.Patience.First; d > 0 {
		e.push(refPending{at: r.Arrival.Add(d), kind: refAbortFirst, replica: -1, s: s})
	}
	if d := r.Patience.Total; d > 0 {
		e.push(refPending{at: r.Arrival.Add(d), kind: refAbortTotal, replica: -1, s: s})
	}
	e.enter(s)
}

func (s *refSeq) query() sim.Query {
	r := s.req
	return sim.Query{ID: r.ID, Arrival: r.Arrival, Prompt: r.Prompt, MaxOutput: r.MaxOutput, Hint: r.Hint, Class: r.Class,
		Deadline: r.Deadline, Prefix: r.Prefix, PrefixBlock: r.PrefixBlock, NoPrefixRead: r.NoPrefixRead}
}

// enter takes s through admission and routing.
func (e *refEngine) enter(s *refSeq) {
	if e.cfg.Admission != nil {
		d := e.cfg.Admission.Admit(e.now, s.query(), e.loads())
		if d.Reject != "" {
			e.finish(s, sim.Reject, d.Reject)
			return
		}
		if d.Until != 0 {
			e.push(refPending{at: d.Until, kind: refArrival, replica: -1, s: s})
			return
		}
	}
	loads := e.loads()
	to := slices.IndexFunc(loads, func(l sim.Load) bool { return l.Role != sim.RoleDecode })
	if e.cfg.Router != nil {
		to = e.cfg.Router.Route(e.now, s.query(), loads)
	}
	if to < 0 || to >= len(loads) || loads[to].Closed {
		e.finish(s, sim.Reject, sim.RejectNoRoute)
		return
	}
	r := e.replicas[to]
	if reason := r.refuses(s); reason != "" {
		e.finish(s, sim.Reject, reason)
		return
	}
	r.own(s)
	s.state, s.timeline.Queued = sim.Waiting, e.now
	r.enqueue(s, false)
	e.emit(s, sim.Queue)
	e.touch(r)
}

func (e *refEngine) finish(s *refSeq, kind sim.Kind, reason string) {
	switch kind {
	case sim.Finish:
		e.res.Completed++
	case sim.Reject:
		e.res.Rejected++
	case sim.Abort:
		e.res.Aborted++
	}
	e.live = slices.DeleteFunc(e.live, func(o *refSeq) bool { return o == s })
	s.state = sim.Ended
	e.tell(s, sim.Event{Kind: kind, Reason: reason, Preemptions: int32(s.preempted)})
	e.line(refTimes(s.times))
	if e.cfg.FollowUp == nil {
		return
	}
	for _, r := range e.cfg.FollowUp(sim.Completion{Request: s.req, Serial: s.serial, Kind: kind, Reason: reason, End: e.now, Output: s.generated, Timeline: s.timeline}) {
		e.push(refPending{at: r.Arrival, kind: refArrival, replica: -1, req: r})
	}
}

func (e *refEngine) emit(s *refSeq, kind sim.Kind) {
	e.tell(s, sim.Event{Kind: kind, Preemptions: int32(s.preempted)})
}

// tell logs an event of a request.
func (e *refEngine) tell(s *refSeq, v sim.Event) {
	switch {
	case v.Kind == sim.Pull:
	case s.home == nil:
		v.Replica = -1
	default:
		v.Replica = int32(s.home.index)
	}
	v.Serial, v.ID, v.Class, v.Prompt, v.Output = s.serial, s.req.ID, s.req.Class, s.req.Prompt, s.generated
	v.Timeline, v.GapsOver = s.timeline, int32(s.over)
	e.record(v)
}

// record logs an event, which is the last so far.
func (e *refEngine) record(v sim.Event) {
	v.Time = e.now
	e.res.End = e.now
	e.line(eventLine(v))
}

func (e *refEngine) line(text string) { e.log = append(e.log, text) }

func refBlocks(tokens, size int) int { return (tokens + size - 1) / size }

// refMax is a limit that may be absent.
func refMax(n int) int {
	if n == 0 {
		return math.MaxInt
	}
	return n
}

// refRound multiplies a time.
func refRound(d time.Duration, factor float64) time.Duration {
	return time.Duration(math.Round(factor * float64(d)))
}
