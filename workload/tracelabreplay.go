package workload

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"iter"
	"time"

	"servesim/sim"
)

// TraceLabReplay replays a recording in closed loop inside sessions: they begin
// when they were recorded, and each other round is sent when the answer before it
// has reached its client and its tools are done. What a session does thus depends
// on the engine, as it did where it was recorded; [TraceLab.Requests] replays in
// open loop.
type TraceLabReplay struct {
	// Recording is what is replayed; its OpenLoop does nothing here. Rounds
	// without prompt or output are dropped and counted; the time of their tools
	// passes.
	Recording TraceLab `doc:",inline"`
	// Source becomes Origin.Source, and keeps the IDs of several workloads apart:
	// from 0 to 32,767.
	Source int `doc:"-"`
	// Class is the index of the class of the requests.
	Class int `doc:"-"`
	// Path is the client's side of every request; nil means none.
	Path *sim.Path `doc:"client_path,opt"`
	// Patience says when clients give up. A session ends there.
	Patience sim.Patience `doc:"patience,opt"`
}

// TraceLabRun is the replay of one run: its Requests go to sim.Run and its
// FollowUp to sim.Config. It is used once.
type TraceLabRun struct {
	r    TraceLabReplay
	live map[int64]*labSessionRun
	used bool
}

// labSessionRun is a session under way.
type labSessionRun struct {
	rounds   []TraceLabRound
	requests []sim.Request
	next     int
}

// Validate reports the first invalid field.
func (r TraceLabReplay) Validate() error {
	if err := r.Recording.Validate(); err != nil {
		return fmt.Errorf("%s: %w", "TraceLabReplay.Recording", err)
	}
	if r.Source < 0 || r.Source > 1<<15-1 {
		return fmt.Errorf("%s is %d, want from 0 to %d", "TraceLabReplay.Source", r.Source, 1<<15-1)
	}
	return nil
}

// Begin returns the replay of a run.
func (r TraceLabReplay) Begin() (*TraceLabRun, error) {
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	return &TraceLabRun{r: r, live: map[int64]*labSessionRun{}}, nil
}

// Requests yields the first round of each session that the engine can take. The
// ID of a request is its row, Origin.Session the number of the session and
// Origin.Turn that of the round. It may be used once.
func (r *TraceLabRun) Requests() iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		if r.used {
			fail(yield, errors.New("TraceLabRun.Requests is used twice"))
			return
		}
		r.used = true
		counts := resetCounts(r.r.Recording.Counts)
		var begun rounds // those whose session began with a round that is dropped come later
		number := int64(0)
		for s, err := range r.r.Recording.Sessions() {
			if err != nil {
				yield(sim.Request{}, err)
				return
			}
			if !begun.emitBefore(s.Arrival.Add(r.r.Path.Before()), yield) {
				return
			}
			c := &labSessionRun{requests: s.Requests(cmp.Or(r.r.Recording.BlockTokens, sim.DefaultBlockTokens))}
			var lost time.Duration // of rounds that are dropped
			kept := c.requests[:0]
			for i, round := range s.Rounds {
				q := c.requests[i]
				if !counts.add(&row{prompt: round.Prompt(), output: round.Output}) {
					if n := len(c.rounds); n > 0 {
						c.rounds[n-1].Wait += round.Wait
					} else {
						lost += round.Wait
					}
					continue
				}
				q.ID |= r.r.Source << 48
				q.Class, q.Path, q.Patience = r.r.Class, r.r.Path, r.r.Patience
				q.Origin = sim.Origin{Source: r.r.Source, Session: number, Turn: i}
				c.rounds, kept = append(c.rounds, round), append(kept, q)
			}
			c.requests = kept
			if len(kept) > 0 {
				c.next = 1
				first := kept[0]
				first.Arrival = s.Arrival.Add(lost).Add(r.r.Path.Before())
				heap.Push(&begun, first)
				if len(kept) > 1 {
					r.live[number] = c
				}
			}
			number++
		}
		begun.emitBefore(sim.Never, yield)
	}
}

// FollowUp answers the end of a round with the next of its session, and no
// requests of others.
func (r *TraceLabRun) FollowUp(done sim.Completion) []sim.Request {
	o := done.Request.Origin
	c := r.live[o.Session]
	if c == nil || o.Source != r.r.Source || done.Request.ID != c.requests[c.next-1].ID {
		return nil
	}
	if done.Kind != sim.Finish {
		delete(r.live, o.Session)
		return nil
	}
	q := c.requests[c.next]
	q.Arrival = done.Client.Done.Add(c.rounds[c.next-1].Wait).Add(r.r.Path.Before())
	if c.next++; c.next == len(c.requests) {
		delete(r.live, o.Session)
	}
	return []sim.Request{q}
}
