package trace

import (
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"time"

	"servesim/sim"
)

// Bench is the result of a benchmark.
type Bench struct {
	Settings BenchSettings
	Duration time.Duration
	// Requests are in order of submission. Without Detailed they hold Latency and
	// QueueTime only, or there are none.
	Requests []BenchRequest
	Detailed bool
	// Figures are the numbers of the other keys, such as completed and
	// p99_ttft_ms. Those that are null are not there.
	Figures map[string]float64
}

// BenchReader reads results of vLLM's `vllm bench serve`, of old and recent
// versions, and those of a BenchWriter.
type BenchReader struct {
	In   io.Reader
	Name string // what errors call the file
	// Limit bounds the values in the lists of one result, and so the memory that a
	// file takes: 8 bytes each. 0 means 2²⁸.
	Limit int
}

// Results yields the results of the file, which holds one JSON object or, written
// with --append-result, several, or one error, the last, which names the file,
// the byte and, where there is one, the key.
//
// Lists of requests must be equally long, lengths whole, times in order of what
// they measure; no key stands twice. A result without latencies, as most versions
// of vLLM write it, has the sum of TTFT and ITLs for each. Texts that were
// generated are left out, and so are lists and objects under keys that it does
// not know. Times are rounded to nanoseconds.
func (r BenchReader) Results() iter.Seq2[Bench, error] {
	return func(yield func(Bench, error) bool) {
		s := newStream(r.In)
		for n := 0; ; n++ {
			ended, err := s.ended()
			if ended && n > 0 {
				return
			}
			var b Bench
			if ended {
				err = fmt.Errorf("at least one result is required")
			} else if err == nil {
				b, err = r.result(s)
			}
			if err != nil {
				yield(Bench{}, fmt.Errorf("%s: byte %d: %w", r.Name, s.at, err))
				return
			}
			if !yield(b, nil) {
				return
			}
		}
	}
}

// benchColumns is what the lists of a result have.
type benchColumns struct {
	*stream
	out   Bench
	seen  map[string]bool
	sizes []benchSize // of the lists, in order
	left  int         // values that may come
}

type benchSize struct {
	name string
	n    int
}

// result reads one object.
func (r BenchReader) result(s *stream) (Bench, error) {
	c := benchColumns{stream: s, seen: map[string]bool{}, left: r.Limit, out: Bench{Figures: map[string]float64{}}}
	if c.left == 0 {
		c.left = 1 << 28
	}
	err := s.object(func(key string) error {
		if c.seen[key] {
			return fmt.Errorf("key %s stands twice", shorten([]byte(key)))
		}
		c.seen[key] = true
		return locate(shorten([]byte(key)), c.member(key))
	})
	if err != nil {
		return Bench{}, err
	}
	return c.finish()
}

// member reads the value of a key.
func (c *benchColumns) member(key string) error {
	s := &c.out.Settings
	switch key {
	case "date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id":
		field := map[string]*string{"date": &s.Date, "endpoint_type": &s.EndpointType, "backend": &s.Backend, "label": &s.Label,
			"model_id": &s.ModelID, "tokenizer_id": &s.TokenizerID}[key]
		return c.orNull(func() (err error) {
			*field, err = c.string()
			return err
		})
	case "request_rate":
		return c.rate(&s.RequestRate)
	case "burstiness":
		return c.positive(&s.Burstiness)
	case "max_concurrency":
		return c.orNull(func() (err error) {
			s.MaxConcurrency, err = c.whole()
			return err
		})
	case "duration":
		return c.duration(&c.out.Duration)
	case "input_lens":
		return c.column(key, func(r *BenchRequest) (err error) { r.Prompt, err = c.whole(); return err })
	case "output_lens":
		return c.column(key, func(r *BenchRequest) (err error) { r.Output, err = c.whole(); return err })
	case "ttfts":
		return c.column(key, func(r *BenchRequest) error { return c.duration(&r.TTFT) })
	case "latencies":
		return c.column(key, func(r *BenchRequest) error { return c.duration(&r.Latency) })
	case "queue_times":
		return c.column(key, func(r *BenchRequest) error { return c.duration(&r.QueueTime) })
	case "start_times":
		return c.column(key, func(r *BenchRequest) (err error) { r.Send, err = c.seconds(); return err })
	case "errors":
		return c.column(key, func(r *BenchRequest) error {
			return c.orNull(func() (err error) { r.Error, err = c.string(); return err })
		})
	case "itls":
		return c.column(key, func(r *BenchRequest) error { return c.gaps(&r.ITLs) })
	case "generated_texts":
		return c.skip(0)
	}
	return c.other(key)
}

// column reads a list of one value for each request.
func (c *benchColumns) column(name string, value func(*BenchRequest) error) error {
	n := 0
	err := c.list(func(i int) error {
		if i == len(c.out.Requests) {
			c.out.Requests = append(c.out.Requests, BenchRequest{})
		}
		n++
		return value(&c.out.Requests[i])
	})
	c.sizes = append(c.sizes, benchSize{name, n})
	return err
}

// gaps reads the gaps of one request.
func (c *benchColumns) gaps(dst *[]time.Duration) error {
	var gaps []time.Duration
	err := c.list(func(int) error {
		var g time.Duration
		err := c.duration(&g)
		gaps = append(gaps, g)
		return err
	})
	*dst = slices.Clip(gaps)
	return err
}

// value takes a number.
func (c *benchColumns) value() ([]byte, error) {
	if c.left--; c.left < 0 {
		return nil, fmt.Errorf("too many values")
	}
	text, err := c.scalar()
	if err == nil && text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		err = fmt.Errorf("is %s, want a number", shorten(text))
	}
	return text, err
}

func (c *benchColumns) whole() (int, error) {
	text, err := c.value()
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("is %s, want an integer from 0 to 2⁶³", shorten(text))
	}
	return n, nil
}

func (c *benchColumns) seconds() (sim.Time, error) {
	text, err := c.value()
	if err != nil {
		return 0, err
	}
	t, err := parseDecimal(text, 9)
	if err != nil {
		return 0, fmt.Errorf("is %s s, %w", shorten(text), err)
	}
	return t, nil
}

func (c *benchColumns) duration(d *time.Duration) error {
	t, err := c.seconds()
	if err == nil && t < 0 {
		err = fmt.Errorf("is %s s, want at least 0", appendDecimal(nil, int64(t), second))
	}
	*d = time.Duration(t)
	return err
}

func (c *benchColumns) number(x *float64) error {
	text, err := c.value()
	if err != nil {
		return err
	}
	if *x, err = strconv.ParseFloat(string(text), 64); err != nil {
		return fmt.Errorf("is %s, beyond a float64", shorten(text))
	}
	return nil
}

func (c *benchColumns) positive(x *float64) error {
	err := c.number(x)
	if err == nil && *x < 0 {
		err = fmt.Errorf("is %v, want at least 0", *x)
	}
	return err
}

// rate reads a rate that may be "inf".
func (c *benchColumns) rate(x *float64) error {
	first, err := c.peek()
	if err != nil {
		return err
	}
	if first != '"' {
		return c.positive(x)
	}
	text, err := c.string()
	if err == nil && text != "inf" {
		err = fmt.Errorf(`is %s, want a number or "inf"`, shorten([]byte(text)))
	}
	*x = math.Inf(1)
	return err
}

// orNull takes null, or what read does.
func (c *benchColumns) orNull(read func() error) error {
	first, err := c.peek()
	if err != nil || first != 'n' {
		if err == nil {
			err = read()
		}
		return err
	}
	_, err = c.scalar()
	return err
}

// other reads the value of a key that is a figure, or the user's own.
func (c *benchColumns) other(key string) error {
	first, err := c.peek()
	switch {
	case err != nil:
		return err
	case first == '"' && benchKey(key):
		return fmt.Errorf("want a number")
	case first == '"':
		text, err := c.string()
		if c.out.Settings.Metadata == nil {
			c.out.Settings.Metadata = map[string]string{}
		}
		c.out.Settings.Metadata[key] = text
		return err
	case first == '-' || first >= '0' && first <= '9':
		var x float64
		err := c.number(&x)
		c.out.Figures[key] = x
		return err
	}
	return c.skip(0)
}

// finish checks what the lists have together.
func (c *benchColumns) finish() (Bench, error) {
	b := &c.out
	for _, s := range c.sizes {
		if s.n != len(b.Requests) {
			i := slices.IndexFunc(c.sizes, func(o benchSize) bool { return o.n == len(b.Requests) })
			return Bench{}, fmt.Errorf("%s has %d values, %s has %d", s.name, s.n, c.sizes[i].name, c.sizes[i].n)
		}
	}
	b.Detailed = c.seen["input_lens"]
	if !b.Detailed {
		return *b, nil
	}
	for _, key := range []string{"output_lens", "ttfts"} {
		if !c.seen[key] {
			return Bench{}, fmt.Errorf("%s is missing beside input_lens", key)
		}
	}
	for i := range b.Requests {
		r := &b.Requests[i]
		if !c.seen["start_times"] {
			r.Send = Unknown
		}
		if !c.seen["latencies"] {
			r.Latency = r.TTFT
			for _, g := range r.ITLs {
				if r.Latency += g; r.Latency >= time.Duration(limit) {
					break
				}
			}
		}
		if r.Error == "" && r.TTFT > r.Latency || r.Latency >= time.Duration(limit) {
			return Bench{}, fmt.Errorf("request %d: its latency is %s s, its TTFT %s s", i,
				appendDecimal(nil, int64(r.Latency), second), appendDecimal(nil, int64(r.TTFT), second))
		}
	}
	return *b, nil
}

// Entries yields the requests that succeeded as partial entries of a trace: the
// instants at the client, and those of its tokens if each came in a chunk of its
// own. Ids are their numbers, from 0. The one error says that the result has no
// details, or no start times, or which request makes no valid entry.
func (b *Bench) Entries() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if !b.Detailed {
			yield(Entry{}, fmt.Errorf("trace: a result without the lists of its requests"))
			return
		}
		for i := range b.Requests {
			r := &b.Requests[i]
			if r.Error != "" || r.Output == 0 {
				continue
			}
			e, err := r.entry(strconv.Itoa(i))
			if err != nil {
				yield(Entry{}, fmt.Errorf("trace: request %d: %w", i, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// rounding is how far sums of times in floating point may be apart.
const rounding = time.Microsecond

// entry returns a request as an entry.
func (r *BenchRequest) entry(id string) (Entry, error) {
	if r.Send == Unknown {
		return Entry{}, fmt.Errorf("start_times are missing")
	}
	e := Entry{Record: Record{RequestID: id, PromptTokens: r.Prompt, OutputTokens: r.Output, ClientSend: r.Send,
		GatewayArrival: Unknown, QueueEnter: Unknown, PrefillStart: Unknown, PrefillEnd: Unknown, FirstTokenServer: Unknown,
		FirstTokenClient: r.Send.Add(r.TTFT), LastTokenClient: r.Send.Add(r.Latency)}}
	if len(r.ITLs)+1 == r.Output {
		e.Details.ClientTokens = r.tokens(e.FirstTokenClient, e.LastTokenClient)
	}
	return e, e.ValidatePartial()
}

// tokens returns the instants of tokens that came one by one, or nil if the gaps
// do not lead from the first to the last.
func (r *BenchRequest) tokens(first, last sim.Time) []sim.Time {
	tokens := append(make([]sim.Time, 0, len(r.ITLs)+1), first)
	at := first
	for _, g := range r.ITLs {
		if at = at.Add(g); at > last.Add(rounding) {
			return nil
		}
		tokens = append(tokens, min(at, last))
	}
	if last.Sub(at) > rounding {
		return nil
	}
	tokens[len(tokens)-1] = last
	return tokens
}
