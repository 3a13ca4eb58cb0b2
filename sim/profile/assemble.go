package profile

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"servesim/sim/trace"
)

// Report describes the requests so far. Without one it is an error.
func (p *Profiler) Report() (Report, error) {
	if len(p.rows) == 0 {
		return Report{}, fmt.Errorf("profile: %w", trace.ErrEmpty)
	}
	measured := make([]*row, 0, len(p.rows))
	for i := range p.rows {
		if p.rows[i].measured() {
			measured = append(measured, &p.rows[i])
		}
	}
	f := p.figures(measured)
	r := Report{Requests: len(p.rows), Unmeasured: len(p.rows) - len(measured),
		TTFT: f.ttft, ITL: f.itl, E2E: f.e2e, Phases: f.phases, ResidualMs: f.residual,
		DominantTTFT: f.dominantTTFT, DominantE2E: f.dominantE2E,
		Prompt: p.tokens(func(r *row) int { return r.prompt }), Output: p.tokens(func(r *row) int { return r.output }),
		Delivery: p.delivery.report(p, measured), Arrivals: p.arrivals(), ClockMs: Number(float64(p.clock) / 1e6)}
	for i := range p.rows {
		if p.rows[i].output == 1 {
			r.OneToken++
		}
		if !p.rows[i].complete() {
			r.Partial++
		}
	}
	if len(measured) > 0 {
		flights := inFlight(measured)
		r.Tails = []Tail{p.tail("ttft", measured, flights), p.tail("e2e", measured, flights)}
	}
	r.Groups = p.groups(measured)
	r.Little = p.little(measured)
	r.Targets = p.targets(measured)
	r.Coordinates = p.coordinates(&r)
	r.Findings = p.findings(&r)
	return r, nil
}

// figures are what is said of any set of requests.
type figures struct {
	ttft, itl, e2e            Latency
	phases                    []Phase
	residual                  Number
	dominantTTFT, dominantE2E Dominant
}

func (p *Profiler) figures(rows []*row) figures {
	f := figures{ttft: p.latency(rows, (*row).ttft), itl: p.latency(rows, (*row).itl), e2e: p.latency(rows, (*row).e2e)}
	var rest total
	for _, r := range rows {
		rest.add(r.residual())
	}
	f.residual = Number(rest.mean())
	var means []Number
	for i := range trace.NumPhases {
		phase := trace.Phase(i)
		values, sum := measure(rows, func(r *row) float64 { return r.phase(phase) })
		mean := undefined()
		if len(values) > 0 {
			mean = Number(sum.over(len(rows)))
		}
		means = append(means, mean)
		f.phases = append(f.phases, Phase{Phase: phase.String(), N: len(values), MeanMs: mean, P50Ms: p.at(values, 0.5), P95Ms: p.at(values, 0.95),
			MaxMs: largest(values)})
	}
	f.dominantTTFT = dominant(means[:trace.Stream], f.residual, f.ttft.Mean)
	f.dominantE2E = dominant(means, f.residual, f.e2e.Mean)
	return f
}

// measure returns the values that are defined, sorted, and their sum.
func measure(rows []*row, value func(*row) float64) ([]float64, *total) {
	values := make([]float64, 0, len(rows))
	sum := &total{}
	for _, r := range rows {
		if v := value(r); !math.IsNaN(v) {
			values = append(values, v)
			sum.add(v)
		}
	}
	slices.Sort(values)
	return values, sum
}

// at is a percentile of a sorted sample.
func (p *Profiler) at(sorted []float64, q float64) Number {
	return Number(percentile(sorted, q, p.options.Percentiles))
}

func largest(sorted []float64) Number {
	if len(sorted) == 0 {
		return undefined()
	}
	return Number(sorted[len(sorted)-1])
}

func (p *Profiler) latency(rows []*row, value func(*row) float64) Latency {
	return p.summary(measure(rows, value))
}

func (p *Profiler) summary(sorted []float64, sum *total) Latency {
	l := Latency{N: len(sorted), Mean: Number(sum.mean()), P50: p.at(sorted, 0.50), P95: p.at(sorted, 0.95), P99: p.at(sorted, 0.99), Max: largest(sorted)}
	if l.N > 0 && l.N < 20 {
		l.Few = append(l.Few, "p95")
	}
	if l.N > 0 && l.N < 100 {
		l.Few = append(l.Few, "p99")
	}
	return l
}

func (p *Profiler) tokens(count func(*row) int) Tokens {
	values := make([]float64, len(p.rows))
	for i := range p.rows {
		values[i] = float64(count(&p.rows[i]))
	}
	slices.Sort(values)
	return Tokens{p.at(values, 0.50), p.at(values, 0.95)}
}

// arrivals describes the instants at which requests were sent.
func (p *Profiler) arrivals() Arrivals {
	var sent []int64
	for i := range p.rows {
		if t := p.rows[i].times[clientSend]; t != unknown {
			sent = append(sent, t)
		}
	}
	slices.Sort(sent)
	a := Arrivals{SpanS: undefined(), RatePerS: undefined(), GapCV: undefined()}
	if len(sent) < 2 {
		return a
	}
	a.SpanS = Number(float64(sent[len(sent)-1]-sent[0]) / 1e9)
	a.RatePerS = over(float64(len(sent)-1), float64(a.SpanS))
	gaps := make([]float64, len(sent)-1)
	for i := range gaps {
		gaps[i] = float64(sent[i+1] - sent[i])
	}
	mean, deviation := stat.PopMeanStdDev(gaps, nil)
	a.GapCV = over(deviation, mean)
	return a
}

func (p *Profiler) targets(measured []*row) *Targets {
	o := &p.options
	if o.TTFT == 0 && o.ITL == 0 && o.E2E == 0 {
		return nil
	}
	ms := func(d time.Duration) Number {
		if d == 0 {
			return undefined()
		}
		return Number(float64(d) / 1e6)
	}
	t := &Targets{TTFTMs: ms(o.TTFT), ITLMs: ms(o.ITL), E2EMs: ms(o.E2E)}
	for _, r := range measured {
		// In whole nanoseconds: a request exactly at its target meets it.
		ttft := o.TTFT == 0 || r.between(clientSend, firstTokenClient) <= o.TTFT
		stream := r.between(firstTokenClient, lastTokenClient)
		itl := o.ITL == 0 || r.output < 2 || float64(stream) <= float64(o.ITL)*float64(r.output-1)
		e2e := o.E2E == 0 || r.between(clientSend, lastTokenClient) <= o.E2E
		t.MetTTFT += count(ttft)
		t.MetITL += count(itl)
		t.MetE2E += count(e2e)
		t.Met += count(ttft && itl && e2e)
	}
	t.Attainment = over(float64(t.Met), float64(len(p.rows)))
	return t
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (p *Profiler) coordinates(r *Report) Coordinates {
	method := "linear interpolation at (N-1)q"
	if p.options.Percentiles == NearestRank {
		method = "nearest rank, ⌈qN⌉"
	}
	shape := fmt.Sprintf("input p50/p95 %s/%s, output p50/p95 %s/%s tokens",
		r.Prompt.P50.digits(0), r.Prompt.P95.digits(0), r.Output.P50.digits(0), r.Output.P95.digits(0))
	if r.Prompt.P50 == r.Prompt.P95 && r.Output.P50 == r.Output.P95 {
		shape = fmt.Sprintf("%s input / %s output tokens", r.Prompt.P50.digits(0), r.Output.P50.digits(0))
	}
	return Coordinates{
		Boundary:   "client: from client_send to the first and last token at the client",
		Metric:     "TTFT; ITL as one mean gap a request, none for one token; E2E",
		Percentile: "p50, p95 and p99 by " + method,
		Arrivals:   p.options.Arrivals,
		Shape:      shape,
	}
}

// crossing are the phases that run from one clock to another.
var crossing = []trace.Phase{trace.NetworkIn, trace.Gateway, trace.NetworkToFirst}

// findings are what a reader of the figures must know beside them.
func (p *Profiler) findings(r *Report) (list []string) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if r.Unmeasured > 0 {
		add("%s of %d without an instant of the client: no TTFT or E2E, and left out of every latency", plural(r.Unmeasured, "request"), r.Requests)
	}
	if r.ResidualMs > 0 {
		add("%v ms of the mean E2E lie in no measured phase: residual, given to none", r.ResidualMs)
	}
	if r.ClockMs > 0 {
		for _, phase := range crossing {
			if f := r.Phases[phase]; f.N > 0 && f.MeanMs <= r.ClockMs {
				add("%v takes %v ms in the mean, no more than the %v ms by which clocks may be apart: it cannot be told from nothing", phase, f.MeanMs, r.ClockMs)
			}
		}
	}
	if r.Little.Finding != "" {
		add("%s", r.Little.Finding)
	}
	if r.Little.Unsteady != "" {
		add("%s", r.Little.Unsteady)
	}
	if v := r.Delivery.Verdict; v == TransportBuffering || v == TransportJitter || v == EngineGroups {
		add("%s: %s", v, r.Delivery.Reason)
	}
	if t := r.Targets; t != nil {
		if alone := min(t.MetTTFT, t.MetITL, t.MetE2E); 10*t.Met < 9*alone {
			add("each target alone is met by at least %s, all together by %d: budgets that hold apart do not hold jointly", plural(alone, "request"), t.Met)
		}
	}
	return list
}
