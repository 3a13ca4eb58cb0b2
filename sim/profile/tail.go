package profile

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"

	"servesim/sim/trace"
)

// Tail compares the requests above a percentile of a latency, its exceedance
// set, with the rest.
type Tail struct {
	Metric      string `json:"metric"`       // ttft or e2e
	Quantile    Number `json:"quantile"`     // such as 0.95
	ThresholdMs Number `json:"threshold_ms"` // the percentile itself
	// N requests are above the threshold. Where nobody is, because the slowest
	// tie, they are those at it. Rest are the others.
	N    int `json:"n"`
	Rest int `json:"rest"`
	// IDs are the slowest of the tail, at most 10, the slowest first.
	IDs []string `json:"ids"`

	MeanMs     Number `json:"mean_ms"`
	RestMeanMs Number `json:"rest_mean_ms"`
	// Excess splits MeanMs - RestMeanMs, the largest part first. Phases that a
	// request lacks are in the residual.
	Excess []Excess `json:"excess"`
	// Factors are what the requests of the tail are like, the most telling
	// first. They are candidates for a cause, not causes.
	Factors []Factor `json:"factors"`
}

// Excess is the part of a phase, or of the residual, in what the tail takes
// longer than the rest.
type Excess struct {
	Phase  string `json:"phase"`
	TailMs Number `json:"tail_ms"` // mean
	RestMs Number `json:"rest_ms"`
	Share  Number `json:"share"` // of the whole excess
}

// Factor compares a property of the requests in the tail with the rest.
type Factor struct {
	// Name is prompt_tokens, output_tokens, uncached_tokens or in_flight (the
	// requests in the system when this one was sent); or class=NAME,
	// route=NAME, cache=STATUS for the share of requests that have it.
	Name string `json:"name"`
	Tail Number `json:"tail"` // median of a number; share, 0 to 1
	Rest Number `json:"rest"`
	// Separation is the largest difference between the two distribution
	// functions (Kolmogorov and Smirnov): 0 is no difference, 1 no overlap.
	Separation Number `json:"separation"`
	// Distinct says that chance would separate sets of these sizes as much less
	// than once in a thousand times.
	Distinct bool `json:"distinct"`
}

// idsShown is how many requests a tail names.
const idsShown = 10

func (p *Profiler) tail(metric string, rows []*row, flights []float64) Tail {
	value, phases := (*row).ttft, int(trace.Stream)
	if metric == "e2e" {
		value, phases = (*row).e2e, trace.NumPhases
	}
	sorted, _ := measure(rows, value)
	t := Tail{Metric: metric, Quantile: Number(p.options.Tail), ThresholdMs: p.at(sorted, p.options.Tail)}
	threshold := float64(t.ThresholdMs)
	above := func(v float64) bool { return v > threshold }
	if !above(sorted[len(sorted)-1]) {
		above = func(v float64) bool { return v >= threshold }
	}
	var in, out set
	for i, r := range rows {
		if above(value(r)) {
			in.add(r, flights[i])
		} else {
			out.add(r, flights[i])
		}
	}
	t.N, t.Rest = len(in.rows), len(out.rows)
	t.IDs = slowest(in.rows, value)
	t.MeanMs, t.RestMeanMs = in.mean(value), out.mean(value)
	t.Excess = excess(&in, &out, value, phases)
	t.Factors = p.factors(&in, &out)
	return t
}

// set is one side of the comparison.
type set struct {
	rows    []*row
	flights []float64
}

func (s *set) add(r *row, flight float64) {
	s.rows = append(s.rows, r)
	s.flights = append(s.flights, flight)
}

// mean of a value that every request has; undefined for no request.
func (s *set) mean(value func(*row) float64) Number {
	var sum total
	for _, r := range s.rows {
		sum.add(value(r))
	}
	return Number(sum.mean())
}

func slowest(rows []*row, value func(*row) float64) []string {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b *row) int { return cmp.Compare(value(b), value(a)) })
	ids := []string{}
	for _, r := range rows[:min(idsShown, len(rows))] {
		ids = append(ids, r.id)
	}
	return ids
}

// excess splits the difference of the means. A phase that some request lacks
// cannot be compared: its time is part of the residual.
func excess(in, out *set, value func(*row) float64, phases int) []Excess {
	var list []Excess
	whole := float64(in.mean(value) - out.mean(value))
	restTail, restOther := in.mean(value), out.mean(value)
	add := func(name string, tail, rest Number) {
		list = append(list, Excess{name, tail, rest, over(float64(tail-rest), whole)})
	}
	lacking := false
	for i := range phases {
		phase := trace.Phase(i)
		if lacks := func(r *row) bool { return math.IsNaN(r.phase(phase)) }; slices.ContainsFunc(in.rows, lacks) || slices.ContainsFunc(out.rows, lacks) {
			lacking = true
			continue
		}
		length := func(r *row) float64 { return r.phase(phase) }
		tail, rest := in.mean(length), out.mean(length)
		add(phase.String(), tail, rest)
		restTail, restOther = restTail-tail, restOther-rest
	}
	if lacking {
		add(residual, restTail, restOther)
	}
	slices.SortStableFunc(list, func(a, b Excess) int { return cmp.Compare(b.TailMs-b.RestMs, a.TailMs-a.RestMs) })
	return list
}

// factors compares what is known of the requests beside their phases.
func (p *Profiler) factors(in, out *set) []Factor {
	list := []Factor{}
	if len(in.rows) == 0 || len(out.rows) == 0 {
		return list
	}
	n, m := float64(len(in.rows)), float64(len(out.rows))
	// The asymptotic bound of Smirnov's two-sample test at 1/1000; for shares
	// and other values with ties it errs to the safe side.
	bound := math.Sqrt(math.Log(2*1000)/2) * math.Sqrt((n+m)/(n*m))
	numbers := func(name string, a, b []float64) {
		if len(a) == 0 || len(b) == 0 {
			return
		}
		slices.Sort(a)
		slices.Sort(b)
		d := stat.KolmogorovSmirnov(a, nil, b, nil)
		list = append(list, Factor{name, p.at(a, 0.5), p.at(b, 0.5), Number(d), d > bound})
	}
	tokens := func(name string, value func(*row) float64) {
		a, _ := measure(in.rows, value)
		b, _ := measure(out.rows, value)
		numbers(name, a, b)
	}
	tokens("prompt_tokens", func(r *row) float64 { return float64(r.prompt) })
	tokens("output_tokens", func(r *row) float64 { return float64(r.output) })
	if p.cached {
		tokens("uncached_tokens", func(r *row) float64 {
			if r.cached < 0 {
				return math.NaN()
			}
			return float64(r.prompt - r.cached)
		})
	}
	numbers("in_flight", slices.Clone(in.flights), slices.Clone(out.flights))
	for _, d := range p.dimensions() {
		if d.ordered {
			continue // a band of the prompt says less than the prompt
		}
		list = append(list, p.share(d, in, out, bound))
	}
	list = slices.DeleteFunc(list, func(f Factor) bool { return f.Separation < 1e-9 }) // equal but for rounding
	slices.SortStableFunc(list, func(a, b Factor) int { return cmp.Compare(b.Separation, a.Separation) })
	return list
}

// share compares the one value of a dimension that the tail has most in excess
// of the rest.
func (p *Profiler) share(d dimension, in, out *set, bound float64) Factor {
	shares := func(s *set) map[string]float64 {
		m := map[string]float64{}
		for _, r := range s.rows {
			m[d.of(r)]++
		}
		for name := range m {
			m[name] /= float64(len(s.rows))
		}
		return m
	}
	a, b := shares(in), shares(out)
	best := ""
	for _, name := range sortedKeys(a) {
		if best == "" || a[name]-b[name] > a[best]-b[best] {
			best = name
		}
	}
	separation := max(0, a[best]-b[best])
	return Factor{d.name + "=" + best, Number(a[best]), Number(b[best]), Number(separation), separation > bound}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, strings.Compare)
	return keys
}

// inFlight counts, for each request, the others that were in the system when
// it was sent: sent before it, or at the same instant, and not ended.
func inFlight(rows []*row) []float64 {
	sent, ended := make([]int64, len(rows)), make([]int64, len(rows))
	for i, r := range rows {
		sent[i], ended[i] = r.times[clientSend], r.times[lastTokenClient]
	}
	slices.Sort(sent)
	slices.Sort(ended)
	counts := make([]float64, len(rows))
	for i, r := range rows {
		t := r.times[clientSend]
		came, _ := slices.BinarySearch(sent, t+1)
		left, _ := slices.BinarySearch(ended, t+1)
		counts[i] = float64(max(0, came-left-1))
	}
	return counts
}

// shareText formats a share of the whole: 92 %.
func shareText(v Number) string {
	if !v.Defined() {
		return "–"
	}
	return strconv.FormatFloat(100*float64(v), 'f', 0, 64) + " %"
}
