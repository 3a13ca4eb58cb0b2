package simtest

import "servesim/sim"

// life is what the events so far say of a request that is alive.
type life struct {
	id, class, prompt int
	replica           int32 // -1 at the front door
	place             place
	timeline          sim.Timeline
	preemptions       int32
	output            int   // tokens at its latest event
	admittedWith      int   // tokens at its latest admission
	found             int64 // positions that the prefix cache had then
}

// place says where a request is; places make a set.
type place uint8

const (
	atDoor place = 1 << iota
	waiting
	running
	gone
	anywhere = atDoor | waiting | running
)

func (p place) String() string {
	switch p {
	case atDoor:
		return "at the front door"
	case waiting:
		return "waiting"
	}
	return "running"
}

// moves are the legal moves by kind of event. Kinds without one are not
// events of a living request.
var moves = [...]struct {
	from place
	to   place // 0 stays
}{
	sim.Queue:      {atDoor, waiting},
	sim.Admit:      {waiting, running},
	sim.PrefillEnd: {running, 0},
	sim.FirstToken: {running, 0},
	sim.Preempt:    {running, waiting},
	sim.Finish:     {running, gone},
	sim.Reject:     {anywhere, gone},
	sim.Abort:      {anywhere, gone},
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
	from, move := x.place, moves[e.Kind]
	if from&move.from == 0 {
		l.violate(e, "%v of a request that is %v", e.Kind, from)
	}
	if e.Kind == sim.Queue {
		l.enqueue(e, x)
	}
	l.progress(e, x)
	l.consistent(e, x)
	l.residency(e, x)
	x.output = e.Output
	if move.to != 0 && move.to != from {
		x.place = move.to
		l.move(e, x, from)
	}
	if move.to == gone {
		l.leave(e, x)
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
			l.counts.PrefixHits += int64(e.Cached)
		}
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
	case sim.Preempt:
		x.preemptions++
		l.counts.Preemptions++
	}
}

// hit checks what the prefix cache is said to have had at an admission: whole
// blocks, without the last position, which is computed to sample from. With
// eager sharing its block may be there too.
func (l *Laws) hit(e *sim.Event, x *life) {
	n, most := int(e.Cached), x.prompt+e.Output-1
	if x.replica >= 0 {
		s := l.site(x.replica)
		if !s.shares {
			most = 0
		}
		if s.blockTokens > 0 && n%s.blockTokens != 0 && !(s.eager && n == most) {
			l.violate(e, "a hit of %d positions in blocks of %d", n, s.blockTokens)
		}
	}
	if n < 0 || n > most {
		l.violate(e, "a hit of %d positions, of %d at most", n, most)
	}
}

// consistent compares what an event says of the request with what is known.
func (l *Laws) consistent(e *sim.Event, x *life) {
	if e.Cached != 0 && e.Kind != sim.Admit {
		l.violate(e, "a hit of %d positions without an admission", e.Cached)
	}
	if e.ID != x.id || e.Class != x.class || e.Prompt != x.prompt {
		l.violate(e, "id %d, class %d, prompt %d of a request with id %d, class %d, prompt %d", e.ID, e.Class, e.Prompt, x.id, x.class, x.prompt)
	}
	if e.Replica != x.replica {
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
	case tokens < x.output || x.place != running && tokens > x.output:
		l.violate(e, "%d tokens of a request that had %d and is %v", tokens, x.output, x.place)
	}
}

// leave ends a request.
func (l *Laws) leave(e *sim.Event, x *life) {
	delete(l.lives, e.Serial)
	if l.queued[x.id] == e.Serial {
		delete(l.queued, x.id)
	}
	switch e.Kind {
	case sim.Finish:
		l.counts.Completed++
		l.finish(e, x)
	case sim.Reject:
		l.counts.Rejected++
		l.rejectedAt = e.Time
		if e.Reason == "" {
			l.violate(e, "a rejection without a reason")
		}
	case sim.Abort:
		l.counts.Aborted++
	}
	if e.GapsOver < 0 || int(e.GapsOver) > max(0, e.Output-1) {
		l.violate(e, "%d of %d gaps over the target", e.GapsOver, max(0, e.Output-1))
	}
	l.times = e.TokenTimes(l.times[:0])
	last := l.tokenTimes(e, x, l.times)
	if x.replica >= 0 {
		l.settle(e, x, last)
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
