package trace

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"servesim/sim"
)

// CSV is a sim.Observer that writes two tables (RFC 4180, with a header): a row
// for each request that ends, in order of the ends, and one for each step. Times
// are exact decimals of milliseconds on the engine's clock, but for those of the
// client (sim.Path); a cell without a value is empty. Requests that a run leaves
// unfinished have no row.
type CSV struct {
	Requests, Steps io.Writer // nil leaves the table out
	// Config is that of the run. From it come the names of classes, the columns of
	// ledgers where it keeps them, and those of costs where a cost model explains
	// its steps (sim.Explainer). The zero value leaves these out.
	Config sim.Config

	requests, steps csvTable
	cached          map[int64]int32 // of requests in flight, where it is not 0
	explainers      []sim.Explainer // nil entries do not explain; nil if none does
	operators       []sim.Operator  // scratch
	begun           bool
	err             error
}

var csvRequest = []string{"serial", "id", "attempt", "class", "replica", "end", "reason", "prompt_tokens", "cached_tokens", "output_tokens",
	"preemptions", "gaps_over_target", "arrival_ms", "queued_ms", "admitted_ms", "prefill_end_ms", "first_token_ms", "end_ms",
	"client_send_ms", "client_first_token_ms", "client_last_token_ms", "client_done_ms"}

var csvStep = []string{"replica", "step", "start_ms", "end_ms", "took_ms", "decodes", "decode_positions", "context_tokens", "prefill_chunks",
	"prefill_tokens", "swap_in_blocks", "swap_out_blocks", "padding_rows", "padding_tokens", "sampled_tokens", "free_blocks",
	"waiting_requests", "running_requests"}

// csvBounds are what a sim.Operator can wait for, in the order of the columns.
var csvBounds = [...]string{"memory", "compute", "link", "host"}

// csvTable is a table being written.
type csvTable struct {
	buffered
	open bool // a row has begun
}

func (t *csvTable) cell() {
	if t.open {
		t.buf = append(t.buf, ',')
	}
	t.open = true
}

func (t *csvTable) empty() { t.cell() }

func (t *csvTable) int(n int64) {
	t.cell()
	t.buf = strconv.AppendInt(t.buf, n, 10)
}

// millis writes an instant, or nothing if it has not come.
func (t *csvTable) millis(at sim.Time) {
	if t.cell(); at != sim.NoTime {
		t.buf = appendMillis(t.buf, at)
	}
}

func (t *csvTable) string(s string) {
	t.cell()
	if !strings.ContainsAny(s, ",\"\r\n") {
		t.buf = append(t.buf, s...)
		return
	}
	t.buf = append(t.buf, '"')
	for i := range len(s) {
		if s[i] == '"' {
			t.buf = append(t.buf, '"')
		}
		t.buf = append(t.buf, s[i])
	}
	t.buf = append(t.buf, '"')
}

func (t *csvTable) endRow(w io.Writer) {
	t.buf = append(t.buf, "\r\n"...)
	t.open = false
	t.drain(w)
}

// Observe writes what ends. A fault is kept for Flush, and nothing is written
// after it.
func (c *CSV) Observe(e sim.Event) {
	if c.err != nil {
		return
	}
	c.begin()
	switch e.Kind {
	case sim.Admit:
		if e.Cached > 0 && e.Timeline.Admitted == e.Time && e.Preemptions == 0 && c.Requests != nil {
			c.cached[e.Serial] = e.Cached
		}
	case sim.Finish, sim.Reject, sim.Abort:
		if c.Requests != nil {
			c.request(&e)
		}
	case sim.StepEnd:
		if c.Steps != nil {
			c.step(&e)
		}
	}
}

// begin writes the headers.
func (c *CSV) begin() {
	if c.begun {
		return
	}
	c.begun, c.cached = true, map[int64]int32{}
	for i := range c.Config.Replicas {
		if x, ok := c.Config.Replicas[i].CostModel.(sim.Explainer); ok {
			if c.explainers == nil {
				c.explainers = make([]sim.Explainer, len(c.Config.Replicas))
			}
			c.explainers[i] = x
		}
	}
	if c.Requests != nil {
		for _, name := range csvRequest {
			c.requests.string(name)
		}
		if c.Config.Ledgers {
			for _, name := range ledgerNames {
				c.requests.string("ledger_" + name + "_ms")
			}
		}
		c.requests.endRow(c.Requests)
	}
	if c.Steps != nil {
		for _, name := range csvStep {
			c.steps.string(name)
		}
		if c.explainers != nil {
			for _, name := range csvBounds {
				c.steps.string("cost_" + name + "_ms")
			}
		}
		c.steps.endRow(c.Steps)
	}
}

func (c *CSV) request(e *sim.Event) {
	t := &c.requests
	t.int(e.Serial)
	t.int(int64(e.ID))
	attempt, _ := e.Attempt()
	t.int(int64(attempt))
	switch {
	case e.Class < 0:
		t.empty()
	case e.Class < len(c.Config.Classes) && c.Config.Classes[e.Class].Name != "":
		t.string(c.Config.Classes[e.Class].Name)
	default:
		t.int(int64(e.Class))
	}
	if e.Replica < 0 {
		t.empty()
	} else {
		t.int(int64(e.Replica))
	}
	t.string(e.Kind.String())
	t.string(e.Reason)
	t.int(int64(e.Prompt))
	t.int(int64(c.cached[e.Serial]))
	delete(c.cached, e.Serial)
	t.int(int64(e.Output))
	t.int(int64(e.Preemptions))
	t.int(int64(e.GapsOver))
	client := e.Client()
	for _, at := range [...]sim.Time{e.Timeline.Arrival, e.Timeline.Queued, e.Timeline.Admitted, e.Timeline.PrefillEnd, e.Timeline.FirstToken, e.Time,
		client.Send, client.First, client.Last, client.Done} {
		t.millis(at)
	}
	if c.Config.Ledgers {
		ledger := e.Ledger()
		for _, d := range ledgerParts(&ledger) {
			t.cell()
			t.buf = appendMillis(t.buf, sim.Time(*d))
		}
	}
	t.endRow(c.Requests)
}

func (c *CSV) step(e *sim.Event) {
	t, b := &c.steps, e.Batch
	t.int(int64(e.Replica))
	t.int(e.Step)
	t.millis(e.Time.Add(-e.Took))
	t.millis(e.Time)
	t.millis(sim.Time(e.Took))
	for _, n := range [...]int{b.Decodes, b.Positions, b.Context, len(b.Prefills), b.PrefillTokens(), b.SwapIn, b.SwapOut,
		b.Padding.Rows, b.Padding.PromptTokens, int(e.Tokens)} {
		t.int(int64(n))
	}
	if i := int(e.Replica); i < len(c.Config.Replicas) && c.Config.Replicas[i].KVBlocks == 0 {
		t.empty() // memory never runs out
	} else {
		t.int(int64(e.FreeBlocks))
	}
	t.int(int64(e.Waiting))
	t.int(int64(e.Running))
	if c.explainers != nil {
		c.costs(e)
	}
	t.endRow(c.Steps)
}

// costs writes what the cost model says that the step waits for.
func (c *CSV) costs(e *sim.Event) {
	if c.explainers[e.Replica] == nil {
		for range csvBounds {
			c.steps.empty()
		}
		return
	}
	c.operators = c.explainers[e.Replica].Explain(*e.Batch, c.operators[:0])
	var seconds [len(csvBounds)]float64
	for i := range c.operators {
		k := 0
		for k < len(csvBounds) && csvBounds[k] != c.operators[i].Bound {
			k++
		}
		if x := c.operators[i].Seconds; k == len(csvBounds) || math.IsNaN(x) || math.IsInf(x, 0) {
			c.err = fmt.Errorf("trace: step %d of replica %d: the cost model explains it with %v s for %q", e.Step, e.Replica, x, c.operators[i].Bound)
			return
		}
		seconds[k] += c.operators[i].Seconds
	}
	for _, x := range seconds {
		c.steps.cell()
		c.steps.buf = strconv.AppendFloat(c.steps.buf, x*1e3, 'f', 6, 64)
	}
}

// Flush writes what is buffered. It returns the first fault since the start.
func (c *CSV) Flush() error {
	if c.err != nil {
		return c.err
	}
	c.begin()
	if c.Requests != nil {
		c.requests.flush(c.Requests)
	}
	if c.Steps != nil {
		c.steps.flush(c.Steps)
	}
	if c.requests.err != nil {
		return c.requests.err
	}
	return c.steps.err
}
