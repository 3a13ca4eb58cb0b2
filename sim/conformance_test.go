package sim_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

// conformanceCase is one case of shared/conformance, as its README says.
type conformanceCase struct {
	ID, Family, Kind string
	Tags             []string
	Config           caseConfig
	Requests         []caseRequest
	Steps            []caseStep
	Outcome          caseOutcome
}

type caseConfig struct {
	BlockSize         int     `json:"block_size"`
	NumBlocks         int     `json:"num_blocks"`
	ReservedBlocks    int     `json:"reserved_blocks"`
	MaxNumSeqs        int     `json:"max_num_seqs"`
	MaxBatchedTokens  int     `json:"max_num_batched_tokens"`
	MaxModelLen       int     `json:"max_model_len"`
	ChunkSize         int     `json:"chunk_size"`
	Policy            string  `json:"policy"`
	PrefixCaching     bool    `json:"prefix_caching"`
	AsyncScheduling   bool    `json:"async_scheduling"`
	NumSpecTokens     int     `json:"num_spec_tokens"`
	Threshold         int     `json:"long_prefill_token_threshold"`
	PartialPrefills   int     `json:"max_num_partial_prefills"`
	ReserveFullPrompt bool    `json:"reserve_full_prompt"`
	PreemptionMode    string  `json:"preemption_mode"`
	DelayFactor       float64 `json:"delay_factor"`
	ReserveTokens     int     `json:"reserve_tokens_per_request"`
	Connector         json.RawMessage
}

type caseRequest struct {
	ID     string
	Prompt []struct {
		Range  []int
		Repeat []int
	}
	MaxOutput *int `json:"max_output"`
	Arrival   float64
	Priority  int
}

type caseStep struct {
	Op       string
	Step     int
	Requests []string
	Reason   string
	Sampled  map[string]json.RawMessage
	Expect   caseState
}

// caseState is what a scheduler shows after a pass or a completion.
type caseState struct {
	Scheduled    [][2]any
	Preempted    []string
	Running      []string
	Waiting      []string
	FreeBlocks   *int `json:"free_blocks"`
	Blocks       map[string]int
	Finished     map[string]string
	OutputTokens map[string]int `json:"output_tokens"`
}

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

// UnmarshalJSON refuses an outcome that this test does not know.
func (o *caseOutcome) UnmarshalJSON(b []byte) error {
	type plain caseOutcome
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode((*plain)(o))
}

// conformance returns the cases of a family, or skips without shared/.
func conformance(t *testing.T, families ...string) (cases []conformanceCase) {
	t.Helper()
	root := os.Getenv("SERVESIM_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "shared")
	}
	b, err := os.ReadFile(filepath.Join(root, "conformance", "scheduler_cases.json"))
	if err != nil {
		t.Skip("no shared/conformance/scheduler_cases.json")
	}
	var file struct{ Cases []json.RawMessage }
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	for _, raw := range file.Cases {
		var head struct{ Family, Kind string }
		if err := json.Unmarshal(raw, &head); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(families, head.Family) || head.Kind != "scheduler" && head.Kind != "requirement" {
			continue
		}
		var c conformanceCase
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatalf("%.60s: %v", raw, err)
		}
		cases = append(cases, c)
	}
	if len(cases) == 0 {
		t.Fatalf("no cases of %v", families)
	}
	return cases
}

// numbers gives every request id a number, in order of appearance.
func (c *conformanceCase) numbers() map[string]int {
	ids := map[string]int{}
	for _, r := range c.Requests {
		if _, ok := ids[r.ID]; !ok {
			ids[r.ID] = len(ids) + 1
		}
	}
	return ids
}

func (r *caseRequest) tokens() (n int) {
	for _, p := range r.Prompt {
		if len(p.Range) == 2 {
			n += p.Range[1] - p.Range[0]
		} else {
			n += p.Repeat[1]
		}
	}
	return n
}

// limit is the most tokens the client asked for; 16 if it does not say.
func (r *caseRequest) limit() int {
	if r.MaxOutput == nil {
		return 16
	}
	return *r.MaxOutput
}

func (c caseConfig) replica(s sim.Scheduler) sim.Replica {
	budget := c.MaxBatchedTokens
	if c.ChunkSize > 0 {
		budget = c.ChunkSize
	}
	return sim.Replica{Scheduler: s, CostModel: everyStep(time.Millisecond),
		KVBlocks: c.NumBlocks, ReservedBlocks: c.ReservedBlocks, BlockTokens: c.BlockSize,
		MaxSeqs: c.MaxNumSeqs, MaxBatchTokens: budget, MaxModelLen: c.MaxModelLen}
}

// mirrors are the shipped policies with the semantics of a case family, or
// close to it.
var mirrors = map[string]func() sim.Scheduler{
	"sarathi":            func() sim.Scheduler { return scheduler.ChunkedPrefill{} },
	"vllm_v1":            func() sim.Scheduler { return scheduler.ChunkedPrefill{} },
	"vllm_v0_chunked":    func() sim.Scheduler { return scheduler.ChunkedPrefill{} },
	"vllm_v0":            func() sim.Scheduler { return scheduler.Continuous{} },
	"vllm_prefill_first": func() sim.Scheduler { return scheduler.Continuous{} },
	"orca":               func() sim.Scheduler { return scheduler.Continuous{ReserveMax: true} },
	"static_batch":       func() sim.Scheduler { return &scheduler.RequestBatch{} },
}

// agreed are the cases that the shipped policies reproduce in every pass: who
// is scheduled with how many tokens, who is preempted, both lists, blocks.
var agreed = []string{
	"orca-reserve-max", "sarathi-stall-free", "sarathi-first-chunk-shared", "sarathi-chunk-exhausted-breaks",
	"sarathi-whole-prompt-blocks", "sarathi-evict-on-growth", "sarathi-prompt-too-long", "sarathi-single-output",
	"sarathi-chunk-bounds-decodes", "static-batch-cycle", "static-batch-memory-bound", "prefill-first-budget",
	"prefill-first-evict", "v0-simple", "v0-max-seqs", "v0-max-seqs-prefill", "v0-prefix-off-budget", "v0c-chunk",
	"v0c-complex", "v0c-maximal-decoding", "v0c-prompt-too-long", "v0c-max-seqs", "v0c-whole-prompt-allocated",
	"v1-queue-add", "v1-queue-abort-waiting", "v1-prio-order", "v1-prio-tie-arrival", "v1-prio-fcfs-fallback",
	"v1-prio-slots", "v1-prio-wait-order", "v1-prio-victim-order", "v1-prio-equal-arrival", "v1-prio-space-available",
	"v1-prio-waiting-never-evicts", "v1-output-one", "v1-prompt-one", "v1-head-of-line", "v1-no-admission-after-eviction",
	"v1-evict-last-not-lowest", "v1-max-len-cuts-output", "v1-abort-in-flight", "v1-usage-after-free",
}

// The cases of real engines, pass by pass, through a Stepper. The shipped
// policies are not meant to reproduce all of them; the log says where each
// parts from its case.
func TestConformanceTrial(t *testing.T) {
	for _, family := range slices.Sorted(maps.Keys(mirrors)) {
		policy := mirrors[family]
		for _, c := range conformance(t, family) {
			t.Run(c.ID, func(t *testing.T) {
				why := c.lacks()
				if why == "" {
					why = c.replay(t, policy())
				}
				switch known := slices.Contains(agreed, c.ID); {
				case why == "" && !known:
					t.Logf("%s agrees and could be listed", c.ID)
				case why != "" && known:
					t.Errorf("%s no longer agrees: %s", c.ID, why)
				case why != "":
					t.Logf("%s differs: %s", c.ID, why)
				}
			})
		}
	}
}

// lacks names what the case needs and the engine does not have.
func (c *conformanceCase) lacks() string {
	k := c.Config
	for _, f := range []struct {
		has  bool
		what string
	}{
		{k.PrefixCaching, "prefix caching"}, {k.AsyncScheduling, "asynchronous scheduling"}, {k.NumSpecTokens > 0, "speculative decoding"},
		{k.Threshold > 0, "long_prefill_token_threshold"}, {k.PartialPrefills > 1, "max_num_partial_prefills"},
		{k.PreemptionMode == "swap", "swapping"}, {k.Connector != nil, "a KV connector"},
	} {
		if f.has {
			return "it needs " + f.what
		}
	}
	return ""
}

// submission turns a request of the case into one of the engine. Where the
// case reserves by the model's limit, no policy may know a smaller one.
func (c *conformanceCase) submission(id string, ids map[string]int) sim.Request {
	i := slices.IndexFunc(c.Requests, func(r caseRequest) bool { return r.ID == id })
	q := c.Requests[i]
	r := sim.Request{ID: ids[id], Arrival: sim.Time(q.Arrival * 1e9), Prompt: q.tokens(), MaxOutput: q.limit(), Class: q.Priority}
	if c.Config.ReserveTokens > 0 {
		r.Output, r.MaxOutput = r.MaxOutput, 0
	}
	return r
}

// replay drives the case and returns the first difference, or "".
func (c *conformanceCase) replay(t *testing.T, s sim.Scheduler) (difference string) {
	r := c.Config.replica(s)
	if c.Config.Policy == "priority" {
		r.Order = sim.OrderFunc(scheduler.ByPriority)
	}
	events := &keeper{}
	cfg := sim.Config{Replicas: []sim.Replica{r}, Observers: []sim.Observer{events}}
	for p := range 20 {
		cfg.Classes = append(cfg.Classes, sim.Class{Priority: p})
	}
	st, err := sim.NewStepper(cfg)
	if err != nil {
		t.Fatal(err)
	}
	numbers, names := c.numbers(), map[int]string{}
	for name, id := range numbers {
		names[id] = name
	}
	named := func(l sim.List) []string {
		out := []string{}
		for s := range l.All() {
			out = append(out, names[s.ID()])
		}
		return out
	}
	now, planned, seen := sim.Time(1e12), 0, 0
	for _, step := range c.Steps {
		now = now.Add(time.Second)
		switch step.Op {
		case "submit":
			for _, id := range step.Requests {
				st.Submit(now, c.submission(id, numbers))
			}
			continue
		case "terminate":
			for _, id := range step.Requests {
				st.Abort(now, numbers[id])
			}
			continue
		case "schedule":
			if planned > 0 {
				return fmt.Sprintf("step %d: it needs several batches in flight", step.Step)
			}
			b, _, err := st.Plan(now)
			if err != nil {
				t.Fatal(err)
			}
			if !b.Empty() {
				planned = step.Step
			}
			got, want := map[string]int{}, map[string]int{}
			for _, a := range st.Scheduled() {
				got[names[a.ID]] = a.Tokens
			}
			for _, a := range step.Expect.Scheduled {
				want[a[0].(string)] = int(a[1].(float64))
			}
			if b.Empty() {
				got = map[string]int{}
			}
			if d := differ("scheduled", want, got); d != "" {
				return fmt.Sprintf("pass %d: %s", step.Step, d)
			}
			preempted := []string{}
			for _, e := range (*events)[seen:] {
				if e.Kind == sim.Preempt {
					preempted = append(preempted, names[e.ID])
				}
			}
			if d := differ("preempted", step.Expect.Preempted, preempted); step.Expect.Preempted != nil && d != "" {
				return fmt.Sprintf("pass %d: %s", step.Step, d)
			}
		case "complete":
			var outcomes []sim.Outcome
			for id, raw := range step.Sampled {
				// One token: its number, or a list with the token itself.
				if tokens := []int{}; string(raw) != "1" && (json.Unmarshal(raw, &tokens) != nil || len(tokens) != 1) {
					return fmt.Sprintf("step %d: sampled %s", step.Step, raw)
				}
				outcomes = append(outcomes, sim.Outcome{ID: numbers[id], Tokens: 1})
			}
			slices.SortFunc(outcomes, func(a, b sim.Outcome) int { return a.ID - b.ID })
			if planned > 0 {
				if err := st.Complete(now, append([]sim.Outcome{}, outcomes...)); err != nil {
					t.Fatal(err)
				}
			}
			planned = 0
			finished := map[string]string{}
			for _, e := range (*events)[seen:] {
				if e.Kind == sim.Finish {
					finished[names[e.ID]] = e.Reason
				}
			}
			if c.Config.ReserveTokens > 0 {
				for id := range step.Expect.Finished {
					step.Expect.Finished[id] = sim.FinishStop
				}
			}
			if d := differ("finished", step.Expect.Finished, finished); step.Expect.Finished != nil && d != "" {
				return fmt.Sprintf("step %d: %s", step.Step, d)
			}
			for id, n := range step.Expect.OutputTokens {
				if s := st.Lookup(numbers[id]); s != nil && s.Generated() != n {
					return fmt.Sprintf("step %d: %s has %d tokens, want %d", step.Step, id, s.Generated(), n)
				}
			}
		default:
			return "it needs " + step.Op
		}
		seen = len(*events)
		if d := c.state(st, &step.Expect, named, names); d != "" {
			return fmt.Sprintf("after %s %d: %s", step.Op, step.Step, d)
		}
	}
	return ""
}

// state compares lists and blocks.
func (c *conformanceCase) state(st *sim.Stepper, want *caseState, named func(sim.List) []string, names map[int]string) string {
	if d := differ("running", want.Running, named(st.Running())); want.Running != nil && d != "" {
		return d
	}
	if d := differ("waiting", want.Waiting, named(st.Waiting())); want.Waiting != nil && d != "" {
		return d
	}
	blocks := map[string]int{}
	for s := range st.Running().All() {
		blocks[names[s.ID()]] = s.Blocks()
	}
	if d := differ("blocks", want.Blocks, blocks); want.Blocks != nil && d != "" {
		return d
	}
	if want.FreeBlocks != nil && *want.FreeBlocks != st.Free() {
		return fmt.Sprintf("free %d, want %d", st.Free(), *want.FreeBlocks)
	}
	return ""
}

// differ says in one line how got differs from want, or "".
func differ[T any](what string, want, got T) string {
	if cmp.Equal(want, got) {
		return ""
	}
	return fmt.Sprintf("%s %v, want %v", what, got, want)
}
