package workload_test

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"servesim/costmodel"
	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/kv"
	"servesim/workload"
)

const labHeader = "session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\n"

// lab has a session of two rounds, and one that begins in the middle and cuts
// its context back.
const lab = labHeader +
	"a,117,0,0,20,4,300\n" +
	"a,117,1,24,8,3,0.5\n" +
	"b,393.25,0,10,6,4,0\n" +
	"b,393.25,1,20,4,4,10\n" +
	"b,393.25,2,9,7,4,0\n"

func traceLab(data string) workload.TraceLab {
	return workload.TraceLab{Path: "trace", Open: memory(data)}
}

func sessions(t *testing.T, l workload.TraceLab) (all []workload.TraceLabSession) {
	t.Helper()
	for s, err := range l.Sessions() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

var exportedOnly = cmpopts.IgnoreUnexported(workload.TraceLabSession{})

func TestTraceLabSessions(t *testing.T) {
	const ms = time.Millisecond
	want := []workload.TraceLabSession{
		{ID: "a", Rounds: []workload.TraceLabRound{{0, 0, 20, 4, 300 * ms}, {1, 24, 8, 3, ms / 2}}},
		{ID: "b", Arrival: 276_250_000, Rounds: []workload.TraceLabRound{{2, 10, 6, 4, 0}, {3, 20, 4, 4, 10 * ms}, {4, 9, 7, 4, 0}}},
	}
	rows := strings.SplitAfter(strings.TrimPrefix(lab, labHeader), "\n")
	mixed := labHeader + rows[3] + rows[0] + rows[4] + rows[2] + rows[1]
	mixedWant := []workload.TraceLabSession{
		{ID: "a", Rounds: []workload.TraceLabRound{{1, 0, 20, 4, 300 * ms}, {4, 24, 8, 3, ms / 2}}},
		{ID: "b", Arrival: 276_250_000, Rounds: []workload.TraceLabRound{{3, 10, 6, 4, 0}, {0, 20, 4, 4, 10 * ms}, {2, 9, 7, 4, 0}}},
	}
	for name, c := range map[string]struct {
		data string
		sort bool
		want []workload.TraceLabSession
	}{
		"plain":            {lab, false, want},
		"gzip":             {zip(t, lab), false, want},
		"carriage returns": {strings.TrimSuffix(strings.ReplaceAll(lab, "\n", "\r\n"), "\r\n"), false, want},
		"other columns":    {reverseColumns(addColumnBehind(lab)), false, want},
		"named id":         {strings.Replace(lab, "session_id", "id", 1), false, want},
		"sorted already":   {lab, true, want},
		"mixed":            {mixed, true, mixedWant},
	} {
		l := traceLab(c.data)
		l.Sort = c.sort
		if diff := cmp.Diff(c.want, sessions(t, l), exportedOnly); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	l := traceLab(lab)
	for range l.Sessions() {
		break
	}
}

func addColumnBehind(data string) string {
	return eachRow(data, func(i int, row string) string { return row + ",note" })
}

// The tokens of a round are those of the rounds before it, up to what it keeps
// of them, then its own. In blocks of 4: the second round of a has all 6 blocks
// of the first. Those of b share the first 16 and 20 tokens of what was said,
// then 9, that is two blocks, of which the first 10 are b's own.
func TestTraceLabPrefixes(t *testing.T) {
	all := sessions(t, traceLab(lab))
	a, b := all[0].Requests(4), all[1].Requests(4)
	for i, want := range []sim.Request{
		{ID: 0, Prompt: 20, Output: 4, PrefixBlock: 4}, {ID: 1, Prompt: 32, Output: 3, PrefixBlock: 4},
		{ID: 2, Arrival: 276_250_000, Prompt: 16, Output: 4, PrefixBlock: 4},
		{ID: 3, Arrival: 276_250_000, Prompt: 24, Output: 4, PrefixBlock: 4},
		{ID: 4, Arrival: 276_250_000, Prompt: 16, Output: 4, PrefixBlock: 4},
	} {
		got := append(slices.Clone(a), b...)[i]
		got.Prefix = nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("round %d (-want +got):\n%s", i, diff)
		}
	}
	common := func(x, y []kv.Hash) int {
		n := 0
		for n < min(len(x), len(y)) && x[n] == y[n] {
			n++
		}
		return n
	}
	for _, c := range []struct {
		name      string
		x, y      []kv.Hash
		n, common int // blocks of x; blocks that both have
	}{
		{"rounds of a", a[0].Prefix, a[1].Prefix, 6, 6},
		{"the second of a", a[1].Prefix, a[1].Prefix, 8, 8},
		{"first two of b", b[0].Prefix, b[1].Prefix, 5, 5},
		{"last two of b", b[1].Prefix, b[2].Prefix, 7, 2},
		{"a and b", a[0].Prefix, b[0].Prefix, 6, 0},
	} {
		if len(c.x) != c.n || common(c.x, c.y) != c.common {
			t.Errorf("%s: %d blocks, %d in common, want %d, %d", c.name, len(c.x), common(c.x, c.y), c.n, c.common)
		}
	}
	other := traceLab(lab)
	other.Path = "other"
	if common(sessions(t, other)[0].Requests(4)[0].Prefix, a[0].Prefix) != 0 {
		t.Error("another recording has the same prefixes")
	}
	defer func() {
		if recover() == nil {
			t.Error("blocks of no tokens do not panic")
		}
	}()
	all[0].Requests(0)
}

// An answer takes 100 ms a token: a's second round arrives 400 + 300 ms after
// its first, b's others 400 and 400 + 400 + 10 after its first.
func TestTraceLabOpenLoop(t *testing.T) {
	var counts workload.Counts
	l := traceLab(strings.Replace(lab, "b,393.25,2,9,7,4,0", "b,393.25,2,9,7,0,0\nc,500,0,0,0,1,0\nc,500,1,0,3,1,0", 1))
	l.OpenLoop = func(r workload.TraceLabRound) time.Duration { return time.Duration(r.Output) * 100 * time.Millisecond }
	l.BlockTokens, l.Counts = 64, &counts
	want := []sim.Request{
		{ID: 0, Arrival: 0, Prompt: 20, Output: 4, PrefixBlock: 64},
		{ID: 2, Arrival: 276_250_000, Prompt: 16, Output: 4, PrefixBlock: 64},
		{ID: 6, Arrival: 483_000_000, Prompt: 3, Output: 1, PrefixBlock: 64},
		{ID: 3, Arrival: 676_250_000, Prompt: 24, Output: 4, PrefixBlock: 64},
		{ID: 1, Arrival: 700_000_000, Prompt: 32, Output: 3, PrefixBlock: 64},
	}
	if diff := cmp.Diff(want, collect(t, l.Requests())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := (workload.Counts{Read: 7, Emitted: 5, ZeroPrompt: 1, ZeroOutput: 1}); counts != want {
		t.Errorf("counts %+v, want %+v", counts, want)
	}
}

func TestTraceLabErrors(t *testing.T) {
	row := func(was, is string) string { return strings.Replace(lab, was, is, 1) }
	for _, c := range []struct {
		name, data string
		n          int // sessions before the error
		order      bool
		want       string
		sorted     string // the error with Sort; empty if it is the same
	}{
		{"empty", "", 0, false, "trace: the file is empty", ""},
		{"only a header", labHeader, 0, false, "trace: no rows", ""},
		{"another header", azure2023, 0, false, `trace:1: the header is "TIMESTAMP,ContextTokens,GeneratedTokens", want the columns session_id, arrival_time, round_idx, prefix_len, input_len, output_len and tool_wait_after_ms`, ""},
		{"both names", row("session_id,", "session_id,id,"), 0, false, "trace:1: the header names id twice", ""},
		{"no session", row("b,393.25,0", ",393.25,0"), 0, false, `trace:4: session_id "": a row without session`, ""},
		{"text in a number", row("24,8", "24,x"), 0, false, `trace:3: input_len "x": not a whole number`, ""},
		{"a date", row("a,117,0", "a,2024-05-12 00:00:00,0"), 0, false, `trace:2: arrival_time "2024-05-12 00:00:00": not a number of milliseconds`, ""},
		{"a negative wait", row("4,300", "4,-300"), 0, false, `trace:2: tool_wait_after_ms "-300": not a number of milliseconds, at least 0`, ""},
		{"too long", row("0,20,4", "16777216,0,1"), 0, false, "trace:2: prefix_len, input_len and output_len make 16777217 tokens, more than 16777216", ""},
		{"a round twice", row("a,117,1", "a,117,0"), 0, true, `trace:3: round_idx 0 of session "a" comes after 0 (Sort accepts that unless it is there twice)`, `trace:3: round_idx 0 of session "a" is that of line 2`},
		{"a round missing", row("b,393.25,1", "b,393.25,3"), 1, true, `trace:5: round_idx 3 of session "b" comes before 1 (Sort accepts that unless one is missing)`, `trace:6: round_idx 2 of session "b" follows 0`},
		{"no first round", row("a,117,0", "a,117,2"), 0, true, `trace:2: round_idx 2 of session "a" comes before 0`, `trace:3: round_idx 1 of session "a" follows -1`},
		{"another arrival", row("b,393.25,1", "b,393,1"), 1, false, `trace:5: arrival_time 393ms of session "b" was 393.25ms in an earlier row`, ""},
		{"sessions out of order", row("a,117,0,0,20,4,300\na,117,1", "a,500,0,0,20,4,300\na,500,1"), 1, true, `trace:4: session "b" arrives at 393.25ms, after one at 500ms (Sort accepts that)`, "<nil>"},
		{"a session in two parts", lab + "a,117,2,0,1,1,1\n", 2, true, `trace:7: session "a" goes on after others (Sort accepts that)`, "<nil>"},
		{"gzip cut", zip(t, lab)[:60], -1, false, "trace", ""},
	} {
		for _, sort := range []bool{false, true} {
			l := traceLab(c.data)
			l.Sort = sort
			n := 0
			var err error
			for _, e := range l.Sessions() {
				if err != nil {
					t.Fatal("the sequence goes on after an error")
				}
				if e != nil {
					err = e
					continue
				}
				n++
			}
			want := "workload: " + c.want
			if sort && c.sorted != "" {
				want = "workload: " + c.sorted
			}
			if sort && c.sorted == "<nil>" {
				want = "<nil>"
			}
			if !strings.HasPrefix(errText(err), want) || !sort && (c.n >= 0 && n != c.n || errors.Is(err, workload.ErrOrder) != c.order) {
				t.Errorf("%s, sort %v: %d sessions, then %v, want %d, then %s", c.name, sort, n, err, c.n, want)
			}
		}
	}
	negative := func(workload.TraceLabRound) time.Duration { return -1 }
	late := func(workload.TraceLabRound) time.Duration { return 1<<63 - 1 - 300*time.Millisecond }
	for want, l := range map[string]workload.TraceLab{
		"workload: TraceLab.BlockTokens is -1, want 0 to 2147483647":                             {BlockTokens: -1, OpenLoop: negative},
		"workload: TraceLab.OpenLoop is nil: a round waits for the answer before it":             {},
		`workload: trace: TraceLab.OpenLoop is -1ns for round 0 of session "a", want at least 0`: {OpenLoop: negative},
		`workload: trace: round 2 of session "b" arrives after 292 years`:                        {OpenLoop: late},
	} {
		l.Path, l.Open = "trace", memory(lab)
		if _, err := workload.Collect(l.Requests()); !strings.HasPrefix(errText(err), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// The public replay file written again is the same, byte for byte.
func TestTraceLabRoundTrip(t *testing.T) {
	l := workload.TraceLab{Path: shared(t, "recordings/tracelab_replay_multi_session_large.csv.gz")}
	all := sessions(t, l)
	rounds := 0
	for _, s := range all {
		rounds += len(s.Rounds)
	}
	if len(all) != 48 || rounds != 303 {
		t.Errorf("%d sessions of %d rounds, want 48 of 303", len(all), rounds)
	}
	var got bytes.Buffer
	if err := (workload.TraceLabWriter{W: &got, Origin: 117 * time.Millisecond}).Write(l.Sessions()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sharedText(t, "recordings/tracelab_replay_multi_session_large.csv.gz"), got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var again bytes.Buffer
	if err := (workload.TraceLabWriter{W: &again, Origin: 117 * time.Millisecond}).Write(traceLab(lab).Sessions()); err != nil || again.String() != lab {
		t.Errorf("error %v, got\n%s", err, &again)
	}
}

// In closed loop each round is sent when the answer before it has come and its
// tools are done, and finds the prompt and answer before it in the cache.
func TestTraceLabClosedLoop(t *testing.T) {
	const block = 16
	var starts []sim.Request
	next := map[int]sim.Request{} // by the ID of the round before
	wait := map[int]time.Duration{}
	prompts, outputs, kept := 0, 0, 0
	for _, s := range sessions(t, workload.TraceLab{Path: shared(t, "recordings/tracelab_replay_multi_session_large.csv.gz")}) {
		requests := s.Requests(block)
		starts = append(starts, requests[0])
		for i, q := range requests {
			if i > 0 {
				next[requests[i-1].ID], wait[requests[i-1].ID] = q, s.Rounds[i-1].Wait
				kept += s.Rounds[i].Prefix / block * block
			}
			prompts += q.Prompt
			outputs += q.Output
		}
	}
	ends := map[int]sim.Time{}
	r, err := sim.Run(context.Background(), sim.Config{
		Replicas: []sim.Replica{{
			Scheduler: scheduler.ChunkedPrefill{}, BlockTokens: block, PrefixCache: true, MaxBatchTokens: 1 << 20,
			CostModel: costmodel.Linear{Fixed: 5 * time.Millisecond, PerPromptToken: 2 * time.Microsecond, PerDecode: 20 * time.Microsecond},
		}},
		FollowUp: func(c sim.Completion) []sim.Request {
			q, ok := next[c.Request.ID]
			if !ok {
				return nil
			}
			ends[c.Request.ID] = c.End
			q.Arrival = c.End.Add(wait[c.Request.ID])
			return []sim.Request{q}
		},
	}, workload.FromSlice(starts))
	if err != nil {
		t.Fatal(err)
	}
	if r.Completed != 303 || len(ends) != 303-48 {
		t.Errorf("%d of 303 rounds completed, %d had a next one", r.Completed, len(ends))
	}
	// The last token of an answer is never computed by the engine that made
	// it, so a block that ends there is not found.
	if found := int(r.PrefixHits); found > kept || found < kept-len(ends)*block {
		t.Errorf("found %d tokens of prefixes of %d in whole blocks", found, kept)
	}
}

func FuzzTraceLab(f *testing.F) {
	f.Add([]byte(lab), false)
	f.Add([]byte(lab), true)
	f.Add([]byte("id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\n\"x,y\",1e3,1,0,1,1,0\n\"x,y\",1e3,0,5,1,1,0.0000004"), true)
	long := regexp.MustCompile(`[0-9]{6}`) // tokens, each of which takes time
	f.Fuzz(func(t *testing.T, data []byte, sort bool) {
		if long.Match(data) {
			return
		}
		var counts workload.Counts
		l := traceLab(string(data))
		l.Sort, l.Counts, l.BlockTokens = sort, &counts, 1<<16
		l.OpenLoop = func(workload.TraceLabRound) time.Duration { return time.Second }
		checkReading(t, l.Requests(), &counts)
		var first, second bytes.Buffer
		l.BlockTokens = 0
		if (workload.TraceLabWriter{W: &first}).Write(l.Sessions()) != nil {
			return
		}
		again := traceLab(first.String())
		if err := (workload.TraceLabWriter{W: &second}).Write(again.Sessions()); err != nil || first.String() != second.String() {
			t.Fatalf("%v\n%s\nwritten again\n%s", err, &first, &second)
		}
	})
}
