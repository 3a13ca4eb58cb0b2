package trace_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/sim/trace"
)

// detailed is the sample with every detail: tokens every 20 ms at the server,
// in two pieces at the client.
func detailed() trace.Entry {
	return trace.Entry{Record: sample(), Details: trace.Details{
		Class: "chat", Route: "replica-0", CachedTokens: 64, HasCached: true, ClockError: 2500 * time.Microsecond,
		Retrieval: 3 * time.Millisecond, Assembly: 1500 * time.Microsecond, Tail: 250 * time.Microsecond,
		ServerTokens: []sim.Time{ms(90), ms(110), ms(130), ms(150), ms(170)},
		ClientTokens: []sim.Time{ms(100), ms(140), ms(140), ms(180), ms(180)}}}
}

const goodDetails = `,"details_version":1,"class":"chat","route":"replica-0","cached_tokens":64,"clock_error_ms":2.5,` +
	`"retrieval_ms":3,"prompt_assembly_ms":1.5,"client_tail_ms":0.25,` +
	`"server_tokens_ms":[90,110,130,150,170],"client_tokens_ms":[100,140,140,180,180]}`

// withDetails is the good line with details, edited.
func withDetails(pairs ...string) string {
	return good[:len(good)-1] + strings.NewReplacer(pairs...).Replace(goodDetails)
}

func entries(text string, partial bool) (list []trace.Entry, err error) {
	for e, err := range (trace.Reader{In: strings.NewReader(text), Name: "file", Partial: partial}).Entries() {
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
	return list, nil
}

func TestDetails(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       trace.Details
	}{
		{"all", withDetails(), detailed().Details},
		{"none", good, trace.Details{}},
		{"no version", withDetails(`"details_version":1,`, "", `"chat"`, "7"), trace.Details{}},
		{"version only", withDetails(goodDetails, `,"details_version":1}`), trace.Details{}},
		{"spaced", withDetails(goodDetails, `,"server_tokens_ms": [ 90 , 9.1e1,92, 93 ,94 ] ,"details_version" : 1 }`),
			trace.Details{ServerTokens: []sim.Time{ms(90), ms(91), ms(92), ms(93), ms(94)}}},
		{"a tail", withDetails(goodDetails, `,"details_version":1,"client_tail_ms":7}`), trace.Details{Tail: 7 * time.Millisecond}},
		{"nothing cached", withDetails(goodDetails, `,"details_version":1,"cached_tokens":0}`), trace.Details{HasCached: true}},
	} {
		got, err := entries(c.text, false)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if d := cmp.Diff([]trace.Entry{{Record: sample(), Details: c.want}}, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
	e := detailed()
	if got := string(e.AppendJSON(nil)); got != withDetails() {
		t.Errorf("written as %s", got)
	}
}

func TestDetailsRefused(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"other version", withDetails(`"details_version":1`, `"details_version":2`), "file:1: details_version is 2, want 1"},
		{"class", withDetails(`"chat"`, `7`), "file:1: class is 7, want a string"},
		{"route", withDetails(`"replica-0"`, `"\ud800"`), "file:1: route holds half of a surrogate pair"},
		{"cached", withDetails(`:64`, `:6.4`), "file:1: cached_tokens is 6.4, want an integer"},
		{"more cached than prompt", withDetails(`:64`, `:101`), "file:1: cached_tokens is 101, want 0 to prompt_tokens 100"},
		{"fewer than none", withDetails(`:64`, `:-1`), "file:1: cached_tokens is -1, want 0 to prompt_tokens 100"},
		{"clock error", withDetails(`:2.5`, `:-2.5`), "file:1: clock_error_ms is -2.5, want at least 0"},
		{"clock error as text", withDetails(`:2.5`, `:"2.5"`), `file:1: clock_error_ms is "2.5", want a number`},
		{"retrieval", withDetails(`_ms":3`, `_ms":-3`), "file:1: retrieval_ms is -3, want at least 0"},
		{"assembly as text", withDetails(`:1.5`, `:"1.5"`), `file:1: prompt_assembly_ms is "1.5", want a number`},
		{"tail", withDetails(`:0.25`, `:-0.25`), "file:1: client_tail_ms is -0.25, want at least 0"},
		{"longer than the gateway phase", withDetails(`:1.5`, `:2.000001`),
			"file:1: retrieval_ms 3 and prompt_assembly_ms 2.000001 take longer than the gateway phase, 5"},
		{"tokens as number", withDetails(`[90,110,130,150,170]`, `90`), "file:1: server_tokens_ms is 90, want a list of numbers"},
		{"token as text", withDetails(`110`, `"110"`), `file:1: server_tokens_ms: token 2 is "110", want a number`},
		{"no tokens", withDetails(`[90,110,130,150,170]`, `[]`), "file:1: server_tokens_ms has 0 instants, want output_tokens 5"},
		{"too few tokens", withDetails(`,180]`, `]`), "file:1: client_tokens_ms has 4 instants, want output_tokens 5"},
		{"tokens out of order", withDetails(`110`, `131`), "file:1: server_tokens_ms: token 3 at 130 is before token 2 at 131"},
		{"first token differs", withDetails(`[90`, `[89`), "file:1: server_tokens_ms starts at 89, the record's first token is at 90"},
		{"last token differs", withDetails(`180]`, `179]`, `180,`, `179,`), "file:1: client_tokens_ms ends at 179, the record's last token is at 180"},
		{"client before server", withDetails(`130,150`, `141,150`), "file:1: client_tokens_ms: token 3 came at 140, before it left the server at 141:"},
		{"far token", withDetails(`[90,110,130,150,170]`, `[90,110,130,150,4.7e12]`), "file:1: server_tokens_ms: token 5 is 4.7e12, beyond 146 years"},
		{"key twice", withDetails(`,"class"`, `,"class":"x","class"`), "file:1: field class stands twice"},
	} {
		_, err := entries(c.text, false)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
		var plain error
		for _, plain = range trace.Read(strings.NewReader(c.text), "file") {
		}
		if fmt.Sprint(plain) != fmt.Sprint(err) {
			t.Errorf("%s: Read says %v", c.name, plain)
		}
	}
}

// Entries made in memory are held to the same rules.
func TestEntryValidate(t *testing.T) {
	for _, c := range []struct {
		edit func(*trace.Entry)
		want string
	}{
		{func(*trace.Entry) {}, ""},
		{func(e *trace.Entry) { e.PromptTokens = 0 }, "prompt_tokens is 0"},
		{func(e *trace.Entry) { e.Details.Class = "\xff" }, `class is "\xff", not UTF-8`},
		{func(e *trace.Entry) { e.Details.Route = "\xff" }, `route is "\xff", not UTF-8`},
		{func(e *trace.Entry) { e.Details.Assembly = 2 * time.Millisecond }, ""},
		{func(e *trace.Entry) { e.Details.Tail = 1 << 62 }, "client_tail_ms is 4611686018427.387904, want at least 0 and less than 146 years"},
		{func(e *trace.Entry) { e.Details.ServerTokens[4] = 1 << 62 }, "server_tokens_ms: token 5 at 4611686018427.387904, beyond 146 years"},
		{func(e *trace.Entry) { e.Details.HasCached = false }, "cached_tokens is 64 but not marked as recorded"},
	} {
		e := detailed()
		c.edit(&e)
		if err := e.Validate(); (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// A partial reader takes lines that lack instants, and only those.
func TestPartial(t *testing.T) {
	missing := edit(`"prefill_start_ms":35,`, "", `:85`, `:null`)
	want := sample()
	want.PrefillStart, want.PrefillEnd = trace.Unknown, trace.Unknown
	got, err := entries(missing, true)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]trace.Entry{{Record: want}}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if text, want := string(got[0].AppendJSON(nil)), edit(`"prefill_start_ms":35,`, "", `"prefill_end_ms":85,`, ""); text != want {
		t.Errorf("written as %s, want %s", text, want)
	}
	for _, c := range []struct{ name, text, want string }{
		{"without a count", edit(`"prompt_tokens":100,`, ""), "file:1: missing fields: prompt_tokens"},
		{"count null", edit(`:100,"o`, `:null,"o`), "file:1: prompt_tokens is null, want an integer"},
		{"order across a gap", edit(`"prefill_start_ms":35,`, "", `:85`, `:14`), "file:1: prefill_end_ms 14 is before queue_enter_ms 15:"},
		{"word", edit(`:85`, `:false`), "file:1: prefill_end_ms is false, want a number"},
	} {
		if _, err := entries(c.text, true); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
	}
	if _, err := entries(missing, false); err == nil || err.Error() != "file:1: missing fields: prefill_start_ms" {
		t.Errorf("a strict reader says %v", err)
	}
}

func TestWriteEntry(t *testing.T) {
	var b bytes.Buffer
	w := trace.Writer{W: &b}
	bad := detailed()
	bad.Details.CachedTokens = 200
	if err := w.WriteEntry(bad); err == nil || err.Error() != `trace: request "r": cached_tokens is 200, want 0 to prompt_tokens 100` {
		t.Errorf("error %v", err)
	}
	if err := w.WriteEntry(detailed()); err != nil {
		t.Error(err)
	}
	bad.QueueEnter = ms(-5)
	if err := w.WriteUnchecked(bad); err != nil {
		t.Error(err)
	}
	if err := w.Flush(); err != nil {
		t.Error(err)
	}
	want := withDetails() + "\n" + strings.Replace(withDetails(`:64`, `:200`), `:15`, `:-5`, 1) + "\n"
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	w = trace.Writer{W: &failing{}}
	w.WriteUnchecked(bad)
	if err := w.Flush(); err == nil {
		t.Fatal("no error")
	}
	for _, err := range []error{w.WriteEntry(detailed()), w.WriteUnchecked(bad)} {
		if err == nil || err.Error() != "trace: disk full" {
			t.Errorf("error %v", err)
		}
	}
}

// An observer that writes class and replica with each record.
func ExampleFromEvent() {
	classes := []string{"chat", "document"}
	w := trace.Writer{W: os.Stdout}
	observer := sim.ObserverFunc(func(e sim.Event) {
		if e.Kind == sim.Finish {
			w.WriteEntry(trace.Entry{Record: trace.FromEvent(e), Details: trace.Details{
				Class: classes[e.Class], Route: fmt.Sprintf("replica-%d", e.Replica)}})
		}
	})
	observer.Observe(sim.Event{Kind: sim.Finish, Serial: 17, Replica: 2, Class: 1, Time: 2_000_000_000, Prompt: 512, Output: 128,
		Timeline: sim.Timeline{Arrival: 0, Queued: 0, Admitted: 1_000_000, PrefillEnd: 31_000_000, FirstToken: 31_000_000}})
	if err := w.Flush(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"request_id":"17","prompt_tokens":512,"output_tokens":128,"client_send_ms":0,"gateway_arrival_ms":0,"queue_enter_ms":0,"prefill_start_ms":1,"prefill_end_ms":31,"first_token_server_ms":31,"first_token_client_ms":31,"last_token_client_ms":2000,"details_version":1,"class":"document","route":"replica-2"}
}

// Whatever a reader of entries accepts is valid and survives a round trip.
func FuzzEntries(f *testing.F) {
	for _, seed := range []string{good, withDetails(), withDetails(`[90,`, `[9e1 , `), withDetails(`,"class"`, `,"x":[[{}]],"class"`),
		edit(`:85`, `:null`), edit(`"prefill_end_ms":85,`, ""), withDetails(`"details_version":1`, `"details_version":2`)} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, text string, partial bool) {
		got, err := entries(text, partial)
		if err == nil && len(got) == 0 {
			t.Fatal("neither an entry nor an error")
		}
		var again []byte
		for _, e := range got {
			valid := e.Validate
			if partial {
				valid = e.ValidatePartial
			}
			if err := valid(); err != nil {
				t.Fatalf("an entry that was read is not valid: %v", err)
			}
			again = append(e.AppendJSON(again), '\n')
		}
		if len(got) == 0 {
			return
		}
		back, err := entries(string(again), partial)
		if err != nil {
			t.Fatalf("%s\n%v", again, err)
		}
		if d := cmp.Diff(got, back); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}
