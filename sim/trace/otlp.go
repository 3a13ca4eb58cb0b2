package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"time"

	"servesim/sim"
)

// OTLP is a sim.Observer that writes one trace for every request as OTLP/JSON:
// lines of one ExportTraceServiceRequest each, as the OpenTelemetry Collector's
// file exporter writes and its readers take them.
//
//	chat MODEL             CLIENT, client_send → last_token_client
//	├ network_in           INTERNAL; a child for each phase that is measured, of
//	├ gateway              no length too
//	│ …
//	└ stream
//
// The first token at the client and every preemption are events of the parent.
// A request that is rejected or aborted has the status error, its reason in
// error.type, and the phases up to its end. Unfinished requests are left out.
//
// A trace id is the first 16 bytes of the SHA-256 of Run, 8 bytes big-endian, and
// the request id; the 8 bytes behind them, less their last four bits, and 1 are
// the parent's span id. The child of phase p has that and p + 1. Times are those
// of the run behind Epoch. Nothing else decides them: a run has the same bytes
// whenever it is written.
//
// Attributes of the parent have the names of the OpenTelemetry GenAI conventions
// (open-telemetry/semantic-conventions-genai 024a4f94, status Development) and
// those that vLLM gives its span llm_request (vllm/tracing, 2025), which differ.
// vLLM's times are seconds on the server: from queue_enter, its arrival, or from
// prefill_start, to the first or the last token there. Those that need the last
// token at the server are left out where neither the tokens' instants nor a
// client beside the engine tell it. Names below servesim. are our own: details of
// an entry, and labels.
//
// What is kept is 8 bytes and some for each preemption of a request in flight.
// Call Flush at the end.
type OTLP struct {
	W io.Writer

	Service string // service.name; "" means "servesim"
	Run     uint64 // service.instance.id, and part of ids: the seed of the run
	Model   string // gen_ai.request.model; "" is left out
	// Epoch is the time of day of instant 0, not before 1970. The zero value
	// means 2023-11-14T22:13:20Z, 1.7e9 seconds behind 1970.
	Epoch time.Time
	// PerLine is how many requests stand on a line; 0 means 1.
	PerLine int

	// Tokens writes the instants of every token at either end. The run must have
	// Config.TokenTimes.
	Tokens bool
	// Labels writes a Label beside every request that completes, with the causes
	// that Causes says. Without it a profiler is blind.
	Labels bool
	Causes func(e sim.Event) []string

	buffered
	scratch
	head      []byte // what every line begins with
	title     []byte // name of a parent
	epoch     int64  // ns behind 1970
	onLine    int    // requests on the line that is open
	preempted map[int64][]sim.Time
	idle      [][]sim.Time // lists of requests that have ended
	digest    [sha256.Size]byte
	hashed    []byte
}

// defaultEpoch is where a zero Epoch lies, in seconds behind 1970.
const defaultEpoch = 1_700_000_000

// otlpScope names the instrumentation in a line.
const otlpScope = "servesim/sim/trace"

// otlpOperation is gen_ai.operation.name.
const otlpOperation = "chat"

// Numbers of enumerations in OTLP.
const (
	otlpInternal = 1
	otlpClient   = 3
	otlpError    = 2
)

// otlpTail ends a line.
const otlpTail = `]}]}]}`

// otlpRequest is what is written of a request.
type otlpRequest struct {
	Entry
	end        sim.Time // of the parent, where it failed
	lastServer sim.Time // last token at the server, or Unknown
	preempted  []sim.Time
	reason     string // of the end; "" is not known
	failed     sim.Kind
	label      Label
	labelled   bool
}

// Observe writes the trace of a request that ends. A fault is kept for Flush,
// and nothing is written after it.
func (o *OTLP) Observe(e sim.Event) {
	if o.err != nil {
		return
	}
	switch e.Kind {
	case sim.Preempt:
		o.preempt(&e)
	case sim.Finish, sim.Reject, sim.Abort:
		list, ok := o.preempted[e.Serial]
		if err := o.request(&e, list); err != nil {
			o.err = fmt.Errorf("trace: request %d: %w", e.Serial, err)
		}
		if ok {
			delete(o.preempted, e.Serial)
			o.idle = append(o.idle, list[:0])
		}
	}
}

// preempt notes a preemption of a request in flight.
func (o *OTLP) preempt(e *sim.Event) {
	if o.preempted == nil {
		o.preempted = map[int64][]sim.Time{}
	}
	list, ok := o.preempted[e.Serial]
	if n := len(o.idle); !ok && n > 0 {
		list, o.idle = o.idle[n-1], o.idle[:n-1]
	}
	o.preempted[e.Serial] = append(list, e.Time)
}

func (o *OTLP) request(e *sim.Event, preempted []sim.Time) error {
	if e.Kind != sim.Finish {
		r := failed(e)
		r.preempted = preempted
		return o.write(&r, e.Serial)
	}
	line, err := o.line(e, o.Tokens)
	if err != nil {
		return err
	}
	r := otlpRequest{Entry: line, lastServer: e.Time, preempted: preempted, reason: e.Reason}
	if o.Labels {
		l, err := causedLabel(e, &line.Record, o.Causes)
		if err != nil {
			return err
		}
		r.label, r.labelled = l, true
	}
	return o.write(&r, e.Serial)
}

// failed is what is known of a request that did not complete.
func failed(e *sim.Event) otlpRequest {
	r := otlpRequest{Entry: Entry{Record: timeline(e)}, end: e.Client().Done, lastServer: Unknown, reason: e.Reason, failed: e.Kind}
	if r.reason == "" {
		r.reason = e.Kind.String()
	}
	r.LastTokenClient = Unknown
	t := &e.Timeline
	for i, at := range []sim.Time{t.Queued, t.Admitted, t.PrefillEnd, t.FirstToken} {
		if at == sim.NoTime {
			*r.instants()[int(Queue)+i] = Unknown
		}
	}
	if t.FirstToken == sim.NoTime {
		r.FirstTokenClient = Unknown
	}
	before := r.ClientSend
	for _, at := range r.instants() {
		if *at == Unknown {
			continue
		}
		if *at < before || *at > r.end { // a path that cannot be, which is why it was rejected
			r.Record = Record{PromptTokens: e.Prompt, OutputTokens: e.Output, ClientSend: t.Arrival, GatewayArrival: t.Arrival,
				QueueEnter: Unknown, PrefillStart: Unknown, PrefillEnd: Unknown, FirstTokenServer: Unknown, FirstTokenClient: Unknown, LastTokenClient: Unknown}
			r.end = max(t.Arrival, e.Time)
			return r
		}
		before = *at
	}
	return r
}

// Write writes an entry from elsewhere. It returns the error of Flush, or says
// why the entry is not valid; an entry that is not valid leaves the file as it
// was.
func (o *OTLP) Write(e Entry) error {
	if o.err != nil {
		return o.err
	}
	if err := e.Validate(); err != nil {
		return fmt.Errorf("trace: request %q: %w", e.RequestID, err)
	}
	return o.WriteUnchecked(e)
}

// WriteUnchecked writes an entry whatever it holds, for broken traces made on
// purpose. Phases that lack an end have no child. An instant that is in no child
// is an event of the parent with the instant's name. The parent then starts with
// the first instant and ends with the last. An entry without any instant, or with
// one before 1970, is an error.
func (o *OTLP) WriteUnchecked(e Entry) error { return o.writeEntry(&otlpRequest{Entry: e}) }

// WriteLabelled is WriteUnchecked with the label of the request.
func (o *OTLP) WriteLabelled(e Entry, l Label) error {
	if err := l.of(&e); err != nil {
		return err
	}
	return o.writeEntry(&otlpRequest{Entry: e, label: l, labelled: true})
}

func (o *OTLP) writeEntry(r *otlpRequest) error {
	if o.err != nil {
		return o.err
	}
	r.lastServer = Unknown
	if n := len(r.Details.ServerTokens); n > 0 {
		r.lastServer = r.Details.ServerTokens[n-1]
	} else if r.FirstTokenServer != Unknown && r.FirstTokenServer == r.FirstTokenClient {
		r.lastServer = r.LastTokenClient
	}
	if err := o.write(r, -1); err != nil {
		return fmt.Errorf("trace: request %q: %w", r.RequestID, err)
	}
	return o.err
}

// WriteOTLP writes entries to o, valid or not, and flushes it. It returns the
// first error of either.
func WriteOTLP(o *OTLP, entries iter.Seq2[Entry, error]) error {
	for e, err := range entries {
		if err == nil {
			err = o.WriteUnchecked(e)
		}
		if err != nil {
			return errors.Join(err, o.Flush())
		}
	}
	return o.Flush()
}

// Flush ends the line and writes what is buffered. It returns the first fault
// since the start.
func (o *OTLP) Flush() error {
	if o.onLine > 0 {
		o.endRequests()
	}
	o.flush(o.W)
	return o.err
}

func (o *OTLP) endRequests() {
	o.buf = append(o.buf, otlpTail...)
	o.onLine = 0
	o.endLine(o.W)
}

// begin makes what every line begins with.
func (o *OTLP) begin() error {
	if o.head != nil {
		return nil
	}
	if o.PerLine < 0 {
		return fmt.Errorf("OTLP.PerLine is %d, want at least 0", o.PerLine)
	}
	o.epoch = defaultEpoch * second
	if !o.Epoch.IsZero() {
		if s := o.Epoch.Unix(); s < 0 || s >= math.MaxInt64/second {
			return fmt.Errorf("OTLP.Epoch is %v, want 1970 to 2262", o.Epoch)
		}
		o.epoch = o.Epoch.UnixNano()
	}
	service := o.Service
	if service == "" {
		service = "servesim"
	}
	h := []byte(`{"resourceSpans":[{"resource":{"attributes":[`)
	h = otlpString(h, "service.name", service)
	h = otlpString(h, "service.instance.id", strconv.FormatUint(o.Run, 10))
	h = otlpInt(h, otlpEpoch, o.epoch)
	h = append(h, `]},"scopeSpans":[{"scope":{"name":"`+otlpScope+`"},"spans":[`...)
	o.head = h
	title := otlpOperation
	if o.Model != "" {
		title += " " + o.Model
	}
	o.title = appendString(nil, title)
	return nil
}

// write writes the trace of a request, of the run if serial is not negative.
func (o *OTLP) write(r *otlpRequest, serial int64) error {
	if err := o.begin(); err != nil {
		return err
	}
	start, end, err := o.bounds(r)
	if err != nil {
		return err
	}
	o.hash(r, serial)
	if o.onLine == 0 {
		o.buf = append(o.buf, o.head...)
	} else {
		o.buf = append(o.buf, ',')
	}
	o.span(0, start, end, otlpClient)
	o.buf = append(append(o.buf, o.title...), `,"attributes":[`...)
	o.genAI(r, serial)
	o.vllm(r, serial)
	o.own(&r.Entry)
	if r.labelled {
		o.buf = otlpLabel(o.buf, &r.label)
	}
	o.buf = append(o.buf, `],"events":[`...)
	o.events(r)
	o.buf = append(o.buf, `],`...)
	o.status(r)
	o.children(r)
	o.onLine++
	if o.onLine >= o.PerLine {
		o.endRequests()
	} else {
		o.drain(o.W)
	}
	return nil
}

// bounds returns where the parent starts and ends.
func (o *OTLP) bounds(r *otlpRequest) (start, end sim.Time, err error) {
	start, end = Unknown, Unknown
	known := false
	note := func(t sim.Time) {
		switch {
		case t == Unknown:
			return
		case !inRange(t) || o.epoch+int64(t) < 0:
			err = fmt.Errorf("an instant at %s lies before 1970 or beyond 2262", appendMillis(nil, t))
		case !known:
			start, end, known = t, t, true
		}
		start, end = min(start, t), max(end, t)
	}
	for _, t := range r.instants() {
		note(*t)
	}
	for _, t := range r.preempted {
		note(t)
	}
	if r.failed != 0 {
		note(r.end)
	}
	if err == nil && !known {
		err = errors.New("it has no instant")
	}
	if r.ClientSend != Unknown {
		start = r.ClientSend
	}
	if r.LastTokenClient != Unknown {
		end = r.LastTokenClient
	}
	return start, end, err
}

// hash makes the ids of a request.
func (o *OTLP) hash(r *otlpRequest, serial int64) {
	o.hashed = binary.BigEndian.AppendUint64(o.hashed[:0], o.Run)
	if serial >= 0 {
		o.hashed = strconv.AppendInt(o.hashed, serial, 10)
	} else {
		o.hashed = append(o.hashed, r.RequestID...)
	}
	o.digest = sha256.Sum256(o.hashed)
	o.digest[23] = o.digest[23]&^15 | 1 // neither it nor what is added to it is 0
}

func (o *OTLP) spanID(n byte) {
	id := [8]byte(o.digest[16:24])
	id[7] += n
	o.buf = hex.AppendEncode(o.buf, id[:])
}

// span begins the parent, n = 0, or its nth child, up to its name.
func (o *OTLP) span(n byte, start, end sim.Time, kind int64) {
	o.buf = append(o.buf, `{"traceId":"`...)
	o.buf = hex.AppendEncode(o.buf, o.digest[:16])
	o.buf = append(o.buf, `","spanId":"`...)
	o.spanID(n)
	if n > 0 {
		o.buf = append(o.buf, `","parentSpanId":"`...)
		o.spanID(0)
	}
	o.buf = append(o.buf, `","kind":`...)
	o.buf = strconv.AppendInt(o.buf, kind, 10)
	o.buf = o.unix(append(o.buf, `,"startTimeUnixNano":"`...), start)
	o.buf = o.unix(append(o.buf, `","endTimeUnixNano":"`...), end)
	o.buf = append(o.buf, `","name":`...)
}

func (o *OTLP) unix(dst []byte, t sim.Time) []byte {
	return strconv.AppendInt(dst, o.epoch+int64(t), 10)
}

// genAI appends the attributes of the GenAI conventions.
func (o *OTLP) genAI(r *otlpRequest, serial int64) {
	b := otlpString(o.buf, "gen_ai.operation.name", otlpOperation)
	b = otlpString(b, "gen_ai.provider.name", "servesim")
	if o.Model != "" {
		b = otlpString(b, "gen_ai.request.model", o.Model)
		b = otlpString(b, "gen_ai.response.model", o.Model)
	}
	b = append(otlpKey(b, "gen_ai.request.stream"), `"boolValue":true}}`...)
	b = otlpID(b, "gen_ai.response.id", r.RequestID, serial)
	switch {
	case r.failed != 0:
		b = otlpString(b, "error.type", r.reason)
	case r.reason != "":
		b = append(otlpKey(b, "gen_ai.response.finish_reasons"), `"arrayValue":{"values":[{"stringValue":`...)
		b = append(appendString(b, r.reason), `}]}}}`...)
	}
	if ttft := r.TTFT(); ttft != Unmeasured {
		b = otlpSeconds(b, "gen_ai.response.time_to_first_chunk", ttft)
	}
	b = otlpInt(b, otlpInput, int64(r.PromptTokens))
	b = otlpInt(b, otlpOutput, int64(r.OutputTokens))
	if r.Details.HasCached {
		b = otlpInt(b, otlpCached, int64(r.Details.CachedTokens))
	}
	o.buf = b
}

// vllm appends the attributes of vLLM's spans.
func (o *OTLP) vllm(r *otlpRequest, serial int64) {
	b := otlpID(o.buf, otlpRequestID, r.RequestID, serial)
	b = otlpInt(b, "gen_ai.request.n", 1)
	b = otlpInt(b, "gen_ai.usage.num_sequences", 1)
	b = otlpInt(b, "gen_ai.usage.prompt_tokens", int64(r.PromptTokens))
	b = otlpInt(b, "gen_ai.usage.completion_tokens", int64(r.OutputTokens))
	for _, s := range [...]struct {
		key      string
		from, to sim.Time
	}{
		{"gen_ai.latency.time_in_queue", r.QueueEnter, r.PrefillStart},
		{"gen_ai.latency.time_to_first_token", r.QueueEnter, r.FirstTokenServer},
		{"gen_ai.latency.time_in_model_prefill", r.PrefillStart, r.FirstTokenServer},
		{"gen_ai.latency.time_in_model_decode", r.FirstTokenServer, r.lastServer},
		{"gen_ai.latency.time_in_model_inference", r.PrefillStart, r.lastServer},
		{"gen_ai.latency.e2e", r.QueueEnter, r.lastServer},
	} {
		if d := span(s.from, s.to); d != Unmeasured {
			b = otlpSeconds(b, s.key, d)
		}
	}
	o.buf = b
}

// own appends the details that no convention has a name for.
func (o *OTLP) own(e *Entry) {
	d, b := &e.Details, o.buf
	if d.Class != "" {
		b = otlpString(b, otlpClass, d.Class)
	}
	if d.Route != "" {
		b = otlpString(b, otlpRoute, d.Route)
	}
	for i, v := range d.durations() {
		if *v != 0 {
			b = otlpInt(b, otlpDurations[i], int64(*v))
		}
	}
	for i, tokens := range [...][]sim.Time{d.ServerTokens, d.ClientTokens} {
		if tokens == nil {
			continue
		}
		b = append(otlpKey(b, otlpTokens[i]), `"arrayValue":{"values":[`...)
		for i, t := range tokens {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(append(b, `{"intValue":"`...), int64(t), 10)
			b = append(b, `"}`...)
		}
		b = append(b, `]}}}`...)
	}
	o.buf = b
}

// events appends the events of the parent.
func (o *OTLP) events(r *otlpRequest) {
	if r.FirstTokenClient != Unknown {
		o.event("first_token", r.FirstTokenClient)
	}
	for _, t := range r.preempted {
		o.event("preemption", t)
	}
	if r.failed != 0 {
		return
	}
	times := r.instants()
	for i, t := range times {
		inChild := i > 0 && *times[i-1] != Unknown || i < NumPhases && *times[i+1] != Unknown
		if *t != Unknown && !inChild {
			o.event(instantName(i), *t)
		}
	}
}

func (o *OTLP) event(name string, at sim.Time) {
	o.buf = o.unix(append(otlpNext(o.buf), `{"timeUnixNano":"`...), at)
	o.buf = append(append(append(o.buf, `","name":"`...), name...), `"}`...)
}

// status ends a span.
func (o *OTLP) status(r *otlpRequest) {
	o.buf = append(o.buf, `"status":{`...)
	if r != nil && r.failed != 0 {
		o.buf = strconv.AppendInt(append(o.buf, `"code":`...), otlpError, 10)
		o.buf = appendString(append(o.buf, `,"message":`...), r.reason)
	}
	o.buf = append(o.buf, `}}`...)
}

// children appends the spans of the phases, and of the phase in which a request
// failed.
func (o *OTLP) children(r *otlpRequest) {
	times := r.instants()
	for p := range NumPhases {
		from, to := *times[p], *times[p+1]
		ended := r
		switch {
		case from == Unknown:
			continue
		case to != Unknown:
			ended = nil
		case r.failed == 0:
			continue
		default:
			to = r.end
		}
		o.buf = append(o.buf, ',')
		o.span(byte(p+1), from, to, otlpInternal)
		o.buf = append(appendString(o.buf, phaseNames[p]), ',')
		o.status(ended)
	}
}
