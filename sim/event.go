package sim

import (
	"fmt"
	"time"
)

// Observer sees every event of a run, in its total order. Observe runs inside
// the engine's loop: it must not keep the slices of the event beyond the call.
type Observer interface {
	Observe(e Event)
}

// ObserverFunc adapts a function to Observer.
type ObserverFunc func(Event)

// Observe calls f.
func (f ObserverFunc) Observe(e Event) { f(e) }

// Kind is the kind of an event.
type Kind uint8

// The kinds of events. Which fields of Event a kind fills is said at each.
const (
	// Arrive: a request reached the front door. Identity fields, Replica -1.
	Arrive Kind = iota + 1
	// Queue: a request was routed and joined the queue of Replica.
	Queue
	// Admit: a request joined the running sequences of Replica: for the first
	// time, after a preemption (Preemptions > 0), or after a transfer.
	Admit
	// PrefillEnd: the whole prompt is computed, for the first time.
	PrefillEnd
	// FirstToken: the first token was sampled.
	FirstToken
	// Handoff: a request whose prompt another replica computed joined the queue
	// of Replica.
	Handoff
	// Pull: Replica began to fetch the KV of Tokens positions of a request;
	// Cached of them its prefix cache has.
	Pull
	// Pulled: those have arrived, Took after the Pull.
	Pulled
	// Preempt: a running request lost its KV blocks and is waiting again. Reason
	// is PreemptSwap if host memory has them.
	Preempt
	// Finish: the last token was sampled. Output is the number of tokens,
	// GapsOver the gaps over the class target, Reason FinishStop or
	// FinishLength.
	Finish
	// Reject: the request ended without being completed. Reason says why;
	// Output counts tokens it had received.
	Reject
	// Abort: the client gave up. Output counts tokens it had received.
	Abort
	// Drain: Replica was closed, to get the role that Reason names.
	Drain
	// Open: it is open in that role, Took later.
	Open
	// StepEnd: a step of Replica ended. Step fields; no identity.
	StepEnd
	// End: the run is over at Time. It comes once, last.
	End
)

var kindNames = [...]string{Arrive: "arrive", Queue: "queue", Admit: "admit", PrefillEnd: "prefill-end",
	FirstToken: "first-token", Handoff: "handoff", Pull: "pull", Pulled: "pulled", Preempt: "preempt", Finish: "finish", Reject: "reject", Abort: "abort",
	Drain: "drain", Open: "open", StepEnd: "step-end", End: "end"}

// String returns the kind's name in lower case.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Reasons of Preempt, Finish and Reject events that the engine gives. Policies may
// reject with reasons of their own.
const (
	PreemptSwap = "swap" // of a Preempt: not lost but swapped out

	FinishStop   = "stop"   // the model ended the answer
	FinishLength = "length" // MaxOutput or the model's length limit was reached

	RejectEmptyPrompt  = "empty_prompt"
	RejectZeroOutput   = "zero_output"
	RejectDuplicateID  = "duplicate_id"
	RejectUnknownClass = "unknown_class"
	RejectPrefixBlock  = "incompatible_prefix_block" // hashes of a block size that cannot be converted
	RejectBadField     = "bad_field"                 // a negative field, a length above 2^40, or First after Arrival
	RejectModelLen     = "exceeds_max_model_len"     // the prompt alone is longer
	RejectKVCapacity   = "exceeds_kv_capacity"       // the prompt alone needs more blocks than there are
	RejectOutOfKV      = "out_of_kv"                 // alone in the cache and cannot grow, or has no room for a next token where it would decode
	RejectNoRoute      = "no_route"                  // the router returned no replica
)

// Event is something that happened at an instant. It is a value; the slices
// in it are valid during Observe only.
type Event struct {
	Time    Time
	Kind    Kind
	Replica int32 // -1 at the front door

	// Identity of the request: Serial is the engine's running number, unique
	// in a run; ID is the request's own.
	Serial int64
	ID     int
	Class  int // -1 if the request names none of Config.Classes
	Prompt int
	Output int // tokens sampled so far

	Timeline    Timeline
	Preemptions int32
	GapsOver    int32
	Reason      string

	// Step fields.
	Step       int64         // running number of the replica's steps, from 1
	Took       time.Duration // the step lasted from Time-Took to Time
	Batch      *Batch        // nil but for StepEnd
	Gaps       []GapGroup    // gaps between tokens that ended with this step
	Tokens     int32         // tokens sampled by this step, first tokens included
	Cached     int32         // Admit: positions that it had without computing them: found in the prefix cache, transferred or swapped in
	FreeBlocks int           // KV blocks free while the step ran
	Waiting    int32         // sequences in line when the step started, as in Load
	Running    int32         // sequences running when the step started
	seq        *Sequence
}

// Timeline holds the instants of a request's life in the engine. An instant
// that has not come is NoTime.
type Timeline struct {
	Arrival    Time // intended arrival at the front door
	Queued     Time // joined a replica's queue
	Admitted   Time // first admission: the step with its first chunk was planned
	PrefillEnd Time // end of the step that completed the prompt
	FirstToken Time
}

// GapGroup counts equal gaps: Count sequences of one class that received a
// token at the event's Time had received their previous one at Prev.
type GapGroup struct {
	Prev  Time
	Class int
	Count int
}

// String formats the event as one line, the same bytes for the same event.
func (e Event) String() string {
	switch e.Kind {
	case End:
		return fmt.Sprintf("%d end", int64(e.Time))
	case Drain, Open:
		return fmt.Sprintf("%d r%d %v as %s after %d", int64(e.Time), e.Replica, e.Kind, e.Reason, int64(e.Took))
	case StepEnd:
		return fmt.Sprintf("%d r%d step %d took %d: %d decodes context %d, prefills %v, padding %d+%d, %d tokens, gaps %v, free %d waiting %d running %d",
			int64(e.Time), e.Replica, e.Step, int64(e.Took), e.Batch.Decodes, e.Batch.Context, e.Batch.Prefills,
			e.Batch.Padding.Rows, e.Batch.Padding.PromptTokens, e.Tokens, e.Gaps, e.FreeBlocks, e.Waiting, e.Running)
	}
	s := fmt.Sprintf("%d r%d %v #%d id %d", int64(e.Time), e.Replica, e.Kind, e.Serial, e.ID)
	switch e.Kind {
	case Preempt:
		if e.Reason != "" {
			s += " " + e.Reason
		}
	case Admit:
		if e.Cached > 0 {
			s += fmt.Sprintf(" cached %d", e.Cached)
		}
	case Pull:
		s += fmt.Sprintf(" %d positions, cached %d", e.Tokens, e.Cached)
	case Pulled:
		s += fmt.Sprintf(" %d positions in %d", e.Tokens, int64(e.Took))
	case Arrive:
		s += fmt.Sprintf(" class %d prompt %d", e.Class, e.Prompt)
	case Finish, Reject, Abort:
		t := e.Timeline
		s += fmt.Sprintf(" %s: %d tokens, queued %d admitted %d prefilled %d first %d, %d preemptions, %d gaps over",
			e.Reason, e.Output, int64(t.Queued), int64(t.Admitted), int64(t.PrefillEnd), int64(t.FirstToken), e.Preemptions, e.GapsOver)
	}
	return s
}

// TokenTimes appends the instants of the request's tokens to dst, oldest
// first. It is filled for Finish, Reject and Abort events when
// Config.TokenTimes is set, and valid during Observe only.
func (e Event) TokenTimes(dst []Time) []Time {
	switch e.Kind {
	case Finish, Reject, Abort:
		if e.seq != nil {
			return e.seq.appendTokenTimes(dst)
		}
	}
	return dst
}
