package scheduler_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

// This file drives the exported schedulers through sim.Stepper over the cases
// of shared/conformance, whose README describes the format. The adapter
// translates; it decides nothing that a scheduler decides.

// conformanceCase is one behavioural case.
type conformanceCase struct {
	ID, Family, Kind string
	Tags             []string
	Config           map[string]json.RawMessage
	Requests         []caseRequest
	Steps            []caseStep
}

type caseRequest struct {
	ID        string
	Prompt    []tokenRun
	MaxOutput *int `json:"max_output"`
	Arrival   float64
	Priority  int
	Stop      []int  `json:"stop_tokens"`
	IgnoreEOS bool   `json:"ignore_eos"`
	Salt      string `json:"cache_salt"`
	NoRead    bool   `json:"skip_prefix_read"`
	Role      string `json:"kv_role"`
}

type tokenRun struct{ Range, Repeat []int }

type caseStep struct {
	Op       string
	Step     int
	Requests []string
	Sampled  map[string]json.RawMessage
	Draft    map[string]int
	Reason   string
	Seconds  float64
	Expect   map[string]json.RawMessage
	Asserted []string
}

const endOfSequence = 50256

// conformanceFile returns the cases, or skips.
func conformanceFile(t *testing.T) []conformanceCase {
	t.Helper()
	path := os.Getenv("SERVESIM_CONFORMANCE")
	if path == "" {
		shared := os.Getenv("SERVESIM_SHARED")
		if shared == "" {
			shared = filepath.Join("..", "..", "shared")
		}
		path = filepath.Join(shared, "conformance", "scheduler_cases.json")
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("no conformance cases at", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []conformanceCase }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return file.Cases
}

// number returns an integer of the configuration, 0 if it is not there.
func (c *conformanceCase) number(key string) int {
	var n float64
	json.Unmarshal(c.Config[key], &n)
	return int(n)
}

func (c *conformanceCase) fraction(key string) (f float64) {
	json.Unmarshal(c.Config[key], &f)
	return f
}

func (c *conformanceCase) flag(key string) (b bool) {
	json.Unmarshal(c.Config[key], &b)
	return b
}

func (c *conformanceCase) text(key string) (s string) {
	json.Unmarshal(c.Config[key], &s)
	return s
}

// replica returns the scheduler and the sizes of the case, or why there is no
// scheduler for it.
func (c *conformanceCase) replica() (r sim.Replica, missing string) {
	r = sim.Replica{
		CostModel: sim.CostFunc(func(sim.Batch) time.Duration { return time.Millisecond }),
		KVBlocks:  c.number("num_blocks"), ReservedBlocks: c.number("reserved_blocks"), BlockTokens: c.number("block_size"),
		MaxSeqs: c.number("max_num_seqs"), MaxBatchTokens: c.number("max_num_batched_tokens"), MaxModelLen: c.number("max_model_len"),
	}
	if r.MaxBatchTokens == 0 {
		r.MaxBatchTokens = c.number("chunk_size")
	}
	for _, need := range []struct {
		is   bool
		what string
	}{
		{slices.ContainsFunc(c.Tags, func(s string) bool { return strings.HasPrefix(s, "upstream_") }), "strict upstream switch"},
		{c.flag("prefix_caching"), "prefix cache in the engine"},
		{c.flag("async_scheduling"), "async scheduling"},
		{c.Config["connector"] != nil, "KV transfer"},
		{c.number("num_spec_tokens") > 0, "speculative decoding"},
		{c.text("preemption_mode") == "swap", "swapping"},
		{c.number("max_num_partial_prefills") > 1, "partial prefills"},
	} {
		if need.is {
			return r, need.what
		}
	}
	switch c.Family {
	case "vllm_v1":
		e := scheduler.VLLM1{Threshold: c.number("long_prefill_token_threshold"), WholePrompts: !c.flag("chunked_prefill")}
		if c.text("policy") == "priority" {
			e.Priority, r.Order = true, sim.OrderFunc(scheduler.ByPriority)
		}
		if c.text("semantics") == "2025-08" {
			e.FirstChunk, e.Overtake = true, true
		}
		if c.Config["reserve_full_prompt"] != nil {
			e.FirstChunk = !c.flag("reserve_full_prompt")
		}
		r.Scheduler = e
	default:
		return r, "scheduler of this family"
	}
	return r, ""
}

// caseRun is a case under way.
type caseRun struct {
	c        *conformanceCase
	stepper  *sim.Stepper
	now      sim.Time
	requests map[string]*caseRequest
	names    []string // by request id

	pass     map[string]any // what the latest pass did, for expectations
	ended    map[string]string
	notified []string // ended since the latest pass
	ending   []string
	outputs  map[string]int
	inStep   []string
	flying   bool
}

func (r *caseRun) Observe(e sim.Event) {
	switch e.Kind {
	case sim.Admit:
		list := "admitted"
		if e.Preemptions > 0 {
			list = "resumed"
		}
		r.pass[list] = append(r.pass[list].([]string), r.names[e.ID])
	case sim.Preempt:
		r.pass["preempted"] = append(r.pass["preempted"].([]string), r.names[e.ID])
	case sim.Reject:
		r.pass["ignored"] = append(r.pass["ignored"].([]string), r.names[e.ID])
		r.outputs[r.names[e.ID]] = e.Output
	case sim.Finish:
		r.ended[r.names[e.ID]] = e.Reason
		r.ending = append(r.ending, r.names[e.ID])
		r.outputs[r.names[e.ID]] = e.Output
	case sim.Abort:
		r.ending = append(r.ending, r.names[e.ID])
		r.outputs[r.names[e.ID]] = e.Output
	}
}

func (r *caseRun) id(name string) int { return slices.Index(r.names, name) }

func (r *caseRun) listed(l sim.List) []string {
	out := []string{}
	for s := range l.All() {
		out = append(out, r.names[s.ID()])
	}
	return out
}

// submit puts requests into the queue.
func (r *caseRun) submit(names []string) {
	for _, name := range names {
		q := r.requests[name]
		prompt := 0
		for _, run := range q.Prompt {
			if run.Range != nil {
				prompt += run.Range[1] - run.Range[0]
			} else {
				prompt += run.Repeat[1]
			}
		}
		maxOutput := 16
		if q.MaxOutput != nil {
			maxOutput = *q.MaxOutput
		}
		r.stepper.Submit(r.now, sim.Request{
			ID: r.id(name), Arrival: sim.Time(q.Arrival * 1e9), Prompt: prompt, MaxOutput: maxOutput, Class: q.Priority,
		})
	}
}

// schedule runs a pass.
func (r *caseRun) schedule() error {
	r.pass = map[string]any{"admitted": []string{}, "resumed": []string{}, "preempted": []string{}, "ignored": []string{}}
	r.notified, r.ending = r.ending, nil
	r.now++
	batch, _, err := r.stepper.Plan(r.now)
	if err != nil {
		return err
	}
	r.flying = !batch.Empty()
	scheduled, computed := [][2]any{}, map[string]int{}
	r.inStep = nil
	tokens, prompts := 0, len(batch.Prefills)
	for _, a := range r.stepper.Scheduled() {
		scheduled = append(scheduled, [2]any{r.names[a.ID], a.Tokens})
		r.inStep = append(r.inStep, r.names[a.ID])
		tokens += a.Tokens
	}
	for s := range r.stepper.Running().All() {
		computed[r.names[s.ID()]] = s.Context()
	}
	r.pass["scheduled"], r.pass["batched_tokens"], r.pass["num_prefill"], r.pass["computed_tokens"] = scheduled, tokens, prompts, computed
	r.pass["finished_notified"] = r.notified
	return nil
}

// complete applies the result of the step in flight.
func (r *caseRun) complete(s caseStep) error {
	r.now++
	r.ended = map[string]string{}
	if !r.flying {
		return nil
	}
	r.flying = false
	outcomes := []sim.Outcome{}
	for name, raw := range s.Sampled {
		var tokens []int
		if json.Unmarshal(raw, &tokens) != nil {
			var n int
			if err := json.Unmarshal(raw, &n); err != nil {
				return err
			}
			for i := range n {
				tokens = append(tokens, 1000+i)
			}
		}
		o := sim.Outcome{ID: r.id(name)}
		for _, t := range tokens {
			o.Tokens++
			q := r.requests[name]
			if o.Stop = slices.Contains(q.Stop, t) || t == endOfSequence && !q.IgnoreEOS; o.Stop {
				break
			}
		}
		outcomes = append(outcomes, o)
	}
	slices.SortFunc(outcomes, func(a, b sim.Outcome) int { return a.ID - b.ID })
	if err := r.stepper.Complete(r.now, outcomes); err != nil {
		return err
	}
	for _, name := range r.inStep {
		if s := r.stepper.Lookup(r.id(name)); s != nil {
			r.outputs[name] = s.Generated()
		}
	}
	return nil
}

// observed returns the value of an expectation key, and whether the adapter
// knows it.
func (r *caseRun) observed(key string, step caseStep) (value any, known bool) {
	if v, ok := r.pass[key]; ok && step.Op == "schedule" {
		return v, true
	}
	if list, ok := strings.CutSuffix(key, "_count"); ok {
		v, known := r.observed(list, step)
		switch l := v.(type) {
		case []string:
			return len(l), known
		case [][2]any:
			return len(l), known
		}
		return nil, false
	}
	switch key {
	case "running":
		return r.listed(r.stepper.Running()), true
	case "waiting":
		return r.listed(r.stepper.Waiting()), true
	case "free_blocks":
		return r.stepper.Free(), true
	case "blocks":
		blocks := map[string]int{}
		for _, l := range []sim.List{r.stepper.Running(), r.stepper.Waiting()} {
			for s := range l.All() {
				if s.Blocks() > 0 {
					blocks[r.names[s.ID()]] = s.Blocks()
				}
			}
		}
		return blocks, true
	case "finished":
		return r.ended, true
	case "output_tokens":
		var want map[string]int
		json.Unmarshal(step.Expect[key], &want)
		got := map[string]int{}
		for name := range want {
			got[name] = r.outputs[name]
		}
		return got, true
	}
	return nil, false
}

// differs compares an expectation with what is so.
func (r *caseRun) differs(key string, step caseStep) string {
	got, known := r.observed(key, step)
	if !known {
		return fmt.Sprintf("step %d %s: %s is not observed", step.Step, step.Op, key)
	}
	text, err := json.Marshal(got)
	if err != nil {
		return err.Error()
	}
	var a, b any
	json.Unmarshal(step.Expect[key], &a)
	json.Unmarshal(text, &b)
	if sameSet := func(x any) any {
		if l, ok := x.([]any); ok && b != nil {
			sort.Slice(l, func(i, j int) bool { return fmt.Sprint(l[i]) < fmt.Sprint(l[j]) })
		}
		return x
	}; key == "finished_notified" {
		a, b = sameSet(a), sameSet(b)
		if b == nil {
			b = []any{}
		}
	}
	if d := cmp.Diff(a, b); d != "" {
		return fmt.Sprintf("step %d %s: %s: want %s, got %s", step.Step, step.Op, key, step.Expect[key], text)
	}
	return ""
}

// drive runs a case and returns how many expectations there are, how many of
// them asserted upstream, and the failures of both kinds.
func (c *conformanceCase) drive(rep sim.Replica) (failures []string, asserted, assertedOK int) {
	r := &caseRun{c: c, requests: map[string]*caseRequest{}, outputs: map[string]int{}, ended: map[string]string{}}
	classes := []sim.Class{{Priority: 0}, {Priority: 1}, {Priority: 2}, {Priority: 3}, {Priority: 4}, {Priority: 5}}
	for i := range c.Requests {
		q := &c.Requests[i]
		r.requests[q.ID], r.names = q, append(r.names, q.ID)
		for q.Priority >= len(classes) {
			classes = append(classes, sim.Class{Priority: len(classes)})
		}
	}
	var err error
	if r.stepper, err = sim.NewStepper(sim.Config{Replicas: []sim.Replica{rep}, Classes: classes, Observers: []sim.Observer{r}}); err != nil {
		return []string{err.Error()}, 0, 0
	}
	r.pass = map[string]any{"admitted": []string{}, "resumed": []string{}, "preempted": []string{}, "ignored": []string{}}
	for _, s := range c.Steps {
		if err := r.apply(s); err != nil {
			failures = append(failures, fmt.Sprintf("step %d %s: %v", s.Step, s.Op, err))
			return failures, asserted, assertedOK
		}
		keys := make([]string, 0, len(s.Expect))
		for key := range s.Expect {
			keys = append(keys, key)
		}
		sort.Strings(keys)
		for _, key := range keys {
			isAsserted := slices.ContainsFunc(s.Asserted, func(a string) bool { return a == key || strings.HasPrefix(a, key+":") })
			if isAsserted {
				asserted++
			}
			if d := r.differs(key, s); d != "" {
				failures = append(failures, d)
			} else if isAsserted {
				assertedOK++
			}
		}
	}
	return failures, asserted, assertedOK
}

func (r *caseRun) apply(s caseStep) error {
	switch s.Op {
	case "submit":
		r.submit(s.Requests)
	case "schedule":
		return r.schedule()
	case "complete":
		return r.complete(s)
	case "terminate":
		r.now++
		for _, name := range s.Requests {
			r.stepper.Abort(r.now, r.id(name))
		}
	case "advance_time":
		r.now += sim.Time(s.Seconds * 1e9)
	default:
		return fmt.Errorf("op is not known")
	}
	return nil
}

// schedulerFamilies are the families that have steps of a scheduler.
var schedulerFamilies = []string{"vllm_v1", "vllm_v0", "vllm_v0_chunked", "sarathi", "orca", "static_batch", "vllm_prefill_first", "alternating_chunk", "distserve"}

func TestConformance(t *testing.T) {
	cases := conformanceFile(t)
	type tally struct{ passed, n, asserted, assertedOK int }
	total := tally{}
	for _, family := range schedulerFamilies {
		f := tally{}
		for i := range cases {
			c := &cases[i]
			if c.Family != family || c.Kind != "scheduler" {
				continue
			}
			f.n++
			rep, missing := c.replica()
			if missing != "" {
				t.Logf("%s: not covered: %s", c.ID, missing)
				for _, s := range c.Steps {
					f.asserted += len(s.Asserted)
				}
				continue
			}
			failures, asserted, ok := c.drive(rep)
			f.asserted += asserted
			f.assertedOK += ok
			if len(failures) == 0 {
				f.passed++
				continue
			}
			t.Errorf("%s:\n  %s", c.ID, strings.Join(failures[:min(len(failures), 6)], "\n  "))
		}
		t.Logf("conformance: %s: passed %d of %d (asserted %d of %d)", family, f.passed, f.n, f.assertedOK, f.asserted)
		total = tally{total.passed + f.passed, total.n + f.n, total.asserted + f.asserted, total.assertedOK + f.assertedOK}
	}
	t.Logf("conformance: passed %d of %d (asserted %d of %d)", total.passed, total.n, total.assertedOK, total.asserted)
}
