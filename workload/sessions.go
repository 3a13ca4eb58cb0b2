package workload

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"servesim/sim"
)

// Sessions are conversations. They begin as an open loop; inside one the next
// turn is sent when the answer before it has reached its client, who then
// thinks. Each turn has the whole conversation as its prompt, and the hash chain
// that lets a prefix cache find it:
//
//	turn 1: system · preamble · user₁                      → answer₁
//	turn 2: system · preamble · user₁ · answer₁ · user₂    → answer₂
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
	// Turns draws the number of turns of a session; nil means one. A session has
	// at most 65,536 requests.
	Turns Length `doc:"turns,opt"`
	// Think draws the time between an answer at the client and the next turn.
	// nil means none.
	Think Delay `doc:"think,opt"`
	// Lengths draws what a turn adds: the user's tokens as Prompt, the answer.
	Lengths Lengths `doc:"lengths"`
	// Agent makes several requests of a turn; nil means one.
	Agent *Agent `doc:"agent,opt"`
	// MaxOutput is what clients ask for at most; 0 means no limit.
	MaxOutput int `doc:"max_output_tokens,opt"`
	// Fresh makes every turn a prompt of its own, without the conversation:
	// clients that send one request after another.
	Fresh bool `doc:"fresh,opt"`
	// System is the length of the system prompt, which sessions of one of Groups
	// (0 means 1) share. Sessions take the groups in turn.
	System int `doc:"system_tokens,opt"`
	Groups int `doc:"groups,opt"`
	// Preamble draws the texts behind the system prompt, once for a session, or
	// for each turn if Fresh; nil means none.
	Preamble Preamble `doc:"preamble,opt"`
	// Attach draws texts in front of the user's tokens of each turn, such as
	// passages that were retrieved for it; nil means none.
	Attach Preamble `doc:"attach,opt"`
	// Texts is the name of what the system prompt, Preamble and Attach take their
	// texts from: Sessions of one name have them in common. By default those of
	// each Source have their own.
	Texts string `doc:"texts,opt"`
	// MaxContext ends a session before a request whose prompt and answer would
	// be longer; 0 means no limit. Compaction lets it go on.
	MaxContext int         `doc:"max_context_tokens,opt"`
	Compaction *Compaction `doc:"compaction,opt"`
	// PrefixBlock is the block size of the hash chains; 0 makes none.
	PrefixBlock int `doc:"prefix_block_tokens,opt"`
	// Path is the client's side of every request; nil means none.
	Path *sim.Path `doc:"client_path,opt"`
	// Patience says when clients give up.
	Patience sim.Patience `doc:"patience,opt"`

	parts func(session int64) int // turns, in place of Turns
	part  string                  // of a Document
}

// maxTurns is how many requests of a session have an ID.
const maxTurns = 1 << 16

// Validate reports the first invalid field.
func (s Sessions) Validate() error {
	if err := validate("Sessions.Starts", s.Starts); err != nil {
		return err
	}
	if err := validate("Sessions.Lengths", s.Lengths); err != nil {
		return err
	}
	for _, f := range []struct {
		name  string
		given bool
		value any
	}{
		{"Turns", s.Turns != nil, s.Turns}, {"Think", s.Think != nil, s.Think}, {"Agent", s.Agent != nil, s.Agent},
		{"Preamble", s.Preamble != nil, s.Preamble}, {"Attach", s.Attach != nil, s.Attach}, {"Compaction", s.Compaction != nil, s.Compaction},
	} {
		if f.given {
			if err := validate("Sessions."+f.name, f.value); err != nil {
				return err
			}
		}
	}
	for _, f := range []struct {
		name        string
		value, most int
	}{
		{"Source", s.Source, 1<<15 - 1}, {"Class", s.Class, math.MaxInt32}, {"MaxOutput", s.MaxOutput, maxTokens}, {"System", s.System, maxTokens},
		{"Groups", s.Groups, maxRanks}, {"MaxContext", s.MaxContext, maxTokens}, {"PrefixBlock", s.PrefixBlock, maxTokens},
	} {
		if f.value < 0 || f.value > f.most {
			return fmt.Errorf("%s is %d, want from 0 to %d", "Sessions."+f.name, f.value, f.most)
		}
	}
	switch {
	case s.Fresh && s.Agent != nil:
		return errors.New("Sessions.Fresh with an Agent, whose requests are a conversation")
	case s.Fresh && s.Compaction != nil:
		return errors.New("Sessions.Fresh with a Compaction of the conversation that there is not")
	case s.Compaction != nil && s.MaxContext > 0 && s.Compaction.At > s.MaxContext:
		return fmt.Errorf("%s is %d, above Sessions.MaxContext %d", "Sessions.Compaction.At", s.Compaction.At, s.MaxContext)
	}
	return nil
}

// SessionRun is the conversations of one run: its Requests go to sim.Run and
// its FollowUp to sim.Config. It is used once.
type SessionRun struct {
	s    Sessions
	live map[int64]*session
	used bool

	lengths, think, turns, agent, tools, preamble, attach draws

	front, behind func(dst []Text, n int64, r *rand.Rand) []Text // preamble and attachment; behind may be nil
	salt          string
	own           uint64 // of the IDs of texts that sessions do not share
}

// draws is the streams of one purpose.
type draws struct {
	*family
	*rand.Rand
}

// at returns the stream of a request, or with turn 0 of a session.
func (d draws) at(session int64, turn int) *rand.Rand {
	d.rewind(uint64(session)<<16 | uint64(turn))
	return d.Rand
}

// session is a conversation under way.
type session struct {
	number int64
	turns  int        // of the user, with this one
	calls  int        // of the model in this turn, with this one
	text   transcript // what was said
	front  int        // tokens of the preamble in it
	wait   *waiting   // what is sent behind a summary
}

// waiting is a request that waits for a summary.
type waiting struct {
	added  []Text
	output int
	tail   []Text // what stays of the conversation
}

// Begin returns the conversations of a run.
func (s Sessions) Begin() (*SessionRun, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	r := &SessionRun{s: s, live: map[int64]*session{}, salt: "texts " + s.Texts}
	if s.Texts == "" {
		r.salt = fmt.Sprintf("source %d", s.Source)
		if s.part != "" {
			r.salt = fmt.Sprintf("source %q", s.part)
		}
	}
	for purpose, d := range map[string]*draws{
		"session lengths": &r.lengths, "session think": &r.think, "session turns": &r.turns, "session agent": &r.agent,
		"session tools": &r.tools, "session preamble": &r.preamble, "session attachment": &r.attach,
	} {
		f := newFamily(s.Seed, purpose)
		*d = draws{f, rand.New(f)}
	}
	r.own = mix(newFamily(s.Seed, "session texts "+s.part).key0 ^ uint64(s.Source))
	front := Preambles{SystemPrompts{Tokens: s.System, Groups: s.Groups}, Unshared(0), Unshared(0)}
	if s.Preamble != nil {
		front[1] = s.Preamble
	}
	r.front = front.Begin(s.Seed)
	if s.Attach != nil {
		r.behind = Preambles{Unshared(0), Unshared(0), s.Attach}.Begin(s.Seed)
	}
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
			c := &session{number: number, turns: 1}
			switch {
			case r.s.parts != nil:
				c.turns = r.s.parts(number)
			case r.s.Turns != nil:
				c.turns = r.s.Turns.Draw(r.turns.at(number, 0))
			}
			number++
			added, output, err := r.message(c, 0)
			if err != nil {
				fail(yield, err)
				return
			}
			q, ok := r.send(c, 0, added, output, t)
			if !ok {
				continue
			}
			if c.turns > 1 || c.calls > 1 || c.wait != nil {
				r.live[c.number] = c
			}
			if !yield(q, nil) {
				return
			}
		}
	}
}

// FollowUp answers the end of a request with the next of its session. It knows
// its requests by Origin and ID: others, such as those of an open-loop stream
// without an Origin, lead to nothing.
func (r *SessionRun) FollowUp(done sim.Completion) []sim.Request {
	o := done.Request.Origin
	c := r.live[o.Session]
	if c == nil || o.Source != r.s.Source || done.Request.ID != r.requestID(o.Session, o.Turn) {
		return nil
	}
	if done.Kind == sim.Finish && o.Turn+1 < maxTurns {
		if q, ok := r.next(c, done); ok {
			return []sim.Request{q}
		}
	}
	delete(r.live, o.Session)
	return nil
}

// next returns the request that follows an answer. ok is false at the end of the
// session.
func (r *SessionRun) next(c *session, done sim.Completion) (q sim.Request, ok bool) {
	turn, send := done.Request.Origin.Turn+1, done.Client.Done
	c.text.keep(done.Request.Prompt + done.Output)
	if w := c.wait; w != nil {
		c.wait = nil
		c.cut(Text{ID: r.id(c, turn-1, answer), Tokens: done.Output}, w.tail)
		return r.request(c, turn, w.added, w.output, send)
	}
	var added []Text
	var output int
	var err error
	switch {
	case c.calls > 1:
		c.calls--
		var needs time.Duration
		added, output, needs, err = r.results(c, turn)
		send = send.Add(needs)
	case c.turns > 1:
		c.turns--
		if r.s.Think != nil {
			send = send.Add(max(0, r.s.Think.Draw(r.think.at(c.number, turn-1))))
		}
		added, output, err = r.message(c, turn)
	default:
		return q, false
	}
	if err != nil {
		return q, false
	}
	return r.send(c, turn, added, output, send)
}

// The texts of a request that are its own. Results of tools come behind these.
const (
	said = iota
	answer
	firstResult
)

// id names a text of a request.
func (r *SessionRun) id(c *session, turn, text int) uint64 {
	return mix(mix(r.own^uint64(c.number)) ^ uint64(turn)<<32 ^ uint64(text))
}

func (r *SessionRun) requestID(session int64, turn int) int {
	return r.s.Source<<48 | int(session)<<16 | turn
}

// message draws what the user sends, and the length of the answer.
func (r *SessionRun) message(c *session, turn int) (added []Text, output int, err error) {
	if turn == 0 || r.s.Fresh {
		c.text = transcript{block: r.s.PrefixBlock, salt: r.salt}
		n := c.number
		if r.s.Fresh {
			n = n<<16 | int64(turn)
		}
		c.text.texts = r.front(nil, n, r.preamble.at(c.number, turn))
		if err := c.text.measure(); err != nil {
			return nil, 0, fmt.Errorf("Sessions.Preamble drew %w for session %d", err, c.number)
		}
		c.front = c.text.tokens
	}
	if r.behind != nil {
		added = r.behind(nil, c.number<<16|int64(turn), r.attach.at(c.number, turn))
		if err := (&transcript{texts: added}).measure(); err != nil {
			return nil, 0, fmt.Errorf("Sessions.Attach drew %w for turn %d of session %d", err, turn, c.number)
		}
	}
	n := r.s.Lengths.Draw(r.lengths.at(c.number, turn))
	if n.Prompt < 1 || n.Output < 1 {
		return nil, 0, fmt.Errorf("Sessions.Lengths drew prompt %d, output %d for turn %d of session %d, want at least 1", n.Prompt, n.Output, turn, c.number)
	}
	c.calls = 1
	if a := r.s.Agent; a != nil {
		d := r.agent.at(c.number, turn)
		if c.calls = a.Calls.Draw(d); c.calls > 1 && a.Output != nil {
			n.Output = max(1, a.Output.Draw(d))
		}
	}
	return append(added, Text{ID: r.id(c, turn, said), Tokens: n.Prompt}), n.Output, nil
}

// send makes the request of a session that its client sends at an instant, or
// first that for a summary. ok is false if it would be too long.
func (r *SessionRun) send(c *session, turn int, added []Text, output int, at sim.Time) (q sim.Request, ok bool) {
	p := r.s.Compaction
	if p == nil || c.text.tokens+count(added)+output <= p.At || c.text.tokens == c.front {
		return r.request(c, turn, added, output, at)
	}
	tail := c.text.last(min(p.Keep, c.text.tokens-c.front))
	if p.Summary == nil {
		c.cut(Text{}, tail)
		return r.request(c, turn, added, output, at)
	}
	c.wait = &waiting{added: added, output: output, tail: tail}
	summary := max(1, p.Summary.Draw(r.agent.at(c.number, turn)))
	return r.request(c, turn, []Text{{ID: r.id(c, turn, said), Tokens: p.Ask}}, summary, at)
}

func count(texts []Text) (tokens int) {
	for _, x := range texts {
		tokens += x.Tokens
	}
	return tokens
}

// cut leaves the preamble, a summary and a tail of what was said.
func (c *session) cut(summary Text, tail []Text) {
	c.text.keep(c.front)
	c.text.add(summary)
	for _, x := range tail {
		c.text.add(x)
	}
}

// request makes a request, whose answer is part of the conversation. ok is false
// if it would be too long.
func (r *SessionRun) request(c *session, turn int, added []Text, output int, send sim.Time) (q sim.Request, ok bool) {
	for _, x := range added {
		c.text.add(x)
	}
	prompt := c.text.tokens
	if longest := r.s.MaxContext; longest > 0 && prompt+output > longest || prompt > maxTokens {
		return q, false
	}
	c.text.add(Text{ID: r.id(c, turn, answer), Tokens: output})
	q = sim.Request{
		ID:      r.requestID(c.number, turn),
		Arrival: send.Add(r.s.Path.Before()), Prompt: prompt, Output: output, MaxOutput: r.s.MaxOutput,
		Class: r.s.Class, Path: r.s.Path, Patience: r.s.Patience,
		Origin: sim.Origin{Source: r.s.Source, Session: c.number, Turn: turn},
	}
	if r.s.PrefixBlock > 0 {
		q.Prefix, q.PrefixBlock = slices.Clip(c.text.hash()), r.s.PrefixBlock
	}
	return q, true
}

// Clients are clients in a closed loop: Concurrency of them, each of which sends
// its next request when it has the answer before and has thought, Requests in
// all. Never more than Concurrency are in flight, and where nobody thinks and
// requests are left, as many are.
type Clients struct {
	Seed        uint64  `doc:"-"`
	Concurrency int     `doc:"concurrency"`
	Requests    int     `doc:"requests"`
	Lengths     Lengths `doc:"lengths"`
	Think       Delay   `doc:"think,opt"`
	Source      int     `doc:"-"`
	Class       int     `doc:"-"`
	MaxOutput   int     `doc:"max_output_tokens,opt"`
	// Preamble draws the texts in front of each request, and Texts and
	// PrefixBlock are as in [Sessions].
	Preamble    Preamble     `doc:"preamble,opt"`
	Texts       string       `doc:"texts,opt"`
	PrefixBlock int          `doc:"prefix_block_tokens,opt"`
	Path        *sim.Path    `doc:"client_path,opt"`
	Patience    sim.Patience `doc:"patience,opt"`

	part string // of a Document
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
		MaxOutput: c.MaxOutput, Fresh: true, Preamble: c.Preamble, Texts: c.Texts, PrefixBlock: c.PrefixBlock, Path: c.Path, Patience: c.Patience,
		part: c.part,
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
