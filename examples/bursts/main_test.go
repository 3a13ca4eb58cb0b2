package main

import (
	"flag"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"servesim/costmodel"
	"servesim/examples/internal/commandtest"
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
		"text":     nil,
		"json":     {"-json"},
		"linear":   {"-cost", "linear"},
		"shortest": {"-order", "shortest-prompt", "-budgets", "1024"},
	} {
		got := output(t, args...)
		commandtest.Golden(t, name, got)
	}
}

// Ten requests a second of 80 ms each: evenly nobody waits; at once the k-th
// waits for k-1 others, 360 ms in the mean, and 10/s · (360 + 80) ms = 4.4 are
// in the system.
func TestArrivals(t *testing.T) {
	want := []pattern{
		{Name: "A", Text: "one request every 100 ms", WaitsMs: []float64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
			MeanMs: 0, Requests: 100, Waiting: 0, Busy: 0.8, L: 0.8, Lambda: 10, WMs: 80},
		{Name: "B", Text: "10 requests at once every 1 s", WaitsMs: []float64{0, 80, 160, 240, 320, 400, 480, 560, 640, 720},
			MeanMs: 360, Requests: 100, Waiting: 9, Busy: 0.8, L: 4.4, Lambda: 10, WMs: 440},
	}
	if diff := cmp.Diff(want, figures(t).Arrivals.Patterns, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	lines := map[string]bool{}
	for _, line := range strings.Split(output(t), "\n") {
		lines[strings.Join(strings.Fields(line), " ")] = true
	}
	for _, want := range []string{
		"A 0 0 0 0 0 0 0 0 0 0 0",
		"B 0 80 160 240 320 400 480 560 640 720 360",
		"A 80% 0 0.8 10.0 80 0.8",
		"B 80% 9 4.4 10.0 440 4.4",
	} {
		if !lines[want] {
			t.Errorf("missing line: %s", want)
		}
	}
}

// row is what a scheduler comes to, in ms.
type row struct {
	Name                                        string
	ShortP50, ShortMax, LongP50, LongMax, Gap50 float64
	GapMax                                      float64
	GapPrompt                                   int
	EndS                                        float64
}

func rowOf(r result) row {
	return row{fmt.Sprint(r.Scheduler, " ", r.StepTokens), float64(r.TTFTShort.P50), float64(r.TTFTShort.Max), float64(r.TTFTLong.P50), float64(r.TTFTLong.Max),
		float64(r.ITL.P50), float64(r.ITL.Max), r.GapPrompt, r.EndS}
}

// At 10 ms a step and 0.1 ms a prompt token the long prompt takes 3210 ms, the
// ten short ones of 500 tokens 510 ms together, an answer of 250 tokens 2490
// ms behind its first token. Bursts come every 5 s.
func TestLinearByHand(t *testing.T) {
	r := figures(t, "-cost", "linear", "-budgets", "512").LongPrompt
	if r.Scenario.EveryS != 5 { // 3210 + 510 + 125 · 10 = 4970 ms, rounded up
		t.Errorf("a burst every %v s, want 5", r.Scenario.EveryS)
	}
	want := []row{
		// The long request fills a batch, 5700 ms; the short ones are the
		// next, 3000 ms. Burst k starts at 8700·k, 3700·k late: the long
		// prompt's first token comes after 3210 + 3700·k, the short ones'
		// after 6210 + 3700·k; the fourth ends at 4 · 8700.
		{"request-batch 32250", 11760, 17310, 8760, 14310, 10, 10, 0, 34.8},
		// The gap holds the step of the long prompt, that of the short ones
		// and the decode: 3210 + 510 + 10. The fourth burst has its first
		// tokens by 15000 + 3720, the others 249 steps later.
		{"continuous 32250", 3720, 3720, 3210, 3210, 10, 3730, 37000, 21.21},
	}
	var got []row
	for _, x := range r.Results[:2] {
		got = append(got, rowOf(x))
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// One decode beside 511 prompt tokens: 10 + 51.1 ms.
	if x := r.Results[2]; x.ITL.Max != 61.1 || x.GapPrompt != 511 {
		t.Errorf("chunked: largest gap %v ms with %d prompt tokens, want 61.1 with 511", x.ITL.Max, x.GapPrompt)
	}
	if x := r.Results[2]; x.TTFTLong.P50 < 3830 { // 63 chunks alone, and decodes take room
		t.Errorf("chunked: TTFT of the long prompt %v ms, want 3830 at least", x.TTFTLong.P50)
	}
	if slow := r.Results[0].TTFTShort.P50 / r.Results[1].TTFTShort.P50; slow < 3 {
		t.Errorf("request batching makes short requests wait %v times as long, want 3 at least", slow)
	}
}

// What each scheduler does to whom, whatever the cost: results come as request
// batch, continuous, then budgets of 512, 2048 and 8192.
func TestOrderings(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"-cost", "linear"},
		{"-model", "Qwen3-32B", "-gpu", "H200"},
		{"-order", "shortest-prompt"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			l := figures(t, args...).LongPrompt
			rs := l.Results
			if len(rs) != 5 {
				t.Fatalf("%d results", len(rs))
			}
			// 4 · (32000 + 10 · 500) prompt tokens; 44 answers of 249 tokens
			// behind the first, whose input comes back as a position.
			for _, r := range rs {
				if r.Completed != 44 || r.Rejected != 0 || r.Preemptions != 0 || r.Positions != 148_000+10_956 {
					t.Errorf("%s: %d completed, %d rejected, %d preemptions, %d positions", r.Scheduler, r.Completed, r.Rejected, r.Preemptions, r.Positions)
				}
			}
			batch, continuous := rs[0], rs[1]
			if batch.TTFTShort.P50 < 3*continuous.TTFTShort.P50 {
				t.Errorf("request batching holds short requests for %v ms, continuous for %v", batch.TTFTShort.P50, continuous.TTFTShort.P50)
			}
			if batch.GapPrompt != 0 {
				t.Errorf("request batching computes %d prompt tokens between two tokens", batch.GapPrompt)
			}
			if continuous.GapPrompt < l.Scenario.LongPrompt || continuous.ITL.Max < 50*continuous.ITL.P50 {
				t.Errorf("continuous: largest gap %v ms with %d prompt tokens, median %v ms", continuous.ITL.Max, continuous.GapPrompt, continuous.ITL.P50)
			}
			for i := 2; i < 5; i++ { // from the smallest budget to none
				r, next := rs[i], continuous
				if i < 4 {
					next = rs[i+1]
				}
				if r.GapPrompt >= r.StepTokens || r.GapPrompt < 9*r.StepTokens/10 {
					t.Errorf("chunked %d: %d prompt tokens in the largest gap", r.StepTokens, r.GapPrompt)
				}
				if r.ITL.Max >= next.ITL.Max {
					t.Errorf("chunked %d: largest gap %v ms, %v with the next budget", r.StepTokens, r.ITL.Max, next.ITL.Max)
				}
				if r.TTFTLong.P50 <= next.TTFTLong.P50 {
					t.Errorf("chunked %d: long TTFT %v ms, %v with the next budget", r.StepTokens, r.TTFTLong.P50, next.TTFTLong.P50)
				}
				ahead := r.TTFTShort.Max < r.TTFTLong.P50
				if want := l.Scenario.Order == "shortest-prompt"; ahead != want {
					t.Errorf("chunked %d: short TTFT %v ms at most, long %v", r.StepTokens, r.TTFTShort.Max, r.TTFTLong.P50)
				}
			}
		})
	}
}

// The words fit the figures at the edges, too.
func TestText(t *testing.T) {
	for _, c := range []struct {
		args       []string
		want, none string
	}{
		{nil, "1/36 of that of continuous", "rejected"},
		{[]string{"-output", "1"}, "Answers of one token have no gaps.", "largest gap is"},
		{[]string{"-bursts", "1", "-size", "1"}, "1 of 500", "rejected"},
		{[]string{"-budgets", "100000"}, "At 100000 tokens a step", "1/"},
		{[]string{"-model", "Llama-3.1-70B", "-tp", "2"}, "continuous, 32250: 4 of 44 requests rejected, exceeds_kv_capacity", "stand behind"},
		{[]string{"-model", "Llama-3.1-70B", "-tp", "2", "-long-prompt", "8000"}, "positions: preempted requests are computed again", "All computed"},
		{[]string{"-cost", "linear", "-long-prompt", "400000", "-short-prompt", "100000", "-size", "3", "-bursts", "50", "-every", "1h0m0.123456789s", "-output", "2"}, "memory never runs out", "rejected"},
	} {
		got := output(t, c.args...)
		flat := strings.Join(strings.Fields(got), " ")
		if !strings.Contains(flat, c.want) || strings.Contains(flat, c.none) {
			t.Errorf("%v: want %q, not %q, in\n%s", c.args, c.want, c.none, got)
		}
		if strings.Contains(got, "NaN") || strings.Contains(got, "%!") || strings.Contains(got, "Inf") {
			t.Errorf("%v: not a figure in\n%s", c.args, got)
		}
		commandtest.Columns(t, got)
	}
}

func TestCells(t *testing.T) {
	for _, c := range []struct {
		v               float64
		decimals, width int
		want            string
	}{
		{7.648, 2, 6, "7.65"}, {1234.56, 2, 6, "1234.6"}, {99999.96, 2, 6, "100000"}, {1234567, 0, 6, "1e+06"}, {0, 0, 7, "0"}, {math.NaN(), 2, 6, "–"},
	} {
		if got := fit(c.v, c.decimals, c.width); got != c.want {
			t.Errorf("%v with %d decimals in %d columns: %q, want %q", c.v, c.decimals, c.width, got, c.want)
		}
	}
	for _, c := range []struct {
		q    float64
		want string
	}{{41.3, "41"}, {6.66, "6.7"}, {1.354, "1.35"}, {0.479, "0.48"}, {0.0243, "1/41"}} {
		if got := ratio(c.q); got != c.want {
			t.Errorf("ratio %v: %q, want %q", c.q, got, c.want)
		}
	}
}

func TestHelp(t *testing.T) {
	help := commandtest.Help(t, run)
	newFlags(&scenario{}, new(bool)).VisitAll(func(f *flag.Flag) {
		if !strings.Contains(help, "  -"+f.Name) {
			t.Errorf("no -%s in the help", f.Name)
		}
	})
	if !utf8.ValidString(help) {
		t.Error("help is not UTF-8")
	}
}

func TestErrors(t *testing.T) {
	_, unknownModel := costmodel.LookupModel("gpt-5")
	_, unknownGPU := costmodel.LookupGPU("tpu")
	for _, c := range []struct {
		args string
		want string
	}{
		{"-model gpt-5", unknownModel.Error()},
		{"-gpu tpu", unknownGPU.Error()},
		{"-cost free", `-cost is "free"; known are transformer, linear`},
		{"-order lifo", `-order is "lifo"; known are arrival, shortest-prompt`},
		{"-bursts 0", "-bursts is 0, want 1 to 1000000"},
		{"-size -1", "-size is -1, want 1 to 1000000"},
		{"-output 0", "-output is 0, want 1 to 1000000"},
		{"-short-prompt 0", "-short-prompt is 0, want 1 to 1000000"},
		{"-long-prompt 1000001", "-long-prompt is 1000001, want 1 to 1000000"},
		{"-long-prompt 500", "-long-prompt is 500, want more than -short-prompt 500"},
		{"-tp 0", "-tp is 0, want 1 to 1000000"},
		{"-tp 3", "costmodel: Setup.TensorParallel 3 does not divide Model.Heads 32"},
		{"-every -1s", "-every is -1s, want at least 0"},
		{"-every 2000000h -bursts 1000", "-every 2000000h0m0s and -bursts 1000 take more than 146 years"},
		{"-budgets 512,0", "-budgets has 0, want 1 to 1000000"},
		{"now", `unexpected argument "now"`},
	} {
		if err := commandtest.Failure(t, run, strings.Fields(c.args)...); err != c.want {
			t.Errorf("%s: error %s, want %s", c.args, err, c.want)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"-bursting 1", "flag provided but not defined: -bursting; flags are -budgets, -bursts, -cost, -every,"},
		{"-budgets 512,many", `"many" is not a whole number`},
		{"-every 3", `invalid value "3" for flag -every`},
		{"-model Llama-3.1-70B", "(-tp divides it over more GPUs)"},
	} {
		if err := commandtest.Failure(t, run, strings.Fields(c.args)...); !strings.Contains(err, c.want) {
			t.Errorf("%s: error %s, want %q in it", c.args, err, c.want)
		}
	}
	commandtest.Interrupted(t, run)
}
