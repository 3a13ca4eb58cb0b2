package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"servesim/sim"
)

// BenchRequest is one request of a benchmark, as its client saw it.
type BenchRequest struct {
	Prompt int // tokens
	Output int // tokens; 0 if it failed
	// Send is on the benchmark's clock, with a free origin; Unknown in results
	// without start_times.
	Send sim.Time
	// TTFT and Latency count from Send to the first and the last token; 0 if it
	// failed. QueueTime is what it waited at the client before Send.
	TTFT, Latency, QueueTime time.Duration
	// ITLs are the gaps between chunks. Tokens that came together are one chunk:
	// there may be fewer gaps than tokens. nil is not recorded, or none.
	ITLs  []time.Duration
	Error string // "" if it succeeded
}

// BenchSettings are what a result says of the benchmark itself.
type BenchSettings struct {
	Date         string // such as 20260101-000000
	EndpointType string
	Backend      string
	Label        string // "" is null
	ModelID      string
	TokenizerID  string
	// RequestRate is in requests a second; 0 and infinity are "inf".
	RequestRate float64
	Burstiness  float64 // 0 means 1
	// MaxConcurrency 0 is null: no limit.
	MaxConcurrency int
	// Metadata are fields of the user's own. No key may be one of the format's.
	Metadata map[string]string
}

// BenchGoodput holds the limits of a request that counts for goodput. 0 means
// none; without any the goodput is null.
type BenchGoodput struct{ TTFT, TPOT, E2EL time.Duration }

// BenchWriter is a sim.Observer that writes the result of a run as vLLM's
// `vllm bench serve` does: one JSON object, written by Flush. It needs
// Config.TokenTimes.
//
// Every attempt of a client is a request, in order of arrival. Times are those at
// the client (sim.Path); requests that are rejected, aborted or unfinished have
// failed, with the reason as error, and nothing of what they received is held. A
// prompt of less than no tokens, which the engine rejects, has none.
// Definitions are vLLM's: TPOT is one value for each request with more than one
// token, ITL has one for each gap between chunks; percentiles interpolate
// linearly; deviations are those of the population; figures of nothing are 0. The
// seconds of max_output_tokens_per_s, which counts chunks, and
// max_concurrent_requests begin with the first request that is sent.
//
// The format has its columns in order of submission, so that each request takes
// some 64 bytes until the end, and each different gap some 40. With Detailed the
// gaps themselves go to Spill, about four bytes each.
//
// The format does not hold replicas, classes, phases of the engine, preemptions,
// or which tokens a chunk is made of.
type BenchWriter struct {
	W        io.Writer
	Settings BenchSettings
	// Detailed keeps the lists of each request, as --save-detailed does.
	Detailed bool
	// Percentiles to write, 0 to 100; nil means 99.
	Percentiles []float64
	Goodput     BenchGoodput
	// Duration of the benchmark; 0 means from the first request that is sent to
	// the last response.
	Duration time.Duration
	// Spill holds what would fill memory; an *os.File does, empty and opened for
	// reading and writing. nil means memory.
	Spill interface {
		io.Writer
		io.ReaderAt
	}

	buffered
	rows    []benchRow
	errors  []string         // texts of row.fault
	faults  map[string]int32 // their indices
	live    map[int64]int    // rows of requests in flight, by serial
	gaps    map[time.Duration]int64
	seconds benchSeconds
	end     sim.Time // last response
	spilled int64    // bytes
	done    bool
	scratch struct {
		sampled, delivered []sim.Time
		gaps               []time.Duration
		bytes              []byte
	}
}

// benchRow is what is kept of a request.
type benchRow struct {
	prompt, output       int
	send                 sim.Time
	ttft, latency, queue time.Duration
	at                   int64 // its gaps in the spill
	gapBytes             int32
	fault                int32 // index of its error; 0 is success
}

// unfinished is the error of requests that the run left behind.
const unfinished = "unfinished"

// Observe takes in an event. A fault is kept for Flush.
func (b *BenchWriter) Observe(e sim.Event) {
	if b.err != nil {
		return
	}
	switch e.Kind {
	case sim.Arrive:
		if b.live == nil {
			b.live = map[int64]int{}
		}
		b.live[e.Serial] = len(b.rows)
		send := e.Time.Add(-e.Path().Before())
		b.rows = append(b.rows, benchRow{prompt: max(e.Prompt, 0), send: send, fault: b.fault(unfinished)})
		b.seconds.begin(send)
	case sim.Finish, sim.Reject, sim.Abort:
		i, ok := b.live[e.Serial]
		if !ok {
			b.err = fmt.Errorf("trace: a %v event of request %d, which has not arrived", e.Kind, e.Serial)
			return
		}
		delete(b.live, e.Serial)
		if e.Kind == sim.Finish {
			b.finish(&e, &b.rows[i])
			return
		}
		b.end = max(b.end, e.Client().Done)
		reason := e.Reason
		if reason == "" {
			reason = "aborted"
		}
		b.rows[i].fault = b.fault(reason)
	}
}

// finish takes the tokens of a request that completes.
func (b *BenchWriter) finish(e *sim.Event, row *benchRow) {
	s := &b.scratch
	s.sampled = e.TokenTimes(s.sampled[:0])
	if len(s.sampled) == 0 {
		if e.Output > 1 {
			b.err = fmt.Errorf("trace: request %d: no times of its tokens: set Config.TokenTimes", e.Serial)
			return
		}
		s.sampled = append(s.sampled, e.Time)
	}
	s.delivered = e.Path().Deliver(s.delivered[:0], s.sampled)
	s.gaps = appendChunkGaps(s.gaps[:0], s.delivered)
	row.output, row.fault = e.Output, 0
	row.ttft = s.delivered[0].Sub(row.send)
	row.latency = s.delivered[len(s.delivered)-1].Sub(row.send)
	b.succeed(row, s.gaps)
}

// appendChunkGaps appends the gaps between the chunks that tokens came in.
func appendChunkGaps(dst []time.Duration, tokens []sim.Time) []time.Duration {
	for i := 1; i < len(tokens); i++ {
		if tokens[i] > tokens[i-1] {
			dst = append(dst, tokens[i].Sub(tokens[i-1]))
		}
	}
	return dst
}

// succeed counts what a completed request received.
func (b *BenchWriter) succeed(row *benchRow, gaps []time.Duration) {
	b.end = max(b.end, row.send.Add(row.latency))
	if b.gaps == nil {
		b.gaps = map[time.Duration]int64{}
	}
	at := row.send.Add(row.ttft)
	b.seconds.chunk(at)
	for _, g := range gaps {
		b.gaps[g]++
		at = at.Add(g)
		b.seconds.chunk(at)
	}
	b.seconds.active(row.send, row.send.Add(row.latency))
	if b.Detailed {
		b.keep(row, gaps)
	}
}

// keep puts the gaps of a request into the spill.
func (b *BenchWriter) keep(row *benchRow, gaps []time.Duration) {
	if b.Spill == nil {
		b.Spill = &memorySpill{}
	}
	text := b.scratch.bytes[:0]
	for _, g := range gaps {
		text = binary.AppendUvarint(text, uint64(g))
	}
	b.scratch.bytes = text
	if len(text) > math.MaxInt32 {
		b.err = fmt.Errorf("trace: a request with %d gaps between tokens", len(gaps))
		return
	}
	row.at, row.gapBytes = b.spilled, int32(len(text))
	if n, err := b.Spill.Write(text); err != nil || n < len(text) {
		b.err = fmt.Errorf("trace: BenchWriter.Spill: %w", errors.Join(err, shortWrite(n, len(text))))
	}
	b.spilled += int64(len(text))
}

func shortWrite(n, want int) error {
	if n < want {
		return io.ErrShortWrite
	}
	return nil
}

// memorySpill is a spill in memory.
type memorySpill struct{ text []byte }

func (m *memorySpill) Write(p []byte) (int, error) {
	m.text = append(m.text, p...)
	return len(p), nil
}

func (m *memorySpill) ReadAt(p []byte, at int64) (int, error) { return copy(p, m.text[at:]), nil }

// fault returns the index of an error text.
func (b *BenchWriter) fault(text string) int32 {
	if b.faults == nil {
		b.faults, b.errors = map[string]int32{"": 0}, []string{""}
	}
	i, ok := b.faults[text]
	if !ok {
		i = int32(len(b.errors))
		b.errors = append(b.errors, text)
		b.faults[text] = i
	}
	return i
}

// Write adds a request from elsewhere. It returns the first fault since the
// start, or why the request cannot be, which leaves the result as it was.
func (b *BenchWriter) Write(r BenchRequest) error {
	if b.err != nil {
		return b.err
	}
	if err := r.validate(); err != nil {
		return fmt.Errorf("trace: request %d: %w", len(b.rows), err)
	}
	b.fault("")
	row := benchRow{prompt: r.Prompt, send: r.Send, queue: r.QueueTime, fault: b.fault(r.Error)}
	if b.seconds.begin(r.Send); row.fault == 0 {
		row.output, row.ttft, row.latency = r.Output, r.TTFT, r.Latency
		b.succeed(&row, r.ITLs)
	}
	b.end = max(b.end, r.Send)
	b.rows = append(b.rows, row)
	return b.err
}

func (r *BenchRequest) validate() error {
	for _, f := range []struct {
		name string
		bad  bool
		have any
	}{
		{"Prompt", r.Prompt < 0, r.Prompt}, {"Output", r.Output < 0, r.Output},
		{"Send", !inRange(r.Send), r.Send},
		{"TTFT", r.TTFT < 0 || r.TTFT > r.Latency, r.TTFT}, {"Latency", !inRange(sim.Time(r.Latency)), r.Latency},
		{"QueueTime", r.QueueTime < 0, r.QueueTime},
	} {
		if f.bad {
			return fmt.Errorf("BenchRequest.%s is %v", f.name, f.have)
		}
	}
	sum := r.TTFT
	for i, g := range r.ITLs {
		if g < 0 || !inRange(sim.Time(g)) {
			return fmt.Errorf("BenchRequest.ITLs[%d] is %v", i, g)
		}
		if sum += g; !inRange(sim.Time(sum)) {
			return fmt.Errorf("BenchRequest.ITLs add up to more than 146 years")
		}
	}
	return nil
}

// WriteEntry adds a completed request of a trace: its client's side. The gaps
// need the instants of its tokens at the client; without those it has none, and
// the figures of ITL are those of the others.
func (b *BenchWriter) WriteEntry(e Entry) error {
	if err := e.ValidatePartial(); err != nil {
		return fmt.Errorf("trace: request %q: %w", e.RequestID, err)
	}
	if e.ClientSend == Unknown || e.FirstTokenClient == Unknown || e.LastTokenClient == Unknown {
		return fmt.Errorf("trace: request %q: client_send_ms, first_token_client_ms or last_token_client_ms is not known", e.RequestID)
	}
	r := BenchRequest{Prompt: e.PromptTokens, Output: e.OutputTokens, Send: e.ClientSend, TTFT: e.TTFT(), Latency: e.E2E()}
	b.scratch.gaps = appendChunkGaps(b.scratch.gaps[:0], e.Details.ClientTokens)
	r.ITLs = b.scratch.gaps
	return b.Write(r)
}

// Flush writes the result, once. It returns the first fault since the start.
func (b *BenchWriter) Flush() error {
	if b.err == nil && !b.done {
		b.err = b.check()
	}
	if b.err != nil || b.done {
		return b.err
	}
	b.done = true
	b.fault("")
	b.object()
	b.flush(b.W)
	return b.err
}

func (b *BenchWriter) check() error {
	for _, p := range b.Percentiles {
		if !(p >= 0 && p <= 100) {
			return fmt.Errorf("trace: BenchWriter.Percentiles has %v", p)
		}
	}
	s := &b.Settings
	switch {
	case !(s.RequestRate >= 0):
		return fmt.Errorf("trace: BenchSettings.RequestRate is %v", s.RequestRate)
	case !(s.Burstiness >= 0) || math.IsInf(s.Burstiness, 0):
		return fmt.Errorf("trace: BenchSettings.Burstiness is %v", s.Burstiness)
	case s.MaxConcurrency < 0:
		return fmt.Errorf("trace: BenchSettings.MaxConcurrency is %d", s.MaxConcurrency)
	case b.Duration < 0:
		return fmt.Errorf("trace: BenchWriter.Duration is %v", b.Duration)
	}
	for key := range s.Metadata {
		if benchKey(key) {
			return fmt.Errorf("trace: BenchSettings.Metadata has %q, a key of the format", key)
		}
	}
	return nil
}

// object appends the result.
func (b *BenchWriter) object() {
	s := &b.Settings
	b.buf = append(b.buf, '{')
	b.text("date", s.Date)
	b.text("endpoint_type", s.EndpointType)
	b.text("backend", s.Backend)
	b.textOrNull("label", s.Label)
	b.text("model_id", s.ModelID)
	b.text("tokenizer_id", s.TokenizerID)
	b.integer("num_prompts", int64(len(b.rows)))
	keys := make([]string, 0, len(s.Metadata))
	for key := range s.Metadata {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		b.text(key, s.Metadata[key])
	}
	if s.RequestRate == 0 || math.IsInf(s.RequestRate, 1) {
		b.text("request_rate", "inf")
	} else {
		b.float("request_rate", s.RequestRate)
	}
	if s.Burstiness == 0 {
		b.float("burstiness", 1)
	} else {
		b.float("burstiness", s.Burstiness)
	}
	if s.MaxConcurrency == 0 {
		b.null("max_concurrency")
	} else {
		b.integer("max_concurrency", int64(s.MaxConcurrency))
	}
	b.totals()
	b.columns()
	b.figures()
	b.buf = append(b.buf, "}\n"...)
}

// columns appends the lists, one value a request.
func (b *BenchWriter) columns() {
	if b.Detailed {
		b.column("input_lens", func(r *benchRow) { b.buf = strconv.AppendInt(b.buf, int64(r.prompt), 10) })
		b.column("output_lens", func(r *benchRow) { b.buf = strconv.AppendInt(b.buf, int64(r.output), 10) })
		b.column("ttfts", func(r *benchRow) { b.seconds64(int64(r.ttft)) })
		b.column("itls", b.gapList)
	}
	b.column("latencies", func(r *benchRow) { b.seconds64(int64(r.latency)) })
	if b.Detailed {
		b.column("start_times", func(r *benchRow) { b.seconds64(int64(r.send)) })
	}
	b.column("queue_times", func(r *benchRow) { b.seconds64(int64(r.queue)) })
	if b.Detailed {
		b.column("generated_texts", func(*benchRow) { b.buf = append(b.buf, `""`...) })
		b.column("errors", func(r *benchRow) { b.buf = appendString(b.buf, b.errors[r.fault]) })
	}
}

func (b *BenchWriter) column(name string, value func(*benchRow)) {
	b.key(name)
	b.buf = append(b.buf, '[')
	for i := range b.rows {
		if i > 0 {
			b.buf = append(b.buf, ',')
		}
		value(&b.rows[i])
		b.drain(b.W)
	}
	b.buf = append(b.buf, ']')
}

// gapList appends the gaps of a request.
func (b *BenchWriter) gapList(r *benchRow) {
	text := slices.Grow(b.scratch.bytes[:0], int(r.gapBytes))[:r.gapBytes]
	b.scratch.bytes = text
	if r.gapBytes > 0 && b.err == nil {
		if n, err := b.Spill.ReadAt(text, r.at); n < len(text) {
			b.err = fmt.Errorf("trace: BenchWriter.Spill: %w", errors.Join(err, io.ErrUnexpectedEOF))
			return
		}
	}
	b.buf = append(b.buf, '[')
	for i := 0; len(text) > 0; i++ {
		if i > 0 {
			b.buf = append(b.buf, ',')
		}
		g, n := binary.Uvarint(text)
		if n <= 0 {
			b.err = errors.New("trace: BenchWriter.Spill does not hold what was written to it")
			return
		}
		b.seconds64(int64(g))
		text = text[n:]
	}
	b.buf = append(b.buf, ']')
}

func (b *BenchWriter) key(name string) {
	if b.buf[len(b.buf)-1] != '{' {
		b.buf = append(b.buf, ',')
	}
	b.buf = append(appendString(b.buf, name), ':')
}

func (b *BenchWriter) text(name, s string) {
	b.key(name)
	b.buf = appendString(b.buf, s)
}

func (b *BenchWriter) textOrNull(name, s string) {
	if s == "" {
		b.null(name)
		return
	}
	b.text(name, s)
}

func (b *BenchWriter) null(name string) {
	b.key(name)
	b.buf = append(b.buf, "null"...)
}

func (b *BenchWriter) integer(name string, n int64) {
	b.key(name)
	b.buf = strconv.AppendInt(b.buf, n, 10)
}

// float appends a number that has a point or an exponent, as Python writes it.
func (b *BenchWriter) float(name string, x float64) {
	b.key(name)
	from := len(b.buf)
	b.buf = strconv.AppendFloat(b.buf, x, 'g', -1, 64)
	for _, c := range b.buf[from:] {
		if c == '.' || c == 'e' {
			return
		}
	}
	b.buf = append(b.buf, ".0"...)
}

func (b *BenchWriter) seconds64(ns int64) { b.buf = appendDecimal(b.buf, ns, second) }
