package workload

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"servesim/sim"
)

// TraceLab is a recording of sessions in the format of TraceLab's replay files
// of coding agents (University of Washington, 2026): a CSV file, plain or
// gzip, whose header names the columns session_id (or id), arrival_time (of
// the session, ms), round_idx (from 0), prefix_len, input_len, output_len and
// tool_wait_after_ms, in any order and among others. A round's prompt is
// prefix_len tokens of what the session said before and input_len others.
//
// The rows of a session follow each other, by round, and sessions are in order
// of arrival. Everything else that is wrong ends the sequence with an error
// that names file, line, column and value.
type TraceLab struct {
	// Path names the file, and the input in errors, and salts the prefixes.
	Path string `doc:"path"`
	// Open opens the input, once for each iteration. nil opens Path.
	Open func() (io.ReadCloser, error) `doc:"-"`
	// Class is the class of all requests.
	Class sim.Class `doc:"-"`
	// BlockTokens is the number of tokens of a block of the prefixes of
	// Requests. 0 means [sim.DefaultBlockTokens].
	BlockTokens int `doc:"block_tokens,opt"`
	// OpenLoop says how long a round is taken to need from arrival to last
	// token, for Requests.
	OpenLoop func(TraceLabRound) time.Duration `doc:"-"`
	// Sort accepts sessions, and rounds in a session, in any order, for which
	// it holds the whole file.
	Sort bool `doc:"sort,opt"`
	// Counts, if not nil, is what an iteration of Requests has done so far: it
	// is reset at its start.
	Counts *Counts `doc:"-"`
}

// TraceLabSession is a session of a recording: a client that waits for the
// answer of each round and then for its tools before it sends the next.
type TraceLabSession struct {
	ID      string
	Arrival sim.Time // of the first round, since the first session
	Rounds  []TraceLabRound

	salt string // of the prefixes, besides ID
	line int    // of the first row
}

// TraceLabRound is one request of a session.
type TraceLabRound struct {
	Row    int           // its number in the file, from 0
	Prefix int           // tokens of the prompt that were in the session before
	Input  int           // tokens that are appended
	Output int           // tokens of the answer
	Wait   time.Duration // from the answer to the next round
}

// Validate reports an invalid field.
func (t TraceLab) Validate() error {
	if t.BlockTokens < 0 || t.BlockTokens > maxTokens {
		return fmt.Errorf("TraceLab.BlockTokens is %d, want 0 to %d", t.BlockTokens, maxTokens)
	}
	return nil
}

// Classes returns the one class of the recording, for sim.Config.Classes.
func (t TraceLab) Classes() []sim.Class { return []sim.Class{t.Class} }

// Sessions yields the sessions of the recording as they are read: everything
// that is in it. Each iteration opens the input anew, and holds the ids of the
// sessions.
func (t TraceLab) Sessions() iter.Seq2[TraceLabSession, error] {
	return func(yield func(TraceLabSession, error) bool) {
		read := t.inOrder
		if t.Sort {
			read = t.sorted
		}
		err := t.Validate()
		if err == nil {
			err = read(func(s TraceLabSession) bool { return yield(s, nil) })
		}
		if err != nil {
			fail(yield, err)
		}
	}
}

func (t TraceLab) inOrder(yield func(TraceLabSession) bool) error {
	var s TraceLabSession
	var origin, last sim.Time
	seen := map[string]bool{}
	stopped := false
	emit := func() error {
		if len(seen) == 1 {
			origin, last = s.Arrival, s.Arrival
		}
		if s.Arrival < last {
			return orderError(fmt.Sprintf("%s:%d: session %q arrives at %v, after one at %v (Sort accepts that)",
				t.Path, s.line, s.ID, time.Duration(s.Arrival), time.Duration(last)))
		}
		last = s.Arrival
		s.Arrival -= origin
		stopped = !yield(s)
		return nil
	}
	err := t.rows(func(r traceLabRow) (bool, error) {
		if r.session != s.ID {
			if s.ID != "" {
				if err := emit(); err != nil || stopped {
					return false, err
				}
			}
			if seen[r.session] {
				return false, orderError(fmt.Sprintf("%s:%d: session %q goes on after others (Sort accepts that)", t.Path, r.line, r.session))
			}
			seen[r.session] = true
			s = TraceLabSession{ID: r.session, Arrival: r.arrival, salt: t.Path, line: r.line}
		}
		if err := t.check(&s, r); err != nil {
			return false, err
		}
		s.Rounds = append(s.Rounds, r.TraceLabRound)
		return true, nil
	})
	if err != nil || stopped {
		return err
	}
	return emit()
}

// check reports a row that is not the next of its session.
func (t TraceLab) check(s *TraceLabSession, r traceLabRow) error {
	switch {
	case r.round < len(s.Rounds):
		return orderError(fmt.Sprintf("%s:%d: round_idx %d of session %q comes after %d (Sort accepts that unless it is there twice)",
			t.Path, r.line, r.round, r.session, len(s.Rounds)-1))
	case r.round > len(s.Rounds):
		return orderError(fmt.Sprintf("%s:%d: round_idx %d of session %q comes before %d (Sort accepts that unless one is missing)",
			t.Path, r.line, r.round, r.session, len(s.Rounds)))
	case r.arrival != s.Arrival:
		return fmt.Errorf("%s:%d: arrival_time %v of session %q was %v in an earlier row",
			t.Path, r.line, time.Duration(r.arrival), r.session, time.Duration(s.Arrival))
	}
	return nil
}

func (t TraceLab) sorted(yield func(TraceLabSession) bool) error {
	bySession := map[string]int{}
	var rows [][]traceLabRow
	err := t.rows(func(r traceLabRow) (bool, error) {
		i, ok := bySession[r.session]
		if !ok {
			i = len(rows)
			bySession[r.session] = i
			rows = append(rows, nil)
		}
		rows[i] = append(rows[i], r)
		return true, nil
	})
	if err != nil {
		return err
	}
	origin := sim.Never
	for _, of := range rows {
		slices.SortStableFunc(of, func(a, b traceLabRow) int { return cmp.Compare(a.round, b.round) })
		origin = min(origin, of[0].arrival)
	}
	slices.SortStableFunc(rows, func(a, b []traceLabRow) int { return cmp.Compare(a[0].arrival, b[0].arrival) })
	for _, of := range rows {
		s := TraceLabSession{ID: of[0].session, Arrival: of[0].arrival, salt: t.Path, line: of[0].line}
		for i, r := range of {
			if i > 0 && r.round == of[i-1].round {
				return fmt.Errorf("%s:%d: round_idx %d of session %q is that of line %d", t.Path, r.line, r.round, r.session, of[i-1].line)
			}
			if r.round != i {
				return fmt.Errorf("%s:%d: round_idx %d of session %q follows %d", t.Path, r.line, r.round, r.session, i-1)
			}
			if err := t.check(&s, r); err != nil {
				return err
			}
			s.Rounds = append(s.Rounds, r.TraceLabRound)
		}
		s.Arrival -= origin
		if !yield(s) {
			return nil
		}
	}
	return nil
}

// Prompt is the number of tokens of the prompt.
func (r TraceLabRound) Prompt() int { return r.Prefix + r.Input }

// Requests returns the rounds as requests with their row as ID, which all
// arrive with the session: who replays it, as [TraceLabReplay] does, sends a later
// one at the end of its predecessor and its Wait. Rounds without prompt or output are among them,
// which no engine takes.
//
// Request.Prefix is the chain of blocks of that many tokens, at least 1, of
// prompt and answer. The first Prefix tokens of a prompt are the first of what
// was said before; those that were not said, as where a recording begins in
// the middle of a session, are the session's own.
func (s TraceLabSession) Requests(blockTokens int) []sim.Request {
	if blockTokens < 1 {
		panic("workload: TraceLabSession.Requests with blocks of no tokens")
	}
	out := make([]sim.Request, 0, len(s.Rounds))
	c := transcript{block: blockTokens, salt: s.salt + "\n" + s.ID}
	for i, r := range s.Rounds {
		c.keep(r.Prefix)
		c.add(Text{ID: uint64(i), Tokens: r.Prompt() + r.Output - c.tokens})
		out = append(out, sim.Request{
			ID: r.Row, Arrival: s.Arrival, Prompt: r.Prompt(), Output: r.Output,
			Prefix: slices.Clip(c.hash()), PrefixBlock: blockTokens,
		})
	}
	return out
}
