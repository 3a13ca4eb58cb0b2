package profile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"servesim/sim/profile"
	"servesim/sim/trace"
)

// near allows for sums in floating point: 659.5 is 659.4999999999999.
func near(got profile.Number, want float64) bool {
	return math.Abs(float64(got)-want) < 1e-9*max(1, want)
}

func TestBurst(t *testing.T) {
	r := analyse(t, burst(), profile.Options{})
	for _, c := range []struct {
		name string
		got  profile.Number
		want float64
	}{
		{"p50 TTFT", r.TTFT.P50, 265.5}, {"p95 TTFT", r.TTFT.P95, 659.5}, {"mean TTFT", r.TTFT.Mean, 349.7},
		{"p95 ITL", r.ITL.P95, 22}, {"p50 E2E", r.E2E.P50, 1673.5}, {"p95 E2E", r.E2E.P95, 2067.5}, {"mean E2E", r.E2E.Mean, 1757.7},
		{"queue", r.DominantTTFT.MeanMs, 151.7}, {"stream", r.DominantE2E.MeanMs, 1408}, {"server TTFT", r.Delivery.ServerTTFT.Mean, 307.7},
		{"residual", r.ResidualMs, 0}, {"rate", r.Arrivals.RatePerS, 1}, {"gap CV", r.Arrivals.GapCV, 0},
	} {
		if !near(c.got, c.want) {
			t.Errorf("%s is %v, want %v", c.name, float64(c.got), c.want)
		}
	}
	if r.DominantTTFT.Phase != "queue" || r.DominantE2E.Phase != "stream" || r.Coordinates.Shape != "2048 input / 65 output tokens" {
		t.Errorf("dominant %s and %s, shape %s", r.DominantTTFT.Phase, r.DominantE2E.Phase, r.Coordinates.Shape)
	}
	nearest := analyse(t, burst(), profile.Options{Percentiles: profile.NearestRank})
	if !near(nearest.TTFT.P50, 243) || !near(nearest.TTFT.P95, 718) || !strings.Contains(nearest.Coordinates.Percentile, "nearest rank") {
		t.Errorf("nearest rank: TTFT %v and %v, %s", nearest.TTFT.P50, nearest.TTFT.P95, nearest.Coordinates.Percentile)
	}
}

func TestOneRecord(t *testing.T) {
	r := analyse(t, []trace.Record{record("r", 100, 5, 0, 10, 5, 20, 50, 5, 10, 80)}, profile.Options{})
	var means []string
	for _, p := range r.Phases {
		means = append(means, p.MeanMs.String())
	}
	if got := strings.Join(means, "/"); got != "10.0/5.0/20.0/50.0/5.0/10.0/80.0" {
		t.Errorf("phases %s", got)
	}
	for _, p := range []profile.Number{r.TTFT.P50, r.TTFT.P95, r.TTFT.P99, r.TTFT.Max} {
		if p != 100 {
			t.Errorf("TTFT %v, want 100", p)
		}
	}
	if r.E2E.P95 != 180 || r.ITL.P95 != 20 {
		t.Errorf("E2E %v, ITL %v, want 180 and 20", r.E2E.P95, r.ITL.P95)
	}
}

// One token has no gap: it is in no ITL, and alone makes none.
func TestOneToken(t *testing.T) {
	one := record("one", 100, 1, 0, 1, 1, 1, 1, 1, 1, 1)
	r := analyse(t, append(burst(), one), profile.Options{})
	if r.ITL.N != 10 || r.ITL.P50 != 22 || r.OneToken != 1 || r.TTFT.N != 11 {
		t.Errorf("ITL of %d requests %v; %d with one token; TTFT of %d", r.ITL.N, r.ITL.P50, r.OneToken, r.TTFT.N)
	}
	r = analyse(t, []trace.Record{one}, profile.Options{})
	if r.ITL.P95.Defined() || r.ITL.N != 0 {
		t.Errorf("ITL %v of %d requests", r.ITL.P95, r.ITL.N)
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), `"itl_ms":{"n":0,"mean":null,"p50":null,"p95":null,`) {
		t.Errorf("%s", data)
	}
	if s := text(t, &r); !has(s, "ITL 0 – – – – –") {
		t.Errorf("%s", s)
	}
	var back profile.Report
	if err := json.Unmarshal(data, &back); err != nil || back.ITL.P95.Defined() {
		t.Errorf("read back as %v: %v", back.ITL.P95, err)
	}
}

// Time in no measured phase is a residual and makes no phase larger, whatever
// the other requests measured.
func TestResidual(t *testing.T) {
	whole := record("whole", 100, 5, 0, 10, 5, 20, 50, 5, 10, 80)
	hole := record("hole", 100, 5, 0, 10, 5, 7, 50, 5, 10, 80)
	hole.PrefillStart = trace.Unknown
	r := analyse(t, []trace.Record{whole, hole}, profile.Options{Partial: true})
	want := []float64{10, 5, 10, 25, 5, 10, 80} // queue and prefill of one request, over two
	for i, p := range r.Phases {
		if !near(p.MeanMs, want[i]) {
			t.Errorf("%s %v, want %v", p.Phase, p.MeanMs, want[i])
		}
	}
	if r.ResidualMs != 28.5 || r.Partial != 1 || r.Phases[trace.Queue].N != 1 || r.Phases[trace.Queue].P95Ms != 20 {
		t.Errorf("residual %v, %d partial, queue of %d: %v", r.ResidualMs, r.Partial, r.Phases[trace.Queue].N, r.Phases[trace.Queue].P95Ms)
	}
	if r.DominantTTFT.Phase != "residual" || r.DominantTTFT.MeanMs != 28.5 || r.DominantE2E.Phase != "stream" {
		t.Errorf("dominant %+v and %s", r.DominantTTFT, r.DominantE2E.Phase)
	}
	if s := text(t, &r); !has(s, "residual 28.5 16 %") || !has(s, "28.5 ms of the mean E2E lie in no measured phase") {
		t.Errorf("%s", s)
	}

	small := record("small", 100, 5, 0, 10, 5, 0, 7, 68, 10, 80)
	small.PrefillStart, small.PrefillEnd = trace.Unknown, trace.Unknown // prefill_end follows 7 ms behind queue_enter
	small.PrefillEnd = small.QueueEnter + 7e6
	r = analyse(t, []trace.Record{small}, profile.Options{Partial: true})
	if r.ResidualMs != 7 || r.DominantTTFT.Phase != "first_decode" || r.Phases[trace.FirstDecode].MeanMs != 68 {
		t.Errorf("residual %v, dominant %+v", r.ResidualMs, r.DominantTTFT)
	}
	if r.Phases[trace.Prefill].MeanMs.Defined() {
		t.Errorf("an unmeasured prefill takes %v", r.Phases[trace.Prefill].MeanMs)
	}
}

// A request without a client instant has no latency; nothing else counts it.
func TestUnmeasured(t *testing.T) {
	headless := record("headless", 100, 5, 0, 10, 5, 2000, 50, 5, 10, 80)
	headless.ClientSend = trace.Unknown
	r := analyse(t, append(burst(), headless), profile.Options{Partial: true})
	if r.Requests != 11 || r.Unmeasured != 1 || r.TTFT.N != 10 || r.TTFT.Max != 718 || !near(r.Phases[trace.Queue].MeanMs, 151.7) {
		t.Errorf("%d requests, %d unmeasured, TTFT of %d up to %v", r.Requests, r.Unmeasured, r.TTFT.N, r.TTFT.Max)
	}
	if s := text(t, &r); !has(s, "1 request of 11 without an instant of the client") {
		t.Errorf("%s", s)
	}
	r = analyse(t, []trace.Record{headless}, profile.Options{Partial: true})
	if r.TTFT.Mean.Defined() || r.DominantTTFT.MeanMs.Defined() || len(r.Tails) != 0 {
		t.Errorf("nothing measured: TTFT %v, dominant %+v", r.TTFT.Mean, r.DominantTTFT)
	}
	if s := text(t, &r); !has(s, "TTFT not measured") {
		t.Errorf("%s", s)
	}
}

// Records made in memory are held to the rules of files.
func TestInvalidRecords(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*[]trace.Record)
		want string
	}{
		{"none", func(r *[]trace.Record) { *r = nil }, "profile: at least one trace is required"},
		{"negative span", func(r *[]trace.Record) { (*r)[0].PrefillEnd = (*r)[0].PrefillStart - 5e6 },
			`profile: record 1, request "burst-01": prefill_end_ms 1023 is before prefill_start_ms 1028: timestamps must not decrease; align clocks of different processes first`},
		{"no tokens", func(r *[]trace.Record) { (*r)[3].OutputTokens = 0 }, `profile: record 4, request "burst-04": output_tokens is 0, want at least 1`},
		{"partial", func(r *[]trace.Record) { (*r)[1].QueueEnter = trace.Unknown }, `profile: record 2, request "burst-02": missing fields: queue_enter_ms`},
		{"twice", func(r *[]trace.Record) { (*r)[9].RequestID = "burst-03" }, `profile: record 10: request_id "burst-03" is that of record 3`},
	} {
		records := burst()
		c.edit(&records)
		if _, err := profile.Analyse(records, profile.Options{}); err == nil || err.Error() != c.want {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
	}
	if _, err := profile.Analyse(nil, profile.Options{}); !errors.Is(err, trace.ErrEmpty) {
		t.Errorf("error %v is not ErrEmpty", err)
	}
	for i := range trace.NumPhases { // each pair of neighbours
		records := burst()
		times := instants(&records[0])
		*times[i+1] = *times[i] - 1
		if _, err := profile.Analyse(records, profile.Options{}); err == nil {
			t.Errorf("a negative %v was accepted", trace.Phase(i))
		}
		*times[i+1] = *times[i]
		for k := range times[i+1:] {
			*times[i+1+k] = max(*times[i+1+k], *times[i])
		}
		if _, err := profile.Analyse(records, profile.Options{}); err != nil {
			t.Errorf("an empty %v: %v", trace.Phase(i), err)
		}
	}
}

// A partial profile accepts what is missing, not what is wrong.
func TestInvalidPartialRecords(t *testing.T) {
	records := burst()[:1]
	records[0].PrefillStart, records[0].PrefillEnd = trace.Unknown, records[0].QueueEnter-1
	want := `profile: record 1, request "burst-01": prefill_end_ms 1023.999999 is before queue_enter_ms 1024:`
	if _, err := profile.Analyse(records, profile.Options{Partial: true}); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}

// A mean is that of the values, not of a sum that rounds on its way: ten times
// 0.1 make 0.9999999999999999.
func TestMeansAreExact(t *testing.T) {
	var records []trace.Record
	for i := range 10 {
		records = append(records, record(fmt.Sprint(i), 1, 2, 0, 0.1, 0, 0, 0, 0, 0, 0))
	}
	if got := analyse(t, records, profile.Options{}).Phases[trace.NetworkIn].MeanMs; got != 0.1 {
		t.Errorf("the mean of ten times 0.1 is %v", float64(got))
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    profile.Options
		want string
	}{
		{profile.Options{Percentiles: 2}, "profile: Options.Percentiles is method(2)"},
		{profile.Options{Tail: 1}, "profile: Options.Tail is 1, want between 0 and 1"},
		{profile.Options{Tail: math.NaN()}, "profile: Options.Tail is NaN, want between 0 and 1"},
		{profile.Options{MinCell: -1}, "profile: Options.MinCell is -1, want at least 0"},
		{profile.Options{PromptBands: []int{5, 5}}, "profile: Options.PromptBands are [5 5], want them to ascend from at least 1"},
		{profile.Options{PromptBands: []int{0}}, "profile: Options.PromptBands are [0], want them to ascend from at least 1"},
		{profile.Options{InSystem: -1}, "profile: Options.InSystem is -1, want at least 0"},
		{profile.Options{InSystem: math.NaN()}, "profile: Options.InSystem is NaN, want at least 0"},
		{profile.Options{ITL: -1}, "profile: Options.ITL is -1ns, want at least 0"},
	} {
		if _, err := profile.New(c.o); err == nil || err.Error() != c.want {
			t.Errorf("%+v: error %v, want %s", c.o, err, c.want)
		}
		if _, err := profile.Read(strings.NewReader(""), "f", c.o); err == nil || err.Error() != c.want {
			t.Errorf("Read, %+v: error %v, want %s", c.o, err, c.want)
		}
	}
}

// Phase percentiles do not add: phase A is slow in ten requests, phase B in
// ten others.
func TestPercentilesDoNotAdd(t *testing.T) {
	var records []trace.Record
	for i := range 100 {
		a, b := 10.0, 10.0
		if i < 10 {
			a = 1000
		} else if i < 20 {
			b = 1000
		}
		records = append(records, record(fmt.Sprint(i), 1, 2, 0, 0, 0, a, b, 0, 0, 0))
	}
	r := analyse(t, records, profile.Options{})
	if sum := r.Phases[trace.Queue].P95Ms + r.Phases[trace.Prefill].P95Ms; sum != 2000 || r.TTFT.Max != 1010 {
		t.Errorf("sum of the p95s %v, largest total %v, want 2000 and 1010", sum, r.TTFT.Max)
	}
}

// A budget of 20 ms a phase holds at p95 in each of three, and 60 ms fail for
// the sum; 1 s a phase at the maximum holds too.
func TestLocalBudgets(t *testing.T) {
	var records []trace.Record
	for i := range 100 {
		phases := []float64{0, 0, 10, 10, 0, 0, 10}
		if i < 12 {
			phases[[]int{2, 3, 6}[i/4]] = 1000
		}
		records = append(records, record(fmt.Sprint(i), 1, 2, 0, phases...))
	}
	r := analyse(t, records, profile.Options{E2E: 60 * ms})
	for _, p := range []trace.Phase{trace.Queue, trace.Prefill, trace.Stream} {
		if r.Phases[p].P95Ms != 10 {
			t.Errorf("p95 of %v is %v, want 10", p, r.Phases[p].P95Ms)
		}
	}
	if r.E2E.P95 != 1020 || r.Targets.Met != 88 || r.Targets.Attainment != 0.88 {
		t.Errorf("p95 of E2E %v, %+v; want 1020 and 88 of 100", r.E2E.P95, r.Targets)
	}
}

// Targets are met at equality, to the nanosecond, and jointly only by whoever
// meets each.
func TestTargets(t *testing.T) {
	records := []trace.Record{
		record("both", 1, 3, 0, 0, 0, 0, 0, 0, 100, 40),
		record("late", 1, 3, 0, 0, 0, 0, 0, 0, 100.000001, 40),
		record("slow", 1, 3, 0, 0, 0, 0, 0, 0, 100, 40.000001),
		record("one token", 1, 1, 0, 0, 0, 0, 0, 0, 100, 900),
	}
	r := analyse(t, records, profile.Options{TTFT: 100 * ms, ITL: 20 * ms})
	want := &profile.Targets{TTFTMs: 100, ITLMs: 20, MetTTFT: 3, MetITL: 3, MetE2E: 4, Met: 2, Attainment: 0.5}
	got := *r.Targets
	if got.E2EMs.Defined() {
		t.Errorf("a target for E2E: %v", got.E2EMs)
	}
	got.E2EMs = 0
	if d := cmp.Diff(want, &got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if s := text(t, &r); !has(s, "met together by 2 of 4, 50 %; alone: TTFT 100 ms by 3, mean gap 20 ms by 3") ||
		!has(s, "each target alone is met by at least 3 requests, all together by 2") {
		t.Errorf("%s", s)
	}
	headless := record("headless", 1, 3, 0, 0, 0, 0, 0, 0, 0, 0)
	headless.ClientSend = trace.Unknown
	if r := analyse(t, append(records, headless), profile.Options{TTFT: 100 * ms, Partial: true}); r.Targets.Attainment != 0.6 {
		t.Errorf("attainment %v, want 3 of 5", r.Targets.Attainment)
	}
}

// Ties go to the first phase in order.
func TestDominantTies(t *testing.T) {
	for i := range trace.NumPhases {
		phases := make([]float64, 7)
		for k := i; k < 7; k++ {
			phases[k] = 0.25
		}
		r := analyse(t, []trace.Record{record("a", 1, 2, 0, phases...), record("b", 1, 2, 0.5, phases...)}, profile.Options{})
		if got := r.DominantE2E.Phase; got != trace.Phase(i).String() {
			t.Errorf("dominant from %v on: %s", trace.Phase(i), got)
		}
	}
	r := analyse(t, []trace.Record{record("a", 1, 2, 0, 0, 0, 0, 0, 0, 0, 0)}, profile.Options{})
	if r.DominantTTFT.Phase != "network_in" || r.DominantE2E.Phase != "network_in" || r.DominantTTFT.Share.Defined() {
		t.Errorf("nothing took time: %+v", r.DominantTTFT)
	}
}

// Seven phases have seven next tests.
func TestNextTests(t *testing.T) {
	seen := map[string]bool{}
	for i := range trace.NumPhases {
		phases := make([]float64, 7)
		phases[i] = 5
		r := analyse(t, []trace.Record{record("a", 1, 2, 0, phases...)}, profile.Options{})
		d := r.DominantE2E
		if d.Phase != trace.Phase(i).String() || d.NextTest != profile.NextTest(trace.Phase(i)) || d.Change != profile.Intervention(trace.Phase(i)) {
			t.Errorf("%v: %+v", trace.Phase(i), d)
		}
		seen[d.NextTest] = true
		seen[d.Change] = true
	}
	if len(seen) != 14 || seen[""] {
		t.Errorf("%d different texts, want 14", len(seen))
	}
}

// A phase that crosses clocks and is no longer than their error says nothing.
func TestClockError(t *testing.T) {
	p, err := profile.New(profile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range []time.Duration{0, 2 * ms} {
		entry := trace.Entry{Record: record(fmt.Sprint(i), 1, 2, 0, 2, 3, 1, 4, 0, 1, 9), Details: trace.Details{ClockError: e}}
		if err := p.Add(entry); err != nil {
			t.Fatal(err)
		}
	}
	r, err := p.Report()
	if err != nil {
		t.Fatal(err)
	}
	var crossing []string
	for _, f := range r.Findings {
		if name, _, ok := strings.Cut(f, " takes "); ok {
			crossing = append(crossing, name)
		}
	}
	if got := strings.Join(crossing, " "); got != "network_in network_to_first" || r.ClockMs != 2 {
		t.Errorf("within the error: %s; %v", got, r.Findings)
	}
}

// The text fits 80 columns at any size, for any names.
func TestWidth(t *testing.T) {
	p, err := profile.New(profile.Options{MinCell: 1, TTFT: ms, ITL: ms, E2E: ms, InSystem: 1e14, Partial: true, Arrivals: strings.Repeat("gap ", 60)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		e := trace.Entry{Record: record(fmt.Sprintf("request\n%d%s", i, strings.Repeat("long", i)), 1+i*i*1000, 1+i, 1e9*float64(i), 1e9, 1e9, 1e9*float64(i*i), 2e9, 1e9, 1e9, 1e9),
			Details: trace.Details{Class: strings.Repeat("klasse", i%25), Route: fmt.Sprint("é\x00", i), HasCached: i%2 == 0, ClockError: 1e15}}
		if i%7 == 3 {
			e.PrefillStart = trace.Unknown
		}
		if err := p.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	r, err := p.Report()
	if err != nil {
		t.Fatal(err)
	}
	printed := text(t, &r)
	for _, line := range strings.Split(printed, "\n") {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if strings.ContainsRune(printed, 0) {
		t.Error("a control character of the trace is printed")
	}
}

func TestPercentile(t *testing.T) {
	gaps := []float64{4, 4, 4, 4, 4, 4, 4, 16}
	ttft := []float64{10, 10, 19, 15, 42}
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, c := range []struct {
		values []float64
		q      float64
		m      profile.Method
		want   float64
	}{
		{ttft, 0.5, profile.NearestRank, 15}, {ttft, 0.95, profile.NearestRank, 42}, {ttft, 0.95, profile.Linear, 37.4},
		{gaps, 0.95, profile.NearestRank, 16}, {gaps, 0.95, profile.Linear, 11.8},
		{hundred, 0.07, profile.NearestRank, 7}, {hundred, 1, profile.NearestRank, 100}, {hundred, 1, profile.Linear, 100},
		{[]float64{3}, 0.99, profile.Linear, 3}, {[]float64{3}, 0.01, profile.NearestRank, 3},
	} {
		if got := profile.Percentile(c.values, c.q, c.m); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("p%v, %v of %d values: %v, want %v", 100*c.q, c.m, len(c.values), got, c.want)
		}
	}
	if !math.IsNaN(profile.Percentile(nil, 0.5, profile.Linear)) || !math.IsNaN(profile.Percentile([]float64{1, math.NaN()}, 0.5, profile.Linear)) {
		t.Error("a percentile of nothing, or of NaN")
	}
	defer func() {
		if recover() == nil {
			t.Error("fraction 0 was accepted")
		}
	}()
	profile.Percentile(ttft, 0, profile.Linear)
}

func ExampleRead() {
	file := strings.NewReader(`{"request_id":"a","prompt_tokens":2048,"output_tokens":65,"client_send_ms":1000,` +
		`"gateway_arrival_ms":1018,"queue_enter_ms":1024,"prefill_start_ms":1544,"prefill_end_ms":1689,` +
		`"first_token_server_ms":1700,"first_token_client_ms":1718,"last_token_client_ms":3126}` + "\n")
	r, err := profile.Read(file, "burst.jsonl", profile.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("TTFT p95 %v ms, most of it %s: %v ms\n", r.TTFT.P95, r.DominantTTFT.Phase, r.DominantTTFT.MeanMs)
	fmt.Println("next test:", r.DominantTTFT.NextTest)
	// Output:
	// TTFT p95 718.0 ms, most of it queue: 520.0 ms
	// next test: replay at half the rate: what remains is order, what goes is load
}

func ExampleAnalyse() {
	var records []trace.Record
	for i, queue := range []float64{4, 8, 400} {
		records = append(records, record(fmt.Sprint("r", i), 512, 11, 1000*float64(i), 5, 1, queue, 60, 10, 5, 200))
	}
	r, err := profile.Analyse(records, profile.Options{TTFT: 100 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	slow := r.Tails[0]
	fmt.Printf("%d of %d in time\n", r.Targets.Met, r.Requests)
	fmt.Printf("slow: %v, %v ms more than the rest, %.0f %% of it %s\n", slow.IDs, slow.MeanMs-slow.RestMeanMs, 100*slow.Excess[0].Share, slow.Excess[0].Phase)
	// Output:
	// 2 of 3 in time
	// slow: [r2], 394.0 ms more than the rest, 100 % of it queue
}
