package workload

import (
	"errors"
	"fmt"
	"time"
)

// Agent is what a client of [Sessions] does by itself between a message of the
// user and its answer: the model calls tools, whose results are appended to the
// conversation, until it calls none. Tools that are called together run in
// parallel, and the next call of the model waits for the slowest.
//
//	call 1: … user₁                                → calls of tools
//	call 2: … user₁ · calls · result · result      → calls of tools
//	call 3: … · result · result · calls · result   → answer₁
//
// Each call of the model has a number of its own as Origin.Turn. The replay files
// of TraceLab (University of Washington, 2026) have 3 to 9 calls, results of 120 to
// 894 tokens (median 482), answers of 60 to 320 (188) and tools that take 51 to
// 599 ms (330).
type Agent struct {
	// Calls draws the calls of the model in a turn.
	Calls Length `doc:"calls"`
	// Output draws the length of an answer that calls tools; nil leaves it to
	// Sessions.Lengths, as that of the last answer is.
	Output Length `doc:"output,opt"`
	// Tools draws how many tools an answer calls at once; nil means one.
	Tools Length `doc:"tools,opt"`
	// Time draws how long a tool takes; nil means no time.
	Time Delay `doc:"tool_time,opt"`
	// Result draws the tokens of a result.
	Result Length `doc:"result"`
}

// Validate reports the first invalid field.
func (a Agent) Validate() error {
	if err := validate("Agent.Calls", a.Calls); err != nil {
		return err
	}
	if err := validate("Agent.Result", a.Result); err != nil {
		return err
	}
	for _, f := range []struct {
		name  string
		given bool
		value any
	}{{"Agent.Output", a.Output != nil, a.Output}, {"Agent.Tools", a.Tools != nil, a.Tools}, {"Agent.Time", a.Time != nil, a.Time}} {
		if f.given {
			if err := validate(f.name, f.value); err != nil {
				return err
			}
		}
	}
	return nil
}

// results draws what the tools that an answer calls append, how long they need,
// and the length of the next answer.
func (r *SessionRun) results(c *session, turn int) (added []Text, output int, needs time.Duration, err error) {
	a := r.s.Agent
	tools := 1
	d := r.tools.at(c.number, turn)
	if a.Tools != nil {
		tools = a.Tools.Draw(d)
	}
	for i := range tools {
		if a.Time != nil {
			needs = max(needs, a.Time.Draw(d))
		}
		added = append(added, Text{ID: r.id(c, turn, firstResult+i), Tokens: max(0, a.Result.Draw(d))})
	}
	output = r.s.Lengths.Draw(r.lengths.at(c.number, turn)).Output
	if c.calls > 1 && a.Output != nil {
		output = a.Output.Draw(r.agent.at(c.number, turn))
	}
	if output < 1 {
		return nil, 0, 0, fmt.Errorf("an answer of %d tokens for turn %d of session %d, want at least 1", output, turn, c.number)
	}
	return added, output, needs, nil
}

// Compaction lets [Sessions] go on where the conversation has become long: before
// a request whose prompt and answer would be longer than At it is cut to the
// preamble, a summary and its last Keep tokens. What stands behind the preamble
// then is not found in a prefix cache. A request that is longer all the same is
// sent, up to Sessions.MaxContext.
type Compaction struct {
	At   int `doc:"at_tokens"`       // at least 1
	Keep int `doc:"keep_tokens,opt"` // below At
	// Summary draws the tokens of the summary. The model writes it: a request of
	// its own has the conversation and Ask tokens more as its prompt, and what
	// was to be sent follows its answer. It too must not be longer than
	// Sessions.MaxContext. nil leaves out without a summary.
	Summary Length `doc:"summary,opt"`
	Ask     int    `doc:"ask_tokens,opt"`
}

// Validate reports the first invalid field.
func (c Compaction) Validate() error {
	switch {
	case c.At < 1 || c.At > maxTokens:
		return fmt.Errorf("Compaction.At is %d, want from 1 to %d", c.At, maxTokens)
	case c.Keep < 0 || c.Keep >= c.At:
		return fmt.Errorf("Compaction.Keep is %d, want from 0 to below At, %d", c.Keep, c.At)
	case c.Summary == nil && c.Ask != 0:
		return errors.New("Compaction.Ask without a Summary")
	case c.Summary != nil:
		if err := validate("Compaction.Summary", c.Summary); err != nil {
			return err
		}
	}
	return checkTokens("Compaction.Ask", c.Ask)
}
