package trace

import (
	"fmt"
	"io"
	"slices"

	"servesim/sim"
)

// Chrome is a sim.Observer that writes a run as trace events, the JSON that
// Perfetto and chrome://tracing load. Times are microseconds with the
// nanoseconds behind the point.
//
//	process "requests"   an async span per request, its phases nested in it;
//	                     counter of those at the front door
//	process "replica N"  track "steps": a slice per step, one more track for each
//	                     further step in flight; track "marks": preemptions,
//	                     rejections, aborts, changes of role; track "role": from a
//	                     drain to the opening; counters of requests and KV blocks
//
// The span of a request lasts from its client's send to the client's end, or from
// arrival to end where it has no sim.Path. Its phases are those of the engine in
// order of time; those of no length are left out. The counter of KV blocks shows
// what was in use while the latest step ran.
//
// The document ends with sim.End or, where that does not come, with Flush. What
// is kept is some 50 bytes for each request in flight.
type Chrome struct {
	W io.Writer
	// Config is that of the run: names of classes, KV blocks, and how the cost
	// models explain their steps (sim.Explainer) come from it. Ledgers, where it
	// keeps them, stand at the ends of requests. The zero value leaves these out.
	Config sim.Config

	buffered
	now      sim.Time
	lives    map[int64]chromeLife
	atDoor   counter
	replicas []*chromeReplica
	dirty    []*chromeReplica // counters moved at now
	wait     []sim.Operator   // scratch
	events   int64
	marked   bool // the marks of the front door have a name
	over     bool
}

// requestsPid is the process of the requests; that of replica i is i + 2.
const requestsPid = 1

// Numbers of tracks. Perfetto knows a thread by its number alone, so that they
// differ between processes.
const (
	tracksPerProcess = 2048
	marksTrack       = tracksPerProcess - 1
	roleTrack        = tracksPerProcess - 2
)

// chromePhase is what the span of a request has nested in it.
type chromePhase uint8

const (
	chromeDoor chromePhase = iota
	chromeQueue
	chromePrefill
	chromeRoom
	chromeTransfer
	chromeDecodeQueue
	chromeFirstDecode
	chromeDecode
	chromePreempted
	chromeSwapped
)

var chromePhaseNames = [...]string{chromeDoor: "door", chromeQueue: "queue", chromePrefill: "prefill", chromeRoom: "wait for transfer",
	chromeTransfer: "transfer", chromeDecodeQueue: "decode queue", chromeFirstDecode: "first decode", chromeDecode: "decode",
	chromePreempted: "preempted", chromeSwapped: "swapped out"}

// running reports whether a request in that phase is one of those that run.
func (p chromePhase) running() bool {
	return p == chromePrefill || p == chromeFirstDecode || p == chromeDecode
}

// chromeLife is a request in flight.
type chromeLife struct {
	since   sim.Time // start of the phase
	replica int32
	phase   chromePhase
	pulling bool // its KV comes while its prompt is computed
}

// Observe writes what an event says. A fault is kept for Flush, and nothing is
// written after it.
func (c *Chrome) Observe(e sim.Event) {
	if c.over && c.err == nil {
		c.err = fmt.Errorf("trace: a %v event behind the end of the document", e.Kind)
	}
	if c.err != nil {
		return
	}
	c.begin()
	c.tick(e.Time)
	switch e.Kind {
	case sim.StepEnd:
		c.step(&e)
	case sim.Drain, sim.Open:
		c.role(&e)
	case sim.End:
		c.end()
	default:
		c.request(&e)
	}
	c.drain(c.W)
}

// request follows one request.
func (c *Chrome) request(e *sim.Event) {
	if e.Kind == sim.Arrive {
		c.arrive(e)
		return
	}
	l, ok := c.lives[e.Serial]
	if !ok {
		c.err = fmt.Errorf("trace: a %v event of request %d, which has not arrived", e.Kind, e.Serial)
		return
	}
	next := l.phase
	switch e.Kind {
	case sim.Queue:
		next = chromeQueue
	case sim.Admit:
		next = admittedTo(e)
	case sim.PrefillEnd:
		if l.phase == chromePrefill {
			next = chromeFirstDecode
		}
	case sim.FirstToken:
		if l.phase.running() {
			next = chromeDecode
		}
	case sim.Handoff:
		next = chromeRoom
		if l.pulling {
			next = chromeTransfer
		}
	case sim.Pull:
		l.pulling = true
		if l.phase == chromeRoom {
			next = chromeTransfer
		}
	case sim.Pulled:
		next = chromeDecodeQueue
	case sim.Preempt:
		next = chromePreempted
		if e.Reason == sim.PreemptSwap {
			next = chromeSwapped
		}
		c.mark(e)
	case sim.Finish, sim.Reject, sim.Abort:
		c.leave(e, l)
		return
	}
	if next != l.phase || e.Kind == sim.FirstToken || e.Kind == sim.Handoff || e.Kind == sim.Queue {
		c.closePhase(e.Serial, &l, e.Time)
		c.move(&l, -1)
		l.phase, l.since, l.replica = next, e.Time, e.Replica
		c.move(&l, 1)
	}
	c.lives[e.Serial] = l
	if e.Kind == sim.FirstToken {
		c.async('n', "first token", e.Serial, e.Time)
		c.closeEvent()
	}
}

// admittedTo returns the phase that an admission begins. A prompt that is
// computed again belongs to the decode that it interrupted.
func admittedTo(e *sim.Event) chromePhase {
	switch {
	case e.Timeline.FirstToken != sim.NoTime:
		return chromeDecode
	case e.Timeline.PrefillEnd != sim.NoTime:
		return chromeFirstDecode
	}
	return chromePrefill
}

// arrive opens the span of a request, with what came before the engine.
func (c *Chrome) arrive(e *sim.Event) {
	l := chromeLife{since: e.Time, replica: -1}
	c.lives[e.Serial] = l
	c.move(&l, 1)
	p := e.Path()
	send := e.Time.Add(-p.Before())
	c.async('b', "request", e.Serial, send)
	c.argInt("id", int64(e.ID))
	if i := e.Class; i >= 0 && i < len(c.Config.Classes) && c.Config.Classes[i].Name != "" {
		c.argString("class", c.Config.Classes[i].Name)
	}
	c.argInt("prompt_tokens", int64(e.Prompt))
	if n, _ := e.Attempt(); n > 0 {
		c.argInt("attempt", int64(n))
	}
	c.closeEvent()
	if p == nil {
		return
	}
	for _, part := range []struct {
		name string
		took sim.Time
	}{{"network in", sim.Time(p.NetworkIn)}, {"gateway", sim.Time(p.Gateway)}, {"retrieval", sim.Time(p.Retrieval)}, {"assembly", sim.Time(p.Assembly)}} {
		c.phase(part.name, e.Serial, send, send+part.took)
		send += part.took
	}
}

// leave closes the span of a request that ends.
func (c *Chrome) leave(e *sim.Event, l chromeLife) {
	c.closePhase(e.Serial, &l, e.Time)
	c.move(&l, -1)
	delete(c.lives, e.Serial)
	done := e.Time
	if e.Path() != nil {
		done = max(done, e.Client().Done)
		c.phase("to the client", e.Serial, e.Time, done)
	}
	if e.Kind != sim.Finish {
		c.mark(e)
	}
	c.async('e', "request", e.Serial, done)
	c.argString("end", e.Kind.String())
	if e.Reason != "" {
		c.argString("reason", e.Reason)
	}
	c.argInt("output_tokens", int64(e.Output))
	if e.Preemptions > 0 {
		c.argInt("preemptions", int64(e.Preemptions))
	}
	if e.GapsOver > 0 {
		c.argInt("gaps_over_target", int64(e.GapsOver))
	}
	if c.Config.Ledgers {
		ledger := e.Ledger()
		for i, d := range ledgerParts(&ledger) {
			if *d != 0 {
				c.argMicros(ledgerNames[i], sim.Time(*d))
			}
		}
	}
	c.closeEvent()
}

// closePhase writes the phase that ends.
func (c *Chrome) closePhase(serial int64, l *chromeLife, now sim.Time) {
	if now == l.since {
		return
	}
	c.async('b', chromePhaseNames[l.phase], serial, l.since)
	if l.replica >= 0 {
		c.argInt("replica", int64(l.replica))
	}
	c.closeEvent()
	c.async('e', chromePhaseNames[l.phase], serial, now)
	c.closeEvent()
}

// phase writes a nested span without arguments.
func (c *Chrome) phase(name string, serial int64, from, to sim.Time) {
	if from < to {
		c.async('b', name, serial, from)
		c.closeEvent()
		c.async('e', name, serial, to)
		c.closeEvent()
	}
}

// WriteEntry writes a request from elsewhere: its span, with the phases of the
// record that are known. Ids must differ from the others', and from the serial
// numbers of a run in the same document.
func (c *Chrome) WriteEntry(e Entry) error {
	if c.over && c.err == nil {
		return fmt.Errorf("trace: request %q behind the end of the document", e.RequestID)
	}
	if c.err != nil {
		return c.err
	}
	if err := e.ValidatePartial(); err != nil {
		return fmt.Errorf("trace: request %q: %w", e.RequestID, err)
	}
	if e.ClientSend == Unknown || e.LastTokenClient == Unknown {
		return fmt.Errorf("trace: request %q: client_send_ms or last_token_client_ms is not known", e.RequestID)
	}
	c.begin()
	span := func(ph byte, name string, at sim.Time) { c.asyncID(ph, name, e.RequestID, at) }
	span('b', "request", e.ClientSend)
	c.argInt("prompt_tokens", int64(e.PromptTokens))
	c.argInt("output_tokens", int64(e.OutputTokens))
	if e.Details.Class != "" {
		c.argString("class", e.Details.Class)
	}
	if e.Details.Route != "" {
		c.argString("route", e.Details.Route)
	}
	c.closeEvent()
	times := e.instants()
	for i, name := range phaseNames {
		from, to := *times[i], *times[i+1]
		if from != Unknown && to != Unknown && from < to {
			span('b', name, from)
			c.closeEvent()
			span('e', name, to)
			c.closeEvent()
		}
	}
	span('e', "request", e.LastTokenClient)
	c.closeEvent()
	c.drain(c.W)
	return c.err
}

// end closes what is open, in order of arrival, and the document.
func (c *Chrome) end() {
	serials := make([]int64, 0, len(c.lives))
	for serial := range c.lives {
		serials = append(serials, serial)
	}
	slices.Sort(serials)
	for _, serial := range serials {
		l := c.lives[serial]
		c.closePhase(serial, &l, c.now)
		c.async('e', "request", serial, c.now)
		c.argString("end", "unfinished")
		c.closeEvent()
	}
	clear(c.lives)
	c.settle()
	c.buf = append(c.buf, "\n]}\n"...)
	c.over = true
}

// Flush ends the document, unless sim.End has, and writes what is buffered. It
// returns the first fault since the start.
func (c *Chrome) Flush() error {
	if c.err == nil && !c.over {
		c.begin()
		c.end()
	}
	c.flush(c.W)
	return c.err
}
