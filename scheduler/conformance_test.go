package scheduler_test

import (
	gocmp "cmp"
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
	"servesim/sim/kv"
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
	Outcome          json.RawMessage
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

// tokens returns the length of the prompt.
func (q *caseRequest) tokens() (n int) { return len(q.text()) }

// limit is the most tokens that the client asked for; 16 if it does not say.
func (q *caseRequest) limit() int {
	if q.MaxOutput == nil {
		return 16
	}
	return *q.MaxOutput
}

// text returns the tokens of the prompt.
func (q *caseRequest) text() (tokens []int) {
	for _, run := range q.Prompt {
		if run.Range != nil {
			for t := run.Range[0]; t < run.Range[1]; t++ {
				tokens = append(tokens, t)
			}
			continue
		}
		for range run.Repeat[1] {
			tokens = append(tokens, run.Repeat[0])
		}
	}
	return tokens
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
	Received []string `json:"kv_received"`
	Sent     []string `json:"kv_sent"`
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

// store returns what the connector of the case has outside, or nil.
func (c *conformanceCase) store() sim.Store {
	var k struct {
		Mode   string
		Tokens int
	}
	json.Unmarshal(c.Config["connector"], &k)
	if k.Mode != "fixed" {
		return nil
	}
	return sim.StoreFunc(func(sim.Query, int) int { return k.Tokens })
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
	r.PrefixCache, r.Strict = c.flag("prefix_caching"), c.upstreamOnly()
	r.EagerSharing = r.PrefixCache && c.Family != "vllm_v1"
	if r.MaxBatchTokens == 0 {
		r.MaxBatchTokens = c.number("chunk_size")
	}
	switch c.Family {
	case "distserve": // see drivePair
	case "vllm_v1":
		e := scheduler.VLLM1{Strict: c.upstreamOnly(), Threshold: c.number("long_prefill_token_threshold"), WholePrompts: !c.flag("chunked_prefill")}
		if c.text("policy") == "priority" {
			e.Priority, r.Order = true, sim.OrderFunc(scheduler.ByPriority)
		}
		r.Drafts, r.Store = c.number("num_spec_tokens"), c.store()
		if c.flag("async_scheduling") {
			r.InFlight, r.Async = 2, sim.AsyncExact
		}
		if c.flag("spec_uses_lookahead") {
			e.Lookahead = r.Drafts
		}
		if c.text("semantics") == "2025-08" {
			e.FirstChunk, e.Overtake = true, true
			e.Reverse, r.FreeAborted = true, true
			if c.flag("async_scheduling") {
				r.Async = sim.AsyncSurplus
			}
		}
		if c.Config["reserve_full_prompt"] != nil {
			e.FirstChunk = !c.flag("reserve_full_prompt")
		}
		r.Scheduler = e
	case "vllm_v0", "vllm_prefill_first":
		r.Growth = sim.TouchedGrowth
		if c.Family == "vllm_v0" {
			r.MaxModelLen += c.beyondModelLen()
		}
		e := &scheduler.VLLM0{Watermark: c.watermark(), DelayFactor: c.fraction("delay_factor"), Swap: c.text("preemption_mode") == "swap", Strict: c.upstreamOnly()}
		if e.Swap {
			r.HostBlocks = c.number("num_cpu_blocks")
		}
		if c.text("policy") == "priority" {
			e.Priority, r.Order = true, sim.OrderFunc(scheduler.ByPriority)
		}
		r.Scheduler = e
	case "vllm_v0_chunked":
		r.Growth = sim.TouchedGrowth
		r.Scheduler = &scheduler.VLLM0Chunked{
			Watermark: c.watermark(), WholeBlocks: c.flag("prefix_caching"), PartialPrefills: c.number("max_num_partial_prefills"),
			LongPrefills: c.number("max_long_partial_prefills"), Threshold: c.number("long_prefill_token_threshold"),
		}
	case "sarathi":
		r.Growth = sim.TouchedGrowth
		r.Scheduler = &scheduler.Sarathi{Watermark: c.watermark()}
	case "alternating_chunk":
		r.Growth = sim.TouchedGrowth
		r.Scheduler = &scheduler.Alternating{Watermark: c.watermark(), Chunk: c.number("chunk_size")}
		r.MaxBatchTokens = c.number("max_num_batched_tokens")
	case "orca":
		r.Scheduler = scheduler.Orca{ModelLen: true}
	case "static_batch":
		r.Scheduler = &scheduler.RequestBatch{ModelLen: true}
	default:
		return r, "scheduler of this family"
	}
	return r, ""
}

// upstreamOnly reports whether the case shows a defect that no scheduler here
// has. One of them ends before the defect shows.
func (c *conformanceCase) upstreamOnly() bool {
	return c.ID != "sarathi-evict-on-growth" &&
		slices.ContainsFunc(c.Tags, func(s string) bool { return strings.HasPrefix(s, "upstream_") })
}

// beyondModelLen returns how far requests grow beyond the model's length. V0's
// scheduler was driven by itself, and it is another part of that engine that
// ends them there. A prompt that is too long is the scheduler's concern, and
// then the limit stays.
func (c *conformanceCase) beyondModelLen() (most int) {
	limit := c.number("max_model_len")
	for _, q := range c.Requests {
		if q.tokens() > limit {
			return 0
		}
		length := q.tokens()
		for _, s := range c.Steps {
			if s.Sampled[q.ID] != nil {
				length++
			}
		}
		// At the limit itself a request ends too.
		most = max(most, length-limit+1)
	}
	return most
}

// watermark returns the fraction of the case, where 0 means none.
func (c *conformanceCase) watermark() float64 {
	if w := c.fraction("watermark"); w > 0 || c.Config["watermark"] == nil {
		return w
	}
	return -1
}

// promptsFirst reports whether the engine of the case computes prompts before
// decodes in a step, whatever the order of its decisions.
func (c *conformanceCase) promptsFirst() bool {
	return c.Family != "vllm_v1" && c.Family != "distserve"
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
	text     map[string][]int // tokens by request, as far as they are known
	outputs  map[string]int
	flights  []flight        // steps in flight
	prompt   map[string]bool // computes its prompt: it has had no token since it was admitted
	planning bool
	rejected []string // at submission, since the latest pass
}

// flight is a step in flight and the requests in it.
type flight struct {
	step   int
	inStep []string
}

func (r *caseRun) Observe(e sim.Event) {
	switch e.Kind {
	case sim.Admit:
		if e.Preemptions == 0 && r.c.Family == "vllm_v1" {
			r.pass["cached_tokens"].(map[string]int)[r.names[e.ID]] = int(e.Cached)
		}
		list := "admitted"
		switch {
		case e.Preemptions > 0 && r.c.text("preemption_mode") == "swap" && e.Cached > 0:
			list = "swapped_in"
		case e.Preemptions > 0:
			list = "resumed"
			fallthrough
		default:
			r.prompt[r.names[e.ID]] = true
		}
		r.pass[list] = append(r.pass[list].([]string), r.names[e.ID])
	case sim.Preempt:
		if e.Reason == sim.PreemptSwap {
			r.pass["swapped_out"] = append(r.pass["swapped_out"].([]string), r.names[e.ID])
			return
		}
		r.pass["preempted"] = append(r.pass["preempted"].([]string), r.names[e.ID])
	case sim.Reject:
		if r.planning {
			r.pass["ignored"] = append(r.pass["ignored"].([]string), r.names[e.ID])
		} else {
			r.rejected = append(r.rejected, r.names[e.ID])
		}
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

// waiting lists those in line, wherever their KV is.
func (r *caseRun) waiting() []string {
	if r.stepper.Remote().Len()+r.stepper.Pulling().Len() == 0 {
		return r.listed(r.stepper.Waiting())
	}
	var line []*sim.Sequence
	for _, l := range []sim.List{r.stepper.Waiting(), r.stepper.Remote(), r.stepper.Pulling()} {
		line = slices.AppendSeq(line, l.All())
	}
	slices.SortFunc(line, func(a, b *sim.Sequence) int { return gocmp.Compare(a.Turn(), b.Turn()) })
	out := []string{}
	for _, s := range line {
		out = append(out, r.names[s.ID()])
	}
	return out
}

// submit puts requests into the queue.
func (r *caseRun) submit(names []string) {
	for _, name := range names {
		q := r.requests[name]
		arrival := sim.Time(q.Arrival * 1e9)
		if arrival == 0 && r.c.fraction("delay_factor") > 0 {
			arrival = r.now // the delay counts from there
		}
		r.text[name] = q.text()
		r.stepper.Submit(r.now, sim.Request{
			ID: r.id(name), Arrival: arrival, Prompt: q.tokens(), MaxOutput: q.limit(), Class: q.Priority,
			Prefix: r.chain(name), PrefixBlock: r.c.number("block_size"), NoPrefixRead: q.NoRead,
		})
		switch q.Role {
		case "remote_prefill":
			r.stepper.SetRemote(r.id(name), q.tokens())
		case "remote_decode":
			r.stepper.Keep(r.id(name))
		}
	}
}

// schedule runs a pass. What the engine rejects at submission, the engines of
// the cases ignore in their next pass.
func (r *caseRun) schedule(step int) error {
	r.pass = map[string]any{"admitted": []string{}, "resumed": []string{}, "preempted": []string{}, "ignored": append([]string{}, r.rejected...), "cached_tokens": map[string]int{}, "swapped_in": []string{}, "swapped_out": []string{}}
	r.notified, r.ending, r.rejected = r.ending, nil, nil
	r.now++
	if err := r.dropAborted(); err != nil {
		return err
	}
	r.planning = true
	batch, _, err := r.stepper.Plan(r.now)
	r.planning = false
	if err != nil {
		return err
	}
	r.pass["blocks_swapped_in"], r.pass["blocks_swapped_out"] = batch.SwapIn, batch.SwapOut
	scheduled, computed, drafted := [][2]any{}, map[string]int{}, map[string]int{}
	var inStep []string
	tokens, prompts := 0, 0
	for _, a := range r.inOrder() {
		name := r.names[a.ID]
		scheduled = append(scheduled, [2]any{name, a.Tokens})
		if s := r.stepper.Lookup(a.ID); s.Drafts() > 0 && a.Tokens > 1 {
			drafted[name] = a.Tokens - 1
		}
		inStep = append(inStep, name)
		if r.prompt[name] {
			prompts++
			if r.c.promptsFirst() {
				scheduled[len(scheduled)-1][1] = a.Tokens + r.cached(name)
			}
		}
		tokens += scheduled[len(scheduled)-1][1].(int)
	}
	if !batch.Empty() {
		r.flights = append(r.flights, flight{step, inStep})
	}
	for s := range r.stepper.Running().All() {
		computed[r.names[s.ID()]] = s.Context()
	}
	if r.c.promptsFirst() {
		slices.SortFunc(r.pass["preempted"].([]string), func(a, b string) int { return r.id(a) - r.id(b) })
	}
	r.pass["scheduled"], r.pass["batched_tokens"], r.pass["num_prefill"], r.pass["draft_scheduled"], r.pass["computed_tokens"] = scheduled, tokens, prompts, drafted, computed
	r.pass["finished_notified"] = r.notified
	return nil
}

// cached returns the positions of the batch's prompt that were not computed,
// which V0 counts with those that are. Its cached_tokens are those of the
// reusable blocks, the last one of a prompt too.
func (r *caseRun) cached(name string) int {
	if !r.c.flag("prefix_caching") {
		return 0
	}
	s := r.stepper.Lookup(r.id(name))
	n, block := s.Cached(), r.c.number("block_size")
	r.pass["cached_tokens"].(map[string]int)[name] = (n + block - 1) / block * block
	started := append(slices.Clone(r.pass["admitted"].([]string)), r.pass["resumed"].([]string)...)
	if !slices.Contains(started, name) {
		return 0 // a later chunk
	}
	return n
}

// dropAborted ends a step in flight of which everybody was aborted.
func (r *caseRun) dropAborted() error {
	if r.c.flag("async_scheduling") || len(r.flights) == 0 ||
		slices.ContainsFunc(r.flights[0].inStep, func(name string) bool { return r.stepper.Lookup(r.id(name)) != nil }) {
		return nil
	}
	r.flights = r.flights[1:]
	return r.stepper.Complete(r.now, []sim.Outcome{})
}

// inOrder returns the work of the pass in the order in which the engine of the
// case computes it. The Stepper has the order of the decisions: the engines
// before V1 decide about decodes early, because memory goes to them first, and
// list them behind the prompts; V0 with chunks lists new prompts in front of
// those in progress. Within each of these parts the order is that of the
// decisions.
func (r *caseRun) inOrder() []sim.Assignment {
	work := r.stepper.Scheduled()
	if !r.c.promptsFirst() {
		return work
	}
	started := append(slices.Clone(r.pass["admitted"].([]string)), r.pass["resumed"].([]string)...)
	part := func(a sim.Assignment) int {
		switch name := r.names[a.ID]; {
		case !r.prompt[name]:
			return 2
		case r.c.Family == "vllm_v0_chunked" && slices.Contains(started, name):
			return 0
		}
		return 1
	}
	slices.SortStableFunc(work, func(a, b sim.Assignment) int { return part(a) - part(b) })
	return work
}

// complete applies the result of the step in flight.
func (r *caseRun) complete(s caseStep) error {
	r.now++
	r.ended = map[string]string{}
	defer func() {
		for _, name := range s.Received {
			r.stepper.Received(r.now, r.id(name))
		}
		for _, name := range s.Sent {
			r.stepper.Sent(r.now, r.id(name))
		}
	}()
	if len(r.flights) == 0 || r.flights[0].step != s.Step {
		return nil
	}
	inStep := r.flights[0].inStep
	r.flights = r.flights[1:]
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
		o := sim.Outcome{ID: r.id(name), Drafts: s.Draft[name]}
		known := len(r.chain(name))
		r.prompt[name] = r.prompt[name] && len(tokens) == 0
		for _, t := range tokens {
			o.Tokens++
			r.text[name] = append(r.text[name], t)
			q := r.requests[name]
			if o.Stop = slices.Contains(q.Stop, t) || t == endOfSequence && !q.IgnoreEOS; o.Stop {
				o.Dropped = len(tokens) - o.Tokens
				break
			}
		}
		o.Prefix = r.chain(name)[known:]
		outcomes = append(outcomes, o)
	}
	slices.SortFunc(outcomes, func(a, b sim.Outcome) int { return a.ID - b.ID })
	if err := r.stepper.Complete(r.now, outcomes); err != nil {
		return err
	}
	for _, name := range inStep {
		if s := r.stepper.Lookup(r.id(name)); s != nil {
			r.outputs[name] = s.Generated()
		}
	}
	return nil
}

// chain returns the hashes of the full blocks of a request, as far as its
// tokens are known.
func (r *caseRun) chain(name string) []kv.Hash {
	return kv.HashTokens(nil, r.text[name], r.c.number("block_size"), r.requests[name].Salt)
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
	case "spec_stats":
		n := r.stepper.Speculation()
		return map[string]any{"drafts": n.Sequences, "draft_tokens": n.Drafted, "accepted": n.Accepted, "accepted_per_pos": n.PerPosition}, true
	case "running":
		return r.listed(r.stepper.Running()), true
	case "waiting":
		return r.waiting(), true
	case "swapped":
		return r.listed(r.stepper.Swapped()), true
	case "free_cpu_blocks":
		return r.stepper.HostFree(), true
	case "host_blocks":
		blocks := map[string]int{}
		for s := range r.stepper.Swapped().All() {
			blocks[r.names[s.ID()]] = s.HostBlocks()
		}
		return blocks, true
	case "free_blocks":
		return r.stepper.Free(), true
	case "blocks":
		blocks := map[string]int{}
		for _, l := range []sim.List{r.stepper.Running(), r.stepper.Waiting(), r.stepper.Pulling()} {
			for s := range l.All() {
				if s.Blocks() > 0 {
					blocks[r.names[s.ID()]] = s.Blocks()
				}
			}
		}
		for id, name := range r.names {
			if n := r.stepper.Held(id); n > 0 {
				blocks[name] = n
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
	r := &caseRun{c: c, requests: map[string]*caseRequest{}, outputs: map[string]int{}, ended: map[string]string{}, prompt: map[string]bool{}, text: map[string][]int{}}
	classes := []sim.Class{{Priority: 0}, {Priority: 1}, {Priority: 2}, {Priority: 3}, {Priority: 4}, {Priority: 5}}
	for i := range c.Requests {
		q := &c.Requests[i]
		r.requests[q.ID], r.names = q, append(r.names, q.ID)
		for q.Priority >= len(classes) {
			classes = append(classes, sim.Class{Priority: len(classes)})
		}
	}
	var err error
	if r.stepper, err = sim.NewStepper(sim.Config{Check: true, Replicas: []sim.Replica{rep}, Classes: classes, Observers: []sim.Observer{r}}); err != nil {
		return []string{err.Error()}, 0, 0
	}
	r.pass = map[string]any{"admitted": []string{}, "resumed": []string{}, "preempted": []string{}, "ignored": []string{}}
	for _, s := range c.Steps {
		if err := r.apply(s); err != nil && s.Expect["error"] != nil {
			if !errors.Is(err, scheduler.ErrHostMemory) || string(s.Expect["error"]) != `"host_memory_exhausted"` {
				failures = append(failures, fmt.Sprintf("step %d %s: error %v, want %s", s.Step, s.Op, err, s.Expect["error"]))
			}
			return failures, asserted, assertedOK
		} else if err != nil {
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
		return r.schedule(s.Step)
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

// schedulerFamilies are the families that are about schedulers.
var schedulerFamilies = []string{"vllm_v1", "vllm_v0", "vllm_v0_chunked", "sarathi", "orca", "static_batch", "vllm_prefill_first", "alternating_chunk", "distserve", "requirement"}

func TestConformance(t *testing.T) {
	cases := conformanceFile(t)
	type tally struct{ passed, n, asserted, assertedOK int }
	total := tally{}
	for _, family := range schedulerFamilies {
		f := tally{}
		for i := range cases {
			c := &cases[i]
			if c.Family != family || c.Kind != "scheduler" && c.Kind != "requirement" {
				continue
			}
			f.n++
			if c.Kind == "requirement" {
				if failures := c.require(); len(failures) > 0 {
					t.Errorf("%s:\n  %s", c.ID, strings.Join(failures[:min(len(failures), 6)], "\n  "))
				} else {
					f.passed++
				}
				continue
			}
			rep, missing := c.replica()
			if missing != "" {
				t.Logf("%s: not covered: %s", c.ID, missing)
				for _, s := range c.Steps {
					f.asserted += len(s.Asserted)
				}
				continue
			}
			failures, asserted, ok := []string(nil), 0, 0
			if c.Family == "distserve" {
				failures, asserted, ok = drivePair(c)
			} else {
				failures, asserted, ok = c.drive(rep)
			}
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
