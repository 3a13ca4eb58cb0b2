package sim

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Config describes a simulated deployment. Make a fresh one for every run:
// schedulers, routers and observers are stateful.
type Config struct {
	// Replicas are the engine instances, at least one.
	Replicas []Replica
	// Router spreads arrivals over the replicas. It may be nil when one replica
	// takes prompts.
	Router Router
	// Handoff picks the replica that decodes a request whose prompt one of
	// RolePrefill computes, when the prompt is complete; see also Link.Layers. It
	// may be nil when one replica decodes. Link carries the KV.
	Handoff Router
	Link    *Link
	// Roles moves replicas between roles; nil keeps them. SwitchCost is the
	// time from drained to open.
	Roles      RoleController
	SwitchCost time.Duration
	// Admission stands before the router. nil accepts everything.
	Admission Admission
	// Classes are the kinds of requests. Empty means one class without name
	// and targets.
	Classes []Class
	// Windows are times in which replicas or links are slow or stopped.
	Windows []Window
	// FollowUp makes the requests that a client sends in reaction to the end
	// of one: completed, rejected or aborted. They must not arrive before
	// Completion.End. The returned slice is read before the next call.
	FollowUp func(Completion) []Request
	// Observers see every event, in the order of the slice.
	Observers []Observer
	// TokenTimes keeps the instant of every token until its request ends,
	// for Event.TokenTimes. It costs memory per token in flight.
	TokenTimes bool
	// Ledgers keeps where the time of every request goes, for Event.Ledger.
	Ledgers bool
	// Until is the horizon: events after it do not happen and requests still
	// alive then end unfinished. 0 means none.
	Until Time
	// MaxSteps ends a run with an error when it takes more steps, over all
	// replicas. 0 means no limit.
	MaxSteps int64
	// Check makes the engine recount its state after every instant, ignore
	// Hold, and carry out AddDecodes one sequence at a time. A difference is
	// an error. Runs cost O(batch) per step; results do not change.
	Check bool
}

// Replica describes one engine instance. Zero sizes are limits that do not
// exist.
type Replica struct {
	Scheduler Scheduler
	CostModel CostModel
	// Role is what the replica does; FirstToken is heeded with RolePrefill.
	Role       Role
	FirstToken FirstTokenSide
	// Group, if it is not 0, is the number of a group of replicas that step
	// together; see Grouper.
	Group int
	// Order sorts the waiting queue; nil keeps order of arrival, preempted
	// sequences in front.
	Order Order
	// KVBlocks is the number of KV blocks; 0 means that memory never runs
	// out.
	KVBlocks int
	// ReservedBlocks of KVBlocks are never given out (a placeholder block).
	ReservedBlocks int
	// HostBlocks is the number of blocks in host memory, for sequences that are
	// swapped out. It goes with KVBlocks and without PrefixCache.
	HostBlocks int
	// BlockTokens is the number of tokens per block; 0 means 16.
	BlockTokens int
	// Growth says how many blocks must be free for a decode.
	Growth Growth
	// PrefixCache shares blocks between requests that have a Prefix, and keeps
	// their content until it is overwritten. Blocks of a prompt can be found
	// as soon as the step that computes them is planned, those of an answer when
	// all tokens are known too. Without KVBlocks the content of every block is
	// kept, and memory grows with it.
	PrefixCache bool
	// EagerSharing shares the full blocks of a prompt from its allocation on,
	// before they are computed, as vLLM V0 does. Whoever shares one computes it
	// too, until the step that computes it first has ended. A prompt that is all
	// there computes its last token again. It goes with PrefixCache and one step
	// in flight.
	EagerSharing bool
	// Store is looked up behind the prefix cache when a request is admitted;
	// nil means none.
	Store Store
	// Drafts is the number of draft tokens proposed for each sequence after
	// each of its tokens; 0 means no speculation. Drafter says which of them
	// are right.
	Drafts  int
	Drafter Drafter
	// Strict keeps requests that can never be served, as some engines do: a
	// prompt larger than the cache waits, one that cannot grow even alone is
	// preempted again and again. A run that meets them ends with the error that
	// it makes no progress. By default they are rejected.
	Strict bool
	// FreeAborted frees the blocks of a request that ends while a transfer
	// fills them, as vLLM did until 2025: others may get them before it ends.
	// By default they are held until then.
	FreeAborted bool
	// InFlight is how many steps may have been planned and not ended; 0 means
	// 1. More hide the time of the host behind that of the device, or fill the
	// stages of a pipeline; see Async and Pipeliner. A decode step costs
	// O(sequences) then. It goes with RoleBoth or RoleDecode, and without Drafts.
	InFlight int
	Async    Async
	// MaxSeqs limits the running sequences; 0 means no limit.
	MaxSeqs int
	// MaxBatchTokens limits the positions of one step; 0 means no limit.
	MaxBatchTokens int
	// MaxModelLen limits prompt and output tokens of one sequence; 0 means no
	// limit. A longer prompt is rejected; a sequence that reaches it ends by
	// length, with one token at least.
	MaxModelLen int
}

// Growth is the rule by which a running sequence that decodes may grow.
type Growth uint8

const (
	// ExactGrowth asks for a block when the next position needs a new one.
	ExactGrowth Growth = iota
	// TouchedGrowth asks for a free block for every decode but those admitted in
	// this pass, as if its last block, half filled, had to be had again (vLLM
	// V0, Sarathi-Serve): memory runs out up to BlockTokens - 1 tokens early.
	// Only what is needed is taken.
	TouchedGrowth
)

// maxDrafts bounds what a replica counts per draft position.
const maxDrafts = 1 << 10

// maxInFlight bounds the steps that a replica keeps.
const maxInFlight = 1 << 10

// maxBlockTokens bounds what a replica keeps per position of a block.
const maxBlockTokens = 1 << 20

// DefaultBlockTokens is the block size of a Replica that names none.
const DefaultBlockTokens = 16

// Completion tells a client what became of its request.
type Completion struct {
	Request  Request
	Serial   int64
	Kind     Kind // Finish, Reject or Abort
	Reason   string
	End      Time
	Output   int // tokens received
	Timeline Timeline
	Client   Client // the instants at the client
}

// Result is the outcome of a run in counts: Arrived = Completed + Rejected +
// Aborted + Unfinished.
type Result struct {
	Arrived, Completed, Rejected, Aborted, Unfinished int64
	// Preemptions counts evictions, Steps the steps that ended, Tokens the
	// tokens sampled.
	Preemptions, Steps, Tokens int64
	// PrefillTokens counts the positions computed in chunks, DecodePositions
	// those of decode rows, to which a prompt with one position left belongs.
	PrefillTokens, DecodePositions int64
	// Drafted counts the draft tokens checked, Accepted those that became
	// tokens of an answer.
	Drafted, Accepted int64
	// PrefixHits counts the positions that the prefix cache and the store had
	// when requests were first admitted.
	PrefixHits int64
	// Recompute counts the positions whose KV was lost to preemptions.
	Recompute int64
	// Transfers counts the pulls that ended, Transferred the positions whose KV
	// they brought.
	Transfers, Transferred int64
	// Surplus counts the decode positions and prompts that steps of replicas with
	// several in flight computed for requests that had ended when the step did.
	Surplus int64
	// Switches counts the changes of role that ended.
	Switches int64
	// End is the last instant at which anything was due, with an event or
	// without, or Until.
	End Time
	// Cancelled is set when the context ended the run; the counts describe
	// what had happened until then.
	Cancelled bool
}

// validate reports the first field that cannot be simulated.
func (c *Config) validate() error {
	if len(c.Replicas) == 0 {
		return errors.New("sim: Config.Replicas is empty")
	}
	if len(c.Replicas) > math.MaxInt32 {
		return fmt.Errorf("sim: Config.Replicas has %d entries", len(c.Replicas))
	}
	if c.Until < 0 {
		return fmt.Errorf("sim: Config.Until is %d", c.Until)
	}
	if c.MaxSteps < 0 {
		return fmt.Errorf("sim: Config.MaxSteps is %d", c.MaxSteps)
	}
	for i, k := range c.Classes {
		if k.TTFT < 0 {
			return fmt.Errorf("sim: Config.Classes[%d].TTFT is %v", i, k.TTFT)
		}
		if k.Gap < 0 {
			return fmt.Errorf("sim: Config.Classes[%d].Gap is %v", i, k.Gap)
		}
	}
	for i, o := range c.Observers {
		if o == nil {
			return fmt.Errorf("sim: Config.Observers[%d] is nil", i)
		}
	}
	for i := range c.Replicas {
		if err := c.Replicas[i].validate(); err != nil {
			return fmt.Errorf("sim: Config.Replicas[%d]%w", i, err)
		}
	}
	if err := c.validateRoles(); err != nil {
		return err
	}
	if err := c.validateController(); err != nil {
		return err
	}
	return validateWindows(c.Windows, len(c.Replicas), c.Link)
}

func (r *Replica) validate() error {
	if r.Scheduler == nil {
		return errors.New(".Scheduler is nil")
	}
	if r.CostModel == nil {
		return errors.New(".CostModel is nil")
	}
	for _, f := range []struct {
		name  string
		value int
	}{
		{"KVBlocks", r.KVBlocks}, {"HostBlocks", r.HostBlocks}, {"ReservedBlocks", r.ReservedBlocks}, {"BlockTokens", r.BlockTokens},
		{"Drafts", r.Drafts}, {"InFlight", r.InFlight}, {"Group", r.Group}, {"MaxSeqs", r.MaxSeqs}, {"MaxBatchTokens", r.MaxBatchTokens}, {"MaxModelLen", r.MaxModelLen},
	} {
		if f.value < 0 {
			return fmt.Errorf(".%s is %d", f.name, f.value)
		}
	}
	if r.Growth > TouchedGrowth {
		return fmt.Errorf(".Growth is %d", r.Growth)
	}
	if r.HostBlocks > 0 && (r.KVBlocks == 0 || r.PrefixCache) {
		return fmt.Errorf(".HostBlocks is %d without KVBlocks or with PrefixCache", r.HostBlocks)
	}
	if r.KVBlocks == 0 && r.ReservedBlocks > 0 {
		return fmt.Errorf(".ReservedBlocks is %d without KVBlocks", r.ReservedBlocks)
	}
	if r.Role > RoleDecode {
		return fmt.Errorf(".Role is %d", uint8(r.Role))
	}
	if r.Async > AsyncSurplus || r.Async != NotAsync && r.InFlight < 2 {
		return fmt.Errorf(".Async is %d with InFlight %d", uint8(r.Async), r.InFlight)
	}
	if r.InFlight > 1 && (r.Drafts > 0 || r.Role == RolePrefill) {
		return fmt.Errorf(".InFlight is %d with Drafts %d or RolePrefill", r.InFlight, r.Drafts)
	}
	if r.InFlight > 1 && r.Group > 0 {
		return fmt.Errorf(".Group is %d with InFlight %d", r.Group, r.InFlight)
	}
	if r.InFlight > 1 && r.HostBlocks > 0 {
		return fmt.Errorf(".HostBlocks is %d with InFlight %d", r.HostBlocks, r.InFlight)
	}
	if r.InFlight > maxInFlight {
		return fmt.Errorf(".InFlight is %d, more than %d", r.InFlight, maxInFlight)
	}
	if r.FirstToken > FirstFromDecode {
		return fmt.Errorf(".FirstToken is %d", uint8(r.FirstToken))
	}
	if r.Drafts > 0 && r.Role == RolePrefill {
		return fmt.Errorf(".Drafts is %d with RolePrefill", r.Drafts)
	}
	if r.Drafts > maxDrafts {
		return fmt.Errorf(".Drafts is %d, more than %d", r.Drafts, maxDrafts)
	}
	if r.BlockTokens > maxBlockTokens {
		return fmt.Errorf(".BlockTokens is %d, more than %d", r.BlockTokens, maxBlockTokens)
	}
	if r.EagerSharing && (!r.PrefixCache || r.InFlight > 1) {
		return fmt.Errorf(".EagerSharing is set with PrefixCache %t and InFlight %d", r.PrefixCache, r.InFlight)
	}
	if r.PrefixCache && r.KVBlocks > math.MaxInt32 {
		return fmt.Errorf(".KVBlocks is %d, more than %d, with PrefixCache", r.KVBlocks, math.MaxInt32)
	}
	if r.KVBlocks > 0 && r.ReservedBlocks >= r.KVBlocks {
		return fmt.Errorf(".ReservedBlocks is %d of %d KVBlocks", r.ReservedBlocks, r.KVBlocks)
	}
	return nil
}
