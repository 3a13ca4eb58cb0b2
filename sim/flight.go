package sim

import "time"

// Async says how a replica with several batches in flight schedules sequences
// whose latest token is not known yet.
type Async uint8

// The ways.
const (
	// NotAsync leaves a sequence alone while a token of it is in flight: the
	// batches in flight share the sequences among themselves, as the stages of a
	// pipeline do.
	NotAsync Async = iota
	// AsyncExact gives it the next position, unless the token in flight is its
	// last by MaxOutput or MaxModelLen (vLLM V1, April 2026). That the model
	// ends an answer is not known in advance: the step that is in flight then
	// computes one position for nothing.
	AsyncExact
	// AsyncSurplus gives it the next position even then (vLLM V1, August 2025).
	AsyncSurplus
)

// Pipeliner is a CostModel that tells apart what a step takes: on the host
// before it can start, in the first stage of a pipeline before the next step
// can enter it, and from its start to its end. With one batch in flight a step
// takes host and total; with more, the host prepares one while the device
// computes another: a step starts when the host has prepared it and the first
// stage is free, which it is stage after the start of the step before; it ends
// total later, but not before stage after the end of that step. The results obey
// what is said of StepTime, but host and stage may be zero.
type Pipeliner interface {
	CostModel
	PipelineTime(b Batch) (host, stage, total time.Duration)
}

// full reports whether no further step can be planned.
func (st *Stepper) full() bool {
	if st.group != nil {
		return st.group.flying
	}
	return st.flying == len(st.ring)
}

// slot makes st.step the one that the next pass plans.
func (st *Stepper) slot() {
	i := st.oldest + st.flying
	if i >= len(st.ring) {
		i -= len(st.ring)
	}
	st.step = &st.ring[i]
}

// land makes st.step the oldest in flight, which ends.
func (st *Stepper) land() {
	st.step = &st.ring[st.oldest]
	st.step.active = false
	if st.oldest++; st.oldest == len(st.ring) {
		st.oldest = 0
	}
	st.flying--
}

// times returns what a step takes that is planned now, in the window that is
// open.
func (st *Stepper) times(b Batch) (host, stage, total time.Duration) {
	if st.pipeline != nil {
		host, stage, total = st.pipeline.PipelineTime(b)
	} else {
		total = st.cfg.CostModel.StepTime(b)
		stage = total
	}
	if len(st.windows.list) > 0 {
		now := st.hub.now
		host, stage, total = st.windows.stretch(now, host), st.windows.stretch(now, stage), st.windows.stretch(now, total)
	}
	return host, stage, total
}

// InFlight returns the tokens of s that steps in flight are going to sample,
// while a replica with Async counts on them.
func (s *Sequence) InFlight() int { return int(s.expected) }

// lastExpected reports whether a token in flight is the last of s as far as its
// client and the model's length limit say.
func (s *Sequence) lastExpected() bool {
	most := max(s.home.limits.MaxModelLen-s.req.Prompt, 1)
	if s.req.MaxOutput > 0 {
		most = min(most, s.req.MaxOutput)
	}
	return s.expected > 0 && s.generated+int(s.expected) >= most
}

// depart notes what the step being planned computes for s, which may be planned
// again before it ends.
func (st *Stepper) depart(a *assignment) {
	s := a.s
	a.at, a.life = s.computed, s.preempted
	a.samples = s.computed == s.req.Prompt+s.generated+int(s.expected)
	if a.samples && st.cfg.Async != NotAsync {
		s.expected++
	}
}

// arrive gives s the token that the step sampled. A sequence that was preempted
// meanwhile gets it too, but not once it runs again: it computes it anew.
func (st *Stepper) arrive(a *assignment) (tokens int) {
	s := a.s
	if !a.samples {
		return 0
	}
	if s.serial != a.serial {
		st.hub.result.Surplus++
		return 0
	}
	switch {
	case a.life == s.preempted && s.expected > 0:
		s.expected--
	case a.life != s.preempted && s.state == Running || s.generated != a.at-s.req.Prompt:
		return 0
	}
	if s.state != Running { // it has to compute the token too
		st.load.PendingPrompt++
	}
	st.sampleAlone(s)
	switch {
	case s.generated >= s.output:
		st.finished(s)
	case s.state != Running && st.hopeless(s, 0):
		st.finished(s)
		s.touch |= touchOutOfKV
	}
	return 1
}

// hopelessSoon reports whether s waits and could not go on even alone when the
// tokens in flight have come, so that admitting it would only make it compute
// them again and again.
func (st *Stepper) hopelessSoon(s *Sequence) bool {
	if s.state != Preempted || len(st.ring) == 1 || !st.hopeless(s, len(st.ring)) {
		return false
	}
	more := 0
	for i := range st.flying {
		f := &st.ring[(st.oldest+i)%len(st.ring)]
		for _, l := range [][]assignment{f.chunks, f.rows} {
			for _, a := range l {
				if a.s == s && a.serial == s.serial && a.samples {
					more = max(more, a.at+1-s.req.Prompt-s.generated)
				}
			}
		}
	}
	return more > 0 && st.hopeless(s, more)
}
