package scheduler

import "servesim/sim"

// Orders of a waiting queue, for sim.Replica.Order:
//
//	Order: sim.OrderFunc(scheduler.ByPriority)
//
// Ties go by arrival. A preempted sequence goes back to its place in the
// order.

// ByArrival serves first come first. It differs from a nil Order in where a
// preempted sequence waits: by its arrival, not in front.
func ByArrival(a, b *sim.Sequence) bool { return a.Arrival() < b.Arrival() }

// ByPriority serves the smallest class priority first.
func ByPriority(a, b *sim.Sequence) bool { return a.Priority() < b.Priority() }

// ByPrompt serves the shortest prompt first.
func ByPrompt(a, b *sim.Sequence) bool { return a.Prompt() < b.Prompt() }

// ByHint serves the shortest predicted output first; requests without a
// prediction come last.
func ByHint(a, b *sim.Sequence) bool {
	if a.Hint() == 0 || b.Hint() == 0 {
		return a.Hint() != 0 && b.Hint() == 0
	}
	return a.Hint() < b.Hint()
}

// ByDeadline serves the earliest deadline first; requests without one come
// last.
func ByDeadline(a, b *sim.Sequence) bool {
	if a.Deadline() == 0 || b.Deadline() == 0 {
		return a.Deadline() != 0 && b.Deadline() == 0
	}
	return a.Deadline() < b.Deadline()
}
