package sim

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
)

// Run simulates the deployment until every request has ended, or until the
// horizon. It pulls requests lazily; they must come in order of arrival.
//
// Every request ends completed, rejected with a reason, aborted by its client,
// or unfinished at the horizon, and the counts of the result add up. A faulty
// request is rejected and the rest runs on. Run returns an error, with the
// counts so far, for a faulty configuration, an error or a step back in time
// from requests, a cancelled context, a follow-up that arrives in the past, a
// negative step time, and a run that cannot go on: nothing is pending while
// requests are alive, MaxSteps, an eviction without end, or an instant without
// end.
//
// The same configuration and requests give the same events. Run draws no
// random number, reads no clock and starts no goroutine.
func Run(ctx context.Context, cfg Config, requests iter.Seq2[Request, error]) (Result, error) {
	if err := cfg.validate(); err != nil {
		return Result{}, err
	}
	for i, r := range cfg.Replicas {
		if r.Drafts > 0 && r.Drafter == nil {
			return Result{}, fmt.Errorf("sim: Config.Replicas[%d].Drafter is nil with Drafts %d", i, r.Drafts)
		}
	}
	e := newEngine(ctx, &cfg)
	e.unwatched = cancelEvery
	e.feeding = true
	if cfg.Roles != nil {
		e.push(entry{kind: roleControl, replica: -1})
	}
	err := e.cancelled()
	if err == nil {
		err = e.feed(requests)
	}
	e.feeding = false
	if err == nil {
		err = e.runBefore(Never)
	}
	if err == nil {
		err = e.stuck()
	}
	return e.finish(err), err
}

// engine drives the replicas of a run through virtual time.
type engine struct {
	hub
	ctx                      context.Context
	cfg                      *Config
	until                    Time
	replicas                 []Stepper
	loads                    []Load
	net                      network
	onlyDecoder, onlyPrefill int // the one replica that decodes, or takes prompts; -1 if there are several

	feeding bool // open-loop arrivals may come
	pending eventHeap
	created int64
	door    []Request // open-loop arrivals of the instant doorAt
	doorAt  Time
	dirty   []*Stepper // idle replicas to look at in this instant
	cut     bool       // something lies beyond the horizon

	sameMoment int // events handled without time moving, open-loop arrivals excepted
	fruitless  int // wake-ups and deferrals since the last other event
	unwatched  int // events since the last look at the context
}

// maxSameMoment is how many events other than open-loop arrivals may follow
// each other at one instant before the run ends with an error.
const maxSameMoment = 1 << 20

// maxFruitless is how many wake-ups and deferrals may follow each other, for
// each request alive, before the run ends with an error.
const maxFruitless = 1 << 17

// cancelEvery is how many events pass between two looks at the context.
const cancelEvery = 1024

func newEngine(ctx context.Context, cfg *Config) *engine {
	e := &engine{ctx: ctx, cfg: cfg, until: cfg.Until}
	if e.until == 0 {
		e.until = Never - 1
	}
	e.hub.init(cfg)
	e.hub.engine = e
	e.net.init(e)
	e.onlyDecoder, e.onlyPrefill = cfg.only(RolePrefill), cfg.only(RoleDecode)
	e.replicas = make([]Stepper, len(cfg.Replicas))
	e.loads = make([]Load, len(cfg.Replicas))
	for i, r := range cfg.Replicas {
		e.replicas[i].init(&e.hub, i, r, &e.loads[i])
		e.replicas[i].windows = windowsOf(cfg.Windows, i)
	}
	e.joinGroups()
	if cfg.FollowUp != nil {
		e.hub.ended = e.followUp
	}
	return e
}

// feed pulls the open-loop arrivals and lets time run up to each.
func (e *engine) feed(requests iter.Seq2[Request, error]) error {
	row := 0
	for r, err := range requests {
		if err != nil {
			return fmt.Errorf("sim: requests: %w", err)
		}
		if r.Arrival < 0 || r.Arrival < e.doorAt {
			return fmt.Errorf("sim: requests[%d] (id %d): Arrival is %d ns, before %d", row, r.ID, int64(r.Arrival), int64(e.doorAt))
		}
		row++
		if r.Arrival > e.until && e.cfg.Until == 0 {
			return fmt.Errorf("sim: requests[%d] (id %d): Arrival is %d ns, the end of time", row-1, r.ID, int64(r.Arrival))
		}
		if r.Arrival > e.until {
			e.cut = true
			break
		}
		if r.Arrival > e.doorAt {
			if err := e.runBefore(r.Arrival); err != nil {
				return err
			}
			e.doorAt = r.Arrival
		}
		e.door = append(e.door, r)
		e.unwatched++
		if err := e.cancelled(); err != nil {
			return err
		}
	}
	return nil
}

// runBefore lets every instant before t happen.
func (e *engine) runBefore(t Time) error {
	for e.err == nil {
		next := Never
		if len(e.door) > 0 {
			next = e.doorAt
		}
		e.skipOutdated()
		e.sweep()
		if len(e.pending) > 0 {
			next = min(next, e.pending[0].at)
		}
		if next >= t {
			return nil
		}
		if next > e.until {
			e.cut = true
			return nil
		}
		if next > e.now {
			e.sameMoment = 0
		}
		e.now = next
		e.instant()
		if err := e.cancelled(); err != nil {
			return err
		}
	}
	return e.err
}

// cancelled looks at the context now and then.
func (e *engine) cancelled() error {
	if e.unwatched < cancelEvery {
		return nil
	}
	e.unwatched = 0
	err := e.ctx.Err()
	if err != nil {
		e.result.Cancelled = true
		err = fmt.Errorf("sim: at %v: %w", e.now, err)
	}
	return err
}

// instant takes everything due now in the total order, then lets the replicas
// that it touched plan.
func (e *engine) instant() {
	for more := true; more && e.err == nil; more = len(e.pending) > 0 && e.pending[0].at == e.now {
		e.drain()
		e.openDoor()
	}
	if e.err != nil {
		return
	}
	if len(e.dirty) > 1 {
		slices.SortFunc(e.dirty, func(a, b *Stepper) int { return cmp.Compare(a.index, b.index) })
	}
	// A pass may free blocks of other replicas, which then look again.
	for i := 0; i < len(e.dirty); i++ {
		if i == maxSameMoment {
			e.fail(fmt.Errorf("sim: %d passes at %v without time moving, with %d requests alive", i, e.now, len(e.live)))
			break
		}
		e.dirty[i].touched = false
		e.start(e.dirty[i])
	}
	e.dirty = e.dirty[:0]
}

// drain lets the pending events of this instant happen. What they cause at the
// same instant is among them.
func (e *engine) drain() {
	for len(e.pending) > 0 && e.pending[0].at == e.now && e.err == nil {
		if e.outdated(&e.pending[0]) {
			e.drop(e.pending.pop())
			continue
		}
		if e.pending[0].kind >= arrival {
			e.openDoor()
		}
		e.handle(e.pending.pop())
		e.unwatched++
		if e.sameMoment++; e.sameMoment > maxSameMoment {
			e.fail(fmt.Errorf("sim: %d events at %v without time moving, with %d requests alive", e.sameMoment, e.now, len(e.live)))
		}
	}
}

// openDoor lets the open-loop arrivals of this instant in.
func (e *engine) openDoor() {
	if len(e.door) == 0 || e.doorAt > e.now {
		return
	}
	e.fruitless = 0
	for _, r := range e.door {
		if s, _ := e.arrive(r); s != nil {
			e.expect(s)
			e.enter(s)
		}
	}
	e.door = e.door[:0]
}

// start lets an idle replica begin its next step.
func (e *engine) start(st *Stepper) {
	if st.group != nil {
		e.startGroup(st.group)
		return
	}
	flying := st.flying
	st.begin()
	e.settle(st)
	if st.flying > flying {
		e.push(entry{at: st.step.end, kind: stepEnd, replica: st.index})
		if st.cfg.Role == RolePrefill && e.net.link.Layers > 1 {
			e.net.computes(st)
		}
		switch {
		case st.full():
			return
		case st.hostFree <= e.now:
			e.look(st)
			return
		}
		st.wakeAt = st.hostFree
	}
	e.wakeLater(st)
}

// settle looks at a replica that has planned, or could not.
func (e *engine) settle(st *Stepper) {
	if st.drained() {
		e.switchRole(st)
	}
	if e.check {
		if err := st.recount(); err != nil {
			e.fail(err)
		}
	}
}

// wakeLater schedules the pass that an idle replica has asked for.
func (e *engine) wakeLater(st *Stepper) {
	if st.wakeAt != Never && st.wakeAt != st.waking {
		st.waking = st.wakeAt
		e.push(entry{at: st.wakeAt, kind: wakeUp, replica: st.index, serial: st.plan.number})
	}
}

func (e *engine) push(x entry) {
	e.created++
	x.seq = e.created
	e.pending.push(x)
}

// look makes an idle replica plan at the end of the instant.
func (e *engine) look(st *Stepper) {
	if st.group != nil {
		e.lookGroup(st.group)
		return
	}
	if !st.full() && !st.touched {
		st.touched = true
		e.dirty = append(e.dirty, st)
	}
}

// handle lets one pending event happen.
func (e *engine) handle(x entry) {
	if x.kind == wakeUp || x.kind == roleControl && len(e.live) > 0 || x.kind == arrival && x.serial != 0 {
		e.fruitless++
	} else {
		e.fruitless = 0
	}
	if e.fruitless > maxFruitless*(1+len(e.live)) {
		e.fail(fmt.Errorf("sim: at %v nothing but %d wake-ups and deferrals has happened for a while, with %d requests alive", e.now, e.fruitless, len(e.live)))
	}
	switch x.kind {
	case stepEnd:
		st := &e.replicas[x.replica]
		if st.group != nil {
			e.endGroup(st.group)
			break
		}
		st.finishStep()
		e.look(st)
	case linkEvent:
		e.net.happen()
	case roleControl:
		e.control()
	case roleOpen:
		e.reopen(&e.replicas[x.replica])
	case abortFirst, abortTotal:
		e.giveUp(x)
	case arrival:
		e.followedUp(x)
	case wakeUp:
		e.look(&e.replicas[x.replica])
	}
}

// stuck reports requests that nothing can move any more. Where a decode replica
// stands still those that prefill for it may only wait for its memory: it is the
// one to name.
func (e *engine) stuck() error {
	if len(e.live) == 0 || len(e.pending) > 0 && e.pending[0].at < Never {
		return nil
	}
	var first *Sequence // that stands still
	for i := range e.replicas {
		st := &e.replicas[i]
		s := st.running.first
		for _, l := range st.lines() {
			if s == nil {
				s = l.first
			}
		}
		if s != nil && (first == nil || st.cfg.Role == RoleDecode && first.home.cfg.Role != RoleDecode) {
			first = s
		}
	}
	if s := first; s != nil {
		st := s.home
		return fmt.Errorf("sim: replica %d: no progress at %v: the scheduler plans nothing with %d waiting, %d running, %d of %d blocks free; request %d (serial %d) is %v with %d positions pending, context %d, %d blocks; last refusal: %v",
			st.index, e.now, st.inLine(), st.running.n, st.memory.Free(), st.memory.Usable(),
			s.req.ID, s.serial, s.state, s.Pending(), s.Context(), s.Blocks(), st.plan.refusal)
	}
	return fmt.Errorf("sim: no progress at %v: %d requests are deferred for ever", e.now, len(e.live))
}

// finish closes the run and returns its counts.
func (e *engine) finish(err error) Result {
	r := &e.result
	r.Unfinished = int64(len(e.live))
	r.End = e.now
	if e.cut && err == nil {
		r.End = e.until
	}
	e.emit(&Event{Time: r.End, Kind: End, Replica: -1})
	return *r
}
