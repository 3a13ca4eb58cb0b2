package metrics

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// histogram counts values of whole nanoseconds or tokens.
type histogram struct {
	bounds []float64 // in seconds or tokens
	upTo   []int64   // the same in units of a value; a value counts in the first that it does not exceed
	counts []int64   // one more than bounds
	unit   float64   // values in one of bounds
	n      int64
	sum    area
}

func newHistogram(bounds []float64, unit float64) histogram {
	h := histogram{bounds: bounds, counts: make([]int64, len(bounds)+1), unit: unit}
	for _, b := range bounds {
		h.upTo = append(h.upTo, int64(math.Round(b*unit)))
	}
	return h
}

func (h *histogram) add(value, count int64) {
	i, _ := slices.BinarySearch(h.upTo, value)
	h.counts[i] += count
	h.n += count
	h.sum.add(count, value)
}

// family is a metric of all engines.
type family struct {
	name, help string
	kind       string // gauge, counter or histogram
	// One of these gives what an engine has.
	gauge     func(*engine) (value float64, ok bool)
	counter   func(*engine) int64
	reasons   func(*engine) []reason
	histogram func(*engine) *histogram
}

// reason is how requests ended, and how many did.
type reason struct {
	name string
	n    int64
}

// families are the metrics in the order in which they are written.
var families = []family{
	{name: "num_requests_running", help: "Number of requests in model execution batches.", kind: "gauge",
		gauge: func(x *engine) (float64, bool) { return float64(x.running), true }},
	{name: "num_requests_waiting", help: "Number of requests waiting to be processed.", kind: "gauge",
		gauge: func(x *engine) (float64, bool) { return float64(x.waiting), true }},
	{name: "kv_cache_usage_perc", help: "KV-cache usage. 1 means 100 percent usage.", kind: "gauge",
		gauge: func(x *engine) (float64, bool) {
			return float64(x.used) / float64(max(x.usable, 1)), x.usable > 0
		}},
	{name: "prefix_cache_queries", help: "Prefix cache queries, in terms of number of queried tokens.", kind: "counter",
		counter: func(x *engine) int64 { return x.queries }},
	{name: "prefix_cache_hits", help: "Prefix cache hits, in terms of number of cached tokens.", kind: "counter",
		counter: func(x *engine) int64 { return x.cachedTokens }},
	{name: "num_preemptions", help: "Cumulative number of preemptions from the engine.", kind: "counter",
		counter: func(x *engine) int64 { return x.preemptions }},
	{name: "prompt_tokens", help: "Number of prefill tokens processed.", kind: "counter",
		counter: func(x *engine) int64 { return x.promptTokens }},
	{name: "prompt_tokens_cached", help: "Number of prompt tokens found in the prefix cache.", kind: "counter",
		counter: func(x *engine) int64 { return x.cachedTokens }},
	{name: "generation_tokens", help: "Number of generation tokens processed.", kind: "counter",
		counter: func(x *engine) int64 { return x.generationTokens }},
	{name: "request_success", help: "Count of finished requests.", kind: "counter",
		reasons: func(x *engine) []reason {
			return []reason{{"stop", x.stopped}, {"length", x.length}, {"abort", x.aborted}}
		}},
	{name: "request_prompt_tokens", help: "Number of prefill tokens of finished requests.", kind: "histogram",
		histogram: func(x *engine) *histogram { return &x.prompt }},
	{name: "request_generation_tokens", help: "Number of generation tokens of finished requests.", kind: "histogram",
		histogram: func(x *engine) *histogram { return &x.generation }},
	{name: "request_max_num_generation_tokens", help: "Largest number of generation tokens of a sequence of finished requests.", kind: "histogram",
		histogram: func(x *engine) *histogram { return &x.generation }},
	{name: "request_params_n", help: "The n request parameter.", kind: "histogram",
		histogram: func(x *engine) *histogram { return &x.n }},
	{name: "iteration_tokens_total", help: "Number of tokens per engine step.", kind: "histogram",
		histogram: func(x *engine) *histogram { return &x.iteration }},
	{name: "time_to_first_token_seconds", help: "Time to first token in seconds.", kind: "histogram",
		histogram: func(x *engine) *histogram { return &x.ttft }},
	{name: "time_per_output_token_seconds", help: "Deprecated: inter_token_latency_seconds.", kind: "histogram",
		histogram: func(x *engine) *histogram { return &x.itl }},
	{name: "inter_token_latency_seconds", help: "Inter-token latency in seconds.", kind: "histogram",
		histogram: func(x *engine) *histogram { return &x.itl }},
	{name: "request_time_per_output_token_seconds", help: "Time per output token of finished requests in seconds.", kind: "histogram",
		histogram: func(x *engine) *histogram { return &x.perToken }},
	{name: "e2e_request_latency_seconds", help: "End-to-end request latency in seconds.", kind: "histogram",
		histogram: func(x *engine) *histogram { return &x.e2e }},
	{name: "request_queue_time_seconds", help: "Time that requests waited in seconds.", kind: "histogram",
		histogram: func(x *engine) *histogram { return &x.queue }},
	{name: "request_inference_time_seconds", help: "Time that requests ran in seconds.", kind: "histogram",
		histogram: func(x *engine) *histogram { return &x.inference }},
	{name: "request_prefill_time_seconds", help: "Time of requests in prefill in seconds.", kind: "histogram",
		histogram: func(x *engine) *histogram { return &x.prefill }},
	{name: "request_decode_time_seconds", help: "Time of requests in decode in seconds.", kind: "histogram",
		histogram: func(x *engine) *histogram { return &x.decode }},
}

// AppendText appends what is exposed after the events so far.
func (p *Prometheus) AppendText(dst []byte) []byte {
	p.begin()
	model := `model_name="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(p.Model) + `"`
	for i := range families {
		dst = p.appendFamily(dst, &families[i], model)
	}
	return dst
}

func (p *Prometheus) appendFamily(dst []byte, f *family, model string) []byte {
	name := "vllm:" + f.name
	if f.kind == "counter" {
		name += "_total"
	}
	dst = append(dst, "# HELP "+name+" "+f.help+"\n# TYPE "+name+" "+f.kind+"\n"...)
	for i := range p.engines {
		x := &p.engines[i]
		labels := `engine="` + strconv.Itoa(i) + `",`
		switch {
		case f.gauge != nil:
			if value, ok := f.gauge(x); ok {
				dst = appendSample(dst, name, labels+model, value)
			}
		case f.counter != nil:
			dst = appendSample(dst, name, labels+model, float64(f.counter(x)))
		case f.reasons != nil:
			for _, r := range f.reasons(x) {
				dst = appendSample(dst, name, labels+`finished_reason="`+r.name+`",`+model, float64(r.n))
			}
		default:
			dst = f.histogram(x).appendText(dst, name, labels, model)
		}
	}
	return dst
}

func (h *histogram) appendText(dst []byte, name, labels, model string) []byte {
	sum := int64(0)
	for i, n := range h.counts {
		sum += n
		bound := "+Inf"
		if i < len(h.bounds) {
			bound = string(appendFloat(nil, h.bounds[i]))
		}
		dst = appendSample(dst, name+"_bucket", labels+`le="`+bound+`",`+model, float64(sum))
	}
	dst = appendSample(dst, name+"_count", labels+model, float64(h.n))
	return appendSample(dst, name+"_sum", labels+model, h.sum.float()/h.unit)
}

func appendSample(dst []byte, name, labels string, value float64) []byte {
	dst = append(dst, name...)
	dst = append(dst, '{')
	dst = append(dst, labels...)
	dst = append(dst, "} "...)
	return append(appendFloat(dst, value), '\n')
}

// appendFloat appends a number as Prometheus' Python client does, which the
// labels of bounds are compared with as text.
func appendFloat(dst []byte, x float64) []byte {
	if x == math.Trunc(x) && math.Abs(x) < 1e6 {
		return append(strconv.AppendFloat(dst, x, 'f', 0, 64), ".0"...)
	}
	return strconv.AppendFloat(dst, x, 'g', -1, 64)
}
