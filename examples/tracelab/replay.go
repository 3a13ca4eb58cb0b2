package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"servesim/costmodel"
	"servesim/scheduler"
	"servesim/sim"
	"servesim/workload"
)

// replay is a recording of sessions and what serves it.
type replay struct {
	Path  string `json:"file"`
	Model string `json:"model"`
	GPU   string `json:"gpu"`
	// PerToken is what the open loop takes an answer to need, a token.
	PerToken time.Duration `json:"-"`
	GuessMs  float64       `json:"open_loop_guess_ms_per_token"`
	Speeds   []float64     `json:"speeds"` // at which sessions arrive

	Sessions int `json:"sessions"`
	Rounds   int `json:"rounds"`
	Dropped  int `json:"rounds_without_prompt_or_output"`
}

func defaultReplay() replay {
	return replay{Model: "Llama-3.1-8B", GPU: "H100", PerToken: 8 * time.Millisecond, Speeds: []float64{1, 4, 16}}
}

// What the replica takes at most.
const (
	maxSeqs     = 64
	maxModelLen = 65_536
	stepTokens  = 2048
)

// loop is how the rounds of a session follow each other.
type loop string

const (
	closedLoop loop = "closed" // a round is sent when the answer before it has come and its tools are done
	openLoop   loop = "open"   // at the instant that a guess of the answer's time gives: no feedback
)

// replayed is one run of the recording.
type replayed struct {
	Speed    float64 `json:"speed"`
	Loop     loop    `json:"loop"`
	Rejected int     `json:"rejected"` // too long for the replica
	table
}

// round is a request of a session.
type round struct {
	sim.Request
	pause time.Duration // to the next round, behind the answer
}

// read reads the sessions. Rounds without prompt or output are dropped; what
// comes behind them waits for their tools too.
func (p *replay) read() ([][]round, error) {
	var sessions [][]round
	recording := workload.TraceLab{Path: p.Path}
	for s, err := range recording.Sessions() {
		if err != nil {
			return nil, err
		}
		p.Sessions++
		var rounds []round
		for i, q := range s.Requests(sim.DefaultBlockTokens) {
			r := round{q, s.Rounds[i].Wait}
			p.Rounds++
			if q.Prompt > 0 && q.Output > 0 {
				rounds = append(rounds, r)
				continue
			}
			p.Dropped++
			if n := len(rounds); n > 0 {
				rounds[n-1].pause += r.pause
			}
		}
		if rounds != nil {
			sessions = append(sessions, rounds)
		}
	}
	return sessions, nil
}

// replays runs the recording at each speed in both loops.
func (p *replay) replays(ctx context.Context) ([]replayed, error) {
	sessions, err := p.read()
	if err != nil {
		return nil, err
	}
	p.GuessMs = float64(p.PerToken) / 1e6
	replica, err := p.replica()
	if err != nil {
		return nil, err
	}
	var out []replayed
	for _, speed := range p.Speeds {
		for _, l := range []loop{closedLoop, openLoop} {
			x, err := p.run(ctx, sessions, speed, l, replica)
			if err != nil {
				return nil, fmt.Errorf("%s loop at speed %v: %w", l, speed, err)
			}
			x.Rows = nil // hundreds
			out = append(out, x)
		}
	}
	return out, nil
}

// replica looks model and GPU up, and gives the KV cache what fits.
func (p *replay) replica() (sim.Replica, error) {
	setup, err := costmodel.NewSetup(p.Model, p.GPU)
	if err != nil {
		return sim.Replica{}, err
	}
	p.Model, p.GPU = setup.Model.Name, setup.GPU.Name
	cost, err := costmodel.NewTransformer(setup)
	if err != nil {
		return sim.Replica{}, err
	}
	kv, err := setup.KVCapacity(costmodel.KVBudget{Sequences: maxSeqs, BatchTokens: maxModelLen})
	return sim.Replica{
		Scheduler: scheduler.ChunkedPrefill{}, CostModel: cost, KVBlocks: kv.Blocks, PrefixCache: true,
		MaxSeqs: maxSeqs, MaxModelLen: maxModelLen, MaxBatchTokens: stepTokens,
	}, err
}

// run replays the sessions, which arrive speed times as fast; what lies within
// a session keeps its time.
func (p *replay) run(ctx context.Context, sessions [][]round, speed float64, l loop, replica sim.Replica) (replayed, error) {
	requests, next := p.requests(sessions, speed, l)
	var done []request
	cfg := sim.Config{Replicas: []sim.Replica{replica}, TokenTimes: true}
	cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
		if e.Kind == sim.Finish {
			t := &e.Timeline
			done = append(done, request{fmt.Sprint(e.ID), t.Arrival, t.Admitted, t.PrefillEnd, e.TokenTimes(nil)})
		}
	})}
	cfg.FollowUp = func(c sim.Completion) []sim.Request {
		r, ok := next[c.Request.ID]
		if !ok {
			return nil
		}
		r.Arrival = c.Client.Done.Add(r.pause)
		return []sim.Request{r.Request}
	}
	result, err := sim.Run(ctx, cfg, workload.FromSlice(requests))
	if err != nil {
		return replayed{}, err
	}
	x := replayed{Speed: speed, Loop: l, Rejected: int(result.Rejected)}
	x.table, err = tabulate(done)
	return x, err
}

// requests returns what is sent whatever the engine does, in order of arrival,
// and what follows the end of a round: all others in the closed loop, with the
// pause before them, nothing in the open one.
func (p *replay) requests(sessions [][]round, speed float64, l loop) (sent []sim.Request, next map[int]round) {
	next = map[int]round{}
	for _, rounds := range sessions {
		t := sim.Time(math.Round(float64(rounds[0].Arrival) / speed))
		for i, r := range rounds {
			r.Arrival = t
			if i == 0 || l == openLoop {
				sent = append(sent, r.Request)
			} else {
				before := rounds[i-1]
				next[before.ID] = round{r.Request, before.pause}
			}
			t = t.Add(time.Duration(r.Output)*p.PerToken + r.pause)
		}
	}
	slices.SortStableFunc(sent, func(a, b sim.Request) int {
		return cmp.Or(cmp.Compare(a.Arrival, b.Arrival), cmp.Compare(a.ID, b.ID))
	})
	return sent, next
}
