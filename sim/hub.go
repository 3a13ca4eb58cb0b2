package sim

import "fmt"

// hub is what the replicas of a run share: requests in flight, counts,
// observers, the first error.
type hub struct {
	classes    []Class
	observers  []Observer
	tokenTimes bool
	check      bool
	byHand     bool // a Stepper's: outcomes may decide the length
	maxSteps   int64

	live   map[int]*Sequence // by request id
	idle   []*Sequence       // for reuse
	serial int64
	// impatient counts the pending give-ups of requests that have ended.
	impatient int
	now       Time
	result    Result
	err       error

	engine *engine // nil for a Stepper driven by hand
	// Of a Stepper driven by hand, by request id: blocks kept until Sent, and
	// those of an aborted request that are written until Received.
	kept, written map[int]*account

	// ended hears of every request that ends; nil if nobody follows up.
	ended func(Completion)
}

// maxTokens is the longest prompt and output: sums over a run stay far from
// the end of an int64.
const maxTokens = 1 << 40

// maxEvictions is how often a sequence may be evicted without a token in
// between before the run ends with an error.
const maxEvictions = 1000

func (h *hub) init(cfg *Config) {
	h.classes, h.observers = cfg.Classes, cfg.Observers
	if len(h.classes) == 0 {
		h.classes = []Class{{}}
	}
	h.tokenTimes, h.check, h.maxSteps = cfg.TokenTimes, cfg.Check, cfg.MaxSteps
	h.live = make(map[int]*Sequence)
	h.kept, h.written = make(map[int]*account), make(map[int]*account)
}

// fail keeps the first error; the run ends at the next instant.
func (h *hub) fail(err error) {
	if h.err == nil {
		h.err = err
	}
}

func (h *hub) emit(e *Event) {
	for _, o := range h.observers {
		o.Observe(*e)
	}
}

// tell emits what happened to s.
func (h *hub) tell(kind Kind, s *Sequence) {
	if len(h.observers) > 0 {
		var e Event
		h.describe(&e, kind, s)
		h.emit(&e)
	}
}

// describe fills e with what a request event says of s, wherever it is.
func (h *hub) describe(e *Event, kind Kind, s *Sequence) {
	e.Time, e.Kind, e.Replica = h.now, kind, -1
	if s.home != nil {
		e.Replica = s.home.index
	}
	e.Serial, e.ID, e.Class, e.Prompt, e.Output = s.serial, s.req.ID, s.req.Class, s.req.Prompt, s.Generated()
	if e.Class < 0 || e.Class >= len(h.classes) {
		e.Class = -1
	}
	e.Timeline, e.Preemptions, e.GapsOver, e.seq = s.timeline, s.preempted, s.gapsOver, s
}

// arrive makes the sequence of a request that reaches the front door now. A
// faulty request is rejected: it gives nil and the reason.
func (h *hub) arrive(r Request) (s *Sequence, rejected string) {
	h.serial++
	h.result.Arrived++
	s = h.fresh(r)
	s.serial = h.serial
	reason := h.faulty(&s.req)
	h.tell(Arrive, s)
	if reason != "" {
		h.end(s, Reject, reason)
		return nil, reason
	}
	h.live[r.ID] = s
	s.state = Deferred
	return s, ""
}

// faulty returns why no replica could take r, or "".
func (h *hub) faulty(r *Request) string {
	switch {
	case r.Class < 0 || r.Class >= len(h.classes):
		return RejectUnknownClass
	case r.Prompt < 1:
		return RejectEmptyPrompt
	case max(r.Prompt, r.Output, r.MaxOutput, r.Hint) > maxTokens || r.Output < 0 || r.MaxOutput < 0 || r.Hint < 0 || r.Deadline < 0 || r.Patience.First < 0 || r.Patience.Total < 0:
		return RejectBadField
	case r.misattempted():
		return RejectBadField
	case r.Output == 0 && !h.byHand:
		return RejectZeroOutput
	case len(r.Prefix) > 0 && r.PrefixBlock < 1:
		return RejectBadField
	case h.live[r.ID] != nil:
		return RejectDuplicateID
	}
	return ""
}

// fresh returns a sequence that is in no replica and has no serial yet.
func (h *hub) fresh(r Request) *Sequence {
	var s *Sequence
	if n := len(h.idle); n > 0 {
		s = h.idle[n-1]
		h.idle = h.idle[:n-1]
		*s = Sequence{times: s.times[:0], blockSet: blockSet{chain: s.chain[:0], table: s.table}}
	} else {
		s = new(Sequence)
	}
	s.req, s.lastToken = r, NoTime
	s.timeline = Timeline{Arrival: r.Arrival, Queued: NoTime, Admitted: NoTime, PrefillEnd: NoTime, FirstToken: NoTime}
	return s
}

// end ends a sequence that has left its replica, and reuses it.
func (h *hub) end(s *Sequence, kind Kind, reason string) {
	switch kind {
	case Finish:
		h.result.Completed++
	case Reject:
		h.result.Rejected++
	case Abort:
		h.result.Aborted++
	}
	if h.live[s.req.ID] == s {
		delete(h.live, s.req.ID)
	}
	if s.req.Patience.First > 0 {
		h.impatient++
	}
	if s.req.Patience.Total > 0 {
		h.impatient++
	}
	if len(h.observers) > 0 {
		e := Event{Reason: reason}
		h.describe(&e, kind, s)
		h.emit(&e)
	}
	if h.ended != nil {
		h.ended(Completion{Request: s.req, Serial: s.serial, Kind: kind, Reason: reason, End: h.now, Output: s.generated, Timeline: s.timeline})
	}
	if s.hashed {
		s.home.memory.cache.FreeTable(&s.table) // forgets its lookup too
	}
	s.state, s.serial, s.home = Ended, 0, nil
	h.idle = append(h.idle, s)
}

// preempted counts an eviction and the positions that it lost.
func (h *hub) preempted(st *Stepper, s *Sequence, lost int) {
	h.result.Preemptions++
	h.result.Recompute += int64(lost)
	if s.evictions > maxEvictions {
		h.fail(fmt.Errorf("sim: replica %d: request %d (serial %d, %d prompt tokens, %d generated) was preempted %d times without a token in between",
			st.index, s.req.ID, s.serial, s.req.Prompt, s.generated, s.evictions))
	}
}

// stepped emits the end of a step.
func (h *hub) stepped(st *Stepper, tokens int) {
	h.result.Steps++
	f := st.step
	if len(h.observers) > 0 {
		h.emit(&Event{
			Time: h.now, Kind: StepEnd, Replica: st.index,
			Step: st.steps, Took: f.took, Batch: &f.batch, Gaps: st.gaps, Tokens: int32(tokens),
			FreeBlocks: f.free, Waiting: f.waiting, Running: f.running,
		})
	}
	if h.maxSteps > 0 && h.result.Steps > h.maxSteps {
		h.fail(fmt.Errorf("sim: more than Config.MaxSteps = %d steps at %v, with %d requests alive", h.maxSteps, h.now, len(h.live)))
	}
}
