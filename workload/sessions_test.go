package workload_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/workload"
)

// busyReplica takes 1 ms a step and 10 µs per prompt token more.
func busyReplica() sim.Replica {
	return sim.Replica{
		Scheduler: scheduler.ChunkedPrefill{}, MaxBatchTokens: 512, KVBlocks: 20_000, PrefixCache: true,
		CostModel: sim.CostFunc(func(b sim.Batch) time.Duration {
			return time.Millisecond + time.Duration(b.PrefillTokens())*10*time.Microsecond
		}),
	}
}

func conversation() workload.Sessions {
	return workload.Sessions{
		Seed: 7, Starts: workload.Limit{Arrivals: workload.Poisson{Rate: 20}, Count: 200}, Turns: workload.LogNormal{Median: 3, Sigma: 0.5, Min: 1, Max: 9},
		Think: workload.LogNormalDelay{Median: 2 * time.Second, Sigma: 1}, Lengths: workload.Tokens{Prompt: 40, Output: 30},
		System: 100, Groups: 3, PrefixBlock: 16, MaxContext: 600,
		Path: &sim.Path{NetworkIn: 20 * time.Millisecond, NetworkOut: 30 * time.Millisecond, Tail: time.Millisecond},
	}
}

func runSessions(t *testing.T, s workload.Sessions, observe func(sim.Event)) sim.Result {
	t.Helper()
	run, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	cfg := sim.Config{Replicas: []sim.Replica{busyReplica()}, FollowUp: run.FollowUp, Observers: []sim.Observer{sim.ObserverFunc(observe)}}
	res, err := sim.Run(context.Background(), cfg, run.Requests())
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// The next turn never comes before its client had the answer and has thought,
// and has the conversation so far in front.
func TestSessionFeedback(t *testing.T) {
	type turn struct {
		done    sim.Time
		context int
	}
	last := map[int64]turn{}
	turns, thought := 0, time.Duration(0)
	s := conversation()
	path := s.Path.Before()
	res := runSessions(t, s, func(e sim.Event) {
		o := e.Origin()
		switch e.Kind {
		case sim.Arrive:
			before, known := last[o.Session]
			if known != (o.Turn > 0) {
				t.Fatalf("turn %d of session %d, known %v", o.Turn, o.Session, known)
			}
			want := 100 + 40
			if known {
				turns++
				want = before.context + 40
				wait := e.Time.Add(-path).Sub(before.done)
				if thought += wait; wait < 0 {
					t.Errorf("turn %d of session %d is sent %v before the answer is there", o.Turn, o.Session, -wait)
				}
			}
			if e.Prompt != want || e.Prompt+30 > 600 {
				t.Errorf("turn %d of session %d: prompt %d, want %d", o.Turn, o.Session, e.Prompt, want)
			}
		case sim.Finish:
			last[o.Session] = turn{e.Client().Done, e.Prompt + e.Output}
			if c := e.Client(); c.Done.Sub(e.Time) != 31*time.Millisecond {
				t.Errorf("the client is done %v behind the engine", c.Done.Sub(e.Time))
			}
		}
	})
	if turns < 200 || res.Completed != int64(200+turns) || thought/time.Duration(turns) < 2*time.Second {
		t.Errorf("%d further turns, %d completed, mean think time %v", turns, res.Completed, thought/time.Duration(turns))
	}
	// What was there before is found again, but for what a block cuts off.
	if res.PrefixHits < int64(turns)*(140-16) {
		t.Errorf("%d positions found in the cache", res.PrefixHits)
	}
}

// Engines of different speed see the same conversations.
func TestSessionsAreTheSame(t *testing.T) {
	seen := func(slow bool) map[string]int {
		out := map[string]int{}
		s := conversation()
		s.Lengths = workload.Independent{Prompt: workload.LogNormal{Median: 20, Sigma: 1, Min: 1, Max: 200}, Output: workload.LogNormal{Median: 20, Sigma: 1, Min: 1, Max: 99}}
		if slow {
			s.Path = nil
		}
		runSessions(t, s, func(e sim.Event) {
			if e.Kind == sim.Arrive {
				out[fmt.Sprint(e.ID, e.Origin())] = e.Prompt
			}
		})
		return out
	}
	if d := cmp.Diff(seen(false), seen(true)); d != "" {
		t.Errorf("requests (-near +far):\n%s", d)
	}
}

// A closed loop keeps its concurrency, and no more.
func TestClients(t *testing.T) {
	run, err := workload.Clients{Seed: 1, Concurrency: 7, Requests: 100, Lengths: workload.Tokens{Prompt: 30, Output: 9}}.Begin()
	if err != nil {
		t.Fatal(err)
	}
	flying, most := 0, 0
	cfg := sim.Config{Replicas: []sim.Replica{busyReplica()}, FollowUp: run.FollowUp, Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
		switch e.Kind {
		case sim.Arrive:
			flying++
			most = max(most, flying)
		case sim.Finish:
			flying--
		}
	})}}
	res, err := sim.Run(context.Background(), cfg, run.Requests())
	if err != nil || res.Completed != 100 || most != 7 {
		t.Errorf("%d completed, at most %d in flight, error %v", res.Completed, most, err)
	}
}

func TestSessionErrors(t *testing.T) {
	for _, tt := range []struct {
		want   string
		change func(*workload.Sessions)
	}{
		{"workload: Sessions.Starts is nil", func(s *workload.Sessions) { s.Starts = nil }},
		{"workload: Sessions.Lengths is nil", func(s *workload.Sessions) { s.Lengths = nil }},
		{"workload: Sessions.Turns: Count is 0, want at least 1", func(s *workload.Sessions) { s.Turns = workload.Count(0) }},
		{"workload: Sessions.Think: After is -1ns, want at least 0", func(s *workload.Sessions) { s.Think = workload.After(-1) }},
		{"workload: Sessions.Source is 32768, want from 0 to 32767", func(s *workload.Sessions) { s.Source = 1 << 15 }},
		{"workload: Sessions.Agent: Agent.Calls is nil", func(s *workload.Sessions) { s.Agent = &workload.Agent{} }},
		{"workload: Sessions.Agent: Agent.Result is nil", func(s *workload.Sessions) { s.Agent = &workload.Agent{Calls: workload.Fixed(2)} }},
		{"workload: Sessions.Agent: Agent.Time: After is -1ns, want at least 0", func(s *workload.Sessions) {
			s.Agent = &workload.Agent{Calls: workload.Fixed(2), Result: workload.Fixed(2), Time: workload.After(-1)}
		}},
		{"workload: Sessions.Preamble: Unshared is -1, want from 0 to 2147483647", func(s *workload.Sessions) { s.Preamble = workload.Unshared(-1) }},
		{"workload: Sessions.Attach: Unshared is -1, want from 0 to 2147483647", func(s *workload.Sessions) { s.Attach = workload.Unshared(-1) }},
		{"workload: Sessions.Compaction: Compaction.At is 0, want from 1 to 2147483647", func(s *workload.Sessions) { s.Compaction = &workload.Compaction{} }},
		{"workload: Sessions.Compaction: Compaction.Keep is 9, want from 0 to below At, 9", func(s *workload.Sessions) { s.Compaction = &workload.Compaction{At: 9, Keep: 9} }},
		{"workload: Sessions.Compaction: Compaction.Ask without a Summary", func(s *workload.Sessions) { s.Compaction = &workload.Compaction{At: 9, Ask: 9} }},
		{"workload: Sessions.Compaction: Compaction.Summary: Fixed is 0, want at least 1", func(s *workload.Sessions) {
			s.Compaction = &workload.Compaction{At: 9, Summary: workload.Fixed(0)}
		}},
		{"workload: Sessions.Compaction.At is 601, above Sessions.MaxContext 600", func(s *workload.Sessions) { s.Compaction = &workload.Compaction{At: 601} }},
		{"workload: Sessions.Fresh with an Agent, whose requests are a conversation", func(s *workload.Sessions) {
			s.Fresh, s.Agent = true, &workload.Agent{Calls: workload.Fixed(2), Result: workload.Fixed(2)}
		}},
		{"workload: Sessions.Fresh with a Compaction of the conversation that there is not", func(s *workload.Sessions) {
			s.Fresh, s.Compaction = true, &workload.Compaction{At: 9}
		}},
	} {
		s := conversation()
		tt.change(&s)
		if _, err := s.Begin(); fmt.Sprint(err) != tt.want {
			t.Errorf("error %v, want %s", err, tt.want)
		}
	}
}

func ExampleSessions() {
	run, err := workload.Sessions{
		Seed:   1,
		Starts: workload.Limit{Arrivals: workload.Poisson{Rate: 5}, Count: 100},
		Turns:  workload.Count(4),
		Think:  workload.LogNormalDelay{Median: 56 * time.Second, Sigma: 1.53},
		System: 500, Lengths: workload.Tokens{Prompt: 120, Output: 80}, PrefixBlock: 16,
	}.Begin()
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := sim.Config{Replicas: []sim.Replica{busyReplica()}, FollowUp: run.FollowUp}
	res, err := sim.Run(context.Background(), cfg, run.Requests())
	fmt.Printf("%d turns, %.0f %% of the prompts found in the cache, error %v\n",
		res.Completed, 100*float64(res.PrefixHits)/float64(res.PrefixHits+res.PrefillTokens), err)
	// Output: 400 turns, 86 % of the prompts found in the cache, error <nil>
}
