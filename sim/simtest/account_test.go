package simtest_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"servesim/sim"
	"servesim/sim/simtest"
)

// account is what a replica did for one request, in positions.
type account struct {
	request   sim.Request
	scheduled int // given by passes
	hits      int // found in the prefix cache at admissions
	lost      int // stored when it was evicted
	rejected  int // drafts that were wrong
}

// bookkeeper drives one replica by hand and keeps the accounts of its requests,
// which the events of a run do not tell apart.
type bookkeeper struct {
	st       *sim.Stepper
	modelLen int
	accounts map[int]*account
	before   map[int]int // context before the pass
	outputs  map[int]int // of those that ended with the step

	faults                               []string
	finished, hits, lost, drafts, reject int
}

func (b *bookkeeper) Observe(e sim.Event) {
	a := b.accounts[e.ID]
	switch e.Kind {
	case sim.Admit:
		a.hits += int(e.Cached)
	case sim.Preempt:
		a.lost += b.before[e.ID]
	case sim.Finish:
		b.outputs[e.ID] = e.Output
	}
}

// step runs a pass and completes what it planned. It reports whether that was
// anything.
func (b *bookkeeper) step(now sim.Time) (end sim.Time, stepped bool, err error) {
	clear(b.before)
	clear(b.outputs)
	for s := range b.st.Running().All() {
		b.before[s.ID()] = s.Context()
	}
	batch, took, err := b.st.Plan(now)
	if err != nil || batch.Empty() {
		return now, false, err
	}
	work := b.st.Scheduled()
	tokens, rows := map[int]int{}, map[int]bool{}
	for _, w := range work {
		s := b.st.Lookup(w.ID)
		b.accounts[w.ID].scheduled += w.Tokens
		tokens[w.ID] = s.Generated()
		rows[w.ID] = s.Context()-w.Tokens == s.Prompt()+s.Generated()-1
	}
	now = now.Add(took)
	if err := b.st.Complete(now, nil); err != nil {
		return now, true, err
	}
	for _, w := range work {
		output, ended := b.outputs[w.ID]
		if !ended {
			output = b.st.Lookup(w.ID).Generated()
		}
		if rows[w.ID] {
			b.accounts[w.ID].rejected += w.Tokens - (output - tokens[w.ID])
			b.drafts += w.Tokens - 1
		}
		if ended {
			b.settle(b.accounts[w.ID], output)
		}
	}
	return now, true, nil
}

// settle closes the account of a request that has ended.
func (b *bookkeeper) settle(a *account, output int) {
	r := &a.request
	if need := r.Prompt + output - 1 - a.hits + a.lost + a.rejected; a.scheduled != need {
		b.faults = append(b.faults, fmt.Sprintf("%d positions for %d tokens, %d needed: %+v", a.scheduled, output, need, *a))
	}
	room := max(1, cmp.Or(b.modelLen, math.MaxInt)-r.Prompt)
	if want := min(r.Output, cmp.Or(r.MaxOutput, r.Output), room); output != want {
		b.faults = append(b.faults, fmt.Sprintf("%d tokens, %d wanted: %+v", output, want, *a))
	}
	b.finished++
	b.hits += a.hits
	b.lost += a.lost
	b.reject += a.rejected
}

// run serves the requests of a scenario on its first replica.
func (b *bookkeeper) run(s simtest.Scenario) (err error) {
	cfg := s.Config(func() sim.Scheduler { return &simtest.Chaos{Seed: s.Seed} })
	cfg.Replicas, cfg.Router, cfg.Admission, cfg.FollowUp, cfg.Until, cfg.MaxSteps = cfg.Replicas[:1], nil, nil, nil, 0, 0
	cfg.Observers = []sim.Observer{b}
	if b.st, err = sim.NewStepper(cfg); err != nil {
		return err
	}
	b.modelLen = cfg.Replicas[0].MaxModelLen
	var requests []sim.Request
	for r := range s.Requests() {
		if r.Output > 0 { // by hand, 0 leaves the end to outcomes
			requests = append(requests, r)
		}
	}
	b.accounts, b.before, b.outputs = map[int]*account{}, map[int]int{}, map[int]int{}
	now := sim.Time(0)
	for range 100_000 {
		for len(requests) > 0 && requests[0].Arrival <= now {
			if b.st.Lookup(requests[0].ID) == nil {
				b.accounts[requests[0].ID] = &account{request: requests[0]}
			}
			b.st.Submit(now, requests[0])
			requests = requests[1:]
		}
		if b.st.Waiting().Len()+b.st.Running().Len() == 0 {
			if len(requests) == 0 {
				return nil
			}
			now = requests[0].Arrival
			continue
		}
		end, stepped, err := b.step(now)
		if err != nil {
			return err
		}
		if now = end; !stepped {
			now = now.Add(time.Microsecond) // it waits for a wake-up
		}
	}
	return fmt.Errorf("the requests do not end")
}

// Every request that completes gets the tokens it wants, and the positions that
// passes gave it are those of its prompt and output but the last, without what
// the prefix cache had, with what evictions lost and with the drafts that were
// wrong.
func TestEveryRequestGetsItsPositions(t *testing.T) {
	sum := bookkeeper{}
	for seed := range scenarios(t, 150) {
		s, b := simtest.Scenario{Seed: seed}, &bookkeeper{}
		if err := b.run(s); err != nil {
			t.Fatalf("%v\nin %v", err, s)
		}
		for _, fault := range b.faults {
			t.Errorf("%s\nin %v", fault, s)
		}
		sum.finished += b.finished
		sum.hits += b.hits
		sum.lost += b.lost
		sum.drafts += b.drafts
		sum.reject += b.reject
	}
	t.Logf("%d requests: %d positions hit, %d lost, %d of %d drafts rejected", sum.finished, sum.hits, sum.lost, sum.reject, sum.drafts)
	if slices.Contains([]int{sum.finished, sum.hits, sum.lost, sum.reject, sum.drafts - sum.reject}, 0) {
		t.Error("some of these never happen")
	}
}
