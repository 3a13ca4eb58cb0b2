package simtest

import "servesim/sim"

// life is what the events so far say of a request that is alive.
type life struct {
	id, class, prompt int
	replica           int32 // -1 at the front door
	place             place
	timeline          sim.Timeline
	preemptions       int32
	output            int // tokens at its latest event
	had               int // tokens when it came to its replica
	admittedWith      int // tokens at its latest admission
	admittedAt        sim.Time
	found             int64  // positions that it had then without computing them
	swapped           bounds // positions in host memory
	transfer
}

// place says where a request is; places make a set.
type place uint8

const (
	atDoor  place = 1 << iota
	waiting       // in line, to be computed
	running
	remote  // in line, with its KV elsewhere
	pulling // in line, with its KV on the way
	pulled  // in line, with its KV here
	swapped // in line, with its KV in host memory
	gone
	inLine   = waiting | remote | pulling | pulled | swapped
	anywhere = atDoor | inLine | running
)

func (p place) String() string {
	switch p {
	case atDoor:
		return "at the front door"
	case waiting:
		return "waiting"
	case remote:
		return "elsewhere"
	case pulling:
		return "on the way"
	case pulled:
		return "waiting with its KV"
	case swapped:
		return "swapped out"
	}
	return "running"
}

// moves are the legal moves by kind of event. Kinds without one are not
// events of a living request. Nobody is rejected while it runs, but at the end
// of a prompt that another replica should decode.
var moves = [...]struct {
	from place
	to   place // 0 stays
}{
	sim.Queue:      {atDoor, waiting},
	sim.Admit:      {waiting | remote | pulled | swapped, running},
	sim.PrefillEnd: {running, 0},
	sim.FirstToken: {running, 0},
	sim.Handoff:    {running, remote},
	sim.Pull:       {remote, pulling},
	sim.Pulled:     {pulling, pulled},
	sim.Preempt:    {running, waiting},
	sim.Finish:     {running, gone},
	sim.Reject:     {anywhere &^ pulling &^ running, gone},
	sim.Abort:      {anywhere, gone},
}

// next returns the place that an event moves a request to, 0 if it stays, and
// from where it may.
func (l *Laws) next(e *sim.Event, x *life) (from, to place) {
	from, to = moves[e.Kind].from, moves[e.Kind].to
	switch e.Kind {
	case sim.PrefillEnd, sim.FirstToken, sim.Finish:
		if x.preemptions > 0 && l.inFlight(x) > 1 { // a token was in flight
			from |= waiting
		}
	case sim.Handoff:
		if x.early {
			to = pulling
		}
	case sim.Pull:
		if x.place&(running|waiting|swapped) != 0 && l.early(x) {
			return x.place, 0
		}
	case sim.Preempt:
		if e.Reason == sim.PreemptSwap {
			to = swapped
		}
	case sim.Reject:
		if x.timeline.PrefillEnd == e.Time && l.hasRole(x.replica, sim.RolePrefill) {
			from |= running
		}
	}
	return from, to
}

func (l *Laws) arrive(e *sim.Event) {
	l.counts.Arrived++
	if e.Serial != l.counts.Arrived {
		l.violate(e, "arrival %d of the run has serial %d", l.counts.Arrived, e.Serial)
	}
	if l.lives[e.Serial] != nil {
		l.violate(e, "serial %d is alive already", e.Serial)
		return
	}
	if l.lives == nil {
		l.lives, l.queued = make(map[int64]*life), make(map[int]int64)
	}
	x := &life{id: e.ID, class: e.Class, prompt: e.Prompt, replica: -1, place: atDoor, timeline: sim.Timeline{
		Arrival: e.Time, Queued: sim.NoTime, Admitted: sim.NoTime, PrefillEnd: sim.NoTime, FirstToken: sim.NoTime}}
	l.lives[e.Serial] = x
	l.consistent(e, x)
}

// request checks an event of one living request.
func (l *Laws) request(e *sim.Event) {
	x := l.lives[e.Serial]
	if x == nil {
		l.violate(e, "request #%d is not alive", e.Serial)
		return
	}
	at, replica := x.place, x.replica
	from, to := l.next(e, x)
	if at&from == 0 {
		l.violate(e, "%v of a request that is %v", e.Kind, at)
	}
	if e.Kind == sim.Queue {
		l.enqueue(e, x)
	}
	l.residency(e, x, to)
	l.progress(e, x)
	l.consistent(e, x)
	x.output = e.Output
	if to != 0 && to != at {
		x.place = to
		l.move(e, x, replica, at)
	}
	if to == gone {
		l.leave(e, x, at)
	}
}

// enqueue checks that a request may join a queue at all.
func (l *Laws) enqueue(e *sim.Event, x *life) {
	n := len(l.Config.Replicas)
	switch {
	case e.Replica < 0 || n > 0 && int(e.Replica) >= n:
		l.violate(e, "queue of replica %d of %d", e.Replica, n)
		return
	case x.class < 0 || n > 0 && x.class >= max(1, len(l.Config.Classes)):
		l.violate(e, "a request of class %d is queued", x.class)
	case x.prompt < 1:
		l.violate(e, "a request with %d prompt tokens is queued", x.prompt)
	}
	if other, ok := l.queued[x.id]; ok && other != e.Serial {
		l.violate(e, "request #%d with the same id is in flight", other)
	}
	if s := l.site(e.Replica); s.closed {
		l.violate(e, "queue of a replica that was closed at %d ns", int64(s.closedAt))
	}
	x.replica = e.Replica
	l.queued[x.id] = e.Serial
}

// progress applies an event to what is known of the request.
func (l *Laws) progress(e *sim.Event, x *life) {
	t := &x.timeline
	switch e.Kind {
	case sim.Queue:
		t.Queued = e.Time
	case sim.Admit:
		l.hit(e, x)
		if t.Admitted == sim.NoTime {
			t.Admitted = e.Time
			if x.place != pulled {
				l.counts.PrefixHits += int64(e.Cached)
			}
		}
		l.release(e, x)
	case sim.PrefillEnd:
		if t.PrefillEnd != sim.NoTime {
			l.violate(e, "the prompt was complete at %d ns already", int64(t.PrefillEnd))
		}
		t.PrefillEnd = e.Time
	case sim.FirstToken:
		if t.FirstToken != sim.NoTime {
			l.violate(e, "the first token came at %d ns already", int64(t.FirstToken))
		}
		if t.PrefillEnd == sim.NoTime {
			l.violate(e, "a token before the end of the prompt")
		}
		t.FirstToken = e.Time
	case sim.Handoff:
		l.handoff(e, x)
	case sim.Pull:
		l.pull(e, x)
	case sim.Pulled:
		l.pulled(e, x)
	case sim.Preempt:
		x.preemptions++
		l.counts.Preemptions++
		if e.Reason != "" && e.Reason != sim.PreemptSwap {
			l.violate(e, "preempted for the reason %q", e.Reason)
		}
	}
}

// hit checks what a request is said to have at its admission: all that was
// transferred or is in host memory, or else what the prefix cache has, whole
// blocks, and a store behind them, without the last position, which is computed
// to sample from. With eager sharing its block may be there too.
func (l *Laws) hit(e *sim.Event, x *life) {
	n, most := int(e.Cached), x.prompt+e.Output-1
	switch {
	case x.place == pulled:
		if want := min(x.prompt, most); n != want {
			l.violate(e, "admitted with %d positions, %d were transferred", n, want)
		}
		return
	case x.place == swapped:
		if int64(n) < x.swapped.lo || int64(n) > x.swapped.hi {
			l.violate(e, "admitted with %d positions, %d to %d were swapped out", n, x.swapped.lo, x.swapped.hi)
		}
		return
	case x.replica >= 0:
		s := l.site(x.replica)
		if !s.shares && !s.stores {
			most = 0
		}
		if s.blockTokens > 0 && !s.stores && n%s.blockTokens != 0 && !(s.eager && n == most) {
			l.violate(e, "a hit of %d positions in blocks of %d", n, s.blockTokens)
		}
	}
	if n < 0 || n > most {
		l.violate(e, "a hit of %d positions, of %d at most", n, most)
	}
}

// consistent compares what an event says of the request with what is known.
func (l *Laws) consistent(e *sim.Event, x *life) {
	if e.Cached != 0 && e.Kind != sim.Admit && e.Kind != sim.Pull {
		l.violate(e, "a hit of %d positions without an admission", e.Cached)
	}
	if e.Tokens != 0 && e.Kind != sim.Pull && e.Kind != sim.Pulled || e.Took != 0 && e.Kind != sim.Pulled {
		l.violate(e, "%d positions in %d ns without a transfer", e.Tokens, int64(e.Took))
	}
	if e.ID != x.id || e.Class != x.class || e.Prompt != x.prompt {
		l.violate(e, "id %d, class %d, prompt %d of a request with id %d, class %d, prompt %d", e.ID, e.Class, e.Prompt, x.id, x.class, x.prompt)
	}
	if e.Replica != x.replica && !(e.Kind == sim.Pull && x.early) {
		l.violate(e, "replica %d of a request in replica %d", e.Replica, x.replica)
	}
	if e.Preemptions != x.preemptions {
		l.violate(e, "Preemptions is %d after %d of them", e.Preemptions, x.preemptions)
	}
	got, tokens := e.Timeline, e.Output
	if e.Kind == sim.PrefillEnd && got.FirstToken == e.Time {
		// The first token of the same step is known, and announced next.
		got.FirstToken = sim.NoTime
		tokens--
	}
	if got != x.timeline {
		l.violate(e, "timeline %v, the events give %v", got, x.timeline)
	}
	switch first := x.timeline.FirstToken; {
	case e.Kind == sim.FirstToken && tokens != 1:
		l.violate(e, "the first token is token %d", tokens)
	case first == sim.NoTime && tokens != 0:
		l.violate(e, "%d tokens before the first", tokens)
	case tokens < x.output || x.place != running && tokens > x.output+l.late(x):
		l.violate(e, "%d tokens of a request that had %d and is %v", tokens, x.output, x.place)
	}
}

// leave ends a request.
func (l *Laws) leave(e *sim.Event, x *life, at place) {
	delete(l.lives, e.Serial)
	if l.queued[x.id] == e.Serial {
		delete(l.queued, x.id)
	}
	l.letGo(e, x)
	switch e.Kind {
	case sim.Finish:
		l.counts.Completed++
		l.finish(e, x)
	case sim.Reject:
		l.counts.Rejected++
		l.rejectedAt = e.Time
		l.turnedAway(e, x, at)
	case sim.Abort:
		l.counts.Aborted++
	}
	if e.GapsOver < 0 || int(e.GapsOver) > max(0, e.Output-1) {
		l.violate(e, "%d of %d gaps over the target", e.GapsOver, max(0, e.Output-1))
	}
	if l.Config.Ledgers {
		l.timeLedger(e, e.Ledger())
	}
	l.times = e.TokenTimes(l.times[:0])
	last := l.tokenTimes(e, x, l.times)
	if e.Kind == sim.Reject && at == running {
		last = sim.NoTime // it is booked with the step
	}
	if x.replica >= 0 {
		l.settle(e, x, last)
		if at == swapped {
			l.site(x.replica).endSwapped(x.swapped.lo)
		}
		if x.preemptions > 0 && (at == waiting || at == running && e.Kind == sim.Abort) {
			// What was in flight when it was preempted is lost, and surplus too if it
			// comes behind the end.
			l.kept.lo -= int64(l.inFlight(x) - 1)
		}
	}
}

// turnedAway checks the reason of a rejection. Those of the engine hold at the
// front door and when a prompt is complete that another replica should decode;
// a scheduler may say of one in line that it does not fit, or what it likes.
func (l *Laws) turnedAway(e *sim.Event, x *life, at place) {
	inside := at != atDoor && at != running
	fits := func(limit func(r *sim.Replica) bool) bool {
		for i := range l.Config.Replicas {
			if limit(&l.Config.Replicas[i]) {
				return false
			}
		}
		return len(l.Config.Replicas) > 0
	}
	wrong := false
	switch e.Reason {
	case "":
		l.violate(e, "a rejection without a reason")
	case sim.RejectEmptyPrompt, sim.RejectZeroOutput, sim.RejectDuplicateID, sim.RejectUnknownClass, sim.RejectBadField:
		wrong = at != atDoor
	case sim.RejectNoRoute, sim.RejectPrefixBlock:
		wrong = inside
	case sim.RejectModelLen:
		wrong = inside || fits(func(r *sim.Replica) bool { return r.MaxModelLen > 0 && x.prompt > r.MaxModelLen })
	case sim.RejectKVCapacity:
		wrong = !inside && fits(func(r *sim.Replica) bool {
			tokens := (r.KVBlocks - r.ReservedBlocks) * max(r.BlockTokens, 1)
			if r.BlockTokens == 0 {
				tokens *= sim.DefaultBlockTokens
			}
			return r.KVBlocks > 0 && x.prompt > tokens && !r.Strict
		})
	case sim.RejectOutOfKV:
		wrong = at == atDoor
	}
	if wrong {
		l.violate(e, "rejected for %s although it is %v and fits", e.Reason, at)
	}
}

// finish checks a completed request.
func (l *Laws) finish(e *sim.Event, x *life) {
	if e.Reason != sim.FinishStop && e.Reason != sim.FinishLength {
		l.violate(e, "finished for the reason %q", e.Reason)
	}
	if x.timeline.FirstToken == sim.NoTime {
		l.violate(e, "finished without a token")
		return
	}
	if took := int64(e.Time - x.timeline.FirstToken); took < int64(steps(e.Output-1, l.perStep(x))) {
		l.violate(e, "%d gaps within %d ns", e.Output-1, took)
	}
	if e.Output == 1 && e.Time != x.timeline.FirstToken {
		l.violate(e, "the only token came at %d ns", int64(x.timeline.FirstToken))
	}
	if x.replica < 0 {
		return
	}
	if limit := l.site(x.replica).modelLen; x.prompt+e.Output > max(limit, x.prompt+1) {
		l.violate(e, "%d prompt and %d output tokens, over MaxModelLen %d", x.prompt, e.Output, limit)
	}
}

// perStep returns how many tokens a step may give a request that decodes.
func (l *Laws) perStep(x *life) int {
	if x.replica < 0 {
		return 1
	}
	return l.site(x.replica).perStep
}

// steps returns how many steps bring that many tokens at least.
func steps(tokens, perStep int) int {
	if tokens < 1 {
		return 0
	}
	return (tokens-1)/perStep + 1
}

// tokenTimes checks the instants of the request's tokens if they were kept,
// and returns the last one if it is known, or NoTime.
func (l *Laws) tokenTimes(e *sim.Event, x *life, times []sim.Time) (last sim.Time) {
	first := x.timeline.FirstToken
	switch {
	case len(times) > 0:
	case e.Kind == sim.Finish:
		return e.Time
	case e.Output == 1:
		return first
	default:
		return sim.NoTime
	}
	if len(times) != e.Output {
		l.violate(e, "%d token times for %d tokens", len(times), e.Output)
	}
	if times[0] != first {
		l.violate(e, "the first token time is %d ns", int64(times[0]))
	}
	over, at := int32(0), 1 // tokens that came at one instant
	for i := 1; i < len(times); i++ {
		if at++; times[i] != times[i-1] {
			at = 1
		}
		// The first token comes alone: nothing was drafted before it.
		if times[i] < times[i-1] || at > l.perStep(x) || times[i] == first {
			l.violate(e, "token times %d and %d ns are not in order", int64(times[i-1]), int64(times[i]))
		}
		if target := l.gapTarget(x.class); target > 0 && times[i].Sub(times[i-1]) > target {
			over++
		}
	}
	if len(l.Config.Replicas) > 0 && over != e.GapsOver {
		l.violate(e, "%d gaps over the target, the token times give %d", e.GapsOver, over)
	}
	last = times[len(times)-1]
	if last > e.Time || e.Kind == sim.Finish && last != e.Time {
		l.violate(e, "the last token time is %d ns", int64(last))
	}
	return last
}
