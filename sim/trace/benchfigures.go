package trace

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"servesim/sim"
)

// benchKeys are the keys of a result, but for the figures of latencies.
var benchKeys = []string{"date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts", "request_rate", "burstiness",
	"max_concurrency", "duration", "completed", "failed", "total_input_tokens", "total_output_tokens", "request_throughput", "request_goodput",
	"output_throughput", "total_token_throughput", "max_output_tokens_per_s", "max_concurrent_requests", "rtfx",
	"input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "queue_times", "generated_texts", "errors"}

// benchKey reports whether a key is one of the format's.
func benchKey(key string) bool {
	if slices.Contains(benchKeys, key) {
		return true
	}
	for _, m := range []string{"_ttft_ms", "_tpot_ms", "_itl_ms", "_e2el_ms"} {
		if strings.HasSuffix(key, m) {
			return true
		}
	}
	return false
}

// benchSeconds counts what happens in each second from an origin on.
type benchSeconds struct {
	begun  bool
	origin sim.Time
	chunks map[int64]int64
	moves  map[int64]int64 // requests that begin in a second, less those that ended in the one before
	at     int64           // the second of the latest chunks
	n      int64           // those
}

func (s *benchSeconds) begin(send sim.Time) {
	if !s.begun {
		*s = benchSeconds{begun: true, origin: send, chunks: map[int64]int64{}, moves: map[int64]int64{}}
	}
}

func (s *benchSeconds) of(t sim.Time) int64 {
	d := int64(t.Sub(s.origin))
	if d < 0 {
		return -((-d + second - 1) / second)
	}
	return d / second
}

// chunk counts a chunk; most come in the second of the one before.
func (s *benchSeconds) chunk(t sim.Time) {
	if at := s.of(t); at != s.at {
		s.chunks[s.at] += s.n
		s.at, s.n = at, 0
	}
	s.n++
}

// active counts a request in each second that it touches.
func (s *benchSeconds) active(from, to sim.Time) {
	s.moves[s.of(from)]++
	s.moves[s.of(to)+1]--
}

// peaks returns the most chunks, and the most requests, of a second.
func (s *benchSeconds) peaks() (chunks, active int64) {
	if !s.begun {
		return 0, 0
	}
	s.chunks[s.at] += s.n
	s.n = 0
	for _, n := range s.chunks {
		chunks = max(chunks, n)
	}
	seconds := make([]int64, 0, len(s.moves))
	for at := range s.moves {
		seconds = append(seconds, at)
	}
	slices.Sort(seconds)
	level := int64(0)
	for _, at := range seconds {
		level += s.moves[at]
		active = max(active, level)
	}
	return chunks, active
}

// totals appends counts and rates.
func (b *BenchWriter) totals() {
	duration := b.Duration
	if duration == 0 && len(b.rows) > 0 {
		first := b.rows[0].send
		for i := range b.rows {
			first = min(first, b.rows[i].send)
		}
		duration = b.end.Sub(first)
	}
	var completed, good, input, output int64
	for i := range b.rows {
		if r := &b.rows[i]; r.fault == 0 {
			completed++
			input += int64(r.prompt)
			output += int64(r.output)
			if b.Goodput.met(r) {
				good++
			}
		}
	}
	rate := func(n int64) float64 {
		if duration == 0 {
			return 0
		}
		return float64(n) / duration.Seconds()
	}
	b.key("duration")
	b.seconds64(int64(duration))
	b.integer("completed", completed)
	b.integer("failed", int64(len(b.rows))-completed)
	b.integer("total_input_tokens", input)
	b.integer("total_output_tokens", output)
	b.float("request_throughput", rate(completed))
	if b.Goodput == (BenchGoodput{}) {
		b.null("request_goodput")
	} else {
		b.float("request_goodput", rate(good))
	}
	b.float("output_throughput", rate(output))
	b.float("total_token_throughput", rate(input+output))
	chunks, active := b.seconds.peaks()
	b.float("max_output_tokens_per_s", float64(chunks))
	b.integer("max_concurrent_requests", active)
	b.float("rtfx", 0)
}

// met reports whether a completed request keeps the limits. One token has a TPOT
// of 0.
func (g *BenchGoodput) met(r *benchRow) bool {
	tpot := 0.0
	if r.output > 1 {
		tpot = float64(r.latency-r.ttft) / float64(r.output-1)
	}
	return (g.TTFT == 0 || r.ttft <= g.TTFT) && (g.TPOT == 0 || tpot <= float64(g.TPOT)) && (g.E2EL == 0 || r.latency <= g.E2EL)
}

// weighted is a value in nanoseconds that occurs n times.
type weighted struct {
	value float64
	n     int64
}

// figures appends what is said of the latencies.
func (b *BenchWriter) figures() {
	each := func(value func(*benchRow) (float64, bool)) []weighted {
		var values []weighted
		for i := range b.rows {
			if r := &b.rows[i]; r.fault == 0 {
				if x, ok := value(r); ok {
					values = append(values, weighted{x, 1})
				}
			}
		}
		return values
	}
	b.latency("ttft", each(func(r *benchRow) (float64, bool) { return float64(r.ttft), true }))
	b.latency("tpot", each(func(r *benchRow) (float64, bool) {
		return float64(r.latency-r.ttft) / float64(r.output-1), r.output > 1
	}))
	gaps := make([]weighted, 0, len(b.gaps))
	for g, n := range b.gaps {
		gaps = append(gaps, weighted{float64(g), n})
	}
	b.latency("itl", gaps)
	b.latency("e2el", each(func(r *benchRow) (float64, bool) { return float64(r.latency), true }))
}

// latency appends the figures of values, which it sorts. Those of none are 0.
func (b *BenchWriter) latency(name string, values []weighted) {
	slices.SortFunc(values, func(a, b weighted) int {
		switch {
		case a.value < b.value:
			return -1
		case a.value > b.value:
			return 1
		}
		return 0
	})
	n := int64(0)
	sum, squares := 0.0, 0.0
	for _, v := range values {
		n += v.n
		sum += float64(v.value * float64(v.n))
	}
	mean := sum / float64(max(n, 1))
	for _, v := range values {
		d := v.value - mean
		squares += float64(float64(d*d) * float64(v.n))
	}
	ms := float64(time.Millisecond)
	b.float("mean_"+name+"_ms", mean/ms)
	b.float("median_"+name+"_ms", linear(values, n, 50)/ms)
	b.float("std_"+name+"_ms", math.Sqrt(squares/float64(max(n, 1)))/ms)
	percentiles := b.Percentiles
	if percentiles == nil {
		percentiles = []float64{99}
	}
	for _, p := range percentiles {
		b.float("p"+strconv.FormatFloat(p, 'f', -1, 64)+"_"+name+"_ms", linear(values, n, p)/ms)
	}
}

// linear returns the p-th percentile of n sorted values, at the position
// p/100·(n-1), or 0 of none.
func linear(values []weighted, n int64, p float64) float64 {
	if n == 0 {
		return 0
	}
	position := p / 100 * float64(n-1)
	below := int64(position)
	at := func(i int64) float64 {
		for _, v := range values {
			if i < v.n {
				return v.value
			}
			i -= v.n
		}
		return values[len(values)-1].value
	}
	x := at(below)
	return x + float64((at(below+1)-x)*(position-float64(below)))
}
