package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"servesim/costmodel"
	"servesim/examples/internal/commandtest"
	"servesim/sim"
)

// output runs the program.
func output(t *testing.T, args ...string) string {
	t.Helper()
	return commandtest.Output(t, run, args...)
}

// figures runs the program and reads its JSON object.
func figures(t *testing.T, args ...string) report {
	t.Helper()
	return commandtest.Object[report](t, output(t, append(args, "-json")...))
}

func TestGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"text": nil,
		"json": {"-json"},
		"four": {"-links", "Ethernet-25G,Ethernet-100G,InfiniBand-400G,NVLink4", "-size", "3", "-bursts", "100"},
	} {
		got := output(t, args...)
		commandtest.Golden(t, name, got)
	}
}

// Over the slow link computing the prompt is 2 to 23 % of the tail, and queueing
// and transfer are the rest but for the step that samples; over the fast one it
// is more. Both hold for any seed.
func TestClaim(t *testing.T) {
	for _, seed := range []string{"1", "2", "3", "4", "5"} {
		r := figures(t, "-seed", seed)
		if len(r.Results) != 2 {
			t.Fatalf("%d results", len(r.Results))
		}
		slow, fast := r.Results[0], r.Results[1]
		t.Logf("seed %s: prefill is %.1f %% of the tail over %s, %.1f %% over %s", seed, slow.Tail.Prefill, slow.Link, fast.Tail.Prefill, fast.Link)
		if p := slow.Tail.Prefill; !(p >= 2 && p <= 23) {
			t.Errorf("seed %s: %v: prefill is %v %% of the tail, want 2 to 23", seed, slow.Link, p)
		}
		if p := fast.Tail.Prefill; !(p > 30) {
			t.Errorf("seed %s: %v: prefill is %v %% of the tail, want well over 23", seed, fast.Link, p)
		}
		for _, x := range r.Results {
			s := x.Tail
			if rest := s.Queueing + s.Transfer; !(rest > 60 && rest+s.Prefill > 97) || s.Requests < 195 || s.Requests > 200 { // 5 % of 4,000, ties apart
				t.Errorf("seed %s: %v: of %d requests queueing is %v %%, transfer %v %%", seed, x.Link, s.Requests, s.Queueing, s.Transfer)
			}
			if sum := float64(s.Prefill + s.Queueing + s.Transfer + s.Decode); !(sum > 99.999999 && sum < 100.000001) {
				t.Errorf("seed %s: %v: shares add up to %v %%", seed, x.Link, sum)
			}
		}
	}
}

// The parts of every request add up to its TTFT, and none is negative but for the
// rounding of a transfer.
func TestPartsAddUp(t *testing.T) {
	s := defaults()
	s.Bursts = 40
	for _, link := range []string{"Ethernet-25G", "Ethernet-100G", "NVLink4"} {
		for _, w := range ways(t, s, link) {
			sum := time.Duration(0)
			for p, d := range w.parts {
				sum += d
				if d < 0 && !(part(p) == contention && d >= -1) {
					t.Fatalf("%s: %v takes %v", link, part(p), d)
				}
			}
			if sum != w.ttft {
				t.Fatalf("%s: parts %v add up to %v, TTFT is %v", link, w.parts, sum, w.ttft)
			}
		}
	}
}

// ways runs a scenario over a link of the catalogue.
func ways(t *testing.T, s scenario, name string) []way {
	t.Helper()
	setup, err := s.complete()
	if err != nil {
		t.Fatal(err)
	}
	l, err := costmodel.LookupLink(name)
	if err != nil {
		t.Fatal(err)
	}
	link, err := setup.KVLink(l)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := s.config(setup, link)
	if err != nil {
		t.Fatal(err)
	}
	x := &ledger{link: link, block: sim.DefaultBlockTokens, alive: map[int64]*instants{}}
	cfg.Observers = []sim.Observer{x}
	if _, err := sim.Run(context.Background(), cfg, s.requests()); err != nil || x.unexpected != nil || len(x.ways) != s.Bursts*s.Size {
		t.Fatalf("%d ways, errors %v and %v", len(x.ways), err, x.unexpected)
	}
	return x.ways
}

// Requests that are alone wait for nothing: TTFT = C + X + D.
func TestAlone(t *testing.T) {
	s := defaults()
	s.Bursts, s.Size, s.Every = 50, 1, 20*time.Second
	for _, w := range ways(t, s, "Ethernet-100G") {
		for _, p := range []part{queue, room, contention, decodeQueue} {
			if d := w.parts[p]; d < -1 || d > 1 {
				t.Errorf("%v takes %v", p, d)
			}
		}
		if w.parts[prefill] < 10*time.Millisecond || w.parts[wire] < 5*time.Millisecond || w.parts[decode] < time.Millisecond {
			t.Errorf("prefill %v, wire %v, first decode %v", w.parts[prefill], w.parts[wire], w.parts[decode])
		}
	}
	l := ledger{link: sim.Link{TokenBytes: 1000, Bandwidth: 1e6, Latency: 5 * time.Millisecond}, block: 16}
	if got := l.alone(33); got != 53*time.Millisecond { // three blocks, 48 tokens
		t.Errorf("33 tokens take %v, want 53ms", got)
	}
}

func TestText(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"-links", "Ethernet-25G,Ethernet-100G,Ethernet-200G,PCIe4-x16,NVLink5", "-bursts", "20"},
		{"-bursts", "1", "-size", "1"},
		{"-model", "Llama-2-7B", "-gpu", "A100-80", "-size", "4", "-bursts", "30", "-prefill", "2", "-decode", "2", "-every", "700ms"},
	} {
		text := output(t, args...)
		commandtest.Columns(t, text)
		if strings.Contains(text, " \n") || strings.Contains(text, "NaN") || strings.Contains(text, "%!") {
			t.Errorf("%v:\n%s", args, text)
		}
	}
	if text := output(t, "-bursts", "1", "-size", "1"); !strings.Contains(text, "No request is above p95") {
		t.Errorf("one request:\n%s", text)
	}
	if r := figures(t, "-bursts", "1", "-size", "1"); r.Results[0].Tail.Requests != 0 || r.Results[0].Tail.Prefill.Defined() || r.Results[0].All.Requests != 1 {
		t.Errorf("one request: %+v", r.Results[0])
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-links", "Ethernet-100G,string"}, `unknown link "string"`},
		{[]string{"-links", "NVLink4,NVLink4"}, "there twice"},
		{[]string{"-model", "gpt-5"}, `unknown model "gpt-5"`},
		{[]string{"-gpu", "tpu"}, `unknown GPU "tpu"`},
		{[]string{"-model", "Llama-3.1-70B"}, "no KV block fits"},
		{[]string{"-prefill", "0"}, "-prefill is 0"},
		{[]string{"-decode", "0"}, "-decode is 0"},
		{[]string{"-bursts", "0"}, "-bursts is 0"},
		{[]string{"-size", "-1"}, "-size is -1"},
		{[]string{"-prompt", "100000"}, "-prompt is 100000"},
		{[]string{"-output", "0"}, "-output is 0"},
		{[]string{"-every", "0s"}, "-every is 0s"},
		{[]string{"-speed", "2"}, "flags are -bursts, -decode"},
		{[]string{"now"}, `unexpected argument "now"`},
	} {
		if err := commandtest.Failure(t, run, c.args...); !strings.Contains(err, c.want) {
			t.Errorf("%v: error %s, want %q", c.args, err, c.want)
		}
	}
	if help := commandtest.Help(t, run); !strings.Contains(help, "-links") {
		t.Errorf("-h: %q", help)
	}
	commandtest.Interrupted(t, run)
}
