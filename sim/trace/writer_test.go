package trace_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/sim/trace"
)

func finish(serial int64) sim.Event {
	return sim.Event{Kind: sim.Finish, Serial: serial, ID: 5, Time: ms(180), Prompt: 100, Output: 5, Timeline: sim.Timeline{
		Arrival: ms(10), Queued: ms(15), Admitted: ms(35), PrefillEnd: ms(85), FirstToken: ms(90)}}
}

func TestWriter(t *testing.T) {
	var b bytes.Buffer
	w := trace.Writer{W: &b}
	w.Observe(finish(17))
	for _, k := range []sim.Kind{sim.Arrive, sim.FirstToken, sim.Handoff, sim.Pull, sim.Pulled, sim.Reject, sim.Abort, sim.Drain, sim.Open, sim.StepEnd, sim.End} {
		e := finish(3)
		e.Kind = k
		w.Observe(e)
	}
	if err := w.Write(sample()); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	want := `{"request_id":"17","prompt_tokens":100,"output_tokens":5,"client_send_ms":10,"gateway_arrival_ms":10,` +
		`"queue_enter_ms":15,"prefill_start_ms":35,"prefill_end_ms":85,"first_token_server_ms":90,` +
		`"first_token_client_ms":90,"last_token_client_ms":180}` + "\n" + good + "\n"
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A file that is read and written again keeps its bytes, to the nanosecond.
func TestWriteReadWrite(t *testing.T) {
	records := []trace.Record{sample(), sample(), sample(), sample()}
	records[0].RequestID = "quote \" backslash \\ line\nend"
	records[1].RequestID, records[1].ClientSend = "é😀<&>", -1
	records[2].RequestID, records[2].LastTokenClient = "", 1<<62-1
	records[3].RequestID, records[3].ClientSend, records[3].LastTokenClient = "\ufffd", -(1<<62 - 1), ms(180)+120_340
	write := func(records []trace.Record) string {
		var b bytes.Buffer
		w := trace.Writer{W: &b}
		for _, r := range records {
			if err := w.Write(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	text := write(records)
	got, err := read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(records, got); d != "" {
		t.Errorf("records (-want +got):\n%s", d)
	}
	if d := cmp.Diff(text, write(got)); d != "" {
		t.Errorf("bytes (-want +got):\n%s", d)
	}
	for _, exact := range []string{`"client_send_ms":-0.000001,`, `"last_token_client_ms":4611686018427.387903}`, `"last_token_client_ms":180.12034}`} {
		if !strings.Contains(text, exact) {
			t.Errorf("no %s in\n%s", exact, text)
		}
	}
}

type failing struct{ after int }

func (f *failing) Write(p []byte) (int, error) {
	if f.after -= len(p); f.after < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestWriterErrors(t *testing.T) {
	w := trace.Writer{W: &failing{after: 100_000}}
	for i := range int64(10_000) {
		w.Observe(finish(i))
	}
	for range 2 { // the error stays
		if err := w.Flush(); err == nil || err.Error() != "trace: disk full" {
			t.Errorf("error %v", err)
		}
	}
	if err := w.Write(sample()); err == nil || err.Error() != "trace: disk full" {
		t.Errorf("error %v", err)
	}

	var b bytes.Buffer
	w = trace.Writer{W: &b}
	e := finish(17)
	e.Timeline.FirstToken = sim.NoTime
	w.Observe(e)
	for i := range int64(1000) { // nothing more is written
		w.Observe(finish(18 + i))
	}
	if b.Len() > 0 {
		t.Errorf("%d bytes behind a fault", b.Len())
	}
	if err := w.Flush(); err == nil || !strings.HasPrefix(err.Error(), "trace: request 17: first_token_server_ms -0.000001 is before prefill_end_ms 85:") {
		t.Errorf("error %v", err)
	}

	w = trace.Writer{W: &b}
	if err := w.Write(trace.Record{RequestID: "x"}); err == nil || err.Error() != `trace: request "x": prompt_tokens is 0, want at least 1` {
		t.Errorf("error %v", err)
	}
	if err := w.Flush(); err != nil || b.Len() > 0 {
		t.Errorf("a record that was refused left %q and error %v", &b, err)
	}

	w = trace.Writer{W: short{}}
	w.Observe(finish(1))
	if err := w.Flush(); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("error %v", err)
	}
}

type short struct{}

func (short) Write(p []byte) (int, error) { return len(p) - 1, nil }

func TestWriterAllocatesNothing(t *testing.T) {
	w := trace.Writer{W: io.Discard}
	for i := range int64(1000) { // fills the buffer once
		w.Observe(finish(i))
	}
	if got := testing.AllocsPerRun(1000, func() { w.Observe(finish(1 << 40)) }); got != 0 {
		t.Errorf("%v allocations a record", got)
	}
}

// A writer is listed in Config.Observers and flushed when the run is over.
func ExampleWriter() {
	w := trace.Writer{W: os.Stdout}
	w.Observe(sim.Event{Kind: sim.Finish, Serial: 17, Time: 2_000_500_000, Prompt: 512, Output: 128, Timeline: sim.Timeline{
		Arrival: 0, Queued: 0, Admitted: 1_000_000, PrefillEnd: 31_250_001, FirstToken: 31_250_001}})
	if err := w.Flush(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"request_id":"17","prompt_tokens":512,"output_tokens":128,"client_send_ms":0,"gateway_arrival_ms":0,"queue_enter_ms":0,"prefill_start_ms":1,"prefill_end_ms":31.250001,"first_token_server_ms":31.250001,"first_token_client_ms":31.250001,"last_token_client_ms":2000.5}
}
