package sim_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	BlockSize         int    `json:"block_size"`
	NumBlocks         int    `json:"num_blocks"`
	ReservedBlocks    int    `json:"reserved_blocks"`
	MaxNumSeqs        int    `json:"max_num_seqs"`
	MaxBatchedTokens  int    `json:"max_num_batched_tokens"`
	MaxModelLen       int    `json:"max_model_len"`
	ChunkSize         int    `json:"chunk_size"`
	Policy            string `json:"policy"`
	PrefixCaching     bool   `json:"prefix_caching"`
	AsyncScheduling   bool   `json:"async_scheduling"`
	NumSpecTokens     int    `json:"num_spec_tokens"`
	Threshold         int    `json:"long_prefill_token_threshold"`
	PartialPrefills   int    `json:"max_num_partial_prefills"`
	ReserveFullPrompt bool   `json:"reserve_full_prompt"`
	PreemptionMode    string `json:"preemption_mode"`
	DelayFactor       float64
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

// drive runs requests through a Stepper, all submitted at once, and returns
// the positions scheduled and the tokens generated by request id.
func drive(t *testing.T, r sim.Replica, rs []sim.Request) (scheduled, output map[int]int) {
	t.Helper()
	scheduled, output = map[int]int{}, map[int]int{}
	st, err := sim.NewStepper(sim.Config{Replicas: []sim.Replica{r}, Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
		if e.Kind == sim.Finish {
			output[e.ID] = e.Output
		}
	})}})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range rs {
		q.Arrival = 0
		st.Submit(0, q)
	}
	for now := sim.Time(0); st.Waiting().Len()+st.Running().Len() > 0; {
		_, took, err := st.Plan(now)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range st.Scheduled() {
			scheduled[a.ID] += a.Tokens
		}
		if took == 0 {
			continue // everybody left was rejected
		}
		now = now.Add(took)
		if err := st.Complete(now, nil); err != nil {
			t.Fatal(err)
		}
	}
	return scheduled, output
}

var _ = []any{fmt.Sprint, strings.Join, cmp.Diff("", ""), scheduler.ByArrival}
