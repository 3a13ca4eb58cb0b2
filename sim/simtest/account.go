package simtest

import (
	"fmt"
	"time"

	"servesim/sim"
)

// Account is what one replica did for one request, in positions. Events of a
// run tell such sums only for all requests of a replica together.
type Account struct {
	Request sim.Request
	Kind    sim.Kind // how it ended: sim.Finish or sim.Reject
	Reason  string   // of its end
	Output  int      // tokens it got

	Scheduled int // positions that passes gave it
	Hits      int // found in the prefix cache, at all of its admissions
	Lost      int // stored when it was evicted
	Rejected  int // drafts that were wrong

	context int  // stored before the pass
	output  int  // tokens before the step ends
	row     bool // this step computes its pending position, perhaps with drafts
}

// Needs returns the positions that have to be scheduled for a request that
// finished: those of its prompt and output but the last token, which nobody
// reads, without hits, and what was lost and wrong once more.
func (a *Account) Needs() int {
	return a.Request.Prompt + a.Output - 1 - a.Hits + a.Lost + a.Rejected
}

// Serve drives the one replica of cfg by hand, as [sim.NewStepper] takes it,
// until every request has ended, and returns an account for each. Requests come
// in order of arrival, and have an Output. One that arrives during a step is
// submitted at its end; impatience is ignored. It is an error if no request
// gets anywhere in many passes.
func Serve(cfg sim.Config, requests []sim.Request) ([]Account, error) {
	s := &server{accounts: make([]Account, len(requests)), bySerial: make(map[int64]*Account)}
	cfg.Observers = append([]sim.Observer{s}, cfg.Observers...)
	var err error
	if s.st, err = sim.NewStepper(cfg); err != nil {
		return nil, err
	}
	next, now := 0, sim.Time(0)
	for next < len(requests) || s.alive() > 0 {
		if s.alive() == 0 {
			now = max(now, requests[next].Arrival)
		}
		for ; next < len(requests) && requests[next].Arrival <= now; next++ {
			if requests[next].Output < 1 {
				return nil, fmt.Errorf("simtest: Serve: requests[%d] (id %d): Output is %d", next, requests[next].ID, requests[next].Output)
			}
			s.arriving = &s.accounts[next]
			s.arriving.Request = requests[next]
			s.st.Submit(now, requests[next])
		}
		took, err := s.step(now)
		if err != nil {
			return nil, err
		}
		if now = now.Add(took); took == 0 {
			now = now.Add(1 << min(s.quiet, 30)) // for schedulers that wait for a later time
		}
		if s.quiet++; s.quiet > quietPasses {
			return nil, fmt.Errorf("simtest: Serve: no token in %d passes, with %d waiting and %d running",
				quietPasses, s.st.Waiting().Len(), s.st.Running().Len())
		}
	}
	return s.accounts, nil
}

// quietPasses is how many passes may go by without a token, an arrival or an
// end: more than the longest prompt in chunks of one token.
const quietPasses = 1 << 16

// server keeps the accounts of a replica.
type server struct {
	st       *sim.Stepper
	accounts []Account
	bySerial map[int64]*Account
	arriving *Account
	inStep   []*Account
	quiet    int // passes since something happened to a request
}

func (s *server) alive() int { return s.st.Waiting().Len() + s.st.Running().Len() }

// Observe implements sim.Observer.
func (s *server) Observe(e sim.Event) {
	a := s.bySerial[e.Serial]
	switch e.Kind {
	case sim.Arrive:
		s.bySerial[e.Serial] = s.arriving
		s.quiet = 0
	case sim.Admit:
		a.Hits += int(e.Cached)
	case sim.Preempt:
		a.Lost += a.context
	case sim.Finish, sim.Reject:
		a.Kind, a.Reason, a.Output = e.Kind, e.Reason, e.Output
		delete(s.bySerial, e.Serial)
		s.quiet = 0
	case sim.StepEnd:
		if e.Tokens > 0 {
			s.quiet = 0
		}
	}
}

// step runs a pass and completes the step that it planned, if any.
func (s *server) step(now sim.Time) (took time.Duration, err error) {
	for q := range s.st.Running().All() {
		s.bySerial[q.Serial()].context = q.Context()
	}
	batch, took, err := s.st.Plan(now)
	if err != nil || batch.Empty() {
		return 0, err
	}
	s.inStep = s.inStep[:0]
	work := s.st.Scheduled()
	for _, w := range work {
		q := s.st.Lookup(w.ID)
		a := s.bySerial[q.Serial()]
		a.Scheduled += w.Tokens
		a.output = q.Generated()
		a.row = q.Context()-w.Tokens == q.Prompt()+q.Generated()-1
		s.inStep = append(s.inStep, a)
	}
	if err := s.st.Complete(now.Add(took), nil); err != nil {
		return took, err
	}
	for i, a := range s.inStep {
		if !a.row {
			continue
		}
		output := a.Output
		if a.Kind == 0 {
			output = s.st.Lookup(work[i].ID).Generated()
		}
		a.Rejected += work[i].Tokens - (output - a.output)
	}
	return took, nil
}
