package main

import (
	"bytes"
	"context"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"servesim/examples/internal/commandtest"
	"servesim/sim"
	"servesim/sim/profile"
	"servesim/sim/trace"
	"servesim/workload"
)

// output runs the program.
func output(t *testing.T, args ...string) string {
	t.Helper()
	return commandtest.Output(t, run, args...)
}

// figures runs the program and reads its JSON object.
func figures(t *testing.T, args ...string) report {
	t.Helper()
	return commandtest.Object[report](t, output(t, append([]string{"-json"}, args...)...))
}

// entries are requests as lines of a trace, whose queue begins with them.
func entries(requests []request) string {
	var b bytes.Buffer
	w := trace.Writer{W: &b}
	for _, r := range requests {
		e := trace.Entry{Record: trace.Record{RequestID: r.ID, PromptTokens: 1, OutputTokens: len(r.Tokens),
			ClientSend: r.Arrival, GatewayArrival: r.Arrival, QueueEnter: r.Arrival, PrefillStart: r.Start, PrefillEnd: r.End,
			FirstTokenServer: r.Tokens[0], FirstTokenClient: r.Tokens[0], LastTokenClient: r.last()}}
		if len(r.Tokens) > 1 {
			e.Details.ClientTokens = r.Tokens
		}
		if err := w.WriteEntry(e); err != nil {
			panic(err)
		}
	}
	if err := w.Flush(); err != nil {
		panic(err)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	if commandtest.Updating() {
		if err := os.WriteFile("testdata/lab.jsonl", []byte(entries(lab())), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, args := range map[string][]string{
		"text":   nil,
		"json":   {"-json"},
		"trace":  {"testdata/lab.jsonl"},
		"replay": {"-speed", "1,20", "testdata/sessions.csv"},
	} {
		got := output(t, args...)
		commandtest.Golden(t, name, got)
		if name != "json" {
			commandtest.Columns(t, got)
		}
	}
}

// The five rows, their means and percentiles, and 13 tokens over 65 ms.
func TestLab(t *testing.T) {
	r := figures(t)
	want := table{
		Rows: []row{
			{"A", 0, 2, 6, 2, 10, []float64{4, 4, 4}},
			{"B", 2, 2, 6, 2, 10, []float64{}},
			{"C", 8, 8, 8, 3, 19, []float64{4, 4}},
			{"D", 18, 8, 4, 3, 15, []float64{4}},
			{"E", 3, 27, 12, 3, 42, []float64{4, 16}},
		},
		TTFT:     summary{5, 19.2, 15, 42},
		Gaps:     summary{8, 5.5, 4, 16},
		MeanGaps: summary{4, 5.5, 4, 10},
		Tokens:   13, SpanMs: 65, TokensPerS: 200, InSystem: 140. / 65, // 22 + 10 + 27 + 19 + 62
	}
	near := cmpopts.EquateApprox(1e-12, 0)
	if d := cmp.Diff(&want, r.Lab, near); d != "" {
		t.Errorf("the lab (-want +got):\n%s", d)
	}

	// Delivering E's tokens 10 ms later moves its publish gap and nothing else
	// of the rows.
	e := &want.Rows[4]
	e.PublishMs, e.TTFTMs = 13, 52
	want.TTFT = summary{5, 21.2, 15, 52}
	want.SpanMs, want.TokensPerS, want.InSystem = 75, 13/0.075, 150./75
	if d := cmp.Diff(&want, r.Late, near); d != "" {
		t.Errorf("E later (-want +got):\n%s", d)
	}

	// 30 ms of waiting stay when 10 ms of work are halved.
	if a, b := r.Waiting.Rows[0], r.Waiting.Rows[1]; a.TTFTMs != 40 || b.TTFTMs != 35 || b.QueueMs != 30 || 2*b.PromptMs != a.PromptMs {
		t.Errorf("waiting: %+v and %+v", a, b)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		r    request
		want string
	}{
		{observed("r", 0, 2, 8), "no token was delivered"},
		{observed("r", 3, 2, 8, 10), "prompt start at 2 ms is before arrival at 3 ms"},
		{observed("r", 0, 9, 8, 10), "prompt end at 8 ms is before prompt start at 9 ms"},
		{observed("r", 0, 2, 11, 10), "first token at 10 ms is before prompt end at 11 ms"},
		{observed("r", 0, 2, 8, 10, 9), "token 2 at 9 ms is before token 1 at 10 ms"},
		{observed("r", 0, 2, 8, 10, 12, 11), "token 3 at 11 ms is before token 2 at 12 ms"},
	} {
		if err := c.r.Validate(); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
		if _, err := tabulate([]request{observed("a", 0, 0, 0, 0), c.r}); err == nil || err.Error() != `request "r": `+c.want {
			t.Errorf("error %v, want it to name the request and %s", err, c.want)
		}
	}
	equal := observed("r", 5, 5, 5, 5, 5)
	if err := equal.Validate(); err != nil {
		t.Errorf("equal instants: %v", err)
	}
	if _, err := tabulate(nil); err == nil {
		t.Error("no requests make a table")
	}
	if r := figures(t); len(r.Refused) != len(broken()) {
		t.Errorf("refused: %q", r.Refused)
	}
}

// All at one instant have no rate.
func TestNoTime(t *testing.T) {
	got, err := tabulate([]request{observed("r", 5, 5, 5, 5)})
	if err != nil {
		t.Fatal(err)
	}
	if got.TokensPerS.Defined() || got.InSystem.Defined() || got.Gaps.N != 0 || got.Gaps.Mean.Defined() || got.TTFT.P95 != 0 {
		t.Errorf("%+v", got)
	}
}

// The lab as a file has the same table, and the profiler finds the same means.
func TestTrace(t *testing.T) {
	r := figures(t, "testdata/lab.jsonl")
	if d := cmp.Diff(figures(t).Lab, r.Trace); d != "" {
		t.Errorf("(-lab +file):\n%s", d)
	}
	p, err := profile.Read(strings.NewReader(entries(lab())), "lab", profile.Options{Percentiles: profile.NearestRank})
	if err != nil {
		t.Fatal(err)
	}
	if p.TTFT.Mean != r.Trace.TTFT.Mean || p.TTFT.P95 != 42 || p.ITL.Mean != r.Trace.MeanGaps.Mean || p.ITL.P95 != 10 {
		t.Errorf("the profiler says TTFT %+v, ITL %+v", p.TTFT, p.ITL)
	}

	// A request arrives when its client sends it.
	sent := strings.Replace(strings.Split(entries(lab()), "\n")[1], `"client_send_ms":2,`, `"client_send_ms":-3,`, 1)
	if got := figures(t, commandtest.File(t, "sent.jsonl", sent)).Trace; got.TTFT.Mean != 15 || got.Rows[0].QueueMs != 7 {
		t.Errorf("sent 5 ms before it arrives: %+v", got.Rows)
	}
}

// The open loop sends what the library's open loop sends; the closed one sends
// no round before the answer and the tools of the one before it.
func TestLoops(t *testing.T) {
	p := defaultReplay()
	p.Path = "testdata/sessions.csv"
	sessions, err := p.read()
	if err != nil {
		t.Fatal(err)
	}
	if p.Sessions != 3 || p.Rounds != 10 || p.Dropped != 1 {
		t.Errorf("%d sessions, %d rounds, %d dropped", p.Sessions, p.Rounds, p.Dropped)
	}
	open, next := p.requests(sessions, 1, openLoop)
	want, err := workload.Collect(workload.TraceLab{Path: p.Path, OpenLoop: func(r workload.TraceLabRound) time.Duration {
		return time.Duration(r.Output) * p.PerToken
	}}.Requests())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, open); d != "" || len(next) != 0 {
		t.Errorf("%d follow; open loop (-library +ours):\n%s", len(next), d)
	}
	closed, next := p.requests(sessions, 20, closedLoop)
	var starts []sim.Time
	for _, q := range closed {
		starts = append(starts, q.Arrival)
	}
	if d := cmp.Diff([]sim.Time{0, at(6), at(13)}, starts); d != "" {
		t.Errorf("starts of the closed loop (-want +got):\n%s", d)
	}
	pauses := map[int]time.Duration{}
	for id, r := range next {
		pauses[id] = r.pause / time.Millisecond
	}
	if d := cmp.Diff(map[int]time.Duration{0: 250, 1: 100, 3: 350, 6: 20, 7: 20, 8: 20}, pauses); d != "" {
		t.Errorf("pauses behind rounds, ms (-want +got):\n%s", d)
	}

	replica, err := p.replica()
	if err != nil {
		t.Fatal(err)
	}
	x, err := p.run(context.Background(), sessions, 20, closedLoop, replica)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]row{}
	for _, r := range x.Rows {
		rows[r.ID] = r
	}
	for id, r := range next {
		before := rows[strconv.Itoa(id)]
		ends := float64(before.ArrivalMs + before.TTFTMs)
		for _, g := range before.GapsMs {
			ends += g
		}
		if got, want := float64(rows[strconv.Itoa(r.ID)].ArrivalMs), ends+float64(ms(r.pause)); math.Abs(got-want) > 1e-6 {
			t.Errorf("round %d arrives at %v ms, want %v", r.ID, got, want)
		}
	}
	if len(rows) != 9 {
		t.Errorf("%d rounds were replayed, want 9", len(rows))
	}
}

// The more sessions come at once, the further the open loop leaves the closed
// one behind, which holds its load back.
func TestFeedback(t *testing.T) {
	r := figures(t, commandtest.Shared(t, "recordings/tracelab_replay_multi_session_large.csv.gz"))
	if r.Replay.Sessions != 48 || r.Replay.Rounds != 303 || len(r.Replays) != 6 {
		t.Fatalf("%d sessions, %d rounds, %d replays", r.Replay.Sessions, r.Replay.Rounds, len(r.Replays))
	}
	for i := 0; i < len(r.Replays); i += 2 {
		closed, open := r.Replays[i], r.Replays[i+1]
		if closed.Loop != closedLoop || open.Loop != openLoop || closed.Speed != open.Speed {
			t.Fatalf("replays %d are %v and %v", i, closed.Loop, open.Loop)
		}
		if closed.TTFT.N != 303 || open.TTFT.N != 303 || closed.Tokens != open.Tokens || closed.Rejected+open.Rejected > 0 {
			t.Errorf("speed %v: %d and %d requests, %d and %d tokens", closed.Speed, closed.TTFT.N, open.TTFT.N, closed.Tokens, open.Tokens)
		}
		// A session has one round in flight at most.
		if closed.InSystem > 48 || closed.TTFT.P50 > 100 || open.TTFT.P50 < 10*closed.TTFT.P50 || open.InSystem < 2*closed.InSystem {
			t.Errorf("speed %v: closed %+v, open %+v", closed.Speed, closed.table, open.table)
		}
	}
	// A guess that is as slow as the answers comes near to the feedback.
	near := figures(t, "-guess", "13ms", "-speed", "1", commandtest.Shared(t, "recordings/tracelab_replay_multi_session_large.csv.gz")).Replays
	if closed, open := near[0], near[1]; math.Abs(float64(open.InSystem/closed.InSystem)-1) > 0.3 || open.TTFT.P50 > 2*closed.TTFT.P50 {
		t.Errorf("closed %+v, open %+v", closed.table, open.table)
	}
}

// Long names, many requests and many gaps stay within the page.
func TestText(t *testing.T) {
	var requests []request
	for i := range 100 {
		r := request{ID: strings.Repeat("ü\n", 50) + string(rune('a'+i)), Arrival: at(i), Start: at(i * 1000), End: at(i * 1e6)}
		for k := range 50 {
			r.Tokens = append(r.Tokens, r.End.Add(time.Duration(k*k)*time.Second+time.Nanosecond))
		}
		requests = append(requests, r)
	}
	text := output(t, commandtest.File(t, "trace.jsonl", entries(requests)))
	commandtest.Columns(t, strings.Join(strings.Split(text, "\n")[2:], "\n")) // the first hold the path
	if !strings.Contains(text, "… and 60 more") || !strings.Contains(text, "1000 3000 5000 …") {
		t.Errorf("%s", text)
	}
}

func TestErrors(t *testing.T) {
	lines := strings.Split(entries(lab()), "\n")
	withoutTokens := strings.Replace(lines[0], "client_tokens_ms", "tokens", 1)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-x"}, "flag provided but not defined: -x; flags are -gpu, -guess, -json, -model, -speed"},
		{[]string{"a", "b"}, `unexpected argument "b"`},
		{[]string{"nowhere"}, "open nowhere: no such file or directory"},
		{[]string{"-speed", "2"}, "-speed is for a recording of sessions"},
		{[]string{"-gpu", "H100", "testdata/lab.jsonl"}, "-gpu is for a recording of sessions"},
		{[]string{"-speed", "1,x"}, `invalid value "1,x" for flag -speed: "x" is not a number from 0.001 to 1000`},
		{[]string{"-speed", "NaN"}, `"NaN" is not a number from 0.001 to 1000`},
		{[]string{"-guess", "-1s"}, `invalid value "-1s" for flag -guess: want 0 to 1m`},
		{[]string{"-model", "x", "testdata/sessions.csv"}, `unknown model "x"`},
		{[]string{commandtest.File(t, "empty", "")}, "the file is empty"},
		{[]string{commandtest.File(t, "trace.jsonl", "\n"+withoutTokens)}, `request "A" has no client_tokens_ms`},
		{[]string{commandtest.File(t, "cut.jsonl", lines[0][:60])}, "cut.jsonl:1: "},
		{[]string{commandtest.File(t, "order.csv", "session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\na,0,1,0,1,1,0\n")}, `order.csv:2: round_idx 1 of session "a" comes before 0`},
		{[]string{commandtest.File(t, "none.csv", "session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\na,0,0,0,1,0,0\n")}, "no requests"},
	} {
		if err := commandtest.Failure(t, run, c.args...); !strings.Contains(err, c.want) {
			t.Errorf("%v: %s, want %s", c.args, err, c.want)
		}
	}
	if help := commandtest.Help(t, run); !strings.Contains(help, "-speed factors") {
		t.Errorf("-h: %q", help)
	}
}

// A replay that is interrupted says so and prints nothing.
func TestInterrupt(t *testing.T) {
	commandtest.Interrupted(t, run, "testdata/sessions.csv")
}
