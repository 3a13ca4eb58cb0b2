package trace_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/sim/trace"
)

// stream yields n copies of the detailed sample, one second apart, named 0, 1…
func stream(n int) iter.Seq2[trace.Entry, error] {
	return func(yield func(trace.Entry, error) bool) {
		for i := range n {
			e := shifted(i)
			if !yield(e, nil) {
				return
			}
		}
	}
}

// shifted is entry i of stream.
func shifted(i int) trace.Entry {
	e := detailed()
	e.RequestID = fmt.Sprint(i)
	by := time.Duration(i) * time.Second
	for _, t := range instants(&e.Record) {
		*t = t.Add(by)
	}
	for _, tokens := range [][]sim.Time{e.Details.ServerTokens, e.Details.ClientTokens} {
		for k := range tokens {
			tokens[k] = tokens[k].Add(by)
		}
	}
	return e
}

func instants(r *trace.Record) []*sim.Time {
	return []*sim.Time{&r.ClientSend, &r.GatewayArrival, &r.QueueEnter, &r.PrefillStart, &r.PrefillEnd,
		&r.FirstTokenServer, &r.FirstTokenClient, &r.LastTokenClient}
}

// broken applies the faults to n entries and returns what comes out and which
// ids were marked.
func broken(t *testing.T, n int, faults ...trace.Fault) (out []trace.Entry, marked []string) {
	t.Helper()
	for e, err := range trace.Break(stream(n), func(id string) { marked = append(marked, id) }, faults...) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out, marked
}

const unit = time.Millisecond

// Each clock moves its own instants and no others; what moves is marked.
func TestClockFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault trace.Fault
		want  [8]time.Duration // how far each instant of entry 3 moves
	}{
		{"client ahead", trace.ClockSkew{Clock: trace.ClientClock, By: 7 * unit}, [8]time.Duration{0: 7 * unit, 6: 7 * unit, 7: 7 * unit}},
		{"gateway behind", trace.ClockSkew{Clock: trace.GatewayClock, By: -4 * unit}, [8]time.Duration{1: -4 * unit}},
		{"engine ahead", trace.ClockSkew{Clock: trace.EngineClock, By: unit}, [8]time.Duration{2: unit, 3: unit, 4: unit, 5: unit}},
		// Entry 3 queues at 3.015 s and prefills up to 3.085 s: 2.015 to 2.09 s behind 1 s.
		{"engine gains 1 ms a second", trace.ClockDrift{Clock: trace.EngineClock, From: ms(1000), PerSecond: unit},
			[8]time.Duration{2: 2015 * time.Microsecond, 3: 2035 * time.Microsecond, 4: 2085 * time.Microsecond, 5: 2090 * time.Microsecond}},
		{"gateway loses", trace.ClockDrift{Clock: trace.GatewayClock, From: ms(4010), PerSecond: -100 * time.Microsecond}, [8]time.Duration{1: 100 * time.Microsecond}},
		{"set back during the prefill", trace.ClockStep{Clock: trace.EngineClock, At: ms(3085), By: -60 * unit}, [8]time.Duration{4: -60 * unit, 5: -60 * unit}},
		{"set later", trace.ClockStep{Clock: trace.EngineClock, At: ms(3500), By: -60 * unit}, [8]time.Duration{}},
	} {
		got, marked := broken(t, 4, c.fault)
		want := shifted(3)
		var moved [8]time.Duration
		for i, at := range instants(&got[3].Record) {
			moved[i] = at.Sub(*instants(&want.Record)[i])
		}
		if d := cmp.Diff(c.want, moved); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
		if hit := len(marked) > 0 && marked[len(marked)-1] == "3"; hit != (c.want != [8]time.Duration{}) {
			t.Errorf("%s: marked %v", c.name, marked)
		}
		// The first token of either end is the record's, so it moves with it.
		if s, r := got[3].Details.ServerTokens[0], got[3].FirstTokenServer; s != r {
			t.Errorf("%s: server tokens start at %d, the record says %d", c.name, s, r)
		}
		if s, r := got[3].Details.ClientTokens[4], got[3].LastTokenClient; s != r {
			t.Errorf("%s: client tokens end at %d, the record says %d", c.name, s, r)
		}
	}
}

// What a clock does to validity: a skew larger than a phase turns it negative.
func TestSkewTurnsPhasesNegative(t *testing.T) {
	for by, want := range map[time.Duration]string{
		9 * unit:    "", // gateway phase 5 + 9, network to first 10 - 9
		11 * unit:   "first_token_client_ms 100 is before first_token_server_ms 101",
		-6 * unit:   "queue_enter_ms 9 is before gateway_arrival_ms 10",
		-300 * unit: "queue_enter_ms -285 is before gateway_arrival_ms 10",
	} {
		got, _ := broken(t, 1, trace.ClockSkew{Clock: trace.EngineClock, By: by})
		if err := got[0].Validate(); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("engine clock %v ahead: %v, want %q", by, err, want)
		}
	}
}

// A fault leaves the entries that go in as they are.
func TestFaultsChangeNothingInPlace(t *testing.T) {
	e := detailed()
	one := func(yield func(trace.Entry, error) bool) { yield(e, nil) }
	always := trace.Chance{Share: 1}
	for range trace.Break(one, nil, trace.ClockSkew{Clock: trace.EngineClock, By: 1}, trace.ClockSkew{Clock: trace.ClientClock, By: 1},
		trace.NegativeSpan{By: 1, Chance: always}, trace.DropSpan{Phase: trace.Stream, Chance: always}) {
	}
	if d := cmp.Diff(detailed(), e); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestDropSpan(t *testing.T) {
	always := trace.Chance{Share: 1}
	got, marked := broken(t, 2, trace.DropSpan{Phase: trace.Prefill, Chance: always})
	d := got[1].Decompose()
	const none = trace.Unmeasured
	want := trace.Decomposition{Phases: [7]time.Duration{10 * unit, 5 * unit, none, none, none, 10 * unit, 80 * unit}, Residual: 75 * unit}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := got[1].Validate(); err == nil || err.Error() != "missing fields: prefill_start_ms, prefill_end_ms" {
		t.Errorf("error %v", err)
	}
	if err := got[1].ValidatePartial(); err != nil {
		t.Error(err)
	}
	if len(marked) != 2 {
		t.Errorf("marked %v", marked)
	}
	got, _ = broken(t, 1, trace.DropSpan{Phase: trace.Stream, Chance: always})
	if e := got[0]; e.Details.ServerTokens != nil || e.Details.ClientTokens != nil || e.E2E() != none {
		t.Errorf("a dropped stream leaves %+v", e)
	}
	got, _ = broken(t, 1, trace.DropSpan{Phase: trace.Gateway, Chance: always})
	if d := got[0].Details; d.Retrieval != 0 || d.Assembly != 0 || d.Tail == 0 || d.ServerTokens == nil {
		t.Errorf("a dropped gateway leaves %+v", d)
	}
}

func TestNegativeSpan(t *testing.T) {
	for p := range trace.NumPhases {
		got, marked := broken(t, 1, trace.NegativeSpan{Phase: trace.Phase(p), By: 5 * unit, Chance: trace.Chance{Share: 1}})
		if d := got[0].Decompose(); d.Phases[p] != -5*unit {
			t.Errorf("%v takes %v", trace.Phase(p), d.Phases[p])
		}
		if err := got[0].Validate(); err == nil || !strings.Contains(err.Error(), "is before") {
			t.Errorf("%v: error %v", trace.Phase(p), err)
		}
		if len(marked) != 1 {
			t.Errorf("%v: marked %v", trace.Phase(p), marked)
		}
	}
	got, marked := broken(t, 1, trace.DropSpan{Phase: trace.Queue, Chance: trace.Chance{Share: 1}},
		trace.NegativeSpan{Phase: trace.Prefill, By: 1, Chance: trace.Chance{Share: 1}})
	if len(marked) != 1 || got[0].PrefillEnd != ms(85) {
		t.Errorf("a span without a start was turned: %+v, marked %v", got[0], marked)
	}
}

func ids(entries []trace.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(e.RequestID + " ")
	}
	return strings.TrimSpace(b.String())
}

func TestDuplicate(t *testing.T) {
	got, marked := broken(t, 3, trace.Duplicate{Chance: trace.Chance{Share: 1}})
	if ids(got) != "0 0 1 1 2 2" || strings.Join(marked, " ") != "0 1 2" {
		t.Errorf("%s, marked %v", ids(got), marked)
	}
	if d := cmp.Diff(got[2], got[3]); d != "" {
		t.Errorf("the copy differs:\n%s", d)
	}
}

// An entry that is held comes behind the next ones and before all others;
// nothing else moves and nothing is lost.
func TestReorder(t *testing.T) {
	const n, behind = 300, 3
	chance := trace.Chance{Share: 0.2, Seed: 1}
	got, marked := broken(t, n, trace.Reorder{Behind: behind, Chance: chance})
	_, same := broken(t, n, trace.Duplicate{Chance: chance}) // equal seeds pick equal places
	if d := cmp.Diff(same, marked); d != "" || len(marked) < 30 || len(marked) > 90 {
		t.Fatalf("%d marked; (-duplicated +reordered):\n%s", len(marked), d)
	}
	if len(got) != n {
		t.Fatalf("%d entries, want %d", len(got), n)
	}
	held := map[int]bool{}
	for _, id := range marked {
		held[number(t, id)] = true
	}
	for x := range got {
		for y := range x {
			first, second := number(t, got[y].RequestID), number(t, got[x].RequestID)
			want := first < second
			switch {
			case held[first] && !held[second]:
				want = second > first+behind
			case !held[first] && held[second]:
				want = first <= second+behind
			}
			if !want {
				t.Fatalf("%d stands before %d; held %v and %v", first, second, held[first], held[second])
			}
		}
	}
	if got, _ := broken(t, 3, trace.Reorder{Behind: 9, Chance: trace.Chance{Share: 1}}); ids(got) != "0 1 2" {
		t.Errorf("all held to the end: %s", ids(got))
	}
}

func number(t *testing.T, id string) int {
	t.Helper()
	n, err := strconv.Atoi(id)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Chance hits its share, and no two seeds the same places.
func TestChance(t *testing.T) {
	marks := func(c trace.Chance) []string {
		_, marked := broken(t, 2000, trace.Duplicate{Chance: c})
		return marked
	}
	a, b := marks(trace.Chance{Share: 0.1, Seed: 1}), marks(trace.Chance{Share: 0.1, Seed: 2})
	if len(a) < 150 || len(a) > 250 { // 200 ± 13
		t.Errorf("0.1 of 2000 hits %d", len(a))
	}
	if cmp.Equal(a, b) || !cmp.Equal(a, marks(trace.Chance{Share: 0.1, Seed: 1})) {
		t.Error("a seed does not decide which")
	}
	if got := marks(trace.Chance{}); len(got) != 0 {
		t.Errorf("no share hits %d", len(got))
	}
}

func TestFaultErrors(t *testing.T) {
	always := trace.Chance{Share: 1}
	const far = 1 << 62
	for _, c := range []struct {
		faults []trace.Fault
		want   string
	}{
		{[]trace.Fault{trace.ClockSkew{Clock: 3}}, "trace: ClockSkew.Clock is clock(3)"},
		{[]trace.Fault{trace.ClockSkew{By: far}}, "trace: ClockSkew moves by 1281023h53m38.427387904s, beyond 146 years"},
		{[]trace.Fault{trace.ClockSkew{By: far - 1}, trace.ClockSkew{By: far - 1}}, `trace: request "0": the client clock moves first_token_client_ms beyond 146 years`},
		{[]trace.Fault{trace.ClockDrift{PerSecond: -time.Second}}, "trace: ClockDrift.PerSecond is -1s, want less than 1s either way"},
		{[]trace.Fault{trace.ClockStep{By: -far}}, "trace: ClockStep moves by -1281023h53m38.427387904s, beyond 146 years"},
		{[]trace.Fault{trace.DropSpan{Phase: 7}}, "trace: DropSpan.Phase is phase(7)"},
		{[]trace.Fault{trace.DropSpan{Chance: trace.Chance{Share: 1.1}}}, "trace: DropSpan.Share is 1.1, want 0 to 1"},
		{[]trace.Fault{trace.NegativeSpan{Chance: always}}, "trace: NegativeSpan.By is 0s, want at least 1ns and less than 146 years"},
		{[]trace.Fault{trace.ClockSkew{By: 1 - far}, trace.NegativeSpan{By: time.Second, Chance: always}}, `trace: request "0": NegativeSpan moves gateway_arrival_ms beyond 146 years`},
		{[]trace.Fault{trace.Duplicate{Chance: trace.Chance{Share: -1}}}, "trace: Duplicate.Share is -1, want 0 to 1"},
		{[]trace.Fault{trace.Reorder{Chance: always}}, "trace: Reorder.Behind is 0, want at least 1"},
	} {
		var got []error
		for _, err := range trace.Break(stream(3), nil, c.faults...) {
			if err != nil {
				got = append(got, err)
			}
		}
		if len(got) != 1 || got[0].Error() != c.want {
			t.Errorf("%+v: %v, want %s", c.faults, got, c.want)
		}
	}
}

// An error of the source passes every fault, and all stop when told to.
func TestFaultsPassErrors(t *testing.T) {
	broke := errors.New("broke")
	source := func(yield func(trace.Entry, error) bool) {
		_ = yield(shifted(0), nil) && yield(shifted(1), nil) && yield(trace.Entry{}, broke)
	}
	half := trace.Chance{Share: 0.5, Seed: 3}
	for _, f := range []trace.Fault{trace.ClockSkew{By: 1}, trace.DropSpan{Chance: half}, trace.NegativeSpan{By: 1, Chance: half},
		trace.Duplicate{Chance: half}, trace.Reorder{Behind: 1, Chance: half}} {
		var last error
		for _, last = range trace.Break(source, nil, f) {
		}
		if last != broke {
			t.Errorf("%T: ended with %v", f, last)
		}
		for range trace.Break(stream(9), nil, f) {
			break
		}
	}
}

// A trace in which the engine's clock is 30 ms behind: the strict reader
// refuses it.
func ExampleBreak() {
	whole := strings.NewReader(`{"request_id":"burst-01","prompt_tokens":2048,"output_tokens":65,"client_send_ms":1000,` +
		`"gateway_arrival_ms":1018,"queue_enter_ms":1024,"prefill_start_ms":1028,"prefill_end_ms":1173,` +
		`"first_token_server_ms":1184,"first_token_client_ms":1202,"last_token_client_ms":2610}` + "\n")
	var file bytes.Buffer
	w := trace.Writer{W: &file}
	affected := func(id string) { fmt.Println("affected:", id) }
	behind := trace.ClockSkew{Clock: trace.EngineClock, By: -30 * time.Millisecond}
	for e, err := range trace.Break(trace.Entries(trace.Read(whole, "whole.jsonl")), affected, behind) {
		if err != nil {
			fmt.Println(err)
			return
		}
		w.WriteUnchecked(e)
	}
	if err := w.Flush(); err != nil {
		fmt.Println(err)
	}
	for _, err := range trace.Read(&file, "broken.jsonl") {
		fmt.Println(err)
	}
	// Output:
	// affected: burst-01
	// broken.jsonl:1: queue_enter_ms 994 is before gateway_arrival_ms 1018: timestamps must not decrease; align clocks of different processes first
}
