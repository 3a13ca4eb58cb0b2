package sim

import (
	"math"

	"servesim/sim/kv"
)

// Sequence is a request inside a replica, as policies see it: read only, and
// without the true output length. It is valid while the request lives; a
// policy that remembers one across passes keeps its Serial, since the engine
// reuses sequences.
type Sequence struct {
	req    Request
	serial int64
	home   *Stepper
	state  State
	rank   int64 // order of admission
	turn   int64 // place in line
	links  [slots]links
	tree   treeLinks

	// Progress. For a member of the cohort these are the values when it
	// joined; the cohort's step counters give the rest.
	generated int // tokens sampled
	computed  int // positions in the KV cache
	output    int // tokens at which it ends; unbounded if outcomes decide
	cached    int // positions found in the prefix cache at its admission
	blockSet      // its KV blocks at home
	transferred
	hostBlocks int
	expected   int32 // tokens in flight, of a replica with Async

	member     memberLinks
	pass       passMarks
	timeline   Timeline
	lastToken  Time
	gapsOver   int32
	drafts     int32 // draft tokens to check
	preempted  int32 // evictions in its life
	evictions  int32 // evictions since its last token
	touch      touch
	keepSlot   bool
	keepBlocks bool
	times      []Time // instants of tokens sampled outside the cohort or before leaving it
}

// blockSet is the KV blocks of a sequence in one replica. A hashed one owns them
// through table, and blocks is their number; others own blocks by count.
type blockSet struct {
	blocks int
	hashed bool
	chain  []kv.Hash // of its full blocks, as far as they are known
	table  kv.Table
}

// unbounded stands for an output length that the engine does not know.
const unbounded = math.MaxInt

// State says where a sequence is.
type State uint8

// The states of a sequence.
const (
	Ended     State = iota // not in a replica
	Deferred               // at the front door, before its first queue
	Waiting                // in a queue, not admitted yet
	Running                // admitted: it owns KV blocks and a slot
	Preempted              // waiting after an eviction
	Remote                 // waiting while another replica has its KV
	Pulling                // waiting while a transfer fills its blocks
	Swapped                // in host memory after an eviction
)

// String returns the state's name in lower case.
func (s State) String() string {
	return [...]string{"ended", "deferred", "waiting", "running", "preempted", "remote", "pulling", "swapped"}[s]
}

// ID returns the request's own number.
func (s *Sequence) ID() int { return s.req.ID }

// Serial returns the engine's running number, unique in a run.
func (s *Sequence) Serial() int64 { return s.serial }

// Arrival returns when the request arrived at the front door.
func (s *Sequence) Arrival() Time { return s.req.Arrival }

// Prompt returns the number of prompt tokens.
func (s *Sequence) Prompt() int { return s.req.Prompt }

// MaxOutput returns the number of output tokens the client asked for at most;
// 0 means no limit but the model's.
func (s *Sequence) MaxOutput() int { return s.req.MaxOutput }

// Hint returns the predicted output length; 0 means none.
func (s *Sequence) Hint() int { return s.req.Hint }

// Class returns the index of the request's class.
func (s *Sequence) Class() int { return s.req.Class }

// Priority returns the priority of the request's class; smaller is served
// first.
func (s *Sequence) Priority() int { return s.home.hub.classes[s.req.Class].Priority }

// Deadline returns the request's deadline; 0 means none.
func (s *Sequence) Deadline() Time { return s.req.Deadline }

// State says where the sequence is.
func (s *Sequence) State() State { return s.state }

// Generated returns the number of tokens sampled. They survive a preemption.
func (s *Sequence) Generated() int {
	if s.member.in {
		return s.generated + int(s.home.cohort.ended-s.member.from)
	}
	return s.generated
}

// Context returns the number of positions in the KV cache.
func (s *Sequence) Context() int {
	if s.member.in {
		return s.computed + int(s.home.cohort.planned-s.member.from)
	}
	return s.computed
}

// Pending returns the positions to compute before the next token is sampled:
// the whole prompt at first, 1 while decoding, prompt and generated tokens
// after a preemption. What the prefix cache has of a waiting sequence is taken
// off, also if it was put there in this pass. It is 0 while a token is in
// flight that nothing can be planned before.
func (s *Sequence) Pending() int {
	if s.member.in {
		return 1
	}
	if s.expected > 0 && s.home.cfg.Async == AsyncExact && s.lastExpected() {
		return 0
	}
	return s.req.Prompt + s.generated + int(s.expected) - s.have()
}

// uncomputed returns the positions of s that are neither computed nor to be
// had from another replica, whatever the prefix cache has of them.
func (s *Sequence) uncomputed() int {
	n := s.req.Prompt + s.generated
	return n - max(s.computed, min(s.remote, n-1))
}

// Cached returns the positions that the prefix cache had at the latest
// admission, 0 while the sequence waits.
func (s *Sequence) Cached() int { return s.cached }

// Blocks returns the number of KV blocks owned.
func (s *Sequence) Blocks() int {
	switch {
	case s.hashed:
		return s.table.Len()
	case s.member.in:
		return max(s.blocks, s.home.memory.Blocks(s.Context()))
	}
	return s.blocks
}

// Turn is the place of a waiting sequence in line when no Order sorts it:
// smaller joined the queue of the replica earlier, or was preempted. A transfer
// does not change it.
func (s *Sequence) Turn() int64 { return s.turn }

// Preemptions returns how often the sequence was evicted.
func (s *Sequence) Preemptions() int { return int(s.preempted) }

// length returns the tokens at which a request ends, and why.
func (r *Request) length(maxModelLen int) (output int, reason string) {
	output, reason = r.Output, FinishStop
	if output == 0 {
		output = unbounded
	}
	if r.MaxOutput > 0 && r.MaxOutput <= output {
		output, reason = r.MaxOutput, FinishLength
	}
	// The model's limit leaves a prompt of full length one token.
	if room := max(maxModelLen-r.Prompt, 1); room <= output {
		output, reason = room, FinishLength
	}
	return output, reason
}

// appendTokenTimes appends the instants of all tokens, also those that stand
// only in the cohort's log.
func (s *Sequence) appendTokenTimes(dst []Time) []Time {
	dst = append(dst, s.times...)
	if s.member.in {
		dst = s.home.cohort.log.appendFrom(dst, s.member.from, s.home.cohort.ended)
	}
	return dst
}
