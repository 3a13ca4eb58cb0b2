package main

import (
	"encoding/json"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// figure is a real and a simulated value, and their relative difference.
type figure struct {
	Metric    string   `json:"metric"`
	Unit      string   `json:"unit"`
	Real      float64  `json:"real"`
	Simulated float64  `json:"simulated"`
	Error     float64  `json:"error"` // simulated/real - 1
	Peer      *float64 `json:"peer_error,omitempty"`
}

func newFigure(metric, unit string, real, simulated float64) figure {
	return figure{Metric: metric, Unit: unit, Real: real, Simulated: simulated, Error: simulated/real - 1}
}

// latencies are those of all requests, in seconds. TTFT and E2E count from the
// moment that the engine takes the request from its inbox, which is where the
// recorded clocks and the peer's figures start. TPOT has no entry for a request
// of one token.
type latencies struct{ ttft, tpot, e2e []float64 }

func (r *recording) latencies() (l latencies) {
	for _, m := range r.requests {
		l.add(m.Queued, m.First, m.Last, m.Output)
	}
	return l
}

func (h *history) latencies(rec *recording) (l latencies) {
	for i, q := range h.requests {
		l.add(q.taken, q.first, q.last, rec.requests[i].Output)
	}
	return l
}

func (l *latencies) add(queued, first, last float64, output int) {
	l.ttft = append(l.ttft, first-queued)
	l.e2e = append(l.e2e, last-queued)
	if output > 1 {
		l.tpot = append(l.tpot, (last-first)/float64(output-1))
	}
}

// compare returns every figure of a run.
func compare(rec *recording, h *history) []figure {
	real, simulated := rec.latencies(), h.latencies(rec)
	var list []figure
	for _, m := range []struct {
		name      string
		real, sim []float64
	}{{"TTFT", real.ttft, simulated.ttft}, {"TPOT", real.tpot, simulated.tpot}, {"Latency", real.e2e, simulated.e2e}} {
		if len(m.real) == 0 { // no answer of two tokens
			continue
		}
		list = append(list, newFigure(m.name+" Mean", "ms", 1e3*stat.Mean(m.real, nil), 1e3*stat.Mean(m.sim, nil)))
		for _, q := range []struct {
			name string
			at   float64
		}{{"Median", 0.5}, {"P90", 0.9}, {"P99", 0.99}} {
			list = append(list, newFigure(m.name+" "+q.name, "ms", 1e3*percentile(m.real, q.at), 1e3*percentile(m.sim, q.at)))
		}
	}
	for i := range list {
		for _, p := range rec.peer {
			if p.Metric == list[i].Metric {
				list[i].Peer = &p.Error
			}
		}
	}
	out := 0
	for _, m := range rec.requests {
		out += m.Output
	}
	return append(list,
		newFigure("makespan", "s", rec.makespan(), h.makespan),
		newFigure("output throughput", "tokens/s", float64(out)/rec.makespan(), float64(out)/h.makespan))
}

// makespan is from the first arrival to the last token.
func (r *recording) makespan() float64 {
	last := 0.0
	for _, m := range r.requests {
		last = max(last, m.Last)
	}
	return last - r.clock()
}

// percentile interpolates linearly at (n-1)q.
func percentile(values []float64, q float64) float64 {
	v := slices.Clone(values)
	slices.Sort(v)
	at := q * float64(len(v)-1)
	i := int(at)
	if i+1 == len(v) {
		return v[i]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}

// seriesOf reads a simulated run at the times of the recorded series, and once a
// second behind it: what runs and waits, tokens a second since the time before.
func (h *history) seriesOf(recorded []second, blocks, ranks int) []second {
	var times []float64
	for _, s := range recorded {
		times = append(times, s.T)
	}
	last := 0.0
	if len(times) > 0 {
		last = times[len(times)-1]
	}
	for last < h.makespan {
		last++
		times = append(times, last)
	}
	list := make([]second, len(times))
	usable := float64((blocks - 1) * ranks)
	for _, steps := range h.steps {
		part := usable / float64(len(h.steps))
		i, before := 0, 0.0
		for k, t := range times {
			s := &list[k]
			s.T = t
			for ; i < len(steps) && steps[i].end <= t; i++ {
				s.PromptRate += float64(steps[i].prompts) / (t - before)
				s.OutputRate += float64(steps[i].tokens) / (t - before)
			}
			if i < len(steps) && steps[i].start <= t {
				s.Running += float64(steps[i].running)
				s.Waiting += float64(steps[i].waiting)
				s.KV += 100 * (part - float64(steps[i].free)) / usable
			}
			before = t
		}
	}
	return list
}

// seriesErrors are the mean absolute differences over the seconds that either
// has, in units of the series; who has ended is idle. They are null where
// nothing was recorded.
type seriesErrors struct {
	Seconds int    `json:"seconds"`
	Running number `json:"running"`
	Waiting number `json:"waiting"`
	KV      number `json:"kv_pct"`
}

// number is null in JSON if it is not one.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

func (r *recording) seriesErrors(simulated []second) seriesErrors {
	none := number(math.NaN())
	if len(r.series) == 0 {
		return seriesErrors{0, none, none, none}
	}
	n := max(len(r.series), len(simulated))
	running, waiting, kv, recorded := 0.0, 0.0, 0.0, false
	for i := range n {
		var real, other second
		if i < len(r.series) {
			real = r.series[i]
		}
		if i < len(simulated) {
			other = simulated[i]
		}
		running += math.Abs(real.Running - other.Running)
		waiting += math.Abs(real.Waiting - other.Waiting)
		kv += math.Abs(real.KV - other.KV)
		recorded = recorded || real.KV > 0
	}
	e := seriesErrors{n, number(running / float64(n)), number(waiting / float64(n)), none}
	if recorded {
		e.KV = number(kv / float64(n))
	}
	return e
}
