package workload

import "servesim/sim"

// FollowUps composes functions for sim.Config.FollowUp. They are asked in turn,
// and the first that has an answer gives it: each looks after requests of its
// own, and one that stands before another can keep an end from it. With a
// [Retry] first, a session behind it hears of a rejection only when the client
// does not try again; what it sends next is no retry and has Attempt 0. nil
// functions are left out.
func FollowUps(functions ...func(sim.Completion) []sim.Request) func(sim.Completion) []sim.Request {
	return func(c sim.Completion) []sim.Request {
		for _, f := range functions {
			if f == nil {
				continue
			}
			if requests := f(c); len(requests) > 0 {
				return requests
			}
		}
		return nil
	}
}
