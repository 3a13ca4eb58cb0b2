package workload_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/workload"
)

// endings runs conversations and returns their requests by session, in order of
// their ends, and what they found in the prefix cache.
func endings(t *testing.T, run *workload.SessionRun, r sim.Replica, retry workload.Retry) (sessions map[int64][]sim.Completion, found map[int]int, res sim.Result) {
	t.Helper()
	sessions, found = map[int64][]sim.Completion{}, map[int]int{}
	note := func(c sim.Completion) []sim.Request {
		sessions[c.Request.Origin.Session] = append(sessions[c.Request.Origin.Session], c)
		return nil
	}
	cfg := sim.Config{
		Replicas: []sim.Replica{r}, FollowUp: workload.FollowUps(note, retry.FollowUp, run.FollowUp),
		Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			if e.Kind == sim.Admit {
				found[e.ID] = int(e.Cached)
			}
		})},
	}
	res, err := sim.Run(context.Background(), cfg, run.Requests())
	if err != nil {
		t.Fatal(err)
	}
	return sessions, found, res
}

func begin(t *testing.T, s workload.Sessions) *workload.SessionRun {
	t.Helper()
	run, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// drawnDelays is a delay that remembers what was drawn.
type drawnDelays struct {
	workload.Delay
	drawn *[]time.Duration
}

func (d drawnDelays) Draw(r *rand.Rand) time.Duration {
	x := d.Delay.Draw(r)
	*d.drawn = append(*d.drawn, x)
	return x
}

// A turn is sent exactly the think time after its client has the answer before,
// through network, proxy and rendering, and arrives the client's path later.
func TestSessionTurnsFollowAnswersExactly(t *testing.T) {
	for name, path := range map[string]*sim.Path{
		"beside the engine": nil,
		"far away": {
			NetworkIn: 20 * time.Millisecond, Gateway: 3 * time.Millisecond, Retrieval: 400 * time.Millisecond, Assembly: time.Millisecond,
			Proxy: sim.Proxy{Tokens: 4, Every: 50 * time.Millisecond}, NetworkOut: 30 * time.Millisecond, Tail: 7 * time.Millisecond,
		},
	} {
		var thought []time.Duration
		s := conversation()
		s.Path, s.Think = path, drawnDelays{s.Think, &thought}
		sessions, _, _ := endings(t, begin(t, s), busyReplica(), workload.Retry{})
		var waits []time.Duration
		for _, turns := range sessions {
			for i, c := range turns[1:] {
				before := turns[i]
				if c.Request.Origin.Turn != before.Request.Origin.Turn+1 {
					t.Fatalf("%s: turn %d follows %d", name, c.Request.Origin.Turn, before.Request.Origin.Turn)
				}
				waits = append(waits, c.Client.Send.Sub(before.Client.Done))
				if d := c.Request.Arrival.Sub(c.Client.Send); d != path.Before() {
					t.Errorf("%s: arrives %v after it is sent, want %v", name, d, path.Before())
				}
				if name == "far away" && before.Client.Done.Sub(before.End) < 37*time.Millisecond {
					t.Errorf("%s: the answer is there %v after its end", name, before.Client.Done.Sub(before.End))
				}
			}
		}
		var sentThoughts []time.Duration
		left := slices.Clone(thought)
		slices.Sort(left)
		slices.Sort(waits)
		for _, w := range waits { // what a session that became too long drew was not sent
			for len(left) > 0 && left[0] < w {
				left = left[1:]
			}
			if len(left) > 0 && left[0] == w {
				sentThoughts, left = append(sentThoughts, w), left[1:]
			}
		}
		if len(waits) < 200 || !slices.Equal(waits, sentThoughts) {
			t.Errorf("%s: %d waits are not think times that were drawn", name, len(waits))
		}
	}
}

// A turn finds the whole conversation before it in the cache, but for the last
// token of the answer, which was not computed, and for what does not fill a
// block: exactly, in blocks of any size.
func TestSessionHits(t *testing.T) {
	for _, block := range []int{1, 16, 64} {
		s := conversation()
		s.System, s.Groups, s.MaxContext, s.PrefixBlock = 100, 1, 0, block
		s.Preamble = workload.Unshared(30)
		s.Starts = workload.Limit{Arrivals: workload.Constant{Rate: 0.01}, Count: 30} // one session at a time
		r := busyReplica()
		r.BlockTokens = block
		r.KVBlocks *= 16 / min(16, block)
		sessions, found, res := endings(t, begin(t, s), r, workload.Retry{})
		sum := 0
		for n, turns := range sessions {
			for i, c := range turns {
				want := 0
				if i > 0 {
					want = (turns[i-1].Request.Prompt + turns[i-1].Output - 1) / block * block
				} else if n > 0 {
					want = 100 / block * block
				}
				if sum += want; found[c.Request.ID] != want {
					t.Errorf("blocks of %d: turn %d of session %d finds %d tokens, want %d", block, i, n, found[c.Request.ID], want)
				}
			}
		}
		if int64(sum) != res.PrefixHits || len(sessions) != 30 {
			t.Errorf("%d tokens found in all, want %d", res.PrefixHits, sum)
		}
	}
}

// The context of an agent grows by its answers and the results of its tools,
// which run in parallel: the next call waits for the slowest.
func TestAgent(t *testing.T) {
	var took []time.Duration
	s := conversation()
	s.Turns, s.MaxContext, s.PrefixBlock = workload.Fixed(2), 0, 16
	s.Starts = workload.Limit{Arrivals: workload.Constant{Rate: 0.01}, Count: 20}
	s.Agent = &workload.Agent{
		Calls: workload.Fixed(4), Output: workload.Fixed(11), Tools: workload.Fixed(3), Result: workload.Fixed(200),
		Time: drawnDelays{workload.LogNormalDelay{Median: 300 * time.Millisecond, Sigma: 1}, &took},
	}
	sessions, _, res := endings(t, begin(t, s), busyReplica(), workload.Retry{})
	if res.Completed != 20*2*4 || len(took) != 20*2*3*3 {
		t.Fatalf("%d requests, %d tools", res.Completed, len(took))
	}
	for n := range int64(20) {
		prompt := 100
		for i, c := range sessions[n] {
			if i%4 == 0 {
				prompt += 40
			} else {
				prompt += 3 * 200
				if got, want := c.Client.Send.Sub(sessions[n][i-1].Client.Done), slices.Max(took[:3]); got != want {
					t.Errorf("call %d of session %d is sent %v after the one before, the slowest of its tools took %v", i, n, got, want)
				}
				took = took[3:]
			}
			output := 11
			if i%4 == 3 {
				output = 30
			}
			if c.Request.Prompt != prompt || c.Output != output || c.Request.Origin.Turn != i {
				t.Errorf("call %d of session %d: prompt %d, answer %d, want %d and %d", i, n, c.Request.Prompt, c.Output, prompt, output)
			}
			prompt += output
		}
	}
}

// Before a conversation becomes longer than 400 it is cut to the system prompt,
// a summary and its last 50 tokens; the summary is an answer of the model. Turns
// add 40 tokens and 30 of the answer.
func TestCompaction(t *testing.T) {
	base := conversation()
	base.Starts, base.Turns, base.Groups = workload.Limit{Arrivals: workload.Constant{Rate: 1}, Count: 1}, workload.Fixed(9), 1
	base.MaxContext = 450
	for _, tt := range []struct {
		name    string
		with    workload.Compaction
		prompts []int
		found   []int // in blocks of 16
	}{
		// 100+4·70 = 380 are said when turn 5 would make it 450. What is behind
		// the system prompt is computed anew then: 96 of its 100 are full blocks.
		{"cut", workload.Compaction{At: 400, Keep: 50}, []int{140, 210, 280, 350, 190, 260, 330, 190, 260}, []int{0, 160, 224, 304, 96, 208, 288, 96, 208}},
		{"forgotten", workload.Compaction{At: 400}, []int{140, 210, 280, 350, 140, 210, 280, 350, 140}, []int{0, 160, 224, 304, 96, 160, 224, 304, 96}},
		{"summed up", workload.Compaction{At: 400, Keep: 50, Summary: workload.Fixed(20), Ask: 5},
			[]int{140, 210, 280, 350, 385, 210, 280, 350, 385, 210, 280}, []int{0, 160, 224, 304, 368, 96, 224, 304, 368, 96, 224}},
		// The request for a summary would be longer than the model takes.
		{"too late", workload.Compaction{At: 400, Summary: workload.Fixed(66), Ask: 5}, []int{140, 210, 280, 350}, []int{0, 160, 224, 304}},
	} {
		s := base
		s.Compaction = &tt.with
		sessions, found, _ := endings(t, begin(t, s), busyReplica(), workload.Retry{})
		var prompts, hits []int
		for i, c := range sessions[0] {
			prompts, hits = append(prompts, c.Request.Prompt), append(hits, found[c.Request.ID])
			if i > 0 && tt.with.Summary != nil && sessions[0][i-1].Request.Prompt == 385 && c.Client.Send != sessions[0][i-1].Client.Done {
				t.Errorf("%s: what waited for the summary is sent %v after it", tt.name, c.Client.Send.Sub(sessions[0][i-1].Client.Done))
			}
		}
		if diff := gocmp.Diff([][]int{tt.prompts, tt.found}, [][]int{prompts, hits}); diff != "" {
			t.Errorf("%s: prompts and what they find (-want +got):\n%s", tt.name, diff)
		}
	}
}

// A system prompt and passages for each turn.
func TestAttachment(t *testing.T) {
	s := conversation()
	s.Turns, s.Starts, s.MaxContext = workload.Fixed(3), workload.Limit{Arrivals: workload.Constant{Rate: 0.01}, Count: 4}, 0
	s.Attach = workload.Retrieval{Pool: 9, Count: workload.Fixed(2), Tokens: workload.Fixed(50)}
	sessions, _, _ := endings(t, begin(t, s), busyReplica(), workload.Retry{})
	for n, turns := range sessions {
		for i, c := range turns {
			if want := 100 + (i+1)*140 + i*30; c.Request.Prompt != want || len(turns) != 3 {
				t.Errorf("turn %d of %d of session %d: prompt %d, want %d", i, len(turns), n, c.Request.Prompt, want)
			}
		}
	}
}

// flights are how many requests are under way between a beginning and an end,
// by the instants at which that changes, ends before beginnings.
func flights(requests []sim.Completion, from, to func(sim.Completion) sim.Time) (at []sim.Time, level []int) {
	type change struct {
		at sim.Time
		by int
	}
	var changes []change
	for _, c := range requests {
		changes = append(changes, change{from(c), 1}, change{to(c), -1})
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	n := 0
	for _, c := range changes {
		n += c.by
		if k := len(at); k > 0 && at[k-1] == c.at {
			level[k-1] = n
			continue
		}
		at, level = append(at, c.at), append(level, n)
	}
	return at, level
}

// Clients at concurrency c have exactly c requests under way, from the first to
// the last that is begun, seen from themselves; and never more in the engine,
// with a path, think times and requests that are tried again.
func TestClientsKeepTheirConcurrency(t *testing.T) {
	const c = 7
	for _, tt := range []struct {
		name    string
		clients workload.Clients
		retry   workload.Retry
		always  bool
	}{
		{"plain", workload.Clients{}, workload.Retry{}, true},
		{"with a path", workload.Clients{Path: &sim.Path{NetworkIn: 5 * time.Millisecond, NetworkOut: 9 * time.Millisecond, Tail: 3 * time.Millisecond}}, workload.Retry{}, true},
		{"with prompts that share", workload.Clients{Preamble: workload.SystemPrompts{Tokens: 320}, PrefixBlock: 16}, workload.Retry{}, true},
		{"who think", workload.Clients{Think: workload.LogNormalDelay{Median: 20 * time.Millisecond, Sigma: 1}}, workload.Retry{}, false},
		{"who try again", workload.Clients{Patience: sim.Patience{Total: 60 * time.Millisecond}}, workload.Retry{Attempts: 9, Backoff: 3 * time.Millisecond}, false},
	} {
		w := tt.clients
		w.Seed, w.Concurrency, w.Requests = 1, c, 200
		w.Lengths = workload.Independent{Prompt: workload.LogNormal{Median: 100, Sigma: 1}, Output: workload.LogNormal{Median: 20, Sigma: 0.7, Max: 40}}
		run, err := w.Begin()
		if err != nil {
			t.Fatal(err)
		}
		sessions, _, res := endings(t, run, busyReplica(), tt.retry)
		var all []sim.Completion
		lastSend, attempts := sim.Time(0), 0
		for client := range int64(c) { // who stops first lets it fall
			turns := sessions[client]
			all = append(all, turns...)
			for _, x := range turns {
				attempts += btoi(x.Request.Attempt > 0)
			}
			if last := turns[len(turns)-1].Client.Done; client == 0 || last < lastSend {
				lastSend = last
			}
		}
		if attempts > 0 != (tt.name == "who try again") || attempts == 0 && len(all) != 200 || res.Completed == 0 {
			t.Errorf("%s: %d requests ended, of which %d are tries again", tt.name, len(all), attempts)
		}
		at, level := flights(all, func(c sim.Completion) sim.Time { return c.Client.Send }, func(c sim.Completion) sim.Time { return c.Client.Done })
		most := slices.Max(level)
		for i, n := range level {
			if tt.always && n != c && at[i] < lastSend {
				t.Errorf("%s: %d under way at %v, want %d", tt.name, n, at[i], c)
			}
		}
		_, level = flights(all, func(c sim.Completion) sim.Time { return c.Request.Arrival }, func(c sim.Completion) sim.Time { return c.End })
		if inEngine := slices.Max(level); most != c || inEngine != c {
			t.Errorf("%s: at most %d under way, %d in the engine, want %d", tt.name, most, inEngine, c)
		}
	}
}

// Conversations whose requests are tried again go on behind the attempt that
// gets an answer: a turn follows the last attempt of the turn before, and a
// session ends where the last attempt fails.
func TestSessionsTryAgain(t *testing.T) {
	s := conversation()
	s.Patience = sim.Patience{Total: 33 * time.Millisecond}
	s.Starts = workload.Limit{Arrivals: workload.Poisson{Rate: 400}, Count: 300}
	retry := workload.Retry{Attempts: 3, Backoff: 5 * time.Millisecond}
	sessions, _, res := endings(t, begin(t, s), busyReplica(), retry)
	again, gaveUp, wentOn := 0, 0, 0
	for n, ends := range sessions {
		for i, c := range ends {
			switch q := c.Request; {
			case i == 0:
				if q.Attempt != 0 || q.Origin.Turn != 0 {
					t.Errorf("session %d begins with attempt %d of turn %d", n, q.Attempt, q.Origin.Turn)
				}
			case ends[i-1].Kind == sim.Finish:
				wentOn += btoi(ends[i-1].Request.Attempt > 0)
				if q.Attempt != 0 || q.Origin.Turn != ends[i-1].Request.Origin.Turn+1 || c.Client.Send < ends[i-1].Client.Done {
					t.Errorf("session %d: attempt %d of turn %d, sent %v, behind an answer at %v", n, q.Attempt, q.Origin.Turn, c.Client.Send, ends[i-1].Client.Done)
				}
			default:
				again++
				before := ends[i-1]
				if q.Attempt != before.Request.Attempt+1 || q.ID != before.Request.ID || q.Origin != before.Request.Origin || q.Arrival < before.End.Add(5*time.Millisecond) {
					t.Errorf("session %d: attempt %d of turn %d at %v, behind attempt %d that ended at %v", n, q.Attempt, q.Origin.Turn, q.Arrival, before.Request.Attempt, before.End)
				}
			}
		}
		if last := ends[len(ends)-1]; last.Kind != sim.Finish {
			gaveUp++
			if last.Request.Attempt != 2 {
				t.Errorf("session %d ends with %v of attempt %d", n, last.Kind, last.Request.Attempt)
			}
		}
	}
	if again < 20 || gaveUp < 5 || wentOn < 5 {
		t.Errorf("%d tries again, %d sessions gave up, %d went on behind one; %+v", again, gaveUp, wentOn, res)
	}
}

func ExampleAgent() {
	run, err := workload.Sessions{
		Seed:    1,
		Starts:  workload.Limit{Arrivals: workload.Poisson{Rate: 0.5}, Count: 100},
		System:  4000,
		Lengths: workload.Tokens{Prompt: 1800, Output: 400},
		Agent: &workload.Agent{
			Calls:  workload.LogNormal{Median: 20, Sigma: 0.7, Max: 200},
			Output: workload.LogNormal{Median: 180, Sigma: 0.45},
			Tools:  workload.LogNormal{Median: 1, Sigma: 0.5},
			Time:   workload.LogNormalDelay{Median: 300 * time.Millisecond, Sigma: 0.6},
			Result: workload.LogNormal{Median: 440, Sigma: 0.5},
		},
		Compaction:  &workload.Compaction{At: 16_000, Keep: 1000, Summary: workload.Fixed(700), Ask: 60},
		PrefixBlock: 16,
	}.Begin()
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := sim.Config{Replicas: []sim.Replica{busyReplica()}, FollowUp: run.FollowUp}
	res, err := sim.Run(context.Background(), cfg, run.Requests())
	fmt.Printf("%d calls of the model, %.0f %% of the prompts found in the cache, error %v\n",
		res.Completed, 100*float64(res.PrefixHits)/float64(res.PrefixHits+res.PrefillTokens), err)
	// Output: 2632 calls of the model, 93 % of the prompts found in the cache, error <nil>
}
