package sim_test

import (
	"cmp"
	"math"
	"slices"
	"time"

	"servesim/sim"
	"servesim/sim/kv"
)

// This file is a second engine: the same rules, written the slow and obvious
// way. It touches every sequence at every step, keeps plain slices, and shares
// no code with package sim but the plain data types. Tests run both on the
// same input and compare the event logs.

// refSeq is a request in the reference engine.
type refSeq struct {
	req       sim.Request
	serial    int64
	replica   int
	state     sim.State
	rank      int
	output    int
	reason    string
	generated int
	computed  int
	blocks    int
	last      sim.Time
	timeline  sim.Timeline
	preempted int
	evictions int // since its last token
	over      int
	keep      bool
	times     []sim.Time

	// of the current pass
	tokens   int
	taken    int
	admitted bool
	from     sim.State

	chunk bool // a prompt chunk of it is in flight

	cache  *kv.Cache // of its replica, if it has hashes
	table  kv.Table
	cached int
	drafts int
	row    int // positions in flight, as a decode with drafts
}

func (s *refSeq) pending() int { return s.req.Prompt + s.generated - s.have() }

// have returns what needs no computation. The prefix cache is the one part
// that both engines use: package kv tests it against a naive model.
func (s *refSeq) have() int {
	if s.cache == nil || s.state == sim.Running || s.table.Len() > 0 || s.req.NoPrefixRead {
		return s.computed
	}
	s.cache.Lookup(&s.table, s.req.Prefix, s.req.Prompt+s.generated)
	return min(s.cache.Known(&s.table)*s.cache.BlockTokens(), s.req.Prompt+s.generated-1)
}

// known returns the hashes of the blocks whose tokens are there; drafts may be
// anything.
func (s *refSeq) known() []kv.Hash {
	return s.req.Prefix[:min(len(s.req.Prefix), (s.req.Prompt+s.generated)/s.cache.BlockTokens())]
}

// refReplica is one engine instance.
type refReplica struct {
	cfg      sim.Replica
	index    int
	waiting  []*refSeq
	running  []*refSeq
	cache    *kv.Cache
	counted  int // free blocks, without a cache
	usable   int
	retained int
	tables   []*kv.Table
	ranks    int
	steps    int64

	busy   bool
	end    sim.Time
	took   time.Duration
	batch  sim.Batch
	inStep []*refSeq
	nFree  int
	nWait  int
	nRun   int

	policy policy
	passes int
}

// refPending is something that will happen.
type refPending struct {
	at      sim.Time
	kind    int // 0 step end, 1 first-token patience, 2 total patience, 3 arrival, 4 wake-up
	replica int
	created int
	s       *refSeq // nil for a follow-up
	req     sim.Request
}

// refEngine is the whole deployment.
type refEngine struct {
	cfg      sim.Config
	classes  []sim.Class
	replicas []*refReplica
	live     []*refSeq
	pending  []refPending
	created  int
	serial   int64
	now      sim.Time
	log      []string
	dirty    map[int]bool
	gaveUp   bool // somebody was evicted a thousand times without a token
}

func refBlocks(tokens, size int) int { return (tokens + size - 1) / size }

// refRun simulates reqs with the given policy per replica and returns the
// event log, without the end event.
func refRun(cfg sim.Config, policies []policy, reqs []sim.Request) (log []string, stuck, gaveUp bool) {
	e := &refEngine{cfg: cfg, classes: cfg.Classes}
	if len(e.classes) == 0 {
		e.classes = []sim.Class{{}}
	}
	for i, r := range cfg.Replicas {
		if r.BlockTokens == 0 {
			r.BlockTokens = 16
		}
		usable := math.MaxInt
		if r.KVBlocks > 0 {
			usable = r.KVBlocks - r.ReservedBlocks
		}
		ref := &refReplica{cfg: r, index: i, counted: usable, usable: usable, policy: policies[i]}
		if r.PrefixCache {
			total := r.KVBlocks
			if total == 0 {
				total = math.MaxInt32
			}
			ref.cache = kv.NewCache(total, r.ReservedBlocks, r.BlockTokens)
			ref.cache.Eager = r.EagerSharing
			ref.usable = ref.cache.Usable()
		}
		e.replicas = append(e.replicas, ref)
	}
	next := 0
	for !e.gaveUp {
		at := sim.Never
		if next < len(reqs) {
			at = reqs[next].Arrival
		}
		for _, p := range e.pending {
			at = min(at, p.at)
		}
		if at == sim.Never {
			break
		}
		e.now = at
		e.dirty = map[int]bool{}
		door := func() {
			for next < len(reqs) && reqs[next].Arrival == at {
				next++
				e.arrive(reqs[next-1])
			}
		}
		for {
			i := e.earliest()
			if i < 0 {
				door()
				if i = e.earliest(); i < 0 {
					break
				}
			}
			p := e.pending[i]
			if p.kind >= 3 {
				door()
			}
			e.pending = slices.Delete(e.pending, i, i+1)
			e.happen(p)
		}
		for i, r := range e.replicas {
			if e.dirty[i] && !r.busy {
				e.plan(r)
			}
		}
	}
	return e.log, len(e.live) > 0, e.gaveUp
}

// earliest returns the index of the first pending event due now, or -1.
func (e *refEngine) earliest() int {
	best := -1
	for i, p := range e.pending {
		if p.at != e.now {
			continue
		}
		if best < 0 || cmp.Or(cmp.Compare(p.kind, e.pending[best].kind), cmp.Compare(p.replica, e.pending[best].replica),
			cmp.Compare(p.created, e.pending[best].created)) < 0 {
			best = i
		}
	}
	return best
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

// grow takes the blocks of s for that many more positions.
func (r *refReplica) grow(s *refSeq, tokens, need int) {
	if s.cache == nil {
		r.take(need)
		s.blocks += need
		return
	}
	if !s.cache.Allocate(&s.table, s.known(), s.have()+tokens, 0) {
		panic("reference: blocks are short")
	}
	s.blocks = s.table.Len()
}

func (e *refEngine) push(p refPending) {
	e.created++
	p.created = e.created
	e.pending = append(e.pending, p)
}

func (e *refEngine) happen(p refPending) {
	switch p.kind {
	case 0:
		e.endStep(e.replicas[p.replica])
		e.dirty[p.replica] = true
	case 1, 2:
		s := p.s
		if s.state == sim.Ended || p.kind == 1 && s.timeline.FirstToken >= 0 {
			return
		}
		if s.replica >= 0 {
			r := e.replicas[s.replica]
			r.drop(s)
			if !r.busy {
				e.dirty[r.index] = true
			}
		}
		e.finish(s, sim.Abort, "")
	case 4:
		e.dirty[p.replica] = true
	case 3:
		if p.s == nil {
			e.arrive(p.req)
		} else if p.s.state != sim.Ended {
			e.enter(p.s)
		}
	}
}

// arrive lets a request in at the front door.
func (e *refEngine) arrive(r sim.Request) {
	e.serial++
	s := &refSeq{req: r, serial: e.serial, replica: -1, last: -1, state: sim.Deferred,
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
	e.emit(s, sim.Arrive, "")
	if reason != "" {
		e.finish(s, sim.Reject, reason)
		return
	}
	e.live = append(e.live, s)
	if d := r.Patience.First; d > 0 {
		e.push(refPending{at: r.Arrival.Add(d), kind: 1, replica: -1, s: s})
	}
	if d := r.Patience.Total; d > 0 {
		e.push(refPending{at: r.Arrival.Add(d), kind: 2, replica: -1, s: s})
	}
	e.enter(s)
}

func (e *refEngine) loads() []sim.Load {
	var out []sim.Load
	for _, r := range e.replicas {
		l := sim.Load{Waiting: len(r.waiting), Running: len(r.running), FreeBlocks: r.free(), Blocks: math.MaxInt}
		if r.cfg.KVBlocks > 0 {
			l.Blocks = r.usable
		}
		for _, s := range r.waiting {
			l.PendingPrompt += s.req.Prompt + s.generated - s.computed
		}
		for _, s := range r.running {
			if s.pending() > 1 || s.chunk {
				l.PendingPrompt += s.pending()
			}
		}
		out = append(out, l)
	}
	return out
}

func (e *refEngine) enter(s *refSeq) {
	q := sim.Query{ID: s.req.ID, Arrival: s.req.Arrival, Prompt: s.req.Prompt, MaxOutput: s.req.MaxOutput,
		Hint: s.req.Hint, Class: s.req.Class, Deadline: s.req.Deadline}
	if e.cfg.Admission != nil {
		d := e.cfg.Admission.Admit(e.now, q, e.loads())
		if d.Reject != "" {
			e.finish(s, sim.Reject, d.Reject)
			return
		}
		if d.Until != 0 {
			e.push(refPending{at: d.Until, kind: 3, replica: -1, s: s})
			return
		}
	}
	to := 0
	if e.cfg.Router != nil {
		to = e.cfg.Router.Route(e.now, q, e.loads())
	}
	r := e.replicas[to]
	if l := r.cfg.MaxModelLen; l > 0 && s.req.Prompt > l {
		e.finish(s, sim.Reject, sim.RejectModelLen)
		return
	}
	if refBlocks(s.req.Prompt, r.cfg.BlockTokens) > r.usable {
		e.finish(s, sim.Reject, sim.RejectKVCapacity)
		return
	}
	s.output, s.reason = s.req.Output, sim.FinishStop
	if m := s.req.MaxOutput; m > 0 && m <= s.output {
		s.output, s.reason = m, sim.FinishLength
	}
	if l := r.cfg.MaxModelLen; l > 0 && max(1, l-s.req.Prompt) <= s.output {
		s.output, s.reason = max(1, l-s.req.Prompt), sim.FinishLength
	}
	if r.cache != nil && s.req.PrefixBlock > 0 {
		s.cache = r.cache
	}
	s.replica, s.state, s.timeline.Queued = r.index, sim.Waiting, e.now
	r.enqueue(s, false)
	e.emit(s, sim.Queue, "")
	if !r.busy {
		e.dirty[r.index] = true
	}
}

func (r *refReplica) enqueue(s *refSeq, front bool) {
	at := len(r.waiting)
	switch {
	case r.cfg.Order != nil:
		less := refOrder(r.cfg.Order)
		for at = 0; at < len(r.waiting) && !less(s, r.waiting[at]); at++ {
		}
	case front:
		at = 0
	}
	r.waiting = slices.Insert(r.waiting, at, s)
}

// refOrder is the order of the tests, on reference sequences: priority of the
// class, which the tests make equal to its index; then arrival, then serial.
func refOrder(sim.Order) func(a, b *refSeq) bool {
	return func(a, b *refSeq) bool {
		return cmp.Or(cmp.Compare(a.req.Class, b.req.Class), cmp.Compare(a.req.Arrival, b.req.Arrival), cmp.Compare(a.serial, b.serial)) < 0
	}
}

// drop takes s out of the replica and frees what it holds.
func (r *refReplica) drop(s *refSeq) {
	same := func(o *refSeq) bool { return o == s }
	if s.state == sim.Running {
		r.running = slices.DeleteFunc(r.running, same)
	} else {
		r.waiting = slices.DeleteFunc(r.waiting, same)
	}
	keep := s.keep && s.state == sim.Running
	switch {
	case s.cache != nil && keep:
		table := s.table
		s.table = kv.Table{}
		r.tables = append(r.tables, &table)
	case s.cache != nil:
		s.cache.FreeTable(&s.table)
	case keep:
		r.retained += s.blocks
	default:
		r.take(-s.blocks)
	}
	s.blocks = 0
}

func (e *refEngine) finish(s *refSeq, kind sim.Kind, reason string) {
	e.live = slices.DeleteFunc(e.live, func(o *refSeq) bool { return o == s })
	s.state = sim.Ended
	e.emit(s, kind, reason)
	if e.cfg.FollowUp == nil {
		return
	}
	for _, r := range e.cfg.FollowUp(sim.Completion{Request: s.req, Serial: s.serial, Kind: kind, Reason: reason, End: e.now, Output: s.generated, Timeline: s.timeline}) {
		e.push(refPending{at: r.Arrival, kind: 3, replica: -1, req: r})
	}
}

func (e *refEngine) emit(s *refSeq, kind sim.Kind, reason string) {
	cached := 0
	if kind == sim.Admit {
		cached = s.cached
	}
	e.log = append(e.log, sim.Event{Time: e.now, Kind: kind, Cached: int32(cached), Replica: int32(s.replica), Serial: s.serial, ID: s.req.ID,
		Class: s.req.Class, Prompt: s.req.Prompt, Output: s.generated, Timeline: s.timeline,
		Preemptions: int32(s.preempted), GapsOver: int32(s.over), Reason: reason}.String())
	if kind == sim.Finish || kind == sim.Abort || kind == sim.Reject {
		e.log = append(e.log, refTimes(s.times))
	}
}

// plan runs one pass and starts the step.
func (e *refEngine) plan(r *refReplica) {
	again := false
	slow := 1.0
	for _, w := range e.cfg.Windows {
		if w.Replica == r.index && w.From <= e.now && e.now < w.To {
			if w.Pause {
				e.push(refPending{at: w.To, kind: 4, replica: r.index})
				return
			}
			slow = w.Factor
		}
	}
	if len(r.waiting) == 0 && len(r.running) == 0 && r.retained == 0 && len(r.tables) == 0 {
		return
	}
	r.passes++
	defer func() {
		if !r.busy && again {
			e.plan(r)
		}
	}()
	pass := &refPass{e: e, r: r, slow: slow, left: math.MaxInt}
	if r.cfg.MaxBatchTokens > 0 {
		pass.left = r.cfg.MaxBatchTokens
	}
	r.policy(pass, r.passes)
	again = pass.commit()
}

// endStep gives tokens to everyone whose pending positions are computed.
func (e *refEngine) endStep(r *refReplica) {
	r.busy = false
	r.steps++
	gaps := map[[2]int64]int{}
	tokens := 0
	type news struct{ first, done bool }
	what := map[*refSeq]news{}
	for _, s := range r.inStep {
		if s.cache != nil && s.state == sim.Running {
			s.cache.Computed(&s.table, s.computed)
		}
	}
	for _, s := range r.inStep {
		s.chunk = false
		row := s.row
		s.row = 0
		if s.state != sim.Running || s.pending() > 0 {
			continue
		}
		more := 0
		if row > 1 {
			more = min(r.cfg.Drafter.Accept(sim.Query{ID: s.req.ID}, s.generated, row-1), s.output-s.generated-1)
			s.computed -= row - 1 - more
		}
		for range 1 + more {
			tokens++
			s.generated++
			s.times = append(s.times, e.now)
		}
		if more > 0 {
			gaps[[2]int64{int64(e.now), int64(s.req.Class)}] += more
		}
		s.evictions = 0
		s.drafts = r.cfg.Drafts
		if l := r.cfg.MaxModelLen; l > 0 {
			s.drafts = max(0, min(s.drafts, l-s.req.Prompt-s.generated-1))
		}
		n := news{first: s.timeline.FirstToken < 0, done: s.generated >= s.output}
		if n.first {
			s.timeline.PrefillEnd, s.timeline.FirstToken = e.now, e.now
		} else {
			gaps[[2]int64{int64(s.last), int64(s.req.Class)}]++
			if target := e.classes[s.req.Class].Gap; target > 0 && e.now.Sub(s.last) > target {
				s.over++
			}
		}
		s.last = e.now
		what[s] = n
	}
	for _, s := range slices.Clone(r.running) {
		n := what[s]
		if n.first {
			e.emit(s, sim.PrefillEnd, "")
			e.emit(s, sim.FirstToken, "")
		}
		if n.done {
			r.drop(s)
			e.finish(s, sim.Finish, s.reason)
		}
	}
	var groups []sim.GapGroup
	for k, n := range gaps {
		groups = append(groups, sim.GapGroup{Prev: sim.Time(k[0]), Class: int(k[1]), Count: n})
	}
	slices.SortFunc(groups, func(a, b sim.GapGroup) int {
		return cmp.Or(cmp.Compare(a.Prev, b.Prev), cmp.Compare(a.Class, b.Class))
	})
	e.log = append(e.log, sim.Event{Time: e.now, Kind: sim.StepEnd, Replica: int32(r.index), Step: r.steps, Took: r.took, Batch: &r.batch,
		Gaps: groups, Tokens: int32(tokens), FreeBlocks: r.nFree, Waiting: int32(r.nWait), Running: int32(r.nRun)}.String())
}
