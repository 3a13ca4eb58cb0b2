package scheduler

import (
	"fmt"
	"time"

	"servesim/sim"
)

// Reasons for which the admission policies of this package refuse a request.
const (
	RejectQueueFull   = "queue_full"   // QueueLimit
	RejectRateLimited = "rate_limited" // TokenBucket
	RejectDeadline    = "deadline"     // Deadline
)

// All asks several admission policies, each about every request. The first
// refusal wins, and policies after it are not asked. Where some defer, the
// request waits until the latest of their instants and then all are asked
// again. Policies that count what they let in, such as [TokenBucket], stand
// last: a refusal after them comes too late to give their tokens back.
type All []sim.Admission

// Admit implements sim.Admission.
func (a All) Admit(now sim.Time, q sim.Query, loads []sim.Load) (d sim.Decision) {
	for _, policy := range a {
		next := policy.Admit(now, q, loads)
		if next.Reject != "" {
			return next
		}
		d.Until = max(d.Until, next.Until)
	}
	return d
}

// QueueLimit refuses requests while too many wait, with [RejectQueueFull].
type QueueLimit struct {
	// Waiting is how many sequences may wait in the queues of all replicas
	// together. A request that finds as many is refused. Preempted sequences
	// wait too; deferred requests do not, they are in no queue yet. 0 means no
	// limit.
	Waiting int
}

// Admit implements sim.Admission.
func (l QueueLimit) Admit(_ sim.Time, _ sim.Query, loads []sim.Load) sim.Decision {
	if l.Waiting < 0 {
		panic(fmt.Sprintf("scheduler: QueueLimit.Waiting is %d", l.Waiting))
	}
	waiting := 0
	for i := range loads {
		waiting += loads[i].Waiting
	}
	if l.Waiting > 0 && waiting >= l.Waiting {
		return sim.Decision{Reject: RejectQueueFull}
	}
	return sim.Decision{}
}

// Deadline refuses requests whose first token would come after Query.Deadline
// whatever the router does, with [RejectDeadline]. It supposes that the replica
// with the fewest pending prompt positions computes those and then the prompt,
// at PromptRate. Positions of a step in flight count as computed. It is on the
// safe side, refusing nothing that can be met, where PromptRate is not below
// the rate of the replicas, prompts are served in order of arrival, and no
// prefix is cached. Requests without a deadline pass.
type Deadline struct {
	// PromptRate is the number of prompt tokens that one replica computes per
	// second. 0 means that prompts take no time: only requests whose deadline
	// has passed are refused.
	PromptRate float64
}

// Admit implements sim.Admission.
func (d Deadline) Admit(now sim.Time, q sim.Query, loads []sim.Load) sim.Decision {
	if !(d.PromptRate >= 0) {
		panic(fmt.Sprintf("scheduler: Deadline.PromptRate is %v", d.PromptRate))
	}
	if q.Deadline == 0 {
		return sim.Decision{}
	}
	first := time.Duration(0)
	if d.PromptRate > 0 {
		ahead := loads[LeastPending{}.Route(now, q, loads)].PendingPrompt
		first = sim.Round(float64(ahead+q.Prompt) / d.PromptRate)
	}
	if first == sim.InvalidDuration || first > q.Deadline.Sub(now) {
		return sim.Decision{Reject: RejectDeadline}
	}
	return sim.Decision{}
}
