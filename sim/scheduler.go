package sim

import "servesim/sim/kv"

// Scheduler decides the next step of one replica. It is called when the
// replica is idle and something may have changed; it reads the view and fills
// the plan. It is stateful at will and never shared between replicas or runs.
type Scheduler interface {
	Schedule(v View, p *Plan)
}

// SchedulerFunc adapts a function to Scheduler.
type SchedulerFunc func(View, *Plan)

// Schedule calls f.
func (f SchedulerFunc) Schedule(v View, p *Plan) { f(v, p) }

// View is what a scheduler may read. It is live: a sequence that the plan
// admits or preempts changes lists at once. It is valid during Schedule only.
type View struct {
	Now    Time
	Limits Limits
	// Waiting is the queue, in the replica's Order, or in order of arrival
	// with preempted sequences in front.
	Waiting List
	// Running are the admitted sequences in order of admission. A sequence
	// with Pending 1 decodes; one with more computes its prompt.
	Running List
	// Prefilling are the running sequences that had Pending > 1 when the
	// pass began.
	Prefilling List
	// Swapped are the sequences in host memory, the first evicted first.
	Swapped List
	// Remote are the sequences in line whose KV another replica has. Plan.Pull
	// fetches it, and they are Waiting when it has come; Plan.Add computes it
	// here instead.
	Remote List
	// Pulling are the sequences in line whose blocks a transfer fills.
	Pulling List
	// Coming are the sequences whose prompts other replicas compute for this
	// one, and which it may Pull already, in order of admission there. It is
	// empty unless Link.Layers is above 1.
	Coming List
}

// Limits are the sizes of a replica. A limit of the replica that is zero is
// shown as math.MaxInt.
type Limits struct {
	MaxSeqs        int // running sequences
	MaxBatchTokens int // positions of one step
	MaxModelLen    int // prompt and output tokens of one sequence
	Blocks         int // usable KV blocks
	BlockTokens    int // tokens per block
}

// Order sorts the waiting queue of a replica. Before must be a strict weak
// order over values that do not change while a sequence waits, such as Prompt or
// Priority but not Pending, Context or Blocks; ties go by arrival, then by
// serial number.
type Order interface {
	Before(a, b *Sequence) bool
}

// OrderFunc adapts a function to Order.
type OrderFunc func(a, b *Sequence) bool

// Before calls f.
func (f OrderFunc) Before(a, b *Sequence) bool { return f(a, b) }

// Router picks the replica of an arriving request, or as Config.Handoff the one
// that is going to decode it: an index into loads. Any other value, and a replica
// that is closed, reject the request. The loads belong to the engine: they are
// valid during the call and must not be changed.
type Router interface {
	Route(now Time, q Query, loads []Load) int
}

// Load is what a router or an admission policy knows of a replica.
type Load struct {
	Waiting int // sequences in line, those whose KV is elsewhere, on the way or in host memory included
	Running int // sequences admitted
	// PendingPrompt are positions that are not computed yet, of those in line
	// and of the prompts that run, those to compute again included, and those
	// that the prefix cache has, but not what another replica has.
	PendingPrompt int
	FreeBlocks    int // KV blocks free
	Blocks        int // KV blocks usable
	Replica       int // index in Config.Replicas
	Role          Role
	Closed        bool // drains before it gets another role, and takes nothing new
	// Coming are requests whose prompts other replicas compute for this one;
	// see Link.Layers. Held are the KV blocks kept for transfers.
	Coming, Held int

	cache *kv.Cache
}

// Cached returns how many positions of the prompt the prefix cache of the
// replica has at this moment, also if the rest of the load is older. It costs
// the blocks that it finds. A chain in blocks of another size than the
// replica's counts as unknown.
func (l Load) Cached(q Query) int {
	if l.cache == nil || q.NoPrefixRead || q.PrefixBlock != l.cache.BlockTokens() {
		return 0
	}
	return l.cache.Match(q.Prefix, q.Prompt) * q.PrefixBlock
}

// Admission decides at the front door whether a request may enter.
type Admission interface {
	Admit(now Time, q Query, loads []Load) Decision
}

// Decision is the answer of an Admission: the zero value accepts.
type Decision struct {
	// Reject refuses the request for this reason, unless it is empty.
	Reject string
	// Until defers the request: it is asked about again at that instant,
	// which must be later. 0 means no deferral.
	Until Time
}
