package sim

import (
	"time"

	"servesim/sim/kv"
)

// Request is one call to the model, as a workload describes it. It is plain
// data and is not changed by the engine.
type Request struct {
	// ID names the request. It is unique among the requests in flight; a
	// second one is rejected while the first lives.
	ID int
	// Arrival is the intended arrival at the engine's front door. Latencies
	// count from here.
	Arrival Time
	// Prompt is the number of prompt tokens, at least 1.
	Prompt int
	// Output is the number of tokens that will be generated, at least 1. No
	// policy sees it.
	Output int
	// MaxOutput is the number of tokens the client asked for at most.
	// Policies see it. 0 means up to the model's length limit.
	MaxOutput int
	// Hint is a prediction of Output that policies see. 0 means none.
	Hint int
	// Class indexes Config.Classes.
	Class int
	// Deadline is visible to policies; the engine does not enforce it. 0
	// means none.
	Deadline Time
	// Prefix is the hash chain of the request's leading full blocks of
	// PrefixBlock tokens each: equal hashes mean equal content up to there.
	// It may run past the prompt, so that a next turn finds the answer too.
	// PrefixBlock 0 means that nothing is known, and nothing shared. The
	// engine does not change it.
	Prefix      []kv.Hash
	PrefixBlock int
	// NoPrefixRead stores blocks in the prefix cache but reads none.
	NoPrefixRead bool
	// Patience says when the client gives up.
	Patience Patience
	// Attempt counts the attempts of the client before this one: 0 for a
	// request, 1 for its first retry. A retry may have the ID of the attempt
	// before, which has ended. No policy sees it.
	Attempt int
	// First is the arrival of a retry's first attempt, not after its own.
	// Where Attempt is 0 it has no meaning.
	First Time
}

// Patience is how long a client waits, counted from the arrival. Zero fields
// wait for ever.
type Patience struct {
	First time.Duration // for the first token
	Total time.Duration // for the last token
}

// Attempt returns the Attempt of the request that e is about, and the arrival
// of its first attempt, which is its own arrival if it is no retry. It is valid
// during Observe only. An event made by hand is about no retry, nor is one about
// a request whose fields are rejected for this.
func (e Event) Attempt() (n int, first Time) {
	if e.seq == nil || e.seq.req.Attempt == 0 || e.seq.req.misattempted() {
		return 0, e.Timeline.Arrival
	}
	return e.seq.req.Attempt, e.seq.req.First
}

// misattempted reports an attempt that cannot be.
func (r *Request) misattempted() bool {
	return r.Attempt < 0 || r.First < 0 || r.First > r.Arrival
}

// Query is what policies may know of a request: everything but its true
// output length.
type Query struct {
	ID        int
	Arrival   Time
	Prompt    int
	MaxOutput int
	Hint      int
	Class     int
	Deadline  Time
	// Prefix, PrefixBlock and NoPrefixRead are those of the request; Prefix
	// must not be changed.
	Prefix       []kv.Hash
	PrefixBlock  int
	NoPrefixRead bool
}

func (r *Request) query() Query {
	return Query{r.ID, r.Arrival, r.Prompt, r.MaxOutput, r.Hint, r.Class, r.Deadline, r.Prefix, r.PrefixBlock, r.NoPrefixRead}
}

// Class is a kind of request with its latency targets.
type Class struct {
	Name string
	// Priority orders classes: smaller is served first.
	Priority int
	// TTFT is the target for the first token, from the arrival. 0 means none.
	TTFT time.Duration
	// Gap is the target for the time between two tokens of one request. The
	// engine counts the gaps over it. 0 means none.
	Gap time.Duration
}
