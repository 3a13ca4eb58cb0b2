package simtest

import (
	"fmt"
	"slices"
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

	Scheduled   int // positions that passes gave it
	Hits        int // found in the prefix cache or a store, at admissions and transfers
	Transferred int // brought by transfers
	Again       int // brought or found, and computed again: the last one, to sample from
	Lost        int // stored when it was evicted, and not needed to end
	Rejected    int // drafts that were wrong
	Surplus     int // in steps that ended after it had

	context   int  // stored before the pass
	output    int  // tokens before the step ends
	row       bool // this step computes its pending position, perhaps with drafts
	fetched   int  // positions that a transfer has brought, and those that were there
	away      bool // it is in host memory
	evictions int
	waits     bool // since it was evicted
}

// Needs returns the positions that have to be scheduled for a request that
// finished: those of its prompt and output but the last token, which nobody
// reads, without what was found and transferred, and what was lost, wrong or too
// much once more.
func (a *Account) Needs() int {
	return a.Request.Prompt + a.Output - 1 - a.Hits - a.Transferred + a.Again + a.Lost + a.Rejected + a.Surplus
}

// Hand drives one replica by hand, with other replicas played as need be.
type Hand struct {
	// Config has one replica, as sim.NewStepper takes it.
	Config sim.Config
	// Remote says how many leading positions of a request, of its prompt at most,
	// are elsewhere when it arrives. nil means none.
	Remote func(r sim.Request) int
	// Transfer is the time of a transfer.
	Transfer time.Duration
}

// Serve is [Hand.Serve] with nothing elsewhere.
func Serve(cfg sim.Config, requests []sim.Request) ([]Account, error) {
	return Hand{Config: cfg}.Serve(requests)
}

// Serve drives the replica until every request has ended, and returns an account
// for each. Requests come in order of arrival, and have an Output. One that
// arrives during a step is submitted at its end; impatience is ignored. It is an
// error if no request gets anywhere in many passes. The engine checks itself, as with
// sim.Config.Check.
func (h Hand) Serve(requests []sim.Request) ([]Account, error) {
	s := &server{hand: h, accounts: make([]Account, len(requests)), bySerial: make(map[int64]*Account)}
	cfg := h.Config
	cfg.Observers = append([]sim.Observer{s}, cfg.Observers...)
	cfg.Check = true
	var err error
	if s.st, err = sim.NewStepper(cfg); err != nil {
		return nil, err
	}
	s.most = max(1, cfg.Replicas[0].InFlight)
	next := 0
	for next < len(requests) || s.alive()+len(s.flights) > 0 {
		if s.alive()+len(s.flights) == 0 {
			s.now = max(s.now, requests[next].Arrival)
		}
		for ; next < len(requests) && requests[next].Arrival <= s.now; next++ {
			if requests[next].Output < 1 {
				return nil, fmt.Errorf("simtest: Serve: requests[%d] (id %d): Output is %d", next, requests[next].ID, requests[next].Output)
			}
			s.submit(&s.accounts[next], requests[next])
		}
		if err := s.step(); err != nil {
			return nil, err
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
	hand     Hand
	st       *sim.Stepper
	now      sim.Time
	accounts []Account
	bySerial map[int64]*Account
	arriving *Account
	most     int // steps in flight
	flights  []flown
	moving   []moving
	quiet    int // passes since something happened to a request
}

// flown is a step in flight.
type flown struct {
	end  sim.Time
	work []work
}

// work is what a step computes for a request.
type work struct {
	a         *Account
	id        int
	tokens    int
	evictions int // of the request by then
}

// moving is a transfer under way.
type moving struct {
	id int
	at sim.Time
}

func (s *server) alive() int {
	return s.st.Waiting().Len() + s.st.Running().Len() + s.st.Swapped().Len() + s.st.Remote().Len() + s.st.Pulling().Len()
}

func (s *server) submit(a *Account, r sim.Request) {
	a.Request = r
	s.arriving = a
	if s.st.Submit(s.now, r) != "" || s.hand.Remote == nil {
		return
	}
	if n := s.hand.Remote(r); n > 0 {
		s.st.SetRemote(r.ID, n)
	}
}

// Observe implements sim.Observer.
func (s *server) Observe(e sim.Event) {
	a := s.bySerial[e.Serial]
	switch e.Kind {
	case sim.Arrive:
		s.bySerial[e.Serial] = s.arriving
		s.quiet = 0
	case sim.Admit:
		a.admit(int(e.Cached))
	case sim.Preempt:
		a.evictions++
		a.waits, a.away = true, e.Reason == sim.PreemptSwap
		if !a.away {
			a.Lost += a.context
		}
	case sim.Pull:
		a.Transferred += int(e.Tokens)
		a.Hits += int(e.Cached)
		a.fetched = int(e.Tokens + e.Cached)
		s.moving = append(s.moving, moving{e.ID, s.now.Add(s.hand.Transfer)})
	case sim.Finish, sim.Reject:
		a.Kind, a.Reason, a.Output = e.Kind, e.Reason, e.Output
		if a.waits && e.Kind == sim.Finish { // its last token was in flight
			a.Lost -= a.Request.Prompt + a.Output - 1
		}
		delete(s.bySerial, e.Serial)
		s.quiet = 0
	case sim.StepEnd:
		if e.Tokens > 0 {
			s.quiet = 0
		}
	}
}

// admit books what a request has at an admission.
func (a *Account) admit(cached int) {
	switch {
	case a.fetched > 0:
		a.Again += a.fetched - cached
	case !a.away:
		a.Hits += cached
	}
	a.context, a.fetched, a.away, a.waits = cached, 0, false, false
}

// step runs a pass, or lets time go on to what happens next.
func (s *server) step() error {
	if len(s.flights) < s.most {
		planned, err := s.plan()
		if err != nil || planned {
			return err
		}
	}
	next := s.now.Add(1 << min(s.quiet, 30)) // for schedulers that wait for a later time
	if len(s.flights) > 0 {
		next = s.flights[0].end
	}
	for _, m := range s.moving {
		next = min(next, max(s.now, m.at))
	}
	s.now = next
	s.moving = slices.DeleteFunc(s.moving, func(m moving) bool {
		if m.at <= s.now {
			s.st.Received(s.now, m.id)
		}
		return m.at <= s.now
	})
	if len(s.flights) > 0 && s.flights[0].end <= s.now {
		return s.complete()
	}
	return nil
}

// plan runs a pass and reports whether it planned a step.
func (s *server) plan() (planned bool, err error) {
	for q := range s.st.Running().All() {
		s.bySerial[q.Serial()].context = q.Context()
	}
	batch, took, err := s.st.Plan(s.now)
	if err != nil || batch.Empty() {
		return false, err
	}
	f := flown{end: s.now.Add(took)}
	if n := len(s.flights); n > 0 {
		f.end = max(f.end, s.flights[n-1].end)
	}
	for _, w := range s.st.Scheduled() {
		q := s.st.Lookup(w.ID)
		a := s.bySerial[q.Serial()]
		a.Scheduled += w.Tokens
		a.output = q.Generated()
		a.row = q.Context()-w.Tokens == q.Prompt()+q.Generated()-1
		f.work = append(f.work, work{a, w.ID, w.Tokens, a.evictions})
	}
	s.flights = append(s.flights, f)
	return true, nil
}

// complete ends the oldest step in flight.
func (s *server) complete() error {
	f := s.flights[0]
	s.flights = s.flights[1:]
	for _, w := range f.work {
		if w.a.Kind != 0 && w.evictions == w.a.evictions {
			w.a.Surplus += w.tokens
		}
	}
	if err := s.st.Complete(s.now, nil); err != nil {
		return err
	}
	for _, w := range f.work {
		if a := w.a; a.row && s.most == 1 {
			output := a.Output
			if a.Kind == 0 {
				output = s.st.Lookup(w.id).Generated()
			}
			a.Rejected += w.tokens - (output - a.output)
		}
	}
	return nil
}
