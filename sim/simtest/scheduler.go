package simtest

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"

	"servesim/sim"
)

// Scenarios is how many scenarios TestScheduler runs: seeds 0 to Scenarios-1.
const Scenarios = 48

// TestScheduler tests a scheduler in [Scenarios] scenarios and reports the
// first that fails. newScheduler returns a fresh scheduler at every call; one
// is made for every replica of every run.
//
// The scheduler must keep what it promises by Hold, be deterministic, share no
// state between instances, and let every request end. It may reject what it
// cannot serve, with a reason; a prompt longer than the token budget of a
// step, for one, must be computed in chunks or rejected. See [Scenario.Run] for
// what is checked.
func TestScheduler(t testing.TB, newScheduler func() sim.Scheduler) {
	t.Helper()
	for seed := range uint64(Scenarios) {
		if err := (Scenario{Seed: seed}).Run(newScheduler); err != nil {
			t.Fatalf("%v", err)
		}
	}
}

// Run runs the scenario three times and returns the first of these that is
// not so, with the events around it and the configuration:
//
//   - The run ends without error: no panic, nothing stuck, no request evicted
//     for ever, no endless wake-ups.
//   - Laws hold, so that among others every position of a prompt is computed
//     once and again only after an eviction.
//   - A second run with other instances has the same events.
//   - So has a run with sim.Config.Check, in which every step is planned anew
//     and decodes are added one by one: Hold and AddDecodes change nothing.
//
// It is one step of [TestScheduler], for a seed that failed or for a fuzz
// test.
func (s Scenario) Run(newScheduler func() sim.Scheduler) error {
	first, err := s.run(newScheduler, false)
	if err != nil {
		return s.failed(err)
	}
	again, err := s.run(newScheduler, false)
	if err != nil {
		return s.failed(fmt.Errorf("in the second run: %w", err))
	}
	if d := Diff(first, again); d != "" {
		return s.failed(fmt.Errorf("a second run differs: the scheduler is not deterministic, or its instances share state; %s", d))
	}
	checked, err := s.run(newScheduler, true)
	if err != nil {
		return s.failed(fmt.Errorf("with Config.Check: %w", err))
	}
	if d := Diff(checked, first); d != "" {
		return s.failed(fmt.Errorf("planning every step anew (-want) differs from what Hold lets happen (+got); %s", d))
	}
	return nil
}

func (s Scenario) failed(err error) error {
	return fmt.Errorf("simtest: %w\nin %v", err, s)
}

// run runs the scenario once and returns its log.
func (s Scenario) run(newScheduler func() sim.Scheduler, check bool) (log []string, err error) {
	lines := &Log{TokenTimes: true}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s\n%s", p, tail(lines.Lines), debug.Stack())
		}
	}()
	cfg := s.Config(newScheduler)
	cfg.Check = check
	laws := &Laws{Config: cfg}
	cfg.Observers = []sim.Observer{lines, laws}
	res, err := sim.Run(context.Background(), cfg, s.Requests())
	if err == nil {
		err = laws.Check(res)
	}
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, tail(lines.Lines))
	}
	return lines.Lines, nil
}

// tail returns the last lines of a log.
func tail(log []string) string {
	const n = 8
	return "last events:\n  " + strings.Join(log[max(0, len(log)-n):], "\n  ")
}
