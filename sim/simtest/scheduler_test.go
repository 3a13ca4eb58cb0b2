package simtest_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"servesim/sim"
	"servesim/sim/simtest"
)

func TestShippedSchedulersConform(t *testing.T) {
	for _, c := range shipped {
		t.Run(c.name, func(t *testing.T) { simtest.TestScheduler(t, c.make) })
	}
}

// serve is a small scheduler without a fault, to which the policies below add
// one: decodes, then prompts in chunks, then those from the queue that admit
// lets in.
func serve(v sim.View, p *sim.Plan, admit func(s *sim.Sequence) bool) {
	for !p.AddDecodes() {
		p.Preempt(v.Running.Last())
	}
	for s := range v.Prefilling.All() {
		if n := min(s.Pending(), p.Room()); n > 0 {
			p.Add(s, n)
		}
	}
	for s := range v.Waiting.All() {
		n := min(s.Pending(), p.Room())
		if n == 0 || s.Preemptions() > 0 && v.Running.Len() > 0 || !admit(s) || !p.Fits(s, s.Pending()) || !p.Add(s, n) {
			break
		}
	}
}

func everyone(*sim.Sequence) bool { return true }

func policy(f func(v sim.View, p *sim.Plan)) func() sim.Scheduler {
	return func() sim.Scheduler { return sim.SchedulerFunc(f) }
}

// Policies that are right, if odd.
func TestOddPoliciesConform(t *testing.T) {
	for name, make := range map[string]func() sim.Scheduler{
		"serve": policy(func(v sim.View, p *sim.Plan) { serve(v, p, everyone) }),
		"serve and hold": policy(func(v sim.View, p *sim.Plan) {
			serve(v, p, everyone)
			if v.Prefilling.Len() == 0 {
				p.Hold()
			}
		}),
		"reject all": policy(func(v sim.View, p *sim.Plan) {
			for s := range v.Waiting.All() {
				p.Reject(s, "closed")
			}
		}),
		"one by one": policy(func(v sim.View, p *sim.Plan) {
			serve(v, p, func(*sim.Sequence) bool { return v.Running.Len() == 0 })
			p.Hold()
		}),
		// A decision that depends on time, with a wake-up for it.
		"time slices": policy(func(v sim.View, p *sim.Plan) {
			const slice = sim.Time(50 * time.Microsecond)
			open := v.Now/slice%2 == 0
			serve(v, p, func(*sim.Sequence) bool { return open })
			p.WakeAt((v.Now/slice + 1) * slice)
			p.Hold()
		}),
	} {
		t.Run(name, func(t *testing.T) { simtest.TestScheduler(t, make) })
	}
}

const (
	wrongHold = "planning every step anew (-want) differs from what Hold lets happen (+got)"
	unstable  = "a second run differs: the scheduler is not deterministic, or its instances share state"
)

func TestFaultyPoliciesFail(t *testing.T) {
	var calls int // shared between instances
	for _, c := range []struct {
		name string
		make func() sim.Scheduler
		want string
	}{
		{"holds although it would admit at the next step", policy(func(v sim.View, p *sim.Plan) {
			serve(v, p, func(*sim.Sequence) bool {
				young := v.Running.Last()
				return young == nil || young.Generated() >= 4
			})
			p.Hold()
		}), wrongHold},
		{"holds although it counts passes", func() sim.Scheduler {
			passes := 0
			return sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
				passes++
				serve(v, p, func(*sim.Sequence) bool { return passes%3 == 0 || v.Running.Len() == 0 })
				p.Hold()
			})
		}, wrongHold},
		{"holds although it looks at the clock", policy(func(v sim.View, p *sim.Plan) {
			open := v.Now/sim.Time(50*time.Microsecond)%2 == 0
			serve(v, p, func(*sim.Sequence) bool { return open || v.Running.Len() == 0 })
			p.Hold()
		}), wrongHold},
		{"holds although it evicts long answers for others", policy(func(v sim.View, p *sim.Plan) {
			for s := range v.Running.Backward() {
				if v.Waiting.Len() > 0 && s.Generated() >= 8 && s.Preemptions() == 0 {
					p.Preempt(s)
				}
			}
			serve(v, p, everyone)
			p.Hold()
		}), wrongHold},
		{"holds although it left decodes out", policy(func(v sim.View, p *sim.Plan) {
			if v.Prefilling.Len() == 0 && v.Waiting.Len() == 0 && v.Running.Len() > 1 {
				// The one that is behind, so another one at every step.
				var behind *sim.Sequence
				for s := range v.Running.All() {
					if behind == nil || s.Generated() < behind.Generated() {
						behind = s
					}
				}
				if p.Add(behind, 1) {
					p.Hold()
					return
				}
			}
			serve(v, p, everyone)
		}), wrongHold},
		{"instances share state", policy(func(v sim.View, p *sim.Plan) {
			calls++
			serve(v, p, func(*sim.Sequence) bool { return calls%3 == 0 || v.Running.Len() == 0 })
		}), unstable},
		{"throws dice", policy(func(v sim.View, p *sim.Plan) {
			serve(v, p, func(*sim.Sequence) bool { return rand.IntN(2) == 0 || v.Running.Len() == 0 })
		}), unstable},
		{"takes AddDecodes for granted", policy(func(v sim.View, p *sim.Plan) {
			p.AddDecodes()
			for s := range v.Prefilling.All() {
				if n := min(s.Pending(), p.Room()); n > 0 {
					p.Add(s, n)
				}
			}
			for s := range v.Waiting.All() {
				if n := min(s.Pending(), p.Room()); n == 0 || !p.Add(s, n) {
					break
				}
			}
		}), "no progress"},
		{"takes whole prompts for granted", policy(func(v sim.View, p *sim.Plan) {
			for !p.AddDecodes() {
				p.Preempt(v.Running.Last())
			}
			for s := range v.Waiting.All() {
				if !p.Add(s, s.Pending()) {
					break
				}
			}
		}), "no progress"},
		{"evicts for ever", policy(func(v sim.View, p *sim.Plan) {
			for v.Running.Len() > 0 {
				p.Preempt(v.Running.Last())
			}
			if s := v.Waiting.First(); s != nil {
				p.Add(s, min(s.Pending(), p.Room(), 4))
			}
		}), "without a token in between"},
		{"keeps memory for ever", policy(func(v sim.View, p *sim.Plan) {
			serve(v, p, everyone)
			for s := range v.Running.All() {
				p.Retain(s, false, true)
			}
		}), "no progress"},
		{"does nothing", policy(func(sim.View, *sim.Plan) {}), "no progress"},
		{"sleeps for ever", policy(func(v sim.View, p *sim.Plan) { p.WakeAt(v.Now + 1000) }), "wake-ups"},
		{"panics", policy(func(v sim.View, p *sim.Plan) {
			if v.Running.Len() > 3 {
				panic("too many")
			}
			serve(v, p, everyone)
		}), "panic: too many"},
		{"panics in the second run", policy(func(v sim.View, p *sim.Plan) {
			if calls++; calls > 5000 {
				panic("worn out")
			}
			serve(v, p, everyone)
		}), "worn out"},
		{"panics in the middle of a hold", func() sim.Scheduler {
			inRow := 0
			return sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
				inRow++
				if v.Waiting.Len() > 0 || v.Prefilling.Len() > 0 {
					inRow = 0
				}
				if inRow > 40 {
					panic("worn out")
				}
				serve(v, p, everyone)
				p.Hold()
			})
		}, "with Config.Check: panic: worn out"},
		{"adds twice", policy(func(v sim.View, p *sim.Plan) {
			for s := range v.Waiting.All() {
				p.Add(s, 1)
				p.Add(s, 1)
			}
		}), "panic: sim: Plan.Add of sequence 1 twice in a pass"},
		{"rejects without a reason", policy(func(v sim.View, p *sim.Plan) {
			for s := range v.Waiting.All() {
				p.Reject(s, "")
			}
		}), "a rejection without a reason"},
		{"is nil", func() sim.Scheduler { return nil }, "Scheduler is nil"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := failures(func(t testing.TB) { simtest.TestScheduler(t, c.make) })
			if len(got) != 1 || !strings.Contains(got[0], c.want) {
				t.Fatalf("got %q, want one failure with %q", got, c.want)
			}
			for _, part := range []string{"simtest.Scenario{Seed: ", "MaxBatchTokens"} {
				if !strings.Contains(got[0], part) {
					t.Errorf("the failure does not say %q:\n%s", part, got[0])
				}
			}
		})
	}
}

func TestScenarioSaysWhatItIs(t *testing.T) {
	const want = `simtest.Scenario{Seed: 6}: `
	s := simtest.Scenario{Seed: 6}
	if got := s.String(); !strings.HasPrefix(got, want) || !strings.Contains(got, ", until ") || !strings.Contains(got, "\n  replica 0: KVBlocks ") {
		t.Errorf("got %s", got)
	}
	if a, b := s.String(), (simtest.Scenario{Seed: 6}).String(); a != b {
		t.Errorf("%s, then %s", a, b)
	}
}

// A failure names its seed, and the seed alone fails again.
func TestAFailedSeedFailsAgain(t *testing.T) {
	make := policy(func(v sim.View, p *sim.Plan) {
		if v.Limits.MaxSeqs == 1 {
			panic("one slot")
		}
		serve(v, p, everyone)
	})
	got := failures(func(t testing.TB) { simtest.TestScheduler(t, make) })
	var seed uint64
	for s := range uint64(simtest.Scenarios) {
		if strings.Contains(strings.Join(got, ""), fmt.Sprintf("Scenario{Seed: %d}", s)) {
			seed = s
		}
	}
	if err := (simtest.Scenario{Seed: seed}).Run(make); err == nil || !strings.Contains(err.Error(), "one slot") {
		t.Errorf("seed %d: %v", seed, err)
	}
}
