package workload_test

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/sim/kv"
	"servesim/sim/simtest"
	"servesim/workload"
)

// mooncake is a recording in memory under the name "trace.jsonl".
func mooncake(data string) workload.Mooncake {
	return workload.Mooncake{
		Path: "trace.jsonl",
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(data)), nil },
	}
}

// chain is the prefix of a request of trace.jsonl.
func chain(ids ...uint64) []kv.Hash { return kv.HashIDs(nil, ids, "trace.jsonl") }

const mooncakeTwo = `{"timestamp": 27000, "input_length": 1100, "output_length": 40, "hash_ids": [0, 1, 2]}` + "\n" +
	`{"timestamp": 30000, "input_length": 1536, "output_length": 12, "hash_ids": [0, 1, 3]}` + "\n"

// 1100 tokens are two blocks of 512 and a part of one, which has no hash; 1536
// are three.
var mooncakeTwoRequests = []sim.Request{
	{ID: 0, Arrival: 0, Prompt: 1100, Output: 40, Prefix: chain(0, 1), PrefixBlock: 512},
	{ID: 1, Arrival: 3e9, Prompt: 1536, Output: 12, Prefix: chain(0, 1, 3), PrefixBlock: 512},
}

func TestMooncakeNotations(t *testing.T) {
	two := mooncakeTwoRequests
	at := func(first, second string) string {
		return strings.NewReplacer("27000", first, "30000", second).Replace(mooncakeTwo)
	}
	for _, c := range []struct {
		name, data string
		want       []sim.Request
	}{
		{"plain", mooncakeTwo, two},
		{"no last newline", strings.TrimSuffix(mooncakeTwo, "\n"), two},
		{"carriage returns, blank lines", strings.ReplaceAll(mooncakeTwo, "\n", "\r\n \r\n\n"), two},
		{"byte order mark", "\ufeff" + mooncakeTwo, two},
		{"gzip", zip(t, mooncakeTwo), two},
		{"no blanks", strings.ReplaceAll(mooncakeTwo, " ", ""), two},
		{"blanks everywhere", strings.NewReplacer(" ", "", "{", " { ", "}", " } ", "[", " [ ", "]", "\t] ", ",", "\t,  ", ":", " : ").Replace(mooncakeTwo), two},
		{"another order, other keys", `{"hash_ids": [0, 1, 2], "Timestamp": 5, "text_input": "}, \"timestamp\": 1, [\\", "x": {"timestamp": [7, {}], "y": "]"},` +
			` "output_length": 40, "none": null, "input_length": 1100, "timestamp": 27000, "session_id": "a"}` + "\n" +
			strings.SplitAfter(mooncakeTwo, "\n")[1], two},
		{"an escaped key", strings.ReplaceAll(mooncakeTwo, "timestamp", `\u0074imestam\u0070`), two},
		{"a long line", strings.ReplaceAll(mooncakeTwo, `"hash`, `"text_input": "`+strings.Repeat("word ", 100_000)+`", "hash`), two},
		{"floats", at("27000.0", "3.0E4"), two},
		{"in quotes", strings.NewReplacer("27000", `"27000"`, "1100", `"1100"`, "12,", `"12",`, "[0, 1, 3]", `["0", "1", "3"]`).Replace(mooncakeTwo), two},
		{"dates", at(`"2024-05-12 00:00:27+00:00"`, `"2024-05-12T00:00:30.000Z"`), two},
		{"no id for the part of a block", strings.Replace(mooncakeTwo, "[0, 1, 2]", "[0, 1]", 1), two},
		{"Unix milliseconds", at("1700000000000", "1700000003000"), two},
	} {
		m := mooncake(c.data)
		var counts workload.Counts
		m.Counts = &counts
		for range 2 { // each iteration opens the file anew
			if diff := cmp.Diff(c.want, collect(t, m.Requests())); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, diff)
			}
			if want := (workload.Counts{Read: 2, Emitted: 2}); counts != want {
				t.Errorf("%s: counts %+v, want %+v", c.name, counts, want)
			}
		}
		m.Open = func() (io.ReadCloser, error) {
			return io.NopCloser(iotest.OneByteReader(strings.NewReader(c.data))), nil
		}
		if diff := cmp.Diff(c.want, collect(t, m.Requests())); diff != "" {
			t.Errorf("%s, byte by byte (-want +got):\n%s", c.name, diff)
		}
	}
}

// Milliseconds become nanoseconds, rounded to the nearest.
func TestMooncakeTimestamps(t *testing.T) {
	for stamp, want := range map[string]sim.Time{
		"0": 0, "1": 1e6, "0.000001": 1, "0.5": 500_000, "12.25": 12_250_000, "1.0000004": 1_000_000, "1.0000005": 1_000_001,
		"0.99999999": 1_000_000, "0.30000000000000004": 300_000, "1e-6": 1, "1.5e3": 1_500_000_000, "1700000000000.123456": 1_700_000_000_000_123_456,
		"9223372036853.999999": 9_223_372_036_853_999_999,
	} {
		row := `{"timestamp": %s, "input_length": 1, "output_length": 1, "hash_ids": [0]}` + "\n"
		got := collect(t, mooncake(fmt.Sprintf(row+row, "0", stamp)).Requests())
		if got[1].Arrival != want {
			t.Errorf("%s ms is %d ns, want %d", stamp, got[1].Arrival, want)
		}
	}
}

const mooncakeDrops = `{"timestamp": 1000, "input_length": 0, "output_length": 5, "hash_ids": []}` + "\n" + // still the origin
	`{"timestamp": 2000, "input_length": 600, "output_length": 0, "hash_ids": [0, 1]}` + "\n" +
	`{"timestamp": 2000, "input_length": 0, "output_length": 0, "hash_ids": []}` + "\n" +
	`{"timestamp": 2000, "input_length": 600, "output_length": 8, "hash_ids": [0, 2]}` + "\n" +
	`{"timestamp": 2000, "input_length": 100, "output_length": 9, "hash_ids": [7]}` + "\n"

func TestMooncakeDrops(t *testing.T) {
	for _, sort := range []bool{false, true} {
		for spread, second := range map[time.Duration]sim.Time{0: 1e9, time.Second: 1.5e9} { // rows that are dropped take no time
			var counts workload.Counts
			m := mooncake(mooncakeDrops)
			m.Counts, m.Sort, m.Spread = &counts, sort, spread
			want := []sim.Request{
				{ID: 3, Arrival: 1e9, Prompt: 600, Output: 8, Prefix: chain(0), PrefixBlock: 512},
				{ID: 4, Arrival: second, Prompt: 100, Output: 9, PrefixBlock: 512},
			}
			if diff := cmp.Diff(want, collect(t, m.Requests())); diff != "" {
				t.Errorf("sort %v, spread %v (-want +got):\n%s", sort, spread, diff)
			}
			if want := (workload.Counts{Read: 5, Emitted: 2, ZeroPrompt: 2, ZeroOutput: 1}); counts != want || counts.Dropped() != 3 {
				t.Errorf("sort %v, spread %v: counts %+v, want %+v", sort, spread, counts, want)
			}
		}
	}
}

// Blocks of 16 tokens: 33 tokens are two and one token.
func TestMooncakeBlockTokens(t *testing.T) {
	m := mooncake(`{"timestamp": 0, "input_length": 33, "output_length": 1, "hash_ids": [5, 18446744073709551615, 6]}`)
	m.BlockTokens = 16
	want := []sim.Request{{Prompt: 33, Output: 1, Prefix: chain(5, 1<<64-1), PrefixBlock: 16}}
	if diff := cmp.Diff(want, collect(t, m.Requests())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// lmbench is in the notation of LMBench's recording: Unix nanoseconds as text,
// hashes of about 34 tokens.
const lmbench = `{"timestamp": "1753780607550317897", "input_length": 70, "output_length": 84, "hash_ids": [2843241808, 137021281]}
{"timestamp": "1753780607550317899", "input_length": 70, "output_length": 84, "hash_ids": [2843241808]}
{"timestamp": "1753780608550317897", "input_length": 3, "output_length": 84, "hash_ids": [2843241808, 1]}
{"timestamp": "1753780608550317897", "input_length": 3, "output_length": 84, "hash_ids": null}
{"timestamp": "1753780608550317897", "input_length": 3, "output_length": 84}
`

func TestMooncakeIDs(t *testing.T) {
	m := mooncake(lmbench)
	m.Unit, m.BlockTokens = time.Nanosecond, 34
	got, err := workload.Collect(m.Requests())
	if wanted := "workload: trace.jsonl:2: hash_ids has 1 ids, input_length 70 makes 3 blocks of 34 tokens"; len(got) != 1 || errText(err) != wanted {
		t.Errorf("%d requests, then %v, want 1, then %s", len(got), err, wanted)
	}
	want := []sim.Request{
		{ID: 0, Arrival: 0, Prompt: 70, Output: 84}, {ID: 1, Arrival: 2, Prompt: 70, Output: 84},
		{ID: 2, Arrival: 1e9, Prompt: 3, Output: 84}, {ID: 3, Arrival: 1e9, Prompt: 3, Output: 84}, {ID: 4, Arrival: 1e9, Prompt: 3, Output: 84},
	}
	none := m
	none.NoPrefix = true
	if diff := cmp.Diff(want, collect(t, none.Requests())); diff != "" {
		t.Errorf("without prefixes (-want +got):\n%s", diff)
	}
	for i := range want {
		want[i].PrefixBlock = 34
	}
	want[0].Prefix, want[1].Prefix = chain(2843241808, 137021281), chain(2843241808)
	m.LooseIDs = true
	if diff := cmp.Diff(want, collect(t, m.Requests())); diff != "" {
		t.Errorf("loose (-want +got):\n%s", diff)
	}
	m.PartialIDs = true
	want[2].Prefix = chain(2843241808)
	if diff := cmp.Diff(want, collect(t, m.Requests())); diff != "" {
		t.Errorf("loose and partial (-want +got):\n%s", diff)
	}
}

func TestMooncakePartialIDs(t *testing.T) {
	m := mooncake(mooncakeTwo)
	m.PartialIDs = true
	want := []sim.Request{
		{ID: 0, Arrival: 0, Prompt: 1100, Output: 40, Prefix: chain(0, 1, 2), PrefixBlock: 512},
		{ID: 1, Arrival: 3e9, Prompt: 1536, Output: 12, Prefix: chain(0, 1, 3), PrefixBlock: 512},
	}
	if diff := cmp.Diff(want, collect(t, m.Requests())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Timestamps in seconds, 16 tokens a block.
func TestMooncakeDialects(t *testing.T) {
	const rows = `{"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 33, "output_length": 132, "type": "text", "turn": 1, "hash_ids": [1089, 1090, 1091]}
{"chat_id": 160, "parent_chat_id": 159, "timestamp": 61.2, "input_length": 32, "output_length": 1, "type": "file", "turn": 2, "hash_ids": [1089, 1092]}
{"chat_id": 161, "parent_chat_id": -1, "timestamp": 62.114000001, "input_length": 32, "output_length": 2, "type": "te\u0078t", "turn": 1, "hash_ids": [1089, 1090]}
`
	want := []sim.Request{
		{ID: 0, Arrival: 0, Prompt: 33, Output: 132, Prefix: chain(1089, 1090), PrefixBlock: 16},
		{ID: 1, Arrival: 86e6, Prompt: 32, Output: 1, Prefix: chain(1089, 1092), PrefixBlock: 16},
		{ID: 2, Arrival: 1_000_000_001, Prompt: 32, Output: 2, Prefix: chain(1089, 1090), PrefixBlock: 16},
	}
	for _, m := range []workload.Mooncake{workload.QwenBailian("trace.jsonl"), workload.VLLMTimedTrace("trace.jsonl")} {
		var counts workload.Counts
		m.Open, m.Counts = mooncake(rows).Open, &counts
		if diff := cmp.Diff(want, collect(t, m.Requests())); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		m.Type = "text"
		if diff := cmp.Diff([]sim.Request{want[0], want[2]}, collect(t, m.Requests())); diff != "" {
			t.Errorf("text only (-want +got):\n%s", diff)
		}
		if want := (workload.Counts{Read: 3, Emitted: 2, Filtered: 1}); counts != want || counts.Dropped() != 1 {
			t.Errorf("text only: counts %+v, want %+v", counts, want)
		}
		m.Open = mooncake(mooncakeTwo).Open
		m.NoPrefix = true
		if _, err := workload.Collect(m.Requests()); errText(err) != "workload: trace.jsonl:1: the row has no type" {
			t.Errorf("a row without type: %v", err)
		}
	}
}

// The same ids under another path are other content, and an id means what it
// means behind the ids before it.
func TestMooncakePrefixes(t *testing.T) {
	const rows = `{"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [0, 1]}` + "\n" +
		`{"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [2, 1]}` + "\n" +
		`{"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [0, 3]}` + "\n"
	m := mooncake(rows)
	here := collect(t, m.Requests())
	m.Path = "other.jsonl"
	there := collect(t, m.Requests())
	if here[0].Prefix[0] != here[2].Prefix[0] {
		t.Error("equal prefixes differ")
	}
	seen := map[kv.Hash]bool{}
	for _, h := range append(append(append(here[0].Prefix, here[1].Prefix...), here[2].Prefix[1]), there[0].Prefix...) {
		if seen[h] {
			t.Errorf("hash %d names two contents", h)
		}
		seen[h] = true
	}
}

func arrivals(requests []sim.Request) (out []time.Duration) {
	for _, q := range requests {
		out = append(out, time.Duration(q.Arrival))
	}
	return out
}

func TestMooncakeSpread(t *testing.T) {
	rows := func(stamps ...int) string {
		var b strings.Builder
		for i, at := range stamps {
			fmt.Fprintf(&b, "{\"timestamp\": %d, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [%d]}\n", at, i)
		}
		return b.String()
	}
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct {
		name   string
		stamps []int
		spread time.Duration
		want   []time.Duration
		err    string
	}{
		{"batches stay", []int{0, 0, 0, 3000}, 0, []time.Duration{0, 0, 0, 3 * s}, "<nil>"},
		{"over the tick", []int{0, 0, 0, 3000, 6000, 6000}, 3 * s, []time.Duration{0, s, 2 * s, 3 * s, 6 * s, 7500 * ms}, "<nil>"},
		{"rounded down", []int{0, 0, 0}, 10, []time.Duration{0, 3, 6}, "<nil>"},
		{"a tick of one row stays", []int{0, 5, 10}, 3 * s, []time.Duration{0, 5 * ms, 10 * ms}, "<nil>"},
		{"up to the next tick", []int{0, 0, 1500}, 3 * s, []time.Duration{0, 1500 * ms, 1500 * ms}, "<nil>"},
		{"past the next tick", []int{0, 0, 1499}, 3 * s, []time.Duration{0, 1500 * ms},
			"workload: trace.jsonl: with Spread 3s, request 1 arrives at 1.5s, after request 2 of the next tick at 1.499s"},
		{"a bad row behind a tick", []int{0, 0, -1}, 2 * s, []time.Duration{0, s}, "workload: trace.jsonl:3: timestamp -1: not"},
		{"a very wide spread", []int{0, 0, 0, 0}, 1<<63 - 1, []time.Duration{0, 2305843009213693951, 4611686018427387903, 6917529027641081855}, "<nil>"},
		{"after the end of time", []int{0, 9223372036853, 9223372036853}, s, []time.Duration{0, 9223372036853 * ms},
			"workload: trace.jsonl: request 2 at 2562047h47m16.853s, spread by 500ms, arrives after 292 years"},
	} {
		m := mooncake(rows(c.stamps...))
		m.Spread = c.spread
		got, err := workload.Collect(m.Requests())
		if diff := cmp.Diff(c.want, arrivals(got)); diff != "" || !strings.HasPrefix(errText(err), c.err) {
			t.Errorf("%s: error %v, want %s; arrivals (-want +got):\n%s", c.name, err, c.err, diff)
		}
	}
}

func TestMooncakeSort(t *testing.T) {
	row := func(at, id int) string {
		return fmt.Sprintf("{\"timestamp\": %d, \"input_length\": 512, \"output_length\": 1, \"hash_ids\": [%d]}\n", at, id)
	}
	m := mooncake(row(5000, 1) + row(3000, 2) + row(5000, 3) + row(4000, 4))
	got, err := workload.Collect(m.Requests())
	want := "workload: trace.jsonl:2: timestamp 3000 is before 5000 of line 1 (Sort accepts that)"
	if len(got) != 1 || errText(err) != want {
		t.Errorf("in order: %d requests, then %v, want 1, then %s", len(got), err, want)
	}
	var counts workload.Counts
	m.Sort, m.Counts, m.Spread = true, &counts, time.Second
	wantRequests := []sim.Request{
		{ID: 1, Arrival: 0, Prompt: 512, Output: 1, Prefix: chain(2), PrefixBlock: 512},
		{ID: 3, Arrival: 1e9, Prompt: 512, Output: 1, Prefix: chain(4), PrefixBlock: 512},
		{ID: 0, Arrival: 2e9, Prompt: 512, Output: 1, Prefix: chain(1), PrefixBlock: 512},
		{ID: 2, Arrival: 2.5e9, Prompt: 512, Output: 1, Prefix: chain(3), PrefixBlock: 512},
	}
	if diff := cmp.Diff(wantRequests, collect(t, m.Requests())); diff != "" {
		t.Errorf("sorted and spread (-want +got):\n%s", diff)
	}
	if want := (workload.Counts{Read: 4, Emitted: 4, OutOfOrder: 2}); counts != want {
		t.Errorf("counts %+v, want %+v", counts, want)
	}
}

func TestMooncakeErrors(t *testing.T) {
	const good = `{"timestamp": 0, "input_length": 1100, "output_length": 40, "hash_ids": [0, 1, 2]}`
	put := func(was, is string) string { return good + "\n" + strings.Replace(good, was, is, 1) }
	zipped := zip(t, strings.Repeat(good+"\n", 500))
	for _, c := range []struct {
		name, data string
		n          int // requests before the error, any if negative
		want       string
	}{
		{"empty", "", 0, "trace.jsonl: the file is empty"},
		{"empty inside gzip", zip(t, ""), 0, "trace.jsonl: no rows"},
		{"blank", " \n\n", 0, "trace.jsonl: no rows"},
		{"no timestamp", put(`"timestamp": 0, `, ""), 1, "trace.jsonl:2: the row has no timestamp"},
		{"no prompt", put(`"input_length": 1100, `, ""), 1, "trace.jsonl:2: the row has no input_length"},
		{"no output", put(`"output_length"`, `"Output_Length"`), 1, "trace.jsonl:2: the row has no output_length"},
		{"no ids", put(`, "hash_ids": [0, 1, 2]`, ""), 1, "trace.jsonl:2: the row has no hash_ids"},
		{"empty object", "{}", 0, "trace.jsonl:1: the row has no timestamp"},
		{"a key twice", put(`"output_length": 40`, `"output_length": 40, "output_length": 40`), 1, "trace.jsonl:2: the row has output_length twice"},
		{"a key twice, once escaped", put(`"output_length": 40`, `"output_length": 40, "outpu\u0074_length": 40`), 1, "trace.jsonl:2: the row has output_length twice"},
		{"timestamp text", put(`: 0`, `: "soon"`), 1, `trace.jsonl:2: timestamp "soon": not a number of milliseconds, at least 0`},
		{"timestamp with a unit", put(`: 0`, `: "3000ms"`), 1, `trace.jsonl:2: timestamp "3000ms": not a number of milliseconds, at least 0`},
		{"timestamp with two points", put(`: 0`, `: "3.0.0"`), 1, `trace.jsonl:2: timestamp "3.0.0": not a number of milliseconds`},
		{"timestamp with a bad exponent", put(`: 0`, `: "3e"`), 1, `trace.jsonl:2: timestamp "3e": not a number of milliseconds`},
		{"timestamp empty", put(`: 0`, `: ""`), 1, `trace.jsonl:2: timestamp "": not a number of milliseconds`},
		{"timestamp a bad date", put(`: 0`, `: "2024-05-32 00:00:00"`), 1, `trace.jsonl:2: timestamp "2024-05-32 00:00:00": day out of range`},
		{"timestamp negative", put(`: 0`, `: -1`), 1, "trace.jsonl:2: timestamp -1: not a number of milliseconds"},
		{"timestamp null", put(`: 0`, `: null`), 1, "trace.jsonl:2: timestamp null: not a number"},
		{"timestamp in ns", put(`: 0`, `: 1700000000000000000`), 1, "trace.jsonl:2: timestamp 1700000000000000000: more than 292 years"},
		{"timestamp just too late", put(`: 0`, `: 9223372036854`), 1, "trace.jsonl:2: timestamp 9223372036854: more than 292 years"},
		{"timestamp huge", put(`: 0`, `: 1e400`), 1, "trace.jsonl:2: timestamp 1e400: more than 292 years"},
		{"timestamp large", put(`: 0`, `: 1e13`), 1, "trace.jsonl:2: timestamp 1e13: more than 292 years"},
		{"NaN", put(`: 0`, `: NaN`), 1, "trace.jsonl:2: not JSON: invalid character 'N' looking for beginning of value"},
		{"prompt negative", put("1100", "-1100"), 1, "trace.jsonl:2: input_length -1100: not a whole number from 0 to 2147483647"},
		{"prompt float", put("1100", "1100.0"), 1, "trace.jsonl:2: input_length 1100.0: not a whole"},
		{"prompt text", put("1100", `"many"`), 1, `trace.jsonl:2: input_length "many": not a whole`},
		{"output huge", put("40", "2147483648"), 1, "trace.jsonl:2: output_length 2147483648: not a whole"},
		{"output a list", put("40", "[40]"), 1, "trace.jsonl:2: output_length [40]: not a whole"},
		{"too few ids", put(", 1, 2]", "]"), 1, "trace.jsonl:2: hash_ids has 1 ids, input_length 1100 makes 3 blocks of 512 tokens"},
		{"too many ids", put(", 2]", ", 2, 3]"), 1, "trace.jsonl:2: hash_ids has 4 ids, input_length 1100 makes 3 blocks"},
		{"ids without prompt", put("1100", "0"), 1, "trace.jsonl:2: hash_ids has 3 ids, input_length 0 makes 0 blocks"},
		{"empty ids", put("[0, 1, 2]", "[ ]"), 1, "trace.jsonl:2: hash_ids has 0 ids, input_length 1100 makes 3 blocks"},
		{"ids an object", put("[0, 1, 2]", `{"history": [0, 1, 2]}`), 1, `trace.jsonl:2: hash_ids {"history": [0, 1, 2]}: not a list of whole numbers`},
		{"id negative", put(", 2]", ", -2]"), 1, "trace.jsonl:2: hash_ids [0, 1, -2]: element 2 is -2: not a list of whole"},
		{"id too large", put(", 2]", ", 18446744073709551616]"), 1, "element 2 is 18446744073709551616: not a list of whole"},
		{"id float", put(", 2]", ", 2.0]"), 1, "element 2 is 2.0: not a list"},
		{"id a list", put("1, 2]", "[1], 2]"), 1, "element 1 is [1]: not a list"},
		{"a row cut", put("2]}", ""), 1, "trace.jsonl:2: not JSON: unexpected end of JSON input"},
		{"two rows in a line", put("2]}", "2]} "+good), 1, "trace.jsonl:2: not JSON: invalid character '{' after top-level value"},
		{"a list of rows", "[" + good + "]", 0, "trace.jsonl:1: the line is not a JSON object"},
		{"a number", "3", 0, "trace.jsonl:1: the line is not a JSON object"},
		{"CSV", azure2023, 0, "trace.jsonl:1: not JSON: invalid character 'T'"},
		{"binary", "\x00\xff\xfe\n", 0, "trace.jsonl:1: not JSON: invalid character"},
		{"endless line", good + "\n" + strings.Repeat("x", 17<<20), 1, "trace.jsonl:2: the line is longer than 16777216 bytes"},
		{"gzip cut", zipped[:len(zipped)-20], -1, "unexpected EOF"},
		{"gzip with a wrong checksum", zipped[:len(zipped)-8] + "checksum", -1, "checksum"},
	} {
		var counts workload.Counts
		m := mooncake(c.data)
		m.Counts = &counts
		got, err := workload.Collect(m.Requests())
		if c.n >= 0 && len(got) != c.n || !strings.HasPrefix(errText(err), "workload: trace.jsonl:") || !strings.Contains(errText(err), c.want) {
			t.Errorf("%s: %d requests, then %.300v, want %d, then %q", c.name, len(got), err, c.n, c.want)
		}
		if counts.Emitted != len(got) || counts.Read != counts.Emitted+counts.Dropped() {
			t.Errorf("%s: counts %+v after %d requests", c.name, counts, len(got))
		}
		m.Sort = true
		if got, err := workload.Collect(m.Requests()); err == nil || len(got) != 0 {
			t.Errorf("%s, sorted: %d requests, then %.300v, want an error", c.name, len(got), err)
		}
	}
}

func TestMooncakeFields(t *testing.T) {
	for want, m := range map[string]workload.Mooncake{
		"workload: Mooncake.BlockTokens is -1, want 0 to 2147483647": {BlockTokens: -1},
		"workload: Mooncake.Spread is -1ns, want at least 0":         {Spread: -1},
		"workload: Mooncake.Unit is 1m0s, want 1s, 1ms, 1µs or 1ns":  {Unit: time.Minute},
	} {
		if got, err := workload.Collect(m.Requests()); len(got) != 0 || errText(err) != want {
			t.Errorf("%d requests, then %v, want %s", len(got), err, want)
		}
	}
	m := workload.Mooncake{Class: sim.Class{Name: "recorded"}}
	if diff := cmp.Diff([]sim.Class{{Name: "recorded"}}, m.Classes()); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
}

func TestMooncakeInput(t *testing.T) {
	broken := errors.New("broken disk")
	closed := 0
	m := mooncake("")
	m.Open = func() (io.ReadCloser, error) {
		return closing{io.MultiReader(strings.NewReader(mooncakeTwo+"{"), iotest.ErrReader(broken)), &closed}, nil
	}
	got, err := workload.Collect(m.Requests())
	if diff := cmp.Diff(mooncakeTwoRequests, got); diff != "" || !errors.Is(err, broken) || !strings.Contains(errText(err), "trace.jsonl:3: ") {
		t.Errorf("error %v; requests before it (-want +got):\n%s", err, diff)
	}
	for range m.Requests() {
		break
	}
	m.Spread = time.Second
	for range m.Requests() {
		break
	}
	if closed != 3 {
		t.Errorf("closed %d times in 3 iterations", closed)
	}
	m.Open = func() (io.ReadCloser, error) { return nil, broken }
	if _, err := workload.Collect(m.Requests()); !errors.Is(err, broken) {
		t.Errorf("error of Open became %v", err)
	}
}

func TestMooncakeConformance(t *testing.T) {
	for _, m := range []workload.Mooncake{{}, {Spread: 3 * time.Second}} {
		m.Path = recorded(t, "conversation").Path
		simtest.TestWorkload(t, func() iter.Seq2[sim.Request, error] { return workload.Take(m.Requests(), 500) })
	}
}

func FuzzMooncake(f *testing.F) {
	for _, s := range []string{
		mooncakeTwo, "\ufeff" + mooncakeTwo, mooncakeDrops, zip(f, mooncakeTwo), zip(f, mooncakeDrops)[:60], "", "{}", "[]", "3", "null",
		`{"hash_ids":[0,18446744073709551615],"input_length":513,"a":{"b":["}\\\""]},"output_length":1,"t\u0069mestamp":1.5e3}`,
		`{"timestamp":0,"timestamp":1}`, "{\"timestamp\": 9223372036853.9999999 ,\"input_length\":1,\"output_length\":1,\"hash_ids\":[ 7 ]}",
	} {
		f.Add([]byte(s), false, int64(0), 512)
		f.Add([]byte(s), true, int64(3e9), 1)
		f.Add([]byte(s), true, int64(0), 0xf00f)
	}
	f.Fuzz(func(t *testing.T, data []byte, sort bool, spread int64, block int) {
		var counts workload.Counts
		m := mooncake(string(data))
		m.Sort, m.Spread, m.BlockTokens, m.Counts = sort, max(0, time.Duration(spread)), 1+(block&0xfff), &counts
		m.LooseIDs, m.PartialIDs, m.NoPrefix, m.SkipMalformed = block&0x1000 > 0, block&0x2000 > 0, block&0x4000 > 0, block&0x8000 > 0
		last, emitted := sim.Time(0), 0
		ids := map[int]bool{}
		failed := false
		for q, err := range m.Requests() {
			if failed {
				t.Fatal("the sequence goes on after an error")
			}
			if err != nil {
				failed = true
				if !strings.HasPrefix(err.Error(), "workload: trace.jsonl:") {
					t.Fatalf("error %q does not name the file", err)
				}
				continue
			}
			if q.Arrival < last || q.Prompt < 1 || q.Output < 1 || ids[q.ID] || q.ID >= counts.Read ||
				!m.NoPrefix && q.PrefixBlock != m.BlockTokens || len(q.Prefix) > q.Prompt/m.BlockTokens+1 ||
				block&0x7000 == 0 && len(q.Prefix) != q.Prompt/m.BlockTokens {
				t.Fatalf("request %+v after %v, %+v", q, last, counts)
			}
			last = q.Arrival
			ids[q.ID] = true
			emitted++
		}
		if counts.Read != counts.Emitted+counts.Dropped() || !failed && counts.Emitted != emitted {
			t.Fatalf("%d requests, counts %+v", emitted, counts)
		}
	})
}
