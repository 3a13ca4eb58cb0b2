package trace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/trace"
)

// chromeEvent is a trace event with times in nanoseconds.
type chromeEvent struct {
	Ph, Name, Cat, ID, S string
	Pid, Tid             int64
	At, Took             int64
	Args                 map[string]any
}

// readChrome parses a document as a viewer does, and checks each event alone.
func readChrome(t *testing.T, text []byte) (events []chromeEvent) {
	t.Helper()
	var doc struct {
		TraceEvents []struct {
			Ph, Name, Cat, ID, S string
			Pid, Tid             int64
			Ts, Dur              json.Number
			Args                 map[string]any
		} `json:"traceEvents"`
		DisplayTimeUnit string `json:"displayTimeUnit"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	d.UseNumber()
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if doc.DisplayTimeUnit != "ms" {
		t.Errorf("displayTimeUnit is %q", doc.DisplayTimeUnit)
	}
	ns := func(n json.Number) int64 {
		r, ok := new(big.Rat).SetString(n.String())
		if !ok {
			t.Fatalf("time %q", n)
		}
		r.Mul(r, big.NewRat(1000, 1))
		if !r.IsInt() {
			t.Fatalf("time %s is no whole number of nanoseconds", n)
		}
		return r.Num().Int64()
	}
	for _, e := range doc.TraceEvents {
		out := chromeEvent{Ph: e.Ph, Name: e.Name, Cat: e.Cat, ID: e.ID, S: e.S, Pid: e.Pid, Tid: e.Tid, At: ns(e.Ts), Args: e.Args}
		if e.Ph == "X" {
			out.Took = ns(e.Dur)
		} else if e.Dur != "" {
			t.Fatalf("%+v has a duration", e)
		}
		if e.Name == "" || e.Pid < 1 || e.Tid < 1 {
			t.Fatalf("%+v lacks a name, a process or a thread", e)
		}
		events = append(events, out)
	}
	return events
}

func whole(t *testing.T, v any) int64 {
	t.Helper()
	n, err := v.(json.Number).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// checkChrome checks what viewers need of a document: slices of a track do not
// overlap, spans match and nest, times do not go back where a viewer reads them
// in order, tracks have names, and no thread number is in two processes.
func checkChrome(t *testing.T, events []chromeEvent) {
	t.Helper()
	type track struct{ pid, tid int64 }
	type span struct{ cat, id string }
	type series struct {
		pid  int64
		name string
	}
	names, processes, home := map[track]string{}, map[int64]string{}, map[int64]int64{}
	ends, counters := map[track]int64{}, map[series]int64{}
	open, times := map[span][]string{}, map[span]int64{}
	for _, e := range events {
		if pid, ok := home[e.Tid]; ok && pid != e.Pid {
			t.Fatalf("thread %d is in processes %d and %d", e.Tid, pid, e.Pid)
		}
		home[e.Tid] = e.Pid
		here := track{e.Pid, e.Tid}
		switch e.Ph {
		case "M":
			name := e.Args["name"].(string)
			if e.Name == "process_name" {
				processes[e.Pid] = name
			} else {
				names[here] = name
			}
		case "X", "i":
			if names[here] == "" || processes[e.Pid] == "" {
				t.Fatalf("%+v is on a track without a name", e)
			}
			if e.At < ends[here] {
				t.Fatalf("%+v starts before %d, where the one before ends", e, ends[here])
			}
			if e.Took < 0 || e.Ph == "i" && e.S != "t" {
				t.Fatalf("%+v", e)
			}
			ends[here] = e.At + e.Took
		case "b", "e", "n":
			s := span{e.Cat, e.ID}
			if at, ok := times[s]; ok && e.At < at {
				t.Fatalf("%+v is before %d", e, at)
			}
			times[s] = e.At
			stack := open[s]
			switch {
			case e.Ph == "b":
				open[s] = append(stack, e.Name)
			case len(stack) == 0:
				t.Fatalf("%+v is in no span", e)
			case e.Ph == "e":
				if top := stack[len(stack)-1]; top != e.Name {
					t.Fatalf("%+v ends %q", e, top)
				}
				if open[s] = stack[:len(stack)-1]; len(open[s]) == 0 {
					delete(open, s)
				}
			}
		case "C":
			s := series{e.Pid, e.Name}
			if at, ok := counters[s]; ok && e.At < at {
				t.Fatalf("%+v is before %d", e, at)
			}
			counters[s] = e.At
			for _, v := range e.Args {
				if whole(t, v) < 0 {
					t.Fatalf("%+v", e)
				}
			}
		default:
			t.Fatalf("phase %q", e.Ph)
		}
	}
	if len(open) > 0 {
		t.Fatalf("spans without an end: %v", open)
	}
}

// Whatever happens in a run, its document can be shown, and says what the run
// did.
func TestChromeShowsEverything(t *testing.T) {
	kinds := map[string]int{}
	for seed := range uint64(120) {
		var text bytes.Buffer
		want, steps, busy := map[string]int64{}, int64(0), int64(0)
		tell := func(e sim.Event) {
			switch e.Kind {
			case sim.StepEnd:
				steps++
				busy += int64(e.Took)
			case sim.Preempt, sim.Reject, sim.Abort, sim.Drain, sim.Open:
				want["mark "+e.Kind.String()]++
			case sim.FirstToken:
				want["first token"]++
			}
		}
		var c *trace.Chrome
		res := observe(t, seed, func(cfg sim.Config) sim.Observer {
			c = &trace.Chrome{W: &text, Config: cfg}
			return sim.ObserverFunc(func(e sim.Event) { tell(e); c.Observe(e) })
		})
		if err := c.Flush(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		events := readChrome(t, text.Bytes())
		checkChrome(t, events)
		got := map[string]int64{}
		var gotSteps, gotBusy int64
		ends := map[string]int64{}
		for _, e := range events {
			kinds[e.Ph+" "+e.Name]++
			switch {
			case e.Ph == "X" && e.Cat == "step":
				gotSteps++
				gotBusy += e.Took
			case e.Ph == "i":
				got["mark "+e.Name]++
			case e.Ph == "n":
				got[e.Name]++
			case e.Ph == "e" && e.Name == "request":
				ends[e.Args["end"].(string)]++
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("seed %d: marks (-want +got):\n%s", seed, d)
		}
		if gotSteps != steps || gotBusy != busy {
			t.Errorf("seed %d: %d steps of %d ns, want %d of %d", seed, gotSteps, gotBusy, steps, busy)
		}
		if ends["finish"] != res.Completed || ends["reject"] != res.Rejected || ends["abort"] != res.Aborted || ends["unfinished"] != res.Unfinished {
			t.Errorf("seed %d: ends %v of %+v", seed, ends, res)
		}
	}
	for _, kind := range []string{"X decode", "X prefill", "X mixed", "X copy", "X to prefill", "X to decode", "b door", "b queue", "b prefill", "b wait for transfer",
		"b transfer", "b decode queue", "b first decode", "b decode", "b preempted", "b swapped out", "b network in", "b gateway", "b to the client",
		"C KV blocks", "C requests", "C front door"} {
		if kinds[kind] == 0 {
			t.Errorf("no event %q in any run", kind)
		}
	}
}

// The counters of a replica show what its steps say when they start. Somebody
// may come in the same instant, in reaction to what the pass rejected.
func TestChromeCounters(t *testing.T) {
	type level struct{ waiting, running int64 }
	for seed := range uint64(40) {
		var text bytes.Buffer
		var c *trace.Chrome
		var replicas []sim.Replica
		observe(t, seed, func(cfg sim.Config) sim.Observer {
			c, replicas = &trace.Chrome{W: &text, Config: cfg}, cfg.Replicas
			return c
		})
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		levels, used, compared := map[int64]map[int64]level{}, map[int64]int64{}, 0
		events := readChrome(t, text.Bytes())
		for _, e := range events {
			if e.Ph == "C" && e.Name == "requests" {
				if levels[e.Pid] == nil {
					levels[e.Pid] = map[int64]level{}
				}
				levels[e.Pid][e.At] = level{whole(t, e.Args["waiting"]), whole(t, e.Args["running"])}
			}
		}
		for _, e := range events {
			if e.Ph == "C" && e.Name == "KV blocks" {
				used[e.Pid] = whole(t, e.Args["used"])
			}
			if e.Ph != "X" || e.Cat != "step" {
				continue
			}
			r := replicas[e.Pid-2]
			if n, ok := used[e.Pid]; r.KVBlocks > 0 && (!ok || n > int64(r.KVBlocks-r.ReservedBlocks)) {
				t.Fatalf("seed %d: %d blocks in use during %+v", seed, n, e)
			}
			if got, ok := levels[e.Pid][e.At]; ok && r.InFlight < 2 && r.Group == 0 {
				compared++
				if want := (level{whole(t, e.Args["waiting"]), whole(t, e.Args["running"])}); got.running != want.running || got.waiting < want.waiting {
					t.Errorf("seed %d: counters %+v, the step that starts has %+v: %+v", seed, got, want, e)
				}
			}
		}
		if compared == 0 && seed%2 == 0 {
			t.Errorf("seed %d: no counter at the start of a step", seed)
		}
	}
}

// The phases of a request tile its span, and its ledger adds up to what it spent
// in the engine.
func TestChromePhasesTile(t *testing.T) {
	for seed := range uint64(40) {
		var text bytes.Buffer
		var c *trace.Chrome
		observe(t, seed, func(cfg sim.Config) sim.Observer {
			c = &trace.Chrome{W: &text, Config: cfg}
			return c
		})
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		type span struct{ from, to, inside, engine, ledger int64 }
		spans := map[string]*span{}
		for _, e := range readChrome(t, text.Bytes()) {
			if e.Cat != "request" {
				continue
			}
			s := spans[e.ID]
			if s == nil {
				s = &span{}
				spans[e.ID] = s
			}
			outside := e.Name == "network in" || e.Name == "gateway" || e.Name == "to the client"
			switch {
			case e.Name == "request" && e.Ph == "b":
				s.from = e.At
			case e.Name == "request":
				s.to = e.At
				for name, v := range e.Args {
					if strings.HasSuffix(name, "_us") {
						r, _ := new(big.Rat).SetString(v.(json.Number).String())
						s.ledger += r.Mul(r, big.NewRat(1000, 1)).Num().Int64()
					}
				}
				if e.Args["end"] == "unfinished" {
					s.ledger = s.engine
				}
			case e.Ph == "b":
				s.inside -= e.At
				if !outside {
					s.engine -= e.At
				}
			case e.Ph == "e":
				s.inside += e.At
				if !outside {
					s.engine += e.At
				}
			}
		}
		for id, s := range spans {
			if s.inside != s.to-s.from || s.ledger != s.engine {
				t.Errorf("seed %d request %s: phases of %d ns in %d, ledger of %d in %d", seed, id, s.inside, s.to-s.from, s.ledger, s.engine)
			}
		}
	}
}

// The same run gives the same bytes, also of the requests that the horizon cuts.
func TestChromeSameBytes(t *testing.T) {
	cut := int64(0)
	for seed := range uint64(24) {
		var texts [2]bytes.Buffer
		for i := range texts {
			c := &trace.Chrome{W: &texts[i]}
			cut = max(cut, observe(t, seed, func(sim.Config) sim.Observer { return c }).Unfinished)
			if err := c.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(texts[0].Bytes(), texts[1].Bytes()) {
			t.Errorf("seed %d: two runs give different bytes", seed)
		}
	}
	if cut < 2 {
		t.Errorf("no run with several unfinished requests, at most %d", cut)
	}
}

// One request beside another, to the byte.
func TestChromeBytes(t *testing.T) {
	var text bytes.Buffer
	cfg := sim.Config{
		Classes:  []sim.Class{{Name: `a "b"`}},
		Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: explained{}, KVBlocks: 10, MaxBatchTokens: 100}},
	}
	c := &trace.Chrome{W: &text, Config: cfg}
	cfg.Observers = []sim.Observer{c}
	requests := func(yield func(sim.Request, error) bool) {
		_ = yield(sim.Request{ID: 7, Arrival: 1500, Prompt: 20, Output: 2}, nil) && yield(sim.Request{ID: 8, Arrival: 2001, Prompt: 1000, Output: 1}, nil)
	}
	if _, err := sim.Run(context.Background(), cfg, requests); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	want := `{"displayTimeUnit":"ms","traceEvents":[
{"ph":"M","name":"process_name","pid":1,"tid":1,"ts":0,"args":{"name":"requests"}},
{"ph":"b","name":"request","pid":1,"tid":1,"ts":1.5,"cat":"request","id":"1","args":{"id":7,"class":"a \"b\"","prompt_tokens":20}},
{"ph":"M","name":"process_name","pid":2,"tid":4096,"ts":0,"args":{"name":"replica 0"}},
{"ph":"C","name":"requests","pid":2,"tid":4096,"ts":1.5,"cat":"load","args":{"waiting":0,"running":1}},
{"ph":"b","name":"request","pid":1,"tid":1,"ts":2.001,"cat":"request","id":"2","args":{"id":8,"class":"a \"b\"","prompt_tokens":1000}},
{"ph":"M","name":"thread_name","pid":1,"tid":4095,"ts":0,"args":{"name":"marks"}},
{"ph":"i","name":"reject","pid":1,"tid":4095,"ts":2.001,"cat":"mark","s":"t","args":{"request":2,"reason":"exceeds_kv_capacity"}},
{"ph":"e","name":"request","pid":1,"tid":1,"ts":2.001,"cat":"request","id":"2","args":{"end":"reject","reason":"exceeds_kv_capacity","output_tokens":0}},
{"ph":"b","name":"prefill","pid":1,"tid":1,"ts":1.5,"cat":"request","id":"1","args":{"replica":0}},
{"ph":"e","name":"prefill","pid":1,"tid":1,"ts":22.5,"cat":"request","id":"1","args":{}},
{"ph":"n","name":"first token","pid":1,"tid":1,"ts":22.5,"cat":"request","id":"1","args":{}},
{"ph":"M","name":"thread_name","pid":2,"tid":4096,"ts":0,"args":{"name":"steps"}},
{"ph":"C","name":"KV blocks","pid":2,"tid":4096,"ts":1.5,"cat":"load","args":{"used":2}},
{"ph":"X","name":"prefill","pid":2,"tid":4096,"ts":1.5,"cat":"step","dur":21,"args":{"step":1,"prefill_chunks":1,"prefill_tokens":20,"sampled_tokens":1,"waiting":0,"running":1,"cost_us":{"compute":20.000,"host":1.000}}},
{"ph":"b","name":"decode","pid":1,"tid":1,"ts":22.5,"cat":"request","id":"1","args":{"replica":0}},
{"ph":"e","name":"decode","pid":1,"tid":1,"ts":23.5,"cat":"request","id":"1","args":{}},
{"ph":"e","name":"request","pid":1,"tid":1,"ts":23.5,"cat":"request","id":"1","args":{"end":"finish","reason":"stop","output_tokens":2}},
{"ph":"X","name":"decode","pid":2,"tid":4096,"ts":22.5,"cat":"step","dur":1,"args":{"step":2,"decodes":1,"positions":1,"context_tokens":20,"sampled_tokens":1,"waiting":0,"running":1,"cost_us":{"compute":0.000,"host":1.000}}},
{"ph":"C","name":"requests","pid":2,"tid":4096,"ts":23.5,"cat":"load","args":{"waiting":0,"running":0}}
]}
`
	if d := cmp.Diff(want, text.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// explained takes a microsecond a step and one for each prompt token.
type explained struct{}

func (explained) StepTime(b sim.Batch) time.Duration {
	return time.Duration(1+b.PrefillTokens()) * time.Microsecond
}

func (explained) Explain(b sim.Batch, dst []sim.Operator) []sim.Operator {
	half := float64(b.PrefillTokens()) / 2e6
	return append(dst, sim.Operator{Name: "a", Seconds: half, Bound: "compute"}, sim.Operator{Name: "h", Seconds: 1e-6, Bound: "host"}, sim.Operator{Name: "b", Seconds: half, Bound: "compute"})
}

func TestChromeErrors(t *testing.T) {
	arrive := sim.Event{Kind: sim.Arrive, Serial: 1, Replica: -1}
	queue := sim.Event{Kind: sim.Queue, Serial: 2}
	for _, c := range []struct {
		name, want string
		events     []sim.Event
	}{
		{"stranger", "trace: a queue event of request 2, which has not arrived", []sim.Event{arrive, queue}},
		{"behind the end", "trace: a arrive event behind the end of the document", []sim.Event{{Kind: sim.End}, arrive}},
	} {
		var text bytes.Buffer
		w := &trace.Chrome{W: &text}
		for _, e := range c.events {
			w.Observe(e)
		}
		if err := w.Flush(); err == nil || err.Error() != c.want {
			t.Errorf("%s: error %v", c.name, err)
		}
	}
	w := &trace.Chrome{W: &failing{after: 100_000}}
	for i := range int64(10_000) {
		w.Observe(sim.Event{Kind: sim.Arrive, Serial: i + 1, Replica: -1})
	}
	if err := w.Flush(); err == nil || err.Error() != "trace: disk full" {
		t.Errorf("error %v", err)
	}
	w = &trace.Chrome{W: io.Discard}
	if err := w.WriteEntry(trace.Entry{}); err == nil || !strings.HasPrefix(err.Error(), `trace: request "": prompt_tokens is 0`) {
		t.Errorf("error %v", err)
	}
	e := trace.Entry{Record: sample()}
	e.ClientSend = trace.Unknown
	if err := w.WriteEntry(e); err == nil || !strings.HasSuffix(err.Error(), "is not known") {
		t.Errorf("error %v", err)
	}
	if err := w.Flush(); err != nil {
		t.Error(err)
	}
	if err := w.WriteEntry(trace.Entry{Record: sample()}); err == nil || !strings.HasSuffix(err.Error(), "behind the end of the document") {
		t.Errorf("error %v", err)
	}
}

// Records from elsewhere become spans; what is not known of them is left out.
func ExampleChrome_WriteEntry() {
	c := trace.Chrome{W: os.Stdout}
	err := c.WriteEntry(trace.Entry{Record: trace.Record{RequestID: "a", PromptTokens: 512, OutputTokens: 2,
		ClientSend: 0, GatewayArrival: trace.Unknown, QueueEnter: 2_000_000, PrefillStart: 2_000_000, PrefillEnd: 30_250_001,
		FirstTokenServer: 30_250_001, FirstTokenClient: 30_250_001, LastTokenClient: 41_000_000}})
	if err == nil {
		err = c.Flush()
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"displayTimeUnit":"ms","traceEvents":[
	// {"ph":"M","name":"process_name","pid":1,"tid":1,"ts":0,"args":{"name":"requests"}},
	// {"ph":"b","name":"request","pid":1,"tid":1,"ts":0,"cat":"request","id":"a","args":{"prompt_tokens":512,"output_tokens":2}},
	// {"ph":"b","name":"prefill","pid":1,"tid":1,"ts":2000,"cat":"request","id":"a","args":{}},
	// {"ph":"e","name":"prefill","pid":1,"tid":1,"ts":30250.001,"cat":"request","id":"a","args":{}},
	// {"ph":"b","name":"stream","pid":1,"tid":1,"ts":30250.001,"cat":"request","id":"a","args":{}},
	// {"ph":"e","name":"stream","pid":1,"tid":1,"ts":41000,"cat":"request","id":"a","args":{}},
	// {"ph":"e","name":"request","pid":1,"tid":1,"ts":41000,"cat":"request","id":"a","args":{}}
	// ]}
}
