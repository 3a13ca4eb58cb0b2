package simtest

import (
	"errors"
	"fmt"
	"strings"

	"servesim/sim"
)

// Laws is an observer that checks, event by event, what holds in every run of
// [sim.Run], whatever the scheduler, the cost model and the workload do:
//
//   - Time never goes back, and the end of the run comes once and last.
//   - A request lives in order: arrive, queue, admit, prefill end, first
//     token, finish, and between replicas handoff, pull, pulled. It is in the
//     lists of one replica at a time. It is preempted only while it runs and
//     admitted only while it waits, it may be aborted at any place, and it ends
//     once. Identity and timeline stay what earlier events said.
//   - Nothing is dropped: the front door and the end of a prompt turn a request
//     away for reasons that hold, and nobody else does but a scheduler.
//   - Steps of a replica are numbered without holes. No more overlap than it has
//     in flight, and those of a group are one. They hold work, within the limits
//     of the replica, and the counts of running and waiting sequences are those
//     that the events give.
//   - Tokens are conserved: a step's first tokens and gaps are its tokens, a
//     gap starts where a token of its class ended, and over the run they are
//     the tokens and late gaps of the requests. Of several tokens that a step
//     gives a sequence the first ends a gap and the others, accepted drafts,
//     have gaps of zero.
//   - Positions are conserved: steps compute every position of a residency
//     once, behind the context that it has by then, and nothing else but
//     drafts that are rejected. What the prefix cache has at an admission is
//     not computed; it ends before the last position, which always is. Hits of
//     a first admission, and no others, are the Result's. What was transferred
//     or swapped out comes back as it was.
//   - A transfer brings the prompt but what the destination had of it, no faster
//     than the link carries it beside the others, and alone just as fast.
//   - With Config.Ledgers the ledger of a request adds up to its time to the
//     first token, and from there to its end, and nothing but interference is
//     negative in it.
//   - A closed replica takes nothing but what was on its way there. It opens
//     when all of it has left, and the cost of the switch later.
//
// KV blocks are seen only while a step runs: then the blocks in use hold at
// least the tokens of the batch, what was handed over and has not arrived, and
// what was taken for transfers and does not run yet; with a prefix cache, what
// sequences may share counts once. That every block is free in the end is not
// in the events; sim.Config.Check looks at it. Of a replica with several steps
// in flight, positions are known over the run only, not by step.
//
// A [sim.Stepper] driven by hand may break the laws about arrivals, tokens and
// transfers.
//
// The zero value checks everything but limits, roles, links and gap targets, and
// takes it that one step is in flight. Memory grows with the requests in flight,
// not with the length of the run.
type Laws struct {
	// Config gives limits, roles, the link, classes and horizon. No policy in
	// it is called.
	Config sim.Config
	// Keep is how many violations are kept word for word; 0 means 10.
	Keep int

	violations []string
	dropped    int

	events int64
	now    sim.Time
	ended  bool
	counts sim.Result
	lives  map[int64]*life
	queued map[int]int64 // serial of the request that was queued under an id
	sites  []*site

	// Positions that were stored for residencies that ended by a preemption,
	// and those that the prefix cache had of them.
	evicted      bounds
	evictedFound int64
	// Positions computed for residencies that ended otherwise.
	kept bounds
	// Draft positions checked, by steps; of them, those that may be of a
	// request that had ended.
	checked, orphaned int64
	// Samples of replicas with several steps in flight that gave no token.
	unsampled int64

	wires      wires
	groups     map[int]span
	rejectedAt sim.Time   // when the latest rejection was
	times      []sim.Time // scratch
}

// Observe implements sim.Observer.
func (l *Laws) Observe(e sim.Event) {
	l.events++
	if l.ended {
		l.violate(&e, "an event after the end of the run")
	}
	if e.Time < l.now {
		l.violate(&e, "time goes back from %d ns", int64(l.now))
	}
	l.now = max(l.now, e.Time)
	switch e.Kind {
	case sim.Arrive:
		l.arrive(&e)
	case sim.Queue, sim.Admit, sim.PrefillEnd, sim.FirstToken, sim.Handoff, sim.Pull, sim.Pulled, sim.Preempt, sim.Finish, sim.Reject, sim.Abort:
		l.request(&e)
	case sim.Drain, sim.Open:
		l.role(&e)
	case sim.StepEnd:
		l.step(&e)
	case sim.End:
		l.end(&e)
	default:
		l.violate(&e, "an unknown kind of event")
	}
}

// violate notes a broken law.
func (l *Laws) violate(e *sim.Event, format string, args ...any) {
	keep := l.Keep
	if keep == 0 {
		keep = 10
	}
	if len(l.violations) >= keep {
		l.dropped++
		return
	}
	l.violations = append(l.violations, fmt.Sprintf("%s\n\tevent %d: %s", fmt.Sprintf(format, args...), l.events, e.String()))
}

// Err returns the violations so far as one error, or nil. Before the end of
// the run the laws about sums are not checked yet.
func (l *Laws) Err() error {
	if len(l.violations) == 0 {
		return nil
	}
	s := "simtest: " + strings.Join(l.violations, "\nsimtest: ")
	if l.dropped > 0 {
		s += fmt.Sprintf("\nsimtest: and %d more violations", l.dropped)
	}
	return errors.New(s)
}

// Check returns the violations of a run that ended without an error, and what
// its result says otherwise than its events. Requests may be alive then only
// if Config.Until cut the run.
func (l *Laws) Check(res sim.Result) error {
	errs := []error{l.Err()}
	if !l.ended {
		errs = append(errs, errors.New("simtest: the run has no end event"))
	}
	if n := len(l.lives); n > 0 && len(l.Config.Replicas) > 0 && l.Config.Until == 0 {
		errs = append(errs, fmt.Errorf("simtest: %d requests never end", n))
	}
	c := &l.counts
	for _, f := range []struct {
		name        string
		result, sum int64
	}{
		{"Arrived", res.Arrived, c.Arrived},
		{"Completed", res.Completed, c.Completed},
		{"Rejected", res.Rejected, c.Rejected},
		{"Aborted", res.Aborted, c.Aborted},
		{"Unfinished", res.Unfinished, int64(len(l.lives))},
		{"Preemptions", res.Preemptions, c.Preemptions},
		{"Steps", res.Steps, c.Steps},
		{"Tokens", res.Tokens, c.Tokens},
		{"PrefillTokens", res.PrefillTokens, c.PrefillTokens},
		{"DecodePositions", res.DecodePositions, c.DecodePositions},
		{"Accepted", res.Accepted, c.Accepted},
		{"PrefixHits", res.PrefixHits, c.PrefixHits},
		{"Transfers", res.Transfers, c.Transfers},
		{"Transferred", res.Transferred, c.Transferred},
		{"Switches", res.Switches, c.Switches},
		{"End", int64(res.End), int64(l.now)},
	} {
		if f.result != f.sum {
			errs = append(errs, fmt.Errorf("simtest: Result.%s is %d, the events give %d", f.name, f.result, f.sum))
		}
	}
	if least := l.checked - l.orphaned; res.Drafted < least || res.Drafted > l.checked {
		errs = append(errs, fmt.Errorf("simtest: Result.Drafted is %d, the events give %d to %d", res.Drafted, least, l.checked))
	}
	if res.Surplus < 0 || res.Surplus > l.unsampled {
		errs = append(errs, fmt.Errorf("simtest: Result.Surplus is %d, the events give 0 to %d", res.Surplus, l.unsampled))
	}
	errs = append(errs, l.checkWork(res))
	return errors.Join(errs...)
}

// checkWork compares the positions that steps computed, but for rejected
// drafts and surplus ones, with those that requests needed and those that the
// result says were computed again.
func (l *Laws) checkWork(res sim.Result) error {
	if res.Recompute < l.evicted.lo || res.Recompute > l.evicted.hi {
		return fmt.Errorf("simtest: Result.Recompute is %d, the events give %d to %d", res.Recompute, l.evicted.lo, l.evicted.hi)
	}
	r := res.Recompute - l.evictedFound
	done := l.counts.PrefillTokens + l.counts.DecodePositions - (l.checked - l.counts.Accepted) - r - res.Surplus
	least := l.kept.lo
	if l.Config.Until > 0 && l.flights() {
		least = 0 // Recompute has what steps were computing that the horizon cut
	}
	if done < least || done > l.kept.hi && len(l.lives) == 0 {
		return fmt.Errorf("simtest: steps computed %d positions, Result.Recompute included; with it requests needed %d to %d", done+r, l.kept.lo+r, l.kept.hi+r)
	}
	return nil
}

// end checks the sums of a run that is over.
func (l *Laws) end(e *sim.Event) {
	l.ended = true
	for _, x := range l.lives {
		if x.replica >= 0 {
			l.site(x.replica).remain(x)
		}
	}
	for i, s := range l.sites {
		if s == nil {
			continue
		}
		if s.fresh > 0 {
			l.violate(e, "replica %d: tokens at %d ns, but no step ends then", i, int64(s.freshAt))
		}
		if n := s.host.out.count + s.host.in.count; n > 0 && l.Config.Until == 0 {
			l.violate(e, "replica %d: no step copies %d sequences to or from host memory", i, n)
		}
		l.balance(e, i, s)
	}
}

// site returns the account of a replica.
func (l *Laws) site(replica int32) *site {
	for int(replica) >= len(l.sites) {
		l.sites = append(l.sites, nil)
	}
	if l.sites[replica] == nil {
		l.sites[replica] = newSite(&l.Config, int(replica))
	}
	return l.sites[replica]
}
