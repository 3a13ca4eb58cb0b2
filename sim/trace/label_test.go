package trace_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/sim/trace"
)

// labelled is a label with everything in it.
func labelled() trace.Label {
	l := trace.Label{RequestID: "r", Causes: []string{"slow_gateway", "é\""}, TTFTPhase: trace.Prefill, E2EPhase: trace.Stream, HasLedger: true}
	l.Ledger.Queue.Order, l.Ledger.Prefill.Compute = 20*time.Millisecond, 50*time.Millisecond
	l.Ledger.Stream.Decode, l.Ledger.Stream.Interference, l.Ledger.LateTransfer = 81*time.Millisecond, -time.Millisecond, true
	return l
}

const goodLabel = `{"request_id":"r","label_version":1,"causes":["slow_gateway","é\""],"ttft_phase":"prefill","e2e_phase":"stream",` +
	`"ledger_ns":{"queue_order":20000000,"prefill_compute":50000000,"stream_decode":81000000,"stream_interference":-1000000},"late_transfer":true}`

func readLabels(text string) (list []trace.Label, err error) {
	for l, err := range trace.ReadLabels(strings.NewReader(text), "file") {
		if err != nil {
			return list, err
		}
		list = append(list, l)
	}
	return list, nil
}

func TestLabels(t *testing.T) {
	healthy := trace.Label{RequestID: "s", TTFTPhase: trace.Queue, E2EPhase: trace.Queue}
	idle := trace.Label{RequestID: "t", Causes: []string{"burst"}, HasLedger: true} // in the engine for no time
	want := []trace.Label{labelled(), healthy, idle}
	var b bytes.Buffer
	w := trace.LabelWriter{W: &b}
	for _, l := range want {
		if err := w.Write(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	text := goodLabel + "\n" + `{"request_id":"s","label_version":1,"causes":[],"ttft_phase":"queue","e2e_phase":"queue"}` + "\n" +
		`{"request_id":"t","label_version":1,"causes":["burst"],"ttft_phase":"network_in","e2e_phase":"network_in","ledger_ns":{}}` + "\n"
	if d := cmp.Diff(text, strings.ReplaceAll(b.String(), `\u00e9`, "é")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	got, err := readLabels(b.String())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A line that carries a label reads as its entry, and as its label.
func TestWriteLabelled(t *testing.T) {
	for _, e := range []trace.Entry{{Record: sample()}, detailed()} {
		var b bytes.Buffer
		w := trace.Writer{W: &b}
		if err := w.WriteLabelled(e, labelled()); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		back, err := entries(b.String(), false)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]trace.Entry{e}, back); d != "" {
			t.Errorf("entry (-want +got):\n%s", d)
		}
		labels, err := readLabels(b.String())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]trace.Label{labelled()}, labels); d != "" {
			t.Errorf("label (-want +got):\n%s", d)
		}
	}

	var b bytes.Buffer
	w := trace.Writer{W: &b}
	other, wrong := labelled(), labelled()
	other.RequestID, wrong.TTFTPhase = "s", trace.Stream
	for _, c := range []struct {
		label trace.Label
		want  string
	}{
		{other, `trace: request "r" has the label of "s"`},
		{wrong, `trace: request "r": ttft_phase is stream, want one before the first token`},
	} {
		if err := w.WriteLabelled(trace.Entry{Record: sample()}, c.label); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
	if err := w.Flush(); err != nil || b.Len() > 0 {
		t.Errorf("error %v and %q behind refused labels", err, &b)
	}
}

func TestLabelFaults(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"version", `"label_version":1,`, ``, "missing fields: label_version"},
		{"phases", `"ttft_phase":"prefill","e2e_phase":"stream",`, ``, "missing fields: ttft_phase, e2e_phase"},
		{"later version", `version":1`, `version":2`, "label_version is 2, want 1"},
		{"id", `"r"`, `7`, "request_id is 7, want a string"},
		{"causes", `["slow_gateway","é\""]`, `"burst"`, `causes is "burst", want a list of strings`},
		{"cause", `"slow_gateway"`, `1`, `causes is 1, want a string`},
		{"empty cause", `"slow_gateway"`, `""`, `causes: "", want a name in UTF-8`},
		{"cause twice", `"slow_gateway"`, `"é\""`, `causes: "é\"" stands twice`},
		{"phase", `"prefill"`, `"fill"`, "ttft_phase is fill, which is no phase"},
		{"phase type", `"stream"`, `6`, "e2e_phase is 6, want a string"},
		{"stream before the first token", `"ttft_phase":"prefill"`, `"ttft_phase":"stream"`, "ttft_phase is stream, want one before the first token"},
		{"ledger", `{"queue_order":20000000,"prefill_compute":50000000,"stream_decode":81000000,"stream_interference":-1000000}`, `[]`, "ledger_ns: is [], want an object"},
		{"part", `queue_order`, `queue`, "ledger_ns: queue is no part of a ledger"},
		{"part twice", `queue_order`, `prefill_compute`, "ledger_ns: field prefill_compute stands twice"},
		{"fraction", `20000000`, `2e7`, "ledger_ns: queue_order is 2e7, want an integer below 2⁶³"},
		{"negative", `20000000`, `-1`, "ledger_ns: queue_order is -1, want at least 0"},
		{"long", `20000000`, `4611686018427387904`, "ledger_ns: queue_order is 4611686018427387904, which makes more than 146 years"},
		{"long sum", `50000000`, `4611686018407387904`, "ledger_ns: prefill_compute is 4611686018407387904, which makes more than 146 years"},
		{"late", `"late_transfer":true`, `"late_transfer":1`, "late_transfer is 1, want true or false beside ledger_ns"},
		{"late without", `"ledger_ns":{"queue_order":20000000,"prefill_compute":50000000,"stream_decode":81000000,"stream_interference":-1000000},`, ``,
			"late_transfer is true, want true or false beside ledger_ns"},
		{"field twice", `"causes":`, `"request_id":"s","causes":`, "field request_id stands twice"},
		{"cut", `true}`, `true`, `want ',', have the end of the line`},
	} {
		text := strings.Replace(goodLabel, c.from, c.to, 1)
		if text == goodLabel {
			t.Fatalf("%s: nothing to replace", c.name)
		}
		if got, err := readLabels("\n" + text); err == nil || err.Error() != "file:2: "+c.want {
			t.Errorf("%s: %v, error %v, want %s", c.name, got, err, c.want)
		}
	}
	if _, err := readLabels(goodLabel + "\n" + goodLabel); err == nil || err.Error() != `file:2: request_id "r" is that of line 1` {
		t.Errorf("error %v", err)
	}
	if _, err := readLabels(" \n"); err == nil || err.Error() != "file: at least one label is required" {
		t.Errorf("error %v", err)
	}
}

// The labels of a run pair up with its lines, and their ledgers with the times.
func TestLabelsOfARun(t *testing.T) {
	for seed := range uint64(12) {
		var blind, labelled, separate bytes.Buffer
		causes := func(e sim.Event) []string {
			if e.ID%3 == 0 {
				return []string{"third"}
			}
			return nil
		}
		plain := &trace.Writer{W: &blind}
		full := &trace.Writer{W: &labelled, Labels: true, Causes: causes}
		labels := &trace.LabelWriter{W: &separate, Causes: causes}
		var want []trace.Label
		observe(t, seed, func(sim.Config) sim.Observer {
			return sim.ObserverFunc(func(e sim.Event) {
				if e.Kind == sim.Finish && e.Client().First == sim.NoTime {
					return // behind a proxy that counts tokens
				}
				plain.Observe(e)
				full.Observe(e)
				labels.Observe(e)
				if e.Kind == sim.Finish {
					want = append(want, trace.LabelFromEvent(e, causes(e)...))
					l := e.Ledger()
					if got, want := l.ToFirst(), e.Timeline.FirstToken.Sub(e.Timeline.Arrival); got != want {
						t.Errorf("seed %d: the ledger of request %d has %v to its first token, want %v", seed, e.Serial, got, want)
					}
				}
			})
		})
		for _, w := range []interface{ Flush() error }{plain, full, labels} {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if len(want) == 0 {
			continue
		}
		for name, text := range map[string]string{"separate": separate.String(), "labelled": labelled.String()} {
			got, err := readLabels(text)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("seed %d, %s (-want +got):\n%s", seed, name, d)
			}
		}
		a, err := entries(blind.String(), false)
		if err != nil {
			t.Fatal(err)
		}
		b, err := entries(labelled.String(), false)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(a, b); d != "" {
			t.Fatalf("seed %d: labels change what a line says (-blind +labelled):\n%s", seed, d)
		}
		if strings.Contains(blind.String(), "cause") {
			t.Fatalf("seed %d: the blind file has causes", seed)
		}
	}
}

func TestDominant(t *testing.T) {
	r := sample()
	if ttft, e2e := r.Dominant(); ttft != trace.Prefill || e2e != trace.Stream {
		t.Errorf("%v, %v", ttft, e2e)
	}
	r.LastTokenClient = ms(150) // 50 ms, as prefill
	if ttft, e2e := r.Dominant(); ttft != trace.Prefill || e2e != trace.Prefill {
		t.Errorf("tie: %v, %v", ttft, e2e)
	}
	r.PrefillStart = ms(50) // queue and prefill take 35 ms each
	if ttft, _ := r.Dominant(); ttft != trace.Queue {
		t.Errorf("tie before the first token: %v", ttft)
	}
	r.PrefillEnd = trace.Unknown // as do prefill and first_decode
	if ttft, e2e := r.Dominant(); ttft != trace.Queue || e2e != trace.Stream {
		t.Errorf("partial: %v, %v", ttft, e2e)
	}
}

func TestLabelWriterAllocatesNothing(t *testing.T) {
	causes := []string{"burst", "straggler"}
	each := func(sim.Event) []string { return causes }
	labels := trace.LabelWriter{W: io.Discard, Causes: each}
	lines := trace.Writer{W: io.Discard, Labels: true, Causes: each}
	for i := range int64(1000) { // fills the buffers once
		labels.Observe(finish(i))
		lines.Observe(finish(i))
	}
	if got := testing.AllocsPerRun(1000, func() { labels.Observe(finish(1 << 40)); lines.Observe(finish(1 << 40)) }); got != 0 {
		t.Errorf("%v allocations a record", got)
	}
}

// FuzzReadLabels: whatever is accepted is valid and survives a round trip.
func FuzzReadLabels(f *testing.F) {
	for _, seed := range []string{goodLabel, goodLabel + "\n" + strings.Replace(goodLabel, `"r"`, `"s"`, 1), good, "{}", `{"causes":[1,]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := readLabels(string(data))
		if err == nil && len(got) == 0 {
			t.Fatal("neither a label nor an error")
		}
		var text []byte
		for _, l := range got {
			if err := l.Validate(); err != nil {
				t.Fatalf("a label that was read is not valid: %v", err)
			}
			text = append(l.AppendJSON(text), '\n')
		}
		if len(got) == 0 {
			return
		}
		back, err := readLabels(string(text))
		if err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
		if d := cmp.Diff(got, back); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}

// A blind file and its labels come from one run.
func ExampleLabelWriter() {
	labels := trace.LabelWriter{W: os.Stdout, Causes: func(e sim.Event) []string {
		if e.Prompt > 10_000 {
			return []string{"long_prompt"}
		}
		return nil
	}}
	labels.Observe(sim.Event{Kind: sim.Finish, Serial: 17, Time: 2_000_500_000, Prompt: 20_000, Output: 128, Timeline: sim.Timeline{
		Admitted: 1_000_000, PrefillEnd: 531_250_001, FirstToken: 531_250_001}})
	if err := labels.Flush(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"request_id":"17","label_version":1,"causes":["long_prompt"],"ttft_phase":"prefill","e2e_phase":"stream"}
}
