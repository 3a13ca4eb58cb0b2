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
// computes another. The results obey what is said of StepTime.
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
func (st *Stepper) slot() { st.step = &st.ring[(st.oldest+st.flying)%len(st.ring)] }

// land makes st.step the oldest in flight, which ends.
func (st *Stepper) land() {
	st.step = &st.ring[st.oldest]
	st.step.active = false
	st.oldest = (st.oldest + 1) % len(st.ring)
	st.flying--
}

// times returns what a step takes that is planned now.
func (st *Stepper) times(b Batch) (host, stage, total time.Duration) {
	if m, ok := st.cfg.CostModel.(Pipeliner); ok {
		return m.PipelineTime(b)
	}
	t := st.cfg.CostModel.StepTime(b)
	return 0, t, t
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
	if s.generated >= s.output {
		st.finished(s)
	}
	return 1
}
