package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"servesim/examples/internal/command"
	"servesim/examples/internal/terminal"
	"servesim/sim"
	"servesim/sim/profile"
	"servesim/sim/trace"
)

const ms = time.Millisecond

// burst is the positive case: ten requests with the same service, one a
// second, behind a queue that grows. Only the queue can be to blame for the
// first token.
func burst() (records []trace.Record) {
	for i, queue := range []time.Duration{4, 8, 12, 18, 45, 90, 170, 260, 390, 520} {
		r := trace.Record{RequestID: fmt.Sprintf("burst-%02d", i+1), PromptTokens: 2048, OutputTokens: 65}
		r.ClientSend = sim.Time(i+1) * sim.Time(time.Second)
		r.GatewayArrival = r.ClientSend.Add(18 * ms)
		r.QueueEnter = r.GatewayArrival.Add(6 * ms)
		r.PrefillStart = r.QueueEnter.Add(queue * ms)
		r.PrefillEnd = r.PrefillStart.Add(145 * ms)
		r.FirstTokenServer = r.PrefillEnd.Add(11 * ms)
		r.FirstTokenClient = r.FirstTokenServer.Add(18 * ms)
		r.LastTokenClient = r.FirstTokenClient.Add(64 * 22 * ms)
		records = append(records, r)
	}
	return records
}

// broken is the negative case: a prefill that ends 5 ms before it starts.
func broken() []trace.Record {
	records := burst()[:1]
	records[0].PrefillEnd = records[0].PrefillStart.Add(-5 * ms)
	return records
}

// builtin is the JSON of a run without a file.
type builtin struct {
	Report   profile.Report `json:"report"`
	Negative string         `json:"negative_case"` // why it is refused
}

func (o *options) writeBuiltin(w io.Writer) error {
	if o.Arrivals == "" {
		o.Arrivals = "replayed burst"
	}
	report, err := profile.Analyse(burst(), o.Options)
	if err != nil {
		return err
	}
	_, refusal := profile.Analyse(broken(), o.Options)
	if refusal == nil {
		return fmt.Errorf("the negative case was accepted")
	}
	reason := strings.TrimPrefix(refusal.Error(), "profile: ")
	if o.json {
		return command.WriteJSON(w, builtin{report, reason})
	}
	fmt.Fprintln(w, "POSITIVE CASE: a burst, the same service for all and a queue that grows")
	if err := report.WriteText(w); err != nil {
		return err
	}
	fmt.Fprint(w, "\nNEGATIVE CASE: a prefill that ends 5 ms before it starts\n")
	terminal.Wrap(w, "refused: ", reason)
	return nil
}
