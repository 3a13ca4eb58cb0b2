package workload

import (
	"fmt"
	"math"
	"slices"
	"time"

	"servesim/sim"
)

// Audit is a sim.Observer that compares the load that was asked for with the
// load that came, in three phases: warm-up, measurement, and the drain until
// the last measured request has ended. A request belongs to the phase of its
// intended arrival, however late it comes. Fill the fields, list the Audit in
// Config.Observers of one run, and ask for its Report.
type Audit struct {
	// Rate is what was asked for, requests per second. 0 means that nothing
	// was: there is only the schedule.
	Rate float64
	// Schedule has the intended arrivals, by the ID of the requests, which is
	// unique. nil means that requests arrive when they are meant to.
	Schedule []sim.Request
	// WarmUp is the length of the first phase, Measure that of the second. 0
	// measures up to the last intended arrival.
	WarmUp, Measure time.Duration
	// Tolerance is the part by which rates may differ without a finding; for
	// what was asked for and the schedule it is three standard errors of a
	// Poisson count if that is more. 0 means 0.02.
	Tolerance float64

	seen    []audited     // first those of the schedule
	byID    map[int]int   // index in seen of the schedule
	serials map[int64]int // index in seen of what is in flight
	end     sim.Time
}

// audited is a request. Instants that have not come are sim.NoTime.
type audited struct {
	intended, arrived, first, ended sim.Time
	completed                       bool
}

// begin enters the schedule.
func (a *Audit) begin() {
	if a.byID != nil {
		return
	}
	a.byID, a.serials = map[int]int{}, map[int64]int{}
	for i, q := range a.Schedule {
		a.byID[q.ID] = i
		a.seen = append(a.seen, audited{intended: q.Arrival, arrived: sim.NoTime, first: sim.NoTime, ended: sim.NoTime})
	}
}

// Observe implements sim.Observer.
func (a *Audit) Observe(e sim.Event) {
	a.begin()
	switch e.Kind {
	case sim.Arrive:
		i, ok := a.byID[e.ID]
		if !ok { // not in the schedule: it comes when it is meant to
			i = len(a.seen)
			a.seen = append(a.seen, audited{intended: e.Time, first: sim.NoTime, ended: sim.NoTime})
		}
		a.seen[i].arrived = e.Time
		a.serials[e.Serial] = i
	case sim.Finish, sim.Reject, sim.Abort:
		if i, ok := a.serials[e.Serial]; ok {
			q := &a.seen[i]
			q.first, q.ended, q.completed = e.Timeline.FirstToken, e.Time, e.Kind == sim.Finish
			delete(a.serials, e.Serial)
		}
	case sim.End:
		a.end = e.Time
	}
}

// LoadReport is the outcome of an [Audit]. Rates are requests per second over
// the measurement; figures that cannot be measured are NaN, null in JSON.
type LoadReport struct {
	RequestedRate Figure `json:"requested_rate_per_s"` // Audit.Rate
	IntendedRate  Figure `json:"intended_rate_per_s"`  // intended arrivals
	DeliveredRate Figure `json:"delivered_rate_per_s"` // arrivals, also of requests that were due earlier
	CompletedRate Figure `json:"completed_rate_per_s"` // completions

	WarmUp      LoadPhase `json:"warm_up"`
	Measurement LoadPhase `json:"measurement"`
	Drain       LoadPhase `json:"drain"`

	// Late counts the measured requests that arrived later than intended, and
	// NotSent those that never arrived, NotCompleted those that did not
	// complete, for whatever reason.
	Late         int `json:"late"`
	NotSent      int `json:"not_sent"`
	NotCompleted int `json:"not_completed"`

	// Lag is the time from the intended to the actual arrival of measured requests.
	Lag Latency `json:"lag_ms"`
	// First token and end of the measured requests that completed, once from
	// the intended and once from the actual arrival. Their difference is what
	// coordinated omission leaves out.
	TTFTIntended Latency `json:"ttft_from_intended_ms"`
	TTFTActual   Latency `json:"ttft_from_actual_ms"`
	E2EIntended  Latency `json:"e2e_from_intended_ms"`
	E2EActual    Latency `json:"e2e_from_actual_ms"`

	// Findings say in words where the load is not what was asked for.
	Findings []string `json:"findings,omitempty"`
}

// LoadPhase counts what falls into a phase, From ≤ t < To.
type LoadPhase struct {
	From      Figure `json:"from_s"`
	To        Figure `json:"to_s"`
	Intended  int    `json:"intended"`  // intended arrivals
	Arrived   int    `json:"arrived"`   // actual arrivals
	Completed int    `json:"completed"` // ends of completed requests
}

// Latency summarises N times in milliseconds. Percentiles interpolate
// linearly at position (N-1)·q of the sorted values.
type Latency struct {
	N    int    `json:"n"`
	Mean Figure `json:"mean"`
	P50  Figure `json:"p50"`
	P99  Figure `json:"p99"`
	Max  Figure `json:"max"`
}

// Report describes what was observed. An invalid field of the Audit is an
// error.
func (a *Audit) Report() (LoadReport, error) {
	a.begin()
	if err := a.validate(); err != nil {
		return LoadReport{}, fmt.Errorf("workload: %w", err)
	}
	from, to := a.measured()
	r := LoadReport{RequestedRate: orNaN(a.Rate, a.Rate > 0)}
	var lag, ttftIntended, ttftActual, e2eIntended, e2eActual []time.Duration
	drained := to
	for _, q := range a.seen {
		if q.intended < from || q.intended >= to {
			continue
		}
		if !q.completed {
			r.NotCompleted++
		}
		if q.arrived == sim.NoTime {
			r.NotSent++
			continue
		}
		lag = append(lag, q.arrived.Sub(q.intended))
		if q.arrived > q.intended {
			r.Late++
		}
		if q.ended == sim.NoTime {
			drained = max(drained, a.end)
			continue
		}
		drained = max(drained, q.ended)
		if q.completed {
			ttftIntended, ttftActual = append(ttftIntended, q.first.Sub(q.intended)), append(ttftActual, q.first.Sub(q.arrived))
			e2eIntended, e2eActual = append(e2eIntended, q.ended.Sub(q.intended)), append(e2eActual, q.ended.Sub(q.arrived))
		}
	}
	r.WarmUp, r.Measurement, r.Drain = a.phase(0, from), a.phase(from, to), a.phase(to, drained)
	length := to.Sub(from).Seconds()
	rate := func(n int) Figure { return orNaN(float64(n)/length, length > 0) }
	r.IntendedRate, r.DeliveredRate, r.CompletedRate = rate(r.Measurement.Intended), rate(r.Measurement.Arrived), rate(r.Measurement.Completed)
	r.Lag = latency(lag)
	r.TTFTIntended, r.TTFTActual = latency(ttftIntended), latency(ttftActual)
	r.E2EIntended, r.E2EActual = latency(e2eIntended), latency(e2eActual)
	r.Findings = a.findings(&r)
	return r, nil
}

func (a *Audit) validate() error {
	switch {
	case !(a.Rate >= 0) || math.IsInf(a.Rate, 0):
		return fmt.Errorf("Audit.Rate is %v, want a finite value, at least 0", a.Rate)
	case len(a.byID) < len(a.Schedule):
		return fmt.Errorf("Audit.Schedule has %d requests with %d different IDs", len(a.Schedule), len(a.byID))
	case a.WarmUp < 0:
		return fmt.Errorf("Audit.WarmUp is %v, want at least 0", a.WarmUp)
	case a.Measure < 0 || a.Measure > math.MaxInt64-a.WarmUp:
		return fmt.Errorf("Audit.Measure is %v, want at least 0", a.Measure)
	case !(a.Tolerance >= 0):
		return fmt.Errorf("Audit.Tolerance is %v, want at least 0", a.Tolerance)
	}
	return nil
}

// measured is the measurement, from ≤ t < to.
func (a *Audit) measured() (from, to sim.Time) {
	from = sim.Time(a.WarmUp)
	if a.Measure > 0 {
		return from, from.Add(a.Measure)
	}
	to = from
	for _, q := range a.seen {
		to = max(to, q.intended+1) // the last one belongs to it
	}
	return from, to
}

func (a *Audit) phase(from, to sim.Time) LoadPhase {
	p := LoadPhase{From: Figure(from.Seconds()), To: Figure(to.Seconds())}
	in := func(t sim.Time) bool { return t >= from && t < to }
	for _, q := range a.seen {
		if in(q.intended) {
			p.Intended++
		}
		if in(q.arrived) {
			p.Arrived++
		}
		if q.completed && in(q.ended) {
			p.Completed++
		}
	}
	return p
}

func latency(times []time.Duration) Latency {
	var m moments
	for _, t := range times {
		m.add(float64(t) / 1e6)
	}
	slices.Sort(times)
	at := func(q float64) Figure { return quantile(times, q) / 1e6 }
	return Latency{N: len(times), Mean: orNaN(m.mean, m.n > 0), P50: at(.5), P99: at(.99), Max: at(1)}
}

// findings compares the rates and the two ways of counting latency.
func (a *Audit) findings(r *LoadReport) (out []string) {
	n := r.Measurement.Intended
	if n == 0 {
		return []string{"nothing was to arrive in the measurement"}
	}
	tolerance := a.Tolerance
	if tolerance == 0 {
		tolerance = 0.02
	}
	differ := func(what string, got, want Figure, tolerance float64) {
		if d := float64(got/want) - 1; math.Abs(d) > tolerance {
			out = append(out, fmt.Sprintf("%s %.4g requests per second, %+.1f %% against %.4g", what, float64(got), 100*d, float64(want)))
		}
	}
	if a.Rate > 0 {
		differ("the schedule asks for", r.IntendedRate, r.RequestedRate, max(tolerance, 3/math.Sqrt(float64(n))))
	}
	differ("the measurement received", r.DeliveredRate, r.IntendedRate, tolerance)
	if r.Late > 0 {
		out = append(out, fmt.Sprintf("%d of %d requests arrived late, by %.4g ms in the mean of all: latencies counted from there leave that out",
			r.Late, n, float64(r.Lag.Mean)))
	}
	if r.NotSent > 0 {
		out = append(out, fmt.Sprintf("%d of %d requests never arrived", r.NotSent, n))
	}
	if unended := r.NotCompleted - r.NotSent; unended > 0 {
		out = append(out, fmt.Sprintf("%d of %d requests arrived and did not complete", unended, n))
	}
	return out
}
