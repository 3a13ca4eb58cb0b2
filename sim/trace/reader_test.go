package trace_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/sim/trace"
)

// read returns the records before the first error, and that error.
func read(r io.Reader) (records []trace.Record, err error) {
	for record, e := range trace.Read(r, "file") {
		if e != nil {
			return records, e
		}
		records = append(records, record)
	}
	return records, nil
}

// good is a line that is read; edits of it are not.
const good = `{"request_id":"r","prompt_tokens":100,"output_tokens":5,"client_send_ms":0,"gateway_arrival_ms":10,` +
	`"queue_enter_ms":15,"prefill_start_ms":35,"prefill_end_ms":85,"first_token_server_ms":90,` +
	`"first_token_client_ms":100,"last_token_client_ms":180}`

func edit(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(good) }

func TestReadAccepts(t *testing.T) {
	changed := func(f func(*trace.Record)) trace.Record {
		r := sample()
		f(&r)
		return r
	}
	for _, c := range []struct {
		name, text string
		want       trace.Record
	}{
		{"plain", good + "\n", sample()},
		{"no line end", good, sample()},
		{"CRLF and blank lines", "\r\n \t\n" + good + "\r\n\n", sample()},
		{"white space", " \t" + edit(":", " :\t", ",", " , ") + " \n", sample()},
		{"extra fields", edit(`{"req`, `{"x":[{"request_id":"]}\""},1e9],"y":null,"req`), sample()},
		{"escaped key", edit(`"request_id"`, `"request\u005fid"`), sample()},
		{"escaped id", edit(`"r"`, `"\ud83d\ude00\n\""`), changed(func(r *trace.Record) { r.RequestID = "😀\n\"" })},
		{"negative times", edit(`"client_send_ms":0`, `"client_send_ms":-1.5`), changed(func(r *trace.Record) { r.ClientSend = -1_500_000 })},
		{"exponents", edit(`:180`, `:1.8E+2`, `:100,"la`, `:1000e-1,"la`), sample()},
		{"nanoseconds", edit(`:180`, `:180.000001`), changed(func(r *trace.Record) { r.LastTokenClient = 180_000_001 })},
		{"equal instants", edit(`:10,"q`, `:15,"q`), changed(func(r *trace.Record) { r.GatewayArrival = ms(15) })},
	} {
		got, err := read(strings.NewReader(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if d := cmp.Diff([]trace.Record{c.want}, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "file: at least one trace is required"},
		{"blank", "\n  \r\n\t\n", "file: at least one trace is required"},
		{"missing, in order of declaration", edit(`"prefill_end_ms":85,`, "", `"request_id":"r",`, "", `"client_send_ms":0`, `"client_send_ms":null`),
			"file:1: missing fields: request_id, prefill_end_ms"},
		{"all missing", "{}", "file:1: missing fields: request_id, prompt_tokens, output_tokens, client_send_ms, gateway_arrival_ms, " +
			"queue_enter_ms, prefill_start_ms, prefill_end_ms, first_token_server_ms, first_token_client_ms, last_token_client_ms"},
		{"NaN", edit(`:35`, `:NaN`), "file:1: prefill_start_ms is NaN, which is not JSON"},
		{"infinity", edit(`:35`, `:-Infinity`), "file:1: prefill_start_ms is -Infinity, which is not JSON"},
		{"overflow", edit(`:180`, `:1e300`), "file:1: last_token_client_ms is 1e300, beyond 146 years"},
		{"time as text", edit(`:35`, `:"35"`), `file:1: prefill_start_ms is "35", want a number`},
		{"time as boolean", edit(`:35`, `:true`), `file:1: prefill_start_ms is true, want a number`},
		{"time as list", edit(`:35`, `:[35]`), `file:1: prefill_start_ms is [35], want a number`},
		{"fractional count", edit(`:100,"o`, `:100.5,"o`), "file:1: prompt_tokens is 100.5, want an integer"},
		{"count with a point", edit(`:5,`, `:5.0,`), "file:1: output_tokens is 5.0, want an integer"},
		{"count with an exponent", edit(`:5,`, `:5e0,`), "file:1: output_tokens is 5e0, want an integer"},
		{"boolean count", edit(`:5,`, `:true,`), "file:1: output_tokens is true, want an integer"},
		{"count as text", edit(`:5,`, `:"5",`), `file:1: output_tokens is "5", want an integer`},
		{"huge count", edit(`:5,`, `:99999999999999999999,`), "file:1: output_tokens is 99999999999999999999, want an integer below"},
		{"no tokens", edit(`:5,`, `:0,`), "file:1: output_tokens is 0, want at least 1"},
		{"counts before order", edit(`:5,`, `:0,`, `:10,"q`, `:16,"q`), "file:1: output_tokens is 0, want at least 1"},
		{"number as id", edit(`"r"`, `17`), "file:1: request_id is 17, want a string"},
		{"null as id", edit(`"r"`, `null`), "file:1: request_id is null, want a string"},
		{"half a surrogate", edit(`"r"`, `"\ud83d"`), "file:1: request_id holds half of a surrogate pair"},
		{"half a surrogate and a letter", edit(`"r"`, `"\ud83d\u0041"`), "file:1: request_id holds half of a surrogate pair"},
		{"order", edit(`:10,"q`, `:16.25,"q`), "file:1: queue_enter_ms 15 is before gateway_arrival_ms 16.25:"},
		{"key twice", edit(`{"req`, `{"queue_enter_ms":15,"req`), "file:1: field queue_enter_ms stands twice"},
		{"key twice, escaped", edit(`{"req`, `{"queue_enter\u005fms":15,"req`), "file:1: field queue_enter_ms stands twice"},
		{"extra key twice", edit(`{"req`, `{"x":1,"x":1,"req`), "file:1: field x stands twice"},
		{"id twice", good + "\n\n" + good, `file:3: request_id "r" is that of line 1`},
		{"first fault ends it", "\n" + good + "\n{}\n[]", "file:3: missing fields: request_id"},
		{"bad UTF-8", edit(`"r"`, "\"r\xff\""), "file:1: byte 17 of the line is not UTF-8"},
		{"control byte in a string", edit(`"r"`, "\"r\x01\""), `file:1: request_id is "\"r\x01\"", which is not JSON`},
		{"bad extra", edit(`{"req`, `{"x":[1,],"req`), "file:1: x is [1,], which is not JSON"},
		{"byte order mark", "\ufeff" + good, `file:1: want '{', have "\ufeff`},
		{"list", "[1]", "file:1: want '{', have [1]"},
		{"cut short", good[:40], "file:1: want a field name, have \"o"},
		{"no value", `{"x":}`, "file:1: x has no value"},
		{"no colon", `{"x"}`, "file:1: want ':', have }"},
		{"no key", `{1:2}`, "file:1: want a field name, have 1:2}"},
		{"bad key", `{"\x":2}`, `file:1: want a field name, have "\x"`},
		{"half a surrogate as key", `{"\udc00":2}`, `file:1: field name "\udc00" holds half of a surrogate pair`},
		{"comma too many", `{"x":1,}`, "file:1: want a field name, have }"},
		{"more behind it", good + " {}", "file:1: {} behind the object"},
		{"backslash at the end", `{"x":"\`, `file:1: x is "\, which is not JSON`},
	} {
		_, err := read(strings.NewReader(c.text))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
	}
	if _, err := read(strings.NewReader("\n")); !errors.Is(err, trace.ErrEmpty) {
		t.Errorf("error %v is not ErrEmpty", err)
	}
}

func TestReadStopsAtTheFirstFault(t *testing.T) {
	second := edit(`"r"`, `"s"`)
	records, errs := 0, 0
	for _, err := range trace.Read(strings.NewReader(good+"\n"+second+"\n{}\n"+edit(`"r"`, `"t"`)), "file") {
		if err != nil {
			errs++
			continue
		}
		records++
	}
	if records != 2 || errs != 1 {
		t.Errorf("%d records and %d errors, want 2 and 1", records, errs)
	}
	for range trace.Read(strings.NewReader(good+"\n"+second), "file") {
		break // the reader must stop when it is told to
	}
}

// A read that fails inside a line is reported as such, not as bad JSON.
func TestReadError(t *testing.T) {
	broken := errors.New("broken pipe")
	got, err := read(io.MultiReader(strings.NewReader(good+"\n"+good[:50]), iotest.ErrReader(broken)))
	if len(got) != 1 || !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "file:2: ") {
		t.Errorf("%d records, error %v", len(got), err)
	}
}

func TestLongLines(t *testing.T) {
	long := edit(`{"req`, `{"x":"`+strings.Repeat("y", 200_000)+`","req`)
	if got, err := read(strings.NewReader(long + "\n" + edit(`"r"`, `"s"`))); err != nil || len(got) != 2 {
		t.Errorf("%d records, error %v, want 2 and none", len(got), err)
	}
	endless := io.LimitReader(zeros{}, 1<<30)
	if _, err := read(endless); err == nil || err.Error() != "file:1: line is longer than 16777216 bytes" {
		t.Errorf("error %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// Times are exact; what is below a nanosecond is rounded, half away from zero.
func TestTimesAreExact(t *testing.T) {
	for _, c := range []struct {
		text string
		want sim.Time
	}{
		{"0", 0}, {"-0", 0}, {"0.000001", 1}, {"-0.000001", -1}, {"1753.123456", 1_753_123_456},
		{"0.0000004", 0}, {"0.0000005", 1}, {"-0.0000005", -1}, {"0.00000049999999999999999999999", 0},
		{"0.1", 100_000}, {"0.30000000000000004", 300_000}, {"1e-6", 1}, {"1E-7", 0}, {"5e-7", 1}, {"15e-7", 2},
		{"0e999999999999999999999", 0}, {"0.0e5", 0}, {"1e-999999999999999999999", 0},
		{"4611686018427.387903", 1<<62 - 1}, {"4.611686018427387903e12", 1<<62 - 1}, {"461168601842.7387903e1", 1<<62 - 1},
		{"1700000000000.5", 1_700_000_000_000_500_000},
	} {
		first := strings.ReplaceAll(`"client_send_ms":T,"gateway_arrival_ms":T,"queue_enter_ms":T,"prefill_start_ms":T,"prefill_end_ms":T,`+
			`"first_token_server_ms":T,"first_token_client_ms":T,"last_token_client_ms":T}`, "T", c.text)
		got, err := read(strings.NewReader(`{"request_id":"","prompt_tokens":1,"output_tokens":1,` + first))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got[0].ClientSend != c.want || got[0].LastTokenClient != c.want {
			t.Errorf("%s ms is %d ns, want %d", c.text, got[0].ClientSend, c.want)
		}
	}
	for _, text := range []string{"4611686018427.387904", "4611686018427.3879035", "-4611686018427.387904", "9e18", "40000000000000",
		"1e9999999999999999999"} {
		if _, err := read(strings.NewReader(edit(`:180`, `:`+text))); err == nil || !strings.Contains(err.Error(), "beyond 146 years") {
			t.Errorf("%s ms: error %v", text, err)
		}
	}
}

func ExampleRead() {
	file := strings.NewReader(`{"request_id":"burst-01","prompt_tokens":2048,"output_tokens":65,"client_send_ms":1000,` +
		`"gateway_arrival_ms":1018,"queue_enter_ms":1024,"prefill_start_ms":1028,"prefill_end_ms":1173,` +
		`"first_token_server_ms":1184,"first_token_client_ms":1202,"last_token_client_ms":2610}` + "\n{}\n")
	for r, err := range trace.Read(file, "burst.jsonl") {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Printf("%s: TTFT %v, ITL %v ms, E2E %v, prefill %v\n", r.RequestID, r.TTFT(), r.ITL(), r.E2E(), r.Decompose().Phases[trace.Prefill])
	}
	// Output:
	// burst-01: TTFT 202ms, ITL 22 ms, E2E 1.61s, prefill 145ms
	// burst.jsonl:2: missing fields: request_id, prompt_tokens, output_tokens, client_send_ms, gateway_arrival_ms, queue_enter_ms, prefill_start_ms, prefill_end_ms, first_token_server_ms, first_token_client_ms, last_token_client_ms
}
