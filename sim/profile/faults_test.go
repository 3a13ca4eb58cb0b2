package profile_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim/profile"
	"servesim/sim/trace"
)

// even is a hundred requests a second apart, their phases 18 6 40 145 11 18
// 1408 ms.
func even() (records []trace.Record) {
	for i := range 100 {
		records = append(records, record(fmt.Sprint(i), 2048, 65, 1000*float64(i), 18, 6, 40, 145, 11, 18, 1408))
	}
	return records
}

// broken writes the records as a measurement with faults has them.
func broken(t *testing.T, faults ...trace.Fault) string {
	t.Helper()
	source := func(yield func(trace.Record, error) bool) {
		for _, r := range even() {
			if !yield(r, nil) {
				return
			}
		}
	}
	var b bytes.Buffer
	w := trace.Writer{W: &b}
	for e, err := range trace.Break(trace.Entries(source), nil, faults...) {
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteUnchecked(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What becomes of each fault: refused with the line, or profiled. A clock that
// is off by less than any phase turns nothing negative and shows nowhere.
func TestFaults(t *testing.T) {
	one := trace.Chance{Share: 0.05, Seed: 1} // the first it picks is on line 32
	cases := []struct {
		name   string
		fault  trace.Fault
		want   string // of the error; "" is accepted
		passes bool   // the reference accepts it
	}{
		{"dropped span", trace.DropSpan{Phase: trace.Prefill, Chance: one}, "file:32: missing fields: prefill_start_ms, prefill_end_ms", false},
		{"duplicated", trace.Duplicate{Chance: one}, `file:33: request_id "31" is that of line 32`, true},
		{"reordered", trace.Reorder{Behind: 7, Chance: one}, "", true},
		{"negative span", trace.NegativeSpan{Phase: trace.Queue, By: ms, Chance: one}, "file:32: prefill_start_ms 31023 is before queue_enter_ms 31024:", false},
		{"engine 7 ms behind", trace.ClockSkew{Clock: trace.EngineClock, By: -7 * ms}, "file:1: queue_enter_ms 17 is before gateway_arrival_ms 18:", false},
		{"engine 5 ms behind", trace.ClockSkew{Clock: trace.EngineClock, By: -5 * ms}, "", true},
		{"engine gains 500 µs a second", trace.ClockDrift{Clock: trace.EngineClock, PerSecond: 500 * time.Microsecond},
			"file:37: first_token_client_ms 36238 is before first_token_server_ms 36238.11:", false},
		{"gateway loses", trace.ClockDrift{Clock: trace.GatewayClock, PerSecond: -200 * time.Microsecond}, "file:91: gateway_arrival_ms 89999.9964 is before client_send_ms 90000:", false},
		{"client set back", trace.ClockStep{Clock: trace.ClientClock, At: 50_500_000_000, By: -10 * time.Second},
			"file:50: last_token_client_ms 40646 is before first_token_client_ms 49238:", false},
		{"engine set forward during a prefill", trace.ClockStep{Clock: trace.EngineClock, At: 50_100_000_000, By: 10 * time.Second},
			"file:51: first_token_client_ms 50238 is before first_token_server_ms 60220:", false},
	}
	texts := map[string]string{}
	for _, c := range cases {
		texts[c.name] = broken(t, c.fault)
		_, err := profile.Read(strings.NewReader(texts[c.name]), "file", profile.Options{})
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
	found := reference(t, texts)
	for _, c := range cases {
		if refused := strings.HasPrefix(found[c.name], "refused:"); refused == c.passes {
			t.Errorf("%s: the reference says\n%s", c.name, found[c.name])
		}
	}
}

// Order in the file says nothing; a skew that stays positive moves time from
// one phase to another and changes no total.
func TestFaultsThatShowNothing(t *testing.T) {
	read := func(text string) profile.Report {
		t.Helper()
		r, err := profile.Read(strings.NewReader(text), "file", profile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	same := cmp.Comparer(func(a, b profile.Number) bool { return a == b || !a.Defined() && !b.Defined() })
	whole := read(broken(t))
	ids := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".IDs" }, cmp.Ignore()) // equals keep the order of the file
	reordered := broken(t, trace.Reorder{Behind: 7, Chance: trace.Chance{Share: 0.3}})
	if reordered == broken(t) {
		t.Fatal("nothing was reordered")
	}
	if d := cmp.Diff(whole, read(reordered), same, ids); d != "" {
		t.Errorf("reordered (-whole +got):\n%s", d)
	}
	skewed := read(broken(t, trace.ClockSkew{Clock: trace.EngineClock, By: 5 * ms}))
	if skewed.TTFT.Mean != whole.TTFT.Mean || skewed.E2E.P95 != whole.E2E.P95 || skewed.Phases[trace.Queue].MeanMs != whole.Phases[trace.Queue].MeanMs {
		t.Errorf("a skew moved TTFT to %v, E2E to %v, the queue to %v", skewed.TTFT.Mean, skewed.E2E.P95, skewed.Phases[trace.Queue].MeanMs)
	}
	if g, n := skewed.Phases[trace.Gateway].MeanMs, skewed.Phases[trace.NetworkToFirst].MeanMs; g != 11 || n != 13 {
		t.Errorf("gateway %v and network_to_first %v, want 11 and 13", g, n)
	}
}

// With dropped spans accepted, the residual has their time and nothing else.
func TestDroppedSpansAreResidual(t *testing.T) {
	text := broken(t, trace.DropSpan{Phase: trace.Prefill, Chance: trace.Chance{Share: 0.5, Seed: 2}})
	r, err := profile.Read(strings.NewReader(text), "file", profile.Options{Partial: true})
	if err != nil {
		t.Fatal(err)
	}
	lost := 40.0 + 145 + 11 // of each: the span and the neighbours that share its ends
	if r.Partial < 35 || r.Partial > 65 || !near(r.ResidualMs, lost*float64(r.Partial)/100) || !near(r.TTFT.Mean, 238) {
		t.Errorf("%d partial, residual %v, TTFT %v", r.Partial, r.ResidualMs, r.TTFT.Mean)
	}
	if p := r.Phases[trace.Prefill]; !near(p.MeanMs, 145*float64(100-r.Partial)/100) || p.P95Ms != 145 {
		t.Errorf("%+v", p)
	}
}

// Details that a file carries reach groups, factors and the delivery.
func TestDetailsOfAFile(t *testing.T) {
	var b bytes.Buffer
	w := trace.Writer{W: &b}
	for i, r := range even() {
		e := trace.Entry{Record: r, Details: trace.Details{Class: []string{"chat", "code"}[i%2], Route: "eu", HasCached: true, CachedTokens: 1024, ClockError: 20 * ms}}
		for k := range r.OutputTokens {
			e.Details.ServerTokens = append(e.Details.ServerTokens, r.FirstTokenServer.Add(time.Duration(k)*22*ms))
			e.Details.ClientTokens = append(e.Details.ClientTokens, r.FirstTokenClient.Add(time.Duration(k)*22*ms))
		}
		if err := w.WriteEntry(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	r, err := profile.Read(&b, "file", profile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var groups []string
	for _, g := range r.Groups {
		for _, c := range g.Cells {
			groups = append(groups, fmt.Sprintf("%s %s %d", g.By, c.Name, c.N))
		}
	}
	want := []string{"class chat 50", "class code 50", "prompt_tokens 513–2048 100", "cache half or more 100", "route eu 100"}
	if d := cmp.Diff(want, groups); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if r.Delivery.Verdict != profile.Smooth || r.Delivery.Requests != 100 || r.ClockMs != 20 || len(r.Findings) != 3 {
		t.Errorf("%s over %d requests, clocks within %v: %v", r.Delivery.Verdict, r.Delivery.Requests, r.ClockMs, r.Findings)
	}
}
