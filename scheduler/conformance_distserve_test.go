package scheduler_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

// pairRun is a case of a disaggregated engine: one replica that computes
// prompts, one that decodes, and transfers that take no time. On the decode side
// the token from the prefill side is part of the prompt.
type pairRun struct {
	c               *conformanceCase
	prefill, decode *sim.Stepper
	policy          scheduler.DistServe
	migrating       bool
	now             sim.Time
	names           []string
	requests        []caseRequest
	seen            map[string]any
	unaccepted      []string // with their prompts computed
	inPrefill       []string
	inDecode        []string
}

func (r *pairRun) id(name string) int { return slices.Index(r.names, name) }

func (r *pairRun) maxOutput(name string) int {
	if n := r.requests[r.id(name)].MaxOutput; n != nil {
		return *n
	}
	return 16
}

func (r *pairRun) Schedule(v sim.View, p *sim.Plan) {
	if r.migrating {
		r.policy.Migrate(v, p)
	} else {
		r.policy.Decode(v, p)
	}
}

// finished notes what ends: on the prefill side that is the end of a request
// only if it has one token.
func (r *pairRun) Observe(e sim.Event) {
	if e.Kind == sim.Finish && (e.Replica != 0 || r.maxOutput(r.names[e.ID]) == 1 || !slices.Contains(r.inPrefill, r.names[e.ID])) {
		r.seen["finished"].(map[string]string)[r.names[e.ID]] = e.Reason
	}
}

func drivePair(c *conformanceCase) (failures []string, asserted, assertedOK int) {
	r := &pairRun{c: c, requests: c.Requests, seen: map[string]any{}}
	for _, q := range c.Requests {
		r.names = append(r.names, q.ID)
	}
	r.policy = scheduler.DistServe{Threshold: c.fraction("waiting_block_prop_threshold"), Strict: c.upstreamOnly()}
	flat := sim.CostFunc(func(sim.Batch) time.Duration { return time.Millisecond })
	replica := func(side string, s sim.Scheduler) *sim.Stepper {
		st, err := sim.NewStepper(sim.Config{Check: true, Observers: []sim.Observer{r}, Replicas: []sim.Replica{{
			Scheduler: s, CostModel: flat, BlockTokens: c.number("block_size"), KVBlocks: c.number(side + "_blocks"), HostBlocks: 1000,
			MaxSeqs: c.number(side + "_max_batch"), MaxBatchTokens: c.number(side + "_max_tokens"),
		}}})
		if err != nil {
			failures = append(failures, err.Error())
		}
		return st
	}
	r.prefill, r.decode = replica("prefill", scheduler.Continuous{}), replica("decode", r)
	for _, s := range c.Steps {
		r.now++
		if err := r.apply(s); err != nil {
			return append(failures, fmt.Sprintf("step %d %s: %v", s.Step, s.Op, err)), asserted, assertedOK
		}
		keys := make([]string, 0, len(s.Expect))
		for key := range s.Expect {
			keys = append(keys, key)
		}
		sort.Strings(keys)
		for _, key := range keys {
			text, err := json.Marshal(r.observed(key))
			var want, got any
			json.Unmarshal(s.Expect[key], &want)
			json.Unmarshal(text, &got)
			if err != nil || cmp.Diff(want, got) != "" {
				failures = append(failures, fmt.Sprintf("step %d %s: %s: want %s, got %s", s.Step, s.Op, key, s.Expect[key], text))
			} else if slices.Contains(s.Asserted, key) {
				assertedOK++
			}
		}
		asserted += len(s.Asserted)
	}
	return failures, asserted, assertedOK
}

func (r *pairRun) apply(s caseStep) error {
	r.seen["finished"], r.seen["migrated"] = map[string]string{}, []string{}
	switch s.Op {
	case "submit":
		for _, name := range s.Requests {
			q := r.requests[r.id(name)]
			r.prefill.Submit(r.now, sim.Request{ID: r.id(name), Prompt: q.tokens(), MaxOutput: 1})
			if r.maxOutput(name) > 1 {
				r.prefill.Keep(r.id(name))
			}
		}
	case "prefill_schedule":
		return r.plan(r.prefill, &r.inPrefill)
	case "prefill_complete":
		if err := r.complete(r.prefill, r.inPrefill); err != nil {
			return err
		}
		for _, name := range r.inPrefill {
			if n := r.maxOutput(name); n > 1 {
				prompt := r.requests[r.id(name)].tokens()
				r.unaccepted = append(r.unaccepted, name)
				r.decode.Submit(r.now, sim.Request{ID: r.id(name), Prompt: prompt + 1, MaxOutput: n - 1})
				r.decode.SetRemote(r.id(name), prompt)
			}
		}
		r.inPrefill = nil
	case "decode_schedule":
		return r.plan(r.decode, &r.inDecode)
	case "decode_complete":
		if err := r.complete(r.decode, r.inDecode); err != nil {
			return err
		}
		r.inDecode = nil
		r.migrating = true
		_, _, err := r.decode.Plan(r.now)
		r.migrating = false
		migrated := []string{}
		for s := range r.decode.Pulling().All() {
			migrated = append(migrated, r.names[s.ID()])
		}
		for _, name := range migrated {
			r.decode.Received(r.now, r.id(name))
			r.prefill.Sent(r.now, r.id(name))
			r.unaccepted = slices.DeleteFunc(r.unaccepted, func(o string) bool { return o == name })
		}
		r.seen["migrated"] = migrated
		return err
	default:
		return fmt.Errorf("op is not known")
	}
	return nil
}

// plan runs a pass; in is what the step holds.
func (r *pairRun) plan(st *sim.Stepper, in *[]string) error {
	_, _, err := st.Plan(r.now)
	scheduled := [][2]any{}
	for _, a := range st.Scheduled() {
		scheduled = append(scheduled, [2]any{r.names[a.ID], a.Tokens})
		*in = append(*in, r.names[a.ID])
	}
	r.seen["scheduled"] = scheduled
	return err
}

func (r *pairRun) complete(st *sim.Stepper, in []string) error {
	if len(in) == 0 {
		return nil
	}
	return st.Complete(r.now, nil)
}

// observed returns the value of an expectation key.
func (r *pairRun) observed(key string) any {
	if v, ok := r.seen[key]; ok {
		return v
	}
	list := func(lists ...sim.List) []string {
		out := []string{}
		for _, l := range lists {
			for s := range l.All() {
				out = append(out, r.names[s.ID()])
			}
		}
		return out
	}
	switch key {
	case "on_fly_blocks":
		n := 0
		for s := range r.prefill.Running().All() {
			n += s.Blocks()
		}
		return n
	case "prefill_waiting":
		return list(r.prefill.Waiting())
	case "prefill_unaccepted":
		return append([]string{}, r.unaccepted...)
	case "prefill_free_blocks":
		return r.prefill.Free()
	case "decode_unaccepted":
		return list(r.decode.Remote())
	case "decode_waiting":
		return list(r.decode.Waiting())
	case "decode_batch":
		return list(r.decode.Running())
	case "decode_swapped":
		return list(r.decode.Swapped())
	case "decode_free_blocks":
		return r.decode.Free()
	}
	return strings.ToUpper(key) + " is not observed"
}
