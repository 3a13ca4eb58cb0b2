package workload_test

import (
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/sim/simtest"
	"servesim/workload"
)

// checkReading fails if what a reader of rows says of "trace" cannot be.
func checkReading(t *testing.T, requests iter.Seq2[sim.Request, error], counts *workload.Counts) {
	t.Helper()
	last, emitted := sim.Time(0), 0
	ids := map[int]bool{}
	failed := false
	for q, err := range requests {
		if failed {
			t.Fatal("the sequence goes on after an error")
		}
		if err != nil {
			failed = true
			if !strings.HasPrefix(err.Error(), "workload: trace") {
				t.Fatalf("error %q does not name the file", err)
			}
			continue
		}
		if q.Arrival < last || q.Prompt < 1 || q.Output < 1 || ids[q.ID] || q.ID >= counts.Read ||
			q.PrefixBlock == 0 && q.Prefix != nil {
			t.Fatalf("request %+v after %v, %+v", q, last, counts)
		}
		last = q.Arrival
		ids[q.ID] = true
		emitted++
	}
	if counts.Read != counts.Emitted+counts.Dropped() || !failed && counts.Emitted != emitted {
		t.Fatalf("%d requests, counts %+v", emitted, *counts)
	}
}

const burst8 = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n" +
	"19440110.0,1722ac82-0a46-4bf0-aa08-89794e7a2b3f,43,GPT-4,906,446,1352,Conversation log\n" +
	"19440110.0,,2,ChatGPT,36,29,65,API log\n" +
	"19440111.5,,,ChatGPT,36,0,36,API log\n" +
	"19440112.0,x,1,GPT-4,0,0,0,Conversation log\n" +
	"19440113,,7,GPT-4,5,6,11,API log\n"

// Files of six and of eight columns are the same but for what is ignored.
func TestBurstGPT(t *testing.T) {
	six := eachRow(burst8, func(_ int, row string) string {
		f := strings.Split(row, ",")
		return strings.Join(append(f[:1], f[3:]...), ",")
	})
	all := []sim.Request{
		{ID: 0, Prompt: 906, Output: 446}, {ID: 1, Prompt: 36, Output: 29}, {ID: 4, Arrival: 3e9, Prompt: 5, Output: 6},
	}
	spread := []sim.Request{all[0], {ID: 1, Arrival: 5e8, Prompt: 36, Output: 29}, all[2]}
	for _, c := range []struct {
		name   string
		burst  workload.BurstGPT
		want   []sim.Request
		counts workload.Counts
	}{
		{"all", workload.BurstGPT{}, all, workload.Counts{Read: 5, Emitted: 3, ZeroPrompt: 1, ZeroOutput: 1}},
		{"model", workload.BurstGPT{Model: "GPT-4"}, []sim.Request{all[0], all[2]}, workload.Counts{Read: 5, Emitted: 2, ZeroPrompt: 1, Filtered: 2}},
		{"log", workload.BurstGPT{Log: "API log"}, all[1:], workload.Counts{Read: 5, Emitted: 2, ZeroOutput: 1, Filtered: 2}},
		{"both", workload.BurstGPT{Model: "GPT-4", Log: "API log"}, all[2:], workload.Counts{Read: 5, Emitted: 1, Filtered: 4}},
		{"spread", workload.BurstGPT{Spread: time.Second}, spread, workload.Counts{Read: 5, Emitted: 3, ZeroPrompt: 1, ZeroOutput: 1}},
	} {
		for _, data := range []string{burst8, six} {
			var counts workload.Counts
			b := c.burst
			b.Path, b.Open, b.Counts = "trace", memory(data), &counts
			if diff := cmp.Diff(c.want, collect(t, b.Requests())); diff != "" || counts != c.counts {
				t.Errorf("%s: counts %+v, requests (-want +got):\n%s", c.name, counts, diff)
			}
		}
	}
}

func TestBurstGPTErrors(t *testing.T) {
	for _, c := range []struct {
		burst workload.BurstGPT
		data  string
		want  string
	}{
		{workload.BurstGPT{Spread: -1}, burst8, "workload: BurstGPT.Spread is -1ns, want at least 0"},
		{workload.BurstGPT{}, azure2023, `workload: trace:1: the header is "TIMESTAMP,ContextTokens,GeneratedTokens", want the columns Timestamp, Model, Request tokens, Response tokens and Log Type`},
		{workload.BurstGPT{}, strings.Replace(burst8, "Elapsed time", "Model", 1), "workload: trace:1: the header names Model twice"},
		{workload.BurstGPT{}, strings.Replace(burst8, "Timestamp,", "", 1), "workload: trace:1: the header is"},
		{workload.BurstGPT{}, strings.Replace(burst8, "446", "446.5", 1), `workload: trace:2: Response tokens "446.5": not a whole number from 0 to 2147483647`},
		{workload.BurstGPT{Spread: 2 * time.Second, Model: "GPT-4"}, strings.Replace(burst8, "19440111.5", "-1", 1), `workload: trace:4: Timestamp "-1": not a number of seconds, at least 0`},
	} {
		c.burst.Path, c.burst.Open = "trace", memory(c.data)
		if _, err := workload.Collect(c.burst.Requests()); !strings.HasPrefix(errText(err), c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

func FuzzBurstGPT(f *testing.F) {
	f.Add([]byte(burst8), "", false, false, int64(0))
	f.Add([]byte(burst8), "GPT-4", true, true, int64(1e9))
	f.Add([]byte("Log Type,Timestamp,Model,Request tokens,Response tokens\n\"x, y\",1e3,m,1,2\nz,2.9999999999,m,1,2"), "m", true, false, int64(3))
	f.Fuzz(func(t *testing.T, data []byte, model string, sort, skip bool, spread int64) {
		var counts workload.Counts
		b := workload.BurstGPT{Path: "trace", Open: memory(string(data)), Model: model, Sort: sort, SkipMalformed: skip,
			Spread: max(0, time.Duration(spread)), Counts: &counts}
		checkReading(t, b.Requests(), &counts)
	})
}

func TestLengthCSV(t *testing.T) {
	two := []sim.Request{{ID: 0, Prompt: 74, Output: 918}, {ID: 1, Prompt: 290, Output: 905}}
	timed := []sim.Request{{ID: 0, Prompt: 74, Output: 918}, {ID: 1, Arrival: 52_000_000, Prompt: 290, Output: 905}}
	for _, c := range []struct {
		name    string
		lengths workload.LengthCSV
		data    string
		want    []sim.Request
	}{
		{"no times", workload.LengthCSV{}, "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n74,918,992,0.08\n290,905,1195,0.3\n", two},
		{"arrivals in seconds", workload.LengthCSV{}, "arrived_at,num_prefill_tokens,num_decode_tokens\n10.5,74,918\n10.552,290,905\n", timed},
		{"names of columns", workload.LengthCSV{Prompt: "in", Output: "out", Time: "at", Unit: time.Microsecond}, "at,out,in\n1000000,918,74\n1052000,905,290\n", timed},
		{"dates", workload.LengthCSV{Time: "at"}, "at,num_prefill_tokens,num_decode_tokens\n2024-05-12 00:00:00.100+00:00,74,918\n2024-05-12 00:00:00.152+00:00,290,905\n", timed},
	} {
		c.lengths.Path, c.lengths.Open = "trace", memory(c.data)
		if diff := cmp.Diff(c.want, collect(t, c.lengths.Requests())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	for want, l := range map[string]workload.LengthCSV{
		"workload: LengthCSV.Unit is 1h0m0s, want 1s, 1ms, 1µs or 1ns":                                                                                             {Unit: time.Hour},
		`workload: trace:1: the header is "num_prefill_tokens,num_decode_tokens", want the columns num_prefill_tokens, num_decode_tokens and at`:                   {Time: "at"},
		`workload: trace:1: the header is "num_prefill_tokens,num_decode_tokens", want the columns num_prefill_tokens and output_length (arrived_at may be there)`: {Output: "output_length"},
	} {
		l.Path, l.Open = "trace", memory("num_prefill_tokens,num_decode_tokens\n1,2\n")
		if _, err := workload.Collect(l.Requests()); errText(err) != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func FuzzLengthCSV(f *testing.F) {
	f.Add([]byte("num_prefill_tokens,num_decode_tokens\n1,2\n3,4"), "", int64(0), false, false)
	f.Add([]byte("at,num_decode_tokens,num_prefill_tokens\n1e3,2,1\n2024-05-12T00:00:00Z,3,4\n0,1,1"), "at", int64(time.Millisecond), true, true)
	f.Fuzz(func(t *testing.T, data []byte, clock string, unit int64, sort, skip bool) {
		var counts workload.Counts
		l := workload.LengthCSV{Path: "trace", Open: memory(string(data)), Time: clock, Sort: sort, SkipMalformed: skip, Counts: &counts}
		for _, u := range []time.Duration{time.Second, time.Millisecond, time.Microsecond, time.Nanosecond} {
			if time.Duration(unit) == u {
				l.Unit = u
			}
		}
		checkReading(t, l.Requests(), &counts)
	})
}

// What the recordings give is a workload like any other.
func TestReaderConformance(t *testing.T) {
	for name, requests := range map[string]func() iter.Seq2[sim.Request, error]{
		"burstgpt": workload.BurstGPT{Path: shared(t, "recordings/format_examples/burstgpt_8col_style.csv")}.Requests,
		"lengths":  workload.LengthCSV{Path: shared(t, "recordings/etalon_sharegpt_8k_filtered_stats_llama2_tokenizer.csv.gz")}.Requests,
		"ragpulse": workload.RAGPulse{Path: shared(t, "recordings/ragpulse_0_trace.jsonl.gz")}.Requests,
		"tracelab": workload.TraceLab{
			Path:     shared(t, "recordings/tracelab_replay_multi_session_large.csv.gz"),
			OpenLoop: func(r workload.TraceLabRound) time.Duration { return time.Duration(r.Output) * time.Millisecond },
		}.Requests,
	} {
		t.Run(name, func(t *testing.T) {
			simtest.TestWorkload(t, func() iter.Seq2[sim.Request, error] { return workload.Take(requests(), 300) })
		})
	}
}
