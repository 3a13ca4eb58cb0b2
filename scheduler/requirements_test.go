package scheduler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/kv"
	"servesim/sim/simtest"
)

// The cases of the family "requirement" say what a simulator must do where
// real engines hang or leak. They hold for every scheduler.

// caseOutcome is how a case of this family ends.
type caseOutcome struct {
	Rejected                 map[string]string
	RejectedSecond           string `json:"rejected_second"`
	Finished                 map[string]string
	OutputTokens             map[string]int `json:"output_tokens"`
	Terminal                 map[string][]string
	MaxSteps                 *int64   `json:"max_steps"`
	AllFinished              bool     `json:"all_finished"`
	FirstTokenOrderPrefix    []string `json:"first_token_order_prefix"`
	MaxPreemptions           *int64   `json:"max_preemptions"`
	MaxScheduledPromptTokens *int64   `json:"max_scheduled_prompt_tokens"`
	Invariant                string
}

// required are the schedulers that the requirements are tried on. Those that
// compute prompts whole get no token budget. Growth is exact for all: a request
// that just fits must run.
var required = []struct {
	name  string
	whole bool
	fresh func() sim.Scheduler
}{
	{"ChunkedPrefill", false, func() sim.Scheduler { return scheduler.ChunkedPrefill{} }},
	{"Continuous", true, func() sim.Scheduler { return scheduler.Continuous{} }},
	{"Continuous reserving", true, func() sim.Scheduler { return scheduler.Continuous{ReserveMax: true} }},
	{"RequestBatch", true, func() sim.Scheduler { return &scheduler.RequestBatch{} }},
	{"Orca", true, func() sim.Scheduler { return scheduler.Orca{} }},
	{"VLLM1", false, func() sim.Scheduler { return scheduler.VLLM1{} }},
	{"VLLM0", true, func() sim.Scheduler { return &scheduler.VLLM0{} }},
	{"VLLM0Chunked", false, func() sim.Scheduler { return &scheduler.VLLM0Chunked{} }},
	{"Sarathi", false, func() sim.Scheduler { return &scheduler.Sarathi{} }},
	{"Alternating", true, func() sim.Scheduler { return &scheduler.Alternating{} }},
}

// require tries the case on every scheduler and returns what is not so.
func (c *conformanceCase) require() (failures []string) {
	var want caseOutcome
	d := json.NewDecoder(bytes.NewReader(c.Outcome))
	d.DisallowUnknownFields()
	if err := d.Decode(&want); err != nil {
		return []string{fmt.Sprintf("outcome: %v", err)}
	}
	for _, s := range required {
		r := sim.Replica{
			Scheduler: s.fresh(), CostModel: flat, PrefixCache: c.flag("prefix_caching"),
			KVBlocks: c.number("num_blocks"), ReservedBlocks: c.number("reserved_blocks"), BlockTokens: c.number("block_size"),
			MaxSeqs: c.number("max_num_seqs"), MaxBatchTokens: c.number("max_num_batched_tokens"), MaxModelLen: c.number("max_model_len"),
		}
		if s.whole {
			r.MaxBatchTokens = 0
		}
		check := c.ends
		switch {
		case strings.HasPrefix(want.Invariant, "free + sum"):
			check = conservesBlocks
		case strings.HasPrefix(want.Invariant, "for each finished request: sum(scheduled)"):
			check = conservesPositions
		case want.Invariant != "":
			return []string{fmt.Sprintf("invariant %q is not known", want.Invariant)}
		}
		for _, f := range check(r, want) {
			failures = append(failures, s.name+": "+f)
		}
	}
	return failures
}

// ends runs the requests of the case and compares with its outcome.
func (c *conformanceCase) ends(r sim.Replica, want caseOutcome) (failures []string) {
	fail := func(format string, args ...any) { failures = append(failures, fmt.Sprintf(format, args...)) }
	id := func(name string) int {
		return slices.IndexFunc(c.Requests, func(q caseRequest) bool { return q.ID == name })
	}
	var rs []sim.Request
	for i := range c.Requests {
		q := &c.Requests[i]
		rs = append(rs, sim.Request{ID: id(q.ID), Prompt: q.tokens(), Output: q.limit(), MaxOutput: q.limit()})
	}
	var ended []string // "id reason", in order
	var first []int
	output := map[int]int{}
	res, err := sim.Run(context.Background(), sim.Config{
		Replicas: []sim.Replica{r}, Check: true, MaxSteps: 10_000,
		Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			switch e.Kind {
			case sim.FirstToken:
				first = append(first, e.ID)
			case sim.Finish, sim.Reject:
				ended = append(ended, fmt.Sprint(e.ID, " ", e.Reason))
				if e.Kind == sim.Finish {
					output[e.ID] = e.Output
				}
			}
		})},
	}, requests(rs...))
	if err != nil {
		return []string{err.Error()}
	}
	has := func(name, reason string) bool { return slices.Contains(ended, fmt.Sprint(id(name), " ", reason)) }
	for name, reason := range want.Rejected {
		if !has(name, reason) || res.Rejected != int64(len(want.Rejected)) {
			fail("%s: ended %q, want a rejection for %s", name, ended, reason)
		}
	}
	if reason := want.RejectedSecond; reason != "" && (!has(c.Requests[1].ID, reason) || res.Rejected != 1) {
		fail("ended %q, want the second request rejected for %s", ended, reason)
	}
	for name, reason := range want.Finished {
		if !has(name, reason) {
			fail("%s: ended %q, want finished by %s", name, ended, reason)
		}
	}
	for name, reasons := range want.Terminal {
		// The family says "invalid" for a field that no engine takes.
		if !slices.ContainsFunc(reasons, func(r string) bool { return has(name, r) || r == "invalid" && has(name, sim.RejectZeroOutput) }) {
			fail("%s: ended %q, want one of %q", name, ended, reasons)
		}
	}
	for name, n := range want.OutputTokens {
		if output[id(name)] != n {
			fail("%s: %d tokens, want %d", name, output[id(name)], n)
		}
	}
	for i, name := range want.FirstTokenOrderPrefix {
		if i >= len(first) || first[i] != id(name) {
			fail("first tokens go to %v, want %d in place %d", first, id(name), i)
		}
	}
	if want.AllFinished && res.Completed != int64(len(rs)) {
		fail("%d of %d completed", res.Completed, len(rs))
	}
	for _, limit := range []struct {
		what string
		most *int64
		got  int64
	}{
		{"steps", want.MaxSteps, res.Steps},
		{"preemptions", want.MaxPreemptions, res.Preemptions},
		{"prompt positions", want.MaxScheduledPromptTokens, res.PrefillTokens},
	} {
		if limit.most != nil && limit.got > *limit.most {
			fail("%d %s, want at most %d", limit.got, limit.what, *limit.most)
		}
	}
	return failures
}

// crowd draws requests that finish, share a beginning, outgrow 160 positions,
// or give up.
func crowd(n int) (rs []sim.Request) {
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range n {
		r := sim.Request{ID: i, Arrival: at(3 * float64(i)), Prompt: 2 + rng.IntN(90), Output: 1 + rng.IntN(60)}
		switch i % 11 {
		case 5:
			r.Prompt, r.Output = 140, 40
		case 2, 7:
			r.Patience = sim.Patience{First: time.Duration(rng.IntN(100)) * ms, Total: time.Duration(1+rng.IntN(200)) * ms}
		}
		r.MaxOutput = r.Output
		if i%3 > 0 {
			r.PrefixBlock = 16
			for block := range 1 + rng.IntN(6) {
				r.Prefix = append(r.Prefix, kv.Hash(100*(i%2)+block))
			}
		}
		rs = append(rs, r)
	}
	return rs
}

// conservesBlocks counts blocks before every pass, and lets the engine recount
// them at every event. In the end one request takes all of them.
func conservesBlocks(r sim.Replica, _ caseOutcome) (failures []string) {
	blocks := r.KVBlocks - r.ReservedBlocks
	inner, shared, passes := r.Scheduler, 0, 0
	r.Scheduler = sim.SchedulerFunc(func(v sim.View, p *sim.Plan) {
		held := 0
		for _, l := range []sim.List{v.Waiting, v.Running} {
			for s := range l.All() {
				held += s.Blocks()
			}
		}
		passes++
		switch missing := blocks - held - p.Free(); {
		case missing > 0:
			failures = append(failures, fmt.Sprintf("at %v nobody has %d blocks", v.Now, missing))
		case missing < 0:
			shared++
		}
		inner.Schedule(v, p)
	})
	laws := &simtest.Laws{}
	cfg := sim.Config{Replicas: []sim.Replica{r}, Check: true}
	laws.Config = cfg
	cfg.Observers = []sim.Observer{laws}
	all := sim.Request{ID: 1000, Arrival: at(1e6), Prompt: blocks * r.BlockTokens, Output: 1, MaxOutput: 1}
	res, err := sim.Run(context.Background(), cfg, requests(append(crowd(200), all)...))
	if err == nil {
		err = laws.Check(res)
	}
	if err != nil {
		return append(failures, err.Error())
	}
	if res.Completed < 100 || res.Aborted == 0 || passes == 0 || r.PrefixCache && (res.PrefixHits == 0 || shared == 0) {
		failures = append(failures, fmt.Sprintf("the mix lacks something: %+v, blocks shared at %d passes", res, shared))
	}
	return failures
}

// conservesPositions compares what every finished request was given with what
// it needed.
func conservesPositions(r sim.Replica, _ caseOutcome) (failures []string) {
	r.Drafts = 2
	r.Drafter = sim.DrafterFunc(func(q sim.Query, index, drafts int) int { return (q.ID + index) % (drafts + 1) })
	accounts, err := simtest.Serve(sim.Config{Replicas: []sim.Replica{r}, Check: true}, crowd(100))
	if err != nil {
		return []string{err.Error()}
	}
	finished, hits, rejected := 0, 0, 0
	for _, a := range accounts {
		if a.Kind != sim.Finish {
			continue
		}
		if a.Scheduled != a.Needs() || a.Output != a.Request.Output {
			failures = append(failures, fmt.Sprintf("%+v needs %d positions", a, a.Needs()))
		}
		finished, hits, rejected = finished+1, hits+a.Hits, rejected+a.Rejected
	}
	if finished < 70 || r.PrefixCache && hits == 0 || rejected == 0 {
		failures = append(failures, fmt.Sprintf("%d finished, %d positions hit, %d drafts rejected", finished, hits, rejected))
	}
	return failures
}
