package trace_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/trace"
)

// table reads a table as maps by column.
func table(t *testing.T, text []byte) (rows []map[string]string) {
	t.Helper()
	if n := bytes.Count(text, []byte("\n")); n != bytes.Count(text, []byte("\r\n")) {
		t.Fatalf("%d line ends, not all of them CRLF", n)
	}
	records, err := csv.NewReader(bytes.NewReader(text)).ReadAll() // refuses rows of different lengths
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range records[1:] {
		row := map[string]string{}
		for i, cell := range record {
			row[records[0][i]] = cell
		}
		rows = append(rows, row)
	}
	return rows
}

func instant(t *testing.T, cell string) sim.Time {
	t.Helper()
	if cell == "" {
		return sim.NoTime
	}
	at, err := trace.ParseMillis(cell)
	if err != nil {
		t.Fatalf("%q: %v", cell, err)
	}
	return at
}

// The tables hold every end and every step, and nothing is lost.
func TestCSV(t *testing.T) {
	cached := 0
	for seed := range uint64(40) {
		var requests, steps bytes.Buffer
		c := &trace.CSV{Requests: &requests, Steps: &steps}
		var ends, stepEnds []sim.Event
		var ledgers []sim.Ledger
		var clients []sim.Client
		var batches []sim.Batch
		hits := map[int64]int64{}
		res := observe(t, seed, func(cfg sim.Config) sim.Observer {
			c.Config = cfg
			return sim.ObserverFunc(func(e sim.Event) {
				c.Observe(e)
				switch e.Kind {
				case sim.Admit:
					if _, ok := hits[e.Serial]; !ok {
						hits[e.Serial] = int64(e.Cached)
					}
				case sim.Finish, sim.Reject, sim.Abort:
					ends, ledgers, clients = append(ends, e), append(ledgers, e.Ledger()), append(clients, e.Client())
				case sim.StepEnd:
					b := *e.Batch
					b.Prefills = append([]sim.Chunk(nil), b.Prefills...)
					stepEnds, batches = append(stepEnds, e), append(batches, b)
				}
			})
		})
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		rows := table(t, requests.Bytes())
		if len(rows) != len(ends) || int64(len(rows)) != res.Completed+res.Rejected+res.Aborted {
			t.Fatalf("seed %d: %d rows of %d ends", seed, len(rows), len(ends))
		}
		for i, row := range rows {
			e, client := ends[i], clients[i]
			at := func(name string) sim.Time { return instant(t, row[name]) }
			got := sim.Timeline{Arrival: at("arrival_ms"), Queued: at("queued_ms"), Admitted: at("admitted_ms"), PrefillEnd: at("prefill_end_ms"), FirstToken: at("first_token_ms")}
			gotClient := sim.Client{Send: at("client_send_ms"), First: at("client_first_token_ms"), Last: at("client_last_token_ms"), Done: at("client_done_ms")}
			if got != e.Timeline || gotClient != client || at("end_ms") != e.Time {
				t.Errorf("seed %d: %v of %+v, %+v", seed, row, e.Timeline, client)
			}
			var sum sim.Time
			for name, cell := range row {
				if strings.HasPrefix(name, "ledger_") {
					sum += instant(t, cell)
				}
			}
			if l := ledgers[i]; sum != sim.Time(l.ToFirst()+l.ToLast()) || row["ledger_stream_decode_ms"] == "" || instant(t, row["ledger_stream_decode_ms"]) != sim.Time(l.Stream.Decode) {
				t.Errorf("seed %d: ledger of %v ns in %v", seed, sum, row)
			}
			replica, class := "", ""
			if e.Replica >= 0 {
				replica = fmt.Sprint(e.Replica)
			}
			if e.Class >= 0 {
				class = c.Config.Classes[e.Class].Name
			}
			want := map[string]string{"serial": fmt.Sprint(e.Serial), "id": fmt.Sprint(e.ID), "attempt": "0", "class": class, "replica": replica, "end": e.Kind.String(), "reason": e.Reason,
				"prompt_tokens": fmt.Sprint(e.Prompt), "output_tokens": fmt.Sprint(e.Output), "cached_tokens": fmt.Sprint(hits[e.Serial]),
				"preemptions": fmt.Sprint(e.Preemptions), "gaps_over_target": fmt.Sprint(e.GapsOver)}
			if hits[e.Serial] > 0 {
				cached++
			}
			for name, value := range want {
				if row[name] != value {
					t.Errorf("seed %d request %d: %s is %q, want %q", seed, e.Serial, name, row[name], value)
				}
			}
		}
		rows = table(t, steps.Bytes())
		if len(rows) != len(stepEnds) {
			t.Fatalf("seed %d: %d rows of %d steps", seed, len(rows), len(stepEnds))
		}
		for i, row := range rows {
			e, b := stepEnds[i], batches[i]
			free := fmt.Sprint(e.FreeBlocks)
			if c.Config.Replicas[e.Replica].KVBlocks == 0 {
				free = ""
			}
			want := map[string]string{"replica": fmt.Sprint(e.Replica), "step": fmt.Sprint(e.Step), "decodes": fmt.Sprint(b.Decodes), "decode_positions": fmt.Sprint(b.Positions),
				"context_tokens": fmt.Sprint(b.Context), "prefill_chunks": fmt.Sprint(len(b.Prefills)), "prefill_tokens": fmt.Sprint(b.PrefillTokens()),
				"swap_in_blocks": fmt.Sprint(b.SwapIn), "swap_out_blocks": fmt.Sprint(b.SwapOut), "padding_rows": fmt.Sprint(b.Padding.Rows),
				"padding_tokens": fmt.Sprint(b.Padding.PromptTokens), "sampled_tokens": fmt.Sprint(e.Tokens), "free_blocks": free,
				"waiting_requests": fmt.Sprint(e.Waiting), "running_requests": fmt.Sprint(e.Running)}
			start, end, took := instant(t, row["start_ms"]), instant(t, row["end_ms"]), instant(t, row["took_ms"])
			if end != e.Time || took != sim.Time(e.Took) || start != end-took {
				t.Errorf("seed %d: %v", seed, row)
			}
			for _, name := range []string{"start_ms", "end_ms", "took_ms"} {
				delete(row, name)
			}
			if d := cmp.Diff(want, row); d != "" {
				t.Fatalf("seed %d step %d (-want +got):\n%s", seed, e.Step, d)
			}
		}
	}
	if cached == 0 {
		t.Error("no request found anything in a cache")
	}
}

// Names may hold anything; costs have columns where a model explains its steps.
func TestCSVBytes(t *testing.T) {
	var requests, steps bytes.Buffer
	cfg := sim.Config{
		Classes:  []sim.Class{{Name: "a \"b\",\nc"}, {}},
		Router:   scheduler.LeastLoaded{},
		Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: explained{}}, {Scheduler: scheduler.ChunkedPrefill{}, CostModel: sim.CostFunc(explained{}.StepTime), KVBlocks: 9}},
	}
	c := &trace.CSV{Requests: &requests, Steps: &steps, Config: cfg}
	cfg.Observers = []sim.Observer{c}
	load := func(yield func(sim.Request, error) bool) {
		for i := range 3 {
			if !yield(sim.Request{ID: 7 + i, Arrival: 1500, Prompt: 20, Output: 1, Class: i}, nil) {
				return
			}
		}
	}
	if _, err := sim.Run(context.Background(), cfg, load); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	wantRequests := "serial,id,attempt,class,replica,end,reason,prompt_tokens,cached_tokens,output_tokens,preemptions,gaps_over_target," +
		"arrival_ms,queued_ms,admitted_ms,prefill_end_ms,first_token_ms,end_ms,client_send_ms,client_first_token_ms,client_last_token_ms,client_done_ms\r\n" +
		"3,9,0,,,reject,unknown_class,20,0,0,0,0,0.0015,,,,,0.0015,0.0015,,,0.0015\r\n" +
		"1,7,0,\"a \"\"b\"\",\nc\",0,finish,stop,20,0,1,0,0,0.0015,0.0015,0.0015,0.0225,0.0225,0.0225,0.0015,0.0225,0.0225,0.0225\r\n" +
		"2,8,0,1,1,finish,stop,20,0,1,0,0,0.0015,0.0015,0.0015,0.0225,0.0225,0.0225,0.0015,0.0225,0.0225,0.0225\r\n"
	wantSteps := "replica,step,start_ms,end_ms,took_ms,decodes,decode_positions,context_tokens,prefill_chunks,prefill_tokens,swap_in_blocks,swap_out_blocks," +
		"padding_rows,padding_tokens,sampled_tokens,free_blocks,waiting_requests,running_requests,cost_memory_ms,cost_compute_ms,cost_link_ms,cost_host_ms\r\n" +
		"0,1,0.0015,0.0225,0.021,0,0,0,1,20,0,0,0,0,1,,0,1,0.000000,0.020000,0.000000,0.001000\r\n" +
		"1,1,0.0015,0.0225,0.021,0,0,0,1,20,0,0,0,0,1,7,0,1,,,,\r\n"
	if d := cmp.Diff(wantRequests, requests.String()); d != "" {
		t.Errorf("requests (-want +got):\n%s", d)
	}
	if d := cmp.Diff(wantSteps, steps.String()); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
}

type bound struct {
	explained
	name    string
	seconds float64
}

func (x bound) Explain(b sim.Batch, dst []sim.Operator) []sim.Operator {
	return append(dst, sim.Operator{Bound: x.name, Seconds: x.seconds})
}

func TestCSVErrors(t *testing.T) {
	stepEnd := sim.Event{Kind: sim.StepEnd, Step: 5, Batch: &sim.Batch{}}
	for _, c := range []struct {
		model bound
		want  string
	}{
		{bound{name: "memory", seconds: math.NaN()}, `trace: step 5 of replica 0: the cost model explains it with NaN s for "memory"`},
		{bound{name: "memory", seconds: math.Inf(1)}, `trace: step 5 of replica 0: the cost model explains it with +Inf s for "memory"`},
		{bound{name: "luck"}, `trace: step 5 of replica 0: the cost model explains it with 0 s for "luck"`},
	} {
		cfg := sim.Config{Replicas: []sim.Replica{{CostModel: c.model}}}
		w := trace.CSV{Steps: io.Discard, Config: cfg}
		w.Observe(stepEnd)
		if err := w.Flush(); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
		timeline := trace.Chrome{W: io.Discard, Config: cfg}
		timeline.Observe(stepEnd)
		if err := timeline.Flush(); c.model.name != "luck" && (err == nil || err.Error() != c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
	for _, w := range []trace.CSV{{Requests: &failing{}, Steps: io.Discard}, {Steps: &failing{after: 100_000}}} {
		for range 10_000 {
			w.Observe(stepEnd)
		}
		if err := w.Flush(); err == nil || err.Error() != "trace: disk full" {
			t.Errorf("error %v", err)
		}
	}
}

// A run as two tables for a spreadsheet.
func ExampleCSV() {
	var requests, steps strings.Builder
	c := &trace.CSV{Requests: &requests, Steps: &steps}
	cfg := sim.Config{
		Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: sim.CostFunc(func(b sim.Batch) time.Duration {
			return 6*time.Millisecond + time.Duration(b.PrefillTokens())*50*time.Microsecond
		})}},
		Observers: []sim.Observer{c},
	}
	_, err := sim.Run(context.Background(), cfg, func(yield func(sim.Request, error) bool) {
		yield(sim.Request{ID: 1, Prompt: 100, Output: 3}, nil)
	})
	if err == nil {
		err = c.Flush()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	rows, _ := csv.NewReader(strings.NewReader(steps.String())).ReadAll()
	for _, row := range rows {
		fmt.Println(row[1:6], row[9])
	}
	// Output:
	// [step start_ms end_ms took_ms decodes] prefill_tokens
	// [1 0 11 11 0] 100
	// [2 11 17 6 1] 0
	// [3 17 23 6 1] 0
}
