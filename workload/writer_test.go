package workload_test

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/sim/kv"
	"servesim/workload"
)

func written(t *testing.T, write func(w io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The public recordings, read and written, are the same byte for byte but for
// line ends.
func TestWriterRecordings(t *testing.T) {
	for name, origin := range map[string]time.Time{
		"code": time.Date(2023, 11, 16, 18, 17, 3, 979_960_000, time.UTC),
		"conv": time.Date(2023, 11, 16, 18, 15, 46, 680_590_000, time.UTC),
	} {
		file := "recordings/AzureLLMInferenceTrace_" + name + ".csv.gz"
		got := written(t, func(w io.Writer) error {
			return workload.AzureWriter{W: w, Origin: origin}.Write(workload.AzureCSV{Path: shared(t, file)}.Requests())
		})
		if want := strings.ReplaceAll(sharedText(t, file), "\r\n", "\n") + "\n"; got != want {
			t.Errorf("%s: %d bytes, want %d; first %.200s", name, len(got), len(want), got)
		}
	}
	for _, name := range []string{"conversation", "synthetic"} {
		m := recorded(t, name)
		m.PartialIDs = true
		got := written(t, func(w io.Writer) error { return workload.MooncakeWriter{W: w, PartialIDs: true}.Write(m.Requests()) })
		if want := sharedText(t, "recordings/mooncake_fast25_"+name+"_trace.jsonl.gz"); got != want {
			t.Errorf("%s: %d bytes, want %d; first %.200s", name, len(got), len(want), got)
		}
	}
}

// Requests that a format can hold come back as they were, but for the hashes,
// which are equal where they were.
func TestWriterRoundTrip(t *testing.T) {
	r := rand.New(workload.Stream(1, "round trip", 0))
	var requests []sim.Request
	at := sim.Time(0)
	chains := [][]kv.Hash{nil}
	for id := range 300 {
		at += sim.Time(r.IntN(3) * r.IntN(2_000_000_000))
		parent := chains[r.IntN(len(chains))]
		chain := append(parent[:len(parent):len(parent)], kv.Hash(r.Uint64()))
		chains = append(chains, chain)
		requests = append(requests, sim.Request{
			ID: id, Arrival: at - at%100, Prompt: len(chain)*16 + r.IntN(16), Output: 1 + r.IntN(1000), Prefix: chain, PrefixBlock: 16,
		})
	}
	requests[0].Arrival = 0
	text := written(t, func(w io.Writer) error {
		return workload.MooncakeWriter{W: w, BlockTokens: 16, Origin: 7 * time.Microsecond}.Write(workload.FromSlice(requests))
	})
	m := mooncake(text)
	m.BlockTokens = 16
	got := collect(t, m.Requests())
	compareChains(t, requests, got)
	for i := range got {
		got[i].Prefix = requests[i].Prefix
	}
	if diff := cmp.Diff(requests, got); diff != "" {
		t.Errorf("Mooncake (-want +got):\n%s", diff)
	}
	for i := range requests {
		requests[i].Prefix, requests[i].PrefixBlock = nil, 0
	}
	for _, origin := range []time.Time{{}, time.Date(2024, 2, 29, 23, 59, 59, 999_999_999, time.FixedZone("", 3600))} {
		text := written(t, func(w io.Writer) error {
			return workload.AzureWriter{W: w, Origin: origin}.Write(workload.FromSlice(requests))
		})
		if diff := cmp.Diff(requests, collect(t, azure(text).Requests())); diff != "" {
			t.Errorf("Azure from %v (-want +got):\n%s", origin, diff)
		}
	}
}

// compareChains fails unless the hashes of two lists are equal in the same
// places.
func compareChains(t *testing.T, a, b []sim.Request) {
	t.Helper()
	forth, back := map[kv.Hash]kv.Hash{}, map[kv.Hash]kv.Hash{}
	for i := range a {
		if len(a[i].Prefix) != len(b[i].Prefix) {
			t.Fatalf("request %d has %d hashes, then %d", i, len(a[i].Prefix), len(b[i].Prefix))
		}
		for j, h := range a[i].Prefix {
			other := b[i].Prefix[j]
			if x, ok := forth[h]; ok && x != other {
				t.Fatalf("request %d, block %d: equal hashes became different ones", i, j)
			}
			if x, ok := back[other]; ok && x != h {
				t.Fatalf("request %d, block %d: different hashes became equal ones", i, j)
			}
			forth[h], back[other] = other, h
		}
	}
}

func TestAzureWriter(t *testing.T) {
	requests := []sim.Request{{Prompt: 374, Output: 44}, {ID: 1, Arrival: 4_314_579_000, Prompt: 396, Output: 109}, {ID: 2, Arrival: 4_314_579_001, Prompt: 1, Output: 2}}
	got := written(t, func(w io.Writer) error {
		return workload.AzureWriter{W: w, Origin: time.Date(2023, 11, 16, 19, 15, 46, 680_590_000, time.FixedZone("", 3600))}.Write(workload.FromSlice(requests))
	})
	const want = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n" +
		"2023-11-16 18:15:50.9951690,396,109\n2023-11-16 18:15:50.995169001,1,2\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	got = written(t, func(w io.Writer) error { return workload.AzureWriter{W: w}.Write(workload.FromSlice(requests[:1])) })
	if want := "TIMESTAMP,ContextTokens,GeneratedTokens\n1970-01-01 00:00:00.0000000,374,44\n"; got != want {
		t.Errorf("without origin: got\n%swant\n%s", got, want)
	}
}

func TestMooncakeWriter(t *testing.T) {
	const a, b, c = kv.Hash(1 << 63), kv.Hash(5), kv.Hash(7)
	requests := []sim.Request{
		{Prompt: 1100, Output: 40, Prefix: []kv.Hash{a, b}, PrefixBlock: 512},
		{ID: 1, Arrival: 1_499_999, Prompt: 1536, Output: 1, Prefix: []kv.Hash{a, c}, PrefixBlock: 512},
		{ID: 2, Arrival: 1_500_000, Prompt: 500, Output: 2},
		{ID: 3, Arrival: 3e9, Prompt: 600, Output: 2, Prefix: []kv.Hash{a, b}, PrefixBlock: 512},
	}
	write := func(w workload.MooncakeWriter, requests []sim.Request) string {
		return written(t, func(out io.Writer) error { w.W = out; return w.Write(workload.FromSlice(requests)) })
	}
	// The third block of the second request is not known, and so its own.
	const first = `{"timestamp": 0, "input_length": 1100, "output_length": 40, "hash_ids": [0, 1, 2]}
{"timestamp": 1.499999, "input_length": 1536, "output_length": 1, "hash_ids": [0, 3, 4]}
{"timestamp": 1.5, "input_length": 500, "output_length": 2, "hash_ids": [5]}
`
	exact := first + `{"timestamp": 3000, "input_length": 600, "output_length": 2, "hash_ids": [0, 6]}` + "\n"
	partial := first + `{"timestamp": 3000, "input_length": 600, "output_length": 2, "hash_ids": [0, 1]}` + "\n"
	whole := strings.NewReplacer("1.499999", "1", "1.5", "2").Replace(exact)
	for _, c := range []struct {
		name   string
		writer workload.MooncakeWriter
		want   string
	}{
		{"exact", workload.MooncakeWriter{Lossy: true}, exact},
		{"partial ids", workload.MooncakeWriter{PartialIDs: true}, partial},
		{"whole milliseconds", workload.MooncakeWriter{WholeMillis: true, Lossy: true}, whole},
		{"origin", workload.MooncakeWriter{Origin: time.Second, Lossy: true}, strings.NewReplacer(": 0, \"in", ": 1000, \"in", "1.499999", "1001.499999", "1.5", "1001.5", "3000", "4000").Replace(exact)},
	} {
		if diff := cmp.Diff(c.want, write(c.writer, requests)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	// Halves of blocks: the chain is that of Convert.
	halves := write(workload.MooncakeWriter{BlockTokens: 256}, requests[:2])
	if want := `"hash_ids": [0, 1, 2, 3, 4]`; !strings.Contains(halves, want) || !strings.Contains(halves, `"hash_ids": [0, 1, 5, 6, 7, 8]`) {
		t.Errorf("blocks of 256 tokens: %s", halves)
	}
	// Blocks twice as long lose what is shared in the first half of one.
	doubles := write(workload.MooncakeWriter{BlockTokens: 1024}, requests[:2])
	if !strings.Contains(doubles, `"hash_ids": [0, 1]`) || !strings.Contains(doubles, `"hash_ids": [2, 3]`) {
		t.Errorf("blocks of 1024 tokens: %s", doubles)
	}
}

func TestWriterErrors(t *testing.T) {
	one := sim.Request{ID: 3, Prompt: 1, Output: 1}
	with := func(change func(*sim.Request)) []sim.Request {
		q := one
		change(&q)
		return []sim.Request{q}
	}
	azure := func(w io.Writer, lossy bool, requests iter.Seq2[sim.Request, error]) error {
		return workload.AzureWriter{W: w, Lossy: lossy}.Write(requests)
	}
	moon := func(w io.Writer, lossy bool, requests iter.Seq2[sim.Request, error]) error {
		return workload.MooncakeWriter{W: w, Lossy: lossy}.Write(requests)
	}
	for _, c := range []struct {
		name     string
		requests []sim.Request
		azure    string // what would be lost; empty: nothing
		mooncake string
	}{
		{"nothing", []sim.Request{one}, "", ""},
		{"prefix", with(func(q *sim.Request) { q.Prompt, q.Prefix, q.PrefixBlock = 512, []kv.Hash{1}, 512 }), "has Prefix", ""},
		{"prefix without hashes", with(func(q *sim.Request) { q.PrefixBlock = 16 }), "", ""},
		{"prefix behind the prompt", with(func(q *sim.Request) { q.Prompt, q.Prefix, q.PrefixBlock = 600, []kv.Hash{1, 2}, 512 }), "has Prefix", "has a prefix that goes on behind its prompt"},
		{"limit", with(func(q *sim.Request) { q.MaxOutput = 1 }), "has MaxOutput", "has MaxOutput"},
		{"hint", with(func(q *sim.Request) { q.Hint = 1 }), "has Hint", "has Hint"},
		{"class", with(func(q *sim.Request) { q.Class = 1 }), "has Class", "has Class"},
		{"deadline", with(func(q *sim.Request) { q.Deadline = 1 }), "has Deadline", "has Deadline"},
		{"no read", with(func(q *sim.Request) { q.NoPrefixRead = true }), "has NoPrefixRead", "has NoPrefixRead"},
		{"patience", with(func(q *sim.Request) { q.Patience.Total = 1 }), "has Patience", "has Patience"},
	} {
		for format, f := range map[string]struct {
			write func(w io.Writer, lossy bool, requests iter.Seq2[sim.Request, error]) error
			want  string
		}{"azure": {azure, c.azure}, "mooncake": {moon, c.mooncake}} {
			err := f.write(io.Discard, false, workload.FromSlice(c.requests))
			if (f.want == "") != (err == nil) || f.want != "" && (!errors.Is(err, workload.ErrLossy) || !strings.Contains(errText(err), "request 3 "+f.want)) {
				t.Errorf("%s to %s: %v, want %q", c.name, format, err, f.want)
			}
			if err := f.write(io.Discard, true, workload.FromSlice(c.requests)); err != nil {
				t.Errorf("%s to %s, lossy: %v", c.name, format, err)
			}
		}
	}
	broken := errors.New("broken")
	for _, c := range []struct {
		name     string
		write    func(w io.Writer, lossy bool, requests iter.Seq2[sim.Request, error]) error
		requests iter.Seq2[sim.Request, error]
		want     string
	}{
		{"order", azure, workload.FromSlice([]sim.Request{{Arrival: 5, Prompt: 1, Output: 1}, one}), "workload: request 3 arrives at 0s, before 5ns"},
		{"order, Mooncake", moon, workload.FromSlice([]sim.Request{{Arrival: 5, Prompt: 1, Output: 1}, one}), "workload: request 3 arrives at 0s, before 5ns"},
		{"no output", azure, workload.FromSlice(with(func(q *sim.Request) { q.Output = 0 })), "workload: request 3 has prompt 1, output 0, want 1 to 2147483647"},
		{"no prompt", moon, workload.FromSlice(with(func(q *sim.Request) { q.Prompt = 0 })), "workload: request 3 has prompt 0, output 1, want 1"},
		{"huge prompt", moon, workload.FromSlice(with(func(q *sim.Request) { q.Prompt = 1 << 40 })), "workload: request 3 has prompt 1099511627776, output 1, want 1"},
		{"late, Azure", azure, workload.FromSlice(with(func(q *sim.Request) { q.Arrival = math.MaxInt64 - 1 })), "workload: request 3 at 2562047h47m16.854775806s after 1970-01-01 00:00:00 +0000 UTC: outside the years 1678 to 2261"},
		{"late, Mooncake", moon, workload.FromSlice(with(func(q *sim.Request) { q.Arrival = 9223372036854000000 })), "workload: request 3 arrives at 2562047h47m16.854s after 0s, which is after 292 years"},
		{"small blocks", moon, workload.FromSlice(with(func(q *sim.Request) { q.Prompt, q.Prefix, q.PrefixBlock = 16, []kv.Hash{1}, 16 })), "workload: request 3 has a prefix in blocks of 16 tokens, of which those of 512 lose parts; BlockTokens says which to write"},
		{"blocks of nothing", moon, workload.FromSlice(with(func(q *sim.Request) { q.Prefix = []kv.Hash{1} })), "workload: request 3 has a prefix in blocks of 0 tokens"},
		{"odd blocks", moon, workload.FromSlice(with(func(q *sim.Request) { q.Prompt, q.Prefix, q.PrefixBlock = 700, []kv.Hash{1}, 700 })), "workload: request 3: kv: hashes of 700-token blocks do not convert to 512-token blocks"},
		{"the sequence", azure, func(yield func(sim.Request, error) bool) { yield(sim.Request{}, broken) }, "broken"},
		{"the sequence, Mooncake", moon, func(yield func(sim.Request, error) bool) { yield(sim.Request{}, broken) }, "broken"},
	} {
		if err := c.write(io.Discard, true, c.requests); !strings.HasPrefix(errText(err), c.want) || errors.Is(err, workload.ErrLossy) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	many := func(yield func(sim.Request, error) bool) {
		for yield(one, nil) { // until the writer stops
		}
	}
	session := func(yield func(workload.TraceLabSession, error) bool) {
		for yield(workload.TraceLabSession{ID: "a", Rounds: make([]workload.TraceLabRound, 1000)}, nil) {
		}
	}
	for name, err := range map[string]error{
		"azure": azure(full{}, false, many), "mooncake": moon(full{}, false, many),
		"tracelab": workload.TraceLabWriter{W: full{}}.Write(session),
	} {
		if !errors.Is(err, errFull) {
			t.Errorf("%s to a full disk: %v", name, err)
		}
	}
	for want, err := range map[string]error{
		"workload: MooncakeWriter.BlockTokens is -1, want 0 to 2147483647": workload.MooncakeWriter{BlockTokens: -1}.Write(nil),
		"workload: MooncakeWriter.Origin is -1ns, want at least 0":         workload.MooncakeWriter{Origin: -1}.Write(nil),
		"workload: TraceLabWriter.Origin is -1ns, want at least 0":         workload.TraceLabWriter{Origin: -1}.Write(nil),
	} {
		if errText(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for id, want := range map[string]string{
		"":     `workload: session "": empty, or with blanks at an end`,
		"a ":   `workload: session "a ": empty, or with blanks at an end`,
		"a\"b": `workload: session "a\"b": a field of a CSV file has no quotes and no line ends`,
		"a\nb": `workload: session "a\nb": a field of a CSV file has no quotes and no line ends`,
		"a, b": "<nil>",
	} {
		s := workload.TraceLabSession{ID: id, Rounds: make([]workload.TraceLabRound, 1)}
		err := workload.TraceLabWriter{W: io.Discard}.Write(func(yield func(workload.TraceLabSession, error) bool) { yield(s, nil) })
		if !strings.HasPrefix(errText(err), want) {
			t.Errorf("%q: %v, want %s", id, err, want)
		}
	}
}

var errFull = errors.New("no space left")

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
