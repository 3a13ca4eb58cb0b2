package metrics_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/sim/metrics"
)

func observation(t testing.TB, c metrics.ObservationConfig) *metrics.Observation {
	t.Helper()
	o, err := metrics.NewObservation(c)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// one runs one request, with nothing skipped.
func one(steps int) metrics.ObservationConfig {
	return metrics.ObservationConfig{Concurrency: 1, Steps: steps, CPSize: 1}
}

// Endpoints at 0, 4, 10 and 15 ms. A flag drops the interval that it ends,
// after intervals were formed: dropping the endpoint first would give 133.3
// steps per second in the first row.
func TestObservationFilters(t *testing.T) {
	for _, c := range []struct {
		flushed string // of the four
		rate    string
		largest metrics.Number
		n       int
	}{
		{"..F.", "222.2", 5, 2},
		{"F.F.", "222.2", 5, 2},
		{"..FF", "250.0", 4, 1},
		{".FFF", "–", metrics.Number(math.NaN()), 0},
		{".FF.", "200.0", 5, 1},
		{".F..", "181.8", 6, 2},
		{"....", "200.0", 6, 3},
	} {
		o := observation(t, one(3))
		for i, at := range []int{0, 4, 10, 15} {
			// A flush lets the countdown start again.
			countdown := int64(-i)
			if c.flushed[i] == 'F' {
				countdown += 10
			}
			if i > 0 && c.flushed[i-1] == 'F' && c.flushed[i] == 'F' {
				countdown += 10 * int64(i)
			}
			o.Add(metrics.Call{End: ms(at), Running: 1, Countdown: countdown, Positions: 1, Useful: 1})
		}
		if c.flushed[0] == 'F' {
			o.Endpoints[0].Flushed = true // no call before it shows one
		}
		r := o.Report(metrics.NotFlushed)
		got := "–"
		if r.StepRate.Defined() {
			got = fmt.Sprintf("%.1f", float64(r.StepRate))
		}
		if got != c.rate || r.Intervals != c.n || !cmp.Equal(c.largest, r.LargestMs, near) {
			t.Errorf("%s: %s steps/s of %d intervals, the largest %v ms; want %s of %d, %v", c.flushed, got, r.Intervals, r.LargestMs, c.rate, c.n, c.largest)
		}
	}
}

// 171 calls of 5 ms: 50 to warm up, 60 unmeasured, 61 endpoints. What comes
// behind is not looked at; a loop that ends early has fewer intervals.
func TestObservationLoops(t *testing.T) {
	for calls, want := range map[int]int{171: 60, 200: 60, 141: 30, 111: 0, 3: 0} {
		c := one(60)
		c.WarmUp, c.Unmeasured = 50, 60
		o := observation(t, c)
		for i := range calls {
			o.Add(metrics.Call{End: ms(5 * i), Running: 1})
		}
		r := o.Report(metrics.NotFlushed)
		if r.Intervals != want || o.Done() != (calls >= 171) || want > 0 && math.Abs(float64(r.StepRate)-200) > 1e-9 || (want == 0) == r.StepRate.Defined() {
			t.Errorf("%d calls: %+v, done %v; want %d intervals at 200/s", calls, r, o.Done(), want)
		}
	}
}

// One call at another concurrency between 0 and 10 ms leaves its time in the
// interval that spans it; one before the window counts for nothing.
func TestObservationOmits(t *testing.T) {
	o := observation(t, one(1))
	for i, running := range []int{2, 1, 2, 1} {
		o.Add(metrics.Call{End: ms(5*i - 5), Running: running})
	}
	r := o.Report(metrics.NotFlushed)
	if o.Endpoints[0].Omitted != 0 || r.Intervals != 1 || r.Omitted != 1 || r.StepRate != 100 || r.LargestMs != 10 {
		t.Errorf("%+v, want one interval, 100/s, one call omitted", r)
	}
}

// verifying has 16 requests that submit 1 + 5 positions every 5 ms, and get 48 useful
// tokens of them.
func verifying(t testing.TB, cp int) *metrics.Observation {
	o := observation(t, metrics.ObservationConfig{Name: "steady", Concurrency: 16, Steps: 4, Draft: 5, CPSize: cp})
	for i := range 5 {
		o.Add(metrics.Call{End: ms(5 * i), Running: 16, Positions: 96, Useful: 48})
	}
	return o
}

// 200 steps/s × 16 × 6 = 19,200 tokens/s; at 3 useful ones 9,600, which is what
// was counted. On two devices a rank 9,600; with a rank half as fast 7,200 a
// device.
func TestFullAcceptance(t *testing.T) {
	o := verifying(t, 1)
	r := o.Report(metrics.NotFlushed)
	full, err := o.FullAcceptance(r)
	if err != nil {
		t.Fatal(err)
	}
	three, err := o.Accepted(r, 3)
	if err != nil {
		t.Fatal(err)
	}
	if full != 19_200 || three != 9_600 || r.TokenRate != 9_600 {
		t.Errorf("%v tokens/s if all are accepted, %v at 3, %v counted; want 19200, 9600, 9600", full, three, r.TokenRate)
	}
	o = verifying(t, 2)
	if full, err = o.FullAcceptance(o.Report(metrics.NotFlushed)); err != nil || full != 9_600 {
		t.Errorf("on two devices %v, %v; want 9600", full, err)
	}
	if got := metrics.SystemRate(full, full/2); got != 7_200 {
		t.Errorf("system: %v a device, want 7200", got)
	}
	if _, err := o.Accepted(r, 7); err == nil {
		t.Error("7 useful tokens of 6 positions are accepted")
	}
	o.Endpoints[2].Positions = 90
	want := "metrics: endpoint 2 computed 90 positions, not 16·6: lengths vary, measure time and useful tokens together"
	if _, err := o.FullAcceptance(r); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// What is saved gives the rates again, under another filter as well.
func TestObservationFile(t *testing.T) {
	o := observation(t, metrics.ObservationConfig{Name: "steady", Replica: 1, Concurrency: 2, WarmUp: 1, Unmeasured: 2, Steps: 3, Draft: 1, CPSize: 4})
	for i, running := range []int{2, 2, 2, 2, 3, 2, 2, 2} {
		o.Add(metrics.Call{End: ms(i * i), Running: running, Countdown: int64(i % 3), Positions: 4, Useful: i})
	}
	var file bytes.Buffer
	if _, err := o.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	want := `{"name":"steady","replica":1,"concurrency":2,"warm_up":1,"unmeasured":2,"steps":3,"draft":1,"cp_size":4}
{"time_ns":9000000,"flushed":false,"omitted":0,"positions":4,"useful":3}
{"time_ns":25000000,"flushed":true,"omitted":1,"positions":4,"useful":5}
{"time_ns":36000000,"flushed":false,"omitted":0,"positions":4,"useful":6}
{"time_ns":49000000,"flushed":true,"omitted":0,"positions":4,"useful":7}
`
	if d := cmp.Diff(want, file.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	read, err := metrics.ReadObservation(strings.NewReader(file.String()+"\n"), "file")
	if err != nil {
		t.Fatal(err)
	}
	for name, filter := range map[string]func(metrics.Endpoint) bool{
		"flushes left out": metrics.NotFlushed,
		"all":              func(metrics.Endpoint) bool { return true },
		"omitted calls":    func(e metrics.Endpoint) bool { return e.Omitted == 0 },
	} {
		if d := cmp.Diff(o.Report(filter), read.Report(filter), near); d != "" {
			t.Errorf("%s (-saved +read):\n%s", name, d)
		}
	}
	all := read.Report(func(metrics.Endpoint) bool { return true })
	if all.Intervals != 3 || all.Omitted != 1 || all.LargestMs != 16 || fmt.Sprintf("%.1f %.1f", float64(all.StepRate), float64(all.TokenRate)) != "75.0 450.0" {
		t.Errorf("%+v, want 3 intervals in 40 ms and 18 tokens", all)
	}
}

func TestReadObservationErrors(t *testing.T) {
	const config = `{"replica":0,"concurrency":2,"warm_up":1,"unmeasured":2,"steps":1,"draft":1,"cp_size":4}` + "\n"
	const end = `{"time_ns":9,"flushed":false,"omitted":0,"positions":4,"useful":3}` + "\n"
	for _, c := range []struct{ file, want string }{
		{"", "f: no configuration of an observation"},
		{"{", "f:1: unexpected end of JSON input"},
		{"{}", "f:1: replica is missing"},
		{strings.Replace(config, `"steps":1`, `"steps":0`, 1), "f:1: metrics: steps of an observation is 0, less than 1"},
		{config + strings.Replace(end, "9", "9.5", 1), "f:2: json: cannot unmarshal number 9.5 into Go struct field Endpoint.time_ns of type sim.Time"},
		{config + strings.Replace(end, `"useful":3`, `"useful":-3`, 1), "f:2: useful is -3"},
		{config + strings.Replace(end, `"useful"`, `"tokens"`, 1), "f:2: useful is missing"},
		{config + strings.Replace(end, `{`, `{"x":1,`, 1), `f:2: json: unknown field "x"`},
		{config + end + "\n" + strings.Replace(end, "9", "8", 1), "f:4: time_ns is 8, before the 9 of the endpoint above"},
		{config + end + end + end, "f:4: an endpoint more than steps + 1, 2"},
	} {
		if _, err := metrics.ReadObservation(strings.NewReader(c.file), "f"); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
	if _, err := metrics.NewObservation(metrics.ObservationConfig{Concurrency: 0, Steps: 1, CPSize: 1}); err == nil ||
		err.Error() != "metrics: concurrency of an observation is 0, less than 1" {
		t.Errorf("error %v", err)
	}
}

// A run is observed through its step ends, of the wanted replica only.
func TestObservationOfARun(t *testing.T) {
	o := observation(t, one(2))
	for i, e := range []sim.Event{
		{Kind: sim.StepEnd, Running: 1, Tokens: 1, Batch: &sim.Batch{Prefills: []sim.Chunk{{Tokens: 7}}}},
		{Kind: sim.StepEnd, Running: 1, Replica: 1, Batch: &sim.Batch{}},
		{Kind: sim.Finish},
		{Kind: sim.StepEnd, Running: 1, Tokens: 2, Batch: &sim.Batch{Decodes: 1, Positions: 3}},
	} {
		e.Time = ms(i)
		o.Observe(e)
	}
	want := []metrics.Endpoint{{Time: ms(0), Positions: 7, Useful: 1}, {Time: ms(3), Positions: 3, Useful: 2}}
	if d := cmp.Diff(want, o.Endpoints); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func FuzzReadObservation(f *testing.F) {
	var file bytes.Buffer
	if _, err := verifying(f, 2).WriteTo(&file); err != nil {
		f.Fatal(err)
	}
	f.Add(file.String())
	f.Fuzz(func(t *testing.T, file string) {
		o, err := metrics.ReadObservation(strings.NewReader(file), "f")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("error %q", err)
			}
			return
		}
		var again bytes.Buffer
		if _, err := o.WriteTo(&again); err != nil {
			t.Fatal(err)
		}
		back, err := metrics.ReadObservation(&again, "again")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(o.Report(metrics.NotFlushed), back.Report(metrics.NotFlushed), near); d != "" {
			t.Errorf("(-read +again):\n%s", d)
		}
	})
}

// A benchmark at one running request: 100 calls of 5 ms, every tenth of which
// flushes for another 5 ms.
func ExampleObservation() {
	o, err := metrics.NewObservation(metrics.ObservationConfig{Concurrency: 1, WarmUp: 20, Steps: 60, CPSize: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	at := sim.Time(0)
	for i := range 100 {
		at += 5e6
		if i%10 == 0 {
			at += 5e6
		}
		o.Add(metrics.Call{End: at, Running: 1, Countdown: int64(10 - i%10), Positions: 1, Useful: 1})
	}
	r := o.Report(metrics.NotFlushed)
	fmt.Fprintf(os.Stdout, "%d intervals, %.0f steps/s; with flushes %.0f\n", r.Intervals, float64(r.StepRate),
		float64(o.Report(func(metrics.Endpoint) bool { return true }).StepRate))
	// Output: 54 intervals, 200 steps/s; with flushes 182
}
