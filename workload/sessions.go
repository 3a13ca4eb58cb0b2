package workload

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

	"servesim/sim"
	"servesim/sim/kv"
)

// Sessions are conversations. They begin as an open loop; inside one the next
// turn is sent when the answer before it has reached its client, who then
// thinks. Each turn has the whole conversation as its prompt, and the hash chain
// that lets a prefix cache find it:
//
//	turn 1: system · user₁                      → answer₁
//	turn 2: system · user₁ · answer₁ · user₂    → answer₂
//
// What a turn draws depends on (Seed, session, turn) alone, so compared runs
// have the same conversations; when a turn comes depends on the run. A session
// whose request is rejected or aborted ends there.
type Sessions struct {
	Seed uint64 `doc:"-"`
	// Starts says when the clients send first turns. Limit bounds it.
	Starts Arrivals `doc:"starts"`
	// Source becomes Origin.Source, and keeps the IDs of several workloads apart:
	// from 0 to 32,767.
	Source int `doc:"-"`
	// Class is the index of the class of the requests.
	Class int `doc:"-"`
	// Turns draws the number of turns of a session, at most 65,536 of which are
	// sent; nil means one.
	Turns Length `doc:"turns,opt"`
	// Think draws the time between an answer at the client and the next turn.
	// nil means none.
	Think Delay `doc:"think,opt"`
	// Lengths draws what a turn adds: the user's tokens as Prompt, the answer.
	Lengths Lengths `doc:"lengths"`
	// MaxOutput is what clients ask for at most; 0 means no limit.
	MaxOutput int `doc:"max_output_tokens,opt"`
	// Fresh makes every turn a prompt of its own, without the conversation:
	// clients that send one request after another.
	Fresh bool `doc:"fresh,opt"`
	// System is the length of the system prompt, which sessions of one of Groups
	// (0 means 1) share. Sessions take the groups in turn.
	System int `doc:"system_tokens,opt"`
	Groups int `doc:"groups,opt"`
	// MaxContext ends a session before the turn whose prompt and answer would
	// be longer; 0 means no limit.
	MaxContext int `doc:"max_context_tokens,opt"`
	// PrefixBlock is the block size of the hash chains; 0 makes none.
	PrefixBlock int `doc:"prefix_block_tokens,opt"`
	// Path is the client's side of every request; nil means none.
	Path *sim.Path `doc:"client_path,opt"`
	// Patience says when clients give up.
	Patience sim.Patience `doc:"patience,opt"`

	parts func(session int64) int // turns, in place of Turns
}

// maxTurns is how many turns of a session have an ID.
const maxTurns = 1 << 16

// Validate reports the first invalid field.
func (s Sessions) Validate() error {
	if err := validate("Sessions.Starts", s.Starts); err != nil {
		return err
	}
	if err := validate("Sessions.Lengths", s.Lengths); err != nil {
		return err
	}
	if s.Turns != nil {
		if err := validate("Sessions.Turns", s.Turns); err != nil {
			return err
		}
	}
	if s.Think != nil {
		if err := validate("Sessions.Think", s.Think); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		name        string
		value, most int
	}{
		{"Source", s.Source, 1<<15 - 1}, {"Class", s.Class, math.MaxInt32}, {"MaxOutput", s.MaxOutput, maxTokens}, {"System", s.System, maxTokens},
		{"Groups", s.Groups, math.MaxInt32}, {"MaxContext", s.MaxContext, maxTokens}, {"PrefixBlock", s.PrefixBlock, maxTokens},
	} {
		if f.value < 0 || f.value > f.most {
			return fmt.Errorf("%s is %d, want from 0 to %d", "Sessions."+f.name, f.value, f.most)
		}
	}
	if s.Fresh && s.System > 0 {
		return fmt.Errorf("Sessions.System is %d with Fresh", s.System)
	}
	return nil
}

// SessionRun is the conversations of one run: its Requests go to sim.Run and
// its FollowUp to sim.Config. It is used once.
type SessionRun struct {
	s       Sessions
	lengths *rand.Rand
	think   *rand.Rand
	turns   *rand.Rand
	streams [3]*family
	live    map[int64]*session
	used    bool
}

// session is a conversation under way.
type session struct {
	turns   int
	context int // tokens of the conversation
	chain   []kv.Hash
	ids     []uint64 // scratch
}

// Begin returns the conversations of a run.
func (s Sessions) Begin() (*SessionRun, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	r := &SessionRun{s: s, live: map[int64]*session{}}
	for i, purpose := range []string{"session lengths", "session think", "session turns"} {
		r.streams[i] = newFamily(s.Seed, purpose)
	}
	r.lengths, r.think, r.turns = rand.New(r.streams[0]), rand.New(r.streams[1]), rand.New(r.streams[2])
	return r, nil
}

// Requests yields the first turns, in order of arrival at the engine, which is
// that of the starts. It may be used once.
func (r *SessionRun) Requests() iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		if r.used {
			fail(yield, errors.New("SessionRun.Requests is used twice"))
			return
		}
		r.used = true
		number := int64(0)
		for t, err := range r.s.Starts.Times(rand.New(Stream(r.s.Seed, "session starts", 0))) {
			if err != nil {
				yield(sim.Request{}, err)
				return
			}
			c := &session{turns: 1, context: r.s.System}
			switch {
			case r.s.parts != nil:
				c.turns = r.s.parts(number)
			case r.s.Turns != nil:
				r.streams[2].rewind(uint64(number))
				c.turns = min(r.s.Turns.Draw(r.turns), maxTurns)
			}
			q, ok, err := r.turn(c, number, 0, t)
			if err != nil {
				fail(yield, err)
				return
			}
			number++
			if !ok {
				continue
			}
			if c.turns > 1 {
				r.live[q.Origin.Session] = c
			}
			if !yield(q, nil) {
				return
			}
		}
	}
}

// FollowUp answers the end of a turn with the next.
func (r *SessionRun) FollowUp(done sim.Completion) []sim.Request {
	o := done.Request.Origin
	c := r.live[o.Session]
	if c == nil || o.Source != r.s.Source {
		return nil
	}
	if done.Kind != sim.Finish || o.Turn+1 >= c.turns {
		delete(r.live, o.Session)
		return nil
	}
	if !r.s.Fresh {
		c.context = done.Request.Prompt + done.Output
	}
	send := done.Client.Done
	if r.s.Think != nil {
		r.streams[1].rewind(uint64(o.Session)<<16 | uint64(o.Turn))
		send = send.Add(max(0, r.s.Think.Draw(r.think)))
	}
	q, ok, err := r.turn(c, o.Session, o.Turn+1, send)
	if err != nil || !ok {
		delete(r.live, o.Session)
		return nil
	}
	return []sim.Request{q}
}

// turn makes a turn of a session that its client sends at an instant. ok is
// false if it would be too long.
func (r *SessionRun) turn(c *session, number int64, turn int, send sim.Time) (q sim.Request, ok bool, err error) {
	r.streams[0].rewind(uint64(number)<<16 | uint64(turn))
	n := r.s.Lengths.Draw(r.lengths)
	if n.Prompt < 1 || n.Output < 1 {
		return q, false, fmt.Errorf("Sessions.Lengths drew prompt %d, output %d for turn %d of session %d, want at least 1", n.Prompt, n.Output, turn, number)
	}
	prompt := c.context + n.Prompt
	if r.s.MaxContext > 0 && prompt+n.Output > r.s.MaxContext {
		return q, false, nil
	}
	q = sim.Request{
		ID:      r.s.Source<<48 | int(number)<<16 | turn,
		Arrival: send.Add(r.s.Path.Before()), Prompt: prompt, Output: n.Output, MaxOutput: r.s.MaxOutput,
		Class: r.s.Class, Path: r.s.Path, Patience: r.s.Patience,
		Origin: sim.Origin{Source: r.s.Source, Session: number, Turn: turn},
	}
	if r.s.PrefixBlock > 0 {
		r.extend(c, number, turn, prompt+n.Output)
		q.Prefix, q.PrefixBlock = c.chain, r.s.PrefixBlock
	}
	return q, true, nil
}

// extend lets the chain of a session cover so many tokens. A block that the
// system prompt fills belongs to the group, any other to the session.
func (r *SessionRun) extend(c *session, number int64, turn, tokens int) {
	block := r.s.PrefixBlock
	key := mix(uint64(r.s.Source)<<48 ^ uint64(number)<<1 ^ 1)
	if r.s.Fresh {
		c.chain, key = nil, mix(key^uint64(turn)<<32)
	}
	group := mix(uint64(r.s.Source)<<48 ^ uint64(number%int64(max(1, r.s.Groups)))<<1)
	c.ids = c.ids[:0]
	for i := range tokens / block {
		owner := key
		if (i+1)*block <= r.s.System {
			owner = group
		}
		c.ids = append(c.ids, mix(owner^uint64(i)))
	}
	c.chain = kv.HashIDs(make([]kv.Hash, 0, len(c.ids)), c.ids, "")
}

// Clients are clients in a closed loop: Concurrency of them, each of which sends
// its next request when it has the answer before and has thought, Requests in
// all. Never more than Concurrency are in flight, and where nobody thinks and
// requests are left, as many are.
type Clients struct {
	Seed        uint64       `doc:"-"`
	Concurrency int          `doc:"concurrency"`
	Requests    int          `doc:"requests"`
	Lengths     Lengths      `doc:"lengths"`
	Think       Delay        `doc:"think,opt"`
	Source      int          `doc:"-"`
	Class       int          `doc:"-"`
	MaxOutput   int          `doc:"max_output_tokens,opt"`
	Path        *sim.Path    `doc:"client_path,opt"`
	Patience    sim.Patience `doc:"patience,opt"`
}

// Begin returns the requests of a run. Requests are split evenly; clients whose
// request is rejected or aborted stop.
func (c Clients) Begin() (*SessionRun, error) {
	if err := c.checkNumbers(); err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	return c.sessions().Begin()
}

// Validate reports the first invalid field.
func (c Clients) Validate() error {
	if err := c.checkNumbers(); err != nil {
		return err
	}
	return c.sessions().Validate()
}

func (c Clients) checkNumbers() error {
	if c.Concurrency < 1 || c.Requests < c.Concurrency {
		return fmt.Errorf("Clients.Concurrency is %d of %d Requests, want at least 1 and at most those", c.Concurrency, c.Requests)
	}
	if c.Requests/c.Concurrency >= maxTurns {
		return fmt.Errorf("Clients.Requests is %d, want fewer than %d for each client", c.Requests, maxTurns)
	}
	return nil
}

// sessions are the clients as sessions that have no conversation.
func (c Clients) sessions() Sessions {
	return Sessions{
		Seed: c.Seed, Starts: together(c.Concurrency), Source: c.Source, Class: c.Class, Think: c.Think, Lengths: c.Lengths,
		MaxOutput: c.MaxOutput, Fresh: true, Path: c.Path, Patience: c.Patience,
		parts: func(client int64) int {
			n := c.Requests / c.Concurrency
			if client < int64(c.Requests%c.Concurrency) {
				n++
			}
			return n
		},
	}
}

// together is n arrivals at time 0.
type together int

// Times implements Arrivals.
func (n together) Times(*rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		for range int(n) {
			if !yield(0, nil) {
				return
			}
		}
	}
}
