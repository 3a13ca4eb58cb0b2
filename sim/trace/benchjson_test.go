package trace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/metrics"
	"servesim/sim/trace"
)

// readBench returns the one result of a text.
func readBench(t *testing.T, text []byte) trace.Bench {
	t.Helper()
	all, err := results(trace.BenchReader{In: bytes.NewReader(text), Name: "file"})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 {
		t.Fatalf("%d results", len(all))
	}
	return all[0]
}

func results(r trace.BenchReader) (all []trace.Bench, err error) {
	for b, e := range r.Results() {
		if e != nil {
			return all, e
		}
		all = append(all, b)
	}
	return all, nil
}

// benchRun writes everything(seed) with those settings.
func benchRun(t testing.TB, seed uint64, set func(*trace.BenchWriter)) []byte {
	t.Helper()
	var text bytes.Buffer
	b := &trace.BenchWriter{W: &text}
	set(b)
	observe(t, seed, func(sim.Config) sim.Observer { return b })
	if err := b.Flush(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	return text.Bytes()
}

// clientSide follows what the clients of a run see.
type clientSide struct {
	rows  []trace.BenchRequest
	index map[int64]int
}

func (c *clientSide) Observe(e sim.Event) {
	switch e.Kind {
	case sim.Arrive:
		if c.index == nil {
			c.index = map[int64]int{}
		}
		c.index[e.Serial] = len(c.rows)
		c.rows = append(c.rows, trace.BenchRequest{Prompt: max(0, e.Prompt), Error: "unfinished"})
		if p := e.Path(); p != nil {
			c.rows[len(c.rows)-1].Send = e.Time - sim.Time(p.NetworkIn+p.Gateway+p.Retrieval+p.Assembly)
		} else {
			c.rows[len(c.rows)-1].Send = e.Time
		}
	case sim.Reject:
		c.rows[c.index[e.Serial]].Error = e.Reason
	case sim.Abort:
		c.rows[c.index[e.Serial]].Error = "aborted"
	case sim.Finish:
		r, client := &c.rows[c.index[e.Serial]], e.Client()
		r.Error, r.Output = "", e.Output
		r.TTFT, r.Latency = client.First.Sub(client.Send), client.Last.Sub(client.Send)
		before := client.First
		for _, at := range e.Path().Deliver(nil, e.TokenTimes(nil)) {
			if at != before {
				r.ITLs = append(r.ITLs, at.Sub(before))
				before = at
			}
		}
	}
}

// What is written is what the clients saw, and is read and written again to the
// byte.
func TestBenchRoundTrip(t *testing.T) {
	failed, coalesced := 0, 0
	for seed := range uint64(60) {
		var text bytes.Buffer
		var client clientSide
		b := &trace.BenchWriter{W: &text, Detailed: true, Settings: trace.BenchSettings{Date: "20260101-000000", Backend: "servesim",
			EndpointType: "x", Label: "é", ModelID: "m", TokenizerID: "t", RequestRate: 2.5, Burstiness: 0.5, MaxConcurrency: 3,
			Metadata: map[string]string{"zone": "b", "area": "a"}}}
		observe(t, seed, func(sim.Config) sim.Observer {
			return sim.ObserverFunc(func(e sim.Event) { b.Observe(e); client.Observe(e) })
		})
		if err := b.Flush(); err != nil {
			t.Fatal(err)
		}
		got := readBench(t, text.Bytes())
		if d := cmp.Diff(client.rows, got.Requests, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, d)
		}
		if d := cmp.Diff(b.Settings, got.Settings); d != "" {
			t.Errorf("seed %d: settings (-want +got):\n%s", seed, d)
		}
		var again bytes.Buffer
		w := trace.BenchWriter{W: &again, Settings: got.Settings, Detailed: got.Detailed, Duration: got.Duration}
		for _, r := range got.Requests {
			if r.Error != "" {
				failed++
			} else if len(r.ITLs) < r.Output-1 {
				coalesced++
			}
			if err := w.Write(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(text.String(), again.String()); d != "" {
			t.Errorf("seed %d: bytes (-want +got):\n%s", seed, d)
		}
	}
	if failed == 0 || coalesced == 0 {
		t.Errorf("%d failed requests, %d with fewer chunks than tokens", failed, coalesced)
	}
}

// The figures are those of the definitions, worked out again from the lists.
func TestBenchFigures(t *testing.T) {
	for seed := range uint64(40) {
		text := benchRun(t, seed, func(b *trace.BenchWriter) {
			b.Detailed, b.Percentiles = true, []float64{50, 99.9}
			b.Goodput = trace.BenchGoodput{TTFT: 100 * time.Microsecond, TPOT: 12 * time.Microsecond, E2EL: 400 * time.Microsecond}
		})
		got := readBench(t, text)
		var ttft, tpot, itl, e2el []float64
		want := map[string]float64{"num_prompts": float64(len(got.Requests)), "rtfx": 0}
		good := 0.0
		first, last := sim.Never, sim.Time(0)
		for _, r := range got.Requests {
			first = min(first, r.Send)
			if r.Error != "" {
				want["failed"]++
				continue
			}
			want["completed"]++
			want["total_input_tokens"] += float64(r.Prompt)
			want["total_output_tokens"] += float64(r.Output)
			last = max(last, r.Send.Add(r.Latency))
			perToken := 0.0
			if r.Output > 1 {
				perToken = float64(r.Latency-r.TTFT) / float64(r.Output-1) / 1e6
				tpot = append(tpot, perToken)
			}
			ttft, e2el = append(ttft, float64(r.TTFT)/1e6), append(e2el, float64(r.Latency)/1e6)
			for _, g := range r.ITLs {
				itl = append(itl, float64(g)/1e6)
			}
			if r.TTFT <= 100*time.Microsecond && perToken <= 0.012 && r.Latency <= 400*time.Microsecond {
				good++
			}
		}
		seconds := got.Duration.Seconds()
		want["request_throughput"], want["request_goodput"] = want["completed"]/seconds, good/seconds
		want["output_throughput"] = want["total_output_tokens"] / seconds
		want["total_token_throughput"] = (want["total_input_tokens"] + want["total_output_tokens"]) / seconds
		for name, values := range map[string][]float64{"ttft": ttft, "tpot": tpot, "itl": itl, "e2el": e2el} {
			mean, square := 0.0, 0.0
			for _, v := range values {
				mean += v / float64(len(values))
			}
			for _, v := range values {
				square += (v - mean) * (v - mean) / float64(len(values))
			}
			want["mean_"+name+"_ms"], want["std_"+name+"_ms"] = mean, math.Sqrt(square)
			for key, q := range map[string]float64{"median": 0.5, "p50": 0.5, "p99.9": 0.999} {
				if want[key+"_"+name+"_ms"] = 0; len(values) > 0 {
					want[key+"_"+name+"_ms"] = metrics.Percentile(values, q, metrics.Linear)
				}
			}
		}
		want["max_output_tokens_per_s"], want["max_concurrent_requests"] = perSecond(got.Requests)
		if d := cmp.Diff(want, got.Figures, cmpopts.EquateApprox(1e-9, 1e-9)); d != "" {
			t.Errorf("seed %d (-want +got):\n%s", seed, d)
		}
		if got.Duration < last.Sub(first) {
			t.Errorf("seed %d: duration %v, the last answer came after %v", seed, got.Duration, last.Sub(first))
		}
	}
}

// perSecond fills an array of seconds, as vLLM does.
func perSecond(requests []trace.BenchRequest) (chunks, active float64) {
	tokens, busy := map[int64]float64{}, map[int64]float64{}
	origin := requests[0].Send
	second := func(t sim.Time) int64 { return int64(math.Floor(float64(t-origin) / 1e9)) }
	for _, r := range requests {
		if r.Error != "" {
			continue
		}
		at := r.Send.Add(r.TTFT)
		tokens[second(at)]++
		for _, g := range r.ITLs {
			at = at.Add(g)
			tokens[second(at)]++
		}
		for s := second(r.Send); s <= second(r.Send.Add(r.Latency)); s++ {
			busy[s]++
		}
	}
	for s := range tokens {
		chunks = max(chunks, tokens[s])
	}
	for s := range busy {
		active = max(active, busy[s])
	}
	return chunks, active
}

// Whole seconds, by hand: three requests, of which two are there in second 1, and
// five chunks come in second 2.
func TestBenchSeconds(t *testing.T) {
	var text bytes.Buffer
	w := trace.BenchWriter{W: &text}
	s := time.Second
	for _, r := range []trace.BenchRequest{
		{Prompt: 1, Output: 4, Send: 500_000_000, TTFT: s, Latency: 2 * s, ITLs: []time.Duration{s * 3 / 4, s / 8, s / 8}},
		{Prompt: 1, Output: 3, Send: 1_600_000_000, TTFT: s, Latency: s * 5 / 4, ITLs: []time.Duration{s / 8, s / 8}},
		{Prompt: 1, Output: 1, Send: 5_000_000_000, TTFT: s / 2, Latency: s / 2},
	} {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	f := readBench(t, text.Bytes()).Figures
	if f["max_output_tokens_per_s"] != 4 || f["max_concurrent_requests"] != 2 {
		t.Errorf("%v chunks in a second, %v requests", f["max_output_tokens_per_s"], f["max_concurrent_requests"])
	}
}

// Requests that come out of order fall into the seconds before the origin.
func TestBenchSecondsBeforeTheFirst(t *testing.T) {
	var text bytes.Buffer
	w := trace.BenchWriter{W: &text}
	for _, send := range []sim.Time{5_000_000_000, 4_200_000_000, 4_400_000_000} {
		if err := w.Write(trace.BenchRequest{Prompt: 1, Output: 1, Send: send, TTFT: 200_000_000, Latency: 200_000_000}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	got := readBench(t, text.Bytes())
	if f := got.Figures; f["max_output_tokens_per_s"] != 2 || f["max_concurrent_requests"] != 2 || got.Duration != time.Second {
		t.Errorf("%v chunks in a second, %v requests, duration %v", f["max_output_tokens_per_s"], f["max_concurrent_requests"], got.Duration)
	}
}

// A request that the engine refuses counts with what its client sent.
func TestBenchOfFaultyRequest(t *testing.T) {
	var text bytes.Buffer
	w := trace.BenchWriter{W: &text, Detailed: true}
	w.Observe(sim.Event{Kind: sim.Arrive, Serial: 1, Time: 1_000_000_000, Prompt: -3})
	w.Observe(sim.Event{Kind: sim.Reject, Serial: 1, Time: 3_000_000_000, Prompt: -3, Reason: sim.RejectEmptyPrompt})
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	got := readBench(t, text.Bytes())
	if d := cmp.Diff([]trace.BenchRequest{{Send: 1_000_000_000, Error: sim.RejectEmptyPrompt}}, got.Requests); d != "" || got.Duration != 2*time.Second {
		t.Errorf("duration %v (-want +got):\n%s", got.Duration, d)
	}
}

// A result has every key of vLLM's own, in its order, and without details lacks
// the same seven lists.
func TestBenchKeys(t *testing.T) {
	example, err := os.ReadFile(shared(t, "recordings/format_examples/vllm_bench.json"))
	if err != nil {
		t.Fatal(err)
	}
	keys := func(text []byte) map[string]json.RawMessage {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	detailed := keys(benchRun(t, 1, func(b *trace.BenchWriter) { b.Detailed = true }))
	brief := keys(benchRun(t, 1, func(*trace.BenchWriter) {}))
	lists := []string{"input_lens", "output_lens", "start_times", "ttfts", "itls", "generated_texts", "errors"}
	for key, like := range keys(example) {
		have, ok := detailed[key]
		if !ok {
			t.Errorf("no %s", key)
			continue
		}
		kind := func(v json.RawMessage) string { return strings.Trim(string(v[:1]), "-0123456789") }
		if k := kind(like); k != kind(have) && string(like) != "null" && key != "request_rate" {
			t.Errorf("%s is %.20s, vLLM has %.20s", key, have, like)
		}
		if _, ok := brief[key]; ok == slices.Contains(lists, key) {
			t.Errorf("%s without details: %t", key, ok)
		}
	}
	got := readBench(t, example)
	want := []trace.BenchRequest{
		{Prompt: 374, Output: 3, Send: 100_000_000_000, TTFT: 22_500_000, Latency: 42_400_000, ITLs: []time.Duration{9_800_000, 10_100_000}},
		{Prompt: 91, Send: 100_200_000_000, Error: "timeout"},
	}
	if d := cmp.Diff(want, got.Requests, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got.Settings.RequestRate != 5 || got.Settings.ModelID != "llama-3-8b" || got.Duration != 500*time.Millisecond || got.Figures["p99_itl_ms"] != 10.097 {
		t.Errorf("%+v", got)
	}
	entries, err := collect(got.Entries())
	if err != nil || len(entries) != 1 || len(entries[0].Details.ClientTokens) != 3 {
		t.Errorf("%v, error %v", entries, err)
	}
}

func collect(entries iter.Seq2[trace.Entry, error]) (all []trace.Entry, err error) {
	for e, err := range entries {
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

// Entries hold the client's side of a trace of the same run.
func TestBenchEntries(t *testing.T) {
	for seed := range uint64(20) {
		var text bytes.Buffer
		var want []trace.Entry
		index := map[int64]int{}
		b := &trace.BenchWriter{W: &text, Detailed: true}
		observe(t, seed, func(sim.Config) sim.Observer {
			return sim.ObserverFunc(func(e sim.Event) {
				b.Observe(e)
				if e.Kind == sim.Arrive {
					index[e.Serial] = len(index)
				}
				if e.Kind != sim.Finish {
					return
				}
				r := trace.FromEvent(e)
				c := e.Client()
				r.RequestID = fmt.Sprint(index[e.Serial])
				r.ClientSend, r.FirstTokenClient, r.LastTokenClient = c.Send, c.First, c.Last
				r.GatewayArrival, r.QueueEnter, r.PrefillStart, r.PrefillEnd, r.FirstTokenServer = trace.Unknown, trace.Unknown, trace.Unknown, trace.Unknown, trace.Unknown
				entry := trace.Entry{Record: r}
				if at := e.Path().Deliver(nil, e.TokenTimes(nil)); len(slices.Compact(slices.Clone(at))) == len(at) {
					entry.Details.ClientTokens = at
				}
				want = append(want, entry)
			})
		})
		if err := b.Flush(); err != nil {
			t.Fatal(err)
		}
		result := readBench(t, text.Bytes())
		got, err := collect(result.Entries())
		if err != nil {
			t.Fatal(err)
		}
		byID := func(a, b trace.Entry) int { return strings.Compare(a.RequestID, b.RequestID) }
		slices.SortFunc(want, byID)
		slices.SortFunc(got, byID)
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, d)
		}
		// Entries in order of submission make the same lists.
		w := trace.BenchWriter{W: io.Discard, Detailed: true}
		for _, e := range got {
			if err := w.WriteEntry(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
}

// A proxy that sends two tokens at a time: three chunks for five tokens.
func TestBenchBytes(t *testing.T) {
	var text bytes.Buffer
	b := &trace.BenchWriter{W: &text, Detailed: true}
	cfg := sim.Config{
		TokenTimes: true,
		Replicas:   []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: explained{}, KVBlocks: 10, MaxBatchTokens: 100}},
		Observers:  []sim.Observer{b},
	}
	path := &sim.Path{NetworkIn: 500, NetworkOut: 700, Proxy: sim.Proxy{Tokens: 2}}
	requests := func(yield func(sim.Request, error) bool) {
		_ = yield(sim.Request{ID: 7, Arrival: 1500, Prompt: 9, Output: 5, Path: path}, nil) && yield(sim.Request{ID: 8, Arrival: 2001, Prompt: 1000, Output: 1}, nil)
	}
	if _, err := sim.Run(context.Background(), cfg, requests); err != nil {
		t.Fatal(err)
	}
	if err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	// Tokens at 11.5, 12.5, 13.5, 14.5 and 15.5 µs; chunks 0.7 µs behind the
	// second, the fourth and the last.
	want := `{"date":"","endpoint_type":"","backend":"","label":null,"model_id":"","tokenizer_id":"","num_prompts":2,"request_rate":"inf","burstiness":1.0,"max_concurrency":null,` +
		`"duration":0.0000152,"completed":1,"failed":1,"total_input_tokens":9,"total_output_tokens":5,"request_throughput":65789.47368421052,"request_goodput":null,` +
		`"output_throughput":328947.36842105264,"total_token_throughput":921052.6315789473,"max_output_tokens_per_s":3.0,"max_concurrent_requests":1,"rtfx":0.0,` +
		`"input_lens":[9,1000],"output_lens":[5,0],"ttfts":[0.0000122,0],"itls":[[0.000002,0.000001],[]],"latencies":[0.0000152,0],"start_times":[0.000001,0.000002001],` +
		`"queue_times":[0,0],"generated_texts":["",""],"errors":["","exceeds_kv_capacity"],` +
		`"mean_ttft_ms":0.0122,"median_ttft_ms":0.0122,"std_ttft_ms":0.0,"p99_ttft_ms":0.0122,"mean_tpot_ms":0.00075,"median_tpot_ms":0.00075,"std_tpot_ms":0.0,"p99_tpot_ms":0.00075,` +
		`"mean_itl_ms":0.0015,"median_itl_ms":0.0015,"std_itl_ms":0.0005,"p99_itl_ms":0.00199,"mean_e2el_ms":0.0152,"median_e2el_ms":0.0152,"std_e2el_ms":0.0,"p99_e2el_ms":0.0152}` + "\n"
	if d := cmp.Diff(want, text.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Where gaps are kept makes no difference; a place that fails is an error.
func TestBenchSpill(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "gaps"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	set := func(b *trace.BenchWriter) { b.Detailed = true }
	want := benchRun(t, 2, set)
	got := benchRun(t, 2, func(b *trace.BenchWriter) { b.Detailed, b.Spill = true, file })
	if !bytes.Equal(want, got) {
		t.Error("a spill to a file changes the result")
	}
	if info, err := file.Stat(); err != nil || info.Size() == 0 {
		t.Errorf("the file holds %v, error %v", info, err)
	}
	for _, c := range []struct {
		spill brokenSpill
		want  string
	}{
		{brokenSpill{write: errors.New("disk full")}, "trace: BenchWriter.Spill: disk full"},
		{brokenSpill{}, "trace: BenchWriter.Spill: gone\nunexpected EOF"},
	} {
		w := trace.BenchWriter{W: io.Discard, Detailed: true, Spill: c.spill}
		_ = w.Write(trace.BenchRequest{Prompt: 1, Output: 2, TTFT: 1, Latency: 2, ITLs: []time.Duration{1}})
		for range 2 {
			if err := w.Flush(); err == nil || err.Error() != c.want {
				t.Errorf("error %v, want %s", err, c.want)
			}
		}
	}
}

type brokenSpill struct{ write error }

func (s brokenSpill) Write(p []byte) (int, error)       { return len(p), s.write }
func (s brokenSpill) ReadAt([]byte, int64) (int, error) { return 0, errors.New("gone") }

func TestBenchWriterErrors(t *testing.T) {
	ok := trace.BenchRequest{Prompt: 1, Output: 2, TTFT: 1, Latency: 2}
	for _, c := range []struct {
		want string
		edit func(*trace.BenchRequest)
	}{
		{"BenchRequest.Prompt is -1", func(r *trace.BenchRequest) { r.Prompt = -1 }},
		{"BenchRequest.Output is -1", func(r *trace.BenchRequest) { r.Output = -1 }},
		{"BenchRequest.Send is", func(r *trace.BenchRequest) { r.Send = trace.Unknown }},
		{"BenchRequest.TTFT is 3ns", func(r *trace.BenchRequest) { r.TTFT = 3 }},
		{"BenchRequest.TTFT is -1ns", func(r *trace.BenchRequest) { r.TTFT = -1 }},
		{"BenchRequest.QueueTime is -1ns", func(r *trace.BenchRequest) { r.QueueTime = -1 }},
		{"BenchRequest.ITLs[1] is -1ns", func(r *trace.BenchRequest) { r.ITLs = []time.Duration{1, -1} }},
		{"BenchRequest.ITLs add up to more than 146 years", func(r *trace.BenchRequest) { r.ITLs = []time.Duration{1<<62 - 1, 1<<62 - 1} }},
	} {
		w := trace.BenchWriter{W: io.Discard}
		r := ok
		c.edit(&r)
		if err := w.Write(r); err == nil || !strings.HasPrefix(err.Error(), "trace: request 0: "+c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
		if err := w.Write(ok); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []struct {
		want string
		w    trace.BenchWriter
	}{
		{"trace: BenchWriter.Percentiles has 101", trace.BenchWriter{Percentiles: []float64{101}}},
		{"trace: BenchWriter.Duration is -1ns", trace.BenchWriter{Duration: -1}},
		{"trace: BenchSettings.RequestRate is NaN", trace.BenchWriter{Settings: trace.BenchSettings{RequestRate: math.NaN()}}},
		{"trace: BenchSettings.Burstiness is +Inf", trace.BenchWriter{Settings: trace.BenchSettings{Burstiness: math.Inf(1)}}},
		{"trace: BenchSettings.MaxConcurrency is -1", trace.BenchWriter{Settings: trace.BenchSettings{MaxConcurrency: -1}}},
		{`trace: BenchSettings.Metadata has "p90_itl_ms", a key of the format`, trace.BenchWriter{Settings: trace.BenchSettings{Metadata: map[string]string{"p90_itl_ms": ""}}}},
		{`trace: BenchSettings.Metadata has "errors", a key of the format`, trace.BenchWriter{Settings: trace.BenchSettings{Metadata: map[string]string{"errors": ""}}}},
		{"trace: disk full", trace.BenchWriter{W: &failing{}}},
	} {
		if c.w.W == nil {
			c.w.W = io.Discard
		}
		if err := c.w.Flush(); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
	w := trace.BenchWriter{W: io.Discard}
	w.Observe(finish(3))
	if err := w.Flush(); err == nil || err.Error() != "trace: a finish event of request 3, which has not arrived" {
		t.Errorf("error %v", err)
	}
	w = trace.BenchWriter{W: io.Discard}
	w.Observe(sim.Event{Kind: sim.Arrive, Serial: 3})
	w.Observe(finish(3))
	if err := w.Flush(); err == nil || err.Error() != "trace: request 3: no times of its tokens: set Config.TokenTimes" {
		t.Errorf("error %v", err)
	}
	if err := w.WriteEntry(trace.Entry{}); err == nil || !strings.HasPrefix(err.Error(), `trace: request "": prompt_tokens is 0`) {
		t.Errorf("error %v", err)
	}
	e := trace.Entry{Record: sample()}
	e.FirstTokenClient = trace.Unknown
	if err := (&trace.BenchWriter{}).WriteEntry(e); err == nil || !strings.HasSuffix(err.Error(), "is not known") {
		t.Errorf("error %v", err)
	}
}

// bench is a result that is read; edits of it are not.
const bench = `{"date":"d","request_rate":"inf","num_prompts":2,"duration":1.5,"input_lens":[3,4],"output_lens":[2,0],"ttfts":[0.5,0],` +
	`"itls":[[0.25],[]],"start_times":[100,1e2],"generated_texts":["a\"]","b"],"errors":["",null],"p99_ttft_ms":7,"mine":"x","list":[{"a":[1,{}]}],"goodput":null}`

func TestBenchReads(t *testing.T) {
	want := trace.Bench{Settings: trace.BenchSettings{Date: "d", RequestRate: math.Inf(1), Metadata: map[string]string{"mine": "x"}},
		Duration: 1500 * time.Millisecond, Detailed: true, Figures: map[string]float64{"num_prompts": 2, "p99_ttft_ms": 7},
		Requests: []trace.BenchRequest{
			{Prompt: 3, Output: 2, Send: 100_000_000_000, TTFT: 500_000_000, Latency: 750_000_000, ITLs: []time.Duration{250_000_000}},
			{Prompt: 4, Send: 100_000_000_000},
		}}
	all, err := results(trace.BenchReader{In: strings.NewReader(bench + "\n\t" + bench + "\n"), Name: "file"})
	if d := cmp.Diff([]trace.Bench{want, want}, all, cmpopts.EquateEmpty()); err != nil || d != "" {
		t.Errorf("error %v (-want +got):\n%s", err, d)
	}
	// Older versions of vLLM have no start_times, and no instants without them.
	old := readBench(t, []byte(strings.Replace(bench, `"start_times":[100,1e2],`, "", 1)))
	if _, err := collect(old.Entries()); err == nil || err.Error() != "trace: request 0: start_times are missing" {
		t.Errorf("error %v", err)
	}
	brief := readBench(t, []byte(`{"latencies":[1,2],"queue_times":[0,0.5]}`))
	if brief.Detailed || len(brief.Requests) != 2 || brief.Requests[1].Latency != 2*time.Second || brief.Requests[1].QueueTime != time.Second/2 {
		t.Errorf("%+v", brief)
	}
	if _, err := collect(brief.Entries()); err == nil || err.Error() != "trace: a result without the lists of its requests" {
		t.Errorf("error %v", err)
	}
	// Sums of floating point may be a little off.
	off := readBench(t, []byte(strings.Replace(bench, `"errors"`, `"latencies":[0.7500001,0],"errors"`, 1)))
	entries, err := collect(off.Entries())
	if err != nil || len(entries) != 1 || len(entries[0].Details.ClientTokens) != 2 || entries[0].Details.ClientTokens[1] != entries[0].LastTokenClient {
		t.Errorf("%v, error %v", entries, err)
	}
	for _, latency := range []string{"0.76", "0.6"} {
		off = readBench(t, []byte(strings.Replace(bench, `"errors"`, `"latencies":[`+latency+`,0],"errors"`, 1)))
		if entries, err = collect(off.Entries()); err != nil || entries[0].Details.ClientTokens != nil {
			t.Errorf("%v, error %v", entries, err)
		}
	}
}

func TestBenchRefuses(t *testing.T) {
	edit := func(old, with string) string {
		if !strings.Contains(bench, old) {
			t.Fatalf("no %s", old)
		}
		return strings.Replace(bench, old, with, 1)
	}
	deep := strings.Repeat("[", 200)
	for _, c := range []struct{ name, text, want string }{
		{"empty", " \n", "file: byte 2: at least one result is required"},
		{"no object", "[]", `file: byte 0: want '{', have [`},
		{"cut", bench[:len(bench)-1], "the file ends"},
		{"cut in a list", bench[:strings.Index(bench, "0.25")+2], "itls[0][0] is 0., which is not JSON"},
		{"cut in a text", bench[:strings.Index(bench, `a\"]`)+2], "generated_texts[0]: the file ends"},
		{"behind", bench + "x", `want '{', have x`},
		{"twice", edit(`"date":"d"`, `"date":"d","d\u0061te":"e"`), "file: byte 24: key date stands twice"},
		{"NaN", edit("0.25", "NaN"), "itls[0][0] is NaN, which is not JSON"},
		{"infinity", edit("[0.5,", "[-Infinity,"), "ttfts[0] is -Infinity, which is not JSON"},
		{"text for a time", edit("[0.5,", `["0.5",`), `ttfts[0]: have ", which is no value`},
		{"null for a time", edit("[0.5,", `[null,`), `ttfts[0] is null, want a number`},
		{"negative gap", edit("0.25", "-0.25"), "itls[0][0] is -0.25 s, want at least 0"},
		{"huge time", edit("[100,", "[1e30,"), "start_times[0] is 1e30 s, beyond 146 years"},
		{"fraction of a token", edit("[3,4]", "[3,4.0]"), "input_lens[1] is 4.0, want an integer"},
		{"negative tokens", edit("[3,4]", "[3,-4]"), "input_lens[1] is -4, want an integer"},
		{"gaps without lists", edit("[[0.25],[]]", "[0.25]"), "itls[0]: want '[', have 0"},
		{"short list", edit("[3,4]", "[3]"), "input_lens has 1 values, output_lens has 2"},
		{"long list", edit("[0.5,0]", "[0.5,0,0]"), "input_lens has 2 values, ttfts has 3"},
		{"no lengths of answers", edit(`"output_lens":[2,0],`, ""), "output_lens is missing beside input_lens"},
		{"no times", edit(`"ttfts":[0.5,0],`, ""), "ttfts is missing beside input_lens"},
		{"rate", edit(`"inf"`, `"fast"`), `request_rate is fast, want a number or "inf"`},
		{"negative rate", edit(`"inf"`, `-1`), `request_rate is -1, want at least 0`},
		{"figure as text", edit(`"p99_ttft_ms":7`, `"p99_ttft_ms":"7"`), "p99_ttft_ms: want a number"},
		{"huge figure", edit(`"p99_ttft_ms":7`, `"p99_ttft_ms":1e999`), "p99_ttft_ms is 1e999, beyond a float64"},
		{"latency before the first token", edit(`"errors"`, `"latencies":[0.4,0],"errors"`), "request 0: its latency is 0.4 s, its TTFT 0.5 s"},
		{"endless answer", edit("[0.25]", "[4e9,4e9]"), "request 0: its latency is 8000000000.5 s"},
		{"answer that wraps around", edit("[0.25]", "["+strings.Repeat("4611686018.427387903,", 4)+"1]"), "request 0: its latency is 4611686018.9"},
		{"comma", edit("[3,4]", "[3,4,]"), "input_lens[2]: have ], which is no value"},
		{"no colon", edit(`"mine":`, `"mine" `), "want ':', have \""},
		{"no comma", edit(`,"mine"`, ` "mine"`), "want ',' or '}', have \""},
		{"surrogate", edit(`"d"`, `"\ud800"`), "date: holds half of a surrogate pair"},
		{"escape", edit(`"d"`, `"\x"`), `date: a string with an escape that ends in 'x'`},
		{"not UTF-8", edit(`"d"`, "\"\xff\""), `is not UTF-8`},
		{"line end in a text", edit(`"b"]`, "\"\n\"]"), "generated_texts[1]: a string with the byte 0xa"},
		{"deep", edit(`[{"a"`, deep+`[{"a"`), "lists in lists, more than 100 deep"},
		{"long text", edit(`"d"`, `"`+strings.Repeat("d", 1<<20)+`"`), "date: a string of more than 1048576 bytes"},
		{"long number", edit("0.25", strings.Repeat("1", 2<<20)), "itls[0][0]: a number of more than 1048576 bytes"},
		{"number for a text", edit(`"d"`, "4"), "date: want a string, have 4"},
	} {
		_, err := results(trace.BenchReader{In: strings.NewReader(c.text), Name: "file"})
		if err == nil || !strings.HasPrefix(err.Error(), "file: byte ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
	}
	_, err := results(trace.BenchReader{In: strings.NewReader(bench), Name: "file", Limit: 5})
	if err == nil || !strings.Contains(err.Error(), "output_lens[1]: too many values") {
		t.Errorf("error %v", err)
	}
	_, err = results(trace.BenchReader{In: io.MultiReader(strings.NewReader(bench[:50]), brokenReader{}), Name: "file"})
	if err == nil || !strings.HasPrefix(err.Error(), "file: byte 50: ") || !strings.HasSuffix(err.Error(), "cable pulled") {
		t.Errorf("error %v", err)
	}
	for i := range len(bench) { // every cut
		if _, err := results(trace.BenchReader{In: strings.NewReader(bench[:i]), Name: "file"}); err == nil {
			t.Errorf("%q was read", bench[:i])
		}
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("cable pulled") }

// FuzzBench: what is accepted is JSON, and is written and read again without
// loss.
func FuzzBench(f *testing.F) {
	f.Add([]byte(bench))
	f.Add([]byte(bench + bench))
	f.Add([]byte(`{"latencies":[1],"queue_times":[0]}`))
	f.Add([]byte(`{"itls":[[1e-9,0],[]],"input_lens":[1,1],"output_lens":[3,1],"ttfts":[0,0],"start_times":[-1,5],"x":{"y":"\ud83d\ude00"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := results(trace.BenchReader{In: bytes.NewReader(data), Name: "file", Limit: 1000})
		if err == nil && len(all) == 0 {
			t.Fatal("neither a result nor an error")
		}
		if err == nil {
			d := json.NewDecoder(bytes.NewReader(data))
			for range all {
				var plain map[string]any
				if err := d.Decode(&plain); err != nil && !strings.Contains(err.Error(), "cannot unmarshal number") {
					t.Fatalf("%q was read: %v", data, err)
				}
			}
		}
		for _, b := range all {
			rewrite(t, b)
		}
	})
}

// rewrite writes a result and reads it again.
func rewrite(t *testing.T, b trace.Bench) {
	var text bytes.Buffer
	w := trace.BenchWriter{W: &text, Settings: b.Settings, Detailed: true, Duration: b.Duration}
	// The user may have named a field that is a figure of ours.
	for key := range maps.Clone(w.Settings.Metadata) {
		if strings.HasSuffix(key, "_ms") {
			delete(w.Settings.Metadata, key)
		}
	}
	for i := range b.Requests {
		r := &b.Requests[i]
		if r.Error != "" {
			*r = trace.BenchRequest{Prompt: r.Prompt, Send: r.Send, QueueTime: r.QueueTime, Error: r.Error}
		}
		if r.TTFT > r.Latency || r.Send == trace.Unknown {
			return // lists that are not all there
		}
		if err := w.Write(*r); err != nil {
			t.Fatalf("%+v was read: %v", *r, err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	all, err := results(trace.BenchReader{In: &text, Name: "again"})
	if err != nil || len(all) != 1 {
		t.Fatalf("%d results, error %v", len(all), err)
	}
	if d := cmp.Diff(b.Requests, all[0].Requests, cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("(-want +got):\n%s", d)
	}
}

// The result of a benchmark of a real engine becomes a trace of its clients.
func ExampleBenchReader() {
	file := strings.NewReader(`{"backend": "vllm", "completed": 1, "input_lens": [374], "output_lens": [3],
		"ttfts": [0.0225], "itls": [[0.0098, 0.0101]], "start_times": [100.0], "errors": [""]}`)
	for b, err := range (trace.BenchReader{In: file, Name: "bench.json"}).Results() {
		if err != nil {
			fmt.Println(err)
			return
		}
		for e, err := range b.Entries() {
			fmt.Println(e.TTFT(), e.E2E(), e.Details.ClientTokens, err)
		}
	}
	// Output:
	// 22.5ms 42.4ms [1m40.0225s 1m40.0323s 1m40.0424s] <nil>
}
